"""Kernels. A kernel is a frozen pytree whose numbers are leaves, so that `vmap` can map over
lengthscales, and a new lengthscale does not cause a compilation.

A kernel has two methods: `gram(x [n,d], y [m,d]) -> [n,m]` and `diag(x [n,d]) -> [n]`. Lengthscales
are one number or one for each input (ARD, [d]), in the units of the inputs. Three methods are
optional. On the host, `check(x)` raises ValueError for invalid parameters, and `check_inputs(x)`
for inputs x [n,d] for which the kernel is not defined. `rounding(points [m,d], n)` is the error, in
units of eps k(x,x), of kernel values between the points and n others, 1 by default.

Kernels are added and multiplied: `Gaussian(0.5) + 0.1 * Linear()`. `Select(Gaussian(0.5), [0, 2])`
is a kernel of some of the inputs. `Pointwise` makes a kernel of a function of two points, and of a
kernel of tinygp or GPJax. Any other kernel of your own is a class with the decorator of a pytree.
Objects of classes without it are refused: `jit` could take them only as constants, and would not
notice when their attributes change.

    @jsketch.struct.dataclass
    class Laplace(kernels.Operators):  # the base class adds + and *
        lengthscale: float = 1.0

        def gram(self, x, y):
            distance = jnp.abs(x[:, None] - y[None]).sum(-1)
            return jnp.exp(-distance / self.lengthscale)

        def diag(self, x):
            return jnp.ones(len(x), x.dtype)

    stationary   Gaussian, Matern, rational quadratic, periodic; distances and lengthscales
    products     constant, linear and polynomial kernels
    combined     `Scaled`, `Sum` and `Product` of kernels, their operators * and +, and `Select`
    pointwise    `Pointwise`, a function of two points, or a kernel of tinygp or GPJax
    table        `Precomputed`, a table of kernel values, and `GraphMatern`, of the nodes of a graph
"""

from jsketch.kernels.combined import Operators, Product, Scaled, Select, Sum
from jsketch.kernels.pointwise import Pointwise
from jsketch.kernels.products import Constant, Linear, Polynomial
from jsketch.kernels.stationary import (
    Gaussian,
    Matern,
    Periodic,
    RationalQuadratic,
    squared_distances,
)
from jsketch.kernels.table import GraphMatern, Precomputed, index_features

__all__ = [
    "Constant",
    "Gaussian",
    "GraphMatern",
    "Linear",
    "Matern",
    "Operators",
    "Periodic",
    "Pointwise",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Select",
    "Sum",
    "index_features",
    "squared_distances",
]

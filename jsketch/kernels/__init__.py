"""Kernels. A kernel is a frozen pytree whose numbers are leaves, so that `vmap` can map over
lengthscales, and a new lengthscale does not cause a compilation.

A kernel has two methods: `gram(x [n,d], y [m,d]) -> [n,m]` and `diag(x [n,d]) -> [n]`. Lengthscales
are one number or one for each input (ARD, [d]), in the units of the inputs. Three methods are
optional. On the host, `check(x)` raises ValueError for invalid parameters, and `check_inputs(x)`
for inputs x [n,d] for which the kernel is not defined. `rounding(points [m,d], n)` is the error, in
units of eps k(x,x), of kernel values between the points and n others, 1 by default.

Kernels are added and multiplied: `Gaussian(0.5) + 0.1 * Linear()`. A kernel of your own is a class
with the decorator of a pytree. Classes without it are refused, because `jit` does not accept them:

    @jsketch.struct.dataclass
    class Laplace(kernels.Operators):  # the base class adds + and *
        lengthscale: float = 1.0

        def gram(self, x, y):
            distance = jnp.abs(x[:, None] - y[None]).sum(-1)
            return jnp.exp(-distance / self.lengthscale)

        def diag(self, x):
            return jnp.ones(len(x), x.dtype)

A kernel of tinygp or GPJax is a field of such a class; their values are `self.kernel(x, y)` and
`self.kernel(x)` in tinygp, and `self.kernel.cross_covariance(x, y)` and
`jax.vmap(self.kernel)(x, x)` in GPJax.

    stationary   Gaussian, Matern, rational quadratic; distances and lengthscales
    products     linear and polynomial kernels
    combined     `Scaled`, `Sum` and `Product` of kernels, and the operators * and +
    table        `Precomputed`, a table of kernel values
"""

from jsketch.kernels.combined import Operators, Product, Scaled, Sum
from jsketch.kernels.products import Linear, Polynomial
from jsketch.kernels.stationary import Gaussian, Matern, RationalQuadratic, squared_distances
from jsketch.kernels.table import Precomputed, index_features

__all__ = [
    "Gaussian",
    "Linear",
    "Matern",
    "Operators",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "index_features",
    "squared_distances",
]

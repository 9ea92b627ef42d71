"""Kernels, each a frozen pytree whose numbers are leaves: `vmap` sweeps a lengthscale, and another
value compiles nothing.

A kernel has two methods: `gram(x [n,d], y [m,d]) -> [n,m]` and `diag(x [n,d]) -> [n]`. `Scaled`,
`Sum` and `Product` combine kernels. Lengthscales are one number or one for each input (ARD, [d]),
in the units of the inputs. Three methods are optional. `check(x)` raises ValueError for parameters
that define no kernel of inputs x [n,d], and `check_inputs(x)` for inputs for which it is not
defined; both are called on the host. `rounding(points [m,d], n)` is the error, in eps k(x,x), of
kernel values between n points and these, 1 by default.

    stationary   Gaussian, Matern, rational quadratic; distances and lengthscales
    products     linear and polynomial
    combined     scaled, sums and products of kernels
    table        Precomputed: a table of kernel values
"""

from jsketch.kernels.combined import Product, Scaled, Sum
from jsketch.kernels.products import Linear, Polynomial
from jsketch.kernels.stationary import Gaussian, Matern, RationalQuadratic, squared_distances
from jsketch.kernels.table import Precomputed, index_features

__all__ = [
    "Gaussian",
    "Linear",
    "Matern",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "index_features",
    "squared_distances",
]

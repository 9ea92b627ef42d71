"""Kernels, each a frozen pytree whose numbers are leaves: `vmap` sweeps a lengthscale and another
value compiles nothing.

Two methods make a kernel: `gram(x [n,d], y [m,d]) -> [n,m]` and `diag(x [n,d]) -> [n]`; they
combine by `Scaled`, `Sum` and `Product`. Lengthscales are one number or one per input (ARD, [d]),
in the units of the inputs. Two more are optional, and called on the host, where values are
concrete: `check(x)` raises ValueError for numbers that make no kernel of inputs x [n,d], and
`check_inputs(x)` for inputs that it is not defined for. A third one, `rounding(points [m,d], n)`,
says by how many eps k(x,x) values of n points and these may be off; without it that is 1.

    distances    squared distances, and the checks of a lengthscale
    stationary   Gaussian, Matern, rational quadratic
    products     linear and polynomial
    combined     scaled, sums and products of kernels
    discrete     Tanimoto and MinMax: bits, counts, molecules
    mixed        Mixed: a table of numbers, categories and fingerprints
    table        Precomputed: a table of kernel values
"""

from jsketch.kernels.combined import Product, Scaled, Sum
from jsketch.kernels.discrete import MinMax, Tanimoto
from jsketch.kernels.distances import squared_distances
from jsketch.kernels.mixed import Columns, Mixed
from jsketch.kernels.products import Linear, Polynomial
from jsketch.kernels.stationary import Gaussian, Matern, RationalQuadratic
from jsketch.kernels.table import Precomputed, index_features

__all__ = [
    "Columns",
    "Gaussian",
    "Linear",
    "Matern",
    "MinMax",
    "Mixed",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "Tanimoto",
    "index_features",
    "squared_distances",
]

"""Kernels of arms that are not vectors: a table of kernel values, and the nodes of a graph."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.kernels.combined import Operators
from jsketch.numerics import matmul
from jsketch.struct import in_dtype

ROWS = 1024  # rows of a table that are checked at a time
# rounding of a Laplacian explains negative eigenvalues up to this share of the largest one
INDEFINITENESS = 1e-6


@struct.dataclass
class OfRows(Operators):
    """Base of the kernels whose inputs are row numbers of a table. Kernel values of other numbers
    are NaN."""

    @property
    def _n_rows(self) -> int:
        """The number of rows of the table."""
        raise NotImplementedError

    def check_inputs(self, x: Any) -> None:
        """Raises ValueError for inputs [n,1] that are not row numbers."""
        if jnp.shape(x)[1] != 1:
            raise ValueError(
                f"a {type(self).__name__} kernel takes features [A, 1], such as"
                f" index_features(table); their shape is {jnp.shape(x)}."
            )
        invalid = np.flatnonzero(~_is_row(np.asarray(x)[:, 0], self._n_rows))
        if invalid.size:
            raise ValueError(
                f"the feature of arm {invalid[0]} is {np.asarray(x)[invalid[0], 0]}, but the rows"
                f" of the table are 0 to {self._n_rows - 1}."
            )


@struct.dataclass
class Precomputed(OfRows):
    """A table of kernel values for arms that are not vectors. The features of the arms are
    `index_features(table)`. Kernel values of a feature that is not a row number of the table are
    NaN; on the host `check_inputs` raises ValueError for such a feature.

    table  [A, A], symmetric positive semi-definite
    """

    table: Array

    @property
    def _n_rows(self) -> int:
        return len(self.table)

    def gram(self, x: Array, y: Array) -> Array:
        return self._values(x[:, :1], y[None, :, 0])

    def diag(self, x: Array) -> Array:
        return self._values(x[:, 0], x[:, 0])

    def _values(self, x: Array, y: Array) -> Array:
        table = jnp.asarray(in_dtype(self.table, x.dtype))
        values = table[x.astype(jnp.int32), y.astype(jnp.int32)]
        return jnp.where(_is_row(x, len(table)) & _is_row(y, len(table)), values, jnp.nan)

    def check(self, x: Any) -> None:
        check_table(self.table)


@struct.dataclass
class GraphMatern(OfRows):
    """The Matern kernel of the nodes of a graph, and its limit, the diffusion kernel. The features
    of the arms are `index_features(laplacian)`. Make it by `GraphMatern.from_laplacian`.

    With the eigenvalues e and eigenvectors U of the Laplacian, it is U diag(f(e)) U^T, where f(e)
    is proportional to (2 nu / lengthscale^2 + e)^-nu and, for infinite nu, to
    exp(-lengthscale^2 e / 2). The mean of k(x,x) over the nodes is 1.

    eigenvalues   [A], of the Laplacian
    eigenvectors  [A, A], its orthonormal eigenvectors, as columns
    lengthscale   one number, the square root of the units of 1 / L: about the number of edges over
                  which values are similar
    nu            a number > 0, the smoothness; infinity for the diffusion kernel

    Sources: Borovitskiy, Azangulov, Terenin, Mostowsky, Deisenroth, Durrande. Matern Gaussian
    processes on graphs. AISTATS 2021. Kondor, Lafferty. Diffusion kernels on graphs and other
    discrete structures. ICML 2002.

    Example:

        kernel = GraphMatern.from_laplacian(laplacian, lengthscale=2.0)
        problem = finite_arms(index_features(laplacian), mean_reward, noise_std=0.1)
        bandit = BBKB(kernel)
    """

    eigenvalues: Array
    eigenvectors: Array
    lengthscale: ArrayLike = struct.number(1.0, above=0)
    nu: ArrayLike = struct.number(2.5, above=0, at_most=math.inf)

    @classmethod
    def from_laplacian(
        cls, laplacian: Any, lengthscale: ArrayLike = 1.0, nu: ArrayLike = 2.5
    ) -> GraphMatern:
        """The kernel of a graph. `replace(lengthscale=...)` keeps the eigenvectors, which are
        computed here in O(A^3) on the host.

        laplacian        [A, A], D - W for symmetric weights W >= 0 of the edges and the diagonal
                         matrix D of their sums, or normalized; an array or a sparse matrix of SciPy
        lengthscale, nu  as of the class

        Raises ValueError unless the Laplacian is symmetric and positive semi-definite.
        """
        dense = laplacian.toarray() if hasattr(laplacian, "toarray") else laplacian
        values = checks.real("a Laplacian", dense)
        values = np.asarray(values, np.float64)
        check_table(values, "a Laplacian")
        eigenvalues, eigenvectors = np.linalg.eigh(values)
        if eigenvalues[0] < -INDEFINITENESS * max(eigenvalues[-1], 0):
            raise ValueError(
                f"a Laplacian has no negative eigenvalues; the least of this matrix is"
                f" {eigenvalues[0]:.3g}. The Laplacian of weights W is np.diag(W.sum(1)) - W."
            )
        eigenvalues = np.maximum(eigenvalues, 0)
        return cls(jnp.asarray(eigenvalues), jnp.asarray(eigenvectors), lengthscale, nu)

    @property
    def _n_rows(self) -> int:
        return len(self.eigenvectors)

    def gram(self, x: Array, y: Array) -> Array:
        return matmul(self._rows(x) * self._spectrum(x), self._rows(y).T)

    def diag(self, x: Array) -> Array:
        return (self._spectrum(x) * jnp.square(self._rows(x))).sum(1)

    def _rows(self, x: Array) -> Array:
        """The rows of the eigenvectors, [n,A]; NaN for a number that is not a row number."""
        eigenvectors = jnp.asarray(in_dtype(self.eigenvectors, x.dtype))
        rows = eigenvectors[x[:, 0].astype(jnp.int32)]
        return jnp.where(_is_row(x[:, :1], self._n_rows), rows, jnp.nan)

    def _spectrum(self, x: Array) -> Array:
        """f of the eigenvalues in the dtype of x, [1,A]."""
        eigenvalues, lengthscale, nu = in_dtype(
            (self.eigenvalues, self.lengthscale, self.nu), x.dtype
        )
        heat = jnp.square(lengthscale) * eigenvalues / 2
        # in place of an infinite nu, for a finite derivative
        power = jnp.where(jnp.isfinite(nu), nu, 1)
        heat = jnp.where(jnp.isfinite(nu), power * jnp.log1p(heat / power), heat)
        values = jnp.exp(-heat)
        return (values / values.mean())[None]

    def check(self, x: Any) -> None:
        checks.settings(self)


def _is_row(x: Any, n_rows: int) -> Any:
    return (x >= 0) & (x < n_rows) & (x % 1 == 0)


def check_table(table: Any, name: str = "a table of kernel values") -> None:
    """Raises ValueError unless the table is square, finite and symmetric up to rounding; O(A^2).
    `name` is its name in messages."""
    values = np.asarray(table)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ValueError(f"{name} is a square matrix [A, A]; its shape is {values.shape}.")
    if not np.issubdtype(values.dtype, np.floating):
        raise ValueError(f"{name} must be floating point numbers; its dtype is {values.dtype}.")
    tolerance = checks.ASYMMETRY * max(float(np.abs(values.diagonal()).max()), 0.0)
    for begin in range(0, len(values), ROWS):
        part, mirrored = values[begin : begin + ROWS], values[:, begin : begin + ROWS].T
        if not np.isfinite(part).all():
            raise ValueError(f"{name} must be finite; some of its values are not.")
        asymmetric = np.argwhere(np.abs(part - mirrored) > tolerance)
        if len(asymmetric):
            row, column = asymmetric[0] + [begin, 0]
            raise ValueError(
                f"{name} must be symmetric: entry [{row}, {column}] is"
                f" {values[row, column]}, entry [{column}, {row}] is {values[column, row]}."
            )


def index_features(table: Any) -> Array:
    """Features [A,1], the row numbers of the table [A,A] of a `Precomputed` kernel or the Laplacian
    [A,A] of a `GraphMatern` kernel."""
    dtype = table.dtype if np.issubdtype(table.dtype, np.floating) else float
    return jnp.arange(table.shape[0], dtype=jax.dtypes.canonicalize_dtype(dtype))[:, None]

"""PKAWV: online ridge regression in fixed features, with blocks of examples in matrix products.

Jezequel, Gaillard, Rudi. Efficient online learning with kernels for adversarial large scale
problems. NeurIPS 2019, Algorithm 1 (THEORY 7.2). The forecaster of Azoury, Warmuth and Vovk (AWV)
also penalizes the current prediction: it predicts g / (1 + h), where g is the prediction of ridge
regression on the examples so far and h the leverage z(x)^T A^-1 z(x).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, numerics, struct
from jsketch.numerics import matmul
from jsketch.online import rounding
from jsketch.online.base import first_labels, info_after
from jsketch.precision import in_first_dtype
from jsketch.types import Forecaster, ForecastInfo, PRNGKey

PANEL = 32  # columns that are eliminated one by one before a matrix product updates the others


def awv_prediction(g: Array, leverage: Array, penalize_current: bool) -> Array:
    """The prediction g / (1 + leverage) of AWV, or g without `penalize_current`."""
    return g / (1 + jnp.maximum(leverage, 0)) if penalize_current else g


@struct.dataclass
class RidgeState:
    """Ridge regression on the examples so far, in r features."""

    inverse: Array  # [r, r], A^-1 with A = lam I + sum_t z_t z_t^T
    weights: Array  # [r], A^-1 sum_t y_t z_t


@struct.dataclass
class PKAWV(Forecaster):
    """Ridge regression in r fixed features. An example costs O(r^2).

    features          a map from [n, d] to [n, r]: `sketch.taylor.Taylor`, or any object with a
                      method `features(x)`
    regularization    lam. Predictions have a rounding error of up to 40 eps |z|^2 / lam, and more
                      where a direction first occurs after thousands of examples (`rounding`)
    penalize_current  True: AWV. False: projected kernel ridge regression

    Example:

        forecaster = PKAWV(sketch.Taylor(inputs=2, degree=4, lengthscale=1.0), regularization=0.1)
        forecasts, state = prequential(forecaster, (xs, ys), jax.random.key(0))
    """

    features: Any
    regularization: ArrayLike = struct.number(1.0, above=0)
    penalize_current: bool = struct.choice(True)

    def __post_init__(self) -> None:
        super().__post_init__()
        words = "a feature map, such as sketch.taylor.Taylor, with a method features(x)"
        checks.feature_map(self.features, "features", words)

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> RidgeState:
        checks.settings(self)
        x = checks.example(x)
        size = jax.eval_shape(self.features.features, x[None]).shape[1]
        checks.memory(size**2, x.dtype, features=size)
        inverse = jnp.eye(size, dtype=x.dtype) / self.regularization
        return RidgeState(inverse, jnp.zeros(size, x.dtype))

    def check_rounding(self, x: Array) -> bool:
        return rounding.warn_for_features(self.features, x, self.regularization)

    def predict(self, state: RidgeState, x: Array) -> Array:
        z = self.features.features(x[None])[0]
        leverage = matmul(z, matmul(state.inverse, z))
        return awv_prediction(matmul(z, state.weights), leverage, self.penalize_current)

    def advance(
        self,
        state: RidgeState,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[RidgeState, Array, Array, ForecastInfo]:
        y, done = first_labels(y, limit)
        z = self.features.features(x)
        inverse, weights, g, h = learn_block(state.inverse, state.weights, z, y, jnp.isfinite(y))
        info = info_after(len(weights), y, weights)
        return RidgeState(inverse, weights), awv_prediction(g, h, self.penalize_current), done, info


def learn_block(
    inverse: Array, weights: Array, z: Array, y: Array, learn: Array
) -> tuple[Array, Array, Array, Array]:
    """Learns the rows of z [B,r], y [B] where `learn` [B] is true, in order.

    Returns (A^-1 [r,r], weights [r], g [B], h [B]), where g is the prediction of ridge regression
    from the previous rows and h the leverage z^T A^-1 z. With S = I + Z A^-1 Z^T = L L^T, the
    pivots L_tt^2 are 1 + h_t, and L^-1 (y - Z w) are the innovations (y_t - g_t) / L_tt.
    """
    size = len(y)
    # [r, B], because products with the long side first are faster
    directions = matmul(inverse, z.T)
    outputs = matmul(z, weights)
    errors = jnp.where(learn, y, 0) - outputs
    gram = jnp.eye(size, dtype=z.dtype) + matmul(z, directions)
    columns = eliminate(jnp.concatenate([gram, errors[None], directions]), learn)
    lower, innovations, solved = columns[:size], columns[size], columns[size + 1 :]
    # row i of g is computed without label i, so that its rounding does not depend on label i either
    g = outputs + matmul(jnp.tril(lower, -1), innovations)
    inverse = inverse - matmul(solved, solved.T)
    weights = weights + matmul(solved, innovations)
    return inverse, weights, g, jnp.square(jnp.diagonal(lower)) - 1


def eliminate(columns: Array, active: Array) -> Array:
    """[L; R L^-T] from the columns [S; R], where S [B,B] = L L^T is symmetric, and R is [C,B]. A
    column that is not `active` [B] is not eliminated from the others; in the result this column has
    the root of its pivot on the diagonal, and zeros elsewhere.

    S may have a condition number of 1 / eps. Therefore multipliers and rows come from the same
    triangle of S, and one step of refinement makes a product with L^-1 as accurate as substitution
    (THEORY 9.5).
    """
    if numerics.on_accelerator():
        return _eliminate_by_cholesky(columns, active)
    parts, size = [], len(active)
    for start in range(0, size, PANEL):
        remaining, panel_active = size - start, active[start : start + PANEL]
        count = len(panel_active)
        lower, inverse = _panel(columns[:count, :count], panel_active)
        lower_rows = columns[count:, :count]
        solved = matmul(lower_rows, inverse.T)
        solved = solved + matmul(lower_rows - matmul(solved, lower.T), inverse.T)
        solved = jnp.where(panel_active[None, :], solved, 0)
        parts.append(jnp.pad(jnp.concatenate([lower, solved]), ((start, 0), (0, 0))))
        columns = columns[count:, count:] - matmul(solved, solved[: remaining - count].T)
    return jnp.concatenate(parts, axis=1)


def _panel(gram: Array, active: Array) -> tuple[Array, Array]:
    """(L, L^-1) [p,p], with L as in `eliminate`, from the upper triangle of a symmetric matrix."""
    size = len(active)
    rows = jnp.arange(size, dtype=jnp.int32)[:, None]
    zero = jnp.zeros((), jnp.int32)

    def column(j: Array, panel: Array) -> Array:
        row = lax.dynamic_slice_in_dim(panel, j, 1, 0)
        # a transpose in place of the reshape would triple the time of the loop; outside of a
        # compiled program j has another integer type
        entries = lax.dynamic_slice(panel, (j, jnp.zeros_like(j)), (1, size)).reshape(size, 1)
        multipliers = entries / lax.dynamic_slice_in_dim(row, j, 1, 1)
        return panel - jnp.where((rows > j) & active[j], multipliers, 0) * row

    panel = jnp.concatenate([gram, jnp.eye(size, dtype=gram.dtype)], axis=1)
    panel = lax.fori_loop(zero, jnp.asarray(size, jnp.int32), column, panel)
    panel = panel / jnp.sqrt(jnp.diagonal(panel))[:, None]
    upper, inverse = panel[:, :size], panel[:, size:]
    triangle = jnp.where(active[None, :], jnp.triu(upper, 1).T, 0)
    return triangle + jnp.diag(jnp.diagonal(upper)), inverse


def _eliminate_by_cholesky(columns: Array, active: Array) -> Array:
    """`eliminate` on an accelerator, where a loop would launch a program for each column."""
    size = len(active)
    gram = columns[:size]
    identity = jnp.eye(size, dtype=gram.dtype)
    factor = lax.linalg.cholesky(jnp.where(active[:, None] & active[None, :], gram, identity))
    columns = lax.linalg.triangular_solve(
        factor, jnp.where(active[None, :], columns, 0), lower=True, transpose_a=True
    )
    triangle = jnp.tril(columns[:size], -1)
    root = jnp.sqrt(jnp.diagonal(gram) - jnp.square(triangle).sum(1))
    return jnp.concatenate([triangle + root[:, None] * identity, columns[size:]])

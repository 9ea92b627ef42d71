"""Online ridge regression in fixed features: PKAWV with features given beforehand, and projected
kernel ridge regression.

Jezequel, Gaillard, Rudi. Efficient online learning with kernels for adversarial large scale
problems. NeurIPS 2019, Algorithm 1 (THEORY 7.2). With g and h the prediction and the leverage
z(x)^T A^-1 z(x) of ridge regression on the examples before, Azoury, Warmuth and Vovk's forecaster
predicts g / (1 + h): it penalizes the current prediction as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, devices, struct
from jsketch.linalg import matmul
from jsketch.online import rounding
from jsketch.precision import one_dtype
from jsketch.types import ForecastInfo, PRNGKey

CHUNK = 2048  # examples that `learn` adds together
PANEL = 32  # columns of a block that are eliminated one by one; the rest is products
PAST_CHUNK = 1024  # observed examples that are read again together


def damped(ridge: Array, leverage: Array, penalize_current: bool) -> Array:
    """The prediction of Azoury, Warmuth and Vovk's forecaster, or ridge regression's own."""
    return ridge / (1 + jnp.maximum(leverage, 0)) if penalize_current else ridge


def learn_block(
    inverse: Array, weights: Array, z: Array, y: Array, learn: Array
) -> tuple[Array, Array, Array, Array]:
    """(A^-1 [r,r], weights [r], g [B], h [B]) after the rows of z [B,r], y [B] that are to be
    learned, in order; g and h of every row are as they were before it. All in matrix products
    (THEORY 7.3).

    With S = I + Z A^-1 Z^T = L L^T, the pivots L_tt^2 are 1 + h_t, and L^-1 (y - Z w) the
    innovations (y_t - g_t) / L_tt.
    """
    size = len(y)
    # [r, B]; products with the long side first are the faster ones
    directions = matmul(inverse, z.T)
    start = matmul(z, weights)
    surprise = jnp.where(learn, y, 0) - start
    gram = jnp.eye(size, dtype=z.dtype) + matmul(z, directions)
    columns = _eliminated(jnp.concatenate([gram, surprise[None], directions]), learn)
    lower = columns[:size]
    # the innovations, and [r, B] the direction of each step
    innovations, solved = columns[size], columns[size + 1 :]
    # the label itself is not in it, not even as rounding
    ridge = start + matmul(jnp.tril(lower, -1), innovations)
    inverse = inverse - matmul(solved, solved.T)
    weights = weights + matmul(solved, innovations)
    return inverse, weights, ridge, jnp.square(jnp.diagonal(lower)) - 1


def _eliminated(columns: Array, active: Array) -> Array:
    """[L; R L^-T] of columns [S; R], S [B,B] = L L^T symmetric and R [C,B]. Only columns that are
    `active` [B] eliminate: of the others L keeps the root of the pivot, and the rest is zero.

    S may have a condition number of 1 / eps: multipliers and rows are of the same triangle of it,
    and one step of refinement makes a product with L^-1 as good as substitution. Without the one
    predictions are off by up to 5,000 times more, without the other by 500 (THEORY 9.5).
    """
    if devices.on_accelerator():
        return _eliminated_at_once(columns, active)
    parts, size = [], len(active)
    for start in range(0, size, PANEL):
        left, takes = size - start, active[start : start + PANEL]
        count = len(takes)
        lower, inverse = _panel(columns[:count, :count], takes)
        here = columns[count:, :count]
        solved = matmul(here, inverse.T)
        solved = solved + matmul(here - matmul(solved, lower.T), inverse.T)
        solved = jnp.where(takes[None, :], solved, 0)
        parts.append(jnp.pad(jnp.concatenate([lower, solved]), ((start, 0), (0, 0))))
        columns = columns[count:, count:] - matmul(solved, solved[: left - count].T)
    return jnp.concatenate(parts, axis=1)


def _panel(gram: Array, active: Array) -> tuple[Array, Array]:
    """(L, L^-1) [p,p] of a symmetric gram [p,p]; its upper triangle is the one that counts."""
    size = len(active)
    rows = jnp.arange(size, dtype=jnp.int32)[:, None]
    zero = jnp.zeros((), jnp.int32)

    def column(j: Array, both: Array) -> Array:
        row = lax.dynamic_slice_in_dim(both, j, 1, 0)
        # a transpose would cost three times the loop
        across = lax.dynamic_slice(both, (j, zero), (1, size)).reshape(size, 1)
        below = across / lax.dynamic_slice_in_dim(row, j, 1, 1)
        return both - jnp.where((rows > j) & active[j], below, 0) * row

    both = jnp.concatenate([gram, jnp.eye(size, dtype=gram.dtype)], axis=1)
    both = lax.fori_loop(zero, jnp.asarray(size, jnp.int32), column, both)
    both = both / jnp.sqrt(jnp.diagonal(both))[:, None]
    upper, inverse = both[:, :size], both[:, size:]
    strict = jnp.where(active[None, :], jnp.triu(upper, 1).T, 0)
    return strict + jnp.diag(jnp.diagonal(upper)), inverse


def _eliminated_at_once(columns: Array, active: Array) -> Array:
    """`_eliminated` by one Cholesky factorization and substitution, for an accelerator, where each
    column would be a launch."""
    size = len(active)
    gram = columns[:size]
    identity = jnp.eye(size, dtype=gram.dtype)
    among = lax.linalg.cholesky(jnp.where(active[:, None] & active[None, :], gram, identity))
    columns = lax.linalg.triangular_solve(
        among, jnp.where(active[None, :], columns, 0), lower=True, transpose_a=True
    )
    strict = jnp.tril(columns[:size], -1)
    root = jnp.sqrt(jnp.diagonal(gram) - jnp.square(strict).sum(1))
    return jnp.concatenate([strict + root[:, None] * identity, columns[size:]])


class Past(NamedTuple):
    """Observed examples."""

    inputs: Array  # [N, d]
    labels: Array  # [N], NaN where there is none
    received: Array  # [] int32, those in use


class Sums(NamedTuple):
    """Over the labelled examples, c_i their coordinates along a direction."""

    mixed: Array  # [M], sum_i c_i k_I(x_i)
    square: Array  # [], sum_i c_i^2
    moment: Array  # [], sum_i c_i y_i


def read_again(nothing: Sums, given: tuple[Any, Past, Array, Array]) -> Sums:
    """The sums of the coordinate k_I(x_i)^T dual, for (kernel, past, points [M,d], dual [M])."""
    kernel, past, points, dual = given
    size = min(PAST_CHUNK, past.inputs.shape[0])

    def read(i: Array, sums: Sums) -> Sums:
        inputs = lax.dynamic_slice_in_dim(past.inputs, i * size, size)
        labels = lax.dynamic_slice_in_dim(past.labels, i * size, size)
        labelled = (i * size + jnp.arange(size, dtype=jnp.int32) < past.received) & jnp.isfinite(
            labels
        )
        k = kernel.gram(inputs, points)
        coordinate = jnp.where(labelled, matmul(k, dual), 0)
        return Sums(
            sums.mixed + matmul(coordinate, k),
            sums.square + matmul(coordinate, coordinate),
            sums.moment + matmul(coordinate, jnp.where(labelled, labels, 0)),
        )

    return lax.fori_loop(0, (past.received + size - 1) // size, read, nothing)


@struct.dataclass
class RidgeState:
    """Ridge regression on the examples so far, in r features."""

    inverse: Array  # [r, r], A^-1 with A = lam I + sum_t z_t z_t^T
    weights: Array  # [r], A^-1 sum_t y_t z_t


@struct.dataclass
@one_dtype
class PKAWV:
    """Ridge regression in fixed features, O(r^2) an example.

    `features` maps [n, d] to [n, r]: `sketch.taylor.Taylor`, or any object with `features(x)`.
    `penalize_current` is AWV; without it the forecaster is projected kernel ridge regression.
    """

    features: Any
    # lam; A^-1 is updated from I / lam, and predictions are off by up to 40 eps |z|^2 / lam, more
    # where directions are new after thousands of examples (`rounding`)
    regularization: ArrayLike = 1.0
    penalize_current: bool = struct.field(pytree_node=False, default=True)

    takes = "blocks"

    def init(self, x: Array, key: PRNGKey) -> RidgeState:
        """Nothing seen; x [d] is one example. Raises ValueError on static mistakes."""
        checks.positive(regularization=self.regularization)
        checks.features_of(
            self.features,
            "features",
            "a map with a method features(x [n,d]) -> [n,r], such as sketch.taylor.Taylor",
        )
        x = checks.example(x)
        z = self.features.features(x[None])[0]
        rounding.check(jnp.square(z).sum(), self.regularization, x.dtype)
        size = z.shape[0]
        checks.room(size**2, x.dtype, features=size)
        identity = jnp.eye(size, dtype=x.dtype)
        return RidgeState(identity / self.regularization, jnp.zeros(size, x.dtype))

    def check_rounding(self, x: Array) -> bool:
        """Warns, and says whether it did, when rounding is too much for an example x [d]
        (`rounding`). On the host."""
        z = self.features.features(x[None])[0]
        return rounding.check(jnp.square(z).sum(), self.regularization, x.dtype)

    def predict(self, state: RidgeState, x: Array) -> Array:
        """y^ [] for x [d], before its label is observed."""
        z = self.features.features(x[None])[0]
        return damped(
            matmul(z, state.weights), matmul(z, matmul(state.inverse, z)), self.penalize_current
        )

    def update(
        self, state: RidgeState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[RidgeState, ForecastInfo]:
        """Learns y [] at x [d]; a label that is not finite is not learned."""
        z = self.features.features(x[None])[0]
        seen = jnp.isfinite(y)
        direction = jnp.where(seen, matmul(state.inverse, z), 0)
        pivot = 1 + matmul(z, direction)
        surprise = jnp.where(seen, y - matmul(z, state.weights), 0)
        state = RidgeState(
            inverse=state.inverse - direction[:, None] * (direction / pivot)[None, :],
            weights=state.weights + direction * (surprise / pivot),
        )
        return state, self._info(state, y)

    def predict_update(
        self, state: RidgeState, x: Array, y: Array
    ) -> tuple[RidgeState, Array, ForecastInfo]:
        """Predictions [B] for x [B,d], each made before its label and after those of y [B] before
        it, and the state after the block: what B calls of `predict` and `update` give."""
        z = self.features.features(x)
        inverse, weights, ridge, leverage = learn_block(
            state.inverse, state.weights, z, y, jnp.isfinite(y)
        )
        state = RidgeState(inverse, weights)
        return state, damped(ridge, leverage, self.penalize_current), self._info(state, y)

    def learn(self, state: RidgeState, x: Array, y: Array) -> RidgeState:
        """What `update` makes of the labelled examples x [n,d], y [n] in any order, without
        predictions: O(n r^2) in large products. With A^-1 = L L^T, the new inverse is L (I + L^T
        Z^T Z L)^-1 L^T, nowhere worse conditioned than A.
        """
        count, size = len(y), state.weights.shape[0]
        chunks = -(-count // CHUNK)
        xs = jnp.pad(x, ((0, chunks * CHUNK - count), (0, 0)), mode="edge").reshape(
            chunks, CHUNK, -1
        )
        ys = jnp.pad(y, (0, chunks * CHUNK - count), constant_values=jnp.nan).reshape(chunks, CHUNK)

        def add(
            sums: tuple[Array, Array], examples: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array], None]:
            x, y = examples
            seen = jnp.isfinite(y)
            z = jnp.where(seen[:, None], self.features.features(x), 0)
            surprise = jnp.where(seen, y - matmul(z, state.weights), 0)
            return (sums[0] + matmul(z.T, z), sums[1] + matmul(surprise, z)), None

        nothing = (jnp.zeros((size, size), x.dtype), jnp.zeros(size, x.dtype))
        (gram, moment), _ = lax.scan(add, nothing, (xs, ys))
        root = jnp.linalg.cholesky(state.inverse)
        inner = jnp.eye(size, dtype=x.dtype) + matmul(root.T, matmul(gram, root))
        half = lax.linalg.triangular_solve(
            jnp.linalg.cholesky(inner), root.T, left_side=True, lower=True
        )
        inverse = matmul(half.T, half)
        return RidgeState(inverse, state.weights + matmul(inverse, moment))

    def _info(self, state: RidgeState, y: Array) -> ForecastInfo:
        false = jnp.zeros((), bool)
        size = jnp.asarray(len(state.weights), jnp.int32)
        nonfinite = jnp.isinf(y).any() | ~jnp.isfinite(state.weights).all()
        return ForecastInfo(dictionary_size=size, overflow=false, nonfinite=nonfinite)

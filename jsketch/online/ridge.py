"""Online ridge regression in fixed features: PKAWV with features given beforehand, and projected
kernel ridge regression.

Jezequel, Gaillard, Rudi. Efficient online learning with kernels for adversarial large scale
problems. NeurIPS 2019, Algorithm 1 (THEORY 7.2). With g and h the prediction and the leverage
z(x)^T A^-1 z(x) of ridge regression on the examples before, Azoury, Warmuth and Vovk's forecaster
predicts g / (1 + h): it penalizes the current prediction as well. With a discount, older examples
count less (`discounting`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul
from jsketch.online import discounting, rounding
from jsketch.online.discounting import RenewedState
from jsketch.precision import one_dtype
from jsketch.types import ForecastInfo, PRNGKey

CHUNK = 2048  # examples that `learn` adds together
PAST_CHUNK = 1024  # observed examples that are read again together


def damped(ridge: Array, leverage: Array, penalize_current: bool) -> Array:
    """The prediction of Azoury, Warmuth and Vovk's forecaster, or ridge regression's own."""
    return ridge / (1 + jnp.maximum(leverage, 0)) if penalize_current else ridge


def learn_block(
    inverse: Array,
    weights: Array,
    z: Array,
    y: Array,
    learn: Array,
    roots: Array | None = None,
) -> tuple[Array, Array, Array, Array]:
    """(A^-1 [r,r], weights [r], g [B], h [B]) after the rows of z [B,r], y [B] that are to be
    learned, in order; g and h of every row are as they were before it. All in matrix products
    (THEORY 7.3).

    With S = I + Z A^-1 Z^T = L L^T, the pivots L_tt^2 are 1 + h_t, and L^-1 (y - Z w) the
    innovations (y_t - g_t) / L_tt.

    roots [B]: of the discounts gamma^e at each row. S has their squares in the place of I, the
    pivots are gamma^e (1 + h_t), and A^-1 is still to be divided by the last (THEORY 7.12).
    """
    size = len(y)
    own = jnp.eye(size, dtype=z.dtype) if roots is None else jnp.diag(jnp.square(roots))
    # [r, B]; products with the long side first are the faster ones
    directions = matmul(inverse, z.T)
    start = matmul(z, weights)
    surprise = jnp.where(learn, y, 0) - start
    gram = own + matmul(z, directions)
    columns = rounding.eliminated(jnp.concatenate([gram, surprise[None], directions]), learn)
    lower = columns[:size]
    # the innovations, and [r, B] the direction of each step
    innovations, solved = columns[size], columns[size + 1 :]
    # the label itself is not in it, not even as rounding
    ridge = start + matmul(jnp.tril(lower, -1), innovations)
    inverse = inverse - matmul(solved, solved.T)
    weights = weights + matmul(solved, innovations)
    pivots = jnp.diagonal(lower)
    pivots = pivots if roots is None else pivots / roots
    return inverse, weights, ridge, jnp.square(pivots) - 1


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


State = RidgeState | RenewedState


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
    # gamma in (0, 1], for targets that drift: 1 - 1/n remembers some n examples; None is 1
    discount: ArrayLike | None = None
    # keeps the regularization that a discount forgets, at twice the time (`discounting`)
    renew: bool = struct.field(pytree_node=False, default=False)

    takes = "blocks"

    def init(self, x: Array, key: PRNGKey) -> State:
        """Nothing seen; x [d] is one example. Raises ValueError on static mistakes."""
        checks.positive(regularization=self.regularization)
        discounting.check(self.discount, self.renew)
        checks.features_of(
            self.features,
            "features",
            "a map with a method features(x [n,d]) -> [n,r], such as sketch.taylor.Taylor",
        )
        x = checks.example(x)
        size = jax.eval_shape(self.features.features, x[None]).shape[1]
        rounding.check_features(self.features, x, self.regularization)
        checks.room(size**2, x.dtype, features=size)
        identity = jnp.eye(size, dtype=x.dtype)
        inverse, weights = identity / self.regularization, jnp.zeros(size, x.dtype)
        if self.renew:
            return RenewedState(inverse, weights, jnp.zeros((), jnp.int32))
        return RidgeState(inverse, weights)

    def check_rounding(self, x: Array) -> bool:
        """Warns, and says whether it did, when rounding is too much for an example x [d]
        (`rounding`). On the host."""
        return rounding.check_features(self.features, x, self.regularization)

    def predict(self, state: State, x: Array) -> Array:
        """y^ [] for x [d], before its label is observed."""
        z = self.features.features(x[None])[0]
        leverage = matmul(z, matmul(state.inverse, z))
        if self.discount is not None:
            leverage = leverage / discounting.gamma_of(self.discount, z)
        return damped(matmul(z, state.weights), leverage, self.penalize_current)

    def update(self, state: State, x: Array, y: Array, key: PRNGKey) -> tuple[State, ForecastInfo]:
        """Learns y [] at x [d]; a label that is not finite is not learned."""
        z = self.features.features(x[None])[0]
        seen = jnp.isfinite(y)
        inverse = state.inverse
        if self.discount is not None:
            inverse = inverse / jnp.where(seen, discounting.gamma_of(self.discount, z), 1)
        direction = jnp.where(seen, matmul(inverse, z), 0)
        pivot = 1 + matmul(z, direction)
        surprise = jnp.where(seen, y - matmul(z, state.weights), 0)
        new = replace(
            state,
            inverse=inverse - direction[:, None] * (direction / pivot)[None, :],
            weights=state.weights + direction * (surprise / pivot),
        )
        if isinstance(new, RenewedState):
            row = self._renewals(new, z[None], seen[None])[0]
            direction = matmul(new.inverse, row)
            step = direction / (1 + matmul(row, direction))
            new = RenewedState(
                new.inverse - direction[:, None] * step[None, :],
                new.weights - step * matmul(row, new.weights),
                new.labelled + seen.astype(jnp.int32),
            )
        new = discounting.symmetric(new, self.discount)
        return new, self._info(new, y[None], z[None], (pivot - 1)[None])

    def predict_update(self, state: State, x: Array, y: Array) -> tuple[State, Array, ForecastInfo]:
        """Predictions [B] for x [B,d], each made before its label and after those of y [B] before
        it, and the state after the block: what B calls of `predict` and `update` give."""
        z, learn = self.features.features(x), jnp.isfinite(y)
        if self.discount is None:
            inverse, weights, ridge, leverage = learn_block(
                state.inverse, state.weights, z, y, learn
            )
            new: State = RidgeState(inverse, weights)
        else:
            new, ridge, leverage = discounting.in_spans(
                self.discount, partial(self._learn_block, z=z, y=y), state, learn, z
            )
            new = discounting.symmetric(new, self.discount)
        prediction = damped(ridge, leverage, self.penalize_current)
        return new, prediction, self._info(new, y, z, leverage)

    def learn(self, state: State, x: Array, y: Array) -> State:
        """What `update` makes of the labelled examples x [n,d], y [n], without predictions: O(n
        r^2) in large products. With A^-1 = L L^T, the new inverse is L (I + L^T Z^T Z L)^-1 L^T,
        nowhere worse conditioned than A; with a discount each example has its weight in Z^T Z, and
        I becomes gamma^n I. Without one their order does not matter.
        """
        size = state.weights.shape[0]
        chunks = -(-len(y) // CHUNK)
        extra = chunks * CHUNK - len(y)
        xs = jnp.pad(x, ((0, extra), (0, 0)), mode="edge").reshape(chunks, CHUNK, -1)
        ys = jnp.pad(y, (0, extra), constant_values=jnp.nan)
        roots = None
        if self.discount is not None:
            roots = discounting.roots_of_weights(self.discount, jnp.isfinite(ys), x)
            roots = roots.reshape(chunks, CHUNK)

        def add(
            sums: tuple[Array, Array], examples: tuple[Array, Array, Array | None]
        ) -> tuple[tuple[Array, Array], None]:
            x, y, roots = examples
            seen = jnp.isfinite(y)
            z = jnp.where(seen[:, None], self.features.features(x), 0)
            surprise = jnp.where(seen, y - matmul(z, state.weights), 0)
            if roots is not None:
                z, surprise = z * roots[:, None], surprise * roots
            return (sums[0] + matmul(z.T, z), sums[1] + matmul(surprise, z)), None

        nothing = (jnp.zeros((size, size), x.dtype), jnp.zeros(size, x.dtype))
        (gram, moment), _ = lax.scan(add, nothing, (xs, ys.reshape(chunks, CHUNK), roots))
        kept = jnp.eye(size, dtype=x.dtype)
        if self.discount is not None:
            kept = kept * discounting.power(self.discount, jnp.isfinite(y).sum(), x)
        if isinstance(state, RenewedState):
            learned = state.labelled + jnp.isfinite(y).sum(dtype=jnp.int32)
            added = discounting.renewed(
                self.regularization, self.discount, state.labelled, learned, state.weights
            )
            gram, moment = gram + jnp.diag(added), moment - added * state.weights
            state = replace(state, labelled=learned)
        root = jnp.linalg.cholesky(state.inverse)
        inner = kept + matmul(root.T, matmul(gram, root))
        half = lax.linalg.triangular_solve(
            jnp.linalg.cholesky(inner), root.T, left_side=True, lower=True
        )
        inverse = matmul(half.T, half)
        weights = state.weights + matmul(inverse, moment)
        new = replace(state, inverse=inverse, weights=weights)
        return discounting.symmetric(new, self.discount)

    def _learn_block(
        self, state: State, learn: Array, z: Array, y: Array
    ) -> tuple[State, Array, Array]:
        """(state after the rows of z [B,r] that are to be learned, g [B], h [B]), as `learn_block`,
        with time that passes."""
        roots, kept = discounting.fading(self.discount, learn, z)
        if not isinstance(state, RenewedState):
            inverse, weights, g, h = learn_block(state.inverse, state.weights, z, y, learn, roots)
            return RidgeState(inverse / kept, weights), g, h
        z = discounting.interleaved(z, self._renewals(state, z, learn))
        y = discounting.interleaved(y, jnp.zeros_like(y))
        both, roots = jnp.repeat(learn, 2), jnp.repeat(roots, 2)
        inverse, weights, g, h = learn_block(state.inverse, state.weights, z, y, both, roots)
        count = state.labelled + learn.sum(dtype=jnp.int32)
        return RenewedState(inverse / kept, weights, count), g[::2], h[::2]

    def _renewals(self, state: RenewedState, z: Array, learn: Array) -> Array:
        """The rows [B,r] that keep the regularization while rows z [B,r] are learned."""
        return discounting.renewals(self.regularization, self.discount, state.labelled, learn, z)

    def _info(self, state: State, y: Array, z: Array, leverage: Array) -> ForecastInfo:
        """After the examples y [B], z [B,r] with those leverages [B]."""
        false = jnp.zeros((), bool)
        size = jnp.asarray(len(state.weights), jnp.int32)
        nonfinite = jnp.isinf(y).any() | ~jnp.isfinite(state.weights).all()
        if self.discount is not None:
            nonfinite |= discounting.wound_up(state.inverse, z, leverage, jnp.isfinite(y))
        return ForecastInfo(dictionary_size=size, overflow=false, nonfinite=nonfinite)

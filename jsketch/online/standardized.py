"""A forecaster in standardized units, for inputs and labels of any units.

A new scale would make the learned weights wrong. Hence a scale does not change once a weight
depends on it, and the features have to be of use for inputs that leave the range of the first
examples (`sketch.Bounded`). An input without a scale counts as 0, where its monomials vanish, so
that weights that were learned before it has a scale remain right. Therefore the shift remains at 0
when it gets a scale, and if its values are then far from the shift, relative to their spread, the
gap between them is compressed.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.numerics import aligned, lazy_cond
from jsketch.online.base import first_labels
from jsketch.precision import in_first_dtype
from jsketch.sketch.taylor import REACH
from jsketch.types import Forecaster, PRNGKey, is_traced

LATE_EXAMPLES = 50  # examples that scale an input whose scale is zero
MOST_SCALES = 2.0  # the largest z of the median of these examples
KNEE = 0.25  # z of the end of a gap that is compressed
ROUNDING = 64  # numbers of an input are equal if they differ by at most this multiple of eps


@struct.dataclass
class StandardizedState:
    """The state of the forecaster in standardized units, and the scales of d inputs."""

    forecaster: Any  # a state of the forecaster
    scale: Array  # [d]; zero for a late input that has no scale yet
    middle: Array  # [d], the median deviation of a late input that has a scale; otherwise zero
    late: Array  # [LATE_EXAMPLES, d], the deviations of late inputs that differ from the shift
    varied: Array  # [d] int32, examples that differ from the shift; at most LATE_EXAMPLES


@struct.dataclass
class Standardized(Forecaster):
    """A forecaster of the labels y - label_shift at the inputs z = (x - shift) / scale.

    An input of scale 0 counts as z = 0 until it has differed from its shift in 50 labelled
    examples. Then their interquartile range / 1.349, the standard deviation of normal values, is
    its scale, or half of the median difference if they are equal, as those of a flag. If the median
    differs from the shift by more than 2 scales, the values between them are compressed so that the
    median has |z| = 2: z = 0 at the shift, and the slope is 1 / scale beyond the shift and from
    1.75 scales before the median on.

    forecaster   a forecaster, such as `PKAWV`
    shifts       [d], in the units of the inputs
    scales       [d], in the units of the inputs, at least 0
    label_shift  a number in the unit of the labels

    `init` raises ValueError for shifts that are not finite, for negative scales, and for examples
    with another d.

    Example:

        taylor = sketch.Taylor(inputs=2, degree=4, lengthscale=2.0)
        features = sketch.WithConstant(sketch.Bounded(taylor))
        forecaster = Standardized(PKAWV(features), xs.mean(0), xs.std(0), ys.mean())
        forecasts, state = prequential(forecaster, (xs, ys), jax.random.key(0))
    """

    forecaster: Any = struct.component(components.FORECASTER)
    shifts: ArrayLike
    scales: ArrayLike
    label_shift: ArrayLike = 0.0

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> StandardizedState:
        x = checks.example(x)
        checks.finite(label_shift=self.label_shift)
        checks.all_nonnegative(scales=self.scales)
        for name, numbers in dict(shifts=self.shifts, scales=self.scales).items():
            if jnp.shape(numbers) != x.shape:
                raise ValueError(
                    f"{name} must have one number for each of the {len(x)} inputs of an example;"
                    f" their shape is {jnp.shape(numbers)}."
                )
            if not is_traced(numbers) and not np.isfinite(np.asarray(numbers)).all():
                raise ValueError(f"{name} must be finite; {numbers} were given.")
        inner = self.forecaster.init(self.first_inputs(x), key)
        scale, varied = self._first_scales(x)
        late = jnp.zeros((LATE_EXAMPLES, len(x)), x.dtype)
        return StandardizedState(inner, scale, jnp.zeros_like(scale), late, varied)

    def check_rounding(self, x: Array) -> bool:
        return bool(self.forecaster.check_rounding(self.first_inputs(x)))

    def first_inputs(self, x: Array) -> Array:
        """z of x [...,d] with the scales before the first example, [...,d]. It is not traced unless
        x or the forecaster is, even under the jit of a caller."""
        with nullcontext() if is_traced(self, x) else jax.core.eval_context():
            return _first_inputs(self, x)

    def predict(self, state: StandardizedState, x: Array) -> Array:
        z = self._inputs(state, x)
        return self.forecaster.predict(state.forecaster, z) + self.label_shift

    def preview(self, state: StandardizedState, xs: Array) -> tuple[Array, Array]:
        predictions, exceeded = self.forecaster.preview(state.forecaster, self._inputs(state, xs))
        return predictions + self.label_shift, exceeded

    def advance(
        self,
        state: StandardizedState,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[StandardizedState, Array, Array, Any]:
        z, _ = self._learn_scales(state, x, first_labels(y, limit)[0])
        inner, predictions, done, info = self.forecaster.advance(
            state.forecaster, z, y - self.label_shift, limit, keys
        )
        # the block of the forecaster may have ended before its limit
        _, scales = self._learn_scales(state, x, first_labels(y, done)[0])
        return replace(scales, forecaster=inner), predictions + self.label_shift, done, info

    def grow(self, state: StandardizedState) -> StandardizedState:
        """The same state with more capacity for the forecaster."""
        return replace(state, forecaster=self.forecaster.grow(state.forecaster))

    def outside(self, state: StandardizedState, x: Array) -> Array:
        """Whether each input of x [n,d] is more than 3 scales from its shift, and from the median
        of the examples that scaled it, [n,d] bool. An input that has no scale yet is not."""
        deviations, known = self._deviations(x), aligned(state.varied >= LATE_EXAMPLES, x)
        from_middle = jnp.abs(deviations - aligned(state.middle, x))
        nearest = jnp.minimum(jnp.abs(deviations), from_middle)
        return known & (nearest > REACH * aligned(state.scale, x))

    def _inputs(self, state: StandardizedState, x: Array) -> Array:
        """z of x [...,d] with the scales of the state, [...,d]."""
        return _standardized(self._deviations(x), state.scale, state.middle, state.varied)

    def _first_scales(self, x: Array) -> tuple[Array, Array]:
        scale = jnp.asarray(self.scales, x.dtype)
        return scale, jnp.where(scale > 0, LATE_EXAMPLES, 0).astype(jnp.int32)

    def _deviations(self, x: Array) -> Array:
        return x - aligned(jnp.asarray(self.shifts, x.dtype), x)

    def _learn_scales(
        self, state: StandardizedState, x: Array, y: Array
    ) -> tuple[Array, StandardizedState]:
        """(z [B,d], each with the scales before its example; the state with the scales after the
        block)."""
        deviations = self._deviations(x)
        shifts = jnp.asarray(self.shifts, x.dtype)
        rounding = ROUNDING * jnp.finfo(x.dtype).eps
        varies = (jnp.abs(deviations) > rounding * jnp.abs(shifts)[None]) & jnp.isfinite(y)[:, None]
        counts = state.varied[None] + jnp.cumsum(varies, axis=0, dtype=jnp.int32)
        before = counts - varies.astype(jnp.int32)
        is_late = varies & (before < LATE_EXAMPLES)

        def learn(old: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            scale, middle, late = old
            rows = jnp.where(is_late, before, LATE_EXAMPLES)  # the last one is dropped
            columns = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
            late = late.at[rows, columns].set(deviations, mode="drop")
            ranks = jnp.asarray([LATE_EXAMPLES // 4, LATE_EXAMPLES // 2, 3 * LATE_EXAMPLES // 4])
            low, median, high = jnp.sort(late, axis=0)[ranks]
            # the values are equal if their range is that of rounding
            spread = (high - low) > rounding * jnp.maximum(
                jnp.abs(shifts + median), jnp.abs(shifts)
            )
            new_scale = jnp.where(spread, (high - low) / 1.349, jnp.abs(median) / 2)
            complete = (state.varied < LATE_EXAMPLES) & (counts[-1] >= LATE_EXAMPLES)
            return (
                jnp.where(complete, new_scale, scale),
                jnp.where(complete, median, middle),
                late,
            )

        scale, middle, late = lazy_cond(
            is_late.any(), learn, (state.scale, state.middle, state.late)
        )
        # only an input with LATE_EXAMPLES before an example uses the scale, which is then complete
        z = _standardized(deviations, scale, middle, before)
        varied = jnp.minimum(counts[-1], LATE_EXAMPLES)
        return z, replace(state, scale=scale, middle=middle, late=late, varied=varied)


@jax.jit  # one program, because its operations one by one would be 20
def _first_inputs(forecaster: Standardized, x: Array) -> Array:
    scale, varied = forecaster._first_scales(x)
    return _standardized(forecaster._deviations(x), scale, jnp.zeros_like(scale), varied)


def _standardized(deviations: Array, scale: Array, middle: Array, varied: Array) -> Array:
    """z [...,d]; 0 for an input that has not varied in LATE_EXAMPLES examples."""
    known = aligned(varied >= LATE_EXAMPLES, deviations)
    scale = jnp.where(known, aligned(scale, deviations), 1)
    side = jnp.where(aligned(middle, deviations) < 0, -1, 1).astype(deviations.dtype)
    gap = jnp.maximum(jnp.abs(aligned(middle, deviations)) / scale - MOST_SCALES, 0)
    z = side * deviations / scale
    z = side * jnp.where(z > 0, jnp.maximum(z * (KNEE / (gap + KNEE)), z - gap), z)
    return jnp.where(known, z, 0)

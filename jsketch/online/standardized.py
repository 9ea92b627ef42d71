"""A forecaster in standardized units, for inputs and labels of any units.

A new scale would make the learned weights wrong. Hence a scale does not change once a weight
depends on it, and the features have to be of use for inputs that leave the range of the first
examples (`sketch.Bounded`). An input without a scale counts as 0, where its monomials vanish, so
that weights that were learned before it has a scale remain right.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import aligned
from jsketch.online.base import takes
from jsketch.precision import one_dtype
from jsketch.sketch.taylor import REACH
from jsketch.types import Forecaster, ForecastInfo, PRNGKey, is_traced

LATE_EXAMPLES = 20  # examples that scale an input whose scale is zero
ROUNDING = 64  # numbers of an input are equal if they differ by at most this multiple of eps


@struct.dataclass
class StandardizedState:
    """The state of the forecaster in standardized units, and the scales of d inputs."""

    forecaster: Any  # a state of the forecaster
    scale: Array  # [d]; while `varied` < LATE_EXAMPLES, half of the largest difference so far
    varied: Array  # [d] int32, examples that differ from the shift; at most LATE_EXAMPLES


@struct.dataclass
@one_dtype
class Standardized(Forecaster):
    """A forecaster of the labels y - label_shift at the inputs z = (x - shift) / scale.

    An input of scale 0 counts as z = 0 until it has differed from its shift in 20 labelled
    examples; then half of the largest difference is its scale.

    forecaster   a forecaster that takes blocks, such as `PKAWV`
    shifts       [d], in the units of the inputs
    scales       [d], in the units of the inputs, at least 0
    label_shift  a number in the unit of the labels

    Raises ValueError for a forecaster that does not take blocks. `init` raises ValueError for
    shifts that are not finite, for negative scales, and for examples with another d.

    Example:

        taylor = sketch.Taylor(inputs=2, degree=4, lengthscale=2.0)
        features = sketch.WithConstant(sketch.Bounded(taylor))
        forecaster = Standardized(PKAWV(features), xs.mean(0), xs.std(0), ys.mean())
        forecasts, state = prequential(forecaster, (xs, ys), jax.random.key(0))
    """

    forecaster: Any
    shifts: ArrayLike
    scales: ArrayLike
    label_shift: ArrayLike = 0.0

    takes = "blocks"

    def __post_init__(self) -> None:
        super().__post_init__()
        if takes(self.forecaster) != "blocks":
            raise ValueError(
                "Standardized needs a forecaster that takes blocks, such as PKAWV; a"
                f" {type(self.forecaster).__name__} takes {takes(self.forecaster)}."
            )

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
        return StandardizedState(inner, *self._first_scales(x))

    def check_rounding(self, x: Array) -> bool:
        return bool(self.forecaster.check_rounding(self.first_inputs(x)))

    def first_inputs(self, x: Array) -> Array:
        """z of x [...,d] with the scales before the first example, [...,d]."""
        return _standardized(self._deviations(x), *self._first_scales(x))

    def predict(self, state: StandardizedState, x: Array) -> Array:
        z = _standardized(self._deviations(x), state.scale, state.varied)
        return self.forecaster.predict(state.forecaster, z) + self.label_shift

    def update(
        self, state: StandardizedState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[StandardizedState, ForecastInfo]:
        z, scale, varied = self._learn_scales(state, x[None], y[None])
        inner, info = self.forecaster.update(state.forecaster, z[0], y - self.label_shift, key)
        return StandardizedState(inner, scale, varied), info

    def predict_update(
        self, state: StandardizedState, x: Array, y: Array
    ) -> tuple[StandardizedState, Array, ForecastInfo]:
        """Predicts and learns a block x [B,d], y [B] in order: (state, y^ [B], info)."""
        z, scale, varied = self._learn_scales(state, x, y)
        inner, prediction, info = self.forecaster.predict_update(
            state.forecaster, z, y - self.label_shift
        )
        return StandardizedState(inner, scale, varied), prediction + self.label_shift, info

    def outside(self, state: StandardizedState, x: Array) -> Array:
        """Whether each input of x [n,d] is more than 3 scales from its shift, [n,d] bool. An input
        that has no scale yet is not."""
        known, scale = aligned(state.varied >= LATE_EXAMPLES, x), aligned(state.scale, x)
        return known & (jnp.abs(self._deviations(x)) > REACH * scale)

    def _first_scales(self, x: Array) -> tuple[Array, Array]:
        scale = jnp.asarray(self.scales, x.dtype)
        return scale, jnp.where(scale > 0, LATE_EXAMPLES, 0).astype(jnp.int32)

    def _deviations(self, x: Array) -> Array:
        return x - aligned(jnp.asarray(self.shifts, x.dtype), x)

    def _learn_scales(
        self, state: StandardizedState, x: Array, y: Array
    ) -> tuple[Array, Array, Array]:
        """(z [B,d], each with the scales before its example; the scales [d] and `varied` [d] after
        the block)."""
        deviations = self._deviations(x)
        rounding = ROUNDING * jnp.finfo(x.dtype).eps * jnp.abs(jnp.asarray(self.shifts, x.dtype))
        sizes = jnp.abs(deviations)
        varies = (sizes > rounding[None]) & jnp.isfinite(y)[:, None]
        counts = state.varied[None] + jnp.cumsum(varies, axis=0, dtype=jnp.int32)
        before = counts - varies.astype(jnp.int32)
        late = varies & (before < LATE_EXAMPLES)
        scale = jnp.maximum(state.scale, jnp.where(late, sizes / 2, 0).max(0))
        # only an input with LATE_EXAMPLES before an example uses the scale, which is then complete
        z = _standardized(deviations, scale, before)
        return z, scale, jnp.minimum(counts[-1], LATE_EXAMPLES)


def _standardized(deviations: Array, scale: Array, varied: Array) -> Array:
    """z [...,d]; 0 for an input that has not varied in LATE_EXAMPLES examples."""
    known = aligned(varied >= LATE_EXAMPLES, deviations)
    z = deviations / jnp.where(known, aligned(scale, deviations), 1)
    return jnp.where(known, z, 0)

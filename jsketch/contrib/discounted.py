"""PKAWV and Kernel-AWV with smaller weights for older examples, for targets that drift
(`discounting`, THEORY 7.12)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.contrib import discounting
from jsketch.linalg import matmul
from jsketch.online import rounding
from jsketch.online.base import info_after
from jsketch.online.kernel_awv import KernelAWV, KernelState
from jsketch.online.mixture import Mixture
from jsketch.online.ridge import PKAWV, RidgeState, awv_prediction, learn_block
from jsketch.precision import one_dtype
from jsketch.types import Forecaster, ForecastInfo, PRNGKey


def discount_mixture(forecaster: Any, discounts: Any, bound: ArrayLike, **options: Any) -> Mixture:
    """A mixture of G copies of `forecaster`, one with each of the `discounts` [G], for drift of
    unknown speed. `bound` and `options` are as in `online.Mixture`.

    Example:

        forecaster = DiscountedPKAWV(sketch.Taylor(inputs=2, degree=4), renew=True)
        mixture = discount_mixture(forecaster, [0.9, 0.99, 0.999, 1], bound=1.0)
    """
    return Mixture(forecaster, {"discount": jnp.asarray(discounts, float)}, bound, **options)


@struct.dataclass
class DiscountedState(RidgeState):
    """`RidgeState` with the number of labelled examples."""

    labelled: Array  # [] int32


@struct.dataclass
@one_dtype
class DiscountedPKAWV(Forecaster):
    """PKAWV in which the weight of an example is discount^s after s more labelled examples. An
    example costs O(r^2) for r features.

    features, regularization, penalize_current  as in `online.PKAWV`
    discount  gamma in (0, 1]; with 1 - 1/n the weights of all examples add up to at most n
    renew     True: the regularization does not decay, and an example takes twice the time
              (`discounting`)
    """

    features: Any
    regularization: ArrayLike = 1.0
    penalize_current: bool = struct.field(pytree_node=False, default=True)
    discount: ArrayLike = 0.99
    renew: bool = struct.field(pytree_node=False, default=False)

    takes = "blocks"

    def __post_init__(self) -> None:
        super().__post_init__()
        PKAWV(self.features)  # raises ValueError for an invalid feature map

    def init(self, x: Array, key: PRNGKey) -> DiscountedState:
        checks.settings(self)
        discounting.check_discount(self.discount)
        state = PKAWV(self.features, self.regularization).init(x, key)
        return DiscountedState(**vars(state), labelled=jnp.zeros((), jnp.int32))

    def check_rounding(self, x: Array) -> bool:
        return rounding.warn_for_features(self.features, x, self.regularization)

    def predict(self, state: DiscountedState, x: Array) -> Array:
        z = self.features.features(x[None])[0]
        leverage = matmul(z, matmul(state.inverse, z)) / discounting.gamma_of(self.discount, like=z)
        return awv_prediction(matmul(z, state.weights), leverage, self.penalize_current)

    def update(
        self, state: DiscountedState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[DiscountedState, ForecastInfo]:
        z = self.features.features(x[None])[0]
        learn = jnp.isfinite(y)
        inverse = state.inverse / jnp.where(learn, discounting.gamma_of(self.discount, like=z), 1)
        direction = jnp.where(learn, matmul(inverse, z), 0)
        pivot = 1 + matmul(z, direction)
        error = jnp.where(learn, y - matmul(z, state.weights), 0)
        inverse = inverse - direction[:, None] * (direction / pivot)[None, :]
        weights = state.weights + direction * (error / pivot)
        if self.renew:
            row = self._renewal_rows(state, z[None], learn[None])[0]
            direction = matmul(inverse, row)
            step = direction / (1 + matmul(row, direction))
            inverse = inverse - direction[:, None] * step[None, :]
            weights = weights - step * matmul(row, weights)
        new = DiscountedState(inverse, weights, state.labelled + learn.astype(jnp.int32))
        new = discounting.symmetrize_if_discounted(new, self.discount)
        return new, self._info(new, y[None], z[None], (pivot - 1)[None])

    def predict_update(
        self, state: DiscountedState, x: Array, y: Array
    ) -> tuple[DiscountedState, Array, ForecastInfo]:
        z, learn = self.features.features(x), jnp.isfinite(y)
        learn_rows = partial(self._learn_rows, z=z, y=y)
        new, means, leverages = discounting.learn_in_short_blocks(
            self.discount, learn_rows, state, learn, like=z
        )
        new = discounting.symmetrize_if_discounted(new, self.discount)
        predictions = awv_prediction(means, leverages, self.penalize_current)
        return new, predictions, self._info(new, y, z, leverages)

    def _learn_rows(
        self, state: DiscountedState, learn: Array, z: Array, y: Array
    ) -> tuple[DiscountedState, Array, Array]:
        """(state, means [B], leverages [B]) of `learn_block` with the discount."""
        labelled = state.labelled + learn.sum(dtype=jnp.int32)
        roots, discount = discounting.block_discounts(self.discount, learn, like=z)
        if self.renew:
            z = _interleaved(z, self._renewal_rows(state, z, learn))
            y = _interleaved(y, jnp.zeros_like(y))
            learn, roots = jnp.repeat(learn, 2), jnp.repeat(roots, 2)
        inverse, weights, means, leverages = learn_block(
            state.inverse, state.weights, z, y, learn, roots
        )
        stride = 2 if self.renew else 1  # renewal rows have no prediction
        new = DiscountedState(inverse / discount, weights, labelled)
        return new, means[::stride], leverages[::stride]

    def _renewal_rows(self, state: DiscountedState, z: Array, learn: Array) -> Array:
        lam, discount = self.regularization, self.discount
        return discounting.renewal_rows(lam, discount, state.labelled, learn, like=z)

    def _info(self, state: DiscountedState, y: Array, z: Array, leverage: Array) -> ForecastInfo:
        """The info after examples with labels y [B], features z [B,r] and leverages [B]."""
        info = info_after(len(state.weights), y, state.weights)
        winds_up = discounting.winds_up(state.inverse, z, leverage, jnp.isfinite(y))
        # windup is reported as nonfinite: predictions soon become wrong
        return replace(info, nonfinite=info.nonfinite | winds_up)


def _interleaved(rows: Array, other_rows: Array) -> Array:
    """An array [2B, ...] in which row i of `other_rows` [B, ...] follows row i of `rows`."""
    return jnp.stack([rows, other_rows], axis=1).reshape(-1, *rows.shape[1:])


@struct.dataclass
@one_dtype
class DiscountedKernelAWV(KernelAWV):
    """Kernel-AWV with lam diag(gamma, ..., gamma^t) in place of lam I for t labelled examples.
    Example t costs O(t d + t^2).

    The regularization decays; therefore long streams end with an error (windup, see `discounting`).
    This class is for comparisons; use `DiscountedPKAWV` for applications.

    discount  gamma in (0, 1]
    """

    discount: ArrayLike = 0.99

    def init(self, x: Array, key: PRNGKey) -> KernelState:
        discounting.check_discount(self.discount)
        return super().init(x, key)

    def update(
        self, state: KernelState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[KernelState, ForecastInfo]:
        new, info = super().update(state, x, y, key)
        squared_pivot = self._row(state, x)[1]
        relative_error = jnp.finfo(x.dtype).eps * self.kernel.diag(x[None])[0] / squared_pivot
        winds_up = (new.used > state.used) & (relative_error > discounting.LARGEST_RELATIVE_ERROR)
        # reported as nonfinite, like the windup of `DiscountedPKAWV`
        return new, replace(info, nonfinite=info.nonfinite | winds_up)

    def _diagonal(self, state: KernelState, x: Array) -> ArrayLike:
        return self.regularization * discounting.gamma_power(self.discount, state.used + 1, like=x)

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
from jsketch.numerics import matmul
from jsketch.online import rounding
from jsketch.online.base import KernelForecaster, first_labels, info_after
from jsketch.online.kernel_awv import KernelAWV, KernelState
from jsketch.online.mixture import Mixture
from jsketch.online.ridge import PKAWV, RidgeState, awv_prediction, learn_block
from jsketch.precision import in_first_dtype
from jsketch.results import Result, result
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
class DiscountedPKAWV(Forecaster):
    """PKAWV in which the weight of an example is discount^s after s more labelled examples. An
    example costs O(r^2) for r features.

    features, regularization, penalize_current  as in `online.PKAWV`
    discount  gamma in (0, 1]; with 1 - 1/n the weights of all examples add up to at most n
    renew     True: the regularization does not decay, and an example takes twice the time
              (`discounting`)
    """

    features: Any
    regularization: ArrayLike = struct.number(1.0, above=0)
    penalize_current: bool = struct.choice(True)
    discount: ArrayLike = 0.99
    renew: bool = struct.choice(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        PKAWV(self.features)  # raises ValueError for an invalid feature map

    @in_first_dtype
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

    def advance(
        self,
        state: DiscountedState,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[DiscountedState, Array, Array, ForecastInfo]:
        y, done = first_labels(y, limit)
        z, learn = self.features.features(x), jnp.isfinite(y)
        learn_rows = partial(self._learn_rows, z=z, y=y)
        new, means, leverages = discounting.learn_in_short_blocks(
            self.discount, learn_rows, state, learn, like=z
        )
        new = discounting.symmetrize_if_discounted(new, self.discount)
        info = info_after(len(new.weights), y, new.weights)
        # windup is reported as NOT_FINITE: predictions soon become wrong
        winds_up = result(
            (Result.NOT_FINITE, discounting.winds_up(new.inverse, z, leverages, learn))
        )
        info = replace(info, result=jnp.maximum(info.result, winds_up))
        return new, awv_prediction(means, leverages, self.penalize_current), done, info

    def _learn_rows(
        self, state: DiscountedState, learn: Array, z: Array, y: Array
    ) -> tuple[DiscountedState, Array, Array]:
        """(state, means [B], leverages [B]) of `learn_block` with the discount."""
        labelled = state.labelled + learn.sum(dtype=jnp.int32)
        roots, discount = discounting.block_discounts(self.discount, learn, like=z)
        stride = 1
        if self.renew:
            z = _interleaved(z, self._renewal_rows(state, z, learn))
            y = _interleaved(y, jnp.zeros_like(y))
            learn, roots = jnp.repeat(learn, 2), jnp.repeat(roots, 2)
            stride = 2  # renewal rows have no prediction
        inverse, weights, means, leverages = learn_block(
            state.inverse, state.weights, z / roots[:, None], y / roots, learn
        )
        new = DiscountedState(inverse / discount, weights, labelled)
        return new, (roots * means)[::stride], leverages[::stride]

    def _renewal_rows(self, state: DiscountedState, z: Array, learn: Array) -> Array:
        lam, discount = self.regularization, self.discount
        return discounting.renewal_rows(lam, discount, state.labelled, learn, like=z)


def _interleaved(rows: Array, other_rows: Array) -> Array:
    """An array [2B, ...] in which row i of `other_rows` [B, ...] follows row i of `rows`."""
    return jnp.stack([rows, other_rows], axis=1).reshape(-1, *rows.shape[1:])


@struct.dataclass
class ScaledKernel:
    """c c' k(x, x') of points (x, c) [n, d + 1]."""

    kernel: Any

    def gram(self, x: Array, y: Array) -> Array:
        return x[:, -1:] * self.kernel.gram(x[:, :-1], y[:, :-1]) * y[None, :, -1]

    def diag(self, x: Array) -> Array:
        return jnp.square(x[:, -1]) * self.kernel.diag(x[:, :-1])


@struct.dataclass
class DiscountedKernelAWV(KernelForecaster):
    """Kernel-AWV with lam diag(gamma, ..., gamma^t) in place of lam I for t labelled examples.
    Example t costs O(t d + t^2).

    The regularization decays; therefore long streams end with an error (windup, see `discounting`).
    This class is for comparisons; use `DiscountedPKAWV` for applications.

    kernel                      a kernel of `jsketch.kernels`
    regularization              lambda of PKAWV, alpha of the Newton steps
    penalize_current, capacity  as in `online.KernelAWV`
    discount                    gamma in (0, 1]
    """

    penalize_current: bool = struct.choice(True)
    capacity: int = struct.size(128)
    discount: ArrayLike = 0.99

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> KernelState:
        checks.settings(self)
        discounting.check_discount(self.discount)
        checks.example(x)
        checks.kernel_inputs(self.kernel, checks.known(x)[None])
        return self._scaled.init(jnp.append(x, 1), key)

    def predict(self, state: KernelState, x: Array) -> Array:
        scale = self._scale(state, x)
        return self._scaled.predict(state, jnp.append(x, scale)) / scale

    def update(
        self, state: KernelState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[KernelState, ForecastInfo]:
        scale = self._scale(state, x)
        new, info = self._scaled.update(state, jnp.append(x, scale), scale * y, key)
        last = new.used - 1
        # eps times the ratio of k(x,x) and the squared pivot
        relative_error = (
            jnp.finfo(x.dtype).eps
            * self.kernel.diag(x[None])[0]
            * jnp.square(scale * new.inverse[last, last])
        )
        winds_up = (new.used > state.used) & (relative_error > discounting.LARGEST_RELATIVE_ERROR)
        # reported as NOT_FINITE, like the windup of `DiscountedPKAWV`
        code = result((Result.NOT_FINITE, winds_up))
        return new, replace(info, result=jnp.maximum(info.result, code))

    def grow(self, state: KernelState) -> KernelState:
        """The same state with 1.5 times the capacity."""
        return self._scaled.grow(state)

    @property
    def _scaled(self) -> KernelAWV:
        """The forecaster without a discount of the points (x, c) and the labels c y, where c is
        gamma^(-t/2) for the t-th labelled example (THEORY 7.12)."""
        kernel = ScaledKernel(self.kernel)
        return KernelAWV(kernel, self.regularization, self.penalize_current, self.capacity)

    def _scale(self, state: KernelState, x: Array) -> Array:
        """c [] of the next example."""
        return 1 / jnp.sqrt(discounting.gamma_power(self.discount, state.used + 1, like=x))

"""Fields, checks and methods that several forecasters share, how the loops pass examples to them,
and previews of their predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import pad_identity
from jsketch.online import rounding
from jsketch.precision import one_dtype
from jsketch.sketch import kors
from jsketch.sketch.kors import Kors
from jsketch.types import Forecaster, ForecastInfo, PRNGKey

TAKES = ("examples", "blocks", "growing blocks")


@struct.dataclass
@one_dtype
class KernelForecaster(Forecaster):
    """A forecaster in the space of a kernel."""

    # a kernel of `jsketch.kernels`
    kernel: Any
    regularization: ArrayLike = 1.0  # lambda of PKAWV, alpha of the Newton steps

    def __post_init__(self) -> None:
        checks.constructor_arguments(self)

    def check_rounding(self, x: Array) -> bool:
        return rounding.check_kernel(self.kernel, x, self.regularization)

    def _checked(self, x: Array, size: Callable[[int], int], **capacities: int) -> Array:
        """`checked_example` after a check of the regularization and before one of rounding."""
        checks.settings(self)
        x = checked_example(self.kernel, x, size, **capacities)
        self.check_rounding(x)
        return x


@one_dtype
class GrowingBlocks(Forecaster):
    """A forecaster whose features change at some examples: blocks end there. Single steps are
    blocks of one example."""

    takes = "growing blocks"

    def predict(self, state: Any, x: Array) -> Array:
        return self.advance(state, x[None], jnp.full((1,), jnp.nan, x.dtype), 1)[1][0]

    def update(self, state: Any, x: Array, y: Array, key: PRNGKey) -> tuple[Any, ForecastInfo]:
        state, _, info = self.step(state, x, y, key)
        return state, info

    def step(self, state: Any, x: Array, y: Array, key: PRNGKey) -> tuple[Any, Array, ForecastInfo]:
        state, predictions, _, info = self.advance(state, x[None], jnp.asarray(y)[None], 1)
        return state, predictions[0], info

    def advance(
        self, state: Any, x: Array, y: Array, limit: ArrayLike
    ) -> tuple[Any, Array, Array, ForecastInfo]:
        """Predicts and learns examples x [B,d] with labels y [B] in order, up to the next example
        that changes the features and at most `limit` [] of them.

        Returns (state, y^ [B], valid before `done`, done [] int32, info). `done` is zero on
        overflow. A limit of zero changes nothing.
        """
        raise NotImplementedError


@struct.dataclass
class DictionaryState:
    """m inducing points of at most M, and ridge regression in their orthonormal coordinates z(x) =
    basis k_I(x) (`sketch.newton`)."""

    dictionary: Kors
    basis: Array  # [M, M]; a row of zeros adds no coordinate
    inverse: Array  # [M, M], A^-1
    weights: Array  # [M]
    received: Array  # [] int32, t, the number of examples so far
    key: Array  # key data of the random numbers of KORS


def empty_dictionary(
    x: Array, capacity: int, regularization: ArrayLike, key: PRNGKey
) -> DictionaryState:
    """The state before the first example; x [d] is one example."""
    return DictionaryState(
        dictionary=kors.empty(x, capacity),
        basis=jnp.zeros((capacity, capacity), x.dtype),
        inverse=jnp.eye(capacity, dtype=x.dtype) / regularization,
        weights=jnp.zeros(capacity, x.dtype),
        received=jnp.zeros((), jnp.int32),
        key=jax.random.key_data(key),
    )


def grow_dictionary(state: Any, capacity: int, regularization: ArrayLike) -> Any:
    """The same `DictionaryState` with capacity for that many inducing points."""
    extra = capacity - state.basis.shape[0]
    lam = jnp.asarray(regularization, state.basis.dtype)
    return replace(
        state,
        dictionary=kors.grow(state.dictionary, capacity),
        basis=jnp.pad(state.basis, (0, extra)),
        inverse=pad_identity(state.inverse * lam, capacity) / lam,
        weights=jnp.pad(state.weights, (0, extra)),
    )


def checked_example(kernel: Any, x: Any, size: Callable[[int], int], **capacities: int) -> Array:
    """One example x [d]. Raises ValueError where it is not one, where the kernel is not defined for
    it, and where a state of size(d) numbers with these capacities does not fit the memory."""
    checks.capacity(**capacities)
    x = checks.example(x)
    checks.kernel_inputs(kernel, x[None])
    checks.memory(size(len(x)), x.dtype, **capacities)
    return x


def takes(forecaster: Any) -> str:
    """The attribute `takes` of a forecaster (`jsketch.types.Forecaster`). Raises ValueError for a
    value that is not in TAKES."""
    checks.choice(TAKES, takes=forecaster.takes)
    return str(forecaster.takes)


def preview(forecaster: Any, state: Any, x: Array, key: PRNGKey) -> tuple[Array, Array]:
    """(the prediction y^ [] that `step` makes at x [d], whether the state has to grow first [])."""
    _, prediction, info = forecaster.step(state, x, jnp.full((), jnp.nan, x.dtype), key)
    return prediction, info.overflow


def preview_all(forecaster: Any, state: Any, xs: Array, key: PRNGKey) -> tuple[Array, Array]:
    """`preview` at every row of xs [n,d] from the same state: (predictions [n], whether the state
    has to grow for any row [])."""

    def one(x: Array) -> tuple[Array, Array]:
        return preview(forecaster, state, x, key)

    # where points join a dictionary, vmap would hold a state for every row
    sequential = takes(forecaster) == "growing blocks"
    predictions, overflow = lax.map(one, xs) if sequential else jax.vmap(one)(xs)
    return predictions, overflow.any()


def info_after(
    size: ArrayLike, y: Array, weights: Array, overflow: ArrayLike = False
) -> ForecastInfo:
    """The info of examples with labels y, after which the forecaster has `size` features or points
    and these weights."""
    nonfinite = jnp.isinf(y).any() | ~jnp.isfinite(weights).all()
    return ForecastInfo(jnp.asarray(size, jnp.int32), jnp.asarray(overflow, bool), nonfinite)

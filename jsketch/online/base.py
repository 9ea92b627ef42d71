"""Fields, checks and methods that several forecasters share, and previews of predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import lazy_cond, matmul, pad_identity
from jsketch.online import rounding
from jsketch.precision import one_dtype
from jsketch.sketch import kors, newton
from jsketch.sketch.kors import Arrival, Kors
from jsketch.types import Forecaster, ForecastInfo, PRNGKey

TAKES = ("examples", "blocks", "growing blocks")  # the values of `Forecaster.takes`


@struct.dataclass
@one_dtype
class KernelForecaster(Forecaster):
    """The base class of the forecasters in the space of a kernel."""

    kernel: Any  # a kernel of `jsketch.kernels`
    regularization: ArrayLike = 1.0  # lambda of PKAWV, alpha of the Newton steps

    def check_rounding(self, x: Array) -> bool:
        return rounding.warn_for_kernel(self.kernel, x, self.regularization)


@one_dtype
class GrowingBlocks(Forecaster):
    """The base class of the forecasters whose features change at some examples. A block ends before
    such an example. A single step is a block of one example."""

    takes = "growing blocks"

    def predict(self, state: Any, x: Array) -> Array:
        return self.advance(state, x[None], jnp.full((1,), jnp.nan, x.dtype), 1)[1][0]

    def step(self, state: Any, x: Array, y: Array, key: PRNGKey) -> tuple[Any, Array, ForecastInfo]:
        state, predictions, _, info = self.advance(state, x[None], jnp.asarray(y)[None], 1)
        return state, predictions[0], info

    def advance(
        self, state: Any, x: Array, y: Array, limit: ArrayLike
    ) -> tuple[Any, Array, Array, ForecastInfo]:
        """Predicts and learns at most `limit` [] examples of x [B,d], y [B] in order, and ends
        before the next example that changes the features.

        Returns (state, predictions y^ [B], done [] int32, info). The first `done` examples are
        learned, and only their predictions are valid; `done` is zero on overflow.
        """
        raise NotImplementedError


@struct.dataclass
class DictionaryState:
    """m of at most M inducing points I, and ridge regression in their orthonormal coordinates
    z(x) = basis k_I(x) (`sketch.newton`)."""

    dictionary: Kors
    basis: Array  # [M, M]; a row of zeros adds no coordinate
    inverse: Array  # [M, M], A^-1; A is lam I before the first example
    weights: Array  # [M]
    received: Array  # [] int32, t, the number of examples so far
    key: Array  # key data of the random numbers of KORS


def empty_dictionary(
    x: Array, capacity: int, regularization: ArrayLike, key: PRNGKey
) -> DictionaryState:
    """The state before the first example; x [d] is an example."""
    return DictionaryState(
        dictionary=kors.empty(x, capacity),
        basis=jnp.zeros((capacity, capacity), x.dtype),
        inverse=jnp.eye(capacity, dtype=x.dtype) / regularization,
        weights=jnp.zeros(capacity, x.dtype),
        received=jnp.zeros((), jnp.int32),
        key=jax.random.key_data(key),
    )


def grow_dictionary(state: Any, capacity: int, regularization: ArrayLike) -> Any:
    """The same `DictionaryState` with a larger capacity M."""
    extra = capacity - state.basis.shape[0]
    lam = jnp.asarray(regularization, state.basis.dtype)
    return replace(
        state,
        dictionary=kors.grow(state.dictionary, capacity),
        basis=jnp.pad(state.basis, (0, extra)),
        inverse=pad_identity(state.inverse * lam, capacity) / lam,
        weights=jnp.pad(state.weights, (0, extra)),
    )


def join_first(
    state: DictionaryState,
    arrival: Arrival,
    x: Array,
    points: Array,
    kernel: Any,
    posterior: Any,
    rotate: Callable[[Any, newton.Rotation], Any],
) -> tuple[newton.Coordinates, Array]:
    """(the result of `newton.join` for x [d], the first example of a block, with `posterior` as its
    state; the new z [B,M] of the block). `points` [M,d] are the inducing points after x arrived."""
    k, slot = arrival.k, state.dictionary.used
    # the column of x in the basis is still zero, so that these z are the old coordinates
    z = matmul(k, state.basis.T)
    diag = kernel.diag(x[None])[0]
    joined = newton.join(
        state.basis, slot, z[0], diag, kernel, points, posterior, rotate, arrival.joins
    )
    z = z + matmul(k, joined.dual)[:, None] * joined.direction[None, :]
    return joined, lazy_cond(joined.rebuilt, lambda z: matmul(k, joined.basis.T), z)


def checked_example(
    forecaster: Any, x: Any, size: Callable[[int], int], **capacities: int
) -> Array:
    """The array x [d]. Raises ValueError unless the settings are valid and x is one example for
    which the kernel is defined, and if a state with these capacities, which has size(d) numbers,
    exceeds the memory; warns if rounding errors are large."""
    checks.settings(forecaster)
    checks.positive_integer(**capacities)
    x = checks.example(x)
    checks.kernel_inputs(forecaster.kernel, x[None])
    checks.memory(size(len(x)), x.dtype, **capacities)
    forecaster.check_rounding(x)
    return x


def takes(forecaster: Any) -> str:
    """The attribute `takes` of a forecaster. Raises ValueError unless it is in TAKES."""
    checks.choice(TAKES, takes=forecaster.takes)
    return str(forecaster.takes)


def preview(forecaster: Any, state: Any, x: Array, key: PRNGKey) -> tuple[Array, Array]:
    """(the prediction y^ [] of `step` at x [d], whether the state must grow first [])."""
    _, prediction, info = forecaster.step(state, x, jnp.full((), jnp.nan, x.dtype), key)
    return prediction, info.overflow


def preview_all(forecaster: Any, state: Any, xs: Array, key: PRNGKey) -> tuple[Array, Array]:
    """`preview` at every row of xs [n,d] from the same state: (predictions [n], whether the state
    must grow for any row [])."""

    def preview_row(x: Array) -> tuple[Array, Array]:
        return preview(forecaster, state, x, key)

    # vmap would make a copy of the dictionary for every row
    sequential = takes(forecaster) == "growing blocks"
    predictions, overflow = lax.map(preview_row, xs) if sequential else jax.vmap(preview_row)(xs)
    return predictions, overflow.any()


def info_after(
    size: ArrayLike, y: Array, weights: Array, overflow: ArrayLike = False
) -> ForecastInfo:
    """The info of a block with labels y [B], after which the forecaster has `size` features or
    points, and `weights`."""
    nonfinite = jnp.isinf(y).any() | ~jnp.isfinite(weights).all()
    return ForecastInfo(jnp.asarray(size, jnp.int32), jnp.asarray(overflow, bool), nonfinite)

"""Fields, checks and methods that several forecasters share, and previews of predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.numerics import lazy_cond, matmul, pad_identity
from jsketch.online import rounding
from jsketch.results import Result, result
from jsketch.sketch import kors, newton
from jsketch.sketch.kors import Arrival, Kors
from jsketch.types import Forecaster, ForecastInfo, PRNGKey


@struct.dataclass
class KernelForecaster(Forecaster):
    """The base class of the forecasters in the space of a kernel."""

    kernel: Any = struct.component(components.KERNEL)  # a kernel of `jsketch.kernels`
    # lambda of PKAWV, alpha of the Newton steps
    regularization: ArrayLike = struct.number(1.0, above=0)

    def check_rounding(self, x: Array) -> bool:
        return rounding.warn_for_kernel(self.kernel, x, self.regularization)


class GrowingFeatures(Forecaster):
    """The base class of the forecasters whose features change when some examples arrive. A block
    ends before such an example, and begins with it. The prediction at x is made with the features
    after x has arrived."""

    def predict(self, state: Any, x: Array) -> Array:
        return self._preview_one(state, x)[0]

    def preview(self, state: Any, xs: Array) -> tuple[Array, Array]:
        # vmap would make a copy of the dictionary for every row
        predictions, exceeded = lax.map(lambda x: self._preview_one(state, x), xs)
        return predictions, exceeded.any()

    def _preview_one(self, state: Any, x: Array) -> tuple[Array, Array]:
        """(the prediction [] at x [d], whether x exceeds the capacity [])."""
        no_label = jnp.full((1,), jnp.nan, x.dtype)
        _, predictions, _, info = self.advance(state, x[None], no_label, 1)
        return predictions[0], info.result == Result.CAPACITY_EXCEEDED


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
    rotate: Callable[[Any, Array], Any],
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
    exceeds the memory."""
    checks.settings(forecaster)
    checks.positive_integer(**capacities)
    values, x = checks.known(x), checks.example(x)
    checks.kernel_on(forecaster.kernel, values[None])
    checks.memory(size(len(x)), x.dtype, **capacities)
    return x


def first_labels(y: Array, limit: ArrayLike) -> tuple[Array, Array]:
    """(the labels y [B], NaN from number `limit` [] on; the number [] int32 of the others), for a
    forecaster whose blocks end only at their limit."""
    count = jnp.minimum(jnp.asarray(limit, jnp.int32), len(y))
    return jnp.where(jnp.arange(len(y), dtype=jnp.int32) < count, y, jnp.nan), count


def info_after(
    size: ArrayLike, y: Array, weights: Array, exceeded: ArrayLike = False
) -> ForecastInfo:
    """The info of an example with the label y [], or of a block with labels y [B], after which the
    forecaster has `size` features or points, and `weights`. `exceeded` [] is true if the example
    exceeds the capacity."""
    sizes = jnp.broadcast_to(jnp.asarray(size, jnp.int32), jnp.shape(y))
    nonfinite = jnp.isinf(y).any() | ~jnp.isfinite(weights).all()
    # a mixture goes on with an expert that is not finite, and has to know if its block has ended
    code = jnp.where(
        exceeded, int(Result.CAPACITY_EXCEEDED), result((Result.NOT_FINITE, nonfinite))
    )
    return ForecastInfo(sizes, code)

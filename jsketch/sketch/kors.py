"""KORS: a growing dictionary of a stream, sampled by online ridge leverage scores.

Calandriello, Lazaric, Valko. Second-order kernel online convex optimization with adaptive
sketching. ICML 2017; PKAWV Appendix H.2 (THEORY 7.5). A point x joins the dictionary I with
probability p = min(1, beta tau), where tau is an upper estimate of its ridge leverage score at mu,
computed from the dictionary alone. With weights 1/sqrt(p_j) for the dictionary points and 1 for x,

    tau = (1 + eps) r / (mu + r),   r = k(x,x) - k_I(x)^T (K_II + mu diag(p))^-1 k_I(x).

The authors' code has weights 1/p_j, which give smaller scores and a third fewer points.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks, struct
from jsketch.numerics import lazy_cond, matmul, pad_identity, put, put_if
from jsketch.types import is_traced
from jsketch.warn import warn

LEAST_MU_EPS = 1000  # the least mu without a warning, in machine epsilons


def theory_beta(horizon: int, delta: float) -> float:
    """12 log(n / delta). If beta has this value and eps is 1/2, the projection error is below mu
    with probability at least 1 - delta."""
    return 12 * math.log(horizon / delta)


@struct.dataclass
class Kors:
    """A dictionary I of m <= M points, and L^-1 of K_II + mu diag(p) = L L^T, where weights="code"
    replaces p by p^2."""

    points: Array  # [M, d]
    inverse: Array  # [M, M], lower triangular; the identity beyond m
    used: Array  # [] int32, m


@struct.dataclass
class Sampling(struct.Settings):
    """The settings of KORS."""

    mu: ArrayLike = struct.number(1.0, above=0)  # regularization of the leverage scores
    beta: ArrayLike = struct.number(1.0, above=0)  # oversampling; `theory_beta` for the guarantee
    eps: ArrayLike = struct.number(0.5, at_least=0)  # accuracy of the scores
    weights: str = struct.choice("theory", of=("theory", "code"))  # or "code"


def check(sampling: Sampling, dtype: DTypeLike) -> None:
    """Raises ValueError for a setting out of its range; warns if mu is too small for the dtype."""
    checks.settings(sampling)
    if is_traced(sampling.mu):
        return
    # as a NumPy array, because a caller may be traced
    smallest_mu = np.min(np.asarray(sampling.mu))
    least_mu = LEAST_MU_EPS * float(jnp.finfo(dtype).eps)
    if smallest_mu < least_mu:
        warn(
            f"mu = {smallest_mu:g} is too small for {np.dtype(dtype).name}: below {least_mu:.0e}"
            " rounding errors exceed residuals, and points that the dictionary needs do not join."
            " Use float64 or a larger mu."
        )


def empty(x: Array, capacity: int) -> Kors:
    """A dictionary without points and with capacity M; x [d] is an example."""
    return Kors(
        points=jnp.zeros((capacity, *x.shape), x.dtype),
        inverse=jnp.eye(capacity, dtype=x.dtype),
        used=jnp.zeros((), jnp.int32),
    )


def cross(kors: Kors, kernel: Any, x: Array) -> Array:
    """The kernel values k_I(x), [B,M], of points x [B,d]; zero beyond column m."""
    in_use = jnp.arange(kors.points.shape[0], dtype=jnp.int32) < kors.used
    return jnp.where(in_use, kernel.gram(x, fill_unused(kors.points, kors.used, x[0])), 0)


def fill_unused(points: Array, used: Array, x: Array) -> Array:
    """The points [M,d] with x [d] in unused rows. Zeros in these rows could be far from all points,
    and change the mean, which kernels subtract."""
    return jnp.where(jnp.arange(points.shape[0], dtype=jnp.int32)[:, None] < used, points, x)


def fill_with_first(kors: Kors) -> Array:
    """The points [M,d] of the dictionary, with the first of them in unused rows."""
    return fill_unused(kors.points, kors.used, kors.points[0])


def scores(
    kors: Kors, kernel: Any, sampling: Sampling, x: Array, k: Array
) -> tuple[Array, Array, Array]:
    """(p [B], the rows [B,M] that points x [B,d] would add to L, r [B]), for k = k_I(x) [B,M]."""
    row = matmul(k, kors.inverse.T)
    residual = jnp.maximum(kernel.diag(x) - jnp.square(row).sum(-1), 0)
    return _probability(sampling, residual), row, residual


def _probability(sampling: Sampling, residual: Array) -> Array:
    """The probability p of a point with residual r, which may be negative by rounding."""
    residual = jnp.maximum(residual, 0)
    tau = (1 + sampling.eps) * residual / (sampling.mu + residual)
    return jnp.clip(sampling.beta * tau, 0, 1)


def draws(key: Array, first: Array, count: int, dtype: DTypeLike) -> Array:
    """The uniform random numbers [count] of the examples from number `first` on. Each depends only
    on the key data `key` and on the number of its example."""
    root = jax.random.wrap_key_data(key)
    numbers = first + jnp.arange(count, dtype=jnp.int32)
    return jax.vmap(lambda t: jax.random.uniform(jax.random.fold_in(root, t), dtype=dtype))(numbers)


class Arrival(NamedTuple):
    """The result of `receive`."""

    dictionary: Kors
    joins: Array  # [] bool, whether the first example joins
    full: Array  # [] bool, whether the first example would join a dictionary that is full
    k: Array  # [B, M], k_I of the examples, where I is the new dictionary
    next_join: Array  # [] int32, the position of the next example that joins; B if none does


def receive(
    kors: Kors, kernel: Any, sampling: Sampling, x: Array, draws: Array, allowed: ArrayLike = True
) -> Arrival:
    """The dictionary after the first example of a block x [B,d]. The example joins if its random
    number, in draws [B], is below its probability and `allowed` [] is true.

    The block takes one product with L^-1; if the first example joins, the product gets one more
    column.
    """
    k = cross(kors, kernel, x)
    probability, row, residual = scores(kors, kernel, sampling, x, k)
    selected = (draws[0] < probability[0]) & allowed
    full = selected & (kors.used >= kors.points.shape[0])
    joins = selected & ~full
    pivot = _pivot(sampling, probability[0], residual[0])
    dictionary = join(kors, sampling, x[0], probability[0], row[0], residual[0], joins)

    k_first = kernel.gram(x, x[:1])[:, 0]
    column = jnp.where(joins, (k_first - matmul(row, row[0])) / pivot, 0)
    probability = _probability(sampling, residual - jnp.square(column))
    positions = jnp.arange(len(x), dtype=jnp.int32)
    joins_later = (draws < probability) & (positions > 0)
    new_column = joins & (jnp.arange(k.shape[1], dtype=jnp.int32) == kors.used)
    return Arrival(
        dictionary=dictionary,
        joins=joins,
        full=full,
        k=jnp.where(new_column[None, :], k_first[:, None], k),
        next_join=jnp.where(joins_later, positions, len(x)).min(),
    )


def join(
    kors: Kors,
    sampling: Sampling,
    x: Array,
    probability: Array,
    row: Array,
    residual: Array,
    joins: Array,
) -> Kors:
    """The dictionary with x [d] added if `joins` [] is true; it must not be full. The arguments
    probability, row and residual come from `scores` at x."""
    # no product is computed if no point joins
    negative_row = lazy_cond(joins, lambda _: -matmul(row, kors.inverse), jnp.zeros_like(row))
    pivot = _pivot(sampling, probability, residual)
    inverse_row = put(negative_row, kors.used, jnp.ones((), x.dtype)) / pivot
    return Kors(
        points=put_if(joins, kors.points, kors.used, x),
        inverse=put_if(joins, kors.inverse, kors.used, inverse_row),
        used=kors.used + joins.astype(jnp.int32),
    )


def _pivot(sampling: Sampling, probability: Array, residual: Array) -> Array:
    """The diagonal entry of a new row of L."""
    noise = probability if sampling.weights == "theory" else jnp.square(probability)
    return jnp.sqrt(residual + sampling.mu * noise)


def grow(kors: Kors, capacity: int) -> Kors:
    """The same dictionary with a larger capacity."""
    extra = capacity - kors.points.shape[0]
    return replace(
        kors,
        points=jnp.pad(kors.points, ((0, extra), (0, 0))),
        inverse=pad_identity(kors.inverse, capacity),
    )

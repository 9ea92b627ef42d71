"""KORS: a dictionary of a stream that only grows, sampled by online ridge leverage scores.

Calandriello, Lazaric, Valko. Second-order kernel online convex optimization with adaptive
sketching. ICML 2017; PKAWV Appendix H.2 (THEORY 7.5). An arriving point joins with probability p =
min(1, beta tau), where tau overestimates its ridge leverage score at mu from the dictionary alone.
With dictionary points weighted by 1/sqrt(p_j) and x itself by one,

    tau = (1 + eps) r / (mu + r),   r = k(x,x) - k_I(x)^T (K_II + mu diag(p))^-1 k_I(x).

The authors' code has weights 1/p_j (THEORY 7.5): scores are smaller, and dictionaries have a third
fewer points.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks, struct
from jsketch.linalg import lazy_cond, matmul, pad_identity, put, put_if
from jsketch.types import is_traced
from jsketch.warn import warn

LEAST_MU_EPS = 1000  # the least mu, in rounding errors of k(x,x)


def theory_beta(horizon: int, delta: float) -> float:
    """beta = 12 log(n / delta): then eps = 1/2 keeps the projection error below mu with probability
    1 - delta."""
    return 12 * math.log(horizon / delta)


@struct.dataclass
class Kors:
    """m points of at most M, and L^-1 of K_II + mu diag(noise) = L L^T."""

    points: Array  # [M, d]
    inverse: Array  # [M, M], lower triangular; the identity beyond m
    used: Array  # [] int32, m


@struct.dataclass
class Sampling:
    """The settings of KORS."""

    mu: ArrayLike = 1.0  # regularization of the leverage scores
    beta: ArrayLike = 1.0  # oversampling; `theory_beta` for the guarantee
    eps: ArrayLike = 0.5  # accuracy of the scores
    weights: str = struct.field(pytree_node=False, default="theory")  # or "code"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"weights": ("theory", "code")}


def check(sampling: Sampling, dtype: DTypeLike) -> None:
    """Raises ValueError for a setting of KORS out of its range; warns where rounding errors decide
    residuals."""
    checks.settings(sampling)
    if is_traced(sampling.mu):
        return
    smallest, least = np.min(sampling.mu), LEAST_MU_EPS * float(jnp.finfo(dtype).eps)
    if smallest < least:
        warn(
            f"mu = {smallest:g} is too small for {np.dtype(dtype).name}: below {least:.0e} rounding"
            " errors hide residuals, and points that the dictionary needs do not join. Use float64"
            " or a larger mu."
        )


def empty(x: Array, capacity: int) -> Kors:
    """A dictionary without points and with capacity M; x [d] is one example."""
    return Kors(
        points=jnp.zeros((capacity, *x.shape), x.dtype),
        inverse=jnp.eye(capacity, dtype=x.dtype),
        used=jnp.zeros((), jnp.int32),
    )


def cross(kors: Kors, kernel: Any, x: Array) -> Array:
    """k_I(x), [B, M] for x [B,d], zero beyond m."""
    in_use = jnp.arange(kors.points.shape[0], dtype=jnp.int32) < kors.used
    return jnp.where(in_use, kernel.gram(x, fill_unused(kors.points, kors.used, x[0])), 0)


def fill_unused(points: Array, used: Array, x: Array) -> Array:
    """The points [M,d] with x [d] in unused rows: kernels subtract the mean of their points, and
    zeros may be far from all of them."""
    return jnp.where(jnp.arange(points.shape[0], dtype=jnp.int32)[:, None] < used, points, x)


def scores(
    kors: Kors, kernel: Any, sampling: Sampling, x: Array, k: Array
) -> tuple[Array, Array, Array]:
    """(p [B], the rows [B,M] that x would add to L, r [B]) for points x [B,d] with k = k_I(x)
    [B,M]."""
    row = matmul(k, kors.inverse.T)
    residual = jnp.maximum(kernel.diag(x) - jnp.square(row).sum(-1), 0)
    return _probability(sampling, residual), row, residual


def _probability(sampling: Sampling, residual: Array) -> Array:
    """p for a residual r, which may be below zero by rounding."""
    residual = jnp.maximum(residual, 0)
    tau = (1 + sampling.eps) * residual / (sampling.mu + residual)
    return jnp.clip(sampling.beta * tau, 0, 1)


def draws(key: Array, first: Array, count: int, dtype: DTypeLike) -> Array:
    """The uniform random numbers [count] of the examples from number `first` on, which depend on
    the number of the example alone; `key` is key data."""
    root = jax.random.wrap_key_data(key)
    numbers = first + jnp.arange(count, dtype=jnp.int32)
    return jax.vmap(lambda t: jax.random.uniform(jax.random.fold_in(root, t), dtype=dtype))(numbers)


class Arrival(NamedTuple):
    """A dictionary after the first of a block of examples has joined or not."""

    dictionary: Kors
    joins: Array  # [] bool, whether it joined
    full: Array  # [] bool, whether it would join, but the dictionary is full
    k: Array  # [B, M], k_I of the examples, with I the dictionary above
    until: Array  # [] int32, position of the next example that joins, B without one


def receive(
    kors: Kors, kernel: Any, sampling: Sampling, x: Array, draws: Array, allowed: ArrayLike = True
) -> Arrival:
    """x[0] of a block x [B,d] joins if its random number, of draws [B], is below its probability
    and the caller allows it (`allowed` []).

    The whole block takes one product with L^-1: a point that joins adds one column to it.
    """
    k = cross(kors, kernel, x)
    probability, row, residual = scores(kors, kernel, sampling, x, k)
    drawn = (draws[0] < probability[0]) & allowed
    full = drawn & (kors.used >= kors.points.shape[0])
    joins = drawn & ~full
    pivot = _pivot(sampling, probability[0], residual[0])
    dictionary = join(kors, sampling, x[0], probability[0], row[0], residual[0], joins)

    first = kernel.gram(x, x[:1])[:, 0]
    column = jnp.where(joins, (first - matmul(row, row[0])) / pivot, 0)
    probability = _probability(sampling, residual - jnp.square(column))
    slots = jnp.arange(len(x), dtype=jnp.int32)
    next_joins = (draws < probability) & (slots > 0)
    here = joins & (jnp.arange(k.shape[1], dtype=jnp.int32) == kors.used)
    return Arrival(
        dictionary=dictionary,
        joins=joins,
        full=full,
        k=jnp.where(here[None, :], first[:, None], k),
        until=jnp.where(next_joins, slots, len(x)).min(),
    )


def join(
    kors: Kors,
    sampling: Sampling,
    x: Array,
    probability: Array,
    row: Array,
    residual: Array,
    joins: ArrayLike = True,
) -> Kors:
    """The dictionary with x [d] if it `joins` [], for which there must be capacity; probability,
    row and residual as from `scores`."""
    joins = jnp.asarray(joins)
    # without a product where nothing joins
    back = lazy_cond(joins, lambda _: -matmul(row, kors.inverse), jnp.zeros_like(row))
    inverse_row = put(back, kors.used, jnp.ones((), x.dtype)) / _pivot(
        sampling, probability, residual
    )
    return Kors(
        points=put_if(joins, kors.points, kors.used, x),
        inverse=put_if(joins, kors.inverse, kors.used, inverse_row),
        used=kors.used + joins.astype(jnp.int32),
    )


def _pivot(sampling: Sampling, probability: Array, residual: Array) -> Array:
    """The pivot of a new row of L."""
    noise = probability if sampling.weights == "theory" else jnp.square(probability)
    return jnp.sqrt(residual + sampling.mu * noise)


def grow(kors: Kors, capacity: int) -> Kors:
    """The same dictionary with another capacity."""
    extra = capacity - kors.points.shape[0]
    return replace(
        kors,
        points=jnp.pad(kors.points, ((0, extra), (0, 0))),
        inverse=pad_identity(kors.inverse, capacity),
    )

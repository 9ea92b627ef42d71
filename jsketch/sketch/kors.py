"""KORS: a dictionary of a stream that only grows, sampled by online ridge leverage scores.

Calandriello, Lazaric, Valko. Second-order kernel online convex optimization with adaptive
sketching. ICML 2017; PKAWV Appendix H.2 (THEORY 7.5). An arriving point joins with probability p =
min(1, beta tau), where tau overestimates its ridge leverage score at mu from the dictionary alone.
With the dictionary weighted by 1/sqrt(p_j),

    tau = (1 + eps) r / (mu + r),   r = k(x,x) - k_I(x)^T (K_II + mu diag(p))^-1 k_I(x):

the point itself counts with weight one, which turns r into r / (1 + r / mu). The authors' code
weights by 1/p_j (THEORY 7.5): smaller scores, and dictionaries a third smaller.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks
from jsketch.linalg import matmul, pad_identity, put
from jsketch.types import is_traced
from jsketch.warn import warn

WEIGHTS = ("theory", "code")
LEAST_MU_EPS = 1000  # mu below so many rounding errors of k(x,x) is not served


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
    """The numbers of KORS."""

    mu: ArrayLike = 1.0  # regularization of the leverage scores
    beta: ArrayLike = 1.0  # oversampling; `theory_beta` for the guarantee
    eps: ArrayLike = 0.5  # accuracy of the scores
    weights: str = struct.field(pytree_node=False, default="theory")  # or "code"


def check(sampling: Sampling, dtype: DTypeLike) -> None:
    """Raises ValueError when a number of KORS is out of its range; warns where residuals are only
    rounding."""
    checks.positive(mu=sampling.mu, beta=sampling.beta)
    checks.nonnegative(eps=sampling.eps)
    checks.choice(WEIGHTS, weights=sampling.weights)
    if is_traced(sampling.mu):
        return
    smallest, least = np.min(sampling.mu), LEAST_MU_EPS * float(jnp.finfo(dtype).eps)
    if smallest < least:
        warn(
            f"mu = {smallest:g} is too small for {np.dtype(dtype).name}: below {least:.0e} rounding"
            " hides what the sketch misses, and points that it needs are not drawn. Use float64 or"
            " a larger mu.",
        )


def empty(x: Array, capacity: int) -> Kors:
    """No points yet, room for M = `capacity`; x [d] is one example."""
    return Kors(
        points=jnp.zeros((capacity, *x.shape), x.dtype),
        inverse=jnp.eye(capacity, dtype=x.dtype),
        used=jnp.zeros((), jnp.int32),
    )


def cross(kors: Kors, kernel: Any, x: Array) -> Array:
    """k_I(x), [B, M] for x [B,d], zero beyond m."""
    in_use = jnp.arange(kors.points.shape[0], dtype=jnp.int32) < kors.used
    return jnp.where(in_use, kernel.gram(x, filled(kors.points, kors.used, x[0])), 0)


def filled(points: Array, used: Array, x: Array) -> Array:
    """The points [M,d] with x [d] in unused rows: kernels centre what they are given, and zeros may
    be far from it all."""
    return jnp.where(jnp.arange(points.shape[0], dtype=jnp.int32)[:, None] < used, points, x)


def scores(
    kors: Kors, kernel: Any, sampling: Sampling, x: Array, k: Array
) -> tuple[Array, Array, Array]:
    """(p [B], row [B,M] of L, r [B]) of points x [B,d] that might arrive next, with k = k_I(x)
    [B,M]."""
    row = matmul(k, kors.inverse.T)
    rest = jnp.maximum(kernel.diag(x) - jnp.square(row).sum(-1), 0)
    tau = (1 + sampling.eps) * rest / (sampling.mu + rest)
    return jnp.clip(sampling.beta * tau, 0, 1), row, rest


def draws(key: Array, first: Array, count: int, dtype: DTypeLike) -> Array:
    """The uniform numbers [count] of the examples from the `first`-th on, each from its own number;
    `key` is key data."""
    root = jax.random.wrap_key_data(key)
    numbers = first + jnp.arange(count, dtype=jnp.int32)
    return jax.vmap(lambda t: jax.random.uniform(jax.random.fold_in(root, t), dtype=dtype))(numbers)


def next_join(
    kors: Kors, kernel: Any, sampling: Sampling, x: Array, k: Array, draws: Array
) -> Array:
    """The position [] of the first of x [B,d] that joins, B if there is none; x[0] has had its draw
    already."""
    slots = jnp.arange(len(draws), dtype=jnp.int32)
    joins = (draws < scores(kors, kernel, sampling, x, k)[0]) & (slots > 0)
    return jnp.where(joins, slots, len(draws)).min()


def join(
    kors: Kors, sampling: Sampling, x: Array, probability: Array, row: Array, rest: Array
) -> Kors:
    """The dictionary with x. There must be room."""
    noise = probability if sampling.weights == "theory" else jnp.square(probability)
    pivot = jnp.sqrt(rest + sampling.mu * noise)
    inverse_row = put(-matmul(row, kors.inverse), kors.used, jnp.ones((), x.dtype)) / pivot
    return Kors(
        points=put(kors.points, kors.used, x),
        inverse=put(kors.inverse, kors.used, inverse_row),
        used=kors.used + 1,
    )


def grow(kors: Kors, capacity: int) -> Kors:
    """The same dictionary with room for `capacity` points."""
    extra = capacity - kors.points.shape[0]
    return replace(
        kors,
        points=jnp.pad(kors.points, ((0, extra), (0, 0))),
        inverse=pad_identity(kors.inverse, capacity),
    )

"""The posterior after further pulls, from the posterior before them (THEORY 9.6).

The function `update_low_rank` returns what `posterior.update` returns, up to rounding, in O(A m)
for a pulled arm in place of O(A m^2 + m^3). It needs all pulled arms in the dictionary, as the
default rule of the dictionary keeps them. The sketch is then the exact posterior, so that

- a point that joins the dictionary, before its own pulls count, changes no mean and no variance.
  It appends one column to R, and V is lam there;
- n pulls of an arm x_j change V by n z z^T. The change is one column u(x).u(x_j), by the formula of
  Sherman and Morrison.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import numerics
from jsketch.core.posterior import Posterior, embed
from jsketch.numerics import (
    count,
    gram_product,
    matmul,
    part,
    positions,
    put,
    put_if,
    skip_on_cpu,
    sweep,
    take,
    trip_count,
)

MOST = 64  # pulled arms of a batch above which `update` is faster
TOGETHER = 4  # pulled arms that share one pass over all arms
# The least residual of a point that joins, relative to the largest k(x,x). A smaller residual would
# amplify rounding errors by its inverse
LEAST_RESIDUAL = 1e-4


def needs_rebuild(counts: Array, further: Array) -> Array:
    """Whether `posterior.update` computes the posterior after these pulls, [] bool, given the
    counts [A] before them and the `further` counts [A] after them.

    Rounding errors add up from update to update. The test of `update_low_rank` compares two
    numbers that have the same earlier errors, and does not see them, above all where one arm is
    pulled again and again. The posterior is therefore computed from scratch once in 0.1 / sqrt(eps)
    pulls: in 289 pulls in float32, and in 6.7 million in float64 (THEORY 9.6).
    """
    period = 0.1 / float(jnp.finfo(counts.dtype).eps) ** 0.5
    return jnp.floor(counts.sum() / period) != jnp.floor(further.sum() / period)


class _Pulls(NamedTuple):
    """The arms of a pass over all arms, and their new pulls: 0 in a slot that is not in use. They
    are read together, because XLA gathers an array [A] from several devices to read one entry."""

    point: Array  # [b, d]
    pulls: Array  # [b]
    reward: Array  # [b], sum of the new rewards
    is_new: Array  # [b] bool, whether the arm joins the dictionary


class _Pulled(NamedTuple):
    """The columns of the pulled arms of a pass over all arms."""

    columns: Array  # [M, b], k_S(x) @ columns are the covariances u(x).u(x_j)
    gain: Array  # [b], what one unit of covariance adds to the mean
    loss: Array  # [b], what one unit of squared covariance subtracts from the variance


def update_low_rank(
    kernel: Any,
    regularization: ArrayLike,
    posterior: Posterior,
    x: Array,
    pulls: Array,
    rewards: Array,
    added: Array,
    most_arms: int = MOST,
) -> tuple[Posterior, Array]:
    """(posterior, whether it is accurate []) after further pulls of at most `most_arms` arms.

    kernel          k, a kernel of `jsketch.kernels`
    regularization  lam > 0
    posterior       the posterior before the pulls, whose dictionary has all arms pulled before
    x               arms [A, d]
    pulls           [A], new pulls of each arm
    rewards         [A], sum of the new rewards of each arm
    added           [A] bool, which of the pulled arms join the dictionary
    most_arms       static, at most this number of arms has new pulls

    The posterior is not accurate, and has no meaning, if a joining point depends almost linearly on
    the dictionary, if it does not fit the capacity, or if the variances of the pulled arms, which
    are computed in two ways, differ by more than the square root of the precision of the dtype:
    `posterior.update` then computes the posterior.

    Example:

        new, accurate = update_low_rank(kernel, 0.01, posterior, x, pulls, rewards, pulls > 0)
    """
    lam, capacity = jnp.asarray(regularization, x.dtype), posterior.capacity
    slots = jnp.arange(capacity, dtype=jnp.int32)
    together, most_arms = min(TOGETHER, most_arms), min(most_arms, len(x))
    index = positions(pulls > 0, -(-most_arms // together) * together)
    n_arms = count(index < len(x))
    index = jnp.where(index < len(x), index, 0)
    largest_prior = kernel.diag(x).max()

    def pull(j: Array, carry: tuple[Posterior, _Pulled, Array, _Pulls]) -> Any:
        p, pulled, accurate, arms = carry
        point, n, reward, is_new = (take(leaf, j) for leaf in arms)

        # a CPU joins new points only (`skip_on_cpu`)
        write = partial(put_if, is_new) if numerics.on_accelerator() else put

        def join(carry: tuple[Posterior, Array]) -> tuple[Posterior, Array]:
            """A new point joins: a column of R, and V^-1/2 = 1/sqrt(lam) in its slot."""
            p, accurate = carry
            size = jnp.minimum(p.rank, capacity - 1)
            points = write(p.points, size, point)
            k = kernel.gram(point[None], points)[0]
            z = matmul(k, p.root)
            rest = kernel.diag(point[None])[0] - matmul(z, z)
            fits = (p.rank < capacity) & (rest >= LEAST_RESIDUAL * largest_prior)
            column = ((slots == size).astype(x.dtype) - matmul(p.root, z)) / jnp.sqrt(rest)
            gram = p.gram
            if gram is not None:
                gram = write(gram, size, kernel.gram(x, point[None])[:, 0], axis=1)
            root = write(p.root, size, column, axis=1)
            dual = write(p.dual, size, column / jnp.sqrt(lam), axis=1)
            joined = replace(p, points=points, root=root, dual=dual, gram=gram)
            return joined, accurate & (~is_new | fits)

        p, accurate = skip_on_cpu(is_new, join, (p, accurate))

        # n pulls: (I - h u u^T)^2 = I - n u u^T / (1 + n u.u)
        k = kernel.gram(point[None], p.points)[0]
        u = matmul(k, p.dual)
        covariances = matmul(p.dual, u)
        scale = 1 / (1 + n * matmul(u, u))
        gain = (reward - n * matmul(k, p.weights)) * scale
        h = n * scale / (1 + jnp.sqrt(scale))
        p = replace(
            p,
            dual=p.dual - (h * covariances)[:, None] * u[None, :],
            weights=p.weights + gain * covariances,
            logdet=p.logdet - jnp.log(scale),
        )
        pulled = _Pulled(
            columns=put(pulled.columns, j, covariances, axis=1),
            gain=put(pulled.gain, j, gain),
            loss=put(pulled.loss, j, n * scale),
        )
        return p, pulled, accurate, arms

    def block(i: Array, carry: tuple[Posterior, Array]) -> tuple[Posterior, Array]:
        p, accurate = carry
        arm = part(index, i * together, together)
        zeros = jnp.zeros(together, x.dtype)
        start = _Pulled(jnp.zeros((capacity, together), x.dtype), zeros, zeros)
        in_block = jnp.clip(n_arms - i * together, 0, together)
        valid = jnp.arange(together, dtype=jnp.int32) < in_block
        arms = _Pulls(
            point=take(x, arm),
            pulls=jnp.where(valid, take(pulls, arm), 0),
            reward=jnp.where(valid, take(rewards, arm), 0),
            is_new=valid & take(added, arm),
        )
        p, pulled, accurate, _ = lax.fori_loop(
            0, trip_count(in_block), pull, (p, start, accurate, arms)
        )

        def change(covariances: Array) -> tuple[Array, Array]:
            return matmul(covariances, pulled.gain), matmul(jnp.square(covariances), pulled.loss)

        def change_of(x: Array) -> tuple[Array, Array]:
            return change(gram_product(kernel, x, p.points, pulled.columns, p.rank))

        if p.gram is None:
            gain, loss = sweep(change_of, x, capacity)
        else:
            gain, loss = change(matmul(p.gram, pulled.columns))
        variance = jnp.maximum(p.variance - loss, 0)
        # the variances of pulled arms are small, and a difference would lose their digits
        exact = jnp.square(embed(p, kernel, arms.point)).sum(1)
        error = jnp.where(valid, jnp.abs(take(variance, arm) - exact), 0)
        tolerance = jnp.sqrt(jnp.finfo(x.dtype).eps) * variance.max()
        place = jnp.where(valid, arm, len(x))
        variance = variance.at[place].set(exact, mode="drop")
        accurate = accurate & (error.max() <= tolerance)
        return replace(p, mean=p.mean + gain, variance=variance), accurate

    blocks = trip_count(-(-n_arms // together))
    return lax.fori_loop(0, blocks, block, (posterior, jnp.ones((), bool)))

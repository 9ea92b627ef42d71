"""The refresh of a dictionary to which the pulled arms were added: updates of low rank instead of
a posterior from scratch (THEORY 9.7).

An added point appends one column to the root R of K_S^+ = R R^T and one to the whitening W, V^-1 =
W W^T. A pull changes V^-1 by rank one. For a block of b pulled arms, all of this is products with b
columns, O(M^2 b), and the means and variances of all arms follow by one pass of kernel values,
O(A M (d + b)). Nothing costs M^3 or A M^2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.linalg import map_rows, matmul, put
from jsketch.sketch import dictionary as dictionaries
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.nystrom import POINTS, Nystrom, dual_products
from jsketch.types import Kernel

if TYPE_CHECKING:
    from jsketch.bandits.core.sketched import SketchState

# A point whose residual is a smaller part of the prior variance amplifies rounding errors by its
# inverse: the round is then refreshed from scratch.
LEAST_RESIDUAL = 1e-4
BLOCK = 4  # most pulled arms of one pass over all arms

State = TypeVar("State", bound="SketchState")


class Pulled(NamedTuple):
    """A block of distinct arms that were pulled in a batch."""

    arm: Array  # [b] int32
    valid: Array  # [b] bool
    pulls: Array  # [b], new pulls
    rewards: Array  # [b], their sums


def refresh(
    state: State,
    pull_counts: Array,
    reward_sums: Array,
    kernel: Kernel,
    regularization: ArrayLike,
    most: int = BLOCK,
) -> tuple[State, Array, Array]:
    """(state, whether its numbers are accurate [], whether its dictionary fits the capacity [])
    after the pull counts and reward sums [A] of a batch of at most `most` arms, with the pulled
    arms in the dictionary, as far as they are not in its span.

    The numbers of `sketched.refresh` with that dictionary, up to rounding.
    """
    rows = state.domain.rows
    pulled = rows.running_count(pull_counts > state.pull_counts)
    before = state.pull_counts, state.reward_sums
    size = min(BLOCK, most)

    def block(i: Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, accurate, fits = carry
        index, valid = rows.compact(pulled, i * size, size)
        pulls = rows.take(pull_counts, index) - rows.take(before[0], index)
        rewards = rows.take(reward_sums, index) - rows.take(before[1], index)
        some = Pulled(index, valid, jnp.where(valid, pulls, 0), jnp.where(valid, rewards, 0))
        state, well_conditioned, fitting = add(state, some, kernel, regularization)
        return state, accurate & well_conditioned, fits & fitting

    count = -(-rows.total(pulled) // size)
    true = jnp.ones((), bool)
    state, accurate, fits = lax.fori_loop(0, count, block, (state, true, true))
    # sums, and not sums of differences
    state = replace(state, pull_counts=pull_counts, reward_sums=reward_sums)
    evidence = replace(
        state.evidence,
        count=rows.sum(pull_counts.sum()),
        variance_sum=rows.sum(matmul(pull_counts, state.variance)),
    )
    return replace(state, evidence=evidence), accurate, fits


def add(
    state: State, pulled: Pulled, kernel: Kernel, regularization: ArrayLike
) -> tuple[State, Array, Array]:
    """`refresh` after the pulls of one block."""
    rows, arms = state.domain.rows, state.domain.features
    dictionary, nystrom = state.dictionary, state.nystrom
    x, size = rows.take(arms, pulled.arm), len(pulled.arm)
    same = (pulled.arm[:, None] == dictionary.index[None]) & dictionary.mask[None]
    new = pulled.valid & ~same.any(1)

    # R: the Schur complement of the new points, whose root appends columns
    z = matmul(kernel.gram(x, nystrom.points), nystrom.root)
    gram = kernel.gram(x, x)
    eps = jnp.finfo(arms.dtype).eps
    cut = state.capacity * eps * state.evidence.prior_variance
    root, added = _root_with_cut(gram - matmul(z, z.T), new, cut)
    pivots = jnp.where(added, jnp.square(jnp.diagonal(root)), jnp.inf)
    accurate = jnp.min(pivots) >= LEAST_RESIDUAL * state.evidence.prior_variance
    slot = dictionary.size + jnp.cumsum(added, dtype=jnp.int32) - 1
    slots = jnp.arange(state.capacity, dtype=jnp.int32)
    fits = ~(added & (slot >= state.capacity)).any()
    # [b, M], the slot of each added point
    place = ((slot[:, None] == slots[None]) & added[:, None]).astype(arms.dtype)
    taken = place.any(0)
    points = jnp.where(taken[:, None], matmul(place.T, x), nystrom.points)
    index = jnp.where(taken, _chosen(place, pulled.arm), dictionary.index)
    z = jnp.where(added[:, None], z, 0)
    columns = _solve(root, place - matmul(z, nystrom.root.T)).T
    columns = jnp.where(added[None], columns, 0)
    # [M, b], the feature of an added point is k_S(x) @ column
    inverse_root = nystrom.root + matmul(columns, place)

    # W: the new features at pulled arms outside of the dictionary
    moments = _outside(state, kernel, points, columns)
    along = matmul(state.whiten.T, matmul(nystrom.root.T, moments.gram))
    lam = jnp.asarray(regularization, arms.dtype)
    own = moments.own + lam * jnp.eye(size, dtype=arms.dtype)
    complement, _ = _root_with_cut(own - matmul(along.T, along), added, jnp.zeros((), arms.dtype))
    appended = _solve(complement, place - matmul(state.whiten, along).T).T
    appended = jnp.where(added[None], appended, 0)
    # the column of a free slot is that of an unobserved direction, 1/sqrt(lam) e
    whiten = jnp.where(taken[None], 0, state.whiten) + matmul(appended, place)
    values = _solve(complement, (moments.rewards - matmul(along.T, state.weights))[:, None])[:, 0]
    weights = state.weights + matmul(jnp.where(added, values, 0), place)
    diagonal = jnp.where(added, jnp.diagonal(complement), jnp.sqrt(lam))
    logdet = state.evidence.logdet + 2 * jnp.log(diagonal / jnp.sqrt(lam)).sum()

    # the pulls, hallucinated all together: V^-1 = W H H^T W^T with H = I - Q^T B Q
    u = matmul(matmul(kernel.gram(x, points), inverse_root), whiten)
    scale = jnp.sqrt(pulled.pulls)
    scaled = scale[:, None] * u
    identity = jnp.eye(size, dtype=arms.dtype)
    lower, _ = _root_with_cut(
        identity + matmul(scaled, scaled.T), jnp.ones(size, bool), jnp.zeros((), arms.dtype)
    )
    half = _solve(lower, scaled)  # [b, M], covariances that the pulls explain
    other = _solve(lower + identity, scaled)  # H = I - half^T @ other
    explained = matmul(whiten, half.T)
    new_whiten = whiten - matmul(explained, other)
    moment = weights + matmul(pulled.rewards, u)
    weights = moment - matmul(matmul(half, moment), other)
    logdet = logdet + 2 * jnp.log(jnp.diagonal(lower)).sum()

    # all arms: one pass
    dual = matmul(inverse_root, matmul(new_whiten, weights))
    gained = matmul(inverse_root, appended)
    lost = matmul(inverse_root, explained)
    reads = jnp.concatenate([dual[:, None], columns, gained, lost], axis=1)

    used = dictionary.size + added.sum(dtype=jnp.int32)

    def chunk(y: Array) -> tuple[Array, Array]:
        read = dual_products(kernel, y, points, reads, used)
        squares = jnp.square(read)
        residual, embedded, lost = (
            squares[:, 1 + i * size : 1 + (i + 1) * size].sum(1) for i in range(3)
        )
        return read[:, 0], embedded - residual / lam - lost

    mean, difference = map_rows(chunk, arms, min(POINTS, state.capacity))
    variance = jnp.maximum(state.variance + difference, 0)
    # the variances of the pulled arms are small, and computed without a difference
    exact = jnp.square(u - matmul(matmul(u, half.T), other)).sum(1)
    number = arms.shape[0]
    row = jnp.where(pulled.valid, rows.local(pulled.arm, number), number)
    inside = jnp.where(added | same.any(1), row, number)
    variance = variance.at[inside].set(exact, mode="drop")
    pull_counts = state.pull_counts.at[row].add(pulled.pulls, mode="drop")
    reward_sums = state.reward_sums.at[row].add(pulled.rewards, mode="drop")
    evidence = replace(
        state.evidence,
        logdet=logdet,
        residual_sum=jnp.maximum(
            state.evidence.residual_sum - jnp.trace(jnp.where(added, moments.own, 0)), 0
        ),
    )
    new_state = replace(
        state,
        pull_counts=pull_counts,
        reward_sums=reward_sums,
        dictionary=Dictionary(index, dictionary.mask | taken),
        nystrom=Nystrom(points=points, root=inverse_root),
        whiten=new_whiten,
        weights=weights,
        mean=mean,
        variance=variance,
        evidence=evidence,
    )
    return new_state, accurate, fits


class _Moments(NamedTuple):
    """Sums over the pulled arms outside the dictionary, of the features zeta of the new points."""

    gram: Array  # [M, b], sum_i n_i k_S(x_i) zeta_i^T
    own: Array  # [b, b], sum_i n_i zeta_i zeta_i^T
    rewards: Array  # [b], sum_i s_i zeta_i


def _outside(state: SketchState, kernel: Kernel, points: Array, columns: Array) -> _Moments:
    """The moments of the features k_S(x) @ columns [M,b], of the pulled arms outside the old
    dictionary; none while all pulled arms are in it."""
    domain, rows = state.domain, state.domain.rows

    def add_arms(before: _Moments, index: Array, pulls: Array, rewards: Array) -> _Moments:
        k = kernel.gram(rows.take(domain.features, index), points)
        zeta = matmul(k, columns)
        weighted = pulls[:, None] * zeta
        return _Moments(
            before.gram + matmul(k.T, weighted),
            before.own + matmul(zeta.T, weighted),
            before.rewards + matmul(rewards, zeta),
        )

    dtype, width = columns.dtype, columns.shape[1]
    start = _Moments(
        jnp.zeros_like(columns), jnp.zeros((width, width), dtype), jnp.zeros(width, dtype)
    )
    history = state.pull_counts, state.reward_sums
    return dictionaries.sum_outside(state.dictionary, *history, add_arms, start, domain.count, rows)


def _chosen(place: Array, index: Array) -> Array:
    """The arm [M] int32 of each slot, 0 where place [b,M] is 0."""
    return jnp.where(place > 0, index[:, None], 0).sum(0).astype(jnp.int32)


@jax.jit  # traced once for all calls
def _solve(lower: Array, right: Array) -> Array:
    """lower^-1 @ right for lower [b,b] and right [b,M], written in products: after a call of LAPACK
    the products of a program would run on one core."""

    def row(j: Array, solution: Array) -> Array:
        return put(solution, j, (right[j] - matmul(lower[j], solution)) / lower[j, j])

    return lax.fori_loop(0, len(lower), row, jnp.zeros_like(right))


@jax.jit
def _root_with_cut(matrix: Array, wanted: Array, cut: Array) -> tuple[Array, Array]:
    """(L [b,b], the rows [b] bool that it factors) of the wanted rows of a matrix [b,b] whose
    pivots exceed the cut; the identity in the others."""
    slots = jnp.arange(len(matrix), dtype=jnp.int32)

    def column(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        lower, used = carry
        rest = matrix[:, j] - matmul(lower, lower[j])
        use = wanted[j] & (rest[j] > cut)
        below = jnp.where((slots >= j) & wanted, rest / jnp.sqrt(rest[j]), 0)
        unit = (slots == j).astype(matrix.dtype)
        lower = put(lower, j, jnp.where(use, lower[j], 0))
        column = jnp.where(use, below, unit)
        return lax.dynamic_update_index_in_dim(lower, column, j, 1), put(used, j, use)

    start = jnp.zeros_like(matrix), jnp.zeros_like(wanted)
    return lax.fori_loop(0, len(matrix), column, start)

"""The low-rank refresh of a posterior whose dictionary gains the pulled arms (THEORY 9.7).

An added point appends one column to the root R of K_S^+ = R R^T, and one to the root W of
V^-1 = W W^T (V as in `posterior.ridge`). A pull changes V^-1 by rank one. A block of b pulled arms
takes products with b columns, O(M^2 b), and one pass over the kernel values of all arms,
O(A M (d + b)). A refresh from scratch takes O(M^3) and O(A M^2) instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.linalg import map_rows, matmul, put, solve_lower
from jsketch.sketch import dictionary as dictionaries
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.nystrom import POINTS, Nystrom, dual_products
from jsketch.types import Kernel

if TYPE_CHECKING:
    from jsketch.bandits.core.sketched import SketchState

# The least residual of an added point, relative to the prior variance. A smaller residual would
# amplify rounding errors by its inverse; the posterior is then recomputed from scratch.
LEAST_RESIDUAL = 1e-4
BLOCK = 4  # pulled arms in a block; each block takes one pass over all arms

State = TypeVar("State", bound="SketchState")


class PulledArms(NamedTuple):
    """A block of distinct arms that were pulled in a batch."""

    arm: Array  # [b] int32
    valid: Array  # [b] bool
    pulls: Array  # [b], number of new pulls
    reward_sums: Array  # [b], sums of the new rewards


def refresh(
    state: State,
    pull_counts: Array,
    reward_sums: Array,
    kernel: Kernel,
    regularization: ArrayLike,
    max_arms: int = BLOCK,
) -> tuple[State, Array, Array]:
    """(state, whether it is accurate [], whether its dictionary fits the capacity []) after a batch
    of at most `max_arms` arms, given the new pull counts and reward sums [A]. The pulled arms
    outside the span of the dictionary join it. Up to rounding errors the state is the result of
    `sketched.refresh` with the new dictionary."""
    rows = state.domain.rows
    cumulative = rows.running_count(pull_counts > state.pull_counts)
    counts_before, sums_before = state.pull_counts, state.reward_sums
    size = min(BLOCK, max_arms)

    def add_block(i: Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, accurate, fits = carry
        index, valid = rows.compact(cumulative, i * size, size)
        pulls = rows.take(pull_counts, index) - rows.take(counts_before, index)
        rewards = rows.take(reward_sums, index) - rows.take(sums_before, index)
        pulled = PulledArms(index, valid, jnp.where(valid, pulls, 0), jnp.where(valid, rewards, 0))
        state, block_accurate, block_fits = add_arms(state, pulled, kernel, regularization)
        return state, accurate & block_accurate, fits & block_fits

    blocks = -(-rows.total(cumulative) // size)
    true = jnp.ones((), bool)
    state, accurate, fits = lax.fori_loop(0, blocks, add_block, (state, true, true))
    # the sums of the blocks have rounding errors
    state = replace(state, pull_counts=pull_counts, reward_sums=reward_sums)
    evidence = replace(
        state.evidence,
        count=rows.sum(pull_counts.sum()),
        variance_sum=rows.sum(matmul(pull_counts, state.variance)),
    )
    return replace(state, evidence=evidence), accurate, fits


def add_arms(
    state: State, pulled: PulledArms, kernel: Kernel, regularization: ArrayLike
) -> tuple[State, Array, Array]:
    """`refresh` for one block of arms, except that `count` and `variance_sum` are not updated."""
    rows, arms = state.domain.rows, state.domain.features
    dictionary, nystrom = state.dictionary, state.nystrom
    x, size = rows.take(arms, pulled.arm), len(pulled.arm)
    matches = (pulled.arm[:, None] == dictionary.index[None]) & dictionary.mask[None]
    is_new = pulled.valid & ~matches.any(1)

    # R: the appended columns need the root of the Schur complement of the new points
    z = matmul(kernel.gram(x, nystrom.points), nystrom.root)
    gram = kernel.gram(x, x)
    eps = jnp.finfo(arms.dtype).eps
    least_pivot = state.capacity * eps * state.evidence.prior_variance
    root, added = _partial_cholesky(gram - matmul(z, z.T), is_new, least_pivot)
    pivots = jnp.where(added, jnp.square(jnp.diagonal(root)), jnp.inf)
    accurate = jnp.min(pivots) >= LEAST_RESIDUAL * state.evidence.prior_variance
    slot = dictionary.size + jnp.cumsum(added, dtype=jnp.int32) - 1
    slots = jnp.arange(state.capacity, dtype=jnp.int32)
    fits = ~(added & (slot >= state.capacity)).any()
    # [b, M], 1 at the slot of each added point
    place = ((slot[:, None] == slots[None]) & added[:, None]).astype(arms.dtype)
    filled = place.any(0)
    points = jnp.where(filled[:, None], matmul(place.T, x), nystrom.points)
    new_index = jnp.where(place > 0, pulled.arm[:, None], 0).sum(0).astype(jnp.int32)
    index = jnp.where(filled, new_index, dictionary.index)
    z = jnp.where(added[:, None], z, 0)
    # [M, b]; `k_S(x) @ columns` are the new features of x, one for each added point
    columns = _solve(root, place - matmul(z, nystrom.root.T)).T
    columns = jnp.where(added[None], columns, 0)
    inverse_root = nystrom.root + matmul(columns, place)

    # W: the appended columns depend on the new features of the pulled arms outside the dictionary
    moments = _moments_outside(state, kernel, points, columns)
    cross = matmul(state.whiten.T, matmul(nystrom.root.T, moments.cross))
    lam, zero = jnp.asarray(regularization, arms.dtype), jnp.zeros((), arms.dtype)
    block = moments.gram + lam * jnp.eye(size, dtype=arms.dtype)  # the block of V of added points
    complement, _ = _partial_cholesky(block - matmul(cross.T, cross), added, zero)
    appended = _solve(complement, place - matmul(state.whiten, cross).T).T
    appended = jnp.where(added[None], appended, 0)
    # an appended column replaces the column of a free slot, a unit vector divided by sqrt(lam)
    whiten = jnp.where(filled[None], 0, state.whiten) + matmul(appended, place)
    remainder = moments.rewards - matmul(cross.T, state.weights)
    new_weights = _solve(complement, remainder[:, None])[:, 0]
    weights = state.weights + matmul(jnp.where(added, new_weights, 0), place)
    diagonal = jnp.where(added, jnp.diagonal(complement), jnp.sqrt(lam))
    logdet = state.evidence.logdet + 2 * jnp.log(diagonal / jnp.sqrt(lam)).sum()

    # all pulls at once: the new V^-1 is W H H^T W^T with H = I - left^T @ right
    u = matmul(matmul(kernel.gram(x, points), inverse_root), whiten)
    scale = jnp.sqrt(pulled.pulls)
    scaled = scale[:, None] * u
    identity = jnp.eye(size, dtype=arms.dtype)
    noisy = identity + matmul(scaled, scaled.T)
    lower, _ = _partial_cholesky(noisy, jnp.ones(size, bool), zero)
    left = _solve(lower, scaled)  # [b, M]; the pulls subtract |left u(x)|^2 from the variance of x
    right = _solve(lower + identity, scaled)
    explained = matmul(whiten, left.T)
    new_whiten = whiten - matmul(explained, right)
    moment = weights + matmul(pulled.reward_sums, u)
    weights = moment - matmul(matmul(left, moment), right)
    logdet = logdet + 2 * jnp.log(jnp.diagonal(lower)).sum()

    # one pass computes the means of all arms and the changes of their variances
    dual = matmul(inverse_root, matmul(new_whiten, weights))
    gain_columns = matmul(inverse_root, appended)
    loss_columns = matmul(inverse_root, explained)
    dual_columns = jnp.concatenate([dual[:, None], columns, gain_columns, loss_columns], axis=1)

    n_inducing = dictionary.size + added.sum(dtype=jnp.int32)

    def predict_chunk(chunk: Array) -> tuple[Array, Array]:
        products = dual_products(kernel, chunk, points, dual_columns, n_inducing)
        squares = jnp.square(products)
        residual, gain, loss = (
            squares[:, 1 + i * size : 1 + (i + 1) * size].sum(1) for i in range(3)
        )
        return products[:, 0], gain - residual / lam - loss

    mean, difference = map_rows(predict_chunk, arms, min(POINTS, state.capacity))
    variance = jnp.maximum(state.variance + difference, 0)
    # the variances of pulled inducing arms are small, and a difference would lose their digits
    exact_variance = jnp.square(u - matmul(matmul(u, left.T), right)).sum(1)
    n_rows = arms.shape[0]  # a row out of range: values there are dropped
    row = jnp.where(pulled.valid, rows.local(pulled.arm, n_rows), n_rows)
    inducing_row = jnp.where(added | matches.any(1), row, n_rows)
    variance = variance.at[inducing_row].set(exact_variance, mode="drop")
    pull_counts = state.pull_counts.at[row].add(pulled.pulls, mode="drop")
    reward_sums = state.reward_sums.at[row].add(pulled.reward_sums, mode="drop")
    gained_sum = jnp.trace(jnp.where(added, moments.gram, 0))
    residual_sum = jnp.maximum(state.evidence.residual_sum - gained_sum, 0)
    evidence = replace(state.evidence, logdet=logdet, residual_sum=residual_sum)
    new_state = replace(
        state,
        pull_counts=pull_counts,
        reward_sums=reward_sums,
        dictionary=Dictionary(index, dictionary.mask | filled),
        nystrom=Nystrom(points=points, root=inverse_root),
        whiten=new_whiten,
        weights=weights,
        mean=mean,
        variance=variance,
        evidence=evidence,
    )
    return new_state, accurate, fits


class _Moments(NamedTuple):
    """Sums over the arms i that were pulled before this block and are outside the dictionary, with
    n_i pulls, reward sums s_i and new features zeta_i [b], one for each added point."""

    cross: Array  # [M, b], sum_i n_i k_S(x_i) zeta_i^T
    gram: Array  # [b, b], sum_i n_i zeta_i zeta_i^T
    rewards: Array  # [b], sum_i s_i zeta_i


def _moments_outside(state: SketchState, kernel: Kernel, points: Array, columns: Array) -> _Moments:
    """The moments of the new features `k_S(x) @ columns` of the pulled arms outside the old
    dictionary; `columns` is [M,b], and S includes the added points."""
    domain, rows = state.domain, state.domain.rows

    def add(sums: _Moments, index: Array, pulls: Array, rewards: Array) -> _Moments:
        k = kernel.gram(rows.take(domain.features, index), points)
        zeta = matmul(k, columns)
        weighted = pulls[:, None] * zeta
        return _Moments(
            sums.cross + matmul(k.T, weighted),
            sums.gram + matmul(zeta.T, weighted),
            sums.rewards + matmul(rewards, zeta),
        )

    dtype, size = columns.dtype, columns.shape[1]
    zeros = jnp.zeros((size, size), dtype)
    start = _Moments(cross=jnp.zeros_like(columns), gram=zeros, rewards=zeros[0])
    return dictionaries.sum_outside(state, add, start)


_solve = jax.jit(solve_lower)  # traced once for all calls


@jax.jit
def _partial_cholesky(matrix: Array, mask: Array, least_pivot: Array) -> tuple[Array, Array]:
    """(L [b,b], which rows are factored [b] bool): a Cholesky factor of the rows and columns of a
    matrix [b,b] that are in `mask` [b] and whose pivots exceed `least_pivot` []. The other rows and
    columns of L are those of the identity."""
    slots = jnp.arange(len(matrix), dtype=jnp.int32)

    def column(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        lower, factored = carry
        rest = matrix[:, j] - matmul(lower, lower[j])
        use = mask[j] & (rest[j] > least_pivot)
        factor_column = jnp.where((slots >= j) & mask, rest / jnp.sqrt(rest[j]), 0)
        unit = (slots == j).astype(matrix.dtype)
        lower = put(lower, j, jnp.where(use, lower[j], 0))
        entries = jnp.where(use, factor_column, unit)
        return lax.dynamic_update_index_in_dim(lower, entries, j, 1), put(factored, j, use)

    start = jnp.zeros_like(matrix), jnp.zeros_like(mask)
    return lax.fori_loop(0, len(matrix), column, start)

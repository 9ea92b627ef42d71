"""What a refresh reads of the arms: sums over those that were pulled, a sweep over all of them.

Nothing of size A x M is stored: both take the arms in chunks.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import devices, shards
from jsketch.linalg import chunked, matmul, matmul_upper, squares_upper
from jsketch.posterior import ridge
from jsketch.sketch import nystrom as nystroms
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.nystrom import Nystrom
from jsketch.types import Arms, Kernel, Shard

# features in one chunk of a sweep: large enough for matrix products, small enough for the cache of
# a CPU
SWEEP_ENTRIES, SWEEP_ENTRIES_ACCELERATOR = 640_000, 16_000_000
PULLED_ROWS = 128  # pulled arms outside the dictionary in one chunk of the Gram matrix


class Pulled(NamedTuple):
    """The history of A arms."""

    arms: Arms  # A of them
    counts: Array  # [A]
    sums: Array  # [A], of rewards


class Moments(NamedTuple):
    """What the distinct pulled arms say in a dictionary's features."""

    gram: Array  # [M, M], sum_i n_i z_i z_i^T
    moment: Array  # [M], sum_i s_i z_i
    residual_sum: Array  # [], sum_i n_i (k(x_i,x_i) - |z_i|^2)


def moments(
    kernel: Kernel,
    nystrom: Nystrom,
    pulled: Pulled,
    dictionary: Dictionary,
    own: Array,
    outside: Array,
) -> Moments:
    """Sums over the distinct pulled arms only: those of the dictionary, whose features are `own`
    [M,M] and whose residuals are zero, and those `outside` [A] bool."""
    (domain, counts, sums), shard = pulled, pulled.arms.shard
    running = shards.running_count(shard, (counts > 0) & outside)
    rows = min(PULLED_ROWS, domain.count)

    def weighted(index: Array, valid: Array, z: Array) -> tuple[Array, Array, Array]:
        pulls, rewards = shards.take(shard, (counts, sums), index)
        pulls, rewards = jnp.where(valid, pulls, 0), jnp.where(valid, rewards, 0)
        return matmul(z.T, z * pulls[:, None]), matmul(rewards, z), pulls

    def add(chunk: Array, before: Moments) -> Moments:
        index, valid = shards.compact(shard, running, chunk * rows, rows)
        arms = shards.take(shard, domain.features, index)
        z = nystroms.features(nystrom, kernel, arms)
        gram, moment, pulls = weighted(index, valid, z)
        residual = nystroms.residual(kernel.diag(arms), z)
        return Moments(
            gram=before.gram + gram,
            moment=before.moment + moment,
            residual_sum=before.residual_sum + matmul(pulls, residual),
        )

    gram, moment, _ = weighted(dictionary.index, dictionary.mask, own)
    start = Moments(gram, moment, jnp.zeros((), domain.features.dtype))
    return lax.fori_loop(0, -(-shards.last(shard, running) // rows), add, start)


def sweep(
    kernel: Kernel, nystrom: Nystrom, posterior: ridge.Ridge, arms: Array, regularization: ArrayLike
) -> tuple[Array, Array, Array]:
    """(mean [A], variance [A]) of all arms, in chunks; and `nystrom.sensitivity` over them, [].

    One product a chunk: lam sigma^2 = k(x,x) - |k_S(x) G|^2 with G = R F, where z = k_S R and F is
    what the data have said (`ridge.explained_root`). Residual and e apart would be two.
    """
    size = nystrom.root.shape[0]
    said = matmul_upper(nystrom.root, ridge.explained_root(posterior, regularization))
    dual = matmul(nystrom.root, matmul(posterior.whiten, posterior.weights))
    reads = jnp.concatenate([dual[:, None], nystroms.probes(nystrom)], axis=1)
    entries = SWEEP_ENTRIES_ACCELERATOR if devices.on_accelerator() else SWEEP_ENTRIES
    count, rows = chunked(arms.shape[0], max(entries // size, 1))
    padded = jnp.pad(arms, ((0, count * rows - arms.shape[0]), (0, 0)), mode="edge")

    def chunk(x: Array) -> tuple[Array, Array, Array]:
        k = kernel.gram(x, nystrom.points)
        read = matmul(k, reads)
        variance = jnp.maximum(kernel.diag(x) - squares_upper(k, said), 0) / regularization
        return read[:, 0], variance, nystroms.sensitivity(read[:, 1:])

    mean, variance, sensitivity = lax.map(chunk, padded.reshape(count, rows, -1))
    number = arms.shape[0]
    return mean.reshape(-1)[:number], variance.reshape(-1)[:number], sensitivity.max()


def residuals(
    kernel: Kernel,
    nystrom: Nystrom,
    dictionary: Dictionary,
    arms: Array,
    shard: Shard | None = None,
) -> Array:
    """k(x,x) - |z(x)|^2 of all arms, [A], exactly 0 for the dictionary's. As much as the sweep of a
    refresh: what a batch needs of them follows from the variances."""
    count, rows = chunked(arms.shape[0], max(SWEEP_ENTRIES // dictionary.capacity, 1))
    padded = jnp.pad(arms, ((0, count * rows - arms.shape[0]), (0, 0)), mode="edge")

    def chunk(x: Array) -> Array:
        return nystroms.residual(kernel.diag(x), nystroms.features(nystrom, kernel, x))

    residual = lax.map(chunk, padded.reshape(count, rows, -1)).reshape(-1)[: arms.shape[0]]
    own = shards.local(shard, dictionary.index, arms.shape[0])
    index = jnp.where(dictionary.mask, own, arms.shape[0])
    return residual.at[index].set(0, mode="drop")

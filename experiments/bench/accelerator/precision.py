"""The refresh of BBKB with its small factorizations in one floating dtype and its sweep over all
arms in another."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.linalg import chunked, matmul
from jsketch.posterior import ridge
from jsketch.precision import in_dtype
from jsketch.sketch import nystrom as nystroms

CHUNK = 8_000_000  # features in one chunk of the sweep
PULLED = 2_000  # distinct pulled arms at most


class Precision(NamedTuple):
    """Floating dtypes of the two parts of a refresh."""

    factors: Any  # the M x M matrices: Gram matrix, inverse root, moments, ridge
    sweep: Any  # the A x M products: kernel, features, mean, variance


def refreshed(state: Any, bandit: Any, which: Precision) -> Any:
    """`state` (of `jsketch.bandits`' sketched algorithms, float64) with mean and variance
    of all arms computed again in these dtypes, and returned in float64 (BBKB eqs. 1 to 3)."""
    arms, dtype = state.domain.features, state.mean.dtype
    kernel, regularization = bandit.kernel, bandit.regularization
    nystrom, posterior = _factors(
        in_dtype(kernel, which.factors),
        in_dtype(arms, which.factors),
        in_dtype(state.pull_counts, which.factors),
        in_dtype(state.reward_sums, which.factors),
        state.dictionary,
        regularization,
    )
    nystrom_of_sweep, posterior_of_sweep = in_dtype((nystrom, posterior), which.sweep)
    mean, variance, residual = _sweep(
        in_dtype(kernel, which.sweep),
        nystrom_of_sweep,
        posterior_of_sweep,
        in_dtype(arms, which.sweep),
        regularization,
    )
    # a dictionary arm is represented exactly (THEORY 9.1)
    index = jnp.where(state.dictionary.mask, state.dictionary.index, arms.shape[0])
    own = residual.at[index].get(mode="fill", fill_value=0)
    variance = variance.at[index].add(-own / regularization, mode="drop")
    parts = in_dtype(dict(mean=mean, variance=variance), dtype)
    roots = in_dtype((nystrom, posterior), dtype)
    return state.replace(
        nystrom=roots[0],
        whiten=roots[1].whiten,
        weights=roots[1].weights,
        **parts,
    )


def _factors(
    kernel: Any, arms: Array, counts: Array, sums: Array, dictionary: Any, regularization: ArrayLike
) -> tuple[nystroms.Nystrom, ridge.Ridge]:
    nystrom = nystroms.build(kernel, arms[dictionary.index], dictionary.mask)
    (pulled,) = jnp.nonzero(counts, size=min(PULLED, len(counts)), fill_value=len(counts))
    z = nystroms.features(nystrom, kernel, arms[jnp.minimum(pulled, len(counts) - 1)])
    weight = counts.at[pulled].get(mode="fill", fill_value=0)
    reward = sums.at[pulled].get(mode="fill", fill_value=0)
    return nystrom, ridge.fit(matmul(z.T, z * weight[:, None]), matmul(reward, z), regularization)


def _sweep(
    kernel: Any,
    nystrom: nystroms.Nystrom,
    posterior: ridge.Ridge,
    arms: Array,
    regularization: ArrayLike,
) -> tuple[Array, Array, Array]:
    count, rows = chunked(len(arms), CHUNK // nystrom.root.shape[0])
    padded = jnp.pad(arms, ((0, count * rows - len(arms)), (0, 0)), mode="edge").reshape(
        count, rows, -1
    )

    def chunk(x: Array) -> tuple[Array, Array, Array]:
        z = nystroms.features(nystrom, kernel, x)
        u = matmul(z, posterior.whiten)
        residual = nystroms.residual(kernel.diag(x), z)
        return ridge.mean(posterior, u), ridge.variance(u, residual, regularization), residual

    mean, variance, residual = (part.reshape(-1)[: len(arms)] for part in lax.map(chunk, padded))
    return mean, variance, residual

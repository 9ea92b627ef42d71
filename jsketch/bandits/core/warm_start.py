"""What a sketched posterior is started with: evaluations that were made before, and a dictionary
for them (THEORY 3.4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks, shards
from jsketch.bandits.core.sketched import Sketching
from jsketch.checks import queries
from jsketch.sketch import bless
from jsketch.types import Arms, PRNGKey, is_traced

# Folded into the key of `init`, with which the first arm is drawn: no number that a draw splits off
# by itself (0, 1, ...).
DICTIONARY = 0xD1C7


class Known(NamedTuple):
    """Evaluations that were checked: what `sketched.start` takes."""

    counts: Array  # [A]
    sums: Array  # [A], of rewards
    keep: Array  # [A] bool, the arms of the dictionary


def checked(
    bandit: Sketching,
    domain: Arms,
    key: PRNGKey,
    pull_counts: Any,
    reward_sums: Any,
    dictionary: Any,
    whole: bool = True,
) -> Known | None:
    """Checks the evaluations that an algorithm is started with: None without any. `whole`: each
    counts once, and none by a weight of its own.

    `key` is the one of `init`; a dictionary is sampled with a key of its own. A `Known` as
    pull_counts was checked before, with all arms: `Sharded` gives each device its part of it.
    """
    if isinstance(pull_counts, Known):
        return pull_counts
    if pull_counts is None:
        if reward_sums is not None or dictionary is not None:
            raise ValueError(
                "reward_sums and dictionary describe observed evaluations: give pull_counts with"
                " them."
            )
        return None
    queries.past(domain, pull_counts, reward_sums, whole)
    dtype = domain.features.dtype
    counts, sums = jnp.asarray(pull_counts, dtype), jnp.asarray(reward_sums, dtype)
    if isinstance(dictionary, str):
        dictionary = _sampled_dictionary(
            bandit, domain, jax.random.fold_in(key, DICTIONARY), counts, dictionary
        )
    if dictionary is None:
        keep = counts > 0
    else:
        checks.arm_numbers(domain, dictionary=dictionary)
        index = queries.or_none(domain, dictionary)
        keep = jnp.zeros(domain.count, bool).at[index].set(True, mode="drop")
        # traced numbers only, which `tell` flags
        sums = jnp.where((index == domain.count).any(), jnp.nan, sums)
    if not is_traced(keep) and int(keep.sum()) > bandit.capacity:
        raise ValueError(
            f"a dictionary of {int(keep.sum())} arms does not fit a capacity of {bandit.capacity}:"
            " raise `capacity`."
        )
    return Known(counts, sums, keep)


def _sampled_dictionary(
    bandit: Sketching, domain: Arms, key: PRNGKey, counts: Array, method: str
) -> np.ndarray:
    """Arms of a dictionary of the observed evaluations, by BLESS or by exact leverage scores; on
    the host."""
    checks.choice(("bless", "leverage"), dictionary=method)
    if is_traced(domain, counts, bandit, key):
        raise ValueError(
            f'dictionary="{method}" is sampled on the host: call init outside jit and vmap, or give'
            " the arms themselves."
        )
    pulled = np.flatnonzero(np.asarray(counts) > 0)
    if len(pulled) == 0:
        return pulled
    points, n = shards.on_host(domain, pulled), np.asarray(counts)[pulled]
    lam = float(np.asarray(bandit.regularization))
    if method == "bless":
        return pulled[bless.bless(bandit.kernel, points, n, lam, key).rows]
    scores = bless.exact_leverage_scores(bandit.kernel, points, n, lam)
    uniform = np.asarray(jax.random.uniform(key, scores.shape, scores.dtype))
    expected = float(np.asarray(bandit.qbar)) * scores
    return pulled[uniform < np.minimum(1, expected)]

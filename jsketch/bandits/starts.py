"""Where a run on a sketched posterior begins: the checks of its settings and arms, and the history
of earlier evaluations. These functions run on the host, except for traced evaluations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks
from jsketch.core import widths
from jsketch.sketch import bless
from jsketch.types import Arms, Evaluations, PRNGKey, is_traced
from jsketch.warn import warn

# `init` folds this number into its key to sample a dictionary
DICTIONARY_FOLD = 0xD1C7


def checked(bandit: Any, arms: Arms, key: PRNGKey, capacity: int) -> Arms:
    """The arms as JAX arrays. Raises ValueError for invalid settings, arms or keys, for a kernel
    that is not defined on the arms, and for a state that is larger than memory."""
    checks.one_key(key=key)
    check_settings(bandit)
    arms = checks.arms(arms)
    checks.model(arms, bandit.kernel, bandit.regularization, capacity)
    count, dimension = arms.features.shape
    # the sizes of arrays [M,M], [M,d], [A,d] and [A]
    floats = 3 * capacity**2 + capacity * dimension + count * (dimension + 8)
    checks.memory(floats, arms.features.dtype, capacity=capacity, arms=count)
    return arms


def check_settings(bandit: Any) -> None:
    """Raises ValueError for settings out of their ranges. Warns of a width that is proved for an
    exact posterior only (THEORY 4.1, 4.7). On a sketch such a width holds as long as the dictionary
    contains all pulled arms and the ratio C is 1."""
    checks.settings(bandit)
    for width, name, alternative in (
        (widths.mixture, "mixture", "certified_mixture"),
        (widths.gp_ucb_tight, "gp_ucb_tight", "certified"),
    ):
        if bandit.width == width:
            warn(
                f"the width `{name}` is proved for an exact posterior only, and ignores what a"
                f" dictionary does not represent: `widths.{alternative}` holds for any dictionary."
            )


def check_batches(bandit: Any, arms: Arms, horizon: int | None) -> None:
    """Raises ValueError for a BBKB whose first batch is not a list of arms, or is longer than a
    batch or the horizon. Warns of the local rule with a width that is not proved for it."""
    is_unproved = (bandit.rule, bandit.local_statistic) == ("global_local", "full")
    if is_unproved and bandit.width in widths.CERTIFIED:
        warn(
            'with rule="global_local" a certified width is proved for local_statistic='
            '"guaranteed" only (THEORY 5.4).'
        )
    # the arms of a query and their rewards
    checks.memory(2 * bandit.max_batch, np.float32, max_batch=bandit.max_batch)
    if bandit.initial is None:
        return
    checks.arm_numbers(arms, initial=bandit.initial)
    if not 1 <= len(bandit.initial) <= bandit.max_batch:
        raise ValueError(
            f"initial must have between 1 and max_batch = {bandit.max_batch} arms;"
            f" {len(bandit.initial)} were given."
        )
    if horizon is not None and len(bandit.initial) > horizon:
        raise ValueError(
            f"initial has {len(bandit.initial)} arms, and the horizon is {horizon}: give fewer arms"
            " or a larger horizon."
        )


def has_no_evaluations(data: Any) -> bool:
    """Whether the argument `data` of `init` has no observed evaluations. Raises ValueError if it is
    neither None nor `Evaluations`, and for sums of rewards or a dictionary without counts."""
    if data is None:
        return True
    if not isinstance(data, Evaluations):
        raise ValueError(
            "data are Evaluations, such as history.of_evaluations(arms, numbers, rewards); a"
            f" {type(data).__name__} was given."
        )
    if data.pull_counts is None and not (data.reward_sums is None and data.dictionary is None):
        raise ValueError(
            "reward_sums and dictionary describe observed evaluations: give pull_counts with them."
        )
    return data.pull_counts is None


def from_evaluations(
    bandit: Any, arms: Arms, key: PRNGKey, data: Evaluations, whole_counts: bool = True
) -> tuple[Array, Array, Array, bool]:
    """(counts [A], sums [A], inducing [A] bool, whether the user chose these arms) of earlier
    evaluations; `key` is the key of `init`. Raises ValueError for invalid evaluations."""
    checks.evaluations(arms, data.pull_counts, data.reward_sums, whole_counts)
    counts, sums = (
        arms.on_devices(arms.with_padding(jnp.asarray(values, arms.features.dtype)))
        for values in (data.pull_counts, data.reward_sums)
    )
    chosen: Any = data.dictionary
    if isinstance(chosen, str):
        sample_key = jax.random.fold_in(key, DICTIONARY_FOLD)
        chosen = _sampled(bandit, arms, sample_key, data.pull_counts, chosen)
    if chosen is None:
        inducing = counts > 0
    else:
        checks.arm_numbers(arms, dictionary=chosen)
        index = checks.mark_invalid_arms(arms, chosen)
        inducing = jnp.zeros(len(counts), bool).at[index].set(True, mode="drop")
        # if a traced arm number does not exist, the state becomes NaN
        sums = jnp.where((index == arms.count).any(), jnp.nan, sums)
    if not is_traced(inducing) and int(inducing.sum()) > bandit.initial_slots:
        raise ValueError(
            f"a dictionary of {int(inducing.sum())} arms does not fit a capacity of"
            f" {bandit.initial_slots}: raise `capacity`."
        )
    is_chosen = not (data.dictionary is None or isinstance(data.dictionary, str))
    return counts, sums, inducing, is_chosen


def _sampled(bandit: Any, arms: Arms, key: PRNGKey, pulls: Any, method: str) -> np.ndarray:
    """The numbers of inducing arms, sampled from the arms with pulls on the host, by BLESS or by
    exact leverage scores."""
    checks.choice(("bless", "leverage"), dictionary=method)
    if is_traced(arms, pulls, bandit, key):
        raise ValueError(
            f'dictionary="{method}" is sampled on the host: call init outside jit and vmap, or give'
            " arm numbers."
        )
    pulled = np.flatnonzero(np.asarray(pulls) > 0)
    if len(pulled) == 0:
        return pulled
    points = np.asarray(arms.features[pulled])
    n_pulls = np.asarray(pulls, points.dtype)[pulled]
    lam = float(np.asarray(bandit.regularization))
    if method == "bless":
        return pulled[bless.bless(bandit.kernel, points, n_pulls, lam, key).rows]
    scores = bless.exact_leverage_scores(bandit.kernel, points, n_pulls, lam)
    uniform = np.asarray(jax.random.uniform(key, scores.shape, scores.dtype))
    return pulled[uniform < np.minimum(1, float(np.asarray(bandit.qbar)) * scores)]

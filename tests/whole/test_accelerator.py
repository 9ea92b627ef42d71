"""The programs for an accelerator make the same picks and predictions on a CPU."""

import cases
import chex
import jax
import jax.numpy as jnp
import numpy as np
from rows import by_name

from jsketch import Query, numerics, rollout
from jsketch.core import history, working_set
from jsketch.online import ridge
from jsketch.results import Result

KEYS = jax.random.split(jax.random.key(5), 3)


def runs(name):
    bandit, problem = cases.CASES[name], cases.problem()
    return jax.jit(jax.vmap(lambda key: rollout(bandit, problem, key, cases.HORIZON)))(KEYS)


@by_name(["bbkb_global", "bbkb_global_local"], ["bbkb_global_local"])
def test_runs_are_those_of_the_program_for_a_cpu(name, monkeypatch):
    """The working sets are so small that every batch needs several."""
    expected = runs(name)
    monkeypatch.setattr(numerics, "on_accelerator", lambda: True)
    monkeypatch.setattr(working_set, "ARMS_OF_SET", 2)
    monkeypatch.setattr(working_set, "PICKS_OF_SET", 3)
    accelerated = runs(name)
    chex.assert_trees_all_close(accelerated.trace, expected.trace, rtol=1e-9, atol=1e-12)
    means = [runs.state.posterior.mean for runs in (accelerated, expected)]
    np.testing.assert_allclose(*means, rtol=1e-7, atol=1e-9)


def test_a_block_with_missing_labels_gives_the_weights_of_the_program_for_a_cpu(monkeypatch):
    """The 70 examples take three panels. Examples without a label change no weight."""
    random = np.random.default_rng(1)
    z, ys = jnp.asarray(random.standard_normal((70, 40))), random.standard_normal(70)
    ys[random.uniform(size=70) < 0.3] = np.nan
    arguments = jnp.eye(40) / 0.3, jnp.zeros(40), z, jnp.asarray(ys), jnp.isfinite(ys)
    # two new functions, because JAX would use the first program of one function twice
    expected = jax.jit(lambda *arguments: ridge.learn_block(*arguments))(*arguments)
    monkeypatch.setattr(numerics, "on_accelerator", lambda: True)
    accelerated = jax.jit(lambda *arguments: ridge.learn_block(*arguments))(*arguments)
    chex.assert_trees_all_close(accelerated, expected, rtol=1e-10, atol=1e-12)


def test_rewards_are_added_together(monkeypatch):
    """Arms repeat within and across chunks. Some evaluations fail, and some slots are masked."""
    monkeypatch.setattr(history, "CHUNK", 4)
    index, mask = np.array([3, 1, 3, 3, 0, 3, 1, 2, 2, 0]), np.arange(10) < 8
    y = np.array([1.0, 2.0, np.nan, 4.0, 8.0, 16.0, 32.0, np.inf, 5.0, 5.0])
    query = Query(index=jnp.asarray(index, jnp.int32), mask=jnp.asarray(mask))
    counts, sums = jax.jit(history.add)(jnp.ones(5), jnp.ones(5), query, jnp.asarray(y))
    observed = index[mask & np.isfinite(y)]
    np.testing.assert_array_equal(counts, 1 + np.bincount(observed, minlength=5))
    np.testing.assert_array_equal(sums, [9, 35, 1, 22, 1])
    info = history.round_info(query, jnp.asarray(y))
    assert int(info.observed) == 6 and int(info.batch_size) == 8
    assert int(info.result) == Result.NOT_FINITE  # one reward is infinite
    info = history.round_info(query, jnp.asarray(np.where(np.isinf(y), 64.0, y)))
    assert int(info.observed) == 7 and int(info.result) == Result.RUNNING

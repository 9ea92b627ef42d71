"""Regularized evolution compared with its rule in plain Python, and tables of neighbours."""

import jax
import jax.numpy as jnp
import numpy as np
from small_problems import ROLLOUT

from jsketch import loops, problems
from jsketch.bandits import RegularizedEvolution, evolution

CODES = np.stack(np.meshgrid(*[[0, 1, 2]] * 4, indexing="ij"), -1).reshape(-1, 4)  # 81 codes
NEIGHBOURS = evolution.one_change_apart(CODES)
KEY = jax.random.key(0)


def small_problem():
    return problems.finite_arms(CODES.astype(float), -np.square(CODES - 1.8).sum(1), 0.1)


def test_neighbours_differ_in_one_position():
    assert NEIGHBOURS.shape == (81, 8)
    distance = (CODES[:, None] != CODES[NEIGHBOURS]).sum(2)
    assert (distance == 1).all()
    assert all(len(set(row)) == 8 for row in NEIGHBOURS)
    bits = np.array([[0, 0], [0, 1], [1, 1]])
    np.testing.assert_array_equal(evolution.one_change_apart(bits), [[1, -1], [2, 0], [1, -1]])


def expected_arms(bandit, problem, key, horizon):
    """The picks of the rule, with the random draws of the algorithm."""
    roots, history = loops.rollouts.Roots(*jax.random.split(key, 4)), []
    sample = jax.jit(problem.sample)
    for t in range(horizon):
        keys = jax.random.split(jax.random.fold_in(roots.ask, t), 3)
        if t < bandit.population:
            arm = int(jax.random.randint(keys[0], (), 0, problem.arms.count, jnp.int32))
        else:
            members = {s % bandit.population: history[s] for s in range(t - bandit.population, t)}
            entrants = jax.random.randint(
                keys[1], (bandit.sample,), 0, bandit.population, jnp.int32
            )
            parent = max((members[int(i)] for i in entrants), key=lambda member: member[1])[0]
            priorities = jax.random.uniform(keys[2], bandit.neighbours[parent].shape)
            pairs = zip(priorities.tolist(), bandit.neighbours[parent].tolist(), strict=True)
            arm = max(pair for pair in pairs if pair[1] >= 0)[1]
        reward = sample(jax.random.fold_in(roots.problem, t), np.asarray(arm, np.int32))
        history.append((arm, float(reward)))
    return [arm for arm, _ in history]


def test_picks_are_those_of_the_rule_in_plain_python():
    table = NEIGHBOURS.copy()
    table[::2, 5:] = -1
    bandit = RegularizedEvolution(table, population=12, sample=4)
    arms = ROLLOUT(bandit, small_problem(), KEY, 100).trace.arm
    np.testing.assert_array_equal(arms, expected_arms(bandit, small_problem(), KEY, 100))


def test_mutations_are_uniform_and_ignore_padding():
    """Each of 3 neighbours has a third of 4,000 picks, within 4 standard errors. A correct
    implementation fails with probability 2e-4."""
    table = np.full((81, 6), -1)
    table[:, [0, 2, 5]] = [4, 7, 9]
    bandit = RegularizedEvolution(table, population=2, sample=2)
    arms = small_problem().arms
    state = bandit.init(arms, KEY)
    state = state.replace(count=np.asarray(2, np.int32))
    pick = jax.jit(jax.vmap(lambda key: bandit.ask(state, arms, key).index[0]))
    picks = pick(jax.random.split(KEY, 4000))
    counts = np.bincount(picks, minlength=81)[[4, 7, 9]]
    assert counts.sum() == 4000 and (np.abs(counts - 4000 / 3) < 4 * np.sqrt(4000 * 2 / 9)).all()

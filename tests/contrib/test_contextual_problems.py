"""Problems with contexts: their formulas, and what the loop refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import kernels
from jsketch.contrib import EKUCB, KUCB
from jsketch.contrib.problems import contextual

KEY = jax.random.key(0)
ACTIONS = jnp.asarray([[0.05], [0.3], [0.55], [0.8], [1.0]])


def means(reward, contexts, inputs=1):
    problem = contextual.ContextualArms(ACTIONS, reward, inputs=inputs)
    return np.asarray(jax.jit(jax.vmap(problem.mean_reward))(jnp.asarray(contexts)))


def test_squares_and_steps():
    """Cells of the grid, and bands beside the diagonal."""
    found = means(contextual.Squares(), [[0.1], [0.3], [0.6], [1.0]])
    assert found.tolist() == [
        [0, 0.5, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [0, 0.5, 0, 0.5, 0.5],
        [0, 0, 1, 0, 0],
    ]
    found = means(contextual.StepDiagonal(), [[0.2], [0.4]])
    assert found.tolist() == [[1, 0.5, 0, 0, 0], [0, 1, 0.5, 0, 0]]


def test_bump():
    """One of the actions is best in every context, and no reward is negative."""
    problem = jax.jit(lambda key: contextual.bump(key, ACTIONS, inputs=3))(KEY)
    contexts = jax.jit(jax.vmap(problem.context))(jax.random.split(KEY, 50))
    found = np.asarray(jax.jit(jax.vmap(problem.mean_reward))(contexts))
    bump = problem.reward
    tilt = (np.asarray(contexts) - np.asarray(bump.centre)) @ np.asarray(bump.slope)
    away = np.abs(np.asarray(ACTIONS) - np.asarray(bump.best_action))[:, 0]
    np.testing.assert_allclose(found, np.maximum(0, 1 - away - tilt[:, None]), atol=1e-6)
    assert (found[:, away.argmin()] == found.max(1)).all() and found.min() == 0
    assert ((np.asarray(contexts) >= 0) & (np.asarray(contexts) < 1)).all()


def test_mistakes():
    problem = contextual.ContextualArms(ACTIONS, contextual.Squares())
    keys = jax.random.split(KEY, 2)
    short = KUCB(kernels.Gaussian(0.3), max_history=4)
    for act, words in (
        (lambda: contextual.play(problem, short, 8, keys), "max_history of at least 8"),
        (lambda: contextual.play(problem, EKUCB(None), 8, keys), "must be a kernel"),
        (
            lambda: contextual.play(problem.replace(actions=ACTIONS[:, 0]), short, 4, keys),
            "A single feature is a column",
        ),
        (
            lambda: contextual.play(problem.replace(noise_std=-1.0), short, 4, keys),
            "noise_std must",
        ),
        (lambda: contextual.play(problem.replace(inputs=0), short, 4, keys), "inputs must be an"),
        (lambda: contextual.play(problem, short, 4, KEY), r"keys must be keys \[S\]"),
        (lambda: contextual.play(problem, short, 0, keys), "horizon must be an integer"),
        (
            lambda: contextual.play(problem.replace(reward=lambda c, a: a), short, 4, keys),
            "reward must be a callable pytree",
        ),
        (lambda: contextual.bump(KEY, ACTIONS, inputs=0), "inputs must be an integer"),
    ):
        with pytest.raises(ValueError, match=words):
            act()

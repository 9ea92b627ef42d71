"""The posterior of more arms than XLA processes in one chunk of a loop (16,384 floats)."""

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import Arms, kernels
from jsketch.bandits import BBKB, Evaluations

ARMS, PULLED, REGULARIZATION = 20_011, 6, 0.01
LENGTHSCALE = np.array([0.7, 1.0, 1.3])
RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.uniform(-1, 1, (ARMS, 3))
REWARDS = np.sin(2 * FEATURES[:PULLED].sum(1))


def exact():
    """(mean, variance / lam) of all arms."""

    def gram(x, z):
        return np.exp(-np.square((x[:, None] - z[None]) / LENGTHSCALE).sum(2) / 2)

    points = FEATURES[:PULLED]
    noisy = gram(points, points) + REGULARIZATION * np.eye(PULLED)
    rows = gram(FEATURES, points)
    explained = (rows * np.linalg.solve(noisy, rows.T).T).sum(1)
    return rows @ np.linalg.solve(noisy, REWARDS), (1 - explained) / REGULARIZATION


def test_the_posterior_of_every_arm():
    """jaxlib 0.10.2 computes some products of 3 columns wrongly from row 16,384 on."""
    pulls, sums = np.zeros(ARMS), np.zeros(ARMS)
    pulls[:PULLED], sums[:PULLED] = 1, REWARDS
    bandit = BBKB(kernels.Gaussian(LENGTHSCALE), REGULARIZATION, noise_std=0.1)
    state = bandit.init(
        Arms(jnp.asarray(FEATURES)),
        jax.random.key(0),
        data=Evaluations(jnp.asarray(pulls), jnp.asarray(sums), np.arange(PULLED)),
    )
    mean, variance = exact()
    np.testing.assert_allclose(state.mean, mean, atol=1e-8)
    np.testing.assert_allclose(state.variance, variance, rtol=1e-7)
    width = float(bandit.confidence_width(state))
    scores = jax.jit(bandit.scores)(state)
    np.testing.assert_allclose(scores, mean + width * np.sqrt(variance), rtol=1e-7)

"""The greedy adversary: its regrets by a dense computation, and random moves."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from jsketch import kernels, online
from jsketch.problems import adversary as adversaries
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor
from jsketch.types import Box

N, D = 12, 2
KERNEL = kernels.Gaussian(0.7)
KEYS = jax.random.split(jax.random.key(3), 2)
FORECASTERS = {
    "kernel_awv": online.KernelAWV(KERNEL, 0.5, capacity=N),
    "taylor": online.PKAWV(Taylor(D, 3, 0.7), 0.5),
    "nystrom": online.NystromAWV(KERNEL, 0.5, Sampling(mu=0.5, beta=1.0), capacity=N, memory=N),
}


def make_adversary(**options):
    box = Box(jnp.array([-1.0, -0.5]), jnp.array([1.0, 0.5]))
    return adversaries.Adversary(
        KERNEL, box, **{"bound": 0.8, "candidates": 200, "starts": 8, "steps": 40} | options
    )


def dense_regret(game, t, x, y, prediction, lam, comparator):
    """The regret after step t, at which (x, y) is played."""
    xs, ys = np.vstack([game.x[:t], x]), np.append(game.y[:t], y)
    predictions = np.append(game.prediction[:t], prediction)
    gram = oracles.gaussian(xs, xs, 0.7)  # NumPy, because the size changes at every step
    alpha = np.linalg.solve(gram + lam * np.eye(t + 1), ys)
    best = np.square(ys - gram @ alpha).sum()
    if comparator == "regularized":
        best = best + lam * alpha @ gram @ alpha
    return np.square(ys - predictions).sum() - best


@pytest.mark.parametrize(
    ("name", "comparator"),
    [
        pytest.param("kernel_awv", "ridge", marks=pytest.mark.slow),
        ("taylor", "regularized"),
        pytest.param("nystrom", "ridge", marks=pytest.mark.slow),
        pytest.param("nystrom", "regularized", marks=pytest.mark.slow),
        pytest.param("taylor", "ridge", marks=pytest.mark.slow),
    ],
)
def test_no_move_is_worse_than_the_best_random_one(name, comparator):
    """Points lie in the box, labels are -bound or bound, predictions are those of the forecaster,
    and regrets are those of a dense solve. A regret is at most 2% below the largest of 200 random
    points with three labels each: all starts of the search may climb to one local maximum."""
    forecaster = FORECASTERS[name]
    adversary = make_adversary(comparator=comparator, regularization=0.3)
    games = adversaries.play(adversary, forecaster, N, KEYS)
    game = jax.tree.map(lambda leaf: np.asarray(leaf[1]), games)
    points, box = np.asarray(game.x), adversary.box
    assert (points >= np.asarray(box.lower)).all() and (points <= np.asarray(box.upper)).all()
    np.testing.assert_allclose(np.abs(game.y), 0.8)
    state = forecaster.init(box.lower, jax.random.split(KEYS[1])[0])
    predict = jax.jit(forecaster.predict)
    predict_all, random = jax.jit(jax.vmap(forecaster.predict, (None, 0))), np.random.default_rng(0)
    update = jax.jit(forecaster.update)
    for t in range(N):
        x, y = game.x[t], game.y[t]
        assert float(predict(state, x)) == pytest.approx(float(game.prediction[t]), abs=1e-10)
        regret = dense_regret(game, t, x, y, game.prediction[t], 0.3, comparator)
        assert float(game.regret[t]) == pytest.approx(regret, abs=1e-8)
        if t % 4 == 3:  # at a few steps, to save time
            random_points = random.uniform(box.lower, box.upper, (200, D))
            predictions = np.asarray(predict_all(state, random_points))
            regrets = [
                dense_regret(game, t, point, label, prediction, 0.3, comparator)
                for point, prediction in zip(random_points, predictions, strict=True)
                for label in (-0.8, 0.8, 0.1)
            ]
            assert regret >= 0.98 * max(regrets)
        state, _ = update(state, x, y, KEYS[0])


def test_a_game_beyond_the_capacity_is_refused():
    small = online.KernelAWV(KERNEL, 0.5, capacity=N - 1)
    with pytest.raises(ValueError, match="larger capacity .*step 12 of 12"):
        adversaries.play(make_adversary(), small, N, KEYS)
    with pytest.raises(ValueError, match="keys must be keys"):
        adversaries.play(make_adversary(), small, N, jax.random.key(0))

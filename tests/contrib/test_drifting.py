"""Drifting arms: the mean of every round, its path, and the loop over rounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Arms, kernels
from jsketch.bandits import GPUCB, Uniform
from jsketch.contrib.problems import drifting

KEYS = jax.random.split(jax.random.key(3), 2)
ANCHORS = np.array([[0.0, 1.0, -2.0], [4.0, 0.0, 2.0], [4.0, 2.0, -3.0]])


def problem(noise_std=0.0, **options):
    return drifting.DriftingArms(
        Arms(jnp.arange(3.0)[:, None]), jnp.asarray(ANCHORS), 4, noise_std, **options
    )


def test_means_move_from_anchor_to_anchor():
    """Linearly, and stay at the last one; `abrupt` holds each one for a period."""
    times = jnp.arange(12)
    smooth = np.asarray(jax.vmap(problem().mean_reward)(times))
    wanted = np.stack([np.interp(times, [0, 4, 8], column) for column in ANCHORS.T], 1)
    np.testing.assert_allclose(smooth, wanted, atol=1e-6)
    steps = np.asarray(jax.vmap(problem(abrupt=True).mean_reward)(times))
    np.testing.assert_array_equal(steps, ANCHORS[np.minimum(np.arange(12) // 4, 2)])


@pytest.mark.parametrize("period", [49, 98, 103])
def test_jumps_come_on_time(period):
    """49 j / 49 is below j in compiled code, which multiplies by 1 / 49."""
    anchors = jnp.arange(50.0)[:, None]
    steps = drifting.DriftingArms(Arms(jnp.zeros((1, 1))), anchors, period, 0.0, abrupt=True)
    times = period * jnp.arange(1, 50)
    mean = jax.jit(jax.vmap(steps.mean_reward))
    np.testing.assert_array_equal(mean(times)[:, 0], np.arange(1, 50))
    np.testing.assert_array_equal(mean(times - 1)[:, 0], np.arange(49))


def test_play():
    """Rewards are the mean of their round, regrets are against its best arm; a restart sets the
    state back."""
    played = drifting.play(problem(), Uniform(), 12, KEYS)
    means = np.asarray(jax.vmap(problem().mean_reward)(jnp.arange(12)))
    arms = np.asarray(played.arm)
    chosen = np.take_along_axis(np.broadcast_to(means, (2, 12, 3)), arms[:, :, None], 2)[:, :, 0]
    np.testing.assert_allclose(played.reward, chosen, atol=1e-6)
    np.testing.assert_allclose(played.regret, means.max(1) - chosen, atol=1e-6)
    assert len(np.unique(arms)) == 3 and (arms[0] != arms[1]).any()

    bandit = GPUCB(kernels.Gaussian(0.1), 0.01, capacity=3)
    again = drifting.play(problem(), bandit, 12, KEYS, restart=2)
    assert np.asarray(again.dictionary_size).max() == 2
    for keys in (KEYS[0], KEYS[:0], KEYS[None], 3, [1, 2]):
        with pytest.raises(ValueError, match=r"keys must be keys \[S\], one a run"):
            drifting.play(problem(), Uniform(), 2, keys)
    # the arm of each start is that of the first one
    assert (np.asarray(again.arm)[:, ::2] == np.asarray(again.arm)[:, :1]).all()


@pytest.mark.slow
def test_a_capacity_that_is_too_small():
    bandit = GPUCB(kernels.Gaussian(0.1), 0.01, capacity=1)
    with pytest.raises(ValueError, match="larger capacity"):
        drifting.play(problem(), bandit, 12, KEYS)


def test_mistakes():
    x = jnp.zeros((3, 1))
    for change, words in (
        (dict(period=0), "period must be"),
        (dict(anchors=0), "anchors must be"),
        (dict(abrupt="yes"), "abrupt"),
        (dict(noise_std=-1.0), "noise_std must be"),
    ):
        options = dict(noise_std=0.1, period=10) | change
        with pytest.raises(ValueError, match=words):
            drifting.drifting_draw(KEYS[0], kernels.Gaussian(1.0), x, **options)
    with pytest.raises(ValueError, match="restart must be"):
        drifting.play(problem(), Uniform(), 12, KEYS, restart=0)

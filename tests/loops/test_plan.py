"""`jsketch.plan`: the time and the memory of a run, from a few of its evaluations."""

import numpy as np
import pytest

import jsketch
from jsketch import kernels, problems
from jsketch.bandits import BBKB, GPUCB, Uniform
from jsketch.loops import planning

KERNEL = kernels.Gaussian(1.0)
BBKB_SMALL = BBKB(KERNEL, regularization=0.01, capacity=16)


def problem(arms=400):
    x = np.random.default_rng(0).uniform(-2, 2, (arms, 2))
    return problems.finite_arms(x, np.exp(-np.square(x - 0.5).sum(1)), 0.1)


@pytest.mark.parametrize("bandit", [BBKB_SMALL, GPUCB(KERNEL, capacity=30), Uniform()])
def test_a_plan_is_positive_and_grows_with_the_seeds(bandit, monkeypatch):
    monkeypatch.setattr(planning, "PILOT_SECONDS", 0.05)
    one = jsketch.plan(bandit, problem(), 30)
    many = jsketch.plan(bandit, problem(), 30, seeds=20, workers=2)
    assert 0 < one.pilot <= 30 and one.seconds > 0 and one.bytes > 0
    assert many.bytes > one.bytes and many.seeds == 20
    assert f"20 x {type(bandit).__name__}, 30 evaluations of 400 arms" in str(many)


def test_a_run_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a run of BBKB with 400 arms would need about .* GB"):
        jsketch.plan(BBKB_SMALL, problem(), 30, memory=1e4)
    with pytest.raises(ValueError, match="strategy"):
        jsketch.plan(BBKB_SMALL, problem(), 30, strategy="processes")

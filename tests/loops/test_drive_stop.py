"""`drive(stop=...)`: runs that have found enough."""

import jax
import numpy as np
import pytest

from jsketch import Arms, kernels, loops
from jsketch.bandits import BKB, GPUCB, FixedBKB, Uniform, widths

KEY = jax.random.key(0)
X = np.linspace(0, 1, 12)[:, None]
F = np.sin(5 * X[:, 0])
ARMS = Arms(X)
KERNEL = kernels.Gaussian(0.4)
ASSUMED = dict(noise_std=0.01, regularization=1e-4, norm_bound=4.0)
SKETCHED = BKB(KERNEL, width=widths.certified, capacity=12, **ASSUMED)


def evaluate(arms):
    return F[arms]


def test_a_run_ends_where_the_certificate_is_small(tmp_path):
    """Not a round later; the bound holds; what is resumed evaluates nothing more."""
    run = loops.drive(SKETCHED, evaluate, ARMS, KEY, 60, stop=0.2, checkpoint=tmp_path / "lab.run")
    assert run.stopped and not run.exhausted and 1 < run.t < 60
    width = float(SKETCHED.confidence_width(run.state))
    mean, std = np.asarray(run.state.mean), np.sqrt(np.asarray(run.state.variance))
    upper, lower = mean + width * std, mean - width * std
    assert ((lower <= F) & (upper >= F)).all()
    assert loops.gap(SKETCHED, run.state) == pytest.approx(upper.max() - lower.max(), rel=1e-9)
    assert F.max() - F[lower.argmax()] <= upper.max() - lower.max() < 0.2
    before = loops.drive(SKETCHED, evaluate, ARMS, KEY, run.t - 1)
    assert loops.gap(SKETCHED, before.state) >= 0.2
    again = loops.drive(
        SKETCHED, pytest.fail, ARMS, KEY, 60, stop=0.2, checkpoint=tmp_path / "lab.run"
    )
    assert again.stopped and again.arm.tolist() == run.arm.tolist()
    onward = loops.drive(SKETCHED, evaluate, ARMS, KEY, run.t + 2, state=again)
    assert onward.t == run.t + 2 and not onward.stopped


def test_a_function_of_the_run_ends_it():
    """Also of an algorithm without bounds. An error in it keeps what was evaluated."""
    seen = []

    def good(driven):
        seen.append(driven.t)
        return driven.reward.max() > 0.9

    run = loops.drive(Uniform(), evaluate, ARMS, KEY, 500, stop=good)
    best = np.maximum.accumulate(run.reward)
    assert run.stopped and best[-1] > 0.9 and (best[: seen[-2]] <= 0.9).all()
    with pytest.raises(ZeroDivisionError) as error:
        loops.drive(Uniform(), evaluate, ARMS, KEY, 500, stop=lambda driven: 1 / 0)
    assert error.value.driven.t > 0


@pytest.mark.parametrize("bandit", [GPUCB(KERNEL), FixedBKB(KERNEL, batch=3, max_pending=3)])
def test_every_algorithm_with_bounds_has_a_gap(bandit):
    """Before the first evaluation twice the width of the prior, 1 / sqrt(lambda) a side."""
    start = jax.jit(bandit.init)(ARMS, KEY)
    width = float(bandit.confidence_width(start))
    assert loops.gap(bandit, start) == pytest.approx(20 * width)


@pytest.mark.parametrize(
    ("bandit", "stop", "words"),
    [
        (Uniform(), 0.1, "Uniform has no confidence bounds of all arms"),
        (SKETCHED, -1.0, "stop must be a finite number above 0"),
        (SKETCHED, lambda: True, "stop must be a function of \\(driven\\)"),
    ],
)
def test_what_is_wrong_with_a_stop(bandit, stop, words):
    with pytest.raises(ValueError, match=words):
        loops.drive(bandit, pytest.fail, ARMS, KEY, 5, stop=stop)

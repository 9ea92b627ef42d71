"""Widths as callable pytrees: formulas, numbers that are leaves, the user's own functions."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import ARMS, KEY

from jsketch import Arms, kernels
from jsketch.bandits import BKB, CBRAP, GPUCB, SOFUL, widths

DOMAIN = Arms(jnp.asarray(np.random.default_rng(0).uniform(size=(ARMS, 2))))
WIDTH = jax.jit(lambda bandit, state: bandit.confidence_width(state))


def test_numbers_of_a_width_are_leaves():
    """vmap sweeps them, and other values compile nothing."""
    bandit = GPUCB(kernels.Gaussian(0.5), 0.04, width=widths.Bayesian(deviations=2.0))
    state = bandit.init(DOMAIN, KEY)
    assert float(WIDTH(bandit, state)) == pytest.approx(0.4)
    before = WIDTH._cache_size()
    assert float(
        WIDTH(bandit.replace(width=widths.Bayesian(deviations=3.0)), state)
    ) == pytest.approx(0.6)
    assert WIDTH._cache_size() == before

    def at(deviations):
        return bandit.replace(width=widths.Bayesian(deviations)).confidence_width(state)

    np.testing.assert_allclose(jax.vmap(at)(jnp.array([0.0, 1.0, 5.0])), [0, 0.2, 1], rtol=1e-6)


def test_an_own_function_is_wrapped():
    """A function of what is known and of what is assumed."""
    own = widths.Formula(lambda evidence, confidence: evidence.prior_variance + confidence.delta)
    bandit = BKB(kernels.Gaussian(0.5), delta=0.25, width=own)
    assert float(bandit.confidence_width(bandit.init(DOMAIN, KEY))) == 1.25


@pytest.mark.parametrize("make", [lambda **o: BKB(kernels.Gaussian(0.5), **o), CBRAP, SOFUL])
@pytest.mark.parametrize(
    ("width", "words"),
    [
        (lambda evidence, confidence: 2.0, r"is wrapped: widths.Formula\(function\). <function"),
        ("paper", "width must be a width, such as widths.bbkb_paper .* 'paper' was given"),
        (None, "None was given"),
        (widths.Bayesian, "width must be a width"),
        (widths.Bayesian(deviations=-1.0), "deviations must be a finite number, at least 0"),
    ],
)
def test_what_is_no_width_is_refused(make, width, words):
    with pytest.raises(ValueError, match=words):
        make(width=width).init(DOMAIN, KEY)


def test_a_width_goes_to_another_process():
    assert pickle.loads(pickle.dumps(widths.bbkb_paper)) == widths.bbkb_paper

"""Widths as callable pytrees: formulas, numbers that are leaves, the user's own functions."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import ARMS, INIT, KEY, Problem

from jsketch import Arms, kernels
from jsketch.bandits import BBKB, BKB, CBRAP, GPUCB, SOFUL, widths

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


@pytest.mark.parametrize("name", ["mixture", "gp_ucb_tight"])
def test_a_width_of_exact_posteriors_on_a_sketch_is_said(name):
    with pytest.warns(UserWarning, match=f"`{name}` is proved for an exact posterior"):
        BBKB(kernels.Gaussian(0.5), width=getattr(widths, name)).init(DOMAIN, KEY)


def test_a_width_goes_to_another_process():
    assert pickle.loads(pickle.dumps(widths.bbkb_paper)) == widths.bbkb_paper


LAM, NOISE, DELTA = 0.25, 0.3, 0.1


@jax.jit
@jax.vmap
def four(logdet, residual_sum, norm_bound):
    """[4] widths: those of two exact posteriors, and of two sketched ones."""
    known = widths.of_exact(jnp.ones(()), logdet, jnp.ones(())).replace(residual_sum=residual_sum)
    assumed = widths.Confidence(LAM, NOISE, norm_bound, DELTA)
    named = (widths.gp_ucb_tight, widths.mixture, widths.certified, widths.certified_mixture)
    return jnp.stack([width(known, assumed) for width in named])


def test_which_width_is_the_narrower():
    """THEORY 4.7: `mixture` is below `gp_ucb_tight`, down to 1/sqrt(2) of it, where noise and bias
    are equal. 4.8: `certified_mixture` is at most `certified` unless the noise is below sqrt(lam)
    F / 2, and at least sqrt(2/3) of it."""
    random = np.random.default_rng(1)
    logdet, rho, norm = random.uniform(0, 50, 200), *10 ** random.uniform(-4, 2, (2, 200))
    tight, mixture, certified, sketched = np.asarray(four(logdet, rho, norm)).T
    assert (mixture < tight).all() and (mixture >= tight / np.sqrt(2) * (1 - 1e-12)).all()
    assert (mixture < 0.75 * tight).any()
    noise = NOISE * np.sqrt(logdet + rho / LAM - 2 * np.log(DELTA))
    often = noise >= np.sqrt(LAM) * norm / 2
    assert (sketched[often] <= certified[often]).all() and (sketched < 0.9 * certified).any()
    assert (sketched[~often] > certified[~often]).any()
    assert (sketched >= np.sqrt(2 / 3) * certified * (1 - 1e-12)).all()


def test_what_the_mixtures_rest_on():
    """THEORY 4.7 and 4.8, for any noise, arms and dictionary: |f - mu|_V^2 = Q + lam |f|^2, and the
    widths at Q in the place of its bound cover |f - mu~| at every arm; without rho they do not."""
    uncovered = 0
    for seed in range(12):
        p, random = Problem(seed), np.random.default_rng(seed)
        weights = random.standard_normal(ARMS)
        f, norm = p.gram @ weights, np.sqrt(weights @ p.gram @ weights)
        arms = np.repeat(np.arange(ARMS), p.counts.astype(int))
        y = f[arms] + 10 ** random.uniform(-3, 0) * random.standard_normal(len(arms))
        sums = np.bincount(arms, y, minlength=ARMS)
        inner = np.linalg.inv(p.gram[np.ix_(arms, arms)] + p.lam * np.eye(len(arms)))
        surprise = np.square(y - f[arms]).sum() - p.lam * y @ inner @ y

        ridge = np.bincount(arms, inner @ y, minlength=ARMS)
        error = p.gram @ (weights - ridge)
        squared = p.lam * (weights - ridge) @ error + p.counts @ np.square(error)
        np.testing.assert_allclose(squared, surprise + p.lam * norm**2, rtol=1e-8)

        bandit = BBKB(
            kernel=p.kernel,
            regularization=p.lam,
            capacity=32,
            noise_std=0.0,
            norm_bound=norm,
            ratio=1.0,
            width=widths.certified,
        )
        for keep, width in ((np.arange(ARMS), widths.mixture), (p.keep, widths.certified_mixture)):
            state = INIT(bandit, p.x, p.counts, sums, np.resize(keep, 32))
            known = state.evidence.replace(logdet=0.0)
            # so that xi^2 (Lhat + 2 log 1/delta) = Q, or 0 where Q is below 0
            upper = float(known.residual_sum) / p.lam - 2 * np.log(DELTA)
            xi = np.sqrt(max(surprise, 0) / upper)
            found = float(width(known, widths.Confidence(p.lam, xi, norm, DELTA)))
            off = np.abs(np.asarray(state.mean) - f)
            sd = np.sqrt(np.asarray(state.variance))
            assert (off <= found * sd * (1 + 1e-6) + 1e-7).all()
            without = np.sqrt(max(surprise, 0) + p.lam * norm**2)
            uncovered += (off > without * sd * (1 + 1e-6) + 1e-7).any()
    assert uncovered > 0

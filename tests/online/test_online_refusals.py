"""Forecasters and streams refuse invalid arguments, with a message that states the cause."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_online import CASES, KEY, changed, examples

from jsketch import kernels, loops, online
from jsketch.online.mixture import Mixture
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor

XS, YS = examples()
GAUSSIAN = kernels.Gaussian(1.0)
RIDGE = online.PKAWV(Taylor(2, 2))
KONS = online.SketchedKONS(GAUSSIAN)
ONES = jnp.ones(2)
LAMS = np.array([1e-3, 0.1, 10.0])
PLAIN = RIDGE.replace(discount=0.9)
over, discounts = online.over_regularizations, online.over_discounts
ABOVE = "regularization must be a finite number above 0"

# (a function that makes the forecaster, a part of the message)
FORECASTERS = [
    (lambda: RIDGE.replace(regularization=0.0), ABOVE),
    (lambda: online.KernelAWV(None), "kernel must be a kernel"),
    (lambda: online.KernelAWV(GAUSSIAN, capacity=0), "capacity"),
    (lambda: online.NystromAWV(GAUSSIAN, sampling=Sampling(mu=0.0)), "mu must be"),
    (lambda: online.NystromAWV(GAUSSIAN, 1.0, Sampling(weights="other")), "weights must be one of"),
    (lambda: online.FOGD(GAUSSIAN, 0.0), "step_size must be"),
    (lambda: online.FOGD(kernels.Linear(), 0.1), "Gaussian and Matern"),
    (lambda: online.NOGD(kernels.Linear(), -1.0), "step_size must be"),
    (lambda: online.ProsNKONS(GAUSSIAN, bound=0.0), "bound must be"),
    (lambda: online.ProsNKONS(GAUSSIAN, -1.0), "regularization must be"),
    (lambda: online.ProsNKONS(GAUSSIAN, sampling=Sampling(beta=0.0)), "beta must be"),
    (lambda: KONS.replace(minimum_probability=1.5), "minimum_probability must lie between 0 and 1"),
    # discounts
    (lambda: PLAIN.replace(discount=0.0), "discount must be a finite number above 0; 0.0"),
    (lambda: PLAIN.replace(discount=np.nan), "discount must be a finite number above 0; nan"),
    (lambda: PLAIN.replace(discount=1.01), "discount must be at most 1, .*; 1.01 was given"),
    (lambda: PLAIN.replace(discount=np.ones(2)), "discount must be one number"),
    (lambda: RIDGE.replace(renew=True), "give it a discount"),
    (lambda: PLAIN.replace(renew="no"), "renew must be True or False"),
    (lambda: online.KernelAWV(GAUSSIAN, discount=-1.0), "discount must be"),
    (lambda: discounts(PLAIN, 0.9, 1.0), "discounts must be a vector"),
    (lambda: discounts(PLAIN, [0.9, 1.1], 1.0), "discount must be at most 1"),
    (lambda: discounts(online.FOGD(GAUSSIAN, 0.1), [0.9], 1.0), "the grid names 'discount'"),
    # mixtures
    (lambda: over(RIDGE, 0.1, 1.0), "must be a vector"),
    (lambda: over(RIDGE, [], 1.0), "must be a vector"),
    (lambda: over(RIDGE, [0.1, 0.0], 1.0), "finite number above 0"),
    (lambda: over(online.FOGD(None, 0.1), [0.1], 1.0), "the grid names 'regularization'"),
    (lambda: over(RIDGE, LAMS, 0.0), "bound must be a finite number above 0"),
    (lambda: over(RIDGE, LAMS, 1.0, learning_rate=-1.0), "learning_rate must be"),
    (lambda: over(RIDGE, LAMS, 1.0, rule="hedge"), "rule must be one of"),
    (lambda: Mixture(RIDGE, {"penalize_current": ONES}, 1.0), "the grid names 'penalize_current'"),
    (lambda: Mixture(RIDGE, {}, 1.0), "leading axis"),
    (lambda: Mixture(RIDGE, {"regularization": 0.1}, 1.0), "leading axis"),
    (
        lambda: Mixture(RIDGE, {"regularization": LAMS, "features": Taylor(2, 3, ONES)}, 1),
        "leading axis",
    ),
    (lambda: Mixture(RIDGE, {"regularization": -LAMS}, 1.0), ABOVE),
]


def stream(examples, **options):
    return loops.prequential(RIDGE, examples, KEY, **options)


# (a call, a part of the message)
CALLS = [
    (lambda: Taylor(2, -1).features(XS), "degree M >= 0"),
    (lambda: Taylor(18, 9).features(XS), r"C\(27, 9\) = 4,686,825 Taylor features"),
    (lambda: Taylor(3, 2).features(XS), "of 3 inputs; 2 were given"),
    (lambda: stream(XS), r"a tuple \(xs, ys\)"),
    (lambda: stream((XS, YS, YS)), "a tuple of 3"),
    (lambda: stream((XS[:0], YS[:0])), "the stream is empty"),
    (lambda: stream((XS, YS[:3])), "n labels"),
    (lambda: stream((changed(XS, (3, 1), np.nan), YS)), "example 3 is not"),
    (lambda: stream((XS, YS), block=0), "block must be an integer of at least 1"),
    (lambda: stream((XS, YS), segments=-1), "segments must be an integer"),
    (
        lambda: CASES["kors_awv"].advance(
            CASES["kors_awv"].init(XS[0], KEY), jnp.zeros((9000, 2)), jnp.zeros(9000), 1
        ),
        "a block of 9000 examples does not fit a memory of 4096",
    ),
]


@pytest.mark.parametrize(
    ("action", "words"),
    [
        *(
            (lambda make=make: loops.prequential(make(), (XS, YS), KEY), w)
            for make, w in FORECASTERS
        ),
        *CALLS,
    ],
)
def test_mistakes_have_messages(action, words):
    with pytest.raises(ValueError, match=words):
        action()

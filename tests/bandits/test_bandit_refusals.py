"""Bandits, designs and data refuse invalid arguments, with a message that states the cause."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import problem
from small_problems import KEY

from jsketch import Arms, Box, Query, kernels
from jsketch.bandits import (
    BBKB,
    BKB,
    CBRAP,
    SOFUL,
    FixedBKB,
    PointBBKB,
    RegularizedEvolution,
    evolution,
    history,
    initial,
    widths,
)
from jsketch.bandits.linear.fourier import FourierTS, FourierUCB
from jsketch.sketch import bless
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier
from jsketch.types import Evaluations

KERNEL = kernels.Gaussian(0.1)
SQUARE = np.random.default_rng(0).uniform(0, 1, (10, 2))
DOMAIN = Arms(jnp.asarray(SQUARE))
CODES = np.stack(np.meshgrid(*[[0, 1, 2]] * 4, indexing="ij"), -1).reshape(-1, 4)  # 81 codes
TABLE = evolution.one_change_apart(CODES)
POINTS = PointBBKB(KERNEL)
evaluated = partial(history.of_evaluations, DOMAIN)
bkb_code = widths.bkb_code


def begin(bandit, **options):
    return bandit.init(DOMAIN, KEY, **options)


def warm(key=KEY, **options):
    ones = np.ones(10)
    return BBKB(KERNEL).init(DOMAIN, key, data=Evaluations(ones, ones, **options))


def evolve(table=TABLE, **options):
    bandit = RegularizedEvolution(jnp.asarray(table), **options)
    return bandit.init(Arms(jnp.asarray(CODES, float)), KEY)


def pend_nine():
    bandit = FixedBKB(KERNEL, batch=8, max_pending=8)
    bandit.pend(begin(bandit), Query(jnp.arange(9, dtype=jnp.int32), jnp.ones(9, bool)))


def choose(candidates):
    return POINTS.choose(POINTS.init(2, KEY), KEY, candidates)


def maximise(lower, upper):
    return POINTS.maximise(POINTS.init(2, KEY), KEY, Box(lower, upper))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: evolve(TABLE[:5]), "a row for each of the 81 arms"),
        (lambda: evolve(TABLE.ravel()), r"table \[A, K\]"),
        (lambda: evolve(np.where(TABLE[3, 2] == TABLE, 81, TABLE)), "is 81; the arms are 0 to 80"),
        (lambda: evolve(np.where(TABLE[3, 2] == TABLE, -2, TABLE)), "is -2"),
        (lambda: evolve(np.full((81, 2), -1)), "arm 0 has no neighbour"),
        (lambda: evolve(population=0), "population must be"),
        (lambda: evolve(sample=0), "sample must be"),
        (lambda: evolve(population=5, sample=6), "sample must be at most the population; 6 of 5"),
        (lambda: evolve(TABLE + 0.5), "integers"),
        (lambda: evolution.one_change_apart(np.zeros((2, 3))), "repeated"),
        (lambda: evolution.one_change_apart(np.zeros(3)), "matrix"),
        (pend_nine, "max_pending is 8"),
        (lambda: choose(jnp.ones((5, 3))), r"matrix \[A, 2\]"),
        (lambda: choose(jnp.ones((0, 2))), r"A >= 1; the shape is \(0, 2\)"),
        (lambda: choose(jnp.full((3, 2), jnp.nan)), "must be finite"),
        (lambda: maximise(jnp.zeros(3), jnp.ones(3)), "must have shape"),
        (lambda: maximise(jnp.ones(2), jnp.zeros(2)), "lower < upper"),
        (lambda: POINTS.replace(ratio=0.5).init(2, KEY), "ratio must be at least 1"),
        (lambda: POINTS.replace(max_history=0).init(2, KEY), "max_history must be"),
        (lambda: POINTS.tell(POINTS.init(2, KEY), jnp.ones(3), KEY), "one reward for each slot"),
        (lambda: evaluated([0, 99], [1.0, 2.0]), "arms names arm 99; the arms are 0 to 9"),
        (lambda: evaluated([0, 1], [1.0]), "one reward an evaluation"),
        (lambda: evaluated([0, 1], [1.0, np.inf]), "arm 1 is infinite"),
        (lambda: begin(BBKB(KERNEL, initial=np.array([10]))), "initial names arm 10"),
        (lambda: begin(BBKB(KERNEL, initial=np.arange(5), max_batch=3)), "between 1 and"),
        (lambda: warm(dictionary=[-1]), "dictionary names arm -1"),
        (lambda: warm(dictionary="random"), "dictionary must be one of"),
        (lambda: jax.jit(lambda key: warm(key, dictionary="bless"))(KEY), "sampled on the host"),
        (lambda: initial.uncertainty_sampling(KERNEL, DOMAIN, 0.1, 0.01, most=5), "raise `most`"),
        (lambda: initial.uncertainty_sampling(KERNEL, DOMAIN, 0.1, 0.0), "max_variance must be"),
        (
            lambda: initial.batch_of_at_least(0, 2.0),
            "evaluations must be an integer of at least 1; 0",
        ),
        (lambda: bless.bless(KERNEL, SQUARE[:0], [], 0.1, KEY), "at least one point"),
        (lambda: begin(SOFUL(form="ei")), "form must be one of"),
        (lambda: begin(SOFUL(width="tight")), "width must be a width"),
        (lambda: begin(SOFUL(width=bkb_code)), "reads 'variance_sum', which this algorithm does"),
        (lambda: SOFUL().init(Arms(jnp.ones(3)), KEY), "must be a matrix"),
        (lambda: CBRAP().init(Arms(jnp.ones(3)), KEY), "must be a matrix"),
    ],
)
def test_wrong_calls_are_refused(action, message):
    with pytest.raises(ValueError, match=message):
        action()


LINEAR = (SOFUL, CBRAP)
FOURIER = (FourierUCB, FourierTS)
WITH_WIDTH = (lambda **options: BKB(kernels.Gaussian(0.5), **options), CBRAP, SOFUL)


@pytest.mark.parametrize(
    ("makers", "options", "message"),
    [
        (LINEAR, dict(size=0), "size must be an integer of at least 1; 0"),
        (LINEAR, dict(regularization=0.0), "regularization must be a finite number above 0"),
        (LINEAR, dict(delta=1.0), "delta is a probability"),
        (LINEAR, dict(noise_std=-1.0), "noise_std must be a finite number, at least 0"),
        (LINEAR, dict(scale=0.0), "scale must be a finite number above 0"),
        (FOURIER, dict(regularization=0.0), "regularization must be a finite number above 0"),
        (FOURIER, dict(delta=0.0), "delta is a probability"),
        (FOURIER, dict(scale=-1.0), "scale must be a finite number above 0"),
        (FOURIER, dict(features=RandomFourier(0)), "count must be an integer of at least 1; 0"),
        (FOURIER, dict(features=QuadratureFourier(0)), "nodes must be an integer of at least 1; 0"),
        (FOURIER, dict(features=QuadratureFourier(400)), "make a grid of 160000 frequencies"),
        (
            FOURIER,
            dict(features=RandomFourier(4), kernel=kernels.Linear()),
            "Gaussian and Matern kernels; Linear",
        ),
        (
            FOURIER,
            dict(features=QuadratureFourier(4), kernel=kernels.Matern()),
            "are for Gaussian kernels; Matern",
        ),
        (
            WITH_WIDTH,
            dict(width=lambda evidence, confidence: 2.0),
            r"or widths.Formula\(function\) of a function of .* <function",
        ),
        (
            WITH_WIDTH,
            dict(width="paper"),
            "width must be a width, such as widths.bbkb_paper.* 'paper' was given",
        ),
        (WITH_WIDTH, dict(width=None), "None was given"),
        (WITH_WIDTH, dict(width=widths.Bayesian), "width must be a width"),
        (
            WITH_WIDTH,
            dict(width=widths.Bayesian(deviations=-1.0)),
            "deviations must be a finite number, at least 0",
        ),
    ],
)
def test_wrong_options_are_refused(makers, options, message):
    for maker in makers:
        if maker in FOURIER:
            options = dict(kernel=KERNEL) | options
        with pytest.raises(ValueError, match=message):
            maker(**options).init(problem().arms, KEY)

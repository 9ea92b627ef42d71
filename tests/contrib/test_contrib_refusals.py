"""Algorithms and problems in contrib refuse invalid arguments with a message that names them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import KEY

from jsketch import Arms, kernels
from jsketch.bandits import BBKB, BKB, GPUCB, Uniform, widths
from jsketch.contrib import (
    EKUCB,
    KUCB,
    DiscountedBKB,
    LengthscaleBalancing,
    NormDoubling,
    SharedEmbedding,
    WindowBKB,
)
from jsketch.contrib.problems import ClientArms, ContextualArms, DriftingArms, drifting_draw, play
from jsketch.contrib.problems.contextual import Squares

KERNEL, SCALES = kernels.Gaussian(0.5), (1.0, 0.5)
DOMAIN = Arms(jnp.asarray(np.random.default_rng(0).uniform(size=(9, 2))))
KEYS = jax.random.split(KEY, 2)
EXACT, SKETCH = GPUCB(KERNEL, capacity=9), BKB(KERNEL, capacity=9)
WINDOW, EK = WindowBKB(KERNEL, window=3), EKUCB(KERNEL)
SHARED = SharedEmbedding(KERNEL, clients=3, max_wait=3, max_history=16, capacity=24)
ARMS = DriftingArms(DOMAIN, jnp.ones((2, 9)), 4, 0.0)
ACTIONS = jnp.linspace(0, 1, 5)[:, None]
CONTEXTS = ContextualArms(ACTIONS, Squares())
SHORT = KUCB(KERNEL, max_history=4)
X = jnp.ones((3, 2))
RATIONAL = LengthscaleBalancing(EXACT.replace(kernel=kernels.RationalQuadratic()), SCALES)


def begin(bandit):
    return bandit.init(DOMAIN if hasattr(bandit, "base") or isinstance(bandit, BKB) else 2, KEY)


def width_of(bandit):
    return bandit.confidence_width(bandit.init(2, KEY))


def ask(bandit, x):
    return bandit.ask(bandit.init(2, KEY), x, KEY)


def tell(bandit, x, y):
    return bandit.tell(bandit.init(2, KEY), x, y, KEY)


def tell_other_window():
    state = WINDOW.init(DOMAIN, KEY)
    query = WINDOW.ask(state, KEY)
    WINDOW.replace(window=9).tell(state, query, jnp.zeros(query.index.shape), KEY)


def balancing(base=SKETCH, scales=SCALES, *bounds, **options):
    return begin(LengthscaleBalancing(base, scales, *bounds, **options))


def contexts(**changes):
    play(CONTEXTS.replace(**changes), SHORT, 4, KEYS)


def drift(**options):
    drifting_draw(KEY, KERNEL, X, **dict(noise_std=0.1, period=10) | options)


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: begin(DiscountedBKB(KERNEL, discount=1.1)), "discount must lie between 0 and 1"),
        (lambda: begin(WINDOW.replace(resparsify=0.25)), "observation"),
        (tell_other_window, "holds the last 3 observations, and window is 9"),
        (lambda: balancing(scales=(0.5, 1.0)), "the longest one first"),
        (lambda: balancing(scales="abc"), "lengthscales"),
        (lambda: balancing(SKETCH, SCALES, np.ones((2, 2))), r"\(2,\) and \(2, 2\)"),
        (lambda: balancing(scales=(1e200, 1e-200)), "a candidate has .* norm bound inf"),
        (lambda: balancing(delta=1.5), "delta is a probability"),
        (lambda: balancing(rule="least"), "rule must be one of"),
        (lambda: balancing(EXACT, rule="evidence"), "take BKB or BBKB"),
        (lambda: balancing(WINDOW), "a GPUCB, BKB or BBKB; WindowBKB"),
        (lambda: balancing(BBKB(KERNEL, initial=np.arange(3))), "base has an initial design"),
        (lambda: balancing(EXACT.replace(kernel=kernels.Linear())), "kernel; Linear was"),
        (lambda: begin(RATIONAL), 'Take rule="realised"'),
        (lambda: begin(NormDoubling(EXACT)), "a BKB or a BBKB; GPUCB"),
        (lambda: begin(NormDoubling(BKB(KERNEL, norm_bound=0.0))), "norm_bound must be a finite"),
        (lambda: EK.init(2, KEY, "int32"), "dtype must be a floating dtype"),
        (lambda: ask(EK, jnp.zeros((3, 1))), r"a matrix \[A, 2\]"),
        (lambda: tell(EK, jnp.full(2, jnp.nan), 1.0), "candidates must be finite"),
        (lambda: tell(EK, jnp.zeros(2), jnp.zeros(2)), "y must be one real number"),
        (lambda: width_of(EK.replace(width=widths.bkb_code)), "variance_sum"),
        (lambda: ask(SHARED, jnp.zeros((2, 4, 2))), "points of 3 clients"),
        (lambda: ask(SHARED, jnp.zeros((3, 4, 1))), r"the shape \[3, C, 2\]"),
        (lambda: tell(SHARED, X * jnp.nan, jnp.ones(3)), "finite"),
        (lambda: tell(SHARED, X, jnp.ones(2)), "3 rewards"),
        (lambda: tell(SHARED, 1.0, jnp.ones(3)), r"the shape \[3, 2\]"),
        (lambda: tell(SHARED, X, 1j * np.ones(3)), "real numbers"),
        (lambda: drift(period=0), "period must be"),
        (lambda: drift(abrupt="yes"), "abrupt"),
        (lambda: drift(noise_std=-1.0), "noise_std must be"),
        (lambda: play(ARMS, Uniform(), 12, KEYS, restart=0), "restart must be"),
        (
            lambda: play(ARMS, Uniform(), 2, KEYS[None]),
            r"keys must be keys \[S\], one for each run",
        ),
        (lambda: play(CONTEXTS, SHORT, 0, KEYS), "horizon must be an integer"),
        (lambda: play(CONTEXTS, SHORT, 8, KEYS), "max_history of at least 8"),
        (lambda: contexts(actions=ACTIONS[:, 0]), "A single feature is a column"),
        (lambda: contexts(inputs=0), "inputs must be an"),
        (lambda: contexts(reward=lambda c, a: a), "reward must be a callable pytree"),
        (lambda: play(ClientArms(CONTEXTS), SHORT, 3, KEYS), "a bandit of one client"),
    ],
)
def test_mistakes_are_refused(act, words):
    with pytest.raises(ValueError, match=words):
        act()

"""The tables of bandits and of optimisers over a box, and a tiny problem with arms. A new algorithm
gets a row; test_properties.py and test_box_optimisers.py test every row."""

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import kernels, problems
from jsketch.bandits import (
    BBKB,
    BKB,
    GPBUCB,
    GPUCB,
    TS,
    Draw,
    EpsGreedy,
    Extend,
    FixedBKB,
    RegularizedEvolution,
    SketchedTS,
    Uniform,
    widths,
)
from jsketch.bandits.linear.fourier import FourierTS, FourierUCB
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL
from jsketch.box import (
    GOUCB,
    BallAscent,
    GPBandit,
    LocalGOUCB,
    ModelGOUCB,
    Parametric,
    Turbo,
    UniformBox,
)
from jsketch.box.go_ucb.model import LevenbergMarquardt
from jsketch.contrib import (
    BatchedExploration,
    DiscountedBKB,
    LengthscaleBalancing,
    MiniGP,
    NormDoubling,
    RandomExploration,
    WindowBKB,
)
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier

HORIZON = 40
KERNEL = kernels.Gaussian(0.5)
MODEL = dict(kernel=KERNEL, regularization=0.01)
LINEAR = dict(regularization=0.01, noise_std=0.1, norm_bound=1.0, delta=0.1)
ASSUMED = MODEL | LINEAR
SKETCH = dict(ASSUMED, qbar=2.0, dictionary=Draw(), capacity=48)
BATCH = dict(SKETCH, ratio=2.0, max_batch=16)

CASES = {
    "uniform": Uniform(),
    "evolution": RegularizedEvolution(
        (np.arange(60)[:, None] + [1, 7, 59]) % 60, population=8, sample=3
    ),
    "uniform_4": Uniform(batch=4),
    "eps_greedy": EpsGreedy(**MODEL, epsilon=0.2, capacity=40),
    "gp_ucb": GPUCB(**ASSUMED, capacity=40),
    "gp_bucb": GPBUCB(**ASSUMED, max_batch=16, capacity=40),
    "gp_bucb_sum": GPBUCB(**ASSUMED, max_batch=16, capacity=40, rule="sum"),
    "mini_gp_ucb": MiniGP(**ASSUMED, max_batch=16, capacity=40),
    "mini_gp_ei": MiniGP(**ASSUMED, max_batch=16, capacity=40, acquisition="ei"),
    "ts": TS(**ASSUMED, scale=0.5, batch=6, capacity=40),
    "sketched_ts": SketchedTS(**SKETCH, scale=0.5, batch=6),
    "fixed_bkb": FixedBKB(**SKETCH, batch=6),
    "soful": SOFUL(**LINEAR, size=1),
    "soful_ts": SOFUL(**LINEAR, size=1, form="ts"),
    "cbrap": CBRAP(**LINEAR, size=2),
    "rff_ucb": FourierUCB(**ASSUMED, features=RandomFourier(20)),
    "qff_ts": FourierTS(**ASSUMED, features=QuadratureFourier(6)),
    "bkb": BKB(**SKETCH),
    "bkb_certified": BKB(**SKETCH, width=widths.certified),
    "bkb_extended": BKB(**SKETCH | dict(dictionary=Extend())),
    "discounted_bkb": DiscountedBKB(**SKETCH, discount=0.95),
    "window_bkb": WindowBKB(**SKETCH, window=25),
    "lengthscale_balancing": LengthscaleBalancing(
        GPUCB(**ASSUMED, width=widths.mixture, capacity=40), (1.0, 0.5, 0.25)
    ),
    "norm_doubling": NormDoubling(BKB(**SKETCH | dict(norm_bound=0.1))),
    "few_batches": BatchedExploration(**ASSUMED, horizon=HORIZON, capacity=40),
    "random_exploration": RandomExploration(**ASSUMED, horizon=HORIZON, capacity=40),
    "bbkb_global": BBKB(**BATCH),
    "bbkb_initial": BBKB(**BATCH, initial=np.arange(0, 60, 12)),
    "bbkb_extended": BBKB(**BATCH | dict(dictionary=Extend())),
    "bbkb_global_paper": BBKB(**BATCH, width=widths.bbkb_paper),
    "bbkb_global_local": BBKB(**BATCH, rule="global_local"),
    "bbkb_global_local_guaranteed": BBKB(
        **BATCH, rule="global_local", local_statistic="guaranteed"
    ),
    "bbkb_global_local_authors": BBKB(**BATCH, rule="global_local", strict=False),
}

INITIAL = 4
GP = GPBandit(initial=INITIAL, candidates=20, starts=2, steps=10, fit_steps=5)
TURBO = Turbo(initial=INITIAL, batch=2, candidates=20, frequencies=16, fit_steps=5)
LM = LevenbergMarquardt(steps=8, restarts=2)


def branin(first, second, curvature, slope, height):
    """Branin's function, of which some numbers are not known."""
    valley = second - curvature * first**2 + slope * first - 6
    return -(valley**2) - height * (1 - 1 / (8 * jnp.pi)) * jnp.cos(first) - height


LAW = Parametric(
    branin, dict(curvature=(0.0, 0.5, 0.2), slope=(0.0, 4.0, 1.0), height=(1.0, 30.0, 5.0))
)
OPTIMISERS = {
    "uniform": UniformBox(initial=INITIAL),
    "gp_log_ei": GP,
    "gp_ucb": GP.replace(acquisition="ucb"),
    "turbo_1": TURBO,
    "turbo_2": TURBO.replace(regions=2, batch=3),
    "go_ucb": GOUCB(initial=INITIAL),
    "go_ucb_local": LocalGOUCB(
        initial=INITIAL, oracle=LM, ascent=BallAscent(candidates=64, starts=8, steps=40)
    ),
    "go_ucb_model": ModelGOUCB(
        LAW,
        noise_std=1.0,
        initial=INITIAL,
        restarts=1,
        fit_steps=10,
        candidates=32,
        starts=2,
        steps=10,
    ),
}

# rows that share most of their code with another row; their property tests are marked slow
VARIANTS = {
    "uniform_4",
    "gp_bucb_sum",
    "mini_gp_ei",
    "soful_ts",
    "bkb_certified",
    "bkb_extended",
    "discounted_bkb",
    "window_bkb",
    "few_batches",
    "random_exploration",
    "lengthscale_balancing",
    "norm_doubling",
    "bbkb_initial",
    "bbkb_global_paper",
    "bbkb_global_local_guaranteed",
    "bbkb_global_local_authors",
}


def features(dtype=None):
    """Features [60, 2] in the unit square."""
    return jax.random.uniform(jax.random.key(7), (60, 2), dtype or jnp.float_)


def problem(dtype=None):
    """A problem with smooth mean rewards and noise of standard deviation 0.1."""
    x = features(dtype)
    return problems.finite_arms(x, jnp.sin(4 * x[:, 0]) * jnp.cos(3 * x[:, 1]), 0.1)

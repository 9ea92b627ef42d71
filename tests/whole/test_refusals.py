"""Mistakes, a row each, raise ValueError on the host with a message that states the cause."""

import dataclasses
import inspect
import itertools
from functools import partial
from typing import Any

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_online
from cases import CASES, features
from flax import linen as nn
from rows import check_refusals
from test_evolution import CODES, NEIGHBOURS

from jsketch import Arms, Box, Query, kernels, loops, online, problems, rollout, struct
from jsketch.bandits import (
    BBKB,
    BKB,
    CBRAP,
    GPBUCB,
    GPUCB,
    SOFUL,
    TS,
    EpsGreedy,
    Extend,
    FixedBKB,
    FourierUCB,
    PointBBKB,
    RegularizedEvolution,
    Uniform,
    evolution,
    history,
    initial,
    widths,
)
from jsketch.bandits.linear.fourier import FourierTS
from jsketch.box import GOUCB, BallAscent, GPBandit, LocalGOUCB, Turbo, UniformBox
from jsketch.box import history as box_history
from jsketch.box.go_ucb.ball import OFUL
from jsketch.box.go_ucb.model import Functions, Gradient, LevenbergMarquardt
from jsketch.box.gp.fit import Bounds, LogNormal, Prior
from jsketch.contrib import (
    CBBKB,
    EKUCB,
    KUCB,
    DiscountedBKB,
    DiscountedPKAWV,
    IndependentClients,
    LengthscaleBalancing,
    NormDoubling,
    SharedEmbedding,
    WindowBKB,
    discount_mixture,
    partition,
)
from jsketch.contrib.problems import ClientArms, ContextualArms, DriftingArms, drifting_draw, play
from jsketch.contrib.problems.contextual import Squares
from jsketch.online.mixture import Mixture
from jsketch.posterior import exact
from jsketch.scale import distributed, place, prequential_in_segments
from jsketch.sketch import bless
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor
from jsketch.suggest import discrete
from jsketch.types import BoxQuery, Evaluations

KEY = jax.random.key(0)
KERNEL, ARD = kernels.Gaussian(0.5), (kernels.Gaussian, kernels.Matern, kernels.Linear)
LARGE = 10**9
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(40, 2))
COUNTS = np.random.default_rng(0).poisson(2.0, (40, 6)).astype(float)
ROWS = np.arange(40.0)[:, None]
graph = kernels.GraphMatern.from_laplacian
GRAPH = graph(np.zeros((1, 1)))
TABLE = np.exp(-2 * np.square(X[:, None] - X).sum(-1))
IMAGINARY = X + 1j
ZEROS, ONES = np.zeros(40), np.ones(40)
ARMS, PROBLEM = Arms(X), problems.finite_arms(X, X[:, 0], 0.1)
BOX, POINT = Box(jnp.zeros(1), jnp.ones(1)), jnp.zeros(2)
FLAT, NOWHERE = LogNormal(0.0, 0.0), LogNormal(np.nan, 1.0)
BOX_PROBLEM = problems.on_box(len, BOX)
QUERY = Query(jnp.zeros(1, jnp.int32), jnp.ones(1, bool))
NINE_ARMS = Query(jnp.arange(9, dtype=jnp.int32), jnp.ones(9, bool))
FIXED = FixedBKB(KERNEL, batch=8, max_pending=8)
POINT_BBKB, NYSTROM = PointBBKB(KERNEL), online.NystromAWV(KERNEL, capacity=64)
RIDGE = online.PKAWV(Taylor(2, 2))
KONS, DISCOUNTED = online.SketchedKONS(KERNEL), DiscountedPKAWV(Taylor(2, 2), discount=0.9)
Y, PAIR, LONG, LAMS = X[:, 0], jnp.ones(2), jnp.zeros(99), np.array([1e-3, 0.1, 10.0])
evaluations_of = partial(history.of_evaluations, ARMS)
STATE = NYSTROM.init(X[0], KEY)
SCALES, KEYS, CLIENTS = (1.0, 0.5), jax.random.split(KEY, 2), jnp.ones((3, 2))
GP, SKETCH, WINDOW = GPUCB(KERNEL), BKB(KERNEL), WindowBKB(KERNEL, window=3)
EK, SHORT_KUCB = EKUCB(KERNEL), KUCB(KERNEL, max_history=4)
SHARED = SharedEmbedding(KERNEL, clients=3, max_wait=3, max_history=16, capacity=24)
DRIFTING = DriftingArms(ARMS, jnp.ones((2, 40)), 4, 0.0)
ACTIONS = jnp.linspace(0, 1, 5)[:, None]
CONTEXTS = ContextualArms(ACTIONS, Squares())
RATIONAL = LengthscaleBalancing(GP.replace(kernel=kernels.RationalQuadratic()), SCALES)
INVALID_BOXES = [
    (Box(jnp.zeros(2), jnp.array([1.0, 0.0])), "finite lower < upper"),
    (Box(jnp.zeros(2), jnp.array([1.0, jnp.inf])), "finite lower < upper"),
    (Box(jnp.zeros(2), jnp.ones(3)), "upper must have shape"),
    (Box(jnp.zeros((2, 1)), jnp.ones((2, 1))), "lower must be a vector"),
    (Box(jnp.zeros(0), jnp.ones(0)), "at least one input"),
    ((jnp.zeros(2), jnp.ones(2)), r"a box is Box\(lower, upper\), .*; \(Array"),
    (None, "a box is Box.*; None was given"),
    (Box(["low", "0"], ["high", "1"]), "a box's lower and upper must be numbers"),
]
MODELS = (GPBandit(), Turbo(), GOUCB(), LocalGOUCB())
OPTIMISERS = (UniformBox(), *MODELS)
MESHES = [jax.make_mesh((1,), (axis,), devices=jax.devices()[:1]) for axis in ("arms", "rows")]
WITH_IF = lambda x, key: x[0] if x[0] > 0 else -x[0]  # noqa: E731
ADDRESS = "127.0.0.1:1"
MIN_MAX = online.KernelAWV(discrete.MinMax(), capacity=2)
NOGD, EXACT = online.NOGD(KERNEL, 0.1), online.KernelAWV(KERNEL, capacity=2)


@struct.dataclass
class PicksMissingArm(Uniform):
    """An algorithm whose query contains an arm that does not exist."""

    def ask(self, state, arms, key, limit=None):
        return Query(jnp.array([-1], jnp.int32), jnp.ones(1, bool))


@struct.dataclass
class Asks(Uniform):
    """An algorithm whose query is a field."""

    query: Any = None

    def ask(self, state, arms, key, limit=None):
        return self.query


@struct.dataclass
class PicksNumber(Uniform):
    """An algorithm whose `ask` returns an arm in place of a query."""

    def ask(self, state, arms, key, limit=None):
        return jnp.int32(0)


class Undecorated(Uniform):
    """An algorithm whose class lacks @struct.dataclass."""


class PlainKernel:
    """A kernel whose class lacks @struct.dataclass."""

    def gram(self, x, y):
        return KERNEL.gram(x, y)

    def diag(self, x):
        return KERNEL.diag(x)


@struct.dataclass
class NumpyKernel:
    """A kernel of NumPy operations, with a field that may be a text."""

    name: Any = 0.0

    def gram(self, x, y):
        return np.exp(x @ y.T)

    def diag(self, x):
        return jnp.ones(len(x))


@struct.dataclass
class OneSided:
    """A kernel of a class, that is not symmetric."""

    def gram(self, x, y):
        return jnp.exp(-jnp.abs(2 * x[:, None] - y[None]).sum(-1))

    def diag(self, x):
        return jnp.exp(-jnp.abs(x).sum(-1))


class TinygpKernel:
    """A kernel with the methods of those of tinygp."""

    def evaluate(self, x, y):
        return KERNEL.gram(x[None], y[None])[0, 0]

    def __call__(self, x, y=None):
        return KERNEL.diag(x) if y is None else KERNEL.gram(x, y)


class GPJaxKernel:
    """A kernel with the methods of those of GPJax, for single points."""

    def __call__(self, x, y):
        return KERNEL.gram(x[None], y[None])[0, 0]

    def gram(self, x):
        raise NotImplementedError

    def cross_covariance(self, x, y):
        return KERNEL.gram(x, y)


ONE_SIDED = kernels.Pointwise(lambda x, y: jnp.exp(-jnp.abs(2 * x - y).sum()))


def begin(bandit, x=X, **data):
    return bandit.init(Arms(x), KEY, data=Evaluations(**data) if data else None)


def run(bandit=None, problem=PROBLEM, key=KEY, horizon=2, **options):
    return loops.run(bandit or Uniform(), problem, key, horizon, **options)


def drive(bandit=None, objective=pytest.fail, domain=ARMS, key=KEY, horizon=2, **options):
    return loops.drive(bandit or Uniform(), objective, domain, key, horizon, **options)


def over_box(optimizer, box=BOX, horizon=9):
    return optimizer.init(box, KEY, horizon=horizon)


def with_value(apply):
    return GOUCB(model=Functions(lambda key, x: jnp.ones(1), apply))


def with_parameters(w):
    return GOUCB(model=Functions(lambda key, x: w, lambda w, x: x.sum()))


def init(value):
    """The state of an algorithm over arms, points or a box, or of a forecaster."""
    first = next(iter(inspect.signature(value.init).parameters))
    if first == "domain" and type(value).__module__.startswith("jsketch.box"):
        return over_box(value)
    return value.init(dict(arms=ARMS, dimension=2, x=POINT)[first], KEY)


def ask_at(bandit, x):
    return bandit.ask(bandit.init(2, KEY), x, KEY)


def tell_at(bandit, x, y):
    return bandit.tell(bandit.init(2, KEY), x, y, KEY)


def balancing(base=SKETCH, scales=SCALES, *bounds, **options):
    return init(LengthscaleBalancing(base, scales, *bounds, **options))


def contexts(**changes):
    play(CONTEXTS.replace(**changes), SHORT_KUCB, 4, KEYS)


def drift(**options):
    drifting_draw(KEY, KERNEL, X, **dict(noise_std=0.1, period=10) | options)


def tell_box(query, y):
    return UniformBox().tell(BOX_STATE, query, y, KEY)


def stream(xs=X, ys=X[:, 0], forecaster=EXACT, **options):
    return loops.prequential(forecaster, (xs, ys), KEY, **options)


def prequential(examples):
    return loops.prequential(EXACT, examples, KEY)


def warm_start(x=X, **options):
    return begin(BBKB(KERNEL), x, pull_counts=ONES, reward_sums=ONES, **options)


def evolve(table=NEIGHBOURS, **options):
    bandit = RegularizedEvolution(jnp.asarray(table), **options)
    return bandit.init(Arms(jnp.asarray(CODES, float)), KEY)


def choose(candidates):
    return POINT_BBKB.choose(POINT_BBKB.init(2, KEY), KEY, candidates)


def maximise(lower, upper):
    return POINT_BBKB.maximise(POINT_BBKB.init(2, KEY), KEY, Box(lower, upper))


def traced_gram(kind, method="gram"):
    x = (ROWS,) if method == "diag" else (ROWS, ROWS)
    return jax.eval_shape(lambda each: getattr(kind(each), method)(*x), np.ones(3))


def traced_width(width):
    return jax.eval_shape(BKB(KERNEL, width=width).ask, begin(BKB(KERNEL)), ARMS, KEY)


def test_invalid_kernels_and_inputs_are_refused():
    for kernel, x, words in [
        (discrete.Tanimoto(packed=False), COUNTS, r"compares zeros and ones .* is 2.0"),
        (discrete.Tanimoto(), X, r"words of 16 bits, from pack_bits; input \[0, 0\]"),
        (discrete.MinMax(), COUNTS - 1, "at least 0; input .* is -1.0"),
        (kernels.Scaled(discrete.MinMax(), 2.0), COUNTS - 1, "at least 0; input"),
        (kernels.Precomputed(TABLE), X, r"takes features \[A, 1\]"),
        (kernels.Precomputed(TABLE), X[:, :1], "arm 0 is 0.63.*, but the rows of the table"),
        (kernels.Precomputed(TABLE[:9, :9]), ROWS, "arm 9 is 9.0, .* the table are 0 to 8"),
        (kernels.Precomputed(TABLE[:9]), ROWS, r"square matrix \[A, A\]; its shape is \(9, 40\)"),
        (kernels.Precomputed(TABLE + ROWS), ROWS, r"must be symmetric: entry \[0, 1\]"),
        (kernels.Precomputed(TABLE * np.nan), ROWS, "must be finite"),
        (kernels.Gaussian(-1.0), X, "lengthscale must be a finite number above 0; -1.0"),
        (kernels.RationalQuadratic(1.0, -0.5), X, "alpha must be a finite number above 0"),
        (kernels.Polynomial(offset=-1.0), X, "offset must be a finite number, at least 0"),
        (kernels.Polynomial(degree=2.5), X, "degree must be an integer of at least 1; 2.5"),
        (kernels.Scaled(KERNEL, -1.0), X, "variance must be a finite number, at least 0"),
        (kernels.Sum(KERNEL, kernels.Gaussian(0.0)), X, "lengthscale must be a finite number"),
        (kernels.Constant(-1.0), X, "value must be a finite number, at least 0; -1.0"),
        (kernels.Periodic(1.0, 0.0), X, "period must be a finite number above 0; 0.0"),
        (kernels.Periodic(1.0, np.ones(3)), X, "its period has shape .* one period for each"),
        (kernels.Periodic(1.0, [1.0, 2.0]), X, "period must be a number or an array"),
        (kernels.Select(KERNEL, [0, 2]), X, r"columns \[0, 2\] are not among the 2 inputs"),
        (KERNEL + kernels.Select(kernels.Gaussian(0.0), [1]), X, "lengthscale must be a finite"),
        (GRAPH, X, r"GraphMatern kernel takes features \[A, 1\]"),
        (GRAPH, ROWS + 1, "arm 0 is 1.0, but the rows of the table are 0 to 0"),
        (GRAPH.replace(nu=np.nan), ROWS, "nu must be a number above 0; nan"),
        (GRAPH.replace(lengthscale=np.ones(2)), ROWS, "lengthscale must be one number"),
        (kernels.Pointwise(lambda x, y: x * y), X, r"must return one number, .*shape=\(2,\)"),
        (kernels.Pointwise(lambda x, y: np.exp(x @ y)), X, "that jit accepts, .* JAX reports"),
        (kernels.Pointwise(lambda x, y: x[0] if x[0] > 0 else y[0]), X, "without a Python `if`"),
    ]:
        with pytest.raises(ValueError, match=words):
            begin(BKB(kernel), x)
        # one example is checked as arm 0
        example = jnp.asarray(x[9 if "arm 9" in words else 0])
        with pytest.raises(ValueError, match=words.replace("arm 9", "arm 0")):
            online.KernelAWV(kernel, capacity=2).init(example, KEY)


@pytest.mark.parametrize("name", CASES)
def test_invalid_arms_are_refused(name):
    x = features()
    rows = [
        (x.at[3, 1].set(jnp.nan), "arm 3, feature 1 is nan"),
        (x.at[0, 0].set(jnp.inf), "arm 0, feature 0 is inf"),
        (x[:, 0], "must be a matrix"),
        (x[None], "must be a matrix"),
        (x[:0], "there are no arms, or no features"),
        (jnp.ones((4, 2), jnp.int32), "floating point"),
    ]
    check_refusals((partial(begin, CASES[name], wrong), words) for wrong, words in rows)


# (function that makes a forecaster with an invalid setting, pattern of the error)
FORECASTERS = [
    (lambda: online.NystromAWV(KERNEL, sampling=Sampling(mu=0.0)), "mu must be"),
    (lambda: online.FOGD(kernels.Linear(), 0.1), "Gaussian and Matern"),
    (lambda: online.ProsNKONS(KERNEL, sampling=Sampling(beta=0.0)), "beta must be"),
    # discounts
    (lambda: DISCOUNTED.replace(discount=0.0), "discount must be a finite number above 0; 0.0"),
    (lambda: DISCOUNTED.replace(discount=1.01), "discount must lie between 0 and 1; 1.01"),
    (lambda: DISCOUNTED.replace(discount=np.ones(2)), "discount must be one number"),
    (lambda: discount_mixture(DISCOUNTED, 0.9, 1.0), "leading axis"),
    (lambda: discount_mixture(online.FOGD(KERNEL, 0.1), [0.9], 1.0), "the grid has 'discount'"),
    # mixtures
    (lambda: online.regularization_mixture(RIDGE, 0.1, 1.0), "leading axis"),
    (lambda: Mixture(RIDGE, {"penalize_current": PAIR}, 1.0), "the grid has 'penalize_current'"),
    (lambda: Mixture(RIDGE, {}, 1.0), "leading axis"),
    (lambda: Mixture(RIDGE, {"regularization": -LAMS}, 1.0), "regularization must be a finite"),
]

# (function that makes an algorithm with an invalid setting, pattern of the error)
SETTINGS = [
    (lambda: BKB(KERNEL, regularization=0.0), "must be a finite number above 0; 0.0"),
    (lambda: BBKB(KERNEL, regularization="0.1"), "above 0; '0.1' was given"),
    (lambda: BKB(KERNEL, regularization=ONES), r"regularization must be one number; .* \(40,\)"),
    (lambda: BKB(KERNEL, 1e-320), "regularization must be above"),
    (lambda: BBKB(KERNEL, delta=0.0), "delta must be a finite number above 0 and below 1"),
    (lambda: BBKB(KERNEL, ratio=0.9), "ratio must be a finite number, at least 1; 0.9"),
    (lambda: BBKB(KERNEL, max_batch=0), "max_batch must be an integer of at least 1; 0"),
    (lambda: BKB(KERNEL, dictionary=Extend(-0.1)), "slack must be a finite number, at least 0"),
    (lambda: BKB(KERNEL, dictionary="draw"), r"must be Draw\(\) or Extend\(slack\).*; 'draw' was"),
    (lambda: BKB(KERNEL, dictionary=Extend), r"must be Draw\(\) or Extend\(slack\).*; <class"),
    (lambda: BKB(KERNEL, dictionary=None), r"must be Draw\(\) or Extend\(slack\).*; None was"),
    (lambda: EpsGreedy(KERNEL, epsilon=1.5), "epsilon"),
    (lambda: BKB(kernels.Gaussian(1e-200)), "lengthscale must be at least"),
    (lambda: BKB(kernels.Gaussian([1.0, 2.0])), "lengthscale must be a number or an array"),
    (lambda: GPUCB(kernels.Gaussian(jnp.ones(3))), "one lengthscale (a|for each) feature"),
    (lambda: FourierUCB(KERNEL, features=Taylor(2, 2)), "features must be RandomFourier or"),
    (lambda: CBRAP(width=widths.Bayesian(-1.0)), "deviations must be a finite number, at least 0"),
    (lambda: BKB(KERNEL, width=lambda evidence, c: 2.0), r"Formula\(function\) .* <function"),
    (lambda: SOFUL(width=widths.bkb_code), "reads 'variance_sum', but the DirectionsEvidence"),
    (lambda: CBRAP(size=0), "size must be an integer of at least 1; 0"),
    (lambda: SOFUL(scale=0.0), "scale must be a finite number above 0"),
    (lambda: FourierTS(KERNEL, features=RandomFourier(0)), "count must be .* at least 1; 0"),
    (lambda: FourierUCB(KERNEL, features=QuadratureFourier(400)), "a grid of 160000 frequencies"),
    (lambda: FourierUCB(kernels.Linear(), features=RandomFourier(4)), "and Matern kernels; Linear"),
    (lambda: FourierTS(kernels.Matern(), features=QuadratureFourier(4)), "kernels; Matern"),
    (lambda: BBKB(KERNEL, initial=np.array([40])), "initial contains arm 40"),
    (lambda: BBKB(KERNEL, initial=np.arange(5), max_batch=3), "between 1 and"),
    (lambda: POINT_BBKB.replace(max_history=0), "max_history must be"),
    # sizes beyond the memory
    (
        lambda: BKB(KERNEL, capacity=LARGE),
        "capacity = 1,000,000,000 and arms = 40 would need about",
    ),
    (lambda: BBKB(KERNEL, max_batch=10**12), "max_batch = 1,000,000,000,000 would need about"),
    (lambda: GPBUCB(KERNEL, new_arms=LARGE), "new_arms = 1,000,000,000 would need about"),
    (lambda: TS(KERNEL, batch=LARGE), "batch = 1,000,000,000 would need about"),
]

ALGORITHMS = [*CASES.values(), *cases.OPTIMISERS.values(), *test_online.CASES.values()]
PUBLIC_OBJECTS = [
    *{type(value): value for value in ALGORITHMS}.values(),
    *(kind(KERNEL) for kind in (PointBBKB, KUCB, EKUCB, CBBKB, SharedEmbedding)),
    *(IndependentClients(KUCB(KERNEL)), kernels.Scaled(KERNEL, 2.0)),
    *(kernels.Sum(KERNEL, KERNEL), kernels.Product(KERNEL, KERNEL)),
    kernels.Select(KERNEL, [0]),
    *(Gradient(), LevenbergMarquardt(), Sampling(), RandomFourier(), QuadratureFourier()),
]


public = pytest.mark.parametrize("value", PUBLIC_OBJECTS, ids=lambda one: type(one).__name__)


@public
def test_numbers_out_of_their_range_are_refused(value):
    """-1 is in no range. `init` checks the numbers, because `vmap` needs arrays as fields."""
    if not hasattr(value, "init"):
        return
    names = [field.name for field in dataclasses.fields(value) if "range" in field.metadata]
    for name in names:
        with pytest.raises(ValueError, match=rf"{name} .*; -1"):
            init(value.replace(**{name: -1}))
            pytest.fail(name)


@public
def test_parts_and_sizes_of_another_kind_are_refused_at_construction(value):
    parts = {"dictionary", "features", *(["width"] if hasattr(value, "norm_bound") else [])}
    names = [
        field.name
        for field in dataclasses.fields(value)
        if field.name in parts
        or "component" in field.metadata
        or not field.metadata.get("pytree_node", True)
    ]
    assert names
    for name, wrong in itertools.product(names, ("wrong", dict)):
        with pytest.raises(ValueError, match="must be") as error:
            value.replace(**{name: wrong})
            pytest.fail(f"{name}={wrong!r}")
        assert "\n" not in str(error.value)


CALLS = {
    "loops": [
        (lambda: loops.drive(Uniform(), len, X, KEY, 2), r"arms are given as Arms\(features\)"),
        (lambda: drive(Uniform), "the algorithm must be an object with methods init, ask and tell"),
        (lambda: drive(objective=PROBLEM), "objective must be a function of"),
        (lambda: drive(objective=lambda: 1), r"function of \(arms\); its arguments are \(\)"),
        (lambda: drive(state=begin(Uniform())), "state is what an earlier call"),
        (lambda: drive(checkpoint=3), "the path of a file"),
        (lambda: drive(PicksMissingArm()), "the query contains arm -1"),
        (lambda: drive(objective=lambda arms: 1j * arms), "rewards must be real"),
        (lambda: run(problem=ARMS), "the problem must be an object with arms, mean_reward"),
        (lambda: run(Undecorated()), "decorate its class with @jsketch.struct"),
        (lambda: run(states=[begin(BKB(KERNEL))]), "of another algorithm"),
        (lambda: run(states=3), "states is a list of 1, one for each key; a int"),
        (lambda: run(on_progress=3), "on_progress must be a"),
        (lambda: run(on_report=lambda: 1), r"on_report must be a function of \(report\)"),
        (lambda: run(reports=2.5), "reports must be an integer"),
        (lambda: run(key=0), "key must be one key"),
        (lambda: run(key=jax.random.split(KEY, 2)[:0]), "key must be keys"),
        (lambda: run(UniformBox(), BOX_PROBLEM, states=[3]), "are for runs over arms"),
        (lambda: run(UniformBox(), len), "as problems.on_box"),
        (lambda: run(checkpoint="no_such_folder/run"), "in a folder that exists"),
        (lambda: drive(stop=0.1), "Uniform has no confidence bounds of all arms"),
        (lambda: drive(BKB(KERNEL), stop=-1.0), "stop must be a finite number above 0"),
        (lambda: drive(stop=lambda: True), r"stop must be a function of \(driven\)"),
        (lambda: run(BKB(KERNEL), BOX_PROBLEM), "chooses among arms, and the domain"),
        (lambda: run(UniformBox()), "maximises over a box, but the domain has arms"),
        (lambda: drive(BKB(KERNEL), len, BOX), "chooses among arms, and the domain is a box"),
        (lambda: rollout(PROBLEM, Uniform(), KEY, 5), "the algorithm must be an object with met"),
        (lambda: rollout(Uniform(), PROBLEM, KEYS, 5), "key must be one key"),
        (lambda: rollout(Uniform(), PROBLEM, KEY, 5.5), "horizon must be an integer"),
        *((lambda h=h: run(horizon=h), "horizon must be an integer") for h in (0, -5, 2.5, True)),
        *((lambda h=h: drive(horizon=h), "horizon must be an integer") for h in (0, -5, 5.5)),
        (lambda: run(horizon=10**12), "horizon can be at most"),
        (lambda: run(horizon=2 * LARGE), "horizon = 2,000,000,000 would need about"),
        (lambda: drive(Asks(query=3)), "a query is the result of `ask`, or Query"),
        (lambda: drive(Asks(query=Query(np.zeros((1, 1), int), QUERY.mask))), "must be a vector"),
        (lambda: drive(Asks(query=Query(np.zeros(1), QUERY.mask))), "its dtype float64"),
        (lambda: drive(Asks(query=Query(np.zeros(2, int), QUERY.mask))), "a bool for each of 2"),
        (lambda: drive(objective=lambda arms: np.zeros(3)), "1 rewards for 1 arms; .* shape .3,."),
        (lambda: drive(objective=lambda arms: "low"), "rewards must be real"),
    ],
    "settings": [(lambda make=make: init(make()), words) for make, words in SETTINGS],
    "algorithms": [
        (lambda: BKB(KERNEL).init(ARMS, 0), "key must be one key"),
        (lambda: begin(BKB(KERNEL), IMAGINARY), "floating point numbers"),
        (lambda: PointBBKB(KERNEL).init(2, KEY, "int32"), "dtype must be a floating dtype"),
        (lambda: PointBBKB(KERNEL, max_history=2 * LARGE).init(20, KEY), "max_history = 2,000,0"),
        (lambda: traced_width(widths.soful_paper), "'shrunk', but the SketchedEvidence of"),
        (lambda: widths.Formula(lambda e: 1.0), r"function of \(evidence, confidence\)"),
        (lambda: traced_width(widths.Formula(lambda e, c: "wide")), "width must be one real"),
        (lambda: traced_width(widths.Formula(lambda e, c: e.count * X[0])), "one real number"),
        (lambda: exact.grow(exact.prior(KERNEL, jnp.asarray(X), 0.1, 8), 4), "it is 8"),
        (lambda: PointBBKB(KERNEL).grow(PointBBKB(KERNEL).init(2, KEY), 8), "can only grow"),
        (lambda: PointBBKB(KERNEL).extend(PointBBKB(KERNEL).init(2, KEY), 8), "max_history can"),
        (lambda: partition.single_cell(BOX, 2.5), "cells must be an integer"),
        (lambda: partition.single_cell(BOX, 2), "cells must be at least 3: .* 2 was given"),
        (lambda: RandomFourier(2.5).draw(KERNEL, 2, KEY, jnp.float_), "2.5 was given"),
        (lambda: kernels.Matern(1.0, nu=2.0).gram(X, X), "closed forms for nu"),
        (lambda: begin(BKB(NumpyKernel())), "the kernel's gram must be a function that jit acc"),
        (lambda: begin(BKB(ONE_SIDED)), r"be symmetric: k\(x, y\) is 0.* and k\(y, x\) is 0"),
        (lambda: begin(BKB(ONE_SIDED + KERNEL)), "the function of a kernel must be symmetric"),
        (lambda: begin(BKB(OneSided())), r"a kernel must be symmetric: k\(x, y\) of arms \d+ and"),
        (lambda: KUCB(NumpyKernel()).init(2, KEY), "a method of the kernel must be a function tha"),
        (lambda: BKB(NumpyKernel("name")), "name of kernel, 'name', is a leaf .* declare it with"),
        (
            lambda: kernels.Select(KERNEL, [-1]),
            r"columns must be distinct .*\[-1\] was",
        ),
        (lambda: kernels.Select(KERNEL, []), "columns must be distinct numbers of inputs"),
        (lambda: kernels.Select(KERNEL, [0.5]), "columns must be distinct numbers of inputs"),
        (lambda: kernels.Select(KERNEL, [0, 0]), "columns must be distinct numbers"),
        (lambda: kernels.Select(KERNEL, [1]).gram(X[:, :1], X), r"columns \[1\] are not among"),
        (lambda: kernels.Pointwise(3), r"function must be a function of \(x, y\); a int"),
        (lambda: kernels.Pointwise(lambda x: x), r"function of \(x, y\); its arguments are \(x\)"),
        (lambda: kernels.Pointwise(kernels.Gaussian), "function must be an object, not a class"),
        (lambda: graph(1 - np.eye(3)), "no negative eigenvalues; the least .* is -1"),
        (lambda: graph(np.triu(np.ones((3, 3)))), r"a Laplacian must be symmetric: entry \[0, 1\]"),
        (lambda: graph(np.ones((3, 2))), "a Laplacian is a square matrix"),
        (lambda: graph(np.full((3, 3), np.nan)), "a Laplacian must be finite"),
        (lambda: graph("wrong"), "a Laplacian must be real numbers"),
        # no other check reads the lengthscales of a traced kernel
        *((lambda k=k: traced_gram(k), r"has shape \(3,\). An ARD kernel needs one") for k in ARD),
        (lambda: traced_gram(kernels.Linear, "diag"), "An ARD kernel needs one"),
        (lambda: jax.eval_shape(lambda lam: begin(BKB(KERNEL, lam)), ONES), "must be one number"),
    ],
    "evolution": [
        (lambda: evolve(NEIGHBOURS[:5]), "a row for each of the 81 arms"),
        (lambda: evolve(NEIGHBOURS.ravel()), r"table \[A, K\]"),
        (lambda: evolve(np.where(NEIGHBOURS == 5, 81, NEIGHBOURS)), "is 81; the arms are 0 to 80"),
        (lambda: evolve(np.full((81, 2), -1)), "arm 0 has no neighbour"),
        (lambda: evolve(population=5, sample=6), "sample must be at most population = 5; 6 was"),
        (lambda: evolve(NEIGHBOURS + 0.5), "integers"),
        (lambda: evolution.one_change_apart(np.zeros((2, 3))), "repeated"),
        (lambda: evolution.one_change_apart(np.zeros(3)), "matrix"),
    ],
    "points": [
        (lambda: choose(jnp.ones((5, 3))), r"matrix \[A, 2\]"),
        (lambda: choose(jnp.full((3, 2), jnp.nan)), "must be finite"),
        (lambda: maximise(jnp.zeros(3), jnp.ones(3)), "must have shape"),
        (lambda: maximise(jnp.ones(2), jnp.zeros(2)), "lower < upper"),
        (
            lambda: POINT_BBKB.tell(POINT_BBKB.init(2, KEY), Y[:3], KEY),
            "y must have max_batch = 64",
        ),
    ],
    "observed evaluations": [
        (lambda: evaluations_of([0, 99], [1.0, 2.0]), "arms contains arm 99; the arms are 0 to 39"),
        (lambda: evaluations_of([0, 1], [1.0]), "one reward for each evaluation"),
        (lambda: evaluations_of([0, 1], [1.0, np.inf]), "arm 1 is infinite"),
        (lambda: evaluations_of([0], [1j]), "rewards must be real"),
        (lambda: warm_start(dictionary=[-1]), "dictionary contains arm -1"),
        (lambda: warm_start(dictionary="random"), "dictionary must be one of"),
        (lambda: jax.jit(lambda x: warm_start(x, dictionary="bless"))(X), "sampled on the host"),
        (lambda: initial.uncertainty_sampling(KERNEL, ARMS, 0.1, 0.01, limit=5), "raise limit"),
        (lambda: initial.uncertainty_sampling(KERNEL, ARMS, 0.1, 0.0), "max_variance must be"),
        (lambda: bless.bless(KERNEL, X[:0], [], 0.1, KEY), "at least one point"),
        (lambda: FIXED.pend(begin(FIXED), ARMS, NINE_ARMS), "max_pending is 8"),
        (lambda: begin(BKB(KERNEL), reward_sums=ZEROS), "give pull_counts"),
        (lambda: begin(GPUCB(KERNEL), pull_counts=ONES), "GPUCB cannot start from observed"),
        (lambda: BKB(KERNEL).init(ARMS, KEY, data=ONES), "data are Evaluations"),
        (lambda: begin(BKB(KERNEL), pull_counts=[1.0], reward_sums=ZEROS), "for each of the 40"),
        (lambda: begin(BKB(KERNEL), pull_counts=-ONES, reward_sums=ZEROS), "at least 0"),
        (lambda: begin(BKB(KERNEL), pull_counts=ONES, reward_sums=ONES * np.nan), "must be finite"),
        (lambda: begin(BKB(KERNEL, capacity=8), pull_counts=ONES, reward_sums=ONES), "not fit a"),
        (lambda: begin(BKB(KERNEL), pull_counts=ONES / 2, reward_sums=ONES), "of arm 0 is 0.5"),
        (lambda: begin(BKB(KERNEL), pull_counts=ZEROS, reward_sums=ONES), "0 was never evaluated"),
        (lambda: warm_start(dictionary=[3, 40]), "dictionary contains arm 40"),
        (lambda: warm_start(dictionary=[0.5]), "a vector of arm numbers"),
        (lambda: bless.bless(KERNEL, X, ONES / 2, 1.0, KEY), "whole number of evaluations"),
    ],
    "problems": [
        (lambda: problems.finite_arms(X[0], ZEROS, 0.1), "must be a matrix"),
        (lambda: problems.finite_arms(X, ZEROS[1:], 0.1), "one row for each of the 40 arms"),
        (lambda: problems.finite_arms(X, ZEROS[:, None], 0.1), "must be a vector"),
        (lambda: problems.finite_arms(X, ONES * np.nan, 0.1), "must be finite: 40 values are not"),
        (lambda: problems.finite_arms(X, ZEROS, -0.1), "noise_std must be a finite number"),
        (lambda: problems.finite_arms(X, ZEROS, ONES), "noise_std must be one number"),
        (lambda: problems.finite_arms(X, IMAGINARY[:, 0], 0.1), "mean_reward must be real"),
        (lambda: problems.finite_arms(X.astype(str), ZEROS, 0.1), "must be floating point numbers"),
        (lambda: problems.finite_arms(X * np.inf, ZEROS, 0.1), "finite; arm 0, feature 0 is inf"),
        (lambda: problems.recorded_arms(X * np.nan, ROWS), "finite; arm 0, feature 0 is nan"),
        (lambda: problems.finite_arms(X[:0], ZEROS[:0], 0.1), "there are no arms"),
        (lambda: loops.regret_ratio(1.0, ZEROS), r"the shapes are \(\) and \(40,\)"),
        (lambda: loops.regret_ratio(ZEROS, X), r"the shapes are \(40,\) and \(40, 2\)"),
        (lambda: loops.regret_ratio(ZEROS, ZEROS[:0]), r"the shapes are \(40,\) and \(0,\)"),
        (lambda: rollout(PicksNumber(), PROBLEM, KEY, 3), "ask must return a Query, such as"),
        (lambda: problems.recorded_arms(X, np.zeros((40, 0))), "R >= 1"),
    ],
    "streams": [
        *((lambda make=make: stream(forecaster=make()), words) for make, words in FORECASTERS),
        (lambda: Taylor(2, -1).features(X), "degree M >= 0"),
        (lambda: Taylor(18, 9).features(X), r"C\(27, 9\) = 4,686,825 Taylor features"),
        (lambda: Taylor(3, 2).features(X), "have 3 inputs; 2 were given"),
        (lambda: prequential(X), r"a tuple \(xs, ys\)"),
        (lambda: list(prequential([(X[:2], Y[:2]), (ROWS, Y)])), r"after 2 examples has \(1,\)"),
        (lambda: stream(X[:, :1], state=EXACT.init(POINT, KEY)), "1 and of 2 inputs"),
        (lambda: prequential((X, Y, Y)), "a tuple of 3"),
        (lambda: stream(X[:0], Y[:0]), "the stream is empty"),
        (lambda: stream(X, Y[:3]), "n labels"),
        (lambda: stream(np.where(ROWS == 3, np.nan, X)), "example 3 is not"),
        (lambda: stream(block=0), "block must be an integer of at least 1"),
        (lambda: stream(first=-1, forecaster=NOGD), "first must be"),
        (lambda: stream(IMAGINARY), "examples must be real"),
        (lambda: stream(ys=IMAGINARY[:, 0]), "labels must be real"),
        (lambda: stream(-ROWS, forecaster=MIN_MAX), r"at least 0; input \[1, 0\] is -1.0"),
        (lambda: loops.Live(MIN_MAX, 1, KEY).predict([-1.0]), "at least 0; input"),
        (lambda: stream(forecaster=online.KernelAWV(ONE_SIDED)), "function .* must be symmetric"),
        (lambda: stream(forecaster=online.NystromAWV(NumpyKernel())), "function that jit accepts"),
        (lambda: loops.Live(online.NOGD(NumpyKernel(), 0.1), 2, KEY), "function that jit accepts"),
        (lambda: stream(state=NOGD.init(POINT, KEY)), "from a KernelState.*; NOGDState was given"),
        (lambda: RIDGE.replace(regularization=PAIR).init(POINT, KEY), r"one number; .* \(2,\)"),
        (lambda: online.PKAWV(Taylor(2, 2.5)).init(POINT, KEY), "degree must be an integer"),
        (lambda: prequential_in_segments(NOGD, (X, Y), KEY), "must be a PKAWV.*; a NOGD was given"),
        (lambda: prequential_in_segments(RIDGE, (X, Y), KEY, state=STATE), "of another forecaster"),
        (lambda: online.KernelAWV(KERNEL, capacity=LARGE).init(POINT, KEY), "capacity = 1,000,"),
        (lambda: online.NOGD(KERNEL, 0.1, count=LARGE).init(POINT, KEY), "count = 1,000,000,000"),
        (lambda: online.FOGD(KERNEL, 0.1, count=2 * LARGE).init(LONG, KEY), "count = 2,000,0"),
        (lambda: online.NystromAWV(KERNEL, memory=2 * LARGE).init(LONG, KEY), "memory = 2,000,0"),
    ],
    "contrib": [
        (lambda: init(DiscountedBKB(KERNEL, discount=1.1)), "above 0 and at most 1; 1.1"),
        (lambda: init(WINDOW.replace(dictionary=Extend())), "observation"),
        (lambda: balancing(scales=(0.5, 1.0)), "the longest one first"),
        (lambda: balancing(scales="abc"), "lengthscales"),
        (lambda: balancing(SKETCH, SCALES, np.ones((2, 2))), r"\(2,\) and \(2, 2\)"),
        (lambda: balancing(scales=(1e200, 1e-200)), "a candidate has .* norm bound inf"),
        (lambda: balancing(GP, rule="evidence"), "take BKB or BBKB"),
        (lambda: balancing(WINDOW), "a GPUCB, BKB or BBKB; WindowBKB"),
        (lambda: balancing(BBKB(KERNEL, initial=np.arange(3))), "base has an initial design"),
        (lambda: balancing(GP.replace(kernel=kernels.Linear())), "kernel; Linear was"),
        (lambda: init(RATIONAL), 'Take rule="realised"'),
        (lambda: init(NormDoubling(GP)), "a BKB or a BBKB; GPUCB"),
        (lambda: init(NormDoubling(BKB(KERNEL, norm_bound=0.0))), "norm_bound must be a finite"),
        (lambda: EK.init(2, KEY, "int32"), "dtype must be a floating dtype"),
        (lambda: ask_at(EK, jnp.zeros((3, 1))), r"a matrix \[A, 2\]"),
        (lambda: tell_at(EK, jnp.full(2, jnp.nan), 1.0), "candidates must be finite"),
        (lambda: tell_at(EK, jnp.zeros(2), jnp.zeros(2)), "y must be one real number"),
        (lambda: EK.replace(width=widths.bkb_code).confidence_width(init(EK)), "variance_sum"),
        (lambda: ask_at(SHARED, jnp.zeros((2, 4, 2))), "points of 3 clients"),
        (lambda: ask_at(SHARED, jnp.zeros((3, 4, 1))), r"the shape \[3, C, 2\]"),
        (lambda: tell_at(SHARED, CLIENTS * jnp.nan, jnp.ones(3)), "finite"),
        (lambda: tell_at(SHARED, CLIENTS, jnp.ones(2)), r"the rewards must have the shape \[3\]"),
        (lambda: tell_at(SHARED, 1.0, jnp.ones(3)), r"the shape \[3, 2\]"),
        (lambda: tell_at(SHARED, CLIENTS, 1j * np.ones(3)), "real numbers"),
        (lambda: drift(period=0), "period must be"),
        (lambda: drift(abrupt="yes"), "abrupt"),
        (lambda: drift(noise_std=-1.0), "noise_std must be"),
        (lambda: play(DRIFTING, Uniform(), 12, KEYS, restart=0), "restart must be"),
        (lambda: play(DRIFTING, Uniform(), 2, KEYS[None]), r"keys must be keys \[S\], one for e"),
        (lambda: play(CONTEXTS, SHORT_KUCB, 0, KEYS), "horizon must be an integer"),
        (lambda: play(CONTEXTS, SHORT_KUCB, 8, KEYS), "max_history of at least 8"),
        (lambda: contexts(actions=ACTIONS[:, 0]), "A single feature is a column"),
        (lambda: contexts(inputs=0), "inputs must be an"),
        (lambda: contexts(reward=lambda c, a: a), "reward must be a callable pytree"),
        (lambda: play(ClientArms(CONTEXTS), SHORT_KUCB, 3, KEYS), "a bandit of one client"),
    ],
    "scale": [
        (lambda: place(X, MESHES[1]), "has the axes 'rows' and no axis 'arms'"),
        (lambda: place(X, jax.devices()), r"must be a jax\.sharding\.Mesh.* a list was given"),
        (lambda: place(np.where(ROWS == 2, np.nan, X), MESHES[0]), "arms must be finite; arm 2"),
        (lambda: distributed.rows_of_process(31.0, MESHES[0]), "integer of at least 1; 31.0"),
        (lambda: distributed.rows_of_process(2**33, MESHES[0]), "at most 2,147,483,647"),
        (lambda: distributed.start(ADDRESS, processes=2), "give all of coordinator"),
        (lambda: distributed.start(ADDRESS, processes=2, process=2), "from 0 to 1.*; 2 was given"),
        (lambda: distributed.start("127.0.0.1", processes=2, process=1), "host:port, .* was given"),
    ],
    "boxes": [
        (lambda: UniformBox().init(Box([1j], [1.0]), KEY, horizon=2), "box must be real"),
        (lambda: GPBandit().init(BOX, KEY, horizon=LARGE), "need about"),
        (lambda: over_box(UniformBox(initial=0)), "initial must be an integer of at least 1"),
        *((lambda o=o: over_box(o, horizon=0), "horizon must be an integer") for o in OPTIMISERS),
        *((lambda o=o: over_box(o, horizon=10**11), "horizon can be at most") for o in OPTIMISERS),
        *((lambda o=o, b=b: over_box(o, b), w) for o in OPTIMISERS for b, w in INVALID_BOXES),
        *((lambda b=b: run(UniformBox(), problems.on_box(len, b)), w) for b, w in INVALID_BOXES),
        *((lambda b=b: drive(UniformBox(), len, b), w) for b, w in INVALID_BOXES[:5]),
        (lambda: BallAscent(starts=10, candidates=5), "starts are chosen from 5 candidates"),
        (
            lambda: over_box(GOUCB(ascent=3)),
            r"ascent must be GradientAscent\(\).*; 3 was",
        ),
        (
            lambda: over_box(GOUCB(schedule=OFUL(delta=1.0))),
            "delta must be a finite number above 0 and below 1",
        ),
        (lambda: over_box(GOUCB(oracle=LevenbergMarquardt(restarts=0))), "restarts must be an int"),
        (lambda: over_box(GOUCB(model=nn.Dense(2, param_dtype=float))), r"one number .*\(2,\)"),
        (lambda: over_box(with_parameters(jnp.ones(2, jnp.int32))), "floating point arrays"),
        (lambda: over_box(with_parameters(())), "floating point arrays, at least one"),
        (lambda: over_box(GOUCB(model=lambda w, x: x.sum())), "model must be a law"),
        (
            lambda: over_box(with_value(lambda w, x: w[0] if x[0] > 0 else 0)),
            "apply .*lax.cond",
        ),
        (
            lambda: over_box(with_value(lambda w, x: w[0] * float(x[0]))),
            "apply .*that jit acc",
        ),
        (lambda: over_box(with_value(lambda w, x: w[0] * np.sin(x[0]))), "apply .*jax.numpy"),
        (lambda: run(UniformBox(), problems.on_box(WITH_IF, BOX)), "objective must be .*jnp.where"),
        *((lambda o=o: over_box(o, horizon=7), "initial = 8 .* horizon of 7") for o in MODELS),
        (lambda: over_box(UniformBox(initial=3), horizon=2), "initial = 3 uniform points"),
        (lambda: over_box(GPBandit(), Box([-1.7e308], [1.7e308])), "sides .* finite in float64"),
        (lambda: over_box(GPBandit(candidates=3)), "candidates must be at least twice"),
        (lambda: over_box(GPBandit(prior=1.0)), "prior must be a Prior, or None for .*; 1.0 was"),
        (lambda: over_box(GPBandit(prior=Prior(noise=0.1))), "noise needs a density.*0.1 was"),
        (lambda: over_box(GPBandit(prior=Prior(noise=FLAT))), "prior.noise.scale must be a finite"),
        (lambda: over_box(GPBandit(prior=Prior(NOWHERE))), "lengthscale.location must be a finite"),
        (lambda: over_box(GPBandit(bounds=Bounds((0.0, 1.0)))), "lengthscale needs finite 0 < low"),
        (lambda: over_box(Turbo(bounds=Bounds(noise=(0.1, 0.1)))), "noise needs finite"),
        (lambda: over_box(Turbo(regions=9)), "needs one of the initial points"),
        (lambda: over_box(Turbo(batch=3, candidates=2)), "candidates must be at least the batch"),
        (lambda: UniformBox().init(Box(LONG, 1 + LONG), KEY, horizon=LARGE), "horizon = 1,000,0"),
        (lambda: tell_box(ONE_POINT, [1j]), "y must be real"),
        (lambda: tell_box(ONE_POINT, np.zeros(2)), "one value for each slot"),
        (lambda: run(UniformBox(), problems.on_box(3.0, BOX)), "objective must be a function"),
        (lambda: problems.on_box(len, BOX, maximum=1.0), "has no method value"),
        (lambda: problems.on_box(len, BOX, maximum=np.inf), "maximum must be a finite number"),
        (lambda: drive(UniformBox(), lambda x: np.zeros(2), BOX), "must return one number"),
        (lambda: box_history.add(FULL, TWO_POINTS, np.ones(3)), "horizon is 2 .* 2 were observed"),
    ],
}
BOX_STATE = UniformBox().init(BOX, KEY, horizon=2)
ONE_POINT = BoxQuery(jnp.ones((1, 1)), QUERY.mask)
TWO_POINTS = BoxQuery(jnp.ones((3, 1)), jnp.arange(3) < 2)
FULL = box_history.add(box_history.empty(BOX, 2), TWO_POINTS, np.ones(3))


TAKE_KERNELS = {
    "bandit": BKB,
    "forecaster": lambda kernel: online.KernelAWV(kernel, capacity=2),
    "gradient": lambda kernel: online.FOGD(kernel, 0.1, count=2),
    "box": lambda kernel: GPBandit(kernel=kernel),
    "trust_regions": lambda kernel: Turbo(kernel=kernel),
    "scaled": lambda kernel: kernels.Scaled(kernel, 2.0),
    "selected": lambda kernel: kernels.Select(kernel, [0]),
    "design": lambda kernel: initial.uncertainty_sampling(kernel, ARMS, 1.0, 0.5),
    "problem": lambda kernel: problems.gp_draw(KEY, kernel, X, 0.1),
    "rkhs_problem": lambda kernel: problems.rkhs_draw(KEY, kernel, X, 0.1),
}


@pytest.mark.parametrize("name", TAKE_KERNELS)
def test_what_is_no_kernel_is_refused_in_a_sentence(name):
    """A class, a function of two points, a kernel of another library, and an object that is no
    pytree, whose attributes could change without a compilation."""
    make = TAKE_KERNELS[name]
    advice = r"kernel must be a kernel object .*, or kernels.Pointwise\(k\) for a function k"
    for wrong in (kernels.Gaussian, lambda x, y: 1.0, TinygpKernel(), GPJaxKernel()):
        with pytest.raises(ValueError, match=advice):
            make(wrong)
    with pytest.raises(ValueError, match="a PlainKernel, .* decorate its class with @jsketch"):
        make(PlainKernel())


def test_kernels_that_are_added_are_pytrees():
    with pytest.raises(ValueError, match="right is a PlainKernel, .* decorate its class"):
        KERNEL + PlainKernel()


@pytest.mark.parametrize("kernel", [TinygpKernel(), GPJaxKernel()])
def test_objects_with_the_methods_of_other_libraries_are_functions_of_two_points(kernel):
    pointwise = kernels.Pointwise(kernel)
    np.testing.assert_allclose(pointwise.gram(X, X[:3]), KERNEL.gram(X, X[:3]))
    np.testing.assert_allclose(pointwise.diag(X), KERNEL.diag(X))
    begin(BKB(pointwise))


@pytest.mark.parametrize("subject", CALLS)
def test_mistakes_are_refused(subject):
    check_refusals(CALLS[subject])

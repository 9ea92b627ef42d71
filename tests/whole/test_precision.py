"""Numbers are converted to the dtype of arms, box or examples. Methods are only traced."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, OPTIMISERS, VARIANTS, features, problem
from test_online import CASES as FORECASTERS
from test_online import VARIANTS as FORECASTER_VARIANTS

from jsketch import Arms, Box, kernels, loops, problems, struct
from jsketch.bandits import BKB, PointBBKB
from jsketch.box import GPBandit, UniformBox
from jsketch.box.gp.fit import Bounds
from jsketch.contrib import CBBKB, EKUCB, KUCB, SharedEmbedding
from jsketch.loops.runs import IMPRECISE
from jsketch.loops.streams import stream
from jsketch.types import Evaluations

KEY = jax.random.key(0)
GAUSSIAN = kernels.Gaussian(np.full(2, 0.5))


def with_float64_numbers(algorithm):
    """The algorithm with numbers of NumPy's float64, and a lengthscale for each input."""
    if isinstance(getattr(algorithm, "kernel", None), kernels.Gaussian):
        algorithm = algorithm.replace(kernel=GAUSSIAN)
    return jax.tree.map(
        lambda leaf: np.float64(leaf) if isinstance(leaf, float) else leaf, algorithm
    )


def assert_all_float32(tree):
    dtypes = {leaf.dtype for leaf in jax.tree.leaves(tree)}
    floating = {dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.floating)}
    assert floating == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize("name", sorted(set(CASES) - VARIANTS))
def test_bandits_have_the_dtype_of_the_arms(name):
    """The loops convert the numbers of an algorithm, by either function."""
    arms, y = Arms(features(jnp.float32)), jnp.zeros(20, jnp.float32)

    def one_round(bandit, x, y):
        arms = Arms(x)
        state = bandit.init(arms, KEY)
        query = bandit.ask(state, arms, KEY)
        optional_methods = dict(confidence_width=(), scores=(), sample=(KEY,), samples=(KEY,))
        values = [
            getattr(bandit, method)(state, arms, *arguments)
            for method, arguments in optional_methods.items()
            if callable(getattr(bandit, method, None))
        ]
        return state, bandit.tell(state, arms, query, y[: len(query.index)], KEY), values

    bandit = with_float64_numbers(CASES[name])
    for convert in (struct.in_dtype, struct.numbers_in_dtype):
        converted = convert(bandit, jnp.float32)
        states = jax.eval_shape(one_round, converted, arms.features, y)
        assert_all_float32(states)
        before, (after, _), _ = states
        chex.assert_trees_all_equal_shapes_and_dtypes(before, after)


@pytest.mark.parametrize("name", sorted(set(CASES) - VARIANTS))
def test_a_rollout_has_the_dtype_of_the_arms(name):
    """The numbers of the algorithm are NumPy's, or traced arrays."""
    bandit = with_float64_numbers(CASES[name])
    progress = jax.eval_shape(lambda key: loops.rollout(bandit, problem(jnp.float32), key, 20), KEY)
    assert_all_float32(progress)
    traced_progress = jax.eval_shape(
        lambda bandit: loops.rollout(bandit, problem(jnp.float32), KEY, 20), bandit
    )
    chex.assert_trees_all_equal_shapes_and_dtypes(progress, traced_progress)


def test_bandits_over_points_have_the_dtype_given_to_init():
    def one_round(bandit, x, y):
        state = bandit.init(2, KEY, jnp.float32)
        picked = bandit.pull(state, x[bandit.choose(state, KEY, x)])
        best = bandit.maximise(state, KEY, Box(x[0] - 1, x[0] + 1))
        return state, bandit.tell(picked, y, KEY), best

    bandit = with_float64_numbers(PointBBKB(GAUSSIAN, max_batch=2, max_history=8, capacity=4))
    assert_all_float32(jax.eval_shape(one_round, bandit, np.zeros((5, 2)), np.zeros(2)))


@pytest.mark.parametrize("kind", [KUCB, EKUCB, CBBKB, SharedEmbedding])
def test_bandits_with_contexts_have_the_dtype_given_to_init(kind):
    """The points and the rewards of clients may be integers."""
    bandit = with_float64_numbers(kind(GAUSSIAN, max_history=8))
    clients = (bandit.clients,) if kind is SharedEmbedding else ()
    state = bandit.init(2, KEY, jnp.float32)
    for dtype in (np.float64, int)[: 1 + len(clients)]:
        arguments = np.ones((*clients, 2), dtype), np.ones(clients, dtype)
        assert_all_float32(jax.eval_shape(lambda s, a=arguments: bandit.tell(s, *a, KEY), state))


@pytest.mark.parametrize("name", [name for name in FORECASTERS if name not in FORECASTER_VARIANTS])
def test_forecasters_have_the_dtype_of_the_first_example(name):
    def one_round(forecaster, x, xs, ys):
        state = forecaster.init(x, KEY)
        return state, stream(forecaster, state, xs, ys, KEY)

    x = jnp.zeros(2, jnp.float32)
    forecaster = with_float64_numbers(FORECASTERS[name])
    assert_all_float32(jax.eval_shape(one_round, forecaster, x, np.ones((3, 2)), np.ones(3)))


@pytest.mark.parametrize("numbers", ["of_numpy", "of_python"])
@pytest.mark.parametrize("name", ["uniform", "gp_ucb", "turbo_2", "go_ucb", "go_ucb_local"])
def test_optimisers_have_the_dtype_of_the_box(name, numbers):
    """The posterior has the dtype of the box also if the kernel has Python numbers. The loops
    convert numbers of NumPy."""

    def one_round(optimizer, box, y):
        state = optimizer.init(box, KEY, horizon=6)
        query = optimizer.ask(state, KEY)
        values = []
        if isinstance(optimizer, GPBandit):
            posterior = optimizer.posterior(state)
            names = GPBandit.__dataclass_fields__["acquisition"].metadata["choices"]
            scores = [optimizer.replace(acquisition=name).score(posterior) for name in names]
            values = [score(query.x) for score in scores]
        return state, query, optimizer.tell(state, query, y[: len(query.mask)], KEY), values

    optimizer = OPTIMISERS[name]
    if numbers == "of_numpy":
        optimizer = with_float64_numbers(optimizer)
        if hasattr(optimizer, "bounds"):
            optimizer = optimizer.replace(bounds=with_float64_numbers(Bounds()))
    box = Box(jnp.zeros(2, jnp.float32), jnp.ones(2, jnp.float32))
    problem = problems.on_box(lambda x, key: x.sum(), box)
    assert_all_float32(jax.eval_shape(lambda key: loops.rollout(optimizer, problem, key, 8), KEY))
    if numbers == "of_numpy":
        optimizer = struct.numbers_in_dtype(optimizer, jnp.float32)
    assert_all_float32(jax.eval_shape(one_round, optimizer, box, np.zeros(8)))


def test_drive_converts_the_numbers_of_an_optimiser():
    dtypes = []

    @struct.dataclass
    class Rated(UniformBox):
        rate: float = struct.number(np.float64(1.0), above=0)

        def ask(self, state, key, limit=None):
            dtypes.append(jnp.result_type(self.rate))
            return super().ask(state, key, limit)

    box = Box(jnp.zeros(2, jnp.float32), jnp.ones(2, jnp.float32))
    loops.drive(Rated(), lambda x: float(x.sum()), box, KEY, 2)
    assert set(dtypes) == {jnp.dtype(jnp.float32)}


def test_rounding_between_far_clusters_is_reported():
    """At a distance of 100 lengthscales, float32 rounds kernel values within clusters by 3e-4."""
    random = np.random.default_rng(0)
    cluster, sides = 0.1 * random.standard_normal((1100, 2)), random.integers(0, 2, (1100, 1))
    counts = np.zeros(1100)
    counts[::50] = 20
    bandit = BKB(kernels.Gaussian(1.0), 1.0, capacity=64)
    observed = Evaluations(counts, counts)

    @jax.jit
    def estimate(x):
        state = bandit.init(Arms(x), KEY, data=observed)
        return state, bandit.imprecision(state, Arms(x))

    for gap, flagged in ((0.0, False), (100.0, True)):
        state, error = estimate((cluster + gap * sides).astype(np.float32))
        assert bool(error > IMPRECISE) == flagged, gap
        # the bound that decides whether the estimate is computed never excludes such an error
        assert bandit.may_be_imprecise(state, IMPRECISE) or not flagged
    with pytest.warns(UserWarning, match="lengthscales from their mean, and rounding changes"):
        bandit.init(Arms((cluster + 1000 * sides).astype(np.float32)), KEY)

"""Forecasters: shared properties, closed forms, and deterministic bounds (THEORY 7.7)."""

import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from compiled import default_flags_jit
from forecasts import regression
from forecasts import ridge as closed_form
from rows import by_name

from jsketch import kernels, loops, online, struct
from jsketch.contrib import DiscountedKernelAWV, DiscountedPKAWV, discount_mixture
from jsketch.results import Result, result
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor
from jsketch.types import Forecaster, ForecastInfo

LAM = 0.5
N = 60
KEY = jax.random.key(0)
CASES = {
    "taylor_awv": online.PKAWV(Taylor(2, 4, 0.8), LAM),
    "taylor_ridge": online.PKAWV(Taylor(2, 3, 0.8), LAM, penalize_current=False),
    "kors_awv": online.NystromAWV(kernels.Gaussian(0.4), LAM, Sampling(0.3, 2.0), capacity=64),
    "kors_ridge": online.NystromAWV(
        kernels.Gaussian(0.8), LAM, Sampling(weights="code"), penalize_current=False, capacity=64
    ),
    "forgetting": online.ForgettingNystromAWV(
        kernels.Gaussian(0.4), LAM, sampling=Sampling(0.3, 2.0), capacity=64
    ),
    "pros_n_kons": online.ProsNKONS(
        kernels.Gaussian(0.8), bound=0.3, sampling=Sampling(1.0, 0.5), capacity=64
    ),
    "kernel_awv": online.KernelAWV(kernels.Gaussian(0.8), LAM, capacity=64),
    "kernel_ridge": online.KernelAWV(
        kernels.Matern(0.8, nu=1.5), LAM, penalize_current=False, capacity=64
    ),
    "sketched_kons": online.SketchedKONS(kernels.Gaussian(0.8), bound=0.3, capacity=64),
    "taylor_discounted": DiscountedPKAWV(Taylor(2, 3, 0.8), LAM, discount=0.97),
    "taylor_renewed": DiscountedPKAWV(Taylor(2, 3, 0.8), LAM, discount=0.9, renew=True),
    "kernel_discounted": DiscountedKernelAWV(
        kernels.Gaussian(0.8), LAM, discount=0.97, capacity=64
    ),
    "nogd": online.NOGD(kernels.Gaussian(0.8), 0.1, count=20),
    "fogd": online.FOGD(kernels.Gaussian(0.8), 0.1, count=20),
}
LAMS = jnp.geomspace(0.01, 10.0, 4)
CASES |= {
    "mixture_taylor": online.regularization_mixture(CASES["taylor_awv"], LAMS, bound=1.0),
    "mixture_vovk": online.regularization_mixture(CASES["taylor_ridge"], LAMS, 1.0, rule="vovk"),
    "mixture_kernels": online.Mixture(
        CASES["kernel_awv"], {"kernel": kernels.Gaussian(jnp.array([0.4, 1.6]))}, bound=1.0
    ),
    "mixture_discounts": discount_mixture(CASES["taylor_renewed"], [0.9, 1.0], bound=1.0),
    "mixture_kors": online.regularization_mixture(CASES["kors_awv"], LAMS[:2], bound=1.0),
}
BLOCK = 7  # The last block of 60 examples is short.
# The tests of these rows are marked slow, because other rows share their code.
VARIANTS = {
    "taylor_ridge",
    "kors_ridge",
    "forgetting",
    "kernel_ridge",
    "taylor_discounted",
    "taylor_renewed",
    "kernel_discounted",
    "mixture_discounts",
    "mixture_vovk",
    "mixture_kernels",
    "mixture_kors",
}

each = by_name(CASES, VARIANTS)


def examples(seed=0, n=N, dimension=2):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, dimension))
    return x, np.sin(3 * x.sum(1)) * random.uniform(0, 1, n)


def with_value(array, index, value):
    """A copy with array[index] = value."""
    array = array.copy()
    array[index] = value
    return array


PREDICT = jax.jit(lambda forecaster, state, x: forecaster.predict(state, x))
UPDATE = jax.jit(lambda forecaster, state, x, y: forecaster.update(state, x, y, KEY))


def steps(forecaster, xs, ys, key=KEY):
    """(prediction, state after the label, info) of each example, by `predict` and `update`."""
    state = forecaster.init(xs[0], key)
    for x, y in zip(xs, ys, strict=True):
        prediction = float(PREDICT(forecaster, state, x))
        state, info = UPDATE(forecaster, state, x, y)
        yield prediction, state, info


def one_by_one(forecaster, xs, ys):
    """(predictions, last state), with the key that `prequential` passes to `init`."""
    predictions, states, _ = zip(*steps(forecaster, xs, ys, jax.random.split(KEY)[0]), strict=True)
    return np.array(predictions), states[-1]


@each
def test_blocks_have_the_forecasts_of_predict_then_update(name):
    """The last block is shorter than the others."""
    xs, ys = examples()
    ys = with_value(ys, [0, 7, 8, 40], np.nan)
    forecasts, state = loops.prequential(CASES[name], (xs, ys), KEY, block=BLOCK)
    predictions, last = one_by_one(CASES[name], xs, ys)
    np.testing.assert_allclose(forecasts.prediction, predictions, rtol=1e-9, atol=1e-9)
    chex.assert_trees_all_close(state, last, rtol=1e-8, atol=1e-9)
    losses = np.nan_to_num((predictions - ys) ** 2)
    np.testing.assert_allclose(forecasts.loss, losses, rtol=1e-6, atol=1e-9)
    with np.errstate(invalid="ignore"):  # the first label is missing
        average = np.cumsum(losses) / np.cumsum(np.isfinite(ys))
    np.testing.assert_allclose(forecasts.average_loss, average, rtol=1e-6)
    assert (np.asarray(forecasts.loss)[np.isnan(ys)] == 0).all()


# tests/fuzz compiles these with the default flags
IN_FUZZ = {"kors_awv", "mixture_taylor", "pros_n_kons", "sketched_kons"}
STREAM = default_flags_jit(loops.streams.stream, static_argnames="block")


@by_name([name for name in CASES if name not in VARIANTS | IN_FUZZ])
def test_default_compiler_flags_give_the_same_predictions(name):
    xs, ys = examples()
    # the key that `one_by_one` passes to `init`
    state = CASES[name].init(xs[0], jax.random.split(KEY)[0])
    predictions = STREAM(CASES[name], state, xs, ys, KEY, block=16).forecasts.prediction
    expected = one_by_one(CASES[name], xs, ys)[0]
    np.testing.assert_allclose(predictions, expected, rtol=1e-9, atol=1e-9)


@by_name(CASES, VARIANTS | {"sketched_kons", "nogd", "kernel_awv"})
def test_chunks_have_the_forecasts_of_the_whole_stream(name):
    """A shorter last chunk compiles nothing."""
    xs, ys = examples()
    expected, state = loops.prequential(CASES[name], (xs, ys), KEY)
    progress, chunks = [], loops.chunks(xs, ys, 25)
    results = loops.prequential(CASES[name], chunks, KEY, on_progress=progress.append)
    parts = [next(results), next(results)]
    n_programs = loops.streams._stream._cache_size()
    parts += list(results)
    assert loops.streams._stream._cache_size() == n_programs and progress == [25, 50, 60]
    for field in ("prediction", "loss", "labelled", "dictionary_size"):
        values = np.concatenate([getattr(forecasts, field) for forecasts, _ in parts])
        np.testing.assert_allclose(values, getattr(expected, field), rtol=1e-9, atol=1e-10)
    chex.assert_trees_all_close(parts[-1][1], state, rtol=1e-7, atol=1e-10)


@by_name(CASES, VARIANTS | {"sketched_kons", "nogd"})
def test_numbers_can_be_vmapped_and_compile_nothing(name):
    xs, ys = map(jnp.asarray, examples())
    forecaster = CASES[name]

    def last_loss(scale):
        scaled = jax.tree.map(lambda x: x * scale, forecaster)
        state = scaled.init(xs[0], KEY)
        return loops.streams.stream(scaled, state, xs, ys, KEY).forecasts.average_loss[-1]

    run = jax.jit(last_loss)
    vmapped_losses = jax.jit(jax.vmap(last_loss))(jnp.array([0.5, 1.0]))
    single_losses = jnp.stack([run(jnp.asarray(0.5)), run(jnp.asarray(1.0))])
    assert run._cache_size() == 1
    np.testing.assert_allclose(vmapped_losses, single_losses, rtol=1e-9)


GROWING = {
    "nystrom": lambda capacity: online.NystromAWV(
        kernels.Gaussian(0.8), LAM, Sampling(1.0, 0.3), capacity=capacity, memory=256 * capacity
    ),
    "pros_n_kons": lambda capacity: online.ProsNKONS(
        kernels.Gaussian(0.8), sampling=Sampling(1.0, 0.3), capacity=capacity
    ),
    "sketched_kons": lambda capacity: online.SketchedKONS(kernels.Gaussian(0.8), capacity=capacity),
}


def grown(forecaster, examples, **options):
    """`prequential` from the forecaster's own capacities; without a state, they are larger."""
    state = forecaster.init(jnp.asarray(examples[0][0]), jax.random.split(KEY)[0])
    return loops.prequential(forecaster, examples, KEY, state=state, **options)


@by_name(GROWING, ["sketched_kons"])
def test_the_capacity_grows_and_changes_no_prediction(name):
    """Capacities for points and for examples (1,024 at first in Nystrom) grow inside blocks."""
    xs, ys = examples(8, 1100 if name == "nystrom" else 150)
    forecasts, state = grown(GROWING[name](capacity=4), (xs, ys))
    expected, _ = loops.prequential(GROWING[name](capacity=160), (xs, ys), KEY)
    np.testing.assert_allclose(forecasts.prediction, expected.prediction, rtol=1e-9, atol=1e-10)
    assert 4 < int(forecasts.dictionary_size[-1]) <= 150
    if name == "nystrom":
        assert state.inputs.shape[0] == 4096


def test_a_block_may_be_longer_than_the_memory():
    """The memory holds 64 examples at first, and grows before it stores a block of 100."""
    xs, ys = examples(8, 150)
    forecaster = GROWING["nystrom"](capacity=64).replace(memory=2)
    forecasts, state = grown(forecaster, (xs, ys), block=100)
    assert forecaster.init(xs[0], KEY).inputs.shape[0] == 64 < 100 < state.inputs.shape[0]
    expected, _ = loops.prequential(forecaster, (xs, ys), KEY)
    np.testing.assert_allclose(forecasts.prediction, expected.prediction, rtol=1e-9, atol=1e-10)


@struct.dataclass
class Drawing(Forecaster):
    """Predicts the random number of the last example. The second example exceeds the capacity of
    one until `grow` is called."""

    def init(self, x, key):
        return {"drawn": jnp.zeros((), x.dtype), "learned": 0, "room": jnp.zeros((1,))}

    def predict(self, state, x):
        return state["drawn"]

    def update(self, state, x, y, key):
        full = state["learned"] >= len(state["room"])
        drawn = jnp.where(full, state["drawn"], jax.random.uniform(key, dtype=x.dtype))
        learned = state["learned"] + (~full).astype(jnp.int32)
        info = ForecastInfo(learned, result((Result.CAPACITY_EXCEEDED, full)))
        return state | {"drawn": drawn, "learned": learned}, info

    def grow(self, state):
        return state | {"room": jnp.zeros(100)}


def test_a_forecaster_may_learn_one_example_at_a_time():
    """Each example has a key of its own, in blocks, in chunks and in `Live`."""
    xs, ys = examples(n=20)
    stream_key = jax.random.split(KEY)[1]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(stream_key, jnp.arange(19))
    expected = np.append(0, jax.vmap(jax.random.uniform)(keys))
    forecasts, _ = loops.prequential(Drawing(), (xs, ys), KEY, block=BLOCK)
    np.testing.assert_array_equal(forecasts.prediction, expected)
    np.testing.assert_array_equal(forecasts.dictionary_size, np.arange(1, 21))
    parts = loops.prequential(Drawing(), loops.chunks(xs, ys, 8), KEY)
    np.testing.assert_array_equal(np.concatenate([f.prediction for f, _ in parts]), expected)
    live = loops.Live(Drawing(), 2, KEY)
    one_by_one = [live.predict_learn(x, y) for x, y in zip(xs, ys, strict=True)]
    np.testing.assert_array_equal(one_by_one, expected)


def test_a_stream_compiles_one_program_for_each_capacity():
    """The second chunk of a dictionary that grew in the first one compiles nothing."""
    xs, ys = examples()
    n_programs = loops.streams._stream._cache_size()
    forecaster = GROWING["nystrom"](capacity=4)
    state = forecaster.init(jnp.asarray(xs[0]), jax.random.split(KEY)[0])
    chunks = loops.chunks(xs, ys, 29)
    results = list(loops.prequential(forecaster, chunks, KEY, state=state))
    capacities = {4} | {state.basis.shape[0] for _, state in results}
    assert capacities == {4, 8}
    assert loops.streams._stream._cache_size() == n_programs + len(capacities)


def test_predictions_do_not_depend_on_the_origin():
    """The unused rows of a dictionary are zeros. They are far from these inputs, and must not cost
    digits."""
    xs, ys = examples(14, 150)
    forecaster = GROWING["nystrom"](capacity=64)
    near_origin, _ = loops.prequential(forecaster, (xs, ys), KEY)
    far_from_origin, _ = loops.prequential(forecaster, (xs + 2.0**14, ys), KEY)
    np.testing.assert_allclose(far_from_origin.prediction, near_origin.prediction, atol=1e-8)


def test_a_small_mu_in_float32_warns():
    forecaster = online.ProsNKONS(kernels.Gaussian(1.0), sampling=Sampling(1e-6))
    with pytest.warns(UserWarning, match="mu = 1e-06 is too small for float32"):
        forecaster.init(jnp.zeros(2, jnp.float32), KEY)


def test_taylor_features_are_the_monomials():
    """Each multi-index occurs once, with its value by the definition."""
    x = examples(seed=5, n=6, dimension=3)[0]
    z = np.asarray(Taylor(inputs=3, degree=3, lengthscale=0.7).features(x))
    scaled = np.asarray(x) / 0.7
    expected = []
    for k in np.ndindex(4, 4, 4):
        if sum(k) <= 3:
            factor = np.prod(
                [scaled[:, i] ** k[i] / math.sqrt(math.factorial(k[i])) for i in range(3)], 0
            )
            expected.append(np.exp(-0.5 * np.square(scaled).sum(1)) * factor)
    order = np.lexsort(np.round(z, 12))
    desired = np.array(expected).T
    np.testing.assert_allclose(
        z[:, order], desired[:, np.lexsort(np.round(desired, 12))], atol=1e-14
    )


def adversarial_stream(seed, n=40):
    """(points, labels, Gram matrix, lam). Points are repeated, and each label has the sign opposite
    to the prediction of Kernel-AWV."""
    random = np.random.default_rng(seed)
    x = np.sort(random.uniform(-1, 1, (n // 4, 1)), 0)[random.integers(0, n // 4, n)]
    gram = oracles.gaussian(x, x, 0.5)
    lam, ys = 10.0 ** random.uniform(-2, 1), np.zeros(n)
    for t in range(n):
        ys[t] = -1.0 if regression(gram, ys, t, lam, awv=True) > 0 else 1.0
    return x, ys, gram, lam


def test_identities_and_regret_bounds_hold_on_adversarial_streams():
    """THEORY 7.7. Repeated points make the Gram matrix singular."""
    kernel_ridge = online.KernelAWV(kernels.Gaussian(0.5), penalize_current=False, capacity=24)
    for seed in range(12):
        x, ys, gram, lam = adversarial_stream(seed)
        awv, ridge = (closed_form(gram, ys, lam, awv=penalized) for penalized in (True, False))
        for penalized, expected in ((False, ridge), (True, awv)):
            forecaster = kernel_ridge.replace(regularization=lam, penalize_current=penalized)
            forecasts, _ = loops.prequential(forecaster, (x, ys), KEY)
            np.testing.assert_allclose(forecasts.prediction, expected, atol=1e-8)
        n = len(ys)
        best = lam * ys @ np.linalg.solve(gram + lam * np.eye(n), ys)  # lam |f|^2 + losses
        logdets = [np.linalg.slogdet(np.eye(t) + gram[:t, :t] / lam)[1] for t in range(n + 1)]
        leverage = np.expm1(np.diff(logdets))  # h_t, Lemma 10
        np.testing.assert_allclose((np.square(ys - ridge) / (1 + leverage)).sum(), best, rtol=1e-8)
        leverage_after = leverage / (1 + leverage)  # with example t in A
        expected_loss = best + (ys**2 * leverage_after - awv**2 * leverage).sum()
        np.testing.assert_allclose(np.square(ys - awv).sum(), expected_loss, rtol=1e-8)
        loss = float(forecasts.loss.sum())
        assert loss <= best + logdets[-1] * np.max(ys**2) + 1e-8


@pytest.mark.float32(only=True)
@each
def test_predictions_in_float32_stay_finite(name):
    xs, ys = (a.astype(jnp.float32) for a in examples())
    forecaster = jax.tree.map(
        lambda a: a.astype(jnp.float32) if isinstance(a, jax.Array) else a, CASES[name]
    )
    forecasts, _ = loops.prequential(forecaster, (xs, ys), KEY)
    assert forecasts.prediction.dtype == jnp.float32
    assert np.isfinite(forecasts.prediction).all()
    assert float(forecasts.average_loss[-1]) < 1


@pytest.mark.parametrize("name", ["nystrom", "sketched_kons"])
def test_a_traced_pass_that_exceeds_its_capacity_has_no_average_loss(name):
    """The examples after the last one that was learned have neither a prediction nor a loss."""
    xs, ys = examples(8, 60)
    forecaster = GROWING[name](capacity=4)
    run = jax.jit(
        lambda xs, ys: loops.streams.stream(forecaster, forecaster.init(xs[0], KEY), xs, ys, KEY)
    )(xs, ys)
    t = int(run.t)
    assert run.result == Result.CAPACITY_EXCEEDED and 0 < t < 60
    for values in (run.forecasts.prediction, run.forecasts.loss):
        np.testing.assert_array_equal(np.isnan(values), np.arange(60) >= t)
    np.testing.assert_array_equal(run.forecasts.dictionary_size[t:], -1)
    assert np.isnan(run.forecasts.average_loss[-1])

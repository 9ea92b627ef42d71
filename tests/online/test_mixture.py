"""Mixtures of forecasters: their definition, and a bound that holds for every stream."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forecasts import mixture as mixture_predictions
from jax import lax

from jsketch import kernels, loops, online, struct
from jsketch.online.base import info_after
from jsketch.online.mixture import RATES, Mixture, regularization_mixture
from jsketch.results import Result, result
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor
from jsketch.types import Forecaster, ForecastInfo

KEY = jax.random.key(0)
LAMS = np.array([1e-3, 0.1, 10.0, 1e3])
RIDGE = online.PKAWV(Taylor(1, 3, 0.5))
each_rule = pytest.mark.parametrize("rule", RATES)


def examples(seed=0, n=80, noise=0.3):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, 1))
    return jnp.asarray(x), jnp.asarray(
        np.clip(np.sin(4 * x[:, 0]) + noise * random.standard_normal(n), -1, 1)
    )


def expert_predictions(xs, ys):
    """Predictions [G, n] of each expert in a separate run."""
    experts = [RIDGE.replace(regularization=lam) for lam in LAMS]
    return np.stack([loops.prequential(expert, (xs, ys), KEY)[0].prediction for expert in experts])


def adversarial_streams(mixture, n_streams, n=150):
    """(xs [S,n,1], predictions [S,n], ys [S,n]) of S streams. The labels of a stream have the sign
    opposite to the prediction, favour the expert of least weight, or are random."""

    def one(key):
        x_key, label_key, kind_key = jax.random.split(key, 3)
        xs = jax.random.uniform(x_key, (n, 1), minval=-1, maxval=1)
        noise = jax.random.uniform(label_key, (n,), minval=-1, maxval=1)
        kind = jax.random.randint(kind_key, (), 0, 3)

        def step(state, example):
            x, noise = example
            prediction = mixture.predict(state, x)
            predictions = mixture._map_experts("predict", state, x)
            opposite_sign = jnp.where(prediction > 0, -1.0, 1.0)
            favoured_expert = jnp.argmin(state.log_weights)
            favour = jnp.where(predictions[favoured_expert] > prediction, 1.0, -1.0)
            y = jnp.stack([opposite_sign, favour, noise])[kind]
            return mixture.update(state, x, y, KEY)[0], (prediction, y)

        state = mixture.init(xs[0], KEY)
        return xs, *lax.scan(step, state, (xs, noise))[1]

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(5), n_streams))


@each_rule
def test_the_regret_to_the_best_expert_is_bounded(rule):
    mixture = regularization_mixture(RIDGE, LAMS, 1.0, rule=rule)
    max_regret = np.log(len(LAMS)) / RATES[rule]
    regrets = []
    for xs, predictions, ys in zip(*adversarial_streams(mixture, n_streams=24), strict=True):
        best = np.square(expert_predictions(xs, ys) - np.asarray(ys)).sum(1).min()
        regrets.append(float(jnp.square(predictions - ys).sum()) - best)
    assert max(regrets) <= max_regret + 1e-9
    assert max(regrets) > max_regret / 2  # the adversaries are strong


@pytest.mark.parametrize(
    "forecaster",
    [
        online.KernelAWV(kernels.Gaussian(0.5), capacity=64),
        pytest.param(
            online.NystromAWV(kernels.Gaussian(0.5), sampling=Sampling(0.1, 2.0), capacity=16),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_capacity_grows_for_all_experts(forecaster):
    xs, ys = examples(4)
    mixture = regularization_mixture(forecaster, LAMS[1:3], bound=1.0)
    forecasts, state = loops.prequential(mixture, (xs, ys), KEY)
    large_mixture = regularization_mixture(forecaster.replace(capacity=128), LAMS[1:3], bound=1.0)
    expected = loops.prequential(large_mixture, (xs, ys), KEY)[0].prediction
    np.testing.assert_allclose(forecasts.prediction, expected, atol=1e-9)
    n_experts = 2
    assert {leaf.shape[0] for leaf in jax.tree.leaves(state.experts)} == {n_experts}


def test_a_diverged_expert_says_that_its_capacity_is_exceeded():
    """Otherwise the mixture would neither learn the example nor enlarge the capacity."""
    diverged = jnp.full(2, jnp.nan)
    info = info_after(2, jnp.full(3, jnp.nan), diverged, exceeded=jnp.ones((), bool))
    assert info.result == Result.CAPACITY_EXCEEDED and info.dictionary_size.tolist() == [2] * 3
    assert info_after(2, jnp.full(3, jnp.nan), diverged).result == Result.NOT_FINITE


def test_experts_that_need_different_capacities_are_refused():
    xs, ys = examples(4)
    forecaster = online.NystromAWV(kernels.Gaussian(0.5), capacity=4)
    mu, beta, eps = jnp.array([0.05, 100.0]), jnp.array([2.0, 2.0]), jnp.array([0.5, 0.5])
    grid = {"sampling": Sampling(mu, beta, eps)}
    with pytest.raises(ValueError, match="need different capacities"):
        loops.prequential(Mixture(forecaster, grid, bound=1.0), (xs, ys), KEY)


@struct.dataclass
class Diverging(Forecaster):
    """Always predicts `level`, and diverges after `diverges_after` examples."""

    level: Any
    diverges_after: Any

    def init(self, x, key):
        return jnp.zeros((), jnp.int32)

    def predict(self, state, x):
        return jnp.where(state < self.diverges_after, self.level, jnp.nan)

    def update(self, state, x, y, key):
        diverged = (state + 1 >= self.diverges_after) | jnp.isinf(y)
        return state + 1, ForecastInfo(1, result((Result.NOT_FINITE, diverged)))


LEVELS, DIVERGES_AFTER = np.array([0.5, 0.3, -0.2]), np.array([20, 10**6, 10**6], np.int32)
DIVERGING = {"level": LEVELS, "diverges_after": DIVERGES_AFTER}
EXPERT = Diverging(level=0.0, diverges_after=0)  # each expert has the fields of its grid point


@each_rule
def test_the_weight_of_a_diverged_expert_goes_to_the_others(rule):
    """The best expert diverges. The regret bound holds relative to the other experts."""
    _, ys = examples(5, 60)
    ys = 0.5 + 0.1 * np.asarray(ys)
    mixture = Mixture(EXPERT, DIVERGING, bound=1.0, rule=rule)
    with pytest.warns(UserWarning, match=r"experts \[0\] of the mixture's 3 diverged"):
        forecasts, state = loops.prequential(mixture, (np.zeros((60, 1)), ys), KEY)
    eta = RATES[rule]
    levels = np.broadcast_to(LEVELS[:, None], (3, 60))
    all_experts, remaining = (
        mixture_predictions(rows, ys, bound=1.0, rule=rule) for rows in (levels, levels[1:])
    )
    expected = np.where(np.arange(60) < DIVERGES_AFTER[0], all_experts, remaining).astype(float)
    np.testing.assert_allclose(forecasts.prediction, expected, rtol=0, atol=1e-9)
    penalties = eta * np.square(LEVELS[:, None] - ys)
    weights = np.exp(-penalties[1:].sum(1))
    np.testing.assert_allclose(np.exp(state.log_weights), [0, *weights / weights.sum()])
    assert list(state.diverged) == [True, False, False]
    assert float(forecasts.loss.sum()) <= (penalties[1].sum() + np.log(3)) / eta


def test_a_diverged_expert_is_reported_once_and_the_last_one_stops_the_stream(tmp_path):
    """The warning is not repeated after a file is loaded, nor in later chunks."""
    grid = DIVERGING | {"diverges_after": np.array([2, 7, 4], np.int32)}
    mixture = Mixture(EXPERT, grid, bound=1.0)
    stream = loops.Live(mixture, inputs=1, key=KEY)
    infos = [stream.learn([0.0], 0.4)]
    with pytest.warns(UserWarning, match=r"experts \[0\]"):
        infos.append(stream.learn([0.0], 0.4))
    stream.save(tmp_path / "stream")
    stream = loops.Live.load(tmp_path / "stream", mixture)
    assert list(stream.state.diverged) == [True, False, False]
    infos.append(stream.learn([0.0], np.nan))
    with pytest.warns(UserWarning, match=r"experts \[2\]"):
        infos.append(stream.learn([0.0], 0.4))
    assert [list(np.flatnonzero(info.diverged)) for info in infos] == [[], [0], [], [2]]
    assert not any(info.result for info in infos)
    assert stream.predict([0.0]) == pytest.approx(0.3)
    stream.learn([0.0], 0.4), stream.learn([0.0], 0.4)
    with pytest.raises(FloatingPointError, match="after example 6"):
        stream.learn([0.0], 0.4)

    chunks = ((np.zeros((3, 1)), np.full(3, 0.4)) for _ in range(2))
    with pytest.warns(UserWarning) as warnings_list:
        states = [state for _, state in loops.prequential(mixture, chunks, KEY)]
    assert len(warnings_list) == 2 and list(states[-1].diverged) == [True, False, True]


def test_no_expert_diverges_at_an_infinite_label():
    mixture = Mixture(EXPERT, DIVERGING, bound=1.0)
    state = mixture.init(jnp.zeros(1), KEY)
    state, info = mixture.update(state, jnp.zeros(1), jnp.asarray(jnp.inf), KEY)
    assert info.result == Result.NOT_FINITE and not state.diverged.any() and not info.diverged.any()
    assert float(mixture.predict(state, jnp.zeros(1))) == pytest.approx(LEVELS.mean())


def test_experts_whose_blocks_end_at_different_examples_learn_the_same_examples():
    """Each expert has the predictions of a separate run, although another dictionary grows at other
    examples."""
    xs, ys = examples(6)
    forecaster = online.NystromAWV(kernels.Gaussian(0.3), 0.1, Sampling(0.1, 2.0), capacity=64)
    mus, betas, eps = jnp.array([0.05, 5.0]), jnp.array([2.0, 2.0]), jnp.array([0.5, 0.5])
    mixture = Mixture(forecaster, {"sampling": Sampling(mus, betas, eps)}, bound=1.0)
    forecasts, _ = loops.prequential(mixture, (xs, ys), KEY)
    runs = [
        loops.prequential(forecaster.replace(sampling=Sampling(mu, 2.0)), (xs, ys), KEY)
        for mu in (0.05, 5.0)
    ]
    sizes = [np.asarray(run.dictionary_size) for run, _ in runs]
    assert sizes[0][-1] > 1.5 * sizes[1][-1]
    np.testing.assert_array_equal(forecasts.dictionary_size, np.maximum(*sizes))
    expected = mixture_predictions(
        np.stack([run.prediction for run, _ in runs]), ys, bound=1.0, rule="average"
    )
    np.testing.assert_allclose(forecasts.prediction, expected.astype(float), atol=1e-9)

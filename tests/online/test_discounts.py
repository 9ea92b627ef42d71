"""Discounts: the weighted least squares of their definition (THEORY 7.12), from scratch for every
example; what forgetting costs in digits; and what it is for."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from test_online import KEY, PREDICT, UPDATE, changed, examples

from jsketch import kernels, loops, online, struct
from jsketch.adapters import RiverRegressor, SklearnRegressor
from jsketch.sketch import fourier, nystrom
from jsketch.sketch.fourier import RandomFourier
from jsketch.sketch.taylor import Taylor

LAM, GAMMA, PART = 0.5, 0.9, 30
TAYLOR = Taylor(2, 3, 0.8)
PLAIN = online.PKAWV(TAYLOR, LAM, discount=GAMMA)
FORECASTERS = {"plain": PLAIN, "renew": PLAIN.replace(renew=True)}
LEARN = jax.jit(lambda forecaster, state, x, y: forecaster.learn(state, x, y))
each = pytest.mark.parametrize("name", FORECASTERS)
MISSING = [0, 7, 8, 29, 40]


def solved(z, ys, lam, gamma, awv=True, renew=False):
    """A fit from scratch for every example: the k-th of n labelled ones counts gamma^(n + 1 - k),
    and so does lam of a feature whose last turn was after the k-th, k = 0 where none was."""
    size, seen, predictions = z.shape[1], [], []
    for t, row in enumerate(z):
        n = len(seen)
        turns = np.zeros(size)
        if renew:
            for k in range(n):
                turns[k % size] = k + 1
        weights = gamma ** (n - np.arange(n))
        inner = lam * np.diag(gamma ** (n + 1 - turns)) + (z[seen].T * weights) @ z[seen]
        inner = inner + awv * np.outer(row, row)
        predictions.append(row @ np.linalg.solve(inner, z[seen].T @ (weights * ys[seen])))
        if np.isfinite(ys[t]):
            seen.append(t)
    return np.array(predictions)


def in_parts(forecaster, xs, ys):
    """Predictions and the state, PART examples at a time, in blocks of 7, the last of which is
    short: one program."""
    state, found = None, []
    for first in range(0, len(ys), PART):
        part = slice(first, first + PART)
        forecasts, state = loops.prequential(
            forecaster, xs[part], ys[part], KEY, state=state, first=first, block=7
        )
        found.append(forecasts.prediction)
    return np.concatenate(found), state


def features_of(forecaster, xs):
    return np.asarray(jax.jit(forecaster.features.features)(jnp.asarray(xs)))


@each
def test_predictions_are_the_weighted_least_squares(name):
    """In blocks, one by one, and learned all at once."""
    forecaster = FORECASTERS[name]
    xs, ys = examples()
    ys = changed(ys, MISSING, np.nan)
    z, renew = features_of(forecaster, xs), forecaster.renew
    oracle = solved(z, ys, LAM, GAMMA, renew=renew)
    found, state = in_parts(forecaster, xs, ys)
    np.testing.assert_allclose(found, oracle, atol=1e-8)
    alone, single = [], forecaster.init(xs[0], KEY)
    for x, y in zip(xs, ys, strict=True):
        alone.append(float(PREDICT(forecaster, single, x)))
        single, info = UPDATE(forecaster, single, x, y)
        assert not info.nonfinite
    np.testing.assert_allclose(alone, oracle, atol=1e-8)
    learned = forecaster.init(xs[0], KEY)
    for part in (slice(PART), slice(PART, None)):
        learned = LEARN(forecaster, learned, xs[part], ys[part])
    for other in (single, learned):
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@each
@pytest.mark.parametrize("kind", ["nystrom", "fourier", "ridge"])
def test_other_features_and_ridge_regression(name, kind):
    xs, ys = examples()
    features = {
        "nystrom": nystrom.feature_map(kernels.Gaussian(0.8), jnp.asarray(xs[:12])),
        "fourier": Drawn(RandomFourier(6).draw(kernels.Gaussian(0.8), 2, KEY, jnp.float64)),
        "ridge": TAYLOR,
    }[kind]
    awv = kind != "ridge"
    forecaster = FORECASTERS[name].replace(features=features, penalize_current=awv)
    z = features_of(forecaster, xs)
    oracle = solved(z, ys, LAM, GAMMA, awv, renew=forecaster.renew)
    np.testing.assert_allclose(in_parts(forecaster, xs, ys)[0], oracle, atol=1e-8)


@struct.dataclass
class Drawn:
    """Fourier features as a map."""

    drawn: object

    def features(self, x):
        return fourier.features(self.drawn, x)


def test_the_exact_forecaster():
    """In explicit features of all examples."""
    xs, ys = examples(1)
    ys = changed(ys, MISSING, np.nan)
    values, vectors = np.linalg.eigh(oracles.gaussian(xs, xs, 0.4))
    z = vectors * np.sqrt(np.maximum(values, 0))
    for awv in (True, False):
        forecaster = online.KernelAWV(
            kernels.Gaussian(0.4), LAM, penalize_current=awv, discount=GAMMA, capacity=64
        )
        found, state = in_parts(forecaster, xs, ys)
        np.testing.assert_allclose(found, solved(z, ys, LAM, GAMMA, awv), atol=1e-8)
    assert int(state.used) == len(ys) - len(MISSING)


def test_a_discount_of_one_is_none():
    """Bit for bit in streams; single steps and `learn` are other programs, which may round the
    last bit otherwise."""
    xs, ys = examples()
    ys = changed(ys, MISSING, np.nan)
    exact = online.KernelAWV(kernels.Gaussian(0.4), LAM, capacity=64)
    for forecaster in (online.PKAWV(TAYLOR, LAM), exact):
        streams, steps = [], []
        for same in (forecaster, forecaster.replace(discount=1.0)):
            streams.append(in_parts(same, xs, ys))
            state, ends = same.init(xs[0], KEY), []
            for x, y in zip(xs[:12], ys[:12], strict=True):
                ends.append(PREDICT(same, state, x))
                state, _ = UPDATE(same, state, x, y)
            steps.append(
                [ends, state if forecaster is exact else LEARN(same, state, xs[:PART], ys[:PART])]
            )
        jax.tree.map(np.testing.assert_array_equal, *streams)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14), *steps)


def test_discounts_sweep_by_vmap():
    """Also one so small that a block is learned in parts."""
    xs, ys = examples()
    gammas = np.array([0.5, 0.95, 1.0])
    keeps = FORECASTERS["renew"]
    z = features_of(keeps, xs)

    @jax.jit
    @jax.vmap
    def run(gamma):
        forecaster = keeps.replace(discount=gamma)
        state = forecaster.init(jnp.asarray(xs[0]), KEY)
        return loops.stream(forecaster, state, jnp.asarray(xs), jnp.asarray(ys), KEY)

    found = run(gammas)
    wanted = [solved(z, ys, LAM, gamma, renew=True) for gamma in gammas]
    np.testing.assert_allclose(found.forecasts.prediction, wanted, atol=1e-8)
    assert not found.nonfinite.any()


@pytest.mark.parametrize("takes", ["examples", "blocks"])
def test_traced_numbers_that_are_no_discounts_are_flagged(takes):
    xs, ys = (jnp.asarray(values[1:3]) for values in examples())

    def last(discount):
        forecaster = FORECASTERS["renew"].replace(discount=discount)
        state = forecaster.init(xs[0], KEY)
        if takes == "blocks":
            return forecaster.predict_update(state, xs, ys)[2].nonfinite
        return forecaster.update(state, xs[0], ys[0], KEY)[1].nonfinite

    flags = jax.jit(jax.vmap(last))(jnp.array([0.5, 1.0, 1.5, 0.0, -0.5, jnp.nan]))
    assert flags.tolist() == [False] * 2 + [True] * 4


def test_gradients_of_a_renewed_regularization():
    """By differences, to 1e-6; where the first label is missing nothing is renewed."""
    xs, ys = (jnp.asarray(values[:4]) for values in examples())
    ys = ys.at[0].set(jnp.nan)

    @jax.jit
    def last(discount):
        forecaster = FORECASTERS["renew"].replace(discount=discount)

        def one(state, seen):
            return forecaster.update(state, *seen, KEY)[0], None

        state, _ = jax.lax.scan(one, forecaster.init(xs[0], KEY), (xs, ys))
        return forecaster.predict(state, xs[0])

    slope = jax.jit(jax.grad(last))(0.9)
    difference = (last(0.9 + 1e-5) - last(0.9 - 1e-5)) / 2e-5
    assert float(slope) == pytest.approx(float(difference), rel=1e-6)


@pytest.mark.slow
@each
def test_a_stream_in_segments_gives_the_same_predictions(name):
    xs, ys = examples(13, 3000)
    ys = changed(ys, slice(None, None, 7), np.nan)
    forecaster = FORECASTERS[name].replace(discount=0.995)
    whole, last = loops.prequential(forecaster, xs, ys, KEY, segments=1)
    parts, end = loops.prequential(forecaster, xs, ys, KEY, segments=3)
    np.testing.assert_allclose(parts.prediction, whole.prediction, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(end.weights, last.weights, rtol=1e-7, atol=1e-8)


def test_the_identity_behind_discounted_regret():
    """THEORY 7.12, for every end: sum gamma^(T-t) (y - y^)^2 is the least that a fixed w has, and
    what each example adds to it; never more than the first sum, on any labels."""
    xs, ys = examples(3)
    ys = np.sign(ys)
    z, found = features_of(PLAIN, xs), in_parts(PLAIN, xs, ys)[0]
    for end in (1, 20, len(ys)):
        rows, labels, predicted = z[:end], ys[:end], found[:end]
        weights = GAMMA ** (end - 1.0 - np.arange(end))
        inner = (rows.T * weights) @ rows + LAM * GAMMA**end * np.eye(z.shape[1])
        moment = rows.T @ (weights * labels)
        best = weights @ labels**2 - moment @ np.linalg.solve(inner, moment)
        before, after = np.zeros(end), np.zeros(end)
        matrix = LAM * np.eye(z.shape[1])
        for t, row in enumerate(rows):
            matrix = GAMMA * matrix
            before[t] = row @ np.linalg.solve(matrix, row)
            matrix = matrix + np.outer(row, row)
            after[t] = row @ np.linalg.solve(matrix, row)
        loss = weights @ (labels - predicted) ** 2
        added = weights @ (labels**2 * after - predicted**2 * before)
        assert loss == pytest.approx(best + added, rel=1e-8)
        assert loss <= best + weights @ after + 1e-9


@struct.dataclass
class Dependent:
    """Three features of two inputs: no example excites the third direction."""

    def features(self, x):
        return jnp.concatenate([x, x.sum(1, keepdims=True)], axis=1)


def test_rounding_between_the_triangles_does_not_grow():
    """Single steps of 400 examples: without the mean of the two, predictions are off by 100."""
    xs, ys = examples(6, 400)

    @jax.jit
    def steps(forecaster, xs, ys):
        def step(state, example):
            x, y = example
            return forecaster.update(state, x, y, KEY)[0], forecaster.predict(state, x)

        return jax.lax.scan(step, forecaster.init(xs[0], KEY), (xs, ys))[1]

    z = features_of(PLAIN, xs)
    found = steps(PLAIN, jnp.asarray(xs), jnp.asarray(ys))
    np.testing.assert_allclose(found, solved(z, ys, LAM, GAMMA), atol=1e-10)


def test_a_forgotten_regularization_stops_the_stream_and_a_renewed_one_does_not():
    xs, ys = examples(4, 600)
    forecaster = online.PKAWV(Dependent(), LAM, discount=GAMMA)
    with pytest.raises(FloatingPointError, match="no longer finite"):
        in_parts(forecaster, xs, ys)
    z = np.concatenate([xs, xs.sum(1, keepdims=True)], axis=1)
    found, _ = in_parts(forecaster, xs[:240], ys[:240])
    np.testing.assert_allclose(found, solved(z[:240], ys[:240], LAM, GAMMA), atol=1e-3)
    kept, _ = in_parts(forecaster.replace(renew=True), xs, ys)
    np.testing.assert_allclose(kept, solved(z, ys, LAM, GAMMA, renew=True), atol=1e-10)


def test_forgetting_pays_where_the_target_changes():
    """A function that changes its sign twice."""
    xs, _ = examples(5, 480)
    ys = np.where(np.arange(480) // 160 % 2, -1, 1) * np.sin(1.5 * xs.sum(1))
    forecaster = online.PKAWV(TAYLOR, 0.1)
    mixture = online.over_discounts(
        forecaster.replace(renew=True), [0.8, 0.9, 0.95, 0.99, 1.0], bound=1.0
    )
    runs = {
        "static": forecaster,
        "discounted": forecaster.replace(discount=0.9, renew=True),
        "mixture": mixture,
    }
    losses = {
        name: np.square(np.clip(in_parts(run, xs, ys)[0], -1, 1) - ys).mean()
        for name, run in runs.items()
    }
    assert losses["discounted"] < 0.6 * losses["static"], losses
    assert losses["mixture"] < 0.6 * losses["static"], losses


def test_scikit_learn_takes_them_as_they_are():
    xs, ys = examples()
    mixture = online.over_discounts(FORECASTERS["renew"], [0.9, 1.0], bound=1.0)
    wanted, _ = loops.prequential(mixture, xs[:PART], ys[:PART], KEY)
    model = SklearnRegressor(mixture).fit(xs[:PART], ys[:PART])
    np.testing.assert_allclose(model.forecasts_.prediction, wanted.prediction, atol=1e-12)
    assert SklearnRegressor(PLAIN).set_params(
        forecaster__discount=0.5
    ).forecaster.discount == pytest.approx(0.5)


@pytest.mark.slow
def test_river_takes_them_as_they_are():
    xs, ys = examples()
    mixture = online.over_discounts(FORECASTERS["renew"], [0.9, 1.0], bound=1.0)
    wanted, _ = loops.prequential(mixture, xs[:PART], ys[:PART], KEY)
    river, made = RiverRegressor(mixture), []
    for (a, b), y in zip(xs[:12], ys[:12], strict=True):
        made.append(river.predict_one({"a": a, "b": b}))
        river.learn_one({"a": a, "b": b}, y)
    np.testing.assert_allclose(made, wanted.prediction[:12], atol=1e-9)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: PLAIN.replace(discount=0.0), "discount must be a finite number above 0; 0.0"),
        (lambda: PLAIN.replace(discount=np.nan), "discount must be a finite number above 0; nan"),
        (lambda: PLAIN.replace(discount=1.01), "discount must be at most 1, .*; 1.01 was given"),
        (lambda: PLAIN.replace(discount=np.ones(2)), "discount must be one number"),
        (lambda: online.PKAWV(TAYLOR, renew=True), "give it a discount"),
        (lambda: PLAIN.replace(discount=0.9, renew="no"), "renew must be True or False"),
        (lambda: online.KernelAWV(kernels.Gaussian(1.0), discount=-1.0), "discount must be"),
        (lambda: online.over_discounts(PLAIN, 0.9, 1.0), "discounts must be a vector"),
        (lambda: online.over_discounts(PLAIN, [0.9, 1.1], 1.0), "discount must be at most 1"),
        (
            lambda: online.over_discounts(online.FOGD(kernels.Gaussian(1.0), 0.1), [0.9], 1.0),
            "the grid names 'discount'",
        ),
    ],
)
def test_mistakes_are_explained(build, words):
    with pytest.raises(ValueError, match=words):
        loops.prequential(build(), *examples(), KEY)

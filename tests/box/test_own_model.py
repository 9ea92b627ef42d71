"""GO-UCB for a law of one's own: errors, fits, intervals, batches and pending points."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from small_problems import ASK, KEY, TELL

from jsketch import Box, loops, problems
from jsketch.box import GOUCB, LocalGOUCB, ModelGOUCB, Network, Parametric
from jsketch.box.go_ucb import law_fit
from jsketch.problems import laws

UNIT = Box(jnp.zeros(2), jnp.ones(2))
QUICK = dict(restarts=2, fit_steps=12, candidates=32, starts=2, steps=10)
PEND = jax.jit(lambda optimizer, state, query: optimizer.pend(state, query))
PREDICT = jax.jit(lambda optimizer, state, x: optimizer.posterior(state, x))
PARAMETERS = jax.jit(lambda optimizer, state: optimizer.parameters(state))


def plane(a, b, slope, level):
    return level + slope[0] * a + slope[1] * b


PLANE = Parametric(plane, dict(slope=(-np.full(2, 8.0), 8.0, 0.0), level=(-4, 4, 1.0)))
HALDANE = laws.haldane.model
RATES = jax.jit(jax.vmap(HALDANE, (None, 0)))
VECTORS = jax.jit(lambda model, z: jax.vmap(model.vector)(z), static_argnums=0)
SIMILAR_FITS = jax.jit(law_fit.similar_fits, static_argnames=("law", "count", "steps"))


def start(model, box=UNIT, horizon=6, **settings):
    return ModelGOUCB(model, **(QUICK | settings)).init(box, KEY, horizon=horizon)


def law(function, **parameters):
    return Parametric(function, parameters)


# the model


def test_arguments_that_are_no_parameters_are_inputs_in_order():
    model = law(lambda b, p, a: 10 * b + a + p, p=(0, 1, 0.5))
    assert model.inputs == ("b", "a") and model.labels == ("p",) and model.size == 1
    assert float(model(model.guess, jnp.array([2.0, 3.0]))) == 23.5
    whole = law(lambda x, p: p * x.sum(), p=(0, 1, 0.5))
    assert float(whole(whole.guess, jnp.ones(4))) == 2
    assert whole.arguments(jnp.ones(1))["x"].shape == ()  # one input of a box of one is a number


def test_coordinates_and_parameters_are_inverse():
    model = law(
        lambda x, a, w: a * x + w.sum(), a=(0.1, 100, 10), w=(np.zeros(3), 4.0, [1.0, 2.0, 3.0])
    )
    assert model.labels == ("a", "w[0]", "w[1]", "w[2]")
    assert np.asarray(model.coordinates(model.guess)) == pytest.approx(0)
    scales = model.scales()
    assert scales.log.tolist() == [True, False, False, False]
    z = model.init(KEY, jnp.zeros(1))
    assert (z >= scales.lower).all() and (z <= scales.upper).all()
    np.testing.assert_allclose(model.coordinates(model.named(model.vector(z))), z, atol=1e-12)
    ends = model.named(model.vector(jnp.full(4, 99.0)))
    assert float(ends["a"]) == pytest.approx(100) and ends["w"].tolist() == [4, 4, 4]


def test_equal_models_are_equal():
    again = Parametric(plane, dict(slope=(-np.full(2, 8.0), 8.0, 0.0), level=(-4, 4, 1.0)))
    assert again == PLANE and hash(again) == hash(PLANE)
    assert Parametric(plane, dict(slope=(-np.full(2, 9.0), 8.0, 0.0), level=(-4, 4, 1))) != PLANE
    assert repr(PLANE) == "Parametric(plane(a, b; slope, level))"


ERRORS = {
    "branch": (
        lambda: start(law(lambda a, b, p: p if a > 0.5 else b, p=(0, 1, 0.5))),
        r"model's function must be a function that jit accepts.*lax.cond",
    ),
    "float": (lambda: start(law(lambda a, b, p: p * float(a), p=(0, 1, 0.5))), "that jit accepts"),
    "shape": (
        lambda: start(law(lambda a, b, p: jnp.stack([a, p]), p=(0, 1, 0.5))),
        r"one number, shape \(\), .* shape \(2,\) was returned",
    ),
    "inputs": (
        lambda: start(law(lambda a, b, c, p: p * a, p=(0, 1, 0.5))),
        "3 inputs, a, b, c, and the points have 2",
    ),
    "no input": (lambda: law(lambda p: p, p=(0, 1, 0.5)), "name each of its inputs"),
    "starred": (lambda: law(lambda *x, p: p, p=(0, 1, 0.5)), "name each of its inputs"),
    "not an argument": (lambda: law(lambda a, p: p, q=(0, 1, 0.5)), "has no argument q"),
    "unused": (
        lambda: start(law(lambda a, b, p, q: p * a, p=(0, 1, 0.5), q=(0, 1, 0.5))),
        "does not depend on q: leave out",
    ),
    "unused entry": (
        lambda: start(law(lambda a, b, w: w[0] * a, w=(np.zeros(2), 1.0, 0.5))),
        r"does not depend on w\[1\]",
    ),
    "nan": (
        lambda: start(law(lambda a, b, p: jnp.log(a - 0.9) * p, p=(0.5, 1, 0.7))),
        "returns nan for the guesses at a=0.*, b=0",
    ),
    "bounds": (lambda: law(lambda a, p: p, p=(1, 0, 0.5)), "parameter p: lower must be below"),
    "guess": (lambda: law(lambda a, p: p, p=(0, 1, 2)), "the guess must lie between"),
    "range": (lambda: law(lambda a, p: p, p=(0, 1)), r"parameter p is \(lower, upper, guess\)"),
    "no parameters": (lambda: law(lambda a: a), "parameters are {name"),
    "no function": (lambda: Parametric(3, dict(p=(0, 1, 0.5))), "must be a function; 3 was"),
    "initial": (lambda: start(PLANE, initial=7), "initial = 7 uniform points"),
    "network": (lambda: start(Network()), r"needs a law, Parametric.*LocalGOUCB\(model"),
    "noise": (lambda: start(PLANE, noise_std=0.0), "noise_std must be a finite number above 0"),
    "data shape": (
        lambda: ModelGOUCB(PLANE).init(UNIT, KEY, horizon=3, data=(np.ones((2, 3)), np.ones(2))),
        r"x \[n, 2\], y \[n\].*\(2, 3\)",
    ),
    "data outside": (
        lambda: ModelGOUCB(PLANE).init(UNIT, KEY, horizon=3, data=([[0, 0], [0, 2]], [1, 1])),
        "row 1 is",
    ),
    "data kind": (lambda: ModelGOUCB(PLANE).init(UNIT, KEY, horizon=3, data=3), "3 was given"),
    "points": (lambda: ModelGOUCB(PLANE).posterior(start(PLANE), jnp.ones(2)), r"points \[q, 2\]"),
    "level": (lambda: ModelGOUCB(PLANE).parameters(start(PLANE), level=2), "level is a prob"),
    "pending": (
        lambda: ModelGOUCB(PLANE).pend(start(PLANE), ASK(ModelGOUCB(PLANE), start(PLANE), KEY)),
        "1 points would be pending, max_pending is 0",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_cause(name):
    call, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        call()


# the fit


@jax.jit
def observed(optimizer, x, y, box=UNIT):
    return optimizer.init(box, KEY, horizon=2, data=(x, y))


def test_a_linear_law_with_known_noise_is_bayesian_regression():
    """The posterior is that of ridge regression with the prior N(0, I) of the coordinates."""
    random = np.random.default_rng(0)
    x, noise = random.uniform(size=(9, 2)), 0.3
    y = 1 + x @ [2.0, -3.0] + noise * random.standard_normal(9)
    optimizer = ModelGOUCB(PLANE, noise_std=noise, **QUICK)
    state = observed(optimizer, x, y)
    unit = np.array([4.0, 4.0, 2.0])  # a quarter of the ranges
    rows = np.column_stack([x, np.ones(9)]) * unit
    covariance = np.linalg.inv(rows.T @ rows / noise**2 + np.eye(3))
    z = covariance @ rows.T @ (y - 1) / noise**2  # the guesses are 0, 0 and 1
    np.testing.assert_allclose(state.fit.z, z, atol=1e-7)
    new = random.uniform(size=(4, 2))
    mean, deviation = PREDICT(optimizer, state, jnp.asarray(new))
    new_rows = np.column_stack([new, np.ones(4)]) * unit
    np.testing.assert_allclose(mean, 1 + new_rows @ z, atol=1e-7)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", new_rows, covariance, new_rows))
    np.testing.assert_allclose(deviation, expected, rtol=1e-6)
    # the standard deviations from draws have a relative error of 1/sqrt(number of draws)
    drawn = draws(PLANE, state.fit, _values(state), count=2000, steps=6)
    for one_sided in jax.jit(law_fit.deviations)(state.fit, drawn):
        np.testing.assert_allclose(one_sided, np.sqrt(np.diag(covariance)), rtol=0.1)
    estimates = PARAMETERS(optimizer, state)
    half = scipy.stats.norm.ppf(0.975) * np.sqrt(np.diag(covariance)) * unit
    np.testing.assert_allclose(estimates["slope"].value, (z * unit)[:2], atol=1e-6)
    np.testing.assert_allclose(estimates["slope"].upper - (z * unit)[:2], half[:2], rtol=0.4)
    assert float(1 + (z * unit)[2] - estimates["level"].lower) == pytest.approx(half[2], rel=0.4)


@pytest.mark.parametrize("dof", [1.0, 2.5, 7.0, 60.0, np.inf])
def test_quantiles_are_those_of_student(dof):
    expected = scipy.stats.t.ppf(0.975, min(dof, 1e6))
    assert float(law_fit.student_quantile(jnp.asarray(dof), 0.95)) == pytest.approx(expected)


def test_the_fit_finds_the_truth_from_guesses_that_are_wrong():
    truth = dict(Vmax=3.0, Km=14.0, Ki=4.0)
    x = np.linspace(0.5, 50, 12)[:, None]
    y = RATES(truth, x)
    optimizer = ModelGOUCB(HALDANE, fit_steps=30)
    estimates = PARAMETERS(optimizer, observed(optimizer, x, y, laws.haldane.domain))
    for name, value in truth.items():
        assert bool(estimates[name].identified)
        assert float(estimates[name].value) == pytest.approx(value, rel=0.1)
        assert float(estimates[name].lower) < value < float(estimates[name].upper)


def test_a_parameter_without_evaluations_of_its_effect_is_not_identified():
    """At S << Km the law is Vmax S / Km, and only the ratio is identified."""
    x = np.linspace(0.001, 0.02, 8)[:, None]
    y = RATES(dict(Vmax=10.0, Km=5.0, Ki=10.0), x)
    optimizer = ModelGOUCB(HALDANE, noise_std=0.002, **QUICK)  # 5% of the largest value
    estimates = PARAMETERS(optimizer, observed(optimizer, x, y, laws.haldane.domain))
    identified = [name for name, e in estimates.items() if bool(e.identified)]
    assert not identified
    assert float(estimates["Ki"].lower) < 2 and float(estimates["Ki"].upper) > 50


def test_a_parameter_that_a_bound_holds_is_not_identified():
    """The true level is 3, and the range ends at 2; the guess of `flat` is its lower bound."""
    model = law(
        lambda a, b, slope, level, flat: level + slope * a + flat * b,
        **dict(slope=(-4, 4, 1), level=(-4, 2, 1), flat=(0, 4, 0)),
    )
    x = np.random.default_rng(0).uniform(size=(12, 2))
    optimizer = ModelGOUCB(model, noise_std=0.1, **QUICK)
    state = observed(optimizer, x, 3 + 2 * x[:, 0] + 0.5 * x[:, 1])
    with pytest.warns(UserWarning, match=r"a bound holds level \(upper bound, 2\): the eval"):
        estimates = optimizer.parameters(state)
    level = estimates["level"]
    assert (int(level.at_bound), bool(level.identified)) == (1, False)
    assert float(level.lower) <= float(level.value) == float(level.upper) == 2
    assert int(estimates["slope"].at_bound) == 0 and bool(estimates["slope"].identified)
    # without evaluations no bound holds a guess
    nothing = PARAMETERS(optimizer, optimizer.init(UNIT, KEY, horizon=2))
    assert [int(e.at_bound) for e in nothing.values()] == [0, 0, 0]


def test_failed_evaluations_and_nan_of_the_law_are_left_out():
    model = law(lambda a, b, p, q: p * jnp.sqrt(a - q) + b, p=(0.1, 9, 1), q=(-1, 0.5, -0.5))
    x = np.array([[0.1, 0.1], [0.3, 0.9], [0.5, 0.2], [0.9, 0.4]])
    y = 2 * np.sqrt(x[:, 0] + 0.2) + x[:, 1]
    y[1] = np.nan
    optimizer = ModelGOUCB(model, **QUICK)
    state = observed(optimizer, x, y)
    others = observed(optimizer, x[[0, 2, 3]], y[[0, 2, 3]])
    np.testing.assert_allclose(state.fit.z, others.fit.z, atol=1e-3)
    assert np.isfinite(PREDICT(optimizer, state, jnp.asarray(x))[0]).all()


def test_draws_of_a_law_with_two_fits_are_near_both():
    model = law(lambda a, b, p: (p * (a + b)) ** 2, p=(-4, 4, 0.1))
    x = np.array([[0.2, 0.3], [0.9, 0.8], [0.4, 0.9]])
    state = observed(ModelGOUCB(model, noise_std=0.05, **QUICK), x, (2 * x.sum(1)) ** 2)
    drawn = draws(model, state.fit, _values(state), count=64, steps=12)
    p = np.asarray(VECTORS(model, drawn))[:, 0]
    np.testing.assert_allclose(np.abs(p), 2, atol=0.1)
    assert 10 < (p > 0).sum() < 54


@pytest.mark.parametrize("guess, signs", [(0.1, {-1, 1}), (3.0, {1})])
def test_fits_of_similar_evidence_are_found(guess, signs):
    """-2 describes the values as 2 does. By the prior around 3 its log evidence is less by 3, more
    than law_fit.SIMILAR_EVIDENCE."""
    model = law(lambda a, b, p: (p * (a + b)) ** 2, p=(-4, 4, guess))
    x = np.array([[0.2, 0.3], [0.9, 0.8], [0.4, 0.9]])
    state = observed(ModelGOUCB(model, noise_std=0.05, **QUICK), x, (2 * x.sum(1)) ** 2)
    fits = SIMILAR_FITS(model, state.fit, _values(state), KEY, count=8, steps=30)
    p = np.asarray(VECTORS(model, fits))[:, 0]
    np.testing.assert_allclose(np.abs(p), 2, atol=0.1)
    assert set(np.sign(p)) == signs


def test_an_interval_reaches_around_fits_that_are_far_apart():
    """At multiples of 1/10 the frequencies 5 and 20 pi - 5 have the same values, and few descents
    lead to either of them."""
    model = law(lambda a, b, w: jnp.cos(w * a) + b, w=(0, 62, 10 * np.pi))
    x = np.column_stack([np.arange(11) / 10, np.zeros(11)])
    optimizer = ModelGOUCB(model, noise_std=0.05, **(QUICK | dict(restarts=40)))
    estimate = PARAMETERS(optimizer, observed(optimizer, x, np.cos(5 * x[:, 0])))["w"]
    assert float(estimate.lower) < 5 and float(estimate.upper) > 20 * np.pi - 5
    assert not bool(estimate.identified)
    # a value at another place decides between them
    y = np.cos(5 * np.append(x[:, 0], 0.65))
    estimate = PARAMETERS(optimizer, observed(optimizer, np.vstack([x, [[0.65, 0.0]]]), y))["w"]
    assert bool(estimate.identified)
    assert 4.5 < float(estimate.lower) < 5 < float(estimate.upper) < 5.5


def found_score(model, unit, **settings):
    optimizer = ModelGOUCB(model, **QUICK, **settings)

    @jax.jit
    def score(point):
        state = optimizer.init(UNIT, KEY, horizon=3)
        known = law_fit.posterior(model, state.fit, _values(state))
        return optimizer._score(known, UNIT, _values(state), KEY)(point)

    return float(score(jnp.asarray(unit)))


def test_a_law_that_is_not_nearly_linear_is_scored_by_draws():
    """tanh(p a) where the prior deviation of p is 10: the linearised law at a = 1 has the deviation
    10, and no law is above 1."""
    model = law(lambda a, b, p, q: jnp.tanh(p * a) + q * b, p=(-20, 20, 0), q=(0, 1e-3, 0))
    linearised = found_score(model, [1.0, 0.0], draws=0)
    assert linearised == pytest.approx(0.7 * 10, rel=1e-3)
    assert 0.3 < found_score(model, [1.0, 0.0], draws=16) < 1.7


def test_a_pending_point_reduces_the_deviation_of_draws():
    model = law(lambda a, b, p, q: jnp.tanh(p * a) + jnp.sin(q * b), p=(-20, 20, 1), q=(-9, 9, 1))
    x = np.array([[0.1, 0.2], [0.2, 0.1]])
    state = observed(ModelGOUCB(model, noise_std=0.1, **QUICK), x, np.array([0.3, 0.3]))

    @jax.jit
    def before_and_after(fit, values, point):
        pending = law_fit.Values(point[None], point[None], jnp.zeros(1), jnp.ones(1, bool))
        expected = law_fit.expected(model, fit, values, pending)
        drawn = [draws(model, fit, known, count=64, steps=12) for known in (values, expected)]
        return [jax.vmap(lambda z: model.apply(z, point))(z).std() for z in drawn]

    before, after = before_and_after(state.fit, _values(state), np.array([0.2, 0.9]))
    assert float(after) < 0.5 * float(before)


def test_draws_whose_law_fails_count_nothing():
    """The law is NaN for q < 0, which some draws have: it is not nearly linear by the others, and
    its score and derivative are finite."""
    model = law(
        lambda a, b, p, q: jnp.tanh(p * a) + b * jnp.sqrt(q), p=(-20, 20, 1), q=(-1, 1, 0.2)
    )
    optimizer = ModelGOUCB(model, draws=16, **QUICK)

    @jax.jit
    def found(point):
        """(the laws at another point, whether they are nearly linear, the score, its derivative)"""
        state = optimizer.init(UNIT, KEY, horizon=3)
        known, values = law_fit.posterior(model, state.fit, _values(state)), _values(state)
        drawn = draws(model, state.fit, values, count=16, steps=15)
        points = jax.random.uniform(KEY, (64, 2))
        at_point = jax.vmap(lambda z: model.apply(z, points[0]))(drawn)
        is_linear = law_fit.is_nearly_linear(model, state.fit, drawn, points)
        score = optimizer._score(known, UNIT, values, KEY)
        return at_point, is_linear, *jax.value_and_grad(score)(point)

    at_point, is_linear, score, derivative = found(np.array([0.9, 0.5]))
    assert 0 < np.isnan(at_point).sum() < 8
    assert not bool(is_linear)
    assert np.isfinite(score) and np.isfinite(derivative).all()


def test_a_linear_law_is_scored_without_draws():
    scores = [found_score(PLANE, [0.3, 0.6], draws=draws) for draws in (0, 16)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


# batches and pending points


def test_points_of_a_batch_and_pending_points_reduce_the_variance():
    optimizer = ModelGOUCB(PLANE, batch=2, max_pending=3, noise_std=0.5, width=3.0, **QUICK)
    x, y = np.array([[0.1, 0.2], [0.9, 0.8]]), np.array([1.0, 2.0])
    state = jax.jit(lambda: optimizer.init(UNIT, KEY, horizon=6, data=(x, y)))()
    query = ASK(optimizer, state, KEY)
    assert query.x.shape == (2, 2) and int(query.size) == 2
    assert not np.array_equal(query.x[0], query.x[1])
    pending = PEND(optimizer, state, query)
    assert int(pending.is_pending.sum()) == 2

    @jax.jit
    def without_and_with(query, point):
        values = law_fit.Values(query.x, query.x, jnp.zeros(2), query.mask)
        given = law_fit.expected(PLANE, state.fit, _values(state), values)
        posteriors = [law_fit.posterior(PLANE, state.fit, v) for v in (_values(state), given)]
        return [posterior.predict(point, point) for posterior in posteriors]

    (mean, variance), (same, less) = without_and_with(query, jnp.array([0.3, 0.6]))
    assert float(mean) == pytest.approx(float(same)) and float(less) < 0.9 * float(variance)
    # with pending points the next choice is another one
    alone = ModelGOUCB(PLANE, max_pending=3, noise_std=0.5, width=3.0, **QUICK)
    assert not np.array_equal(ASK(alone, pending, KEY).x, ASK(alone, state, KEY).x)
    one = query.replace(mask=jnp.array([True, False]))
    told, info = TELL(optimizer, pending, one, jnp.array([1.0, jnp.nan]), KEY)
    assert told.is_pending.tolist() == [False, True, False] and int(info.observed) == 1
    # the horizon counts pending points
    told = PEND(optimizer, told, ASK(optimizer, told, KEY, 2))
    assert int(ASK(optimizer, told, KEY).size) == 2


@partial(jax.jit, static_argnames=("model", "count", "steps"))
def draws(model, fit, values, count, steps):
    """`law_fit.draws`, compiled as one program."""
    return law_fit.draws(model, fit, values, KEY, count, steps)


def _values(state):
    past = state.history
    return law_fit.Values(past.x, past.x, past.y, past.ok)


# runs


def test_a_run_finds_the_maximum_of_its_law():
    problem = laws.haldane.problem(KEY)
    optimizer = ModelGOUCB(HALDANE)
    runs = loops.run(optimizer, problem, jax.random.split(KEY, 4), 14)
    maximum, mean = float(problem.maximum), float(problem.mean)
    regret = (maximum - np.asarray(runs.trace.value)) / (maximum - mean)
    assert regret[:, 8:].mean() < 0.05  # 1 is that of uniform points
    noise_std = np.asarray(runs.trace.info.noise_std)[:, -1].mean()
    assert noise_std / float(problem.noise_std) == pytest.approx(1, abs=0.5)


def test_data_count_as_evaluations_and_replace_the_uniform_points():
    problem = laws.haldane.problem(KEY)
    x = np.linspace(1.0, 45, 6)[:, None]
    values = jax.jit(jax.vmap(problem.value))
    y = values(x)
    optimizer = ModelGOUCB(HALDANE, **QUICK, initial=4)
    state = optimizer.init(problem.domain, KEY, horizon=3, data=(x, y))
    assert state.history.capacity == 9 and int(state.history.count) == 6
    query = ASK(optimizer, state, KEY)
    assert int(query.size) == 1
    maximum, mean = float(problem.maximum), float(problem.mean)
    assert maximum - float(values(query.x)[0]) < 0.1 * (maximum - mean)


def test_without_uniform_points_the_guess_chooses_the_first_point():
    x = np.linspace(0, 50, 501)
    best = x[np.argmax(RATES(HALDANE.guess, x[:, None]))]
    optimizer = ModelGOUCB(HALDANE, initial=0, width=0.0)
    state = optimizer.init(laws.haldane.domain, KEY, horizon=3)
    assert float(ASK(optimizer, state, KEY).x[0, 0]) == pytest.approx(float(best), abs=0.1)


@pytest.mark.parametrize("optimizer", [GOUCB, LocalGOUCB])
def test_the_other_forms_take_a_law_too(optimizer):
    state = optimizer(model=PLANE, initial=2).init(UNIT, KEY, horizon=4)
    assert state.w0.shape == (3,)


# the fit's honesty


def test_a_missing_term_is_noticed_and_no_term_is_not():
    x = np.linspace(0.5, 50, 24)[:, None]
    random = np.random.default_rng(1).standard_normal(24)
    saturating = law(lambda S, Vmax, Km: Vmax * S / (Km + S), Vmax=(1, 100, 10), Km=(0.5, 50, 5))
    truth = np.asarray(RATES(dict(Vmax=10.0, Km=5.0, Ki=10.0), x))
    y = truth + 0.05 * random
    box = laws.haldane.domain
    right, wrong = (ModelGOUCB(model, **QUICK) for model in (HALDANE, saturating))
    assert right.describes(observed(right, x, y, box))
    state = observed(wrong, x, y, box)
    with pytest.warns(UserWarning, match="the model does not describe the values"):
        assert not wrong.describes(state)
    with pytest.warns(UserWarning, match="a term is missing"):
        wrong.parameters(state)
    # the Gaussian process of the residuals follows the values, and the law alone does not
    alone = wrong.replace(discrepancy="ignore")
    errors = [
        np.abs(o.posterior(observed(o, x, y, box), x)[0] - truth).max() for o in (wrong, alone)
    ]
    assert errors[0] < 0.2 * errors[1]


def test_a_process_is_added_before_the_warning():
    """Five evaluations of a rate that falls, where the law only saturates, speak for a process
    without being clear evidence."""
    model = law(lambda S, Vmax, Km: Vmax * S / (Km + S), Vmax=(1, 100, 10), Km=(0.5, 50, 5))
    x = np.array([2.0, 8.0, 20.0, 48.0, 35.0])[:, None]
    y = RATES(dict(Vmax=25.0, Km=12.0, Ki=6.0), x)
    optimizer = ModelGOUCB(model, **QUICK)
    state = observed(optimizer, x, y, laws.haldane.domain)
    found = state.fit.discrepancy
    assert law_fit.EVIDENCE_ADDED < float(found.evidence) < law_fit.EVIDENCE
    assert float(found.variance) > 0
    assert optimizer.describes(state)  # without a warning
    alone = observed(optimizer.replace(discrepancy="ignore"), x, y, laws.haldane.domain)
    assert float(alone.fit.discrepancy.variance) == 0


def test_a_run_with_a_missing_term_warns():
    problem = laws.unknown_inhibition.problem(jax.random.key(4))
    optimizer = ModelGOUCB(laws.unknown_inhibition.model, **QUICK)
    with pytest.warns(UserWarning, match="does not describe the values"):
        loops.run(optimizer, problem, KEY, 30)


def test_a_law_runs_with_an_objective_on_the_host():
    optimizer = ModelGOUCB(PLANE, **QUICK)
    driven = loops.drive(optimizer, lambda x: float(x[0] - x[1]), UNIT, KEY, 5)
    assert driven.t == 5 and driven.best[1] == pytest.approx(1, abs=1e-3)
    same = problems.on_box(lambda x, key: x[0] - x[1], UNIT)
    np.testing.assert_allclose(loops.run(optimizer, same, KEY, 5).trace.x, driven.x, atol=1e-6)


def test_a_box_with_traced_bounds_is_not_probed():
    """A law of temperatures in kelvin has no slope in the unit cube, which is not its box."""
    problem = laws.arrhenius_bell.problem(KEY)
    optimizer = ModelGOUCB(laws.arrhenius_bell.model, **QUICK)
    run = jax.jit(lambda p: loops.rollout(optimizer, p, KEY, 3))(problem)
    assert run.trace.x.shape == (3, 2) and bool(jnp.isfinite(run.trace.y).all())

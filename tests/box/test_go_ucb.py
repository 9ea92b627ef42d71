"""GO-UCB: its equations against plain linear algebra, and what THEORY 8.3 promise of a run."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from jax import lax

from jsketch import loops
from jsketch.box import go_ucb, oracle, radius, scaling
from jsketch.box.go_ucb import ellipsoid, forms, optimism
from jsketch.box.go_ucb.go_ucb import GOUCB
from jsketch.box.go_ucb.network import Network
from jsketch.loops import drive_box, runs
from jsketch.problems import boxes
from jsketch.search.over_pairs import maximise_over_pairs
from jsketch.sketch.tangent import Parametric, flatten
from jsketch.types import Box

KEY = jax.random.key(0)
LAM = 0.3
SMALL = dict(
    initial=3,
    candidates=64,
    starts=8,
    steps=40,
    oracle=oracle.LevenbergMarquardt(steps=8, restarts=2),
    refit=False,
    reach=0.05,
)
PROBLEM = boxes.styblinski_tang(3, noise_std=0.01)
HORIZON = 9
OPTIMIZERS = {
    "ball": GOUCB(**SMALL | dict(reach=1.0)),
    "first_order": GOUCB(**SMALL | dict(reach=1.0), acquisition="first_order"),
    "phase_two_rows": GOUCB(**SMALL, exploration_rows=False, regularization=LAM),
    "refit": GOUCB(**SMALL | dict(refit=True, reach=0.2)),
    "printed": go_ucb.printed(
        3, steps=15, oracle=oracle.Gradient(1e-11, "sgd", steps=5, restarts=1)
    ),
}
each = pytest.mark.parametrize("name", OPTIMIZERS)


def gradients(seed=0, rows=5, size=9, used=4):
    random = np.random.default_rng(seed)
    return jnp.asarray(random.standard_normal((rows, size)) * (np.arange(rows) < used)[:, None])


ask = jax.jit(lambda optimizer, state, key: optimizer.ask(state, key))
tell = jax.jit(lambda optimizer, state, query, y, key: optimizer.tell(state, query, y, key))


def rounds(optimizer, objective=PROBLEM, box=PROBLEM.box):
    """The states before each round of a run, with their queries and infos; and the last state."""
    state, seen = optimizer.init(box, KEY, HORIZON), []
    while (t := int(state.history.count)) < HORIZON:
        query = ask(optimizer, state, jax.random.fold_in(KEY, t))
        keys = jax.random.split(jax.random.fold_in(KEY, 1000 + t), len(query.mask))
        y = jax.vmap(objective)(query.x, keys)
        new, info = tell(optimizer, state, query, y, jax.random.fold_in(KEY, 2000 + t))
        seen.append((state, query, info))
        state = new
    return seen, state


# gradient features


def test_gradient_features_are_finite_differences():
    model = flatten(Network(4), jnp.zeros(3))
    w, x = model.draw(KEY), jax.random.normal(KEY, (2, 3))
    values, features = model.features(w, x)
    assert features.shape == (2, model.size) and model.size == 4 * (3 + 2) + 1
    step = 1e-6 * np.eye(model.size)
    for value, g, point in zip(values, features, x, strict=True):
        up, down = (jax.vmap(model.value, (0, None))(w[None, :] + s, point) for s in (step, -step))
        np.testing.assert_allclose(g, (up - down) / 2e-6, atol=1e-8)
        assert float(value) == pytest.approx(float(model.value(w, point)), rel=1e-14)


def test_the_network_is_the_papers():
    model = flatten(Network(), jnp.zeros(20))
    assert model.size == 551
    ones, x = jnp.ones(551), jax.random.uniform(KEY, (20,), minval=-1, maxval=1)
    assert float(model.value(ones, x)) == pytest.approx(
        float(boxes.all_ones_network().value(x)), abs=1e-12
    )


class Vector(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2, param_dtype=x.dtype)(x)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Vector(), r"one number for one point.*\(2,\)"),
        (Parametric(lambda key, x: x, lambda w, x: w[None] * x[None]), "one number for one point"),
        (
            Parametric(lambda key, x: jnp.ones(2, jnp.int32), lambda w, x: x.sum()),
            "floating point arrays",
        ),
        (
            Parametric(lambda key, x: (), lambda w, x: x.sum()),
            "floating point arrays, at least one",
        ),
        (lambda w, x: x.sum(), "a model is a flax module"),
        (Network, "a model is a flax module"),
    ],
)
def test_what_is_no_model_is_said(model, words):
    with pytest.raises(ValueError, match=words):
        GOUCB(model=model).init(PROBLEM.box, KEY, 10)


def test_any_pytree_of_parameters_and_a_vector_of_one_will_do():
    model = Parametric(
        lambda key, x: {
            "slope": jax.random.normal(key, x.shape, x.dtype),
            "level": jnp.ones(1, x.dtype),
        },
        lambda w, x: w["level"] + w["slope"] @ x,
    )
    flat = flatten(model, jnp.zeros(3))
    w = flat.draw(KEY)
    assert flat.size == 4 and flat.value(w, jnp.ones(3)).shape == ()
    np.testing.assert_allclose(flat.unravel(w)["slope"], jax.random.normal(KEY, (3,)))


# the ball


def test_products_are_those_of_the_dense_matrix():
    g = gradients()
    sigma = ellipsoid.ellipsoid(g, LAM)
    dense = LAM * np.eye(9) + np.asarray(g.T @ g)
    half = np.asarray(jax.vmap(sigma.half, 1, 1)(jnp.eye(9)))
    v = np.random.default_rng(1).standard_normal(9)
    np.testing.assert_allclose(half @ half.T, np.linalg.inv(dense), atol=1e-12)
    np.testing.assert_allclose(sigma.half_transposed(jnp.asarray(v)), half.T @ v, atol=1e-12)
    np.testing.assert_allclose(sigma.solve(jnp.asarray(v)), np.linalg.solve(dense, v), atol=1e-11)
    np.testing.assert_allclose(sigma.squared_norm(jnp.asarray(v)), v @ dense @ v, rtol=1e-12)
    np.testing.assert_allclose(
        sigma.inverse_squared_norm(jnp.asarray(v)), v @ np.linalg.solve(dense, v), rtol=1e-11
    )
    np.testing.assert_allclose(sigma.logdet, np.linalg.slogdet(dense / LAM)[1], rtol=1e-12)


def test_unused_rows_are_neutral():
    g, u = gradients(), jax.random.normal(KEY, (9,))
    long, short = ellipsoid.ellipsoid(g, LAM), ellipsoid.ellipsoid(g[:4], LAM)
    np.testing.assert_allclose(long.half(u), short.half(u), rtol=1e-13, atol=1e-15)
    assert float(long.logdet) == pytest.approx(float(short.logdet), rel=1e-14)
    empty = ellipsoid.ellipsoid(jnp.zeros((3, 9)), LAM)
    np.testing.assert_array_equal(empty.half(u), u / np.sqrt(LAM))
    assert float(empty.logdet) == 0
    np.testing.assert_array_equal(ellipsoid.estimate(empty, jnp.zeros((3, 9)), jnp.zeros(3), u), u)


@pytest.mark.parametrize("lam", [1e-4, 0.3, 50.0])
def test_the_estimate_is_the_least_squares_solution(lam):
    """THEORY 8.3: eq. 5 is the minimizer of eq. 4."""
    random = np.random.default_rng(2)
    g, w0 = np.asarray(gradients(3, 6, 9, 6)), random.standard_normal(9)
    w_i, f_i, y = (
        random.standard_normal((6, 9)),
        random.standard_normal(6),
        random.standard_normal(6),
    )
    targets = (g * w_i).sum(1) + y - f_i
    rows = np.vstack([np.sqrt(lam) * np.eye(9), g])
    rhs = np.concatenate([np.sqrt(lam) * w0, targets])
    expected = np.linalg.lstsq(rows, rhs, rcond=None)[0]
    g, targets, w0 = jnp.asarray(g), jnp.asarray(targets), jnp.asarray(w0)
    found = ellipsoid.estimate(ellipsoid.ellipsoid(g, lam), g, targets, w0)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_rows_of_a_run_are_the_gradients_at_the_centres_of_their_time():
    """The state's Sigma and w_t are those from scratch, and so are its determinant and its
    potential (THEORY 8.3)."""
    optimizer = OPTIMIZERS["phase_two_rows"]
    seen, last = rounds(optimizer)
    model, units = flatten(optimizer.model, PROBLEM.box.lower), last.scaling
    g, targets, u2 = [], [], []
    slope = jax.jit(jax.value_and_grad(model.value))
    for i, (state, _, _) in enumerate(seen[1:]):
        z = units.inputs(last.history.x[3 + i])
        value, gradient = slope(state.centre, z)
        sigma = LAM * np.eye(model.size) + sum(
            (np.outer(r, r) for r in g), np.zeros((model.size,) * 2)
        )
        w = np.linalg.solve(
            sigma, LAM * np.asarray(last.w0) + sum(r * s for r, s in zip(g, targets, strict=True))
        )
        np.testing.assert_allclose(state.centre, w, rtol=1e-8, atol=1e-8)
        gradient = np.asarray(gradient)
        u2.append(gradient @ np.linalg.solve(sigma, gradient))
        g.append(gradient)
        targets.append(gradient @ w + float(units.values(last.history.y[3 + i]) - value))
    np.testing.assert_allclose(last.gradients[3:], g, rtol=1e-9, atol=1e-10)
    assert not np.asarray(last.gradients[:3]).any()
    sigma = ellipsoid.ellipsoid(last.gradients, LAM)
    logdet, longest = float(sigma.logdet), max(r @ r for r in g)
    assert logdet == pytest.approx(np.log1p(u2).sum(), rel=1e-9)
    assert logdet <= model.size * np.log1p(len(g) * longest / (model.size * LAM))
    assert sum(float(sigma.inverse_squared_norm(jnp.asarray(r))) for r in g) <= logdet
    c = longest / LAM
    assert sum(u2) <= c / np.log1p(c) * logdet


# radius schedules and scaling


def step(t=2, horizon=4):
    return radius.Step(
        jnp.asarray(t, jnp.int32), horizon, 10, jnp.asarray(4.0), jnp.asarray(3.0), jnp.asarray(2.0)
    )


def test_schedules():
    assert float(radius.Printed(2.0)(step())) == pytest.approx(10**3 * 2**4 * 2 / 4)
    # sigma in units of standardized values: 0.2 / 2
    eq7 = radius.Theory(convexity=5.0, noise_std=0.2, factor=3.0)(step(t=1))
    assert float(eq7) == pytest.approx(3 * (10 * 0.1**2 + 10**3 / 25 + 10**3 / 25 * 1 / 4))
    oful = radius.OFUL(norm_bound=0.5, noise_std=0.2, delta=0.1)(step())
    assert float(oful) == pytest.approx((2 * 0.5 + 0.1 * np.sqrt(3 + 2 * np.log(10))) ** 2)
    assert float(radius.CustomSchedule(lambda t: 0.5 * t.astype(jnp.float64))(step())) == 1.0
    table = radius.Table(np.array([1.0, 2.0, 7.0]))
    assert [float(table(step(t))) for t in (1, 2, 3, 4)] == [1, 2, 7, 7]
    assert radius.printed_regularization(25) == pytest.approx(51.8, abs=0.05)
    assert radius.printed_regularization(64) == pytest.approx(138.4, abs=0.05)
    assert radius.printed_regularization(1) == 1


def test_scaling_is_inverted():
    _, last = rounds(OPTIMIZERS["ball"])
    units, past = last.scaling, last.history
    np.testing.assert_allclose(units.points(units.inputs(past.x)), past.x, atol=1e-14)
    np.testing.assert_allclose(units.rewards(units.values(past.y)), past.y, rtol=1e-12)
    np.testing.assert_allclose(units.inputs(PROBLEM.box.lower), -np.ones(3))
    first = units.values(past.y[:3])
    np.testing.assert_allclose([first.mean(), first.std()], [0, 1], atol=1e-12)
    same = past.replace(y=jnp.full(HORIZON, 7.0))
    assert float(scaling.standard(PROBLEM.box, same).deviation) == 1


# oracles


def test_oracles_fit():
    model = flatten(Network(6), jnp.zeros(2))
    x = jax.random.uniform(KEY, (6, 2), minval=-1, maxval=1)
    y, mask = jnp.sin(3 * x.sum(1)), jnp.arange(6) < 5
    for found, most in [
        (oracle.LevenbergMarquardt(), 1e-20),
        (oracle.Gradient(), 1e-4),
        (oracle.Gradient(0.2, "sgd"), 1e-1),
    ]:
        fit = oracle.fit(found, model, x, y, mask, KEY)
        assert float(fit.loss) < most
        assert float(oracle.mean_squared_error(model, fit.w, x, y, mask)) == pytest.approx(
            float(fit.loss)
        )
        other = oracle.fit(found, model, x, y.at[5].set(1e3), mask, KEY)
        np.testing.assert_array_equal(fit.w, other.w)


def test_the_printed_oracle_learns_nothing():
    """THEORY 8.3: 2000 steps of 1e-11 leave the parameters where they were drawn."""
    model = flatten(Network(6), jnp.zeros(2))
    x, y = jax.random.normal(KEY, (5, 2)), jnp.arange(5.0)
    w = model.draw(jax.random.split(KEY, 1)[0])
    fit = oracle.fit(oracle.printed(), model, x, y, jnp.ones(5, bool), KEY)
    assert 0 < float(jnp.abs(fit.w - w).max()) < 1e-6


def test_a_refined_fit_is_never_worse():
    model = flatten(Network(3), jnp.zeros(2))
    x, mask = jax.random.normal(KEY, (30, 2)), jnp.ones(30, bool)
    y, w = jax.random.normal(jax.random.key(1), (30,)), model.draw(KEY)
    losses = [oracle.mean_squared_error(model, w, x, y, mask)]
    for _ in range(4):
        fit = oracle.LevenbergMarquardt(steps=3).refine(model, w, x, y, mask)
        w = fit.w
        losses.append(fit.loss)
    assert (np.diff(losses) <= 0).all() and losses[-1] < losses[0]


@pytest.mark.slow
def test_the_oracle_finds_an_identifiable_model_at_the_rate_of_the_theorem():
    """THEORY 8.3: |w0 - w*|^2 = O(1/n), a slope of -1 on log axes."""
    truth = jnp.array([1.5, 2.0, -0.3])
    model = flatten(
        Parametric(lambda key, x: truth + 0.3 * jax.random.normal(key, (3,), x.dtype), _bump),
        jnp.zeros(1),
    )

    @partial(jax.jit, static_argnames="n")
    def mean_error(keys, n):
        def error(key):
            # a key each: noise drawn with the key of x would be a function of x
            x_key, noise_key, fit_key = jax.random.split(key, 3)
            x = jax.random.uniform(x_key, (n, 1), minval=-1, maxval=1)
            y = jax.vmap(partial(model.value, truth))(x) + 0.05 * jax.random.normal(noise_key, (n,))
            w = oracle.fit(oracle.LevenbergMarquardt(), model, x, y, jnp.ones(n, bool), fit_key).w
            return jnp.square(w - truth).sum()

        # in turn: the matrices [n, n] of all restarts of all seeds do not fit in a cache
        return lax.map(error, keys).mean()

    sizes = np.array([16, 45, 128])
    errors = [float(mean_error(jax.random.split(KEY, 64), int(n))) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -1.3 < slope < -0.7


def _bump(w, x):
    return w[0] * jnp.tanh(w[1] * x[0]) + w[2]


# what is maximised


@each
def test_every_choice_lies_in_the_ball_and_the_box_and_beats_its_starts(name):
    """THEORY 8.3."""
    seen, _ = rounds(OPTIMIZERS[name])
    assert np.isnan(float(seen[0][1].proposal.beta))
    for _, query, info in seen[1:]:
        proposal = query.proposal
        assert 0 <= float(proposal.distance) <= float(proposal.beta) * (1 + 1e-9)
        assert float(proposal.acquisition) >= float(proposal.at_starts)
        assert (query.x[0] >= PROBLEM.box.lower).all() and (query.x[0] <= PROBLEM.box.upper).all()
        assert float(info.proposal.acquisition) == float(proposal.acquisition)


def test_the_way_uphill_is_a_step_in_whitened_coordinates():
    """u = W^T g / |W^T g| moves w by sqrt(beta) W u; projection divides u by max(1, |u|). Computed
    without u and W."""
    optimizer = OPTIMIZERS["ball"]
    model = flatten(optimizer.model, PROBLEM.box.lower)
    state, _, _ = rounds(optimizer)[0][-1]
    ball = optimizer.ball(state)
    form = forms.whitened(model, ball)
    gradients = jax.random.normal(KEY, (3, model.size)) * jnp.array([[1e-9], [1.0], [1e9]])
    for gradient in [*gradients, *state.gradients[:2]]:
        u = ball.sigma.half_transposed(gradient)
        u = u / jnp.linalg.norm(u)
        step = form.uphill(forms.Move(gradient, jnp.zeros(len(state.gradients))))
        np.testing.assert_allclose(
            step.w, ball.move(u), rtol=1e-8, atol=1e-10 * float(abs(step.w).max())
        )
        np.testing.assert_allclose(
            step.image,
            ball.sigma.rows @ step.w,
            rtol=1e-8,
            atol=1e-10 * float(abs(step.image).max()),
        )
        for length in (0.5, 3.0):
            p = form.project(forms.Move(length * step.w, length * step.image))
            np.testing.assert_allclose(p.w, min(length, 1) * step.w, rtol=1e-9)
    still = form.uphill(forms.Move(jnp.zeros(model.size), jnp.zeros(len(state.gradients))))
    assert not np.asarray(still.w).any() and not np.asarray(still.image).any()
    # where the squares of a gradient underflow the step is short, and never leaves the ball
    for size in (1e-150, 1e-155, 1e-160, 1e-170, 1e-300):
        step = form.start(size * gradients[1])
        assert float(ball.sigma.squared_norm(step.w)) <= float(ball.beta) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["ball", "first_order", "refit"])
def test_the_ascent_beats_random_search(name):
    """At every step of a run, against the best of 1000 points of the same region, each with its
    best first-order w."""
    optimizer = OPTIMIZERS[name]
    model = flatten(optimizer.model, PROBLEM.box.lower)
    form = forms.linearized if name == "first_order" else forms.whitened

    @jax.jit
    def random_search(state, key):
        ball, (lower, upper) = optimizer.ball(state), optimism.region(optimizer, state)
        chosen = form(model, ball)
        z = jax.random.uniform(key, (1000, 3), minval=lower, maxval=upper)
        p = jax.vmap(chosen.start)(model.features(ball.centre, z)[1])
        return state.scaling.rewards(jax.vmap(chosen.value)(z, p).max())

    for state, query, _ in rounds(optimizer)[0][1:]:
        assert float(query.proposal.acquisition) >= float(random_search(state, KEY))


def test_the_choice_is_as_optimistic_as_many_long_ascents():
    """At the point that was chosen no parameters of the ball are better than those found by more
    than 0.3% of what optimism adds there: the best of 48 ascents over w alone, of 200 long steps
    each, from random directions."""
    optimizer = OPTIMIZERS["ball"]
    model = flatten(optimizer.model, PROBLEM.box.lower)
    rule = optax.partition({"x": optax.set_to_zero(), "p": optax.sgd(2.0)}, ("x", "p"))

    @jax.jit
    def best_of_many(state, x):
        """(the largest f_w(x), f_x(w_t))."""
        ball, z = optimizer.ball(state), state.scaling.inputs(x)
        form = forms.whitened(model, ball)
        p = jax.vmap(form.start)(jax.random.normal(KEY, (48, model.size)))
        x = jnp.broadcast_to(z, (48, *z.shape))
        found = maximise_over_pairs(
            form.value, form.uphill, lambda x, p: (x, form.project(p)), x, p, rule, 200
        )
        return state.scaling.rewards(jnp.stack([found.value, model.value(ball.centre, z)]))

    for state, query, _ in rounds(optimizer)[0][1:]:
        most, centre = best_of_many(state, query.x[0])
        assert float(query.proposal.acquisition) >= most - 0.003 * (most - centre)


def test_the_ascent_is_no_worse_than_the_linearization_allows():
    """The joint maximum is at least the first-order value less beta C_h / (2 lam), C_h the largest
    curvature in w between the centre and the first-order w."""
    optimizer = GOUCB(**SMALL, regularization=LAM, schedule=radius.OFUL(norm_bound=0.5))
    model = flatten(optimizer.model, PROBLEM.box.lower)

    @jax.jit
    def bound(state):
        ball, z = optimizer.ball(state), state.scaling.inputs(state.history.x[:3])
        values, u = jax.vmap(partial(forms.first_order, model, ball))(z)
        best = values.argmax()

        def along(s):
            return jax.hessian(model.value)(ball.centre + s * ball.move(u[best]), z[best])

        curvature = jnp.abs(jnp.linalg.eigvalsh(jax.vmap(along)(jnp.linspace(0, 1, 11)))).max()
        return state.scaling.rewards(values[best] - ball.beta * curvature / (2 * LAM))

    for state, query, _ in rounds(optimizer)[0][1:]:
        assert float(query.proposal.acquisition) >= float(bound(state))


FREQUENCIES = jnp.arange(1.0, 5.0)
LINEAR = Parametric(lambda key, x: jnp.zeros(8, x.dtype), lambda w, x: w @ _waves(x))
LINE = Box(jnp.array([-2.0]), jnp.array([2.0]))
TRUTH = jnp.array([0.3, -0.2, 0.5, 0.1, 0.4, 0.2, -0.3, 0.6])


def _waves(x):
    return jnp.concatenate([jnp.sin(FREQUENCIES * x), jnp.cos(FREQUENCIES * x)])


def test_a_linear_model_gives_the_closed_form_and_its_regret_bound():
    """THEORY 8.3: for a model linear in w the joint maximum is max_x f_x(w_t) + sqrt(beta)
    |g|_Sigma^-1. With C_h = 0: as w* lies in the ball (without noise it does, with b = |w0 - w*|),
    r_t <= 2 sqrt(beta_t) u_t."""
    bound = float(jnp.sqrt(jnp.square(TRUTH).sum()))
    optimizer = GOUCB(
        model=LINEAR,
        schedule=radius.OFUL(norm_bound=bound, noise_std=0.0),
        regularization=0.1,
        initial=1,
        reach=1.0,
        refit=False,
        standardize=False,
        exploration_rows=False,
        candidates=256,
        starts=32,
        steps=100,
        oracle=oracle.Gradient(1e-30, "sgd", steps=1, restarts=1),
    )
    grid = jnp.linspace(-2, 2, 4001)[:, None]
    model = flatten(LINEAR, jnp.zeros(1))

    def truth(x):
        return TRUTH @ _waves(x)

    problem = boxes.BoxProblem(LINE, jax.vmap(truth)(grid).max(), jnp.zeros(1), 0.0, truth)
    for state, query, _ in rounds(optimizer, problem, LINE)[0][1:]:
        ball = optimizer.ball(state)
        assert float(ball.sigma.squared_norm(ball.centre - TRUTH)) <= float(ball.beta) * (1 + 1e-9)
        closed = jax.vmap(partial(forms.first_order, model, ball))(grid)[0].max()
        assert float(query.proposal.acquisition) == pytest.approx(float(closed), abs=1e-4)
        u = jnp.sqrt(ball.sigma.inverse_squared_norm(_waves(query.x[0])))
        assert (
            float(problem.maximum - truth(query.x[0])) <= float(2 * jnp.sqrt(ball.beta) * u) + 1e-5
        )


def test_reach_limits_the_choice():
    seen, _ = rounds(GOUCB(**SMALL))
    for state, query, _ in seen[1:]:
        best = state.history.x[
            int(jnp.argmax(jnp.where(state.history.ok, state.history.y, -jnp.inf)))
        ]
        assert float(jnp.abs(query.x[0] - best).max()) <= 0.05 * 10 + 1e-12


# runs


def test_phase_two_begins_at_the_oracles_fit():
    """THEORY 8.3: without data of phase II, w_1 = w0 and Sigma_1 = lam I."""
    optimizer = OPTIMIZERS["phase_two_rows"]
    first = rounds(optimizer)[0][1][0]
    np.testing.assert_array_equal(first.centre, first.w0)
    assert float(optimizer.ball(first).sigma.logdet) == 0 and np.asarray(first.w0).any()


@pytest.mark.slow
def test_a_horizon_of_phase_one_alone():
    run = loops.run_box(OPTIMIZERS["ball"], PROBLEM, PROBLEM.box, KEY, 3)
    assert np.isfinite(np.asarray(run.y)).all() and np.asarray(run.state.w0).any()


@each
def test_failed_evaluations_are_not_learned_and_the_run_continues(name):
    def objective(x, key):
        return jnp.where(x[0] > 0, jnp.where(x[1] > 0, jnp.nan, jnp.inf), PROBLEM(x, key))

    seen, state = rounds(OPTIMIZERS[name], objective)
    past = state.history
    failed = ~np.asarray(past.ok)
    assert failed[:3].any() and not failed.all() and int(past.count) == HORIZON
    assert np.isfinite(np.asarray(state.centre)).all() and np.isfinite(np.asarray(past.x)).all()
    assert (
        not np.asarray(state.gradients)[failed].any()
        and not np.asarray(state.targets)[failed].any()
    )
    best = float(seen[-1][2].best)
    assert np.isfinite(best) and best == np.asarray(past.y)[~failed].max()


def test_a_run_in_which_everything_fails():
    seen, state = rounds(OPTIMIZERS["refit"], lambda x, key: x[0] * jnp.nan)
    assert np.isfinite(np.asarray(state.history.x)).all() and int(seen[0][2].failed) == 3
    assert np.isneginf(float(seen[-1][2].best)) and np.isfinite(np.asarray(state.centre)).all()


def test_seeds_at_once_are_separate_runs():
    keys = jax.random.split(KEY, 3)
    together = loops.run_box(OPTIMIZERS["ball"], PROBLEM, PROBLEM.box, keys, HORIZON)
    for row, key in enumerate(keys):
        alone = loops.run_box(OPTIMIZERS["ball"], PROBLEM, PROBLEM.box, key, HORIZON)
        np.testing.assert_allclose(together.x[row], alone.x, atol=1e-6)


def test_a_host_objective_makes_the_same_picks():
    problem = boxes.styblinski_tang(3)
    run = loops.run_box(OPTIMIZERS["ball"], problem, problem.box, KEY, HORIZON)
    driven = drive_box(
        OPTIMIZERS["ball"],
        lambda x: float(problem.value(jnp.asarray(x))),
        problem.box,
        KEY,
        HORIZON,
    )
    np.testing.assert_allclose(driven.x, run.x, atol=1e-6)


def test_other_numbers_compile_nothing():
    def run(lam, b, reach):
        optimizer = GOUCB(
            **SMALL | dict(reach=reach), regularization=lam, schedule=radius.OFUL(norm_bound=b)
        )
        loops.run_box(optimizer, PROBLEM, PROBLEM.box, KEY, HORIZON)
        return runs._box_run._cache_size()

    assert run(0.1, 0.1, 1.0) == run(0.2, 0.3, 0.1)


def test_asking_twice_gives_the_same_query():
    state, query, _ = rounds(OPTIMIZERS["ball"])[0][-1]
    again = ask(OPTIMIZERS["ball"], state, jax.random.fold_in(KEY, HORIZON - 1))
    np.testing.assert_array_equal(query.x, again.x)


@pytest.mark.float32
def test_float32_stays_finite():
    box = Box(PROBLEM.box.lower.astype(jnp.float32), PROBLEM.box.upper.astype(jnp.float32))
    seen, state = rounds(GOUCB(**SMALL), lambda x, key: PROBLEM.function(x), box)
    assert state.history.x.dtype == state.centre.dtype == jnp.float32
    assert (
        np.isfinite(np.asarray(state.history.x)).all()
        and np.isfinite(np.asarray(state.centre)).all()
    )
    for _, query, _ in seen[1:]:
        assert float(query.proposal.distance) <= float(query.proposal.beta) * (1 + 1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(initial=0), "initial must be an integer of at least 1; 0"),
        (dict(reach=0.0), "reach must be a finite number above 0"),
        (dict(regularization=-1.0), "regularization must be a finite number above 0; -1.0"),
        (dict(rate=float("nan")), "rate must be a finite number above 0"),
        (dict(acquisition="ei"), "acquisition must be one of"),
        (dict(starts=10, candidates=5), "starts are chosen from 5 candidates"),
        (dict(starts=10**7, candidates=10**9), "GB, and there are .* GB: take fewer"),
        (dict(schedule=radius.OFUL(delta=1.0)), "delta is a probability"),
        (dict(schedule=radius.Table(np.zeros((2, 2)))), "a schedule's values must be a vector"),
        (
            dict(schedule=radius.CustomSchedule(lambda t: jnp.ones(3))),
            "must return one number beta_t",
        ),
        (
            dict(schedule=radius.CustomSchedule(lambda t: -1.0)),
            "function must return a finite beta_t .* for t = 1 it returned -1.0",
        ),
        (dict(schedule=radius.Theory(convexity=0.0)), "convexity must be a finite number above 0"),
        (dict(schedule=radius.Printed(0.0)), "range_bound must be a finite number above 0"),
        (dict(oracle=oracle.Gradient(rule="lbfgs")), "rule must be one of"),
        (
            dict(oracle=oracle.LevenbergMarquardt(restarts=0)),
            "restarts must be an integer of at least 1",
        ),
    ],
)
def test_bad_input(changes, words):
    with pytest.raises(ValueError, match=words):
        GOUCB(**changes).init(PROBLEM.box, KEY, 10)


@pytest.mark.parametrize(
    ("box", "words"),
    [
        (Box(jnp.ones(2), jnp.ones(2)), "lower < upper"),
        (Box(jnp.zeros(2), jnp.array([1.0, -1.0])), "lower < upper"),
        (Box(jnp.zeros(2), jnp.array([1.0, jnp.inf])), "lower < upper"),
    ],
)
def test_bad_boxes(box, words):
    with pytest.raises(ValueError, match=words):
        GOUCB().init(box, KEY, 10)


def test_maximise_ignores_values_that_are_not_finite():
    def value(x, p):
        return jnp.where(x[0] > 0.5, jnp.nan, x[0] - jnp.square(p).sum())

    def project(x, p):
        return jnp.clip(x, 0, 1), p

    starts = jnp.zeros((2, 1))
    found = maximise_over_pairs(value, lambda g: g, project, starts, starts, optax.sgd(0.05), 40)
    assert 0.4 < float(found.value) <= 0.5 and float(found.value) >= float(found.starts.max())

"""Properties of every optimiser in the table of cases.py."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import INITIAL, LM
from cases import OPTIMISERS as CASES
from compiled import default_flags_jit
from rows import by_name, check_refusals, failing
from small_problems import ASK, KEY

from jsketch import Box, loops, problems, struct
from jsketch.box import Parametric, UniformBox, history
from jsketch.box.go_ucb.ball import OFUL
from jsketch.problems import boxes
from jsketch.types import BoxQuery

HORIZON = 11
# {name: largest difference between programs that round differently}
TOLERANCES = dict.fromkeys(CASES, 1e-3) | {"go_ucb_local": 1e-6}
# {name: the hyperparameter that a test changes without a new compilation}
NUMBERS = {
    "gp_log_ei": "margin",
    "turbo_2": "least_length",
    "go_ucb_local": "reach",
    "go_ucb_model": "width",
}
QUICK = ("uniform", *NUMBERS)  # these rows contain the code of all rows
BOX = Box(jnp.array([-5.0, 0.0]), jnp.array([10.0, 15.0]))
each = by_name(CASES, CASES.keys() - QUICK)


@struct.dataclass
class Failing:
    """Branin's function times `unit`, with NaN or infinite values where x[0] > `limit`."""

    limit: float = 5.0
    unit: float = 1.0

    def __call__(self, x, key):
        TRACES.append(x)
        invalid = jnp.where(x[1] > 7, jnp.inf, jnp.nan)
        return jnp.where(x[0] > self.limit, invalid, self.unit * boxes.branin().value(x))


TRACES = []
FAILING = Failing()
PROBLEM = problems.on_box(FAILING, BOX)


VALUES = jax.jit(jax.vmap(lambda x: FAILING(x, KEY)))
BEST = jax.jit(history.best)


def host_objective(x):
    return float(VALUES(np.asarray(x)[None])[0])


def check_record(name, run):
    """Points are in the box; values, best values and failures are those of the points."""
    trace = run.trace
    assert trace.x.shape == (HORIZON, 2) and trace.y.shape == trace.best.shape == (HORIZON,)
    points = np.asarray(trace.x)
    assert (points >= np.asarray(BOX.lower)).all() and (points <= np.asarray(BOX.upper)).all()
    # GO-UCB may choose a point again
    assert name.startswith("go_ucb") or len(np.unique(trace.x, axis=0)) == HORIZON
    expected = np.asarray(VALUES(trace.x))
    np.testing.assert_allclose(trace.y, expected, rtol=1e-9)
    ok = np.isfinite(expected)
    assert 0 < (~ok).sum() < HORIZON
    best = np.maximum.accumulate(np.where(ok, expected, -np.inf))
    np.testing.assert_allclose(trace.best, best, rtol=1e-9)
    record = run.state.history
    assert int(record.count) == HORIZON
    np.testing.assert_array_equal(record.ok, ok)
    np.testing.assert_allclose(record.y, np.where(ok, expected, 0), rtol=1e-9)
    last = np.asarray(trace.best)[-1]
    assert float(BEST(record)[1]) == last == np.asarray(trace.info.best)[-1]
    assert np.isnan(trace.value).all()  # a plain function has no noiseless value


@each
def test_a_run_records_its_evaluations(name):
    check_record(name, loops.run(CASES[name], PROBLEM, KEY, HORIZON))


@by_name(["uniform", "gp_log_ei", "go_ucb_local", "turbo_1"], ["gp_log_ei", "turbo_1"])
def test_a_run_with_the_default_flags_of_xla_records_its_evaluations(name):
    run = default_flags_jit(lambda key: loops.rollout(CASES[name], PROBLEM, key, HORIZON))(KEY)
    check_record(name, run)


@pytest.mark.parametrize("name", ["gp_log_ei", "turbo_1"])
@pytest.mark.parametrize("unit", [2.0**664, 2.0**-664])
def test_values_whose_squares_overflow_change_no_pick(name, unit):
    """Values near 1e200 and 1e-200 differ from those near 1 by a power of two."""
    run = loops.run(CASES[name], PROBLEM, KEY, HORIZON)
    scaled = loops.run(CASES[name], problems.on_box(Failing(unit=unit), BOX), KEY, HORIZON)
    np.testing.assert_array_equal(scaled.trace.x, run.trace.x)


def test_all_optimisers_have_the_same_initial_points():
    runs = [loops.run(CASES[name], PROBLEM, KEY, HORIZON) for name in QUICK]
    designs = [np.asarray(run.trace.x)[:INITIAL] for run in runs]
    for design in designs[1:]:  # programs may round differently
        np.testing.assert_allclose(design, designs[0], rtol=1e-13)
    # a longer design has the same first points
    init_key = loops.rollouts.Roots(*jax.random.split(KEY, 4)).init
    nine_points = history.initial_points(BOX, init_key, 9, horizon=9)
    np.testing.assert_allclose(np.asarray(nine_points)[:INITIAL], designs[0], rtol=1e-13)
    other_key = loops.run(CASES["uniform"], PROBLEM, jax.random.key(1), HORIZON)
    assert (np.asarray(other_key.trace.x)[:INITIAL] != designs[0]).all()


@by_name(QUICK)
def test_host_objectives_have_the_compiled_picks_after_interruptions_too(name, tmp_path):
    """A run is interrupted at two calls of its objective, and resumes from its checkpoint."""
    optimizer = CASES[name]
    compiled = loops.run(optimizer, PROBLEM, KEY, HORIZON)
    driven = loops.drive(optimizer, host_objective, BOX, KEY, HORIZON)
    np.testing.assert_allclose(driven.x, compiled.trace.x, atol=TOLERANCES[name])
    assert driven.best[1] == driven.y[np.isfinite(driven.y)].max()

    interrupted_objective, calls = failing((2, 8), KeyboardInterrupt(), host_objective)
    path = tmp_path / "run"
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            loops.drive(optimizer, interrupted_objective, BOX, KEY, HORIZON, checkpoint=path)
    resumed = loops.drive(optimizer, interrupted_objective, BOX, KEY, HORIZON, checkpoint=path)
    np.testing.assert_array_equal(resumed.x, driven.x)
    np.testing.assert_array_equal(resumed.y, driven.y)
    assert len(calls) == HORIZON + 2  # only the interrupted evaluations are repeated
    finished = loops.drive(optimizer, interrupted_objective, BOX, KEY, HORIZON, checkpoint=path)
    assert len(calls) == HORIZON + 2 and finished.t == HORIZON


@by_name(QUICK, ["gp_log_ei", "turbo_2"])
def test_several_seeds_have_the_points_of_single_runs(name, monkeypatch):
    """One after the other, as on a CPU, and together, as on an accelerator."""
    keys = jax.random.split(KEY, 2)
    points = loops.run(CASES[name], PROBLEM, keys, HORIZON).trace.x
    single_points = loops.run(CASES[name], PROBLEM, keys[1], HORIZON).trace.x
    np.testing.assert_array_equal(np.asarray(points)[1], single_points)
    monkeypatch.setattr("jsketch.numerics.on_accelerator", lambda: True)
    together = jax.vmap(partial(loops.rollout, CASES[name], PROBLEM, horizon=HORIZON))
    vmapped_points = jax.jit(lambda keys: together(keys).trace.x)(keys)
    np.testing.assert_allclose(vmapped_points, points, atol=TOLERANCES[name])


@pytest.mark.parametrize(("name", "field"), NUMBERS.items())
def test_other_numbers_compile_nothing(name, field):
    loops.run(CASES[name], PROBLEM, KEY, HORIZON)
    n_traces = len(TRACES)
    modified = CASES[name].replace(**{field: 0.123})
    problem = problems.on_box(Failing(4.0), Box(BOX.lower - 1, BOX.upper))
    loops.run(modified, problem, jax.random.key(3), HORIZON)
    assert 0 < n_traces == len(TRACES)


@each
def test_a_run_without_a_success_has_no_best_value(name):
    run = loops.run(CASES[name], problems.on_box(Failing(-100.0), BOX), KEY, HORIZON)
    assert np.isfinite(run.trace.x).all() and np.isneginf(run.trace.best).all()
    assert len(np.unique(run.trace.x, axis=0)) == HORIZON
    assert not np.asarray(run.state.history.ok).any()
    driven = loops.drive(CASES["uniform"], lambda x: np.nan, BOX, KEY, HORIZON)
    with pytest.raises(ValueError, match="no evaluation has succeeded"):
        print(driven.best)


def test_scores_away_from_failures():
    """The nearest evaluation of a point decides; an unused slot is no evaluation."""
    box = Box(jnp.zeros(1), jnp.full(1, 10.0))
    points = np.array([[0.0], [0.3], [0.5], [0.69], [0.71], [1.0]])
    three = BoxQuery(np.array([[4.0], [6.0], [8.0]]), np.ones(3, bool))
    add = jax.jit(history.add)

    @jax.jit
    def scores(past):
        return history.away_from_failures(lambda u: u[:, 0], box, past)(points)

    nothing = history.empty(box, 4)
    np.testing.assert_array_equal(scores(nothing), points[:, 0])
    past = add(nothing, three, np.array([1.0, np.nan, 2.0]))
    is_excluded = np.isneginf(scores(past))
    np.testing.assert_array_equal(is_excluded, [False, False, False, True, False, False])
    past = add(nothing, three, np.full(3, np.nan))
    assert np.isneginf(scores(past)).all()


SLOPE = Parametric(lambda a, b, p, q: p * a + q * b, dict(p=(0, 3, 0.5), q=(0, 3, 0.5)))
AWAY = {
    "gp_log_ei": CASES["gp_log_ei"],
    "gp_pi": CASES["gp_log_ei"].replace(acquisition="pi"),
    "gp_ucb": CASES["gp_ucb"],
    "go_ucb": CASES["go_ucb"].replace(
        oracle=LM, schedule=OFUL(), ascent=CASES["go_ucb_local"].ascent
    ),
    "go_ucb_local": CASES["go_ucb_local"].replace(reach=0.1),
    "go_ucb_model": CASES["go_ucb_model"].replace(model=SLOPE, noise_std=0.1),
    "turbo": CASES["turbo_1"].replace(batch=1, candidates=100),
}


@by_name(AWAY, ["gp_pi", "gp_ucb"])
def test_a_point_that_fails_is_not_asked_for_again(name):
    """The maximum of this slope is in a corner where evaluations fail."""

    def slope(x, key):
        return jnp.where(x.sum() > 20, jnp.nan, x.sum())

    run = loops.run(AWAY[name], problems.on_box(slope, BOX), KEY, 16).trace
    later = np.asarray(run.y)[INITIAL:]
    assert 0 < np.isnan(later).sum() <= 7 and float(run.best[-1]) > 18.5
    # no point is chosen whose nearest evaluation has failed
    x, ok = (np.asarray(run.x) - np.asarray(BOX.lower)) / 15, np.isfinite(run.y)
    for t in range(INITIAL, 16):
        nearest = np.argmin(np.linalg.norm(x[:t] - x[t], axis=-1))
        assert ok[nearest], t


@by_name(QUICK, ["turbo_2"])
def test_asking_twice_gives_the_same_query(name):
    state = CASES[name].init(BOX, KEY, horizon=HORIZON)
    first, second = (ASK(CASES[name], state, KEY) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.mask, np.arange(len(first.mask)) < INITIAL)
    # before the last evaluation, whose point is that of the optimiser
    state = loops.run(CASES[name], PROBLEM, KEY, HORIZON).state
    state = state.replace(history=state.history.replace(count=jnp.asarray(HORIZON - 1, jnp.int32)))
    first, second = (ASK(CASES[name], state, KEY) for _ in range(2))
    chex.assert_trees_all_equal(first, second)
    assert int(first.mask.sum()) == 1


def test_noiseless_values_are_recorded():
    problem = boxes.branin(noise_std=1.0)
    run = loops.run(CASES["uniform"], problems.on_box(problem, BOX), KEY, HORIZON)
    values = jax.jit(jax.vmap(problem.value))(run.trace.x)
    np.testing.assert_allclose(run.trace.value, values, rtol=1e-9)
    assert (np.asarray(run.trace.y) != np.asarray(run.trace.value)).all()


@pytest.mark.float32(only=True)
@by_name(NUMBERS, ["gp_log_ei"])
def test_dtypes_are_those_of_the_box(name):
    box = Box(BOX.lower.astype(jnp.float32), BOX.upper.astype(jnp.float32))
    run = loops.run(CASES[name], problems.on_box(FAILING, box), KEY, HORIZON)
    assert run.trace.x.dtype == run.trace.y.dtype == jnp.float32 and np.isfinite(run.trace.x).all()
    initial = CASES[name].init(box, KEY, horizon=HORIZON)
    chex.assert_trees_all_equal_shapes_and_dtypes(initial, run.state)


@struct.dataclass
class VectorValued:
    """An objective whose noiseless value is a vector."""

    def __call__(self, x, key):
        return x.sum()

    def value(self, x):
        return x[:1]


@pytest.mark.parametrize("loop", [loops.run, loops.rollout])
def test_invalid_objectives_are_refused(loop):
    """They are refused while the program is traced."""
    rows = [
        (lambda x, key: x[:1], r"one number, shape \(\); an array of shape \(1,\), dtype float64"),
        (lambda x, key: jax.lax.complex(x[0], x[1]), r"array of shape \(\), dtype complex128"),
        (lambda x, key: None, "None was returned"),
        (lambda x, key: (x[0], x[1]), "was returned"),
        (lambda x: x.sum(), r"a function of \(x, key\); its arguments are \(x\)"),
        (VectorValued(), r"value must return one number, .*shape \(1,\)"),
    ]
    wrong = [(problems.on_box(objective, BOX), words) for objective, words in rows]
    check_refusals((partial(loop, UniformBox(), one, KEY, 3), words) for one, words in wrong)


def test_objectives_may_return_integers_and_booleans():
    for objective in (lambda x, key: 3, lambda x, key: x[0] > 0):
        problem = problems.on_box(objective, BOX)
        run = jax.eval_shape(lambda p=problem: loops.rollout(UniformBox(), p, KEY, 3))
        assert run.trace.y.shape == (3,) and run.trace.y.dtype == BOX.lower.dtype
    # lists of integers are a box
    problem = problems.on_box(lambda x, key: -jnp.square(x).sum(), Box([-1, 0], [1, 2]))
    run = loops.run(UniformBox(initial=2), problem, KEY, 4)
    assert (
        jnp.issubdtype(run.trace.x.dtype, jnp.floating)
        and (np.asarray(run.trace.x)[:, 1] >= 0).all()
    )

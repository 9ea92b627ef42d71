"""Adapters of `suggest` with the interfaces of Optuna and scikit-optimize. The extra `test` has
both packages; without them some tests are skipped."""

import sys

import jax
import numpy as np
import pytest

from jsketch import suggest
from jsketch.suggest import acquisitions, adapters
from jsketch.suggest.adapters import PoolOptimizer

RANDOM = np.random.default_rng(0)
POOL = RANDOM.uniform(-1, 1, (40, 2)).round(4)
POOL[7] = POOL[6]


def f(x):
    return float((x[0] - 0.3) ** 2 + x[1] ** 2)


def campaign(optimizer, n_batches):
    """The result after batches of 3 points."""
    for _ in range(n_batches):
        points = optimizer.ask(n_points=3)
        result = optimizer.tell(points, [f(x) for x in points])
    return result


def test_a_pool_is_minimised():
    """The first batch is the batch of `suggest`."""
    optimizer = PoolOptimizer(POOL, random_state=3)
    result = campaign(optimizer, n_batches=5)
    values = np.array([f(x) for x in POOL])
    assert result.fun <= np.sort(values)[1] and result.fun == f(result.x) == min(result.func_vals)
    assert len(result.x_iters) == 15 and len(set(optimizer.rows)) == 15
    first_batch = suggest.suggest(POOL, batch=3, key=jax.random.fold_in(jax.random.key(3), 0))
    assert optimizer.rows[:3] == first_batch.rows.tolist()


def test_ask_repeats_its_points_until_a_value_and_they_are_then_pending():
    """If a point is in two rows of the pool, its value belongs to the row that is pending. NaN is
    the value of a failed evaluation."""
    optimizer = PoolOptimizer(POOL, acquisition=acquisitions.UCB(1.0), exclude=[6])
    assert optimizer.get_result().x is None
    points = optimizer.ask(4)
    assert points == optimizer.ask(4) and optimizer.ask() == optimizer.ask()
    optimizer.tell(points[:2], [f(points[0]), np.nan])
    assert optimizer.get_result().x == points[0]
    new_points = optimizer.ask(4)
    assert not any(point in points for point in new_points)
    optimizer.tell(POOL[7], 0.5)
    assert optimizer.Xi[-1] == POOL[7].tolist()
    with pytest.raises(ValueError, match="is not a row of the candidates"):
        optimizer.tell([9.0, 9.0], 1.0)
    with pytest.raises(ValueError, match="y must be finite"):
        optimizer.tell(points[2], np.inf)
    assert len(optimizer.yi) == 3
    with pytest.raises(ValueError, match="there are 2 points and 1 values"):
        optimizer.tell(points[:2], [1.0])


def test_invalid_points_values_and_options_are_refused():
    optimizer = PoolOptimizer(POOL, scaling=False)
    for x, y, words in (
        ("ab", 1.0, "x must be real numbers"),
        (0.5, 1.0, "0.5 is not a row of the candidates"),
        (POOL[:2], [[1.0], [2.0]], r"y must be one number or a list; its shape is \(2, 1\)"),
        (POOL[0], 1e301, r"at most 1e\+300"),
    ):
        with pytest.raises(ValueError, match=words):
            optimizer.tell(x, y)
    assert optimizer.yi == [] and optimizer.library.features[0].tolist() == POOL[0].tolist()
    for option in ("batch", "errors", "acquisitions"):
        words = f"{option} is not an option here.*exclude, same, costs"
        with pytest.raises(ValueError, match=words):
            PoolOptimizer(POOL, **{option: 3})
    with pytest.raises(ValueError, match="a Library was given"):
        PoolOptimizer(suggest.library(POOL))


def test_a_pool_optimizer_has_the_interface_of_scikit_optimize():
    """One loop drives both optimizers, and their results have the same fields."""
    skopt = pytest.importorskip("skopt", reason="pip install scikit-optimize")
    pool_optimizer = PoolOptimizer(POOL)
    box_optimizer = skopt.Optimizer([(-1.0, 1.0), (-1.0, 1.0)], n_initial_points=3, random_state=0)
    for optimizer in (pool_optimizer, box_optimizer):
        result = campaign(optimizer, n_batches=2)
        assert len(result.x_iters) == len(result.func_vals) == len(optimizer.yi) == 6
        assert f(result.x) == pytest.approx(result.fun) and len(optimizer.Xi) == 6
        assert len(optimizer.ask()) == 2
        result = optimizer.tell(list(POOL[3]), f(POOL[3]))
        assert len(result.x_iters) == 7 and result.fun == min(result.func_vals)


@pytest.fixture
def optuna():
    module = pytest.importorskip("optuna", reason="pip install optuna")
    module.logging.set_verbosity(module.logging.ERROR)
    return module


def test_a_missing_optuna_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna.distributions", None)
    monkeypatch.delitem(sys.modules, "jsketch.suggest.adapters.optuna_sampler", raising=False)
    with pytest.raises(ImportError, match="OptunaSampler needs the package optuna"):
        _ = adapters.OptunaSampler


def test_an_optuna_study_chooses_rows_of_a_pool(optuna):
    """No row is suggested twice, neither after a failed trial nor during a running one, and a study
    without rows raises. With direction="maximize" a large value is found."""

    def objective(trial):
        row = trial.suggest_int("row", 0, len(POOL) - 1)
        trial.suggest_float("other", 0, 1)
        if trial.number == 2:
            raise FloatingPointError("the robot stopped")
        return f(POOL[row])

    study = optuna.create_study(sampler=adapters.OptunaSampler(POOL, seed=1))
    running_row = study.ask().suggest_int("row", 0, len(POOL) - 1)
    study.optimize(objective, n_trials=14, catch=FloatingPointError)
    rows = [trial.params["row"] for trial in study.trials]
    assert len(set(rows)) == 15 and rows[0] == running_row
    values = np.array([f(x) for x in POOL])
    assert study.best_value <= np.sort(values)[2]
    with pytest.raises(ValueError, match="batch = 1 is more than the 0 candidates"):
        study.optimize(objective, n_trials=30, catch=FloatingPointError)
    maximised = optuna.create_study(sampler=adapters.OptunaSampler(POOL), direction="maximize")
    distributions = {"row": optuna.distributions.IntDistribution(0, len(POOL) - 1)}
    for row in range(12):
        trial = dict(params={"row": row}, distributions=distributions, value=-f(POOL[row]))
        maximised.add_trial(optuna.create_trial(**trial))
    maximised.optimize(lambda trial: -objective(trial), n_trials=2)
    assert maximised.trials[-1].value > -np.median(values)
    parallel = optuna.create_study(sampler=adapters.OptunaSampler(POOL, seed=2))
    parallel.optimize(objective, n_trials=12, n_jobs=4, catch=FloatingPointError)
    assert len({trial.params["row"] for trial in parallel.trials}) == 12
    two_objectives = optuna.create_study(
        sampler=adapters.OptunaSampler(POOL), directions=["minimize"] * 2
    )
    with pytest.raises(ValueError, match="for one objective"):
        two_objectives.optimize(objective, n_trials=1)
    with pytest.raises(ValueError, match="different distribution"):
        maximised.ask().suggest_float("row", 0, 1)


def test_optuna_studies_with_unusual_trials_or_parameters(optuna):
    """Infinite values are ignored, enqueued trials are pending, and a parameter with another name
    or range is refused."""

    def run_study(objective, n_trials):
        study = optuna.create_study(sampler=adapters.OptunaSampler(POOL))
        study.optimize(objective, n_trials=n_trials)
        return study

    last = len(POOL) - 1
    study = run_study(lambda trial: np.inf / (1 + trial.suggest_int("row", 0, last)), 4)
    assert len({trial.params["row"] for trial in study.trials}) == 4
    queued_study = optuna.create_study(
        sampler=adapters.OptunaSampler(POOL, exclude=range(4, last + 1))
    )
    for row in (0, 1, 2):
        queued_study.enqueue_trial({"row": row})
    trials = [queued_study.ask() for _ in range(4)]
    assert [trial.suggest_int("row", 0, last) for trial in trials] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r'does not hold every row: suggest_int\("row", 0, 39\)'):
        run_study(lambda trial: trial.suggest_int("row", 0, 1), 5)
    with pytest.raises(ValueError, match=r'another range of rows: suggest_int\("row", 0, 39\)'):
        run_study(lambda trial: trial.suggest_int("row", 0, 99), 2)
    with pytest.raises(ValueError, match="no trial of the study has the parameter"):
        run_study(lambda trial: trial.suggest_int("number", 0, last), 2)
    with pytest.raises(ValueError, match="pending is not an option here"):
        adapters.OptunaSampler(POOL, pending=[3])


def mixed_objective(trial):
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    share = trial.suggest_float("share", 0.0, 1.0, step=0.25)
    depth = trial.suggest_int("depth", 1, 12)
    width = trial.suggest_int("width", 8, 64, step=8)
    kind = trial.suggest_categorical("kind", ("x", None, True))
    trial.suggest_float("constant", 2.0, 2.0)
    if depth > 9:
        raise FloatingPointError("too large")
    smooth = (np.log10(rate) + 2) ** 2 + (share - 0.5) ** 2 + 0.05 * (depth - 5) ** 2
    return smooth + 0.001 * (width - 24) ** 2 + 0.3 * (kind is not None)


def test_an_optuna_study_without_candidates_finds_good_parameters(optuna):
    """Parameters keep their types; failed and running trials are not repeated; maximising the
    negative gives the same trials."""
    study = optuna.create_study(sampler=adapters.OptunaSampler(seed=1))
    study.optimize(mixed_objective, n_trials=40, catch=FloatingPointError)
    assert study.best_value < 0.1 and study.best_params["kind"] is None
    parameters = [tuple(trial.params.values()) for trial in study.trials]
    assert len(set(parameters)) == 40
    maximised = optuna.create_study(sampler=adapters.OptunaSampler(seed=1), direction="maximize")
    maximised.optimize(lambda trial: -mixed_objective(trial), 14, catch=FloatingPointError)
    assert [tuple(trial.params.values()) for trial in maximised.trials] == parameters[:14]
    parallel = optuna.create_study(sampler=adapters.OptunaSampler(seed=2))
    parallel.optimize(mixed_objective, n_trials=16, n_jobs=4, catch=FloatingPointError)
    assert len({tuple(trial.params.values()) for trial in parallel.trials}) == 16
    with pytest.raises(ValueError, match="need candidates"):
        adapters.OptunaSampler(exclude=[3])


def test_parallel_workers_of_an_optuna_study_do_not_repeat_each_other(optuna):
    """Samplers with equal seeds stand for processes that share a storage. The fast sampler chooses
    a row before the choice of the slow one is stored."""
    last, rows_of_fast = len(POOL) - 1, []

    class SlowSampler(adapters.OptunaSampler):
        def _choose_row(self, study, trial, search_space):
            row = super()._choose_row(study, trial, search_space)
            if not rows_of_fast:
                rows_of_fast.append(fast_study.ask().suggest_int("row", 0, last))
            return row

    two_rows = dict(exclude=range(2, last + 1), seed=1)
    slow_study = optuna.create_study(sampler=SlowSampler(POOL, **two_rows))
    fast_study = optuna.load_study(
        study_name=slow_study.study_name,
        storage=slow_study._storage,
        sampler=adapters.OptunaSampler(POOL, **two_rows),
    )
    assert slow_study.ask().suggest_int("row", 0, last) == 1 - rows_of_fast[0]
    first_points = set()
    for _ in range(2):
        fast_study.sampler = adapters.OptunaSampler(seed=1)
        first_points.add(fast_study.ask().suggest_float("x", 0, 1))
    assert len(first_points) == 2
    # combinations are repeated if there are fewer of them than trials
    small_study = optuna.create_study(sampler=adapters.OptunaSampler())
    small_study.optimize(lambda trial: trial.suggest_int("n", 1, 3), n_trials=6)
    assert {trial.params["n"] for trial in small_study.trials} == {1, 2, 3}
    # an enqueued value outside the range is ignored while its trial runs
    small_study.enqueue_trial({"n": 9})
    small_study.ask()
    assert small_study.ask().suggest_int("n", 1, 3) in (1, 2, 3)
    # the values of all earlier trials may lie outside the range
    queued_study = optuna.create_study(sampler=adapters.OptunaSampler())
    for _ in range(6):
        queued_study.enqueue_trial({"x": 9.0})
    with pytest.warns(UserWarning, match="out of range"):
        queued_study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=8)
    assert all(0 <= trial.params["x"] <= 1 for trial in queued_study.trials[6:])

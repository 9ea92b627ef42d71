"""One kind of result for runs over arms and over a box: its names, tables and reports."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from rows import check_refusals
from small_problems import KEY

from jsketch import Arms, Box, kernels, loops, online, problems, struct
from jsketch.bandits import BBKB, FixedBKB, Uniform
from jsketch.box import GPBandit, UniformBox
from jsketch.problems import boxes
from jsketch.sketch.taylor import Taylor

T = 12
KEYS = jax.random.split(KEY, 3)
X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
MEANS = np.sin(3 * X.sum(1))
ARMS = problems.finite_arms(X, MEANS, 0.1)
BANDIT = BBKB(kernels.Gaussian(0.5), max_batch=4)
BOX = boxes.branin(noise_std=1.0)
OPTIMISER = UniformBox(initial=3)
CASES = {"arms": (BANDIT, ARMS), "box": (OPTIMISER, BOX)}
SHARED = ["y", "regret", "best", "simple_regret", "round", "batch_size"]
each = pytest.mark.parametrize("name", CASES)
pytestmark = pytest.mark.filterwarnings("ignore:a batch filled its capacity")


@struct.dataclass
class EndingBox(UniformBox):
    """Uniform points, and an empty query after 5 evaluations."""

    def ask(self, state, key, limit=None):
        query = UniformBox.ask(self, state, key, limit)
        return query.replace(mask=query.mask & (state.history.count < 5))


def test_runs_over_arms_and_over_a_box_have_the_same_names():
    """And the same tables: one script, in which only the algorithm and the problem differ."""
    tables = {}
    for name, (algorithm, problem) in CASES.items():
        run = loops.run(algorithm, problem, KEYS, T)
        table = run.to_frame()
        assert type(run) is loops.Run and len(table) == 3 * T
        assert table.columns[:2].tolist() == ["seed", "t"] and set(SHARED) <= set(table)
        np.testing.assert_array_equal(table.groupby("seed").t.max(), T)
        for column in SHARED:
            expected = np.asarray(getattr(run.trace, column))
            np.testing.assert_array_equal(table[column].to_numpy().reshape(3, T), expected)
        tables[name] = table.assign(algorithm=type(algorithm).__name__)
        simple_regret = table.groupby("seed").regret.min().mean()
        assert "seeds=3" in repr(run) and f"simple_regret={simple_regret:.4g}" in repr(run)
    arms, box = tables["arms"], tables["box"]
    np.testing.assert_allclose(arms.regret, MEANS.max() - MEANS[arms.arm])
    values = [float(BOX.value(jnp.asarray(x))) for x in box[["x0", "x1"]].to_numpy()]
    np.testing.assert_allclose(box.regret, float(BOX.maximum) - np.array(values), rtol=1e-12)
    both = pd.concat(tables.values())
    assert both.groupby(["algorithm", "t"]).simple_regret.mean().notna().all()


@each
def test_best_is_the_running_maximum_and_simple_regret_the_running_minimum(name):
    """Outside of jit, and under jit and vmap; without a name for a column of `info` in them."""
    algorithm, problem = CASES[name]

    @jax.jit
    @jax.vmap
    def inside(key):
        trace = loops.rollout(algorithm, problem, key, T).trace
        return trace, trace.best, trace.simple_regret

    trace, best, simple_regret = inside(KEYS)
    np.testing.assert_array_equal(best, np.maximum.accumulate(trace.y, 1))
    np.testing.assert_array_equal(simple_regret, np.minimum.accumulate(trace.regret, 1))
    np.testing.assert_array_equal(trace.best, best)
    run = loops.run(algorithm, problem, KEYS, T)
    np.testing.assert_allclose(run.trace.y, trace.y, rtol=1e-9)
    np.testing.assert_array_equal(run.trace.round, trace.round)
    np.testing.assert_array_equal(run.trace.batch_size, trace.batch_size)
    sizes = np.bincount(np.asarray(trace.round)[0])
    np.testing.assert_array_equal(sizes[np.asarray(trace.round)[0]], trace.batch_size[0])


def test_failures_and_early_ends_are_nan_and_not_the_best():
    def fails(x, key):
        return jnp.where(x[0] > 0.5, jnp.nan, x.sum())

    problem = problems.on_box(fails, Box(jnp.zeros(2), jnp.ones(2)))
    trace = jax.jit(lambda key: loops.rollout(EndingBox(initial=5), problem, key, 8).trace)(KEY)
    failed = np.asarray(trace.x[:, 0]) > 0.5
    assert 0 < failed.sum() < 5 and np.isnan(trace.y[failed]).all()
    observed = np.where(failed[:5], -np.inf, np.asarray(trace.y)[:5])
    np.testing.assert_array_equal(trace.best, [*np.maximum.accumulate(observed), *[np.nan] * 3])
    assert np.isnan(trace.regret).all() and np.isnan(trace.simple_regret).all()
    np.testing.assert_array_equal(trace.made, np.arange(8) < 5)
    table = trace.to_frame()
    assert table.seed.eq(0).all() and table.t.tolist() == list(range(1, 9))
    unmade = table[table.t > 5]
    assert (
        unmade[["x0", "x1", "y", "value", "regret", "best", "simple_regret"]].isna().all(axis=None)
    )
    assert unmade[["round", "batch_size"]].eq(-1).all(axis=None)
    with pytest.raises(RuntimeError, match="after 5 of 8 evaluations: .* an empty query"):
        loops.run(EndingBox(initial=5), problem, KEY, 8)


def test_a_maximum_gives_a_function_its_regrets():
    @struct.dataclass
    class Noisy:
        scale: float = 1.0

        def value(self, x):
            return -self.scale * jnp.square(x).sum()

        def __call__(self, x, key):
            return self.value(x) + jax.random.normal(key, (), x.dtype)

    box = Box(-jnp.ones(2), jnp.ones(2))
    run = loops.run(OPTIMISER, problems.on_box(Noisy(), box, maximum=0.0), KEY, 5)
    np.testing.assert_allclose(run.trace.regret, np.square(run.trace.x).sum(1), rtol=1e-12)
    assert "simple_regret=" in repr(run) and "best_x=" in repr(run)
    unknown = loops.run(OPTIMISER, problems.on_box(Noisy(), box), KEY, 5)
    assert np.isnan(unknown.trace.regret).all() and "regret" not in repr(unknown)
    ratio = loops.regret_ratio(run.trace.regret, jnp.array([-1.0, -3.0]), best=0.0)
    expected = np.cumsum(np.asarray(run.trace.regret)) / (2 * np.arange(1, 6))
    np.testing.assert_allclose(ratio, expected)


@each
def test_datasets_have_seeds_settings_and_all_fields(name):
    algorithm, problem = CASES[name]
    run = loops.run(algorithm, problem, KEYS, T)
    data = run.to_xarray()
    assert dict(data.sizes) == dict(seed=3, t=T) | (dict(input=2) if name == "box" else {})
    assert set(SHARED) <= set(data) and data.t.values.tolist() == list(range(1, T + 1))
    assert data.attrs["algorithm"] == type(algorithm).__name__ and data.attrs["horizon"] == T
    np.testing.assert_array_equal(data.y, run.trace.y)
    if name == "box":
        assert data.x.dims == ("seed", "t", "input") and data.attrs["algorithm.initial"] == 3
        np.testing.assert_array_equal(data["info.observed"], run.trace.info.observed)
    else:
        assert data.attrs["algorithm.kernel.lengthscale"] == 0.5
    # files of xarray hold numbers and texts
    assert {type(value) for value in data.attrs.values()} <= {int, float, str}
    assert hash(run.settings)  # a static field of a pytree
    one = loops.run(algorithm, problem, KEY, T)
    assert one.to_xarray().y.dims == ("t",) and len(one.to_frame()) == T


def test_axes_of_a_vmap_are_dimensions():
    bandit, problem = CASES["arms"]

    def trace(noise_std, key):
        return loops.rollout(bandit.replace(noise_std=noise_std), problem, key, T).trace

    over_seeds = jax.vmap(trace, in_axes=(None, 0))
    grid = jax.jit(jax.vmap(over_seeds, in_axes=(0, None)))(jnp.array([0.1, 1.0]), KEYS)
    data = grid.to_xarray(title="a sweep")
    assert dict(data.sizes) == dict(setting=2, seed=3, t=T) and data.attrs == dict(title="a sweep")
    table = grid.to_frame()
    part = table[(table.setting == 1) & (table.seed == 2)]
    np.testing.assert_array_equal(part.arm, grid.arm[1, 2])
    assert list(grid.to_frame(axes=("noise", "seed")).columns[:3]) == ["noise", "seed", "t"]
    check_refusals(
        [
            (lambda: grid.to_frame(axes=("seed",)), "the names of the 2 axes before the evalu"),
            (lambda: jax.tree.map(lambda a: a[None], grid).to_frame(), "names of the 3 axes"),
            (lambda: grid.to_frame(axes=("seed", "y")), "'y' is taken"),
            (lambda: grid.to_xarray(axes=("seed", "t")), "'t' is taken"),
        ]
    )


def test_results_on_the_host_and_of_streams_have_tables_too():
    driven = loops.drive(
        FixedBKB(kernels.Gaussian(0.5), batch=4),
        lambda arms: np.where(arms == 3, np.nan, MEANS[arms]),
        Arms(X),
        KEY,
        8,
    )
    table = driven.to_frame()
    assert list(table.columns) == ["seed", "t", "arm", "y", "best"]
    np.testing.assert_array_equal(table.arm, driven.x)
    assert table.best.iloc[-1] == driven.best[1] and driven.to_xarray().y.dims == ("t",)
    box = Box(np.zeros(2), np.ones(2))
    over_box = loops.drive(UniformBox(initial=2), lambda x: x.sum(), box, KEY, 4)
    assert list(over_box.to_frame().columns) == ["seed", "t", "x0", "x1", "y", "best"]
    assert over_box.to_xarray().x.dims == ("t", "input")
    forecaster = online.PKAWV(Taylor(inputs=2, degree=2, lengthscale=1.0))
    forecasts, _ = loops.prequential(forecaster, (X, MEANS), KEY)
    table = forecasts.to_frame()
    np.testing.assert_array_equal(table.average_loss, forecasts.average_loss)
    names = ["prediction", "loss", "labelled", "dictionary_size", "average_loss"]
    assert list(table.columns) == ["seed", "t", *names] and set(forecasts.to_xarray()) == set(names)


def test_the_sentence_on_a_missing_package_names_the_extra(monkeypatch):
    trace = loops.run(OPTIMISER, BOX, KEY, 4).trace

    def without(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("importlib.import_module", without)
    for method, package in ((trace.to_frame, "pandas"), (trace.to_xarray, "xarray")):
        with pytest.raises(ImportError, match=rf'needs {package}, .*"jsketch\[tables\]"'):
            method()


@each
@pytest.mark.parametrize("key", [KEY, KEYS], ids=["one", "three"])
def test_reports_have_the_evaluations_so_far(name, key):
    """They are copies, which later evaluations do not change, and change no evaluation."""
    reports, counts = [], []
    algorithm, problem = CASES[name]
    options = dict(on_report=reports.append, on_progress=lambda n, _: counts.append(n), reports=4)
    run = loops.run(algorithm, problem, key, T, **options)
    n_runs = len(key) if key.ndim else 1
    assert len(reports) >= 2 and [report.evaluations for report in reports] == counts
    assert counts[-1] == n_runs * T and reports[-1].t == T
    for report in reports:
        for column in ("y", "regret", "round"):
            expected = np.asarray(getattr(run.trace, column))[..., : report.t]
            np.testing.assert_array_equal(getattr(report.trace, column), expected)
    metrics = reports[-1].metrics()
    regret = np.asarray(run.trace.regret)
    assert metrics["evaluations"] == n_runs * T and metrics["seconds"] >= 0
    assert metrics["simple_regret"] == pytest.approx(regret.min(-1).mean())
    assert metrics["cumulative_regret"] == pytest.approx(regret.sum(-1).mean())
    assert metrics["best"] == pytest.approx(np.asarray(run.trace.y).max(-1).mean())
    plain = loops.run(algorithm, problem, key, T)
    np.testing.assert_array_equal(plain.trace.y, run.trace.y)


def test_metrics_leave_out_what_is_not_known():
    problem = problems.on_box(lambda x, key: jnp.nan * x.sum(), BOX.domain)
    reports = []
    loops.run(OPTIMISER, problem, KEY, 4, on_report=reports.append)
    assert set(reports[-1].metrics()) == {"evaluations", "seconds"}


def test_a_run_over_a_box_resumes_from_a_file_and_from_its_progress(tmp_path):
    optimiser = GPBandit(initial=3, candidates=20, starts=2, steps=5, fit_steps=3)
    whole = loops.run(optimiser, BOX, KEYS, 6)

    class Stop(Exception):
        pass

    def stop(evaluations, _):
        if evaluations >= 12:
            raise Stop

    path = tmp_path / "run"
    with pytest.raises(Stop):
        loops.run(optimiser, BOX, KEYS, 6, checkpoint=path, on_progress=stop)
    reports = []
    resume = partial(loops.run, optimiser, BOX, KEYS, 6, checkpoint=path)
    resumed = resume(on_report=reports.append)
    assert 0 < len(reports) < 6
    for one, other in zip(jax.tree.leaves(resumed), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="holds another run: bandit.margin was 0.001, is 1.0"):
        loops.run(optimiser.replace(margin=1.0), BOX, KEYS, 6, checkpoint=path)

    paused = jax.jit(lambda key: loops.rollout(OPTIMISER, BOX, key, 8, until=4))(KEY)
    assert int(paused.t) == 4 and np.isnan(paused.trace.y[4:]).all()
    rest = jax.jit(lambda progress: loops.rollout(OPTIMISER, BOX, KEY, 8, progress))(paused)
    np.testing.assert_array_equal(rest.trace.y, loops.run(OPTIMISER, BOX, KEY, 8).trace.y)


def test_tables_need_few_columns_of_uniform_arms():
    """An algorithm without a dictionary or width has these columns too."""
    table = loops.run(Uniform(), ARMS, KEY, 4).to_frame()
    assert {"arm", "dictionary_size", "width"} <= set(table) and table.notna().all(axis=None)

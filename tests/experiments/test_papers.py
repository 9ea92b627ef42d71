"""Widths of BBKB's methods, slopes, and figures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import common
from experiments.bbkb_2020 import methods, thompson
from experiments.bbkb_2020.cadata_settings import FULL
from experiments.figures import plots
from experiments.results import store, summaries, tidy
from experiments.runs import bandit_runs
from jsketch import kernels, loops, problems
from jsketch.bandits import TS, widths
from jsketch.numerics import shifted_cholesky


def test_widths_of_the_methods_are_those_of_the_papers():
    config = dict(width="theory", ratio=2.0, lengthscale=1.0, regularization=0.01, noise_std=0.1)
    config |= dict(norm_bound=1.0, delta=0.1, qbar=2.0, horizon=10)
    evidence = widths.exact_evidence(jnp.array(5.0), jnp.array(3.0), jnp.array(1.0))

    def width(name, **changes):
        bandit = methods.ALGORITHMS[name](config | changes)
        factor = 2**0.5 if name.startswith("gp_bucb") else 1.0
        return factor * widths.confidence_width(bandit, evidence)

    beta = 0.1 * 1.0 + 0.1 * np.sqrt(2 * (3 + np.log(10)))
    np.testing.assert_allclose(width("gp_ucb"), beta)
    np.testing.assert_allclose(width("gp_bucb"), 2 * beta)  # alpha = C beta
    np.testing.assert_allclose(width("gp_bucb_sqrt"), 2**0.5 * beta)
    beta_of_code = 0.1 * 1.0 + 0.1 * np.sqrt(3 + np.log(10))
    np.testing.assert_allclose(width("gp_bucb", width="code"), 2**0.5 * beta_of_code)
    rules = {
        methods.width_of(n, config).function for n in ("bkb", "bbkb_global", "bbkb_global_local")
    }
    assert rules == {widths.bkb_paper.function, widths.bbkb_paper.function}


def test_thompson_sampling_on_a_factor_has_the_picks_of_the_exact_one():
    """With the factor that TS computes, on which both draw the same normals."""
    rng, key = np.random.default_rng(0), jax.random.key(1)
    x, assumptions = rng.uniform(-1, 1, (40, 2)), dict(regularization=0.01, noise_std=0.1)
    exact = TS(kernels.Gaussian(0.5), **assumptions, scale=1.0, batch=7)
    kernel = kernels.Select(exact.kernel, (0, 1))
    factored = methods.FactoredTS(kernel, **assumptions, scale=1.0, batch=7)
    problem = problems.finite_arms(x, np.sin(3 * x.sum(1)), noise_std=0.1)
    shift = exact.init(problem.arms, key).shift
    root, _ = shifted_cholesky(exact.kernel.gram(jnp.asarray(x), jnp.asarray(x)), shift)
    arms = np.concatenate([x, root], axis=1)
    same = problems.finite_arms(arms, problem.mean_reward, noise_std=0.1)
    picks, others = (
        np.asarray(loops.run(bandit, p, key, 70).trace.arm)
        for bandit, p in ((exact, problem), (factored, same))
    )
    assert (picks == others).all() and len(set(picks)) > 5


def test_a_gram_factor_leaves_only_variances_within_the_tolerance():
    x = np.random.default_rng(0).normal(size=(200, 3))
    gram = np.exp(-np.square(x[:, None] - x[None]).sum(2) / (2 * 4.0**2))
    factor = methods.gram_factor(x, 4.0, 1e-8)
    left = gram - factor @ factor.T
    assert factor.shape[1] < 150 and np.diag(left).max() <= 1e-8
    assert np.linalg.eigvalsh(left).min() > -1e-13
    with pytest.raises(ValueError, match="a rank above 3"):
        methods.gram_factor(x, 4.0, 1e-8, most=3)


def test_sketched_thompson_sampling_decides_nothing(tmp_path):
    """The ratios of three seeds with the full width and with a tenth of it."""
    cases = dict(confirmed=(0.5, 0.1), differs=(0.11, 0.1), undecided=(0.12, 0.1))
    spread, t = np.array([-0.01, 0.0, 0.01]), np.array([1, 2_000])
    for word, means in cases.items():
        for folder, name in ((thompson.EXACT, "ts"), (thompson.SKETCHED, "sketched_ts")):
            runs = [
                tidy.Run(
                    dict(problem=problem, algorithm=name),
                    seed,
                    dict(t=t, regret_ratio=np.full(2, v)),
                )
                for problem, mean in zip((FULL, "as in regret"), means, strict=True)
                for seed, v in enumerate(mean + spread * (problem == FULL) * (word == "undecided"))
            ]
            tidy.write(tmp_path / word / folder, runs, "made up", "made up")
            store.write_json(tmp_path / word / folder / tidy.PROVENANCE, {})
        [check] = thompson.CHECKS
        assert common.judge(check, tmp_path / word).word == word
    (tmp_path / "confirmed" / thompson.EXACT / tidy.PROVENANCE).unlink()
    word, numbers = common.judge(check, tmp_path / "confirmed")
    assert word == "undecided" and "Not run: bbkb_2020/cadata_settings_exact_ts" in numbers


def curves(power=1.5):
    """{algorithm: (t, values of 3 seeds)}."""
    t = np.unique(np.geomspace(1, 1000, 50).astype(int))
    scale = np.linspace(0.9, 1.1, 3)[:, None]
    return {"bkb": (t, scale * 0.01 * t**power), "gp_ucb": (t, scale * 0.001 * t**2.0)}


def test_slopes_are_those_of_the_last_decade():
    t = np.arange(1, 101)
    assert summaries.log_slope(t, 3.0 * t**0.7) == pytest.approx(0.7, abs=1e-12)
    curve = np.where(t < 10, 1.0, (t / 10.0) ** 2)
    assert summaries.log_slope(t, curve) == pytest.approx(2, abs=1e-12)  # the last decade counts
    order = np.random.default_rng(0).permutation(100)
    assert summaries.log_slope(t[order], curve[order]) == pytest.approx(2, abs=1e-12)
    assert np.isnan(summaries.log_slope(t, np.zeros(100)))


def test_growth_ignores_an_additive_constant():
    t = np.arange(1.0, 101)
    assert summaries.growth(t, 64 + 0.2 * t) == pytest.approx(1)
    assert summaries.growth(t[::-1], 0.2 * t[::-1] - 3) == pytest.approx(1)
    assert summaries.growth(t, 5 + t**2) == pytest.approx(2)
    assert summaries.growth(t, np.sqrt(t)) == pytest.approx(0.5)
    assert np.isnan(summaries.growth(np.ones(3), t[:3]))


def test_a_curve_that_ends_early_has_no_slope_and_is_drawn_until_its_end(tmp_path, monkeypatch):
    """NaN after the last evaluation becomes no number, neither in a fit nor in a figure."""
    t = np.unique(np.geomspace(1, 1000, 50).astype(int))
    curve = np.where(t > 500, np.nan, t**0.5)
    assert np.isnan(summaries.log_slope(t, curve)) and np.isnan(summaries.growth(t, curve))
    figures = []
    monkeypatch.setattr(plots.drawing, "save", lambda figure, *_: figures.append(figure))
    ending = curves(0.5) | {"uniform": (t, np.stack([curve, t**0.5, 2 * t**0.5]))}
    for name, options in (("run_time", (1,)), ("batch_size", ()), ("simple_regret", ())):
        getattr(plots, name)(tmp_path / "x.png", ending, "a title", *options)
        axes = figures[-1].axes[0]
        lines = {line.get_label().split(",")[0]: line.get_ydata() for line in axes.get_lines()}
        values = np.asarray(lines["uniform"])
        assert np.isnan(values[t > 500]).all() and np.isfinite(values[t <= 500]).all()
        assert np.isfinite(axes.get_ylim()).all() and axes.get_ylim()[1] > values[0]


def test_the_legend_names_the_lines_within_the_limits_only(tmp_path, monkeypatch):
    """A published curve may begin beyond our last evaluation, have a single point before it, or lie
    above the limit of the ratio."""
    figures = []
    monkeypatch.setattr(plots.drawing, "save", lambda figure, *_: figures.append(figure))
    t = np.arange(1.0, 61)
    ours = {"uniform": (t, np.ones((1, 60))), "gp_ucb": (t, np.zeros((1, 60)))}
    published = {
        "bkb": (np.array([20.0, 50, 200]), np.array([0.6, 0.5, 0.4])),
        "bbkb_global": (np.array([58.7, 72, 101]), np.array([0.6, 0.6, 0.5])),
        "gp_bucb": (np.array([106.0, 112]), np.array([0.6, 0.6])),
        "ts": (t, np.full(60, 1.5)),
    }
    plots.regret_ratio(tmp_path / "x.png", ours, "a title", published)
    names = [text.get_text() for text in figures[-1].legends[0].get_texts()]
    assert names == ["uniform", "BKB, published", "GP-UCB"]


def test_saved_curves_are_nan_after_the_last_evaluation():
    horizon, end = 40, 25
    numbers = np.arange(horizon)
    trace = loops.Trace(
        arm=np.where(numbers < end, numbers % 7, -1).astype(np.int32),
        **{n: np.where(numbers < end, 0.5, np.nan) for n in ("y", "regret", "width")},
        **{n: numbers.astype(np.int32) for n in ("round", "batch_size", "dictionary_size")},
    )
    arrays = bandit_runs.saved_arrays(trace, jnp.linspace(0.0, 1.0, 7))
    ended = arrays["t"] > end
    assert 0 < ended.sum() < horizon
    for name in ("regret_ratio", "simple_regret", "rounds", "batch_size", "dictionary"):
        assert np.isnan(arrays[name][ended]).all() and np.isfinite(arrays[name][~ended]).all(), name
    assert all(np.isnan(arrays[n]) for n in ("final_regret_ratio", "batches", "dictionary_size"))
    whole = trace.replace(arm=np.zeros(horizon, np.int32), regret=np.full(horizon, 0.5))
    arrays = bandit_runs.saved_arrays(whole, jnp.linspace(0.0, 1.0, 7))
    assert arrays["rounds"].dtype == np.int32 and arrays["batches"] == horizon


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("streams", ("regret", "examples")),
        ("run_time", (1,)),
        *((name, ()) for name in ("regret_ratio", "simple_regret", "batch_size")),
        ("dictionary_size", ()),
    ],
)
def test_every_figure_is_a_png_and_an_svg_and_reproducible(tmp_path, name, options):
    files = [tmp_path / "one" / "x.png", tmp_path / "two" / "x.png"]
    for file in files:
        getattr(plots, name)(file, curves(0.5), "a title", *options)
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["x.png", "x.svg"]
    first_svg, second_svg = (path.with_suffix(".svg").read_bytes() for path in files)
    assert first_svg == second_svg and b"<dc:date>" not in first_svg

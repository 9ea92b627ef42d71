"""Widths of BBKB's methods, slopes, and figures."""

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.bbkb_2020 import methods
from experiments.figures import plots
from experiments.results import summaries
from experiments.runs import bandit_runs
from jsketch import loops
from jsketch.bandits import widths


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

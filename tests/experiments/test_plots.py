"""Slopes of curves, and figures in both formats with the same bytes in every run."""

import numpy as np
import pytest

from experiments.figures import plots
from experiments.results import summaries


def curves(power=1.5, seeds=3):
    t = np.unique(np.geomspace(1, 1000, 50).astype(int))
    scale = np.linspace(0.9, 1.1, seeds)[:, None]
    return {"bkb": (t, scale * 0.01 * t**power), "gp_ucb": (t, scale * 0.001 * t**2.0)}


def test_slopes():
    t = np.arange(1, 101)
    assert summaries.log_slope(t, 3.0 * t**0.7) == pytest.approx(0.7, abs=1e-12)
    bent = np.where(t < 10, 1.0, (t / 10.0) ** 2)
    assert summaries.log_slope(t, bent) == pytest.approx(2, abs=1e-12)  # the last decade counts
    order = np.random.default_rng(0).permutation(100)
    assert summaries.log_slope(t[order], bent[order]) == pytest.approx(2, abs=1e-12)
    assert summaries.log_slope(t, bent, decades=2) < 1.9
    assert np.isnan(summaries.log_slope(t, np.zeros(100)))


def test_growth_is_that_of_a_line_whatever_it_starts_from():
    t = np.arange(1.0, 101)
    assert summaries.growth(t, 64 + 0.2 * t) == pytest.approx(1)
    assert summaries.growth(t[::-1], 0.2 * t[::-1] - 3) == pytest.approx(1)
    assert summaries.growth(t, 5 + t**2) == pytest.approx(2)
    assert summaries.growth(t, np.sqrt(t)) == pytest.approx(0.5)
    assert np.isnan(summaries.growth(np.ones(3), t[:3]))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("streams", ("regret", "examples")),
        ("run_time", (1,)),
        *((name, ()) for name in ("regret_ratio", "simple_regret", "batch_size")),
        ("dictionary_size", ()),
    ],
)
def test_every_figure_is_a_png_and_an_svg_and_always_the_same(tmp_path, name, options):
    files = [tmp_path / "one" / "x.png", tmp_path / "two" / "x.png"]
    for file in files:
        getattr(plots, name)(file, curves(0.5), "a title", *options)
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["x.png", "x.svg"]
    one, two = (path.with_suffix(".svg").read_bytes() for path in files)
    assert one == two and b"<dc:date>" not in one

"""Figures: both formats, the same bytes every time, fitted slopes, heat maps of sweeps, and no
plotting in the library."""

import re

import numpy as np
import pytest

from experiments import redraw
from experiments.figures import plots
from experiments.results import store, summaries, tidy
from experiments.sweep import heat_maps


def curves(power=1.5, seeds=3):
    t = np.unique(np.geomspace(1, 1000, 50).astype(int))
    scale = np.linspace(0.9, 1.1, seeds)[:, None]
    return {"bkb": (t, scale * 0.01 * t**power), "gp_ucb": (t, scale * 0.001 * t**2.0)}


def words(path):
    """The texts in an SVG, which matplotlib writes as comments beside their outlines."""
    return re.findall(r"<!-- (.*?) -->", path.with_suffix(".svg").read_text(), re.DOTALL)


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


def test_fitted_slopes_are_in_the_legend(tmp_path):
    plots.run_time(tmp_path / "time.png", curves(), "a title", 1)
    assert {"BKB, 1.50", "GP-UCB, 2.00", "a title"} <= set(words(tmp_path / "time.png"))
    plots.regret(tmp_path / "regret.png", curves(), "a title")
    assert {"BKB", "GP-UCB"} <= set(words(tmp_path / "regret.png"))


@pytest.mark.parametrize(
    "name", ["regret", "regret_ratio", "simple_regret", "batch_size", "dictionary_size"]
)
def test_every_figure_is_a_png_and_an_svg_and_always_the_same(tmp_path, name):
    files = [tmp_path / "one" / "x.png", tmp_path / "two" / "x.png"]
    for file in files:
        getattr(plots, name)(file, curves(0.5), "a title")
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["x.png", "x.svg"]
    one, two = (path.with_suffix(".svg").read_bytes() for path in files)
    assert one == two and b"<dc:date>" not in one


def test_a_heat_map_shows_every_number_except_missing_ones(tmp_path):
    table = np.array([[0.11, 0.22], [np.nan, 0.44]])
    heat_maps.heat_map(
        tmp_path / "map.png", table, [0.1, 1], [3, 5], ("lambda", "l"), "a title", table / 10
    )
    text = " ".join(words(tmp_path / "map.png"))
    assert all(word in text for word in ("0.11", "0.22", "0.44", "0.044", "lambda"))
    assert "nan" not in text


def swept(path, config, **numbers):
    """A sweep over a grid: the regret ratio is lengthscale + regularization + seed / 100, qbar 1
    adds 10."""
    names = list(numbers)
    grid = np.stack(np.meshgrid(*numbers.values()), -1).reshape(-1, len(names))
    runs = [
        tidy.Run(
            dict(zip(names, map(float, row), strict=True))
            | dict(problem="tiny", algorithm="bbkb_global", horizon=5),
            seed,
            dict(
                t=np.arange(2),
                regret_ratio=np.ones(2),
                final_regret_ratio=np.asarray(row.sum() + seed / 100 + 9 * (row[-1] == 1)),
                failed=np.asarray(bool(row[0] == 7)),
            ),
        )
        for row in grid
        for seed in range(3)
    ]
    tidy.write(path, runs, "sweep", "a title")
    store.write_json(path / tidy.PROVENANCE, dict(config=config))
    return path


def test_heat_maps_of_a_sweep(tmp_path):
    numbers = dict(lengthscale=[2.0, 4.0, 7.0], regularization=[0.1, 0.5], qbar=[1.0, 2.0])
    folder = swept(
        tmp_path, {f"grid.{name}": values for name, values in numbers.items()}, **numbers
    )
    assert redraw.redraw(folder)
    pairs = ("regularization_lengthscale", "regularization_qbar", "qbar_lengthscale")
    figures = {path.name for path in folder.glob("*.png")}
    assert figures == {f"heat_map_{pair}.png" for pair in pairs}
    best = heat_maps.best_of_pairs(
        tidy.load(folder).summary, "regularization", "lengthscale", ["qbar"]
    )
    means = best.set_index(["regularization", "lengthscale"])["mean"]
    assert means[0.1, 2.0] == pytest.approx(2.0 + 0.1 + 2.0 + 0.01)  # qbar = 2, not 1
    assert means[0.5, 4.0] == pytest.approx(4.0 + 0.5 + 2.0 + 0.01) and means[:, 7.0].isna().all()


def test_a_sweep_of_one_number_and_a_random_one(tmp_path):
    numbers = dict(lengthscale=[2.0, 4.0])
    assert heat_maps.draw(swept(tmp_path / "one", {"grid.lengthscale": [2.0, 4.0]}, **numbers)) == [
        "regret_ratio_lengthscale.png"
    ]
    random = swept(tmp_path / "random", {"random.lengthscale": [1.0, 9.0]}, **numbers)
    assert heat_maps.draw(random) == [] and not list(random.glob("*.png"))


def test_any_label_and_a_pdf(tmp_path):
    """The legend has the order in which the curves end."""
    t = np.arange(1, 20)
    lines = {name: (t, scale * t[None, :]) for name, scale in (("mine", 1.0), ("theirs", 3.0))}
    lines |= {"bkb": (t[:9], 2.5 * t[None, :9])}
    plots.streams(tmp_path / "x.png", lines, "a title", "y", "x")
    texts = words(tmp_path / "x.png")
    assert [text for text in texts if text in ("mine", "theirs", "BKB")] == [
        "theirs",
        "BKB",
        "mine",
    ]
    plots.regret(tmp_path / "y.pdf", lines, "a title")
    assert (tmp_path / "y.pdf").read_bytes().startswith(b"%PDF")
    assert not (tmp_path / "y.png").exists()

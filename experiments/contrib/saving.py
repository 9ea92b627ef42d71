"""What the experiments of this room share: runs as a summary, and a figure with a panel for each
problem and metric."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator

from experiments.figures import drawing
from experiments.results import environment, outputs, store, summaries, tidy

POINTS = 120  # of a saved curve
REGRET = "final_regret_ratio"  # R_T / R_T^unif of a run


class Row(NamedTuple):
    """A row of panels."""

    metric: str  # of the table
    label: str
    top: float | None = None
    log: bool = False
    methods: tuple[str, ...] | None = None  # that are drawn; None: all
    bands: bool = True


def grid(horizon: int) -> np.ndarray:
    """The points [P] where curves are saved, evenly spaced; the last one is `horizon`."""
    return np.unique(np.linspace(1, horizon, min(POINTS, horizon)).astype(int))


def of_problems(runs: Sequence[tidy.Run]) -> dict[str, Any]:
    """{problem: {"methods": {method: {number: mean, interval and values over the runs}}}} of the
    final numbers [] of runs."""
    found: dict[str, Any] = {}
    for run in runs:
        methods = found.setdefault(run.config["problem"], dict(methods={}))["methods"]
        numbers = methods.setdefault(run.config["algorithm"], {})
        for name, value in run.arrays.items():
            if np.ndim(value) == 0:
                numbers.setdefault(name, []).append(float(value))
    for part in found.values():
        for numbers in part["methods"].values():
            numbers.update({n: summaries.describe(v, ci=True) for n, v in numbers.items()})
    return found


def resumed(
    out: Path,
    config: Mapping[str, Any],
    problem: str,
    method: str,
    seeds: int,
    make: Callable[[], Sequence[Mapping[str, Any]]],
) -> list[tidy.Run]:
    """The runs of a method on a problem, one a seed: those that the folder keeps, or those that
    `make` makes, which are kept."""
    folder = out / "runs" / problem
    store.claim(folder, method, dict(config))
    if store.missing(folder, method, seeds):
        for seed, arrays in enumerate(make()):
            found = {name: np.asarray(value) for name, value in arrays.items()}
            store.write_npz(store.run_path(folder, method, seed), found)
    names = dict(problem=problem, algorithm=method)
    return [tidy.Run(names, seed, store.read_run(folder, method, seed)) for seed in range(seeds)]


def of_all(
    out: Path,
    config: Mapping[str, Any],
    problems: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    make: Callable[[str, str], Sequence[Mapping[str, Any]]],
) -> list[tidy.Run]:
    """`resumed` for each of the methods on each of the problems; make(problem, method) makes its
    runs."""
    return [
        run
        for problem in problems
        for method in methods
        for run in resumed(out, config, problem, method, seeds, partial(make, problem, method))
    ]


def keep(
    options: argparse.Namespace,
    experiment: str,
    config: Mapping[str, Any],
    title: str,
    make: Callable[[], list[tidy.Run]],
    draw: Callable[[Path], None],
    data: str = "generated",
) -> None:
    """Runs an experiment in its folder: tables, summary and figures."""
    with outputs.opened(options, experiment, config, options.seeds) as opened:
        runs = make()
        summary = dict(
            config=dict(config),
            seeds=options.seeds,
            data=data,
            **environment.describe(),
            problems=of_problems(runs),
        )
        opened.finish(summary, runs, title)
        draw(options.out)
    print(f"\nsummary.json, the tables (curves, summary .parquet) and the figure: {options.out}")


def draw_panels(
    folder: Path, name: str, rows: Sequence[Row], xlabel: str, height: float = 2.4
) -> None:
    """The picture `name` from the tables of the folder: a column for each problem, a row of panels
    `height` inches high for each metric."""
    curves = tidy.load(folder).curves
    problems = {
        str(problem): part for problem, part in curves.groupby("problem", observed=True, sort=False)
    }
    size = (2.0 + 2.6 * len(problems), 0.8 + height * len(rows))
    with plt.rc_context(drawing.STYLE | {"figure.figsize": size}):
        figure, axes = plt.subplots(
            len(rows), len(problems), sharey="row", sharex="col", squeeze=False
        )
        for row, line in zip(rows, axes, strict=True):
            for panel, (problem, part) in zip(line, problems.items(), strict=True):
                _panel(panel, part, row)
                if row is rows[0]:
                    panel.set_title(problem.replace("_", " "), loc="left")
            # once all panels of the shared axis are drawn
            if not row.log:
                line[0].set_ylim(0, row.top)
            line[0].set_ylabel(row.label)
        figure.supxlabel(xlabel, fontsize=9)
        title = textwrap.fill(curves.attrs["title"], int(14 * size[0]))
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        entries: dict[str, Any] = {}
        for panel in axes.flat:
            for handle, text in zip(*panel.get_legend_handles_labels(), strict=True):
                entries.setdefault(text, handle)
        figure.legend(entries.values(), entries.keys(), loc="outside right center")
        drawing.save(figure, folder / name)


def _panel(axes: Any, part: pd.DataFrame, row: Row) -> None:
    """One metric of all methods on one problem."""
    curves = tidy.lines(part, row.metric)
    if row.methods is not None:
        curves = {name: curves[name] for name in row.methods if name in curves}
    if not row.bands:
        curves = {name: (t, values.mean(0, keepdims=True)) for name, (t, values) in curves.items()}
    drawing.lines(axes, curves)
    if row.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

"""Functions that save the runs of these experiments, write a table of their final numbers, and draw
a panel for each problem and metric."""

import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from experiments import common
from experiments.common import Options, Settings
from experiments.figures import drawing
from experiments.figures.styles import label
from experiments.results import store, tidy

POINTS = 120  # largest number of points of a saved curve


class Row(NamedTuple):
    """A row of panels."""

    metric: str  # of the curves
    label: str
    top: float | None = None  # upper end of the y axis
    log: bool = False
    methods: tuple[str, ...] | None = None  # methods to draw; None: all
    bands: bool = True  # intervals over the seeds


def grid(horizon: int) -> np.ndarray:
    """The points [P] where curves are saved, evenly spaced; the last one is `horizon`."""
    return np.unique(np.linspace(1, horizon, min(POINTS, horizon)).astype(int))


def by_seed(shared: Mapping[str, Any], **values: np.ndarray) -> list[dict[str, Any]]:
    """One dict of arrays for each seed: the entries of `shared`, and the seed's row of each array
    [S, ...] of `values`."""
    rows = zip(*values.values(), strict=True)
    return [dict(shared, **dict(zip(values, row, strict=True))) for row in rows]


def load_or_run(
    out: Path,
    config: Mapping[str, Any],
    pairs: Iterable[tuple[str, str]],
    seeds: int | Mapping[str, int],
    make: Callable[[str, str], Sequence[Mapping[str, Any]]],
) -> list[tidy.Run]:
    """The runs of pairs (problem, method), one for each seed. Saved runs are read; if a run of a
    pair is missing, make(problem, method) executes all runs of the pair. `seeds` may differ between
    methods."""
    runs_of_pairs = []
    for problem, method in pairs:
        n_seeds = seeds if isinstance(seeds, int) else seeds[method]
        folder = out / "runs" / problem
        store.record_configuration(folder, method, dict(config))
        if store.missing(folder, method, n_seeds):
            start = time.perf_counter()
            runs = make(problem, method)
            print(f"{problem} {method}: {time.perf_counter() - start:.0f} s", flush=True)
            for seed, arrays in enumerate(runs):
                values = {name: np.asarray(value) for name, value in arrays.items()}
                store.write_npz(store.run_path(folder, method, seed), values)
        saved = [store.read_run(folder, method, seed) for seed in range(n_seeds)]
        runs_of_pairs += tidy.runs_of(dict(problem=problem, algorithm=method), saved)
    return runs_of_pairs


def run(
    folder: Path,
    experiment: str,
    title: str,
    settings: Settings,
    options: Options,
    make: Callable[[Settings, str, str], Sequence[Mapping[str, Any]]],
    *,
    pairs: Iterable[tuple[str, str]] | None = None,
    seeds: Mapping[str, int] | None = None,
    data: str = "generated",
) -> None:
    """Makes the missing runs of a folder, and writes its tables.

    make    make(settings, problem, method) -> the arrays of the runs, one for each seed
    pairs   (problem, method) of the runs; None: all of settings["problems"] and ["methods"]
    seeds   {method: number of seeds}; None: settings["seeds"] of each
    data    description of the data
    """
    if pairs is None:
        pairs = [(p, method) for p in settings["problems"] for method in settings["methods"]]
    of_runs = {k: v for k, v in settings.items() if k not in ("problems", "methods")}
    with options.results(folder, experiment, settings, settings["seeds"]) as results:
        n_seeds = seeds or settings["seeds"]
        runs = load_or_run(folder, of_runs, pairs, n_seeds, partial(make, settings))
        # a run whose posterior was not finite has no curves and no final numbers
        runs = [run for run in runs if "stopped" not in run.arrays]
        results.write(dict(config=settings, seeds=settings["seeds"], data=data), runs, title)


def write_numbers(folder: Path, fields: Mapping[str, tuple[str, int]]) -> None:
    """Writes numbers.csv: the mean over seeds of final numbers of each method on each problem, with
    the half width of its 95% interval. fields: {column of summary.parquet: (head, digits)}."""
    summary = common.tables(folder).summary
    known = {name: field for name, field in fields.items() if name in summary}
    rows = []
    for (problem, method), part in summary.groupby(
        ["problem", "algorithm"], observed=True, sort=False
    ):
        cells = []
        for name, (_, digits) in known.items():
            values = part[name].dropna()
            mean, half = common.mean_interval(values) if len(values) else (np.nan, np.nan)
            text = f" ± {half:,.{digits}f}" if half > 0 else ""
            cells.append(f"{mean:,.{digits}f}{text}" if len(values) else "")
        rows.append((problem, label(method), *cells))
    heads = [head for head, _ in known.values()]
    tidy.write_csv(folder / "numbers.csv", rows, ("problem", "method", *heads))


def draw_panels(
    folder: Path, name: str, rows: Sequence[Row], xlabel: str, height: float = 2.4
) -> None:
    """Draws the figure `name` from the tables of the folder: a column for each problem, a row of
    panels `height` inches high for each metric."""
    curves = tidy.load(folder).curves
    problems = dict(iter(curves.groupby("problem", observed=True, sort=False)))
    size = (2.0 + 2.6 * len(problems), 0.8 + height * len(rows))
    with plt.rc_context(drawing.STYLE | {"figure.figsize": size}):
        figure, axes = plt.subplots(
            len(rows), len(problems), sharey="row", sharex="col", squeeze=False
        )
        for row, axes_row in zip(rows, axes, strict=True):
            for panel, (problem, part) in zip(axes_row, problems.items(), strict=True):
                _draw_panel(panel, part, row)
                if row is rows[0]:
                    panel.set_title(str(problem).replace("_", " "), loc="left")
            # limits set before all panels of the shared axis are drawn would exclude later values
            if not row.log:
                axes_row[0].set_ylim(0, row.top)
            axes_row[0].set_ylabel(row.label)
        figure.supxlabel(xlabel, fontsize=9)
        handles: dict[str, Any] = {}  # by label, without repetitions
        for panel in axes.flat:
            for handle, text in zip(*panel.get_legend_handles_labels(), strict=True):
                handles.setdefault(text, handle)
        figure.legend(handles.values(), handles.keys(), loc="outside right center")
        title = textwrap.fill(curves.attrs["title"], int(14 * size[0]))
        drawing.save(figure, folder / name, title)


def _draw_panel(axes: Any, part: pd.DataFrame, row: Row) -> None:
    """Draws one metric of the methods on one problem."""
    curves = tidy.lines(part, row.metric)
    if row.methods is not None:
        curves = {name: curves[name] for name in row.methods if name in curves}
    drawing.lines(axes, curves, bands=row.bands)
    if row.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(drawing.COUNT_FORMAT)

"""Functions that save the runs of these experiments, summarise them, and draw a panel for each
problem and metric."""

import argparse
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

from experiments import cli
from experiments.figures import drawing
from experiments.results import outputs, store, summaries, tidy

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


def summarise_problems(runs: Sequence[tidy.Run]) -> dict[str, Any]:
    """The statistics over runs of all scalar arrays: {problem: {"methods": {method: {name of an
    array: statistics}}}}."""
    entries: dict[str, Any] = {}
    for run in runs:
        methods = entries.setdefault(run.config["problem"], dict(methods={}))["methods"]
        numbers = methods.setdefault(run.config["algorithm"], {})
        for name, value in run.arrays.items():
            if np.ndim(value) == 0:
                numbers.setdefault(name, []).append(float(value))
    for entry in entries.values():
        for numbers in entry["methods"].values():
            numbers.update({n: summaries.statistics(v, ci=True) for n, v in numbers.items()})
    return entries


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


def parser(
    doc: str | None, methods: Sequence[str], problems: Sequence[str], **shared: Any
) -> argparse.ArgumentParser:
    """The parser of an experiment; `shared` has the `defaults` of `cli.parser`."""
    new_parser = cli.parser(doc, **shared)
    cli.add_choices(new_parser, "--only", methods, help="methods")
    cli.add_choices(new_parser, "--problems", problems)
    return new_parser


def run(
    options: argparse.Namespace,
    experiment: str,
    title: str,
    config: Mapping[str, Any],
    make: Callable[[argparse.Namespace, str, str], Sequence[Mapping[str, Any]]],
    draw: Callable[[Path], None],
    *,
    pairs: Iterable[tuple[str, str]] | None = None,
    seeds: int | Mapping[str, int] | None = None,
    more: Mapping[str, Any] | None = None,
    data: str = "generated",
) -> None:
    """Runs an experiment in the folder `options.out`: single runs, tables, summary and figure.

    config  the configuration on which single runs depend
    make    make(options, problem, method) -> the arrays of the runs, one for each seed
    pairs   (problem, method) of the runs; None: all
    seeds   number of seeds of all methods, or {method: number}; None: `options.seeds`
    more    the rest of the configuration of the tables; None: the problems and methods
    data    description of the data
    """
    if pairs is None:
        pairs = [(problem, method) for problem in options.problems for method in options.only]
    if more is None:
        more = dict(problems=options.problems, methods=options.only)
    all_config = {**config, **more}
    with outputs.results_folder(options, experiment, all_config, options.seeds) as results:
        n_seeds = seeds or options.seeds
        runs = load_or_run(options.out, config, pairs, n_seeds, partial(make, options))
        # a run whose posterior was not finite has no curves and no final numbers
        runs = [run for run in runs if "stopped" not in run.arrays]
        problems = summarise_problems(runs)
        summary = dict(config=all_config, seeds=options.seeds, data=data, problems=problems)
        results.write(summary, runs, title)
        draw(options.out)


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

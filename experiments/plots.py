"""Figures of the bandit experiments: one style, one colour per algorithm throughout, mean and 95% band.

Every function draws `curves`, a dict from algorithm name to (x [P], values [R, P]): P points, R repetitions.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display is needed, or looked for

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]

# Okabe and Ito's palette, told apart by colour-blind readers; the dashes tell lines apart in black and white.
LOOKS = {
    "uniform": ("uniform", "#000000", (0, (1, 1.5))),
    "eps_greedy": ("ε-greedy", "#E69F00", (0, (5, 1.5))),
    "gp_ucb": ("GP-UCB", "#56B4E9", (0, (4, 1, 1, 1))),
    "evolution": ("regularized evolution", "#7F7F7F", (0, (5, 1, 1, 1))),
    "gp_bucb": ("GP-BUCB", "#0072B2", (0, (3, 1, 1, 1, 1, 1))),
    "ts": ("TS, batches of 30", "#F0E442", "solid"),
    "sketched_ts": ("sketched TS, batches of 30", "#8C564B", (0, (7, 2))),
    "bkb": ("BKB", "#009E73", (0, (2, 1))),
    "bbkb_global": ("BBKB, global", "#D55E00", "solid"),
    "bbkb_global_local": ("BBKB, global-local", "#CC79A7", (0, (6, 1))),
    "soful": ("SOFUL", "#D55E00", "solid"),
    "soful_full": ("SOFUL, m = d", "#0072B2", (0, (1, 1))),
    "soful_paper": ("SOFUL, paper's width", "#F0E442", (0, (4, 1, 1, 1))),
    "soful_ts": ("SOFUL-TS", "#E69F00", (0, (5, 1.5))),
    "cbrap": ("CBRAP", "#CC79A7", (0, (6, 1))),
    "taylor_2": ("PKAWV, Taylor M = 2", "#E69F00", (0, (5, 1.5))),
    "taylor_3": ("PKAWV, Taylor M = 3", "#D55E00", "solid"),
    "taylor_4": ("PKAWV, Taylor M = 4", "#8C564B", (0, (7, 2))),
    "nystrom": ("PKAWV, Nyström (KORS)", "#CC79A7", (0, (6, 1))),
    "nystrom_theory": ("PKAWV, Nyström, theory's KORS", "#7F3C8D", (0, (2, 1))),
    "kernel_awv": ("Kernel-AWV", "#009E73", (0, (2, 1))),
    "kernel_ridge": ("kernel ridge regression", "#56B4E9", (0, (4, 1, 1, 1))),
    "fogd": ("FOGD", "#0072B2", (0, (3, 1, 1, 1, 1, 1))),
    "fogd_1000": ("FOGD, 1000 frequencies", "#F0E442", (0, (4, 1, 1, 1))),
    "nogd": ("NOGD", "#7F7F7F", (0, (5, 1, 1, 1))),
    "pros_n_kons": ("Pros-N-KONS", "#000000", (0, (1, 1.5))),
    "sklearn": ("Nystroem(200) + SGD, scikit-learn", "#F0E442", "solid"),
    "go_ucb": ("GO-UCB", "#D55E00", "solid"),
    "go_ucb_refit": ("GO-UCB, refitted", "#CC79A7", (0, (6, 1))),
    "go_ucb_whole_box": ("GO-UCB, whole box", "#F0E442", (0, (5, 1.5))),
    "go_ucb_printed": ("GO-UCB, printed settings", "#8C564B", (0, (7, 2))),
    "go_ucb_printed_uniform": ("the same from uniform starts", "#7F7F7F", (0, (5, 1, 1, 1))),
    "gp_ei": ("GP-EI", "#009E73", (0, (2, 1))),
    "gp_pi": ("GP-PI", "#0072B2", (0, (3, 1, 1, 1, 1, 1))),
    "turbo": ("TuRBO", "#E69F00", (0, (1, 1))),
}

STYLE: dict[Any, Any] = {
    "figure.figsize": (5.6, 3.2),
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
}


def regret_ratio(path: Path, curves: Curves, title: str) -> None:
    """Cumulative regret over the expected regret of the uniform policy, R_t / R_t^unif, against t."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots()
        _draw(axes, curves)
        _count_axis(axes)
        # the first evaluations may be far above the uniform policy's and would flatten the rest
        axes.set_ylim(0, min(axes.get_ylim()[1], 1.5))
        axes.set_ylabel("regret ratio  $R_t\\,/\\,R_t^{\\mathrm{unif}}$")
        _finish(figure, axes, path, title)


def simple_regret(path: Path, curves: Curves, title: str) -> None:
    """Regret of the best arm evaluated so far, against t."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots()
        _draw(axes, curves)
        _count_axis(axes)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("simple regret (rewards in [0, 1])")
        _finish(figure, axes, path, title)


def regret_ratio_panels(path: Path, panels: Mapping[str, Curves], title: str) -> None:
    """Regret ratios against t, a panel for each entry, three in a row, on one scale."""
    rows = -(-len(panels) // 3)
    size = {"figure.figsize": (9.0, 0.6 + 2.3 * rows)}
    with plt.rc_context(STYLE | size):
        figure, grid = plt.subplots(rows, min(3, len(panels)), sharex=True, sharey=True, squeeze=False)
        for axes, (name, curves) in zip(grid.flat, panels.items(), strict=False):
            _draw(axes, curves)
            axes.set_title(name, loc="left")
            axes.set_ylim(0, 1)
            axes.set_xlim(left=0)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        figure.supxlabel("evaluations $t$")
        figure.supylabel("regret ratio  $R_t\\,/\\,R_t^{\\mathrm{unif}}$")
        figure.suptitle(title, x=0.01, ha="left")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        _save(figure, path)


def cumulative_regret_panels(
    path: Path,
    panels: Mapping[str, Curves],
    uniform: Mapping[str, float],
    explored: Mapping[str, int],
    title: str,
) -> None:
    """Cumulative regret against t, a panel for each function, with the expected regret of the uniform policy, of which
    `uniform` is one step's, and a line where the `explored` uniform evaluations end."""
    label, colour, dashes = LOOKS["uniform"]
    with plt.rc_context(STYLE | {"figure.figsize": (9.0, 3.2)}):
        figure, grid = plt.subplots(1, len(panels), squeeze=False)
        for axes, (name, curves) in zip(grid.flat, panels.items(), strict=True):
            steps = np.arange(1, len(next(iter(curves.values()))[0]) + 1)
            axes.plot(steps, steps * uniform[name], color=colour, linestyle=dashes, label=label)
            _draw(axes, curves)
            axes.axvline(explored[name], color="0.8", linewidth=0.8, zorder=0)
            axes.set_title(f"${name[0]}_{name[1:]}$", loc="left")
            _count_axis(axes)
            # methods that leave for corners would flatten the rest
            axes.set_ylim(0, 1.5 * steps[-1] * uniform[name])
        grid.flat[0].set_ylabel("cumulative regret")
        figure.suptitle(title, x=0.01, ha="left")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        _save(figure, path)


def tuning_panels(path: Path, panels: Mapping[str, Curves], explored: int, title: str) -> None:
    """Mean cumulative regret against t, a panel for each classifier, a line where the `explored` first evaluations end, and
    beside the curves the 95% interval of each at the end: bands of seven methods would hide each other."""
    with plt.rc_context(STYLE | {"figure.figsize": (9.0, 3.2)}):
        figure, grid = plt.subplots(1, len(panels), squeeze=False)
        for axes, (name, curves) in zip(grid.flat, panels.items(), strict=True):
            last = next(iter(curves.values()))[0][-1]
            _draw(
                axes, {method: (t, values.mean(0, keepdims=True)) for method, (t, values) in curves.items()}
            )
            _end_intervals(axes, curves, last + 1.5)
            axes.axvline(explored, color="0.8", linewidth=0.8, zorder=0)
            axes.set_title(name, loc="left")
            axes.set_ylim(bottom=0)
            _count_axis(axes)
            axes.set_xticks(np.arange(0, last + 1, 10))
        grid.flat[0].set_ylabel("cumulative regret (accuracy)")
        figure.suptitle(title, x=0.01, ha="left")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        _save(figure, path)


def run_time(path: Path, curves: Curves, title: str, side_by_side: int) -> None:
    """Run time in seconds, without compilation, against t; on log axes, where a slope is a power of t."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots()
        _draw(axes, curves)
        _log_axes(axes)
        seeds = "one seed" if side_by_side == 1 else f"{side_by_side} seeds side by side"
        axes.set_ylabel(f"run time of {seeds} (s)")
        _finish(figure, axes, path, title)


def streams(path: Path, curves: Curves, title: str, ylabel: str, xlabel: str, log: bool = False) -> None:
    """Anything measured along a stream, against examples or seconds; a curve that stops early ends in a dot."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots()
        _draw(axes, curves)
        if log:
            _log_axes(axes)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        last = max(x[-1] for x, _ in curves.values())
        for name, (x, values) in curves.items():
            if x[-1] < last and not log:
                axes.scatter(x[-1], values.mean(0)[-1], color=LOOKS[name][1], s=16)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        _finish(figure, axes, path, title)


def batch_size(path: Path, curves: Curves, title: str) -> None:
    """Size of the batch in which evaluation t was made, against t, on log axes."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots()
        _draw(axes, curves)
        _log_axes(axes)
        axes.set_ylabel("batch size (evaluations)")
        _finish(figure, axes, path, title)


def _draw(axes: Axes, curves: Curves) -> None:
    """A line for the mean and a band for its 95% interval (see results.ci95); no band for one repetition."""
    for name, (x, values) in curves.items():
        label, colour, dashes = LOOKS[name]
        mean = values.mean(axis=0)
        axes.plot(x, mean, color=colour, linestyle=dashes, label=label)
        if len(values) > 1:
            half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
            axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)


def _end_intervals(axes: Axes, curves: Curves, start: float) -> None:
    """The 95% interval of each curve's last value, side by side from x = start on; none for one repetition."""
    for place, (name, (_, values)) in enumerate(curves.items()):
        if len(values) > 1:
            half = 1.96 * values[:, -1].std(ddof=1) / np.sqrt(len(values))
            axes.errorbar(
                start + 1.2 * place,
                values[:, -1].mean(),
                half,
                color=LOOKS[name][1],
                fmt="o",
                markersize=3,
                capsize=2,
            )


def _count_axis(axes: Axes) -> None:
    axes.set_xlabel("evaluations $t$")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _log_axes(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("evaluations $t$")
    # a band that reaches below zero would stretch a log axis over empty decades
    means = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.get_lines()])
    axes.set_ylim(bottom=means[means > 0].min() / 2, top=means.max() * 2)
    plain = FuncFormatter(lambda value, _: f"{value:,g}")
    axes.xaxis.set_major_formatter(plain)
    axes.yaxis.set_major_formatter(plain)


def _finish(figure: plt.Figure, axes: Axes, path: Path, title: str) -> None:
    """Title, a legend beside the plot in the order in which the lines end, and the file."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    handles, labels = axes.get_legend_handles_labels()
    order = np.argsort([-float(np.asarray(line.get_ydata())[-1]) for line in axes.get_lines()], kind="stable")
    figure.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside right center")
    _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    """The picture, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.stem + ".tmp.png")
    figure.savefig(part)
    part.replace(path)
    plt.close(figure)

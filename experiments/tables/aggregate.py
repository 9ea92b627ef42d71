"""Two CSV tables and a picture of the regrets on each table and of their aggregate, from the saved
curves of `main`.

The score of a run is its regret divided by the mean regret of random settings on the same table
after as many evaluations. The regret is that of the best reading, or of the mean of all readings of
its setting, which does not reward a lucky reading. Scores of all tables are aggregated by their
interquartile mean, with intervals of a bootstrap that resamples the seeds of each table, and by
performance profiles (Agarwal, Schwarzer, Castro, Courville, Bellemare. Deep reinforcement learning
at the edge of the statistical precipice. NeurIPS 2021).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from experiments.figures.drawing import STYLE, save
from experiments.results import summaries, tidy
from experiments.tables import published
from experiments.tables.methods import METHODS
from experiments.tables.recorded import ERROR_TABLES, TABLES

OURS, RANDOM = "suggest_10", "random"
N_RESAMPLES = 2_000  # of the bootstrap
MEASURES = {"best reading": "simple_regret", "mean of its setting": "mean_regret"}
PROFILE_T = 100  # evaluations of the performance profiles
# columns of REGRETS: less_ours is the regret minus that of OURS, and interval is the half width of
# the 95% interval of this difference
COLUMNS = (
    *("table", "method", "runs", "evaluations", "regret", "standard_error"),
    *("less_ours", "interval", "cpu_seconds"),
)
REGRETS, SCORES, PICTURE = "regrets.csv", "scores.csv", "aggregate.png"
STYLES = {
    "suggest_10": ("#D55E00", "solid"),
    "suggest_1": ("#D55E00", (0, (1, 1))),
    "suggest_10_log": ("#E69F00", (0, (3, 1, 1, 1))),
    "fixed_bkb_10": ("#CC79A7", (0, (6, 1))),
    "tpe": ("#0072B2", (0, (5, 1.5))),
    "optuna_gp": ("#009E73", (0, (2, 1))),
    "botorch": ("#56B4E9", (0, (4, 1, 1, 1))),
    "random": ("#000000", (0, (1, 1.5))),
}
Regrets = dict[str, dict[str, np.ndarray]]  # {table: {method: [S, T]}}


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """The mean of the middle half of the values on the last axis."""
    n_cut = values.shape[-1] // 4  # at each end
    return np.sort(values, axis=-1)[..., n_cut : values.shape[-1] - n_cut].mean(-1)


def interval(strata: Sequence[np.ndarray]) -> tuple[float, float]:
    """The 95% bootstrap interval of the interquartile mean. Each stratum [S], the scores on one
    table, is resampled with replacement."""
    rng = np.random.default_rng(0)
    resamples = [
        values[rng.integers(len(values), size=(N_RESAMPLES, len(values)))] for values in strata
    ]
    low, high = np.percentile(interquartile_mean(np.concatenate(resamples, axis=1)), [2.5, 97.5])
    return float(low), float(high)


def profile(strata: Sequence[np.ndarray], thresholds: np.ndarray) -> np.ndarray:
    """The share of the runs whose score is at most each threshold. Strata have equal weights."""
    return np.mean([(values[:, None] <= thresholds).mean(0) for values in strata], axis=0)


def scores(regrets: Regrets, names: Sequence[str], t: int) -> dict[str, list[np.ndarray]]:
    """{method: its scores [S] after t evaluations on each table of `names`}, for the methods that
    have runs of t evaluations on all these tables."""

    def has_runs(method: str) -> bool:
        tables = [regrets[name].get(method) for name in names]
        return all(values is not None and values.shape[1] >= t for values in tables)

    methods = [method for method in METHODS if has_runs(method)]
    return {
        method: [
            regrets[name][method][:, t - 1] / regrets[name][RANDOM][:, t - 1].mean()
            for name in names
        ]
        for method in methods
    }


def regrets_of(folder: Path, metric: str = "simple_regret") -> Regrets:
    """The regrets in the tables of a folder."""
    curves = tidy.load(folder).curves
    return {
        name: {m: values for m, (_, values) in tidy.lines(part, metric).items()}
        for name in TABLES
        if len(part := curves[curves["problem"] == name])
    }


def groups_of(regrets: Regrets) -> dict[str, tuple[str, ...]]:
    """{title: tables that are aggregated together}. Some methods have runs on HPOLib only."""
    hpolib = tuple(name for name in regrets if name in ERROR_TABLES)
    groups = {} if len(hpolib) == len(regrets) else {"all tables": tuple(regrets)}
    return groups | ({"HPOLib": hpolib} if hpolib else {})


def compared_t(regrets: dict[str, np.ndarray]) -> tuple[int, ...]:
    """The numbers of evaluations after which regrets are compared."""
    horizon = regrets[OURS].shape[1]
    return tuple(t for t in published.AT if t <= horizon) or (horizon,)


def regret_table(folder: Path) -> pd.DataFrame:
    """Means and standard errors of the regrets on each table, the differences from OURS on the same
    seeds with half widths of their 95% intervals, and published regrets."""
    summary = tidy.load(folder).summary
    seconds = summary.groupby(["problem", "algorithm"], observed=True)["cpu_seconds"].mean()
    rows = []
    for name, methods in regrets_of(folder).items():
        compared = compared_t(methods)
        for method, values in methods.items():
            for t in (t for t in compared if t <= values.shape[1]):
                regret, our_regret = values[:, t - 1], methods[OURS][: len(values), t - 1]
                difference = regret[: len(our_regret)] - our_regret  # on the same seeds
                comparison = (f"{difference.mean():+.2g}", f"{summaries.ci95(difference):.2g}")
                if method == OURS:
                    comparison = ("", "")
                key = name, METHODS[method].label, len(values), t
                estimate = f"{regret.mean():.3g}", f"{pd.Series(regret).sem():.2g}"
                rows.append((*key, *estimate, *comparison, f"{seconds[name, method]:.3g}"))
        for label, numbers in published.REGRET.get(name, {}).items():
            for t, (mean, error) in zip(published.AT, numbers, strict=True):
                if t in compared:
                    key = name, f"{label}, published", published.RUNS, t
                    rows.append((*key, f"{mean:.3g}", f"{error:.2g}", "", "", ""))
    return pd.DataFrame(rows, columns=COLUMNS)


def score_table(folder: Path) -> pd.DataFrame:
    """Interquartile means of the scores with their 95% intervals, of the best reading and of the
    mean of all readings of its setting."""
    rows = []
    for measure, metric in MEASURES.items():
        regrets = regrets_of(folder, metric)
        for title, names in groups_of(regrets).items():
            for t in compared_t(regrets[names[0]]):
                for method, strata in scores(regrets, names, t).items():
                    row: dict[str, Any] = dict(tables=f"{title} ({len(names)})", measure=measure)
                    row |= dict(method=METHODS[method].label, evaluations=t)
                    numbers = interquartile_mean(np.concatenate(strata)), *interval(strata)
                    columns = zip(("score", "low", "high"), numbers, strict=True)
                    rows.append(row | {name: f"{x:.3f}" for name, x in columns})
    return pd.DataFrame(rows)


def draw(folder: Path) -> None:
    """Writes the tables and the picture from the saved curves."""
    tidy.write_csv(folder / REGRETS, regret_table(folder))
    tidy.write_csv(folder / SCORES, score_table(folder))
    regrets = regrets_of(folder)
    groups = groups_of(regrets)
    horizon = next(iter(regrets.values()))[OURS].shape[1]
    grid = np.unique(np.round(np.linspace(min(10, horizon), horizon, 20)).astype(int))
    with plt.rc_context(STYLE | {"figure.figsize": (9.0, 3.4)}):
        figure, panels = plt.subplots(1, len(groups) + 1)
        for axes, (title, names) in zip(panels, groups.items(), strict=False):
            by_t = {t: scores(regrets, names, t) for t in grid}
            for method in by_t[grid[0]]:
                ts = [t for t in grid if method in by_t[t]]
                strata_by_t = [by_t[t][method] for t in ts]
                means = [interquartile_mean(np.concatenate(strata)) for strata in strata_by_t]
                low, high = np.transpose([interval(strata) for strata in strata_by_t])
                colour, dashes = STYLES[method]
                label = METHODS[method].label
                axes.plot(ts, means, color=colour, linestyle=dashes, label=label)
                axes.fill_between(ts, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.set_title(f"{title} ({len(names)})")
            axes.set_xlabel("evaluations")
            axes.set_ylabel("regret over that of random, IQM")
            axes.set_ylim(0, 1.3)
        # the legend and the profiles are those of the last group of tables
        handles, labels = axes.get_legend_handles_labels()
        t, thresholds = min(PROFILE_T, horizon), np.geomspace(0.01, 4, 200)
        for method, strata in scores(regrets, names, t).items():
            colour, dashes = STYLES[method]
            shares = profile(strata, thresholds)
            panels[-1].plot(thresholds, shares, color=colour, linestyle=dashes)
        panels[-1].set_xscale("log")
        panels[-1].set_title(f"{title} ({len(names)}), {t} evaluations")
        panels[-1].set_xlabel("score τ: regret over that of random")
        panels[-1].set_ylabel("share of runs, score at most τ")
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        save(figure, folder / PICTURE)

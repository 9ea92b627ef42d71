"""What the figures share: their command, the values that checks read, intervals, and verdicts.

A figure or table of a paper is one module, for example `experiments/bbkb_2020/fig1_regret.py`:

    RUNS     {folder under results/: settings}; `seeds` is the number of seeds of a folder
    QUICK    the settings that a tiny run has in their place
    run      run(folder, settings, options): makes the missing runs, and writes the tables
    draw     draw(folder): the pictures, from the tables
    CHECKS   functions check(root) -> Verdict, which read the tables under the folder `root` of all
             results; each is the rule of the entry of verdicts.toml that has its name
    CAUSES   optional {name of a check: a check of other runs}: the runs that differ in the cause
             of a verdict, which confirm the claim

and ends with `if __name__ == "__main__": common.main(__file__)`. `scripts/reproduce bbkb:1` calls
the same `main`.
"""

import argparse
import dataclasses
import functools
import importlib
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

from experiments import cli
from experiments.engine import THIS_PROCESS, Workers
from experiments.figures.styles import label
from experiments.results import outputs, tidy

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
VERDICTS = Path(__file__).parent / "verdicts.toml"
CONFIRMED, DIFFERS, UNDECIDED = "confirmed", "differs", "undecided"
# a statement that an earlier version judged, and that the paper does not make
WITHDRAWN = "withdrawn"

Settings = dict[str, Any]
Interval = tuple[float, float]  # centre and half width of a 95% interval
Runs = Sequence[float] | np.ndarray  # a number for each seed


class Missing(LookupError):
    """Results that a check reads were not made."""


class Methods(dict[str, Any]):
    """{method: its values}. A method that was not run raises Missing."""

    def __missing__(self, name: str) -> Any:
        raise Missing(f"runs of {name}")


class Verdict(NamedTuple):
    """What the saved runs say about a claim of a paper."""

    word: str  # CONFIRMED, DIFFERS or UNDECIDED
    numbers: str  # those that decide


Check = Callable[[Path], Verdict]  # of the folder of all results


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of the command of a figure."""

    out: Path  # folder of all results
    quick: bool = False
    seeds: int | None = None  # None: those of the settings
    workers: Workers = THIS_PROCESS
    only: tuple[str, ...] = ()  # folders that are made; empty: all
    data_dir: Path | None = None
    keep: bool = False
    overwrite: bool = False
    saved: bool = False

    def results(self, folder: Path, experiment: str, config: Any, seeds: int) -> Any:
        """`outputs.results_folder` of one of the figure's folders."""
        return outputs.results_folder(
            argparse.Namespace(out=folder, keep=self.keep, overwrite=self.overwrite),
            *(experiment, config, seeds),
        )


# --- the command of a figure


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a figure."""
    add = parser.add_argument
    add("--quick", action="store_true", help="a tiny run, as a test")
    add("--seeds", type=cli.count, help="number of seeds (default: those of the settings)")
    add("--out", type=Path, help="folder of all results (default: reproduced/)")
    add("--only", nargs="+", default=[], metavar="FOLDER", help="some folders of the figure")
    add("--workers", type=cli.count, default=1, help="processes of one thread (default 1)")
    add("--cluster", default="", metavar="ADDRESS", help="a scheduler of Dask: tcp://host:8786")
    add("--data-dir", type=Path, help="folder of the data sets")
    add("--saved", action="store_true", help="run nothing: draw and judge results/, or --out")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--keep", action="store_true", help="reuse the runs of another commit")
    group.add_argument("--overwrite", action="store_true", help="replace finished results")


def options_of(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Options:
    """The options that a command line gives."""
    out = (given.out or (RESULTS if given.saved else Path("reproduced"))).expanduser().resolve()
    if given.quick and out.is_relative_to(RESULTS):
        parser.error("--quick runs are no results: --out must not lie in results/")
    same = ("quick", "seeds", "data_dir", "keep", "overwrite", "saved")
    return Options(
        out=out,
        workers=Workers(given.workers, given.cluster),
        only=tuple(given.only),
        **{name: getattr(given, name) for name in same},
    )


def main(file: str) -> None:
    """The command of the figure in a module's file."""
    relative = Path(file).resolve().relative_to(ROOT).with_suffix("")
    cli.set_up_jax()  # before the figure's module makes arrays
    figure = importlib.import_module(".".join(relative.parts))
    parser = cli.parser(figure.__doc__)
    add_options(parser)
    cli.command(lambda: make(figure, options_of(parser, parser.parse_args())))()


def make(figure: Any, options: Options) -> None:
    """Runs, draws and judges a figure. Raises ValueError for an unknown folder of --only."""
    unknown = set(options.only) - set(figure.RUNS)
    if unknown:
        raise ValueError(
            f"there is no {', '.join(sorted(unknown))}: choose from {', '.join(figure.RUNS)}."
        )
    cli.set_up_jax()
    for name, settings in figure.RUNS.items():
        folder = options.out / name
        if options.only and name not in options.only:
            continue
        if not options.saved:
            print(f"\n{name}", flush=True)
            figure.run(folder, settings_of(figure, settings, options), options)
        if tidy.is_complete(folder):
            figure.draw(folder)
            pictures = ", ".join(path.name for path in sorted(folder.glob("*.png")))
            print(f"{folder}: {pictures}", flush=True)
    for check in figure.CHECKS:
        word, numbers = judge(check, options.out)
        print(f"\n{verdict_entry(figure, check)['claim']}\n  {word.upper()}. {numbers}", flush=True)
        cause = getattr(figure, "CAUSES", {}).get(check.__name__)
        if cause is not None:
            word, numbers = judge(cause, options.out)
            print(f"  {cause.__name__.replace('_', ' ')}: {word.upper()}. {numbers}", flush=True)
    if options.quick:
        print("\nThese runs are tiny: their numbers and verdicts are not results.")


def settings_of(figure: Any, settings: Settings, options: Options) -> Settings:
    """The settings of a folder, with QUICK's and --seeds in their place."""
    settings = settings | (figure.QUICK if options.quick else {})
    return settings | ({} if options.seeds is None else dict(seeds=options.seeds))


# --- verdicts


def verdicts() -> dict[str, dict[str, dict[str, Any]]]:
    """{paper: {name of the check: entry}} of verdicts.toml."""
    return tomllib.loads(VERDICTS.read_text())


def paper_of(figure: Any) -> str:
    """The name of a figure's paper, "bbkb" for experiments.bbkb_2020.fig1_regret."""
    folder = figure.__name__.split(".")[1]
    name, _, year = folder.rpartition("_")
    return name if year.isdecimal() else folder


def verdict_entry(figure: Any, check: Check) -> dict[str, Any]:
    """The entry of verdicts.toml of a check, which has its name."""
    return verdicts()[paper_of(figure)][check.__name__]


def judge(check: Check, root: Path) -> Verdict:
    """The verdict of a check; undecided if results that it reads were not made."""
    try:
        return check(root)
    except Missing as error:
        return Verdict(UNDECIDED, f"Not run: {error}")


def verdict(holds: bool | None, numbers: str) -> Verdict:
    """A verdict from whether a rule holds, None if the numbers do not decide it."""
    words: dict[bool | None, str] = {True: CONFIRMED, False: DIFFERS, None: UNDECIDED}
    return Verdict(words[None if holds is None else bool(holds)], numbers)


def judged_case(case: Callable[[], Verdict]) -> Verdict:
    """The verdict of one case of a claim; undecided if results that it reads were not made."""
    return judge(lambda _: case(), ROOT)


def all_of(cases: Mapping[str, Callable[[], Verdict]]) -> Verdict:
    """The verdict of a claim about several cases, {name: its verdict}: it differs if one does, and
    is confirmed if all are."""
    judged = {name: judged_case(case) for name, case in cases.items()}
    words = [word for word, _ in judged.values()]
    holds = decision(DIFFERS in words, set(words) == {CONFIRMED})
    return verdict(holds, " ".join(f"{name}: {numbers}." for name, (_, numbers) in judged.items()))


def agreed(cases: Mapping[str, Callable[[], Verdict]]) -> Verdict:
    """The common verdict of several readings of the paper, {name: its verdict}; undecided if they
    disagree, or if one was not run."""
    judged = {name: judged_case(case) for name, case in cases.items()}
    words = {word for word, _ in judged.values()}
    word = words.pop() if len(words) == 1 else UNDECIDED
    return Verdict(word, " ".join(f"[{n}] {w}: {text};" for n, (w, text) in judged.items()))


def decision(fails: bool, holds: bool) -> bool | None:
    """False if a rule fails, True if it holds, and None if the numbers decide neither."""
    return False if fails else (True if holds else None)


def all_above(intervals: Iterable[Interval], bound: float, fails_below: float | None = None) -> Any:
    """True if all intervals lie above `bound`, False if one lies below `fails_below` (by default
    the same number), and None otherwise."""
    least = bound if fails_below is None else fails_below
    pairs = list(intervals)
    return decision(
        any(centre + half <= least for centre, half in pairs),
        all(centre - half > bound for centre, half in pairs),
    )


def all_near_zero(intervals: Iterable[Interval], margin: float) -> bool | None:
    """True if all intervals lie within `margin` of 0, False if one lies entirely farther from 0,
    and None otherwise."""
    pairs = list(intervals)
    return decision(
        any(abs(centre) - half > margin for centre, half in pairs),
        all(abs(centre) + half <= margin for centre, half in pairs),
    )


# --- intervals


def student(runs: int) -> float:
    """The half width of the 95% interval over so many runs, in standard errors: the quantile of
    Student's distribution, 12.7 for two runs and 2.78 for five. The papers use the normal quantile
    1.96, which is too small for few runs."""
    return float(special.stdtrit(runs - 1, 0.975))


def mean_interval(runs: Runs) -> Interval:
    """The mean over runs and the half width of its 95% interval, NaN for a single run."""
    runs = np.asarray(runs, float)
    if runs.size < 2:
        return float(runs.mean()), float("nan")
    return float(runs.mean()), student(runs.size) * float(runs.std(ddof=1) / np.sqrt(runs.size))


def probability_interval(hits: int, runs: int) -> Interval:
    """Wilson's 95% interval of the probability of an event that occurred in `hits` of `runs`; NaN
    without runs, so that no rule decides."""
    if not runs:
        return float("nan"), float("nan")
    low, high = stats.binomtest(hits, runs).proportion_ci(method="wilson")
    return float(low + high) / 2, float(high - low) / 2


def difference_interval(first: Runs, second: Runs) -> Interval:
    """The 95% interval of the mean of first - second over their common seeds, which are the first
    ones. The half width is NaN for a single one, so that no rule decides."""
    count = min(len(first), len(second))
    return mean_interval(np.asarray(first[:count], float) - np.asarray(second[:count], float))


def interval_text(interval: Interval, digits: int) -> str:
    """The text "centre ± half width", "centre (one seed)" without a half width, or "no value" if
    the runs do not determine the centre."""
    centre, half = interval
    if np.isnan(centre):
        return "no value"
    return f"{centre:.{digits}f} " + ("(one seed)" if np.isnan(half) else f"± {half:.{digits}f}")


def listed(values: Mapping[str, Any], digits: int = 3) -> str:
    """The text "label: value; ..." of {method: number, interval or text}."""

    def text(value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, tuple):
            return interval_text(value, digits)
        return f"{value:,.{digits}f}"

    return "; ".join(f"{label(name)} {text(value)}" for name, value in values.items())


# --- saved values


@functools.lru_cache(maxsize=32)
def _tables(folder: Path, changed: float) -> tidy.Results:
    return tidy.load(folder)


def tables(folder: Path) -> tidy.Results:
    """The tables and the provenance of a folder, read once. Raises Missing if they were not
    made."""
    if not tidy.is_complete(folder):
        raise Missing(f"{folder.parent.name}/{folder.name}")
    return _tables(folder, (folder / tidy.CURVES).stat().st_mtime)


def curves(folder: Path, metric: str, **where: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{algorithm: (t [P], values [S,P] of S seeds)} of a metric, of the runs whose columns have the
    values `where`, such as problem="f1"."""
    table = tables(folder).curves
    for column, value in where.items():
        table = table[table[column] == value]
    return tidy.lines(table, metric)


def curve(folder: Path, metric: str, algorithm: str, **where: Any) -> tuple[np.ndarray, np.ndarray]:
    """(t [P], values [S,P]) of a metric of an algorithm. Raises Missing if there is none."""
    found = curves(folder, metric, **where)
    if algorithm not in found:
        raise Missing(f"{metric} of {algorithm} in {folder.parent.name}/{folder.name}")
    return found[algorithm]


def values_at(folder: Path, metric: str, algorithm: str, t: float, **where: Any) -> np.ndarray:
    """The values [S] of a metric of an algorithm at t, between its points by a line. Raises Missing
    if its runs end before."""
    times, values = curve(folder, metric, algorithm, **where)
    if t > times[-1]:
        raise Missing(f"{algorithm} until t = {t:,} in {folder.parent.name}/{folder.name}")
    return np.array([np.interp(t, times, row) for row in values])


def finals(folder: Path, column: str, algorithm: str, **where: Any) -> np.ndarray:
    """The final numbers [S] of an algorithm, a column of summary.parquet, by seed. Raises Missing
    if there are none."""
    rows = tables(folder).summary
    for name, value in dict(algorithm=algorithm, **where).items():
        rows = rows[rows[name] == value]
    if rows.empty:
        raise Missing(f"runs of {algorithm} in {folder.parent.name}/{folder.name}")
    return rows.sort_values("seed")[column].to_numpy(float)


def minutes(folder: Path) -> float | None:
    """The minutes that the runs of a folder took, from its provenance: the whole command where it
    was measured, else the sum over its runs; None if neither was."""
    if not tidy.is_complete(folder):
        return None
    _, summary, provenance = tables(folder)
    if "minutes" in provenance:
        return float(provenance["minutes"])
    columns = [name for name in ("run_seconds", "compile_seconds") if name in summary]
    return float(summary[columns].sum().sum()) / 60 if "run_seconds" in columns else None


def load(folder: str | Path) -> Any:
    """The results in a folder, also those of an unfinished sweep, as an xarray Dataset with the
    dimensions setting, seed and t. A setting is a problem, an algorithm and the other columns that
    differ, which are coordinates; metrics [setting, seed, t] and final numbers [setting, seed] are
    variables, NaN where a run does not exist or has ended."""
    import xarray

    table, summary, provenance = tidy.load(folder)
    columns = [name for name in table if name not in ("seed", *tidy.POINT)]
    settings = summary[columns].drop_duplicates().reset_index(drop=True)
    numbers = settings.reset_index(names="setting")

    def indexed(rows: pd.DataFrame, index: list[str]) -> Any:
        plain = rows.astype({name: settings[name].dtype for name in columns})
        joined = plain.merge(numbers, on=columns).drop(columns=columns)
        return joined.set_index(index)

    metrics = indexed(table, ["setting", "seed", "t", "metric"])["value"].unstack("metric")
    final = [
        name
        for name in summary.select_dtypes("number").columns
        if name not in summary.attrs.get("configuration", [*columns, "seed"])
    ]
    lasts = indexed(summary[[*columns, "seed", *final]], ["setting", "seed"])
    data = xarray.merge([metrics.to_xarray(), lasts.to_xarray()])
    data = data.assign_coords({n: ("setting", settings[n].astype(object)) for n in columns})
    return data.assign_attrs(title=table.attrs.get("title", ""), finished="date" in provenance)

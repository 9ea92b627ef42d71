"""The tables of results. Every experiment and every sweep writes them.

A folder of results holds

    curves.parquet    a row for each run, metric and point t: problem, algorithm, ..., seed, t,
                      metric, value, and the configuration entries that differ between the runs
    summary.parquet   a row for each run: problem, algorithm, the rest of the configuration, seed,
                      and its final numbers
    summary.json      configuration, commit, versions, hardware, dtype, seeds, and statistics over
                      the seeds

Four lines draw a figure from the tables. A mean is NaN where a run of the mean ended early:

    curves = tidy.load("results/bbkb_2020/abalone").curves
    ratio = curves[curves.metric == "regret_ratio"]
    mean = lambda values: values.mean(skipna=False)
    ratio.groupby(["t", "algorithm"], observed=True).value.agg(mean).unstack().plot()

The runs of an unfinished sweep are read from their files, which are in runs/.

Parquet files carry the checksums of pages that the format defines, and a checksum of the whole
file, which older files lack and other readers ignore. `curves.attrs` holds the experiment, the
title of its figures, and a description of each metric.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.results import files, store

FILES = CURVES, SUMMARY, PROVENANCE = "curves.parquet", "summary.parquet", "summary.json"
CONFIGURATIONS = "configurations.json"  # in runs/ of a sweep: {name in files: columns of its runs}
RUN, POINT = ("problem", "algorithm", "seed"), ("t", "metric", "value")
METRICS = {
    "regret_ratio": "R_t / R_t^unif, cumulative regret over the expected one of the uniform policy",
    "simple_regret": "regret of the best arm evaluated so far",
    "mean_regret": "regret of the mean of all readings of the setting with the best reading so far",
    "rounds": "rounds (batches) started up to evaluation t",
    "batch_size": "evaluations in the batch of evaluation t",
    "dictionary": "inducing points (distinct arms, for exact posteriors) after the round of"
    " evaluation t",
    "seconds": "seconds up to t, without compilation: wall time; CPU time of all seeds together in"
    " beyond.contextual",
    "regret": "regret: of evaluation t in a box; cumulative up to example t in a stream, and up to"
    " round t with contexts",
    "y": "value observed at evaluation t",
    "average_loss": "mean squared loss of the predictions up to example t",
    "error_rate": "share of wrong signs up to example t",
    "size": "features or points of the forecaster at example t",
}


class Run(NamedTuple):
    """A run of an algorithm with one seed."""

    # it has the keys "problem" and "algorithm"; numbers, strings and flags become columns
    config: Mapping[str, Any]
    seed: int
    arrays: Mapping[str, np.ndarray]  # "t" [P], a curve [P] for each metric, and final numbers []


class Results(NamedTuple):
    """The tables and the provenance of a folder."""

    curves: pd.DataFrame
    summary: pd.DataFrame
    provenance: dict[str, Any]


def write(folder: Path, runs: Sequence[Run], experiment: str, title: str) -> None:
    """Writes the two tables. Raises ValueError if there are no runs, and if two runs have the same
    configuration and seed."""
    for name, table in zip(
        (CURVES, SUMMARY), described_tables(runs, experiment, title), strict=True
    ):
        write_table(folder / name, table)


def described_tables(
    runs: Sequence[Run], experiment: str, title: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables (curves, summary) of the runs, with their attributes."""
    curves, summary = tables(runs)
    metrics = {name: text for name, text in METRICS.items() if name in set(curves["metric"])}
    config_columns = {name for run in runs for name in (*_columns(run.config), "seed")}
    configuration = [name for name in summary.columns if name in config_columns]
    for table in (curves, summary):
        table.attrs = dict(
            experiment=experiment, title=title, metrics=metrics, configuration=configuration
        )
    return curves, summary


def tables(runs: Sequence[Run]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables (curves, summary) of the runs."""
    if not runs:
        raise ValueError("a table needs at least one run.")
    configs = _categories(
        pd.DataFrame([_columns(run.config) | dict(seed=run.seed) for run in runs])
    )
    if configs.duplicated().any():
        duplicate = configs[configs.duplicated()].iloc[0].to_dict()
        raise ValueError(f"two runs have the same configuration and seed: {duplicate}")
    final = pd.DataFrame(
        [{name: a.item() for name, a in run.arrays.items() if np.ndim(a) == 0} for run in runs]
    )
    pieces = [_points(row, run.arrays) for row, run in enumerate(runs)]
    points = {name: np.concatenate([piece[name] for piece in pieces]) for name in ("row", *POINT)}
    columns = [name for name in configs if name in RUN or configs[name].nunique(dropna=False) > 1]
    curves = configs[columns].iloc[points.pop("row")].reset_index(drop=True).assign(**points)
    return _categories(curves), pd.concat([configs, _categories(final)], axis=1)


def load(folder: str | Path) -> Results:
    """The tables and the provenance of a folder. Those of an unfinished sweep hold its finished
    runs. Raises FileNotFoundError if a file is missing, and ValueError if a file is damaged."""
    folder = Path(folder)
    if not is_complete(folder) and (folder / "runs" / CONFIGURATIONS).exists():
        return _load_unfinished(folder)
    for name in (CURVES, SUMMARY, PROVENANCE):
        if not (folder / name).exists():
            raise FileNotFoundError(f"the file {folder / name} of finished results is missing.")
    provenance = store.read_json(folder / PROVENANCE)
    return Results(read_table(folder / CURVES), read_table(folder / SUMMARY), provenance)


def is_complete(folder: Path) -> bool:
    """Whether a folder holds all files of finished results."""
    return all((folder / name).exists() for name in FILES)


def _load_unfinished(folder: Path) -> Results:
    """The tables of the finished runs of a sweep. Raises FileNotFoundError if there are none."""
    runs = [
        Run(config, int(path.stem.removeprefix(f"{name}-")), store.read_saved(path))
        for name, config in store.read_json(folder / "runs" / CONFIGURATIONS).items()
        for path in sorted((folder / "runs").glob(f"{name}-*.npz"))
    ]
    if not runs:
        raise FileNotFoundError(f"{folder} holds a sweep of which no run is finished.")
    curves, summary = described_tables(runs, "sweep", "the finished runs of an unfinished sweep")
    config = store.read_json(folder / "runs" / "sweep.json")
    return Results(curves, summary, dict(config=config, finished=False))


def write_csv(
    path: Path, rows: pd.DataFrame | Sequence[Sequence[Any]], head: Sequence[str] | None = None
) -> None:
    """Writes rows as a CSV table; `head`: the names of the columns, unless `rows` has them."""
    table = pd.DataFrame(rows, columns=head)
    files.write(path, table.to_csv(index=False, lineterminator="\n").encode())


def runs_of(config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Run]:
    """The runs of an algorithm, one for each seed from 0 on, from their arrays."""
    return [Run(config, seed, arrays) for seed, arrays in enumerate(rows)]


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Writes a Parquet table with checksums."""
    buffer = io.BytesIO()
    # floats compress better when their first bytes are stored together, then their second ones, ...
    byte_split_columns = [name for name in table if name == "value"]
    table.to_parquet(
        buffer,
        index=False,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in table if name not in byte_split_columns],
        use_byte_stream_split=byte_split_columns,
        write_page_checksum=True,
    )
    content = buffer.getvalue()
    # page checksums do not cover the footer, which has the names and types of the columns: the
    # checksum of the whole file is inserted between the last page and the footer
    # (the last 8 bytes are the size of the footer and the letters PAR1)
    footer_start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    files.write(path, files.with_checksum(content, at=footer_start))


def read_table(path: Path) -> pd.DataFrame:
    """A Parquet table. Raises ValueError if the file is damaged."""
    content = path.read_bytes()
    files.check_checksum(path, content)
    try:
        return pd.read_parquet(io.BytesIO(content), page_checksum_verification=True)
    except Exception as error:
        # damaged bytes raise many kinds of errors in pyarrow
        raise ValueError(f"{path} is damaged ({error}).") from error


def load_all(root: str | Path) -> Results:
    """The results of all folders under `root`. The tables are concatenated and have a column
    `folder`; the provenance is {folder: its provenance}."""
    folders = sorted(path.parent for path in Path(root).rglob(CURVES))
    if not folders:
        raise FileNotFoundError(f"there are no results under {root}: no {CURVES}.")
    results = {folder.relative_to(root).as_posix(): load(folder) for folder in folders}
    curves = [r.curves.assign(folder=name) for name, r in results.items()]
    summaries = [r.summary.assign(folder=name) for name, r in results.items()]
    return Results(
        pd.concat(curves, ignore_index=True),
        pd.concat(summaries, ignore_index=True),
        {name: r.provenance for name, r in results.items()},
    )


def lines(
    curves: pd.DataFrame, metric: str, by: str = "algorithm"
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{algorithm: (t [P], values [S,P])} of a metric, in the order of the table. The functions of
    `experiments.figures.plots` draw such dicts."""
    rows = curves[curves["metric"] == metric]
    arrays = {}
    for name in rows[by].unique():
        table = rows[rows[by] == name].pivot(index="seed", columns="t", values="value")
        arrays[str(name)] = (table.columns.to_numpy(), table.to_numpy())
    return arrays


def _columns(config: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a configuration, problem and algorithm first. Lists and None are only in the
    JSON file."""
    types, items = bool | int | float | str, config.items()
    scalars = {n: value for n, value in items if n != "seed" and isinstance(value, types)}
    return {name: scalars[name] for name in ("problem", "algorithm")} | scalars


def _points(row: int, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows of a run in the table of curves, as columns."""
    t = arrays["t"]
    metrics = [name for name, a in arrays.items() if name != "t" and np.ndim(a) == 1]
    values = [np.asarray(arrays[name], float) for name in metrics]
    return dict(
        row=np.full(len(t) * len(metrics), row),
        t=np.tile(t, len(metrics)),
        metric=np.repeat(np.array(metrics, str), len(t)),
        value=np.concatenate(values) if metrics else np.zeros(0),
    )


def _categories(table: pd.DataFrame) -> pd.DataFrame:
    """Stores strings as categories, because the same few strings fill a column."""
    text_columns = [
        name
        for name in table
        if isinstance(table[name].dtype, pd.StringDtype | np.dtypes.ObjectDType)
    ]
    return table.astype({name: "category" for name in text_columns})

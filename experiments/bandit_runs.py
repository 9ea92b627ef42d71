"""The runs of a bandit experiment: seeds side by side, resumed where they were interrupted, summarised and drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from experiments import plots, results
from jsketch import loops

POINTS = 400  # points of a saved curve
REPORTS = 50  # progress reports of a run
SUMMARY_FIELDS = ("final_regret_ratio", "batches", "dictionary_size", "run_seconds", "compile_seconds")

Config = dict[str, Any]
Runs = dict[str, list[dict[str, np.ndarray]]]


def grid(horizon: int) -> np.ndarray:
    """The evaluations [P] at which curves are saved: evenly spaced, with more at the start for log axes."""
    count = min(POINTS // 2, horizon)
    even = np.linspace(1, horizon, count)
    early = np.geomspace(1, horizon, count)
    return np.unique(np.concatenate([even, early]).astype(int))


def run_chunk(
    bandit: Any,
    problem: Any,
    seeds: list[int],
    config: Config,
    folder: Path,
    bar: tqdm,
    states: Callable[[int], Any] | None = None,
) -> None:
    """Runs some seeds side by side, in one call, and saves each; `states` makes the state that a seed starts from."""
    keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(config["root_seed"]), s))(jnp.asarray(seeds))
    times: list[tuple[float, float]] = []

    def progress(evaluations: int, seconds: float) -> None:
        times.append((evaluations / len(seeds), seconds))
        bar.n = evaluations
        bar.refresh()

    result = loops.run_seeds(
        bandit,
        problem,
        keys,
        config["horizon"],
        workers=config["seeds_side_by_side"],
        on_progress=progress,
        reports=REPORTS,
        states=None if states is None else [states(seed) for seed in seeds],
    )
    points = grid(config["horizon"]) - 1
    ratios = np.asarray(loops.regret_ratio(result.trace.regret, problem.mean_reward))
    simple = np.minimum.accumulate(np.asarray(result.trace.regret), axis=1)
    time_at, time_seconds = np.array(times).T
    for row, seed in enumerate(seeds):
        arrays = dict(
            t=points + 1,
            regret_ratio=ratios[row, points].astype(np.float32),
            simple_regret=simple[row, points].astype(np.float32),
            rounds=np.asarray(result.trace.round[row, points], np.int32) + 1,
            batch_size=np.asarray(result.trace.batch_size[row, points], np.int32),
            seconds=np.interp(points + 1, time_at, time_seconds).astype(np.float32),
            final_regret_ratio=ratios[row, -1],
            batches=np.asarray(result.trace.round[row, -1]) + 1,
            dictionary_size=np.asarray(result.trace.dictionary_size[row, -1]),
            run_seconds=np.asarray(result.run_seconds),
            compile_seconds=np.asarray(result.compile_seconds if row == 0 else 0.0),
        )
        results.write_npz(results.run_path(folder, config["algorithm"], seed), arrays)


def run_algorithm(
    name: str,
    bandit: Any,
    problem: Any,
    config: Config,
    folder: Path,
    seeds: int,
    states: Callable[[int], Any] | None = None,
) -> list[dict[str, np.ndarray]]:
    """All seeds of one algorithm, those already saved in the folder included."""
    results.claim(folder, name, config)
    missing = [s for s in range(seeds) if not results.run_path(folder, name, s).exists()]
    if len(missing) < seeds:
        print(f"{name}: {seeds - len(missing)} of {seeds} seeds are already done")
    workers = config["seeds_side_by_side"]
    for begin in range(0, len(missing), workers):
        chunk = missing[begin : begin + workers]
        label = f"{name}, seeds {chunk[0] + 1}-{chunk[-1] + 1} of {seeds}"
        with tqdm(total=len(chunk) * config["horizon"], desc=label, unit="eval", unit_scale=True) as bar:
            run_chunk(bandit, problem, chunk, config, folder, bar, states)
    return [results.read_run(folder, name, s) for s in range(seeds)]


def summarise(runs: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """What summary.json says of one algorithm."""
    column = {field: np.array([float(run[field]) for run in runs]) for field in SUMMARY_FIELDS}
    return dict(
        regret_ratio=results.describe(column["final_regret_ratio"], ci=True),
        batches=results.describe(column["batches"]),
        dictionary_size=results.describe(column["dictionary_size"]),
        run_seconds=float(column["run_seconds"].mean()),
        compile_seconds=float(column["compile_seconds"].sum()),
    )


def draw(folder: Path, runs: Runs, title: str, horizon: int, side_by_side: int) -> None:
    """regret_ratio.png, time.png, batch_size.png and traces.npz."""

    def curves(field: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {name: (rows[0]["t"], np.stack([row[field] for row in rows])) for name, rows in runs.items()}

    def timed() -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Without what lies before the first progress report, where nothing was measured."""
        measured = grid(horizon) >= horizon / REPORTS
        return {name: (t[measured], values[:, measured]) for name, (t, values) in curves("seconds").items()}

    plots.regret_ratio(folder / "regret_ratio.png", curves("regret_ratio"), title)
    plots.run_time(folder / "time.png", timed(), title, side_by_side)
    plots.batch_size(folder / "batch_size.png", curves("batch_size"), title)
    fields = ("t", "regret_ratio", "batch_size", "seconds")
    arrays = {
        f"{name}/{f}": np.stack([row[f] for row in rows]) for name, rows in runs.items() for f in fields[1:]
    }
    arrays |= {f"{name}/t": rows[0]["t"] for name, rows in runs.items()}
    results.write_npz(folder / "traces.npz", arrays)


def print_table(summary: dict[str, Any]) -> None:
    """Final regret ratio, batches, dictionary size and seconds of every algorithm."""
    print(
        f"\n{'algorithm':18s} {'R_T / R_T^unif':>18s} {'batches':>9s} {'dictionary':>10s} {'run s':>8s} {'compile s':>9s}"
    )
    for name, row in summary.items():
        ci = row["regret_ratio"]["ci95"]
        interval = f"+- {ci:.4f}" if ci is not None else ""
        print(
            f"{name:18s} {row['regret_ratio']['mean']:8.4f} {interval:>9s} {row['batches']['mean']:9.1f} "
            f"{row['dictionary_size']['mean']:10.1f} {row['run_seconds']:8.2f} {row['compile_seconds']:9.2f}"
        )

"""Figures 1 and 2 of the BBKB paper: regret ratio and run time on Abalone or Cadata, and batch sizes.

    python -m experiments.bbkb_2020.regret --dataset abalone --seeds 10 --out out/abalone

Preprocessing and hyperparameters of Section 5 and Appendix D.1: features z-scored, rewards scaled to [0, 1], noise 0.01,
F = 1, delta = 1/T, q_bar = 2, the lengthscales of Table 1. What the paper does not state is listed under "chosen" in the
saved configuration. A run that was interrupted goes on with the seeds that are missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from experiments import data, plots, results
from experiments.compile_cache import use_compile_cache
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, BKB, GPUCB, EpsGreedy, Uniform

# Table 1 of the paper; eps_greedy is not in it and takes GP-UCB's (chosen)
LENGTHSCALES = {
    "abalone": dict(eps_greedy=5.0, gp_ucb=5.0, bkb=17.5, bbkb_global=17.5, bbkb_global_local=17.5),
    "cadata": dict(eps_greedy=12.5, gp_ucb=12.5, bkb=12.5, bbkb_global=12.5, bbkb_global_local=12.5),
}
CHOSEN = ["regularization", "ratio", "epsilon", "lengthscale of eps_greedy", "features z-scored"]
POINTS = 400  # points of a saved curve
REPORTS = 50  # progress reports of a run

Config = dict[str, Any]


def _gp(c: Config) -> dict[str, Any]:
    return dict(kernel=kernels.Gaussian(c["lengthscale"]), regularization=c["regularization"])


def _optimistic(c: Config) -> dict[str, Any]:
    return dict(_gp(c), noise_std=c["noise_std"], norm_bound=c["norm_bound"], delta=c["delta"])


def _batched(c: Config, rule: str) -> BBKB:
    return BBKB(
        **_optimistic(c), qbar=c["qbar"], ratio=c["ratio"], rule=rule, max_batch=max(10_000, c["horizon"])
    )


ALGORITHMS: dict[str, Callable[[Config], Any]] = {
    "uniform": lambda c: Uniform(),
    "gp_ucb": lambda c: GPUCB(**_optimistic(c)),
    "bkb": lambda c: BKB(**_optimistic(c), qbar=c["qbar"]),
    "bbkb_global": lambda c: _batched(c, "global"),
    "bbkb_global_local": lambda c: _batched(c, "global_local"),
    "eps_greedy": lambda c: EpsGreedy(**_gp(c), epsilon=c["epsilon"]),
}


def configure(name: str, options: argparse.Namespace) -> Config:
    """The configuration of one algorithm: everything that its results depend on."""
    noise_std = 0.01
    lengthscale = options.lengthscale
    if lengthscale is None:
        lengthscale = LENGTHSCALES[options.dataset].get(name, 1.0)
    return dict(
        dataset=options.dataset,
        algorithm=name,
        horizon=options.horizon,
        lengthscale=lengthscale,
        noise_std=noise_std,
        regularization=options.regularization or noise_std**2,
        norm_bound=1.0,
        delta=1 / options.horizon if options.horizon > 1 else 0.5,
        qbar=options.qbar,
        ratio=options.ratio,
        epsilon=options.epsilon,
        root_seed=0,
        seeds_side_by_side=options.workers,
        chosen=CHOSEN,
    )


def grid(horizon: int) -> np.ndarray:
    """The evaluations [P] at which curves are saved: evenly spaced, with more at the start for log axes."""
    count = min(POINTS // 2, horizon)
    even = np.linspace(1, horizon, count)
    early = np.geomspace(1, horizon, count)
    return np.unique(np.concatenate([even, early]).astype(int))


def run_chunk(bandit: Any, problem: Any, seeds: list[int], config: Config, folder: Path, bar: tqdm) -> None:
    """Runs some seeds side by side, in one call, and saves each."""
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
    )
    points = grid(config["horizon"]) - 1
    ratios = np.asarray(loops.regret_ratio(result.trace.regret, problem.mean_reward))
    time_at, time_seconds = np.array(times).T
    for row, seed in enumerate(seeds):
        arrays = dict(
            t=points + 1,
            regret_ratio=ratios[row, points].astype(np.float32),
            batch_size=np.asarray(result.trace.batch_size[row, points], np.int32),
            seconds=np.interp(points + 1, time_at, time_seconds).astype(np.float32),
            final_regret_ratio=ratios[row, -1],
            batches=np.asarray(result.trace.round[row, -1]) + 1,
            dictionary_size=np.asarray(result.trace.dictionary_size[row, -1]),
            run_seconds=np.asarray(result.run_seconds),
            compile_seconds=np.asarray(result.compile_seconds if row == 0 else 0.0),
        )
        results.write_npz(results.run_path(folder, config["algorithm"], seed), arrays)


def run_algorithm(name: str, problem: Any, options: argparse.Namespace) -> list[dict[str, np.ndarray]]:
    """All seeds of one algorithm, those already saved included."""
    config = configure(name, options)
    results.claim(options.out, name, config)
    missing = [s for s in range(options.seeds) if not results.run_path(options.out, name, s).exists()]
    if len(missing) < options.seeds:
        print(f"{name}: {options.seeds - len(missing)} of {options.seeds} seeds are already done")
    bandit = ALGORITHMS[name](config)
    for begin in range(0, len(missing), options.workers):
        chunk = missing[begin : begin + options.workers]
        label = f"{name}, seeds {chunk[0] + 1}-{chunk[-1] + 1} of {options.seeds}"
        with tqdm(total=len(chunk) * options.horizon, desc=label, unit="eval", unit_scale=True) as bar:
            run_chunk(bandit, problem, chunk, config, options.out, bar)
    return [results.read_run(options.out, name, s) for s in range(options.seeds)]


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


SUMMARY_FIELDS = ("final_regret_ratio", "batches", "dictionary_size", "run_seconds", "compile_seconds")


def draw(folder: Path, runs: dict[str, list[dict[str, np.ndarray]]], options: argparse.Namespace) -> None:
    """The three figures and traces.npz."""

    def curves(field: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {name: (rows[0]["t"], np.stack([row[field] for row in rows])) for name, rows in runs.items()}

    def timed() -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Without what lies before the first progress report, where nothing was measured."""
        measured = grid(options.horizon) >= options.horizon / REPORTS
        return {name: (t[measured], values[:, measured]) for name, (t, values) in curves("seconds").items()}

    title = f"{options.dataset}, {options.seeds} seeds, mean and 95% interval"
    plots.regret_ratio(folder / "regret_ratio.png", curves("regret_ratio"), title)
    plots.run_time(folder / "time.png", timed(), title, min(options.workers, options.seeds))
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


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", choices=sorted(LENGTHSCALES), default="abalone")
    parser.add_argument("--horizon", type=int, default=10_000, help="evaluations a run (default 10000)")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS), default=list(ALGORITHMS))
    parser.add_argument(
        "--lengthscale", type=float, help="one for all algorithms (default: the paper's Table 1)"
    )
    parser.add_argument("--regularization", type=float, help="default noise_std^2 = 1e-4 (chosen)")
    parser.add_argument("--ratio", type=float, default=2.0, help="C of BBKB (chosen)")
    parser.add_argument("--qbar", type=float, default=2.0)
    parser.add_argument("--epsilon", type=float, default=0.05, help="of eps_greedy (chosen)")
    parser.add_argument("--workers", type=int, default=results.usable_cores(), help="seeds side by side")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--data-dir", help="folder of the data sets")
    options = parser.parse_args()
    for name in ("horizon", "seeds", "workers"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1; {getattr(options, name)} was given")
    return options


def main() -> None:
    options = parse()
    jax.config.update("jax_enable_x64", True)
    use_compile_cache()
    try:
        dataset = data.load(options.dataset, options.data_dir)
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
    print(f"data: {dataset.source} (real), {len(dataset.target)} arms")
    problem = problems.finite_arms(*data.preprocess(dataset), noise_std=0.01)
    try:
        runs = {name: run_algorithm(name, problem, options) for name in options.algorithms}
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error
    summary = dict(
        config={name: configure(name, options) for name in options.algorithms},
        seeds=options.seeds,
        data=dataset.source,
        uniform_regret="expectation t (f* - mean f)",
        run_seconds=f"wall time of a run without compilation, {min(options.workers, options.seeds)} seeds side by side",
        compile_seconds="sum over the calls; a warm persistent cache makes it small",
        **results.environment(),
        algorithms={name: summarise(rows) for name, rows in runs.items()},
    )
    results.write_json(options.out / "summary.json", summary)
    draw(options.out, runs, options)
    print_table(summary["algorithms"])
    print(f"\nsummary.json, traces.npz, regret_ratio.png, time.png and batch_size.png are in {options.out}")


if __name__ == "__main__":
    main()

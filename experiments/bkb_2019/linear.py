"""BKB with a linear kernel against SOFUL, CBRAP and exact GP-UCB, on linear rewards (BKB, Sections
1 and 5).

    python -m experiments.bkb_2019.linear --spectrum slow --out out/linear_slow  # or fast, low_rank

The data are generated: Gaussian arms whose covariance has, in a random basis, the eigenvalues
k^-1/4 ("slow"), 0.4^k ("fast") or 1 for k <= 8 and 0 beyond ("low_rank"), the largest arm scaled to
norm 1, rewards x.theta with theta uniform on the unit sphere. The paper has no such experiment;
everything here is chosen. A flat curve of the regret ratio is linear regret. An interrupted run
resumes with the missing seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.figures import plots
from experiments.results import environment, outputs, summaries, tidy
from experiments.runs import bandit_runs
from experiments.runs.bandit_runs import Config, Runs
from jsketch import kernels, problems
from jsketch.bandits import BKB, GPUCB, Uniform, widths
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL

ARMS, INPUTS = 500, 40
NOISE_STD = 0.03
SPECTRA: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "slow": lambda k: k**-0.25,
    "fast": lambda k: 0.4**k,
    "low_rank": lambda k: np.where(k <= 8, 1.0, 0.0),
}
CHOSEN = ["everything: the paper has no linear experiment"]


def _assumed(c: Config) -> dict[str, Any]:
    return {name: c[name] for name in ("regularization", "noise_std", "norm_bound", "delta")}


def _soful(c: Config, **options: Any) -> SOFUL:
    return SOFUL(**_assumed(c), **dict(size=c["size"]) | options)


ALGORITHMS: dict[str, Callable[[Config], Any]] = {
    "uniform": lambda c: Uniform(),
    "gp_ucb": lambda c: GPUCB(kernels.Linear(), **_assumed(c)),
    "bkb": lambda c: BKB(kernels.Linear(), **_assumed(c), qbar=c["qbar"]),
    # the width of its competitors: that of GP-UCB, from the sketch's own log-determinant
    "bkb_logdet": lambda c: BKB(
        kernels.Linear(), **_assumed(c), qbar=c["qbar"], width=widths.gp_ucb_code
    ),
    # the width of the theorem
    "bkb_theory": lambda c: BKB(
        kernels.Linear(), **_assumed(c), qbar=c["qbar"], width=widths.bkb_paper
    ),
    "soful": _soful,
    "soful_full": lambda c: _soful(c, size=INPUTS),
    "soful_paper": lambda c: _soful(c, width=widths.soful_paper),
    "soful_ts": lambda c: _soful(c, form="ts", scale=c["ts_scale"]),
    "cbrap": lambda c: CBRAP(**_assumed(c), size=c["size"]),
}


def generate(spectrum: str) -> problems.GaussianArms:
    """The problem, the same for all seeds of the runs."""
    x_key, basis_key, theta_key = jax.random.split(jax.random.key(1), 3)
    eigenvalues = jnp.asarray(SPECTRA[spectrum](np.arange(1.0, INPUTS + 1)))
    basis = jnp.linalg.qr(jax.random.normal(basis_key, (INPUTS, INPUTS)))[0]
    x = jax.random.normal(x_key, (ARMS, INPUTS)) * jnp.sqrt(eigenvalues)[None, :] @ basis
    x = x / jnp.sqrt(jnp.square(x).sum(1).max())
    theta = jax.random.normal(theta_key, (INPUTS,))
    return problems.finite_arms(x, x @ (theta / jnp.sqrt(jnp.square(theta).sum())), NOISE_STD)


def configure(name: str, options: argparse.Namespace) -> Config:
    """The configuration of one algorithm: everything that its results depend on."""
    return dict(
        algorithm=name,
        spectrum=options.spectrum,
        arms=ARMS,
        inputs=INPUTS,
        horizon=options.horizon,
        size=options.size,
        noise_std=NOISE_STD,
        regularization=options.regularization,
        norm_bound=1.0,
        delta=1 / options.horizon if options.horizon > 1 else 0.5,
        qbar=2.0,
        ts_scale=0.1,
        root_seed=0,
        seeds_side_by_side=options.workers,
        chosen=CHOSEN,
    )


def run_all(problem: Any, options: argparse.Namespace) -> Runs:
    """All algorithms and seeds, saved in the folder. Raises ValueError on a mistake."""
    runs = {}
    for name in options.algorithms:
        config = configure(name, options)
        bandit = ALGORITHMS[name](config)
        runs[name] = bandit_runs.run_algorithm(
            name, bandit, problem, config, options.out, options.seeds
        )
    return runs


def exponents(runs: list[dict[str, np.ndarray]]) -> list[float]:
    """log2 of R_T / R_{T/2}, the slope of log regret at the end of every run: 1 is linear regret,
    1/2 that of the theory."""
    found = []
    for run in runs:
        total = run["regret_ratio"] * run["t"]
        half = np.interp(run["t"][-1] / 2, run["t"], total)
        found.append(float(np.log2(total[-1] / half)))
    return found


def summarise(rows: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """What summary.json says of one algorithm."""
    return bandit_runs.summarise(rows) | dict(
        regret_exponent=summaries.describe(exponents(rows), ci=True)
    )


def draw(folder: Path) -> None:
    """regret_ratio.png from the tables in the folder."""
    curves = tidy.load(folder).curves
    plots.regret_ratio(
        folder / "regret_ratio.png", tidy.lines(curves, "regret_ratio"), curves.attrs["title"]
    )


def parse() -> argparse.Namespace:
    parser = cli.parser(__doc__)
    parser.add_argument("--spectrum", choices=list(SPECTRA), default="slow")
    parser.add_argument(
        "--size", type=cli.count, default=10, help="m, the fixed sketch of SOFUL and CBRAP"
    )
    parser.add_argument(
        "--regularization",
        type=float,
        default=0.1,
        help="default 0.1; a smaller one is harder on SOFUL",
    )
    parser.add_argument(
        "--horizon", type=cli.count, default=5_000, help="evaluations a run (default 5000)"
    )
    parser.add_argument("--seeds", type=cli.count, default=10)
    parser.add_argument(
        "--algorithms", nargs="+", choices=list(ALGORITHMS), default=list(ALGORITHMS)
    )
    parser.add_argument(
        "--workers", type=cli.count, default=environment.usable_cores(), help="seeds side by side"
    )
    cli.add_out_folder(parser)
    options = parser.parse_args()
    if not options.regularization > 0:
        parser.error(f"--regularization must be above 0; {options.regularization} was given")
    return options


@cli.line
def main() -> None:
    options = parse()
    cli.set_up_jax()
    print(f"data: generated, {options.spectrum} spectrum, {ARMS} arms in {INPUTS} dimensions")
    problem = generate(options.spectrum)
    configs = {name: configure(name, options) for name in options.algorithms}
    with outputs.opened(options, "bkb_2019.linear", configs, options.seeds) as opened:
        runs = run_all(problem, options)
        summary = dict(
            config=configs,
            seeds=options.seeds,
            data="generated",
            uniform_regret="expectation t (f* - mean f)",
            regret_exponent="log2(R_T / R_{T/2}); 1 is linear regret",
            run_seconds="wall time of a run without compilation,"
            f" {min(options.workers, options.seeds)} seeds side by side",
            compile_seconds="sum over the calls; a warm persistent cache makes it small",
            **environment.describe(),
            algorithms={name: summarise(rows) for name, rows in runs.items()},
        )
        title = (
            f"generated linear rewards, {options.spectrum} spectrum, d = {INPUTS}, m ="
            f" {options.size}, {options.seeds} seeds"
        )
        table = bandit_runs.tidy_runs(f"linear_{options.spectrum}", configs, runs)
        opened.finish(summary, table, title)
        draw(options.out)
    bandit_runs.print_table(summary["algorithms"])
    print("\nexponent of the regret between T/2 and T")
    for name, row in summary["algorithms"].items():
        print(f"{name:18s} {row['regret_exponent']['mean']:.3f}")
    print(
        "\nsummary.json, the tables (curves, summary .parquet) and regret_ratio.png are in"
        f" {options.out}"
    )


if __name__ == "__main__":
    main()

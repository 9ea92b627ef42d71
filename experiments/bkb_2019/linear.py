"""Linear bandits (Sections 1 and 5 of the BKB paper): BKB with a linear kernel against SOFUL, CBRAP
and exact GP-UCB.

    python -m experiments.bkb_2019.linear --spectrum slow --out out/linear_slow  # or fast, low_rank

The data are generated. The covariance of the Gaussian arms has, in a random basis, the eigenvalues
k^-1/4 ("slow"), 0.4^k ("fast") or 1 for k <= 8 and 0 beyond ("low_rank"); the largest arm has norm
1. Rewards are x.theta with theta uniform on the unit sphere. The paper has no such experiment, so
all settings are our own choice.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.figures import plots
from experiments.results import outputs, summaries, tidy
from experiments.runs import bandit_runs
from experiments.runs.bandit_runs import Config
from jsketch import kernels, problems
from jsketch.bandits import BKB, GPUCB, Draw, Uniform, widths
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL

N_ARMS, DIMENSION = 500, 40
SKETCH_SIZE = 10  # m, of SOFUL and CBRAP
NOISE_STD = 0.03
SPECTRA: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "slow": lambda k: k**-0.25,
    "fast": lambda k: 0.4**k,
    "low_rank": lambda k: np.where(k <= 8, 1.0, 0.0),
}
# settings that the paper leaves open
CHOSEN_SETTINGS = ["everything: the paper has no linear experiment"]


def _assumptions(c: Config) -> dict[str, Any]:
    return {name: c[name] for name in ("regularization", "noise_std", "norm_bound", "delta")}


def _bkb(c: Config, **options: Any) -> BKB:
    sketch = dict(qbar=c["qbar"], dictionary=Draw())
    return BKB(kernels.Linear(), **_assumptions(c), **sketch, **options)


def _soful(c: Config, **options: Any) -> SOFUL:
    return SOFUL(**_assumptions(c), **dict(size=c["size"]) | options)


ALGORITHMS: dict[str, Callable[[Config], Any]] = {
    "uniform": lambda c: Uniform(),
    "gp_ucb": lambda c: GPUCB(kernels.Linear(), **_assumptions(c)),
    "bkb": _bkb,
    # the formula of GP-UCB's and SOFUL's widths, with the log-determinant of the sketched posterior
    "bkb_logdet": lambda c: _bkb(c, width=widths.gp_ucb_code),
    "bkb_theory": lambda c: _bkb(c, width=widths.bkb_paper),  # Theorem 4.1
    "soful": _soful,
    "soful_full": lambda c: _soful(c, size=DIMENSION),
    "soful_paper": lambda c: _soful(c, width=widths.soful_paper),
    "soful_ts": lambda c: _soful(c, form="ts", scale=c["ts_scale"]),
    "cbrap": lambda c: CBRAP(**_assumptions(c), size=c["size"]),
}


def generate(spectrum: str) -> problems.GaussianArms:
    """The problem whose arms have the given spectrum. It is the same for all seeds."""
    x_key, basis_key, theta_key = jax.random.split(jax.random.key(1), 3)
    eigenvalues = jnp.asarray(SPECTRA[spectrum](np.arange(1.0, DIMENSION + 1)))
    basis = jnp.linalg.qr(jax.random.normal(basis_key, (DIMENSION, DIMENSION)))[0]
    x = jax.random.normal(x_key, (N_ARMS, DIMENSION)) * jnp.sqrt(eigenvalues)[None, :] @ basis
    x = x / jnp.sqrt(jnp.square(x).sum(1).max())
    theta = jax.random.normal(theta_key, (DIMENSION,))
    theta = theta / jnp.sqrt(jnp.square(theta).sum())
    return problems.finite_arms(x, x @ theta, NOISE_STD)


def configure(name: str, options: argparse.Namespace) -> Config:
    """The configuration of one algorithm: everything that its results depend on."""
    return dict(
        algorithm=name,
        spectrum=options.spectrum,
        arms=N_ARMS,
        inputs=DIMENSION,
        horizon=options.horizon,
        size=SKETCH_SIZE,
        noise_std=NOISE_STD,
        regularization=options.regularization,
        norm_bound=1.0,
        delta=1 / options.horizon if options.horizon > 1 else 0.5,
        qbar=2.0,
        ts_scale=options.ts_scale,
        root_seed=0,
        seeds_side_by_side=options.workers,
        chosen=CHOSEN_SETTINGS,
    )


def exponent(run: dict[str, np.ndarray]) -> float:
    """log2 of R_T / R_{T/2}, the slope of log R_t against log t at the end of a run. It is 1 for
    linear regret, and 1/2 for the rate sqrt(T) of the theorems."""
    regret = run["regret_ratio"] * run["t"]  # R_t divided by a constant
    return float(np.log2(regret[-1] / np.interp(run["t"][-1] / 2, run["t"], regret)))


def draw(folder: Path) -> None:
    curves = tidy.load(folder).curves
    plots.regret_ratio(
        folder / "regret_ratio.png", tidy.lines(curves, "regret_ratio"), curves.attrs["title"]
    )


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, horizon=5_000, seeds=10, workers=1)
    parser.add_argument("--spectrum", choices=list(SPECTRA), default="slow")
    parser.add_argument("--regularization", type=cli.positive, default=0.1, help="default 0.1")
    help_text = "factor that multiplies the width of SOFUL-TS (default 0.1)"
    parser.add_argument("--ts-scale", type=cli.positive, default=0.1, help=help_text)
    bandit_runs.add_options(parser, list(ALGORITHMS))
    options = cli.parse(parser)
    print(f"data: generated, {options.spectrum} spectrum, {N_ARMS} arms in {DIMENSION} dimensions")
    problem = generate(options.spectrum)
    configs = {name: configure(name, options) for name in options.algorithms}
    with outputs.results_folder(options, "bkb_2019.linear", configs, options.seeds) as results:
        seeds, problem_name = bandit_runs.seeds_of(options), f"linear_{options.spectrum}"
        runs, algorithms, table = bandit_runs.run_all(
            lambda name, config: ALGORITHMS[name](config),
            *(problem, problem_name, configs, options.out, seeds),
        )
        for name, rows in runs.items():
            exponents = summaries.statistics([exponent(row) for row in rows], ci=True)
            algorithms[name]["regret_exponent"] = exponents
        summary = dict(
            config=configs,
            **bandit_runs.shared_fields(options, "generated"),
            regret_exponent="log2(R_T / R_{T/2}); 1 is linear regret",
            algorithms=algorithms,
        )
        title = f"generated linear rewards, {options.spectrum} spectrum, d = {DIMENSION},"
        title += f" m = {SKETCH_SIZE}, {bandit_runs.seeds_text(options)}"
        results.write(summary, table, title)
        draw(options.out)
    summaries.print_table(title, algorithms)

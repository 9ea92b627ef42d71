"""BKB, Sections 1 and 5: linear bandits, BKB with a linear kernel against SOFUL and CBRAP.

The paper says that a sketch or projection of fixed size has linear regret if the spectrum of the
arms decays too slowly for it, and that BKB adapts the size of its dictionary. It has no such
experiment, so all settings are our own. The data are generated: the covariance of 500 Gaussian arms
in 40 dimensions has, in a random basis, the eigenvalues k^-1/4 ("slow"), 0.4^k ("fast") or 1 for
k <= 8 and 0 beyond ("low_rank"); the largest arm has norm 1. Rewards are x.theta with theta uniform
on the unit sphere. SOFUL and CBRAP have sketches of size 10.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import common
from experiments.common import Options, Settings, Verdict
from experiments.figures import plots
from experiments.runs import bandit_runs
from experiments.runs.bandit_runs import Config
from jsketch import kernels, problems
from jsketch.bandits import BKB, GPUCB, Draw, Uniform, widths
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL

N_ARMS, DIMENSION, NOISE_STD = 500, 40, 0.03
SPECTRA: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "slow": lambda k: k**-0.25,
    "fast": lambda k: 0.4**k,
    "low_rank": lambda k: np.where(k <= 8, 1.0, 0.0),
}


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

# ts_scale multiplies the width of SOFUL-TS: a tenth of it, and in the folders "..._ts" all of it
SLOW: Settings = dict(spectrum="slow", regularization=0.1, horizon=5_000, ts_scale=0.1, seeds=10)
SLOW |= dict(algorithms=tuple(ALGORITHMS))
FULL_TS: Settings = dict(ts_scale=1.0, algorithms=("soful_ts",))
PROBLEMS: dict[str, Settings] = {
    "linear_slow": SLOW,
    "linear_fast": SLOW | dict(spectrum="fast"),
    "linear_low_rank": SLOW | dict(spectrum="low_rank"),
    # lambda = noise squared, which the tail of the spectrum exceeds
    "linear_fast_small_regularization": SLOW | dict(spectrum="fast", regularization=9e-4),
}
LONG = dict(horizon=80_000, algorithms=("cbrap", "soful"), seeds=100, fewer=dict(soful=10))
RUNS: dict[str, Settings] = {f"bkb_2019/{name}": s for name, s in PROBLEMS.items()}
RUNS |= {f"bkb_2019/{name}_ts": s | FULL_TS for name, s in PROBLEMS.items()}
RUNS |= {"bkb_2019/linear_slow_long": SLOW | LONG}
QUICK: Settings = dict(horizon=60, seeds=2, algorithms=("bkb", "soful"))


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


def run(folder: Path, settings: Settings, options: Options) -> None:
    shared = {
        name: settings[name] for name in ("spectrum", "horizon", "regularization", "ts_scale")
    }
    shared |= dict(size=10, noise_std=NOISE_STD, norm_bound=1.0, qbar=2.0, root_seed=0)
    configs = {
        name: dict(algorithm=name, delta=1 / settings["horizon"]) | shared
        for name in settings["algorithms"]
    }
    group = bandit_runs.Group(
        generate(settings["spectrum"]),
        configs,
        lambda name, c: ALGORITHMS[name](c),
        bandit_runs.seeds_by_algorithm(settings),
    )
    groups = {f"linear_{settings['spectrum']}": group}
    title = f"generated linear rewards, {settings['spectrum']} spectrum, d = {DIMENSION}, m = 10"
    bandit_runs.save_groups(folder, "bkb_2019.linear", groups, "generated", title, options)


def draw(folder: Path) -> None:
    ratios = common.curves(folder, "regret_ratio")
    title = common.tables(folder).curves.attrs["title"]
    plots.regret_ratio(folder / "regret_ratio.png", ratios, title)


# --- the rules

LINEAR = (
    0.9  # regret with at least this exponent between T/2 and T counts as linear; 1 is its limit
)
SHARE = 0.9  # of the projections, for a statement "with high probability"


def exponents(folder: Path, algorithm: str) -> np.ndarray:
    """log2 of R_T / R_{T/2} [S], the slope of log R_t against log t at the end of the runs. It is 1
    for linear regret, and 1/2 for the rate sqrt(T) of the theorems."""
    t, ratio = common.curve(folder, "regret_ratio", algorithm)
    regret = ratio * t  # divided by a constant
    return np.array([np.log2(row[-1] / np.interp(t[-1] / 2, t, row)) for row in regret])


def fixed_size_is_linear(root: Path) -> Verdict:
    """The exponents of SOFUL lie above LINEAR, and those of BKB below, with the widths of the
    authors' codes and of the papers."""

    def case(folder: Path) -> Verdict:
        fixed, adaptive = ("soful", "soful_paper"), ("bkb", "bkb_theory")
        found = {name: exponents(folder, name) for name in (*fixed, *adaptive)}
        margins = [found[name] - LINEAR for name in fixed]
        margins += [LINEAR - found[name] for name in adaptive]
        holds = common.all_above(map(common.mean_interval, margins), 0)
        intervals = {name: common.mean_interval(values) for name, values in found.items()}
        return common.verdict(holds, common.listed(intervals, 2))

    names = ("linear_slow", "linear_fast_small_regularization")
    return common.all_of({name: partial(case, root / "bkb_2019" / name) for name in names})


def projections_are_linear(root: Path) -> Verdict:
    """The share of CBRAP's projections whose exponent is at least LINEAR lies above SHARE."""
    found = exponents(root / "bkb_2019/linear_slow_long", "cbrap")
    hits = int((found >= LINEAR).sum())
    share = common.probability_interval(hits, len(found))
    text = f"{hits} of {len(found)} projections; share {common.interval_text(share, 3)}"
    return common.verdict(common.all_above([share], SHARE), text)


def less_regret_than_soful_ts(root: Path) -> Verdict:
    """SOFUL-TS's R_T / R_T^unif minus BKB's lies above 0 on the same seeds on all problems, with
    the full widths and with tuned widths, that of BKB's code and a tenth of the full one for
    SOFUL-TS. The claim differs if an interval with the full widths lies below."""

    def ratios(name: str, algorithm: str) -> np.ndarray:
        return common.finals(root / "bkb_2019" / name, "final_regret_ratio", algorithm)

    def gaps(end: str, bkb: str) -> dict[str, common.Interval]:
        return {
            name: common.difference_interval(ratios(name + end, "soful_ts"), ratios(name, bkb))
            for name in PROBLEMS
        }

    full, tuned = gaps("_ts", "bkb_theory"), gaps("", "bkb")
    differs = common.all_above(full.values(), 0) is False
    holds = common.all_above((*full.values(), *tuned.values()), 0) is True
    text = f"full widths: {common.listed(full)}; tuned widths: {common.listed(tuned)}"
    return common.verdict(common.decision(differs, holds), text)


def adapts_dictionary(root: Path) -> Verdict:
    """BKB's inducing points at T with the slow spectrum, minus twice those with the fast and with
    the low-rank spectrum, lie above 0."""
    names = ("linear_slow", "linear_fast", "linear_low_rank")
    sizes = {n: common.finals(root / "bkb_2019" / n, "dictionary_size", "bkb") for n in names}
    gaps = {n: common.difference_interval(sizes[names[0]], 2 * sizes[n]) for n in names[1:]}
    means = common.listed({name: values.mean() for name, values in sizes.items()}, 1)
    text = f"{means}; the first minus twice another {common.listed(gaps, 1)}"
    return common.verdict(common.all_above(gaps.values(), 0), text)


CHECKS = (
    *(fixed_size_is_linear, projections_are_linear, less_regret_than_soful_ts),
    adapts_dictionary,
)

if __name__ == "__main__":
    common.main(__file__)

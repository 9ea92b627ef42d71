"""BBKB, Figure 1: baselines on Cadata with one setting changed, which shows no cause.

The paper states some of these settings (noise 0.01, and that TS is divided by 10), and BBKB keeps
its own. Each run differs from Figure 1's by one entry of CHANGES, and ends where the poster's curve
ends. settings.csv has R_t / R_t^unif and its ratio to the poster's curve. Thompson sampling from
the exact posterior ("ts") also has the rows of a factor of the arms' Gram matrix as features.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import common
from experiments.bbkb_2020.fig1_regret import THEORY, configure
from experiments.bbkb_2020.methods import ALGORITHMS, ScaledWidth, factored_ts, gram_factor
from experiments.common import Options, Settings
from experiments.data import datasets
from experiments.figures.styles import label
from experiments.results import tidy
from experiments.runs import against_published, bandit_runs
from experiments.runs.bandit_runs import Config
from jsketch import problems
from jsketch.bandits import widths as formulas

TABLE_T = (200, 500, 1_000, 2_000, 5_000, 10_000)  # only longer runs have the last two
# "formula" replaces the width by "factor" times another formula, "times" multiplies the width, and
# "scale" that of Thompson sampling
CHANGES: dict[str, Config] = {
    "as in regret": {},
    "the code's width": dict(width="code"),
    "width of BBKB's Theorem 2 with C = 1": dict(formula="bbkb_paper", factor=1.0),
    "the same, with C = 2": dict(formula="bbkb_paper", factor=2.0),
    "the same, with C = 3": dict(formula="bbkb_paper", factor=3.0),
    "the same, with C = 2 and kernel exp(-d^2 / l^2)": dict(
        formula="bbkb_paper", factor=2.0, lengthscale=12.5 / 2**0.5
    ),
    "features in [0, 1]": dict(scaling="unit"),
    "features divided by their largest norm": dict(scaling="norm"),
    "kernel exp(-d^2 / l^2)": dict(lengthscale=12.5 / 2**0.5),
    "lambda = 0.01": dict(regularization=1e-2),
    "lambda = 1": dict(regularization=1.0),
    "delta = 0.1": dict(delta=0.1),
    "noise 0.1": dict(noise_std=0.1, regularization=1e-2),
    "three times its width": dict(times=3.0),
    "its width not divided by 10": dict(scale=1.0),
}


def settings_of(algorithms: Sequence[str], horizon: int, seeds: int, *changes: str) -> Settings:
    base = dict(data="cadata", algorithms=algorithms, horizon=horizon, seeds=seeds)
    return THEORY | base | dict(changes=changes)


FULL = "its width not divided by 10"  # only for Thompson sampling
THOMPSON = ("ts", "sketched_ts")
OF_BATCHES = ("three times its width", FULL, "noise 0.1")
OF_GP_UCB = [name for name in CHANGES if name not in OF_BATCHES[:2]]
RUNS: dict[str, Settings] = {
    "bbkb_2020/cadata_settings": settings_of(["gp_ucb"], 1_000, 1, *OF_GP_UCB),
    "bbkb_2020/cadata_settings_batches": settings_of(
        ["gp_bucb", "sketched_ts"], 2_000, 1, *OF_BATCHES
    ),
    "bbkb_2020/cadata_settings_ts": settings_of(["sketched_ts"], 2_000, 3, "as in regret", FULL),
    "bbkb_2020/cadata_settings_exact_ts": settings_of(["ts"], 2_000, 3, "as in regret", FULL),
}
QUICK: Settings = dict(horizon=50, seeds=1)


def scaled(features: np.ndarray, scaling: str) -> np.ndarray:
    """Z-scored features [A, d], scaled to [0, 1] ("unit"), divided by their largest norm ("norm"),
    or unchanged."""
    if scaling == "unit":
        return (features - features.min(0)) / np.ptp(features, axis=0)
    return features / np.linalg.norm(features, axis=1).max() if scaling == "norm" else features


def make(algorithm: str, c: Config) -> Any:
    """The algorithm with the width that the configuration specifies."""
    bandit: Any = factored_ts(c) if algorithm == "ts" else ALGORITHMS[algorithm](c)
    if "formula" in c:
        bandit = bandit.replace(width=ScaledWidth(c["factor"], getattr(formulas, c["formula"])))
    if "times" in c:
        bandit = bandit.replace(width=ScaledWidth(c["times"], bandit.width))
    return bandit.replace(scale=c["scale"]) if "scale" in c else bandit


def run(folder: Path, settings: Settings, options: Options) -> None:
    dataset = datasets.load("cadata", options.data_dir)
    features, target = datasets.preprocess(dataset)
    groups, factors = {}, {}
    for name in settings["changes"]:
        change = CHANGES[name]
        configs = {
            algorithm: config | change
            for algorithm, config in configure(settings).items()
            if name != FULL or algorithm in THOMPSON
        }
        first = next(iter(configs.values()))
        arms = scaled(features, change.get("scaling", "z-scored"))
        if [*configs] == ["ts"]:
            setting = first["lengthscale"], change.get("scaling")
            if setting not in factors:
                factors[setting] = gram_factor(arms, first["lengthscale"])
            first["inputs"] = arms.shape[1]
            arms = np.concatenate([arms, factors[setting]], axis=1)
        problem = problems.finite_arms(arms, target, first["noise_std"])
        seeds = bandit_runs.seeds_by_algorithm(settings)
        groups[name] = bandit_runs.Group(problem, configs, make, seeds)
    title = "Cadata, settings tried"
    bandit_runs.save_groups(
        folder, "bbkb_2020.cadata_settings", groups, dataset.source, title, options
    )
    panels = dict(regret_ratio="cadata_regret_ratio")
    against_published.write_curves(folder, panels, initial=0, data_dir=options.data_dir)


def draw(folder: Path) -> None:
    """Writes settings.csv."""
    curves = common.tables(folder).curves
    poster = against_published.read_curves(folder).get("regret_ratio", {})
    poster |= {"sketched_ts": poster["ts"]} if "ts" in poster else {}
    rows = []
    for setting, part in curves.groupby("problem", observed=True, sort=False):
        for name, (t, values) in tidy.lines(part, "regret_ratio").items():
            for end in [end for end in TABLE_T if end <= t[-1]]:
                ours = np.interp(end, t, values.mean(0))
                ratio = f"{ours / np.interp(end, *poster[name]):.2f}" if name in poster else ""
                rows.append((label(name), setting, len(values), end, f"{ours:.3f}", ratio))
    head = ("algorithm", "setting", "seeds", "t", "ratio", "over published")
    tidy.write_csv(folder / "settings.csv", rows, head)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)

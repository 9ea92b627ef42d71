"""Runs on Cadata with changes of settings that the paper leaves open, to find the cause of a
difference from the published curves.

    python -m experiments.bbkb_2020.settings_tried --out out/cadata_settings

Each run differs from `regret --dataset cadata` by one entry of SETTINGS, and ends where the
poster's curve ends. settings.csv has R_t / R_t^unif at the evaluations TABLE_T, and its ratio to
the poster's curve if the data folder has that curve.
"""

from pathlib import Path
from typing import Any

import numpy as np

from experiments import cli
from experiments.bbkb_2020.methods import ALGORITHMS, COMMON, LENGTHSCALES, STOPS, ScaledWidth
from experiments.data import datasets
from experiments.figures.styles import label
from experiments.results import outputs, tidy
from experiments.runs import against_published, bandit_runs
from experiments.runs.bandit_runs import Config
from jsketch import problems
from jsketch.bandits import widths as formulas

TABLE_T = (200, 500, 1_000, 2_000, 5_000, 10_000)  # only longer runs have the last two
METHODS = ("gp_ucb", "gp_bucb", "sketched_ts", "bkb", "bbkb_global", "bbkb_global_local")
BASE: Config = COMMON | dict(lengthscale=12.5, epsilon=0.05, delta=1e-4, scaling="z-scored")
FULL_WIDTH = "its width not divided by 10"  # only for Thompson sampling
# {setting: changes of BASE}. "formula" replaces the width by "factor" times another formula,
# "times" multiplies the width, and "scale" multiplies the width of Thompson sampling.
GP_UCB_SETTINGS: dict[str, Config] = {
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
}
_NOISE_01 = dict(noise_std=0.1, regularization=1e-2, width="code")
# new settings come last, because a setting's position here is in the name of its folder of runs
SETTINGS = GP_UCB_SETTINGS | {
    "1.5 times its width": dict(times=1.5),
    "three times its width": dict(times=3.0),
    "noise 0.1, the code's width": _NOISE_01,
    "noise 0.1, 1.2 times the code's width": _NOISE_01 | dict(times=1.2),
    "noise 0.1, 1.4 times the code's width": _NOISE_01 | dict(times=1.4),
    "noise 0.1, twice the code's width": _NOISE_01 | dict(times=2.0),
    FULL_WIDTH: dict(scale=1.0),
}
TABLE = "settings.csv"


def scaled(features: np.ndarray, scaling: str) -> np.ndarray:
    """Z-scored features [A, d], scaled to [0, 1] ("unit"), divided by their largest norm ("norm"),
    or unchanged ("z-scored")."""
    if scaling == "unit":
        return (features - features.min(0)) / np.ptp(features, axis=0)
    if scaling == "norm":
        return features / np.linalg.norm(features, axis=1).max()
    return features


def make(algorithm: str, c: Config) -> Any:
    """The algorithm with the width that the configuration specifies."""
    bandit = ALGORITHMS[algorithm](c)
    if "formula" in c:
        bandit = bandit.replace(width=ScaledWidth(c["factor"], getattr(formulas, c["formula"])))
    if "times" in c:
        bandit = bandit.replace(width=ScaledWidth(c["times"], bandit.width))
    return bandit.replace(scale=c["scale"]) if "scale" in c else bandit


def draw(folder: Path) -> None:
    """Writes settings.csv from the tables in the folder."""
    curves = tidy.load(folder).curves
    poster = against_published.read_curves(folder).get("regret_ratio", {})
    if "ts" in poster:
        poster = poster | {"sketched_ts": poster["ts"]}  # sketched TS is compared with TS
    table_t = [t for t in TABLE_T if t <= max(TABLE_T[3], curves["t"].max())]
    rows = []
    for setting, part in curves.groupby("problem", observed=True, sort=False):
        for name, (t, values) in tidy.lines(part, "regret_ratio").items():
            reached_t = [end for end in table_t if end <= t[-1]]
            our_ratios = np.interp(reached_t, t, values.mean(0))
            cells = [f"{ratio:.3f}" for ratio in our_ratios]
            if name in poster:
                quotients = our_ratios / np.interp(reached_t, *poster[name])
                cells = [f"{c} ({q:.2f})" for c, q in zip(cells, quotients, strict=True)]
            blank = [""] * (len(table_t) - len(cells))
            rows.append((label(name), setting, len(values), *cells, *blank))
    for name in set(map(str, curves["algorithm"].unique())) & poster.keys():
        end = poster[name][0][-1] * (1 + against_published.REACH)
        cells = [f"{np.interp(t, *poster[name]):.3f}" if t <= end else "" for t in table_t]
        rows.append((label(name), "published", "", *cells))
    head = ("algorithm", "setting", "seeds", *(f"t = {t:,} (over published)" for t in table_t))
    tidy.write_csv(folder / TABLE, sorted(rows, key=lambda row: str(row[0])), head)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, horizon=2_000, seeds=2, data_dir=None)
    cli.add_choices(parser, "--algorithms", METHODS, ["gp_ucb"])
    cli.add_choices(parser, "--settings", list(SETTINGS), list(GP_UCB_SETTINGS))
    options = cli.parse(parser)
    dataset = datasets.load("cadata", options.data_dir)
    features, target = datasets.preprocess(dataset)
    configs = {
        setting: {
            name: BASE
            | dict(
                algorithm=name,
                lengthscale=LENGTHSCALES["cadata"][name],
                horizon=min(options.horizon, STOPS["cadata"].get(name, options.horizon)),
                root_seed=0,
                seeds_side_by_side=1,
            )
            | SETTINGS[setting]
            for name in options.algorithms
            if setting != FULL_WIDTH or name == "sketched_ts"
        }
        for setting in options.settings
    }
    table: list[tidy.Run] = []
    summaries: dict[str, Any] = {}
    with outputs.results_folder(
        options, "bbkb_2020.settings_tried", configs, options.seeds
    ) as results:
        for setting, algorithm_configs in configs.items():
            setting_config = BASE | SETTINGS[setting]
            arms = scaled(features, setting_config["scaling"])
            problem = problems.finite_arms(arms, target, setting_config["noise_std"])
            folder = options.out / "runs" / f"setting_{list(SETTINGS).index(setting):02d}"
            seeds = dict.fromkeys(algorithm_configs, options.seeds)
            _, summaries[setting], runs = bandit_runs.run_all(
                make, problem, setting, algorithm_configs, folder, seeds
            )
            table += runs
            print(f"{len(summaries)} of {len(configs)}: {setting}", flush=True)
        summary = dict(config=configs, seeds=options.seeds, data=dataset.source, settings=summaries)
        results.write(summary, table, "Cadata, settings tried")
        panels = dict(regret_ratio="cadata_regret_ratio")
        against_published.write_curves(options.out, panels, initial=0, data_dir=options.data_dir)
        draw(options.out)

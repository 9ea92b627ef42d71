"""What could explain a curve of ours that leaves the published one on Cadata: settings that the
paper leaves open, one changed at a time.

    python -m experiments.bbkb_2020.settings_tried --out out/cadata_settings

Each run is as in `regret --dataset cadata` (theory's widths) but for one setting, and ends where
the poster's curve does. settings.csv has R_t / R_t^unif at the evaluations AT beside the poster's,
which must be in the data folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments import cli
from experiments.bbkb_2020.methods import ALGORITHMS, LENGTHSCALES, STOPS, Config, Times
from experiments.data import datasets, published
from experiments.figures.styles import label
from experiments.results import environment, outputs, tidy
from experiments.runs import against_published
from experiments.runs.bandit_runs import run_algorithm, summarise, tidy_runs
from jsketch import problems
from jsketch.bandits import widths as formulas

AT = (200, 500, 1_000, 2_000, 5_000, 10_000)  # the last two where a run is that long
METHODS = ("gp_ucb", "gp_bucb", "sketched_ts", "bkb", "bbkb_global", "bbkb_global_local")
BASE: Config = dict(
    width="theory",
    lengthscale=12.5,
    noise_std=0.01,
    regularization=1e-4,
    norm_bound=1.0,
    qbar=2.0,
    ratio=2.0,
    epsilon=0.05,
    delta=1e-4,
    scaling="z-scored",
)
WHOLE = "its width not divided by 10"  # of Thompson sampling alone
# in words: what is not as in BASE; "formula" is of the width, "times" a factor on the method's own,
# "scale" that of Thompson sampling
OF_GP_UCB: dict[str, Config] = {
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
# folders of runs have the numbers of this order
TRIED = OF_GP_UCB | {
    "1.5 times its width": dict(times=1.5),
    "three times its width": dict(times=3.0),
    "noise 0.1, the code's width": dict(noise_std=0.1, regularization=1e-2, width="code"),
    "noise 0.1, 1.2 times the code's width": dict(
        noise_std=0.1, regularization=1e-2, width="code", times=1.2
    ),
    "noise 0.1, 1.4 times the code's width": dict(
        noise_std=0.1, regularization=1e-2, width="code", times=1.4
    ),
    "noise 0.1, twice the code's width": dict(
        noise_std=0.1, regularization=1e-2, width="code", times=2.0
    ),
    WHOLE: dict(scale=1.0),
}
TABLE = "settings.csv"


def scaled(features: np.ndarray, scaling: str) -> np.ndarray:
    """Z-scored features [A, d] in another scaling."""
    if scaling == "unit":
        return (features - features.min(0)) / np.ptp(features, axis=0)
    if scaling == "norm":
        return features / np.linalg.norm(features, axis=1).max()
    return features


def make(algorithm: str, c: Config) -> Any:
    """The algorithm; with "formula", that width times "factor" in place of its own."""
    bandit = ALGORITHMS[algorithm](c)
    if "formula" in c:
        bandit = bandit.replace(width=Times(c["factor"], getattr(formulas, c["formula"])))
    if "times" in c:
        bandit = bandit.replace(width=Times(c["times"], bandit.width))
    return bandit.replace(scale=c["scale"]) if "scale" in c else bandit


def draw(folder: Path) -> None:
    """settings.csv from the tables in the folder."""
    curves = tidy.load(folder).curves
    theirs = against_published.kept(folder).get("regret_ratio", {})
    # sampled from the sketch, beside the poster's exact one
    theirs = theirs | ({"sketched_ts": theirs["ts"]} if "ts" in theirs else {})
    shown = [a for a in AT if a <= max(AT[3], curves["t"].max())]
    rows = []
    for setting, part in curves.groupby("problem", observed=True, sort=False):
        for name, (t, values) in tidy.lines(part, "regret_ratio").items():
            at = [a for a in shown if a <= t[-1]]
            ours = np.interp(at, t, values.mean(0))
            row = [f"{value:.3f}" for value in ours]
            if name in theirs:
                near = np.interp(at, *theirs[name])
                row = [f"{o} ({v / n:.2f})" for o, v, n in zip(row, ours, near, strict=True)]
            blank = [""] * (len(shown) - len(row))
            rows.append((label(name), setting, len(values), *row, *blank))
    for name in set(map(str, curves["algorithm"].unique())) & theirs.keys():
        end = theirs[name][0][-1] * (1 + against_published.REACH)
        row = [f"{np.interp(a, *theirs[name]):.3f}" if a <= end else "" for a in shown]
        rows.append((label(name), "published", "", *row))
    head = ("algorithm", "setting", "seeds", *(f"t = {t:,} (over published)" for t in shown))
    against_published.write(folder / TABLE, head, sorted(rows, key=lambda row: str(row[0])))


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--horizon", type=cli.count, default=2_000)
    parser.add_argument("--seeds", type=cli.count, default=2)
    parser.add_argument("--algorithms", nargs="+", choices=METHODS, default=["gp_ucb"])
    parser.add_argument("--settings", nargs="+", choices=list(TRIED), default=list(OF_GP_UCB))
    cli.add_out_folder(parser)
    parser.add_argument("--data-dir", help="folder of the data sets")
    options = parser.parse_args()
    cli.set_up_jax()
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
            | TRIED[setting]
            for name in options.algorithms
            if setting != WHOLE or name == "sketched_ts"
        }
        for setting in options.settings
    }
    table: list[tidy.Run] = []
    found: dict[str, Any] = {}
    with outputs.opened(options, "bbkb_2020.settings_tried", configs, options.seeds) as opened:
        for number, (setting, of_methods) in enumerate(configs.items()):
            runs = {}
            for name, config in of_methods.items():
                arms = scaled(features, config["scaling"])
                problem = problems.finite_arms(arms, target, config["noise_std"])
                folder = options.out / "runs" / f"setting_{list(TRIED).index(setting):02d}"
                bandit = make(name, config)
                runs[name] = run_algorithm(name, bandit, problem, config, folder, options.seeds)
            found[setting] = {name: summarise(rows) for name, rows in runs.items()}
            table += tidy_runs(setting, of_methods, runs)
            print(f"{number + 1} of {len(configs)}: {setting}", flush=True)
        summary = dict(
            config=configs,
            seeds=options.seeds,
            data=dataset.source,
            **environment.describe(),
            settings=found,
        )
        opened.finish(summary, table, "Cadata, settings tried")
        against_published.keep(
            options.out, dict(regret_ratio="cadata_regret_ratio"), 0, options.data_dir
        )
        draw(options.out)
    print(f"{TABLE} is in {options.out}; the published curves are of {published.SOURCE}")


if __name__ == "__main__":
    main()

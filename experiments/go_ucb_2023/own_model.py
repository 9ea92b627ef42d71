"""GO-UCB for a law of one's own, beside optimisers that do not know the law.

The paper has no such experiment. The laws are those of `jsketch.problems.laws` that did not choose
the defaults of `ModelGOUCB` (JUDGING), and those with a term that the model lacks (MISSING). Every
seed has its own true parameters. Regrets are divided by that of uniform points: 1 is the regret of
a random point. `ModelGOUCB` starts at the guesses of the law, and the others with 4 uniform points,
because with their defaults of 8 they lose more of the first 10. BoTorch's GP-EI, which is no
dependency, is the folder BOTORCH_FOLDER; the tables of the first folder have it too.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from experiments import common
from experiments.common import Options, Settings
from experiments.contrib import saving
from experiments.figures import drawing
from experiments.figures.styles import label
from experiments.go_ucb_2023 import packages
from experiments.results import environment, tidy
from jsketch import loops
from jsketch.box import GPBandit, ModelGOUCB, Turbo, UniformBox
from jsketch.problems import laws
from jsketch.problems.laws import JUDGING, MISSING, Law, LawProblem

FOLDER, BOTORCH_FOLDER = "go_ucb_2023/own_model", "go_ucb_2023/own_model_botorch"
INITIAL, ROOT_SEED = 4, 7
METHODS: dict[str, Callable[[Law], Any]] = {
    "model": lambda law: ModelGOUCB(law.model),
    "model_without_gp": lambda law: ModelGOUCB(law.model, discrepancy="ignore"),
    "gp_ei": lambda law: GPBandit(initial=INITIAL),
    "turbo": lambda law: Turbo(initial=INITIAL),
    "uniform": lambda law: UniformBox(initial=1),
}
KNOWN = ("model", "gp_ei", "turbo", "uniform")
LAWS: dict[str, tuple[str, ...]] = {law.name: KNOWN for law in JUDGING}
LAWS |= {law.name: (*KNOWN, "model_without_gp") for law in MISSING}
WITH_BOTORCH = ("arrhenius_bell",)  # a run takes 21 CPU seconds, and more on other laws
RUNS: dict[str, Settings] = {
    FOLDER: dict(laws=LAWS, horizon=40, seeds=20),
    BOTORCH_FOLDER: dict(
        laws=dict.fromkeys(WITH_BOTORCH, (packages.LOG_EI,)), horizon=40, seeds=20
    ),
}
QUICK: Settings = dict(laws=dict(hill=("model", "uniform")), horizon=10, seeds=2)
AT = (10, 20, 40)  # evaluations of regret.csv
SHARES = dict(
    identified="identified",
    held="held of the identified",
    held_exchanged="held exchanged",  # runs of earlier versions have none
    held_any="held of all",
)  # columns of intervals.csv
OF_IDENTIFIED = ("held", "held_exchanged")


@partial(jax.jit, static_argnames=("law", "horizon"))
def play(optimizer: Any, law: Law, horizon: int, keys: jax.Array) -> dict[str, jax.Array]:
    """The arrays of the runs with keys [S, 2] of the problems and of the runs."""

    def one(pair: jax.Array) -> dict[str, jax.Array]:
        problem = law.problem(pair[0])
        run = loops.rollout(optimizer, problem, pair[1], horizon)
        curves = regret_curves(problem, run.trace.value)
        if isinstance(optimizer, ModelGOUCB):
            return curves | held(optimizer, problem, run)
        return curves

    return jax.lax.map(one, keys)


def regret_curves(problem: LawProblem, values: jax.Array) -> dict[str, jax.Array]:
    """The curves of a run with values [T] without noise: the regret for each evaluation so far, and
    that of the best point, both divided by that of uniform points."""
    regret = (problem.maximum - values) / (problem.maximum - problem.mean)
    return dict(
        regret_ratio=jnp.cumsum(regret) / jnp.arange(1, len(values) + 1),
        simple_regret=jax.lax.cummin(regret),
    )


def held(optimizer: ModelGOUCB, problem: Any, run: Any) -> dict[str, jax.Array]:
    """Final numbers: how many intervals of identified parameters hold the truth, also the nearest
    one with the same values of the law (`Law.nearest`), and whether a misfit is noticed after half
    of the evaluations and after all."""
    estimates = optimizer.parameters(run.state)
    values = {name: estimate.value for name, estimate in estimates.items()}

    def all_hold(truth: dict[str, jax.Array]) -> jax.Array:
        holds = [(e.lower <= truth[n]) & (truth[n] <= e.upper) for n, e in estimates.items()]
        return jnp.concatenate([jnp.ravel(hold) for hold in holds])

    known = jnp.concatenate([jnp.ravel(estimate.identified) for estimate in estimates.values()])
    hold, exchanged = map(all_hold, (problem.truth, problem.law.nearest(problem.truth, values)))
    misfit = {
        f"misfit_{t}": run.trace.info.misfit[t - 1]
        for t in (len(run.trace.x) // 2, len(run.trace.x))
    }
    return misfit | dict(
        held=(hold & known).sum(),
        held_exchanged=(exchanged & known).sum(),
        identified=known.sum(),
        held_any=hold.sum(),
        parameters=jnp.asarray(known.size),
        noise_ratio=run.trace.info.noise_std[-1] / problem.noise_std,
    )


def runs(settings: Settings, name: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a law, one dict for each seed."""
    law, horizon, seeds = laws.LAWS[name], settings["horizon"], settings["seeds"]
    root = jax.random.key(ROOT_SEED)
    keys = jax.vmap(lambda i: jax.random.split(jax.random.fold_in(root, i)))(jnp.arange(seeds))
    if method == packages.LOG_EI:
        found = play_botorch(law, horizon, keys)
    else:
        optimizer = METHODS[method](law)
        program = play.lower(optimizer, law, horizon, keys).compile()
        start = time.process_time()
        found = jax.tree.map(np.asarray, program(optimizer, keys))
        found["cpu_seconds"] = np.full(seeds, (time.process_time() - start) / seeds)
    return saving.by_seed(dict(t=np.arange(1, horizon + 1)), **found)


def play_botorch(law: Law, horizon: int, keys: jax.Array) -> dict[str, np.ndarray]:
    """The arrays of BoTorch's runs with keys [S, 2], as `play`."""
    rows = [botorch_run(law, horizon, pair, seed) for seed, pair in enumerate(keys)]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def botorch_run(law: Law, horizon: int, keys: jax.Array, seed: int) -> dict[str, np.ndarray]:
    """The arrays of a run with the keys [2] of the problem and of the run."""
    problem = jax.jit(law.problem)(keys[0])
    initial = loops.run(UniformBox(initial=INITIAL), problem, keys[1], INITIAL).trace
    exact, random = jax.jit(problem.value), np.random.default_rng(seed)

    def value(x: np.ndarray) -> float:
        return float(exact(jnp.asarray(x)) + problem.noise_std * random.standard_normal())

    box = np.stack([np.asarray(problem.domain.lower), np.asarray(problem.domain.upper)], axis=1)
    start = np.asarray(initial.x), np.asarray(initial.y)
    begun = time.process_time()
    x = packages.points(packages.LOG_EI, value, box, *start, horizon - INITIAL, seed)
    seconds = time.process_time() - begun
    curves = regret_curves(problem, jax.vmap(problem.value)(jnp.asarray(x)))
    return {name: np.asarray(curve) for name, curve in curves.items()} | dict(
        cpu_seconds=np.asarray(seconds)
    )


def run(folder: Path, settings: Settings, options: Options) -> None:
    pairs = [(law, method) for law, methods in settings["laws"].items() for method in methods]
    if any(method == packages.LOG_EI for _, method in pairs):
        found = packages.settings(packages.LOG_EI)
        versions = environment.package_versions(*found["packages"])
        settings = settings | found | dict(packages=versions)
    title = f"Laws of one's own, {settings['seeds']} seeds, mean and 95% interval"
    saving.run(folder, "go_ucb_2023.own_model", title, settings, options, runs, pairs=pairs)


def draw(folder: Path) -> None:
    """Draws regret.png, with a panel for each law, and writes regret.csv and intervals.csv.
    BoTorch's runs have none of their own: they are in those of the first folder."""
    if folder.name == Path(BOTORCH_FOLDER).name:
        folder = folder.parent / Path(FOLDER).name
        if not tidy.is_complete(folder):
            return
    curves = common.tables(folder).curves
    names = [str(name) for name in curves["problem"].unique()]
    columns = min(4, len(names))
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (2.6 * columns + 2.4, 5)}):
        figure, axes = plt.subplots(
            -(-len(names) // columns), columns, sharex=True, sharey=True, squeeze=False
        )
        handles: dict[str, Any] = {}  # by label, without repetitions
        for panel, name in zip(axes.flat, names, strict=False):
            drawing.lines(panel, all_curves(folder, "regret_ratio", name))
            panel.set_title(name.replace("_", " "), loc="left")
            panel.set_ylim(0, 1.2)
            for handle, text in zip(*panel.get_legend_handles_labels(), strict=True):
                handles.setdefault(text, handle)
        figure.supxlabel("evaluations", fontsize=9)
        figure.supylabel("regret per evaluation / that of uniform points", fontsize=9)
        figure.legend(handles.values(), handles.keys(), loc="outside right center")
        drawing.save(figure, folder / "regret.png", curves.attrs["title"])
    write_regrets(folder, names)
    write_intervals(folder)


def all_curves(folder: Path, metric: str, name: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{method: (t [P], values [S, P])} of a law, with BoTorch's runs if they were made."""
    other = folder.parent / Path(BOTORCH_FOLDER).name
    beside = common.curves(other, metric, problem=name) if tidy.is_complete(other) else {}
    return beside | common.curves(folder, metric, problem=name)


def write_regrets(folder: Path, names: Sequence[str]) -> None:
    """Writes regret.csv: means at AT, and `ModelGOUCB`'s minus those of each other method, with the
    95% interval over the seeds."""
    rows = []
    for name in names:
        for metric in ("regret_ratio", "simple_regret"):
            found = all_curves(folder, metric, name)
            for t in [t for t in AT if t <= found["model"][0][-1]]:
                at = {method: values[:, t - 1] for method, (_, values) in found.items()}
                for method, values in at.items():
                    gap = common.difference_interval(at["model"], values)
                    text = "" if method == "model" else common.interval_text(gap, 3)
                    text_label = label(method).replace("\n", " ")
                    rows.append((name, metric, t, text_label, f"{values.mean():.3f}", text))
    head = ("law", "metric", "t", "method", "mean", "GO-UCB with the law minus it")
    tidy.write_csv(folder / "regret.csv", rows, head)


def write_intervals(folder: Path) -> None:
    """Writes intervals.csv: the shares of the parameters that are identified, and whose 95%
    intervals hold the truth ("exchanged": the truth, or the nearest parameters with the same values
    of the law), and the shares of the runs in which a misfit is noticed."""
    summary = common.tables(folder).summary
    misfits = [name for name in summary if name.startswith("misfit_")]
    misfits.sort(key=lambda name: int(name.removeprefix("misfit_")))  # by evaluations
    heads = {name: head for name, head in SHARES.items() if name in summary}
    rows = []
    for name, part in summary[summary["algorithm"] == "model"].groupby(
        "problem", observed=True, sort=False
    ):
        sums = part[[*heads, "parameters"]].sum()
        shares = [
            sums[name] / max(sums["identified" if name in OF_IDENTIFIED else "parameters"], 1)
            for name in heads
        ]
        shares += [part[column].mean() for column in (*misfits, "noise_ratio")]
        rows.append((name, *(f"{share:.3f}" for share in shares)))
    head = ("law", *heads.values(), *misfits, "noise_ratio")
    tidy.write_csv(folder / "intervals.csv", rows, head)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)

"""Streams with drift: PKAWV that forgets nothing, discounts, and their mixture, beside river.

python -m experiments.contrib.drift --out out/drift              the streams that are made up
python -m experiments.contrib.drift --only jumps ijcnn1 --examples 2000 --out out/drift

Three of the streams are MADE UP (uniform inputs, d = 2, noise 0.1; a seed each): `jumps` changes
its function every 500 examples, `turning` its phase a little in each, `still` nothing. Two are real
and in their natural order: ijcnn1, the recording of an engine as its file has it (`shuffled`: the
same examples permuted), and the approval ratings of a president over 1,001 days, which river
brings. Labels are scaled to [-1, 1]. `kernel_*` are Kernel-AWV and kernel ridge regression on the
whole Gaussian kernel whose Taylor features of degree 5 the others have, O(t^2) an example, on the
first stream of `jumps` alone. river's models, where river is installed, have standardized inputs
and their own defaults, and run on the first stream of each name. Kept: average squared loss until
t, and the total one.

Measured before, 4,000 examples, average squared loss (lam forgotten: as in the papers, without
`renew`):

              static   best gamma      mixture   lam forgotten   river's best
    jumps     0.284    0.102 (0.99)    0.102     0.095           0.182 (ARF)
    turning   0.334    0.066 (0.99)    0.067     0.063           0.152 (ARF)
    still     0.0170   0.0176 (0.999)  0.0176    0.0174          0.0207 (KNN)
    approval  0.0190   0.0174 (0.99)   0.0180    0.0189          0.0139 (Hoeffding)
    ijcnn1    0.311    0.328 (0.999)   0.311     0.171           0.033 (Hoeffding)

The last at 4,000 examples. There lam = 1 is too large, and to forget it helps: at 0.01 the columns
are 0.098, 0.114, 0.098, 0.090, and nothing is left of drift.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.contrib import saving
from experiments.contrib.saving import Row
from experiments.data import streams
from experiments.data.datasets import Dataset
from experiments.results import tidy
from jsketch import kernels, loops, online
from jsketch.sketch.taylor import Taylor

MADE_UP = ("jumps", "turning", "still")
MOST_OF_KERNELS = 2_000  # examples
DRAWN = (
    *("static", "gamma_0.97", "gamma_0.99", "gamma_0.999", "over_discounts", "kernel_static"),
    *("kernel_0.99", "kernel_ridge_0.99", "river_linear", "river_knn", "river_tree"),
    "river_forest",
)
LENGTHSCALE = 0.5  # of the made-up streams
DISCOUNTS = [0.9, 0.97, 0.99, 0.997, 0.999, 1.0]
RIVER = find_spec("river") is not None


class Task(NamedTuple):
    """A stream, and the features of PKAWV on it."""

    xs: np.ndarray  # [n, d]
    ys: np.ndarray  # [n]
    features: Taylor
    regularization: float


def made_up(name: str, seed: int, count: int) -> Task:
    """One of the streams that are made up."""
    random = np.random.default_rng(seed)
    xs, t = random.uniform(-1, 1, (count, 2)), np.arange(count)
    waves = random.normal(size=(count // 500 + 1, 2)) * 3
    part = t // 500 if name == "jumps" else np.zeros(count, int)
    phase = 2 * np.pi * t / 2000 if name == "turning" else 0
    signal = np.sin((waves[part] * xs).sum(1) + phase)
    ys = np.clip(0.8 * signal + 0.1 * random.standard_normal(count), -1, 1)
    return Task(xs, ys, Taylor(2, 5, LENGTHSCALE), 0.1)


def ijcnn1(shuffled: bool, count: int, data_dir: str | None) -> Task:
    """The first examples of the file, in its order or permuted."""
    dataset = streams.load("ijcnn1", data_dir)
    xs, ys = streams.scale(dataset, "paper")
    order = np.random.default_rng(0).permutation(count) if shuffled else np.arange(count)
    return Task(xs[:count][order], ys[:count][order], Taylor(xs.shape[1], 2, 3.0), 1.0)


def approval(count: int) -> Task:
    """The ratings, day by day."""
    from river import datasets

    rows = [([*x.values()], y) for x, y in datasets.TrumpApproval()]
    inputs, labels = (np.array(values, float) for values in zip(*rows, strict=True))
    xs, ys = streams.scale(Dataset("approval", inputs, labels, "river"), "paper")
    return Task(xs[:count], ys[:count], Taylor(xs.shape[1], 3, 2.0), 0.1)


def tasks(name: str, count: int | None, data_dir: str | None, seeds: int) -> list[Task]:
    """The streams under one name."""
    if name in MADE_UP:
        return [made_up(name, seed, count or 4_000) for seed in range(seeds)]
    if name == "approval":
        return [approval(count or 1_001)]
    return [ijcnn1(name == "shuffled", count or 20_000, data_dir)]


NAMES = [*MADE_UP, "ijcnn1", "shuffled", *["approval"] * RIVER]


def forecasters(task: Task) -> dict[str, Any]:
    """Those of ours, by the name in the table."""
    static = online.PKAWV(task.features, task.regularization)
    keeps = replace(static, renew=True)
    single = {f"gamma_{g:g}": replace(keeps, discount=g) for g in DISCOUNTS if g < 1}
    mixture = online.over_discounts(keeps, DISCOUNTS, bound=1.0, rule="vovk")
    forgets = online.over_discounts(static, DISCOUNTS, bound=1.0, rule="vovk")
    mixtures = {"over_discounts": mixture, "over_discounts_forget": forgets}
    return {"static": static, **single, **mixtures}


def of_kernels(task: Task) -> dict[str, Any]:
    """Kernel-AWV and kernel ridge regression on the Gaussian kernel itself."""
    static = online.KernelAWV(kernels.Gaussian(LENGTHSCALE), task.regularization)
    forgets = replace(static, discount=0.99)
    ridge = replace(forgets, penalize_current=False)
    return {"kernel_static": static, "kernel_0.99": forgets, "kernel_ridge_0.99": ridge}


def of_river() -> dict[str, Callable[[], Any]]:
    """river's regressors, new ones; none where it is not installed."""
    if not RIVER:
        return {}
    from river import forest, linear_model, neighbors, preprocessing, tree

    def scaled(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: preprocessing.StandardScaler() | make()

    return {
        "river_linear": scaled(linear_model.LinearRegression),
        "river_knn": scaled(neighbors.KNNRegressor),
        "river_tree": scaled(lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=0)),
        "river_forest": scaled(lambda: forest.ARFRegressor(seed=0)),
    }


def losses_of_river(make: Callable[[], Any], task: Task) -> np.ndarray:
    """Squared losses [n] of predictions within [-1, 1], each made before its label."""
    model, losses = make(), []
    for row, y in zip(task.xs.tolist(), task.ys.tolist(), strict=True):
        x = dict(enumerate(row))
        losses.append((float(np.clip(model.predict_one(x) or 0, -1, 1)) - y) ** 2)
        model.learn_one(x, y)
    return np.array(losses)


def losses_of(forecaster: Any, task: Task) -> np.ndarray | None:
    """Squared losses [n]; None where the stream was stopped."""
    try:
        run, _ = loops.prequential(forecaster, task.xs, task.ys, jax.random.key(0))
    except FloatingPointError as error:
        print(f"  stopped: {error}", flush=True)
        return None
    return (np.clip(run.prediction, -1, 1) - task.ys) ** 2


class Method(NamedTuple):
    """What runs on the streams of one name."""

    losses: Callable[[Task], np.ndarray | None]
    streams: int  # it runs on the first ones


def methods_on(name: str, streams: list[Task], ours: bool) -> dict[str, Method]:
    """The methods by the name in the table."""

    def of(made: Callable[[Task], dict[str, Any]], method: str, count: int) -> Method:
        return Method(lambda task: losses_of(made(task)[method], task), count)

    first = streams[0]
    found = {method: of(forecasters, method, len(streams)) for method in forecasters(first)}
    if name == "jumps" and len(first.ys) <= MOST_OF_KERNELS:
        found |= {method: of(of_kernels, method, 1) for method in of_kernels(first)}
    if not ours:
        models = of_river().items()
        found |= {method: Method(partial(losses_of_river, make), 1) for method, make in models}
    return found


def made(name: str, method: str, losses: Method, streams: list[Task]) -> list[dict[str, Any]]:
    """The runs of a method on the streams of one name; no numbers of a stream that was stopped."""
    found: list[dict[str, Any]] = []
    for seed, task in enumerate(streams[: losses.streams]):
        loss = losses.losses(task)
        if loss is None:
            found.append(dict(stopped=True))
            continue
        t, total = saving.grid(len(task.ys)), loss.cumsum()
        found.append(
            dict(t=t, average_loss=total[t - 1] / t, loss=loss.mean(), total_loss=total[-1])
        )
        print(f"{name:10s} {seed} {method:22s} {loss.mean():.4f}", flush=True)
    return found


def runs(name: str, options: argparse.Namespace, config: dict[str, Any]) -> list[tidy.Run]:
    """The runs of all methods on the streams of one name, but for those that were stopped."""
    streams = tasks(name, options.examples, options.data_dir, options.seeds)
    if options.regularization is not None:
        streams = [task._replace(regularization=options.regularization) for task in streams]
    found = [
        run
        for method, losses in methods_on(name, streams, options.ours).items()
        for run in saving.resumed(
            options.out,
            config,
            name,
            method,
            losses.streams,
            partial(made, name, method, losses, streams),
        )
    ]
    return [run for run in found if "stopped" not in run.arrays]


def draw(folder: Path) -> None:
    """average_loss.png from the tables in the folder, without bands, which would hide the lines."""
    row = Row("average_loss", "average squared loss", top=0.4, methods=DRAWN, bands=False)
    saving.draw_panels(folder, "average_loss.png", (row,), "examples $t$", height=3.2)


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(MADE_UP))
    parser.add_argument("--ours", action="store_true", help="without river's models")
    parser.add_argument("--seeds", type=cli.count, default=5, help="streams that are made up")
    parser.add_argument("--examples", type=cli.count, help="of each stream, at most")
    parser.add_argument("--regularization", type=float, help="lam, instead of the stream's own")
    parser.add_argument("--data-dir", help="folder of the data sets")
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    one = dict(
        examples=options.examples, regularization=options.regularization, discounts=DISCOUNTS
    )
    config = dict(streams=options.only, river=RIVER and not options.ours) | one

    def make() -> list[tidy.Run]:
        return [run for name in options.only for run in runs(name, options, one)]

    title = f"Streams whose target changes, and one that stays: {options.seeds} seeds"
    saving.keep(options, "beyond.drift", config, title, make, draw)


if __name__ == "__main__":
    main()

"""Streams with drift: PKAWV that forgets nothing, discounts, and their mixture, beside river.

python -m experiments.beyond.drift                      all streams, average squared losses
python -m experiments.beyond.drift --only jumps ijcnn1 --examples 2000 --out results/drift.json

Two of the streams are MADE UP (uniform inputs, d = 2, noise 0.1; 5 seeds): `jumps` changes its
function every 500 examples, `turning` its phase a little in each, `still` nothing. Two are real and
in their natural order: ijcnn1, the recording of an engine as its file has it (`shuffled`: the same
examples permuted), and the approval ratings of a president over 1,001 days, which river brings.
Labels are scaled to [-1, 1]. river's models have standardized inputs and their own defaults.

Measured, average squared loss (lam forgotten: as in the papers, without `renew`):

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

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.data import streams
from experiments.data.datasets import Dataset
from experiments.results import environment, files, store
from jsketch import loops, online
from jsketch.sketch.taylor import Taylor

SEEDS = 5
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
    return Task(xs, ys, Taylor(2, 5, 0.5), 0.1)


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


def tasks(name: str, count: int | None, data_dir: str | None) -> list[Task]:
    """The streams under one name."""
    if name in ("jumps", "turning", "still"):
        return [made_up(name, seed, count or 4_000) for seed in range(SEEDS)]
    if name == "approval":
        return [approval(count or 1_001)]
    return [ijcnn1(name == "shuffled", count or 20_000, data_dir)]


NAMES = ["jumps", "turning", "still", "ijcnn1", "shuffled", *["approval"] * RIVER]


def forecasters(task: Task) -> dict[str, Any]:
    """Those of ours, by the name in the table."""
    static = online.PKAWV(task.features, task.regularization)
    keeps = replace(static, renew=True)
    single = {f"gamma {g:g}": replace(keeps, discount=g) for g in DISCOUNTS if g < 1}
    mixture = online.over_discounts(keeps, DISCOUNTS, bound=1.0, rule="vovk")
    forgets = online.over_discounts(static, DISCOUNTS, bound=1.0, rule="vovk")
    return {"static": static, **single, "mixture": mixture, "mixture, lam forgotten": forgets}


def of_river() -> dict[str, Callable[[], Any]]:
    """river's regressors, new ones; none where it is not installed."""
    if not RIVER:
        return {}
    from river import forest, linear_model, neighbors, preprocessing, tree

    def scaled(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: preprocessing.StandardScaler() | make()

    return {
        "river LinearRegression": scaled(linear_model.LinearRegression),
        "river KNNRegressor": scaled(neighbors.KNNRegressor),
        "river HoeffdingAdaptiveTree": scaled(lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=0)),
        "river ARFRegressor": scaled(lambda: forest.ARFRegressor(seed=0)),
    }


def loss_of_river(model: Any, task: Task) -> float:
    """Average squared loss of predictions within [-1, 1], each made before its label."""
    losses = []
    for row, y in zip(task.xs.tolist(), task.ys.tolist(), strict=True):
        x = dict(enumerate(row))
        losses.append((float(np.clip(model.predict_one(x) or 0, -1, 1)) - y) ** 2)
        model.learn_one(x, y)
    return float(np.mean(losses))


def loss_of(forecaster: Any, task: Task) -> float:
    """Average squared loss; NaN where the stream was stopped."""
    try:
        run, _ = loops.prequential(forecaster, task.xs, task.ys, jax.random.key(0))
    except FloatingPointError as error:
        print(f"  stopped: {error}", flush=True)
        return float("nan")
    return float(np.mean((np.clip(run.prediction, -1, 1) - task.ys) ** 2))


def losses(found: list[Task], with_river: bool) -> Iterator[tuple[str, float]]:
    """(method, loss averaged over the streams) of all methods."""
    for name in forecasters(found[0]):
        yield name, float(np.mean([loss_of(forecasters(task)[name], task) for task in found]))
    for name, make in of_river().items() if with_river else ():
        yield name, float(np.mean([loss_of_river(make(), task) for task in found]))


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--ours", action="store_true", help="without river's models")
    parser.add_argument("--examples", type=cli.count, help="of each stream, at most")
    parser.add_argument("--regularization", type=float, help="lam, instead of the stream's own")
    parser.add_argument("--data-dir", help="folder of the data sets")
    cli.add_out_file(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax()
    table: dict[str, Any] = {"environment": environment.describe()}
    for name in options.only:
        found = tasks(name, options.examples, options.data_dir)
        if options.regularization is not None:
            found = [task._replace(regularization=options.regularization) for task in found]
        print(f"{name}: {len(found)} of {len(found[0].ys):,} examples", flush=True)
        table[name] = {"examples": len(found[0].ys), "streams": len(found)}
        table[name] |= {"regularization": found[0].regularization}
        for method, loss in losses(found, with_river=not options.ours):
            table[name][method] = loss
            print(f"  {method:28s} {loss:.4f}", flush=True)
        if options.out is not None:
            store.write_json(options.out, table)


if __name__ == "__main__":
    main()

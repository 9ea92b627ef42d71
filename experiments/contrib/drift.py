"""Beyond the papers: streams whose target changes (Jacobsen and Cutkosky, ICML 2024).

PKAWV, discounted PKAWV, their mixture over discounts, and river's models are compared.
The streams are GENERATED (uniform inputs, d = 2, noise 0.1, labels in [-1, 1]), one for each seed.
The function of "jumps" changes every 500 examples, the phase of "turning" changes a little with
each example, and "still" does not change. The forecasters have Taylor features of degree 5 of a
Gaussian kernel. The methods `kernel_*` use this kernel itself, cost O(t^2) an example, and run only
on the first stream of "jumps". river's models, if river is installed, have standardized inputs and
default parameters, and run on the first stream of each name.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import common
from experiments.common import Options, Settings
from experiments.contrib import saving
from experiments.contrib.saving import Row
from jsketch import kernels, loops, online
from jsketch.contrib import DiscountedKernelAWV, DiscountedPKAWV, discount_mixture
from jsketch.sketch.taylor import Taylor

STREAMS = ("jumps", "turning", "still")
MAX_KERNEL_EXAMPLES = 2_000  # length of the longest stream on which `kernel_*` run
FIGURE_METHODS = (
    *("static", "gamma_0.97", "gamma_0.99", "gamma_0.999", "over_discounts", "kernel_static"),
    *("kernel_0.99", "kernel_ridge_0.99", "river_linear", "river_knn", "river_tree"),
    "river_forest",
)
# bands would hide lines
ROW = Row("average_loss", "average squared loss", top=0.4, methods=FIGURE_METHODS, bands=False)
RUNS: dict[str, Settings] = {"beyond/drift": dict(problems=STREAMS, examples=2_000, seeds=5)}
QUICK: Settings = dict(problems=STREAMS[:1], examples=50, seeds=2)
LENGTHSCALE, REGULARIZATION = 0.5, 0.1
DISCOUNTS = [0.9, 0.97, 0.99, 0.997, 0.999, 1.0]
HAS_RIVER = find_spec("river") is not None


def generate(name: str, seed: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The stream of this name and seed: inputs [length, d] and labels [length]."""
    rng = np.random.default_rng(seed)
    xs, t = rng.uniform(-1, 1, (length, 2)), np.arange(length)
    frequencies = rng.normal(size=(length // 500 + 1, 2)) * 3  # of each part of "jumps"
    part = t // 500 if name == "jumps" else np.zeros(length, int)
    phase = 2 * np.pi * t / 2000 if name == "turning" else 0
    signal = np.sin((frequencies[part] * xs).sum(1) + phase)
    return xs, np.clip(0.8 * signal + 0.1 * rng.standard_normal(length), -1, 1)


def forecasters() -> dict[str, Any]:
    """The forecasters on Taylor features, by their names in the table."""
    features = Taylor(2, degree=5, lengthscale=LENGTHSCALE)
    static = online.PKAWV(features, REGULARIZATION)
    # with renewal the regularization does not decay
    without_renewal = DiscountedPKAWV(features, REGULARIZATION)
    with_renewal = replace(without_renewal, renew=True)
    discounted = {f"gamma_{g:g}": replace(with_renewal, discount=g) for g in DISCOUNTS if g < 1}
    mix = partial(discount_mixture, discounts=DISCOUNTS, bound=1.0, rule="vovk")
    mixtures = {"over_discounts": mix(with_renewal), "over_discounts_forget": mix(without_renewal)}
    return {"static": static, **discounted, **mixtures}


def kernel_forecasters() -> dict[str, Any]:
    """Kernel-AWV and kernel ridge regression on the Gaussian kernel itself."""
    static = online.KernelAWV(kernels.Gaussian(LENGTHSCALE), REGULARIZATION)
    discounted = DiscountedKernelAWV(static.kernel, REGULARIZATION, discount=0.99)
    ridge = replace(discounted, penalize_current=False)
    return {"kernel_static": static, "kernel_0.99": discounted, "kernel_ridge_0.99": ridge}


def river_models() -> dict[str, Callable[[], Any]]:
    """Constructors of river's regressors; empty if river is not installed."""
    if not HAS_RIVER:
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


def river_predictions(model: Any, xs: np.ndarray, ys: np.ndarray) -> Iterator[float]:
    """The predictions of one of river's models, each made before its label is observed."""
    for row, y in zip(xs.tolist(), ys.tolist(), strict=True):
        x = dict(enumerate(row))
        yield float(model.predict_one(x) or 0)
        model.learn_one(x, y)


def losses(method: str, xs: np.ndarray, ys: np.ndarray) -> np.ndarray | None:
    """Squared losses [n] of predictions clipped to [-1, 1], each made before its label is observed;
    None if the posterior is not finite."""
    if method in river_models():
        predictions: Any = list(river_predictions(river_models()[method](), xs, ys))
    else:
        forecaster = (forecasters() | kernel_forecasters())[method]
        try:
            forecasts, _ = loops.prequential(forecaster, (xs, ys), jax.random.key(0))
        except FloatingPointError as error:
            print(f"  stopped: {error}", flush=True)
            return None
        predictions = forecasts.prediction
    return (np.clip(predictions, -1, 1) - ys) ** 2


def runs(settings: Settings, name: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on the streams of one name, one dict for each seed. A run whose
    posterior is not finite has only the entry `stopped`."""
    rows: list[dict[str, Any]] = []
    for seed in range(seeds_of(settings, method)):
        loss = losses(method, *generate(name, seed, settings["examples"]))
        if loss is None:
            rows.append(dict(stopped=True))
            continue
        t, cumulative = saving.grid(settings["examples"]), loss.cumsum()
        averages = cumulative[t - 1] / t
        rows.append(dict(t=t, average_loss=averages, loss=loss.mean(), total_loss=cumulative[-1]))
    return rows


def seeds_of(settings: Settings, method: str) -> int:
    """The number of streams on which a method runs."""
    return settings["seeds"] if method in forecasters() else 1


def run(folder: Path, settings: Settings, options: Options) -> None:
    methods = {name: [*forecasters()] for name in settings["problems"]}
    if "jumps" in methods and settings["examples"] <= MAX_KERNEL_EXAMPLES:
        methods["jumps"] += kernel_forecasters()
    pairs = [(name, m) for name, names in methods.items() for m in (*names, *river_models())]
    seeds = {method: seeds_of(settings, method) for _, method in pairs}
    title = f"Streams whose target changes, and one that stays: {settings['seeds']} seeds"
    saving.run(folder, "beyond.drift", title, settings, options, runs, pairs=pairs, seeds=seeds)


def draw(folder: Path) -> None:
    saving.draw_panels(folder, "average_loss.png", (ROW,), "examples $t$", height=3.2)
    saving.write_numbers(folder, dict(loss=("average loss", 4), total_loss=("total loss", 1)))


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)

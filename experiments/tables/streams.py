"""Loss against time on the stream casp: PKAWV and FOGD of this project, stochastic gradient steps
of scikit-learn in Fourier features, and river's linear regression and tree.

    python -m experiments.tables.streams --out results/tables/streams

Inputs are in [0, 1] and labels in [-1, 1], in the order of a shuffle. Every prediction is made
before its label is used; scikit-learn predicts blocks of 64 examples. Seconds are those of the
second of two passes for the compiled forecasters.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments import cli
from experiments.contrib import drift
from experiments.data import streams
from experiments.pkawv_2019 import large_scale
from experiments.results import environment, outputs, tidy
from jsketch import kernels, online
from jsketch.sketch.taylor import Taylor

LENGTHSCALE, FREQUENCIES = 1.0, 1_000
COMPILED = ("pkawv", "fogd")
METHODS = (*COMPILED, "sgd_fourier", "river_linear", "river_tree")


def predictions(
    method: str, xs: np.ndarray, ys: np.ndarray
) -> Iterator[tuple[np.ndarray | list[float], int]]:
    """(predictions, size) of consecutive chunks of the stream; the size is 0 for other packages."""
    if method.startswith("river"):
        yield from (([value], 0) for value in drift.river_predictions(method, xs, ys))
    elif method == "sgd_fourier":
        from sklearn.kernel_approximation import RBFSampler

        gamma = 0.5 / LENGTHSCALE**2
        features = RBFSampler(gamma=gamma, n_components=FREQUENCIES, random_state=0).fit(xs[:1])
        yield from ((part, 0) for part in large_scale.predict_sgd(features, xs, ys, 0))
    else:
        forecaster: Any = online.PKAWV(Taylor(xs.shape[1], 3, LENGTHSCALE))
        if method == "fogd":
            kernel = kernels.Gaussian(LENGTHSCALE)
            forecaster = online.FOGD(kernel, len(ys) ** -0.5, FREQUENCIES)
        yield from large_scale.predict_compiled(forecaster, xs, ys, 0)


def one_pass(method: str, xs: np.ndarray, ys: np.ndarray) -> dict[str, np.ndarray]:
    """Average losses of predictions clipped to [-1, 1] and seconds, both at points of the stream,
    and the CPU seconds of the pass."""
    start = time.process_time()
    curve = large_scale.curve_of(lambda: predictions(method, xs, ys), ys, bound=1.0)
    cpu = np.asarray(time.process_time() - start)
    metrics = {name: curve[name] for name in ("average_loss", "seconds")}
    return dict(t=curve["n"], **metrics, cpu_seconds=cpu)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None, limit=None)
    cli.add_choices(parser, "--methods", METHODS)
    options = cli.parse(parser)
    versions = environment.package_versions("scikit-learn", "river")
    stream = streams.load_stream("casp", "authors", options.data_dir, limit=options.limit)
    config = dict(methods=options.methods, limit=options.limit)
    with outputs.results_folder(options, "tables.streams", config) as results:
        runs, final = [], {}
        for method in options.methods:
            for _ in range(2 if method in COMPILED else 1):
                arrays = one_pass(method, stream.xs, stream.ys)
            runs.append(tidy.Run(dict(problem="casp", algorithm=method), 0, arrays))
            final[method] = dict(
                average_loss=float(arrays["average_loss"][-1]),
                seconds=float(arrays["seconds"][-1]),
                cpu_seconds=float(arrays["cpu_seconds"]),
            )
            print(method, final[method], flush=True)
        summary = dict(config=config, packages=versions, examples=len(stream.ys), methods=final)
        results.write(summary, runs, f"casp, n = {len(stream.ys):,}")
        large_scale.draw(options.out)

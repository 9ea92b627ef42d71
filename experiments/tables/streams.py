"""Loss against time on the stream casp: PKAWV and FOGD of this project, stochastic gradient steps
of scikit-learn in Fourier features, and river's linear regression and tree.

    python -m experiments.tables.streams --out results/tables/streams

Inputs are in [0, 1] and labels in [-1, 1], in the order of a shuffle. Every prediction is made
before its label is used, by scikit-learn in blocks of 64: `predict` and `partial_fit` of a single
example take ten times as long as the arithmetic. Seconds are those of the second of two passes for
the compiled forecasters.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.contrib import drift
from experiments.data import streams
from experiments.pkawv_2019 import large_scale
from experiments.results import environment, outputs, tidy
from jsketch import kernels, loops, online
from jsketch.sketch.taylor import Taylor

LENGTHSCALE, FREQUENCIES, BLOCK = 1.0, 1_000, 64
COMPILED = ("pkawv", "fogd")
METHODS = (*COMPILED, "sgd_fourier", "river_linear", "river_tree")


def predictions(method: str, xs: np.ndarray, ys: np.ndarray) -> Iterator[np.ndarray]:
    """The predictions of consecutive chunks of the stream."""
    if method == "sgd_fourier":
        yield from _sgd_fourier(xs, ys)
    elif method in COMPILED:
        forecaster: Any = online.PKAWV(Taylor(xs.shape[1], 3, LENGTHSCALE))
        if method == "fogd":
            kernel = kernels.Gaussian(LENGTHSCALE)
            forecaster = online.FOGD(kernel, len(ys) ** -0.5, FREQUENCIES)
        chunks = loops.chunks(jnp.asarray(xs), jnp.asarray(ys), large_scale.CHUNK)
        for forecasts, _ in loops.prequential(forecaster, chunks, jax.random.key(0)):
            yield np.asarray(forecasts.prediction)
    else:
        model = drift.river_models()[method]()
        for row, y in zip(xs.tolist(), ys.tolist(), strict=True):
            x = dict(enumerate(row))
            yield np.array([model.predict_one(x) or 0.0])
            model.learn_one(x, y)


def _sgd_fourier(xs: np.ndarray, ys: np.ndarray) -> Iterator[np.ndarray]:
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDRegressor

    gamma = 0.5 / LENGTHSCALE**2
    features = RBFSampler(gamma=gamma, n_components=FREQUENCIES, random_state=0).fit(xs[:1])
    model = SGDRegressor(random_state=0)
    for begin in range(0, len(ys), BLOCK):
        block = slice(begin, begin + BLOCK)
        z, y = features.transform(xs[block]), ys[block]
        yield model.predict(z) if begin else np.zeros(len(y))
        model.partial_fit(z, y)


def one_pass(method: str, xs: np.ndarray, ys: np.ndarray) -> dict[str, np.ndarray]:
    """Average losses and seconds at points of the stream, and CPU seconds."""
    began, spent = time.perf_counter(), time.process_time()
    parts, seconds = [], []
    for part in predictions(method, xs, ys):
        parts.append(part)
        seconds.append(time.perf_counter() - began)
    cpu = time.process_time() - spent
    count, ends = np.arange(1, len(ys) + 1), np.cumsum([len(part) for part in parts])
    loss = np.cumsum(np.square(np.clip(np.concatenate(parts), -1, 1) - ys)) / count
    at = np.unique(np.round(np.geomspace(1, len(ys), large_scale.POINTS)).astype(int)) - 1
    return dict(
        t=count[at],
        average_loss=loss[at],
        seconds=np.interp(count[at], [0, *ends], [0.0, *seconds]),
        cpu_seconds=np.asarray(cpu),
    )


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    cli.add_choices(parser, "--methods", METHODS)
    parser.add_argument("--limit", type=cli.count, help="the first examples only")
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
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


if __name__ == "__main__":
    main()

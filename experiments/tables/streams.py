"""Loss, seconds and memory of forecasters on five streams: PKAWV, Nystrom-AWV and FOGD of this
project, stochastic gradient steps of scikit-learn in Fourier features, and river's linear
regression and tree.

    python -m experiments.tables.streams --out results/tables/streams

The streams are those of the PKAWV paper (inputs in [0, 1], labels in [-1, 1], in the order of a
shuffle), and one that is GENERATED: d = 8, uniform inputs, the sine of a random linear function and
noise. Every prediction is made before its label is used, and is clipped to [-1, 1]; scikit-learn
predicts blocks of 64 examples. Each measurement has a separate process, and the seconds of the
compiled forecasters are without compilation.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice, product, tee
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.contrib import drift
from experiments.data import streams
from experiments.pkawv_2019 import fig2_4_streams
from experiments.results import environment, outputs
from experiments.tables import scale
from jsketch import loops
from jsketch.sketch.taylor import basis_size

COMPILED = ("pkawv", "nystrom_awv", "fogd")
METHODS = (*COMPILED, "sgd_fourier", "river_linear", "river_tree")
GENERATED, DIMENSION, NOISE = "generated", 8, 0.1
N_GENERATED = 10_000_000  # examples of the generated stream
MAX_FEATURES = 500  # Taylor features of PKAWV, whose degree is at most 3
Block = tuple[np.ndarray, np.ndarray]  # inputs [k, d] and labels [k]


def generate(n: int) -> Iterator[Block]:
    """The blocks of the generated stream of n examples."""
    weights = np.random.default_rng(0).standard_normal(DIMENSION)
    for begin in range(0, n, fig2_4_streams.CHUNK):
        rng, length = np.random.default_rng(begin + 1), min(fig2_4_streams.CHUNK, n - begin)
        xs = rng.random((length, DIMENSION))
        ys = 0.8 * np.sin(xs @ weights) + NOISE * rng.standard_normal(length)
        yield xs, np.clip(ys, -1, 1)


def make_forecaster(method: str, dimension: int, n: int, lengthscale: float) -> Any:
    """One of the compiled forecasters, with the settings of `fig2_4_streams`."""
    degree = max(k for k in (1, 2, 3) if basis_size(dimension, k) <= MAX_FEATURES)
    names = dict(pkawv=f"taylor_{degree}", nystrom_awv="nystrom", fogd="fogd")
    settings = dict(regularization=1.0, mu=1.0, beta=1.0, eps=0.5, awv=True)
    config = dict(method=names[method], lengthscale=lengthscale, **settings)
    return fig2_4_streams.make_forecaster(config, dimension, n)


def sgd_predictions(blocks: Iterable[Block], dimension: int, lengthscale: float) -> Iterator[Any]:
    """The predictions of scikit-learn's SGDRegressor on random Fourier features of each block."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDRegressor

    gamma = 0.5 / lengthscale**2
    features = RBFSampler(gamma=gamma, n_components=fig2_4_streams.N_FREQUENCIES, random_state=0)
    # the random features depend on the dimension of the inputs only
    model, features = SGDRegressor(random_state=0), features.fit(np.zeros((1, dimension)))
    for xs, ys in blocks:
        yield np.concatenate(list(fig2_4_streams.predict_sgd(model, features, xs, ys)))


def average_loss(predictions: Iterable[Any], blocks: Iterable[Block]) -> float:
    """The average squared loss of predictions that are clipped to [-1, 1]."""
    total, count = 0.0, 0
    for values, (_, ys) in zip(predictions, blocks, strict=True):
        total += float(np.sum((np.clip(values, -1, 1) - ys) ** 2))
        count += len(ys)
    return total / count


def measure(name: str, method: str, examples: int | None, data_dir: str | None) -> dict[str, Any]:
    """Loss, seconds, CPU seconds and peak memory of a pass over the first examples of a stream, in
    this process. Reading or generating the examples is included."""
    lengthscale = 4.0 if name == "susy" else 1.0
    if name == GENERATED:
        n, dimension = examples or N_GENERATED, DIMENSION
        blocks: Callable[[], Iterable[Block]] = partial(generate, n)
    else:
        data = streams.load_stream(name, "authors", data_dir, limit=examples)
        n, dimension = data.xs.shape
        blocks = partial(loops.chunks, data.xs, data.ys, fig2_4_streams.CHUNK)

    def predictions(source: Iterable[Block]) -> Iterator[Any]:
        if method == "sgd_fourier":
            yield from sgd_predictions(source, dimension, lengthscale)
        elif method in COMPILED:
            forecaster = make_forecaster(method, dimension, n, lengthscale)
            for forecasts, _ in loops.prequential(forecaster, source, jax.random.key(0)):
                yield np.asarray(forecasts.prediction)
        else:
            model = drift.river_models()[method]()
            for xs, ys in source:
                yield list(drift.river_predictions(model, xs, ys))

    if method in COMPILED:
        # an untimed pass compiles; a dictionary that grows compiles until the end of a pass
        first_pass = blocks() if method == "nystrom_awv" else islice(blocks(), 2)
        deque(predictions(first_pass), maxlen=0)
    start, cpu_start = time.perf_counter(), time.process_time()
    source, labels = tee(blocks())
    loss = average_loss(predictions(source), labels)
    return dict(
        examples=n,
        average_loss=loss,
        seconds=time.perf_counter() - start,
        cpu_seconds=time.process_time() - cpu_start,
        peak_gigabytes=environment.peak_memory() / 1e9,
    )


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None, limit=None)
    cli.add_choices(parser, "--data", (*streams.NAMES, GENERATED))
    cli.add_choices(parser, "--methods", METHODS)
    limit_help = "CPU seconds of a process (default %(default)s)"
    parser.add_argument("--cpu-limit", type=cli.count, default=3_600, help=limit_help)
    options = cli.parse(parser)
    versions = environment.package_versions("scikit-learn", "river")
    config = {name: getattr(options, name) for name in ("data", "methods", "limit", "cpu_limit")}
    folder = None if options.data_dir is None else str(options.data_dir.absolute())
    with outputs.results_folder(options, "tables.streams", config) as results:
        rows: dict[str, dict[str, Any]] = {}
        for name, method in product(options.data, options.methods):
            if (name, method) == (GENERATED, "nystrom_awv"):
                continue  # Nystrom-AWV keeps all examples
            arguments = dict(name=name, method=method, examples=options.limit, data_dir=folder)
            measurement = scale.in_process("streams", options.cpu_limit, **arguments)
            rows.setdefault(name, {})[method] = measurement
            print(f"{name}, {method}: {measurement}", flush=True)
        results.write(dict(config=config, packages=versions, rows=rows))

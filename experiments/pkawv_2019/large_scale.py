"""Figures 2 and 4 of PKAWV: loss and time of forecasters on casp, ijcnn1, cod-rna and SUSY.

python -m experiments.pkawv_2019.large_scale --data casp --out results/pkawv_2019/casp

The settings are those of the first author's notebook (THEORY 7.8, 10.2): lam = 1, lengthscale 1 (4
for SUSY), KORS with mu = 1, beta = 1, eps = 0.5 and the weights of the code ("nystrom") or of the
theory ("nystrom_theory"), FOGD with 1000 frequencies and step 1/sqrt(n), and the predictions of
projected kernel ridge regression. Methods whose runs are in the folder are not run again.
"""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.data import streams
from experiments.figures import plots
from experiments.results import outputs, store, summaries, tidy
from jsketch import kernels, loops, online
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor, basis_size

METHODS = (
    *("taylor_2", "taylor_3", "taylor_4", "nystrom", "nystrom_theory"),
    *("fogd", "nogd", "pros_n_kons", "kernel_ridge", "sklearn"),
)
MAX_FEATURES = 5_000  # Taylor features; larger degrees are omitted
CHUNK = 2_048  # examples between two readings of the clock
CURVE_POINTS = 200  # of a saved curve
MAX_PASSES, REPEAT_SECONDS = 5, 20.0  # timed passes; seconds after which no pass starts
N_FREQUENCIES, NOGD_POINTS = 1_000, 200
# scikit-learn's points, the first inputs from which they are drawn, and the examples of a block
SKLEARN_POINTS, SKLEARN_FIRST_INPUTS, SKLEARN_BLOCK = 200, 1_000, 64

Config = dict[str, Any]


def configure(
    name: str,
    data: str,
    scaling: str = "authors",
    seed: int = 0,
    limit: int | None = None,
    time_limit: float = 300.0,
) -> Config:
    """The settings of a method on a data set."""
    return dict(
        method=name,
        data=data,
        limit=limit,
        scaling=scaling,
        seed=seed,
        lengthscale=4.0 if data == "susy" else 1.0,
        regularization=1.0,
        mu=1.0,
        beta=1.0,
        eps=0.5,
        awv=False,  # whether PKAWV predicts as in the paper, and not as kernel ridge regression
        time_limit=time_limit,
    )


def make_forecaster(config: Config, dimension: int, n: int) -> Any:
    """The forecaster of a configuration, for n examples with inputs of this dimension."""
    name, kernel = config["method"], kernels.Gaussian(config["lengthscale"])
    weights = "theory" if name == "nystrom_theory" else "code"
    sampling = Sampling(config["mu"], config["beta"], config["eps"], weights)
    ridge = dict(regularization=config["regularization"], penalize_current=config["awv"])
    if name.startswith("taylor"):
        return online.PKAWV(Taylor(dimension, int(name[-1]), config["lengthscale"]), **ridge)
    if name.startswith("nystrom"):
        return online.NystromAWV(kernel, sampling=sampling, memory=n + CHUNK, **ridge)
    if name == "fogd":
        return online.FOGD(kernel, step_size=n**-0.5, count=N_FREQUENCIES)
    if name == "nogd":
        return online.NOGD(kernel, step_size=n**-0.5, count=NOGD_POINTS)
    if name == "pros_n_kons":
        return online.ProsNKONS(kernel, config["regularization"], bound=1.0, sampling=sampling)
    return online.KernelAWV(kernel, **ridge, capacity=512)


def predict(config: Config, xs: np.ndarray, ys: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """(predictions, number of features or points) of the consecutive chunks of one pass. Each
    prediction is made before its label is observed."""
    seed = config["seed"]
    if config["method"] != "sklearn":
        forecaster = make_forecaster(config, xs.shape[1], len(ys))
        chunks = loops.chunks(jnp.asarray(xs), jnp.asarray(ys), CHUNK)
        for forecasts, _ in loops.prequential(forecaster, chunks, jax.random.key(seed)):
            yield np.asarray(forecasts.prediction), int(forecasts.dictionary_size[-1])
        return
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDRegressor

    # the points are some of the first inputs, which scikit-learn has before the stream starts
    size, gamma = min(SKLEARN_POINTS, len(xs)), 0.5 / config["lengthscale"] ** 2
    features = Nystroem(gamma=gamma, n_components=size, random_state=seed)
    features.fit(xs[:SKLEARN_FIRST_INPUTS])
    model = SGDRegressor(random_state=seed)
    for predictions in predict_sgd(model, features, xs, ys):
        yield predictions, size


def predict_sgd(model: Any, features: Any, xs: np.ndarray, ys: np.ndarray) -> Iterator[np.ndarray]:
    """The predictions of scikit-learn's SGDRegressor `model` on `features`. The model predicts each
    block, and then learns it."""
    for begin in range(0, len(ys), SKLEARN_BLOCK):
        block = slice(begin, begin + SKLEARN_BLOCK)
        z, y = features.transform(xs[block]), ys[block]
        is_fitted = hasattr(model, "coef_")
        predictions = model.predict(z) if is_fitted else np.zeros(len(y))
        model.partial_fit(z, y)
        yield predictions


def run_once(config: Config, xs: np.ndarray, ys: np.ndarray) -> dict[str, np.ndarray]:
    """The curve of one pass: the average loss and error up to each saved n, with interpolated
    seconds and sizes. The pass stops after the chunk that exceeds the time limit."""
    chunks: list[Any] = []
    seconds: list[float] = []
    sizes: list[int] = []
    start = time.perf_counter()
    for predictions, size in predict(config, xs, ys):
        chunks.append(predictions)
        seconds.append(time.perf_counter() - start)
        sizes.append(size)
        if seconds[-1] > config["time_limit"]:
            break
    ends = list(itertools.accumulate(map(len, chunks)))
    forecast = np.concatenate(chunks)
    labels = ys[: len(forecast)]
    # a prediction of zero counts as half an error
    wrong = np.where(forecast == 0, 0.5, np.sign(forecast) != np.sign(labels))
    n = np.arange(1, len(forecast) + 1)
    rows = np.unique(np.round(np.geomspace(1, len(forecast), CURVE_POINTS)).astype(int)) - 1
    return dict(
        n=n[rows],
        average_loss=(np.cumsum(np.square(forecast - labels)) / n)[rows],
        error_rate=(np.cumsum(wrong) / n)[rows],
        seconds=np.interp(n[rows], [0, *ends], [0, *seconds]),
        size=np.interp(n[rows], ends, sizes),
        finished=np.array(len(forecast) == len(ys)),
    )


def run_method(config: Config, stream: streams.Stream, folder: Path) -> dict[str, np.ndarray]:
    """The curve of a method, read from the folder if it is there. Otherwise the curve of the pass
    with the median time, among timed passes after one that compiles; short passes are repeated."""
    name = config["method"]
    store.record_configuration(folder, name, config)
    path = store.run_path(folder, name, config["seed"])
    if not path.exists():
        cold_pass = run_once(config, stream.xs, stream.ys)
        passes = [run_once(config, stream.xs, stream.ys)]
        while len(passes) < MAX_PASSES and sum(c["seconds"][-1] for c in passes) < REPEAT_SECONDS:
            passes.append(run_once(config, stream.xs, stream.ys))
        passes.sort(key=lambda c: c["seconds"][-1])
        curve = passes[len(passes) // 2]
        curve["compile_seconds"] = np.maximum(cold_pass["seconds"][-1] - curve["seconds"][-1], 0)
        store.write_npz(path, curve)
    curve = store.read_run(folder, name, config["seed"])
    ending = "" if curve["finished"] else f", STOPPED by the time limit at n = {curve['n'][-1]:,}"
    print(f"{name}: {curve['seconds'][-1]:.2f} s{ending}", flush=True)
    return curve


def draw(folder: Path) -> None:
    """Draws loss.png, time.png, loss_at_time.png, and error.png if labels are classes, from the
    tables in the folder."""
    curves, _, provenance = tidy.load(folder)
    title = curves.attrs["title"]
    # the first averages are omitted, because they are large
    n_omitted = max(20, provenance["examples"] // 200)
    late_curves = curves[curves["t"] > n_omitted]
    metrics = {name: tidy.lines(late_curves, name) for name in late_curves["metric"].unique()}
    examples, seconds = "examples $n$", "seconds, without compilation"
    loss = metrics["average_loss"]
    plots.streams(folder / "loss.png", loss, title, "average squared loss", examples)
    plots.streams(
        folder / "time.png", metrics["seconds"], title, seconds, examples, log=True, slopes=True
    )
    at_time = {name: (metrics["seconds"][name][1][0], values) for name, (_, values) in loss.items()}
    plots.streams(
        folder / "loss_at_time.png", at_time, title, "average squared loss", seconds, log=True
    )
    if "error_rate" in metrics:
        plots.streams(folder / "error.png", metrics["error_rate"], title, "0/1 error", examples)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None, limit=None)
    parser.add_argument("--data", choices=streams.NAMES, default="casp")
    parser.add_argument("--scaling", choices=streams.SCALINGS, default="authors")
    cli.add_choices(parser, "--methods", METHODS)
    help_text = "seconds after which a pass stops (default 60)"
    parser.add_argument("--time-limit", type=cli.positive, default=60.0, help=help_text)
    parser.add_argument("--seed", type=int, default=0)
    options = cli.parse(parser)
    data, scaling, seed, limit = options.data, options.scaling, options.seed, options.limit
    stream = streams.load_stream(data, scaling, options.data_dir, seed, limit)
    dimension = stream.xs.shape[1]
    print(f"data: {stream.source}; n = {len(stream.ys):,}, d = {dimension}, scaling '{scaling}'")
    settings = data, scaling, seed, limit, options.time_limit
    configs = {name: configure(name, *settings) for name in options.methods}
    with outputs.results_folder(options, "pkawv_2019.large_scale", configs) as results:
        curves = {}
        for name in options.methods:
            if name.startswith("taylor") and basis_size(dimension, int(name[-1])) > MAX_FEATURES:
                print(f"{name:15s} omitted: {basis_size(dimension, int(name[-1])):,} features")
                continue
            curves[name] = run_method(configs[name], stream, options.out)
        summary: dict[str, Any] = dict(
            config={name: configs[name] for name in curves},
            data=stream.source,
            examples=len(stream.ys),
            inputs=dimension,
            seconds="median wall time of up to five passes after one that compiles; the excess of"
            " that one is compile_seconds",
            methods={
                name: dict(
                    average_loss=float(c["average_loss"][-1]),
                    error_rate=float(c["error_rate"][-1]) if stream.classes else None,
                    seconds=float(c["seconds"][-1]),
                    compile_seconds=float(c["compile_seconds"]),
                    size=int(c["size"][-1]),
                    examples=int(c["n"][-1]),
                )
                for name, c in curves.items()
            },
        )
        title = f"{data}, n = {len(stream.ys):,}, scaling '{scaling}'"
        table = []
        for name, curve in curves.items():
            arrays = {"t" if metric == "n" else metric: a for metric, a in curve.items()}
            if not stream.classes:
                arrays.pop("error_rate")
            run_config = {n: v for n, v in configs[name].items() if n not in ("data", "method")}
            table.append(tidy.Run(dict(problem=data, algorithm=name, **run_config), seed, arrays))
        results.write(summary, table, title)
        draw(options.out)
    summaries.print_table(title, summary["methods"])

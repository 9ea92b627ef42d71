"""Run times of the forecasters on this machine: medians of several runs without compilation, which
is measured separately.

scripts/bench-online                           every benchmark
scripts/bench-online --only susy casp_fogd     some of them
"""

import argparse
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.bench.timing import seconds, show
from experiments.data import streams
from experiments.results import store
from jsketch import kernels, loops, online
from jsketch.loops.streams import BLOCK
from jsketch.scale import prequential_in_segments
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor


class Task(NamedTuple):
    """A forecaster on a stream of n examples, with lam = mu = beta = 1 and eps = 0.5 as in the
    paper."""

    stream: str  # a data set, or "generated": uniform inputs
    inputs: int
    length: int  # n
    method: str
    degree: int  # M of Taylor features
    lengthscale: float
    target: str


TASKS = {
    "susy": Task("generated", 18, 1_000_000, "taylor", 2, 4.0, "<= 3 us an example, < 4 s"),
    "degree_4": Task("generated", 9, 45_730, "taylor", 4, 1.0, "<= 154 us an example"),
    "casp_taylor": Task("casp", 9, 45_730, "taylor", 3, 1.0, "< 0.6 s"),
    "casp_fogd": Task("casp", 9, 45_730, "fogd", 0, 1.0, "< 0.6 s"),
    "casp_pros_n_kons": Task("casp", 9, 45_730, "pros_n_kons", 0, 1.0, "< 6 s"),
    "casp_nystrom": Task("casp", 9, 45_730, "nystrom", 0, 1.0, "< 20 s"),
    "casp_nystrom_theory": Task("casp", 9, 45_730, "nystrom_theory", 0, 1.0, "< 20 s"),
    "cod_rna_nystrom": Task("cod_rna", 8, 271_617, "nystrom", 0, 1.0, "< 90 s"),
    "cod_rna_nystrom_theory": Task("cod_rna", 8, 271_617, "nystrom_theory", 0, 1.0, "< 90 s"),
}


def make_forecaster(task: Task) -> Any:
    """The forecaster of a task. PKAWV and NystromAWV predict by ridge regression, as in the first
    author's code. "nystrom" samples with the weights of that code, and "nystrom_theory" with the
    weights of the theorem (THEORY 7.5)."""
    kernel = kernels.Gaussian(task.lengthscale)
    sampling = Sampling(weights="theory" if task.method.endswith("theory") else "code")
    if task.method == "taylor":
        features = Taylor(task.inputs, task.degree, task.lengthscale)
        return online.PKAWV(features, 1.0, penalize_current=False)
    if task.method == "fogd":
        return online.FOGD(kernel, task.length**-0.5)
    if task.method == "pros_n_kons":
        return online.ProsNKONS(kernel, 1.0, 1.0, sampling)
    memory = task.length + BLOCK
    return online.NystromAWV(kernel, 1.0, sampling, penalize_current=False, memory=memory)


def load(task: Task, data_dir: str | None) -> tuple[np.ndarray, np.ndarray]:
    """The stream, xs [n,d] and ys [n]."""
    if task.stream != "generated":
        stream = streams.load_stream(task.stream, "authors", data_dir)
        return stream.xs, stream.ys
    random = np.random.default_rng(0)
    xs = random.uniform(size=(task.length, task.inputs))
    return xs, np.sin(xs.sum(1)) + 0.1 * random.standard_normal(task.length)


def run_task(name: str, task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a task, which is timed from the first example of its stream to the last."""
    xs, ys = load(task, options.data_dir)
    inputs, labels = jnp.asarray(xs), jnp.asarray(ys)
    forecaster = make_forecaster(task)
    jax.clear_caches()
    predict = prequential_in_segments if task.method == "taylor" else loops.prequential

    def run() -> loops.Forecasts:
        return predict(forecaster, (inputs, labels), jax.random.key(0))[0]

    median, compilation = seconds(run, options.repeats)
    forecasts = run()
    row: dict[str, Any] = dict(
        task=task._asdict(),
        run_seconds=median,
        compile_seconds=compilation,
        microseconds_an_example=1e6 * median / len(ys),
        dictionary_size=int(forecasts.dictionary_size[-1]),
        average_loss=float(forecasts.average_loss[-1]),
    )
    show(name, row, f"[{task.target}]")
    return row


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, repeats=3, data_dir=None)
    cli.add_choices(parser, "--only", list(TASKS), help="benchmarks to run")
    options = cli.parse_benchmark(parser)
    rows = {name: run_task(name, TASKS[name], options) for name in options.only}
    store.write_numbers(options.out, rows)

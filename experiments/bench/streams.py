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
from experiments.pkawv_2019 import large_scale
from experiments.results import store
from jsketch import loops
from jsketch.scale import prequential_in_segments


class Task(NamedTuple):
    """A method of `pkawv_2019.large_scale` on a stream."""

    stream: str  # a data set
    method: str
    # (n, d) of uniform inputs that replace those of the data set
    generated: tuple[int, int] | None = None


TASKS = {
    "susy": Task("susy", "taylor_2", (1_000_000, 18)),
    "degree_4": Task("casp", "taylor_4", (45_730, 9)),
    "casp_taylor": Task("casp", "taylor_3"),
    "casp_fogd": Task("casp", "fogd"),
    "casp_pros_n_kons": Task("casp", "pros_n_kons"),
    "casp_nystrom": Task("casp", "nystrom"),
    "casp_nystrom_theory": Task("casp", "nystrom_theory"),
    "cod_rna_nystrom": Task("cod_rna", "nystrom"),
    "cod_rna_nystrom_theory": Task("cod_rna", "nystrom_theory"),
}


def run_task(name: str, task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a task, which is timed from the first example of its stream to the last."""
    if task.generated is None:
        xs, ys, *_ = streams.load_stream(task.stream, "authors", options.data_dir)
    else:
        random = np.random.default_rng(0)
        xs = random.uniform(size=task.generated)
        ys = np.sin(xs.sum(1)) + 0.1 * random.standard_normal(len(xs))
    inputs, labels = jnp.asarray(xs), jnp.asarray(ys)
    config = large_scale.configure(task.method, task.stream)
    forecaster = large_scale.make_forecaster(config, xs.shape[1], len(ys))
    jax.clear_caches()
    is_taylor = task.method.startswith("taylor")
    predict = prequential_in_segments if is_taylor else loops.prequential

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
    show(name, row)
    return row


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, repeats=3, data_dir=None)
    cli.add_choices(parser, "--only", list(TASKS), help="benchmarks to run")
    options = cli.parse_benchmark(parser)
    rows = {name: run_task(name, TASKS[name], options) for name in options.only}
    store.write_numbers(options.out, rows)

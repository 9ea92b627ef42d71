"""How long forecasters take on this machine, an example and a stream: medians of several runs,
compilation apart.

scripts/bench-online                           every benchmark
scripts/bench-online --only susy casp_fogd     some of them
scripts/bench-online --only joins              dictionaries that nearly every example joins, in CPU
                                               seconds
scripts/bench-online --reference DIR           also runs the first PKAWV author's NumPy code (a
                                               checkout of Remjez/kernel-online-learning) on the
                                               first examples of the same stream
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.bench import joins
from experiments.bench.floor import gemm_flops_per_second
from experiments.data import streams
from experiments.pkawv_2019 import authors_code
from experiments.results import environment, files, store
from jsketch import kernels, loops, online
from jsketch.loops.streams import BLOCK
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor


class Task(NamedTuple):
    """A forecaster on a stream of n examples; lam = 1, mu = 1, beta = 1, eps = 0.5 as in the
    paper."""

    stream: str  # a data set, or "generated": uniform inputs, so many that no file has them
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
    """Kernel ridge regression's prediction where the first author's code has it: "nystrom" samples
    as that code does, "nystrom_theory" as the theorem (THEORY 7.5)."""
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


def needed_flops(sizes: np.ndarray) -> float:
    """Flops an exact forecaster cannot avoid at r features: A^-1 z and half of a symmetric update
    of A^-1, 3 r^2."""
    return float(3 * np.square(sizes, dtype=float).sum())


def run_task(name: str, task: Task, options: argparse.Namespace, peak: float) -> dict[str, Any]:
    """Times one stream from its first example to its last."""
    xs, ys = load(task, options.data_dir)
    inputs, labels = jnp.asarray(xs), jnp.asarray(ys)
    forecaster = make_forecaster(task)
    jax.clear_caches()
    times = []
    for _ in range(options.repeats + 1):
        began = time.perf_counter()
        forecasts, _ = loops.prequential(forecaster, inputs, labels, jax.random.key(0))
        jax.block_until_ready(forecasts)
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times[1:])
    size = np.asarray(forecasts.dictionary_size)
    second_order = task.method not in ("fogd",)
    floor = needed_flops(size) / peak if second_order else 0.0
    row: dict[str, Any] = dict(
        task=task._asdict(),
        run_seconds=seconds,
        compile_seconds=times[0] - seconds,
        microseconds_an_example=1e6 * seconds / len(ys),
        gemm_floor_seconds=floor,
        dictionary_size=int(size[-1]),
        average_loss=float(forecasts.average_loss[-1]),
    )
    print(
        f"{name:23s} run {seconds:7.2f} s  {row['microseconds_an_example']:6.2f} us an example "
        f" compile {row['compile_seconds']:5.1f} s  GEMM floor {floor:5.2f} s"
        f" ({floor / seconds:.0%})  m {size[-1]}  average loss {row['average_loss']:.4f}  "
        f" [{task.target}]",
        flush=True,
    )
    if options.reference is not None and authors_code.can_run(task.method):
        row["reference"] = _run_reference(
            task, xs, ys, row, np.asarray(forecasts.prediction), options
        )
    return row


def _run_reference(
    task: Task,
    xs: np.ndarray,
    ys: np.ndarray,
    row: dict[str, Any],
    ours: np.ndarray,
    options: argparse.Namespace,
) -> dict[str, float]:
    """The author's code on as many first examples as fit into the time given."""
    run = authors_code.run(
        options.reference,
        task.method,
        task.degree,
        task.lengthscale,
        xs,
        ys,
        options.reference_seconds,
    )
    seen = len(run.prediction)
    factor = 1e6 * run.seconds / seen / row["microseconds_an_example"]
    measured = dict(seconds=run.seconds, examples=seen, factor=factor)
    note = ""
    # nothing random in it
    if task.method == "taylor":
        measured["difference"] = float(np.abs(run.prediction - ours[:seen]).max())
        note = f"  largest difference of the predictions {measured['difference']:.1e}"
    print(
        f"{'':23s} author, first {seen} examples: {1e6 * run.seconds / seen:.1f} us an example,"
        f" {factor:.0f} times ours{note}",
        flush=True,
    )
    return measured


def growth(options: argparse.Namespace) -> dict[str, float]:
    """Cost of an example early and late in a long stream, fixed features; it must not grow."""
    task = TASKS["susy"]
    xs, ys = load(task, options.data_dir)
    forecaster, quarter = make_forecaster(task), task.length // 4
    state, times = None, []
    # the first one compiles
    for first in (0, 0, quarter, 2 * quarter, 3 * quarter):
        state = None if first == 0 else state
        part = slice(first, first + quarter)
        began = time.perf_counter()
        _, state = loops.prequential(
            forecaster, xs[part], ys[part], jax.random.key(0), state=state, first=first
        )
        jax.block_until_ready(state)
        times.append(1e6 * (time.perf_counter() - began) / quarter)
    ratio = times[-1] / times[1]
    print(
        f"growth                  {times[1]:.2f} us an example in the first quarter of a million,"
        f" {times[-1]:.2f} in the last: {ratio:.2f} times   [1]",
        flush=True,
    )
    return dict(first_quarter=times[1], last_quarter=times[-1], ratio=ratio)


# benchmarks of their own
WHOLE = {"growth": growth, "joins": lambda options: joins.measure()}


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    names = [*TASKS, *WHOLE]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="benchmarks to run")
    parser.add_argument(
        "--reference", type=Path, help="checkout of the author's code, run on the same streams"
    )
    parser.add_argument(
        "--reference-seconds", type=float, default=20.0, help="how long it may run on each"
    )
    parser.add_argument("--repeats", type=cli.count, default=3, help="timed runs after the first")
    parser.add_argument("--data-dir", help="folder of the data sets")
    cli.add_out_file(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax(cached=False)
    peak = gemm_flops_per_second()
    print(
        f"{os.cpu_count()} cores, {jax.default_backend()}, float64 GEMM peak {peak / 1e9:.0f}"
        " GFLOP/s"
    )
    rows: dict[str, Any] = {"environment": environment.describe(), "gemm_gflops": peak / 1e9}
    for name in options.only:
        rows[name] = (
            WHOLE[name](options) if name in WHOLE else run_task(name, TASKS[name], options, peak)
        )
    if options.out is not None:
        store.write_json(options.out, rows)


if __name__ == "__main__":
    main()

"""Seconds and memory of one batch of 96 from pools of 10,000 to 1,000,000 candidates after 500
evaluations: `jsketch.suggest`, a random forest of scikit-learn, and BoTorch.

    python -m experiments.tables.scale --out results/tables/scale

The candidates are GENERATED: d = 8, uniform, with values of a smooth function plus noise. Each
measurement has a separate process. For `suggest` the second call is measured, which compiles
nothing.
BoTorch has its defaults. `botorch_first_pick` measures the first pick of a batch alone; later picks
are slower, because each is optimized jointly with all earlier ones.
"""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import cli
from experiments.bench.many_arms import time_call
from experiments.pools import baselines
from experiments.results import environment, outputs
from jsketch.suggest import suggest

DIMENSION, N_OBSERVED, BATCH, NOISE = 8, 500, 96, 0.1
# method: (chooser of `baselines`, batch)
METHODS: dict[str, tuple[str | None, int]] = {
    "jsketch": (None, BATCH),
    "random_forest": ("random_forest", BATCH),
    "botorch_first_pick": ("botorch_ei", 1),
    "botorch": ("botorch_ei", BATCH),
}
COUNTS = (10_000, 100_000, 1_000_000)
PROCESS = (
    "import sys; from experiments.tables import scale, {0};"
    " scale.print_measurement({0}.measure, *sys.argv[1:])"
)
CPU_LIMIT_STATUS = -signal.SIGXCPU  # the exit status of a process that used up its CPU time


def measure(method: str, count: int) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory of a batch among `count` candidates in this process."""
    rng = np.random.default_rng(0)
    features = rng.random((count, DIMENSION))
    arms = rng.choice(count, N_OBSERVED, replace=False)
    values = np.sin(4 * features[arms]).sum(1) + NOISE * rng.standard_normal(N_OBSERVED)
    chooser, batch = METHODS[method]
    if chooser is None:
        _, first_call = time_call(lambda: suggest(features, arms, values, batch=batch))
        rows, numbers = time_call(lambda: suggest(features, arms, values, batch=batch).rows)
        numbers["with_compilation"] = first_call["seconds"]
    else:
        choose = baselines.CHOOSERS[chooser]
        rows, numbers = time_call(lambda: choose(features, arms, values, batch, 0))
    true_values = np.sin(4 * features[rows]).sum(1)
    return numbers | dict(
        peak_gigabytes=environment.peak_memory() / 1e9, mean_value=float(true_values.mean())
    )


def print_measurement(
    measure: Callable[..., dict[str, Any]], arguments: str, cpu_limit: str
) -> None:
    """The program of the process that `in_process` starts."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_limit), resource.RLIM_INFINITY))
    cli.set_up_jax(cached=False)
    print(json.dumps(measure(**json.loads(arguments))))


def in_process(module: str, cpu_limit: int, **arguments: Any) -> dict[str, Any] | None:
    """measure(**arguments) of a module of this folder in a new process; None if it takes more than
    `cpu_limit` CPU seconds. Raises ValueError if it fails."""
    program = PROCESS.format(module)
    command = [sys.executable, "-c", program, json.dumps(arguments), str(cpu_limit)]
    process = subprocess.run(command, cwd=environment.ROOT, capture_output=True, text=True)
    if process.returncode == CPU_LIMIT_STATUS:
        return None
    if process.returncode:
        reason = process.stderr.strip().splitlines()[-1]
        raise ValueError(f"{module} failed with {arguments}: {reason}")
    return json.loads(process.stdout.splitlines()[-1])


def lines(rows: dict[str, dict[str, Any]], counts: list[int], limit: int) -> list[str]:
    """The lines of a Markdown table of the measurements {method: {count: measurement}}, which are
    None beyond the `limit` of CPU seconds."""

    def cell(row: dict[str, Any] | None) -> str:
        if row is None:
            return f"more than {limit} CPU s"
        cpu, memory = f"{row['cpu_seconds']:.3g} s", f"{row['peak_gigabytes']:.2g} GB"
        return f"{row['seconds']:.3g} s, {cpu}, {memory}"

    head = ["one batch: seconds, CPU seconds, peak memory", *(f"{n:,} candidates" for n in counts)]
    table = [head, ["---"] * len(head)]
    for method, by_count in rows.items():
        label = f"{method}, batch of {METHODS[method][1]}"
        table.append([label, *(cell(by_count[str(count)]) for count in counts)])
    return [f"| {' | '.join(cells)} |" for cells in table]


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    cli.add_choices(parser, "--methods", list(METHODS))
    parser.add_argument("--counts", type=cli.count, nargs="+", default=list(COUNTS))
    limit_help = "CPU seconds of a process (default %(default)s)"
    parser.add_argument("--limit", type=cli.count, default=300, help=limit_help)
    options = cli.parse(parser)
    choosers = [METHODS[method][0] for method in options.methods]
    packages = ("botorch", "gpytorch", "torch") if "botorch_ei" in choosers else ()
    versions = environment.package_versions("scikit-learn", *packages)
    config = dict(methods=options.methods, counts=options.counts, limit=options.limit)
    with outputs.results_folder(options, "tables.scale", config) as results:
        rows: dict[str, dict[str, Any]] = {}
        for method in options.methods:
            rows[method] = {}
            for count in options.counts:
                # a larger pool would exceed the limit as well
                stopped = None in rows[method].values()
                measurement = (
                    None
                    if stopped
                    else in_process("scale", options.limit, method=method, count=count)
                )
                rows[method][str(count)] = measurement
                print(f"{method}, {count:,}: {measurement}", flush=True)
        results.write(dict(config=config, packages=versions, rows=rows))
    print("\n".join(lines(rows, options.counts, options.limit)))

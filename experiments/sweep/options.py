"""What a sweep is, as it is typed on the command line."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Literal

import tyro

from experiments.results import environment

Problem = Literal[
    "abalone", "cadata", "nas", "generated", "linear_slow", "linear_fast", "linear_low_rank"
]
VALUES = "VALUE ..."
Values = Annotated[tuple[float, ...] | None, tyro.conf.arg(metavar=VALUES)]
Oversampling = Annotated[Values, tyro.conf.arg(metavar=VALUES, aliases=["--grid.oversampling"])]
Threshold = Annotated[Values, tyro.conf.arg(metavar=VALUES, aliases=["--grid.batch-threshold"])]
Range = Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="LOW HIGH")]


@dataclasses.dataclass(frozen=True)
class Grid:
    """Values of numbers of the algorithm; every combination of them is run. Numbers not named keep
    their defaults."""

    lengthscale: Values = None
    regularization: Values = None  # lambda
    noise_std: Values = None  # as the algorithm assumes it; the problem's does not change
    norm_bound: Values = None  # F
    delta: Values = None  # failure probability
    qbar: Oversampling = None  # of the dictionary
    ratio: Threshold = None  # C, within a batch
    epsilon: Values = None  # of eps_greedy
    scale: Values = None  # of the width of ts, sketched_ts and soful_ts


@dataclasses.dataclass(frozen=True)
class Ranges:
    """Lowest and highest value of numbers that are drawn at random, uniformly in the logarithm."""

    lengthscale: Range = None
    regularization: Range = None
    noise_std: Range = None
    norm_bound: Range = None
    delta: Range = None
    qbar: Range = None
    ratio: Range = None
    epsilon: Range = None
    scale: Range = None


@dataclasses.dataclass(frozen=True)
class Sweep:
    """An algorithm on a problem with every combination of some numbers, and every seed."""

    out: Path  # folder of the results
    problem: Problem = "abalone"  # as the experiments set it up
    # uniform, eps_greedy, gp_ucb, gp_bucb, gp_bucb_sqrt, ts, sketched_ts, bkb, bbkb (bbkb_global),
    # bbkb_global_local; on linear problems uniform, gp_ucb, bkb, bkb_logdet, bkb_theory, soful,
    # soful_full, soful_paper,
    # soful_ts, cbrap
    algorithm: str = "bbkb"
    horizon: int = 1_000  # evaluations a run
    seeds: int = 10  # runs of a configuration
    grid: Grid = Grid()
    random: Ranges = Ranges()
    samples: int = 10  # random draws, when there are ranges; each is combined with the whole grid
    arms: int = 2_000  # candidates of the problem "generated"
    # threads: one run on each worker; vmap: `chunk` runs in one program, where each loop waits for
    # the longest (24 runs on Abalone: 11 CPU seconds one by one, 14 two at once, 67 eight at once);
    # auto: vmap on accelerators
    strategy: Literal["auto", "threads", "vmap"] = "auto"
    workers: int = environment.usable_cores()  # of threads
    chunk: int = 64  # of vmap
    data_dir: Path | None = None  # folder of the data sets
    # K/N, such as 3/40: the K-th of N parts of the runs, into a folder of its own within --out;
    # others may run at the same time. The same command without it takes what they have made, runs
    # the rest, and leaves tables and figures of the whole
    shard: str | None = None
    # runs all shards as an array of jobs by submitit (an extra), through Slurm or on this machine;
    # the jobs of this machine start at the same time
    cluster: Literal["local", "slurm"] | None = None
    shards: int = 4  # of --cluster
    at_once: int | None = None  # shards that Slurm runs at a time; default: all
    # of each job, as submitit names them: timeout_min=240 gpus_per_node=1 slurm_partition=long
    submit: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = ()


# who runs a sweep, and not what is run
JOBS = ("shard", "cluster", "shards", "at_once", "submit")


def command(sweep: Sweep, shard: str) -> str:
    """The command of a sweep, for that shard of it: everything that is not a default."""
    words = ["scripts/sweep"]
    for field in dataclasses.fields(Sweep):
        value = getattr(sweep, field.name)
        if dataclasses.is_dataclass(value):
            numbers = {f"{field.name}.{name}": held for name, held in vars(value).items()}
        elif value != field.default and field.name not in JOBS:
            numbers = {field.name: (value,)}
        else:
            numbers = {}
        for name, values in numbers.items():
            if values is not None:
                words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return f"{shlex.join(words)} --shard {shard}"

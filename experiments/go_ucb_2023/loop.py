"""Executes the runs that are missing in a folder, and reads all runs."""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments import cli
from experiments.results import store
from experiments.runs import processes

Config = dict[str, Any]
Runs = dict[str, list[dict[str, np.ndarray]]]


def configurations(
    configure: Callable[[str, str], Config], options: argparse.Namespace
) -> dict[str, dict[str, Config]]:
    """{function: {algorithm: configuration}} of the functions and algorithms in the options."""
    return {f: {name: configure(f, name) for name in options.algorithms} for f in options.functions}


def load_or_run(
    folder: Path,
    configs: Mapping[str, Mapping[str, Config]],
    seeds: int,
    make: Callable[[Config, list[int]], list[dict[str, np.ndarray]]],
    jobs: int = 1,
    seeds_per_call: int = 1,
) -> dict[str, Runs]:
    """{problem: {method: runs [S]}} of all seeds; missing runs are executed first.

    configs  {problem: {method: the configuration on which its runs depend}}
    make     make(config, seeds) returns the runs of some seeds; with jobs > 1 it must be picklable
    jobs     number of processes (`runs.processes`)
    seeds_per_call  number of seeds in one call of `make`
    """
    # all problems of a method come before those of the next method
    labelled_configs = {
        f"{problem}-{method}": methods[method]
        for method in next(iter(configs.values()))
        for problem, methods in configs.items()
    }
    calls: list[tuple[str, Config, list[int]]] = []  # (label, configuration, seeds)
    for label, config in labelled_configs.items():
        store.record_configuration(folder, label, config)
        missing = store.missing(folder, label, seeds)
        chunks = [missing[i : i + seeds_per_call] for i in range(0, len(missing), seeds_per_call)]
        calls += [(label, config, chunk) for chunk in chunks]
    total = seeds * len(labelled_configs)
    n_missing = sum(len(chunk) for *_, chunk in calls)
    with cli.progress(total, done=total - n_missing) as bar:
        for (label, _, chunk), runs in processes.each(partial(_call, make), calls, jobs):
            for seed, arrays in zip(chunk, runs, strict=True):
                store.write_npz(store.run_path(folder, label, seed), arrays)
            bar.update(len(chunk))
    return {
        problem: {
            method: [store.read_run(folder, f"{problem}-{method}", s) for s in range(seeds)]
            for method in methods
        }
        for problem, methods in configs.items()
    }


def _call(
    make: Callable[[Config, list[int]], list[dict[str, np.ndarray]]],
    call: tuple[str, Config, list[int]],
) -> list[dict[str, np.ndarray]]:
    return make(*call[1:])

"""Executes the runs that are missing in a folder, and reads all runs."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments import cli, engine
from experiments.results import store

Config = dict[str, Any]
Runs = dict[str, list[dict[str, np.ndarray]]]
Make = Callable[[Config, list[int]], list[dict[str, np.ndarray]]]


def load_or_run(
    folder: Path,
    configs: Mapping[str, Mapping[str, Config]],
    seeds: int,
    make: Make,
    workers: engine.Workers = engine.THIS_PROCESS,
    at_once: int = 1,
) -> dict[str, Runs]:
    """{problem: {method: runs [S]}} of all seeds; missing runs are executed first, those of the
    first seeds before the others.

    configs  {problem: {method: the configuration on which its runs depend}}
    make     make(config, seeds) returns the runs of some seeds; picklable for several processes
    at_once  number of seeds in one call of `make`
    """
    labelled = {
        f"{p}-{m}": config for p, methods in configs.items() for m, config in methods.items()
    }
    calls: list[tuple[str, Config, list[int]]] = []  # (label, configuration, seeds)
    for label, config in labelled.items():
        store.record_configuration(folder, label, config)
        missing = store.missing(folder, label, seeds)
        chunks = [missing[i : i + at_once] for i in range(0, len(missing), at_once)]
        calls += [(label, config, chunk) for chunk in chunks]
    calls.sort(key=lambda call: call[2][0])
    total = seeds * len(labelled)
    done = total - sum(len(chunk) for *_, chunk in calls)
    with cli.progress(total, done=done) as bar:
        for (label, _, chunk), runs in engine.each(partial(_call, make), calls, workers):
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


def _call(make: Make, call: tuple[str, Config, list[int]]) -> list[dict[str, np.ndarray]]:
    return make(*call[1:])

"""The runs of Figures 3 to 5: each a method that tunes one classifier on one data set in one
repetition, saved when done."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import sklearn

from experiments import cli
from experiments.data import classifiers
from experiments.data.classifiers import MODELS, SOURCES
from experiments.data.datasets import describe
from experiments.go_ucb_2023.synthetic import ALGORITHMS as OPTIMIZERS
from experiments.results import store
from jsketch.loops import drive_box

Config = dict[str, Any]

N, T = 5, 25
ROOT_SEED = 0
CHOSEN = [
    f"n = {N} and T = {T}, as for the paper's f1: its text mentions t = 23",
    "breast_cancer: Wisconsin (original), 683 complete rows without the id; the zeros of diabetes"
    " stay as they are",
    "one fold a repetition, the same for all methods: " + "; ".join(classifiers.PROTOCOL),
    "integers by floor over intervals of equal length; open ends are kept away from by a millionth"
    " of the range",
    "f*: the best of all methods of this run in a repetition, uniform included; the true maximum is"
    " unknown",
    "a failed evaluation counts as accuracy 0 in regrets, and is never learned from",
    "the settings of all methods: as for the synthetic functions",
]


class Task(NamedTuple):
    """One run of one method."""

    model: str
    data: str
    algorithm: str
    repetition: int

    @property
    def label(self) -> str:
        return f"{self.model}-{self.data}-{self.algorithm}"


def configure(models: list[str], data: list[str], algorithms: list[str]) -> Config:
    """Everything that runs of these methods on these problems depend on."""
    return dict(
        n=N,
        T=T,
        root_seed=ROOT_SEED,
        scikit_learn=sklearn.__version__,
        spaces={
            model: [repr(one) for one in MODELS[model].space.hyperparameters] for model in models
        },
        sources={name: describe(SOURCES[name]) for name in data},
        optimizers={name: repr(OPTIMIZERS[name](N)) for name in algorithms},
        chosen=CHOSEN,
    )


def key_of(task: Task) -> jax.Array:
    """The same for all methods, so that they meet the same first points."""
    key = jax.random.key(ROOT_SEED)
    for number in (list(MODELS).index(task.model), list(SOURCES).index(task.data), task.repetition):
        key = jax.random.fold_in(key, number)
    return key


def run(task: Task, folder: Path, table: Path, data_dir: Path | None = None) -> None:
    """One run, saved, unless it is there already."""
    path = store.run_path(folder, task.label, task.repetition)
    if path.exists():
        return
    dataset = classifiers.load(task.data, data_dir)
    errors: list[str] = []

    def objective(hyperparameters: dict[str, Any]) -> float:
        outcome = classifiers.evaluate(task.model, dataset, task.repetition, hyperparameters, table)
        errors.append(outcome.error)
        return outcome.value

    space = MODELS[task.model].space
    driven = drive_box(
        OPTIMIZERS[task.algorithm](N), space.objective(objective), space.box, key_of(task), N + T
    )
    store.write_npz(path, dict(accuracy=driven.y, x=driven.x, errors=np.array(errors)))


def run_all(tasks: list[Task], folder: Path, table: Path, data_dir: Path | None, jobs: int) -> None:
    """All tasks, in this process or spread over `jobs` others."""
    for task in tasks:
        store.claim(folder, task.label, configure([task.model], [task.data], [task.algorithm]))
        # what is wrong with the data is said before anything runs
        classifiers.load(task.data, data_dir)
    missing = [t for t in tasks if not store.run_path(folder, t.label, t.repetition).exists()]
    one = partial(run, folder=folder, table=table, data_dir=data_dir)

    def finished() -> Iterator[None]:
        if jobs == 1:
            yield from map(one, missing)
            return
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=cli.set_up_jax) as pool:
            try:
                futures = [pool.submit(one, task) for task in missing]
                for future in as_completed(futures):
                    yield future.result()
            except BrokenProcessPool as error:
                raise ValueError(
                    "a process that was making runs ended abruptly: is there enough memory for"
                    " --jobs of them? The same command resumes with the missing runs."
                ) from error
            except BaseException:
                for child in multiprocessing.active_children():
                    child.terminate()
                raise

    with cli.progress(len(tasks), len(tasks) - len(missing), name="tuning") as bar:
        for _ in finished():
            bar.update()

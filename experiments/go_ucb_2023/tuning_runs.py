"""The runs of Figures 3 to 5. Each run tunes one classifier on one data set in one repetition with
one method."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import sklearn

from experiments.data import classifiers
from experiments.data.classifiers import MODELS, SOURCES
from experiments.data.datasets import citation
from experiments.go_ucb_2023.loop import Config, Runs, load_or_run
from experiments.go_ucb_2023.synthetic import OPTIMIZERS
from experiments.results import store
from jsketch import loops
from jsketch.show import full_repr

N, T = 5, 25
ROOT_SEED = 0
CHOSEN_SETTINGS = [
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


def configure(models: list[str], data: list[str], algorithms: list[str]) -> Config:
    """The configuration on which runs of these methods on these problems depend."""
    return dict(
        n=N,
        T=T,
        root_seed=ROOT_SEED,
        scikit_learn=sklearn.__version__,
        spaces={
            model: [repr(one) for one in MODELS[model].space.hyperparameters] for model in models
        },
        sources={name: citation(SOURCES[name]) for name in data},
        optimizers={name: full_repr(OPTIMIZERS[name](N)) for name in algorithms},
        chosen=CHOSEN_SETTINGS,
    )


def key_of(model: str, data: str, repetition: int) -> jax.Array:
    """The key of a run; the same for all methods, so that they share the first points."""
    key = jax.random.key(ROOT_SEED)
    for number in (list(MODELS).index(model), list(SOURCES).index(data), repetition):
        key = jax.random.fold_in(key, number)
    return key


def make(
    config: Config, label: str, repetitions: list[int], folder: Path, data_dir: Path | None = None
) -> None:
    """Makes one run and saves it."""
    (model, data, algorithm), [repetition] = label.split("-"), repetitions
    dataset = classifiers.load(data, data_dir)
    errors: list[str] = []

    def objective(hyperparameters: dict[str, Any]) -> float:
        value, error = classifiers.evaluate(model, dataset, repetition, hyperparameters)
        errors.append(error)
        return value

    space, key = MODELS[model].space, key_of(model, data, repetition)
    driven = loops.drive(
        OPTIMIZERS[algorithm](N), space.objective(objective), space.box, key, N + T
    )
    arrays = dict(accuracy=driven.y, x=driven.x, errors=np.array(errors))
    store.write_npz(store.run_path(folder, label, repetition), arrays)


def run_all(problems: list[tuple[str, str]], options: argparse.Namespace) -> dict[str, Runs]:
    """{problem: {method: runs}} of all methods on the problems (model, data)."""
    # reads all data first, so that an error ends the experiment before its runs
    for data in options.data:
        classifiers.load(data, options.data_dir)
    configs = {
        f"{model}-{data}": {name: configure([model], [data], [name]) for name in options.algorithms}
        for model, data in problems
    }
    one = partial(make, data_dir=options.data_dir)
    return load_or_run(options.out, configs, options.repetitions, one, jobs=options.jobs)

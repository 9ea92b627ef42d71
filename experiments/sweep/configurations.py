"""The configurations of a sweep: which numbers an algorithm has, and the values that they take."""

from __future__ import annotations

import difflib
import itertools
import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.sweep.options import Sweep
from jsketch import Arms

Row = dict[str, float]
SYNONYMS = {"oversampling": "qbar", "batch_threshold": "ratio"}  # what people call the numbers


def numbers(bandit: Any) -> Row:
    """The numbers of an algorithm by their names, those of its kernel among them: what a sweep can
    vary."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(bandit)
    return {path[-1].name: float(leaf) for path, leaf in leaves if np.ndim(leaf) == 0}


def with_numbers(bandit: Any, values: Mapping[str, float]) -> Any:
    """The algorithm with other numbers, all of them floats: no values need another compiled
    program.

    Raises ValueError for a number that it does not have.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(bandit)
    known = numbers(bandit)
    for name in values:
        if name not in known:
            hint = f" (it is called {SYNONYMS[name]})" if name in SYNONYMS else closest(name, known)
            raise ValueError(
                f"{type(bandit).__name__} has no number called '{name}'{hint}; its numbers are:"
                f" {', '.join(known)}."
            )
    new = [
        float(values.get(path[-1].name, leaf))
        if np.ndim(leaf) == 0
        else leaf  # arrays are no numbers
        for path, leaf in leaves
    ]
    return jax.tree.unflatten(tree, new)


def closest(name: str, known: Iterable[str]) -> str:
    """ " (did you mean ...?)", or nothing when no known name is close."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""


def rows(sweep: Sweep, bandit: Any, inputs: int) -> list[Row]:
    """The configurations: the grid, for each random draw. Raises ValueError, naming the number, for
    what cannot be run."""
    grid = {name: values for name, values in vars(sweep.grid).items() if values is not None}
    ranges = {name: pair for name, pair in vars(sweep.random).items() if pair is not None}
    with_numbers(bandit, dict.fromkeys([*grid, *ranges], 1.0))
    if not grid and not ranges and numbers(bandit):
        raise ValueError(
            f"nothing is swept: give values, such as --grid.{next(iter(numbers(bandit)))} 1 2 3."
            f" The numbers of {sweep.algorithm} are: {', '.join(numbers(bandit))}."
        )
    for name, values in grid.items():
        if not values:
            raise ValueError(f"--grid.{name.replace('_', '-')} has no values.")
        if len(set(values)) < len(values):
            raise ValueError(f"--grid.{name.replace('_', '-')} has a value twice: {values}.")
        if name in ranges:
            raise ValueError(f"{name} has both a grid and a range; choose one.")
    combined = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    found = [draw | point for draw in draws(ranges, sweep.samples) for point in combined]
    for row in found:
        check(bandit, row, inputs)
    return found


def draws(ranges: Mapping[str, tuple[float, float]], samples: int) -> list[Row]:
    """Random values; the first ones are the same whatever the number of samples."""
    if not ranges:
        return [{}]
    if samples < 1:
        raise ValueError(f"--samples must be at least 1; {samples} was given.")
    for name, (low, high) in ranges.items():
        if not 0 < low < high < math.inf:
            raise ValueError(
                f"--random.{name.replace('_', '-')} needs 0 < lowest < highest; {low} {high} was"
                " given."
            )
    low, high = np.log(np.array(list(ranges.values()))).T
    uniform = np.random.default_rng(0).uniform(size=(samples, len(ranges)))
    return [
        dict(zip(ranges, map(float, np.exp(low + u * (high - low))), strict=True)) for u in uniform
    ]


def check(bandit: Any, row: Row, inputs: int) -> None:
    """Raises ValueError, naming the configuration, for numbers that the algorithm refuses on arms
    with d = inputs."""
    if row.get("lengthscale", 1.0) <= 0 or not all(map(math.isfinite, row.values())):
        raise ValueError(f"{row}: a lengthscale must be above 0, and every number finite.")
    two = Arms(jnp.stack([jnp.zeros(inputs), jnp.ones(inputs)]))
    try:
        with warnings.catch_warnings():  # about these arms, which are not run
            warnings.simplefilter("ignore")
            with_numbers(bandit, row).init(two, jax.random.key(0))
    except ValueError as error:
        raise ValueError(f"the configuration {row} cannot be run: {error}") from error


def swept(sweep: Sweep) -> dict[str, Any]:
    """The values and ranges of a sweep by their names on the command line."""
    found: dict[str, Any] = {
        f"grid.{name}": list(v) for name, v in vars(sweep.grid).items() if v is not None
    }
    ranges = {f"random.{name}": list(v) for name, v in vars(sweep.random).items() if v is not None}
    return found | ranges | (dict(samples=sweep.samples) if ranges else {})

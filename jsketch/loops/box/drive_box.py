"""A box optimiser meets an objective that cannot be traced: a laboratory, a trained model.
Resumable."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization
from jax.typing import DTypeLike

from jsketch import struct
from jsketch.box.history import checked_box
from jsketch.loops.box.run_box import is_nonfinite, warn_of_nonfinite
from jsketch.loops.inputs import check_horizon, check_keys
from jsketch.loops.keys import Roots, split_roots
from jsketch.loops.saving import saved
from jsketch.loops.saving.describe import describe, differences
from jsketch.loops.saving.resume import check_belongs, checked_path, locked, restored, versions
from jsketch.loops.unfinished import attach_partial_run
from jsketch.types import Box, BoxOptimizer, PointQuery, PRNGKey


@struct.dataclass
class DrivenBox:
    """A run with a host objective so far; give it back to `drive_box` to resume it."""

    key: np.ndarray  # of the run, its numbers
    box: Box
    state: Any  # after `told` evaluations
    x: np.ndarray  # [t, d]
    y: np.ndarray  # [t], as observed; NaN or infinite for a failed evaluation
    # evaluations that the optimiser has observed; the others belong to a query that is not finished
    told: int

    @property
    def t(self) -> int:
        return len(self.y)

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """(x [d], y) of the largest finite value. Raises ValueError while there is none."""
        if not np.isfinite(self.y).any():
            raise ValueError("no evaluation has succeeded so far, so there is no best point.")
        first = int(np.argmax(np.where(np.isfinite(self.y), self.y, -np.inf)))
        return self.x[first], float(self.y[first])


_ask = jax.jit(lambda optimizer, state, key: optimizer.ask(state, key))
_tell = jax.jit(lambda optimizer, state, query, y, key: optimizer.tell(state, query, y, key))


def drive_box(
    optimizer: BoxOptimizer,
    objective: Callable[[np.ndarray], Any],
    box: Box,
    key: PRNGKey,
    horizon: int,
    state: DrivenBox | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> DrivenBox:
    """The run of a box optimiser with a host objective, `horizon` evaluations in all.

    optimizer   an optimiser of `jsketch.box`, or an own one (`jsketch.types.BoxOptimizer`)
    objective   a function of x [d], a NumPy array, that returns one number, larger is better; NaN
                or infinite for a failed evaluation. It is not compared between sessions
    box         the domain, lower and upper [d]
    key         one key, of the optimiser's random choices
    horizon     int, evaluations in all, those of `state` included
    state       a run to resume, as this function returned it; the optimiser that made it is not
                compared. None: a new run
    checkpoint  a path; the file is written after each evaluation and resumed from where it exists:
                a killed run makes the same picks when it is called again with the same arguments

    Of `state` and file the longer is resumed; one must hold the first evaluations of the other, so
    that no evaluation is ever lost.

    Warns, once, where the optimiser's info has a field `nonfinite` that is true.

    Raises ValueError for an objective that returns no number, for a state of another box or key,
    and for a checkpoint that is damaged, that another process is writing, or that is of another
    optimiser, box, key, horizon or version of jsketch, and says what differs.

    Whatever ends the run, an error of the objective or Ctrl-C, has the finished evaluations in its
    attribute `driven`, a DrivenBox: state=error.driven resumes from them.
    """
    check_horizon(horizon)
    box = checked_box(box)
    key = check_keys(key, 0, "drive_box takes one key, such as jax.random.key(0)")
    roots = split_roots(key)
    nothing = np.zeros((0, box.lower.size)), np.zeros(0), 0
    start = DrivenBox(
        np.asarray(jax.random.key_data(key)),
        box,
        optimizer.init(box, roots.init, horizon),
        *nothing,
    )
    file = _open(checkpoint, optimizer, start, key, horizon)
    with locked([] if file is None else [file.path]):
        in_file = None if file is None else file.load(start)
        driven = _longer(_checked(state, start), in_file, file) or start
        kept = 0 if in_file is None else in_file.t
        return _rounds(optimizer, objective, roots, horizon, driven, file, kept)


def _rounds(
    optimizer: BoxOptimizer,
    objective: Callable[[np.ndarray], Any],
    roots: Roots,
    horizon: int,
    driven: DrivenBox,
    file: _File | None,
    kept: int,
) -> DrivenBox:
    """The rounds from `driven` to the horizon; the file holds `kept` evaluations."""
    warned = False
    try:
        while driven.t < horizon:
            query = _ask(optimizer, driven.state, jax.random.fold_in(roots.ask, driven.told))
            points = np.asarray(query.x)[np.asarray(query.mask)]
            if len(points) == 0:
                raise ValueError(
                    f"the run was planned for {driven.t} evaluations and has made them; start one"
                    f" with horizon {horizon}."
                )
            # asking again gives the same query: what a killed run had evaluated of it is kept
            for x in points[driven.t - driven.told :]:
                y = _evaluated(objective, x, query.x.dtype)
                driven = replace(driven, x=np.vstack([driven.x, x]), y=np.append(driven.y, y))
                if file is not None:
                    file.save(driven)
                    kept = driven.t
            driven, nonfinite = _observed(
                optimizer, driven, query, jax.random.fold_in(roots.tell, driven.told)
            )
            if file is not None:
                file.save(driven)
            if nonfinite and not warned:
                warned = True
                warn_of_nonfinite()
    except BaseException as error:
        attach_partial_run(
            error, driven, "drive_box", file.path if file is not None and kept == driven.t else None
        )
        raise
    return driven


def _observed(
    optimizer: BoxOptimizer, driven: DrivenBox, query: PointQuery, key: PRNGKey
) -> tuple[DrivenBox, bool]:
    """(the run after its optimiser observed the values of a whole query, whether the optimiser
    reports numbers that are not finite)."""
    values = driven.y[driven.told :]
    y = np.full(query.mask.shape, np.nan)
    y[: len(values)] = values
    state, info = _tell(optimizer, driven.state, query, jnp.asarray(y, query.x.dtype), key)
    return replace(driven, state=state, told=driven.t), is_nonfinite(info)


def _evaluated(objective: Callable[[np.ndarray], Any], x: np.ndarray, dtype: DTypeLike) -> float:
    y = np.asarray(objective(x))
    if y.shape != () or y.dtype.kind not in "biuf":
        raise ValueError(
            f"the objective must return one number, NaN for a failure; {y!r} was returned."
        )
    with np.errstate(over="ignore"):
        rounded = float(y.astype(dtype))
    if np.isfinite(y) and not np.isfinite(rounded):
        raise ValueError(
            f"the objective returned {float(y):g}, which is infinite in the box's"
            f" {np.dtype(dtype).name}."
        )
    return float(y)


class _File(NamedTuple):
    """Where a run is kept, and what it is."""

    path: Path
    belongs: dict[str, Any]

    def save(self, driven: DrivenBox) -> None:
        """Replaces the file."""
        header = dict(belongs=self.belongs, evaluations=driven.t)
        saved.write(self.path, saved.BOX_RUN, header, serialization.to_bytes(driven))

    def load(self, start: DrivenBox) -> DrivenBox | None:
        """The run in the file, None when there is none. Raises ValueError for a file that does not
        fit."""
        if not self.path.exists():
            return None
        header, body = saved.read(self.path, saved.BOX_RUN)
        check_belongs(self.path, header["belongs"], self.belongs)
        return restored(self.path, start, body)


def _open(
    path: str | os.PathLike[str] | None,
    optimizer: BoxOptimizer,
    start: DrivenBox,
    key: PRNGKey,
    horizon: int,
) -> _File | None:
    """Raises ValueError, before anything is evaluated, for a folder that is not there."""
    if path is None:
        return None
    parts = dict(
        optimizer=optimizer,
        box=start.box,
        key=start.key,
        key_kind=str(jax.random.key_impl(key)),
        horizon=horizon,
        dtype=str(start.box.lower.dtype),
        # shapes and dtypes, so that a state that the same optimiser no longer has is refused too
        state=[
            f"{np.asarray(leaf).dtype}{list(np.shape(leaf))}"
            for leaf in jax.tree.leaves(start.state)
        ],
        # not jax's: weeks of laboratory work outlive it, and what comes after may differ by
        # rounding only
        version=versions()["jsketch"],
    )
    return _File(checked_path(path), describe(parts))


def _checked(state: DrivenBox | None, start: DrivenBox) -> DrivenBox | None:
    """Raises ValueError for a state of another key, box or kind of optimiser."""
    if state is None:
        return None
    if not isinstance(state, DrivenBox):
        raise ValueError(
            f"state is what drive_box returned, a DrivenBox; {type(state).__name__} was given."
        )
    changed = differences(
        describe(dict(key=state.key, box=state.box)), describe(dict(key=start.key, box=start.box))
    )
    if type(state.state) is not type(start.state):
        changed.append(
            f"the optimiser's state was {type(state.state).__name__}, is"
            f" {type(start.state).__name__}"
        )
    if changed:
        raise ValueError(f"state is of another run: {'; '.join(changed)}.")
    return state


def _longer(
    state: DrivenBox | None, in_file: DrivenBox | None, file: _File | None
) -> DrivenBox | None:
    """Raises ValueError unless one holds the first evaluations of the other."""
    if state is None or in_file is None or file is None:
        return state or in_file
    both = min(state.t, in_file.t)
    if not all(
        np.array_equal(a[:both], b[:both], equal_nan=True)
        for a, b in ((state.x, in_file.x), (state.y, in_file.y))
    ):
        raise ValueError(
            f"{file.path} holds {in_file.t} evaluations that are not the {state.t} of the state:"
            " give one of the two, or name another file."
        )
    return max(in_file, state, key=lambda driven: (driven.t, driven.told))

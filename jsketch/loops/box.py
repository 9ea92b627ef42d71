"""A box optimiser meets an objective.

    rollout_box    the pure run, for anybody's jit and vmap
    run_box        the same compiled, one key or several at once
    drive_box      the same rounds for an objective that no tracer can enter; saved after each evaluation, resumable

Evaluation t has its keys folded in from separate roots of the optimiser and of the objective, as in `rollout`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization, struct
from jax import Array, lax

from jsketch.box.history import checked_box, write
from jsketch.linalg import put
from jsketch.loops.inputs import check_horizon, check_keys
from jsketch.loops.rollout import split_roots
from jsketch.types import Box, BoxQuery, PRNGKey


@struct.dataclass
class BoxRun:
    """What happened, evaluation by evaluation: [T], or [S, T] over seeds; and the state at the end."""

    x: Array  # [T, d]
    y: Array  # [T], as observed; NaN or infinite for a failed evaluation
    value: Array  # [T], without noise; NaN where the objective has no `value`
    best: Array  # [T], largest observed so far, -inf before the first
    info: Any  # of the round that the evaluation belongs to, each field [T, ...]
    state: Any


def rollout_box(optimizer: Any, objective: Any, box: Box, key: PRNGKey, horizon: int) -> BoxRun:
    """`horizon` evaluations of objective(x [d], key) -> y []; pure, for use inside jit and vmap.

    An objective with a method `value(x) -> []` (a test function) has its noiseless values recorded too.
    """
    roots = split_roots(key)
    value = getattr(objective, "value", None)

    def evaluate(query: BoxQuery, t: Array) -> tuple[Array, Array]:
        """(y [B], value [B]); a loop over the slots in use, not over all B."""

        def one(i: Array, both: tuple[Array, Array]) -> tuple[Array, Array]:
            x = query.x[i]
            y = put(both[0], i, objective(x, jax.random.fold_in(roots.problem, t + i)))
            return y, both[1] if value is None else put(both[1], i, value(x))

        nothing = jnp.full(query.mask.shape, jnp.nan, query.x.dtype)
        return lax.fori_loop(0, query.size, one, (nothing, nothing))

    def one_round(state: Any, t: Array) -> tuple[Any, BoxQuery, Array, Array, Any]:
        query = optimizer.ask(state, jax.random.fold_in(roots.ask, t))
        y, noiseless = evaluate(query, t)
        state, info = optimizer.tell(state, query, y, jax.random.fold_in(roots.tell, t))
        return state, query, y, noiseless, info

    def step(carry: tuple[BoxRun, Array]) -> tuple[BoxRun, Array]:
        run, t = carry
        state, query, y, noiseless, info = one_round(run.state, t)

        def record(old: Array, new: Array) -> Array:
            return write(old, new.astype(old.dtype), t, query.size)

        every = jax.tree.map(lambda new: jnp.broadcast_to(new, query.mask.shape + new.shape), info)
        run = run.replace(
            x=record(run.x, query.x),
            y=record(run.y, y),
            value=record(run.value, noiseless),
            info=jax.tree.map(record, run.info, every),
            state=state,
        )
        return run, t + query.size

    state, zero = optimizer.init(box, roots.init, horizon), jnp.zeros((), jnp.int32)
    _, query, _, _, info = jax.eval_shape(one_round, state, zero)
    numbers = jnp.full(horizon, jnp.nan, query.x.dtype)
    start = BoxRun(
        x=jnp.zeros((horizon, query.x.shape[1]), query.x.dtype),
        y=numbers,
        value=numbers,
        best=numbers,
        info=jax.tree.map(lambda leaf: jnp.zeros((horizon, *leaf.shape), leaf.dtype), info),
        state=state,
    )
    run, _ = lax.while_loop(lambda carry: carry[1] < horizon, step, (start, zero))
    observed = jnp.where(jnp.isfinite(run.y), run.y, -jnp.inf)
    return run.replace(best=lax.cummax(observed))


_one = partial(jax.jit, static_argnames="horizon")(rollout_box)


@partial(jax.jit, static_argnames="horizon")
def _several(optimizer: Any, objective: Any, box: Box, keys: PRNGKey, horizon: int) -> BoxRun:
    return jax.vmap(lambda key: rollout_box(optimizer, objective, box, key, horizon))(keys)


def run_box(optimizer: Any, objective: Any, box: Box, key: PRNGKey, horizon: int) -> BoxRun:
    """A compiled run, or, for keys [S], as many at once (vmapped).

    objective(x [d], key) -> y [] is a pure function or a callable pytree such as a test function of `problems`. Raises
    ValueError on static mistakes, in plain words.
    """
    check_horizon(horizon)
    box = checked_box(box)
    several = (
        isinstance(key, jax.Array) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) and key.ndim
    )
    key = check_keys(key, 1 if several else 0, "run_box takes a key or a vector of keys")
    if not callable(objective):
        raise ValueError(f"the objective must be a function of a point and a key; {objective!r} was given.")
    if jax.tree_util.all_leaves([objective]):  # a plain function is no argument for jit: it goes in as static
        objective = jax.tree_util.Partial(objective)
    optimizer.init(box, jax.random.key(0), horizon)  # static mistakes are said outside of jit
    return (_several if several else _one)(optimizer, objective, box, key, horizon)


@struct.dataclass
class DrivenBox:
    """A run with a host objective so far; give it back to `drive_box` to go on."""

    key: np.ndarray  # of the run, its numbers
    box: Box
    state: Any  # after `told` evaluations
    x: np.ndarray  # [t, d]
    y: np.ndarray  # [t], as observed; NaN or infinite for a failed evaluation
    told: int  # evaluations of which the optimiser knows; the others belong to a query that is not finished

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
_tell = jax.jit(lambda optimizer, state, query, y, key: optimizer.tell(state, query, y, key)[0])


def drive_box(
    optimizer: Any,
    objective: Callable[[np.ndarray], Any],
    box: Box,
    key: PRNGKey,
    horizon: int,
    state: DrivenBox | None = None,
    checkpoint: str | Path | None = None,
) -> DrivenBox:
    """`horizon` evaluations in all of a host objective(x [d]) -> y, NaN for a failure.

    Goes on from `state`, or from the file `checkpoint` if it exists, which is written after each evaluation: a killed run
    makes the same picks when it is called again with the same arguments. Raises ValueError for an objective that returns no
    number and for a checkpoint of another optimiser, box, key or horizon.
    """
    check_horizon(horizon)
    box = checked_box(box)
    key = check_keys(key, 0, "drive_box takes one key, such as jax.random.key(0)")
    roots = split_roots(key)
    nothing = np.zeros((0, box.lower.size)), np.zeros(0), 0
    start = DrivenBox(
        np.asarray(jax.random.key_data(key)), box, optimizer.init(box, roots.init, horizon), *nothing
    )
    driven = state or _load(checkpoint, start)
    while driven.t < horizon:
        query = _ask(optimizer, driven.state, jax.random.fold_in(roots.ask, driven.told))
        points = np.asarray(query.x)[np.asarray(query.mask)]
        # asking again gives the same query: what a killed run had evaluated of it is known
        for x in points[driven.t - driven.told :]:
            driven = driven.replace(
                x=np.vstack([driven.x, x]), y=np.append(driven.y, _evaluated(objective, x))
            )
            _save(checkpoint, driven)
        y = np.full(query.mask.shape, np.nan)
        y[: len(points)] = driven.y[driven.told :]
        tell_key = jax.random.fold_in(roots.tell, driven.told)
        told = _tell(optimizer, driven.state, query, jnp.asarray(y, query.x.dtype), tell_key)
        driven = driven.replace(state=told, told=driven.t)
        _save(checkpoint, driven)
    return driven


def _evaluated(objective: Callable[[np.ndarray], Any], x: np.ndarray) -> float:
    y = np.asarray(objective(x))
    if y.shape != () or y.dtype.kind not in "biuf":
        raise ValueError(f"the objective must return one number, NaN for a failure; {y!r} was returned.")
    return float(y)


def _save(checkpoint: str | Path | None, driven: DrivenBox) -> None:
    """In one step: a run killed while saving leaves the file before it."""
    if checkpoint is None:
        return
    path = Path(checkpoint)
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_bytes(serialization.to_bytes(driven))
    os.replace(unfinished, path)


def _load(checkpoint: str | Path | None, start: DrivenBox) -> DrivenBox:
    """The run in the file, or `start`. Raises ValueError for a file that does not fit."""
    if checkpoint is None or not Path(checkpoint).exists():
        return start
    wrong = (
        f"{checkpoint} holds no run of this optimiser, box, key and horizon: name another file, or remove it."
    )
    try:
        driven = serialization.from_bytes(start, Path(checkpoint).read_bytes())
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(wrong) from error
    shapes = jax.tree.map(lambda a, b: np.shape(a) == np.shape(b), driven.state, start.state)
    numbers = jax.tree.map(np.array_equal, (driven.key, driven.box), (start.key, start.box))
    if not all(jax.tree.leaves((shapes, numbers))):
        raise ValueError(wrong)
    return driven

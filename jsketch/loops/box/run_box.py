"""A box optimiser meets an objective that can be traced.

    rollout_box    the pure run, for your own jit and vmap
    run_box        the same compiled, for one key or several

Evaluation t has its keys folded in from separate roots of the optimiser and of the objective, as in
`rollout`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import struct
from jsketch.box.history import checked_box, write
from jsketch.linalg import put
from jsketch.loops.inputs import check_horizon, check_keys, check_objective
from jsketch.loops.keys import split_roots
from jsketch.types import Box, BoxOptimizer, PointQuery, PRNGKey, is_traced
from jsketch.warn import warn


@struct.dataclass
class BoxRun:
    """What happened, evaluation by evaluation: [T], or [S, T] over seeds; and the state at the
    end."""

    x: Array  # [T, d]
    y: Array  # [T], as observed; NaN or infinite for a failed evaluation
    value: Array  # [T], without noise; NaN where the objective has no `value`
    best: Array  # [T], largest observed so far, -inf before the first
    info: Any  # of the round that the evaluation belongs to, each field [T, ...]
    state: Any
    # [] int32, evaluations made: fewer than T only where the optimiser asked for nothing more
    t: Array


def rollout_box(
    optimizer: BoxOptimizer, objective: Any, box: Box, key: PRNGKey, horizon: int
) -> BoxRun:
    """The run of a box optimiser with an objective that can be traced; pure, for use inside jit and
    vmap.

    optimizer  an optimiser of `jsketch.box`, or an own one (`jsketch.types.BoxOptimizer`)
    objective  a function of x [d] and a key that returns y [], larger is better; NaN or infinite
               for a failed evaluation. Where it has a method `value(x) -> []` (a test function),
               noiseless values are recorded too
    box        the domain, lower and upper [d]
    key        one key, of the optimiser's random choices and of the noise
    horizon    int (static), evaluations

    Raises ValueError, before anything is compiled, for a box that is none and an objective of other
    arguments or of more than one number.
    """
    box = checked_box(box)
    roots = split_roots(key)
    check_objective(
        objective, jax.ShapeDtypeStruct(box.lower.shape, box.lower.dtype), roots.problem
    )
    value = getattr(objective, "value", None)

    def evaluate(query: PointQuery, t: Array) -> tuple[Array, Array]:
        """(y [B], value [B]); a loop over the slots in use, not over all B."""

        def one(i: Array, both: tuple[Array, Array]) -> tuple[Array, Array]:
            x = query.x[i]
            y = put(both[0], i, objective(x, jax.random.fold_in(roots.problem, t + i)))
            return y, both[1] if value is None else put(both[1], i, value(x))

        nothing = jnp.full(query.mask.shape, jnp.nan, query.x.dtype)
        return lax.fori_loop(0, query.size, one, (nothing, nothing))

    def one_round(state: Any, t: Array) -> tuple[Any, PointQuery, Array, Array, Any]:
        query = optimizer.ask(state, jax.random.fold_in(roots.ask, t))
        y, noiseless = evaluate(query, t)
        state, info = optimizer.tell(state, query, y, jax.random.fold_in(roots.tell, t))
        return state, query, y, noiseless, info

    def step(carry: tuple[BoxRun, Array]) -> tuple[BoxRun, Array]:
        run, _ = carry
        t = run.t
        state, query, y, noiseless, info = one_round(run.state, t)

        def record(old: Array, new: Array) -> Array:
            return write(old, new.astype(old.dtype), t, query.size)

        every = jax.tree.map(lambda new: jnp.broadcast_to(new, query.mask.shape + new.shape), info)
        run = replace(
            run,
            x=record(run.x, query.x),
            y=record(run.y, y),
            value=record(run.value, noiseless),
            info=jax.tree.map(record, run.info, every),
            state=state,
            t=t + query.size,
        )
        return run, query.size == 0

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
        t=zero,
    )
    start_and_go = (start, jnp.zeros((), bool))
    run, _ = lax.while_loop(lambda carry: (carry[0].t < horizon) & ~carry[1], step, start_and_go)
    observed = jnp.where(jnp.isfinite(run.y), run.y, -jnp.inf)
    return replace(run, best=lax.cummax(observed))


_one = partial(jax.jit, static_argnames="horizon")(rollout_box)


@partial(jax.jit, static_argnames="horizon")
def _together(
    optimizer: BoxOptimizer, objective: Any, box: Box, keys: PRNGKey, horizon: int
) -> BoxRun:
    return jax.vmap(lambda key: rollout_box(optimizer, objective, box, key, horizon))(keys)


def _spread(
    optimizer: BoxOptimizer, objective: Any, box: Box, keys: PRNGKey, horizon: int
) -> BoxRun:
    """One program, a run at a time on each core."""

    def one(key: PRNGKey) -> BoxRun:
        return jax.block_until_ready(_one(optimizer, objective, box, key, horizon))

    # compiles
    first = one(keys[0])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [first, *pool.map(one, keys[1:])]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs)


def run_box(
    optimizer: BoxOptimizer,
    objective: Any,
    box: Box,
    key: PRNGKey,
    horizon: int,
    strategy: str | None = None,
) -> BoxRun:
    """A compiled run, or, for keys [S], one for each.

    optimizer  as in `rollout_box`
    objective  as in `rollout_box`: a pure function, or a callable pytree such as a test function of
               `problems`
    box        the domain, lower and upper [d]
    key        one key, or keys [S]
    horizon    int, evaluations of a run
    strategy   for several keys: "vmap" runs them in one program (the default on an accelerator);
               "threads" spreads them over the cores (the default on a CPU, where batched products
               of small matrices are slow)

    Warns where the optimiser's info has a field `nonfinite` that is true. Raises ValueError on
    static mistakes, and RuntimeError for an optimiser that asks for nothing before the horizon.
    """
    check_horizon(horizon)
    box = checked_box(box)
    if strategy not in (None, "vmap", "threads"):
        raise ValueError(f'strategy must be "vmap", "threads" or None; {strategy!r} was given.')
    several = getattr(key, "ndim", 0) > 0 and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    key = check_keys(key, 1 if several else 0, "run_box takes a key or a vector of keys")
    if several and len(key) == 0:
        raise ValueError("run_box takes at least one key; an empty vector of keys was given.")
    if not callable(objective):
        raise ValueError(
            f"the objective must be a function of a point and a key; {objective!r} was given."
        )
    # a plain function is no argument for jit: it goes in as static
    if jax.tree_util.all_leaves([objective]):
        objective = jax.tree_util.Partial(objective)
    # static mistakes are said outside of jit
    optimizer.init(box, jax.random.key(0), horizon)
    vmapped = strategy == "vmap" or (strategy is None and jax.default_backend() != "cpu")
    made = _one if not several else _together if vmapped else _spread
    run = made(optimizer, objective, box, key, horizon)
    if not is_traced(run.t) and int(jnp.min(run.t)) < horizon:
        raise RuntimeError(
            f"the run stopped after {int(jnp.min(run.t))} of {horizon} evaluations: the optimiser"
            " asked for no point."
        )
    if not is_traced(run.t) and is_nonfinite(run.info):
        warn_of_nonfinite()
    return run


def is_nonfinite(info: Any) -> bool:
    """Whether the info of a round, or of several, reports numbers that are not finite."""
    return bool(np.any(getattr(info, "nonfinite", False)))


def warn_of_nonfinite() -> None:
    """What a loop warns of, once a run."""
    warn(
        "values, gradients or parameters of the model were not finite: the optimiser left them out"
        " and continued, and its choices may be poor (`GOInfo` names what was left out).",
    )

"""Pure runs of an algorithm on a problem over arms or over a box, for use inside jit and vmap.

The key of a random draw is one of four independent keys (`Roots`) with the index of the evaluation
folded in, so that under one key the noise is the same for all algorithms.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, devices, numerics, struct
from jsketch.box.history import checked_box, write
from jsketch.numerics import aligned, one_after_another, part, put, put_part, take
from jsketch.problems.boxes import OnBox
from jsketch.results import Result, result
from jsketch.types import (
    Algorithm,
    ArmProblem,
    Arms,
    Box,
    BoxOptimizer,
    BoxQuery,
    PRNGKey,
    Query,
)

TRACE_COLUMNS = 7
# The capacities of a traced run of an algorithm without `capacity`. Most runs need fewer inducing
# points than the first number; a larger one would slow down all of them, and a third stage would
# compile another copy of the loop. A run needs the memory of about SQUARES matrices [M, M], and its
# state has STATE_SQUARES of them; how many runs an enclosing vmap has is not known while a run is
# traced, and RUNS of them are to fit into memory.
CAPACITIES = (512, 2048)
SQUARES, STATE_SQUARES, RUNS = 10, 2, 32
# evaluations that a CPU samples and records at a time. Few batches are larger, and 16 evaluations
# together take as long as one
CHUNK = 32


class Roots(NamedTuple):
    """Independent keys of one run, `Roots(*jax.random.split(key, 4))`."""

    init: PRNGKey
    ask: PRNGKey
    tell: PRNGKey
    problem: PRNGKey


@struct.dataclass
class Trace:
    """The evaluations of a run over arms, [T], or [S, T] over seeds. After the last evaluation of a
    run that ended early, rewards, regrets and widths are NaN, so that no sum or mean over them can
    be mistaken for a result, and integers are -1: `trace.arm >= 0` are the evaluations made. The
    reward of a failed evaluation is NaN too, and its arm is not -1.

    arm              int32
    reward           as observed
    regret           f* - f(x_t), instantaneous
    round            int32, index of the round
    batch_size       int32, size of the batch that the evaluation belongs to
    dictionary_size  int32, inducing points (or distinct arms, for the exact posterior) after the
                     round
    width            confidence width with which the arms of the round were chosen
    """

    arm: Array
    reward: Array
    regret: Array
    round: Array
    batch_size: Array
    dictionary_size: Array
    width: Array


@struct.dataclass
class Progress:
    """A run up to evaluation t. It has ended early, and is `stopped`, if its result is not RUNNING.
    On the host, `run` enlarges the capacity or raises an error then.

    state   state of the bandit
    trace   NaN and -1 from t on
    t       [] int32, evaluations made
    round   [] int32, rounds made
    result  [] int32, a `jsketch.results.Result`
    """

    state: Any
    trace: Trace
    t: Array
    round: Array
    result: Array

    @property
    def stopped(self) -> Array:
        return self.result != Result.RUNNING


def start(algorithm: Any, problem: ArmProblem, key: PRNGKey, horizon: int) -> Progress:
    """The run before its first evaluation."""
    roots = Roots(*jax.random.split(key, 4))
    state = algorithm.init(problem.arms, roots.init, horizon=horizon)
    dtype = problem.mean_reward.dtype
    checks.memory(TRACE_COLUMNS * horizon, jnp.int32, horizon=horizon)
    # `rollout` returns NaN after the last evaluation; NaN before it would stop `jax_debug_nans`
    trace = filled_trace(jnp.full(horizon, -1, jnp.int32), jnp.zeros(horizon, dtype))
    zero = jnp.zeros((), jnp.int32)
    invalid = struct.outside_ranges(algorithm)  # `init` has checked the numbers that are known
    return Progress(state, trace, zero, zero, result=result((Result.NOT_FINITE, invalid)))


def filled_trace(integers: Any, numbers: Any) -> Trace:
    """A trace whose columns of integers and of numbers are these, [T] each."""
    # arm, reward, regret, round, batch_size, dictionary_size, width
    return Trace(integers, numbers, numbers, integers, integers, integers, numbers)


def _sample(problem: ArmProblem, key: PRNGKey, t: Array, query: Query, chunk: int) -> Array:
    """The rewards [B] of a query whose first evaluation has index t; NaN in padding. The slots in
    use are sampled in chunks of `chunk` slots."""
    dtype = problem.mean_reward.dtype

    def sample_chunk(i: Array, y: Array) -> Array:
        # the last chunk overlaps the one before it, and samples the same rewards again
        begin = jnp.minimum(i * chunk, query.index.shape[0] - chunk)
        slots = begin + jnp.arange(chunk, dtype=jnp.int32)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, t + slots)
        rewards = jax.vmap(problem.sample)(keys, take(query.index, slots)).astype(dtype)
        rewards = jnp.where(take(query.mask, slots), rewards, jnp.nan)
        return put_part(y, begin, rewards)

    empty = jnp.full(query.index.shape, jnp.nan, dtype)
    return lax.fori_loop(0, -(-query.size // chunk), sample_chunk, empty)


def _record(
    trace: Trace,
    t: Array,
    n_evaluations: Array,
    query: Query,
    y: Array,
    row: dict[str, Any],
    regrets: Array,
    chunk: int,
) -> Trace:
    """The trace with the first evaluations of a query from index t on, written in chunks of slots.
    `row` has the columns that have one value for all evaluations of the query."""
    horizon = trace.arm.shape[0]
    chunk = min(chunk, horizon)

    def write_chunk(i: Array, trace: Trace) -> Trace:
        begin = jnp.minimum(t + i * chunk, horizon - chunk)
        slots = begin - t + jnp.arange(chunk, dtype=jnp.int32)
        in_query = (slots >= 0) & (slots < n_evaluations)
        slots = jnp.clip(slots, 0, query.index.shape[0] - 1)
        arms = take(query.index, slots)
        columns = dict(row, arm=arms, reward=take(y, slots), regret=take(regrets, arms))
        for name, value in columns.items():
            column = getattr(trace, name)
            old = part(column, begin, chunk)
            new = jnp.where(in_query, jnp.asarray(value, column.dtype), old)
            columns[name] = put_part(column, begin, new)
        return Trace(**columns)

    return lax.fori_loop(0, -(-n_evaluations // chunk), write_chunk, trace)


@struct.checked_names
def rollout(
    algorithm: Any,
    problem: Any,
    key: PRNGKey,
    horizon: int,
    progress: Progress | None = None,
    until: ArrayLike | None = None,
) -> Any:
    """Runs an algorithm with a problem that can be traced. The function is pure and works under jit
    and vmap, over keys and over all numbers of the algorithm and the problem.

    algorithm  an algorithm over arms or over a box (`jsketch.types`)
    problem    a problem over arms; or one over a box, which has a `domain`, such as
               `problems.on_box(function, box)`
    key        one key, of the algorithm's random choices and of the noise
    horizon    int (static), evaluations
    progress   over arms, the result of an earlier call, from which the run resumes
    until      [] int, over arms, the evaluation at which to pause; None: the horizon

    Returns a `BoxRun` over a box, and a `Progress` over arms.

    A run of an algorithm with default capacity cannot exceed it if A or `horizon` is at most 2,048:
    no dictionary has more points than there are arms or evaluations. It begins with up to 512 slots
    and continues with up to 2,048 where these do not suffice (fewer if 32 runs would not fit into
    memory). Factors have the size of the M slots. On an accelerator every run of a vmap needs the
    memory of about 10 matrices [M, M]; on a CPU one run is computed at a time, and the others need
    2. A run that needs few slots is faster and smaller if the algorithm has a `capacity`.

    A run ends early where a capacity that was given, or the last one, is exceeded, where a
    posterior is not finite, and where the algorithm returns an empty query: `Progress.stopped` is
    then true, and the trace is NaN from there on (`Trace`). A run with a traced number that is out
    of its range, such as a lengthscale of -1, ends before its first evaluation: its result is
    `NOT_FINITE`, or over a box its `t` is 0.

    Raises ValueError for an invalid box, and for an objective over a box that does not take a point
    and a key or does not return one number.

    Example:

        def regret(lengthscale, key):
            bandit = bandits.BBKB(kernels.Gaussian(lengthscale), noise_std=0.1)
            return rollout(bandit, problem, key, 100).trace.regret.sum()  # NaN if it ended early

        keys = jax.random.split(jax.random.key(0), 3)
        jax.jit(jax.vmap(regret))(jnp.array([0.5, 1.0, 2.0]), keys)  # [3], one program
    """
    checks.horizon(horizon)
    checks.component("the algorithm", components.ALGORITHM, algorithm, pytree=True)
    key = checks.one_key(key=key)
    if isinstance(getattr(problem, "domain", None), Box):
        if progress is not None or until is not None:
            raise ValueError("progress and until are for runs over arms; this one is over a box.")
        checked_box(problem.domain)
        over_box = partial(_rollout_over_box, horizon=horizon)
        return one_after_another(over_box, algorithm, problem, key)
    checks.component("the problem", components.PROBLEM, problem, pytree=True)
    algorithm = struct.numbers_in_dtype(algorithm, problem.arms.features.dtype)
    capacities: tuple[int, ...] = ()
    if progress is None:
        progress = start(algorithm, problem, key, horizon)
        capacities = _capacities(algorithm, progress.state, problem.arms, horizon)
    until = horizon if until is None else jnp.minimum(until, horizon)
    if not capacities:
        progress = continue_run(algorithm, problem, key, horizon, progress, until)
    for capacity in capacities:
        progress = grown(algorithm, problem, progress, capacity)
        progress = continue_run(algorithm, problem, key, horizon, progress, until)
    return up_to_end(progress)


def up_to_end(progress: Progress) -> Progress:
    """The run with a trace that is NaN and -1 from evaluation t on."""

    def cut(column: Array) -> Array:
        made = jnp.arange(column.shape[0], dtype=jnp.int32) < progress.t
        return jnp.where(made, column, no_value(column.dtype))

    return replace(progress, trace=jax.tree.map(cut, progress.trace))


def grown(algorithm: Any, problem: ArmProblem, progress: Progress, capacity: int) -> Progress:
    """The run with a state of another capacity, which may be stale: `continue_run` refreshes it. A
    run whose capacity was exceeded continues."""
    grow = algorithm.resize if hasattr(algorithm, "refresh") else algorithm.grow
    state = grow(progress.state, problem.arms, capacity)
    exceeded = progress.result == Result.CAPACITY_EXCEEDED
    return replace(
        progress, state=state, result=jnp.where(exceeded, int(Result.RUNNING), progress.result)
    )


def continue_run(
    algorithm: Any, problem: Any, key: PRNGKey, horizon: int, progress: Progress, until: ArrayLike
) -> Progress:
    """The run over arms from `progress` to evaluation `until`, at the capacity of its state. The
    trace has no meaning from evaluation t on (`up_to_end`).

    Under vmap on a CPU the runs are computed one after the other (`numerics.one_after_another`)."""
    run = partial(_continue_run, horizon=horizon)
    return one_after_another(run, algorithm, problem, key, progress, jnp.asarray(until))


def _continue_run(
    algorithm: Any, problem: Any, key: PRNGKey, progress: Progress, until: Array, *, horizon: int
) -> Progress:
    roots = Roots(*jax.random.split(key, 4))
    arms, mean_reward = problem.arms, problem.mean_reward
    regrets = jnp.max(mean_reward) - mean_reward
    # an algorithm may complete its state by `refresh` (`types.Algorithm`)
    refreshes = hasattr(algorithm, "refresh")
    observe = algorithm.observe if refreshes else algorithm.tell

    def is_stale(p: Progress) -> Array:
        # a larger capacity leaves the posterior of a run that has ended stale as well
        stale = p.state.stale if refreshes else jnp.zeros((), bool)
        return stale & (p.result != Result.CAPACITY_EXCEEDED)

    def one_round(p: Progress) -> Progress:
        query = algorithm.ask(
            p.state, arms, jax.random.fold_in(roots.ask, p.t), limit=horizon - p.t
        )
        if not hasattr(query, "mask"):
            raise ValueError(
                "ask must return a Query, such as Query.of(arm); a"
                f" {type(query).__name__} was returned."
            )
        # no batch is longer than the run
        query = jax.tree.map(lambda leaf: leaf[:horizon], query)
        slots = query.index.shape[0]
        chunk = slots if numerics.on_accelerator() else min(CHUNK, slots)
        y = _sample(problem, roots.problem, p.t, query, chunk)
        tell_key = jax.random.fold_in(roots.tell, p.t)
        state, info = observe(p.state, arms, query, y, tell_key)
        row = dict(
            round=p.round,
            batch_size=info.batch_size,
            dictionary_size=info.dictionary_size,
            width=info.width,
        )
        size = info.batch_size
        return Progress(
            state=state,
            trace=_record(p.trace, p.t, size, query, y, row, regrets, chunk),
            t=p.t + size,
            round=p.round + (size > 0).astype(jnp.int32),
            result=info.result,
        )

    def refresh(p: Progress) -> Progress:
        # the key that `tell` has in the last round, which its first evaluation numbers
        first = p.t - p.trace.batch_size[p.t - 1]
        state, outcome = algorithm.refresh(p.state, arms, jax.random.fold_in(roots.tell, first))
        sizes = jnp.where(
            p.trace.round == p.round - 1, state.dictionary_size, p.trace.dictionary_size
        )
        trace = replace(p.trace, dictionary_size=sizes)
        return replace(p, state=state, trace=trace, result=jnp.maximum(p.result, outcome))

    def rounds(p: Progress) -> Progress:
        """Rounds until one leaves a stale state, which is refreshed."""
        p = lax.while_loop(lambda p: goes_on(p) & ~is_stale(p), one_round, p)
        return lax.while_loop(is_stale, refresh, p)

    def goes_on(p: Progress) -> Array:
        return (p.t < until) & ~p.stopped

    if not refreshes:
        return lax.while_loop(goes_on, one_round, progress)
    return lax.while_loop(lambda p: goes_on(p) | is_stale(p), rounds, progress)


def _capacities(algorithm: Any, state: Any, arms: Arms, horizon: int) -> tuple[int, ...]:
    """The capacities to which a run grows: none if the state has no capacity, if the algorithm was
    given one, or if it cannot grow."""
    if not hasattr(state, "capacity") or _given_capacity(algorithm) is not None:
        return ()
    if getattr(type(algorithm), "grow", Algorithm.grow) is Algorithm.grow:
        return ()
    memory, itemsize = devices.memory(), arms.features.dtype.itemsize
    most = max(CAPACITIES)
    if memory is not None:
        # on a CPU the runs of a vmap are computed one after the other
        squares = RUNS * SQUARES if numerics.on_accelerator() else SQUARES + RUNS * STATE_SQUARES
        most = min(most, math.isqrt(int(memory / (squares * itemsize))))
    # a dictionary has at most one point for each arm, and for each evaluation
    enough = min(arms.count, horizon, most)
    stages = (max(min(capacity, enough), state.capacity) for capacity in CAPACITIES)
    return tuple(dict.fromkeys(stages))


def _given_capacity(algorithm: Any) -> int | None:
    """The capacity of an algorithm, or of the one that it wraps; None if none was given."""
    for name in ("capacity", "base", "bandit"):
        value = getattr(algorithm, name, None)
        if value is not None:
            return value if name == "capacity" else _given_capacity(value)
    return None


def regret_ratio(regret: Array, mean_reward: Array) -> Array:
    """The ratios R_t / R_t^unif [..., T] for instantaneous regrets [..., T]; 1 if all arms are
    equally good. R_t^unif = t (f* - mean f) is the expected regret of the uniform policy with mean
    rewards [A]. Raises ValueError on other shapes."""
    regret, mean_reward = jnp.asarray(regret), jnp.asarray(mean_reward)
    if regret.ndim == 0 or mean_reward.ndim != 1 or not mean_reward.size:
        raise ValueError(
            "regret_ratio takes regrets [..., T] and mean rewards [A], A >= 1; the shapes are"
            f" {regret.shape} and {mean_reward.shape}."
        )
    return _regret_ratio(regret, mean_reward)


@jax.jit  # one program, which compiles in a fraction of the time of its operations one by one
def _regret_ratio(regret: Array, mean_reward: Array) -> Array:
    best = jnp.max(mean_reward)
    equal = jnp.min(mean_reward) == best
    uniform_regret = jnp.where(equal, 1, best - jnp.mean(mean_reward))
    evaluations = jnp.arange(1, regret.shape[-1] + 1, dtype=regret.dtype)
    ratio = jnp.cumsum(regret, -1) / aligned(uniform_regret * evaluations, regret)
    return jnp.where(equal, 1, ratio)


@struct.dataclass
class BoxRun:
    """The evaluations of a run over a box, [T], or [S, T] over seeds, and the last state. From `t`
    on, numbers are NaN, integers -1, and flags false.

    x      [T, d]
    y      [T], as observed; NaN or infinite for a failed evaluation
    value  [T], without noise; NaN if the objective has no `value`
    best   [T], largest finite y so far, -inf before the first
    info   `BoxInfo` of the round of each evaluation, fields [T, ...]
    state  the last state of the optimiser
    t      [] int32, evaluations; fewer than T if the optimiser returned an empty query
    """

    x: Array
    y: Array
    value: Array
    best: Array
    info: Any
    state: Any
    t: Array

    def summary(self) -> dict[str, Any]:
        """The values that the repr shows."""
        y = np.asarray(self.y)
        best = np.where(np.isfinite(y), y, -np.inf).max(-1)
        values: dict[str, Any] = dict(evaluations=np.min(np.asarray(self.t)))
        if y.ndim > 1:
            return values | dict(seeds=len(y), best_mean=best.mean(), best_of_all=best.max())
        index = int(np.argmax(np.where(np.isfinite(y), y, -np.inf)))
        failed = int(values["evaluations"]) - int(np.isfinite(y).sum())
        return values | dict(failed=failed, best=best, best_x=np.asarray(self.x)[index])


def _rollout_over_box(
    optimizer: BoxOptimizer, problem: Any, key: PRNGKey, *, horizon: int
) -> BoxRun:
    """`rollout` over a box, for a problem as `problems.on_box` makes it."""
    box = checked_box(problem.domain)
    optimizer = struct.numbers_in_dtype(optimizer, box.lower.dtype)
    objective = problem.objective if isinstance(problem, OnBox) else problem
    roots = Roots(*jax.random.split(key, 4))
    checks.objective(objective, box.lower, roots.problem)
    value = getattr(objective, "value", None)

    def one_round(state: Any, t: Array) -> tuple[Any, BoxQuery, Array, Array, Any]:
        query = optimizer.ask(state, jax.random.fold_in(roots.ask, t), limit=horizon - t)

        def evaluate_slot(i: Array, results: tuple[Array, Array]) -> tuple[Array, Array]:
            x, (y, values) = query.x[i], results
            y = put(y, i, objective(x, jax.random.fold_in(roots.problem, t + i)))
            return y, values if value is None else put(values, i, value(x))

        empty = jnp.full(query.mask.shape, jnp.nan, query.x.dtype)
        # only the slots in use are evaluated
        y, noiseless = lax.fori_loop(0, query.size, evaluate_slot, (empty, empty))
        state, info = optimizer.tell(state, query, y, jax.random.fold_in(roots.tell, t))
        return state, query, y, noiseless, info

    def step(carry: tuple[BoxRun, Array]) -> tuple[BoxRun, Array]:
        run, _ = carry
        t = run.t
        state, query, y, noiseless, info = one_round(run.state, t)

        def record(old: Array, new: Array) -> Array:
            return write(old, new.astype(old.dtype), t, query.size)

        info = jax.tree.map(lambda new: jnp.broadcast_to(new, query.mask.shape + new.shape), info)
        run = replace(
            run,
            x=record(run.x, query.x),
            y=record(run.y, y),
            value=record(run.value, noiseless),
            info=jax.tree.map(record, run.info, info),
            state=state,
            t=t + query.size,
        )
        return run, query.size == 0

    state = optimizer.init(box, roots.init, horizon=horizon)
    zero = jnp.zeros((), jnp.int32)
    _, query, _, _, info = jax.eval_shape(one_round, state, zero)
    nans = jnp.full(horizon, jnp.nan, query.x.dtype)
    start = BoxRun(
        x=jnp.full((horizon, query.x.shape[1]), jnp.nan, query.x.dtype),
        y=nans,
        value=nans,
        best=nans,
        info=jax.tree.map(
            lambda leaf: jnp.full((horizon, *leaf.shape), no_value(leaf.dtype)), info
        ),
        state=state,
        t=zero,
    )
    # the run, and whether it ends early: its last query was empty, or a number is out of range
    carry = (start, struct.outside_ranges(optimizer))
    run, _ = lax.while_loop(lambda carry: (carry[0].t < horizon) & ~carry[1], step, carry)
    observed = jnp.where(jnp.isfinite(run.y), run.y, -jnp.inf)
    evaluated = jnp.arange(horizon, dtype=jnp.int32) < run.t
    return replace(run, best=jnp.where(evaluated, lax.cummax(observed), jnp.nan))


def no_value(dtype: Any) -> Array:
    """The value [] of a column that no evaluation has written: NaN, -1 or false."""
    if jnp.issubdtype(dtype, jnp.bool_):
        return jnp.zeros((), dtype)
    return jnp.asarray(jnp.nan if jnp.issubdtype(dtype, jnp.floating) else -1, dtype)

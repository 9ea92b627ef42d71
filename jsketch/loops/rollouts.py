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
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, devices, numerics, struct
from jsketch.box.history import checked_box, write
from jsketch.loops.failures import without_failing
from jsketch.loops.traces import BoxTrace, Trace, no_value
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
GRAM_BYTES = 256_000_000  # of the kernel values that a run keeps
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
class Progress:
    """A run up to evaluation t. It has ended early, and is `stopped`, if its result is not RUNNING.
    On the host, `run` enlarges the capacity or raises an error then.

    state   state of the algorithm
    trace   a `Trace` over arms, a `BoxTrace` over a box; NaN and -1 from t on
    t       [] int32, evaluations made
    round   [] int32, rounds made
    excess  [A] int32, failed evaluations of each arm minus its successful ones, by which arms are
            left out (`loops.failures`); [0] over a box
    result  [] int32, a `jsketch.results.Result`
    """

    state: Any
    trace: Any
    t: Array
    round: Array
    excess: Array
    result: Array

    @property
    def stopped(self) -> Array:
        return self.result != Result.RUNNING


def is_over_box(problem: Any) -> bool:
    """Whether a problem is over a box, and not over arms."""
    return isinstance(getattr(problem, "domain", None), Box)


def start(algorithm: Any, problem: Any, key: PRNGKey, horizon: int) -> Progress:
    """The run before its first evaluation."""
    if is_over_box(problem):
        begin = partial(_start_over_box, horizon=horizon)
        return one_after_another(begin, algorithm, problem, key)
    roots = Roots(*jax.random.split(key, 4))
    state = algorithm.init(problem.arms, roots.init, horizon=horizon)
    dtype = problem.mean_reward.dtype
    checks.memory(TRACE_COLUMNS * horizon, jnp.int32, horizon=horizon)
    # `rollout` returns NaN after the last evaluation; NaN before it would stop `jax_debug_nans`
    trace = filled_trace(jnp.full(horizon, -1, jnp.int32), jnp.zeros(horizon, dtype))
    zero = jnp.zeros((), jnp.int32)
    invalid = struct.outside_ranges(algorithm)  # `init` has checked the numbers that are known
    excess = problem.arms.on_devices(jnp.zeros(len(problem.arms.features), jnp.int32))
    outcome = result((Result.NOT_FINITE, invalid))
    return Progress(state, trace, zero, zero, excess, result=outcome)


def filled_trace(integers: Any, numbers: Any) -> Trace:
    """A trace whose columns of integers and of numbers are these, [T] each."""
    # arm, y, regret, round, batch_size, dictionary_size, width
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
    excess: Array,
    t: Array,
    n_evaluations: Array,
    query: Query,
    y: Array,
    row: dict[str, Any],
    regrets: Array,
    chunk: int,
) -> tuple[Trace, Array]:
    """(the trace, `Progress.excess`) with the first evaluations of a query from index t on, written
    in chunks of slots. `row` has the columns that have one value for all evaluations of the
    query."""
    horizon = trace.arm.shape[0]
    chunk = min(chunk, horizon)

    def write_chunk(i: Array, carry: tuple[Trace, Array]) -> tuple[Trace, Array]:
        trace, excess = carry
        begin = jnp.minimum(t + i * chunk, horizon - chunk)
        slots = begin - t + jnp.arange(chunk, dtype=jnp.int32)
        in_query = (slots >= 0) & (slots < n_evaluations)
        # the last chunk of the trace may begin with slots of the one before it
        is_new = in_query & (slots >= i * chunk)
        slots = jnp.clip(slots, 0, query.index.shape[0] - 1)
        arms = take(query.index, slots)
        values = take(y, slots)
        place = jnp.where(is_new, arms, len(excess))  # there values are dropped
        sign = jnp.where(jnp.isnan(values), 1, -1).astype(excess.dtype)
        excess = excess.at[place].add(sign, mode="drop", wrap_negative_indices=False)
        columns = dict(row, arm=arms, y=values, regret=take(regrets, arms))
        for name, value in columns.items():
            column = getattr(trace, name)
            old = part(column, begin, chunk)
            new = jnp.where(in_query, jnp.asarray(value, column.dtype), old)
            columns[name] = put_part(column, begin, new)
        return Trace(**columns), excess

    return lax.fori_loop(0, -(-n_evaluations // chunk), write_chunk, (trace, excess))


@struct.checked_names
def rollout(
    algorithm: Any,
    problem: Any,
    key: PRNGKey,
    horizon: int,
    progress: Progress | None = None,
    until: ArrayLike | None = None,
) -> Progress:
    """Runs an algorithm with a problem that can be traced. The function is pure and works under jit
    and vmap, over keys and over all numbers of the algorithm and the problem.

    algorithm  an algorithm over arms or over a box (`jsketch.types`)
    problem    a problem over arms; or one over a box, which has a `domain`, such as
               `problems.on_box(function, box)`
    key        one key, of the algorithm's random choices and of the noise
    horizon    int (static), evaluations
    progress   the result of an earlier call, from which the run resumes
    until      [] int, the evaluation at which to pause; None: the horizon

    Returns a `Progress`, whose `trace` is a `Trace` over arms and a `BoxTrace` over a box.

    A run over arms with default capacity cannot exceed it if A or `horizon` is at most 2,048: no
    dictionary has more points than there are arms or evaluations. It begins with up to 512 slots
    and continues with up to 2,048 where these do not suffice (fewer if 32 runs would not fit into
    memory). Factors have the size of the M slots. On an accelerator every run of a vmap needs the
    memory of about 10 matrices [M, M]; on a CPU one run is computed at a time, and the others need
    2. A run that needs few slots is faster and smaller if the algorithm has a `capacity`.

    A failed evaluation has the reward NaN, and arms that fail more often than they succeed are left
    out for a while (`loops.failures`).

    A run ends early where a capacity that was given, or the last one, is exceeded, where a
    posterior is not finite, and where the algorithm returns an empty query: `Progress.stopped` is
    then true, and the trace is NaN from there on (`Trace`), as are the means and variances of its
    state where a capacity is exceeded. A run with a traced number that is out of its range, such as
    a lengthscale of -1, ends before its first evaluation, with the result `NOT_FINITE`.

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
    if is_over_box(problem):
        checked_box(problem.domain)
    else:
        checks.component("the problem", components.PROBLEM, problem, pytree=True)
        algorithm = struct.numbers_in_dtype(algorithm, problem.arms.features.dtype)
    capacities: tuple[int, ...] = ()
    if progress is None:
        progress = start(algorithm, problem, key, horizon)
        if not is_over_box(problem):
            capacities = _capacities(algorithm, progress.state, problem.arms, horizon)
    until = horizon if until is None else jnp.minimum(until, horizon)
    if not capacities:
        progress = continue_run(algorithm, problem, key, horizon, progress, until)
    for capacity in capacities:
        progress = grown(algorithm, problem, progress, capacity)
        progress = continue_run(algorithm, problem, key, horizon, progress, until)
    return up_to_end(progress)


def up_to_end(progress: Progress) -> Progress:
    """The run with a trace that is NaN and -1 from evaluation t on, and without the numbers of a
    stale posterior."""

    def cut(column: Array) -> Array:
        made = jnp.arange(column.shape[0], dtype=jnp.int32) < progress.t
        made = made.reshape(-1, *[1] * (column.ndim - 1))
        return jnp.where(made, column, no_value(column.dtype))

    state = _without_stale_numbers(progress.state)
    return replace(progress, state=state, trace=jax.tree.map(cut, progress.trace))


def _without_stale_numbers(state: Any) -> Any:
    """The state with NaN as means, variances and covariances of a posterior that is stale, because
    the run has exceeded its capacity. `grow` computes them from the history."""
    p: Any = getattr(state, "posterior", None)
    if not (hasattr(state, "stale") and hasattr(p, "weights")):
        return state
    names = "mean", "variance", "weights", "dual"
    numbers = {name: jnp.where(state.stale, jnp.nan, getattr(p, name)) for name in names}
    return replace(state, posterior=replace(p, **numbers))


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
    """The run from `progress` to evaluation `until`, over arms at the capacity of its state. The
    trace has no meaning from evaluation t on (`up_to_end`).

    Under vmap on a CPU the runs are computed one after the other (`numerics.one_after_another`)."""
    run = partial(_continue_over_box if is_over_box(problem) else _continue_run, horizon=horizon)
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
        candidates = without_failing(arms, p.excess, p.t)
        query = algorithm.ask(
            p.state, candidates, jax.random.fold_in(roots.ask, p.t), limit=horizon - p.t
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
        trace, excess = _record(p.trace, p.excess, p.t, size, query, y, row, regrets, chunk)
        return Progress(
            state=state,
            trace=trace,
            t=p.t + size,
            round=p.round + (size > 0).astype(jnp.int32),
            excess=arms.on_devices(excess),
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
    # the rounds share kernel values, which are kept here and not in the states of several runs
    keeps = hasattr(algorithm, "with_gram") and gram_fits(arms, progress.state.capacity)
    if keeps:
        progress = replace(progress, state=algorithm.with_gram(progress.state, arms))
    progress = lax.while_loop(lambda p: goes_on(p) | is_stale(p), rounds, progress)
    if keeps:
        progress = replace(progress, state=algorithm.without_gram(progress.state))
    return progress


def gram_fits(arms: Arms, capacity: int) -> bool:
    """Whether a run keeps the kernel values of its arms: they have at most GRAM_BYTES, and the arms
    are on one device, and not on an accelerator, which computes values as fast as it reads them."""
    x = arms.features
    n_bytes = len(x) * capacity * x.dtype.itemsize
    return arms.sharding is None and not numerics.on_accelerator() and n_bytes <= GRAM_BYTES


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


def regret_ratio(regret: Array, mean_reward: Array, best: ArrayLike | None = None) -> Array:
    """The ratios R_t / R_t^unif [..., T] for instantaneous regrets [..., T]; 1 if all arms are
    equally good. R_t^unif = t (f* - mean f) is the expected regret of the uniform policy. Raises
    ValueError on other shapes.

    regret       [..., T]
    mean_reward  [A] of all arms, or over a box the values without noise of uniform points
    best         [], f*; None: the largest mean reward

    Example:

        regret_ratio(run(bandit, problem, key, 100).trace.regret, problem.mean_reward)  # [100]
    """
    regret, mean_reward = jnp.asarray(regret), jnp.asarray(mean_reward)
    if regret.ndim == 0 or mean_reward.ndim != 1 or not mean_reward.size:
        raise ValueError(
            "regret_ratio takes regrets [..., T] and mean rewards [A], A >= 1; the shapes are"
            f" {regret.shape} and {mean_reward.shape}."
        )
    return _regret_ratio(regret, mean_reward, best)


@jax.jit  # one program, which compiles in a fraction of the time of its operations one by one
def _regret_ratio(regret: Array, mean_reward: Array, best: ArrayLike | None) -> Array:
    best = jnp.max(mean_reward) if best is None else best
    equal = jnp.min(mean_reward) == best
    uniform_regret = jnp.where(equal, 1, best - jnp.mean(mean_reward))
    evaluations = jnp.arange(1, regret.shape[-1] + 1, dtype=regret.dtype)
    ratio = jnp.cumsum(regret, -1) / aligned(uniform_regret * evaluations, regret)
    return jnp.where(equal, 1, ratio)


def _start_over_box(
    optimizer: BoxOptimizer, problem: Any, key: PRNGKey, *, horizon: int
) -> Progress:
    """`start` over a box."""
    box, roots = checked_box(problem.domain), Roots(*jax.random.split(key, 4))
    optimizer = struct.numbers_in_dtype(optimizer, box.lower.dtype)
    checks.objective(_objective(problem), box.lower, roots.problem)
    state = optimizer.init(box, roots.init, horizon=horizon)
    zero = jnp.zeros((), jnp.int32)
    one_round = partial(_round_over_box, optimizer, problem, roots, horizon)
    *_, rows = jax.eval_shape(one_round, state, zero, zero)
    trace = jax.tree.map(lambda row: jnp.full((horizon, *row.shape[1:]), no_value(row.dtype)), rows)
    invalid = struct.outside_ranges(optimizer)
    excess = jnp.zeros(0, jnp.int32)
    outcome = result((Result.NOT_FINITE, invalid))
    return Progress(state, trace, zero, zero, excess, result=outcome)


def _continue_over_box(
    optimizer: BoxOptimizer,
    problem: Any,
    key: PRNGKey,
    progress: Progress,
    until: Array,
    *,
    horizon: int,
) -> Progress:
    """`continue_run` over a box."""
    optimizer = struct.numbers_in_dtype(optimizer, checked_box(problem.domain).lower.dtype)
    roots = Roots(*jax.random.split(key, 4))

    def step(p: Progress) -> Progress:
        state, query, rows = _round_over_box(
            optimizer, problem, roots, horizon, p.state, p.t, p.round
        )
        size = query.size
        return Progress(
            state=state,
            trace=jax.tree.map(lambda old, new: write(old, new, p.t, size), p.trace, rows),
            t=p.t + size,
            round=p.round + (size > 0).astype(jnp.int32),
            excess=p.excess,
            result=result((Result.NOTHING_TO_ASK, size == 0)),
        )

    return lax.while_loop(lambda p: (p.t < until) & ~p.stopped, step, progress)


def _round_over_box(
    optimizer: BoxOptimizer,
    problem: Any,
    roots: Roots,
    horizon: int,
    state: Any,
    t: Array,
    number: Array,
) -> tuple[Any, BoxQuery, BoxTrace]:
    """(state, query, rows of the trace [B, ...]) of the round with this number, whose first
    evaluation has the index t."""
    objective = _objective(problem)
    value, maximum = getattr(objective, "value", None), getattr(problem, "maximum", None)
    query = optimizer.ask(state, jax.random.fold_in(roots.ask, t), limit=horizon - t)

    def evaluate_slot(i: Array, results: tuple[Array, Array]) -> tuple[Array, Array]:
        x, (y, values) = query.x[i], results
        y = put(y, i, objective(x, jax.random.fold_in(roots.problem, t + i)))
        return y, values if value is None else put(values, i, value(x))

    empty = jnp.full(query.mask.shape, jnp.nan, query.x.dtype)
    # only the slots in use are evaluated
    y, values = lax.fori_loop(0, query.size, evaluate_slot, (empty, empty))
    state, info = optimizer.tell(state, query, y, jax.random.fold_in(roots.tell, t))
    slots = query.mask.shape
    rows = BoxTrace(
        x=query.x,
        y=y,
        regret=empty if maximum is None else jnp.asarray(maximum, values.dtype) - values,
        round=jnp.broadcast_to(number, slots),
        batch_size=jnp.broadcast_to(query.size, slots),
        value=values,
        info=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, slots + leaf.shape), info),
    )
    return state, query, rows


def _objective(problem: Any) -> Any:
    """The function of a point and a key of a problem over a box."""
    return problem.objective if isinstance(problem, OnBox) else problem

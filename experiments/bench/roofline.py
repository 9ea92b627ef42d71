"""How far runs are from what this machine can do: the operations of their steps, counted, at the
measured peak of each kind.

python -m experiments.bench.roofline                      hard, Abalone, local and BKB
python -m experiments.bench.roofline --only abalone --small

A run is made round by round from Python, in which `ask` (the scores and the picks of a batch) and
`refresh` (the posterior from scratch) are timed one by one; `observe` (the low-rank updates of the
posterior, and the record of the run) is the rest of the seconds of the compiled run. With m
inducing points, A arms, and n arms pulled in a batch, n' of them for the first time, they need at
least

    ask       one pass over scores [A], and the loop over the picks
    observe   if it is low rank: A n' kernel values, and ceil(n / 4) passes over A m kernel values
              in memory
    refresh   A m kernel values, A m^2 operations of products (the factor is triangular) and 4 m^3
              of factorizations

Peaks are measured: products of matrices of order 2,048, the Gaussian kernel of 4,096 arms and 128
points, a product of kernel values [A, M] with a vector, which reads them, and the loop over picks
of one working set. The local bounds of the local rule are not counted. The bound of a step is the
sum of its counts over the peaks: where the ratio of its seconds to its bound is 1, it cannot be
faster with these operations. The mean time of an empty program is that of a call from Python, and
is subtracted.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.bench.bandits import TASKS, Task, load_problem, make_bandit
from experiments.bench.timing import seconds, show
from experiments.results import store
from jsketch import kernels, loops
from jsketch.core import low_rank, working_set
from jsketch.loops.advance import COMPILER_OPTIONS

ONLY = ("hard_2000", "abalone", "local", "bkb")
STEPS = ("ask", "observe", "refresh")
REPEATS = 15  # of the measurement of a peak


def peaks(shape: tuple[int, int]) -> dict[str, float]:
    """Operations a second of products, kernel values a second, bytes a second of a product of
    kernel values of this shape, and picks a second."""

    def rate(amount: float, function: Callable[..., Any], *arrays: Any) -> float:
        compiled = jax.jit(function)
        return amount / seconds(lambda: compiled(*arrays), REPEATS)[0]

    matrix = jnp.ones((2_048, 2_048))
    arms = jnp.asarray(np.random.default_rng(0).standard_normal((4_096, 8)))
    gram = kernels.Gaussian(5.0).gram
    values, passes = jnp.ones(shape), 32

    def read(values: jax.Array) -> jax.Array:
        # every pass depends on the one before it
        start = jnp.ones(values.shape[1])
        return jax.lax.fori_loop(0, passes, lambda _, v: v + (values @ v)[: len(v)], start)

    n_picks, n_set = working_set.PICKS_OF_SET, working_set.ARMS_OF_SET
    covariance = gram(arms[:n_set], arms[:n_set])

    def pick(covariance: jax.Array) -> Any:
        ones = covariance[0] * 0 + 1
        return working_set.pick_from_set(
            ones,
            0 * ones,
            covariance,
            1.0,
            outside=jnp.asarray(-jnp.inf),
            limit=jnp.asarray(n_picks),
            bound=jnp.asarray(1.0),
            variance=ones,
            ratio=jnp.inf,
            candidates=ones > 0,
        )

    return dict(
        products=rate(2 * 2_048**3, jnp.matmul, matrix, matrix),
        kernel_values=rate(4_096 * 128, gram, arms, arms[:128]),
        bytes=rate(values.nbytes * passes, read, values),
        picks=rate(n_picks, pick, covariance),
    )


def counts_of(
    step: str, counts: np.ndarray, inducing: np.ndarray, after: Any, n_picks: int
) -> dict[str, float]:
    """The operations that a step needs, by kind of peak, from the counts [A] and the dictionary [A]
    before it, the state after it, and the picks of the batch."""
    n_arms, size, m = len(counts), counts.itemsize, float(after.dictionary_size)
    if step == "ask":
        return dict(bytes=size * n_arms, picks=n_picks)
    if step == "refresh":
        return dict(kernel_values=n_arms * m, products=n_arms * m**2 + 4 * m**3)
    if bool(after.stale):
        return {}
    n_pulled = int((np.asarray(after.counts) > counts).sum())
    n_joined = int((np.asarray(after.inducing) & ~inducing).sum())
    passes = -(-n_pulled // low_rank.TOGETHER)
    return dict(kernel_values=n_arms * n_joined, bytes=size * n_arms * m * passes)


def measure(task: Task, data_dir: Path | None) -> dict[str, Any]:
    """Seconds, calls and bounds of the steps of a run, and the seconds of the compiled run."""
    problem = load_problem(task.dataset, task.noise_std, data_dir)
    key, horizon = jax.random.key(0), task.horizon
    capacity = loops.run(make_bandit(task), problem, key, horizon).capacity
    bandit = make_bandit(task, capacity=capacity)  # the timed run does not grow
    run = [loops.run(bandit, problem, key, horizon) for _ in range(2)][1]
    arms, rate = problem.arms, peaks((problem.arms.count, capacity))
    # as in a run, a step reuses the memory of the state that it replaces
    compiled = partial(jax.jit, compiler_options=COMPILER_OPTIONS)
    programs: dict[str, Any] = dict(
        ask=compiled(lambda state, key, limit: bandit.ask(state, arms, key, limit)),
        observe=compiled(
            lambda state, query, y, key: bandit.observe(state, arms, query, y, key)[0],
            donate_argnums=0,
        ),
        refresh=compiled(lambda state, key: bandit.refresh(state, arms, key)[0], donate_argnums=0),
        empty=compiled(lambda state: state.counts[0]),
    )
    sample = jax.jit(jax.vmap(problem.sample))
    totals: dict[str, Any] = {}

    def step(name: str, state: Any, *args: Any) -> Any:
        before = np.array(state.counts), np.array(state.inducing)
        began = time.perf_counter()
        value = jax.block_until_ready(programs[name](state, *args))
        total = totals.setdefault(name, defaultdict(float))
        total["seconds"] += time.perf_counter() - began
        total["calls"] += 1
        if name in STEPS:
            is_ask = name == "ask"
            after, n_picks = (state, int(value.size)) if is_ask else (value, 0)
            for kind, amount in counts_of(name, *before, after, n_picks).items():
                total[kind] += amount / rate[kind]
        return value

    for _ in range(2):  # the first time compiles
        totals.clear()
        state, t, rounds = bandit.init(arms, key, horizon=horizon), 0, 0
        state = jax.tree.map(jnp.copy, bandit.with_gram(state, arms))
        while t < horizon:
            keys = jax.random.split(jax.random.fold_in(key, rounds), 4)
            step("empty", state)
            query = step("ask", state, keys[0], jnp.asarray(horizon - t))
            y = sample(jax.random.split(keys[1], len(query.index)), query.index)
            state = step("observe", state, query, y, keys[2])
            if bool(state.stale):
                state = step("refresh", state, keys[3])
            t, rounds = t + int(query.size), rounds + 1
    call = totals["empty"]["seconds"] / totals["empty"]["calls"]
    rest, steps = run.run_seconds, {}
    for name in ("ask", "refresh", "observe"):
        total = totals.get(name, defaultdict(float))
        spent = rest if name == "observe" else total["seconds"] - call * total["calls"]
        rest -= spent
        bound = sum(total[kind] for kind in rate)
        steps[name] = dict(total, calls=total["calls"], seconds=spent, bound=bound)
    bound = sum(row["bound"] for row in steps.values())
    return dict(
        run_seconds=run.run_seconds,
        bound=bound,
        ratio=run.run_seconds / bound,
        rounds=rounds,
        inducing_points=int(state.dictionary_size),
        capacity=int(state.capacity),
        call_seconds=call,
        peaks=rate,
        steps=steps,
    )


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None)
    cli.add_choices(parser, "--only", list(TASKS), default=ONLY)
    parser.add_argument("--small", action="store_true", help="40 evaluations")
    options: argparse.Namespace = cli.parse_benchmark(parser)
    rows: dict[str, Any] = {}
    for name in options.only:
        task = TASKS[name]._replace(horizon=40) if options.small else TASKS[name]
        rows[name] = measure(task, options.data_dir)
        show(name, rows[name])
        show(f"{name}, peaks", rows[name]["peaks"])
        for step, row in rows[name]["steps"].items():
            show(f"{name}, {step}", row)
        store.write_numbers(options.out, rows)

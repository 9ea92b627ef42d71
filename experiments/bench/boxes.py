"""Run times of the optimisers over a box on this machine (medians without compilation), and how
often TuRBO finds the maximum.

scripts/bench-box                           every benchmark
scripts/bench-box --only go_ucb gp_ei       some of them
"""

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.bench.timing import seconds, show
from experiments.results import store
from jsketch import loops
from jsketch.box import GOUCB, GPBandit, Turbo
from jsketch.box.gp.fit import Bounds
from jsketch.problems import boxes
from jsketch.types import BoxQuery

NOISE_STD = 0.01
SEEDS = 10
TURBO_SEEDS = 20
# With the published bounds (noise of 5e-4 to 0.2 of the variance, least side 2^-7 of the box) the
# GP with the largest likelihood explains Ackley's ripples by noise, and values in a trust region of
# the least side are up to 0.1 below the maximum.
NOISELESS = Turbo(initial=20, least_length=2.0**-9, bounds=Bounds(noise=(1e-6, 1e-5)))


def go_ucb(repeats: int) -> dict[str, Any]:
    """Times a run of 8 + 64 evaluations on f2 in 20 dimensions, and ten seeds, vmapped and on
    threads."""
    problem, optimizer = boxes.styblinski_tang(20, NOISE_STD), GOUCB(initial=8)
    keys = jax.random.split(jax.random.key(0), SEEDS)
    one_seed, compilation = seconds(lambda: loops.run(optimizer, problem, keys[0], 72), repeats)
    row: dict[str, Any] = dict(run_seconds=one_seed, compile_seconds=compilation)
    show("go_ucb, f2", row)
    for strategy in ("vmap", "threads"):
        run_seeds = partial(loops.run, optimizer, problem, keys, 72, strategy=strategy)
        run_seconds, compilation = seconds(run_seeds, repeats)
        row[strategy] = dict(
            run_seconds=run_seconds,
            compile_seconds=compilation,
            times_one_seed=run_seconds / one_seed,
        )
        show(f"{SEEDS} seeds, {strategy}", row[strategy])
    return row


def gp_ei(repeats: int) -> dict[str, Any]:
    """Times a fit and an ask of GP-EI after 200 observations in 20 dimensions (capacity 256)."""
    problem, optimizer = boxes.styblinski_tang(20, NOISE_STD), GPBandit(initial=200)
    state = optimizer.init(problem.domain, jax.random.key(0), horizon=256)
    ys = jax.vmap(problem.value)(state.initial)
    ask, tell = jax.jit(optimizer.ask), jax.jit(optimizer.tell)
    initial = BoxQuery(state.initial, jnp.ones(200, bool))
    state, _ = tell(state, initial, ys, jax.random.key(1))
    steps = iter(range(1000))

    def step() -> Any:
        nonlocal state
        key = jax.random.key(next(steps))
        query = ask(state, key)
        state, info = tell(state, query, jax.vmap(problem.value)(query.x), key)
        return info

    median, compilation = seconds(step, max(repeats, 10))
    row = dict(fit_and_ask_seconds=median, compile_seconds=compilation)
    show("gp_ei, 200 observations", row)
    return row


def turbo(repeats: int) -> dict[str, Any]:
    """TuRBO-1 on Ackley's function of 10 inputs, 400 evaluations, 20 seeds, with the settings of
    NOISELESS and with the published ones."""
    problem, keys = boxes.ackley(10), jax.random.split(jax.random.key(0), TURBO_SEEDS)
    rows = {}
    for name, optimizer in dict(noiseless=NOISELESS, published=Turbo()).items():
        began = time.perf_counter()
        run = jax.block_until_ready(loops.run(optimizer, problem, keys, 400))
        total = time.perf_counter() - began
        gaps = np.asarray(problem.maximum - run.best[:, -1])
        row = dict(
            within_0_1_of_the_maximum=int((gaps <= 0.1).sum()),
            largest_gap=float(gaps.max()),
            seconds_a_seed_with_compilation=total / TURBO_SEEDS,
        )
        show(f"turbo, {name}, {TURBO_SEEDS} seeds", row)
        rows[name] = row | dict(gaps=gaps.tolist())
    return rows


BENCHMARKS = {"go_ucb": go_ucb, "gp_ei": gp_ei, "turbo": turbo}


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, repeats=5)
    cli.add_choices(parser, "--only", list(BENCHMARKS))
    options = cli.parse_benchmark(parser)
    rows = {name: BENCHMARKS[name](options.repeats) for name in options.only}
    store.write_numbers(options.out, rows)

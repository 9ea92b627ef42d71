"""Run times of the optimisers over a box on this machine: medians without compilation.

scripts/bench-box                  every benchmark
scripts/bench-box --only gp_ei     some of them
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from experiments import cli
from experiments.bench.timing import seconds, show
from experiments.results import store
from jsketch import loops
from jsketch.box import GOUCB, GPBandit
from jsketch.problems import boxes
from jsketch.types import BoxQuery

NOISE_STD = 0.01
SEEDS = 10


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


BENCHMARKS = {"go_ucb": go_ucb, "gp_ei": gp_ei}


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, repeats=5)
    cli.add_choices(parser, "--only", list(BENCHMARKS))
    options = cli.parse_benchmark(parser)
    rows = {name: BENCHMARKS[name](options.repeats) for name in options.only}
    store.write_numbers(options.out, rows)

"""Bandits with contexts: a comparison of EK-UCB, K-UCB, CBKB and CBBKB on problems of the EK-UCB
paper.

    python -m experiments.contrib.contextual --out out/contextual

There are ten actions (multiples of 0.01, drawn as in the authors' scripts), contexts are uniform,
and the noise is 0.1. All methods have a Gaussian kernel of lengthscale 0.1, lambda = mu = 1, and
the scripts' width, 0.1 times the root of the leverage. The tables have the cumulative regret, the
inducing points, and the CPU seconds of all seeds in one program, without compilation.
"""

import argparse
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from experiments import cli
from experiments.contrib import saving
from experiments.contrib.saving import Row
from jsketch import kernels
from jsketch.bandits import widths
from jsketch.contrib import CBBKB, EKUCB, KUCB
from jsketch.contrib.problems import ContextualArms
from jsketch.contrib.problems.contextual import Squares, StepDiagonal
from jsketch.contrib.problems.play import advance, begin, check_results
from jsketch.numerics import one_after_another
from jsketch.sketch.kors import Sampling

N_ACTIONS, WIDTH, LAM = 10, 0.1, 1.0
LENGTHSCALE, CAPACITY, QBAR = 0.1, 256, 3.0
SEGMENTS = 20  # of a run; CPU seconds are recorded after each segment
METHODS = ("k_ucb", "ek_ucb_0.5", "ek_ucb_2", "cbkb", "cbbkb_3")
# rounds after which a method stops; CBKB takes most of the time
STOPS = {"cbkb": 300, "cbbkb_3": 300}
PROBLEMS = ("squares", "step_diagonal")
ROWS = (
    Row("regret", "regret $R_t$"),
    Row("seconds", "CPU seconds", log=True),
    Row("dictionary", "points"),
)
draw = partial(saving.draw_panels, name="regret.png", rows=ROWS, xlabel="rounds $t$")


def problem_of(name: str) -> ContextualArms:
    """A problem with ten multiples of 0.01 as actions, the same in every run."""
    multiples = np.arange(0, 1, 0.01)
    actions = np.random.RandomState(123).choice(multiples, size=N_ACTIONS, replace=False)
    reward = Squares() if name == "squares" else StepDiagonal()
    return ContextualArms(jnp.asarray(actions[:, None]), reward)


def bandit_of(method: str, horizon: int) -> Any:
    """The bandit of a method; the number in the method's name is KORS's beta or the ratio C."""
    common: dict[str, Any] = dict(
        kernel=kernels.Gaussian(LENGTHSCALE),
        regularization=LAM,
        # `Bayesian` multiplies its argument by sqrt(lam)
        width=widths.Bayesian(WIDTH / LAM**0.5),
        max_history=horizon,
    )
    if method == "k_ucb":
        return KUCB(**common)
    name, _, number = method.rpartition("_")
    if name == "ek_ucb":
        return EKUCB(**common, sampling=Sampling(mu=LAM, beta=float(number)), capacity=CAPACITY)
    ratio = 1.0 if method == "cbkb" else float(number)
    max_batch = 2 if ratio == 1 else 64  # with C = 1 a batch ends after one point
    return CBBKB(**common, ratio=ratio, qbar=QBAR, max_batch=max_batch, capacity=CAPACITY)


@partial(jax.jit, static_argnames="n_rounds")
def play_segment(
    problem: Any, bandit: Any, states: Any, keys: Array, first: Array, n_rounds: int
) -> Any:
    """(states, records [S, n_rounds]) of `n_rounds` rounds from round `first` [] on."""
    rounds = first + jnp.arange(n_rounds, dtype=jnp.int32)

    def play_rounds(state: Any, key: Array) -> Any:
        return one_after_another(_play_rounds, problem, bandit, key, state, rounds)

    return jax.vmap(play_rounds)(states, keys)


def _play_rounds(problem: Any, bandit: Any, key: Array, state: Any, rounds: Array) -> Any:
    return lax.scan(partial(advance, problem, bandit, key), state, rounds)


def run_segments(problem: Any, bandit: Any, horizon: int, keys: Array) -> tuple[Any, np.ndarray]:
    """(record [S, T], CPU seconds until the end of each segment [SEGMENTS]). An earlier, untimed
    run of the first segment compiles the program. Raises ValueError if a capacity is too small."""
    states, round_keys = jax.vmap(partial(begin, problem, bandit))(keys)
    n_rounds, seconds, segments = horizon // SEGMENTS, [], []
    play_from = partial(play_segment, problem, bandit, keys=round_keys, n_rounds=n_rounds)
    jax.block_until_ready(play_from(states, first=jnp.int32(0)))
    start = time.process_time()
    for index in range(SEGMENTS):
        states, segment = play_from(states, first=jnp.int32(index * n_rounds))
        segments.append(jax.block_until_ready(segment))
        seconds.append(time.process_time() - start)
    record = jax.tree.map(lambda *pieces: np.concatenate(pieces, axis=1), *segments)
    check_results(record, horizon)
    return record, np.array(seconds)


def runs(options: argparse.Namespace, name: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a problem, one dict for each seed. The method "uniform" has
    the expected regret of uniform actions, in the same contexts as the other methods."""
    horizon = min(options.horizon, STOPS.get(method, options.horizon))
    t = np.arange(1, SEGMENTS + 1) * (horizon // SEGMENTS)
    keys = jax.random.split(jax.random.key(1), options.seeds)
    if method == "uniform":
        uniform_regret = partial(problem_of(name).uniform_regret, horizon)
        regret = np.asarray(jax.jit(jax.vmap(uniform_regret))(keys)).cumsum(axis=1)
        return saving.by_seed(dict(t=t), regret=regret[:, t - 1], final_regret=regret[:, -1])
    bandit = bandit_of(method, horizon)
    record, seconds = run_segments(problem_of(name), bandit, horizon, keys)
    regret, uniform = (a.cumsum(axis=1) for a in (record.regret, record.uniform_regret))
    return saving.by_seed(
        dict(t=t, seconds=seconds, horizon=horizon, run_seconds=seconds[-1]),
        regret=regret[:, t - 1],
        dictionary=record.dictionary_size[:, t - 1],
        final_regret=regret[:, -1],
        final_regret_ratio=regret[:, -1] / uniform[:, -1],
        points=record.dictionary_size[:, -1],
    )


@cli.command
def main() -> None:
    options = cli.parse(saving.parser(__doc__, METHODS, PROBLEMS, seeds=4, horizon=1_000))
    if options.horizon % SEGMENTS:
        raise ValueError(f"horizon must be a multiple of {SEGMENTS}; {options.horizon} was given.")
    config = dict(stops=STOPS, actions=N_ACTIONS, width=WIDTH, regularization=LAM)
    config |= dict(capacity=CAPACITY, qbar=QBAR, lengthscale=LENGTHSCALE)
    config |= dict(horizon=options.horizon, seeds=options.seeds)
    title = f"Bandits with contexts, {options.seeds} seeds, mean and 95% interval"
    first_method, *other_methods = options.only
    methods = (first_method, "uniform", *other_methods)
    pairs = [(name, method) for name in options.problems for method in methods]
    saving.run(options, "beyond.contextual", title, config, runs, draw, pairs=pairs)

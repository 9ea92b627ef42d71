"""Beyond the papers: bandits with contexts (EK-UCB; Zenati et al., AISTATS 2022).

EK-UCB, K-UCB, CBKB and CBBKB are compared on two problems of the EK-UCB paper.
There are ten actions (multiples of 0.01, drawn as in the authors' scripts), contexts are uniform,
and the noise is 0.1. All methods have a Gaussian kernel of lengthscale 0.1, lambda = mu = 1, and
the scripts' width, 0.1 times the root of the leverage. The tables have the cumulative regret, the
inducing points, and the CPU seconds of all seeds in one program, without compilation.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from experiments import common
from experiments.common import Options, Settings
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
FIELDS = dict(
    horizon=("T", 0),
    final_regret=("regret at T", 1),
    final_regret_ratio=("R_T / R_T^unif", 4),
    points=("inducing points at T", 0),
    run_seconds=("CPU seconds", 2),
)
RUNS: dict[str, Settings] = {
    "beyond/contextual": dict(problems=PROBLEMS, methods=METHODS, seeds=4, horizon=1_000)
}
QUICK: Settings = dict(seeds=2, horizon=20, methods=METHODS[1:3])


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


def runs(settings: Settings, name: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a problem, one dict for each seed. The method "uniform" has
    the expected regret of uniform actions, in the same contexts as the other methods."""
    horizon = min(settings["horizon"], STOPS.get(method, settings["horizon"]))
    t = np.arange(1, SEGMENTS + 1) * (horizon // SEGMENTS)
    keys = jax.random.split(jax.random.key(1), settings["seeds"])
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


def run(folder: Path, settings: Settings, options: Options) -> None:
    first_method, *others = settings["methods"]
    methods = (first_method, "uniform", *others)
    pairs = [(name, method) for name in settings["problems"] for method in methods]
    title = f"Bandits with contexts, {settings['seeds']} seeds, mean and 95% interval"
    saving.run(folder, "beyond.contextual", title, settings, options, runs, pairs=pairs)


def draw(folder: Path) -> None:
    saving.draw_panels(folder, name="regret.png", rows=ROWS, xlabel="rounds $t$")
    saving.write_numbers(folder, FIELDS)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)

"""Bandits with contexts: EK-UCB beside K-UCB, CBKB and CBBKB on the problems of its figures.

python -m experiments.runs.contextual
python -m experiments.runs.contextual --seeds 2 --horizon 300 --problems squares

Ten actions (hundredths, drawn as the authors' scripts do), uniform contexts, noise 0.1; Gaussian
kernel, lambda = mu = 1, and the width 0.1 of the scripts, in leverage units, for all. Lengthscale
0.1 as there, but 1 for "bump": its points have six inputs, and at 0.1 none tells anything of
another. Printed: regret over that of uniform actions (mean and 95% interval), over the whole run
and over its last tenth, inducing points at the end, and CPU seconds of all seeds in one program,
compiled before.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.results.summaries import ci95
from jsketch import kernels
from jsketch.bandits import CBBKB, EKUCB, KUCB, widths
from jsketch.problems import contextual
from jsketch.sketch.kors import Sampling

ACTIONS, WIDTH, LAM = 10, 0.1, 1.0
METHODS = ("K-UCB", "EK-UCB 0.5", "EK-UCB 2", "CBKB", "CBBKB 3")
LENGTHSCALES = {"squares": 0.1, "step diagonal": 0.1, "bump": 1.0}


class Row(NamedTuple):
    """What is printed of a method on a problem."""

    ratio: np.ndarray  # [S], R_T / R_T^unif
    late: float
    points: float
    seconds: float


def problem_of(name: str) -> contextual.ContextualArms:
    """Ten of the hundredths, the same in every run."""
    hundredths = np.arange(0, 1, 0.01)
    actions = np.random.RandomState(123).choice(hundredths, size=ACTIONS, replace=False)
    column = jnp.asarray(actions[:, None])
    if name == "bump":
        return contextual.bump(jax.random.key(0), column)
    reward = contextual.Squares() if name == "squares" else contextual.StepDiagonal()
    return contextual.ContextualArms(column, reward)


def bandit_of(method: str, lengthscale: float, horizon: int, capacity: int, qbar: float) -> Any:
    """A method by its name; the number in it is the beta of KORS, or the ratio C."""
    common: dict[str, Any] = dict(
        kernel=kernels.Gaussian(lengthscale),
        regularization=LAM,
        # in units of sqrt(lam) posterior deviations
        width=widths.Bayesian(WIDTH / LAM**0.5),
        max_history=horizon,
    )
    name, _, number = method.partition(" ")
    if name == "K-UCB":
        return KUCB(**common)
    if name == "EK-UCB":
        return EKUCB(**common, sampling=Sampling(mu=LAM, beta=float(number)), capacity=capacity)
    ratio = float(number or 1)
    batch = 2 if ratio == 1 else horizon
    return CBBKB(**common, ratio=ratio, qbar=qbar, max_batch=batch, capacity=capacity)


def measured(problem: Any, bandit: Any, horizon: int, keys: Any) -> Row:
    """A run of all seeds, the second of two."""
    jax.block_until_ready(contextual.play(problem, bandit, horizon, keys))
    start = time.process_time()
    played = jax.block_until_ready(contextual.play(problem, bandit, horizon, keys))
    seconds = time.process_time() - start
    regret, uniform = np.asarray(played.regret), np.asarray(played.uniform_regret)
    late = -max(horizon // 10, 1)
    return Row(
        ratio=regret.sum(1) / uniform.sum(1),
        late=float(regret[:, late:].sum() / uniform[:, late:].sum()),
        points=float(np.asarray(played.dictionary_size)[:, -1].mean()),
        seconds=seconds,
    )


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--problems", nargs="+", choices=list(LENGTHSCALES), default=list(LENGTHSCALES)
    )
    parser.add_argument("--seeds", type=cli.count, default=4)
    parser.add_argument("--horizon", type=cli.count, default=1_000)
    parser.add_argument("--capacity", type=cli.count, default=192)
    parser.add_argument("--qbar", type=float, default=2.0)
    options = parser.parse_args()
    cli.set_up_jax()
    keys = jax.random.split(jax.random.key(1), options.seeds)
    for name in options.problems:
        problem, head = problem_of(name), f"\n{name:14s} {'R_T / R_T^unif':>17s}"
        print(head, f"{'last 10%':>10s} {'points':>8s} {'seconds':>8s}")
        for method in options.only:
            bandit = bandit_of(
                method, LENGTHSCALES[name], options.horizon, options.capacity, options.qbar
            )
            row = measured(problem, bandit, options.horizon, keys)
            ratio = f"{row.ratio.mean():8.3f} +- {ci95(row.ratio):.3f}"
            numbers = f"{row.late:10.3f} {row.points:8.1f} {row.seconds:8.1f}"
            print(f"{method:14s} {ratio} {numbers}", flush=True)


if __name__ == "__main__":
    main()

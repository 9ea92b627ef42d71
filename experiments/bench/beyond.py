"""Milliseconds per round of the methods beyond the four papers and of BBKB: medians of several runs
without compilation.

    python -m experiments.bench.beyond

1,000 made-up arms in the unit square, Gaussian kernel of lengthscale 0.2, noise 0.1, T = 512, one
seed; 32 clients on the problem "waves" of `experiments.contrib.clients`. A round is a batch; for
clients, one context of each of them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from experiments import cli
from experiments.bench.timing import seconds
from experiments.contrib import clients
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, BKB, widths
from jsketch.contrib import (
    BatchedExploration,
    DiscountedBKB,
    LengthscaleBalancing,
    NormDoubling,
    RandomExploration,
    WindowBKB,
)
from jsketch.contrib.problems import ClientArms, play

ARMS, HORIZON, LENGTHSCALE, NOISE = 1_000, 512, 0.2, 0.1
ROUNDS = 100  # of the clients


def bandits() -> dict[str, Any]:
    """The algorithms by name."""
    common: dict[str, Any] = dict(
        kernel=kernels.Gaussian(LENGTHSCALE),
        regularization=NOISE**2,
        noise_std=NOISE,
        norm_bound=2.0,
    )
    certified = common | dict(width=widths.certified_mixture)
    lengthscales = (0.8, 0.4, 0.2, 0.1)
    return {
        "BBKB, global": BBKB(**common, ratio=2.0, rule="global"),
        "BBKB, global-local": BBKB(**common, ratio=2.0, rule="global_local"),
        "BKB": BKB(**common),
        "DiscountedBKB, 0.99": DiscountedBKB(**common, discount=0.99),
        "WindowBKB, 128": WindowBKB(**common, window=128),
        "BatchedExploration": BatchedExploration(**common, horizon=HORIZON, capacity=HORIZON),
        "RandomExploration": RandomExploration(**common, horizon=HORIZON, capacity=HORIZON),
        "LengthscaleBalancing of 4, BBKB": LengthscaleBalancing(
            BBKB(**certified, ratio=2.0), lengthscales
        ),
        "NormDoubling, BBKB": NormDoubling(BBKB(**certified, ratio=2.0)),
    }


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    cli.add_shared(parser, repeats=5)
    options = parser.parse_args()
    cli.set_up_jax()
    x_key, f_key, run_key = jax.random.split(jax.random.key(0), 3)
    x = jax.random.uniform(x_key, (ARMS, 2))
    weights = jax.random.normal(f_key, (20,))
    mean = kernels.Gaussian(LENGTHSCALE).gram(x, x[:20]) @ (weights / jnp.linalg.norm(weights))
    problem = problems.finite_arms(x, mean, NOISE)
    for name, bandit in bandits().items():
        found = loops.run(bandit, problem, run_key[None], HORIZON)
        rounds = int(found.trace.round[0, -1]) + 1

        def run(bandit: Any = bandit) -> Any:
            return loops.run(bandit, problem, run_key[None], HORIZON).trace

        taken = seconds(run, options.repeats)[0]
        print(
            f"{name:32s} {1e3 * taken / rounds:8.3f} ms a round {rounds:4d} rounds"
            f" {1e6 * taken / HORIZON:8.0f} us an evaluation",
            flush=True,
        )
    waves = ClientArms(clients.problem_of("waves"))
    for method in ("alone", "exchange_0.1", "exchange_0"):
        bandit = clients.bandit_of("waves", method, ROUNDS)

        def run_clients(bandit: Any = bandit) -> Any:
            return play(waves, bandit, ROUNDS, run_key[None])

        taken = seconds(run_clients, options.repeats)[0]
        print(f"32 clients, {method:20s} {1e3 * taken / ROUNDS:8.3f} ms a round", flush=True)


if __name__ == "__main__":
    main()

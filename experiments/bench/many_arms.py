"""Ten million candidates in memory: one batch of a fixed size, and rounds of BBKB, what they take.

python -m experiments.bench.many_arms                       10,000,000 candidates, d = 8, float64
python -m experiments.bench.many_arms --arms 1000000 --rounds 10

The candidates are MADE UP: standard normal features; rewards are those of a smooth function and
noise. FixedBKB's batch comes first, after `observed` evaluations; BBKB then begins from nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.results import environment, files, store
from jsketch import Arms, drive, kernels
from jsketch.bandits import BBKB, FixedBKB, history

INPUTS, NOISE = 8, 0.1
# more than any number of rounds asks for
HORIZON = 1_000_000


def one_batch(domain: Arms, values: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """The batch after `observed` evaluations; seconds include compilation."""
    random = np.random.default_rng(1)
    observed = random.choice(domain.count, options.observed, replace=False)
    rewards = values[observed] + NOISE * random.standard_normal(options.observed)
    counts, sums = history.of_evaluations(domain, observed, rewards)
    bandit = FixedBKB(
        kernels.Gaussian(options.lengthscale),
        0.01,
        noise_std=NOISE,
        delta=1e-4,
        batch=options.batch,
        capacity=options.capacity,
    )
    clock = Spent()
    state = bandit.init(
        domain, jax.random.key(0), pull_counts=counts, reward_sums=sums, dictionary="leverage"
    )
    init, clock = clock.so_far("of_init"), Spent()
    query = jax.block_until_ready(jax.jit(bandit.ask)(state, jax.random.key(0)))
    return dict(
        **init,
        **clock.so_far("of_the_batch"),
        inducing_points=int(state.dictionary.size),
        distinct=len(np.unique(np.asarray(query.index))),
        peak_gigabytes=environment.peak_memory() / 1e9,
    )


def rounds(domain: Arms, values: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """So many rounds of BBKB; seconds include compilation."""
    bandit = BBKB(
        kernels.Gaussian(options.lengthscale),
        0.01,
        noise_std=NOISE,
        delta=1e-4,
        capacity=options.capacity,
    )
    random = np.random.default_rng(2)
    each: list[float] = []

    def evaluate(arms: np.ndarray) -> np.ndarray:
        each.append(time.perf_counter())
        return np.asarray(values[arms] + NOISE * random.standard_normal(len(arms)))

    def done(_: Any) -> bool:
        return len(each) == options.rounds

    clock = Spent()
    run = drive(bandit, evaluate, domain, jax.random.key(0), HORIZON, stop=done)
    return dict(
        **clock.so_far("of_the_rounds"),
        # the first rounds compile
        median_seconds_of_a_round=float(np.median(np.diff(each))),
        rounds=len(each),
        evaluations=run.t,
        inducing_points=int(run.state.dictionary.size),
        capacity=run.state.capacity,
        best=float(values[run.arm].max()),
        best_of_all=float(values.max()),
        peak_gigabytes=environment.peak_memory() / 1e9,
    )


class Spent:
    """Seconds of the wall clock and of the CPU since it was made."""

    def __init__(self) -> None:
        self.began, self.cpu = time.perf_counter(), time.process_time()

    def so_far(self, what: str) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self.began, time.process_time() - self.cpu
        return {f"seconds_{what}": wall, f"cpu_seconds_{what}": cpu}


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--arms", type=cli.count, default=10_000_000)
    parser.add_argument("--observed", type=cli.count, default=500, help="evaluations before")
    parser.add_argument("--batch", type=cli.count, default=96)
    parser.add_argument("--rounds", type=cli.count, default=50)
    parser.add_argument("--lengthscale", type=float, default=10.0)
    parser.add_argument("--capacity", type=cli.count, default=96, help="inducing points")
    parser.add_argument("--float32", action="store_true", help="candidates and all in float32")
    cli.add_out_file(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax(cached=False)
    # BKB and its kin warn of float32 beside a small regularization
    warnings.simplefilter("ignore")
    dtype = np.float32 if options.float32 else np.float64
    random = np.random.default_rng(0)
    features = random.standard_normal((options.arms, INPUTS), dtype)
    values = np.tanh(features @ (random.standard_normal(INPUTS) / np.sqrt(INPUTS)).astype(dtype))
    domain = Arms(jnp.asarray(features))
    size = features.nbytes / 1e9
    # on a CPU the arms may be the same memory: no second copy is kept
    del features
    print(f"{options.arms:,} made-up candidates, d = {INPUTS}, {dtype.__name__}, {size:.2f} GB")
    batch = one_batch(domain, values, options)
    print(
        f"a batch of {options.batch} after {options.observed} evaluations:"
        f" {batch['seconds_of_the_batch']:.1f} s, {batch['cpu_seconds_of_the_batch']:.1f} s of CPU"
        f" ({batch['cpu_seconds_of_init']:.1f} s to start), {batch['distinct']} distinct arms,"
        f" m = {batch['inducing_points']}; peak resident memory {batch['peak_gigabytes']:.2f} GB",
        flush=True,
    )
    run = rounds(domain, values, options)
    print(
        f"{run['rounds']} rounds of BBKB: {run['seconds_of_the_rounds']:.1f} s,"
        f" {run['cpu_seconds_of_the_rounds']:.1f} s of CPU (median of a round"
        f" {run['median_seconds_of_a_round']:.1f} s), {run['evaluations']} evaluations, best"
        f" {run['best']:.3f} of {run['best_of_all']:.3f}, m = {run['inducing_points']} (capacity"
        f" {run['capacity']}); peak resident memory so far {run['peak_gigabytes']:.2f} GB"
    )
    if options.out is not None:
        row = {"environment": environment.describe(), "arms": options.arms, "gigabytes": size}
        store.write_json(options.out, row | {"batch": batch, "rounds": run})


if __name__ == "__main__":
    main()

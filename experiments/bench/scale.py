"""Benchmarks at a million candidates, on generated data: a run, and one batch of a fixed size."""

from __future__ import annotations

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from experiments.results import environment
from jsketch import Arms, kernels, loops, problems
from jsketch.bandits import BBKB, FixedBKB, history

ARMS, INPUTS = 1_000_000, 8
OBSERVED, BATCH = 2_000, 1_000


def million(options: argparse.Namespace) -> dict[str, float]:
    """A = 1,000,000 generated candidates, d = 8, T = 500; target: under 4 GB resident. Run it alone
    for a clean peak."""
    random = np.random.default_rng(0)
    features = random.standard_normal((ARMS, INPUTS))
    weights = random.standard_normal(INPUTS) / np.sqrt(INPUTS)
    problem = problems.finite_arms(features, np.tanh(features @ weights), 0.1)
    bandit = BBKB(kernel=kernels.Gaussian(10.0), regularization=0.01, noise_std=0.1, delta=1 / 500)
    result = loops.run(bandit, problem, jax.random.key(0), 500)
    rounds = int(result.trace.round[-1]) + 1
    peak = environment.peak_memory() / 2**30
    ratio = float(loops.regret_ratio(result.trace.regret, problem.mean_reward)[-1])
    print(
        f"million        (generated data) run {result.run_seconds:.1f} s  compile"
        f" {result.compile_seconds:.1f} s  {rounds} rounds, {result.run_seconds / rounds:.2f} s a"
        f" round  m {int(result.trace.dictionary_size[-1])}  regret ratio {ratio:.3f}  peak"
        f" resident memory {peak:.2f} GB   [< 4 GB]",
        flush=True,
    )
    return dict(run_seconds=result.run_seconds, rounds=rounds, peak_gigabytes=peak)


def fixed_batch(options: argparse.Namespace) -> dict[str, float]:
    """One batch of 1,000 out of 1,000,000 candidates after 2,000 observations; target: one minute
    and 4 GB."""
    random = np.random.default_rng(0)
    features = random.standard_normal((ARMS, INPUTS))
    weights = random.standard_normal(INPUTS) / np.sqrt(INPUTS)
    observed = random.choice(ARMS, OBSERVED, replace=False)
    rewards = np.tanh(features[observed] @ weights) + 0.1 * random.standard_normal(OBSERVED)
    domain = Arms(jnp.asarray(features))
    counts, sums = history.of_evaluations(domain, observed, rewards)
    bandit = FixedBKB(
        kernels.Gaussian(5.0), 0.01, noise_std=0.1, delta=1 / 3000, batch=BATCH, capacity=512
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = bandit.init(
            domain, jax.random.key(0), pull_counts=counts, reward_sums=sums, dictionary="leverage"
        )
    began = time.perf_counter()
    query = jax.block_until_ready(jax.jit(bandit.ask)(state, jax.random.key(0)))
    seconds = time.perf_counter() - began
    distinct, peak = len(np.unique(np.asarray(query.index))), environment.peak_memory() / 2**30
    print(
        f"fixed batch    (generated data) one batch of {BATCH} in {seconds:.0f} s with compilation,"
        f" {distinct} distinct arms, m {int(state.dictionary.size)}, peak resident memory"
        f" {peak:.2f} GB   [< 60 s, < 4 GB]",
        flush=True,
    )
    return dict(seconds=seconds, distinct=distinct, peak_gigabytes=peak)

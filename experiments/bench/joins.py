"""What it costs NystromAWV that nearly every example joins its dictionary: the streams on which the
tests check Theorem 6 of PKAWV, one by one and vmapped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import kernels, loops, online
from jsketch.sketch import kors
from jsketch.sketch.kors import Sampling

LENGTH, CLUSTERS, DELTA = 900, 6, 0.1
TOGETHER, ALL = 8, 64  # streams that are vmapped here; streams of the test


def measure() -> dict[str, Any]:
    """CPU seconds, compilation apart. Prints one line."""
    forecaster = online.NystromAWV(
        kernels.Gaussian(2.0),
        1.0,
        Sampling(1.0, kors.theory_beta(LENGTH, DELTA), 0.5),
        capacity=LENGTH,
        memory=LENGTH,
    )

    def run(xs: Array, ys: Array, key: Array) -> Array:
        init_key, stream_key = jax.random.split(key)
        state = forecaster.init(xs[0], init_key)
        # nearly every example joins: a block would be worked out again after each of them
        forecasts = loops.stream(forecaster, state, xs, ys, stream_key, block=1).forecasts
        return forecasts.dictionary_size[-1]

    xs, ys = (jnp.stack(values) for values in zip(*map(_stream, range(TOGETHER)), strict=True))
    keys = jnp.stack([jax.random.key(seed) for seed in range(TOGETHER)])
    one, sizes = _cpu_seconds(
        lambda *inputs: jax.lax.map(lambda stream: run(*stream), inputs), xs, ys, keys
    )
    vmapped, _ = _cpu_seconds(jax.vmap(run), xs, ys, keys)
    row = dict(
        examples=LENGTH,
        dictionary_size=float(np.mean(sizes)),
        milliseconds_a_join=1e3 * one / float(np.sum(sizes)),
        one_by_one_seconds=one,
        vmapped_seconds=vmapped,
        theorem_6_seconds=one * ALL / TOGETHER,
    )
    print(
        f"{'joins':23s} {TOGETHER} streams of {LENGTH} examples, m {row['dictionary_size']:.0f}:"
        f" {one:.2f} CPU s one by one ({row['milliseconds_a_join']:.2f} ms a join),"
        f" {vmapped:.2f} vmapped; the {ALL} of Theorem 6 {row['theorem_6_seconds']:.0f} s",
        flush=True,
    )
    return row


def _stream(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Clusters that come one after the other, and labels of either sign."""
    random = np.random.default_rng(seed)
    centres = np.repeat(random.uniform(-1, 1, (CLUSTERS, 1)), LENGTH // CLUSTERS, axis=0)
    xs = centres + 0.15 * random.standard_normal((LENGTH, 1))
    return xs, np.sign(np.sin(7 * xs.sum(1)) + 0.3 * random.standard_normal(LENGTH))


def _cpu_seconds(function: Callable[..., Array], *inputs: Array) -> tuple[float, np.ndarray]:
    compiled = jax.jit(function).lower(*inputs).compile()
    began = time.process_time()
    result = np.asarray(compiled(*inputs))
    return time.process_time() - began, result

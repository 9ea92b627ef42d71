"""The floor of a run: the seconds that its matrix products take at the machine's best."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import loops


def gemm_flops_per_second() -> float:
    """Float64 peak of matrix products as XLA reaches it here, from the best of several 1024 x 1024
    products."""
    matrix = jnp.ones((1024, 1024))
    product = jax.jit(lambda a: a @ a)
    product(matrix).block_until_ready()
    times = []
    for _ in range(10):
        began = time.perf_counter()
        product(matrix).block_until_ready()
        times.append(time.perf_counter() - began)
    return 2 * 1024**3 / min(times)


def needed_flops(trace: loops.Trace, arms: int) -> float:
    """Flops that the refreshes of the runs cannot avoid, for the triangular factors that they
    multiply with.

    A round at sketch size m with n distinct pulled arms: one product of A arms (A m^2), embedding
    of n arms (n m^2), their Gram matrix (n m^2), two factorizations with inverse (2 m^3 / 3 each),
    and what the product's factor takes: two triangular products and a factorization (m^3 / 3 each).
    """
    total = 0.0
    traces = zip(
        np.asarray(trace.arm),
        np.asarray(trace.round),
        np.asarray(trace.dictionary_size),
        strict=True,
    )
    for arm, rounds, size in traces:
        last = np.append(np.flatnonzero(np.diff(rounds)), len(rounds) - 1)
        first_pull = np.zeros(len(arm))
        first_pull[np.unique(arm, return_index=True)[1]] = 1
        pulled = np.cumsum(first_pull)[last]
        m = size[last].astype(float)
        total += float(np.sum((arms + 2 * pulled) * m**2 + 7 / 3 * m**3))
    return total

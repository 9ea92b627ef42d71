"""The capacities of a run or a stream for inducing points, before it starts, and of a run after it
was exceeded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jsketch.core.dictionary import Extend
from jsketch.sketch.kors import Sampling
from jsketch.types import Arms, Kernel, is_traced

ESTIMATE_ARMS = 768  # largest number of arms whose leverage scores `expected_size` computes
# The initial capacity as a multiple of `expected_size`. The final size of the dictionary is 0.4 to
# 1.0 times the expected size where the arms are not much more than ESTIMATE_ARMS or few are good,
# and 1.5 times on the hard problem of `experiments.bench.bandits`, for which the capacity grows. A
# growth costs another compilation, which takes longer than most runs, and a capacity that is twice
# as large half of a run. From MANY_RUNS runs on, the runs take longer than a compilation.
INITIAL_SIZE_RATIO, RATIO_OF_MANY, MANY_RUNS = 1.1, 0.5, 8
# The initial capacity for a stream as a multiple of `expected_kors_size`. On uniform inputs the
# dictionary has 1.1 to 1.2 times the expected size.
INITIAL_STREAM_RATIO = 1.25
MULTIPLE = 16  # capacities are rounded up to a multiple of this
# Small capacities grow faster, because each new capacity compiles a program. From LARGE on, an
# elimination at a needlessly large capacity costs more than a compilation.
GROWTH, GROWTH_OF_LARGE, LARGE = 2.25, 1.125, 1_024


def with_initial_capacity(algorithm: Any, arms: Arms, horizon: int, n_runs: int = 1) -> Any:
    """The algorithm with a capacity of at least INITIAL_SIZE_RATIO times `expected_size`, or
    RATIO_OF_MANY times for MANY_RUNS runs or more, at most A, if its dictionary is extended. The
    capacity of other algorithms stays: a dictionary that is drawn after every batch is smaller. So
    does it for traced arms or settings."""
    if not isinstance(getattr(algorithm, "dictionary", None), Extend):
        return algorithm
    settings = algorithm.kernel, algorithm.regularization, algorithm.qbar
    if is_traced((arms, settings)):
        return algorithm
    size = expected_size(arms, *settings, horizon)
    ratio = INITIAL_SIZE_RATIO if n_runs < MANY_RUNS else RATIO_OF_MANY
    estimate = _round_up(ratio * size)
    return replace(algorithm, capacity=max(algorithm.initial_slots, min(estimate, arms.count)))


def with_stream_capacity(forecaster: Any, xs: Any, block: int) -> Any:
    """The forecaster with initial capacities that probably hold for the stream of inputs xs [n,d],
    which is learned in blocks, if it has a dictionary of KORS: at least INITIAL_STREAM_RATIO times
    `expected_kors_size` inducing points and, if it stores examples, space for all of them. Other
    forecasters stay, and so do those with traced settings."""
    sampling = getattr(forecaster, "sampling", None)
    if not isinstance(sampling, Sampling) or is_traced((forecaster, xs)):
        return forecaster
    size = expected_kors_size(xs, forecaster.kernel, sampling)
    capacities = dict(capacity=min(_round_up(INITIAL_STREAM_RATIO * size), len(xs)))
    if getattr(forecaster, "remember", False):
        capacities |= dict(memory=len(xs) + block)  # a block overflows as a whole
    larger = {name: max(getattr(forecaster, name), n) for name, n in capacities.items()}
    return replace(forecaster, **larger)


def _round_up(size: float) -> int:
    return -(-int(size) // MULTIPLE) * MULTIPLE


def larger_capacity(capacity: int, n_arms: int) -> int:
    """The capacity after it was exceeded: more than twice as large or, from LARGE on, an eighth
    larger; at most the number of arms. Raises RuntimeError if `capacity` is that number."""
    if capacity >= n_arms:
        raise RuntimeError(
            f"the algorithm exceeds a capacity of {capacity} inducing points, which holds all"
            f" {n_arms} arms: `tell` must not return CAPACITY_EXCEEDED where a larger capacity"
            " cannot help."
        )
    growth = GROWTH if capacity < LARGE else GROWTH_OF_LARGE
    grown = _round_up(capacity * growth)
    return max(min(grown, n_arms), capacity + 1)


def expected_size(
    arms: Arms, kernel: Kernel, regularization: ArrayLike, qbar: ArrayLike, horizon: int
) -> float:
    """The expected size of a dictionary after `horizon` uniform pulls of up to ESTIMATE_ARMS random
    arms: sum_i min(1, qbar l_i), where l_i is the exact leverage score of arm i.

    The function runs on the host, in O(ESTIMATE_ARMS^3). The pulls of a bandit concentrate on good
    arms, for which the result is too large. With more than ESTIMATE_ARMS arms it can be too small.
    """
    gram, least_noise = _sampled_gram(kernel, arms.features, arms.count)
    count = len(gram)
    noise = max(float(np.asarray(regularization)) * count / horizon, least_noise)
    leverage = 1 - noise * np.diagonal(np.linalg.inv(gram + noise * np.eye(count)))
    return float(np.clip(np.asarray(qbar) * leverage, 0, 1).sum())


def expected_kors_size(xs: Any, kernel: Kernel, sampling: Sampling) -> float:
    """The expected size of a dictionary of KORS after the stream xs [n,d], on the host.

    It is sum_t min(1, c v_t / (mu + v_t)) with c = beta (1 + eps) and the variance v_t of example t
    given those before it and noise mu (`sketch.kors`). Up to ESTIMATE_ARMS random examples are
    computed, each as n / ESTIMATE_ARMS copies of one example, whose variances are v / (1 + i v /
    mu), i = 0, 1, ... All v come from one Cholesky factorization.
    """
    gram, least_noise = _sampled_gram(kernel, xs, len(xs))
    count = len(gram)
    mu = float(np.max(np.asarray(sampling.mu)))
    c = float(np.max(np.asarray(sampling.beta * (1 + sampling.eps))))
    copies = len(xs) / count
    # in float32, kernel values of inputs far from their mean may have larger errors than these
    noise = max(mu / copies, least_noise, -2 * float(np.linalg.eigvalsh(gram)[0]))
    pivots = np.square(np.diagonal(np.linalg.cholesky(gram + noise * np.eye(count))))
    ratio = np.maximum((pivots - noise) / mu, np.finfo(float).tiny)  # v / mu
    # the first copies join with probability 1; the sum over the others is nearly an integral
    certain = np.clip(c - 1 / ratio, 0, copies)
    later = np.log1p((copies + 0.5) * ratio) - np.log1p((certain + 0.5) * ratio)
    return float((certain + c * later).sum())


def _sampled_gram(kernel: Kernel, x: Any, n: int) -> tuple[np.ndarray, float]:
    """(the Gram matrix of up to ESTIMATE_ARMS random ones of the first n rows of x, the least noise
    with which it is not singular), on the host. A Gram matrix of repeated rows is singular up to
    its rounding errors."""
    count = min(n, ESTIMATE_ARMS)
    chosen = np.random.default_rng(0).choice(n, count, replace=False)
    gram = np.asarray(_gram(kernel, x, chosen), np.float64)
    return gram, 10 * count * np.finfo(x.dtype).eps * np.diagonal(gram).max()


@jax.jit
def _gram(kernel: Kernel, x: Any, chosen: Any) -> Any:
    return kernel.gram(x[chosen], x[chosen])

"""The capacity of a run for inducing points, before it starts and after it was exceeded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jsketch.core.dictionary import Extend
from jsketch.types import Arms, Kernel, is_traced

ESTIMATE_ARMS = 768  # largest number of arms whose leverage scores `expected_size` computes
# The initial capacity as a multiple of `expected_size`. The final size of the dictionary is 0.4 to
# 1.0 times the expected size where the arms are not much more than ESTIMATE_ARMS or few are good,
# and 1.5 times on the hard problem of `experiments.bench.bandits`, for which the capacity grows. A
# growth costs another compilation, and a capacity that is twice as large at most half of a run.
INITIAL_SIZE_RATIO = 1.1
MULTIPLE = 16  # capacities are rounded up to a multiple of this
# Small capacities grow faster, because each new capacity compiles a program. From LARGE on, an
# elimination at a needlessly large capacity costs more than a compilation.
GROWTH, GROWTH_OF_LARGE, LARGE = 2.25, 1.125, 256


def with_initial_capacity(algorithm: Any, arms: Arms, horizon: int) -> Any:
    """The algorithm with a capacity of at least INITIAL_SIZE_RATIO times `expected_size`, at most
    A, if its dictionary is extended. The capacity of other algorithms stays: a dictionary that is
    drawn after every batch is smaller. So does it for traced arms or settings."""
    if not isinstance(getattr(algorithm, "dictionary", None), Extend):
        return algorithm
    settings = algorithm.kernel, algorithm.regularization, algorithm.qbar
    if is_traced((arms, settings)):
        return algorithm
    size = expected_size(arms, *settings, horizon)
    estimate = -(-int(INITIAL_SIZE_RATIO * size) // MULTIPLE) * MULTIPLE
    return replace(algorithm, capacity=max(algorithm.initial_slots, min(estimate, arms.count)))


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
    grown = -(-int(capacity * growth) // MULTIPLE) * MULTIPLE
    return max(min(grown, n_arms), capacity + 1)


def expected_size(
    arms: Arms, kernel: Kernel, regularization: ArrayLike, qbar: ArrayLike, horizon: int
) -> float:
    """The expected size of a dictionary after `horizon` uniform pulls of up to ESTIMATE_ARMS random
    arms: sum_i min(1, qbar l_i), where l_i is the exact leverage score of arm i.

    The function runs on the host, in O(ESTIMATE_ARMS^3). The pulls of a bandit concentrate on good
    arms, for which the result is too large. With more than ESTIMATE_ARMS arms it can be too small.
    """
    count = min(arms.count, ESTIMATE_ARMS)
    chosen = np.random.default_rng(0).choice(arms.count, count, replace=False)
    gram = np.asarray(_gram(kernel, arms.features, chosen), np.float64)
    # a Gram matrix of repeated arms is singular up to its rounding errors
    least_noise = 10 * count * np.finfo(arms.features.dtype).eps * np.diagonal(gram).max()
    noise = max(float(np.asarray(regularization)) * count / horizon, least_noise)
    leverage = 1 - noise * np.diagonal(np.linalg.inv(gram + noise * np.eye(count)))
    return float(np.clip(np.asarray(qbar) * leverage, 0, 1).sum())


@jax.jit
def _gram(kernel: Kernel, x: Any, chosen: Any) -> Any:
    return kernel.gram(x[chosen], x[chosen])

"""Whether rounding may have changed a posterior: a bound that the host computes after a run without
compiling a program. `core.diagnosis` has the estimate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array

from jsketch.core.posterior import Posterior


def on_host(values: Array, function: Callable[[Any], Any]) -> np.ndarray:
    """The function of the values [A] of arms, computed by NumPy, which compiles nothing; by JAX if
    the arms are on several processes."""
    return np.asarray(function(np.asarray(values) if values.is_fully_addressable else values))


def may_be_imprecise(
    posterior: Posterior, dictionary_size: Any, regularization: Any, error: float
) -> bool:
    """Whether `imprecision` may exceed `error`, by a bound that NumPy computes on the host from the
    factors of one posterior or of stacked ones: |K_S^-1 k_S(x)|^2 is at most k(x,x) |R|^2.

    Most posteriors have no near-duplicates among their inducing points, and need no estimate. The
    bound takes the largest k(x,x) of the inducing points, and of what is left of it at other arms,
    for that of all arms.
    """
    root = np.asarray(posterior.root)
    variance = on_host(posterior.variance, lambda variance: variance.max(-1))
    lam, eps = np.asarray(regularization), np.finfo(root.dtype).eps
    rank = (np.diagonal(root, axis1=-2, axis2=-1) > 0).sum(-1)
    first = root[..., 0, 0]
    prior = np.maximum(1 / np.where(first > 0, first, 1) ** 2 * (first > 0), lam * variance)
    rounding = eps * prior / lam * (1 + prior * np.square(root).sum((-2, -1)))
    return bool(np.any((rounding > error * variance) | (rank < np.asarray(dictionary_size))))

"""Initial designs: arms to evaluate before the first adaptive batch, chosen without feedback."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components
from jsketch.numerics import put
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.struct import in_dtype
from jsketch.types import Arms, Kernel

ROWS = 64  # the initial capacity for distinct arms; it doubles when a design has more


@jax.jit
def _add_picks(
    kernel: Kernel,
    features: Array,
    regularization: ArrayLike,
    target: ArrayLike,
    picks: Array,
    n_picks: Array,
    posterior: Exact,
) -> tuple[Array, Array, Exact]:
    """(picks, number of picks, posterior) after further picks, until the largest variance is at
    most the target, `picks` has no free slot or the posterior has no free row."""
    n_rows = len(posterior.basis)
    has_all_arms = n_rows == len(features)

    def pick(carry: tuple[Array, Array, Exact]) -> tuple[Array, Array, Exact]:
        picks, n_picks, posterior = carry
        arm = jnp.argmax(posterior.variance).astype(jnp.int32)
        posterior = exact.hallucinate(posterior, kernel, features, regularization, arm)
        return put(picks, n_picks, arm), n_picks + 1, posterior

    def continues(carry: tuple[Array, Array, Exact]) -> Array:
        picks, n_picks, posterior = carry
        has_row = has_all_arms | (posterior.used < n_rows)
        return (jnp.max(posterior.variance) > target) & (n_picks < len(picks)) & has_row

    return lax.while_loop(continues, pick, (picks, n_picks, posterior))


def uncertainty_sampling(
    kernel: Kernel, arms: Arms, regularization: float, max_variance: float, limit: int = 10_000
) -> np.ndarray:
    """Arms [n] to evaluate. Each has the largest variance given the arms before it; the last one
    reduces all variances to `max_variance` or less, in leverage units (BBKB Alg. 3).

    With max_variance = 1/P, later batches of ratio C have at least P (C - 1) arms if the posterior
    is exact and, with high probability, P (C - 1)/3 if it is sketched (THEORY 3.5). Raises
    ValueError for invalid arguments, and when `limit` evaluations do not suffice.
    """
    arms = checks.arms(arms)
    checks.component("kernel", components.KERNEL, kernel)
    checks.positive(regularization=regularization, max_variance=max_variance)
    checks.positive_integer(limit=limit)
    checks.memory(limit, jnp.int32, limit=limit)
    checks.model(arms, kernel, regularization)
    x = arms.features
    if arms.left_out is not None:
        raise ValueError(
            "an initial design has all arms: pass Arms(features) without those that are left out."
        )
    kernel, regularization, max_variance = in_dtype((kernel, regularization, max_variance), x.dtype)
    posterior = exact.prior(kernel, x, regularization, min(ROWS, len(x)))
    picks, n_picks = jnp.zeros(limit, jnp.int32), jnp.zeros((), jnp.int32)
    while True:
        picks, n_picks, posterior = _add_picks(
            kernel, x, regularization, max_variance, picks, n_picks, posterior
        )
        n_rows = len(posterior.basis)
        if n_rows == len(x) or int(posterior.used) < n_rows:
            break
        posterior = exact.grow(posterior, min(2 * n_rows, len(x)))
    largest = float(posterior.variance.max())
    if largest > max_variance:
        raise ValueError(
            f"after {limit} evaluations the largest variance is {largest:.3g}, above max_variance ="
            f" {max_variance:g}: raise limit or max_variance."
        )
    return np.asarray(picks)[: int(n_picks)]

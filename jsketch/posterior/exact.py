"""Exact GP posterior over a finite set of arms, which observations update.

The cost grows with the number u of distinct arms pulled, not with T. `Exact` represents the
explained covariance by a matrix `basis` with a row for each distinct arm (THEORY 2.1). An
observation takes one product with `basis`, O(A u). Every pivot is at least lam divided by the pulls
of the arm, so small pivots need no truncation. Variances are in leverage units (divided by lam).
The arguments `features` [A,d] are those of all arms.
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.numerics import matmul, pad_identity, put, put_if
from jsketch.types import Kernel


@struct.dataclass
class Exact:
    """Incremental exact posterior with N rows for distinct pulled arms; u of the rows are in use.

    Let D be the diagonal matrix of the noise variances of the arms' average rewards, and
    basis = L^-1 K_uA with (K_u + D)^-1 = L^-T inner L^-1. The posterior covariance is
    K - basis^T inner basis. The covariance between all arms and a pulled arm a is row a of
    D L^-T inner basis, which needs no subtraction and so loses no digits. While no arm is pulled
    twice, inner is the identity, and L is the Cholesky factor of K_u + D.

    basis         [N, A], zero beyond row u
    inverse_root  [N, N], L^-1, lower triangular; the identity beyond row u
    inner         [N, N], symmetric; inner - I is positive semi-definite
    weights       [N], mean(x) = k_u(x) . weights at any point; zero beyond row u
    mean          [A]
    variance      [A]
    logdet        [], logdet(K_T / lam + I) over the T observations
    used          [] int32, u
    pulled        [N] int32, the arm of each row
    repeats       [N], number of observations of the arm of each row
    """

    basis: Array
    inverse_root: Array
    inner: Array
    weights: Array
    mean: Array
    variance: Array
    logdet: Array
    used: Array
    pulled: Array
    repeats: Array


def floats(arms: int, capacity: int) -> int:
    """The number of floats of a posterior of `arms` arms with `capacity` rows."""
    return capacity * (arms + 2 * capacity)


def prior(kernel: Kernel, features: Array, regularization: ArrayLike, capacity: int) -> Exact:
    """The posterior without data."""
    dtype = features.dtype
    identity = jnp.eye(capacity, dtype=dtype)
    diag = kernel.diag(features)
    return Exact(
        basis=jnp.zeros((capacity, len(features)), dtype),
        inverse_root=identity,
        inner=identity,
        weights=jnp.zeros(capacity, dtype),
        mean=jnp.zeros_like(diag),
        variance=diag / regularization,
        logdet=jnp.zeros((), dtype),
        used=jnp.zeros((), jnp.int32),
        pulled=jnp.zeros(capacity, jnp.int32),
        repeats=jnp.zeros(capacity, dtype),
    )


def in_use(exact: Exact) -> Array:
    """Whether a row belongs to a pulled arm, [N] bool."""
    return jnp.arange(len(exact.basis), dtype=jnp.int32) < exact.used


def fits(exact: Exact, arms: Array, observed: Array) -> Array:
    """Whether the posterior has a row for each of the arms [B] with `observed` [B], [] bool: enough
    rows are free for those that are new."""
    nowhere = len(exact.mean)  # there a scatter drops its values
    none = jnp.zeros(nowhere, bool)
    has_row = none.at[jnp.where(in_use(exact), exact.pulled, nowhere)].set(True, mode="drop")
    asked = none.at[jnp.where(observed, arms, nowhere)].set(True, mode="drop")
    return exact.used + (asked & ~has_row).sum(dtype=jnp.int32) <= len(exact.basis)


def observe(
    exact: Exact,
    kernel: Kernel,
    features: Array,
    regularization: ArrayLike,
    arm: Array,
    y: Array,
    observed: Array,
    repeats: ArrayLike = 1,
) -> Exact:
    """The posterior after `repeats` rewards of mean y [] at arm [], for which there must be a row
    (`fits`); the same posterior if `observed` [] is False."""
    lam = regularization
    is_row_of_arm = (exact.pulled == arm) & in_use(exact)
    has_row = is_row_of_arm.any()
    is_new, is_repeat = observed & ~has_row, observed & has_row
    free = jnp.minimum(exact.used, len(exact.basis) - 1)  # in range, but free only if the arm fits
    slot = jnp.where(has_row, jnp.argmax(is_row_of_arm).astype(jnp.int32), free)

    # The covariance [A] of all arms with `arm`. A pulled arm needs no subtraction: its variance is
    # about lam / repeats, whereas k(x,x) - explained would have an error of eps k(x,x).
    noise = lam / jnp.maximum(exact.repeats[slot], 1)
    whitened = jnp.where(has_row, noise * exact.inverse_root[:, slot], -exact.basis[:, arm])
    direction = matmul(exact.inner, whitened)
    column = jnp.where(has_row, 0, kernel.gram(features, features[arm][None])[:, 0])
    covariance = column + matmul(direction, exact.basis)
    variance_arm = jnp.maximum(covariance[arm], 0)
    pivot = lam / repeats + variance_arm
    gain = jnp.where(observed, 1 / pivot, 0)

    # a new arm adds a row; a repeated arm changes `inner` along `direction`
    root = jnp.sqrt(pivot)
    # covariance = k_u . change, where k_u includes the row of a new arm
    change = matmul(direction, exact.inverse_root)
    change = put_if(is_new, change, slot, jnp.ones_like(pivot))
    step = gain * jnp.where(observed, y - exact.mean[arm], 0)
    repeat_direction = jnp.where(is_repeat, direction, 0)
    variance = jnp.maximum(exact.variance - jnp.square(covariance) * (gain / lam), 0)
    new_variance = jnp.where(observed, variance_arm * gain / repeats, exact.variance[arm])
    return Exact(
        basis=put_if(is_new, exact.basis, slot, covariance / root),
        inverse_root=put_if(is_new, exact.inverse_root, slot, change / root),
        inner=exact.inner + repeat_direction[:, None] * (repeat_direction / pivot)[None, :],
        weights=exact.weights + change * step,
        mean=exact.mean + covariance * step,
        variance=put(variance, arm, new_variance),
        logdet=exact.logdet + jnp.where(observed, jnp.log(pivot * repeats / lam), 0),
        used=exact.used + is_new.astype(jnp.int32),
        pulled=put_if(is_new, exact.pulled, slot, arm),
        repeats=put(exact.repeats, slot, exact.repeats[slot] + jnp.where(observed, repeats, 0)),
    )


def condition(exact: Exact, prior_draws: Array, normals: Array, regularization: ArrayLike) -> Array:
    """Draws [B,A] at all arms from N(0, posterior covariance in leverage units), by Matheron's rule
    from draws `prior_draws` [B,A] of the prior process and standard normals [B,N].

    The rule subtracts from every draw the posterior mean given the values of the draw at the pulled
    arms plus noise, which has the variance of the noise of an arm's average reward.
    """
    lam = regularization
    noise = jnp.sqrt(lam / jnp.maximum(exact.repeats, 1))[None, :] * normals
    values = jnp.where(in_use(exact)[None, :], prior_draws[:, exact.pulled] + noise, 0)
    solved = matmul(values, exact.inverse_root.T)
    return (prior_draws - matmul(matmul(solved, exact.inner), exact.basis)) / jnp.sqrt(lam)


def hallucinate(
    exact: Exact, kernel: Kernel, features: Array, regularization: ArrayLike, arm: Array
) -> Exact:
    """`observe` with the posterior mean as the reward of `arm`, which changes only variances."""
    true = jnp.ones((), bool)
    return observe(exact, kernel, features, regularization, arm, exact.mean[arm], true)


def grow(exact: Exact, capacity: int) -> Exact:
    """The same posterior with a larger capacity. Raises ValueError for a smaller one."""
    checks.not_smaller(len(exact.basis), capacity=capacity)
    extra = capacity - len(exact.basis)
    return replace(
        exact,
        basis=jnp.pad(exact.basis, ((0, extra), (0, 0))),
        inverse_root=pad_identity(exact.inverse_root, capacity),
        inner=pad_identity(exact.inner, capacity),
        weights=jnp.pad(exact.weights, (0, extra)),
        pulled=jnp.pad(exact.pulled, (0, extra)),
        repeats=jnp.pad(exact.repeats, (0, extra)),
    )

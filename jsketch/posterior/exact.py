"""Exact GP posterior over a finite set of arms, which observations update.

The cost grows with the number u of distinct arms pulled, not with T. `Exact` represents the
explained covariance by a matrix `basis` with a row for each distinct arm (THEORY 2.1). An
observation takes one product with `basis`, O(A u). Every pivot is at least lam divided by the pulls
of the arm, so small pivots need no truncation. Variances are in leverage units (divided by lam).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul, pad_identity, put, put_if


@struct.dataclass
class Exact:
    """Incremental exact posterior with N rows for distinct pulled arms; u of the rows are in use.

    Let D be the diagonal matrix of the noise variances of the arms' average rewards, and
    basis = L^-1 K_uA with (K_u + D)^-1 = L^-T inner L^-1. The posterior covariance is
    K - basis^T inner basis. The covariance between all arms and a pulled arm a is row a of
    D L^-T inner basis, which needs no subtraction and so loses no digits. While no arm is pulled
    twice, inner is the identity, and L is the Cholesky factor of K_u + D.
    """

    basis: Array  # [N, A], zero beyond row u
    inverse_root: Array  # [N, N], L^-1, lower triangular; the identity beyond row u
    inner: Array  # [N, N], symmetric; inner - I is positive semi-definite
    mean: Array  # [A]
    variance: Array  # [A]
    logdet: Array  # [], logdet(K_T / lam + I) over the T observations
    used: Array  # [] int32, u
    pulled: Array  # [N] int32, the arm of each row
    repeats: Array  # [N], number of observations of the arm of each row


def prior(kernel: Any, arms: Array, regularization: ArrayLike, capacity: int) -> Exact:
    """The posterior without data."""
    identity = jnp.eye(capacity, dtype=arms.dtype)
    diag = kernel.diag(arms)
    return Exact(
        basis=jnp.zeros((capacity, arms.shape[0]), arms.dtype),
        inverse_root=identity,
        inner=identity,
        mean=jnp.zeros_like(diag),
        variance=diag / regularization,
        logdet=jnp.zeros((), arms.dtype),
        used=jnp.zeros((), jnp.int32),
        pulled=jnp.zeros(capacity, jnp.int32),
        repeats=jnp.zeros(capacity, arms.dtype),
    )


def observe(
    exact: Exact,
    kernel: Any,
    arms: Array,
    arm: Array,
    y: Array,
    observed: Array,
    regularization: ArrayLike,
    repeats: ArrayLike = 1,
) -> tuple[Exact, Array]:
    """(the posterior after `repeats` rewards of mean y [] at arm [], overflow []). The posterior is
    unchanged if `observed` [] is False, or on overflow: the arm is new and no row is free."""
    size = exact.basis.shape[0]
    arm, repeats = jnp.asarray(arm, jnp.int32), jnp.asarray(repeats, arms.dtype)
    slots = jnp.arange(size, dtype=jnp.int32)
    is_row_of_arm = (exact.pulled == arm) & (slots < exact.used)
    has_row = is_row_of_arm.any()
    overflow = observed & ~has_row & (exact.used >= size)
    observed = observed & ~overflow
    is_new, is_repeat = observed & ~has_row, observed & has_row

    arm_slot = jnp.argmax(is_row_of_arm).astype(jnp.int32)
    slot = jnp.where(has_row, arm_slot, jnp.minimum(exact.used, size - 1))
    lam = jnp.asarray(regularization, arms.dtype)

    # The covariance [A] of all arms with `arm`. A pulled arm needs no subtraction: its variance is
    # about lam / repeats, whereas k(x,x) - explained would have an error of eps k(x,x).
    noise = lam / jnp.maximum(exact.repeats[slot], 1)
    whitened = jnp.where(has_row, noise * exact.inverse_root[:, slot], -exact.basis[:, arm])
    direction = matmul(exact.inner, whitened)
    column = jnp.where(has_row, 0, kernel.gram(arms, arms[arm][None])[:, 0])
    covariance = column + matmul(direction, exact.basis)
    variance_arm = jnp.maximum(covariance[arm], 0)
    pivot = lam / repeats + variance_arm
    gain = jnp.where(observed, 1 / pivot, 0)

    # a new arm adds a row; a repeated arm changes `inner` along `direction`
    root = jnp.sqrt(pivot)
    inverse_row = put(matmul(direction, exact.inverse_root), slot, jnp.ones((), arms.dtype)) / root
    repeat_direction = jnp.where(is_repeat, direction, 0)
    variance = jnp.maximum(exact.variance - jnp.square(covariance) * (gain / lam), 0)
    new_variance = jnp.where(observed, variance_arm * gain / repeats, exact.variance[arm])
    return Exact(
        basis=put_if(is_new, exact.basis, slot, covariance / root),
        inverse_root=put_if(is_new, exact.inverse_root, slot, inverse_row),
        inner=exact.inner + repeat_direction[:, None] * (repeat_direction / pivot)[None, :],
        mean=exact.mean + covariance * (gain * jnp.where(observed, y - exact.mean[arm], 0)),
        variance=put(variance, arm, new_variance),
        logdet=exact.logdet + jnp.where(observed, jnp.log(pivot * repeats / lam), 0),
        used=exact.used + is_new.astype(jnp.int32),
        pulled=put_if(is_new, exact.pulled, slot, arm),
        repeats=put(exact.repeats, slot, exact.repeats[slot] + jnp.where(observed, repeats, 0)),
    ), overflow


def condition(exact: Exact, prior_draws: Array, normals: Array, regularization: ArrayLike) -> Array:
    """Draws [B,A] at all arms from N(0, posterior covariance in leverage units), by Matheron's rule
    from draws `prior_draws` [B,A] of the prior process and standard normals [B,N].

    The rule subtracts from every draw the posterior mean given the values of the draw at the pulled
    arms plus noise, which has the variance of the noise of an arm's average reward.
    """
    lam = jnp.asarray(regularization, prior_draws.dtype)
    in_use = jnp.arange(exact.basis.shape[0], dtype=jnp.int32) < exact.used
    noise = jnp.sqrt(lam / jnp.maximum(exact.repeats, 1))[None, :] * normals
    values = jnp.where(in_use[None, :], prior_draws[:, exact.pulled] + noise, 0)
    solved = matmul(values, exact.inverse_root.T)
    return (prior_draws - matmul(matmul(solved, exact.inner), exact.basis)) / jnp.sqrt(lam)


def hallucinate(
    exact: Exact, kernel: Any, arms: Array, arm: Array, regularization: ArrayLike
) -> tuple[Exact, Array]:
    """`observe` with the posterior mean as the reward of `arm`, which changes only variances."""
    return observe(exact, kernel, arms, arm, exact.mean[arm], jnp.ones((), bool), regularization)


def grow(exact: Exact, capacity: int) -> Exact:
    """The same posterior with a larger capacity. Raises ValueError for a smaller one."""
    checks.not_smaller(exact.basis.shape[0], capacity=capacity)
    extra = capacity - exact.basis.shape[0]
    return replace(
        exact,
        basis=jnp.pad(exact.basis, ((0, extra), (0, 0))),
        inverse_root=pad_identity(exact.inverse_root, capacity),
        inner=pad_identity(exact.inner, capacity),
        pulled=jnp.pad(exact.pulled, (0, extra)),
        repeats=jnp.pad(exact.repeats, (0, extra)),
    )

"""Exact GP posterior over a finite set of arms, two routes: `dense` (the oracle) and an incremental one.

Repeated pulls of an arm cost nothing: everything grows with the number of distinct arms pulled, never with T. The
incremental route keeps the Newton basis of the pulled arms (the rows of a Cholesky factorization without pivoting, [N,A])
and a ridge posterior on it; one observation is two products with an [N,A] matrix (theory.md A1, O(A |u|) a step).
Variances are in leverage units (divided by the regularization).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.linalg import matmul, put


@struct.dataclass
class Dense:
    """Exact posterior at all arms."""

    mean: Array  # [A]
    covariance: Array  # [A, A], divided by the regularization
    logdet: Array  # [], logdet(K_T / lam + I) over the T observations

    @property
    def variance(self) -> Array:
        """[A], never negative."""
        return jnp.maximum(jnp.diagonal(self.covariance), 0)


def dense(
    kernel: Any, arms: Array, pull_counts: Array, reward_sums: Array, regularization: ArrayLike
) -> Dense:
    """Posterior from pull counts and reward sums [A] by one A x A factorization, O(A^3): for tests and small problems.

    With N = diag(counts): mean = K N^1/2 (lam I + N^1/2 K N^1/2)^-1 N^-1/2 s, where unpulled arms drop out exactly.
    """
    root = jnp.sqrt(pull_counts)
    gram = kernel.gram(arms, arms)
    factor = lax.linalg.cholesky(jnp.eye(gram.shape[0]) + root[:, None] * gram * root / regularization)
    half = lax.linalg.triangular_solve(factor, root[:, None] * gram, left_side=True, lower=True)
    averages = reward_sums / jnp.sqrt(jnp.maximum(pull_counts, 1))
    solved = lax.linalg.triangular_solve(factor, averages[:, None], left_side=True, lower=True)[:, 0]
    covariance = (gram - matmul(half.T, half) / regularization) / regularization
    mean = matmul(half.T, solved) / regularization
    return Dense(mean=mean, covariance=covariance, logdet=2 * jnp.log(jnp.diagonal(factor)).sum())


@struct.dataclass
class Exact:
    """Incremental exact posterior with room for N distinct arms."""

    basis: Array  # [N, A], z(x) of every arm, one row a distinct pulled arm
    inverse: Array  # [N, N], V^-1
    residual: Array  # [A], k(x,x) - |z(x)|^2
    mean: Array  # [A]
    variance: Array  # [A]
    logdet: Array  # []
    used: Array  # [] int32, rows of the basis in use
    pulled: Array  # [N] int32, the arm that each row was added for


def prior(kernel: Any, arms: Array, regularization: ArrayLike, capacity: int) -> Exact:
    """The posterior without data, with room for `capacity` distinct arms."""
    diag = kernel.diag(arms)
    return Exact(
        basis=jnp.zeros((capacity, arms.shape[0]), arms.dtype),
        inverse=jnp.eye(capacity, dtype=arms.dtype) / regularization,
        residual=diag,
        mean=jnp.zeros_like(diag),
        variance=diag / regularization,
        logdet=jnp.zeros((), arms.dtype),
        used=jnp.zeros((), jnp.int32),
        pulled=jnp.zeros(capacity, jnp.int32),
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
    """Posterior after `repeats` rewards of mean y [] at arm [] (ignored unless observed []): (posterior, overflow []).

    On overflow (a new direction and no row left) the posterior comes back unchanged.
    """
    # rank cut as in linalg.inverse_root: a point in the span of those before it needs no row
    cut = (exact.used + 1).astype(arms.dtype) * jnp.finfo(arms.dtype).eps * jnp.max(kernel.diag(arms))
    rest = exact.residual[arm]
    is_new = observed & (rest > cut)
    overflow = is_new & (exact.used >= exact.basis.shape[0])
    is_new, observed = is_new & ~overflow, observed & ~overflow

    covariance = kernel.gram(arms, arms[arm][None])[:, 0] - matmul(exact.basis[:, arm], exact.basis)
    row = jnp.where(is_new, covariance / jnp.sqrt(jnp.where(is_new, rest, 1)), 0)
    slot = jnp.minimum(exact.used, exact.basis.shape[0] - 1)
    basis = put(exact.basis, slot, jnp.where(is_new, row, exact.basis[slot]))
    residual = jnp.maximum(exact.residual - jnp.square(row), 0)
    residual = put(residual, arm, jnp.where(is_new, 0, residual[arm]))

    z = basis[:, arm]
    direction = matmul(exact.inverse, z)
    e = jnp.maximum(matmul(z, direction), 0)
    repeats = jnp.asarray(repeats, arms.dtype)
    gain = jnp.where(observed, repeats / (1 + repeats * e), 0)
    with_arm = matmul(direction, basis)  # posterior covariance of every arm with this one, [A]
    surprise = jnp.where(observed, y - exact.mean[arm], 0)
    posterior = Exact(
        basis=basis,
        inverse=exact.inverse - direction[:, None] * (direction * gain)[None, :],
        residual=residual,
        mean=exact.mean + with_arm * (gain * surprise),
        variance=jnp.maximum(exact.variance - jnp.square(with_arm) * gain, 0),
        logdet=exact.logdet + jnp.where(observed, jnp.log1p(repeats * e), 0),
        used=exact.used + is_new.astype(jnp.int32),
        pulled=put(exact.pulled, slot, jnp.where(is_new, arm, exact.pulled[slot]).astype(jnp.int32)),
    )
    return posterior, overflow


def condition(exact: Exact, prior: Array, normal: Array, regularization: ArrayLike) -> Array:
    """Draws from N(0, posterior covariance in leverage units) at all arms, [B,A], from draws `prior` [B,A] of the prior
    process and standard normals [B,N].

    A draw is z.a plus a rest that is independent of a. Its coordinates a along the pulled arms are exchanged for draws from
    their posterior N(0, V^-1); the rest is what the data say nothing about.
    """
    rows = jnp.arange(exact.basis.shape[0], dtype=jnp.int32)
    in_use = rows < exact.used
    triangle = jnp.where(
        in_use & in_use[:, None], exact.basis[:, exact.pulled], 0
    )  # column i is z of row i's arm
    triangle = jnp.where(~in_use & (rows[:, None] == rows), 1, triangle)
    values = jnp.where(in_use, prior[:, exact.pulled], 0)
    coordinates = lax.linalg.triangular_solve(triangle, values, left_side=False, lower=False)
    drawn = matmul(normal, lax.linalg.cholesky(exact.inverse).T)
    scale = jnp.sqrt(jnp.asarray(regularization, prior.dtype))
    return (prior - matmul(coordinates, exact.basis)) / scale + matmul(drawn, exact.basis)


def hallucinate(
    exact: Exact, kernel: Any, arms: Array, arm: Array, regularization: ArrayLike
) -> tuple[Exact, Array]:
    """Posterior after a pull of `arm` whose reward is its mean: variances shrink, means stay. Else as `observe`."""
    return observe(exact, kernel, arms, arm, exact.mean[arm], jnp.ones((), bool), regularization)


def grow(exact: Exact, capacity: int, regularization: ArrayLike) -> Exact:
    """The same posterior with room for `capacity` >= N distinct arms; its numbers do not change."""
    extra = capacity - exact.basis.shape[0]
    inverse = jnp.pad(exact.inverse, (0, extra))
    slots = jnp.arange(capacity)
    free = slots >= exact.basis.shape[0]
    inverse = jnp.where(free[:, None] & (slots[:, None] == slots), 1 / regularization, inverse)
    return exact.replace(
        basis=jnp.pad(exact.basis, ((0, extra), (0, 0))),
        inverse=inverse,
        pulled=jnp.pad(exact.pulled, (0, extra)),
    )

"""The sketched posterior: a function of the history and of the dictionary.

With the n_i pulls and the sum of rewards s_i of arm x_i, the dictionary S of m inducing points and
the Nystrom features z(x) = (K_S^+)^1/2 k_S(x), the posterior of BKB and BBKB is

    V = sum_i n_i z(x_i) z(x_i)^T + lam I
    mean(x) = z(x)^T V^-1 sum_i s_i z(x_i)                                        (BBKB eq. 1)
    variance(x) = (k(x,x) - |z(x)|^2) / lam + z(x)^T V^-1 z(x)               (BBKB eqs. 2, 3)

Variances are divided by the regularization lam. Two roots represent the posterior: R with
K_S^+ = R R^T, so that z(x) = R^T k_S(x), and C = R W with V^-1 = W W^T, so that u(x) = C^T k_S(x)
has u(x).u(x') = z(x)^T V^-1 z(x'). These z differ from (K_S^+)^1/2 k_S by a rotation, on which the
posterior does not depend (THEORY 9.2).

If all pulled arms are in the dictionary, this is the exact posterior of the Gaussian process, and
an inducing point that was not pulled changes neither its means nor its variances (THEORY 3.6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.numerics import (
    all_finite,
    cholesky_inverse,
    count,
    diagonal,
    entry,
    inverse_root,
    matmul,
    positions,
    put,
    squared_norms,
    sum_over,
    sweep,
    take,
    trip_count,
    upper_factor,
)

OUTSIDE = 128  # pulled arms outside the dictionary that are added together


@struct.dataclass
class Posterior:
    """The posterior of A arms on a dictionary in M slots, of which the first `rank` are in use.
    Rows and columns of the other slots are zero.

    points    [M, d], S, in the order of the pivots of K_S
    root      [M, M], R
    dual      [M, M], C = R W, V^-1 = W W^T
    weights   [M], mean(x) = k_S(x) . weights
    mean      [A]
    variance  [A], divided by lam
    logdet    [], logdet(V / lam)
    gram      [A, M], k_S(x) of all arms, whose columns of other slots are finite; None: kernel
              values are computed when they are needed (`with_gram`)
    """

    points: Array
    root: Array
    dual: Array
    weights: Array
    mean: Array
    variance: Array
    logdet: Array
    gram: Array | None = None

    @property
    def capacity(self) -> int:
        """The number M of slots."""
        return self.points.shape[-2]

    @property
    def rank(self) -> Array:
        """The number [] of slots in use: inducing points whose kernel values are not, up to
        rounding, a combination of those of the others."""
        return count(diagonal(self.root) > 0)

    @property
    def is_finite(self) -> Array:
        """Whether all means and variances are finite, []."""
        return all_finite(self.mean) & all_finite(self.variance)


def features(posterior: Posterior, kernel: Any, x: Array) -> Array:
    """The Nystrom features z(x) [n,M] of points x [n,d]."""
    return matmul(kernel.gram(x, posterior.points), posterior.root)


def embed(posterior: Posterior, kernel: Any, x: Array) -> Array:
    """The whitened features u(x) = W^T z(x), [n,M], of points x [n,d]. Their inner products are
    the embedded covariances z(x)^T V^-1 z(x') (BBKB eq. 2)."""
    return matmul(kernel.gram(x, posterior.points), posterior.dual)


def with_gram(posterior: Posterior, kernel: Any, x: Array) -> Posterior:
    """The posterior of arms x [A,d] with their kernel values in memory, which `update` and
    `update_low_rank` then keep. To read a kernel value takes a tenth of the time of computing it.
    """
    return replace(posterior, gram=_kernel_values(kernel, x, posterior.points, posterior.rank))


def _kernel_values(kernel: Any, x: Array, points: Array, used: Array) -> Array:
    """k(x, points) [A,M] for points [M,d], and 0 in the columns from number `used` [] on.

    Each column is computed as that of a point that joins (`core.low_rank`): a run that is resumed,
    and computes all of them again, has the same values.
    """

    def column(i: Array, gram: Array) -> Array:
        return put(gram, i, kernel.gram(x, entry(points, i)[None])[:, 0], axis=1)

    zeros = jnp.zeros((len(x), len(points)), x.dtype)
    return lax.fori_loop(0, trip_count(used), column, zeros)


def without_gram(posterior: Posterior) -> Posterior:
    """The posterior without kernel values in memory."""
    return replace(posterior, gram=None)


def residual(variance: Array, embedded: Array) -> Array:
    """The part variance - |embedded|^2 >= 0 of variances [n] that features [n,M] do not represent.
    For k(x,x) and z(x) this part is r(x); for variance(x) and u(x) it is r(x)/lam, which the pulls
    within a batch do not reduce."""
    return jnp.maximum(variance - jnp.square(embedded).sum(-1), 0)


def predict(
    posterior: Posterior, kernel: Any, regularization: ArrayLike, x: Array
) -> tuple[Array, Array]:
    """(mean [n], variance [n]) at points x [n,d], which need not be arms; variances are divided by
    the regularization.

    Example:

        mean, variance = predict(state.posterior, kernel, 0.01, x)
        deviation = jnp.sqrt(0.01 * variance)  # in units of the rewards
    """
    gram = kernel.gram(x, posterior.points)
    z, u = matmul(gram, posterior.root), matmul(gram, posterior.dual)
    unexplained = residual(kernel.diag(x), z) / regularization
    return matmul(gram, posterior.weights), unexplained + jnp.square(u).sum(1)


def prior(kernel: Any, regularization: ArrayLike, x: Array, capacity: int) -> Posterior:
    """The posterior of arms x [A,d] without evaluations and with an empty dictionary."""
    zeros, square = jnp.zeros(capacity, x.dtype), jnp.zeros((capacity, capacity), x.dtype)
    diag = kernel.diag(x)
    return Posterior(
        points=jnp.broadcast_to(x[0], (capacity, x.shape[1])),
        root=square,
        dual=square,
        weights=zeros,
        mean=jnp.zeros_like(diag),
        variance=diag / regularization,
        logdet=jnp.zeros((), x.dtype),
    )


def update(
    kernel: Any,
    regularization: ArrayLike,
    x: Array,
    counts: Array,
    sums: Array,
    inducing: Array,
    capacity: int,
    *,
    keep_gram: bool = False,
) -> Posterior:
    """The posterior of a history and a dictionary (BBKB Algorithm 1, line 18; equations 1 to 3;
    BKB equation 4).

    kernel          k, a kernel of `jsketch.kernels`
    regularization  lam > 0
    x               arms [A, d]
    counts          [A], pulls of each arm
    sums            [A], sum of the rewards of each arm
    inducing        [A] bool, the arms of the dictionary
    capacity        M, static. If the dictionary has more arms, the result has no meaning
    keep_gram       whether the posterior keeps the kernel values of all arms (`with_gram`)

    Time O(A m M + M^3) and memory O(A + M^2), beside the arms and the kernel values.

    Example:

        posterior = update(kernel, 0.01, x, counts, sums, counts > 0, 64)
    """
    lam = regularization
    place = positions(inducing, capacity)  # A where a slot is free
    valid = place < len(x)
    index = jnp.where(valid, place, 0)
    inducing_points = take(x, index)
    gram_root = inverse_root(kernel.gram(inducing_points, inducing_points), valid)
    order, rank, z = gram_root.order, gram_root.rank, gram_root.factor  # z(x_i), i in S
    used = jnp.arange(capacity, dtype=jnp.int32) < rank
    points, root = (
        take(inducing_points, order),
        jnp.where(used[:, None], take(gram_root.root, order), 0),
    )

    # V and the moment of the arms of the dictionary, then those of the other pulled arms
    n, s = jnp.where(valid, take(counts, index), 0), jnp.where(valid, take(sums, index), 0)

    def add_outside(index: Array, valid: Array) -> tuple[Array, Array]:
        z = matmul(kernel.gram(take(x, index), points), root)
        weighted = jnp.where(valid, take(counts, index), 0)[:, None] * z
        return matmul(z.T, weighted), matmul(jnp.where(valid, take(sums, index), 0), z)

    inside = matmul(z.T, n[:, None] * z), matmul(s, z)
    outside = (counts > 0) & ~inducing
    gram, moment = sum_over(outside, min(OUTSIDE, len(x)), add_outside, inside)
    v = gram + lam * jnp.eye(capacity, dtype=x.dtype)
    v_lower, v_inverse = cholesky_inverse(v, rank)
    dual = matmul(root, v_inverse.T)
    weights = matmul(dual, matmul(v_inverse, moment))
    explained_root = matmul(root, _explained_factor(v_inverse, lam, rank))

    def posterior_of(x: Array, gram: Array) -> tuple[Array, Array]:
        unexplained = kernel.diag(x) - squared_norms(gram, explained_root, rank)
        return matmul(gram, weights), jnp.maximum(unexplained, 0) / lam

    if keep_gram:
        kept = _kernel_values(kernel, x, points, rank)
        mean, variance = posterior_of(x, kept)
    else:
        kept = None
        mean, variance = sweep(lambda x: posterior_of(x, kernel.gram(x, points)), x, capacity)
    # The residual of an arm of the dictionary is zero, whereas k(x,x) - |z|^2 has a rounding error,
    # which would be divided by lam (THEORY 9.1)
    exact = jnp.square(matmul(z, v_inverse.T)).sum(1)
    variance = variance.at[place].set(exact, mode="drop")
    pivots = jnp.where(used, diagonal(v_lower), 1)
    logdet = jnp.where(used, 2 * jnp.log(pivots) - jnp.log(lam), 0).sum()
    return Posterior(points, root, dual, weights, mean, variance, logdet, kept)


def _explained_factor(v_inverse: Array, lam: ArrayLike, rank: Array) -> Array:
    """An upper triangular matrix F [M,M] with lam variance(x) = k(x,x) - |z(x) F|^2. One product
    with R F then gives the variance, where R and C would take two.

    F F^T = I - lam V^-1 / (1 + eta), where V^-1 = v_inverse^T v_inverse. The factor 1 / (1 + eta)
    only scales u(x).u(x), and keeps F F^T positive definite in spite of rounding.
    """
    eta = 256 * jnp.finfo(v_inverse.dtype).eps
    scaled = lam / (1 + eta) * matmul(v_inverse.T, v_inverse)
    return upper_factor(jnp.eye(len(v_inverse), dtype=v_inverse.dtype) - scaled, eta, rank)


def residual_sum(
    posterior: Posterior, kernel: Any, x: Array, counts: Array, inducing: Array
) -> Array:
    """rho = sum_i n_i r(x_i) [] over the pulls, where r(x) = k(x,x) - |z(x)|^2 is what the
    dictionary does not represent (THEORY 2.4). The residual of an arm of the dictionary is 0.

    The arguments are those of `update`. Time O(n M^2) for n pulled arms outside the dictionary.
    """

    def add(index: Array, valid: Array) -> Array:
        r = residual(kernel.diag(take(x, index)), features(posterior, kernel, take(x, index)))
        return matmul(jnp.where(valid, take(counts, index), 0), r)

    outside = (counts > 0) & ~inducing
    return sum_over(outside, min(OUTSIDE, len(x)), add, jnp.zeros((), x.dtype))

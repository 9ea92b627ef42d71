"""Ridge posterior on fixed features of a finite set of arms, updated by rank-one steps of O(A M +
M^2).

With u(x) = z(x)/sqrt(lam) and P = (I + sum_i u_i u_i^T)^-1, mean(x) = u(x).P sum_i y_i u_i and
variance(x) = u(x).P u(x), in leverage units. The state contains a root of P (Potter's update;
Kaminski, Bryson, Schmidt. Discrete square root filtering. IEEE Transactions on Automatic Control,
1971), so that P stays positive and Thompson samples need no factorization.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from jsketch import struct
from jsketch.linalg import matmul


@struct.dataclass
class FeaturePosterior:
    """The posterior of the A arms."""

    root: Array  # [M, M], R with R R^T = P
    mean: Array  # [A]
    variance: Array  # [A], leverage units
    logdet: Array  # [], logdet(V / lam)


def prior(whitened: Array) -> FeaturePosterior:
    """The posterior without data, at arms with features u [A,M]."""
    dtype = whitened.dtype
    return FeaturePosterior(
        root=jnp.eye(whitened.shape[1], dtype=dtype),
        mean=jnp.zeros(whitened.shape[0], dtype),
        variance=jnp.square(whitened).sum(1),
        logdet=jnp.zeros((), dtype),
    )


def observe(
    posterior: FeaturePosterior, whitened: Array, arm: Array, y: Array, observed: Array
) -> FeaturePosterior:
    """The posterior after reward y [] at arm [], unchanged unless observed []; whitened [A,M] are
    the features u of all arms."""
    v = matmul(whitened[arm], posterior.root)
    direction = matmul(posterior.root, v)  # P u
    e = jnp.square(v).sum()
    gain = jnp.where(observed, 1 / (1 + e), 0)
    sd = jnp.sqrt(1 + e)
    # (I - c v v^T)^2 = I - v v^T / (1 + e)
    c = jnp.where(observed, 1 / (sd * (sd + 1)), 0)
    covariance = matmul(whitened, direction)  # [A], of every arm with this one
    innovation = jnp.where(observed, y - posterior.mean[arm], 0)
    return FeaturePosterior(
        root=posterior.root - direction[:, None] * (c * v)[None, :],
        mean=posterior.mean + covariance * (gain * innovation),
        variance=jnp.maximum(posterior.variance - jnp.square(covariance) * gain, 0),
        logdet=posterior.logdet + jnp.where(observed, jnp.log1p(e), 0),
    )

"""The ridge posterior of CBRAP, FourierUCB and FourierTS on fixed features of the arms. An
observation costs O(A M + M^2).

With u(x) = z(x)/sqrt(lam) and P = (I + sum_i u_i u_i^T)^-1, mean(x) = u(x).P sum_i y_i u_i and
variance(x) = u(x).P u(x), in leverage units. The state contains a root of P (Potter's update;
Kaminski, Bryson, Schmidt. Discrete square root filtering. IEEE Transactions on Automatic Control,
1971), so that P stays positive and Thompson samples need no factorization.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.bandits.exact import ResidualFreeBandit
from jsketch.core import history, widths
from jsketch.numerics import matmul
from jsketch.types import Arms, Info, PRNGKey, Query


@struct.dataclass
class FeaturePosterior:
    """The posterior of the A arms."""

    root: Array  # [M, M], R with R R^T = P
    mean: Array  # [A]
    variance: Array  # [A], in leverage units
    logdet: Array  # [], logdet(V / lam) = -logdet(P)


def observe(
    posterior: FeaturePosterior, whitened: Array, arm: Array, y: Array, observed: Array
) -> FeaturePosterior:
    """The posterior after reward y [] at arm [], or the same posterior if `observed` [] is False;
    `whitened` [A,M] are the features u of all arms."""
    v = matmul(whitened[arm], posterior.root)  # R^T u
    direction = matmul(posterior.root, v)  # P u
    e = jnp.square(v).sum()  # u.P u
    gain = jnp.where(observed, 1 / (1 + e), 0)
    sd = jnp.sqrt(1 + e)
    # c solves (I - c v v^T)^2 = I - v v^T / (1 + e)
    c = jnp.where(observed, 1 / (sd * (sd + 1)), 0)
    covariance = matmul(whitened, direction)  # [A], covariances of all arms with `arm`
    innovation = jnp.where(observed, y - posterior.mean[arm], 0)
    return FeaturePosterior(
        root=posterior.root - direction[:, None] * (c * v)[None, :],
        mean=posterior.mean + covariance * (gain * innovation),
        variance=jnp.maximum(posterior.variance - jnp.square(covariance) * gain, 0),
        logdet=posterior.logdet + jnp.where(observed, jnp.log1p(e), 0),
    )


@struct.dataclass
class FeatureState:
    """The ridge posterior in a feature space R^M, updated after every evaluation."""

    whitened: Array  # [A, M], u(x) = z(x)/sqrt(lam); constant
    posterior: FeaturePosterior
    count: Array  # [], number of observations


def start(regularization: ArrayLike, z: Array) -> FeatureState:
    """The state before the first round, for arms with features z [A,M]."""
    whitened = z / jnp.sqrt(regularization)
    return FeatureState(
        whitened=whitened,
        posterior=FeaturePosterior(
            root=jnp.eye(z.shape[1], dtype=z.dtype),
            mean=jnp.zeros(len(z), z.dtype),
            variance=jnp.square(whitened).sum(1),
            logdet=jnp.zeros((), z.dtype),
        ),
        count=jnp.zeros((), z.dtype),
    )


class FeatureBandit(widths.ScaledWidth, ResidualFreeBandit):
    """The methods of all algorithms on fixed features. Subclasses add the fields and `init`."""

    def prior_variance(self: Any, state: FeatureState, arms: Arms) -> Array:
        return self.regularization * jnp.max(jnp.square(state.whitened).sum(1))

    def tell(
        self, state: FeatureState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[FeatureState, Info]:
        observed = query.mask & jnp.isfinite(y)

        def step(slot: Array, posterior: FeaturePosterior) -> FeaturePosterior:
            arm, is_observed = query.index[slot], observed[slot]
            return observe(posterior, state.whitened, arm, y[slot], is_observed)

        posterior = lax.fori_loop(0, history.last_slot(query), step, state.posterior)
        info = history.round_info(
            query,
            y,
            size=state.whitened.shape[1],
            width=self.confidence_width(state, arms),
            finite=jnp.isfinite(posterior.mean).all(),
        )
        count = state.count + info.observed.astype(state.count.dtype)
        return replace(state, posterior=posterior, count=count), info

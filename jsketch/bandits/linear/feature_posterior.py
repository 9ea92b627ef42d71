"""The ridge posterior of CBRAP, FourierUCB and FourierTS on fixed features of the arms. An
observation costs O(A M + M^2).

With u(x) = z(x)/sqrt(lam) and P = (I + sum_i u_i u_i^T)^-1, mean(x) = u(x).P sum_i y_i u_i and
variance(x) = u(x).P u(x), in leverage units. The state contains a root of P (Potter's update;
Kaminski, Bryson, Schmidt. Discrete square root filtering. IEEE Transactions on Automatic Control,
1971), so that P stays positive and Thompson samples need no factorization.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, widths
from jsketch.bandits.core.exact_state import ResidualFreeBandit
from jsketch.linalg import matmul
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

    domain: Arms  # A arms; constant
    first_arm: Array  # [] int32, a random arm for the first pull, redrawn if its evaluation fails
    whitened: Array  # [A, M], u(x) = z(x)/sqrt(lam); constant
    posterior: FeaturePosterior
    count: Array  # [], number of observations
    prior_variance: Array  # [], max_x |z(x)|^2


def start(regularization: ArrayLike, domain: Arms, key: PRNGKey, z: Array) -> FeatureState:
    """The state before the first round, for arms with features z [A,M]."""
    dtype = domain.features.dtype
    whitened = z / jnp.sqrt(jnp.asarray(regularization, dtype))
    return FeatureState(
        domain=domain,
        first_arm=jax.random.randint(key, (), 0, domain.count, jnp.int32),
        whitened=whitened,
        posterior=FeaturePosterior(
            root=jnp.eye(z.shape[1], dtype=dtype),
            mean=jnp.zeros(len(z), dtype),
            variance=jnp.square(whitened).sum(1),
            logdet=jnp.zeros((), dtype),
        ),
        count=jnp.zeros((), dtype),
        prior_variance=jnp.max(jnp.square(z).sum(1)),
    )


class FeatureBandit(widths.ScaledWidth, ResidualFreeBandit):
    """The methods of all algorithms on fixed features. Subclasses add the fields and `init`."""

    def tell(
        self, state: FeatureState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[FeatureState, Info]:
        query, y = checks.feedback(state.domain, query, y)
        observed = query.mask & jnp.isfinite(y)

        def step(i: Array, posterior: FeaturePosterior) -> FeaturePosterior:
            return observe(posterior, state.whitened, query.index[i], y[i], observed[i])

        posterior = counts.scan_slots(step, state.posterior, query)
        width = self.confidence_width(state)
        size, finite = state.whitened.shape[1], jnp.isfinite(posterior.mean).all()
        info = counts.round_info(query, y, size=size, width=width, finite=finite)
        new = counts.count_observations(state, info, key)
        return replace(new, posterior=posterior), info

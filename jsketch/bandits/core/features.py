"""What the algorithms on fixed features of the arms share: CBRAP, and UCB and TS on Fourier
features."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, widths
from jsketch.checks import queries
from jsketch.posterior import features as posteriors
from jsketch.posterior.features import FeaturePosterior
from jsketch.types import Arms, Info, PRNGKey, Query


@struct.dataclass
class FeatureState:
    """Ridge posterior in a feature space R^M, updated after every evaluation."""

    domain: Arms  # A arms; never changes
    # [] int32, uniform; pulled while nothing is known, another one after it failed
    first_arm: Array
    whitened: Array  # [A, M], z(x)/sqrt(lam); never changes
    posterior: FeaturePosterior
    count: Array  # [], observations so far
    prior_variance: Array  # [], max_x |z(x)|^2


class OnFeatures(widths.Assuming, Protocol):
    """What is read of an algorithm on fixed features."""

    scale: ArrayLike
    width: widths.Width


def start(bandit: OnFeatures, domain: Arms, key: PRNGKey, z: Array) -> FeatureState:
    """The state before the first round, for arms with features z [A,M]."""
    checks.one_key(key=key)
    dtype = domain.features.dtype
    whitened = z / jnp.sqrt(jnp.asarray(bandit.regularization, dtype))
    return FeatureState(
        domain=domain,
        first_arm=jax.random.randint(key, (), 0, domain.count, jnp.int32),
        whitened=whitened,
        posterior=posteriors.prior(whitened),
        count=jnp.zeros((), dtype),
        prior_variance=jnp.max(jnp.square(z).sum(1)),
    )


def confidence_width(bandit: OnFeatures, state: FeatureState) -> Array:
    """The bandit's width, [], with the features taken for the truth: residual 0."""
    evidence = widths.of_exact(state.count, state.posterior.logdet, state.prior_variance)
    return jnp.asarray(
        bandit.scale * bandit.width(evidence, widths.assumptions(bandit)), state.count.dtype
    )


def upper_bounds(bandit: OnFeatures, state: FeatureState) -> Array:
    """Upper confidence bounds of all arms, [A]."""
    return state.posterior.mean + confidence_width(bandit, state) * jnp.sqrt(
        state.posterior.variance
    )


def best(state: FeatureState, scores: Array) -> Query:
    """The arm with the largest of the scores [A]; a uniform one while nothing is known."""
    return queries.single(
        jnp.where(state.count == 0, state.first_arm, jnp.argmax(scores).astype(jnp.int32))
    )


def learn(
    bandit: OnFeatures, state: FeatureState, query: Query, y: Array, key: PRNGKey
) -> tuple[FeatureState, Info]:
    """The state after the rewards y [B] of a query, and its info."""
    query, y = queries.feedback(state.domain, query, y)
    observed = counts.usable(query, y)

    def one(i: Array, posterior: FeaturePosterior) -> FeaturePosterior:
        return posteriors.observe(posterior, state.whitened, query.index[i], y[i], observed[i])

    posterior = counts.over_slots(one, state.posterior, query)
    width = confidence_width(bandit, state)
    info = describe(
        query, y, width, jnp.asarray(state.whitened.shape[1], jnp.int32), posterior.mean
    )
    new = counts.counted(state, info.observed, query.mask.any(), key)
    return replace(new, posterior=posterior), info


def describe(query: Query, y: Array, width: Array, size: Array, mean: Array) -> Info:
    """The info of a round of an algorithm whose sketch [size] cannot overflow; mean is checked for
    finiteness."""
    return Info(
        batch_size=query.size.astype(jnp.int32),
        observed=counts.usable(query, y).sum(dtype=jnp.int32),
        dictionary_size=size,
        width=width,
        overflow=jnp.zeros((), bool),
        truncated=jnp.zeros((), bool),
        nonfinite=(query.mask & jnp.isinf(y)).any()
        | ~jnp.isfinite(mean).all()
        | ~jnp.isfinite(width),
        imprecise=jnp.zeros((), bool),
    )

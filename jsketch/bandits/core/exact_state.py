"""The exact posterior over the arms, for GP-UCB and all that share it: O(A u) an observation for u
distinct pulled arms."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, widths
from jsketch.bandits.core.widths import Evidence
from jsketch.checks import queries
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query, State


@struct.dataclass
class ExactState:
    """Exact posterior over the arms, updated after every evaluation."""

    domain: Arms  # A arms; never changes
    # [] int32, uniform; pulled while nothing is known, another one after it failed
    first_arm: Array
    posterior: Exact
    count: Array  # [], observations so far
    prior_variance: Array  # [], max_x k(x,x)

    @property
    def capacity(self) -> int:
        return self.posterior.basis.shape[0]


class OnExact(Protocol):
    """What is read of an algorithm on the exact posterior."""

    kernel: Kernel
    regularization: ArrayLike
    capacity: int


class HasExact(State, Protocol):
    """A state with the fields of `ExactState`."""

    first_arm: Array
    posterior: Exact
    count: Array
    prior_variance: Array


SomeExact = TypeVar("SomeExact", bound=HasExact)


def start(bandit: OnExact, domain: Arms, key: PRNGKey) -> ExactState:
    """The prior over the arms, for any algorithm on the exact posterior. Raises ValueError on
    static mistakes."""
    checks.one_key(key=key)
    checks.positive(regularization=bandit.regularization)
    checks.capacity(capacity=bandit.capacity)
    domain = checks.arms(domain)
    checks.model(domain, bandit.kernel, bandit.regularization)
    table = bandit.capacity * (domain.count + 2 * bandit.capacity)
    checks.room(table, domain.features.dtype, capacity=bandit.capacity, arms=domain.count)
    return ExactState(
        domain=domain,
        first_arm=jax.random.randint(key, (), 0, domain.count, jnp.int32),
        posterior=exact.prior(
            bandit.kernel, domain.features, bandit.regularization, bandit.capacity
        ),
        count=jnp.zeros((), domain.features.dtype),
        prior_variance=jnp.max(bandit.kernel.diag(domain.features)),
    )


def learn(
    bandit: OnExact, state: SomeExact, query: Query, y: Array, width: Array, key: PRNGKey
) -> tuple[SomeExact, Info]:
    """The exact posterior after the rewards y [B] of a query, of any size; on overflow nothing is
    applied."""
    query, y = queries.feedback(state.domain, query, y)
    observed = counts.usable(query, y)
    arms = state.domain.features

    def one(i: Array, carry: tuple[Exact, Array]) -> tuple[Exact, Array]:
        posterior, overflow = carry
        posterior, full = exact.observe(
            posterior,
            bandit.kernel,
            arms,
            query.index[i],
            y[i],
            observed[i] & ~overflow,
            bandit.regularization,
        )
        return posterior, overflow | full

    carry = (state.posterior, jnp.zeros((), bool))
    if y.shape[0] == 1:
        posterior, overflow = one(jnp.zeros((), jnp.int32), carry)
    else:
        posterior, overflow = lax.fori_loop(0, counts.last_slot(query), one, carry)
        posterior = jax.tree.map(
            lambda old, new: jnp.where(overflow, old, new), state.posterior, posterior
        )
    count = jnp.where(overflow, 0, observed.sum(dtype=jnp.int32))
    info = describe(query, y, posterior, count, overflow, width)
    applied = query.mask.any() & ~overflow
    return replace(counts.counted(state, count, applied, key), posterior=posterior), info


def describe(
    query: Query, y: Array, posterior: Exact, observed: Array, overflow: Array, width: Array
) -> Info:
    """The info of a round that an exact posterior observed."""
    return Info(
        batch_size=query.size.astype(jnp.int32),
        observed=observed,
        dictionary_size=posterior.used,
        width=width,
        overflow=overflow,
        truncated=jnp.zeros((), bool),
        nonfinite=(query.mask & jnp.isinf(y)).any()
        | ~jnp.isfinite(posterior.mean).all()
        | ~jnp.isfinite(width),
        imprecise=jnp.zeros((), bool),
    )


def evidence(state: HasExact) -> Evidence:
    """What widths read."""
    return widths.of_exact(state.count, state.posterior.logdet, state.prior_variance)

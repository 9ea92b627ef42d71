"""The exact posterior over the arms, for GP-UCB and other algorithms. An observation costs O(A u)
for u distinct pulled arms. Every argument `bandit` is an algorithm with a kernel, a regularization
and a capacity."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, widths
from jsketch.bandits.core.widths import ucb
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.struct import in_dtype
from jsketch.types import Algorithm, Arms, Evaluations, Info, PRNGKey, Query


@struct.dataclass
class ExactState:
    """The exact posterior over the arms, updated after every evaluation."""

    domain: Arms  # A arms; constant
    first_arm: Array  # [] int32, a random arm for the first pull, redrawn if its evaluation fails
    posterior: Exact
    count: Array  # [], number of observations
    prior_variance: Array  # [], max_x k(x,x)

    @property
    def capacity(self) -> int:
        """The largest number N of distinct arms."""
        return self.posterior.basis.shape[0]


State = TypeVar("State", bound=ExactState)


class ResidualFreeBandit(Algorithm):
    """The confidence bounds, and `ask` of GP-UCB, for algorithms whose posterior has no residuals
    (the exact posterior, or one on fixed features). Their states have the fields `posterior`
    (mean [A], variance [A], logdet []), `count`, `prior_variance` and `first_arm`."""

    def confidence_width(self: Any, state: Any) -> Array:
        """The confidence width [] (beta_t of the papers)."""
        logdet = state.posterior.logdet
        evidence = widths.exact_evidence(state.count, logdet, state.prior_variance)
        return widths.confidence_width(self, evidence)

    def confidence_bounds(self, state: Any) -> tuple[Array, Array, Array]:
        return state.posterior.mean, state.posterior.variance, self.confidence_width(state)

    def scores(self, state: Any) -> Array:
        """Upper confidence bounds of all arms at the start of a batch, [A]."""
        return ucb(*self.confidence_bounds(state))

    def ask(self, state: Any, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return counts.query_of_best(state, self.scores(state))


@struct.dataclass
class ExactBandit(widths.KernelBandit, ResidualFreeBandit):
    """Base class of the algorithms on the exact posterior. They `ask` like GP-UCB by default."""

    width: widths.Width = widths.gp_ucb_code  # the confidence width, one of `bandits.widths`
    # N, the largest number of distinct pulled arms. None: `init` makes 128 slots, and `run`,
    # `drive` and `rollout` more where a run needs them. `run` and `drive` also enlarge a capacity
    # that is given
    capacity: int | None = struct.field(pytree_node=False, default=None)
    first_capacity: ClassVar[int] = 128

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExactState:
        return start(self, domain, key, data)

    def tell(self, state: State, query: Query, y: Array, key: PRNGKey) -> tuple[State, Info]:
        return observe(self, state, query, y, self.confidence_width(state), key)

    def grow(self, state: State, capacity: int) -> State:
        return replace(state, posterior=exact.grow(state.posterior, capacity))


def start(bandit: Any, domain: Arms, key: PRNGKey, data: Evaluations | None = None) -> ExactState:
    """The state of any algorithm on the exact posterior before the first round. Raises ValueError
    for invalid arguments, and unless the data are None."""
    domain = checks.bandit_arms(bandit, bandit.kernel, domain, key, data)
    features, slots = domain.features, bandit.initial_slots
    n_floats = slots * (domain.count + 2 * slots)
    checks.memory(n_floats, features.dtype, capacity=slots, arms=domain.count)
    kernel, regularization = in_dtype((bandit.kernel, bandit.regularization), features.dtype)
    return ExactState(
        domain=domain,
        first_arm=jax.random.randint(key, (), 0, domain.count, jnp.int32),
        posterior=exact.prior(kernel, features, regularization, slots),
        count=jnp.zeros((), features.dtype),
        prior_variance=jnp.max(kernel.diag(features)),
    )


def observe(
    bandit: Any, state: State, query: Query, y: Array, width: Array, key: PRNGKey
) -> tuple[State, Info]:
    """(state, info) after the rewards y [B] of a query. On overflow the state does not change."""
    query, y = checks.feedback(state.domain, query, y)
    observed, features = query.mask & jnp.isfinite(y), state.domain.features
    kernel, regularization = in_dtype((bandit.kernel, bandit.regularization), features.dtype)

    def step(i: Array, carry: tuple[Exact, Array]) -> tuple[Exact, Array]:
        posterior, overflow = carry
        is_observed = observed[i] & ~overflow
        posterior, slot_overflow = exact.observe(
            posterior, kernel, features, query.index[i], y[i], is_observed, regularization
        )
        return posterior, overflow | slot_overflow

    posterior, overflow = counts.scan_slots(step, (state.posterior, jnp.zeros((), bool)), query)
    if y.shape[0] > 1:  # an overflow in the only slot changes nothing
        posterior = jax.tree.map(partial(jnp.where, overflow), state.posterior, posterior)
    info = exact_round_info(query, y, posterior, overflow, width)
    new = counts.count_observations(state, info, key)
    return replace(new, posterior=posterior), info


def exact_round_info(
    query: Query, y: Array, posterior: Exact, overflow: Array, width: Array
) -> Info:
    """The info of a round after which the exact posterior is `posterior`."""
    size, finite = posterior.used, jnp.isfinite(posterior.mean).all()
    return counts.round_info(query, y, size=size, width=width, finite=finite, overflow=overflow)

"""The exact posterior over the arms, for GP-UCB and other algorithms. An observation costs O(A u)
for u distinct pulled arms. Every argument `bandit` is an algorithm with a kernel, a regularization
and a capacity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.core import history, widths
from jsketch.core.widths import ucb
from jsketch.posterior import GaussianProcess, exact, process
from jsketch.posterior.exact import Exact
from jsketch.types import Algorithm, Arms, Evaluations, Info, PRNGKey, Query


@struct.dataclass
class ExactState:
    """The exact posterior over the arms, updated after every evaluation."""

    posterior: Exact
    count: Array  # [], number of observations

    @property
    def capacity(self) -> int:
        """The largest number N of distinct arms."""
        return len(self.posterior.basis)


State = TypeVar("State", bound=ExactState)


class ResidualFreeBandit(Algorithm):
    """The confidence bounds, and `ask` of GP-UCB, for algorithms whose posterior has no residuals
    (the exact posterior, or one on fixed features). Their states have the fields `posterior`
    (mean [A], variance [A], logdet []) and `count`. Subclasses define `prior_variance`."""

    def prior_variance(self, state: Any, arms: Arms) -> Array:
        """The largest prior variance of an arm, [], not divided by the regularization."""
        raise NotImplementedError

    def confidence_width(self: Any, state: Any, arms: Arms) -> Array:
        """The confidence width [] (beta_t of the papers)."""
        prior_variance = self.prior_variance(state, arms)
        evidence = widths.exact_evidence(state.count, state.posterior.logdet, prior_variance)
        return widths.confidence_width(self, evidence)

    def confidence_bounds(self, state: Any, arms: Arms) -> tuple[Array, Array, Array]:
        width = self.confidence_width(state, arms)
        return state.posterior.mean, state.posterior.variance, width

    def scores(self, state: Any, arms: Arms) -> Array:
        """Upper confidence bounds of all arms at the start of a batch, [A]."""
        return ucb(*self.confidence_bounds(state, arms))

    def ask(self, state: Any, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return history.query_of_best(arms, self.scores(state, arms), state.count, key)


@struct.dataclass
class ExactBandit(widths.KernelBandit, ResidualFreeBandit):
    """Base class of the algorithms on the exact posterior. They `ask` like GP-UCB by default."""

    width: widths.Width = widths.gp_ucb_code  # the confidence width, one of `bandits.widths`
    # N, the largest number of distinct pulled arms. None: `init` makes 128 slots, and `run`,
    # `drive` and `rollout` more where a run needs them. `run` and `drive` also enlarge a capacity
    # that is given
    capacity: int | None = struct.size(None)
    first_capacity: ClassVar[int] = 128

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExactState:
        return start(self, arms, key, data)

    def prior_variance(self, state: ExactState, arms: Arms) -> Array:
        return jnp.max(self.kernel.diag(arms.features))

    def gaussian_process(self, state: ExactState, arms: Arms) -> GaussianProcess:
        """The posterior at any points (`jsketch.posterior.of`)."""
        return gaussian_process(self, state, arms)

    def tell(
        self, state: State, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[State, Info]:
        return observe(self, state, arms, query, y, self.confidence_width(state, arms))

    def grow(self, state: State, arms: Arms, capacity: int) -> State:
        return grow(state, capacity)


def start(bandit: Any, arms: Arms, key: PRNGKey, data: Evaluations | None = None) -> ExactState:
    """The state of any algorithm on the exact posterior before the first round. Raises ValueError
    for invalid arguments, and unless the data are None."""
    arms = checks.bandit_arms(bandit, bandit.kernel, arms, key, data)
    features, slots = arms.features, bandit.initial_slots
    floats = exact.floats(len(features), slots)
    checks.memory(floats, features.dtype, capacity=slots, arms=arms.count)
    posterior = exact.prior(bandit.kernel, features, bandit.regularization, slots)
    return ExactState(posterior, count=jnp.zeros((), features.dtype))


def observe(
    bandit: Any, state: State, arms: Arms, query: Query, y: Array, width: Array
) -> tuple[State, Info]:
    """(state, info) after the rewards y [B] of a query. If the posterior has too few free rows for
    the new arms, the state does not change."""
    observed = query.mask & jnp.isfinite(y)
    fits = exact.fits(state.posterior, query.index, observed)
    model = bandit.kernel, arms.features, bandit.regularization

    def step(slot: Array, posterior: Exact) -> Exact:
        arm, is_observed = query.index[slot], observed[slot] & fits
        return exact.observe(posterior, *model, arm, y[slot], is_observed)

    posterior = lax.fori_loop(0, history.last_slot(query), step, state.posterior)
    return with_posterior(state, posterior, query, y, width, fits)


def with_posterior(
    state: State, posterior: Exact, query: Query, y: Array, width: Array, fits: Array
) -> tuple[State, Info]:
    """(state, info) after a round that gives this posterior, unless the new arms do not fit."""
    info = history.round_info(
        query,
        y,
        size=posterior.used,
        width=width,
        finite=jnp.isfinite(posterior.mean).all(),
        exceeded=~fits,
    )
    count = state.count + info.observed.astype(state.count.dtype)
    return replace(state, posterior=posterior, count=count), info


def gaussian_process(bandit: Any, state: ExactState, arms: Arms) -> GaussianProcess:
    """The posterior at any points."""
    return process.of_exact(bandit.kernel, bandit.regularization, state.posterior, arms.features)


def grow(state: State, capacity: int) -> State:
    """The same state with rows for `capacity` distinct arms."""
    return replace(state, posterior=exact.grow(state.posterior, capacity))

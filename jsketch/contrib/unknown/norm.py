"""A lower bound on the RKHS norm of f from data, and BKB and BBKB that double their norm bound.

The paper of BKB (COLT 2019, Section 4) recommends guessing an unknown norm bound F and doubling it,
but leaves open when. Here F is doubled, at `init` with earlier evaluations and after every round,
until it is at least `norm_lower_bound`, which, with probability at least 1 - delta, does not exceed
|f| at any time. A valid bound is therefore never doubled, and no bound exceeds max(F_0, 2 |f|)
(THEORY 6.9). The proof holds on the event on which the width `certified_mixture` with the same
delta is valid; with `certified` the two failure probabilities add up. No regret bound follows: a
run may never pull arms where f is large.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.bandits.bbkb import BBKB, State
from jsketch.bandits.bkb import BKB
from jsketch.core import posterior
from jsketch.numerics import cholesky_inverse, matmul, sum_over, take
from jsketch.posterior import GaussianProcess
from jsketch.types import Algorithm, Arms, Data, Info, PRNGKey, Query

ALGORITHMS = (BKB, BBKB)
# the ratios rho / lam for which lower bounds are computed; all bounds hold, and the largest is used
MULTIPLES = tuple(8.0**j for j in range(1, 8))


def norm_lower_bound(bandit: Any, state: State, arms: Arms) -> Array:
    """A lower bound [] on the RKHS norm |f| of the mean reward, for a state of a BKB or BBKB; 0 if
    the data give no bound, and while the posterior is stale. With probability at least 1 - delta
    the bound holds at all times and for any dictionary (THEORY 6.9). Costs O(n M^2) for n pulled
    arms, and O(M^3) for each of MULTIPLES.

    The noise is assumed to be xi-subgaussian with xi = `noise_std`. With L = logdet(I + K/lam) and
    m(rho) = y^T (I + K/rho)^-1 y, rho |f|^2 is at least m(rho) - m(lam) - xi^2 (L + 2 log 1/delta).
    The part of m within arms cancels; the sketch bounds the rest from above and below.
    """
    lam, p = bandit.regularization, state.posterior
    rho = lam * jnp.asarray(MULTIPLES, p.mean.dtype)
    residual_sum = _residual_sum(bandit, state, arms)
    information = p.logdet + residual_sum / lam
    noise = jnp.square(bandit.noise_std) * (information - 2 * jnp.log(bandit.delta))
    explained = _explained(bandit, state, arms, rho + residual_sum)
    misfit_at_rho = rho / (rho + residual_sum) * (_between_arms(state) - explained)
    largest = jnp.max((misfit_at_rho - (_misfit(state) + noise)) / rho)
    return jnp.where(state.stale, 0, jnp.sqrt(jnp.maximum(largest, 0)))


def log_likelihood_bound(bandit: Any, state: State, arms: Arms) -> Array:
    """A lower bound [] on log p(y) of a GP with noise of variance lam (Titsias, AISTATS 2009), up
    to a constant that all kernels share: -(q + logdet(V/lam) + residual_sum/lam) / 2, where
    q = y^T (ZZ^T + lam I)^-1 y. The bound is exact if the dictionary contains all pulled arms."""
    misfit = _misfit(state) + _residual_sum(bandit, state, arms)
    return -(misfit / bandit.regularization + state.posterior.logdet) / 2


def _residual_sum(bandit: Any, state: State, arms: Arms) -> Array:
    history = state.counts, state.inducing
    return posterior.residual_sum(state.posterior, bandit.kernel, arms.features, *history)


def _between_arms(state: State) -> Array:
    """sum_i s_i^2 / n_i [] for reward sums s_i and counts n_i: the part of |y|^2 between arms."""
    return (jnp.square(state.sums) / jnp.maximum(state.counts, 1)).sum()


def _misfit(state: State) -> Array:
    """lam y^T (ZZ^T + lam I)^-1 y [] without the part within arms."""
    return _between_arms(state) - matmul(state.sums, state.posterior.mean)


def _explained(bandit: Any, state: State, arms: Arms, rho: Array) -> Array:
    """m^T (G + rho I)^-1 m for each rho [n], with the sums G = sum_i n_i z_i z_i^T and
    m = sum_i s_i z_i over the pulled arms."""
    x, p = arms.features, state.posterior
    identity = jnp.eye(p.capacity, dtype=x.dtype)

    def add(index: Array, valid: Array) -> tuple[Array, Array]:
        z = posterior.features(p, bandit.kernel, take(x, index))
        counts, sums = (jnp.where(valid, take(a, index), 0) for a in (state.counts, state.sums))
        return matmul(z.T, counts[:, None] * z), matmul(sums, z)

    zeros = jnp.zeros_like(identity), jnp.zeros_like(p.weights)
    size = min(posterior.OUTSIDE, len(x))
    gram, moment = sum_over(state.counts > 0, size, add, zeros)

    def explained(rho: Array) -> Array:
        # the moment is zero in free slots, and so is what they add
        return jnp.square(matmul(cholesky_inverse(gram + rho * identity)[1], moment)).sum()

    return lax.map(explained, rho)


def double_until(norm_bound: Array, lower_bound: Array) -> Array:
    """The first of F, 2 F, 4 F, ..., [], that is at least `lower_bound` []; F itself if F is 0.
    Doubling in a loop is exact; a factor 2^k computed from logarithms would not be."""
    return lax.while_loop(lambda f: (f < lower_bound) & (f > 0), lambda f: 2 * f, norm_bound)


@struct.dataclass
class NormDoublingState(State):
    """The state of the base algorithm, and its norm bound."""

    norm_bound: Array  # [], F_t


@struct.dataclass
class NormDoubling(Algorithm):
    """BKB or BBKB with a norm bound that is doubled when the data contradict it.

    base  a BKB or a BBKB, whose `norm_bound` is the first guess F_0 > 0
    """

    base: Any = struct.component(components.BANDIT)

    def _base(self, state: NormDoublingState) -> Any:
        """The base algorithm with the norm bound F_t."""
        return self.base.replace(norm_bound=state.norm_bound)

    def _doubled(self, state: NormDoublingState, arms: Arms) -> NormDoublingState:
        lower_bound = norm_lower_bound(self.base, state, arms)
        return replace(state, norm_bound=double_until(state.norm_bound, lower_bound))

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> NormDoublingState:
        """The state before the first round, with a bound that agrees with the earlier evaluations.
        Raises ValueError for invalid arguments."""
        if type(self.base) not in ALGORITHMS:
            raise ValueError(f"base must be a BKB or a BBKB; {type(self.base).__name__} was given.")
        checks.positive(norm_bound=self.base.norm_bound)
        start = self.base.init(arms, key, data=data)
        norm_bound = jnp.asarray(self.base.norm_bound, start.counts.dtype)
        state = NormDoublingState(**vars(start), norm_bound=norm_bound)
        return state if data is None else self._doubled(state, checks.arms(arms))

    def confidence_width(self, state: NormDoublingState, arms: Arms) -> Array:
        """The width [] of the base with the norm bound F_t."""
        return self._base(state).confidence_width(state, arms)

    def confidence_bounds(self, state: NormDoublingState, arms: Arms) -> tuple[Array, Array, Array]:
        return self._base(state).confidence_bounds(state, arms)

    def ask(
        self, state: NormDoublingState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        return self._base(state).ask(state, arms, key, limit)

    def tell(
        self, state: NormDoublingState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[NormDoublingState, Info]:
        """(state, info) after the update of the base and then of the norm bound. `info.width` is
        the width with the norm bound before this call."""
        new, info = self._base(state).tell(state, arms, query, y, key)
        return self._doubled(new, arms), info

    def grow(self, state: NormDoublingState, arms: Arms, capacity: int) -> NormDoublingState:
        """The same state with this capacity. If its posterior was stale, the norm bound is doubled
        as after a round."""
        return self._doubled(self.base.grow(state, arms, capacity), arms)

    def gaussian_process(self, state: NormDoublingState, arms: Arms) -> GaussianProcess:
        """The posterior of the base at any points (`jsketch.posterior.of`)."""
        process: GaussianProcess = self.base.gaussian_process(state, arms)
        return process

    def imprecision(self, state: NormDoublingState, arms: Arms) -> Array:
        """The estimate [] of the base of the errors by rounding."""
        return self.base.imprecision(state, arms)

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

from jsketch import checks, struct
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.core.sketched import SketchState
from jsketch.linalg import cholesky_inverse, matmul
from jsketch.precision import one_dtype
from jsketch.types import Algorithm, Arms, Data, Info, PRNGKey, Query

ALGORITHMS = (BKB, BBKB)
# the ratios rho / lam for which lower bounds are computed; all bounds hold, and the largest is used
MULTIPLES = tuple(8.0**j for j in range(1, 8))


def norm_lower_bound(
    state: SketchState, regularization: ArrayLike, noise_std: ArrayLike, delta: ArrayLike
) -> Array:
    """A lower bound [] on the RKHS norm |f| of the mean reward, 0 if the data give no bound. With
    probability at least 1 - delta the bound holds at all times and for any dictionary
    (THEORY 6.9). Costs O(M^3) for each of MULTIPLES.

    The noise is assumed to be xi-subgaussian with xi = `noise_std`. With L = logdet(I + K/lam) and
    m(rho) = y^T (I + K/rho)^-1 y, rho |f|^2 is at least m(rho) - m(lam) - xi^2 (L + 2 log 1/delta).
    The part of m within arms cancels; the sketch bounds the rest from above and below.
    """
    dtype = state.weights.dtype
    lam, residual_sum = jnp.asarray(regularization, dtype), state.evidence.residual_sum
    total = _between_arms(state)
    square = matmul(state.whiten.T, state.whiten)
    identity = jnp.eye(square.shape[0], dtype=dtype)
    information = state.evidence.logdet + residual_sum / lam
    noise = jnp.square(noise_std) * (information - 2 * jnp.log(delta))
    misfit_at_lam = total - matmul(state.weights, state.weights)

    def squared_bound(multiple: Array) -> Array:
        rho = lam * multiple
        # V = lam I + sum of z z^T over all pulls = W^-T W^-1 with W = whiten, and therefore
        # V + shift I = W^-T (I + shift W^T W) W^-1
        factor = cholesky_inverse(identity + (rho + residual_sum - lam) * square)
        half = matmul(factor.inverse, state.weights)
        misfit_at_rho = rho / (rho + residual_sum) * (total - matmul(half, half))
        return (misfit_at_rho - (misfit_at_lam + noise)) / rho

    largest = lax.map(squared_bound, jnp.asarray(MULTIPLES, dtype)).max()
    return jnp.sqrt(jnp.maximum(largest, 0))


def log_likelihood_bound(state: SketchState, regularization: ArrayLike) -> Array:
    """A lower bound [] on log p(y) of a GP with noise of variance lam (Titsias, AISTATS 2009), up
    to a constant that all kernels share: -(q + logdet(V/lam) + residual_sum/lam) / 2, where
    q = y^T (ZZ^T + lam I)^-1 y. The bound is exact if the dictionary contains all pulled arms."""
    misfit = _between_arms(state) - matmul(state.weights, state.weights)
    return -((misfit + state.evidence.residual_sum) / regularization + state.evidence.logdet) / 2


def _between_arms(state: SketchState) -> Array:
    """sum_i s_i^2 / n_i [] for reward sums s_i and counts n_i: the part of |y|^2 between arms."""
    return (jnp.square(state.reward_sums) / jnp.maximum(state.pull_counts, 1)).sum()


def double_until(norm_bound: Array, lower_bound: Array) -> Array:
    """The first of F, 2 F, 4 F, ..., [], that is at least `lower_bound` []; F itself if F is 0.
    Doubling in a loop is exact; a factor 2^k computed from logarithms would not be."""
    return lax.while_loop(lambda f: (f < lower_bound) & (f > 0), lambda f: 2 * f, norm_bound)


@struct.dataclass
class NormDoublingState(SketchState):
    """The state of the base algorithm, and its norm bound."""

    norm_bound: Array  # [], F_t


@struct.dataclass
@one_dtype
class NormDoubling(Algorithm):
    """BKB or BBKB with a norm bound that is doubled when the data contradict it."""

    base: Any  # a BKB or a BBKB, whose `norm_bound` is the first guess F_0 > 0

    def _base_with(self, norm_bound: Array) -> Any:
        return self.base.replace(norm_bound=norm_bound)

    def _lower_bound(self, state: SketchState) -> Array:
        base = self.base
        return norm_lower_bound(state, base.regularization, base.noise_std, base.delta)

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> NormDoublingState:
        """The state before the first round, with a bound that agrees with the earlier evaluations.
        Raises ValueError for invalid arguments."""
        if type(self.base) not in ALGORITHMS:
            raise ValueError(f"base must be a BKB or a BBKB; {type(self.base).__name__} was given.")
        checks.positive(norm_bound=self.base.norm_bound)
        start = self.base.init(domain, key, data=data)
        norm_bound = jnp.asarray(self.base.norm_bound, start.mean.dtype)
        if data is not None:
            # if the inducing points of the earlier evaluations exceed the capacity,
            # `norm_lower_bound` is invalid; the next `tell` then sets `info.overflow`
            fits = start.n_excess_points == 0
            doubled = double_until(norm_bound, self._lower_bound(start))
            norm_bound = jnp.where(fits, doubled, norm_bound)
        return NormDoublingState(**vars(start), norm_bound=norm_bound)

    def confidence_width(self, state: NormDoublingState) -> Array:
        """The width [] of the base with the norm bound F_t."""
        return self._base_with(state.norm_bound).confidence_width(state)

    def confidence_bounds(self, state: NormDoublingState) -> tuple[Array, Array, Array]:
        return state.mean, state.variance, self.confidence_width(state)

    def ask(self, state: NormDoublingState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return self._base_with(state.norm_bound).ask(state, key, limit)

    def tell(
        self, state: NormDoublingState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[NormDoublingState, Info]:
        """(state, info) after the update of the base and then of the norm bound. `info.width` is
        the width with the norm bound before this call."""
        new, info = self._base_with(state.norm_bound).tell(state, query, y, key)
        norm_bound = double_until(state.norm_bound, self._lower_bound(new))
        norm_bound = jnp.where(info.overflow, state.norm_bound, norm_bound)
        return replace(new, norm_bound=norm_bound), info

    def grow(self, state: NormDoublingState, capacity: int) -> NormDoublingState:
        """The same state with this capacity."""
        return self.base.grow(state, capacity)

"""Lengthscale balancing: one learner for each of G lengthscales, all with the same observations,
and regret balancing between them.

Ziomek, Adachi, Osborne. Bayesian optimisation with unknown hyperparameters: regret bounds
logarithmically closer to optimal. NeurIPS 2024 (arXiv 2410.10384), Algorithm 1 (LB-GP-UCB), and
Algorithm 3 (LNB-GP-UCB) where candidates are pairs (lengthscale, norm bound). Let S_g be the
observations of the arms that candidate g chose, n_g = |S_g|, mean_g their mean and e_g a bound on
its error (`deviation`). Learner g has mean mu_g, standard deviation sigma_g, width w_g. Each round

    takes the active candidate of least suspected regret, g = argmin_g R_g(n_g + 1)        (line 3)
    takes its UCB arm, argmax_x mu_g + w_g sigma_g, or BBKB's batch                        (line 4)
    updates every learner with y_t                                                         (line 6)
    rules out g if  mean_g + e_g + sum_{S_g} 2 w sigma / n_g < max_h (mean_h - e_h)        (line 12)

The theorem of the paper is for base=GPUCB. With any base, the probability that a well-specified
candidate is never ruled out is at least 1 - base.delta - delta, if the width of the base holds at
all times: `mixture` for GPUCB, `certified` and `certified_mixture` for BKB and BBKB (THEORY 6.8).
With `certified` and `norm_test` the probability is at least 1 - 2 base.delta - delta. A BBKB with
the local rule has these guarantees only with `strict=True` and `local_statistic="guaranteed"`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.gp_ucb import GPUCB
from jsketch.contrib.unknown.norm import log_likelihood_bound, norm_lower_bound
from jsketch.kernels import Gaussian, Matern, RationalQuadratic
from jsketch.results import Result
from jsketch.types import Algorithm, Arms, Info, PRNGKey, Query, is_traced

BASES = (GPUCB, BKB, BBKB)
KERNELS = (Gaussian, Matern, RationalQuadratic)  # k(x,x) is 1 at every lengthscale


def scaled_norm_bounds(norm_bound: ArrayLike, lengthscales: Array, dimension: int) -> Array:
    """`norm_bound` (theta_0 / theta_g)^(d/2), [G], for lengthscales theta_g of d features. A norm
    below the bound at one lengthscale is below those at shorter ones (Bull, JMLR 2011; THEORY
    6.8)."""
    return jnp.asarray(norm_bound * (lengthscales[0] / lengthscales) ** (dimension / 2))


@struct.dataclass
class BalancingState:
    """The states of G learners, and sums over S_g, the observations of the arms that g chose."""

    learners: Any  # states of the base with leaves [G, ...]
    pulls: Array  # [G], n_g
    reward_sums_chosen: Array  # [G], sum of y over S_g
    suspected: Array  # [G], sum of 2 w sigma over S_g, with w and sigma at the time of the choice
    ruled_out: Array  # [G] bool

    @property
    def capacity(self) -> int:
        first: Any = jax.eval_shape(lambda s: jax.tree.map(lambda leaf: leaf[0], s), self.learners)
        return int(first.capacity)


@struct.dataclass
class LengthscaleBalancing(Algorithm):
    """GPUCB, BKB or BBKB over G lengthscales in one program. A `tell` costs G times the `tell`
    of the learner with the largest dictionary.

    `tell` assigns a round to the candidate whose arms `ask` returns. Rewards of other arms do not
    harm the posteriors, but invalidate the test between candidates.

    base          the settings of all learners; the lengthscale of the kernel is ignored, and
                  `norm_bound` belongs to the longest lengthscale
    lengthscales  [G], the longest first; the paper has theta_0 exp(-i/d)
    norm_bounds   [G]; None: `scaled_norm_bounds`
    delta         failure probability of the test, in addition to that of the base
    rule          suspected regret R_g of line 3: "order" is Theorem 2.3 up to a constant, and
                  "realised" the sum of 2 w sigma so far; "evidence" instead takes the candidate
                  with the largest lower bound on the marginal likelihood, without a regret
                  bound (THEORY 6.8)
    norm_test     True: candidates whose norm bound the data contradict are also ruled out (THEORY
                  6.9)
    """

    base: Any = struct.component(components.BANDIT)
    lengthscales: Any
    norm_bounds: Any = None
    delta: ArrayLike = struct.number(0.1, above=0, below=1)
    rule: str = struct.choice("order", of=("order", "realised", "evidence"))
    norm_test: bool = struct.choice(False)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> BalancingState:
        checks.no_evaluations(self, data)
        self._check()
        arms = checks.arms(arms)
        lengthscales, norm_bounds = self._candidates(arms)
        _check_representable(lengthscales, norm_bounds)
        first_state = self._learner(lengthscales[0], norm_bounds[0]).init(arms, key)
        n_candidates = len(lengthscales)
        zeros = jnp.zeros(n_candidates, arms.features.dtype)
        if self.rule == "order":  # the call raises ValueError for other kernels
            ones = zeros + 1
            log_information_order(self.base.kernel, lengthscales=ones, n=ones, dimension=1)
        # the prior at the arms does not depend on the lengthscale of these kernels
        learners = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (n_candidates, *leaf.shape)), first_state
        )
        sums = dict.fromkeys(("pulls", "reward_sums_chosen", "suspected"), zeros)
        return BalancingState(learners, **sums, ruled_out=jnp.zeros(n_candidates, bool))

    def _check(self) -> None:
        if type(self.base) not in BASES:
            raise ValueError(
                f"base must be a GPUCB, BKB or BBKB; {type(self.base).__name__} was given."
            )
        if isinstance(self.base, BBKB) and self.base.initial is not None:
            raise ValueError(
                "base has an initial design, which no candidate chose. Remove `initial`."
            )
        if not isinstance(self.base.kernel, KERNELS):
            raise ValueError(
                "base.kernel must be a Gaussian, Matern or RationalQuadratic kernel;"
                f" {type(self.base.kernel).__name__} was given."
            )
        checks.settings(self)
        if isinstance(self.base, GPUCB) and (self.norm_test or self.rule == "evidence"):
            raise ValueError(
                'norm_test and rule="evidence" need a sketch: take BKB or BBKB as the base.'
            )
        _check_candidates(self.lengthscales, self.norm_bounds)

    def _candidates(self, arms: Arms) -> tuple[Array, Array]:
        """(lengthscales [G], norm bounds [G])."""
        dtype, dimension = arms.features.dtype, arms.features.shape[1]
        lengthscales = jnp.asarray(self.lengthscales, dtype)
        if self.norm_bounds is not None:
            return lengthscales, jnp.asarray(self.norm_bounds, dtype)
        return lengthscales, scaled_norm_bounds(self.base.norm_bound, lengthscales, dimension)

    def _learner(self, lengthscale: Array, norm_bound: Array) -> Any:
        kernel = self.base.kernel.replace(lengthscale=lengthscale)
        return self.base.replace(kernel=kernel, norm_bound=norm_bound)

    def _vmap_learners(
        self, state: BalancingState, arms: Arms, function: Callable[[Any, Any], Any]
    ) -> Any:
        """function(learner, its state) for all candidates, [G, ...]."""

        def of_candidate(lengthscale: Array, norm_bound: Array, learner_state: Any) -> Any:
            return function(self._learner(lengthscale, norm_bound), learner_state)

        return jax.vmap(of_candidate)(*self._candidates(arms), state.learners)

    def choose_candidate(self, state: BalancingState, arms: Arms) -> Array:
        """The index [] int32 of the candidate that chooses the arms of the next round (line 3)."""
        regret = state.suspected
        if self.rule == "evidence":
            regret = -self._vmap_learners(state, arms, partial(log_likelihood_bound, arms=arms))
        if self.rule == "order":
            lengthscales, norm_bounds = self._candidates(arms)
            n, dimension = state.pulls + 1, arms.features.shape[1]
            log_information = log_information_order(self.base.kernel, lengthscales, n, dimension)
            regret = log_regret_order(log_information, jnp.log(norm_bounds), n)
        return argmin_active(~state.ruled_out, regret)

    def ask(
        self, state: BalancingState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        candidate = self.choose_candidate(state, arms)
        lengthscales, norm_bounds = self._candidates(arms)
        learner = self._learner(lengthscales[candidate], norm_bounds[candidate])
        learner_state = jax.tree.map(lambda leaf: leaf[candidate], state.learners)
        return learner.ask(learner_state, arms, key, limit)

    def tell(
        self, state: BalancingState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[BalancingState, Info]:
        """(state, info) after the learners of all candidates are updated and then candidates are
        ruled out. The info has the width and dictionary size of the candidate that chose the arms,
        and the largest result of the active ones; if the round does not apply to one of these, the
        state does not change."""
        candidate, active = self.choose_candidate(state, arms), ~state.ruled_out

        def observe(learner: Any, learner_state: Any) -> Any:
            return learner.tell(learner_state, arms, query, y, key)

        learners, infos = self._vmap_learners(state, arms, observe)
        applies = ((infos.batch_size > 0) | ~active).all()
        info = jax.tree.map(lambda leaf: leaf[candidate], infos)
        info = replace(
            info,
            batch_size=jnp.where(applies, info.batch_size, 0),
            observed=jnp.where(applies, info.observed, 0),
            result=jnp.where(active, infos.result, int(Result.RUNNING)).max(),
        )
        new = replace(
            self._add_observations(state, candidate, query, y, info.width), learners=learners
        )
        is_out = self._ruled_out(new, arms, info.observed > 0)
        new = replace(new, ruled_out=state.ruled_out | is_out)
        return jax.tree.map(partial(jnp.where, applies), new, state), info

    def _add_observations(
        self, state: BalancingState, candidate: Array, query: Query, y: Array, width: Array
    ) -> BalancingState:
        """Adds the observations to the sums of the candidate that chose the arms."""
        observed = query.mask & jnp.isfinite(y)
        variance = state.learners.posterior.variance[candidate][query.index]
        is_chosen = jnp.arange(state.pulls.shape[0], dtype=jnp.int32) == candidate

        def add(sums: Array, values: Array) -> Array:
            return sums + jnp.where(is_chosen, jnp.where(observed, values, 0).sum(), 0)

        return replace(
            state,
            pulls=add(state.pulls, jnp.ones_like(y)),
            reward_sums_chosen=add(state.reward_sums_chosen, y),
            suspected=add(state.suspected, 2 * width * jnp.sqrt(variance)),
        )

    def _ruled_out(self, state: BalancingState, arms: Arms, any_observed: Array) -> Array:
        """The candidates [G] bool that the round rules out; none if `any_observed` [] is False."""
        base = self.base
        sums = state.pulls, state.reward_sums_chosen, state.suspected
        is_out = ruled_out_by_rewards(~state.ruled_out, *sums, base.noise_std, self.delta)
        if self.norm_test:
            norm = self._vmap_learners(state, arms, partial(norm_lower_bound, arms=arms))
            is_out = is_out | (norm > self._candidates(arms)[1])
        # none is ruled out if no candidate would remain
        return is_out & any_observed & (~state.ruled_out & ~is_out).any()

    def grow(self, state: BalancingState, arms: Arms, capacity: int) -> BalancingState:
        """The same state with this capacity for inducing points, or for distinct arms of GPUCB."""

        def grow(learner: Any, learner_state: Any) -> Any:
            return learner.grow(learner_state, arms, capacity)

        return replace(state, learners=self._vmap_learners(state, arms, grow))

    def may_be_imprecise(self, state: BalancingState, error: float) -> bool:
        return bool(self.base.may_be_imprecise(state.learners, error))

    def imprecision(self, state: BalancingState, arms: Arms) -> Array:
        """The largest `imprecision` [] of the learners of active candidates."""
        errors = self._vmap_learners(state, arms, lambda learner, s: learner.imprecision(s, arms))
        return jnp.max(jnp.where(state.ruled_out, 0, errors))


def log_information_order(kernel: Any, lengthscales: Array, n: Array, dimension: int) -> Array:
    """log gamma_n [G] up to a constant, after n [G] observations of d features; -inf at n = 1
    (Proposition 2.2). gamma_n is theta^-d log(n)^(d+1) for the Gaussian kernel, and
    theta^-d n^(1-p) log(n)^p for Matern with p = 2 nu / (2 nu + d), as in the proof; the statement
    has another power of n. With hundreds of features the powers themselves would overflow. Raises
    ValueError for other kernels."""
    scale, log = -dimension * jnp.log(lengthscales), jnp.log(n)
    if isinstance(kernel, Gaussian):
        return scale + (dimension + 1) * jnp.log(log)
    if isinstance(kernel, Matern):
        power = 2 * kernel.nu / (2 * kernel.nu + dimension)
        return scale + (1 - power) * log + power * jnp.log(log)
    raise ValueError(
        'rule="order" needs a Gaussian or Matern kernel;'
        f' {type(kernel).__name__} was given. Take rule="realised".'
    )


def log_regret_order(log_information: Array, log_norm_bounds: Array, n: Array) -> Array:
    """log R(n) [G], R(n) = sqrt(n) (B sqrt(gamma_n) + gamma_n), B the norm bound (Theorem 2.3)."""
    norm_term = log_norm_bounds + log_information / 2
    return jnp.log(n) / 2 + jnp.logaddexp(norm_term, log_information)


def argmin_active(active: Array, regret: Array) -> Array:
    """The index [] int32 of the first `active` [G] bool candidate with the least regret [G], even
    if all regrets are infinite or NaN."""
    largest = jnp.finfo(regret.dtype).max
    finite = jnp.clip(jnp.where(jnp.isnan(regret), largest, regret), -largest, largest)
    return jnp.argmin(jnp.where(active, finite, jnp.inf)).astype(jnp.int32)


def deviation(n: Array, noise_std: ArrayLike, delta: ArrayLike) -> Array:
    """xi sqrt(2 log(G pi^2 n^2 / (3 delta)) / n), [G], xi = `noise_std`: bounds on the errors of
    the means of n [G] rewards. With probability at least 1 - delta the bounds hold for all
    candidates at all times (THEORY 6.8)."""
    logs = jnp.log(n.shape[0] * (math.pi * n) ** 2 / (3 * jnp.asarray(delta, n.dtype)))
    return jnp.asarray(noise_std * jnp.sqrt(2 * logs / n))


def ruled_out_by_rewards(
    active: Array,
    pulls: Array,
    reward_sums: Array,
    suspected: Array,
    noise_std: ArrayLike,
    delta: ArrayLike,
) -> Array:
    """The candidates [G] bool whose suspected regret is too small for the rewards of the others
    (line 12, THEORY 6.8); none while an active candidate has no observation (line 9).

    active [G] bool; pulls, reward_sums and suspected [G] are sums over S_g of 1, y and 2 w sigma.
    """
    n = jnp.maximum(pulls, 1)
    mean, error = reward_sums / n, deviation(n, noise_std, delta)
    best_lower_bound = jnp.max(jnp.where(active, mean - error, -jnp.inf))
    upper_bound = mean + error + suspected / n
    all_observed = (~active | (pulls > 0)).all()
    return all_observed & active & (upper_bound < best_lower_bound)


def _check_candidates(lengthscales: Any, norm_bounds: Any) -> None:
    """Raises ValueError unless the lengthscales are positive with the longest first, and there is
    one norm bound for each."""
    if is_traced(lengthscales, norm_bounds):
        return
    scales = checks.real("lengthscales", lengthscales)
    bounds = scales if norm_bounds is None else checks.real("norm_bounds", norm_bounds)
    if scales.ndim != 1 or not len(scales) or bounds.shape != scales.shape:
        raise ValueError(
            "lengthscales and norm_bounds must be lists of numbers, one for each candidate; shapes"
            f" {scales.shape} and {bounds.shape} were given."
        )
    checks.all_positive(lengthscales=scales)
    checks.all_nonnegative(norm_bounds=bounds)
    if (np.diff(scales) > 0).any():
        raise ValueError(f"lengthscales must have the longest one first; {lengthscales} was given.")


def _check_representable(lengthscales: Array, norm_bounds: Array) -> None:
    """Raises ValueError unless the candidates [G] are positive and finite in their dtype."""
    if is_traced(lengthscales, norm_bounds):
        return
    for scale, bound in zip(lengthscales.tolist(), norm_bounds.tolist(), strict=True):
        if not (0 < scale < math.inf and bound < math.inf):
            raise ValueError(
                f"a candidate has lengthscale {scale} and norm bound {bound} in"
                f" {lengthscales.dtype}: give `norm_bounds`, or closer lengthscales. The default is"
                " norm_bound (longest / lengthscale)^(d/2) in d features."
            )

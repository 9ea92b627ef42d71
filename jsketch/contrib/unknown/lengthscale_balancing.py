"""Length scale Balancing: one learner for each of G lengthscales, all on the same data, and regret
balancing between them.

Ziomek, Adachi, Osborne. Bayesian optimisation with unknown hyperparameters: regret bounds
logarithmically closer to optimal. NeurIPS 2024 (arXiv 2410.10384), Algorithm 1 (LB-GP-UCB), and
Algorithm 3 (LNB-GP-UCB) where candidates are pairs (lengthscale, norm bound). Each round

    g_t = argmin_g R_g(n_g + 1)       the active candidate of least suspected regret   (line 3)
    x_t = argmax_x mu_g + w_g sigma_g its UCB arm, or BBKB's batch                     (line 4)
    every learner observes y_t                                                         (line 6)
    out are g of  mean_g + miss_g + sum_{S_g} 2 w sigma / n_g < max_h (mean_h - miss_h)  (line 12)

The paper's theorem is that of the exact posterior, base=GPUCB. A well-specified candidate is never
ruled out, whatever the base, with probability 1 - base.delta - delta where the band of its width
holds at all times: `mixture` for GPUCB, `certified` and `certified_mixture` for the sketches of BKB
and BBKB (THEORY 6.8; there also what is printed otherwise). The `*_code` widths have no guarantee
here either. Of BBKB's local rule it asks for `strict=True` and `local_statistic="guaranteed"`:
otherwise variances may shrink by more than C within a batch, for which the width does not pay.
`norm_test` beside `certified` costs base.delta once more, as its event is another one; beside
`certified_mixture` it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.core import counts
from jsketch.bandits.gp_ucb import GPUCB
from jsketch.checks import queries
from jsketch.contrib.unknown import candidates, evidence, regret_balance
from jsketch.kernels import Gaussian, Matern, RationalQuadratic
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, PRNGKey, Query, attach, detach

# whose k(x,x) is 1 at every lengthscale
KERNELS = (Gaussian, Matern, RationalQuadratic)
RULES = ("order", "realised", "evidence")


@struct.dataclass
class BalancingState:
    """G learners, and what was observed of the arms that each chose."""

    domain: Arms
    learners: Any  # the base's states, [G] each, without their domain
    pulls: Array  # [G], n_g
    reward_sums_chosen: Array  # [G]
    suspected: Array  # [G], sum of 2 w sigma over them, with the variances that chose them
    ruled_out: Array  # [G] bool

    @property
    def capacity(self) -> int:
        one: Any = jax.eval_shape(lambda s: jax.tree.map(lambda leaf: leaf[0], s), self.learners)
        return int(one.capacity)


@struct.dataclass
@one_dtype
class LengthscaleBalancing:
    """GPUCB, BKB or BBKB over G lengthscales in one program, G times the cost of a `tell` of the
    base at the largest dictionary.

    `tell` credits a round to the candidate whose arms `ask` would give: rewards of other arms keep
    the posteriors right, and make the test between candidates wrong.
    """

    # the numbers of all learners; the lengthscale of its kernel is not used, and its `norm_bound`
    # is that of the longest one
    base: Any
    lengthscales: Any  # [G], the longest first; `candidates.lengthscales` has the paper's
    # [G]; None: N (theta_0 / theta_g)^(d/2), which holds for all that are shorter than one that
    # holds (Lemma 2.1)
    norm_bounds: Any = None
    delta: ArrayLike = 0.1  # failure probability of the test, besides the base's
    # t_0: candidates down to theta_0 / max(t_0, sqrt(t)) take part after t observations, g(t) of
    # the paper's experiments; None: all from the start
    growth: ArrayLike | None = None
    # R_g of line 3: "order", Theorem 2.3 up to a constant; "realised", the sum of 2 w sigma so far.
    # "evidence" takes the candidate of the largest marginal likelihood, as practitioners do: what
    # holds still stays, but nothing makes it choose (THEORY 6.8); BKB, BBKB
    rule: str = struct.field(pytree_node=False, default="order")
    # rules out candidates whose norm bound the data contradict, too (THEORY 6.9); BKB, BBKB
    norm_test: bool = struct.field(pytree_node=False, default=False)

    def init(self, domain: Arms, key: PRNGKey) -> BalancingState:
        """The state before the first round. Raises ValueError on static mistakes."""
        count = self._check()
        lengthscales, norm_bounds = self._candidates(checks.arms(domain))
        candidates.check_rounded(lengthscales, norm_bounds)
        one = self._at(lengthscales[0], norm_bounds[0]).init(domain, key)
        dtype = one.domain.features.dtype
        zeros = jnp.zeros(count, dtype)
        if self.rule == "order":
            regret_balance.log_information_order(self.base.kernel, zeros + 1, zeros + 1, 1)
        # the prior at the arms does not depend on the lengthscale of these kernels
        learners = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), detach(one)
        )
        return BalancingState(one.domain, learners, zeros, zeros, zeros, jnp.zeros(count, bool))

    def _check(self) -> int:
        """G. Raises ValueError on static mistakes."""
        if not isinstance(self.base, GPUCB | BKB | BBKB):
            raise ValueError(
                f"base must be a GPUCB, BKB or BBKB; {type(self.base).__name__} was given."
            )
        if getattr(self.base, "initial", None) is not None:
            raise ValueError(
                "base has an initial design: no candidate chose it. Leave `initial` out."
            )
        if not isinstance(self.base.kernel, KERNELS):
            raise ValueError(
                "base.kernel must be a Gaussian, Matern or RationalQuadratic kernel;"
                f" {type(self.base.kernel).__name__} was given."
            )
        checks.choice(RULES, rule=self.rule)
        checks.truth(norm_test=self.norm_test)
        if isinstance(self.base, GPUCB) and (self.norm_test or self.rule == "evidence"):
            raise ValueError(
                'norm_test and rule="evidence" read a sketch: take BKB or BBKB as the base.'
            )
        checks.probability(delta=self.delta)
        if self.growth is not None:
            checks.at_least_one(growth=self.growth)
        return candidates.check(self.lengthscales, self.norm_bounds)

    def _candidates(self, domain: Arms) -> tuple[Array, Array]:
        """(lengthscales [G], norm bounds [G])."""
        dtype, inputs = domain.features.dtype, domain.features.shape[1]
        lengthscales = jnp.asarray(self.lengthscales, dtype)
        if self.norm_bounds is not None:
            return lengthscales, jnp.asarray(self.norm_bounds, dtype)
        return lengthscales, candidates.norm_bounds(self.base.norm_bound, lengthscales, inputs)

    def _at(self, lengthscale: Array, norm_bound: Array) -> Any:
        kernel = self.base.kernel.replace(lengthscale=lengthscale)
        return self.base.replace(kernel=kernel, norm_bound=norm_bound)

    def _of_all(self, state: BalancingState, read: Callable[[Any, Any], Any]) -> Any:
        """read(learner, its state) of all candidates, in one program."""

        def one(lengthscale: Array, norm_bound: Array, learner: Any) -> Any:
            return read(self._at(lengthscale, norm_bound), attach(learner, state.domain))

        return jax.vmap(one)(*self._candidates(state.domain), state.learners)

    def active(self, state: BalancingState) -> Array:
        """The candidates that take part in the next round, [G] bool."""
        left = ~state.ruled_out
        if self.growth is None:
            return left
        lengthscales, _ = self._candidates(state.domain)
        present = left & candidates.introduced(lengthscales, state.pulls.sum(), self.growth)
        # all that were there may be out by the norm test before the next one comes
        return jnp.where(present.any(), present, left)

    def chosen(self, state: BalancingState) -> Array:
        """The number [] int32 of the candidate that chooses the next round (line 3)."""
        regret = state.suspected
        if self.rule == "evidence":
            read = evidence.log_evidence
            regret = -self._of_all(state, lambda learner, own: read(own, learner.regularization))
        if self.rule == "order":
            lengthscales, norm_bounds = self._candidates(state.domain)
            n, inputs = state.pulls + 1, state.domain.features.shape[1]
            order = regret_balance.log_information_order(self.base.kernel, lengthscales, n, inputs)
            regret = regret_balance.log_regret_order(order, jnp.log(norm_bounds), n)
        return regret_balance.least(self.active(state), regret)

    def confidence_width(self, state: BalancingState) -> Array:
        """Of all candidates, [G]."""
        return self._of_all(state, lambda learner, own: learner.confidence_width(own))

    def scores(self, state: BalancingState) -> Array:
        """Upper confidence bounds of all arms by all candidates, [G,A]."""
        return self._of_all(state, lambda learner, own: learner.scores(own))

    def ask(self, state: BalancingState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        chosen = self.chosen(state)
        lengthscales, norm_bounds = self._candidates(state.domain)
        own = jax.tree.map(lambda leaf: leaf[chosen], state.learners)
        learner = self._at(lengthscales[chosen], norm_bounds[chosen])
        return learner.ask(attach(own, state.domain), key, limit)

    def tell(
        self, state: BalancingState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[BalancingState, Info]:
        """Every learner observes the rewards; then the test. Width and size in the info are those
        of the candidate that chose, flags those of all that are left; where one of them has no room
        the round is not applied."""
        query, y = queries.feedback(state.domain, query, y)
        chosen, left = self.chosen(state), ~state.ruled_out

        def observe(learner: Any, own: Any) -> Any:
            new, info = learner.tell(own, query, y, key)
            return detach(new), info

        learners, infos = self._of_all(state, observe)
        own = jax.tree.map(lambda leaf: leaf[chosen], infos)
        info = replace(
            own,
            overflow=(infos.overflow & left).any(),
            nonfinite=(infos.nonfinite & left).any(),
            imprecise=(infos.imprecise & left).any(),
        )
        credited = self._credited(state, chosen, query, y, own.width)
        new = replace(credited, learners=learners)
        new = replace(new, ruled_out=state.ruled_out | self._ruled_out(new, own.observed > 0))
        kept = info.overflow
        new = jax.tree.map(
            lambda before, after: jnp.where(kept, before, after), detach(state), detach(new)
        )
        return attach(new, state.domain), info

    def _credited(
        self, state: BalancingState, chosen: Array, query: Query, y: Array, width: Array
    ) -> BalancingState:
        """The state with the rewards counted for the candidate that chose them."""
        observed = counts.usable(query, y)
        variance = _variance(state.learners)[chosen][query.index]
        mine = jnp.arange(state.pulls.shape[0], dtype=jnp.int32) == chosen

        def added(before: Array, numbers: Array) -> Array:
            return before + jnp.where(mine, jnp.where(observed, numbers, 0).sum(), 0)

        return replace(
            state,
            pulls=added(state.pulls, jnp.ones_like(y)),
            reward_sums_chosen=added(state.reward_sums_chosen, y),
            suspected=added(state.suspected, 2 * width * jnp.sqrt(variance)),
        )

    def _ruled_out(self, state: BalancingState, observed: Array) -> Array:
        """Candidates that the round rules out, [G] bool; none where nothing was observed."""
        base, active = self.base, self.active(state)
        out = regret_balance.ruled_out(
            active,
            state.pulls,
            state.reward_sums_chosen,
            state.suspected,
            base.noise_std,
            self.delta,
        )
        if self.norm_test:
            least = self._of_all(
                state,
                lambda learner, own: evidence.least_norm(
                    own, base.regularization, base.noise_std, base.delta
                ),
            )
            contradicted = least > self._candidates(state.domain)[1]
            out = out | contradicted
        # with no candidate left there would be none to choose
        return out & observed & (~state.ruled_out & ~out).any()

    def grow(self, state: BalancingState, capacity: int) -> BalancingState:
        """The same state with room for `capacity` inducing points, or distinct arms, of each."""
        grown = jax.vmap(lambda learner: self.base.grow(learner, capacity))(state.learners)
        return replace(state, learners=grown)


def _variance(learners: Any) -> Array:
    """[G,A], leverage units."""
    return getattr(learners, "posterior", learners).variance

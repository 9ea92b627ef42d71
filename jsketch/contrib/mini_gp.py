"""mini-GP-UCB and mini-GP-EI: exact Gaussian processes that evaluate a few arms many times.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Scaling Gaussian process optimization by
evaluating a few unique candidates multiple times. ICML 2022, Algorithm 1. A batch evaluates one arm
(C^2 - 1)/sigma^2(x) times, which divides its standard deviation by C. Few switches between arms
leave few distinct arms in the posterior.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.exact import ExactBandit, ExactState, with_posterior
from jsketch.core import history
from jsketch.core.widths import ucb
from jsketch.posterior import exact
from jsketch.types import Arms, Info, PRNGKey, Query


@struct.dataclass
class MiniGP(ExactBandit):
    """mini-GP-UCB or mini-GP-EI. A batch repeats one arm and costs O(A N) for N pulled arms.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    width           the confidence width, one of `bandits.widths`
    capacity        N, the largest number of distinct pulled arms. None: `init` makes 128 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given
    ratio           C >= 1: a batch divides the standard deviation of its arm by C; 1 gives batches
                    of one pull
    acquisition     "ucb": upper confidence bounds, "ei": expected improvements
    max_batch       B, the largest number of evaluations of a batch
    """

    ratio: ArrayLike = struct.number(2.0, at_least=1)
    acquisition: str = struct.choice("ucb", of=("ucb", "ei"))
    max_batch: int = struct.size(10_000)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExactState:
        state = super().init(arms, key, data=data)
        checks.memory(2 * self.max_batch, state.count.dtype, max_batch=self.max_batch)
        return state

    def confidence_width(self, state: ExactState, arms: Arms) -> Array:
        """C beta_t, [], because a batch divides the standard deviation by C (Lemma 3.2)."""
        return jnp.asarray(self.ratio * super().confidence_width(state, arms))

    def scores(self, state: ExactState, arms: Arms) -> Array:
        """The acquisition [A] of all arms: upper confidence bounds, or expected improvements over
        the best posterior mean of a pulled arm, in which the standard deviation is multiplied by
        the width."""
        posterior, width = state.posterior, self.confidence_width(state, arms)
        if self.acquisition == "ucb":
            return ucb(posterior.mean, posterior.variance, width)
        sd = width * jnp.sqrt(posterior.variance)
        means = jnp.where(exact.in_use(posterior), posterior.mean[posterior.pulled], -jnp.inf)
        best = jnp.max(means)
        gain = posterior.mean - best
        is_positive = sd > 0
        # where the standard deviation is 0, the improvement is certain
        z = gain / jnp.where(is_positive, sd, 1)
        improvement = gain * norm.cdf(z) + sd * norm.pdf(z)
        return jnp.where(is_positive, improvement, jnp.maximum(gain, 0))

    def ask(
        self, state: ExactState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        arm = history.query_of_best(arms, self.scores(state, arms), state.count, key).index[0]
        variance = self._resolved_variance(state, arms, arm)
        # the variance is 0 only where the prior variance is
        is_positive = variance > 0
        repeats = (jnp.square(self.ratio) - 1) / jnp.where(is_positive, variance, 1)
        most = history.limit_of(limit, self.max_batch).astype(repeats.dtype)
        length = jnp.where(is_positive, jnp.clip(repeats, 1, most), 1).astype(jnp.int32)
        return Query(
            index=jnp.full(self.max_batch, arm),
            mask=jnp.arange(self.max_batch, dtype=jnp.int32) < length,
        )

    def _resolved_variance(self, state: ExactState, arms: Arms, arm: Array) -> Array:
        """The variance [] of an arm, or half of its least possible value if that is larger. After t
        observations this value is s / (1 + t S), with s the prior variance of the arm and S the
        largest prior variance. Near a pulled arm rounding leaves a variance of 0, with which a
        batch would have only one evaluation, or of 1e-17, with which it would have `max_batch`."""
        prior = self.kernel.diag(arms.features) / self.regularization
        floor = prior[arm] / (1 + state.count * jnp.max(prior)) / 2
        return jnp.maximum(state.posterior.variance[arm], floor)

    def tell(  # type: ignore[override]
        self, state: ExactState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExactState, Info]:
        """(state, info) after the rewards of one arm, that of the first slot. The posterior has
        them as one observation of their mean."""
        observed = query.mask & jnp.isfinite(y)
        count = observed.sum(dtype=y.dtype)
        repeats = jnp.maximum(count, 1)
        average, arm = jnp.where(observed, y, 0).sum() / repeats, query.index[0]
        fits = exact.fits(state.posterior, query.index, observed)
        model = self.kernel, arms.features, self.regularization
        is_observed = (count > 0) & fits
        posterior = exact.observe(state.posterior, *model, arm, average, is_observed, repeats)
        width = self.confidence_width(state, arms)
        return with_posterior(state, posterior, query, y, width, fits)

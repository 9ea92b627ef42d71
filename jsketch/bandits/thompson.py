"""Thompson sampling in batches of a fixed size, on the sketched posterior.

Kandasamy, Krishnamurthy, Schneider, Poczos. Parallelised Bayesian optimisation via Thompson
sampling. AISTATS 2018. The defaults are those of BBKB's experiments: batches of 30, and the
confidence width divided by 10 (THEORY 6.1). Every slot of a batch draws a function from N(mean,
width^2 covariance) and pulls its argmax.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bbkb import SketchedBandit, State
from jsketch.bandits.ts import query_of_samples, slot_normals
from jsketch.core import posterior, widths
from jsketch.numerics import matmul, sweep
from jsketch.types import Arms, Data, PRNGKey, Query


@struct.dataclass
class SketchedTS(widths.ScaledWidth, SketchedBandit):
    """Thompson sampling from BKB's posterior, without a table A x A or A x M. A batch costs
    O(A M^2 + A M B).

    A draw is mean + width (u(x).xi + sqrt(residual/lam) eps_x) with standard normal xi [M] and
    eps_x. u(x).xi is correlated between arms, and eps_x is independent from arm to arm; together
    they give every arm the variance sigma~^2.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    qbar            oversampling; `dictionary.qbar_theory` has the theorems' value
    dictionary      how the dictionary changes after a batch: `Extend(slack)`, or `Draw()` as in the
                    papers
    width           the confidence width, one of `bandits.widths`
    capacity        M, the largest number of inducing points. None: `init` makes 64 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given
    scale           factor on the width
    batch           B, the evaluations in a batch

    Example:

        bandit = SketchedTS(kernels.Gaussian(1.0), noise_std=0.1)
        run(bandit, problem, jax.random.key(0), 300).trace.arm  # [300], in batches of 30
    """

    scale: ArrayLike = struct.number(0.1, above=0)
    batch: int = struct.size(30)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> State:
        """The state of `SketchedBandit.init`."""
        state = super().init(arms, key, data=data)
        count = state.counts.size
        checks.memory(2 * self.batch * count, state.counts.dtype, batch=self.batch, arms=count)
        return state

    def samples(self, state: State, arms: Arms, key: PRNGKey) -> Array:
        """B independent draws [B,A] of the mean rewards of all arms."""
        feature_key, arm_key = jax.random.split(key)
        x, p = arms.features, state.posterior
        # The basis of the features u depends on how the posterior was computed. From scratch it
        # is a function of the history and the dictionary, and the same for any capacity
        basis = posterior.update(
            self.kernel,
            self.regularization,
            x,
            state.counts,
            state.sums,
            state.inducing,
            state.capacity,
        )
        xi = slot_normals(feature_key, state.capacity, self.batch, x.dtype)

        def embedded(x: Array) -> tuple[Array, Array]:
            u = posterior.embed(basis, self.kernel, x)
            return matmul(u, xi.T), jnp.square(u).sum(1)

        # in chunks, so that the memory does not hold a table A x M
        draws, represented = sweep(embedded, x, state.capacity)
        # an arm of the dictionary has no residual
        residual = jnp.where(state.inducing, 0, jnp.maximum(p.variance - represented, 0))
        # the draws of A arms, because those of more rows would differ
        noise = jax.random.normal(arm_key, (self.batch, arms.count), x.dtype)
        deviation = draws.T + jnp.sqrt(residual)[None, :] * arms.with_padding(noise)
        return p.mean[None, :] + self.confidence_width(state, arms) * deviation

    def ask(self, state: State, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        """The best arm of each of B draws; one random arm before the first observation."""
        samples = self.samples(state, arms, key)
        return query_of_samples(arms, samples, state.counts.sum(), key, limit)

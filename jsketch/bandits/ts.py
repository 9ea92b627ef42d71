"""Thompson sampling in batches of a fixed size from the exact joint posterior of the arms.

Kandasamy, Krishnamurthy, Schneider, Poczos. Parallelised Bayesian optimisation via Thompson
sampling. AISTATS 2018. The defaults are those of BBKB's experiments: batches of 30, and the
confidence width divided by 10 (THEORY 6.1). Every slot of a batch draws a function from N(mean,
width^2 covariance) and pulls its argmax.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.exact import ExactBandit, ExactState
from jsketch.core import history, widths
from jsketch.devices import one_program
from jsketch.numerics import matmul, shifted_cholesky
from jsketch.posterior import exact
from jsketch.results import Result
from jsketch.types import Arms, Info, PRNGKey, Query, is_traced

EXACT_ARMS = 10_000  # the largest number A of arms whose Gram matrix [A,A] is factorized
# The largest shift of a Gram matrix, relative to max k(x,x), that rounding errors can require. A
# shift adds independent noise to the samples.
LARGEST_SHIFT = 1e-3


def slot_normals(key: PRNGKey, slots: int, batch: int, dtype: Any) -> Array:
    """Standard normals [batch, slots]. Those of a slot do not depend on the number of slots."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(slots, dtype=jnp.int32))
    return jax.vmap(lambda k: jax.random.normal(k, (batch,), dtype), out_axes=1)(keys)


def query_of_samples(
    arms: Arms, samples: Array, count: Array, key: PRNGKey, limit: ArrayLike | None
) -> Query:
    """The query of the best arm of each of the samples [B,A]; of a random arm alone before the
    first observation, when the number `count` [] of observations is 0."""
    batch = len(samples)
    best = jnp.argmax(arms.of_candidates(samples), axis=1).astype(jnp.int32)
    index = history.first_or(count == 0, best, arms, key)
    size = jnp.where(count == 0, 1, history.limit_of(limit, batch))
    return Query(index=index, mask=jnp.arange(batch, dtype=jnp.int32) < size)


@struct.dataclass
class ThompsonState(ExactState):
    """`ExactState`, and a number that makes the Gram matrix of the arms positive definite."""

    # [], the number added to the diagonal of the Gram matrix; infinite if the matrix has negative
    # eigenvalues beyond rounding
    shift: Array


@struct.dataclass
class TS(widths.ScaledWidth, ExactBandit):
    """Thompson sampling from the exact joint GP posterior of the arms.

    A sample is a draw from the prior over the arms that is conditioned on the observations
    (`posterior.exact.condition`). Every batch factorizes the Gram matrix of the arms in O(A^3);
    the factor is not stored. For more than EXACT_ARMS arms use SketchedTS.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    width           the confidence width, one of `bandits.widths`
    capacity        N, the largest number of distinct pulled arms. None: `init` makes 128 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given
    scale           factor on the width; with 1, as in the theory, TS hardly converges
    batch           B, the evaluations in a batch
    """

    scale: ArrayLike = struct.number(0.1, above=0)
    batch: int = struct.size(30)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ThompsonState:
        """The state before the first round. A call costs as much as a batch. Raises ValueError for
        invalid arguments, for more arms than EXACT_ARMS, and for a kernel that is not positive
        semi-definite on the arms."""
        arms = checks.arms(arms)
        if arms.count > EXACT_ARMS:
            raise ValueError(
                f"exact Thompson sampling factorizes an A x A matrix: {arms.count} arms are too"
                f" many (at most {EXACT_ARMS}). SketchedTS needs no such matrix."
            )
        prior, features = super().init(arms, key, data=data), arms.features
        floats = arms.count * (arms.count + 2 * self.batch)
        checks.memory(floats, features.dtype, arms=arms.count, batch=self.batch)
        variance, shift, is_definite = _needed_shift(self, prior, arms)
        if not is_traced(shift) and not bool(is_definite):
            raise ValueError(
                "the kernel is not positive semi-definite on these arms: a Cholesky factorization"
                f" of their Gram matrix needs {float(shift):.2g} added to the diagonal, which is"
                f" up to {float(variance):.2g}. Check the kernel (a Precomputed table must be"
                " symmetric, with no negative eigenvalue)."
            )
        return ThompsonState(**vars(prior), shift=jnp.where(is_definite, shift, jnp.inf))

    def samples(self, state: ThompsonState, arms: Arms, key: PRNGKey) -> Array:
        """B independent draws [B,A] of the mean rewards of all arms."""
        prior_key, slot_key = jax.random.split(key)
        features, posterior = arms.features, state.posterior
        # the shift adds independent noise with the variance `state.shift` to the draws
        root, _ = shifted_cholesky(self.kernel.gram(features, features), state.shift)
        normal = jax.random.normal(prior_key, (self.batch, arms.count), features.dtype)
        normal = jnp.pad(normal, ((0, 0), (0, arms.padding)))  # the root is lower triangular
        coordinates = slot_normals(slot_key, state.capacity, self.batch, features.dtype)
        prior_draws = matmul(normal, root.T)
        deviation = exact.condition(posterior, prior_draws, coordinates, self.regularization)
        return posterior.mean[None, :] + self.confidence_width(state, arms) * deviation

    def ask(
        self, state: ThompsonState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        samples = self.samples(state, arms, key)
        return query_of_samples(arms, samples, state.count, key, limit)

    def tell(  # type: ignore[override]
        self, state: ThompsonState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ThompsonState, Info]:
        new, info = super().tell(state, arms, query, y, key)
        is_definite = jnp.isfinite(state.shift)
        result = jnp.where(is_definite, info.result, int(Result.NOT_FINITE))
        return new, replace(info, result=result)


@one_program()
def _needed_shift(bandit: TS, prior: ExactState, arms: Arms) -> tuple[Array, Array, Array]:
    """(the largest variance, the shift with which the Gram matrix of the arms has a root, whether
    the shift is as small as rounding errors), [] each."""
    variance, features = bandit.prior_variance(prior, arms), arms.features
    unit = jnp.where(variance > 0, variance, 1)
    first_shift = arms.count * jnp.finfo(features.dtype).eps * unit
    _, shift = shifted_cholesky(bandit.kernel.gram(features, features), first_shift)
    return variance, shift, shift <= LARGEST_SHIFT * unit

"""Thompson sampling in batches of a fixed size, on the exact and on the sketched posterior.

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
from jsketch.bandits.core import sketched, widths
from jsketch.bandits.core.exact_state import ExactBandit, ExactState
from jsketch.bandits.core.sketched import SketchedBandit, SketchState
from jsketch.linalg import ONE_DEVICE, Rows, map_rows, matmul, shifted_cholesky
from jsketch.posterior import exact
from jsketch.struct import in_dtype
from jsketch.types import Arms, Data, Info, PRNGKey, Query, is_traced

EXACT_ARMS = 10_000  # the largest number A of arms whose Gram matrix [A,A] is factorized
# The largest shift of a Gram matrix, relative to max k(x,x), that rounding errors can require. A
# shift adds independent noise to the samples.
LARGEST_SHIFT = 1e-3


def _slot_normals(key: PRNGKey, slots: int, batch: int, dtype: Any) -> Array:
    """Standard normals [batch, slots]. Those of a slot do not depend on the number of slots."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(slots, dtype=jnp.int32))
    return jax.vmap(lambda k: jax.random.normal(k, (batch,), dtype), out_axes=1)(keys)


def _query_of_samples(
    samples: Array,
    first_arm: Array,
    unobserved: Array,
    limit: ArrayLike | None,
    batch: int,
    rows: Rows = ONE_DEVICE,
) -> Query:
    """The query of the best arm of each sample [B,A]; `first_arm` alone if none is observed."""
    limit = jnp.clip(checks.evaluation_limit(limit), 1, batch)
    limit = jnp.where(unobserved, 1, limit)
    index = jnp.where(unobserved, first_arm, rows.argmax(samples))
    return Query(index=index, mask=jnp.arange(batch, dtype=jnp.int32) < limit)


@struct.dataclass
class ThompsonState(ExactState):
    """`ExactState`, and a number that makes the Gram matrix of the arms positive definite."""

    shift: Array  # [], the number added to the diagonal of the Gram matrix

    @property
    def indefinite(self) -> Array:
        """Whether the Gram matrix has negative eigenvalues beyond rounding, [] bool."""
        return ~(self.shift <= LARGEST_SHIFT * _shift_unit(self.prior_variance))


def _shift_unit(prior_variance: Array) -> Array:
    """The unit of a shift, []: the prior variance, or 1 where it is zero or NaN."""
    return jnp.where(prior_variance > 0, prior_variance, 1)


@struct.dataclass
class TS(widths.ScaledWidth, ExactBandit):
    """Thompson sampling from the exact joint GP posterior of the arms.

    A sample is a draw from the prior over the arms that is conditioned on the observations
    (`posterior.exact.condition`). Every batch factorizes the Gram matrix of the arms in O(A^3);
    the factor is not stored. For more than EXACT_ARMS arms use SketchedTS.
    """

    scale: ArrayLike = 0.1  # factor on the width; with 1, as in the theory, TS hardly converges
    batch: int = struct.field(pytree_node=False, default=30)  # B

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ThompsonState:
        """The state before the first round. A call costs as much as a batch. Raises ValueError for
        invalid arguments, for more arms than EXACT_ARMS, and for a kernel that is not positive
        semi-definite on the arms."""
        domain = checks.arms(domain)
        if domain.count > EXACT_ARMS:
            raise ValueError(
                f"exact Thompson sampling factorizes an A x A matrix: {domain.count} arms are too"
                f" many (at most {EXACT_ARMS}). SketchedTS needs no such matrix."
            )
        prior = super().init(domain, key, data=data)
        floats = prior.domain.count * (prior.domain.count + 2 * self.batch)
        checks.memory(floats, prior.count.dtype, arms=prior.domain.count, batch=self.batch)
        arms, variance = prior.domain.features, prior.prior_variance
        first_shift = prior.domain.count * jnp.finfo(arms.dtype).eps * _shift_unit(variance)
        gram = in_dtype(self.kernel, arms.dtype).gram(arms, arms)
        _, shift = jax.jit(shifted_cholesky)(gram, first_shift)  # without jit the loop is slow
        state = ThompsonState(**vars(prior), shift=shift)
        if not is_traced(shift) and bool(state.indefinite):
            raise ValueError(
                "the kernel is not positive semi-definite on these arms: a Cholesky factorization"
                f" of their Gram matrix needs {float(shift):.2g} added to the diagonal, which is"
                f" up to {float(variance):.2g}. Check the kernel (a Precomputed table must be"
                " symmetric, with no negative eigenvalue)."
            )
        return state

    def samples(self, state: ThompsonState, key: PRNGKey) -> Array:
        """B independent draws [B,A] of the mean rewards of all arms."""
        prior_key, slot_key = jax.random.split(key)
        arms, posterior = state.domain.features, state.posterior
        kernel, lam = in_dtype((self.kernel, self.regularization), arms.dtype)
        # the shift adds independent noise with the variance `state.shift` to the draws
        root, _ = shifted_cholesky(kernel.gram(arms, arms), state.shift)
        normal = jax.random.normal(prior_key, (self.batch, state.domain.count), arms.dtype)
        coordinates = _slot_normals(slot_key, state.capacity, self.batch, arms.dtype)
        deviation = exact.condition(posterior, matmul(normal, root.T), coordinates, lam)
        return posterior.mean[None, :] + self.confidence_width(state) * deviation

    def ask(self, state: ThompsonState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return _query_of_samples(
            self.samples(state, key), state.first_arm, state.count == 0, limit, self.batch
        )

    def tell(  # type: ignore[override]
        self, state: ThompsonState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ThompsonState, Info]:
        new, info = super().tell(state, query, y, key)
        return new, replace(info, nonfinite=info.nonfinite | state.indefinite)


@struct.dataclass
class SketchedTS(widths.ScaledWidth, SketchedBandit):
    """Thompson sampling from BKB's posterior, without a table A x A or A x M. A batch costs
    O(A M^2 + A M B).

    A draw is mean + width (u(x).xi + sqrt(residual/lam) eps_x) with standard normal xi [M] and
    eps_x. u(x).xi is correlated between arms, and eps_x is independent from arm to arm; together
    they give every arm the variance sigma~^2.
    """

    scale: ArrayLike = 0.1  # factor on the width
    batch: int = struct.field(pytree_node=False, default=30)  # B

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> SketchState:
        checks.no_evaluations(self, data)
        state = super().init(domain, key)
        count, dtype = state.domain.count, state.mean.dtype
        checks.memory(2 * self.batch * count, dtype, batch=self.batch, arms=count)
        return state

    def samples(self, state: SketchState, key: PRNGKey) -> Array:
        """B independent draws [B,A] of the mean rewards of all arms."""
        feature_key, arm_key = jax.random.split(key)
        arms, rows = state.domain.features, state.domain.rows
        kernel, lam = in_dtype((self.kernel, self.regularization), arms.dtype)
        normal = _slot_normals(feature_key, state.capacity, self.batch, arms.dtype)
        weights = matmul(state.nystrom.root, matmul(state.whiten, normal.T))

        def embedded_samples(x: Array) -> Array:
            return matmul(kernel.gram(x, state.nystrom.points), weights)

        # in chunks, so that the memory does not hold a table A x M
        embedded = map_rows(embedded_samples, arms, state.capacity)
        residual = sketched.residuals(kernel, state)
        residual_sd = jnp.sqrt(residual / lam)
        noise = rows.normal(arm_key, (self.batch, arms.shape[0]), arms.dtype)
        deviation = embedded.T + residual_sd[None, :] * noise
        return state.mean[None, :] + self.confidence_width(state) * deviation

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        rows, unobserved = state.domain.rows, state.evidence.count == 0
        samples = rows.mask(self.samples(state, key), -jnp.inf)
        return _query_of_samples(samples, state.first_arm, unobserved, limit, self.batch, rows)

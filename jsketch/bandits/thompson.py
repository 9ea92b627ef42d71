"""Batch Thompson sampling with a fixed batch, on the exact and on the sketched posterior.

Kandasamy, Krishnamurthy, Schneider, Poczos. Parallelised Bayesian optimisation via Thompson
sampling. AISTATS 2018; with the settings of BBKB's experiments: batches of 30, the confidence width
divided by 10 (THEORY 6.1). Every slot of a batch draws its own function from N(mean, width^2
covariance) and takes its argmax.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, shards, struct
from jsketch.bandits.core import counts, exact_state, room, sketched, widths
from jsketch.bandits.core.over_arms import residuals
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.factor import shifted_cholesky
from jsketch.linalg import chunked, matmul
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query, Shard, is_traced

EXACT_ARMS = 10_000  # most arms A whose Gram matrix, A^2 numbers, is factored
SAMPLE_ENTRIES = 2_000_000  # kernel values in one chunk of arms
# of max k(x,x), the largest shift of the Gram matrix that passes for rounding: samples feel it as
# independent noise
LARGEST_SHIFT = 1e-3


def _slot_normals(key: PRNGKey, slots: int, batch: int, dtype: Any) -> Array:
    """Standard normals [batch, slots], drawn slot by slot: more slots leave the others' numbers as
    they are."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(slots, dtype=jnp.int32))
    return jax.vmap(lambda k: jax.random.normal(k, (batch,), dtype), out_axes=1)(keys)


def _batch(
    samples: Array,
    first_arm: Array,
    nothing_known: Array,
    limit: ArrayLike | None,
    size: int,
    shard: Shard | None = None,
) -> Query:
    """The argmax of each of the sampled functions [B,A]; a single uniform arm while nothing is
    known."""
    limit = jnp.clip(queries.limited(limit), 1, size)
    limit = jnp.where(nothing_known, 1, limit)
    index = jnp.where(nothing_known, first_arm, shards.argmax(shard, samples))
    return Query(index=index, mask=jnp.arange(size, dtype=jnp.int32) < limit)


@struct.dataclass
class ThompsonState:
    """`ExactState`, and what the Gram matrix of the arms needs to have a root."""

    domain: Arms  # A arms; never changes
    # [] int32, uniform; pulled while nothing is known, another one after it failed
    first_arm: Array
    posterior: Exact
    count: Array  # [], observations so far
    prior_variance: Array  # [], max_x k(x,x)
    # [], added to the diagonal of the Gram matrix, the least that makes it positive definite
    shift: Array

    @property
    def capacity(self) -> int:
        return self.posterior.basis.shape[0]

    @property
    def indefinite(self) -> Array:
        """Whether the Gram matrix is no covariance matrix, beyond rounding, [] bool."""
        return ~(self.shift <= LARGEST_SHIFT * _scale(self.prior_variance))


def _scale(prior_variance: Array) -> Array:
    """What a shift is measured by, []; a kernel that is zero, or none, needs one too."""
    return jnp.where(prior_variance > 0, prior_variance, 1)


_jitted_cholesky = jax.jit(shifted_cholesky)  # its loop would run a step at a time


@struct.dataclass
@one_dtype
class TS:
    """Thompson sampling from the exact GP posterior, joint over the arms.

    A sample is pathwise: a draw from the prior over the arms (one root of their Gram matrix a
    batch, O(A^3), nothing of it kept), in which the coordinates along the pulled arms are replaced
    by draws from their posterior. For more than EXACT_ARMS arms use SketchedTS.
    """

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    scale: ArrayLike = 0.1  # factor on the width; 1 is the theory's, which hardly converges
    width: widths.Width = widths.gp_ucb_code
    batch: int = struct.field(pytree_node=False, default=30)  # B
    capacity: int = struct.field(pytree_node=False, default=128)  # N distinct arms; `run` grows it

    def init(self, domain: Arms, key: PRNGKey) -> ThompsonState:
        """The prior; costs as much as a batch. Raises ValueError on static mistakes, for more arms
        than EXACT_ARMS, and for a kernel that is not positive semi-definite on the arms."""
        checks.confidence(self)
        checks.positive(scale=self.scale)
        checks.capacity(batch=self.batch)
        domain = checks.arms(domain)
        if domain.count > EXACT_ARMS:
            raise ValueError(
                f"exact Thompson sampling factors an A x A table: {domain.count} arms are too many"
                f" (at most {EXACT_ARMS})."
                " SketchedTS needs none."
            )
        prior = exact_state.start(self, domain, key)
        floats = prior.domain.count * (prior.domain.count + 2 * self.batch)
        checks.room(floats, prior.count.dtype, arms=prior.domain.count, batch=self.batch)
        arms, variance = prior.domain.features, prior.prior_variance
        first = prior.domain.count * jnp.finfo(arms.dtype).eps * _scale(variance)
        _, shift = _jitted_cholesky(self.kernel.gram(arms, arms), first)
        state = ThompsonState(
            prior.domain, prior.first_arm, prior.posterior, prior.count, variance, shift
        )
        if not is_traced(shift) and bool(state.indefinite):
            raise ValueError(
                "the kernel is not positive semi-definite on these arms: their table of kernel"
                " values needs"
                f" {float(shift):.2g} on its diagonal of {float(variance):.2g} to have a root."
                " Check the kernel (a"
                " Precomputed table must be symmetric, with no negative eigenvalue)."
            )
        return state

    def confidence_width(self, state: ThompsonState) -> Array:
        """The factor on the posterior's standard deviation, []."""
        return jnp.asarray(
            self.scale * self.width(exact_state.evidence(state), widths.assumptions(self))
        )

    def samples(self, state: ThompsonState, key: PRNGKey) -> Array:
        """B independent draws from N(mean, width^2 covariance), [B,A], covariance in leverage
        units."""
        prior_key, slot_key = jax.random.split(key)
        arms, posterior = state.domain.features, state.posterior
        # samples feel the shift of a singular Gram matrix as independent noise of that variance
        root, _ = shifted_cholesky(self.kernel.gram(arms, arms), state.shift)
        normal = jax.random.normal(prior_key, (self.batch, state.domain.count), arms.dtype)
        deviation = exact.condition(
            posterior,
            matmul(normal, root.T),
            _slot_normals(slot_key, state.capacity, self.batch, arms.dtype),
            self.regularization,
        )
        return posterior.mean[None, :] + self.confidence_width(state) * deviation

    def ask(self, state: ThompsonState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return _batch(
            self.samples(state, key), state.first_arm, state.count == 0, limit, self.batch
        )

    def tell(
        self, state: ThompsonState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ThompsonState, Info]:
        new, info = exact_state.learn(self, state, query, y, self.confidence_width(state), key)
        return new, replace(info, nonfinite=info.nonfinite | state.indefinite)

    def grow(self, state: ThompsonState, capacity: int) -> ThompsonState:
        """The same state with room for `capacity` distinct arms."""
        return replace(state, posterior=exact.grow(state.posterior, capacity))


@struct.dataclass
@one_dtype
class SketchedTS:
    """Thompson sampling from BKB's posterior, O(A M B) a batch and no table of A x A or A x M.

    A draw is mean + width (u(x).xi + sqrt(residual/lam) eps_x): the embedded part is joint over the
    arms, the part that the dictionary does not see is independent from arm to arm. Every arm has
    exactly the variance sigma~^2.
    """

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    qbar: ArrayLike = 2.0  # oversampling
    scale: ArrayLike = 0.1  # factor on the width
    width: widths.Width = widths.bkb_code
    batch: int = struct.field(pytree_node=False, default=30)  # B
    capacity: int = struct.field(pytree_node=False, default=64)  # M; `run` grows it

    def init(self, domain: Arms, key: PRNGKey) -> SketchState:
        """The state before the first round. Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.positive(qbar=self.qbar, scale=self.scale)
        room.check_bandit(self)
        checks.capacity(batch=self.batch)
        domain = checks.arms(domain)
        checks.model(domain, self.kernel, self.regularization)
        room.check_room(domain, self.capacity)
        checks.room(
            2 * self.batch * domain.count,
            domain.features.dtype,
            batch=self.batch,
            arms=domain.count,
        )
        return sketched.start(domain, self.kernel, self.regularization, self.capacity, key, None)

    def confidence_width(self, state: SketchState) -> Array:
        """The factor on the posterior's standard deviation, []."""
        return jnp.asarray(self.scale * self.width(state.evidence, widths.assumptions(self)))

    def samples(self, state: SketchState, key: PRNGKey) -> Array:
        """B independent draws, [B,A]."""
        feature_key, arm_key = jax.random.split(key)
        arms = state.domain.features
        normal = _slot_normals(feature_key, state.capacity, self.batch, arms.dtype)
        weights = matmul(state.nystrom.root, matmul(state.whiten, normal.T))
        count, rows = chunked(arms.shape[0], max(SAMPLE_ENTRIES // state.capacity, 1))
        padded = jnp.pad(arms, ((0, count * rows - arms.shape[0]), (0, 0)), mode="edge")

        def chunk(x: Array) -> Array:
            return matmul(self.kernel.gram(x, state.nystrom.points), weights)

        embedded = lax.map(chunk, padded.reshape(count, rows, -1)).reshape(-1, self.batch)[
            : arms.shape[0]
        ]
        residual = residuals(self.kernel, state.nystrom, state.dictionary, arms, state.domain.shard)
        unseen = jnp.sqrt(residual / self.regularization)
        noise = shards.normal(state.domain.shard, arm_key, self.batch, arms.shape[0], arms.dtype)
        return state.mean[None, :] + self.confidence_width(state) * (
            embedded.T + unseen[None, :] * noise
        )

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return _batch(
            shards.padded(state.domain.shard, self.samples(state, key), -jnp.inf),
            state.first_arm,
            state.evidence.count == 0,
            limit,
            self.batch,
            state.domain.shard,
        )

    def tell(
        self, state: SketchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SketchState, Info]:
        query, y = queries.feedback(state.domain, query, y)
        feedback = counts.absorb(
            state.pull_counts, state.reward_sums, state.variance, query, y, state.domain.shard
        )
        return sketched.apply_feedback(
            state, feedback, query, self.confidence_width(state), key, self
        )

    def grow(self, state: SketchState, capacity: int) -> SketchState:
        """The same state with room for `capacity` inducing points."""
        return room.grow(state, capacity)

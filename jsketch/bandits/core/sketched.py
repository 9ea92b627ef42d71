"""What BKB and BBKB share: the sketched posterior over a finite set of arms, and its refresh from
counts.

Nothing of size A x M is stored: a refresh sweeps the arms in chunks, and the few arms that a batch
checks get their features again from the dictionary. Memory O(A d + M^2). The refresh recomputes
everything from the history, so no rounding survives a batch. Cost O((A + n) m^2 + m^3), n distinct
pulled arms.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, shards, struct
from jsketch.bandits.core import over_arms
from jsketch.bandits.core.counts import Feedback, resample_initial_arm
from jsketch.bandits.core.widths import Evidence, Width, nothing_observed
from jsketch.linalg import matmul, sequential_vmap, squares_upper
from jsketch.posterior import ridge
from jsketch.sketch import dictionary as dictionaries
from jsketch.sketch import nystrom as nystroms
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.nystrom import Nystrom
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query, Shard, attach, detach


@struct.dataclass
class SketchState:
    """History, dictionary and posterior at the start of a batch; everything but the history follows
    from it."""

    domain: Arms  # A arms; never changes
    # [] int32, uniform; pulled while nothing is known (BKB Fig. 1: all scores tie), another one
    # after it failed
    first_arm: Array
    pull_counts: Array  # [A]
    reward_sums: Array  # [A]
    dictionary: Dictionary  # M slots
    nystrom: Nystrom  # of the dictionary
    whiten: Array  # [M, M], upper triangular; u(x) = z(x) @ whiten, e(x,x') = u(x).u(x')
    weights: Array  # [M]; mean(x) = u(x) . weights
    mean: Array  # [A]
    variance: Array  # [A], leverage units
    evidence: Evidence
    # [] int32, inducing points of a warm start for which there was no room: it is not what was
    # asked for, and `tell` applies nothing to it. Only under jit and vmap: elsewhere `init` raises
    missing: Array
    rounding: Array  # [], an upper estimate of the errors of `variance`, see `nystrom.sensitivity`

    @property
    def capacity(self) -> int:
        return self.dictionary.capacity

    @property
    def imprecise(self) -> Array:
        """Whether rounding may change variances by more than checks.LARGEST_ROUNDING, [] bool."""
        return _imprecise(self, None)


def _imprecise(state: SketchState, shard: Shard | None) -> Array:
    largest = shards.largest(shard, jnp.max(state.variance))
    return state.rounding > checks.LARGEST_ROUNDING * largest


class Sketching(Protocol):
    """What is read of an algorithm on a sketched posterior."""

    kernel: Kernel
    regularization: ArrayLike
    qbar: ArrayLike
    width: Width
    capacity: int


def refresh(state: SketchState, kernel: Kernel, regularization: ArrayLike) -> SketchState:
    """Recomputes embedding and posterior from the history and the dictionary of `state` (BBKB Alg.
    1, L17-18)."""
    arms, shard = state.domain.features, state.domain.shard
    points, mask = shards.take(shard, arms, state.dictionary.index), state.dictionary.mask
    nystrom, own = nystroms.build_with_features(kernel, points, mask)
    # a position outside drops what is written there
    own_rows = shards.local(shard, state.dictionary.index, arms.shape[0])
    index = jnp.where(mask, own_rows, arms.shape[0])
    outside = jnp.ones(arms.shape[0], bool).at[index].set(False, mode="drop")
    pulled = over_arms.Pulled(state.domain, state.pull_counts, state.reward_sums)
    moments = over_arms.moments(kernel, nystrom, pulled, state.dictionary, own, outside)
    posterior = ridge.fit(moments.gram, moments.moment, regularization)
    mean, variance, sensitivity = sequential_vmap(
        over_arms.sweep, kernel, nystrom, posterior, arms, regularization
    )
    # an arm of the dictionary is represented exactly: the rounding of k(x,x) - |z|^2 would be
    # divided by lam (THEORY 9.1)
    variance = variance.at[index].set(squares_upper(own, posterior.whiten), mode="drop")
    evidence = replace(
        state.evidence,
        count=shards.total(shard, state.pull_counts.sum()),
        variance_sum=shards.total(shard, matmul(state.pull_counts, variance)),
        logdet=posterior.logdet,
        residual_sum=moments.residual_sum,
    )
    # of about 1 unless the table of the sweep is large and the points are far apart
    eps = jnp.finfo(arms.dtype).eps * checks.roundings(kernel, nystrom.points, state.domain.count)
    return replace(
        state,
        nystrom=nystrom,
        whiten=posterior.whiten,
        weights=posterior.weights,
        mean=mean,
        variance=variance,
        evidence=evidence,
        rounding=eps
        * evidence.prior_variance
        * shards.largest(shard, sensitivity)
        / regularization,
    )


@partial(jax.jit, static_argnums=4)
def _fresh(
    domain: Arms, first_arm: Array, diag: Array, regularization: ArrayLike, capacity: int
) -> SketchState:
    """The state before anything is known, without its domain. One program: operation by
    operation it would compile for half a second."""
    arms, shard = domain.features, domain.shard
    zeros = jnp.zeros_like(diag)
    zero = jnp.zeros((), arms.dtype)
    square = jnp.zeros((capacity, capacity), arms.dtype)
    first = shards.take(shard, arms, jnp.zeros((), jnp.int32))
    state = SketchState(
        domain=domain,
        first_arm=first_arm,
        pull_counts=zeros,
        reward_sums=zeros,
        dictionary=dictionaries.empty(capacity),
        nystrom=Nystrom(points=jnp.broadcast_to(first, (capacity, arms.shape[1])), root=square),
        whiten=square,
        weights=square[0],
        mean=zeros,
        variance=diag / regularization,
        evidence=nothing_observed(shards.largest(shard, jnp.max(diag)), arms.dtype),
        missing=jnp.zeros((), jnp.int32),
        rounding=zero,
    )
    return detach(state)


def start(
    domain: Arms,
    kernel: Kernel,
    regularization: ArrayLike,
    capacity: int,
    key: PRNGKey,
    history: tuple[Array, Array, Array] | None,
) -> SketchState:
    """The state before the first round. history = (pull_counts [A], reward_sums [A], keep [A] bool)
    of observed evaluations, whose dictionary is the arms in keep; the widths then start from the
    upper end of THEORY 2.4."""
    checks.one_key(key=key)
    checks.spread(domain, kernel, capacity)
    first_arm = jax.random.randint(key, (), 0, domain.count, jnp.int32)
    diag = kernel.diag(domain.features)
    state = attach(_fresh(domain, first_arm, diag, regularization, capacity), domain)
    if history is None:
        return state
    (pull_counts, reward_sums, keep), shard = history, domain.shard
    dictionary, _ = dictionaries.of_arms(keep, capacity, shard)
    missing = shards.total(shard, keep.sum(dtype=jnp.int32)) - dictionary.size
    state = refresh(
        replace(
            state,
            pull_counts=pull_counts,
            reward_sums=reward_sums,
            dictionary=dictionary,
            missing=missing,
        ),
        kernel,
        regularization,
    )
    return known_from_here(state, regularization)


def known_from_here(state: SketchState, regularization: ArrayLike) -> SketchState:
    """The state with the information of its data set to the upper end of THEORY 2.4, as after a
    warm start."""
    upper = state.evidence.logdet + state.evidence.residual_sum / regularization
    return replace(
        state, evidence=replace(state.evidence, information=upper, information_sketched=upper)
    )


def apply_feedback(
    state: SketchState,
    feedback: Feedback,
    query: Query,
    width: Array,
    key: PRNGKey,
    bandit: Sketching,
    uniform: Array | None = None,
) -> tuple[SketchState, Info]:
    """Resparsifies with the variances at the start of the batch, then refreshes: (state, info).
    `uniform` as in `dictionary.resample`.

    When the new dictionary does not fit, or that of the state's own warm start did not, the round
    is not applied: the old state comes back, and info.overflow is true.
    """
    shard = state.domain.shard
    dictionary, overflow = dictionaries.resample(
        key,
        feedback.pull_counts,
        state.variance,
        bandit.qbar,
        state.capacity,
        shard,
        uniform,
    )
    overflow = overflow | (state.missing > 0)
    evidence = replace(
        state.evidence,
        information=state.evidence.information + feedback.information,
        information_sketched=state.evidence.information_sketched + feedback.information_sketched,
    )
    failed = query.mask.any() & (shards.total(shard, feedback.pull_counts.sum()) == 0)
    told = replace(
        state,
        first_arm=resample_initial_arm(state.first_arm, failed, state.domain.count, key),
        pull_counts=feedback.pull_counts,
        reward_sums=feedback.reward_sums,
        dictionary=dictionary,
        evidence=evidence,
    )
    new = refresh(told, bandit.kernel, bandit.regularization)
    finite = jnp.isfinite(new.mean).all() & jnp.isfinite(new.variance).all() & jnp.isfinite(width)
    finite = shards.everywhere(shard, finite)
    new = jax.tree.map(
        lambda before, after: jnp.where(overflow, before, after),
        detach(state),
        detach(new),
    )
    info = Info(
        batch_size=query.size.astype(jnp.int32),
        observed=feedback.observed,
        dictionary_size=dictionary.size,
        width=width,
        overflow=overflow,
        truncated=jnp.zeros((), bool),
        nonfinite=feedback.infinite | ~finite,
        imprecise=_imprecise(new, shard),
    )
    return attach(new, state.domain), info

"""Fixed-size batches, as a laboratory evaluates them (96 at a time, a round of 1,000), and
evaluations that are still pending when the next batch is chosen.

The posterior is BKB's. Within a batch every pick is hallucinated: its variance effect is counted,
its reward is not (Desautels et al. 2014), and pending evaluations are counted the same way. A fixed
batch outgrows the region that the dictionary represents, so picks are conditioned on with the full
sketched covariance k~ (BBKB eq. 2), a prior in which different arms differ even where the
dictionary is empty; BBKB's adaptive batches need only its embedded part e.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.bandits.core import counts, room, sketched, warm_start, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.linalg import compact, matmul, put, running_count
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query, attach, detach, is_traced


@struct.dataclass
class FixedBatchState:
    """BKB's state, and what has been asked for but not observed."""

    domain: Arms
    sketch: SketchState  # without its domain
    pending: Array  # [A], pending evaluations of each arm
    tried: Array  # [A] bool, arms that were evaluated, failed evaluations included

    @property
    def capacity(self) -> int:
        return self.sketch.capacity


class _Pulls(NamedTuple):
    """Hallucinated pulls, R slots; the covariance of slot j with an arm x is k~(x, x_j), its noise
    variance 1/n_j."""

    points: Array  # [R, d]
    z: Array  # [R, M]
    u: Array  # [R, M]
    inverse: Array  # [R, R], L^-1 of the pulls' covariance plus noise; rows of free slots are zero


class _Batch(NamedTuple):
    arms: Array  # [B] int32
    size: Array  # [] int32
    scores: Array  # [A], upper bounds of the current upper confidence bounds
    pulls: _Pulls


def _parts(
    state: SketchState, kernel: Kernel, lam: ArrayLike, pulls: _Pulls, x: Array
) -> tuple[Array, ...]:
    """(z [M], u [M], L^-1 c [R]) of a point x [d], c its covariance with the pulls."""
    k = kernel.gram(x[None], state.nystrom.points)
    z = matmul(k, state.nystrom.root)[0]
    u = matmul(z, state.whiten)
    unseen = kernel.gram(x[None], pulls.points)[0] - matmul(pulls.z, z)
    return z, u, matmul(pulls.inverse, unseen / lam + matmul(pulls.u, u))


def _add(
    pulls: _Pulls,
    slot: Array,
    x: Array,
    parts: tuple[Array, ...],
    variance: Array,
    count: ArrayLike,
) -> _Pulls:
    """One more slot: `count` > 0 pulls of the arm x whose full variance before the batch is
    `variance`."""
    z, u, half = parts
    pivot = jnp.sqrt(jnp.maximum(variance - matmul(half, half), 0) + 1 / count)
    row = put(-matmul(half, pulls.inverse) / pivot, slot, 1 / pivot)
    return _Pulls(
        put(pulls.points, slot, x),
        put(pulls.z, slot, z),
        put(pulls.u, slot, u),
        put(pulls.inverse, slot, row),
    )


@struct.dataclass
@one_dtype
class FixedBKB:
    """BKB in batches of a fixed size. No bound on the variance ratio ends a batch: `ratio` scales
    the width only."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    qbar: ArrayLike = 2.0  # oversampling
    ratio: ArrayLike = 1.0  # C of the width
    width: widths.Width = widths.bbkb_code
    batch: int = struct.field(pytree_node=False, default=96)  # B
    # P distinct arms pending at an `ask`
    max_pending: int = struct.field(pytree_node=False, default=0)
    capacity: int = struct.field(pytree_node=False, default=64)  # M; `run` grows it
    # most inducing points; a draw of more is scaled to it (THEORY 3.6). None: no limit
    max_dictionary: int | None = struct.field(pytree_node=False, default=None)
    # False: no arm is asked for twice, failed evaluations count; a batch ends when none is left,
    # the next ones are empty
    repeat: bool = struct.field(pytree_node=False, default=True)

    def init(
        self,
        domain: Arms,
        key: PRNGKey,
        *,
        pull_counts: Any = None,
        reward_sums: Any = None,
        dictionary: Any = None,
        failed: Any = None,
    ) -> FixedBatchState:
        """As `BKB.init`; `failed` holds arms [n] whose evaluations failed, which pull counts leave
        out. Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.positive(qbar=self.qbar)
        checks.at_least_one(ratio=self.ratio)
        checks.capacity(batch=self.batch)
        capacity = room.slots(self)
        checks.count(max_pending=self.max_pending)
        checks.truth(repeat=self.repeat)
        domain = checks.arms(domain)
        checks.model(domain, self.kernel, self.regularization)
        room.check_room(domain, capacity)
        slots = self.batch + self.max_pending
        floats = 2 * slots * (slots + 2 * capacity)
        checks.room(floats, domain.features.dtype, batch=self.batch, max_pending=self.max_pending)
        known = warm_start.checked(self, domain, key, pull_counts, reward_sums, dictionary)
        state = sketched.start(domain, self.kernel, self.regularization, capacity, key, known)
        tried = state.pull_counts > 0
        if failed is not None:
            checks.arm_numbers(domain, failed=failed)
            tried = tried.at[queries.or_none(domain, failed)].set(True, mode="drop")
        return FixedBatchState(domain, detach(state), jnp.zeros_like(state.pull_counts), tried)

    def remaining(self, state: FixedBatchState) -> Array | None:
        """Evaluations that can still be asked for, [] int32; None: any number."""
        return None if self.repeat else (~self._taken(state)).sum(dtype=jnp.int32)

    def _taken(self, state: FixedBatchState) -> Array:
        return state.tried | (state.sketch.pull_counts > 0) | (state.pending > 0)

    def pend(self, state: FixedBatchState, query: Query) -> FixedBatchState:
        """The state with the query pending: until they are observed, its evaluations lower
        variances and not means.

        Raises ValueError when more than max_pending distinct arms would be pending, and for an arm
        that is not there (where arms are traced it is left out, and `tell` flags it).
        """
        query = queries.on_arms(state.domain, query)
        ones = query.mask.astype(state.pending.dtype)
        pending = state.pending.at[query.index].add(ones)
        if not is_traced(pending) and int((pending > 0).sum()) > self.max_pending:
            raise ValueError(
                f"{int((pending > 0).sum())} distinct arms would be pending, max_pending is"
                f" {self.max_pending}: raise it."
            )
        return replace(state, pending=pending)

    def confidence_width(self, state: FixedBatchState) -> Array:
        """The width of a batch, []."""
        return self.width(state.sketch.evidence, widths.assumptions(self, self.ratio))

    def _conditioned_on_pending(self, state: FixedBatchState) -> _Pulls:
        slots, (size, d) = self.max_pending + self.batch, state.domain.features.shape
        square = jnp.zeros((slots, state.capacity), state.pending.dtype)
        inverse = jnp.zeros((slots, slots), state.pending.dtype)
        pulls = _Pulls(
            jnp.broadcast_to(state.domain.features[0], (slots, d)), square, square, inverse
        )
        if self.max_pending == 0:
            return pulls
        index, valid = compact(running_count(state.pending > 0), 0, min(self.max_pending, size))

        def add(i: Array, pulls: _Pulls) -> _Pulls:
            arm = index[i]
            x = state.domain.features[arm]
            parts = _parts(state.sketch, self.kernel, self.regularization, pulls, x)
            return _add(pulls, i, x, parts, state.sketch.variance[arm], state.pending[arm])

        return lax.fori_loop(0, valid.sum(dtype=jnp.int32), add, pulls)

    def _top(self, state: FixedBatchState, batch: _Batch, width: Array) -> tuple[Array, Array]:
        """(arm, scores): refreshes the arm with the largest stored score until it stays the
        largest."""
        sketch, features = state.sketch, state.domain.features

        def refresh(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            _, arm, scores = carry
            _, _, half = _parts(
                sketch, self.kernel, self.regularization, batch.pulls, features[arm]
            )
            variance = jnp.maximum(sketch.variance[arm] - matmul(half, half), 0)
            scores = put(scores, arm, sketch.mean[arm] + width * jnp.sqrt(variance))
            best = jnp.argmax(scores).astype(jnp.int32)
            return best == arm, best, scores

        start = (jnp.zeros((), bool), jnp.argmax(batch.scores).astype(jnp.int32), batch.scores)
        _, arm, scores = lax.while_loop(lambda c: ~c[0], refresh, start)
        return arm, scores

    def ask(self, state: FixedBatchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        sketch, features = state.sketch, state.domain.features
        width = self.confidence_width(state)
        limit = jnp.clip(queries.limited(limit), 1, self.batch)
        nothing = (sketch.evidence.count == 0) & (state.pending.sum() == 0)
        begin = (state.pending > 0).sum(dtype=jnp.int32)
        scores = sketch.mean + width * jnp.sqrt(sketch.variance)
        if not self.repeat:
            taken = self._taken(state)
            nothing = nothing & ~taken[sketch.first_arm]
            scores = jnp.where(taken, -jnp.inf, scores)
            limit = jnp.minimum(limit, (~taken).sum(dtype=jnp.int32))

        def pick(batch: _Batch) -> _Batch:
            arm, scores = self._top(state, batch, width)
            # the very first pick is uniform: all scores tie
            arm = jnp.where(nothing & (batch.size == 0), sketch.first_arm, arm)
            parts = _parts(sketch, self.kernel, self.regularization, batch.pulls, features[arm])
            pulls = _add(
                batch.pulls,
                begin + batch.size,
                features[arm],
                parts,
                sketch.variance[arm],
                jnp.ones_like(width),
            )
            if not self.repeat:
                scores = put(scores, arm, jnp.full_like(width, -jnp.inf))
            return _Batch(put(batch.arms, batch.size, arm), batch.size + 1, scores, pulls)

        zero = jnp.zeros((), jnp.int32)
        start = _Batch(
            jnp.zeros(self.batch, jnp.int32), zero, scores, self._conditioned_on_pending(state)
        )
        batch = lax.while_loop(lambda b: b.size < limit, pick, start)
        return Query(index=batch.arms, mask=jnp.arange(self.batch, dtype=jnp.int32) < batch.size)

    def tell(
        self, state: FixedBatchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[FixedBatchState, Info]:
        """Any part of what was asked for, in any order: slots with a false mask stay pending, a NaN
        is a failure."""
        query, y = queries.feedback(state.domain, query, y)
        sketch = attach(state.sketch, state.domain)
        feedback = counts.absorb(sketch.pull_counts, sketch.reward_sums, sketch.variance, query, y)
        new, info = sketched.apply_feedback(
            sketch, feedback, query, self.confidence_width(state), key, self
        )
        left = state.pending.at[query.index].add(-query.mask.astype(state.pending.dtype))
        pending = jnp.where(info.overflow, state.pending, jnp.maximum(left, 0))
        many = (state.pending > 0).sum() > self.max_pending
        # padding is masked: it sets nothing
        tried = state.tried.at[query.index].max(query.mask & ~info.overflow)
        new_state = replace(state, sketch=detach(new), pending=pending, tried=tried)
        return new_state, replace(info, truncated=many)

    def grow(self, state: FixedBatchState, capacity: int) -> FixedBatchState:
        """The same state with room for `capacity` inducing points, or for `max_dictionary`."""
        return replace(state, sketch=room.grow(state.sketch, capacity, self.max_dictionary))

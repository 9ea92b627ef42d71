"""BKB and BBKB where arms are points: a new candidate matrix at every step (contexts), or a box of
infinitely many.

The history is kept as points. It is itself a finite set of arms, so that posterior and resampling
are those of `sketched`, over H slots of history; candidates are only ever read. Within a batch
dictionary and feedback are frozen and every pick is hallucinated, as in BBKB; with ratio C = 1
every pick is a batch, as in BKB. Cost O(H m^2 + m^3) a batch and O(A m) a choice among A
candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, room, sketched, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.linalg import matmul, put
from jsketch.posterior import ridge
from jsketch.precision import in_dtype, one_dtype
from jsketch.search import maximise_over_box
from jsketch.sketch import nystrom
from jsketch.types import Arms, Box, Info, Kernel, PRNGKey, Query, is_traced


@struct.dataclass
class PointState:
    """BKB's state over the points of the history, and the unfinished batch."""

    sketch: SketchState  # its domain is the history [H, d]
    used: Array  # [] int32, slots of the history in use, the unfinished batch included
    begun: Array  # [] int32, slot of the first pick of the unfinished batch
    precision: Array  # [M, M] of the hallucinated pulls
    bound: Array  # [], 1 + sum of variances over the batch (BBKB Lemma 1)

    @property
    def capacity(self) -> int:
        return self.sketch.capacity

    @property
    def batch_size(self) -> Array:
        """Picks of the unfinished batch, []."""
        return self.used - self.begun


@struct.dataclass
@one_dtype
class PointBBKB:
    """BBKB over points. `choose` or `maximise` a point, `pull` it, and `tell` the rewards once
    `ends` says so."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    qbar: ArrayLike = 2.0  # oversampling
    ratio: ArrayLike = 2.0  # C >= 1; 1 is BKB, one evaluation a batch
    width: widths.Width = widths.bbkb_code
    max_batch: int = struct.field(pytree_node=False, default=64)  # B
    # H, evaluations in all; `extend` grows it
    max_history: int = struct.field(pytree_node=False, default=1024)
    capacity: int = struct.field(pytree_node=False, default=64)  # M; `grow` grows it

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> PointState:
        """The state before the first pick, for points with `dimension` inputs. Raises ValueError on
        static mistakes."""
        checks.confidence(self)
        checks.positive(qbar=self.qbar)
        checks.at_least_one(ratio=self.ratio)
        checks.capacity(dimension=dimension, max_batch=self.max_batch, max_history=self.max_history)
        room.check_bandit(self)
        dtype = checks.floating(dtype=dtype or jnp.zeros(()).dtype)
        floats = self.max_history * (dimension + 5) + 3 * self.capacity**2
        checks.room(floats, dtype, max_history=self.max_history, capacity=self.capacity)
        checks.model(Arms(jnp.zeros((1, dimension), dtype)), self.kernel, self.regularization)
        kernel, regularization = in_dtype((self.kernel, self.regularization), dtype)
        slots = Arms(jnp.zeros((self.max_history, dimension), dtype))
        sketch = sketched.start(slots, kernel, regularization, self.capacity, key, None)
        zero, one = jnp.zeros((), jnp.int32), jnp.ones((), slots.features.dtype)
        return PointState(sketch, zero, zero, jnp.eye(self.capacity, dtype=one.dtype), one)

    def confidence_width(self, state: PointState) -> Array:
        """alpha~_fb, []."""
        return self.width(state.sketch.evidence, widths.assumptions(self, self.ratio))

    def posterior(self, state: PointState, x: Array) -> tuple[Array, Array]:
        """(mean [n], variance [n] in leverage units, the unfinished batch hallucinated) at points x
        [n,d]."""
        mean, residual, u = self.read(state, x)
        embedded = jnp.maximum((matmul(u, state.precision) * u).sum(1), 0)
        return mean, residual / self.regularization + embedded

    def read(self, state: PointState, x: Array) -> tuple[Array, Array, Array]:
        """(mean [n], residual [n], whitened features [n,M]) at points x [n,d], with the feedback
        observed so far."""
        k = self.kernel.gram(x, state.sketch.nystrom.points)
        z = matmul(k, state.sketch.nystrom.root)
        u = matmul(z, state.sketch.whiten)
        residual = nystrom.residual(self.kernel.diag(x), z)
        return matmul(u, state.sketch.weights), residual, u

    def scores(self, state: PointState, x: Array) -> Array:
        """Upper confidence bounds at points x [n,d], [n]."""
        mean, variance = self.posterior(state, x)
        # differentiable where the variance is zero
        return mean + self.confidence_width(state) * jnp.sqrt(jnp.maximum(variance, 1e-12))

    def choose(self, state: PointState, key: PRNGKey, candidates: Array) -> Array:
        """The number [] of the best of the candidates [A,d]; a uniform one while nothing is known.

        Raises ValueError for an empty or non-finite matrix and one with another number of inputs
        than the history's.
        """
        checks.candidates(candidates, state.sketch.domain.features.shape[1])
        checks.kernel_on(self.kernel, candidates)
        uniform = jax.random.randint(key, (), 0, candidates.shape[0], jnp.int32)
        return jnp.where(
            state.used == 0, uniform, jnp.argmax(self.scores(state, candidates)).astype(jnp.int32)
        )

    def maximise(self, state: PointState, key: PRNGKey, box: Box) -> Array:
        """The point [d] of the box with the largest upper confidence bound found by gradient ascent
        from many starts; a uniform one while nothing is known. Raises ValueError for another number
        of inputs than the history's."""
        checks.box(box, state.sketch.domain.features.shape[1])
        # of the two draws with this key one is used
        best, _ = maximise_over_box(lambda x: self.scores(state, x), key, box)
        uniform = jax.random.uniform(key, box.lower.shape, best.dtype, box.lower, box.upper)
        return jnp.where(state.used == 0, uniform, best)

    def pull(self, state: PointState, x: Array) -> PointState:
        """The state with the point x [d] picked: it joins the batch, and lowers variances until its
        reward is observed.

        Raises ValueError when batch or history are full (traced, such a pick is dropped: check
        `ends` and `full`), and for a point of another number of inputs or that is not finite.
        """
        x = checks.example(x)
        checks.candidates(x[None], state.sketch.domain.features.shape[1])
        if not is_traced(state, x) and bool(self.full(state)):
            raise ValueError(
                f"no room for another pick: tell the batch (max_batch = {self.max_batch}), or"
                " `extend` the history"
                f" (max_history = {state.sketch.domain.count})."
            )
        return self.pulled(state, x)

    def pulled(self, state: PointState, x: Array) -> PointState:
        """`pull` without its checks: a pick for which there is no room is dropped."""
        _, residual, u = self.read(state, x[None])
        direction, e = ridge.whitened_gain(state.precision, u[0])
        spent = residual[0] / self.regularization + jnp.square(u[0]).sum()
        slot = jnp.minimum(state.used, state.sketch.domain.count - 1)
        sketch = replace(
            state.sketch,
            domain=Arms(put(state.sketch.domain.features, slot, x)),
            variance=put(state.sketch.variance, slot, spent),
            evidence=replace(
                state.sketch.evidence,
                prior_variance=jnp.maximum(
                    state.sketch.evidence.prior_variance, self.kernel.diag(x[None])[0]
                ),
            ),
        )
        picked = replace(
            state,
            sketch=sketch,
            used=state.used + 1,
            precision=ridge.hallucinate(state.precision, direction, e),
            bound=state.bound + spent,
        )
        full = self.full(state)
        return jax.tree.map(lambda old, new: jnp.where(full, old, new), state, picked)

    def ends(self, state: PointState) -> Array:
        """True when the batch has to be observed before another pick, [] (BBKB Lemma 1, or its
        capacity B)."""
        return (state.bound > self.ratio) | (state.batch_size >= self.max_batch)

    def full(self, state: PointState) -> Array:
        """True when a pick has no slot, [] bool."""
        return (state.batch_size >= self.max_batch) | (state.used >= state.sketch.domain.count)

    def tell(self, state: PointState, y: Array, key: PRNGKey) -> tuple[PointState, Info]:
        """Rewards y [B] of the batch in the order of its picks, NaN where nothing was observed and
        beyond the batch."""
        slots = jnp.arange(self.max_batch, dtype=jnp.int32)
        index = jnp.minimum(state.begun + slots, state.sketch.domain.count - 1)
        query = Query(index=index, mask=slots < state.batch_size)
        y = queries.rewards(query, y, state.bound.dtype)
        old = state.sketch
        feedback = counts.absorb(old.pull_counts, old.reward_sums, old.variance, query, y)
        sketch, info = sketched.apply_feedback(
            old, feedback, query, self.confidence_width(state), key, self
        )
        after = PointState(
            sketch,
            state.used,
            state.used,
            jnp.eye(state.capacity, dtype=y.dtype),
            jnp.ones_like(state.bound),
        )
        new = jax.tree.map(lambda a, b: jnp.where(info.overflow, a, b), state, after)
        full = state.batch_size >= self.max_batch
        return new, replace(info, truncated=full & (state.bound <= self.ratio))

    def grow(self, state: PointState, capacity: int) -> PointState:
        """The same state with room for `capacity` inducing points."""
        sketch = room.grow(state.sketch, capacity)
        precision = jnp.pad(state.precision, (0, sketch.capacity - state.capacity))
        free = jnp.arange(sketch.capacity) >= state.capacity
        return replace(
            state,
            sketch=sketch,
            precision=jnp.where(free[:, None] & jnp.eye(sketch.capacity, dtype=bool), 1, precision),
        )

    def extend(self, state: PointState, max_history: int) -> PointState:
        """The same state with room for `max_history` evaluations."""
        checks.larger(state.sketch.domain.count, max_history=max_history)
        extra = max_history - state.sketch.domain.count
        rows = ("pull_counts", "reward_sums", "mean", "variance")
        padded: dict[str, Any] = {
            name: jnp.pad(getattr(state.sketch, name), (0, extra)) for name in rows
        }
        features = jnp.pad(state.sketch.domain.features, ((0, extra), (0, 0)))
        return replace(state, sketch=replace(state.sketch, domain=Arms(features), **padded))

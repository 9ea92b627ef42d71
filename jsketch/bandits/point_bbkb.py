"""BKB and BBKB for candidates that are points and not arms of a fixed list: a new set of candidates
in every step (contextual bandits), or a box.

The H slots of the history are treated as arms, so that the posterior and the resampling are those
of `sketched`. Within a batch, the dictionary and the feedback are frozen and every pick is
hallucinated, as in BBKB. A batch costs O(H m^2 + m^3), a choice among A candidates O(A m^2).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, sketched, widths
from jsketch.bandits.core.sketched import SketchedBandit, SketchState
from jsketch.bandits.core.widths import ucb
from jsketch.linalg import matmul, pad_identity, put
from jsketch.posterior import ridge
from jsketch.search import maximise_over_box
from jsketch.sketch import nystrom
from jsketch.struct import in_dtype
from jsketch.types import Arms, Box, Info, PRNGKey, Query, is_traced


@struct.dataclass
class PointState:
    """BKB's state over the points of the history, and the unfinished batch."""

    sketch: SketchState  # its domain is the history [H, d]
    used: Array  # [] int32, number of slots of the history in use, the unfinished batch included
    batch_start: Array  # [] int32, the slot of the first pick of the unfinished batch
    weight_covariance: Array  # [M, M], (I + sum_s u_s u_s^T)^-1, s in the unfinished batch
    bound: Array  # [], 1 + sum of variances over the unfinished batch (BBKB Lemma 1)

    @property
    def capacity(self) -> int:
        """The number M of slots of the dictionary."""
        return self.sketch.capacity

    @property
    def batch_size(self) -> Array:
        """The number [] of picks of the unfinished batch."""
        return self.used - self.batch_start


@struct.dataclass
class PointBBKB(SketchedBandit):
    """BBKB over points. Find a point with `choose` or `maximise`, add it to the batch with `pull`,
    and call `tell` with the rewards of the batch once `ends` is true."""

    width: widths.Width = widths.bbkb_code
    ratio: ArrayLike = 2.0  # C >= 1; 1 is BKB, with one evaluation in a batch
    max_batch: int = struct.field(pytree_node=False, default=64)  # B
    # H, the largest number of evaluations of a run; `extend` increases it
    max_history: int = struct.field(pytree_node=False, default=1024)

    def init(  # type: ignore[override]
        self, dimension: int, key: PRNGKey, dtype: Any = None
    ) -> PointState:
        """The state before the first pick, for points with `dimension` inputs. Raises ValueError
        for invalid arguments."""
        checks.positive_integer(dimension=dimension)
        sketched.check_bandit(self)
        dtype = checks.floating_dtype(dtype)
        capacity = self.initial_slots
        floats = self.max_history * (dimension + 5) + 3 * capacity**2
        checks.memory(floats, dtype, max_history=self.max_history, capacity=capacity)
        checks.model(Arms(jnp.zeros((1, dimension), dtype)), self.kernel, self.regularization)
        slots = Arms(jnp.zeros((self.max_history, dimension), dtype))
        sketch = sketched.start(slots, self.kernel, self.regularization, capacity, key)
        return with_empty_batch(sketch, jnp.zeros((), jnp.int32))

    def confidence_width(self, state: PointState) -> Array:  # type: ignore[override]
        """The confidence width [] (alpha~_fb of the paper), constant within a batch."""
        return widths.confidence_width(self, state.sketch.evidence, self.ratio)

    def posterior(self, state: PointState, x: Array) -> tuple[Array, Array]:
        """(mean [n], variance [n] in leverage units) at points x [n,d], after the hallucinated
        picks of the unfinished batch."""
        mean, residual, u = self.predict(state, x)
        embedded = jnp.maximum((matmul(u, state.weight_covariance) * u).sum(1), 0)
        return mean, residual / self._lam(state) + embedded

    def _lam(self, state: PointState) -> ArrayLike:
        return in_dtype(self.regularization, state.bound.dtype)

    def predict(self, state: PointState, x: Array) -> tuple[Array, Array, Array]:
        """(mean [n], residual [n], whitened features [n,M]) at points x [n,d], none of which
        depends on the unfinished batch."""
        kernel, x = in_dtype((self.kernel, x), state.bound.dtype)
        z, u = sketched.embed(state.sketch, kernel, x)
        residual = nystrom.residual(kernel.diag(x), z)
        return matmul(u, state.sketch.weights), residual, u

    def scores(self, state: PointState, x: Array) -> Array:  # type: ignore[override]
        """Upper confidence bounds at points x [n,d], [n]."""
        mean, variance = self.posterior(state, x)
        # the lower bound makes the scores differentiable where the variance is zero
        return ucb(mean, jnp.maximum(variance, 1e-12), self.confidence_width(state))

    def choose(self, state: PointState, key: PRNGKey, candidates: Array) -> Array:
        """The index [] of the candidate with the largest upper confidence bound among candidates
        [A,d]; the first pick is drawn uniformly at random. Raises ValueError for an empty or
        non-finite matrix, or if the number of columns is not the `dimension` of `init`."""
        checks.candidates(candidates, state.sketch.domain.features.shape[1])
        checks.kernel_inputs(self.kernel, candidates)
        uniform = jax.random.randint(key, (), 0, candidates.shape[0], jnp.int32)
        best = jnp.argmax(self.scores(state, candidates)).astype(jnp.int32)
        return jnp.where(state.used == 0, uniform, best)

    def maximise(self, state: PointState, key: PRNGKey, box: Box) -> Array:
        """The point [d] of the box with the largest upper confidence bound that gradient ascent
        from many starts finds; the first pick is drawn uniformly at random. Raises ValueError if
        the dimension of the box is not that of `init`."""
        checks.box(box, state.sketch.domain.features.shape[1])
        box = in_dtype(box, state.bound.dtype)
        # both draws use the same key, because only one of them is returned
        best, _ = maximise_over_box(lambda x: self.scores(state, x), key, box)
        uniform = jax.random.uniform(key, box.lower.shape, best.dtype, box.lower, box.upper)
        return jnp.where(state.used == 0, uniform, best)

    def pull(self, state: PointState, x: Array) -> PointState:
        """The state with the point x [d] added to the batch; the pick is hallucinated until `tell`.
        Raises ValueError for a point that is not finite or has another number of inputs. If the
        batch or the history is full, a traced pick is dropped (check `ends` and `full`), and any
        other pick raises ValueError."""
        x = in_dtype(checks.example(x), state.bound.dtype)
        checks.candidates(x[None], state.sketch.domain.features.shape[1])
        if not is_traced(state, x) and bool(self.full(state)):
            raise ValueError(
                "the batch or the history is full: tell the batch (max_batch ="
                f" {self.max_batch}), or `extend` the history (max_history ="
                f" {state.sketch.domain.count})."
            )
        return self.pull_unchecked(state, x)

    def pull_unchecked(self, state: PointState, x: Array) -> PointState:
        """`pull` without its checks; if the batch or the history is full, the pick is dropped."""
        kernel, x = in_dtype((self.kernel, x), state.bound.dtype)
        _, residual, u = self.predict(state, x[None])
        direction, e = ridge.whitened_gain(state.weight_covariance, u[0])
        variance = residual[0] / self._lam(state) + jnp.square(u[0]).sum()
        sketch = state.sketch
        slot = jnp.minimum(state.used, sketch.domain.count - 1)
        prior_variance = jnp.maximum(sketch.evidence.prior_variance, kernel.diag(x[None])[0])
        picked = replace(
            state,
            sketch=replace(
                sketch,
                domain=Arms(put(sketch.domain.features, slot, x)),
                variance=put(sketch.variance, slot, variance),
                evidence=replace(sketch.evidence, prior_variance=prior_variance),
            ),
            used=state.used + 1,
            weight_covariance=ridge.hallucinate(state.weight_covariance, direction, e),
            bound=state.bound + variance,
        )
        return jax.tree.map(partial(jnp.where, self.full(state)), state, picked)

    def ends(self, state: PointState) -> Array:
        """Whether the batch has ended, [] bool: its bound exceeds C (BBKB Lemma 1), or it has B
        picks. Call `tell` before the next pick then."""
        ratio = in_dtype(self.ratio, state.bound.dtype)
        return (state.bound > ratio) | (state.batch_size >= self.max_batch)

    def full(self, state: PointState) -> Array:
        """Whether the batch or the history is full, [] bool."""
        return (state.batch_size >= self.max_batch) | (state.used >= state.sketch.domain.count)

    def tell(  # type: ignore[override]
        self, state: PointState, y: Array, key: PRNGKey
    ) -> tuple[PointState, Info]:
        """(state, info) after the rewards y [B] of the batch, in the order of its picks. A reward
        of NaN is not observed, and entries beyond the last pick are ignored."""
        slots = jnp.arange(self.max_batch, dtype=jnp.int32)
        index = jnp.minimum(state.batch_start + slots, state.sketch.domain.count - 1)
        query = Query(index=index, mask=slots < state.batch_size)
        old = state.sketch
        query, y = checks.feedback(old.domain, query, y)
        feedback = counts.add_rewards(old.pull_counts, old.reward_sums, old.variance, query, y)
        at_new_point = is_new_point(old, query, query.mask & jnp.isfinite(y))
        added = jnp.zeros(old.domain.count, bool).at[query.index].max(at_new_point)
        sketch, info = sketched.apply_feedback(
            old, feedback, query, self.confidence_width(state), key, self, added=added
        )
        next_state = with_empty_batch(sketch, state.used)
        new = jax.tree.map(partial(jnp.where, info.overflow), state, next_state)
        is_full = state.batch_size >= self.max_batch
        within_ratio = state.bound <= in_dtype(self.ratio, y.dtype)
        return new, replace(info, truncated=is_full & within_ratio)

    def grow(self, state: PointState, capacity: int) -> PointState:  # type: ignore[override]
        """The same state with capacity for `capacity` inducing points."""
        sketch = super().grow(state.sketch, capacity)
        covariance = pad_identity(state.weight_covariance, capacity)
        return replace(state, sketch=sketch, weight_covariance=covariance)

    def extend(self, state: PointState, max_history: int) -> PointState:
        """The same state with capacity for `max_history` evaluations."""
        checks.not_smaller(state.sketch.domain.count, max_history=max_history)
        extra = max_history - state.sketch.domain.count
        names = ("pull_counts", "reward_sums", "mean", "variance")
        padded: dict[str, Any] = {
            name: jnp.pad(getattr(state.sketch, name), (0, extra)) for name in names
        }
        features = jnp.pad(state.sketch.domain.features, ((0, extra), (0, 0)))
        return replace(state, sketch=replace(state.sketch, domain=Arms(features), **padded))


def with_empty_batch(sketch: SketchState, used: Array) -> PointState:
    """The state at the start of a batch, with `used` [] slots of the history in use."""
    dtype = sketch.domain.features.dtype
    identity, one = jnp.eye(sketch.capacity, dtype=dtype), jnp.ones((), dtype)
    return PointState(sketch, used, batch_start=used, weight_covariance=identity, bound=one)


def is_new_point(sketch: SketchState, query: Query, usable: Array) -> Array:
    """Whether an evaluation of a query is `usable` [B], and its point is neither an inducing point
    nor the point of an earlier usable evaluation of the query, [B] bool."""
    x, dictionary = sketch.domain.features[query.index], sketch.dictionary
    inducing = sketch.domain.features[dictionary.index]
    is_inducing = (x[:, None] == inducing[None]).all(-1) & dictionary.mask[None]
    equal = (x[:, None] == x[None]).all(-1) & usable[None]
    return usable & ~is_inducing.any(1) & ~jnp.tril(equal, -1).any(1)

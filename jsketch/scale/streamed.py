"""FixedBKB over arms in a file that is larger than memory and is read in chunks.

    domain = open_arms("candidates.npy")                  # [A, d], float32 or float64
    bandit = Streamed(FixedBKB(kernel, batch=96))
    state = bandit.init(domain, key, data=FileEvaluations(done_arms, done_rewards))
    query = bandit.ask(state, key)                        # reads all chunks once, or more
    state, info = bandit.tell(state, query, rewards, key)

A state contains only the tracked arms (those that were pulled, are pending or failed), because the
posterior depends on no other arms. `ask` sweeps the file, and keeps the arms with the largest
scores in a buffer, and for each chunk an upper bound of the scores outside the buffer. Within a
batch, scores only decrease. Therefore the largest score in the buffer is the largest of all arms
as long as it is not below the largest bound. Otherwise the chunk with this bound is read again, and
its scores are computed given the picks so far (THEORY 5.9). The picks are the same as with arms in
memory, up to arms that tie (`jsketch.types`).

The methods run on the host and call compiled programs. They cannot be traced; therefore `run` and
`drive` do not accept a `Streamed`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.batches import adaptive_batch, fixed_set
from jsketch.bandits.core import counts, sketched, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.bandits.fixed_bkb import FixedBatchState, FixedBKB
from jsketch.precision import in_dtype
from jsketch.scale import shards, sweep
from jsketch.scale.arm_file import ArmFile
from jsketch.sketch.dictionary import Dictionary
from jsketch.types import Arms, Info, PRNGKey, Query, is_traced
from jsketch.warn import warn

MIN_SLOTS = 256  # initial number of slots H for tracked arms, doubled when exceeded
FREE_SLOT = np.iinfo(np.int32).max  # the arm number in a slot without an arm
MAX_REREADS = 3  # how often all chunks may be read without a pick
# without jit each operation would be compiled separately, which takes seconds
_start = jax.jit(sketched.start, static_argnums=3)


class FileEvaluations(NamedTuple):
    """Earlier evaluations of arms of a file. `dictionary` and `failed` are as in `Evaluations`."""

    arms: Any = None  # [n], arm numbers
    rewards: Any = None  # [n], NaN for a failed evaluation
    dictionary: Any = None
    failed: Any = None


@struct.dataclass
class StreamedState:
    """The state of BKB over H slots for the tracked arms, in the order of their numbers; free slots
    are last. Its size does not depend on A."""

    domain: Any = struct.field(pytree_node=False)  # ArmFile
    # [] int32, a random arm, which is pulled before the first reward and replaced after a failure
    first_arm: Array
    sketch: SketchState  # its domain is the tracked arms [H, d]
    number: Array  # [H] int32, FREE_SLOT in free slots
    pending: Array  # [H], number of pending evaluations
    tried: Array  # [H] bool, whether the arm was evaluated, failed evaluations included


class Buffer(NamedTuple):
    """Candidates for a batch, in the order of their numbers."""

    number: np.ndarray  # [n] int32
    points: np.ndarray  # [n, d]
    mean: np.ndarray  # [n]
    variance: np.ndarray  # [n], at the start of the batch
    score: np.ndarray  # [n], upper confidence bounds; upper bounds of these with `screen`
    tracked: np.ndarray  # [n] bool, tracked arms, which stay in the buffer

    def select(self, index: np.ndarray) -> Buffer:
        """The rows that an array of indices or a mask selects."""
        return Buffer(*(column[index] for column in self))


class Choice(NamedTuple):
    """A batch, and how it was found."""

    query: Query  # with arm numbers of the file
    n_reads: int  # number of chunks that were read, the sweep included
    # whether a candidate has a larger score than its bound in the float32 sweep; the sweep may then
    # have missed arms of the batch
    incomplete: bool


@struct.dataclass
class Streamed(struct.Settings):
    """FixedBKB over the arms of a file."""

    bandit: Any  # FixedBKB
    # K, the largest number of arms in the buffer, the tracked arms aside
    keep: int = struct.field(pytree_node=False, default=4096)
    # k <= K, the largest number of candidates that a chunk adds to the buffer
    offer: int = struct.field(pytree_node=False, default=64)
    # True: a float32 file is swept in float32, where arms are ranked by upper bounds of their
    # scores, and everything else is computed in float64 (THEORY 9.6)
    screen: bool = struct.field(pytree_node=False, default=False)
    # the bounds of `screen` contain the estimated rounding errors times this factor
    safety: float = struct.field(pytree_node=False, default=8.0)

    def init(
        self,
        domain: ArmFile,
        key: PRNGKey,
        *,
        horizon: int | None = None,
        data: FileEvaluations | None = None,
    ) -> StreamedState:
        """The state before the first batch, or after the evaluations in `data`. Reads the whole
        file once. Raises ValueError for invalid arguments, for arms that are not finite, and for a
        key from which random numbers cannot be drawn arm by arm."""
        self._check(domain)
        checks.one_key(key=key)
        shards.check_counting(key, domain.count)
        dtype = jnp.dtype(jnp.float64) if self.screen else domain.dtype
        bandit = in_dtype(self.bandit, dtype)
        index = np.unique(np.linspace(0, domain.count - 1, checks.GRAM_ARMS).astype(np.int64))
        sample = Arms(jnp.asarray(domain.rows(index), dtype))
        checks.model(sample, bandit.kernel, bandit.regularization, bandit.initial_slots)
        data = FileEvaluations() if data is None else data
        failed, dictionary = data.failed, data.dictionary
        numbers: Any = np.zeros(0, np.int32)
        for arms in (data.arms, failed, dictionary):
            if arms is not None and not isinstance(arms, str):
                checks.arm_numbers(domain, arms=arms)  # type: ignore[arg-type]
                numbers = np.union1d(numbers, np.asarray(arms, np.int32))
        first_arm = jax.random.randint(key, (), 0, domain.count, jnp.int32)
        # free slots repeat the features of an arm
        points = domain.rows(numbers if numbers.size else np.asarray(first_arm)[None]).astype(dtype)
        n_slots = _n_slots_for(len(numbers))
        history = _history(bandit, points, numbers, key, data, n_slots)
        tracked_arms = Arms(jnp.asarray(_padded(points, n_slots)))
        kernel, regularization = bandit.kernel, bandit.regularization
        sketch = _start(tracked_arms, kernel, regularization, bandit.initial_slots, key, history)
        prior = jnp.asarray(_prior_variance(domain, kernel, dtype), dtype)
        sketch = replace(
            sketch,
            evidence=replace(sketch.evidence, prior_variance=prior),
            chosen_by_user=sketched.lists_inducing_arms(data),
        )
        tried = np.asarray(sketch.pull_counts) > 0
        for arms in (data.arms, failed):
            if arms is not None:
                tried[np.searchsorted(numbers, np.asarray(arms, np.int32))] = True
        return StreamedState(
            domain=domain,
            first_arm=first_arm,
            sketch=sketch,
            number=jnp.asarray(
                np.pad(numbers, (0, n_slots - len(numbers)), constant_values=FREE_SLOT)
            ),
            pending=jnp.zeros(n_slots, dtype),
            tried=jnp.asarray(tried),
        )

    def ask(self, state: StreamedState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        """The next batch, in arm numbers of the file. Warns if the sweep in float32 may have
        missed arms of the batch. Raises what `choose` raises."""
        choice = self.choose(state, limit)
        if choice.incomplete:
            warn(
                "rounding was larger than estimated: the sweep in float32 may have missed arms of"
                f" this batch. Use a safety above {self.safety:g}, or sweep in float64"
                " (screen=False and a file of float64)."
            )
        return choice.query

    def choose(self, state: StreamedState, limit: ArrayLike | None = None) -> Choice:
        """The next batch, and how it was found. Raises what `ArmFile.read` raises, RuntimeError if
        `keep` is too small, and FloatingPointError if the posterior is not finite."""
        _check_not_traced(state, limit)
        bandit = in_dtype(self.bandit, state.sketch.mean.dtype)
        file, dtype = state.domain, state.sketch.mean.dtype
        batch_size = min(int(checks.evaluation_limit(limit)), bandit.batch)
        if not bandit.repeat:
            evaluated = np.asarray(state.tried) | (np.asarray(state.sketch.pull_counts) > 0)
            is_excluded = evaluated | (np.asarray(state.pending) > 0)
            batch_size = min(batch_size, file.count - int(is_excluded.sum()))
        if float(state.sketch.evidence.count) == 0 and not np.asarray(state.pending).any():
            state = _track(state, bandit, [int(state.first_arm)])
        width = widths.confidence_width(bandit, state.sketch.evidence, bandit.ratio)
        candidates, bounds, incomplete = self._sweep(bandit, state, width)
        n_slots = state.number.shape[0] + self.keep
        buffer = _pad_buffer(_merge(_tracked_arms(state), candidates), n_slots)
        sketch = _posterior_at(state, buffer)
        batch, n_pending = _start_batch(bandit, state, sketch, buffer)
        kernel, regularization = bandit.kernel, bandit.regularization
        factors = sweep.factors(state.sketch, kernel, regularization, file.chunk, dtype)
        picks: list[int] = []
        n_reads, n_without_pick = file.n_chunks, 0
        while len(picks) < batch_size:
            bound = bounds.max()
            end = dict(limit=jnp.asarray(batch_size, jnp.int32), bound=jnp.asarray(bound, dtype))
            batch = _extend_batch(bandit, sketch, batch, n_pending, **end)
            new_picks = np.asarray(batch.arms)[len(picks) : int(batch.size)]
            picks += buffer.number[new_picks].tolist()
            if len(picks) >= batch_size or np.isneginf(bound):
                break
            n_without_pick = 0 if new_picks.size else n_without_pick + 1
            if n_without_pick > MAX_REREADS * file.n_chunks:
                raise RuntimeError(
                    f"chunks were read {n_without_pick} times without a pick: use a keep above"
                    f" {self.keep}."
                )
            # read the chunk with the largest bound again, and compute its scores after the picks
            chunk_index = int(np.argmax(bounds))
            picked = np.full(len(batch.arms), FREE_SLOT, np.int32)
            if not bandit.repeat:
                picked[: len(picks)] = picks
            numbers = np.concatenate([buffer.number, picked])
            excluded, n_arms = _rows_and_arm_count(numbers, file, chunk_index)
            x, pulls = jnp.asarray(file.read(chunk_index)), batch.pulls
            top = sweep.top_arms_after_picks(
                bandit, sketch, factors, pulls, width, x, excluded, n_arms, self.offer
            )
            buffer = buffer._replace(score=np.asarray(batch.scores))
            buffer = buffer.select(buffer.number != FREE_SLOT)
            new_candidates = _top_candidates(top, chunk_index * file.chunk)
            buffer, removed = _keep_best(_merge(buffer, new_candidates), self.keep)
            bounds[chunk_index] = top.next_best
            _increase_bounds(bounds, removed, file.chunk)
            buffer = _pad_buffer(buffer, n_slots)
            sketch = _posterior_at(state, buffer)
            batch = batch._replace(scores=jnp.asarray(buffer.score))
            n_reads += 1
        index = np.zeros(bandit.batch, np.int32)
        index[: len(picks)] = picks
        mask = np.arange(bandit.batch) < len(picks)
        return Choice(Query(jnp.asarray(index), jnp.asarray(mask)), n_reads, incomplete)

    def _sweep(
        self, bandit: FixedBKB, state: StreamedState, width: Array
    ) -> tuple[Buffer, np.ndarray, bool]:
        """(candidates, bounds [C] of the other scores of each chunk, `Choice.incomplete`) after one
        pass over the file."""
        file, sketch = state.domain, state.sketch
        kernel, regularization = bandit.kernel, bandit.regularization
        factors = sweep.factors(sketch, kernel, regularization, file.chunk, file.dtype)
        numbers, safety = np.asarray(state.number), self.safety if self.screen else 0.0
        bounds, chunk_buffers = np.full(file.n_chunks, -np.inf), []
        tops: list[tuple[int, sweep.TopArms]] = []

        def collect() -> None:
            chunk_index, top = tops.pop(0)
            chunk_buffers.append(_top_candidates(top, chunk_index * file.chunk))
            bounds[chunk_index] = top.next_best

        for chunk_index, x in file.read_in_order():
            excluded, n_arms = _rows_and_arm_count(numbers, file, chunk_index)
            top = sweep.top_arms(
                factors, kernel, regularization, width, x, excluded, n_arms, self.offer, safety
            )
            tops.append((chunk_index, top))
            # a chunk is computed while the previous one is collected and the next one is read
            if len(tops) > 1:
                collect()
        collect()
        candidates, removed = _keep_best(_merge(*chunk_buffers), self.keep)
        _increase_bounds(bounds, removed, file.chunk)
        points = candidates.points.astype(sketch.mean.dtype)
        candidates = candidates._replace(points=points)
        if file.dtype == sketch.mean.dtype or not len(points):
            return candidates, bounds, False
        # score the candidates in the dtype of the posterior
        mean, variance = _posterior(state, bandit, points)
        score = mean + float(width) * np.sqrt(variance)
        incomplete = bool((score > candidates.score).any())
        return candidates._replace(mean=mean, variance=variance, score=score), bounds, incomplete

    def pend(self, state: StreamedState, query: Query) -> StreamedState:
        """The state with the query pending. Raises ValueError above `max_pending` distinct arms."""
        query = checks.arm_query(state.domain, query)
        numbers = np.asarray(query.index)[np.asarray(query.mask)]
        state = _track(state, in_dtype(self.bandit, state.sketch.mean.dtype), numbers)
        pending = np.array(state.pending)
        np.add.at(pending, _slots_of(state, numbers), 1)
        if (pending > 0).sum() > self.bandit.max_pending:
            raise ValueError(
                f"{int((pending > 0).sum())} distinct arms would be pending: use a larger"
                f" max_pending than {self.bandit.max_pending}."
            )
        return replace(state, pending=jnp.asarray(pending))

    def tell(
        self, state: StreamedState, query: Query, y: Any, key: PRNGKey
    ) -> tuple[StreamedState, Info]:
        """(state, info) as `FixedBKB.tell` returns them, but the capacity grows if it is exceeded.
        Reads no chunk. The flags of the posterior are computed from the tracked arms alone."""
        _check_not_traced(state, query, y, key)
        dtype, count = state.sketch.mean.dtype, state.domain.count
        bandit = in_dtype(self.bandit, dtype)
        query, y = checks.feedback(state.domain, query, y, dtype)
        mask = np.asarray(query.mask)
        numbers = np.asarray(query.index)[mask]
        state = _track(state, bandit, numbers)
        slots = np.zeros(mask.shape, np.int32)
        slots[mask] = _slots_of(state, numbers)
        slot_query, sketch = Query(jnp.asarray(slots), query.mask, None), state.sketch
        while True:
            new_sketch, info = _update(bandit, sketch, state.number, count, slot_query, y, key)
            if not bool(info.overflow):
                break
            sketch = bandit.grow(sketch, 2 * sketch.capacity)
        pending, tried = np.array(state.pending), np.array(state.tried)
        is_truncated = (pending > 0).sum() > bandit.max_pending
        np.subtract.at(pending, slots[mask], 1)
        tried[slots[mask]] = True
        first_arm = state.first_arm
        if mask.any() and not np.asarray(new_sketch.pull_counts).any():
            first_arm = counts.resample_first_arm(first_arm, jnp.ones((), bool), count, key)
        new_state = replace(
            state,
            first_arm=first_arm,
            sketch=new_sketch,
            pending=jnp.asarray(np.maximum(pending, 0)),
            tried=jnp.asarray(tried),
        )
        return new_state, replace(info, truncated=jnp.asarray(is_truncated))

    def confidence_width(self, state: StreamedState) -> Array:
        """The confidence width [] of the next batch."""
        return widths.confidence_width(self.bandit, state.sketch.evidence, self.bandit.ratio)

    def _check(self, domain: Any) -> None:
        if type(self.bandit) is not FixedBKB:
            raise ValueError(
                f"Streamed takes a FixedBKB; a {type(self.bandit).__name__} was given."
            )
        if not isinstance(domain, ArmFile):
            raise ValueError(
                "Streamed takes a file, open_arms(path), and FixedBKB takes arms in memory; a"
                f" {type(domain).__name__} was given."
            )
        checks.settings(self)
        if self.offer > self.keep:
            raise ValueError(
                f"keep must be at least offer; keep={self.keep}, offer={self.offer} were given."
            )
        if self.screen and domain.file_dtype != "float32":
            raise ValueError(f"screen needs a file of float32; this file has {domain.file_dtype}.")
        if self.screen and jax.dtypes.canonicalize_dtype(float) != np.float64:
            raise ValueError(
                "screen computes picks in float64: set jax.config.update('jax_enable_x64', True)."
            )
        dtype = jnp.float64 if self.screen else domain.dtype
        shape: Any = jax.ShapeDtypeStruct((2, domain.dimension), dtype)
        jax.eval_shape(self.bandit.init, Arms(shape), jax.random.key(0))


def _check_not_traced(*arguments: Any) -> None:
    if is_traced(arguments):
        raise ValueError(
            "Streamed reads a file, and its methods cannot be compiled: call ask and tell in a"
            " Python loop, not under jit, and not by run or drive."
        )


# tracked arms


def _history(
    bandit: FixedBKB,
    points: np.ndarray,
    numbers: np.ndarray,
    key: PRNGKey,
    data: FileEvaluations,
    n_slots: int,
) -> Any:
    """The history of the slots for `sketched.start`; None without observed evaluations."""
    dictionary = data.dictionary
    if data.arms is None:
        if data.rewards is not None or dictionary is not None:
            raise ValueError(
                "rewards and dictionary describe observed evaluations: give arms with them."
            )
        return None
    if data.rewards is None:
        raise ValueError("arms describe observed evaluations: give rewards [n] with them.")
    domain = Arms(jnp.asarray(points))
    index = np.searchsorted(numbers, np.asarray(data.arms, np.int32))
    if dictionary is not None and not isinstance(dictionary, str):
        dictionary = np.searchsorted(numbers, np.asarray(dictionary, np.int32))
    evaluations = counts.of_evaluations(domain, index, data.rewards, dictionary)
    evaluations = replace(evaluations, failed=None)  # `init` marks the failed arms
    history = sketched.checked_history(bandit, domain, key, evaluations)
    return jax.tree.map(lambda a: jnp.pad(a, (0, n_slots - len(points))), history)


def _prior_variance(file: ArmFile, kernel: Any, dtype: Any) -> float:
    """The largest k(x,x) of all arms. Reads the whole file, which checks that arms are finite."""
    largest = jax.jit(lambda kernel, x: kernel.diag(x).max())
    return max(float(largest(kernel, x.astype(dtype))) for _, x in file.read_in_order())


def _n_slots_for(count: int) -> int:
    """The number of slots H for `count` tracked arms."""
    n_slots = MIN_SLOTS
    while n_slots < count:
        n_slots *= 2
    return n_slots


def _padded(rows: np.ndarray, n_slots: int) -> np.ndarray:
    """The rows [n, d] padded to [n_slots, d] with copies of the first row."""
    return np.concatenate([rows, np.repeat(rows[:1], n_slots - len(rows), axis=0)])


def _slots_of(state: StreamedState, numbers: Any) -> np.ndarray:
    """The slots of the tracked arms with these numbers."""
    return np.searchsorted(np.asarray(state.number), np.asarray(numbers)).astype(np.int32)


@jax.jit
def _means_and_variances(sketch: SketchState, bandit: Any, x: Array) -> tuple[Array, Array]:
    rows, dtype = x.shape[0], sketch.mean.dtype
    factors = sweep.factors(sketch, bandit.kernel, bandit.regularization, rows, dtype)
    return sweep.posterior(factors, bandit.kernel, bandit.regularization, x)[:2]


def _posterior(
    state: StreamedState, bandit: Any, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(mean [n], variance [n]) at the features [n, d] of arms that are not tracked."""
    x = _padded(rows, _n_slots_for(len(rows))).astype(state.sketch.mean.dtype)
    mean, variance = _means_and_variances(state.sketch, bandit, jnp.asarray(x))
    return np.asarray(mean)[: len(rows)], np.asarray(variance)[: len(rows)]


def _track(state: StreamedState, bandit: Any, numbers: Any) -> StreamedState:
    """The state that also tracks the arms with these numbers, whose features are read from the
    file."""
    tracked = np.asarray(state.number)
    used = int((tracked != FREE_SLOT).sum())
    untracked = np.setdiff1d(np.asarray(numbers, np.int32), tracked[:used])
    if untracked.size == 0:
        return state
    rows = state.domain.rows(untracked).astype(state.sketch.mean.dtype)
    mean, variance = _posterior(state, bandit, rows)
    order = np.argsort(np.concatenate([tracked[:used], untracked]))
    n_free = max(_n_slots_for(len(order)), len(tracked)) - len(order)

    def merged(old_entries: Any, new_entries: Any, fill: Any = 0) -> Array:
        old_entries = np.asarray(old_entries)
        new_entries = np.broadcast_to(np.asarray(new_entries, old_entries.dtype), untracked.shape)
        entries = np.concatenate([old_entries[:used], new_entries])[order]
        return jnp.asarray(np.pad(entries, (0, n_free), constant_values=fill))

    sketch, new_slot = state.sketch, np.argsort(order)
    points = np.concatenate([np.asarray(sketch.domain.features)[:used], rows])[order]
    dictionary, mask = sketch.dictionary, np.asarray(sketch.dictionary.mask)
    index = np.where(mask, new_slot[np.where(mask, dictionary.index, 0)], 0).astype(np.int32)
    sketch = replace(
        sketch,
        domain=Arms(jnp.asarray(_padded(points, len(points) + n_free))),
        pull_counts=merged(sketch.pull_counts, 0),
        reward_sums=merged(sketch.reward_sums, 0),
        dictionary=Dictionary(jnp.asarray(index), dictionary.mask),
        mean=merged(sketch.mean, mean),
        variance=merged(sketch.variance, variance),
    )
    return replace(
        state,
        sketch=sketch,
        number=merged(state.number, untracked, FREE_SLOT),
        pending=merged(state.pending, 0),
        tried=merged(state.tried, False),
    )


@partial(jax.jit, static_argnums=3)
def _update(
    bandit: Any,
    sketch: SketchState,
    number: Array,
    n_arms: int,
    query: Query,
    y: Array,
    key: PRNGKey,
) -> tuple[SketchState, Info]:
    """(the posterior of the tracked arms, info) after rewards y [B] of a query whose indices are
    slots. The random number of an arm depends on its number in the file, as for arms in memory."""
    feedback = counts.add_rewards(sketch.pull_counts, sketch.reward_sums, sketch.variance, query, y)
    uniform = shards.uniform_at(key, number, n_arms, y.dtype)
    width = widths.confidence_width(bandit, sketch.evidence, bandit.ratio)
    # the sweep needs a triangular `whiten`, which updates of low rank do not preserve
    return sketched.apply_feedback(
        sketch, feedback, query, width, key, bandit, uniform, from_scratch=True
    )


# candidate buffer


def _tracked_arms(state: StreamedState) -> Buffer:
    """The tracked arms. Their scores are not computed yet, and are filled with means."""
    used = int((np.asarray(state.number) != FREE_SLOT).sum())
    sketch = state.sketch
    number, points, mean, variance = (
        np.array(column)[:used]
        for column in (state.number, sketch.domain.features, sketch.mean, sketch.variance)
    )
    return Buffer(number, points, mean, variance, mean, np.ones(used, bool))


def _top_candidates(top: sweep.TopArms, first_number: int) -> Buffer:
    """The arms with the largest scores of a chunk, whose first arm has the number `first_number`.
    Raises FloatingPointError if the posterior is not finite."""
    if not bool(top.finite):
        raise FloatingPointError(
            "the posterior is not finite: try float64, smaller rewards or a larger regularization."
        )
    row, index = np.unique(np.asarray(top.row), return_index=True)
    points, mean, variance, score = (
        np.asarray(column)[index] for column in (top.points, top.mean, top.variance, top.score)
    )
    number = (first_number + row).astype(np.int32)
    buffer = Buffer(number, points, mean, variance, score, np.zeros(len(row), bool))
    return buffer.select(score > -np.inf)


def _merge(*buffers: Buffer) -> Buffer:
    """The arms of several disjoint buffers."""
    merged = Buffer(*(np.concatenate(columns) for columns in zip(*buffers, strict=True)))
    return merged.select(np.argsort(merged.number, kind="stable"))


def _keep_best(buffer: Buffer, limit: int) -> tuple[Buffer, Buffer]:
    """(the arms that stay, the removed arms). All tracked arms stay, and of the others the `limit`
    arms with the largest scores; of arms that tie, those with the lowest numbers."""
    order = np.lexsort((buffer.number, -buffer.score, ~buffer.tracked))
    stays = np.zeros(len(order), bool)
    stays[order[: limit + int(buffer.tracked.sum())]] = True
    return buffer.select(stays), buffer.select(~stays)


def _increase_bounds(bounds: np.ndarray, removed: Buffer, length: int) -> None:
    """Increases the bounds [C] of chunks of `length` arms, in place, to at least the scores of the
    arms that were removed from the buffer."""
    np.maximum.at(bounds, removed.number // length, removed.score)


def _pad_buffer(buffer: Buffer, n_slots: int) -> Buffer:
    """The buffer padded to `n_slots` rows, which repeat its first arm and are never chosen."""
    n_free = n_slots - len(buffer.number)
    return Buffer(
        number=np.pad(buffer.number, (0, n_free), constant_values=FREE_SLOT),
        points=_padded(buffer.points, n_slots),
        mean=np.pad(buffer.mean, (0, n_free)),
        variance=np.pad(buffer.variance, (0, n_free)),
        score=np.pad(buffer.score, (0, n_free), constant_values=-np.inf),
        tracked=np.pad(buffer.tracked, (0, n_free)),
    )


def _rows_and_arm_count(
    numbers: np.ndarray, file: ArmFile, chunk_index: int
) -> tuple[Array, Array]:
    """(rows [n] of the arms `numbers` [n] in a chunk of R arms, number [] of arms from the first of
    the chunk to the last of the file). An arm elsewhere has the row R."""
    first = chunk_index * file.chunk
    row = numbers.astype(np.int64) - first
    row = np.where((row >= 0) & (row < file.chunk), row, file.chunk).astype(np.int32)
    return jnp.asarray(row), jnp.asarray(file.count - first, jnp.int32)


# picks from the buffer


def _posterior_at(state: StreamedState, buffer: Buffer) -> SketchState:
    """The posterior over the arms of a buffer. Its dictionary refers to the slots of the tracked
    arms and is not used."""
    slots = _slots_of(state, buffer.number)
    tracked = buffer.tracked & (buffer.number != FREE_SLOT)
    pulls = np.where(tracked, np.asarray(state.sketch.pull_counts)[np.where(tracked, slots, 0)], 0)
    first_row = np.searchsorted(buffer.number, int(state.first_arm)).astype(np.int32)
    return replace(
        state.sketch,
        domain=Arms(jnp.asarray(buffer.points)),
        first_arm=jnp.asarray(first_row),
        mean=jnp.asarray(buffer.mean),
        variance=jnp.asarray(buffer.variance),
        pull_counts=jnp.asarray(pulls.astype(buffer.mean.dtype)),
    )


def _start_batch(
    bandit: FixedBKB, state: StreamedState, sketch: SketchState, buffer: Buffer
) -> tuple[fixed_set.Batch, Array]:
    """(a batch without picks, number [] of distinct pending arms)."""
    slots = np.where(buffer.tracked, _slots_of(state, buffer.number), 0)
    pending = np.where(buffer.tracked, np.asarray(state.pending)[slots], 0)
    tried = buffer.tracked & np.asarray(state.tried)[slots]
    is_free = buffer.number == FREE_SLOT
    return _compiled_start(bandit, sketch, *map(jnp.asarray, (pending, tried, is_free)))


@jax.jit
def _compiled_start(
    bandit: FixedBKB, sketch: SketchState, pending: Array, tried: Array, is_free: Array
) -> tuple[fixed_set.Batch, Array]:
    state = FixedBatchState(**vars(sketch), pending=pending, tried=tried)
    batch, n_pending = bandit.start_batch(state)
    return batch._replace(scores=jnp.where(is_free, -jnp.inf, batch.scores)), n_pending


@jax.jit
def _extend_batch(
    bandit: FixedBKB,
    sketch: SketchState,
    batch: fixed_set.Batch,
    n_pending: Array,
    limit: Array,
    bound: Array,
) -> fixed_set.Batch:
    """The batch with further picks from the buffer, up to `limit` picks in all, or until the scores
    are below the `bound` [] of the scores outside the buffer."""
    # scores and bound are from two programs, between which rounding may differ
    slack = adaptive_batch.SLACK * jnp.finfo(batch.scores.dtype).eps
    lowest = jnp.where(jnp.isneginf(bound), bound, bound - slack * jnp.abs(bound))
    return lax.while_loop(
        lambda batch: (batch.size < limit) & ~(jnp.max(batch.scores) < lowest),
        lambda batch: fixed_set.extend(bandit, sketch, batch, n_pending, limit, lowest),
        batch,
    )

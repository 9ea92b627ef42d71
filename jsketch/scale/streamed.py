"""FixedBKB over arms in a file that is larger than memory and is read in chunks.

    file = open_arms("candidates.npy")                    # [A, d], float32 or float64
    bandit = Streamed(FixedBKB(kernel, batch=96))
    state = bandit.init(file, key, data=FileEvaluations(done_arms, done_rewards))
    query = bandit.ask(state, file, key)                  # reads all chunks once, or more
    state, info = bandit.tell(state, file, query, rewards, key)

The posterior depends on no other arms than those that were pulled, so that a state is one of
FixedBKB over the tracked arms: those that were pulled, are pending or failed. `ask` sweeps the
file, and adds to them the candidates, the arms with the largest scores. For each chunk it keeps an
upper bound of the scores of all other arms. Within a batch scores only decrease. Therefore the
largest score of a candidate is the largest of all arms as long as it is not below the largest
bound. Otherwise the chunk with this bound is read again, and its scores are computed given the
picks so far (THEORY 5.9). The picks are the same as with arms in memory, up to arms that tie
(`jsketch.types`).

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
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.bandits.bbkb import State
from jsketch.bandits.fixed_bkb import FixedBatchState, FixedBKB
from jsketch.bandits.history import of_evaluations
from jsketch.core import conditioned, dictionary, history, posterior, widths
from jsketch.core.conditioned import Pulls
from jsketch.core.posterior import predict
from jsketch.numerics import largest, sweep, take
from jsketch.results import Result, result
from jsketch.scale.arm_file import ArmFile
from jsketch.scale.arm_random import check_counting, uniform_at
from jsketch.types import Arms, Evaluations, Info, PRNGKey, Query, is_traced

MIN_SLOTS = 256  # initial number of slots H for tracked arms, doubled when exceeded
NO_ARM = np.iinfo(np.int32).max  # the number in a slot without an arm
MAX_REREADS = 3  # how often all chunks may be read without a pick


class FileEvaluations(NamedTuple):
    """Earlier evaluations of arms of a file. `dictionary` and `failed` are as in `Evaluations`."""

    arms: Any = None  # [n], arm numbers
    rewards: Any = None  # [n], NaN for a failed evaluation
    dictionary: Any = None
    failed: Any = None


@struct.dataclass
class StreamedState:
    """A run over the tracked arms in H slots. Its size does not depend on A. The arm with the
    largest k(x,x) is tracked as well, because widths read this number."""

    number: Array  # [H] int32, ascending numbers in the file; NO_ARM in free slots
    tracked: FixedBatchState


class Choice(NamedTuple):
    """A batch, and how it was found."""

    query: Query  # with arm numbers of the file
    n_reads: int  # number of chunks that were read, the sweep included


@struct.dataclass
class _FewArms(FixedBKB):
    """FixedBKB over some arms of a file, whose random numbers are those of their numbers."""

    number: Any = None  # [n] int32, the number of each arm; NO_ARM where a row is not an arm
    count: int = struct.size(1)  # A, arms of the file

    def candidates(self, state: FixedBatchState, arms: Arms) -> Array:
        return super().candidates(state, arms) & (self.number != NO_ARM)

    def resparsify(self, state: State, key: PRNGKey) -> Array:
        variance = state.posterior.variance
        probability = dictionary.probability(state.counts, variance, self.qbar)
        return uniform_at(key, self.number, self.count, variance.dtype) < probability


class _Pool(NamedTuple):
    """The state of FixedBKB over some arms of a file."""

    bandit: _FewArms
    arms: Arms  # [n, d]
    state: FixedBatchState

    @property
    def number(self) -> np.ndarray:
        """The ascending numbers [n] of the arms, with NO_ARM at the end."""
        return np.asarray(self.bandit.number)

    @property
    def used(self) -> np.ndarray:
        """The numbers of the arms."""
        return self.number[self.number != NO_ARM]

    def slots(self, numbers: Any) -> np.ndarray:
        """The slots of arms with these numbers."""
        return np.searchsorted(self.number, np.asarray(numbers)).astype(np.int32)


class _Candidates(NamedTuple):
    """Arms of a file that are not tracked."""

    number: np.ndarray  # [n] int32
    points: np.ndarray  # [n, d]
    score: np.ndarray  # [n]

    def select(self, mask: np.ndarray) -> _Candidates:
        return _Candidates(*(column[mask] for column in self))


@struct.dataclass
class Streamed(struct.Settings):
    """FixedBKB over the arms of a file.

    bandit  FixedBKB
    keep    K, the largest number of candidates
    offer   k <= K, the largest number of candidates from one chunk
    """

    bandit: Any = struct.component(components.BANDIT)
    keep: int = struct.size(4096)
    offer: int = struct.size(64)

    def init(
        self,
        arms: ArmFile,
        key: PRNGKey,
        *,
        horizon: int | None = None,
        data: FileEvaluations | None = None,
    ) -> StreamedState:
        """The state before the first batch, or after the evaluations in `data`. Reads the whole
        file once. Raises ValueError for invalid arguments, for arms that are not finite, and for a
        key from which random numbers cannot be drawn arm by arm."""
        self._check(arms)
        check_counting(checks.one_key(key=key), arms.count)
        bandit = struct.in_dtype(self.bandit, arms.dtype)
        index = np.unique(np.linspace(0, arms.count - 1, checks.GRAM_ARMS).astype(np.int64))
        sample, slots = Arms(jnp.asarray(arms.rows(index))), bandit.initial_slots
        checks.model(sample, bandit.kernel, bandit.regularization, slots)
        data = FileEvaluations() if data is None else data
        numbers = np.array([_largest_prior(arms, bandit.kernel)], np.int32)
        for given in (data.arms, data.failed, data.dictionary):
            if given is not None and not isinstance(given, str):
                checks.arm_numbers(arms, arms=given)  # type: ignore[arg-type]
                numbers = np.union1d(numbers, np.asarray(given, np.int32)).astype(np.int32)
        tracked = Arms(jnp.asarray(arms.rows(numbers)))
        bandit = _FewArms(**vars(bandit), number=jnp.asarray(numbers), count=arms.count)
        state = bandit.init(tracked, key, data=_evaluations(tracked, numbers, data))
        return _state_of(_with_arms(_Pool(bandit, tracked, state), [], tracked.features[:0]))

    def ask(
        self, state: StreamedState, arms: ArmFile, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        """The next batch, in arm numbers of the file. Raises what `choose` raises."""
        return self.choose(state, arms, key, limit).query

    def choose(
        self, state: StreamedState, arms: ArmFile, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Choice:
        """The next batch, and how it was found. Raises what `ArmFile.read` raises, RuntimeError if
        `keep` is too small, and FloatingPointError if the posterior is not finite."""
        _check_not_traced(state, key, limit)
        most = int(history.limit_of(limit, self.bandit.batch))
        tracked = self._pool(state, arms)
        first = _first_arm(tracked, arms, key)
        if first is not None:
            tracked = _tracking(tracked, arms, [first])
        n_slots = len(tracked.number) + self.keep
        candidates, bounds = self._sweep(tracked, arms)
        pool = _with_arms(tracked, candidates.number, candidates.points, n_slots)
        no_first = len(pool.number)
        batch = _start_batch(*pool, no_first if first is None else pool.slots(first))
        picks: list[int] = []
        n_reads, n_without_pick = arms.n_chunks, 0
        while True:
            bound = bounds.max()
            batch = _add_picks(*pool, batch, most, bound.astype(batch.scores.dtype))
            new_picks = pool.number[np.asarray(batch.arms)[len(picks) : int(batch.size)]]
            picks += new_picks.tolist()
            if len(picks) >= most or np.isneginf(bound):
                break
            n_without_pick = 0 if len(new_picks) else n_without_pick + 1
            if n_without_pick > MAX_REREADS * arms.n_chunks:
                raise RuntimeError(
                    f"chunks were read {n_without_pick} times without a pick: use a keep above"
                    f" {self.keep}."
                )
            # the chunk with the largest bound is read again, and scored given the picks
            chunk, scores = int(np.argmax(bounds)), np.asarray(batch.scores)
            excluded = pool.used if self.bandit.repeat else np.append(pool.used, picks)
            top = self._top_arms(tracked, arms, chunk, arms.read(chunk), excluded, batch.pulls)
            bounds[chunk] = top.next_best
            n_reads += 1
            candidates = candidates._replace(score=scores[pool.slots(candidates.number)])
            candidates = self._best([candidates, _offered(top, arms, chunk)], bounds, arms)
            new_pool = _with_arms(tracked, candidates.number, candidates.points, n_slots)
            new_scores = np.full_like(scores, -np.inf)
            new_scores[new_pool.slots(tracked.used)] = scores[pool.slots(tracked.used)]
            new_scores[new_pool.slots(candidates.number)] = candidates.score
            pool, batch = new_pool, batch._replace(scores=jnp.asarray(new_scores))
        index = np.zeros(self.bandit.batch, np.int32)
        index[: len(picks)] = picks
        mask = np.arange(self.bandit.batch) < len(picks)
        return Choice(Query(jnp.asarray(index), jnp.asarray(mask)), n_reads)

    def pend(self, state: StreamedState, arms: ArmFile, query: Query) -> StreamedState:
        """The state with the query pending. Raises ValueError above `max_pending` distinct arms."""
        pool, slot_query = self._of_query(state, arms, query)
        return _state_of(pool._replace(state=pool.bandit.pend(pool.state, pool.arms, slot_query)))

    def tell(
        self, state: StreamedState, arms: ArmFile, query: Query, y: Any, key: PRNGKey
    ) -> tuple[StreamedState, Info]:
        """(state, info) as `FixedBKB.tell` returns them, but the capacity grows if it is exceeded.
        Reads no chunk. Whether the posterior is finite is computed from the tracked arms alone."""
        _check_not_traced(state, query, y, key)
        pool, slot_query = self._of_query(state, arms, query)
        rewards = jnp.asarray(checks.real("y", y), arms.dtype)
        if rewards.shape != slot_query.index.shape:
            raise ValueError(
                f"y must have one reward for each slot of the query, shape {slot_query.index.shape}"
                f", NaN where nothing was observed; its shape is {rewards.shape}."
            )
        new, info = _tell(*pool, slot_query, rewards, key)
        while int(info.result) == Result.CAPACITY_EXCEEDED:
            new = pool.bandit.grow(new, pool.arms, 2 * new.capacity)
            fits = new.dictionary_size <= new.capacity
            finite = jnp.isfinite(new.posterior.mean).all()
            outcome = result((Result.CAPACITY_EXCEEDED, ~fits), (Result.NOT_FINITE, ~finite))
            info = replace(info, result=outcome)
        return _state_of(pool._replace(state=new)), info

    def confidence_width(self, state: StreamedState, arms: ArmFile) -> Array:
        """The confidence width [] of the next batch."""
        return _width(*self._pool(state, arms))

    def _pool(self, state: StreamedState, arms: ArmFile) -> _Pool:
        """The tracked arms, whose features are read from the file."""
        number = np.asarray(state.number)
        bandit = struct.in_dtype(self.bandit, arms.dtype)
        bandit = _FewArms(**vars(bandit), number=state.number, count=arms.count)
        rows = arms.rows(number[number != NO_ARM])
        return _Pool(bandit, Arms(jnp.asarray(_padded(rows, len(number)))), state.tracked)

    def _of_query(self, state: StreamedState, arms: ArmFile, query: Query) -> tuple[_Pool, Query]:
        """(the tracked arms and those of the query, the query in their slots)."""
        _check_not_traced(state, query)
        query = checks.arm_query(arms, query)  # type: ignore[arg-type]
        mask, index = np.asarray(query.mask), np.asarray(query.index)
        pool = _tracking(self._pool(state, arms), arms, index[mask])
        slots = np.where(mask, pool.slots(index), 0).astype(np.int32)
        return pool, Query(jnp.asarray(slots), query.mask)

    def _sweep(self, tracked: _Pool, arms: ArmFile) -> tuple[_Candidates, np.ndarray]:
        """(candidates, bounds [C] of the other scores of each chunk) after one pass over the
        file."""
        bounds, offers = np.full(arms.n_chunks, -np.inf), []
        waiting: list[tuple[int, TopArms]] = []

        def collect() -> None:
            chunk, top = waiting.pop(0)
            offers.append(_offered(top, arms, chunk))
            bounds[chunk] = top.next_best

        for chunk, x in arms.read_in_order():
            waiting.append((chunk, self._top_arms(tracked, arms, chunk, x, tracked.used, None)))
            # a chunk is computed while the previous one is collected and the next one is read
            if len(waiting) > 1:
                collect()
        collect()
        return self._best(offers, bounds, arms), bounds

    def _top_arms(
        self,
        tracked: _Pool,
        arms: ArmFile,
        chunk: int,
        x: Any,
        excluded: np.ndarray,
        pulls: Pulls | None,
    ) -> TopArms:
        """The best arms of a chunk x [R,d] without the arms with the numbers `excluded`."""
        row = excluded.astype(np.int64) - chunk * arms.chunk
        row = row[(row >= 0) & (row < arms.chunk)]
        # one program for any number of excluded arms up to a power of 2; row R is no arm
        row = np.pad(row, (0, _n_slots(len(row)) - len(row)), constant_values=arms.chunk)
        n_arms = min(arms.count - chunk * arms.chunk, arms.chunk)
        rows = jnp.asarray(row, jnp.int32)
        return top_arms(*tracked, jnp.asarray(x), rows, n_arms, self.offer, pulls)

    def _best(self, offers: list[_Candidates], bounds: np.ndarray, arms: ArmFile) -> _Candidates:
        """The K arms with the largest scores of several disjoint lists; of arms that tie, those
        with the lowest numbers. Raises the bounds [C] of the other arms in place."""
        merged = _Candidates(*(np.concatenate(columns) for columns in zip(*offers, strict=True)))
        order = np.lexsort((merged.number, -merged.score))
        stays = np.zeros(len(order), bool)
        stays[order[: self.keep]] = True
        others = merged.select(~stays)
        np.maximum.at(bounds, others.number // arms.chunk, others.score)
        return merged.select(stays)

    def _check(self, arms: Any) -> None:
        if type(self.bandit) is not FixedBKB:
            raise ValueError(
                f"Streamed takes a FixedBKB; a {type(self.bandit).__name__} was given."
            )
        if not isinstance(arms, ArmFile):
            raise ValueError(
                "Streamed takes a file, open_arms(path), and FixedBKB takes arms in memory; a"
                f" {type(arms).__name__} was given."
            )
        if self.offer > self.keep:
            raise ValueError(
                f"keep must be at least offer; keep={self.keep}, offer={self.offer} were given."
            )


def _check_not_traced(*arguments: Any) -> None:
    if is_traced(arguments):
        raise ValueError(
            "Streamed reads a file, and its methods cannot be compiled: call ask and tell in a"
            " Python loop, not under jit, and not by run or drive."
        )


# Chunks


class TopArms(NamedTuple):
    """The k arms of a chunk with the largest scores. The score of an excluded arm is -inf."""

    row: Array  # [k] int32, in the chunk
    points: Array  # [k, d]
    score: Array  # [k]
    next_best: Array  # [], the largest score of the other arms
    finite: Array  # [] bool, whether all scores of the chunk are finite


@partial(jax.jit, static_argnames="count")
def top_arms(
    bandit: FixedBKB,
    arms: Arms,
    state: State,
    x: Array,
    excluded: Array,
    n_arms: Array,
    count: int,
    pulls: Pulls | None = None,
) -> TopArms:
    """The `count` arms of a chunk x [R,d] with the largest upper confidence bounds, given the
    hallucinated pulls. The rows `excluded` [E] (R stands for no row) and those from `n_arms` [] on
    are excluded."""
    p, kernel, lam = state.posterior, bandit.kernel, bandit.regularization
    x = x.astype(arms.features.dtype)
    width = bandit.confidence_width(state, arms)

    def scores_of(x: Array) -> Array:
        mean, variance = predict(p, kernel, lam, x)
        if pulls is not None:
            variance = conditioned.variances(p, kernel, lam, pulls, x, variance)
        return widths.ucb(mean, variance, width)

    score = sweep(scores_of, x, p.capacity if pulls is None else p.capacity + len(pulls.points))
    finite = jnp.isfinite(score).all()
    score = jnp.where(jnp.arange(len(x), dtype=jnp.int32) < n_arms, score, -jnp.inf)
    score = score.at[excluded].set(-jnp.inf, mode="drop")
    row, next_best = largest(score, min(count, len(x)))
    return TopArms(row, take(x, row), take(score, row), next_best, finite)


def _offered(top: TopArms, arms: ArmFile, chunk: int) -> _Candidates:
    """The best arms of a chunk. Raises FloatingPointError if the posterior is not finite."""
    if not bool(top.finite):
        raise FloatingPointError(
            "the posterior is not finite: try float64, smaller rewards or a larger regularization."
        )
    # `largest` repeats an arm if too few have a score
    row, index = np.unique(np.asarray(top.row), return_index=True)
    points, score = np.asarray(top.points)[index], np.asarray(top.score)[index]
    number = (chunk * arms.chunk + row).astype(np.int32)
    return _Candidates(number, points, score).select(score > -np.inf)


def _largest_prior(arms: ArmFile, kernel: Any) -> int:
    """The number of the arm with the largest k(x,x). Reads the whole file, which checks that arms
    are finite."""

    @jax.jit
    def largest_of(kernel: Any, x: Array) -> tuple[Array, Array]:
        prior = kernel.diag(x.astype(arms.dtype))
        return jnp.max(prior), jnp.argmax(prior)

    tops = [(chunk, *largest_of(kernel, x)) for chunk, x in arms.read_in_order()]
    chunk, _, row = max(tops, key=lambda top: float(top[1]))
    return min(chunk * arms.chunk + int(row), arms.count - 1)


# Tracked arms


def _evaluations(arms: Arms, numbers: np.ndarray, data: FileEvaluations) -> Evaluations:
    """The evaluations of the arms with these numbers, which are the rows of `arms`."""
    chosen, failed = data.dictionary, data.failed
    if data.arms is None and (data.rewards is not None or chosen is not None):
        raise ValueError(
            "rewards and dictionary describe observed evaluations: give arms with them."
        )
    if data.arms is not None and data.rewards is None:
        raise ValueError("arms describe observed evaluations: give rewards [n] with them.")

    def rows_of(given: Any) -> np.ndarray:
        return np.searchsorted(numbers, np.asarray(given, np.int32))

    evaluations = Evaluations()
    if data.arms is not None:
        if chosen is not None and not isinstance(chosen, str):
            chosen = rows_of(chosen)
        evaluations = of_evaluations(arms, rows_of(data.arms), data.rewards, chosen)
    if failed is not None:
        before = np.zeros(0, int) if evaluations.failed is None else evaluations.failed
        evaluations = replace(evaluations, failed=np.append(before, rows_of(failed)))
    return evaluations


def _first_arm(tracked: _Pool, arms: ArmFile, key: PRNGKey) -> int | None:
    """The number of the random first pick of a run, as in `FixedBKB.ask`; None after it."""
    bandit, _, state = tracked
    if bool(state.counts.any()) or bool(state.pending.any()):
        return None
    excluded = [] if bandit.repeat else tracked.number[np.asarray(state.tried)].tolist()
    if len(excluded) == arms.count:
        return None
    number = int(history.random_arm(arms, key)) % (arms.count - len(excluded))  # type: ignore[arg-type]
    for earlier in excluded:  # in ascending order
        number += earlier <= number
    return number


def _n_slots(count: int) -> int:
    """The number of slots for `count` arms."""
    n_slots = MIN_SLOTS
    while n_slots < count:
        n_slots *= 2
    return n_slots


def _padded(rows: Any, n_slots: int) -> np.ndarray:
    """The rows [n,d] padded to [n_slots,d] with copies of the first row."""
    rows = np.asarray(rows)
    return np.concatenate([rows, np.repeat(rows[:1], n_slots - len(rows), axis=0)])


def _state_of(pool: _Pool) -> StreamedState:
    return StreamedState(pool.bandit.number, pool.state)


def _tracking(pool: _Pool, arms: ArmFile, numbers: Any) -> _Pool:
    """The pool with the arms with these numbers, whose features are read from the file."""
    new = np.setdiff1d(np.asarray(numbers, np.int32), pool.used)
    return _with_arms(pool, new, arms.rows(new)) if len(new) else pool


def _with_arms(pool: _Pool, numbers: Any, points: Any, n_slots: int = 0) -> _Pool:
    """The pool with further arms of these numbers [n] and features [n,d], in `n_slots` slots or
    more."""
    used = pool.used
    all_numbers = np.append(used, np.asarray(numbers, np.int32))
    n_slots = max(n_slots, _n_slots(len(all_numbers)), len(pool.number))
    n_free = n_slots - len(all_numbers)
    order = np.argsort(all_numbers, kind="stable")
    number = np.pad(all_numbers[order], (0, n_free), constant_values=NO_ARM)
    features = np.concatenate([np.asarray(pool.arms.features)[: len(used)], np.asarray(points)])
    arms = Arms(jnp.asarray(_padded(features[order], n_slots)))
    # the old row of each slot, or a row of zeros for a new arm
    old = np.pad(np.where(order < len(used), order, n_slots), (0, n_free), constant_values=n_slots)
    bandit = replace(pool.bandit, number=jnp.asarray(number))
    return _Pool(bandit, arms, _moved(bandit, pool.state, arms, jnp.asarray(old, jnp.int32)))


@jax.jit
def _moved(bandit: FixedBKB, state: FixedBatchState, arms: Arms, old: Array) -> FixedBatchState:
    """The state whose slots have the rows `old` [n] of a state. A slot with another number is that
    of an arm without evaluations."""

    def move(entries: Array) -> Array:
        return entries.at[old].get(mode="fill", fill_value=0)

    p = state.posterior
    mean, variance = posterior.predict(p, bandit.kernel, bandit.regularization, arms.features)
    is_old = old < len(p.mean)
    p = replace(
        p,
        mean=jnp.where(is_old, move(p.mean), mean),
        variance=jnp.where(is_old, move(p.variance), variance),
    )
    names = ("counts", "sums", "inducing", "pending", "tried")
    return replace(state, posterior=p, **{name: move(getattr(state, name)) for name in names})


# Programs over a pool


@jax.jit
def _start_batch(
    bandit: FixedBKB, arms: Arms, state: FixedBatchState, first: Array
) -> conditioned.FixedBatch:
    return bandit.start_batch(state, arms, first)


@jax.jit
def _add_picks(
    bandit: FixedBKB,
    arms: Arms,
    state: FixedBatchState,
    batch: conditioned.FixedBatch,
    limit: Array,
    outside: Array,
) -> conditioned.FixedBatch:
    return bandit.add_picks(state, arms, batch, limit, outside)


@jax.jit
def _tell(
    bandit: FixedBKB, arms: Arms, state: FixedBatchState, query: Query, y: Array, key: PRNGKey
) -> tuple[FixedBatchState, Info]:
    return bandit.tell(state, arms, query, y, key)


@jax.jit
def _width(bandit: FixedBKB, arms: Arms, state: FixedBatchState) -> Array:
    return bandit.confidence_width(state, arms)

"""FixedBKB and BBKB over candidates that do not fit the memory: the same algorithms, the arms read
in chunks from a file.

    domain = open_arms("candidates.npy")                  # [A, d], float32 or float64
    bandit = Streamed(FixedBKB(kernel, batch=96))
    state = bandit.init(domain, key, arms=done, rewards=y)
    query = bandit.ask(state, key)                        # reads all chunks once, or more
    state, info = bandit.tell(state, query, rewards, key)

A state holds the arms that were pulled, are pending or failed: resampling, moments and factors read
no others. An `ask` sweeps the file, keeps the arms with the largest scores, and for each chunk a
bound of the rest. Within a batch scores only fall, so picks among the kept arms are those of all
arms while the best is not below the largest bound; then that chunk is read again, with its scores
as they are by now (THEORY 5.9). The picks are those of the arms in memory, up to arms that tie
(`jsketch.types`).

This runs on the host and compiles what it needs: no method can be traced, and `run` and `drive`,
which compile an algorithm's methods, cannot take it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.core import counts, sketched, widths
from jsketch.bandits.fixed_bkb import FixedBKB
from jsketch.checks import queries
from jsketch.precision import in_dtype
from jsketch.scale import shards
from jsketch.scale.streamed import choice, own
from jsketch.scale.streamed.arm_file import ArmFile
from jsketch.scale.streamed.own import StreamedState
from jsketch.scale.streamed.table import FREE
from jsketch.types import Arms, Info, PRNGKey, Query, is_traced
from jsketch.warn import warn

SAFETY = 8.0
# one program: operation by operation it would compile for seconds
_start = jax.jit(sketched.start, static_argnums=3)


@struct.dataclass
class Streamed:
    """FixedBKB or BBKB over the arms of a file."""

    bandit: Any
    # K, arms that are kept of a sweep
    keep: int = struct.field(pytree_node=False, default=4096)
    # k, arms that a chunk offers; at most K
    offer: int = struct.field(pytree_node=False, default=64)
    # sweep a float32 file in float32 and compute everything else in float64: kept arms are scored
    # anew, and ranked by upper bounds before (THEORY 9.7)
    screen: bool = struct.field(pytree_node=False, default=False)
    # times the estimated rounding of a score, by which the bounds of `screen` are larger
    safety: float = struct.field(pytree_node=False, default=SAFETY)

    def init(
        self,
        domain: ArmFile,
        key: PRNGKey,
        *,
        arms: Any = None,
        rewards: Any = None,
        dictionary: Any = None,
        failed: Any = None,
    ) -> StreamedState:
        """The state before the first batch, or after evaluations of `arms` [n] with `rewards` [n],
        NaN for a failure; `dictionary` as in `BKB.init`, `failed` as in `FixedBKB.init`. Reads the
        whole file once.

        Raises ValueError on static mistakes, for arms that are not finite, and for a key whose
        numbers cannot be drawn for some arms alone.
        """
        self._check(domain)
        checks.one_key(key=key)
        dtype = self._dtype(domain)
        bandit = in_dtype(self.bandit, dtype)
        shards.check_counting(key, domain.count)
        some = np.unique(np.linspace(0, domain.count - 1, checks.SAMPLED).astype(np.int64))
        sample = Arms(jnp.asarray(domain.rows(some), dtype))
        checks.model(sample, bandit.kernel, bandit.regularization)
        given = [] if arms is None else [arms]
        given += [a for a in (failed, dictionary) if a is not None and not isinstance(a, str)]
        for numbers in given:
            checks.arm_numbers(_as_arms(domain), arms=numbers)
        first = jax.random.randint(key, (), 0, domain.count, jnp.int32)
        numbers = np.unique(np.concatenate([np.asarray(a, np.int32) for a in (*given, [])]))
        # a state without arms of its own has the rows of the first one in its free slots
        points = domain.rows(numbers if numbers.size else np.asarray(first)[None]).astype(dtype)
        slots = own.slots_for(len(numbers))
        known = self._known(bandit, points, numbers, key, arms, rewards, dictionary, slots)
        sketched.check_bandit(bandit)
        whole = Arms(jnp.asarray(own.padded(points, slots)))
        checks.spread(sample, bandit.kernel, bandit.capacity)
        sketch = _start(whole, bandit.kernel, bandit.regularization, bandit.capacity, key, known)
        prior = jnp.asarray(choice.prior_variance(domain, bandit.kernel, dtype), dtype)
        sketch = replace(sketch, evidence=replace(sketch.evidence, prior_variance=prior))
        number = np.full(slots, FREE, np.int32)
        number[: len(numbers)] = numbers
        tried = np.asarray(sketch.pull_counts) > 0
        if failed is not None:
            tried[np.searchsorted(numbers, np.asarray(failed, np.int32))] = True
        return StreamedState(
            domain=domain,
            first_arm=first,
            sketch=sketch,
            number=jnp.asarray(number),
            pending=jnp.zeros(slots, dtype),
            tried=jnp.asarray(tried),
        )

    def ask(self, state: StreamedState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        """The next batch, in the numbers of the file. Warns where `choose` says `missed`, raises as
        it does."""
        chosen = self.choose(state, limit)
        if chosen.missed:
            warn(
                "rounding was larger than estimated: the sweep in float32 may have missed arms of"
                f" this batch. Raise safety (it is {self.safety:g}), or sweep in float64"
                " (screen=False and a file of float64)."
            )
        return chosen.query

    def choose(self, state: StreamedState, limit: ArrayLike | None = None) -> choice.Chosen:
        """The next batch, and what it took. Raises ValueError as `ArmFile.read`, FloatingPointError
        where the posterior is not finite."""
        _check_not_traced(state, limit)
        bandit = in_dtype(self.bandit, state.sketch.mean.dtype)
        safety = self.safety if self.screen else 0.0
        return choice.choose(bandit, state, limit, self.keep, self.offer, self.screen, safety)

    def pend(self, state: StreamedState, query: Query) -> StreamedState:
        """As `FixedBKB.pend`."""
        query = queries.on_arms(_as_arms(state.domain), query)
        asked = np.asarray(query.index)[np.asarray(query.mask)]
        state = own.with_arms(state, in_dtype(self.bandit, state.sketch.mean.dtype), asked)
        pending = np.array(state.pending)
        np.add.at(pending, own.positions(state, asked), 1)
        most = getattr(self.bandit, "max_pending", 0)
        if (pending > 0).sum() > most:
            raise ValueError(
                f"{int((pending > 0).sum())} distinct arms would be pending, max_pending is"
                f" {most}: raise it (FixedBKB alone has it)."
            )
        return replace(state, pending=jnp.asarray(pending))

    def tell(
        self, state: StreamedState, query: Query, y: Any, key: PRNGKey
    ) -> tuple[StreamedState, Info]:
        """As of the algorithm; the capacity grows by itself, and no chunk is read. What `info` says
        of the posterior it says of the own arms."""
        _check_not_traced(state, query, y, key)
        dtype = state.sketch.mean.dtype
        bandit = in_dtype(self.bandit, dtype)
        query = queries.on_arms(_as_arms(state.domain), query)
        y = queries.rewards(query, y, dtype)
        mask = np.asarray(query.mask)
        asked = np.asarray(query.index)[mask]
        state = own.with_arms(state, bandit, asked)
        slots = np.zeros(mask.shape, np.int32)
        slots[mask] = own.positions(state, asked)
        local = Query(jnp.asarray(slots), query.mask, None)
        sketch, count = state.sketch, state.domain.count
        while True:
            new, info = own.learn(bandit, sketch, state.number, count, local, y, key)
            if not bool(info.overflow):
                break
            sketch = sketched.grow(sketch, 2 * sketch.capacity)
        pending, tried = np.array(state.pending), np.array(state.tried)
        np.subtract.at(pending, slots[mask], 1)
        tried[slots[mask]] = True
        pending = np.maximum(pending, 0)
        first = state.first_arm
        if mask.any() and not np.asarray(new.pull_counts).any():
            first = counts.resample_initial_arm(first, jnp.ones((), bool), count, key)
        fixed = isinstance(bandit, FixedBKB)
        many = (pending > 0).sum() > bandit.max_pending if fixed else queries.truncated(query)
        after = replace(
            state,
            first_arm=first,
            sketch=new,
            pending=jnp.asarray(pending),
            tried=jnp.asarray(tried),
        )
        return after, replace(info, truncated=jnp.asarray(many))

    def confidence_width(self, state: StreamedState) -> jax.Array:
        """The width of a batch, []."""
        bandit = self.bandit
        return widths.confidence_width(bandit, state.sketch.evidence, bandit.ratio)

    def _dtype(self, domain: ArmFile) -> Any:
        return jnp.dtype(jnp.float64) if self.screen else domain.dtype

    def _known(
        self,
        bandit: Any,
        points: np.ndarray,
        numbers: np.ndarray,
        key: PRNGKey,
        arms: Any,
        rewards: Any,
        dictionary: Any,
        slots: int,
    ) -> Any:
        """What `sketched.start` takes of earlier evaluations, over the slots."""
        if arms is None:
            if rewards is not None or dictionary is not None:
                raise ValueError(
                    "rewards and dictionary describe observed evaluations: give arms with them."
                )
            return None
        if rewards is None:
            raise ValueError("rewards [n] of the evaluated arms are needed.")
        domain = Arms(jnp.asarray(points))
        where = np.searchsorted(numbers, np.asarray(arms, np.int32))
        pulls, sums = counts.of_evaluations(domain, where, rewards)
        if dictionary is not None and not isinstance(dictionary, str):
            dictionary = np.searchsorted(numbers, np.asarray(dictionary, np.int32))
        known = sketched.checked_history(bandit, domain, key, pulls, sums, dictionary)
        return jax.tree.map(lambda a: jnp.pad(a, (0, slots - len(points))), known)

    def _check(self, domain: Any) -> None:
        if not isinstance(self.bandit, BBKB | FixedBKB):
            raise ValueError(
                f"Streamed takes a BBKB or a FixedBKB; a {type(self.bandit).__name__} was given."
            )
        if not isinstance(domain, ArmFile):
            raise ValueError(
                "Streamed chooses from a file, open_arms(path); what was given is a"
                f" {type(domain).__name__}. Arms that fit the memory need no Streamed."
            )
        if isinstance(self.bandit, BBKB) and (
            self.bandit.rule != "global" or not self.bandit.lazy or self.bandit.initial is not None
        ):
            raise ValueError(
                'Streamed takes BBKB with rule="global" and lazy=True, and without `initial`: the'
                " others read all arms for each pick. Give a design's evaluations as `arms` and"
                " `rewards`."
            )
        checks.capacity(keep=self.keep, offer=self.offer)
        checks.truth(screen=self.screen)
        checks.nonnegative(safety=self.safety)
        if self.offer > self.keep:
            raise ValueError(
                f"a chunk offers {self.offer} arms, and keep = {self.keep} are kept of all: raise"
                " keep."
            )
        if self.screen and domain.stored != "float32":
            raise ValueError(
                "screen sweeps arms as they are in the file, in float32; this one holds"
                f" {domain.stored}. Write it in float32, or leave screen out."
            )
        if self.screen and jax.dtypes.canonicalize_dtype(float) != np.float64:
            raise ValueError(
                "screen computes picks in float64: set jax.config.update('jax_enable_x64', True)."
            )
        shape: Any = jax.ShapeDtypeStruct((2, domain.inputs), self._dtype(domain))
        jax.eval_shape(self.bandit.init, Arms(shape), jax.random.key(0))


def _check_not_traced(*given: Any) -> None:
    if is_traced(given):
        raise ValueError(
            "Streamed reads its file while it chooses, so that its methods cannot be compiled: call"
            " ask and tell in a loop of your own, not under jit, and not by run or drive."
        )


def _as_arms(domain: ArmFile) -> Any:
    """The file for checks of numbers, which read how many arms there are."""
    return domain

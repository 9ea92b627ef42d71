"""Shared types and protocols: domains, queries, infos, algorithms and problems.

No class has to inherit from a protocol. The base classes `Algorithm` (over arms) and `Forecaster`
define defaults of optional methods. An algorithm over arms is a frozen pytree of hyperparameters
(numbers are leaves, capacities and choices are static) with three pure methods:

    init(arms, key, *, horizon=None, data=None)  -> state
    ask(state, arms, key, limit=None)            -> Query
    tell(state, arms, query, y, key)             -> (state, Info)

`ask` is pure: the same arguments give the same query.

The arms are an argument of every method and not a part of the state: a state is what a run has
learned, and many states share one set of arms.

`horizon` (static) is the number of evaluations of the run; algorithms over arms do not use it.
`data` is None or `Evaluations`; an algorithm that cannot start from evaluations raises ValueError.

`limit` [], an integer that may be traced, is the number of evaluations that can be made now. A
longer batch is cut to `limit` evaluations; the guarantees still hold. No query has an arm that the
arms leave out (`Arms.left_out`). A slot whose mask is False, or whose value in `y` is NaN, is not
observed. An infinite value is not observed either, and sets the result `NOT_FINITE`. The methods do
not check values: the loops check what a user passes (`jsketch.loops`).

If several arms have the largest score, the one with the lowest index is picked. Arms with equal
features "tie", and `init` warns of them: a call that is compiled differently (under vmap,
with another capacity or on another device) rounds differently, and may pick another one of
several tied arms. Without ties the picks are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.numerics import count, put
from jsketch.results import Result, result

PRNGKey = Array


def table_of_numbers(features: Any) -> Any:
    """A list or a DataFrame as a NumPy array of floating point numbers; other values unchanged.
    Raises TypeError or ValueError for values that are not numbers."""
    if not isinstance(features, list | tuple) and not hasattr(features, "to_numpy"):
        return features
    array = np.asarray(features)
    return array if array.dtype.kind in "fcV" else array.astype(float)


@struct.dataclass
class Arms:
    """A finite domain of A candidates with d features. `features` is an array or a DataFrame of
    floating point numbers; for a `Precomputed` kernel the features are arm numbers [A, 1].

    features  [A + padding, d]
    padding   the number of last rows that are not arms, and are never chosen: `scale.place` repeats
              the last arm so that every device has the same number of rows
    sharding  how `scale.place` distributed the rows over devices; None: they are on one device
    left_out  [A + padding] bool, arms that `ask` does not choose; None: there are none. If it is
              true for all arms, it has no effect. The loops leave out arms whose evaluations fail
              (`loops.failures`)
    """

    features: Array
    padding: int = struct.field(pytree_node=False, default=0)
    sharding: Any = struct.field(pytree_node=False, default=None)
    left_out: Array | None = None

    def __post_init__(self) -> None:
        """Makes a JAX array of the numbers, whose values are known under jit too; `init` raises an
        error for features that are not numbers."""
        try:
            features = table_of_numbers(self.features)
        except (TypeError, ValueError):
            return
        if isinstance(features, np.ndarray) and jnp.issubdtype(features.dtype, jnp.floating):
            with jax.core.eval_context():
                object.__setattr__(self, "features", jnp.asarray(features))

    @property
    def count(self) -> int:
        """The number of arms A."""
        return len(self.features) - self.padding

    def with_padding(self, values: Array) -> Array:
        """Values [..., A] of arms, and 0 where a row is not an arm: [..., A + padding]."""
        if not self.padding:
            return values
        return jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, self.padding)])

    def on_devices(self, values: Array) -> Array:
        """Values [A + padding], each of them on the device of its arm."""
        if self.sharding is None:
            return values
        return lax.with_sharding_constraint(values, self.sharding)

    @property
    def candidates(self) -> Array:
        """The rows that `ask` may choose, [A + padding] bool."""
        is_arm = jnp.arange(len(self.features), dtype=jnp.int32) < self.count
        if self.left_out is None:
            return is_arm
        rest = is_arm & ~self.left_out
        return jnp.where(count(rest) > 0, rest, is_arm)

    def of_candidates(self, scores: Array) -> Array:
        """Scores [..., A + padding] that are -inf where a row is not a candidate."""
        if not self.padding and self.left_out is None:
            return scores
        return jnp.where(self.candidates, scores, -jnp.inf)

    def allows(self, arm: Array) -> Array:
        """Whether an arm [] is a candidate, [] bool."""
        if self.left_out is None:
            return jnp.ones((), bool)
        # to read one entry, devices would exchange all of them
        is_arm = jnp.arange(len(self.features), dtype=jnp.int32) == arm
        return count(self.candidates & is_arm) > 0


@struct.dataclass
class Box:
    """A continuous domain: the points x with lower <= x <= upper in each coordinate.

    lower  [d]
    upper  [d]
    """

    lower: Array
    upper: Array


@struct.dataclass
class Evaluations:
    """Earlier evaluations; `bandits.history.of_evaluations` converts lists of arms and rewards.

    pull_counts  [A], number of observed evaluations of each arm
    reward_sums  [A], sum of the rewards of each arm
    dictionary   the inducing arms [n], or None for all evaluated arms, or "bless" / "leverage" to
                 sample inducing arms by approximate / exact leverage scores (THEORY 3.4)
    failed       arms [n] whose evaluations failed and are not counted, for `FixedBKB`
    """

    pull_counts: Any = None
    reward_sums: Any = None
    dictionary: Any = None
    failed: Any = None


Data = Evaluations | None  # the argument `data` of an algorithm that can start from evaluations


@struct.dataclass
class Query:
    """The arms to evaluate next, in order; slots whose mask is False are padding.

    index  [B] int32, arm of each evaluation
    mask   [B] bool, true for a slot that is to be evaluated
    """

    index: Array
    mask: Array

    @classmethod
    def of(cls, arm: Array) -> Query:
        """The query of one arm [].

        Example:

            Query.of(jnp.argmax(scores))
        """
        return cls(index=jnp.asarray(arm, jnp.int32)[None], mask=jnp.ones(1, bool))

    @property
    def size(self) -> Array:
        """Number of evaluations, []."""
        return count(self.mask)


@struct.dataclass
class Info:
    """A record of one round.

    batch_size       [] int32, evaluations of the round, failed ones included; 0 if the state is
                     unchanged, because the round needs a larger capacity and is to be repeated
    observed         [] int32, evaluations with a finite reward
    dictionary_size  [] int32, inducing points (or distinct arms, for the exact posterior) of the
                     returned state
    width            [] confidence width with which the round was chosen
    result           [] int32, a `jsketch.results.Result`
    """

    batch_size: Array
    observed: Array
    dictionary_size: Array
    width: Array
    result: Array


class Kernel(Protocol):
    """The protocol of kernels; `jsketch.kernels` documents the optional methods."""

    def gram(self, x: Array, y: Array, /) -> Array:
        """k(x_i, y_j) of points x [n,d] and y [m,d], [n,m]."""

    def diag(self, x: Array, /) -> Array:
        """k(x_i, x_i) of points x [n,d], [n]."""


class Bandit(Protocol):
    """The protocol of algorithms over arms; `Algorithm` is a base class of implementations. A state
    is any pytree. `grow` is called only if the state has a `capacity`."""

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: Any = None
    ) -> Any: ...

    def ask(
        self, state: Any, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query: ...

    def tell(
        self, state: Any, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[Any, Info]: ...

    def grow(self, state: Any, arms: Arms, capacity: int) -> Any: ...


class Algorithm(struct.Settings):
    """The base class of algorithms over arms, with the defaults of their optional methods.

    An algorithm whose state has a `capacity` may have a static field of this name. None means that
    the loops choose it: `init` makes a state with `first_capacity` slots, and the loops enlarge it.

    An algorithm may split `tell` into a cheap and an expensive part. `observe` has the arguments
    and results of `tell`, but its state may be `stale` [] bool; `refresh(state, arms, key)` then
    completes it. The loops make rounds while the state of a run is not stale, and refresh it after
    them: under vmap no run computes the expensive part in a round of another one. Such an algorithm
    also has `resize(state, arms, capacity)`, which is `grow` without the expensive part.
    """

    first_capacity: ClassVar[int] = 64

    @property
    def initial_slots(self) -> int:
        """The capacity of the state that `init` makes without earlier evaluations."""
        capacity: int | None = getattr(self, "capacity", None)
        return self.first_capacity if capacity is None else capacity

    def confidence_bounds(self, state: Any, arms: Arms) -> tuple[Array, Array, Array] | None:
        """(mean [A], variance [A], width []) of the confidence bounds mean +- width sqrt(variance)
        of all arms; None for an algorithm without such bounds."""
        return None

    def remaining(self, state: Any, arms: Arms) -> Array | None:
        """Number of evaluations that the algorithm can still make, [] int32; None if there is no
        limit, because arms may be evaluated again."""
        return None

    def may_be_imprecise(self, state: Any, error: float) -> bool:
        """Whether rounding may have changed a variance of a state, or of stacked states, by more
        than `error` times the largest variance. `imprecision(state, arms)` then estimates it."""
        return False

    def grow(self, state: Any, arms: Arms, capacity: int) -> Any:
        """The same state with a larger capacity for inducing points, or for distinct arms. Its
        result is RUNNING."""
        raise NotImplementedError(
            f"{type(self).__name__} must define grow(state, arms, capacity), because the state has"
            " a capacity that no longer suffices."
        )


class ArmProblem(Protocol):
    """The protocol of problems over arms (`jsketch.problems`)."""

    @property
    def arms(self) -> Arms: ...

    @property
    def mean_reward(self) -> Array:
        """The mean rewards [A] of the arms."""

    def sample(self, key: PRNGKey, arm: Array) -> Array:
        """One noisy reward [] of an arm []. The loops vmap `sample` over the slots of a batch and
        ignore the rewards of padding."""


@struct.dataclass
class BoxQuery:
    """The points of a box to evaluate next; the slots in use come first.

    x     [B, d]
    mask  [B] bool, true for a slot that is to be evaluated
    """

    x: Array
    mask: Array

    @property
    def size(self) -> Array:
        """Number of evaluations, []."""
        return self.mask.sum(dtype=jnp.int32)


@struct.dataclass
class BoxInfo:
    """A record of one round of a box optimiser; a subclass may have more fields. The loops warn if
    a subclass has a field `nonfinite` [] that is true.

    observed  [] int32, evaluations with a finite value
    failed    [] int32, evaluations without a finite value
    best      [] largest value so far, -inf if there is none
    """

    observed: Array
    failed: Array
    best: Array


class BoxOptimizer(Protocol):
    """The protocol of maximisation over a box.

    `horizon` (static) is the number N of evaluations, the capacity of the state and the length of
    the schedules; `limit` is the number of evaluations that can be made now (None: the rest of N).
    `init` raises ValueError for invalid settings, and if the state is larger than memory. The
    first query has `initial` (a field) uniform random points, which are the same for all optimisers
    under the same key (`jsketch.box.history`). Before N evaluations no query is empty; a query is
    cut to the limit and to N evaluations in all. The same arguments of `ask` give the same query. A
    value in `y` that is not finite is a failed evaluation: it is counted, and is neither observed
    nor the best.
    """

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> Any: ...

    def ask(self, state: Any, key: PRNGKey, limit: ArrayLike | None = None) -> BoxQuery: ...

    def tell(self, state: Any, query: Any, y: Array, key: PRNGKey) -> tuple[Any, Any]: ...


@struct.dataclass
class ForecastInfo:
    """A record of one example, or of a block of B examples.

    dictionary_size  [] or [B] int32, features or points after each example
    result           [] int32, a `results.Result`: RUNNING, CAPACITY_EXCEEDED if the next example
                     exceeds the capacity and is NOT learned, or NOT_FINITE if a label is
                     infinite or the state is not finite
    """

    dictionary_size: Array
    result: Array


class Forecaster(struct.Settings):
    """The base class of forecasters. A subclass defines `init`, `predict`, and either `update`,
    which learns one example, or `advance`, which learns a block; each is derived from the other.
    `predict` is pure and does not depend on the label; a label that is not finite is ignored.

    A forecaster whose state has a capacity also has a method grow(state) -> state, which enlarges
    it. The loops call `grow` when the result is CAPACITY_EXCEEDED.

    Example:

        @jsketch.struct.dataclass
        class LastLabel(Forecaster):
            def init(self, x, key):
                return jnp.zeros((), x.dtype)

            def predict(self, state, x):
                return state

            def update(self, state, x, y, key):
                state = jnp.where(jnp.isfinite(y), y, state)
                return state, ForecastInfo(dictionary_size=0, result=Result.RUNNING)
    """

    def init(self, x: Array, key: PRNGKey) -> Any:
        """The state before the first example; x [d] is one example."""
        raise NotImplementedError

    def predict(self, state: Any, x: Array) -> Array:
        """The prediction y^ [] at x [d], before its label is observed."""
        raise NotImplementedError

    def preview(self, state: Any, xs: Array) -> tuple[Array, Array]:
        """(predictions y^ [n] at the rows of xs [n,d], all from the same state; whether a row
        exceeds the capacity [], which then has to be enlarged first)."""
        return jax.vmap(lambda x: self.predict(state, x))(xs), jnp.zeros((), bool)

    def update(self, state: Any, x: Array, y: Array, key: PRNGKey) -> tuple[Any, Any]:
        """(state, `ForecastInfo`) after the label y [] at x [d]. If the example exceeds the
        capacity, the state does not change."""
        state, _, _, info = self.advance(state, x[None], jnp.asarray(y)[None], 1, key[None])
        return state, replace(info, dictionary_size=info.dictionary_size[0])

    def advance(
        self,
        state: Any,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[Any, Array, Array, Any]:
        """Predicts and learns at most `limit` [] examples of a block x [B,d], y [B] in order.
        `keys` [B] has a key for each of them.

        Returns (state, predictions y^ [B], done [] int32, `ForecastInfo`). The first `done`
        examples are learned, and only their predictions are valid. A block may end before its
        limit; `done` is 0 only for a limit of 0, which changes nothing, and if the first example
        exceeds the capacity.
        """
        if type(self).update is Forecaster.update:
            raise NotImplementedError(f"{type(self).__name__} must define update or advance.")
        return _one_by_one(self, state, x, y, limit, keys)

    def check_rounding(self, x: Array) -> bool:
        """Warns, and returns True, if rounding errors are too large for an example x [d]; called on
        the host."""
        return False


class _Learned(NamedTuple):
    """The first `done` examples of a block, which `update` has learned."""

    state: Any
    predictions: Array  # [B]
    sizes: Array  # [B] int32
    done: Array  # [] int32
    exceeded: Array  # [] bool, example `done` exceeds the capacity
    result: Array  # [] int32, the largest result of the learned examples


def _one_by_one(
    forecaster: Forecaster, state: Any, x: Array, y: Array, limit: ArrayLike, keys: Any
) -> tuple[Any, Array, Array, ForecastInfo]:
    """`Forecaster.advance` by `predict` and `update`."""

    def learn_next(block: _Learned) -> _Learned:
        i = block.done
        key: Any = None if keys is None else keys[i]
        prediction = forecaster.predict(block.state, x[i])
        state, info = forecaster.update(block.state, x[i], y[i], key)
        exceeded = jnp.asarray(info.result) == Result.CAPACITY_EXCEEDED
        return _Learned(
            state=state,
            predictions=put(block.predictions, i, prediction),
            sizes=put(block.sizes, i, info.dictionary_size),
            done=i + (~exceeded).astype(jnp.int32),
            exceeded=exceeded,
            result=jnp.where(exceeded, block.result, jnp.maximum(block.result, info.result)),
        )

    zero = jnp.zeros((), jnp.int32)
    sizes = jnp.zeros(len(y), jnp.int32)
    block = _Learned(state, jnp.zeros_like(y), sizes, zero, zero > 0, zero)
    if len(y) == 1 and isinstance(limit, int) and limit > 0:
        block = learn_next(block)  # a loop would copy the state
    else:
        limit = jnp.minimum(jnp.asarray(limit, jnp.int32), len(y))
        block = lax.while_loop(
            lambda block: (block.done < limit) & ~block.exceeded, learn_next, block
        )
    first_exceeds = block.exceeded & (block.done == 0)
    code = jnp.maximum(block.result, result((Result.CAPACITY_EXCEEDED, first_exceeds)))
    return block.state, block.predictions, block.done, ForecastInfo(block.sizes, code)


def is_traced(*values: Any) -> bool:
    """Whether any leaf of the values is a tracer, whose value is not available."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))

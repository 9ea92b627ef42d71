"""Shared types and protocols: domains, queries, infos, algorithms and problems.

Nobody inherits from anything here. An algorithm is a frozen pytree of hyperparameters (numbers are
leaves, capacities and choices are static) with three pure methods:

    init(domain, key)                 -> state
    ask(state, key, limit=None)       -> Query          asking twice gives the same query
    tell(state, query, y, key)        -> (state, Info)

`limit` is the number of evaluations that can be made now (a traced integer is fine); a batch that
would be longer is cut there, which keeps every guarantee. A masked slot or a NaN in `y` means "not
observed". A reward of an arm that is not there is a ValueError; where the arms are traced it is not
applied, and flagged `nonfinite` as an infinite one is.

Arms whose scores are equal go by the lowest index, but equal features do not make scores equal to
the last bit: another program (vmap or threads, another capacity, another device) rounds
differently, may pick another of several identical arms, and then continues as another run of the
same law. Every promise of equal picks holds up to that. A set of distinct arms is free of it;
`init` warns of repeated ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct

PRNGKey = Array


class Shard(NamedTuple):
    """Where arms lie whose rows are spread over devices (`jsketch.shards`)."""

    axis: str  # of the mesh
    arms: int  # A, without the rows that pad them


@struct.dataclass
class Arms:
    """A finite domain: A candidates with d features each, an array or anything that NumPy makes one
    of (a DataFrame of floating point numbers). For a `Precomputed` kernel, features are arm indices
    [A, 1]."""

    features: Array  # [A, d]
    # None: the arms are whole; `scale.sharded.place` spreads them, and pads them to as many rows
    # on each device
    shard: Shard | None = struct.field(pytree_node=False, default=None)

    @property
    def count(self) -> int:
        return len(self.features) if self.shard is None else self.shard.arms


@struct.dataclass
class Box:
    """A continuous domain: all points between `lower` and `upper`, input by input."""

    lower: Array  # [d]
    upper: Array  # [d]


@struct.dataclass
class Query:
    """The arms to evaluate next, in order; slots whose mask is False are padding."""

    index: Array  # [B] int32, arm of each evaluation
    mask: Array  # [B] bool, true for a slot that is to be evaluated
    # [] bool, the batch was ended by its capacity B and not by its rule; None where no rule ends a
    # batch
    truncated: Array | None = None

    @property
    def size(self) -> Array:
        """Number of evaluations asked for, []."""
        return self.mask.sum()


@struct.dataclass
class Info:
    """What a researcher wants logged about one round. Flags are values here; the loops raise them
    on the host."""

    batch_size: Array  # [] int32, evaluations observed or failed in this round
    observed: Array  # [] int32, those with a usable reward
    # [] int32, inducing points (or distinct arms, for the exact posterior) after the round
    dictionary_size: Array
    width: Array  # [] confidence width that chose the round
    # [] bool, the new dictionary does not fit the capacity: the round was NOT applied
    overflow: Array
    truncated: Array  # [] bool, the batch was ended by its capacity B and not by its rule
    # [] bool, a reward was infinite or of an arm that is not there (and ignored), or the posterior
    # or the width is not finite
    nonfinite: Array
    # [] bool, rounding may change variances by more than 0.1% of the largest (near-duplicates in
    # the dictionary, float32); only BKB and its kin know
    imprecise: Array | bool = False


class Kernel(Protocol):
    """What makes a kernel; `jsketch.kernels` says what else one may have."""

    def gram(self, x: Array, y: Array, /) -> Array:
        """k(x_i, y_j) of points x [n,d] and y [m,d], [n,m]."""

    def diag(self, x: Array, /) -> Array:
        """k(x_i, x_i) of points x [n,d], [n]."""


class State(Protocol):
    """What every state over arms is: a dataclass with the arms in it. One with a `capacity` belongs
    to an algorithm that is `Growing`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def domain(self) -> Arms: ...


SomeState = TypeVar("SomeState", bound=State)


class Bandit(Protocol[SomeState]):
    """The protocol that every algorithm over arms obeys (structural: without inheritance), each
    with a state of its own."""

    def init(self, domain: Arms, key: PRNGKey) -> SomeState: ...

    def ask(self, state: SomeState, key: PRNGKey, limit: ArrayLike | None = None) -> Query: ...

    def tell(
        self, state: SomeState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SomeState, Info]: ...


class Growing(Protocol[SomeState]):
    """What an algorithm has whose state holds a number of inducing points, or of distinct arms."""

    def grow(self, state: SomeState, capacity: int) -> SomeState:
        """The same state with room for `capacity` of them."""


class ArmProblem(Protocol):
    """What a bandit meets (`jsketch.problems`): arms, what they are worth, and noisy evaluations of
    them."""

    @property
    def arms(self) -> Arms: ...

    @property
    def mean_reward(self) -> Array:
        """[A]."""

    def sample(self, key: PRNGKey, arm: Array) -> Array:
        """One reward [] of an arm []. It is vmapped over the slots of a batch, padding among them,
        whose rewards are dropped."""


def detach(state: SomeState) -> SomeState:
    """The state of a bandit without its domain: a loop that carries the arms copies them, under
    vmap for every seed."""
    return replace(state, domain=None)


def attach(state: SomeState, domain: Arms) -> SomeState:
    """The state with its domain back."""
    return replace(state, domain=domain)


def enlarged(bandit: Bandit[SomeState], state: SomeState, capacity: int) -> SomeState:
    """The state of a bandit that is `Growing`, with room for `capacity`."""
    return cast(Growing[SomeState], bandit).grow(state, capacity)


@struct.dataclass
class BoxQuery:
    """The points of a box to evaluate next; the slots in use come first."""

    x: Array  # [B, d]
    mask: Array  # [B] bool, true for a slot that is to be evaluated

    @property
    def size(self) -> Array:
        """Number of evaluations asked for, []."""
        return self.mask.sum(dtype=jnp.int32)


@struct.dataclass
class BoxInfo:
    """What every box optimiser logs about a round; one may log an own class with more fields. The
    loops warn where one of them is `nonfinite` [] bool and true."""

    observed: Array  # [] int32, evaluations observed with a finite value
    failed: Array  # [] int32, evaluations observed without one
    best: Array  # [] largest value so far, -inf before the first


class PointQuery(Protocol):
    """What loops and histories need of a box optimiser's query: `BoxQuery`, or an own class with
    more fields."""

    @property
    def x(self) -> Array: ...

    @property
    def mask(self) -> Array: ...

    @property
    def size(self) -> Array: ...


class BoxOptimizer(Protocol):
    """The protocol of maximisation over a box (structural: without inheritance).

    `horizon` (static) is the number N of evaluations: the state has room for them, and the
    schedules plan for them. The first query holds all the `initial` uniform random points, the same
    for all optimisers under the same key (`jsketch.box.history`); a query is never empty before N
    evaluations and is cut there. Asking twice gives the same query. A value in `y` that is not
    finite is a failed evaluation: it is counted, never learned from, never the best.
    """

    def init(self, box: Box, key: PRNGKey, horizon: int) -> Any: ...

    def ask(self, state: Any, key: PRNGKey) -> PointQuery: ...

    def tell(self, state: Any, query: Any, y: Array, key: PRNGKey) -> tuple[Any, Any]: ...


@struct.dataclass
class ForecastInfo:
    """What a researcher wants logged about one example, or a block of them."""

    dictionary_size: Array  # [] int32, features or points that the forecaster uses
    overflow: Array  # [] bool, the example does not fit the capacity and was NOT learned
    nonfinite: Array  # [] bool, a label was infinite (and ignored) or the state is not finite


class Forecaster(Protocol):
    """The protocol of online regression. `predict` is pure and does not see the label; a label that
    is not finite is not learned. The attribute `takes` declares how the loops drive it. Without
    one, or with "examples": one by one. Otherwise:

    "blocks"          predict_update(state, x [B,d], y [B]) -> (state, y^ [B], info)        a block,
                      exactly as one by one
    "growing blocks"  advance(state, x [B,d], y [B], limit) -> (state, y^ [B], done, info)  as much
                      of it as goes at once; nothing changes for a limit of zero (under vmap, a
                      run that has ended)

    Where it has them, the loops also use

    step(state, x, y, key) -> (state, y^, info)                         predict and update, sharing
                                                                        their work
    learn(state, x [n,d], y [n]) -> state                               many examples at once,
                                                                        without predictions
    grow(state) -> state                                               more room, after an overflow
    """

    def init(self, x: Array, key: PRNGKey) -> Any: ...

    def predict(self, state: Any, x: Array) -> Array: ...

    def update(self, state: Any, x: Array, y: Array, key: PRNGKey) -> tuple[Any, ForecastInfo]: ...


def is_traced(*values: Any) -> bool:
    """True when any leaf is a tracer, so that a check on its value has to be left to the host."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))

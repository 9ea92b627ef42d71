"""A run over the devices of a mesh (`bandits.Sharded`), planned without them: what each holds, what
they tell each other, and how many arms or devices fit a memory.

A device runs the program of one device on its rows of the arms, ceil(A / devices); dictionary and
factors are whole on each. So its bytes are those of that program, and they are linear in the arms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsketch import checks
from jsketch.bandits.sharded import ALGORITHMS, AXIS, Sharded, check_algorithm, rows_on_each
from jsketch.loops.inputs import check_bandit
from jsketch.planning import space
from jsketch.problems.finite import GaussianArms
from jsketch.types import Arms, Shard, attach

# arms on a device for which bytes are compiled, for a line through both: more than a chunk of a
# sweep on an accelerator, whose room is taken once. Primes, which no chunks divide: where they do,
# a sweep needs no padded copy of the features
ROWS = 1_048_573, 2_097_143
# what a collective names its axis by, in the programs that JAX traces
NAMES = ("axes", "axis_name")
LOOPS = ("while", "scan")


class Room(NamedTuple):
    """Bytes of a run on each device. `str` says them."""

    fixed: float  # whatever the arms: dictionary, factors, trace, a chunk of a sweep
    row: float  # of each arm on the device
    # of each arm of all: mean reward and regret of a simulated problem, whole on every device. An
    # objective of your own (`drive`) has none
    arm: float

    def bytes(self, arms: int, devices: int = 1) -> int:
        """On each of so many devices."""
        checks.capacity(arms=arms, devices=devices)
        return round(self.fixed + self.row * -(-arms // devices) + self.arm * arms)

    def largest_arms(self, memory: float, devices: int = 1) -> int:
        """The most arms that fit so many bytes on each device, at most the 2^31 - 1 that are
        numbered; 0 where not one fits."""
        checks.capacity(devices=devices)
        _check_memory(memory)
        return space.largest(lambda arms: self.bytes(arms, devices) <= memory, checks.MOST)

    def fewest_devices(self, arms: int, memory: float) -> int:
        """The smallest mesh on which so many arms fit so many bytes a device; 0 where none does."""
        checks.capacity(arms=arms)
        _check_memory(memory)
        left = memory - self.fixed - self.arm * arms
        rows = space.largest(lambda rows: self.row * rows <= left, arms)
        return -(-arms // rows) if rows else 0

    def __str__(self) -> str:
        return (
            f"{self.fixed / 1e6:,.0f} MB, {self.row:,.0f} bytes for each arm on the device and"
            f" {self.arm:,.0f} for each of all arms"
        )


def _check_memory(memory: float) -> None:
    if memory != float("inf"):
        checks.positive(memory=memory)


class Messages(NamedTuple):
    """Collectives of one round, as its program is traced, and their bytes on a device; the compiler
    may join some."""

    once: int
    once_bytes: int
    # in loops, once a turn: a pick, a working set, a chunk of pulled arms
    repeated: int
    repeated_bytes: int


class Devices(NamedTuple):
    """The part of a plan over devices."""

    number: int
    rows: int  # arms on each; the last ones may be padding
    messages: Messages  # none on one device
    largest_arms: int | None  # that fit the memory of each; None where that is not known
    fewest: int | None  # devices on which these arms fit it, 0: no number of them

    def __str__(self) -> str:
        many, each = self.messages, f"{self.rows:,} arms on each of {self.number} devices"
        said = [each if self.number > 1 else "all arms on one device"]
        if self.number > 1:
            said.append(
                f"a round has {many.once} messages of {many.once_bytes / 1e3:,.1f} kB, its loops"
                f" {many.repeated} of {many.repeated_bytes / 1e3:,.1f} kB a turn (not in the time)"
            )
        if self.largest_arms is not None:
            few = f"{self.fewest:,}" if self.fewest else "no number is enough"
            said.append(f"at most {self.largest_arms:,} arms fit; fewest devices for these: {few}")
        return "; ".join(said)


def room(
    bandit: Any,
    inputs: int,
    horizon: int,
    *,
    capacity: int | None = None,
    dtype: DTypeLike | None = None,
) -> Room:
    """The bytes of a run of `horizon` evaluations over arms with `inputs` features, for any number
    of arms and devices: two programs are compiled, at their shapes alone.

    capacity  int, inducing points that there is room for; None: the bandit's. A run that needs more
              of them grows, and takes more than this says
    dtype     of the arms; None: JAX's default

    An upper bound: where chunks of a sweep divide the arms of a device it takes `inputs` numbers an
    arm less. For algorithms whose memory is linear in the arms: `room(BBKB(kernel), 8,
    1_000).largest_arms(80e9, devices=8)`. Raises ValueError for static mistakes.
    """
    check_bandit(bandit)
    given = {} if capacity is None else {"capacity": capacity}
    checks.capacity(inputs=inputs, horizon=horizon, **given)
    kind = jnp.zeros((), dtype).dtype
    return _room(bandit, inputs, horizon, capacity, kind, 1, 1)


def _room(
    bandit: Any,
    inputs: int,
    horizon: int,
    capacity: int | None,
    kind: np.dtype[Any],
    seeds: int,
    at_once: int,
) -> Room:
    """`room`, of so many runs, `at_once` at a time."""
    slots: int = getattr(bandit, "capacity", 0) if capacity is None else capacity

    def compiled(rows: int) -> int:
        problem = space.stand_in(rows, inputs, kind, rewards=ROWS[1])
        run = space.of_program(bandit, problem, horizon, slots, quickly=True)
        return run.of(seeds, at_once)

    few, many = map(compiled, ROWS)
    # runs share the mean rewards, and each that is made has its regrets
    row, arm = (many - few) / (ROWS[1] - ROWS[0]), (1 + at_once) * kind.itemsize
    return Room(max(few - ROWS[0] * row - ROWS[1] * arm, 0.0), row, arm)


def of_bandit(bandit: Any, devices: int | None) -> tuple[Any, int]:
    """(the algorithm, over how many devices its arms are). Raises ValueError for several devices
    and an algorithm that has one, and for a `Sharded` over another number of them."""
    if isinstance(bandit, Sharded):
        there = int(bandit.mesh.shape[bandit.axis])
        if devices not in (None, there):
            raise ValueError(
                f"devices is {devices}, and the mesh of Sharded has {there} along {bandit.axis!r}:"
                " leave devices out, or give the algorithm without its mesh."
            )
        return bandit.bandit, there
    if devices is not None and devices > 1:
        check_algorithm(bandit)
    return bandit, devices or 1


def on_a_device(domain: Arms, devices: int) -> GaussianArms:
    """The shapes of what one of so many devices has of a problem: its arms, and all mean
    rewards."""
    count, inputs = domain.features.shape
    rows = rows_on_each(count, devices)
    return space.stand_in(rows, inputs, domain.features.dtype, rewards=count)


class Fitting(NamedTuple):
    """What a plan asks about devices and memory, compiled for only where it is asked."""

    bandit: Any
    domain: Arms  # all of them
    horizon: int
    capacity: int
    devices: int
    memory: float | None  # bytes on each
    seeds: int = 1
    at_once: int = 1  # of them

    def room(self) -> Room:
        (_, inputs), dtype = self.domain.features.shape, self.domain.features.dtype
        capacity = self.capacity or None
        return _room(self.bandit, inputs, self.horizon, capacity, dtype, self.seeds, self.at_once)

    def fewest(self) -> int:
        """Devices on which the arms fit; 0 for an algorithm that has one."""
        if self.memory is None or not isinstance(self.bandit, ALGORITHMS):
            return 0
        return self.room().fewest_devices(self.domain.count, self.memory)

    def said(self) -> Devices:
        """For a plan."""
        count, most, fewest = self.domain.count, None, None
        if self.memory is not None:
            found = self.room()
            most = found.largest_arms(self.memory, self.devices)
            fewest = found.fewest_devices(count, self.memory)
        return Devices(
            self.devices,
            rows_on_each(count, self.devices),
            messages(self.bandit, self.domain, self.devices, self.capacity),
            most,
            fewest,
        )


def messages(bandit: Any, domain: Arms, devices: int, capacity: int) -> Messages:
    """Those of a round over so many devices, of a program that is traced and not compiled; they do
    not depend on the number of arms."""
    if devices == 1:
        return Messages(0, 0, 0, 0)
    (count, inputs), dtype = domain.features.shape, domain.features.dtype
    rows, shard = rows_on_each(count, devices), Shard(AXIS, count)
    progress = space.started(bandit, space.stand_in(rows, inputs, dtype), 1, capacity)

    def one_round(features: Any, state: Any, key: Any) -> Any:
        state = attach(state, Arms(features, shard))
        query = bandit.ask(state, key)
        return bandit.tell(state, query, jnp.zeros(query.index.shape, dtype), key)

    struct: Any = jax.ShapeDtypeStruct
    traced = jax.make_jaxpr(one_round, axis_env=[(AXIS, devices)])(
        struct((rows, inputs), dtype), progress.state, space.KEY
    )
    found = list(_collectives(traced.jaxpr, False))
    once = [size for size, repeated in found if not repeated]
    again = [size for size, repeated in found if repeated]
    return Messages(len(once), sum(once), len(again), sum(again))


def _collectives(program: Any, repeated: bool) -> Iterator[tuple[int, bool]]:
    """(bytes, whether in a loop) of each collective of a traced program, in its parts too."""
    for step in program.eqns:
        axes = [axis for name in NAMES for axis in _listed(step.params.get(name))]
        # a device asks for its own number without a message
        if AXIS in axes and step.invars:
            yield sum(out.aval.size * out.aval.dtype.itemsize for out in step.outvars), repeated
        inside = repeated or step.primitive.name in LOOPS
        for value in step.params.values():
            for part in _listed(value):
                part = getattr(part, "jaxpr", part)
                if hasattr(part, "eqns"):
                    yield from _collectives(part, inside)


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)

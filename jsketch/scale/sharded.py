"""Sketched bandits over arms whose rows are on several devices, under `jax.shard_map`.

    mesh = jax.make_mesh((4,), ("arms",))
    domain = place(features, mesh)
    drive(Sharded(BBKB(kernel), mesh), objective, domain, key, horizon)

A device has O(A d / devices + M^2) numbers: its rows of the arms, of the history and of the
posterior, and the whole dictionary of M arms with its factors. The size of the messages between
devices does not depend on A. The random number of an arm depends on its index, not on its device.
Therefore the picks are the same as on one device, up to arms that tie (`jsketch.types`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.core import sketched
from jsketch.bandits.fixed_bkb import FixedBKB
from jsketch.bandits.thompson import SketchedTS
from jsketch.scale.shards import Shard
from jsketch.types import (
    Algorithm,
    Arms,
    Data,
    Evaluations,
    Info,
    PRNGKey,
    Query,
    is_traced,
)

AXIS = "arms"
ALGORITHMS = (BBKB, BKB, FixedBKB, SketchedTS)
# fields of a state with an entry for each arm; the other fields are equal on all devices
FIELDS_PER_ARM = {"pull_counts", "reward_sums", "mean", "variance", "pending", "tried"}


def place(features: Any, mesh: Mesh, axis: str = AXIS) -> Arms:
    """Arms [A,d] over the devices of a mesh, with the same number of rows on each device. The last
    arm is repeated as padding, which is never chosen. A device receives only its own rows.

    Raises ValueError for invalid features, a mesh without this axis and fewer arms than devices.
    """
    n_devices = check_mesh(mesh, axis)
    features = checks.arm_features(features)
    n_arms, dimension = features.shape
    rows = rows_per_device(n_arms, n_devices, axis)
    dtype = jax.dtypes.canonicalize_dtype(features.dtype)

    def part(index: Any) -> np.ndarray:
        begin, end, _ = index[0].indices(rows * n_devices)
        return np.asarray(features[np.minimum(np.arange(begin, end), n_arms - 1)], dtype)

    sharding = NamedSharding(with_automatic_axes(mesh), P(axis))
    placed = jax.make_array_from_callback((rows * n_devices, dimension), sharding, part)
    return Arms(placed, Shard(axis, n_arms))


def rows_per_device(n_arms: int, n_devices: int, axis: str = AXIS) -> int:
    """Rows of a device, padding included. Raises ValueError for fewer arms than devices."""
    if n_arms < n_devices:
        raise ValueError(
            f"there are {n_arms} arms for {n_devices} devices along the axis {axis!r}: use fewer"
            " devices."
        )
    return -(-n_arms // n_devices)


def check_mesh(mesh: Any, axis: str) -> int:
    """The number of devices along an axis. Raises ValueError unless `mesh` has this axis."""
    if not isinstance(mesh, Mesh):
        raise ValueError(
            'mesh must be a jax.sharding.Mesh, such as jax.make_mesh((4,), ("arms",)); a'
            f" {type(mesh).__name__} was given."
        )
    if axis not in mesh.axis_names:
        raise ValueError(
            f"the mesh has the axes {', '.join(map(repr, mesh.axis_names))} and no axis {axis!r}."
        )
    return int(mesh.shape[axis])


def with_automatic_axes(mesh: Mesh) -> Mesh:
    """The mesh with axes along which the compiler infers shardings, because arrays that are sharded
    along the explicit axes of `jax.make_mesh` cannot be indexed."""
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


@struct.dataclass
class Sharded(Algorithm):
    """BBKB, BKB, FixedBKB or SketchedTS over arms that `place` distributes on the same mesh."""

    bandit: Any  # an algorithm over arms
    mesh: Mesh = struct.field(pytree_node=False)  # the devices
    axis: str = struct.field(pytree_node=False, default=AXIS)  # the axis of the mesh

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> Any:
        """The state of the algorithm's `init`; all processes pass the same evaluations. Raises
        ValueError for another algorithm, for arms that are not on this mesh, and for evaluations
        that the algorithm does not use."""
        self._check(domain)
        self._check_data(data)
        failed = None if data is None else data.failed
        history = None
        if data is not None:
            history = sketched.checked_history(self.bandit, domain, key, data)
        if history is not None:
            history = jax.tree.map(partial(self._place, domain), history._replace(failed=None))
        features: Any = jax.ShapeDtypeStruct((domain.count, 1), jnp.float32)
        shapes = jax.eval_shape(self.bandit.init, Arms(features), key)

        def body(domain: Arms, key: PRNGKey, history: Any) -> Any:
            if history is not None:
                evaluations: Any = history._replace(failed=failed)
            else:
                evaluations = None if failed is None else Evaluations(failed=failed)
            return replace(self.bandit.init(domain, key, data=evaluations), domain=None)

        mapped_init = self._map(body, (P(self.axis), P(), P(self.axis)), self._specs(shapes))
        # without jit, each operation of `init` would be compiled separately
        state = (mapped_init if history is None else jax.jit(mapped_init))(domain, key, history)
        if history is not None:
            state = replace(state, chosen_by_user=sketched.lists_inducing_arms(data))
        return replace(state, domain=domain)

    def ask(self, state: Any, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return self._apply(self.bandit.ask, P(), state, key, checks.evaluation_limit(limit))

    def tell(self, state: Any, query: Query, y: Array, key: PRNGKey) -> tuple[Any, Info]:
        def body(*arguments: Any) -> tuple[Any, Info]:
            new, info = self.bandit.tell(*arguments)
            return replace(new, domain=None), info

        # checked here, because arms and rewards are traced in `body`
        query, y = checks.feedback(state.domain, query, y)
        new, info = self._apply(body, (self._specs(state), P()), state, query, y, key)
        return replace(new, domain=state.domain), info

    def pend(self, state: Any, query: Query) -> Any:
        """`FixedBKB.pend` over all devices. Too many pending arms raise no error here, but the next
        `tell` sets `info.truncated`."""

        def body(*arguments: Any) -> Any:
            return replace(self.bandit.pend(*arguments), domain=None)

        query = checks.arm_query(state.domain, query)
        return replace(self._apply(body, self._specs(state), state, query), domain=state.domain)

    def remaining(self, state: Any) -> Array | None:
        """`FixedBKB.remaining` over all devices; None for other algorithms or with `repeat`."""
        if not isinstance(self.bandit, FixedBKB) or self.bandit.repeat:
            return None
        return self._apply(self.bandit.remaining, P(), state)

    def grow(self, state: Any, capacity: int) -> Any:
        return self.bandit.grow(state, capacity)

    def _place(self, domain: Arms, values: Array) -> Array:
        """Values [A] on the devices of their arms, with 0 as padding."""
        rows = domain.features.shape[0]
        if is_traced(values):
            return jnp.pad(values, (0, rows - domain.count))
        padded = np.pad(np.asarray(values), (0, rows - domain.count))
        sharding = NamedSharding(with_automatic_axes(self.mesh), P(self.axis))
        return jax.make_array_from_callback((rows,), sharding, lambda index: padded[index])

    def _apply(
        self, method: Callable[..., Any], out_specs: Any, state: Any, *arguments: Any
    ) -> Any:
        """The result of a method of the algorithm over all devices; `out_specs` are the partition
        specs of the result."""

        def body(domain: Arms, state: Any, *arguments: Any) -> Any:
            return method(replace(state, domain=domain), *arguments)

        in_specs = (P(self.axis), self._specs(state), *[P()] * len(arguments))
        return self._map(body, in_specs, out_specs)(
            state.domain, replace(state, domain=None), *arguments
        )

    def _map(self, body: Callable[..., Any], in_specs: Any, out_specs: Any) -> Callable[..., Any]:
        # check_vma=False: JAX cannot verify that numbers from a loop are equal on all devices
        mesh = with_automatic_axes(self.mesh)
        return jax.shard_map(
            body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )

    def _specs(self, state: Any) -> Any:
        """Partition specs of a state without its arms."""

        def spec(path: tuple[Any, ...], _: Any) -> P:
            return P(self.axis) if getattr(path[-1], "name", None) in FIELDS_PER_ARM else P()

        return jax.tree_util.tree_map_with_path(spec, replace(state, domain=None))

    def _check_data(self, data: Evaluations | None) -> None:
        if isinstance(self.bandit, SketchedTS):
            checks.no_evaluations(self.bandit, data)

    def _check(self, domain: Arms) -> None:
        check_mesh(self.mesh, self.axis)
        if type(self.bandit) not in ALGORITHMS:
            names = ", ".join(algorithm.__name__ for algorithm in ALGORITHMS)
            name = type(self.bandit).__name__
            raise ValueError(f"Sharded takes one of {names}; a {name} was given.")
        shard = getattr(domain, "shard", None)
        if shard is None or shard.axis != self.axis:
            raise ValueError(
                "Sharded needs arms over its mesh, place(features, mesh, axis); these are"
                f" {'on one device' if shard is None else f'over the axis {shard.axis!r}'}."
            )
        if is_traced(domain):
            return
        sharding = domain.features.sharding
        if sharding != NamedSharding(with_automatic_axes(self.mesh), P(self.axis)):
            raise ValueError(f"the arms are on another mesh than {self.mesh}: {sharding}.")
        if domain.features.is_fully_addressable:
            # the kernel is checked at a sample of arms
            index = np.linspace(0, domain.count - 1, checks.GRAM_ARMS).astype(np.int32)
            sample = Arms(jnp.asarray(np.asarray(domain.features[index])))
            checks.model(sample, self.bandit.kernel, self.bandit.regularization)

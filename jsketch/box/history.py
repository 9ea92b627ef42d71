"""What every box optimiser shares: its observations at a fixed capacity, its first points, and the
unit cube.

A state that holds a `History` needs no more for the protocol than

    init   History: `empty`, first points: `initial_points` of the key given to init
    ask    `query`: the initial points first, then the optimiser's own
    tell   `add`, and `info`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch import checks, struct
from jsketch.linalg import aligned
from jsketch.types import Box, BoxInfo, BoxQuery, PointQuery, PRNGKey, is_traced


@struct.dataclass
class History:
    """Evaluations in order, in N slots; the first `count` are in use."""

    x: Array  # [N, d]
    y: Array  # [N], zero where `ok` is false
    ok: Array  # [N] bool, a finite value was observed; false for failed evaluations and free slots
    count: Array  # [] int32, evaluations observed, failed ones included

    @property
    def capacity(self) -> int:
        return self.x.shape[-2]


def checked_box(box: Box) -> Box:
    """The box as JAX arrays of floating point numbers. Raises ValueError unless it is a Box whose
    lower and upper are finite vectors [d] with lower < upper."""
    if isinstance(box, type) or not (hasattr(box, "lower") and hasattr(box, "upper")):
        raise ValueError(f"a box is Box(lower, upper), the ends of each input; {box!r} was given.")
    try:
        lower, upper = jnp.asarray(box.lower), jnp.asarray(box.upper)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"a box's lower and upper must be numbers; {box.lower!r} and {box.upper!r} were given."
        ) from error
    if lower.ndim != 1 or lower.size == 0:
        raise ValueError(
            f"a box's lower must be a vector [d] of at least one input; its shape is {lower.shape}."
        )
    checks.box(Box(lower, upper), lower.size)
    dtype = jnp.result_type(float) if not jnp.issubdtype(lower.dtype, jnp.floating) else lower.dtype
    return Box(lower.astype(dtype), upper.astype(dtype))


def to_unit(box: Box, x: Array) -> Array:
    """Points x [..., d] of the box in the unit cube."""
    return (x - aligned(box.lower, x)) / aligned(box.upper - box.lower, x)


def from_unit(box: Box, u: Array) -> Array:
    """Points u [..., d] of the unit cube in the box; never outside by rounding."""
    lower, upper = aligned(box.lower, u), aligned(box.upper, u)
    return jnp.clip(lower + u * (upper - lower), lower, upper)


def initial_points(box: Box, key: PRNGKey, n: int) -> Array:
    """n uniform points of the box, [n,d]: `key` is the one that `init` was given, so that all
    optimisers meet the same points in the same run. A larger n only adds points. Raises ValueError
    for n < 1."""
    checks.capacity(initial=n)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(n, dtype=jnp.int32))
    unit = jax.vmap(lambda k: jax.random.uniform(k, box.lower.shape, box.lower.dtype))(keys)
    return from_unit(box, unit)


def empty(box: Box, capacity: int) -> History:
    """No evaluation yet, with room for `capacity`. Raises ValueError for a capacity below 1 or
    beyond all memory."""
    checks.capacity(horizon=capacity)
    checks.room(capacity * (box.lower.shape[0] + 2), box.lower.dtype, horizon=capacity)
    x = jnp.zeros((capacity, box.lower.shape[0]), box.lower.dtype)
    return History(x, x[:, 0], jnp.zeros(capacity, bool), jnp.zeros((), jnp.int32))


def write(old: Array, new: Array, start: Array, size: Array) -> Array:
    """old [N,...] with the first `size` rows of new [B,...] from row `start` on; rows beyond N are
    dropped, see `add`."""
    source = jnp.arange(old.shape[0], dtype=jnp.int32) - start
    fresh = ((source >= 0) & (source < size)).reshape(-1, *[1] * (old.ndim - 1))
    return jnp.where(fresh, new[jnp.clip(source, 0, new.shape[0] - 1)], old)


def values(query: PointQuery, y: Any) -> Array:
    """The values of a query as floating point numbers [B]. Raises ValueError unless there is one
    for each slot."""
    y = jnp.asarray(checks.real("y", y))
    if y.shape != query.mask.shape:
        raise ValueError(
            f"y must hold one value for each slot of the query, shape {query.mask.shape}, NaN for a"
            f" failed evaluation; its shape is {y.shape}."
        )
    return y.astype(query.x.dtype)


def add(history: History, query: PointQuery, y: Any) -> History:
    """The history after the values y [B] of a query; what is not finite counts as failed.

    Raises ValueError for more evaluations than the horizon. Where that is traced, those beyond are
    not kept: `info` counts them as failed, and nothing more is asked for.
    """
    y = values(query, y)
    count = history.count + query.size
    if not is_traced(count) and int(count) > history.capacity:
        raise ValueError(
            f"the horizon is {history.capacity} evaluations: {int(history.count)} were observed,"
            f" and {int(query.size)} more are too many. Give `init` a larger horizon."
        )
    ok = jnp.isfinite(y)
    rows = (query.x, jnp.where(ok, y, 0), ok)
    slots = (history.x, history.y, history.ok)
    x, y, ok = (
        write(old, new, history.count, query.size) for old, new in zip(slots, rows, strict=True)
    )
    return History(x, y, ok, count)


def best(history: History) -> tuple[Array, Array]:
    """(x [d], y []) of the largest value so far, the first of equals; y is -inf while there is
    none."""
    score = jnp.where(history.ok, history.y, -jnp.inf)
    first = jnp.argmax(score)
    return history.x[first], score[first]


def query(history: History, initial: Array, propose: Callable[[], Array]) -> BoxQuery:
    """The initial points [n,d] while nothing has been observed, then propose() [B,d]; cut at the
    capacity.

    All initial points at once, so that under vmap (where a cond pays for both sides) one proposal
    is wasted and not n.
    """
    n = initial.shape[0]
    batch = jax.eval_shape(propose).shape[0]
    slots = max(n, batch)

    def padded(x: Array) -> Array:
        return jnp.pad(x, ((0, slots - x.shape[0]), (0, 0)), mode="edge")

    first = history.count == 0
    x = lax.cond(first, lambda: padded(initial), lambda: padded(propose()))
    size = jnp.minimum(jnp.where(first, n, batch), history.capacity - history.count)
    return BoxQuery(x=x, mask=jnp.arange(slots, dtype=jnp.int32) < size)


def info(before: History, after: History) -> BoxInfo:
    """What happened between two histories."""
    observed = after.ok.sum(dtype=jnp.int32) - before.ok.sum(dtype=jnp.int32)
    return BoxInfo(observed, after.count - before.count - observed, best(after)[1])

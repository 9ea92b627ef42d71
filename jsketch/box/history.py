"""The observations of a box optimiser at a fixed capacity, its initial points, and the scaling of
points and values.

The methods of an optimiser whose state contains a `History` call

    init   `checked_box`, `empty`, and `initial_points` with the key of `init`
    ask    `query`, which returns the initial points first and then the optimiser's proposals
    tell   `add` and `info`
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.numerics import aligned
from jsketch.types import Arms, Box, BoxInfo, BoxQuery, PRNGKey, is_traced


@struct.dataclass
class History:
    """Evaluations in order, in the first `count` of N slots.

    x      [N, d]
    y      [N], zero where `ok` is false
    ok     [N] bool, whether a finite value was observed; false in unused slots
    count  [] int32, number of evaluations, failed ones included
    """

    x: Array
    y: Array
    ok: Array
    count: Array

    @property
    def capacity(self) -> int:
        return self.x.shape[-2]


def checked_box(box: Box) -> Box:
    """The box with floating point JAX arrays. Raises ValueError unless it is a Box whose lower and
    upper are finite vectors [d] with lower < upper."""
    if isinstance(box, Arms):
        raise ValueError(
            "this optimiser maximises over a box, but the domain has arms: use an algorithm of"
            " jsketch.bandits, such as BBKB, or a problem over a box."
        )
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
    """The points of the unit cube that correspond to points x [..., d] of the box."""
    return (x - aligned(box.lower, x)) / aligned(box.upper - box.lower, x)


def from_unit(box: Box, u: Array) -> Array:
    """The points of the box at u [..., d] in the unit cube, clipped to the box."""
    lower, upper = aligned(box.lower, u), aligned(box.upper, u)
    return jnp.clip(lower + u * (upper - lower), lower, upper)


def initial_points(box: Box, key: PRNGKey, n: int, horizon: int) -> Array:
    """n uniform points of the box, [n,d]. With the same key, all optimisers have the same points,
    and a larger n only adds points. Raises ValueError for n < 1, and for n above the horizon, with
    which an optimiser would never use its model."""
    checks.positive_integer(initial=n)
    if n > horizon:
        raise ValueError(
            f"initial = {n} uniform points of the first round are more than the horizon of"
            f" {horizon} evaluations: use a smaller initial or a larger horizon."
        )
    return from_unit(box, _uniform(key, n, box.lower))


@partial(jax.jit, static_argnames="n")
def _uniform(key: PRNGKey, n: int, like: Array) -> Array:
    """n uniform points of the unit cube, [n,d], in the shape and dtype of `like` [d]."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(n, dtype=jnp.int32))
    return jax.vmap(lambda k: jax.random.uniform(k, like.shape, like.dtype))(keys)


def empty(box: Box, capacity: int, other_floats: int = 0) -> History:
    """A history without evaluations. Raises ValueError for a capacity below 1, and if memory is too
    small for the history and `other_floats` floats of the optimiser."""
    checks.positive_integer(horizon=capacity)
    floats = other_floats + int(capacity) * (box.lower.shape[0] + 2)
    checks.memory(floats, box.lower.dtype, horizon=capacity)
    x = jnp.zeros((capacity, box.lower.shape[0]), box.lower.dtype)
    return History(x, x[:, 0], jnp.zeros(capacity, bool), jnp.zeros((), jnp.int32))


def write(array: Array, rows: Array, start: Array, count: Array) -> Array:
    """`array` [N,...] with the first `count` of `rows` [B,...] written from row `start` on; rows
    beyond N are dropped."""
    row = jnp.arange(array.shape[0], dtype=jnp.int32) - start
    is_written = ((row >= 0) & (row < count)).reshape(-1, *[1] * (array.ndim - 1))
    return jnp.where(is_written, rows[jnp.clip(row, 0, rows.shape[0] - 1)], array)


def checked_values(query: BoxQuery, y: Any) -> Array:
    """The values y [B] in the query's dtype. Raises ValueError unless each slot has a value."""
    y = jnp.asarray(checks.real("y", y))
    if y.shape != query.mask.shape:
        raise ValueError(
            f"y must have one value for each slot of the query, shape {query.mask.shape}, NaN for a"
            f" failed evaluation; its shape is {y.shape}."
        )
    return y.astype(query.x.dtype)


def add(history: History, query: BoxQuery, y: Any) -> History:
    """The history with the values y [B] of a query; a value that is not finite is a failed
    evaluation. Raises ValueError for more evaluations than the capacity. If the number of
    evaluations is traced, those beyond the capacity are dropped, and `info` counts them as
    failed."""
    y = checked_values(query, y)
    count = history.count + query.size
    if not is_traced(count) and int(count) > history.capacity:
        raise ValueError(
            f"the horizon is {history.capacity} evaluations: {int(history.count)} were observed,"
            f" and {int(query.size)} more are too many. Use a larger horizon in `init`."
        )
    ok = jnp.isfinite(y)
    start, size = history.count, query.size
    return History(
        x=write(history.x, query.x, start, size),
        y=write(history.y, jnp.where(ok, y, 0), start, size),
        ok=write(history.ok, ok, start, size),
        count=count,
    )


def best(history: History) -> tuple[Array, Array]:
    """(x [d], y []) of the largest value, the first if several are equal; y is -inf if none is
    finite."""
    score = jnp.where(history.ok, history.y, -jnp.inf)
    slot = jnp.argmax(score)
    return history.x[slot], score[slot]


def near_failures(box: Box, past: History) -> Callable[[Array], Array]:
    """The function points [n, d] of the unit cube -> [n] bool, whether the nearest evaluation has
    failed. An optimiser that avoids such points chooses a new one after a failure, and approaches a
    failed point only as far as points beside it succeed. As long as no evaluation has succeeded,
    the function is true everywhere."""
    unit = to_unit(box, past.x)
    failed = ~past.ok & (jnp.arange(past.capacity, dtype=jnp.int32) < past.count)

    def near(points: Array) -> Array:
        squares = jnp.square(points[:, None, :] - unit[None, :, :]).sum(-1)
        to_success, to_failure = (
            jnp.min(jnp.where(mask[None, :], squares, jnp.inf), axis=1)
            for mask in (past.ok, failed)
        )
        return to_failure < to_success

    return near


def away_from_failures(
    score: Callable[[Array], Array], box: Box, past: History
) -> Callable[[Array], Array]:
    """The score [n] of points [n, d] of the unit cube that is -inf where `near_failures` is true.
    If it is -inf everywhere, `search.maximise_over_cube` returns a random point."""
    near = near_failures(box, past)
    return lambda points: jnp.where(near(points), -jnp.inf, score(points))


def n_remaining(history: History, limit: ArrayLike | None) -> Array:
    """The number [] int32 of evaluations that the capacity and the limit of `ask` allow."""
    return jnp.minimum(history.capacity - history.count, checks.evaluation_limit(limit))


def query(
    history: History, initial: Array, propose: Callable[[], Array], limit: ArrayLike | None = None
) -> BoxQuery:
    """The query with all initial points [n,d] in the first round, and later with propose() [B,d],
    up to the capacity and the limit.

    Under vmap a cond evaluates both branches. Because all initial points are in one round, only
    one proposal is wasted.
    """
    n_initial, n_proposed = len(initial), jax.eval_shape(propose).shape[0]
    slots = max(n_initial, n_proposed)

    def padded(x: Array) -> Array:
        return jnp.pad(x, ((0, slots - x.shape[0]), (0, 0)), mode="edge")

    is_first_round = history.count == 0
    x = lax.cond(is_first_round, lambda: padded(initial), lambda: padded(propose()))
    n_points = jnp.where(is_first_round, n_initial, n_proposed)
    size = jnp.minimum(n_points, n_remaining(history, limit))
    return BoxQuery(x=x, mask=jnp.arange(slots, dtype=jnp.int32) < size)


def info(before: History, after: History) -> BoxInfo:
    """The `BoxInfo` of a round, given the histories before and after the round."""
    observed = after.ok.sum(dtype=jnp.int32) - before.ok.sum(dtype=jnp.int32)
    failed = after.count - before.count - observed
    return BoxInfo(observed=observed, failed=failed, best=best(after)[1])


class Moments(NamedTuple):
    """Mean and standard deviation of values, both divided by `unit`."""

    unit: Array  # [], a power of two, by which division is exact
    mean: Array  # []
    deviation: Array  # []


def moments(y: Array, ok: Array) -> Moments:
    """The moments of the values y [N] where ok [N] is true; without values, mean and deviation are
    0. A deviation of the size of rounding errors, such as that of equal values, becomes 0. Divided
    by `unit`, values near 1e200 or 1e-200 have squares that do not overflow or underflow."""
    largest = jnp.max(jnp.where(ok, jnp.abs(y), 0))
    # below 16 tiny the unit could be too small for a normal float
    largest = jnp.where(largest >= 16 * jnp.finfo(y.dtype).tiny, largest, 1)
    # without the factor 8, the inverse of the unit could be rounded to zero
    unit = largest / (8 * jnp.frexp(largest)[0])
    count = jnp.maximum(ok.sum(), 1).astype(y.dtype)
    scaled = jnp.where(ok, y / unit, 0)
    mean = scaled.sum() / count
    deviation = jnp.sqrt(jnp.where(ok, jnp.square(scaled - mean), 0).sum() / count)
    rounding = 64 * jnp.finfo(y.dtype).eps * jnp.abs(mean)
    return Moments(unit, mean, jnp.where(deviation > rounding, deviation, 0))


@struct.dataclass
class Scaling:
    """Units of a parametric model: invertible affine maps of points and of values.

    middle     [d], the centre of the box
    half       [d], half the sides
    mean       [], of the values
    deviation  [], of the values
    """

    middle: Array
    half: Array
    mean: Array
    deviation: Array

    def inputs(self, x: Array) -> Array:
        """Points x [..., d] in the model's units."""
        return (x - aligned(self.middle, x)) / aligned(self.half, x)

    def points(self, z: Array) -> Array:
        """The inverse of `inputs`."""
        return aligned(self.middle, z) + z * aligned(self.half, z)

    def values(self, y: Array) -> Array:
        """Values of the objective in the model's units."""
        # without the divisions by 8, the difference of large floats would overflow
        return (y / 8 - self.mean / 8) / (self.deviation / 8)

    def rewards(self, v: Array) -> Array:
        """The inverse of `values`."""
        return self.mean + v * self.deviation


def identity_scaling(box: Box) -> Scaling:
    """No scaling, as in the GO-UCB paper."""
    one = jnp.ones((), box.lower.dtype)
    return Scaling(jnp.zeros_like(box.lower), jnp.ones_like(box.lower), mean=0 * one, deviation=one)


def standard_scaling(box: Box, observed: History) -> Scaling:
    """The maps of the box to [-1,1]^d, and of the observed values to mean 0 and deviation 1 (equal
    values are only centred)."""
    unit, mean, deviation = moments(observed.y, observed.ok)
    deviation = jnp.where(deviation > 0, unit * deviation, 1)
    middle, half = (box.lower + box.upper) / 2, (box.upper - box.lower) / 2
    return Scaling(middle, half, unit * mean, deviation)

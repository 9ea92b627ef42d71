"""Projected gradient ascent over pairs (x, p), a point and a position in GO-UCB's ball, from many
starts at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

Pair = tuple[Array, Any]  # x [d], p a pytree


class Maximum(NamedTuple):
    """The best that all starts met."""

    x: Array  # [d]
    p: Any  # a pytree, as one start's
    value: Array  # []; -inf where no value was finite: x and p are those of the first start
    starts: Array  # [K], values at the starts; none is above `value`


def maximise_over_pairs(
    value: Callable[[Array, Any], Array],
    uphill: Callable[[Any], Any],
    project: Callable[[Array, Any], Pair],
    x: Array,
    p: Any,
    rule: optax.GradientTransformation,
    steps: int,
) -> Maximum:
    """The largest value(x, p) [] met in `steps` steps of the optax rule from the starts x [K,d], p
    [K, ...].

    The rule is given the gradient by x and what `uphill` makes of the gradient by p; project(x, p)
    brings a pair back into its set. Values that are not finite are never the largest.
    """

    def score(pair: Pair) -> Array:
        found = value(*pair)
        return jnp.where(jnp.isfinite(found), found, -jnp.inf)

    def keep(best: tuple[Pair, Array], pair: Pair, found: Array) -> tuple[Pair, Array]:
        better = found > best[1]
        return jax.tree.map(lambda new, old: jnp.where(better, new, old), (pair, found), best)

    def climb(start: Pair) -> tuple[Pair, Array, Array]:
        def step(_: int, carry: tuple) -> tuple:
            pair, memory, best = carry
            found, (by_x, by_p) = jax.value_and_grad(score)(pair)
            best = keep(best, pair, found)
            down = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), -g, 0), (by_x, uphill(by_p)))
            # optax counts steps in int32
            with jax.numpy_dtype_promotion("standard"):
                moves, memory = rule.update(down, memory)
            pair = jax.tree.map(lambda a, b: a + b.astype(a.dtype), pair, moves)
            return project(*pair), memory, best

        first = score(start)
        pair, _, best = lax.fori_loop(0, steps, step, (start, rule.init(start), (start, first)))
        pair, found = keep(best, pair, score(pair))
        return pair, found, first

    pairs, found, first = jax.vmap(climb)((x, p))
    winner = jnp.argmax(found)
    x, p = jax.tree.map(lambda leaf: leaf[winner], pairs)
    return Maximum(x, p, found[winner], first)

"""The capacity of a sketched state: its memory, and growth to a larger capacity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from jsketch import checks
from jsketch.bandits.core import widths
from jsketch.bandits.core.sketched import Sketching, SketchState
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.nystrom import Nystrom
from jsketch.types import Arms, is_traced
from jsketch.warn import warn


def check_room(domain: Arms, capacity: int) -> None:
    """Raises ValueError for a capacity that no memory holds."""
    count, inputs = domain.features.shape
    floats = 3 * capacity**2 + capacity * inputs + count * (inputs + 8)
    checks.room(floats, domain.features.dtype, capacity=capacity, arms=count)


def check_bandit(bandit: Sketching) -> None:
    """Raises ValueError unless the capacity is an integer of at least 1; warns of a width that is
    proved for exact posteriors alone."""
    _check_width(bandit.width)
    checks.capacity(capacity=bandit.capacity)


def _check_width(width: widths.Width) -> None:
    """Warns of a width that is proved for an exact posterior alone (THEORY 4.1, 4.7) where it is
    given to a sketched one: it holds while all pulled arms are in the dictionary and C is 1."""
    function = getattr(width, "function", None)
    for exact, name, instead in (
        (widths.mixture, "mixture", "certified_mixture"),
        (widths.gp_ucb_tight, "gp_ucb_tight", "certified"),
    ):
        if function is exact.function:
            warn(
                f"the width `{name}` is proved for an exact posterior, and says nothing of what a"
                f" dictionary leaves out: `widths.{instead}` holds for any dictionary."
            )


def check_whole(state: Any) -> None:
    """Raises ValueError for the state, or states, of a sketched algorithm whose warm start did not
    fit the capacity."""
    sketch = getattr(state, "sketch", state)
    if (
        not isinstance(sketch, SketchState)
        or is_traced(sketch.missing)
        or not bool((sketch.missing > 0).any())
    ):
        return
    missing, capacity = sketch.missing, sketch.dictionary.mask.shape[-1]
    raise ValueError(
        f"a warm start asked for {capacity + int(missing.max())} inducing points and had room for"
        f" {capacity}: call `init`"
        f" again with a capacity of at least {capacity + int(missing.max())}. Growing the state"
        " would not bring them back."
    )


def grow(state: SketchState, capacity: int) -> SketchState:
    """The same state with `capacity` >= M slots; the added ones are exactly neutral. Raises
    ValueError for fewer, and for a state whose warm start did not fit."""
    check_whole(state)
    checks.larger(state.capacity, capacity=capacity)
    extra = capacity - state.capacity
    square = ((0, extra), (0, extra))
    return replace(
        state,
        dictionary=Dictionary(
            index=jnp.pad(state.dictionary.index, (0, extra)),
            mask=jnp.pad(state.dictionary.mask, (0, extra)),
        ),
        nystrom=Nystrom(
            points=jnp.pad(state.nystrom.points, ((0, extra), (0, 0)), mode="edge"),
            root=jnp.pad(state.nystrom.root, square),
        ),
        whiten=jnp.pad(state.whiten, square),
        weights=jnp.pad(state.weights, (0, extra)),
    )

"""Ada-BKB's search of a box, whose partition is refined where upper confidence bounds are high.

Rando, Carratino, Villa, Rosasco. Ada-BKB: scalable Gaussian process optimization on continuous
domains by adaptive discretization. AISTATS 2022, Algorithm 1. The centre c represents a cell, in
which f with |f| <= F changes by at most V = F |k(c,.) - k(x,.)| for a corner x. The score of a cell
is mean + width * sd + V. While width * sd <= V in the cell with the largest score, this cell is
split. Then the centre of the cell with the largest score is evaluated.
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.point_bbkb import PointBBKB, PointState
from jsketch.numerics import put
from jsketch.types import Box, Kernel


@struct.dataclass
class Partition:
    """Cells that cover a box, in L slots. A run refines the partition from round to round.

    centre  [L, d]
    half    [L, d], half of the sides
    used    [] int32, number of cells
    full    [] bool, whether a split was due with too few free slots; the partition is then too
            coarse
    """

    centre: Array
    half: Array
    used: Array
    full: Array


def single_cell(box: Box, cells: int) -> Partition:
    """The partition of the box into one cell, with capacity for `cells` cells. Raises ValueError
    for an invalid box or fewer than 3 cells."""
    checks.box(box, jnp.size(box.lower))
    checks.positive_integer(cells=cells)
    if cells < 3:
        raise ValueError(f"cells must be at least 3: a split makes three; {cells} was given.")
    checks.memory(2 * cells * jnp.size(box.lower), box.lower.dtype, cells=cells)
    ones = jnp.ones((cells, 1), box.lower.dtype)
    return Partition(
        centre=ones * (box.lower + box.upper)[None, :] / 2,
        half=ones * (box.upper - box.lower)[None, :] / 2,
        used=jnp.ones((), jnp.int32),
        full=jnp.zeros((), bool),
    )


def variation(kernel: Kernel, norm_bound: ArrayLike, centre: Array, half: Array) -> Array:
    """V [n], the largest change of a function with |f| <= norm_bound between the centres [n,d] and
    the corners of cells, for kernels that decrease with every |x_i - y_i|."""

    def of_cell(cell: tuple[Array, Array]) -> Array:
        centre, half = cell
        pair = jnp.stack([centre, centre + half])
        gram = kernel.gram(pair, pair)
        return jnp.sqrt(jnp.maximum(gram[0, 0] + gram[1, 1] - 2 * gram[0, 1], 0))

    return norm_bound * lax.map(of_cell, (centre, half))


def search(bandit: PointBBKB, state: PointState, partition: Partition) -> tuple[Array, Partition]:
    """(point [d] to pull, refined partition) for a `PointBBKB` and its state."""
    width = bandit.confidence_width(state)
    slots = jnp.arange(partition.centre.shape[0], dtype=jnp.int32)

    def score_cells(centre: Array, half: Array) -> tuple[Array, Array, Array]:
        """(score [n], width * sd [n], V [n]) of cells."""
        mean, variance = bandit.posterior(state, centre)
        deviation = width * jnp.sqrt(variance)
        change = variation(bandit.kernel, bandit.norm_bound, centre, half)
        return mean + deviation + change, deviation, change

    def split(
        carry: tuple[Partition, Array, Array, Array],
    ) -> tuple[Partition, Array, Array, Array]:
        """Splits the cell of the largest score in three along its longest side, measured in units
        of the sides of the box. The middle cell keeps the centre."""
        refined, score, deviation, change = carry
        top = jnp.argmax(score).astype(jnp.int32)
        half, centre = refined.half[top], refined.centre[top]
        side = jnp.argmax(half / jnp.max(refined.half, 0)).astype(jnp.int32)
        step = jnp.where(jnp.arange(half.shape[0], dtype=jnp.int32) == side, 2 * half / 3, 0)
        child_half = half - step
        children = jnp.stack([centre, centre - step, centre + step])
        child_slots = jnp.stack([top, refined.used, refined.used + 1])
        child_values = score_cells(children, jnp.broadcast_to(child_half, children.shape))
        refined = replace(refined, used=refined.used + 2)
        values = [score, deviation, change]
        for i in range(3):
            refined = replace(
                refined,
                centre=put(refined.centre, child_slots[i], children[i]),
                half=put(refined.half, child_slots[i], child_half),
            )
            pairs = zip(values, child_values, strict=True)
            values = [put(old, child_slots[i], new[i]) for old, new in pairs]
        return refined, values[0], values[1], values[2]

    def is_due(carry: tuple[Partition, Array, Array, Array]) -> Array:
        """Whether the cell of the largest score should be split."""
        _, score, deviation, change = carry
        top = jnp.argmax(score)
        return deviation[top] <= change[top]

    def has_slots(refined: Partition) -> Array:
        return refined.used + 2 <= slots.shape[0]

    score, deviation, change = score_cells(partition.centre, partition.half)
    start = (partition, jnp.where(slots < partition.used, score, -jnp.inf), deviation, change)
    end = lax.while_loop(lambda carry: is_due(carry) & has_slots(carry[0]), split, start)
    refined, score, _, _ = end
    return refined.centre[jnp.argmax(score)], replace(refined, full=refined.full | is_due(end))

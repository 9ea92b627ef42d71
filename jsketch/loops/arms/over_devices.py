"""Seeds over the devices of a mesh: as many on each, in a program of its own (`advance`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from jsketch.devices import check_mesh
from jsketch.types import Arms, PRNGKey


def check(mesh: Mesh, strategy: str | None, arms: Arms) -> None:
    """Raises ValueError for what is no mesh, and for what cannot be spread over one."""
    check_mesh(mesh)
    if strategy == "threads":
        raise ValueError(
            'mesh runs a program on each of its devices; strategy "threads" has none for it: leave'
            " one of them out."
        )
    if arms.shard is not None:
        raise ValueError(
            "mesh spreads seeds over devices, and these arms are spread over devices already: leave"
            " one of them out."
        )


def filled(
    keys: PRNGKey, states: Sequence[Any] | None, mesh: Mesh
) -> tuple[PRNGKey, Sequence[Any] | None]:
    """Keys [S] and states, with the last ones repeated until the devices divide them."""
    seeds = keys.shape[0]
    chosen = np.minimum(np.arange(-(-seeds // mesh.size) * mesh.size), seeds - 1)
    return keys[chosen], None if states is None else [states[i] for i in chosen]

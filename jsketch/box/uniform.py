"""The baseline that evaluates uniform random points of a box."""

from __future__ import annotations

from dataclasses import replace

import jax
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.box import history
from jsketch.box.history import History
from jsketch.types import Box, BoxInfo, BoxQuery, PRNGKey


@struct.dataclass
class UniformState:
    box: Box
    initial: Array  # [n, d], points of the first round
    history: History


@struct.dataclass
class UniformBox(struct.Settings):
    """A baseline whose points are uniform at random.

    initial  int, points of the first round
    """

    initial: int = struct.size(1, at_least=0)

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> UniformState:
        checks.no_evaluations(self, data)
        box, horizon = history.checked_box(domain), checks.horizon(horizon)
        return UniformState(
            box,
            history.initial_points(box, key, self.initial, horizon),
            history.empty(box, horizon),
        )

    def ask(self, state: UniformState, key: PRNGKey, limit: ArrayLike | None = None) -> BoxQuery:
        def propose() -> Array:
            unit = jax.random.uniform(key, (1, *state.box.lower.shape), state.box.lower.dtype)
            return history.from_unit(state.box, unit)

        return history.query(state.history, state.initial, propose, limit)

    def tell(
        self, state: UniformState, query: BoxQuery, y: Array, key: PRNGKey
    ) -> tuple[UniformState, BoxInfo]:
        observed = history.add(state.history, query, y)
        return replace(state, history=observed), history.info(state.history, observed)

"""Regularized evolution, the genetic baseline of architecture search, over arms with neighbours.

Real, Aggarwal, Huang, Le. Regularized evolution for image classifier architecture search. AAAI
2019, Algorithm 1, with the settings of the public NAS benchmarks: population 100, tournaments of 10
members drawn with replacement (THEORY 6.2).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.core import history
from jsketch.numerics import put_if
from jsketch.types import Algorithm, Arms, Info, PRNGKey, Query, is_traced


@struct.dataclass
class EvolutionState:
    """The population in a ring buffer, in which the oldest member is replaced next.

    members  [P] int32, arms
    rewards  [P], observed reward of each member
    count    [] int32, number of observations; the first P observations fill the population
    """

    members: Array
    rewards: Array
    count: Array


@struct.dataclass
class RegularizedEvolution(Algorithm):
    """Evaluates a random neighbour of the best member of a random tournament. This neighbour then
    replaces the oldest member of the population. A step costs O(sample).

    neighbours  [A, K] int32, the arms into which each arm mutates; -1 is padding
    population  P, the number of members
    sample      number of members in a tournament
    """

    neighbours: Array
    population: int = struct.size(100)
    sample: int = struct.size(10)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> EvolutionState:
        """The state with an empty population. Raises ValueError for invalid arguments and for a
        table of neighbours that does not fit the arms."""
        checks.no_evaluations(self, data)
        arms = checks.arms(arms)
        checks.settings(self)
        if self.sample > self.population:
            raise ValueError(
                f"sample must be at most population = {self.population}; {self.sample} was given."
            )
        _check_neighbours(self.neighbours, arms.count)
        dtype = arms.features.dtype
        checks.memory(2 * self.population, dtype, population=self.population)
        return EvolutionState(
            members=jnp.zeros(self.population, jnp.int32),
            rewards=jnp.zeros(self.population, dtype),
            count=jnp.zeros((), jnp.int32),
        )

    def ask(
        self, state: EvolutionState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        start_key, tournament_key, mutation_key = jax.random.split(key, 3)
        slots = jax.random.randint(tournament_key, (self.sample,), 0, self.population, jnp.int32)
        parent = state.members[slots[jnp.argmax(state.rewards[slots])]]
        # a uniform choice among the entries that are not padding
        mutations = jnp.asarray(self.neighbours, jnp.int32)[parent]
        random_numbers = jax.random.uniform(mutation_key, mutations.shape, state.rewards.dtype)
        child = mutations[jnp.argmax(jnp.where(mutations >= 0, random_numbers, -1))]
        random_arm = jax.random.randint(start_key, (), 0, arms.count, jnp.int32)
        arm = jnp.where(state.count < self.population, random_arm, child)
        redraw_key = jax.random.fold_in(start_key, 0)
        return Query.of(history.redrawn(arms, arm[None], redraw_key)[0])

    def tell(
        self, state: EvolutionState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[EvolutionState, Info]:
        """(state, info) after the rewards. A failed evaluation (NaN) is not added as a member."""
        observed = query.mask & jnp.isfinite(y)

        def step(slot: Array, state: EvolutionState) -> EvolutionState:
            is_observed, oldest = observed[slot], state.count % self.population
            return EvolutionState(
                members=put_if(is_observed, state.members, oldest, query.index[slot]),
                rewards=put_if(is_observed, state.rewards, oldest, y[slot]),
                count=state.count + is_observed.astype(jnp.int32),
            )

        new = lax.fori_loop(0, history.last_slot(query), step, state)
        size = jnp.minimum(new.count, self.population)
        return new, history.round_info(query, y, size=size)


def _check_neighbours(neighbours: Any, count: int) -> None:
    """Raises ValueError for a table of a wrong shape or dtype, for arm numbers that do not exist,
    and for arms without a neighbour."""
    table: Any = neighbours if is_traced(neighbours) else np.asarray(neighbours)
    if table.ndim != 2 or len(table) != count or not jnp.issubdtype(table.dtype, np.integer):
        raise ValueError(
            "neighbours must be a table [A, K] of arm numbers (integers) with a row for each of the"
            f" {count} arms; its shape is {table.shape}, its dtype {table.dtype}."
        )
    if is_traced(neighbours):
        return
    for row, column in np.argwhere((table < -1) | (table >= count)):
        raise ValueError(
            f"neighbours[{row}, {column}] is {table[row, column]}; the arms are 0 to"
            f" {count - 1} and -1 is padding."
        )
    for arm in np.flatnonzero((table < 0).all(1)):
        raise ValueError(f"arm {arm} has no neighbour to mutate into.")


def one_change_apart(codes: Any) -> np.ndarray:
    """The table [A, K] of the neighbours of every arm, given integer codes [A,L]; O(A L^2 log A).
    Two arms are neighbours if their codes differ in exactly one position; -1 is padding.

    Raises ValueError unless codes are a matrix without repeated rows.
    """
    table = np.asarray(codes)
    if table.ndim != 2:
        raise ValueError(f"codes must be a matrix [A, L]; their shape is {table.shape}.")
    if len(np.unique(table, axis=0)) != len(table):
        raise ValueError("codes must differ from arm to arm; some are repeated.")
    neighbours: list[list[int]] = [[] for _ in table]
    for position in range(table.shape[1]):
        _, group = np.unique(np.delete(table, position, axis=1), axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1):
            for arm in members:
                neighbours[arm].extend(int(other) for other in members if other != arm)
    columns = max(1, max(map(len, neighbours)))
    return np.array([row + [-1] * (columns - len(row)) for row in neighbours], dtype=np.int32)

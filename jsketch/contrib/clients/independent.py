"""Clients that exchange nothing: what sharing has to beat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jsketch import checks, struct
from jsketch.contrib.clients.known import points_of_clients, rewards_of_clients
from jsketch.types import Info, PRNGKey


@struct.dataclass
class AloneState:
    """A state of its own for each client, and what a state of clients counts."""

    each: Any  # N states of the bandit, stacked
    sent: Array  # [], always zero
    sent_as_data: Array  # [], always zero
    exchanges: Array  # [] int32, always zero


@struct.dataclass
class IndependentClients:
    """N clients with a bandit of `contrib.contextual` each, which hear nothing of each other."""

    bandit: Any  # ContextBandit
    clients: int = struct.field(pytree_node=False, default=8)  # N

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> AloneState:
        """As `ContextBandit.init`, for each client. Raises ValueError on static mistakes."""
        checks.capacity(clients=self.clients)
        keys = jax.random.split(key, self.clients)
        # static mistakes are said outside of vmap
        zero = self.bandit.init(dimension, keys[0], dtype)
        floats = [x.dtype for x in jax.tree.leaves(zero) if jnp.issubdtype(x.dtype, jnp.floating)]
        nothing = jnp.zeros((), floats[0])
        each = jax.vmap(lambda key: self.bandit.init(dimension, key, dtype))(keys)
        return AloneState(each, nothing, nothing, jnp.zeros((), jnp.int32))

    def ask(self, state: AloneState, candidates: Array, key: PRNGKey) -> Array:
        """The numbers [N] int32 of the candidates to play, of candidates [N,C,d]. Raises ValueError
        for an empty or non-finite array, another number of clients or of inputs."""
        x = points_of_clients(self.clients, candidates, 3)
        keys = jax.random.split(key, self.clients)
        return jax.vmap(self.bandit.ask)(state.each, x, keys)

    def tell(self, state: AloneState, x: Array, y: Array, key: PRNGKey) -> tuple[AloneState, Info]:
        """Client i learns the reward y[i] of its point x[i], of x [N,d] and y [N]. The dictionary's
        size and the width of what comes back are the largest of all clients. Raises ValueError as
        `ask`."""
        x, y = points_of_clients(self.clients, x, 2), rewards_of_clients(self.clients, y)
        keys = jax.random.split(key, self.clients)
        each, info = jax.vmap(self.bandit.tell)(state.each, x, y, keys)
        # where one client has no room the round is applied to none of them
        stuck = info.overflow.any()
        each = jax.tree.map(lambda old, new: jnp.where(stuck, old, new), state.each, each)
        return replace(state, each=each), Info(
            batch_size=jnp.full((), self.clients, jnp.int32),
            observed=jnp.where(stuck, 0, info.observed.sum()).astype(jnp.int32),
            dictionary_size=info.dictionary_size.max(),
            width=info.width.max(),
            overflow=stuck,
            truncated=jnp.zeros((), bool),
            nonfinite=info.nonfinite.any(),
        )

    def grow(self, state: AloneState) -> AloneState:
        """The same state with more room for every client, as the bandit's own `grow` makes it for
        one that has used as much as any of them."""

        def count(leaf: Array) -> bool:
            return leaf.ndim == 1 and jnp.issubdtype(leaf.dtype, jnp.integer)

        # shapes follow from counts, and have to be the same for all
        fullest = jax.tree.map(lambda a: a.max() if count(a) else a, state.each)
        grown = [
            self.bandit.grow(jax.tree.map(lambda a, i=i: a[i] if a.ndim else a, fullest))
            for i in range(self.clients)
        ]
        each = jax.tree.map(lambda *rows: jnp.stack(rows), *grown)
        own = jax.tree.map(lambda old, new: old if count(old) else new, state.each, each)
        return replace(state, each=own)

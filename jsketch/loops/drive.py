"""The rounds of `run` for an objective that no tracer can enter: a laboratory, a trained model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jsketch import checks, told
from jsketch.loops.advance import next_capacity
from jsketch.loops.inputs import check_horizon, check_keys
from jsketch.loops.rollout import split_roots
from jsketch.types import Arms, PRNGKey, Query


@struct.dataclass
class Driven:
    """A run with a host objective so far; give it back to `drive` to go on."""

    state: Any
    arm: np.ndarray = struct.field(pytree_node=False)  # [t]
    reward: np.ndarray = struct.field(pytree_node=False)  # [t], NaN where nothing was observed

    @property
    def t(self) -> int:
        return len(self.arm)


_ask = jax.jit(lambda bandit, state, key, limit: bandit.ask(state, key, limit=limit))
_tell = jax.jit(lambda bandit, state, query, y, key: bandit.tell(state, query, y, key))


def drive(
    bandit: Any,
    objective: Callable[[np.ndarray], Any],
    domain: Arms,
    key: PRNGKey,
    horizon: int,
    state: Driven | None = None,
) -> Driven:
    """The rounds of `run` for a host objective, up to `horizon` evaluations in all; `state` goes on from an earlier call.

    objective(arms [n] of int) returns n rewards, NaN for one that failed. Raises ValueError on a wrong number of rewards or
    an infinite one. The same key gives the picks of `run`, if the rewards are the same.
    """
    check_horizon(horizon)
    roots = split_roots(check_keys(key, 0, "drive takes one key, such as jax.random.key(0)"))
    driven = state or Driven(bandit.init(domain, roots.init), np.zeros(0, np.int32), np.zeros(0))
    while driven.t < horizon:
        query = _ask(bandit, driven.state, jax.random.fold_in(roots.ask, driven.t), horizon - driven.t)
        arms = np.asarray(query.index)[np.asarray(query.mask)]
        told.present(driven.state.domain, query)
        answer = objective(arms)
        checks.no_complex(rewards=answer)
        rewards = np.asarray(answer, dtype=float)
        if rewards.shape != arms.shape:
            raise ValueError(
                f"the objective must return {arms.size} rewards for {arms.size} arms; its shape is {rewards.shape}."
            )
        if np.isinf(rewards).any():
            raise ValueError(
                f"the reward of arm {arms[np.isinf(rewards)][0]} is infinite; return NaN for a failed evaluation."
            )
        y = np.full(query.index.shape, np.nan)
        y[np.asarray(query.mask)] = rewards
        tell_key = jax.random.fold_in(roots.tell, driven.t)
        new = _tell_growing(
            bandit, driven.state, query, jnp.asarray(y, driven.state.domain.features.dtype), tell_key
        )
        driven = Driven(new, np.append(driven.arm, arms), np.append(driven.reward, rewards))
    return driven


def _tell_growing(bandit: Any, state: Any, query: Query, y: Array, key: PRNGKey) -> Any:
    """The state after `tell`, at a capacity that holds it."""
    while True:
        new, info = _tell(bandit, state, query, y, key)
        if not bool(info.overflow):
            return new
        state = bandit.grow(state, next_capacity(state.capacity, state.domain.count))

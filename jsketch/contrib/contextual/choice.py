"""The protocol of bandits with contexts, and the choice that they share."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from jsketch import checks
from jsketch.types import Info, PRNGKey

State = TypeVar("State")


class ContextBandit(Protocol[State]):
    """What `contrib.problems.contextual.play` plays; structural, without inheritance."""

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> State:
        """The state before the first round, for points with `dimension` inputs."""

    def ask(self, state: State, candidates: Array, key: PRNGKey) -> Array:
        """The number [] int32 of the candidate to play, of candidates [C,d]."""

    def tell(self, state: State, x: Array, y: Array, key: PRNGKey) -> tuple[State, Info]:
        """Learns the reward y [] of the point x [d]; one that is not finite changes nothing."""

    def grow(self, state: State) -> State:
        """The same state with more room where it is full, after `info.overflow`."""


def candidates_of(kernel: Any, candidates: Array, inputs: int) -> Array:
    """The candidates as a matrix [C, inputs]. Raises ValueError for an empty or non-finite one, and
    for one of another number of inputs."""
    checks.candidates(candidates, inputs)
    checks.kernel_on(kernel, candidates)
    return jnp.asarray(candidates)


def point_of(kernel: Any, x: Any, inputs: int) -> Array:
    """The point x [inputs] that was played. Raises ValueError as `candidates_of`."""
    x = checks.example(x)
    candidates_of(kernel, x[None], inputs)
    return x


def reward_of(y: Any, dtype: Any) -> Array:
    """The reward y [] in that dtype. Raises ValueError unless it is one real number."""
    checks.one_number(y=y)
    return jnp.asarray(y, dtype)


def best(scores: Array, known: Array, key: PRNGKey) -> Array:
    """The number [] int32 of the largest of the scores [C]; a uniform one while nothing is `known`
    []."""
    uniform = jax.random.randint(key, (), 0, scores.shape[0], jnp.int32)
    return jnp.where(known, jnp.argmax(scores).astype(jnp.int32), uniform)


def upper_bound(mean: Array, variance: Array, width: Array) -> Array:
    """Upper confidence bounds [C] of means [C] and variances [C] in leverage units."""
    return mean + width * jnp.sqrt(variance)

"""A template for new algorithms: an upper confidence bound of constant width on BKB's posterior.

Copy this file, and change the names and `ask`. CONTRIBUTING.md lists the steps.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.bandits.bbkb import SketchedBandit, State
from jsketch.core import history
from jsketch.types import Arms, PRNGKey, Query


@struct.dataclass
class ConstantWidth(SketchedBandit):
    """Pulls the arm with the largest posterior mean plus `beta` posterior standard deviations.

    `SketchedBandit` has the fields of BKB (kernel, regularization, ..., capacity) and the methods
    `init`, `tell` and `grow`. The posterior of the arms is `state.posterior`.

    beta  posterior standard deviations; with few of them it hardly explores
    """

    # vmap can map over a number; a static field is a `struct.size` or a `struct.choice`
    beta: ArrayLike = struct.number(2.0, at_least=0)

    def ask(self, state: State, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        # variances are divided by the regularization
        deviation = jnp.sqrt(self.regularization * state.posterior.variance)
        score = state.posterior.mean + self.beta * deviation
        return history.query_of_best(arms, score, state.counts.sum(), key)

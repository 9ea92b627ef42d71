"""A template for new algorithms: an upper confidence bound of constant width on BKB's posterior.

Copy this file, and change the names and `ask`. CONTRIBUTING.md lists the steps.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core.sketched import SketchedBandit, SketchState
from jsketch.types import PRNGKey, Query


@struct.dataclass
class ConstantWidth(SketchedBandit):
    """Pulls the arm with the largest posterior mean plus `beta` posterior standard deviations. An
    evaluation costs O((A + n) m^2 + m^3) for n distinct pulled arms.

    `SketchedBandit` has the fields of BKB (kernel, regularization, ..., capacity) and the methods
    `init`, `tell` and `grow`. A number is a leaf of the pytree, over which `vmap` can map; a static
    field is declared as `struct.field(pytree_node=False, default=...)`.
    """

    beta: ArrayLike = 2.0  # posterior standard deviations; with few of them it hardly explores

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        deviation = jnp.sqrt(self.regularization * state.variance)  # in the units of the rewards
        best = jnp.argmax(state.mean + self.beta * deviation).astype(jnp.int32)
        # before the first observation all bounds tie, and a random arm is pulled
        return checks.single_query(jnp.where(state.evidence.count == 0, state.first_arm, best))

"""Problems with contexts: every round has a context, uniform on [0,1]^c, in which a bandit plays
one of C actions. The regret is relative to the best of the C actions in the context.

`Squares` and `StepDiagonal` are the problems in the published scripts of Zenati et al. (AISTATS
2022). Any callable pytree reward(context [c], action [a]) -> [] can give the mean rewards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.contrib.clients import IndependentClients, SharedEmbedding
from jsketch.contrib.problems.play import RunRecord, record
from jsketch.types import PRNGKey

# rewards of `Squares` by quarters of the context (rows) and of the action (columns)
LEVELS = ((0, 0.5, 0, 0), (1, 0, 1, 0), (0, 0.5, 0, 0.5), (0, 0, 1, 0))


@struct.dataclass
class Squares:
    """Mean rewards of 0, 1/2 or 1, constant on each cell of a 4 x 4 grid over [0,1]^2."""

    def __call__(self, context: Array, action: Array) -> Array:
        row, column = (jnp.clip(4 * v[0], 0, 3).astype(jnp.int32) for v in (context, action))
        return jnp.asarray(LEVELS, context.dtype)[row, column]


@struct.dataclass
class StepDiagonal:
    """Mean rewards of 1 in the band |context - action - 0.15| < 0.1, of 1/2 in the band
    |context - action + 0.15| < 0.1 on the other side of the diagonal, and of 0 elsewhere."""

    def __call__(self, context: Array, action: Array) -> Array:
        gap = context[0] - action[0]
        low = jnp.where(jnp.abs(gap + 0.15) < 0.1, 0.5, 0).astype(context.dtype)
        return jnp.where(jnp.abs(gap - 0.15) < 0.1, 1, low)


@struct.dataclass
class ContextualArms:
    """Reward of an action = reward(context, action) + noise_std * standard normal.

    actions    [C, a]
    reward     callable pytree
    noise_std  standard deviation of the noise
    inputs     number c of inputs of a context
    """

    actions: Array
    reward: Any
    noise_std: ArrayLike = 0.1
    inputs: int = struct.field(pytree_node=False, default=1)

    def context(self, key: PRNGKey) -> Array:
        """A uniform context [c]."""
        return jax.random.uniform(key, (self.inputs,), self.actions.dtype)

    def points(self, context: Array) -> Array:
        """The candidates [C, c + a] in a context [c]."""
        rows = jnp.broadcast_to(context, (self.actions.shape[0], self.inputs))
        return jnp.concatenate([rows, self.actions], axis=1)

    def mean_reward(self, context: Array) -> Array:
        """Mean rewards of the actions, [C], in a context [c]."""
        return jax.vmap(lambda action: self.reward(context, action))(self.actions)

    def checked(self, bandit: Any, key: PRNGKey) -> ContextualArms:
        checks.positive_integer(inputs=self.inputs)
        checks.nonnegative(noise_std=self.noise_std)
        problem = replace(self, actions=jnp.asarray(checks.arm_features(self.actions)))
        # a plain function is a leaf, which jit rejects
        if not callable(self.reward) or jax.tree_util.all_leaves([self.reward]):
            raise ValueError(
                "reward must be a callable pytree, such as contextual.Squares() or a"
                f" struct.dataclass with __call__(context, action); {self.reward!r} was given."
            )
        problem.start(bandit, key)  # raises ValueError for an invalid bandit
        return problem

    def start(self, bandit: Any, key: PRNGKey) -> Any:
        return bandit.init(self.inputs + self.actions.shape[1], key, self.actions.dtype)

    def advance(self, bandit: Any, state: Any, key: PRNGKey, t: Array) -> tuple[Any, RunRecord]:
        context_key, ask_key, noise_key, tell_key = jax.random.split(key, 4)
        context = self.context(context_key)
        points, mean = self.points(context), self.mean_reward(context)
        action = bandit.ask(state, points, ask_key)
        y = mean[action] + self.noise_std * jax.random.normal(noise_key, (), mean.dtype)
        state, info = bandit.tell(state, points[action], y, tell_key)
        regret = mean.max() - mean
        return state, record(
            info, action=action, reward=y, regret=regret[action], uniform_regret=regret.mean()
        )

    def uniform_regret(self, horizon: int, key: PRNGKey) -> Array:
        """The expected regret [T] of uniform actions in the contexts of the run with `key`."""
        _, round_key = jax.random.split(key)

        def regret_at(t: Array) -> Array:
            context_key = jax.random.split(jax.random.fold_in(round_key, t), 4)[0]
            mean = self.mean_reward(self.context(context_key))
            return (mean.max() - mean).mean()

        return lax.map(regret_at, jnp.arange(horizon, dtype=jnp.int32))


@struct.dataclass
class ClientArms:
    """A problem with contexts for N clients. In every round each client has its own context.

    problem  a problem with one context, such as `ContextualArms`
    """

    problem: ContextualArms

    def checked(self, bandit: Any, key: PRNGKey) -> ClientArms:
        if not isinstance(bandit, IndependentClients | SharedEmbedding):
            raise ValueError(
                "ClientArms needs a SharedEmbedding or IndependentClients;"
                f" {type(bandit).__name__} is a bandit of one client: use"
                " IndependentClients(bandit, clients=8)."
            )
        return ClientArms(self.problem.checked(bandit, key))

    def start(self, bandit: Any, key: PRNGKey) -> Any:
        return self.problem.start(bandit, key)

    def advance(self, bandit: Any, state: Any, key: PRNGKey, t: Array) -> tuple[Any, RunRecord]:
        context_key, ask_key, noise_key, tell_key = jax.random.split(key, 4)
        contexts = jax.vmap(self.problem.context)(jax.random.split(context_key, bandit.clients))
        points = jax.vmap(self.problem.points)(contexts)
        mean = jax.vmap(self.problem.mean_reward)(contexts)
        action = bandit.ask(state, points, ask_key)
        expected = jnp.take_along_axis(mean, action[:, None], axis=1)[:, 0]
        noise = jax.random.normal(noise_key, expected.shape, mean.dtype)
        y = expected + self.problem.noise_std * noise
        x = jnp.take_along_axis(points, action[:, None, None], axis=1)[:, 0]
        state, info = bandit.tell(state, x, y, tell_key)
        regret = mean.max(axis=1, keepdims=True) - mean
        return state, record(
            info,
            action=action,
            reward=y,
            regret=(mean.max(axis=1) - expected).sum(),
            uniform_regret=regret.mean(axis=1).sum(),
            sent=state.sent,
            sent_as_data=state.sent_as_data,
            exchanges=state.exchanges,
        )

"""Tuning without a validation set: an exponentially weighted average of forecasters that differ in
some fields.

The remark after Theorem 4 of Jezequel, Gaillard, Rudi (NeurIPS 2019), with the expert advice of
Cesa-Bianchi and Lugosi, Prediction, Learning, and Games (2006), Sections 3.3 to 3.6. If |y| <= B,

    loss of the mixture <= min_g loss of expert g + log(G) / eta

on every stream. The bound holds for the average of the predictions (`rule="average"`) at
eta <= 1/(8 B^2), where the squared loss is exp-concave, and for Vovk's substitution (`rule="vovk"`)
at eta <= 1/(2 B^2), where the squared loss is mixable.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.numerics import while_any
from jsketch.precision import in_first_dtype
from jsketch.results import Result, result
from jsketch.types import Forecaster, ForecastInfo, PRNGKey, is_traced

RATES = {"average": 1 / 8, "vovk": 1 / 2}  # the largest eta B^2 with the guarantee


@struct.dataclass
class MixtureState:
    """The states of the experts, and their weights."""

    experts: Any  # the state of the forecaster, every leaf with a leading axis G
    log_weights: Array  # [G]; the weights sum to 1 and are largest for the least loss

    @property
    def diverged(self) -> Array:
        """Whether each expert has lost its weight, [G] bool."""
        return jnp.isneginf(self.log_weights)


@struct.dataclass
class MixtureInfo(ForecastInfo):
    """`ForecastInfo` with the largest dictionary size of the experts. The result is NOT_FINITE if a
    label is infinite or all experts have diverged."""

    diverged: Array  # [G] bool, the experts that diverged in this example or block


class _Attempt(NamedTuple):
    """A block that the experts have learned, perhaps up to different examples."""

    limit: Array  # [] int32
    again: Array  # [] bool
    outcome: tuple[Any, Array, Array, Any]  # of `advance` of all experts


@struct.dataclass
class Mixture(Forecaster):
    """G copies of a forecaster that differ in some fields, weighted by exp(-eta * their losses).

    forecaster     a forecaster
    grid           {field: its values}, every leaf with a leading axis G, such as
                   {"regularization": [G]} or, for an object, {"kernel": Gaussian([G])}. Features
                   that all experts share are computed once. All experts have the same key
    bound          B. Predictions are clipped to [-B, B]. The experts learn labels outside of
                   [-B, B] unchanged, but the weights and the guarantee count them as -B or B
    learning_rate  eta; None is the largest one with the guarantee
    rule           "average" or "vovk"

    An expert diverges if its state is not finite or its prediction is NaN. Diverged experts have
    no weight; in a block, from their first NaN on. `info.diverged` marks them; `prequential` and
    `Live` warn. The guarantee against the other experts remains.
    """

    forecaster: Any = struct.component(components.FORECASTER)
    grid: dict[str, Any]
    bound: ArrayLike = struct.number(above=0)
    learning_rate: ArrayLike | None = struct.number(None, above=0)
    rule: str = struct.choice("average", of=tuple(RATES))

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> MixtureState:
        """The state with equal weights; x [d] is an example. Raises ValueError for an invalid grid
        or expert."""
        checks.settings(self)
        x, count = checks.example(x), _check_grid(self.forecaster, self.grid)
        if not is_traced(self.forecaster, self.grid):
            # `init` checks numbers only outside of vmap
            with jax.core.eval_context():
                experts = self._experts(count)
            for expert in experts:
                expert.init(x, key)
        init = jax.vmap(lambda values: replace(self.forecaster, **values).init(x, key))
        experts = init(self.grid)
        return MixtureState(experts, jnp.full(count, -np.log(count), x.dtype))

    def check_rounding(self, x: Array) -> bool:
        """Whether the rounding errors of any expert are too large for an example x [d]; warns for
        each such expert (`rounding`)."""
        experts = self._experts(_check_grid(self.forecaster, self.grid))
        return any([expert.check_rounding(x) for expert in experts])

    def predict(self, state: MixtureState, x: Array) -> Array:
        return self._average(state, self._map_experts("predict", state, x)[:, None])[0]

    def preview(self, state: MixtureState, xs: Array) -> tuple[Array, Array]:
        predictions, exceeded = self._map_experts("preview", state, xs)
        return self._average(state, predictions), exceeded.any()

    def advance(
        self,
        state: MixtureState,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[MixtureState, Array, Array, MixtureInfo]:
        """See `Forecaster.advance`. Learns the examples before the first at which the block of any
        expert ends."""

        def learn(limit: Array) -> tuple[Any, Array, Array, Any]:
            return self._map_experts("advance", state, x, y, limit, keys)

        # the blocks of experts with different features may end at different examples; then all
        # experts learn the block again, up to the first of these ends
        def learn_again(attempt: _Attempt) -> _Attempt:
            outcome = learn(attempt.limit)
            ends = outcome[2]
            differ = (ends != ends.min()).any() & (ends.min() > 0)
            limit = jnp.where(differ, ends.min(), attempt.limit)
            return _Attempt(limit, differ, outcome)

        limit = jnp.asarray(limit, jnp.int32)
        none_yet = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(learn, limit))
        attempt = while_any(
            lambda attempt: attempt.again,
            learn_again,
            _Attempt(limit, jnp.ones((), bool), none_yet),
        )
        experts, predictions, ends, infos = attempt.outcome
        done = ends.min()
        learned = jnp.arange(len(y), dtype=jnp.int32) < done
        # predictions from number `done` on do not count, even if they are NaN
        predictions, y = jnp.where(learned, predictions, 0), jnp.where(learned, y, jnp.nan)
        new, prediction, info = self._learn(state, experts, predictions, y, infos)
        # where nothing is learned, another normalization could change the last bits of the weights
        log_weights = jnp.where(done > 0, new.log_weights, state.log_weights)
        return replace(new, log_weights=log_weights), prediction, done, info

    def grow(self, state: MixtureState) -> MixtureState:
        """The same state with more capacity for every expert. Raises ValueError if the experts need
        different capacities."""
        states = [
            expert.grow(jax.tree.map(lambda leaf, g=g: leaf[g], state.experts))
            for g, expert in enumerate(self._experts(len(state.log_weights)))
        ]
        if len({tuple(leaf.shape for leaf in jax.tree.leaves(new)) for new in states}) > 1:
            raise ValueError(
                f"the experts of this grid over {sorted(self.grid)} need different capacities,"
                " which one mixture does not support: use a forecaster with a larger capacity."
            )
        return replace(state, experts=jax.tree.map(lambda *leaves: jnp.stack(leaves), *states))

    def _experts(self, count: int) -> list[Any]:
        return [
            replace(self.forecaster, **jax.tree.map(lambda leaf, g=g: leaf[g], self.grid))
            for g in range(count)
        ]

    def _map_experts(self, method: str, state: MixtureState, *arguments: Any) -> Any:
        """The stacked results of a method of all experts, for their states and the arguments."""

        def call(values: dict[str, Any], expert_state: Any) -> Any:
            expert = replace(self.forecaster, **values)
            return getattr(expert, method)(expert_state, *arguments)

        return jax.vmap(call)(jax.tree.map(jnp.asarray, self.grid), state.experts)

    def _learn(
        self, state: MixtureState, experts: Any, predictions: Array, y: Array, infos: ForecastInfo
    ) -> tuple[MixtureState, Array, MixtureInfo]:
        """(state, y^ [n], info) after a block of labels y [n], from the predictions [G,n], the new
        states and the infos of the experts."""
        any_infinite = jnp.isinf(y).any()
        log_weights, prediction = self._weigh(state.log_weights, predictions, y)
        # an infinite label makes the info of every expert NOT_FINITE, and excludes none
        nonfinite = infos.result == Result.NOT_FINITE
        log_weights = jnp.where(nonfinite & ~any_infinite, -jnp.inf, log_weights)
        # without normalization large sums of losses would absorb their differences
        total = logsumexp(log_weights)
        log_weights = log_weights - jnp.where(jnp.isneginf(total), 0, total)
        new = MixtureState(experts, log_weights)
        exceeded = (infos.result == Result.CAPACITY_EXCEEDED).any()
        if hasattr(self.forecaster, "grow"):
            # no expert learns if the example exceeds the capacity of one of them
            new = jax.tree.map(lambda old, new: jnp.where(exceeded, old, new), state, new)
        info = MixtureInfo(
            dictionary_size=infos.dictionary_size.max(0),
            result=result(
                (Result.CAPACITY_EXCEEDED, exceeded),
                (Result.NOT_FINITE, any_infinite | new.diverged.all()),
            ),
            diverged=new.diverged & ~state.diverged,
        )
        return new, prediction, info

    def _average(self, state: MixtureState, predictions: Array) -> Array:
        """The predictions y^ [n] from predictions [G,n] of the experts, all from the same state."""
        no_label = jnp.full(1, jnp.nan, predictions.dtype)

        def average(predictions: Array) -> Array:
            return self._weigh(state.log_weights, predictions[:, None], no_label)[1][0]

        return jax.vmap(average, 1)(predictions)

    def _weigh(self, log_weights: Array, predictions: Array, y: Array) -> tuple[Array, Array]:
        """(log weights [G] after a block, up to a constant; y^ [n]) from predictions [G,n] and
        labels y [n]. An expert has no weight from its first NaN on."""
        bound = jnp.asarray(self.bound, predictions.dtype)
        excluded = jnp.isneginf(log_weights)[:, None] | (
            jnp.cumsum(jnp.isnan(predictions), axis=1, dtype=jnp.int32) > 0
        )
        predictions = jnp.where(excluded, 0, jnp.clip(predictions, -bound, bound))
        losses = jnp.square(predictions - jnp.clip(y, -bound, bound)[None])
        penalties = self._rate(bound) * jnp.where(jnp.isfinite(y), losses, 0)
        updated = log_weights[:, None] - jnp.cumsum(jnp.where(excluded, jnp.inf, penalties), axis=1)
        earlier = jnp.concatenate([log_weights[:, None], updated[:, :-1]], axis=1)
        return updated[:, -1], self._combine(jnp.where(excluded, -jnp.inf, earlier), predictions)

    def _combine(self, log_weights: Array, predictions: Array) -> Array:
        """The prediction y^ [...] from predictions [G, ...] in [-B, B] and log weights [G, ...]."""
        if self.rule == "average":
            return (jax.nn.softmax(log_weights, axis=0) * predictions).sum(0)
        bound = jnp.asarray(self.bound, predictions.dtype)
        rate = self._rate(bound)
        # minus eta times the pooled losses of the experts for the labels -B and B; the losses of y^
        # for these labels exceed the pooled losses by the same amount
        low = logsumexp(log_weights - rate * jnp.square(predictions + bound), axis=0)
        high = logsumexp(log_weights - rate * jnp.square(predictions - bound), axis=0)
        return (high - low) / (4 * rate * bound)

    def _rate(self, bound: Array) -> Array:
        """The learning rate eta, a scalar, for predictions and labels in [-bound, bound]."""
        if self.learning_rate is None:
            return RATES[self.rule] / jnp.square(bound)
        return jnp.asarray(self.learning_rate, bound.dtype)


def regularization_mixture(
    forecaster: Any, regularizations: Any, bound: ArrayLike, **options: Any
) -> Mixture:
    """The `Mixture` over regularizations [G]; `bound` and `options` are fields of the mixture.

    Example:

        forecaster = PKAWV(sketch.Taylor(inputs=2, degree=4, lengthscale=1.0))
        mixture = regularization_mixture(forecaster, [0.01, 0.1, 1.0], bound=1.0)
    """
    grid = {"regularization": jnp.asarray(regularizations, float)}
    return Mixture(forecaster, grid, bound, **options)


def _check_grid(forecaster: Any, grid: dict[str, Any]) -> int:
    """The number G of experts. Raises ValueError for a grid that is invalid for the forecaster."""
    names = [f.name for f in dataclasses.fields(forecaster) if f.metadata.get("pytree_node", True)]
    for name in grid:
        if name not in names:
            raise ValueError(
                f"the grid has {name!r}, but a grid over a {type(forecaster).__name__} takes only"
                f" {names}."
            )
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(grid)]
    leading_shapes = {shape[:1] for shape in shapes}
    if len(leading_shapes) != 1 or leading_shapes & {(), (0,)}:
        raise ValueError(
            "every array in the grid needs a leading axis with one entry for each of the G >= 1"
            f" experts; their shapes are {shapes}."
        )
    return shapes[0][0]

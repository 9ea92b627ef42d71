"""Tuning without a validation set: the exponentially weighted average of forecasters that differ in
some numbers.

The remark after Theorem 4 of Jezequel, Gaillard, Rudi (NeurIPS 2019), with the expert advice of
Cesa-Bianchi and Lugosi, Prediction, Learning, and Games (2006), Sections 3.3 to 3.6. While |y| <=
B, on every stream

    loss of the mixture <= min_g loss of expert g + log(G) / eta:

for the average of the predictions (`rule="average"`) at eta <= 1/(8 B^2), where the squared loss is
exp-concave, and for Vovk's substitution (`rule="vovk"`) at eta <= 1/(2 B^2), where it is mixable.
An expert that diverges has no weight from then on, and the bound against the others still holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.online.base import takes
from jsketch.precision import one_dtype
from jsketch.types import Forecaster, ForecastInfo, PRNGKey, is_traced

RATES = {"average": 1 / 8, "vovk": 1 / 2}  # the largest eta B^2 with the guarantee


@struct.dataclass
class MixtureState:
    """The states of the experts, and their weights."""

    experts: Any  # the state of the forecaster, every leaf with a leading axis G
    # [G], of weights that sum to one; the largest is that of the expert with the least loss
    log_weights: Array

    @property
    def diverged(self) -> Array:
        """[G] bool, the experts without weight."""
        return jnp.isneginf(self.log_weights)


@struct.dataclass
class MixtureInfo(ForecastInfo):
    """As `ForecastInfo`: the largest size of the experts, `overflow` if one of them has no
    capacity, and `nonfinite` if a label was infinite or all experts have diverged."""

    diverged: Array  # [G] bool, the experts that diverged in this example or block


@struct.dataclass
@one_dtype
class Mixture(Forecaster):
    """G copies of a forecaster that differ in some fields, weighted by exp(-eta * their losses).

    forecaster     a forecaster
    grid           the values of each field, every leaf with a leading axis G:
                   {"regularization": [G]}, or a whole part such as {"kernel": Gaussian([G])}. What
                   the experts share is computed once (PKAWV's features, unless they are in the
                   grid); the rest costs G times one forecaster. All have the same key
    bound          B. Predictions are clipped to [-B, B]. A label outside is learned as it is, and
                   counts as -B or B in the weights, and so in the guarantee
    learning_rate  eta; None: the largest with the guarantee
    rule           "average" or "vovk"
    sequential     True: the experts are computed one after the other and not in one vmap, for
                   states so large that a cache holds only one

    An expert whose state is not finite, or whose prediction is NaN, loses its weight for good
    (`state.diverged`, `info.diverged`; `prequential` and `Live` warn), and the others continue. In
    a block it is left out from its first prediction that is NaN there, which can come earlier than
    in single steps.
    """

    forecaster: Any
    grid: dict[str, Any]
    bound: ArrayLike
    learning_rate: ArrayLike | None = None
    rule: str = struct.field(pytree_node=False, default="average")
    sequential: bool = struct.field(pytree_node=False, default=False)

    grows = True
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"rule": tuple(RATES)}

    @property
    def takes(self) -> str:
        """As the experts."""
        return takes(self.forecaster)

    def init(self, x: Array, key: PRNGKey) -> MixtureState:
        """Equal weights; x [d] is one example. Raises ValueError on static mistakes of the grid and
        of each expert."""
        checks.settings(self)
        x, count = checks.example(x), _check_grid(self.forecaster, self.grid)
        if not is_traced(self.forecaster, self.grid):
            # vmap leaves numbers unchecked
            for expert in self._experts(count):
                expert.init(x, key)
        init = jax.vmap(lambda values: replace(self.forecaster, **values).init(x, key))
        experts = init(self.grid)
        return MixtureState(experts, jnp.full(count, -np.log(count), x.dtype))

    def check_rounding(self, x: Array) -> bool:
        """Warns of each expert whose rounding errors are too large for an example x [d]
        (`rounding`), and returns whether there is one."""
        experts = self._experts(_check_grid(self.forecaster, self.grid))
        return any([expert.check_rounding(x) for expert in experts])

    def predict(self, state: MixtureState, x: Array) -> Array:
        predictions = self._each(lambda expert, state: expert.predict(state, x), state)
        no_label = jnp.full(1, jnp.nan, x.dtype)
        return self._weigh(state.log_weights, predictions[:, None], no_label)[1][0]

    def update(
        self, state: MixtureState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[MixtureState, MixtureInfo]:
        state, _, info = self.step(state, x, y, key)
        return state, info

    def step(
        self, state: MixtureState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[MixtureState, Array, MixtureInfo]:
        each = self._each(lambda expert, state: expert.step(state, x, y, key), state)
        experts, predictions, infos = each
        state, prediction, info = self._after(state, experts, predictions[:, None], y[None], infos)
        return state, prediction[0], info

    def predict_update(
        self, state: MixtureState, x: Array, y: Array
    ) -> tuple[MixtureState, Array, MixtureInfo]:
        """As `step` for each of x [B,d], y [B]; where the experts take blocks."""
        each = self._each(lambda expert, state: expert.predict_update(state, x, y), state)
        experts, predictions, infos = each
        return self._after(state, experts, predictions, y, infos)

    def advance(
        self, state: MixtureState, x: Array, y: Array, limit: ArrayLike
    ) -> tuple[MixtureState, Array, Array, MixtureInfo]:
        """As `step` for as many of x [B,d], y [B] as all experts can take at once; where they take
        growing blocks (`GrowingBlocks.advance`)."""

        def up_to(limit: Array) -> Any:
            return self._each(lambda expert, state: expert.advance(state, x, y, limit), state)

        ends = up_to(jnp.asarray(limit, jnp.int32))
        done = ends[2].min()
        # different dictionaries end their blocks at different examples: repeat up to the first end
        same = (ends[2] == done).all() | (done == 0)
        experts, predictions, _, infos = lax.cond(same, lambda: ends, lambda: up_to(done))
        learned = jnp.arange(len(y), dtype=jnp.int32) < done
        # predictions after `done` do not count, not even as NaN
        predictions, y = jnp.where(learned, predictions, 0), jnp.where(learned, y, jnp.nan)
        new, prediction, info = self._after(state, experts, predictions, y, infos)
        # normalizing weights again may change their last bits
        log_weights = jnp.where(done > 0, new.log_weights, state.log_weights)
        return replace(new, log_weights=log_weights), prediction, done, info

    def grow(self, state: MixtureState) -> MixtureState:
        """The same state with more capacity for every expert. Raises ValueError where the experts
        need different capacities."""
        grown = [
            expert.grow(jax.tree.map(lambda leaf, g=g: leaf[g], state.experts))
            for g, expert in enumerate(self._experts(len(state.log_weights)))
        ]
        if len({tuple(leaf.shape for leaf in jax.tree.leaves(expert)) for expert in grown}) > 1:
            raise ValueError(
                f"the experts of this grid over {sorted(self.grid)} need different capacities,"
                " which one mixture cannot hold: give the forecaster a larger capacity from the"
                " start."
            )
        return replace(state, experts=jax.tree.map(lambda *leaves: jnp.stack(leaves), *grown))

    def _experts(self, count: int) -> list[Any]:
        return [
            replace(self.forecaster, **jax.tree.map(lambda leaf, g=g: leaf[g], self.grid))
            for g in range(count)
        ]

    def _each(self, call: Callable[[Any, Any], Any], state: MixtureState) -> Any:
        """call(expert, its state) of all G, stacked."""

        def one(pair: tuple[dict[str, Any], Any]) -> Any:
            values, expert_state = pair
            return call(replace(self.forecaster, **values), expert_state)

        pairs = (jax.tree.map(jnp.asarray, self.grid), state.experts)
        return lax.map(one, pairs) if self.sequential else jax.vmap(one)(pairs)

    def _after(
        self, state: MixtureState, experts: Any, predictions: Array, y: Array, infos: ForecastInfo
    ) -> tuple[MixtureState, Array, MixtureInfo]:
        """(state, y^ [B], info) after a block y [B] for which the experts, now in the states
        `experts`, made predictions [G,B]."""
        infinite = jnp.isinf(y).any()
        log_weights, prediction = self._weigh(state.log_weights, predictions, y)
        # an infinite label raises the flag of every expert
        log_weights = jnp.where(infos.nonfinite & ~infinite, -jnp.inf, log_weights)
        # normalized at every step, as sums of losses would outgrow the digits of their differences
        total = logsumexp(log_weights)
        log_weights = log_weights - jnp.where(jnp.isneginf(total), 0, total)
        new, overflow = MixtureState(experts, log_weights), infos.overflow.any()
        if self.forecaster.grows:
            # where one expert has no capacity, none learns
            new = jax.tree.map(lambda old, new: jnp.where(overflow, old, new), state, new)
        info = MixtureInfo(
            dictionary_size=infos.dictionary_size.max(),
            overflow=overflow,
            nonfinite=(infinite & ~overflow) | new.diverged.all(),
            diverged=new.diverged & ~state.diverged,
        )
        return new, prediction, info

    def _weigh(self, log_weights: Array, predictions: Array, y: Array) -> tuple[Array, Array]:
        """(log weights [G] after a block, up to a constant; y^ [B]) of predictions [G,B] and labels
        y [B]; each expert is left out from its first NaN on."""
        bound = jnp.asarray(self.bound, predictions.dtype)
        out = jnp.isneginf(log_weights)[:, None] | (
            jnp.cumsum(jnp.isnan(predictions), axis=1, dtype=jnp.int32) > 0
        )
        predictions = jnp.where(out, 0, jnp.clip(predictions, -bound, bound))
        losses = jnp.square(predictions - jnp.clip(y, -bound, bound)[None])
        penalties = self._rate(bound) * jnp.where(jnp.isfinite(y), losses, 0)
        after = log_weights[:, None] - jnp.cumsum(jnp.where(out, jnp.inf, penalties), axis=1)
        before = jnp.concatenate([log_weights[:, None], after[:, :-1]], axis=1)
        return after[:, -1], self._combined(jnp.where(out, -jnp.inf, before), predictions)

    def _combined(self, log_weights: Array, predictions: Array) -> Array:
        """y^ [...] of predictions [G, ...] in [-B, B] and log weights [G, ...]."""
        if self.rule == "average":
            return (jax.nn.softmax(log_weights, axis=0) * predictions).sum(0)
        bound = jnp.asarray(self.bound, predictions.dtype)
        rate = self._rate(bound)
        # the pooled losses of the experts for the labels -B and B; y^ balances its losses
        # against them
        low = logsumexp(log_weights - rate * jnp.square(predictions + bound), axis=0)
        high = logsumexp(log_weights - rate * jnp.square(predictions - bound), axis=0)
        return (high - low) / (4 * rate * bound)

    def _rate(self, bound: Array) -> Array:
        """eta []."""
        if self.learning_rate is None:
            return RATES[self.rule] / jnp.square(bound)
        return jnp.asarray(self.learning_rate, bound.dtype)


def over_regularizations(
    forecaster: Any, regularizations: Any, bound: ArrayLike, **options: Any
) -> Mixture:
    """`forecaster` at each of the regularizations [G]; `bound` and options as in `Mixture`."""
    grid = {"regularization": jnp.asarray(regularizations, float)}
    return Mixture(forecaster, grid, bound, **options)


def _check_grid(forecaster: Any, grid: dict[str, Any]) -> int:
    """The number G of experts. Raises ValueError for a grid that does not fit the forecaster."""
    numbers = [
        f.name for f in dataclasses.fields(forecaster) if f.metadata.get("pytree_node", True)
    ]
    for name in grid:
        if name not in numbers:
            raise ValueError(
                f"the grid names {name!r}; the numbers of a {type(forecaster).__name__} are"
                f" {numbers}."
            )
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(grid)]
    lengths = {shape[:1] for shape in shapes}
    if len(lengths) != 1 or lengths & {(), (0,)}:
        raise ValueError(
            "every number in the grid needs a leading axis with one entry for each of the G >= 1"
            f" experts; their shapes are {shapes}."
        )
    return shapes[0][0]

"""Tuning without a validation set: the exponentially weighted average of forecasters that differ in
some numbers.

The remark after Theorem 4 and Corollary 7 of Jezequel, Gaillard, Rudi (NeurIPS 2019), with the
expert advice of Cesa-Bianchi and Lugosi, Prediction, Learning, and Games (2006), Sections 3.3 to
3.6. While |y| <= B, the mixture of G experts has

    loss of the mixture <= min_g loss of expert g + log(G) / eta

on every stream, however chosen: for the average of the predictions (`rule="average"`) at eta <=
1/(8 B^2), where the squared loss is exp-concave, and for Vovk's substitution (`rule="vovk"`) at eta
<= 1/(2 B^2), where it is mixable.

An expert whose numbers are no longer finite has diverged: its weight is zero from then on. Against
the others the bound holds as it stands: the mixture pays for what losses take from the pooled
weights, and not for what an expert takes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks, struct
from jsketch.online import discounting, grids
from jsketch.online.step import step as one_step
from jsketch.online.step import takes
from jsketch.precision import one_dtype
from jsketch.types import ForecastInfo, PRNGKey, is_traced

RATES = {"average": 1 / 8, "vovk": 1 / 2}  # the largest eta B^2 with the guarantee


@struct.dataclass
class MixtureState:
    """What each expert believes, and how much it is believed."""

    experts: Any  # the state of the forecaster, every leaf with a leading axis G
    # [G], of weights that sum to one; the largest is that of the expert with the least loss
    log_weights: Array

    @property
    def diverged(self) -> Array:
        """[G] bool, the experts that have lost their weight for good; all others have some."""
        return jnp.isneginf(self.log_weights)


@struct.dataclass
class MixtureInfo:
    """What `ForecastInfo` says, of all experts together, and which of them diverged."""

    dictionary_size: Array  # [] int32, the largest of the experts
    overflow: Array  # [] bool, some expert has no room: nothing was learned
    nonfinite: Array  # [] bool, a label was infinite (and ignored), or no expert is left
    diverged: Array  # [G] bool, the experts that lost their weight in this example or block


@struct.dataclass
@one_dtype
class Mixture:
    """G copies of `forecaster` that differ in the fields named in `grid`, weighted by exp(-eta *
    their losses).

    grid: the values of each field, every leaf with a leading axis G: {"regularization": [G]}, or a
    whole part of the forecaster such as {"kernel": Gaussian([G])}. What the experts share is
    computed once (PKAWV's features, unless they are in the grid); the rest costs G times one
    forecaster. All get the same key, so they draw the same.

    in_turn: the experts one after the other, each on its own, instead of in one vmapped
    computation: for large states, when the cache has room for one but not for all.

    An expert that diverges, in its state or in a prediction that is NaN, loses its weight for good
    (`state.diverged`, `info.diverged`; `prequential` and `Live` warn), and the others continue. In
    a block it is left out from the first prediction that is NaN there, which may be one that it
    still makes when taken one by one.

    Predictions are clipped to [-B, B]. A label outside is learned as it is and counts as -B or B in
    the weights, and so in the guarantee.
    """

    forecaster: Any
    grid: dict[str, Any]
    bound: ArrayLike  # B
    learning_rate: ArrayLike | None = None  # eta; None: the largest with the guarantee
    rule: str = struct.field(pytree_node=False, default="average")
    in_turn: bool = struct.field(pytree_node=False, default=False)

    def init(self, x: Array, key: PRNGKey) -> MixtureState:
        """Equal weights; x [d] is one example. Raises ValueError on static mistakes of the grid and
        of each expert."""
        checks.choice(tuple(RATES), rule=self.rule)
        checks.positive(bound=self.bound)
        if self.learning_rate is not None:
            checks.positive(learning_rate=self.learning_rate)
        x, count = checks.example(x), grids.count(self.forecaster, self.grid)
        if not is_traced(self.forecaster, self.grid):
            # under vmap their numbers would go unchecked
            for g in range(count):
                self._expert(g, x.dtype).init(x, key)
        experts = jax.vmap(lambda values: replace(self.forecaster, **values).init(x, key))(
            grids.floating(self.grid, x.dtype)
        )
        return MixtureState(experts, jnp.full(count, -np.log(count), x.dtype))

    def check_rounding(self, x: Array) -> bool:
        """Warns of each expert whose rounding is too much for an example x [d] (`rounding`); says
        whether it did."""
        experts = [self._expert(g, x.dtype) for g in range(grids.count(self.forecaster, self.grid))]
        return any(
            [expert.check_rounding(x) for expert in experts if hasattr(expert, "check_rounding")]
        )

    def predict(self, state: MixtureState, x: Array) -> Array:
        """y^ [] for x [d]."""
        predictions = self._each(lambda expert, own: expert.predict(own, x), state, x.dtype)
        return self._weighed(
            state.log_weights, predictions[:, None], jnp.full(1, jnp.nan, x.dtype)
        )[1][0]

    def update(
        self, state: MixtureState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[MixtureState, MixtureInfo]:
        """Learns y [] at x [d]; a label that is not finite is not learned. On overflow the state
        comes back unchanged."""
        state, _, info = self.step(state, x, y, key)
        return state, info

    def step(
        self, state: MixtureState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[MixtureState, Array, MixtureInfo]:
        """`predict` and `update` in one: (state, y^, info)."""
        experts, predictions, infos = self._each(
            lambda expert, own: one_step(expert, own, x, y, key), state, x.dtype
        )
        state, prediction, info = self._settled(
            state, experts, predictions[:, None], y[None], infos
        )
        return state, prediction[0], info

    @property
    def takes(self) -> str:
        """As its experts."""
        return takes(self.forecaster)

    def predict_update(
        self, state: MixtureState, x: Array, y: Array
    ) -> tuple[MixtureState, Array, MixtureInfo]:
        """As `step` for x [B,d] and y [B], exactly; where the experts take blocks."""
        experts, predictions, infos = self._each(
            lambda expert, own: expert.predict_update(own, x, y), state, x.dtype
        )
        return self._settled(state, experts, predictions, y, infos)

    def advance(
        self, state: MixtureState, x: Array, y: Array, limit: ArrayLike
    ) -> tuple[MixtureState, Array, Array, MixtureInfo]:
        """As `step` for as many of x [B,d] and y [B] as all experts can take at once, exactly;
        where they take growing blocks. A limit of zero changes nothing."""

        def up_to(limit: Array) -> Any:
            return self._each(lambda expert, own: expert.advance(own, x, y, limit), state, x.dtype)

        ends = up_to(jnp.asarray(limit, jnp.int32))
        done = ends[2].min()
        # dictionaries that differ end their blocks at different examples: again, to the first of
        # the ends
        same = (ends[2] == done).all() | (done == 0)
        experts, predictions, _, infos = lax.cond(same, lambda: ends, lambda: up_to(done))
        learned = jnp.arange(len(y), dtype=jnp.int32) < done
        # what is predicted after `done` does not count, not even as NaN
        predictions, y = jnp.where(learned, predictions, 0), jnp.where(learned, y, jnp.nan)
        new, prediction, info = self._settled(state, experts, predictions, y, infos)
        # to normalize weights again may change their last bits
        log_weights = jnp.where(done > 0, new.log_weights, state.log_weights)
        return replace(new, log_weights=log_weights), prediction, done, info

    def _settled(
        self, state: MixtureState, experts: Any, predictions: Array, y: Array, infos: ForecastInfo
    ) -> tuple[MixtureState, Array, MixtureInfo]:
        """(state, y^ [B], info) after the block y [B] that the experts have predicted, [G, B], and
        learned."""
        infinite = jnp.isinf(y).any()
        log_weights, prediction = self._weighed(state.log_weights, predictions, y)
        # an infinite label raises the flag of every expert
        log_weights = jnp.where(infos.nonfinite & ~infinite, -jnp.inf, log_weights)
        overflow = infos.overflow.any()
        new = self._unless(overflow, state, MixtureState(experts, grids.normalized(log_weights)))
        info = MixtureInfo(
            dictionary_size=infos.dictionary_size.max(),
            overflow=overflow,
            nonfinite=(infinite & ~overflow) | new.diverged.all(),
            diverged=new.diverged & ~state.diverged,
        )
        return new, prediction, info

    def _weighed(self, log_weights: Array, predictions: Array, y: Array) -> tuple[Array, Array]:
        """(log weights [G] after a block, up to a constant; y^ [B]) of the experts' predictions [G,
        B], each expert left out from its first NaN on."""
        out = jnp.isneginf(log_weights)[:, None] | (
            jnp.cumsum(jnp.isnan(predictions), axis=1, dtype=jnp.int32) > 0
        )
        predictions = jnp.where(out, 0, self._clipped(predictions))
        penalties = jnp.where(out, jnp.inf, self._penalties(predictions, y))
        after = log_weights[:, None] - jnp.cumsum(penalties, axis=1)
        before = jnp.concatenate([log_weights[:, None], after[:, :-1]], axis=1)
        return after[:, -1], self._combined(jnp.where(out, -jnp.inf, before), predictions)

    def _unless(self, overflow: Array, old: MixtureState, new: MixtureState) -> MixtureState:
        """The new state, or the old one for all experts when one has no room."""
        if not hasattr(self.forecaster, "grow"):
            return new
        return jax.tree.map(lambda before, after: jnp.where(overflow, before, after), old, new)

    def grow(self, state: MixtureState) -> MixtureState:
        """The same state with more room for every expert. Raises ValueError when they come to
        differ in size."""
        dtype = state.log_weights.dtype
        grown = [
            self._expert(g, dtype).grow(jax.tree.map(lambda leaf, g=g: leaf[g], state.experts))
            for g in range(len(state.log_weights))
        ]
        if len({tuple(leaf.shape for leaf in jax.tree.leaves(expert)) for expert in grown}) > 1:
            raise ValueError(
                f"the experts of this grid over {sorted(self.grid)} need different capacities,"
                " which one mixture cannot hold: give the forecaster a larger capacity from the"
                " start."
            )
        return replace(state, experts=jax.tree.map(lambda *leaves: jnp.stack(leaves), *grown))

    def _each(self, call: Callable[[Any, Any], Any], state: MixtureState, dtype: DTypeLike) -> Any:
        """call(expert, its state) for all G, stacked."""

        def one(values: dict[str, Any], own: Any) -> Any:
            return call(replace(self.forecaster, **values), own)

        if self.in_turn:
            return lax.map(
                lambda pair: one(*pair), (grids.floating(self.grid, dtype), state.experts)
            )
        return jax.vmap(one)(grids.floating(self.grid, dtype), state.experts)

    def _expert(self, g: int, dtype: DTypeLike) -> Any:
        return replace(
            self.forecaster, **jax.tree.map(lambda leaf: leaf[g], grids.floating(self.grid, dtype))
        )

    def _rate(self, dtype: DTypeLike) -> Array:
        bound = jnp.asarray(self.bound, dtype)
        largest = RATES[self.rule] / jnp.square(bound)
        return largest if self.learning_rate is None else jnp.asarray(self.learning_rate, dtype)

    def _clipped(self, values: Array) -> Array:
        bound = jnp.asarray(self.bound, values.dtype)
        return jnp.clip(values, -bound, bound)

    def _penalties(self, predictions: Array, y: Array) -> Array:
        """eta (y^_g - y)^2 [G, ...]; zero where there is no label."""
        losses = jnp.where(jnp.isfinite(y), jnp.square(predictions - self._clipped(y)[None]), 0)
        return self._rate(predictions.dtype) * losses

    def _combined(self, log_weights: Array, predictions: Array) -> Array:
        """y^ [...] of the experts' predictions and log weights [G, ...] before the label."""
        if self.rule == "average":
            return (jax.nn.softmax(log_weights, axis=0) * predictions).sum(0)
        rate, bound = self._rate(predictions.dtype), jnp.asarray(self.bound, predictions.dtype)
        # the experts' pooled losses if the label were -B or B: y^ balances its own losses against
        # them
        low = logsumexp(log_weights - rate * jnp.square(predictions + bound), axis=0)
        high = logsumexp(log_weights - rate * jnp.square(predictions - bound), axis=0)
        return (high - low) / (4 * rate * bound)


def over_regularizations(
    forecaster: Any, regularizations: Any, bound: ArrayLike, **options: Any
) -> Mixture:
    """`forecaster` at each of the regularizations [G]; `bound` and options as in `Mixture`. Raises
    ValueError unless they are a vector of finite numbers above 0 and the forecaster has a
    regularization."""
    values = grids.vector("regularizations", regularizations, "np.geomspace(0.01, 100, 9)")
    checks.all_positive(regularizations=values)
    grid = grids.over(forecaster, "regularization", values)
    return Mixture(forecaster, grid, bound, **options)


def over_discounts(forecaster: Any, discounts: Any, bound: ArrayLike, **options: Any) -> Mixture:
    """`forecaster` at each of the discounts [G], as `over_regularizations`: for drift of unknown
    speed (`discounting`). Raises ValueError unless they are numbers above 0 and at most 1."""
    values = grids.vector("discounts", discounts, "[0.9, 0.99, 0.999, 1]")
    for value in values:
        discounting.check(value)
    return Mixture(forecaster, grids.over(forecaster, "discount", values), bound, **options)

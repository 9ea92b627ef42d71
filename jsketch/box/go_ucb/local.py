"""GO-UCB near the best observed point, in scaled units, with parameters that are refitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.box import history
from jsketch.box.go_ucb import model as models
from jsketch.box.go_ucb.ascents import BallAscent, Region
from jsketch.box.go_ucb.ball import OFUL, Ball
from jsketch.box.go_ucb.go_ucb import add_row, confidence_ball, linear_row
from jsketch.box.go_ucb.model import (
    Fit,
    FlatModel,
    LeftOut,
    LevenbergMarquardt,
    Network,
    accept,
    flatten,
)
from jsketch.box.go_ucb.rounds import (
    GOInfo,
    GOQuery,
    GOState,
    Proposal,
    empty_state,
    end_round,
    next_query,
    nothing_left_out,
)
from jsketch.box.history import Scaling, identity_scaling, standard_scaling
from jsketch.precision import one_dtype
from jsketch.types import Box, PRNGKey


@struct.dataclass
class LocalGOState(GOState):
    scaling: Scaling  # from the values of phase I; with `refit`, from all observations


@struct.dataclass
@one_dtype
class LocalGOUCB(struct.Settings):
    """GO-UCB (`GOUCB`) as it finds maxima in practice: `initial` uniform points in the first round,
    then one point a round.

    It goes beyond the paper in four ways, and the paper's theorem does not cover it: x_t lies
    within `reach` of the best observed point, because over a whole box the maximum of a network
    lies in a corner, far from all observations; after each evaluation w_t is fitted again to all
    observations, because the estimate of eq. 5 may stop moving, and the same point is then chosen
    again; eqs. 3 and 5 include the points of phase I; and inputs and values are scaled. The
    defaults were chosen on other functions than the paper's (experiments/go_ucb_2023/choose.py).
    For the paper's algorithm take `GOUCB`.

    schedule        beta_t, a schedule of `box.ball`
    oracle          the method of least-squares fits, `LevenbergMarquardt` or `Gradient`
    regularization  lam
    reach           the largest distance of a point from the best observed one in each input, as a
                    share of the box's side
    ascent          the method that maximises over x and w, `BallAscent` or `GradientAscent`
    model           the parametric function (`box.model`)
    refit           after each evaluation w_t is a fit of all observations, and all rows are those
                    at w_t. False: w_t is the estimate of eq. 5
    standardize     inputs are scaled to [-1,1], and values to mean 0 and deviation 1: the mean and
                    the deviation of phase I or, with `refit`, of all observations
    initial         int, uniform points of phase I

    What is not finite is left out, by the rule of `box.model.LeftOut`, and no point is chosen whose
    nearest evaluation failed. Before the first success, points after a failure are uniform.

    Example:

        run(LocalGOUCB(initial=4), problems.on_box(f, box), jax.random.key(0), 8).trace.best  # [8]
    """

    schedule: Any = struct.component(components.SCHEDULE, default=OFUL())
    oracle: Any = struct.component(components.ORACLE, default=LevenbergMarquardt())
    regularization: ArrayLike = struct.number(0.01, above=0)
    reach: ArrayLike = struct.number(0.02, above=0)
    ascent: Any = BallAscent()
    model: Any = struct.component(components.MODEL, pytree_node=False, default=Network())
    refit: bool = struct.choice(True)
    standardize: bool = struct.choice(True)
    initial: int = struct.size(8, at_least=0)

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> LocalGOState:
        """The state before any evaluation; `horizon` counts both phases. Raises ValueError for
        invalid settings, and for a horizon whose state is larger than memory."""
        checks.no_evaluations(self, data)
        state = empty_state(self, domain, key, horizon)
        return LocalGOState(**vars(state), scaling=identity_scaling(state.box))

    def ask(self, state: LocalGOState, key: PRNGKey, limit: ArrayLike | None = None) -> GOQuery:
        return next_query(state, lambda: self.propose(state, key), limit)

    def tell(
        self, state: LocalGOState, query: GOQuery, y: Array, key: PRNGKey
    ) -> tuple[LocalGOState, GOInfo]:
        """(state, info) after the values y [B]."""
        in_phase_one = state.history.count == 0
        if self.standardize and not self.refit:
            # the rows keep their scaling, and one value has no deviation
            in_phase_one |= state.history.ok.sum() < 2
        add_evaluation = self._refit if self.refit else self._add_evaluation
        return end_round(
            *(state, query, y, in_phase_one),
            lambda state: self._end_phase_one(state, key),
            add_evaluation,
        )

    def ball(self, state: LocalGOState) -> Ball:
        """Ball_t around w_t (eq. 6), in scaled units."""
        return confidence_ball(state, self.schedule, self.regularization, state.scaling.deviation)

    def propose(self, state: LocalGOState, key: PRNGKey) -> tuple[Array, Proposal]:
        """(the next point x_t [d] of phase II, how it was chosen)."""
        ball, model, scaling = self.ball(state), flatten(self.model, state.box.lower), state.scaling
        z, v, value = self.ascent.maximise(model, ball, self._region(state), key)
        x = jnp.clip(scaling.points(z), state.box.lower, state.box.upper)
        distance = ball.sigma.squared_norm(v)
        return x, Proposal(ball.beta, distance, scaling.rewards(value))

    def _region(self, state: LocalGOState) -> Region:
        """The points within `reach` of the best observed one."""
        best = state.scaling.inputs(history.best(state.history)[0])
        reach = self.reach * (state.box.upper - state.box.lower) / state.scaling.half
        lower, upper = state.scaling.inputs(state.box.lower), state.scaling.inputs(state.box.upper)
        near = history.near_failures(state.box, state.history)
        return Region(
            *(best, jnp.maximum(lower, best - reach), jnp.minimum(upper, best + reach)),
            lambda z: near(history.to_unit(state.box, state.scaling.points(z))),
        )

    def _end_phase_one(self, state: LocalGOState, key: PRNGKey) -> tuple[LocalGOState, LeftOut]:
        """(the state with w_0, which is also the first centre; what is left out)."""
        n = len(state.initial)

        def fit(model: FlatModel, z: Array, y: Array, ok: Array) -> Fit:
            return models.fit(self.oracle, model, z[:n], y[:n], ok[:n], key)

        new, left_out = self._with_fit(state, fit)
        return replace(new, w0=new.centre), left_out

    def _refit(self, state: LocalGOState) -> tuple[LocalGOState, LeftOut]:
        """(the state with a new centre; what is left out)."""

        def fit(model: FlatModel, z: Array, y: Array, ok: Array) -> Fit:
            return accept(self.oracle.refine(model, state.centre, z, y, ok), state.centre)

        return self._with_fit(state, fit)

    def _with_fit(
        self, state: LocalGOState, fit: Callable[[FlatModel, Array, Array, Array], Fit]
    ) -> tuple[LocalGOState, LeftOut]:
        """(the state whose scaling and rows are those of all observations, and whose centre is
        fit(model, points [N, d] and values [N] in scaled units, whether they were observed [N]);
        what is left out)."""
        model, past, scaling = flatten(self.model, state.box.lower), state.history, state.scaling
        if self.standardize:
            scaling = standard_scaling(state.box, past)
        z, y = scaling.inputs(past.x), scaling.values(past.y)
        fitted = fit(model, z, y, past.ok)
        rows = jax.vmap(partial(linear_row, model, fitted.w))(z, y, past.ok)
        left_out = replace(
            nothing_left_out(),
            evaluations=rows.left_out.sum(dtype=jnp.int32),
            parameters=fitted.left_out,
        )
        new = replace(state, scaling=scaling, centre=fitted.w)
        return replace(new, gradients=rows.gradient, targets=rows.target), left_out

    def _add_evaluation(self, state: LocalGOState) -> tuple[LocalGOState, LeftOut]:
        """(the state with the estimate of eq. 5; what is left out)."""
        i, model = state.history.count - 1, flatten(self.model, state.box.lower)
        z = state.scaling.inputs(state.history.x[i])
        y = state.scaling.values(state.history.y[i])
        return add_row(state, model, z, y, self.regularization)

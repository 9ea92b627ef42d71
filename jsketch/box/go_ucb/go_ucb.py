"""GO-UCB as in the paper: optimistic maximisation of a parametric function over a box.

Liu, Wang. Global optimization with parametric function approximation. ICML 2023 (THEORY 8.1 to
8.3). The lines of its Algorithm 1, and their equations:

    phase I   1-4  n uniform points x_j and their values y_j     `GOUCB.init`
              5    w_0 by the regression oracle, eq. 2           `GOUCB._end_phase_one`
    phase II  2    Sigma_t, eq. 3                                `confidence_ball`, `add_row`
              3    w_t, eq. 5, the solution of eq. 4             `add_row`
              4    Ball_t, eq. 6, with the radius of eq. 7       `confidence_ball`
              5    x_t = argmax_x max_{w in Ball_t} f_x(w)       `GradientAscent`
              6    y_t                                           `GOUCB.tell`
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.box import history
from jsketch.box.go_ucb import model as models
from jsketch.box.go_ucb.ascents import UNIFORM, Maximum, Region, ascent_keys, best_pair
from jsketch.box.go_ucb.ball import (
    Ball,
    Printed,
    Step,
    ellipsoid,
    estimate,
    printed_regularization,
)
from jsketch.box.go_ucb.model import Fit, FlatModel, Gradient, LeftOut, Network, accept, flatten
from jsketch.box.go_ucb.rounds import (
    GOInfo,
    GOQuery,
    GOState,
    Proposal,
    State,
    empty_state,
    end_round,
    next_query,
    nothing_left_out,
)
from jsketch.numerics import matmul, put
from jsketch.precision import one_dtype
from jsketch.search import ascend
from jsketch.types import Box, PRNGKey


def confidence_ball(
    state: GOState, schedule: Any, lam: ArrayLike, scale: Array | None = None
) -> Ball:
    """Ball_t of phase II, for values that are divided by `scale` (None: 1)."""
    # eq. 3: Sigma_t = lam I + sum_{i<t} g_i g_i^T
    sigma = ellipsoid(state.gradients, lam)
    step = Step(
        t=state.history.count - state.initial.shape[0] + 1,
        horizon=state.phase_two_length,
        parameters=state.w0.shape[0],
        regularization=sigma.regularization,
        logdet=sigma.logdet,
        scale=jnp.ones_like(sigma.logdet) if scale is None else scale,
    )
    # eq. 6: |w - w_t|_Sigma^2 <= beta_t, with beta_t of eq. 7
    return Ball(sigma, state.centre, schedule(step))


@struct.dataclass
class GradientAscent(struct.Settings):
    """Line 5 of phase II as in Appendix D.1: one gradient ascent over x and w. After every step, x
    is projected to the box and w to the ball. The paper does not specify the start.

    rate       the step size
    steps      int, number of steps
    from_best  the ascent starts at the best observed point and w_t, otherwise at a uniform point
               and w_t
    """

    rate: ArrayLike = struct.number(1e-4, above=0)
    steps: int = struct.size(2000)
    from_best: bool = struct.choice(True)

    def maximise(self, model: FlatModel, ball: Ball, region: Region, key: PRNGKey) -> Maximum:
        """The best pair (x, w) of the ascent."""

        def value(pairs: tuple[Array, Array]) -> Array:
            # f_x(w) [K] at w = w_t + v
            values = jax.vmap(lambda x, v: model.value(ball.centre + v, x))(*pairs)
            return region.allowed(pairs[0], values)

        def project(pairs: tuple[Array, Array]) -> tuple[Array, Array]:
            x, v = pairs
            return region.clip(x), jax.vmap(lambda v: v / ball.excess(v))(v)

        x = uniform = region.first_allowed(region.uniform(ascent_keys(key)[0], UNIFORM))
        if self.from_best:
            counts = model.linearize(ball.centre, region.best).counts
            x = jnp.where(counts, region.best, uniform)
        starts = x[None], jnp.zeros_like(ball.centre)[None]
        rule = optax.sgd(jnp.asarray(self.rate, x.dtype))
        ascents = ascend(value, starts, rule, project, self.steps)
        return best_pair(ascents, lambda v: v, otherwise=uniform)


class Row(NamedTuple):
    """What an evaluation adds to eqs. 3 and 5; zero if it is left out."""

    gradient: Array  # [d_w], g = grad f_x(w)
    target: Array  # [], g^T w + y - f_x(w)
    left_out: Array  # [] bool


def linear_row(model: FlatModel, w: Array, x: Array, y: Array, ok: Array) -> Row:
    """The row of the value y [] at x [d] for the centre w [d_w]; zero if the evaluation failed (ok
    [] is false)."""
    f, g, counts = model.linearize(w, x)
    target = matmul(g, w) + (y - f)
    is_used = ok & counts & jnp.isfinite(target)
    return Row(jnp.where(is_used, g, 0), jnp.where(is_used, target, 0), ok & ~is_used)


def add_row(
    state: State, model: FlatModel, x: Array, y: Array, lam: ArrayLike
) -> tuple[State, LeftOut]:
    """(the state with w_{t+1}, after the last evaluation of its history; what is left out). x [d]
    and y [] are the evaluation in the units of the model."""
    i = state.history.count - 1
    row = linear_row(model, state.centre, x, y, state.history.ok[i])
    gradients, targets = put(state.gradients, i, row.gradient), put(state.targets, i, row.target)
    # eq. 3: Sigma = lam I + sum_i g_i g_i^T
    sigma = ellipsoid(gradients, lam)
    # eq. 5: w = Sigma^-1 (sum_i g_i (g_i^T w_i + y_i - f_{x_i}(w_i)) + lam w_0)
    w = estimate(sigma, gradients, targets, state.w0)
    fit = accept(Fit(w, jnp.zeros_like(y)), state.centre)
    left_out = LeftOut(row.left_out.astype(jnp.int32), fit.left_out, jnp.zeros((), bool))
    return replace(state, gradients=gradients, targets=targets, centre=fit.w), left_out


@struct.dataclass
@one_dtype
class GOUCB(struct.Settings):
    """GO-UCB as in the paper (Liu, Wang, ICML 2023, Algorithm 1) with the settings of its Appendix
    D.1: `initial` uniform points in the first round, then one point a round.

    **To find a maximum, take `LocalGOUCB`,** which was `GOUCB` in version 0.1. It refits all
    parameters after every evaluation and searches near the best observed point, which the paper's
    theorem does not cover. `GOUCB` repeats the paper's experiments: at its printed rates neither
    the fit nor the ascent moves far from its start, and a run evaluates the best point of phase I
    again (THEORY 8.3). With `schedule=OFUL()`, `oracle=LevenbergMarquardt()` and
    `ascent=BallAscent()` the fit and the ascent converge, and the ball is much smaller.

    schedule        beta_t, a schedule of `box.ball`
    oracle          the method of the least-squares fit of phase I, from `box.model`
    regularization  lam; None is the paper's sqrt(T) log^2 T
    ascent          the method that maximises over x and w, `GradientAscent` or `BallAscent`
    model           the parametric function (`box.model`)
    initial         int, n, the uniform points of phase I

    What is not finite is left out, by the rule of `box.model.LeftOut`, and no point is chosen whose
    nearest evaluation failed. Before the first success, points after a failure are uniform.

    Example:

        run(GOUCB(initial=4), problems.on_box(f, box), jax.random.key(0), 8).trace.best  # [8]
    """

    schedule: Any = struct.component(components.SCHEDULE, default=Printed())
    oracle: Any = struct.component(
        components.ORACLE, default=Gradient(rate=1e-11, rule="sgd", steps=2000, restarts=1)
    )
    regularization: ArrayLike | None = struct.number(None, above=0)
    ascent: Any = GradientAscent()
    model: Any = struct.component(components.MODEL, pytree_node=False, default=Network())
    initial: int = struct.size(8, at_least=0)

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> GOState:
        """The state before any evaluation; `horizon` is n + T. Raises ValueError for invalid
        settings, and for a horizon whose state is larger than memory."""
        checks.no_evaluations(self, data)
        return empty_state(self, domain, key, horizon)

    def ask(self, state: GOState, key: PRNGKey, limit: ArrayLike | None = None) -> GOQuery:
        return next_query(state, lambda: self.propose(state, key), limit)

    def tell(
        self, state: GOState, query: GOQuery, y: Array, key: PRNGKey
    ) -> tuple[GOState, GOInfo]:
        """(state, info) after the values y [B]."""
        return end_round(
            *(state, query, y, state.history.count == 0),
            lambda state: self._end_phase_one(state, key),
            self._add_evaluation,
        )

    def ball(self, state: GOState) -> Ball:
        """Ball_t around w_t (eq. 6)."""
        return confidence_ball(state, self.schedule, self._lam(state))

    def propose(self, state: GOState, key: PRNGKey) -> tuple[Array, Proposal]:
        """(x_t = argmax_x max_{w in Ball_t} f_x(w) [d], how it was chosen)."""
        ball, model = self.ball(state), flatten(self.model, state.box.lower)
        near = history.near_failures(state.box, state.history)
        region = Region(
            *(history.best(state.history)[0], state.box.lower, state.box.upper),
            lambda x: near(history.to_unit(state.box, x)),
        )
        x, v, value = self.ascent.maximise(model, ball, region, key)
        return x, Proposal(ball.beta, ball.sigma.squared_norm(v), value)

    def _end_phase_one(self, state: GOState, key: PRNGKey) -> tuple[GOState, LeftOut]:
        """(the state with w_0, which is also the first centre; what is left out)."""
        model, n = flatten(self.model, state.box.lower), len(state.initial)
        x, y, ok = (values[:n] for values in (state.history.x, state.history.y, state.history.ok))
        fit = models.fit(self.oracle, model, x, y, ok, key)  # eq. 2
        left_out = replace(nothing_left_out(), parameters=fit.left_out)
        return replace(state, w0=fit.w, centre=fit.w), left_out

    def _add_evaluation(self, state: GOState) -> tuple[GOState, LeftOut]:
        """(the state with w_{t+1}; what is left out)."""
        i = state.history.count - 1
        model, x, y = flatten(self.model, state.box.lower), state.history.x[i], state.history.y[i]
        return add_row(state, model, x, y, self._lam(state))

    def _lam(self, state: GOState) -> ArrayLike:
        if self.regularization is not None:
            return self.regularization
        return printed_regularization(state.phase_two_length)

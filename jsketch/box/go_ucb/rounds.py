"""The state, queries and infos of GO-UCB, and the rounds of its protocol, for both of its forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.box import history
from jsketch.box.go_ucb.model import LeftOut, flatten
from jsketch.box.history import History
from jsketch.numerics import lazy_cond
from jsketch.types import Box, BoxInfo, BoxQuery, PRNGKey


@struct.dataclass
class GOState:
    box: Box
    initial: Array  # [n, d], the uniform points of phase I
    history: History  # of N = n + T evaluations
    w0: Array  # [d_w], the fit to phase I
    centre: Array  # [d_w], w_t
    gradients: Array  # [N, d_w], g_i = grad f_{x_i}(w_i); unused rows are zero
    targets: Array  # [N], g_i^T w_i + y_i - f_{x_i}(w_i); unused entries are zero

    @property
    def phase_two_length(self) -> int:
        """T, the number of evaluations of phase II, but at least 1."""
        return max(self.history.capacity - self.initial.shape[-2], 1)


State = TypeVar("State", bound=GOState)


@struct.dataclass
class Proposal:
    """How a point of phase II was chosen; the numbers are NaN in phase I."""

    beta: Array  # [], beta_t
    distance: Array  # [], |w - w_t|_Sigma^2 of the optimistic w, <= beta_t
    # [], f_w(x_t), in units of y; -inf if x_t is a uniform point, because no value was finite or
    # no evaluation had succeeded
    acquisition: Array


@struct.dataclass
class GOQuery(BoxQuery):
    proposal: Proposal


@struct.dataclass
class GOInfo(BoxInfo):
    proposal: Proposal
    left_out: LeftOut

    @property
    def nonfinite(self) -> Array:
        """[] bool, whether something is left out because it is not finite (`LeftOut`)."""
        return self.left_out.any


def empty_state(optimizer: Any, domain: Box, key: PRNGKey, horizon: int | None) -> GOState:
    """The state of a GO-UCB optimiser before any evaluation, with its uniform points of phase I."""
    box, horizon = history.checked_box(domain), checks.horizon(horizon)
    model = flatten(optimizer.model, box.lower)
    if not hasattr(optimizer.ascent, "maximise"):
        raise ValueError(
            "ascent must be GradientAscent() or BallAscent(), from box.go_ucb;"
            f" {optimizer.ascent!r} was given."
        )
    for part in (optimizer, optimizer.schedule, optimizer.oracle, optimizer.ascent):
        checks.settings(part)
    checks.positive_integer(restarts=optimizer.oracle.restarts)
    w = jnp.zeros(model.size, box.lower.dtype)
    return GOState(
        box=box,
        history=history.empty(box, horizon, other_floats=horizon * model.size),
        initial=history.initial_points(box, key, optimizer.initial, horizon),
        w0=w,
        centre=w,
        gradients=jnp.zeros((horizon, model.size), w.dtype),
        targets=jnp.zeros(horizon, w.dtype),
    )


def next_query(
    state: GOState, propose: Callable[[], tuple[Array, Proposal]], limit: ArrayLike | None
) -> GOQuery:
    """The points of phase I in the first round, and later the point of propose()."""
    nan = jnp.full((), jnp.nan, state.w0.dtype)
    x, proposal = lax.cond(
        state.history.count == 0, lambda: (state.initial[0], Proposal(nan, nan, nan)), propose
    )
    query = history.query(state.history, state.initial, lambda: x[None], limit)
    return GOQuery(query.x, query.mask, proposal)


def nothing_left_out() -> LeftOut:
    false = jnp.zeros((), bool)
    return LeftOut(jnp.zeros((), jnp.int32), false, false)


def end_round(
    state: State,
    query: GOQuery,
    y: Array,
    in_phase_one: Array,
    end_phase_one: Callable[[State], tuple[State, LeftOut]],
    add_evaluation: Callable[[State], tuple[State, LeftOut]],
) -> tuple[State, GOInfo]:
    """(state, info) after the values y [B]: end_phase_one(state) in phase I, and
    add_evaluation(state) in phase II. Both get the state whose history has the values."""
    observed = history.add(state.history, query, y)
    is_used = query.size > 0  # a query beyond the horizon is empty and changes nothing
    new = replace(state, history=observed), nothing_left_out()
    new = lazy_cond(is_used & in_phase_one, lambda old: end_phase_one(old[0]), new)
    new_state, left_out = lazy_cond(
        is_used & ~in_phase_one, lambda old: add_evaluation(old[0]), new
    )
    info = history.info(state.history, observed)
    # before the first success the points are uniform, whatever the model is
    is_uniform = jnp.isneginf(query.proposal.acquisition) & state.history.ok.any()
    left_out = replace(left_out, pairs=is_uniform)
    return new_state, GOInfo(info.observed, info.failed, info.best, query.proposal, left_out)

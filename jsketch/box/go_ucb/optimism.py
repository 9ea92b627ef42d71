"""How GO-UCB chooses a point: candidates of a region, the best of them as starts, joint ascent over
point and parameters.

The functions take the settings, a `GOUCB`, by name `go`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.typing import DTypeLike

from jsketch import struct
from jsketch.box import history
from jsketch.box.go_ucb import forms
from jsketch.box.go_ucb.forms import Ball
from jsketch.box.go_ucb.parametric import GOState
from jsketch.search.candidates import uniform_and_moved
from jsketch.search.over_pairs import maximise_over_pairs
from jsketch.sketch.tangent import finite_rows, flatten
from jsketch.types import PRNGKey

# step of the ascent over w, in radii of the ball: long ones follow the gradient along its surface
BALL_RATE = 2.0
# of the steps, at the end: there that falls to zero, for maxima inside of the ball
BALL_FALL = 0.1
DIRECTIONS = 4  # of as many starts over w one goes uphill, the others anywhere
FORMS = {"ball": forms.whitened, "plain": forms.plain, "first_order": forms.linearized}


@struct.dataclass
class Proposal:
    """How a point was chosen; values in units of y, NaN in phase I and for a uniform point."""

    beta: Array  # [], beta_t
    distance: Array  # [], |w - w_t|_Sigma^2 of the optimistic w, <= beta_t
    acquisition: Array  # [], f_w(x_t)
    at_starts: Array  # [], the largest acquisition where the ascent started, the best candidates
    fallback: Array  # [] bool: no start had a finite acquisition, so the point is a uniform one


def propose(go: Any, state: GOState, ball: Ball, key: PRNGKey) -> tuple[Array, Proposal]:
    """x_t [d] and how it was chosen."""
    model = flatten(go.model, state.box.lower)
    lower, upper = region(go, state)
    chosen = FORMS[go.acquisition](model, ball)
    best = state.scaling.inputs(history.best(state.history)[0])
    candidate_key, direction_key = jax.random.split(key)
    candidates = uniform_and_moved(candidate_key, best, lower, upper, go.candidates)
    values, gradients = model.features(ball.centre, candidates)
    # an evaluation where the model has no finite gradient would teach nothing
    usable = finite_rows(values, gradients)
    gradients = jnp.where(usable[:, None], gradients, 0)
    scores = jax.vmap(chosen.value)(candidates, jax.vmap(chosen.start)(gradients))
    top = _starts(go, jnp.where(jnp.isfinite(scores), scores, -jnp.inf), usable)

    def project(z: Array, p: Any) -> tuple[Array, Any]:
        return jnp.clip(z, lower, upper), chosen.project(p)

    z, p = (
        candidates[top],
        jax.vmap(chosen.start)(_directions(go, gradients[top], direction_key)),
    )
    found = maximise_over_pairs(
        chosen.value, chosen.uphill, project, z, p, _rule(go, z.dtype), go.steps
    )
    distance = ball.sigma.squared_norm(chosen.move(found.x, found.p))
    fallback = ~jnp.isfinite(found.value)
    numbers = state.scaling.rewards(jnp.stack([found.value, found.starts.max()]))
    distance, value, at_starts = jnp.where(fallback, jnp.nan, jnp.append(distance, numbers))
    # the first candidate after the best observed point is a uniform one
    x = state.scaling.points(jnp.where(fallback, candidates[1], found.x))
    x = jnp.clip(x, state.box.lower, state.box.upper)
    return x, Proposal(ball.beta, distance, value, at_starts, fallback)


def region(go: Any, state: GOState) -> tuple[Array, Array]:
    """(lower [d], upper [d]) of the points within reach, in the model's units."""
    around = state.scaling.inputs(history.best(state.history)[0])
    reach = go.reach * (state.box.upper - state.box.lower) / state.scaling.half
    lower, upper = state.scaling.inputs(state.box.lower), state.scaling.inputs(state.box.upper)
    return jnp.maximum(lower, around - reach), jnp.minimum(upper, around + reach)


def _starts(go: Any, scores: Array, usable: Array) -> Array:
    """Which candidates with these scores [1 + C] start, [K]: the best observed point, the best of
    all, and, as those may lie on one hill, as many uniform ones. Those that are not usable [1 + C]
    come last."""
    uniform = (go.starts - 1) // 2
    others = jnp.arange(1, 1 + uniform, dtype=jnp.int32)
    scores = scores.at[others].set(-jnp.inf).at[0].set(jnp.inf if go.from_best else -jnp.inf)
    scores = jnp.where(usable, scores, -jnp.inf)
    return jnp.concatenate([others, lax.top_k(scores, go.starts - uniform)[1].astype(jnp.int32)])


def _directions(go: Any, gradients: Array, key: PRNGKey) -> Array:
    """Where w starts from the centre at each start, of the gradients there [K, d_w]: along them or,
    at three of four starts, at random, [K, d_w]. A network has many local maxima in w: uphill from
    the centre ends in one of them, and close to the data, where the gradient says least, often in a
    low one. The best candidate keeps its own."""
    # where `_starts` puts it
    best = (go.starts - 1) // 2 + (go.from_best and go.starts > 1)
    slots = jnp.arange(go.starts, dtype=jnp.int32)[:, None]
    drawn = jax.random.normal(key, gradients.shape, gradients.dtype)
    return jnp.where((slots - best) % DIRECTIONS == 0, gradients, drawn)


def _rule(go: Any, dtype: DTypeLike) -> optax.GradientTransformation:
    rate = jnp.asarray(go.rate, dtype)
    if go.acquisition == "plain":
        return optax.sgd(rate)

    def falling(count: Array) -> Array:
        return rate * (1 + jnp.cos(jnp.pi * count.astype(dtype) / go.steps)) / 2

    def held(count: Array) -> Array:
        left = (go.steps - count.astype(dtype)) / (go.steps * BALL_FALL)
        return BALL_RATE * jnp.minimum(left, 1)

    # Adam scales every coordinate by itself, which suits a box; on the surface of a ball that would
    # not end where the gradient points along it, so w moves along `uphill`, whose length is the
    # radius
    along = optax.sgd(held)
    return optax.partition({"x": optax.adam(falling), "p": along}, ("x", "p"))

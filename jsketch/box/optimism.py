"""How GO-UCB chooses a point: candidates of a region, the best of them as starts, joint ascent over point and parameters.

The functions take the settings, a `GOUCB`, by name `go`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.box import ascent, history, search
from jsketch.box.parametric import GOState
from jsketch.box.search import Ball
from jsketch.sketch.tangent import flatten
from jsketch.types import PRNGKey

BALL_RATE = 0.5  # first step of the ascent over w, in radii of the ball; it falls as that over x does
FORMS = {"ball": search.whitened, "plain": search.plain, "first_order": search.linearized}


@struct.dataclass
class Proposal:
    """How a point was chosen; values in units of y, NaN in phase I."""

    beta: Array  # [], beta_t
    distance: Array  # [], |w - w_t|_Sigma^2 of the optimistic w, <= beta_t
    acquisition: Array  # [], f_w(x_t)
    at_starts: Array  # [], the largest acquisition where the ascent started, the best candidates


def propose(go: Any, state: GOState, ball: Ball, key: PRNGKey) -> tuple[Array, Proposal]:
    """x_t [d] and how it was chosen."""
    model = flatten(go.model, state.box.lower)
    lower, upper = region(go, state)
    chosen = FORMS[go.acquisition](model, ball)
    z = _candidates(go, state, key, lower, upper)
    p = jax.vmap(chosen.start)(model.features(ball.centre, z)[1])
    top = _starts(go, jax.vmap(chosen.value)(z, p))

    def project(z: Array, p: Any) -> tuple[Array, Any]:
        return jnp.clip(z, lower, upper), chosen.project(p)

    z, p = jax.tree.map(lambda leaf: leaf[top], (z, p))
    found = ascent.maximise(chosen.value, chosen.uphill, project, z, p, _rule(go, z.dtype), go.steps)
    distance = ball.sigma.squared_norm(chosen.move(found.x, found.p))
    values = state.scaling.rewards(jnp.stack([found.value, found.starts.max()]))
    x = jnp.clip(state.scaling.points(found.x), state.box.lower, state.box.upper)
    return x, Proposal(ball.beta, distance, values[0], values[1])


def region(go: Any, state: GOState) -> tuple[Array, Array]:
    """(lower [d], upper [d]) of the points within reach, in the model's units."""
    around = state.scaling.inputs(history.best(state.history)[0])
    reach = go.reach * (state.box.upper - state.box.lower) / state.scaling.half
    lower, upper = state.scaling.inputs(state.box.lower), state.scaling.inputs(state.box.upper)
    return jnp.maximum(lower, around - reach), jnp.minimum(upper, around + reach)


def _candidates(go: Any, state: GOState, key: PRNGKey, lower: Array, upper: Array) -> Array:
    """The best observed point, then uniform points of the region and small moves of the best, half each, [1 + C, d]."""
    best = state.scaling.inputs(history.best(state.history)[0])
    uniform_key, move_key = jax.random.split(key)
    half = go.candidates // 2
    uniform = jax.random.uniform(uniform_key, (go.candidates - half, *best.shape), best.dtype)
    moves = 0.1 * (upper - lower) * jax.random.normal(move_key, (half, *best.shape), best.dtype)
    around = jnp.clip(best + moves, lower, upper)
    return jnp.concatenate([best[None], lower + uniform * (upper - lower), around])


def _starts(go: Any, scores: Array) -> Array:
    """Which candidates with these scores [1 + C] start, [K]: the best observed point, the best of all, and, as those may
    lie on one hill, as many uniform ones."""
    uniform = (go.starts - 1) // 2
    others = jnp.arange(1, 1 + uniform, dtype=jnp.int32)
    scores = scores.at[others].set(-jnp.inf).at[0].set(jnp.inf if go.from_best else -jnp.inf)
    return jnp.concatenate([others, lax.top_k(scores, go.starts - uniform)[1].astype(jnp.int32)])


def _rule(go: Any, dtype: Any) -> optax.GradientTransformation:
    rate = jnp.asarray(go.rate, dtype)
    if go.acquisition == "plain":
        return optax.sgd(rate)

    def falling(first: ArrayLike) -> optax.Schedule:
        return lambda count: first * (1 + jnp.cos(jnp.pi * count.astype(dtype) / go.steps)) / 2

    # Adam scales every coordinate by itself, which suits a box; on the surface of a ball that would not end where
    # the gradient points along it, so w moves along `uphill`, whose length is the radius
    along = optax.sgd(falling(jnp.asarray(BALL_RATE, dtype)))
    return optax.partition({"x": optax.adam(falling(rate)), "p": along}, ("x", "p"))

"""What GO-UCB has learned: the fit of phase I, one row of eqs. 3 and 5 for each evaluation after it.

The functions take the settings, a `GOUCB`, by name `go`; `lam` is its regularization as a number.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.typing import ArrayLike

from jsketch.box import oracle, scaling
from jsketch.box.ellipsoid import ellipsoid, estimate
from jsketch.box.history import History
from jsketch.box.scaling import Scaling
from jsketch.linalg import matmul, put
from jsketch.sketch.tangent import flatten
from jsketch.types import Box, PRNGKey


@struct.dataclass
class GOState:
    box: Box
    initial: Array  # [n, d]
    history: History
    scaling: Scaling  # fixed at the end of phase I, unless refitted
    w0: Array  # [d_w]
    centre: Array  # [d_w], w_t
    gradients: Array  # [N, d_w], g_i at w_i; zero where nothing was learned
    targets: Array  # [N], g_i^T w_i + y_i - f_{x_i}(w_i); zero where nothing was learned


def explored(go: Any, state: GOState, key: PRNGKey) -> GOState:
    """The state after phase I: scaling and w0."""
    model, past = flatten(go.model, state.box.lower), state.history
    units = scaling.standard(state.box, past) if go.standardize else scaling.identity(state.box)
    x, y = units.inputs(past.x), units.values(past.y)
    # of the horizon's slots only the first are in use
    n = min(go.initial, past.capacity)
    w0 = oracle.fit(go.oracle, model, x[:n], y[:n], past.ok[:n], key).w
    state = state.replace(scaling=units, w0=w0, centre=w0)
    return _with_rows(go, state, past.ok) if go.exploration_rows else state


def learned(go: Any, state: GOState, after: History, lam: ArrayLike) -> GOState:
    """The state after an evaluation of phase II, the last of `after`."""
    new = state.replace(history=after)
    return _refitted(go, new) if go.refit else _with_one_row(go, new, lam)


def _with_one_row(go: Any, state: GOState, lam: ArrayLike) -> GOState:
    """The last evaluation's row, at the w_t with which it was chosen, and w_{t+1} (eqs. 3 and 5)."""
    model, past = flatten(go.model, state.box.lower), state.history
    slot = past.count - 1
    z = state.scaling.inputs(past.x[slot])
    value, gradient = jax.value_and_grad(model.value)(state.centre, z)
    gradient = jnp.where(past.ok[slot], gradient, 0)
    residual = jnp.where(past.ok[slot], state.scaling.values(past.y[slot]) - value, 0)
    gradients = put(state.gradients, slot, gradient)
    targets = put(state.targets, slot, matmul(gradient, state.centre) + residual)
    sigma = ellipsoid(gradients, lam)
    return state.replace(
        gradients=gradients, targets=targets, centre=estimate(sigma, gradients, targets, state.w0)
    )


def _refitted(go: Any, state: GOState) -> GOState:
    """Scaling, centre and all rows anew."""
    model, past = flatten(go.model, state.box.lower), state.history
    units = scaling.standard(state.box, past) if go.standardize else state.scaling
    x, y = units.inputs(past.x), units.values(past.y)
    w = go.oracle.refine(model, state.centre, x, y, past.ok).w
    return _with_rows(go, state.replace(scaling=units, centre=w), past.ok)


def _with_rows(go: Any, state: GOState, ok: Array) -> GOState:
    """Rows of the evaluations with ok [N], all taken at the centre."""
    model, past = flatten(go.model, state.box.lower), state.history
    values, gradients = model.features(state.centre, state.scaling.inputs(past.x))
    gradients = jnp.where(ok[:, None], gradients, 0)
    residual = state.scaling.values(past.y) - values
    targets = jnp.where(ok, matmul(gradients, state.centre) + residual, 0)
    return state.replace(gradients=gradients, targets=targets)

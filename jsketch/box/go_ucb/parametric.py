"""What GO-UCB has learned: the fit of phase I, one row of eqs. 3 and 5 for each evaluation after
it.

The functions take the settings, a `GOUCB`, by name `go`; `lam` is its regularization as a number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.box import scaling
from jsketch.box.go_ucb import oracle
from jsketch.box.go_ucb.ellipsoid import ellipsoid, estimate
from jsketch.box.go_ucb.oracle import Fit
from jsketch.box.history import History
from jsketch.box.scaling import Scaling
from jsketch.linalg import matmul, put
from jsketch.sketch.tangent import finite_rows, flatten
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


class NotFinite(NamedTuple):
    """What a round left out because it is not finite."""

    diverged: Array  # [] bool, the new parameters or their loss
    rows: Array  # [] int32, rows of eqs. 3 and 5, of the evaluations whose rows were computed


def explored(go: Any, state: GOState, key: PRNGKey) -> tuple[GOState, NotFinite]:
    """The state after phase I, with scaling and w0, which stays as it was drawn where the oracle
    diverged."""
    model, past = flatten(go.model, state.box.lower), state.history
    units = scaling.standard(state.box, past) if go.standardize else scaling.identity(state.box)
    x, y = units.inputs(past.x), units.values(past.y)
    # of the horizon's slots only the first are in use
    n = min(go.initial, past.capacity)
    fitted = oracle.fit(go.oracle, model, x[:n], y[:n], past.ok[:n], key)
    state = replace(state, scaling=units, w0=fitted.w, centre=fitted.w)
    left_out = jnp.zeros((), jnp.int32)
    if go.exploration_rows:
        state, left_out = _with_rows(go, state)
    return state, NotFinite(~jnp.isfinite(fitted.loss), left_out)


def learned(go: Any, state: GOState, after: History, lam: ArrayLike) -> tuple[GOState, NotFinite]:
    """The state after an evaluation of phase II, the last of `after`."""
    new = replace(state, history=after)
    if go.refit:
        return _refitted(go, new)
    if not go.standardize:
        return _with_one_row(go, new, lam)
    return lax.cond(
        # no scale yet
        state.history.ok.sum() < 2,
        lambda: _rescaled(go, new),
        lambda: _with_one_row(go, new, lam),
    )


def _finite(new: Array, old: Array) -> tuple[Array, Array]:
    """(new, if all of it is finite, else old; whether it is not)."""
    diverged = ~jnp.isfinite(new).all()
    return jnp.where(diverged, old, new), diverged


def _fitted(fit: Fit, old: Array) -> tuple[Array, Array]:
    """(the fit's parameters, or the old ones if they are not finite; whether these are or their
    loss is not). A loss that is not finite cannot fall: values that are not standardized may be too
    large for it."""
    w, diverged = _finite(fit.w, old)
    return w, diverged | ~jnp.isfinite(fit.loss)


def _rescaled(go: Any, state: GOState) -> tuple[GOState, NotFinite]:
    """The scaling that two values have where one had none; w0 stays."""
    state = replace(state, scaling=scaling.standard(state.box, state.history), centre=state.w0)
    state, left_out = _with_rows(go, state)
    return state, NotFinite(jnp.zeros((), bool), left_out)


def _with_one_row(go: Any, state: GOState, lam: ArrayLike) -> tuple[GOState, NotFinite]:
    """The last evaluation's row, at the w_t that chose it, and w_{t+1} (eqs. 3 and 5)."""
    model, past = flatten(go.model, state.box.lower), state.history
    slot = past.count - 1
    z = state.scaling.inputs(past.x[slot])
    value, gradient = jax.value_and_grad(model.value)(state.centre, z)
    y = state.scaling.values(past.y[slot])
    row, target, left_out = _rows(state.centre, value, gradient, y, past.ok[slot])
    gradients = put(state.gradients, slot, row)
    targets = put(state.targets, slot, target)
    sigma = ellipsoid(gradients, lam)
    centre, diverged = _finite(estimate(sigma, gradients, targets, state.w0), state.centre)
    state = replace(state, gradients=gradients, targets=targets, centre=centre)
    return state, NotFinite(diverged, left_out.astype(jnp.int32))


def _refitted(go: Any, state: GOState) -> tuple[GOState, NotFinite]:
    """Scaling, centre and all rows anew."""
    model, past = flatten(go.model, state.box.lower), state.history
    units = scaling.standard(state.box, past) if go.standardize else state.scaling
    x, y = units.inputs(past.x), units.values(past.y)
    w, diverged = _fitted(go.oracle.refine(model, state.centre, x, y, past.ok), state.centre)
    state, left_out = _with_rows(go, replace(state, scaling=units, centre=w))
    return state, NotFinite(diverged, left_out)


def _with_rows(go: Any, state: GOState) -> tuple[GOState, Array]:
    """Rows of all evaluations, taken at the centre, and how many of them are left out."""
    model, past = flatten(go.model, state.box.lower), state.history
    values, gradients = model.features(state.centre, state.scaling.inputs(past.x))
    y = state.scaling.values(past.y)
    gradients, targets, left_out = _rows(state.centre, values, gradients, y, past.ok)
    return replace(state, gradients=gradients, targets=targets), left_out.sum(dtype=jnp.int32)


def _rows(
    w: Array, values: Array, gradients: Array, y: Array, ok: Array
) -> tuple[Array, Array, Array]:
    """(g_i [..., d_w], g_i^T w + y_i - f_{x_i}(w) [...], which are left out [...]) of observed y
    [...] with ok [...]. Failed evaluations and those left out, because their row is not finite, are
    zero."""
    targets = matmul(gradients, w) + (y - values)
    usable = ok & finite_rows(values, gradients) & jnp.isfinite(targets)
    rows = jnp.where(usable[..., None], gradients, 0)
    return rows, jnp.where(usable, targets, 0), ok & ~usable

"""Regression oracles of GO-UCB's phase I (eq. 2): parameters that fit n points by least squares, in a fixed number of steps.

Each has fit(model, x, y, mask, key) -> Fit, runs from several random draws of the model side by side and keeps the best. With
fewer points than parameters, as here, all good fits interpolate; then a step costs least in the n-dimensional dual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.linalg import matmul
from jsketch.sketch.tangent import Flat
from jsketch.types import PRNGKey


class Fit(NamedTuple):
    """What an oracle returns."""

    w: Array  # [d_w]
    loss: Array  # [], mean squared error over the points


def mean_squared_error(model: Flat, w: Array, x: Array, y: Array, mask: Array) -> Array:
    """Mean of (f_w(x_i) - y_i)^2 over the points with mask [n], []; 0 without any."""
    values = jax.vmap(model.value, in_axes=(None, 0))(w, x)
    squares = jnp.square(jnp.where(mask, values - y, 0)).sum()
    return squares / jnp.maximum(mask.sum(), 1).astype(squares.dtype)


def _best(run: Callable[[Array], Fit], model: Flat, key: PRNGKey, restarts: int) -> Fit:
    fits = jax.vmap(run)(jax.vmap(model.draw)(jax.random.split(key, restarts)))
    best = jnp.argmin(jnp.where(jnp.isfinite(fits.loss), fits.loss, jnp.inf))
    return Fit(fits.w[best], fits.loss[best])


@struct.dataclass
class LevenbergMarquardt:
    """Damped Gauss-Newton steps J^T (J J^T + mu I)^-1 r, O(n^2 d_w) each; mu falls after a success and rises after a failure."""

    damping: ArrayLike = 1e-2  # first mu, in units of the mean diagonal of J J^T
    steps: int = struct.field(pytree_node=False, default=30)
    restarts: int = struct.field(pytree_node=False, default=4)

    def fit(self, model: Flat, x: Array, y: Array, mask: Array, key: PRNGKey) -> Fit:
        """Parameters for y [n] at x [n,d], of which only those with mask [n] count."""
        identity = jnp.eye(x.shape[0], dtype=x.dtype)

        def step(_: int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            w, loss, mu = carry
            values, jacobian = model.features(w, x)
            jacobian = jnp.where(mask[:, None], jacobian, 0)
            residual = jnp.where(mask, y - values, 0)
            gram = matmul(jacobian, jacobian.T)
            scale = jnp.trace(gram) / x.shape[0] + jnp.finfo(x.dtype).tiny
            dual = jax.scipy.linalg.solve(gram + mu * scale * identity, residual, assume_a="pos")
            moved = w + matmul(dual, jacobian)
            new = mean_squared_error(model, moved, x, y, mask)
            better = new < loss  # False for NaN
            mu = jnp.clip(jnp.where(better, mu / 5, mu * 4), jnp.finfo(x.dtype).eps, 1e6)
            return jnp.where(better, moved, w), jnp.where(better, new, loss), mu

        def run(w: Array) -> Fit:
            loss = mean_squared_error(model, w, x, y, mask)
            mu = jnp.asarray(self.damping, x.dtype)
            w, loss, _ = lax.fori_loop(0, self.steps, step, (w, loss, mu))
            return Fit(w, loss)

        return _best(run, model, key, self.restarts)


@struct.dataclass
class Gradient:
    """Full-batch gradient steps of optax's Adam or SGD on the mean squared error. `printed` is the paper's."""

    rate: ArrayLike = 0.02
    rule: str = struct.field(pytree_node=False, default="adam")
    steps: int = struct.field(pytree_node=False, default=2000)
    restarts: int = struct.field(pytree_node=False, default=4)

    def fit(self, model: Flat, x: Array, y: Array, mask: Array, key: PRNGKey) -> Fit:
        """Parameters for y [n] at x [n,d], of which only those with mask [n] count."""
        rule = {"adam": optax.adam, "sgd": optax.sgd}[self.rule](jnp.asarray(self.rate, x.dtype))

        def loss(w: Array) -> Array:
            return mean_squared_error(model, w, x, y, mask)

        def step(_: int, carry: tuple[Array, optax.OptState]) -> tuple[Array, optax.OptState]:
            w, memory = carry
            updates, memory = rule.update(jax.grad(loss)(w), memory)
            return optax.apply_updates(w, updates), memory

        def run(w: Array) -> Fit:
            w, _ = lax.fori_loop(0, self.steps, step, (w, rule.init(w)))
            return Fit(w, loss(w))

        return _best(run, model, key, self.restarts)


def printed() -> Gradient:
    """Appendix D.1: SGD, 2000 iterations, learning rate 1e-11; the parameters stay where they were drawn (theory.md G3)."""
    return Gradient(rate=1e-11, rule="sgd", steps=2000, restarts=1)

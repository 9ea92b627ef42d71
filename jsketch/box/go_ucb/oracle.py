"""Regression oracles of GO-UCB's phase I (eq. 2): parameters that fit n points by least squares, in
a fixed number of steps.

An oracle has refine(model, w, x, y, mask) -> Fit, which improves given parameters; `fit` runs it
from several random draws of the model side by side and keeps the best. With fewer points than
parameters, as in the paper, every good fit interpolates, and a step costs least in the
n-dimensional dual. Measured at d_w = 551 (2 cores, float64, 4 restarts; Adam and SGD 2000 steps): 8
points, Levenberg-Marquardt 5 ms and a loss of 1e-32, Adam 70 ms and 1e-31, SGD at rate 0.05 50 ms
and 1e-14; 64 points, 72 ms and 1e-31 against 400 ms and 1e-14 (SGD: 9e-2). Hence
Levenberg-Marquardt is the default.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul
from jsketch.sketch.tangent import Flat, finite_rows
from jsketch.types import PRNGKey


class Fit(NamedTuple):
    """What an oracle returns."""

    w: Array  # [d_w]
    loss: Array  # [], mean squared error over the points


def mean_squared_error(model: Flat, w: Array, x: Array, y: Array, mask: Array) -> Array:
    """Mean of (f_w(x_i) - y_i)^2 over the points x [n,d] with mask [n], []; 0 without any."""
    values = jax.vmap(model.value, in_axes=(None, 0))(w, x)
    squares = jnp.square(jnp.where(mask, values - y, 0)).sum()
    return squares / jnp.maximum(mask.sum(), 1).astype(squares.dtype)


def fit(oracle: Any, model: Flat, x: Array, y: Array, mask: Array, key: PRNGKey) -> Fit:
    """The best of `oracle.restarts` fits to y [n] at x [n,d], those with mask [n], each from a
    random draw; of fits that are exact to rounding, the first. Where no fit is finite, the first
    draw, with an infinite loss."""
    draws = jax.vmap(model.draw)(jax.random.split(key, oracle.restarts))
    fits = jax.vmap(lambda w: oracle.refine(model, w, x, y, mask))(draws)
    # rounding must not choose among interpolating fits, which differ everywhere else
    exact = jnp.finfo(y.dtype).eps * jnp.square(jnp.where(mask, y, 0)).mean()
    finite = jnp.isfinite(fits.loss) & jnp.isfinite(fits.w).all(1)
    best = jnp.argmin(jnp.where(finite, jnp.maximum(fits.loss, exact), jnp.inf))
    return Fit(
        jnp.where(finite[best], fits.w[best], draws[best]),
        jnp.where(finite[best], fits.loss[best], jnp.inf),
    )


def _residuals(model: Flat, w: Array, x: Array, y: Array, mask: Array) -> tuple[Array, Array]:
    """(y_i - f_w(x_i) [n], grad_w f_w(x_i) [n, d_w]); zero where the mask is false and where value
    or gradient are not finite, so that such a point does not move w."""
    values, gradients = model.features(w, x)
    usable = mask & finite_rows(values, gradients)
    return jnp.where(usable, y - values, 0), jnp.where(usable[:, None], gradients, 0)


@struct.dataclass
class LevenbergMarquardt:
    """Damped Gauss-Newton steps J^T (J J^T + mu I)^-1 r, O(n^2 d_w) each; mu falls after a success
    and rises after a failure. Never worse than its start."""

    damping: ArrayLike = 1e-2  # first mu, in units of the mean diagonal of J J^T
    steps: int = struct.field(pytree_node=False, default=30)
    restarts: int = struct.field(pytree_node=False, default=4)

    def check(self) -> None:
        checks.positive(damping=self.damping)
        checks.capacity(steps=self.steps, restarts=self.restarts)

    def refine(self, model: Flat, w: Array, x: Array, y: Array, mask: Array) -> Fit:
        """Parameters from w [d_w] on."""
        identity = jnp.eye(x.shape[0], dtype=x.dtype)
        eps, tiny = jnp.finfo(x.dtype).eps, jnp.finfo(x.dtype).tiny

        def step(_: int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            w, loss, mu = carry
            residual, jacobian = _residuals(model, w, x, y, mask)
            gram = matmul(jacobian, jacobian.T)
            ridge = mu * (jnp.trace(gram) / x.shape[0] + tiny)
            dual = jax.scipy.linalg.solve(gram + ridge * identity, residual, assume_a="pos")
            moved = w + matmul(dual, jacobian)
            new = mean_squared_error(model, moved, x, y, mask)
            # false for NaN
            better = new < loss
            mu = jnp.clip(jnp.where(better, mu / 5, mu * 4), eps, 1e6)
            return jnp.where(better, moved, w), jnp.where(better, new, loss), mu

        loss = mean_squared_error(model, w, x, y, mask)
        w, loss, _ = lax.fori_loop(
            0, self.steps, step, (w, loss, jnp.asarray(self.damping, x.dtype))
        )
        return Fit(w, loss)


@struct.dataclass
class Gradient:
    """Steps of optax's Adam or SGD on the mean squared error of all points."""

    rate: ArrayLike = 0.02
    rule: str = struct.field(pytree_node=False, default="adam")
    steps: int = struct.field(pytree_node=False, default=2000)
    restarts: int = struct.field(pytree_node=False, default=4)

    def check(self) -> None:
        checks.positive(rate=self.rate)
        checks.choice(("adam", "sgd"), rule=self.rule)
        checks.capacity(steps=self.steps, restarts=self.restarts)

    def refine(self, model: Flat, w: Array, x: Array, y: Array, mask: Array) -> Fit:
        """Parameters from w [d_w] on."""
        rule = {"adam": optax.adam, "sgd": optax.sgd}[self.rule](jnp.asarray(self.rate, x.dtype))

        count = jnp.maximum(mask.sum(), 1).astype(x.dtype)

        def step(_: int, carry: tuple[Array, optax.OptState]) -> tuple[Array, optax.OptState]:
            w, memory = carry
            residual, jacobian = _residuals(model, w, x, y, mask)
            slope = matmul(-2 / count * residual, jacobian)
            # optax counts steps in int32
            with jax.numpy_dtype_promotion("standard"):
                updates, memory = rule.update(slope, memory)
            return w + updates.astype(w.dtype), memory

        w, _ = lax.fori_loop(0, self.steps, step, (w, rule.init(w)))
        return Fit(w, mean_squared_error(model, w, x, y, mask))


def printed() -> Gradient:
    """Appendix D.1: SGD, 2000 iterations, learning rate 1e-11; the parameters stay where they were
    drawn (THEORY 8.3)."""
    return Gradient(rate=1e-11, rule="sgd", steps=2000, restarts=1)

"""Parametric models of GO-UCB and their least-squares fits.

A model is anything with `init(key, x) -> w`, a pytree of parameters, and `apply(w, x) -> scalar`
for x [d]: a flax module, a law with named parameters (`box.Parametric`), or two `Functions`. d_w is
the number of parameters.
`Network` is the model of the paper's experiments (section 6).

A regression oracle (eq. 2) has a number of `restarts` and a method refine(model, w, x, y, mask) ->
Fit, which improves the parameters w in a fixed number of steps. With more parameters than points,
as in the paper, every good fit interpolates. `LevenbergMarquardt` is then the cheaper oracle: with
n points its steps solve only n equations.

What is not finite is left out, by the rule of `LeftOut`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax import Array, lax
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks, struct
from jsketch.numerics import matmul
from jsketch.types import Box, PRNGKey

SAMPLE = 32  # random points and parameters by which a model is recognised


class Functions(NamedTuple):
    """A model made of two functions, for example
    `Functions(lambda key, x: draw(key), lambda w, x: w["slope"] @ x)`."""

    init: Callable[[PRNGKey, Array], Any]
    apply: Callable[[Any, Array], Array]


class Network(nn.Module):
    """f_w(x) = w2 . sigmoid(W1 x + b1) + b2 for x [d]; d_w = hidden (d + 2) + 1, 551 at d = 20.
    Parameters are drawn uniformly from +-1/sqrt(fan_in), the default of PyTorch's linear layers."""

    hidden: int = 25

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """f_w(x) [] of x [d], in the dtype of x."""
        return self._linear(1, nn.sigmoid(self._linear(self.hidden, x)))[0]

    def _linear(self, n_outputs: int, x: Array) -> Array:
        def init(key: PRNGKey, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
            bound = x.shape[0] ** -0.5
            return jax.random.uniform(key, shape, dtype, -bound, bound)

        return nn.Dense(n_outputs, kernel_init=init, bias_init=init, param_dtype=x.dtype)(x)


@struct.dataclass
class LeftOut:
    """What a round leaves out because it is not finite, and the rule for it.

    A point counts where f_w(x) and the squared length of its gradient in w are finite
    (`FlatModel.linearize`). Parameters count if they and their loss are finite (`accept`). The rest
    is left out, and the run goes on:

        an evaluation  whose point does not count, or whose target in eq. 5 overflows, is like a
                       failed evaluation: it has no row in eqs. 3 and 5, and no residual in a fit
        parameters     are replaced by the previous ones, or, at the end of phase I, by the first
                       random ones
        a candidate    starts no ascent, and a pair (x, w) without a finite value is not chosen; if
                       there is no other pair, x_t is a uniform point

    evaluations  [] int32, of the evaluations whose rows the round computed
    parameters   [] bool, the parameters of the round's fit, or of eq. 5
    pairs        [] bool, all pairs of the ascent: x_t is a uniform point
    """

    evaluations: Array
    parameters: Array
    pairs: Array

    @property
    def any(self) -> Array:
        """[] bool, whether something is left out."""
        return (self.evaluations > 0) | self.parameters | self.pairs


class Linearization(NamedTuple):
    """f_w(x) and its gradient in w at a point x; both are zero if the point does not count."""

    value: Array  # []
    gradient: Array  # [d_w]
    counts: Array  # [] bool, see `LeftOut`


class FlatModel(NamedTuple):
    """A model with its parameters in one vector."""

    value: Callable[[Array, Array], Array]  # f_w(x), [], of w [d_w] and x [d]
    draw: Callable[[PRNGKey], Array]  # random parameters [d_w]
    unravel: Callable[[Array], Any]  # the pytree of a vector [d_w]
    size: int  # d_w

    def linearize(self, w: Array, x: Array) -> Linearization:
        """f_w(x) and its gradient in w at parameters w [d_w] and a point x [d]."""
        value, gradient = jax.value_and_grad(self.value)(w, x)
        counts = jnp.isfinite(value) & jnp.isfinite(jnp.square(gradient).sum())
        return Linearization(jnp.where(counts, value, 0), jnp.where(counts, gradient, 0), counts)


def flatten(model: Any, x: Array) -> FlatModel:
    """The model in the dtype of an example x [d]. Raises ValueError unless its parameters are
    floating point arrays and its output is one number, of shape [] or [1], and for functions that
    jit does not accept, such as one with a Python `if` of x."""
    x = jnp.asarray(x)
    if isinstance(model, type) or not (
        callable(getattr(model, "init", None)) and hasattr(model, "apply")
    ):
        raise ValueError(
            "a model is a flax module, such as Network(), or Functions(init, apply) with"
            f" init(key, x) -> w and apply(w, x) -> scalar; {model!r} was given."
        )
    parameters = checks.traced_result("the model's init", model.init, jax.random.key(0), x)
    leaves = jax.tree.leaves(parameters)
    if not leaves or not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        raise ValueError(
            "the model's parameters must be floating point arrays, at least one;"
            f" their dtypes are {[str(leaf.dtype) for leaf in leaves]}."
        )
    output = jax.tree.leaves(checks.traced_result("the model's apply", model.apply, parameters, x))
    shapes = [leaf.shape for leaf in output]
    if shapes not in ([()], [(1,)]):
        raise ValueError(
            "the model's output must be one number for one point x [d], of shape () or (1,); its"
            f" shape is {shapes}."
        )
    template = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, x.dtype), parameters)
    vector, unravel = ravel_pytree(template)

    def value(w: Array, x: Array) -> Array:
        return model.apply(unravel(w), x).reshape(())

    def draw(key: PRNGKey) -> Array:
        w = jax.tree.map(lambda leaf: leaf.astype(x.dtype), model.init(key, x))
        return ravel_pytree(w)[0]

    return FlatModel(value, draw, unravel, vector.size)


class Sample(NamedTuple):
    """A model at random points of a box and random parameters, by which it is recognised."""

    x: Array  # [SAMPLE, d]
    values: Array  # [SAMPLE]

    def changes(self, before: np.ndarray) -> list[str]:
        """A text that says where these values differ by more than rounding from those of a model
        `before` [SAMPLE], which has the same parameters; empty if they do not."""
        values = np.asarray(self.values)
        rounding = float(np.sqrt(np.finfo(values.dtype).eps))
        finite = before[np.isfinite(before)]
        size = float(np.median(np.abs(finite))) if finite.size else 0.0
        same = np.isclose(values, before, rounding, rounding * size, equal_nan=True)
        points = np.asarray(self.x)
        texts = [
            f"at x = {points[i]} its value for the same parameters was {before[i]:.6g}, is"
            f" {values[i]:.6g}"
            for i in np.flatnonzero(~same)
        ]
        return texts[:1]


@partial(jax.jit, static_argnames="model")
def sample(model: Any, box: Box) -> Sample:
    """The `Sample` of a model over a box, which is the same in every process."""
    flat = flatten(model, box.lower)
    point_key, parameter_key = jax.random.split(jax.random.key(0))
    unit = jax.random.uniform(point_key, (SAMPLE, *box.lower.shape), box.lower.dtype)
    x = box.lower[None, :] + unit * (box.upper - box.lower)[None, :]
    w = jax.vmap(flat.draw)(jax.random.split(parameter_key, SAMPLE))
    return Sample(x, jax.vmap(flat.value)(w, x))


class Fit(NamedTuple):
    """Parameters and how well they fit."""

    w: Array  # [d_w]
    loss: Array  # [], mean squared error over the points; infinite if no parameters were accepted

    @property
    def left_out(self) -> Array:
        """[] bool, whether parameters were left out by the rule of `LeftOut`."""
        return ~jnp.isfinite(self.loss)


def accept(fit: Fit, previous: Array) -> Fit:
    """The fit if its parameters and its loss are finite (see `LeftOut`), else the `previous`
    parameters [d_w] with an infinite loss."""
    counts = jnp.isfinite(fit.loss) & jnp.isfinite(fit.w).all()
    return Fit(jnp.where(counts, fit.w, previous), jnp.where(counts, fit.loss, jnp.inf))


def mean_squared_error(model: FlatModel, w: Array, x: Array, y: Array, mask: Array) -> Array:
    """The mean [] of (f_w(x_i) - y_i)^2 over the points x [n,d] where mask [n] is true; 0 if there
    is no such point."""
    values = jax.vmap(model.value, in_axes=(None, 0))(w, x)
    squares = jnp.square(jnp.where(mask, values - y, 0)).sum()
    return squares / jnp.maximum(mask.sum(), 1).astype(squares.dtype)


def fit(oracle: Any, model: FlatModel, x: Array, y: Array, mask: Array, key: PRNGKey) -> Fit:
    """The best of `oracle.restarts` fits of y [n] at x [n,d] where the mask [n] is true. Each fit
    starts from random parameters. If several fits are exact up to rounding, the result is the first
    of them. If no fit is accepted, the result is the first random parameters."""
    draws = jax.vmap(model.draw)(jax.random.split(key, oracle.restarts))
    fits = jax.vmap(lambda w: accept(oracle.refine(model, w, x, y, mask), w))(draws)
    # rounding must not decide between interpolating fits, which differ at all other points
    rounding = jnp.finfo(y.dtype).eps * jnp.square(jnp.where(mask, y, 0)).mean()
    best = jnp.argmin(jnp.maximum(fits.loss, rounding))
    return Fit(fits.w[best], fits.loss[best])


def _residuals(model: FlatModel, w: Array, x: Array, y: Array, mask: Array) -> tuple[Array, Array]:
    """(y_i - f_w(x_i) [n], grad_w f_w(x_i) [n, d_w]), zero where the mask is false or where the
    point does not count."""
    linear = jax.vmap(model.linearize, (None, 0))(w, x)
    usable = mask & linear.counts
    return jnp.where(usable, y - linear.value, 0), jnp.where(usable[:, None], linear.gradient, 0)


@struct.dataclass
class LevenbergMarquardt(struct.Settings):
    """Damped Gauss-Newton steps J^T (J J^T + mu I)^-1 r, O(n^2 d_w) each, for the residuals r and
    the Jacobian J of f_w. A step that does not reduce the loss is rejected. mu falls after a step
    that reduces the loss, and rises after a rejected one.

    damping   the first mu, in units of the mean diagonal of J J^T
    steps     int, number of steps
    restarts  int, number of starts; the best fit counts
    """

    damping: ArrayLike = struct.number(1e-2, above=0)
    steps: int = struct.size(30)
    restarts: int = struct.size(4, at_least=0)

    def refine(self, model: FlatModel, w: Array, x: Array, y: Array, mask: Array) -> Fit:
        """A fit that starts from parameters w [d_w]."""
        identity = jnp.eye(x.shape[0], dtype=x.dtype)
        eps, tiny = jnp.finfo(x.dtype).eps, jnp.finfo(x.dtype).tiny

        def step(_: int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            w, loss, mu = carry
            residual, jacobian = _residuals(model, w, x, y, mask)
            gram = matmul(jacobian, jacobian.T)
            ridge = mu * (jnp.trace(gram) / x.shape[0] + tiny)
            dual = jax.scipy.linalg.solve(gram + ridge * identity, residual, assume_a="pos")
            new_w = w + matmul(dual, jacobian)
            new_loss = mean_squared_error(model, new_w, x, y, mask)
            reduces_loss = new_loss < loss  # false for NaN
            mu = jnp.clip(jnp.where(reduces_loss, mu / 5, mu * 4), eps, 1e6)
            return jnp.where(reduces_loss, new_w, w), jnp.where(reduces_loss, new_loss, loss), mu

        loss = mean_squared_error(model, w, x, y, mask)
        start = (w, loss, jnp.asarray(self.damping, x.dtype))
        w, loss, _ = lax.fori_loop(0, self.steps, step, start)
        return Fit(w, loss)


@struct.dataclass
class Gradient(struct.Settings):
    """Steps of Adam or SGD (optax) on the mean squared error of all points.

    rate      the learning rate
    rule      "adam" or "sgd"
    steps     int, number of steps
    restarts  int, number of starts; the best fit counts
    """

    rate: ArrayLike = struct.number(0.02, above=0)
    rule: str = struct.choice("adam", of=("adam", "sgd"))
    steps: int = struct.size(2000)
    restarts: int = struct.size(4, at_least=0)

    def refine(self, model: FlatModel, w: Array, x: Array, y: Array, mask: Array) -> Fit:
        """A fit that starts from parameters w [d_w]."""
        rule = {"adam": optax.adam, "sgd": optax.sgd}[self.rule](jnp.asarray(self.rate, x.dtype))
        count = jnp.maximum(mask.sum(), 1).astype(x.dtype)

        def step(_: int, carry: tuple[Array, optax.OptState]) -> tuple[Array, optax.OptState]:
            w, state = carry
            residual, jacobian = _residuals(model, w, x, y, mask)
            slope = matmul(-2 / count * residual, jacobian)
            # optax counts steps in int32
            with jax.numpy_dtype_promotion("standard"):
                updates, state = rule.update(slope, state)
            return w + updates.astype(w.dtype), state

        w, _ = lax.fori_loop(0, self.steps, step, (w, rule.init(w)))
        return Fit(w, mean_squared_error(model, w, x, y, mask))

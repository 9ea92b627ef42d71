"""Gradient features of a parametric function: x -> grad_w f_w(x), the linear model that a small
change of w sees.

Liu, Wang. Global optimization with parametric function approximation. ICML 2023 (GO-UCB), equations
3 to 5.

A model is anything with `init(key, x) -> w`, a pytree of parameters, and `apply(w, x) -> scalar`
for x [d]: a flax module as it is, or a `Parametric` of two functions. d_w counts its parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from jsketch.types import PRNGKey


class Parametric(NamedTuple):
    """A model out of two functions: `Parametric(lambda key, x: draw(key), lambda w, x: w["slope"] @
    x)`."""

    init: Callable[[PRNGKey, Array], Any]
    apply: Callable[[Any, Array], Array]


class Flat(NamedTuple):
    """A model with its parameters in one vector."""

    value: Callable[[Array, Array], Array]  # f_w(x), [], of w [d_w] and x [d]
    draw: Callable[[PRNGKey], Array]  # random parameters [d_w]
    unravel: Callable[[Array], Any]  # the pytree of a vector [d_w]
    size: int  # d_w

    def features(self, w: Array, x: Array) -> tuple[Array, Array]:
        """(f_w(x_i) [n], grad_w f_w(x_i) [n, d_w]) of w [d_w] at points x [n,d]."""
        return jax.vmap(jax.value_and_grad(self.value), in_axes=(None, 0))(w, x)


def finite_rows(values: Array, gradients: Array) -> Array:
    """[...] bool, which points with f_w(x) [...] and gradients [..., d_w] can be rows of a linear
    model: the value is finite and so is the square of the gradient."""
    return jnp.isfinite(values) & jnp.isfinite(jnp.square(gradients).sum(-1))


def flatten(model: Any, x: Array) -> Flat:
    """The model in the dtype of x [d], an example. Raises ValueError unless it has floating point
    parameters and its output is one number, of shape [] or [1]."""
    x = jnp.asarray(x)
    if isinstance(model, type) or not (
        callable(getattr(model, "init", None)) and hasattr(model, "apply")
    ):
        raise ValueError(
            "a model is a flax module, such as Network(), or Parametric(init, apply) with"
            f" init(key, x) -> w and apply(w, x) -> scalar; {model!r} was given."
        )
    parameters = jax.eval_shape(model.init, jax.random.key(0), x)
    output = jax.eval_shape(model.apply, parameters, x)
    _check(parameters, output)
    template = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, x.dtype), parameters)
    vector, unravel = ravel_pytree(template)

    def value(w: Array, x: Array) -> Array:
        return model.apply(unravel(w), x).reshape(())

    def draw(key: PRNGKey) -> Array:
        drawn = jax.tree.map(lambda leaf: leaf.astype(x.dtype), model.init(key, x))
        return ravel_pytree(drawn)[0]

    return Flat(value, draw, unravel, vector.size)


def _check(parameters: Any, output: Any) -> None:
    leaves = jax.tree.leaves(parameters)
    if not leaves or not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        raise ValueError(
            "the model's parameters must be floating point arrays, at least one;"
            f" their dtypes are {[str(leaf.dtype) for leaf in leaves]}."
        )
    shapes = [leaf.shape for leaf in jax.tree.leaves(output)]
    if shapes not in ([()], [(1,)]):
        raise ValueError(
            "the model's output must be one number for one point x [d], of shape () or (1,); its"
            f" shape is {shapes}."
        )

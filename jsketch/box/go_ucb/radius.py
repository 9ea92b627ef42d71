"""Squared radii beta_t of GO-UCB's confidence ball, and the regularization that goes with the
printed one.

A schedule is a callable pytree, schedule(step) -> [], as a width of a bandit is. Steps t = 1..T
count evaluations of phase II.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.types import is_traced


class Step(NamedTuple):
    """What a schedule may read."""

    t: Array  # [] int32, from 1
    horizon: int  # T
    parameters: int  # d_w
    regularization: Array  # [], lam
    logdet: Array  # [], logdet(Sigma_t / lam)
    scale: Array  # [], standard deviation of y, the divisor of values; 1 without standardization


@struct.dataclass
class OFUL:
    """beta_t = (sqrt(lam) b + sigma sqrt(logdet(Sigma_t/lam) + 2 log 1/delta))^2, the ball of a
    linear model (Abbasi-Yadkori, Pal, Szepesvari 2011) around a prior guess w0; THEORY 8.2."""

    norm_bound: ArrayLike = 1.0  # b, a bound on |w0 - w*|, for standardized values
    noise_std: ArrayLike = 0.01  # sigma, in units of y
    delta: ArrayLike = 0.1

    def check(self) -> None:
        checks.nonnegative(norm_bound=self.norm_bound, noise_std=self.noise_std)
        checks.probability(delta=self.delta)

    def __call__(self, step: Step) -> Array:
        dtype = step.logdet.dtype
        noise = jnp.asarray(self.noise_std, dtype) / step.scale
        confidence = jnp.sqrt(step.logdet + 2 * jnp.log(1 / jnp.asarray(self.delta, dtype)))
        return jnp.square(jnp.sqrt(step.regularization) * self.norm_bound + noise * confidence)


@struct.dataclass
class Printed:
    """beta_t = d_w^3 F^4 t / T of Appendix D.1, F >= |f| (not given there). At F = 1 the ball is so
    large that it binds nothing (THEORY 8.2)."""

    range_bound: ArrayLike = 1.0  # F

    def check(self) -> None:
        checks.positive(range_bound=self.range_bound)

    def __call__(self, step: Step) -> Array:
        dtype = step.logdet.dtype
        size = jnp.asarray(float(step.parameters) ** 3 / step.horizon, dtype)
        return size * jnp.asarray(self.range_bound, dtype) ** 4 * step.t.astype(dtype)


@struct.dataclass
class Theory:
    """beta_t = c (d_w sigma^2 + d_w^3 / mu^2 + d_w^3 t / (mu^2 T)), eq. 7: all its terms, where
    `Printed` has the last one (THEORY 8.2). The paper gives an order, so that c is not known."""

    convexity: ArrayLike = 1.0  # mu, of the expected loss around w*, for standardized values
    noise_std: ArrayLike = 0.01  # sigma, in units of y
    factor: ArrayLike = 1.0  # c, what the order hides: constants and logarithms of T and 1/delta

    def check(self) -> None:
        checks.positive(convexity=self.convexity, factor=self.factor)
        checks.nonnegative(noise_std=self.noise_std)

    def __call__(self, step: Step) -> Array:
        dtype = step.logdet.dtype
        noise = jnp.square(jnp.asarray(self.noise_std, dtype) / step.scale)
        cubed = jnp.asarray(float(step.parameters) ** 3, dtype) / jnp.square(
            jnp.asarray(self.convexity, dtype)
        )
        order = step.parameters * noise + cubed * (1 + step.t.astype(dtype) / step.horizon)
        return jnp.asarray(self.factor, dtype) * order


@struct.dataclass
class CustomSchedule:
    """beta_t = function(t), a user's own, of the traced integer t."""

    function: Callable[[Array], ArrayLike] = struct.field(pytree_node=False)

    def check(self) -> None:
        value = jnp.asarray(self.function(jnp.ones((), jnp.int32)))
        if value.shape != ():
            raise ValueError(
                "the schedule's function must return one number beta_t for a step t; its shape is"
                f" {value.shape}."
            )
        if not is_traced(value) and not 0 <= float(value) < math.inf:
            raise ValueError(
                "the schedule's function must return a finite beta_t of at least 0; for t = 1 it"
                f" returned {value}."
            )

    def __call__(self, step: Step) -> Array:
        return jnp.asarray(self.function(step.t)).astype(step.logdet.dtype)


@struct.dataclass
class Table:
    """beta_t = values[t - 1], the last one beyond their end."""

    values: Any  # [T]

    def check(self) -> None:
        if jnp.ndim(self.values) != 1 or jnp.size(self.values) == 0:
            raise ValueError(
                "a schedule's values must be a vector [T] of at least one; their shape is"
                f" {jnp.shape(self.values)}."
            )
        checks.all_nonnegative(values=self.values)

    def __call__(self, step: Step) -> Array:
        values = jnp.asarray(self.values).astype(step.logdet.dtype)
        return values[jnp.clip(step.t - 1, 0, values.shape[0] - 1)]


def printed_regularization(horizon: int) -> float:
    """lam = sqrt(T) log^2 T of Appendix D.1, at least 1 (T = 1 would give 0; THEORY 8.2)."""
    return max(math.sqrt(horizon) * math.log(horizon) ** 2, 1.0)

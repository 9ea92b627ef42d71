"""The greedy adversary: at every step it plays the example with the largest regret for a given
forecaster.

Jezequel, Gaillard, Rudi. NeurIPS 2019, Appendix G (THEORY 7.10). Step t is the example (x, y) that
maximises the regret after the step,

    sum_{s <= t} (y_s - y^_s)^2 - sum_{s <= t} (y_s - f(x_s))^2,

with f the kernel ridge regression on all t examples, the new one included. The paper searches both
by finite differences from one start. Here the label needs no search: the regret is convex in y, so
an end of its interval is worst. The input is found by gradient ascent through `predict` from many
starts.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul
from jsketch.online.kernel_awv import KernelAWV, KernelState
from jsketch.search import CANDIDATES, STARTS, STEPS, forward_slope, maximise_over_box
from jsketch.types import Box, PRNGKey


@struct.dataclass
class Past:
    """The examples played so far, at most N."""

    ridge: KernelState  # kernel ridge regression on them
    loss: Array  # [], the forecaster's cumulative squared loss


@struct.dataclass
class Adversary:
    """Inputs in a box, labels in [-B, B], and the comparator of the regret.

    The loss of the comparator "ridge" is the squared loss of kernel ridge regression (the paper's
    Figure 3); "regularized" adds lam |f|^2, as in the regret bounds (Proposition 1).
    """

    kernel: Any
    box: Box
    bound: ArrayLike = 1.0  # B
    regularization: ArrayLike = 1.0  # lam of the comparator
    comparator: str = struct.field(pytree_node=False, default="ridge")
    tried: int = struct.field(pytree_node=False, default=CANDIDATES)  # random inputs per step
    # the best of them, the starts of the ascent
    refined: int = struct.field(pytree_node=False, default=STARTS)
    steps: int = struct.field(pytree_node=False, default=STEPS)  # of the ascent
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"comparator": ("ridge", "regularized")}


@struct.dataclass
class Game:
    """The steps of a game."""

    x: Array  # [n, d]
    y: Array  # [n]
    prediction: Array  # [n]
    regret: Array  # [n], after the step
    dictionary_size: Array  # [n] int32
    overflow: Array  # [n] bool, the example exceeded the capacity of the forecaster
    nonfinite: Array  # [n] bool


def empty(adversary: Adversary, rounds: int) -> Past:
    """No examples, with a capacity of N = `rounds`."""
    lower = adversary.box.lower
    return Past(
        _regression(adversary, rounds).init(lower, jax.random.key(0)), jnp.zeros((), lower.dtype)
    )


def regret(adversary: Adversary, past: Past, x: Array, y: Array, prediction: Array) -> Array:
    """The regret [] after `past` and one more example x [d], y [] with its `prediction` []."""
    return past.loss + jnp.square(y - prediction) - _best_loss(adversary, past.ridge, x, y)


def choose(
    adversary: Adversary, forecaster: Any, state: Any, past: Past, key: PRNGKey
) -> tuple[Array, Array]:
    """(x [d], y []): the example with the largest regret that the search finds, for a forecaster in
    this state."""
    high = jnp.asarray(adversary.bound, past.loss.dtype)

    def both(x: Array) -> tuple[Array, Array]:
        prediction = forecaster.predict(state, x)
        low_end = regret(adversary, past, x, -high, prediction)
        return low_end, regret(adversary, past, x, high, prediction)

    def worst(x: Array) -> Array:
        # NaN would win every comparison
        return jnp.nan_to_num(jnp.maximum(*both(x)), nan=-jnp.inf)

    # forward mode, because a forecaster may loop over its past
    x, _ = maximise_over_box(
        jax.vmap(worst),
        key,
        adversary.box,
        candidates=adversary.tried,
        starts=adversary.refined,
        steps=adversary.steps,
        slope=forward_slope,
    )
    of_low, of_high = both(x)
    return x, jnp.where(of_high >= of_low, high, -high)


def game(adversary: Adversary, forecaster: Any, rounds: int, key: PRNGKey) -> Game:
    """One game of `play`, for use inside jit and vmap; the caller checks `overflow` and
    `nonfinite`."""
    init_key, step_key = jax.random.split(key)
    regression = _regression(adversary, rounds)

    def step(carry: tuple[Any, Past], t: Array) -> tuple[tuple[Any, Past], Game]:
        state, past = carry
        search_key, update_key = jax.random.split(jax.random.fold_in(step_key, t))
        x, y = choose(adversary, forecaster, state, past, search_key)
        prediction = forecaster.predict(state, x)
        after = regret(adversary, past, x, y, prediction)
        state, info = forecaster.update(state, x, y, update_key)
        ridge, _ = regression.update(past.ridge, x, y, update_key)
        past = Past(ridge, past.loss + jnp.square(y - prediction))
        row = Game(x, y, prediction, after, info.dictionary_size, info.overflow, info.nonfinite)
        return (state, past), row

    state = forecaster.init(adversary.box.lower, init_key)
    return lax.scan(step, (state, empty(adversary, rounds)), jnp.arange(rounds, dtype=jnp.int32))[1]


def play(adversary: Adversary, forecaster: Any, rounds: int, keys: PRNGKey) -> Game:
    """The games of several seeds; every array of the result has S first.

    adversary   its box, bounds and comparator
    forecaster  a forecaster of `jsketch.online` with a capacity of `rounds` examples
    rounds      int, steps n of a game
    keys        keys [S], one for each game

    Raises ValueError for wrong settings and where the forecaster's capacity is too small, because a
    game does not grow it, and FloatingPointError where a forecaster is no longer finite.
    """
    checks.kernel_inputs(adversary.kernel)
    checks.box(adversary.box, checks.example(adversary.box.lower).shape[0])
    checks.settings(adversary)
    checks.capacity(rounds=rounds)
    if adversary.refined > adversary.tried:
        raise ValueError(
            f"refined must be at most tried; refined = {adversary.refined} and tried ="
            f" {adversary.tried} were given."
        )
    keys = checks.keys(keys=keys)
    # checks its settings, which jit would trace
    forecaster.init(adversary.box.lower, keys[0])
    played = _games(adversary, forecaster, rounds, keys)
    name = type(forecaster).__name__
    too_small = f"the capacity of {name} is too small: give it a larger capacity"
    not_finite = f"{name} is not finite: try float64"
    for flags, error, message in (
        (np.asarray(played.overflow), ValueError, too_small),
        (np.asarray(played.nonfinite), FloatingPointError, not_finite),
    ):
        if flags.any():
            step = flags.any(0).argmax() + 1
            raise error(f"{message} (first at step {step} of {rounds}).")
    return played


@partial(jax.jit, static_argnames="rounds")
def _games(adversary: Adversary, forecaster: Any, rounds: int, keys: PRNGKey) -> Game:
    return jax.vmap(lambda key: game(adversary, forecaster, rounds, key))(keys)


def _regression(adversary: Adversary, rounds: int) -> KernelAWV:
    return KernelAWV(
        adversary.kernel, adversary.regularization, penalize_current=False, capacity=rounds
    )


def _best_loss(adversary: Adversary, ridge: KernelState, x: Array, y: Array) -> Array:
    """The comparator's loss [] on the past and (x, y), in O(t^2) by bordering L."""
    lam = jnp.asarray(adversary.regularization, x.dtype)
    used = jnp.arange(ridge.points.shape[0], dtype=jnp.int32) < ridge.used
    cross = jnp.where(used, adversary.kernel.gram(x[None], ridge.points)[0], 0)
    row = matmul(ridge.inverse, cross)
    pivot = lam + jnp.maximum(adversary.kernel.diag(x[None])[0] - jnp.square(row).sum(), 0)
    last = (y - matmul(row, ridge.solved)) / pivot
    # lam y^T (K + lam I)^-1 y
    if adversary.comparator == "regularized":
        return lam * (jnp.square(ridge.solved).sum() + pivot * jnp.square(last))
    # the residuals of kernel ridge regression are lam (K + lam I)^-1 y
    past = matmul(ridge.solved - last * row, ridge.inverse)
    return jnp.square(lam) * (jnp.square(past).sum() + jnp.square(last))

"""The greedy adversary, which plays the example that maximises the regret of a given forecaster.

Jezequel, Gaillard, Rudi. NeurIPS 2019, Appendix G (THEORY 7.10). The example (x, y) of step t
maximises the regret after the step,

    sum_{s <= t} (y_s - y^_s)^2 - sum_{s <= t} (y_s - f(x_s))^2,

where f is the kernel ridge regression on all t examples. The paper searches x and y by finite
differences from one start. Here y is an end of its interval, because the regret is convex in y, and
x is found by gradient ascent through `predict` from many starts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.numerics import matmul
from jsketch.online.kernel_awv import KernelAWV, KernelState
from jsketch.precision import dtype_of, in_dtype
from jsketch.results import Result, must_grow
from jsketch.search import CANDIDATES, STARTS, STEPS, forward_mode, maximise_over_box
from jsketch.types import Box, PRNGKey


@struct.dataclass
class GameState:
    """The state of a game between two steps."""

    ridge: KernelState  # kernel ridge regression on the examples so far
    loss: Array  # [], the forecaster's squared loss on these examples


@struct.dataclass
class Adversary(struct.Settings):
    """An adversary with inputs in a box and labels in [-B, B].

    The loss of the comparator "ridge" is the squared loss of kernel ridge regression (the paper's
    Figure 3); "regularized" adds lam |f|^2, as in the regret bounds (Proposition 1).
    """

    kernel: Any = struct.component(components.KERNEL)
    box: Box
    bound: ArrayLike = struct.number(1.0, above=0)  # B
    regularization: ArrayLike = struct.number(1.0, above=0)  # lam of the comparator
    comparator: str = struct.choice("ridge", of=("ridge", "regularized"))
    candidates: int = struct.size(CANDIDATES)  # random inputs in a step
    # number of ascents in a step, which start from the best random inputs
    starts: int = struct.size(STARTS)
    steps: int = struct.size(STEPS)  # steps of each ascent


@struct.dataclass
class Game:
    """The steps of a game."""

    x: Array  # [n, d]
    y: Array  # [n]
    prediction: Array  # [n]
    regret: Array  # [n], after the step
    dictionary_size: Array  # [n] int32
    result: Array  # [n] int32, the `Result` of the forecaster


def regret(adversary: Adversary, before: GameState, x: Array, y: Array, prediction: Array) -> Array:
    """The regret [] after one more example x [d], y [] with its `prediction` []."""
    return before.loss + jnp.square(y - prediction) - _best_loss(adversary, before.ridge, x, y)


def choose(
    adversary: Adversary, forecaster: Any, state: Any, before: GameState, key: PRNGKey
) -> tuple[Array, Array]:
    """The example (x [d], y []) with the largest regret that the search finds for a forecaster in
    this state."""
    label = jnp.asarray(adversary.bound, before.loss.dtype)

    def regrets(x: Array) -> tuple[Array, Array]:
        """The regrets at the labels -B and B."""
        prediction = forecaster.predict(state, x)
        regret_at_low = regret(adversary, before, x, -label, prediction)
        return regret_at_low, regret(adversary, before, x, label, prediction)

    def larger_regret(x: Array) -> Array:
        # an input whose regret is NaN must not be chosen
        return jnp.nan_to_num(jnp.maximum(*regrets(x)), nan=-jnp.inf)

    # forward mode, because a forecaster may loop over its history
    x, _ = maximise_over_box(
        jax.vmap(larger_regret),
        key,
        adversary.box,
        candidates=adversary.candidates,
        starts=adversary.starts,
        steps=adversary.steps,
        differentiate=forward_mode,
    )
    regret_at_low, regret_at_high = regrets(x)
    return x, jnp.where(regret_at_high >= regret_at_low, label, -label)


def game(adversary: Adversary, forecaster: Any, rounds: int, key: PRNGKey) -> Game:
    """One game of `play`, for use under jit and vmap; the caller checks the results."""
    init_key, step_key = jax.random.split(key)
    lower = adversary.box.lower
    regression = KernelAWV(
        adversary.kernel, adversary.regularization, penalize_current=False, capacity=rounds
    )

    def step(carry: tuple[Any, GameState], t: Array) -> tuple[tuple[Any, GameState], Game]:
        state, before = carry
        search_key, update_key = jax.random.split(jax.random.fold_in(step_key, t))
        x, y = choose(adversary, forecaster, state, before, search_key)
        prediction = forecaster.predict(state, x)
        regret_t = regret(adversary, before, x, y, prediction)
        state, info = forecaster.update(state, x, y, update_key)
        ridge, _ = regression.update(before.ridge, x, y, update_key)
        next_state = GameState(ridge, before.loss + jnp.square(y - prediction))
        row = Game(x, y, prediction, regret_t, info.dictionary_size, info.result)
        return (state, next_state), row

    ridge = regression.init(lower, jax.random.key(0))  # the key has no effect
    start = forecaster.init(lower, init_key), GameState(ridge, loss=jnp.zeros((), lower.dtype))
    return lax.scan(step, start, jnp.arange(rounds, dtype=jnp.int32))[1]


def play(adversary: Adversary, forecaster: Any, rounds: int, keys: PRNGKey) -> Game:
    """The games of S seeds, with arrays [S, n, ...].

    forecaster  a forecaster of `jsketch.online` with a capacity of `rounds` examples
    rounds      int, steps n of a game
    keys        keys [S], one for each game

    Raises ValueError for invalid arguments and if the forecaster's capacity is too small, because a
    game does not enlarge it. Raises FloatingPointError if a forecaster's state is not finite.
    """
    checks.box(adversary.box, checks.example(adversary.box.lower).shape[0])
    checks.settings(adversary)
    checks.positive_integer(rounds=rounds)
    if adversary.starts > adversary.candidates:
        raise ValueError(
            f"starts must be at most the candidates; starts = {adversary.starts} and candidates ="
            f" {adversary.candidates} were given."
        )
    keys = checks.keys(keys=keys)
    adversary, forecaster = in_dtype((adversary, forecaster), dtype_of(adversary.box))
    # this call checks the settings, which jit would trace
    forecaster.init(adversary.box.lower, keys[0])
    games = _games(adversary, forecaster, rounds, keys)
    name, ended = type(forecaster).__name__, np.asarray(games.result) != Result.RUNNING
    place = f"(first at step {ended.any(0).argmax() + 1} of {rounds})"
    if must_grow(games.result, f"{name} is not finite: try float64 {place}."):
        raise ValueError(f"the capacity of {name} is too small: give it a larger capacity {place}.")
    return games


@partial(jax.jit, static_argnames="rounds")
def _games(adversary: Adversary, forecaster: Any, rounds: int, keys: PRNGKey) -> Game:
    return jax.vmap(lambda key: game(adversary, forecaster, rounds, key))(keys)


def _best_loss(adversary: Adversary, ridge: KernelState, x: Array, y: Array) -> Array:
    """The comparator's loss [] on all examples and (x, y), by one more row of a factor; O(t^2)."""
    lam = jnp.asarray(adversary.regularization, x.dtype)
    is_used = jnp.arange(ridge.points.shape[0], dtype=jnp.int32) < ridge.used
    cross = jnp.where(is_used, adversary.kernel.gram(x[None], ridge.points)[0], 0)
    row = matmul(ridge.inverse, cross)
    pivot = lam + jnp.maximum(adversary.kernel.diag(x[None])[0] - jnp.square(row).sum(), 0)
    last_weight = (y - matmul(row, ridge.solved)) / pivot
    # lam y^T (K + lam I)^-1 y
    if adversary.comparator == "regularized":
        return lam * (jnp.square(ridge.solved).sum() + pivot * jnp.square(last_weight))
    # the residuals of kernel ridge regression are lam (K + lam I)^-1 y
    residuals = matmul(ridge.solved - last_weight * row, ridge.inverse)
    return jnp.square(lam) * (jnp.square(residuals).sum() + jnp.square(last_weight))

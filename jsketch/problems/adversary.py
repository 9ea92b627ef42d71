"""The greedy adversary: it knows the forecaster, and at every step plays the example that costs it
most.

Jezequel, Gaillard, Rudi. NeurIPS 2019, Appendix G (THEORY 7.10). Before step t it searches the
example (x, y) that maximises the regret after the step,

    sum_{s <= t} (y_s - y^_s)^2 - sum_{s <= t} (y_s - f(x_s))^2,

with f the kernel ridge regression on all t examples, the new one included. The paper searches both
by finite differences from one start. Here the label needs no search: the regret is convex in y, so
that an end of its interval is worst. The input is searched by gradients through `predict` from many
starts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul
from jsketch.online.kernel_awv import KernelAWV, KernelState
from jsketch.search.over_box import STARTS, STEPS, TRIED, forward_slope, maximise_over_box
from jsketch.types import Box, PRNGKey

COMPARATORS = ("ridge", "regularized")


@struct.dataclass
class Past:
    """What has been played so far, t of at most N examples."""

    ridge: KernelState  # kernel ridge regression on it
    loss: Array  # [], the forecaster's cumulative squared loss


@struct.dataclass
class Adversary:
    """Inputs in a box, labels in [-B, B], and what the forecaster is compared to.

    `comparator` "ridge" counts the squared losses of kernel ridge regression (the paper's Figure
    3), "regularized" adds lam |f|^2 to them: the best function in the sense of the regret bounds
    (Proposition 1).
    """

    kernel: Any
    box: Box
    bound: ArrayLike = 1.0  # B
    regularization: ArrayLike = 1.0  # lam of the comparator
    comparator: str = struct.field(pytree_node=False, default="ridge")
    tried: int = struct.field(pytree_node=False, default=TRIED)  # random inputs a step
    refined: int = struct.field(pytree_node=False, default=STARTS)  # the best of them, climbed from
    steps: int = struct.field(pytree_node=False, default=STEPS)  # gradient steps


@struct.dataclass
class Game:
    """What was played, step by step."""

    x: Array  # [n, d]
    y: Array  # [n]
    prediction: Array  # [n]
    regret: Array  # [n], after the step
    dictionary_size: Array  # [n] int32
    overflow: Array  # [n] bool, the forecaster had no room for the example
    nonfinite: Array  # [n] bool


def empty(adversary: Adversary, rounds: int) -> Past:
    """Nothing played yet, room for N = `rounds` examples."""
    lower = adversary.box.lower
    return Past(
        _regression(adversary, rounds).init(lower, jax.random.key(0)), jnp.zeros((), lower.dtype)
    )


def regret(adversary: Adversary, past: Past, x: Array, y: Array, prediction: Array) -> Array:
    """The regret [] once x [d] with label y [] has been played after `past` and met with
    `prediction` []."""
    return past.loss + jnp.square(y - prediction) - _best_loss(adversary, past.ridge, x, y)


def choose(
    adversary: Adversary, forecaster: Any, state: Any, past: Past, key: PRNGKey
) -> tuple[Array, Array]:
    """(x [d], y []): the example with the largest regret found, for a forecaster in this state."""
    high = jnp.asarray(adversary.bound, past.loss.dtype)

    def both(x: Array) -> tuple[Array, Array]:
        prediction = forecaster.predict(state, x)
        low_end = regret(adversary, past, x, -high, prediction)
        return low_end, regret(adversary, past, x, high, prediction)

    def worst(x: Array) -> Array:
        # what is not a number would win every comparison
        return jnp.nan_to_num(jnp.maximum(*both(x)), nan=-jnp.inf)

    # forward mode, because a forecaster may loop over its past
    x, _ = maximise_over_box(
        jax.vmap(worst),
        key,
        adversary.box,
        tried=adversary.tried,
        refined=adversary.refined,
        steps=adversary.steps,
        slope=forward_slope,
    )
    of_low, of_high = both(x)
    return x, jnp.where(of_high >= of_low, high, -high)


def game(adversary: Adversary, forecaster: Any, rounds: int, key: PRNGKey) -> Game:
    """The whole game, for your own jit and vmap; check `overflow` and `nonfinite` yourself, or call
    `play`."""
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


@partial(jax.jit, static_argnames="rounds")
def _games(adversary: Adversary, forecaster: Any, rounds: int, keys: PRNGKey) -> Game:
    return jax.vmap(lambda key: game(adversary, forecaster, rounds, key))(keys)


def play(adversary: Adversary, forecaster: Any, rounds: int, keys: PRNGKey) -> Game:
    """The games of several seeds; every array of the result has S first.

    adversary   what it plays against: box, bounds, comparator
    forecaster  a forecaster of `jsketch.online`, or an own one, with room for `rounds` examples
    rounds      int, steps n of a game
    keys        keys [S], one a game

    Raises ValueError on static mistakes and when the forecaster's capacity is too small, which it
    must not be: a game cannot grow it. Raises FloatingPointError when a forecaster is no longer
    finite.
    """
    _check(adversary, rounds, keys)
    # static mistakes are said outside of jit
    forecaster.init(adversary.box.lower, keys[0])
    played = _games(adversary, forecaster, rounds, keys)
    for name, kind, words in (
        (
            "overflow",
            ValueError,
            "the forecaster had no room for an example: give it a larger capacity",
        ),
        ("nonfinite", FloatingPointError, "the forecaster is no longer finite: try float64"),
    ):
        flags = np.asarray(getattr(played, name))
        if flags.any():
            raise kind(f"{words} (first at step {flags.any(0).argmax() + 1} of {rounds}).")
    return played


def _check(adversary: Adversary, rounds: int, keys: PRNGKey) -> None:
    checks.a_kernel(adversary.kernel)
    checks.box(adversary.box, checks.example(adversary.box.lower).shape[0])
    checks.positive(bound=adversary.bound, regularization=adversary.regularization)
    checks.choice(COMPARATORS, comparator=adversary.comparator)
    checks.capacity(
        rounds=rounds, tried=adversary.tried, refined=adversary.refined, steps=adversary.steps
    )
    if adversary.refined > adversary.tried:
        raise ValueError(
            f"refined must be at most tried: of {adversary.tried} inputs {adversary.refined} cannot"
            " be refined."
        )
    if (
        not isinstance(keys, jax.Array)
        or not jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
        or keys.ndim != 1
    ):
        raise ValueError(
            f"keys must be keys [S], one a game, such as jax.random.split(key, 10); {keys!r} was"
            " given."
        )


def _regression(adversary: Adversary, rounds: int) -> KernelAWV:
    return KernelAWV(
        adversary.kernel, adversary.regularization, penalize_current=False, capacity=rounds
    )


def _best_loss(adversary: Adversary, ridge: KernelState, x: Array, y: Array) -> Array:
    """The comparator's loss [] on the past and (x, y), by bordering L: O(t^2), as the t-th
    prediction is."""
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

"""The play loop of problems that `rollout` cannot run: games of several seeds in one program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from jsketch.types import PRNGKey


@partial(jax.jit, static_argnums=(0, 3, 5))
def _vmapped(
    game: Callable[..., Any], problem: Any, player: Any, rounds: int, keys: PRNGKey, static: Any
) -> Any:
    return jax.vmap(lambda key: game(problem, player, rounds, key, *static))(keys)


def play_seeds(
    game: Callable[..., Any],
    problem: Any,
    player: Any,
    rounds: int,
    keys: PRNGKey,
    *static: Any,
    advice: str = "give it a larger capacity",
) -> Any:
    """game(problem, player, rounds, key, *static) of all keys [S]; every array of the result has S
    first.

    game    a pure function, one of a module, since programs are cached by its identity. Its result
            has the flags `overflow` and `nonfinite`, [rounds] bool
    static  hashable settings of the game
    advice  end of the message where the player's capacity is too small

    Raises ValueError where a player overflows, because a game does not grow it, and
    FloatingPointError where one is no longer finite.
    """
    played = _vmapped(game, problem, player, rounds, keys, static)
    for name, kind, message in (
        ("overflow", ValueError, f"the capacity of {type(player).__name__} is too small: {advice}"),
        ("nonfinite", FloatingPointError, f"{type(player).__name__} is not finite: try float64"),
    ):
        flags = np.asarray(getattr(played, name))
        if flags.any():
            step = flags.reshape(-1, rounds).any(0).argmax() + 1
            raise kind(f"{message} (first at step {step} of {rounds}).")
    return played

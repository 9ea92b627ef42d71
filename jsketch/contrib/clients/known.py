"""What clients that share an embedding know, and the points and rewards that clients are given."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from jsketch import checks, struct
from jsketch.bandits.core.sketched import SketchState
from jsketch.types import Arms


@struct.dataclass
class ClientEvidence:
    """What the width of a client may read of its own observations, all [N]."""

    count: Array  # observations
    information: Array  # sum_s log(1 + variance(x_s)), each with that of the last exchange before s
    information_sketched: Array  # sum_s log(1 + 3 variance(x_s))
    logdet: Array  # logdet(V_i / lam)
    residual_sum: Array  # sum_s k(x_s,x_s) - |z_s|^2
    prior_variance: Array  # the largest k(x,x) of the points played, by whomever


@struct.dataclass
class EmbeddingState:
    """The last exchange, and what each client has learned since."""

    sketch: SketchState  # its domain is the history [N H, d], round after round
    used: Array  # [] int32, slots of the history in use
    last: Array  # [] int32, those of them at the last exchange
    rewards: Array  # [N B], since the last exchange, NaN where there is none
    precision: Array  # [N, M, M], of u as in THEORY 9.3
    moment: Array  # [N, M]
    spent: Array  # [N], sum of variances since the last exchange
    evidence: ClientEvidence
    sent: Array  # [], numbers sent so far
    sent_as_data: Array  # [], those that the same exchanges take as points and rewards
    exchanges: Array  # [] int32


def points_of_clients(
    clients: int, x: Any, axes: int, kernel: Any = None, history: Arms | None = None
) -> Array:
    """The candidates [N,C,d] (3 axes) of N clients, or the points [N,d] (2) that they played; with
    a history in its dtype. Raises ValueError for an empty or non-finite array, another number of
    clients or, with a history, of inputs."""
    x = checks.real("the points of clients", x)
    inputs = x.shape[-1] if x.ndim else 1
    if history is not None:
        inputs = history.features.shape[1]
    if x.ndim != axes or x.shape[0] != clients or x.shape[-1] != inputs:
        form = f"[{clients}, C, {inputs}]" if axes == 3 else f"[{clients}, {inputs}]"
        raise ValueError(
            f"the points of {clients} clients are of shape {form}, a row for each of them; one of"
            f" shape {x.shape} was given."
        )
    rows = x.reshape(-1, x.shape[-1])
    checks.candidates(rows, x.shape[-1])
    if history is None:
        return jnp.asarray(x)
    x = jnp.asarray(x, history.features.dtype)
    checks.kernel_on(kernel, x.reshape(rows.shape))
    return x


def rewards_of_clients(clients: int, y: Any, dtype: Any = None) -> Array:
    """The rewards [N] of N clients. Raises ValueError for another number of them, and for what is
    no real number."""
    y = checks.real("the rewards of clients", y)
    if y.shape != (clients,):
        raise ValueError(
            f"{clients} clients have {clients} rewards; {y.shape} is the shape of what was given."
        )
    return jnp.asarray(y, dtype)

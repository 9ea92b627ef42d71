"""What clients that share an embedding know, and the points that they are given."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from jsketch import struct
from jsketch.bandits.contextual import choice
from jsketch.bandits.core.sketched import SketchState


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


def points_of_clients(bandit: Any, x: Any, inputs: int) -> Array:
    """The points [N,C,inputs] of N clients. Raises ValueError for an empty or non-finite array,
    another number of clients or of inputs."""
    x = jnp.asarray(x)
    if x.ndim != 3 or x.shape[0] != bandit.clients:
        raise ValueError(
            f"the points of {bandit.clients} clients are an array with a row for each of them, and"
            f" {inputs} inputs; one of shape {x.shape} was given."
        )
    choice.candidates_of(bandit.kernel, x.reshape(-1, x.shape[2]), inputs)
    return x

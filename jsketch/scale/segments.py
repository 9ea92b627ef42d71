"""A long stream of `PKAWV`, computed in parallel segments on an accelerator, where a hundred blocks
in parallel take as long as one."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch import checks, numerics
from jsketch.loops.streams import (
    BLOCK,
    NOT_FINITE,
    Forecasts,
    Pass,
    check_predictions,
    prepare,
    stream,
)
from jsketch.numerics import matmul
from jsketch.online import PKAWV
from jsketch.online.ridge import RidgeState
from jsketch.results import must_grow
from jsketch.types import PRNGKey

CHUNK = 2048  # examples in one product of `learn`
MIN_SEGMENT = 8_192  # examples; a shorter segment saves less time than its `learn` takes


@jax.jit
def learn(forecaster: PKAWV, state: RidgeState, x: Array, y: Array) -> RidgeState:
    """The state after `update` on the labelled examples of x [n,d], y [n], without predictions, in
    O(n r^2) for r features. The order of the examples does not matter.

    With `state.inverse` = A^-1 = L L^T and the features Z [n,r], the new inverse is
    L (I + L^T Z^T Z L)^-1 L^T; the condition numbers of these factors do not exceed that of A.
    """
    n_features = state.weights.shape[0]
    n_chunks = -(-len(y) // CHUNK)
    n_padding = n_chunks * CHUNK - len(y)
    xs = jnp.pad(x, ((0, n_padding), (0, 0)), mode="edge").reshape(n_chunks, CHUNK, -1)
    ys = jnp.pad(y, (0, n_padding), constant_values=jnp.nan).reshape(n_chunks, CHUNK)

    def add(
        sums: tuple[Array, Array], examples: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        (gram, moment), (x, y) = sums, examples
        labelled = jnp.isfinite(y)
        z = jnp.where(labelled[:, None], forecaster.features.features(x), 0)
        errors = jnp.where(labelled, y - matmul(z, state.weights), 0)
        return (gram + matmul(z.T, z), moment + matmul(errors, z)), None

    zeros = (jnp.zeros((n_features, n_features), x.dtype), jnp.zeros(n_features, x.dtype))
    (gram, moment), _ = lax.scan(add, zeros, (xs, ys))
    root = jnp.linalg.cholesky(state.inverse)
    inner = jnp.eye(n_features, dtype=x.dtype) + matmul(root.T, matmul(gram, root))
    half = lax.linalg.triangular_solve(
        jnp.linalg.cholesky(inner), root.T, left_side=True, lower=True
    )
    inverse = matmul(half.T, half)
    return RidgeState(inverse, state.weights + matmul(inverse, moment))


def prequential_in_segments(
    forecaster: PKAWV,
    examples: tuple[Any, Any],
    key: PRNGKey,
    *,
    state: RidgeState | None = None,
    first: int = 0,
    segments: int | None = None,
    block: int = BLOCK,
) -> tuple[Forecasts, RidgeState]:
    """The (forecasts, state) of `prequential` over arrays, up to rounding, computed in parallel
    segments. Each segment begins with the state that `learn` returns for the segments before it.

    forecaster, key, state, first, block  as in `prequential`
    examples  a tuple (xs, ys): xs [n, d], ys [n]
    segments  int, number of segments; None: chosen by the length of the stream on an accelerator,
              and one on a CPU

    Raises what `prequential` raises, and ValueError for a forecaster other than `PKAWV`.

    Example:

        forecaster = online.PKAWV(sketch.Taylor(inputs=2, degree=4))
        forecasts, state = scale.prequential_in_segments(forecaster, (xs, ys), key)
    """
    if not isinstance(forecaster, PKAWV):
        raise ValueError(
            "the forecaster must be a PKAWV, which learns many examples at once; a"
            f" {type(forecaster).__name__} was given."
        )
    forecaster, xs, ys, state, key = prepare(forecaster, key, *examples, state, first, block)
    n_examples = len(ys)
    if segments is None:
        segments = max(1, n_examples // MIN_SEGMENT) if numerics.on_accelerator() else 1
    checks.positive_integer(segments=segments)
    # segments are whole blocks and equally long, so that all of them run one program
    length = -(-n_examples // (segments * block)) * block
    n_segments = -(-n_examples // length)  # without segments that would be empty
    n_padding = n_segments * length - n_examples
    xs = jnp.pad(xs, ((0, n_padding), (0, 0)), mode="edge").reshape(n_segments, length, -1)
    ys = jnp.pad(ys, (0, n_padding), constant_values=jnp.nan).reshape(n_segments, length)
    passes = _vmapped_streams(forecaster, state, xs, ys, key, block=block)
    forecasts = jax.tree.map(lambda leaf: leaf.reshape(-1)[:n_examples], passes.forecasts)
    must_grow(passes.result, NOT_FINITE)  # raises an error if the state of a segment is not finite
    check_predictions(forecasts, first)
    return forecasts, jax.tree.map(lambda leaf: leaf[-1], passes.state)


@partial(jax.jit, static_argnames="block")
def _vmapped_streams(
    forecaster: PKAWV, state: RidgeState, xs: Array, ys: Array, key: PRNGKey, block: int
) -> Pass:
    def step(state: RidgeState, segment: tuple[Array, Array]) -> tuple[RidgeState, RidgeState]:
        return learn(forecaster, state, *segment), state

    last_start, starts = lax.scan(step, state, (xs[:-1], ys[:-1]))
    starts = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), starts, last_start)
    return jax.vmap(lambda s, x, y: stream(forecaster, s, x, y, key, block=block))(starts, xs, ys)

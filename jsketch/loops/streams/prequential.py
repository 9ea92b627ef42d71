"""A forecaster meets a stream: every prediction is made before its label is seen.

    prequential         one stream, growing the capacity when the next example would not fit
    prequential_chunks  streams longer than memory: chunks from an iterator, with the state carried

Keys are folded in by the number of the example, so a stream cut anywhere gives the same
predictions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, devices
from jsketch.loops.inputs import check_keys, check_stream
from jsketch.loops.streams.stream import BLOCK, Forecasts, Pass, stream
from jsketch.precision import dtype_of, in_dtype
from jsketch.types import PRNGKey
from jsketch.warn import warn

# examples; a shorter segment does not pay for what starts it: a program on a core, a step of
# `learn` on an accelerator
LEAST_SEGMENT, LEAST_SEGMENT_ACCELERATOR = 32_768, 8_192

_start = jax.jit(lambda forecaster, x, key: forecaster.init(x, key))
_learn = jax.jit(lambda forecaster, state, xs, ys: forecaster.learn(state, xs, ys))
_stream = partial(jax.jit, static_argnames="block")(stream)


def prequential(
    forecaster: Any,
    xs: Any,
    ys: Any,
    key: PRNGKey,
    *,
    state: Any = None,
    first: int = 0,
    block: int = BLOCK,
    segments: int | None = None,
) -> tuple[Forecasts, Any]:
    """(forecasts, state after the stream): every prediction is made before its label is seen.

    forecaster  a forecaster of `jsketch.online`, or an own one (`jsketch.types.Forecaster`)
    xs          [n, d] numbers, the examples in order, all finite
    ys          [n] numbers, their labels; NaN: the example is predicted, not learned
    key         one key, of the forecaster's random choices
    state       the state to resume from, as this function returned it; its dtype is that of the
                computation. None: a new one
    first       int, number of examples before these in the whole stream; 0 without a state
    block       int, examples that are learned together where the forecaster takes blocks
    segments    int, parts of the stream that are learned at once (one a core, hundreds on an
                accelerator), where the forecaster has `learn`; None: as many as pay

    Neither `block` nor `segments` changes a prediction, up to rounding.

    Warns of experts of a mixture that diverge, and of examples too large for the regularization
    (`online.rounding`). Raises ValueError for shapes that do not fit, inputs that are not finite
    real numbers, an empty stream and the state of another forecaster. Raises FloatingPointError for
    an infinite label, and where a prediction or the state is no longer finite.
    """
    xs, ys = check_stream(xs, ys, None if state is None else dtype_of(state))
    checks.inputs_of(forecaster, xs)
    key = check_keys(key, 0, "key must be one key, such as jax.random.key(0)")
    checks.count(first=first)
    checks.capacity(block=block, **({} if segments is None else {"segments": segments}))
    forecaster = in_dtype(forecaster, xs.dtype)
    init_key, stream_key = jax.random.split(key)
    had_diverged = getattr(state, "diverged", False)
    largest = _largest(xs)
    if state is None:
        # static mistakes are said outside of jit, and what rounding does
        forecaster.init(largest, init_key)
        state = _start(forecaster, xs[0], init_key)
    else:
        _check_state(forecaster, state, xs[0], init_key)
        if hasattr(forecaster, "check_rounding"):
            forecaster.check_rounding(largest)
    if segments is None:
        segments = _segments_that_pay(forecaster, len(ys))
    if segments > 1 and hasattr(forecaster, "learn"):
        run = _in_segments(forecaster, state, xs, ys, stream_key, block, segments)
    else:
        run = _stream(forecaster, state, xs, ys, stream_key, first, block=block)
    while bool(run.overflow):
        run = replace(run, state=forecaster.grow(run.state), overflow=jnp.zeros((), bool))
        run = _stream(forecaster, run.state, xs, ys, stream_key, first, resume=run, block=block)
    if bool(run.nonfinite):
        raise FloatingPointError(
            "the stream stopped: a label was infinite, or the state is no longer finite. Use NaN"
            " for a missing label; otherwise try float64 or a larger regularization, and with a"
            " discount renew=True, fewer features or one nearer to 1."
        )
    warn_of_diverged(getattr(run.state, "diverged", False) & ~np.asarray(had_diverged))
    finite = np.isfinite(run.forecasts.prediction)
    if not finite.all():
        raise FloatingPointError(
            f"the prediction of example {first + np.flatnonzero(~finite)[0]} is not finite: try"
            " float64 or a larger regularization."
        )
    return run.forecasts, run.state


def _check_state(forecaster: Any, state: Any, x: Array, key: PRNGKey) -> None:
    """Raises ValueError for a state with other fields than those that the forecaster starts with
    for x [d]."""
    wanted = jax.eval_shape(_start, forecaster, x, key)
    # in words: states of two own classes made with flax.struct may pass for equal (`struct`)
    if str(jax.tree.structure(state)) != str(jax.tree.structure(wanted)):
        raise ValueError(
            f"state is of another forecaster: {type(forecaster).__name__} resumes from a"
            f" {type(wanted).__name__}, such as this loop returned; {type(state).__name__} was"
            " given."
        )


def _largest(xs: Array) -> Array:
    """The longest example [d] of xs [n,d], on the host: where features grow with their inputs,
    rounding is worst there."""
    values = np.asarray(xs)
    with np.errstate(over="ignore"):
        return xs[int(np.argmax(np.einsum("nd,nd->n", values, values)))]


def warn_of_diverged(experts: ArrayLike) -> None:
    """Warns of those experts [G] bool of a mixture that have just diverged."""
    if np.any(experts):
        warn(
            f"experts {np.flatnonzero(experts).tolist()} of the mixture's {np.size(experts)}"
            " diverged (their numbers are no longer finite): they have lost their weight for good,"
            " and the others continue.",
        )


def _segments_that_pay(forecaster: Any, examples: int) -> int:
    """One where the forecaster cannot skip examples; else one a core, and on an accelerator as many
    as there are examples for: a step of a block takes it as long for a hundred segments as for one.
    """
    if not hasattr(forecaster, "learn"):
        return 1
    if devices.on_accelerator():
        return max(1, examples // LEAST_SEGMENT_ACCELERATOR)
    return max(1, min(os.cpu_count() or 1, examples // LEAST_SEGMENT))


def _in_segments(
    forecaster: Any, state: Any, xs: Array, ys: Array, key: PRNGKey, block: int, segments: int
) -> Pass:
    """The pass in parts of one length, each from what `learn` makes of those before it. The last
    one is filled up with examples that have no label, so that all run the same program."""
    count = len(ys)
    length = -(-count // (segments * block)) * block
    parts = -(-count // length)
    xs = jnp.pad(xs, ((0, parts * length - count), (0, 0)), mode="edge").reshape(parts, length, -1)
    ys = jnp.pad(ys, (0, parts * length - count), constant_values=jnp.nan).reshape(parts, length)
    if devices.on_accelerator():
        whole = _segments_at_once(forecaster, state, xs, ys, key, block=block)
        forecasts = jax.tree.map(lambda a: a.reshape(-1)[:count], whole.forecasts)
        last = jax.tree.map(lambda leaf: leaf[-1], replace(whole, forecasts=None))
        return replace(last, forecasts=forecasts, nonfinite=whole.nonfinite.any())
    states = [state]
    for x, y in zip(xs[:-1], ys[:-1], strict=True):
        states.append(_learn(forecaster, states[-1], x, y))
    program = _stream.lower(forecaster, state, xs[0], ys[0], key, 0, block=block).compile()

    def run(start: Any, x: Array, y: Array) -> Pass:
        return jax.block_until_ready(program(forecaster, start, x, y, key, 0))

    with ThreadPoolExecutor(parts) as pool:
        passes = list(pool.map(run, states, xs, ys))
    forecasts = jax.tree.map(lambda *a: jnp.concatenate(a)[:count], *(p.forecasts for p in passes))
    nonfinite = jnp.stack([p.nonfinite for p in passes]).any()
    return replace(passes[-1], forecasts=forecasts, nonfinite=nonfinite)


@partial(jax.jit, static_argnames="block")
def _segments_at_once(
    forecaster: Any, state: Any, xs: Array, ys: Array, key: PRNGKey, block: int
) -> Pass:
    """`stream` over segments xs [s,n,d], ys [s,n] side by side, in one program, with a leading
    segment axis."""

    def learned(state: Any, segment: tuple[Array, Array]) -> tuple[Any, Any]:
        return forecaster.learn(state, *segment), state

    last, before = lax.scan(learned, state, (xs[:-1], ys[:-1]))
    states = jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), before, last)
    return jax.vmap(lambda s, x, y: stream(forecaster, s, x, y, key, block=block))(states, xs, ys)


def prequential_chunks(
    forecaster: Any,
    chunks: Iterable[tuple[Any, Any]],
    key: PRNGKey,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[Forecasts, Any]]:
    """(forecasts, state) of every chunk, in order, as `prequential` would have on all of them.

    forecaster   as in `prequential`
    chunks       of pairs (xs [n, d], ys [n]), such as `chunks` gives; only one is in memory at a
                 time. Chunks of one size compile once
    key          one key, of the forecaster's random choices
    on_progress  a function that is called with the number of examples seen so far, after each chunk

    All are learned in the floating dtype of the first one. Raises what `prequential` does, and
    ValueError for a chunk with another number of inputs.
    """
    state, first, inputs = None, 0, None
    for xs, ys in chunks:
        shape = np.shape(xs)
        inputs = inputs or shape[1:]
        if shape[1:] != inputs:
            raise ValueError(
                f"the first chunk has examples of shape {inputs}; the one after {first} examples"
                f" has {shape[1:]}."
            )
        forecasts, state = prequential(forecaster, xs, ys, key, state=state, first=first)
        first += np.shape(ys)[0]
        if on_progress is not None:
            on_progress(first)
        yield forecasts, state

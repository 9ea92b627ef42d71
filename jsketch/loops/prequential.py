"""A forecaster meets a stream: every prediction is made before its label is seen.

    stream             the pure pass over examples at a fixed capacity, for anybody's jit and vmap
    prequential        the same on the host, growing the capacity when the next example would not fit
    prequential_chunks for streams longer than memory: chunks from an iterator, state and trace carried along

Keys are folded in by the number of the example, so a stream cut anywhere gives the same predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.linalg import put
from jsketch.loops.inputs import check_keys, check_stream
from jsketch.types import PRNGKey

BLOCK = 64  # examples in a block of matrix products (measured on a CPU, r = 190 to 715; design, section 5)


@struct.dataclass
class Forecasts:
    """What happened, example by example; all [n]."""

    prediction: Array  # y^_t, made before y_t was seen
    loss: Array  # (y^_t - y_t)^2, zero where there is no label
    dictionary_size: Array  # int32, features or points after the example

    @property
    def average_loss(self) -> Array:
        """Mean squared loss of the first t examples, [n]."""
        count = jnp.arange(1, self.loss.shape[-1] + 1, dtype=jnp.int32)
        return jnp.cumsum(self.loss, axis=-1) / count.astype(self.loss.dtype)


@struct.dataclass
class Pass:
    """A pass up to example t. It stops early when a flag is raised."""

    state: Any
    forecasts: Forecasts  # valid up to t
    t: Array  # [] int32, examples seen
    count: Array  # [] int32, examples of the stream
    overflow: Array  # [] bool, the next example does not fit the capacity and was not learned
    nonfinite: Array  # [] bool, an infinite label or a state that is not finite


def _empty(state: Any, ys: Array) -> Pass:
    zeros, false = jnp.zeros_like(ys), jnp.zeros((), bool)
    trace = Forecasts(zeros, zeros, jnp.zeros(ys.shape, jnp.int32))
    return Pass(state, trace, jnp.zeros((), jnp.int32), jnp.asarray(len(ys), jnp.int32), false, false)


def stream(
    forecaster: Any,
    state: Any,
    xs: Array,
    ys: Array,
    key: PRNGKey,
    first: ArrayLike = 0,
    begin: Pass | None = None,
    block: int = BLOCK,
) -> Pass:
    """Predicts and learns examples xs [n,d], ys [n] in order; `first` is the number of the first one in the whole stream.

    In blocks where the forecaster has `predict_update` or `advance`, with the same predictions; else one by one. A pass that
    overflowed goes on after `begin`.
    """
    if hasattr(forecaster, "predict_update"):
        return _blocks(forecaster, state, xs, ys, block)
    if hasattr(forecaster, "advance"):
        return _growing_blocks(forecaster, xs, ys, min(block, ys.shape[0]), begin or _empty(state, ys))

    def step(run: Pass) -> Pass:
        x, y, t = xs[run.t], ys[run.t], run.t
        step_key = jax.random.fold_in(key, first + t)
        if hasattr(forecaster, "step"):
            new, prediction, info = forecaster.step(run.state, x, y, step_key)
        else:
            prediction = forecaster.predict(run.state, x)
            new, info = forecaster.update(run.state, x, y, step_key)
        trace = Forecasts(
            put(run.forecasts.prediction, t, prediction),
            put(run.forecasts.loss, t, _loss(prediction, y)),
            put(run.forecasts.dictionary_size, t, info.dictionary_size),
        )
        learned = (~info.overflow).astype(jnp.int32)
        return Pass(new, trace, t + learned, run.count, info.overflow, run.nonfinite | info.nonfinite)

    return lax.while_loop(_goes_on, step, begin or _empty(state, ys))


def _goes_on(run: Pass) -> Array:
    return (run.t < run.count) & ~run.overflow & ~run.nonfinite


def _loss(prediction: Array, y: Array) -> Array:
    return jnp.where(jnp.isfinite(y), jnp.square(prediction - y), 0)


def _blocks(forecaster: Any, state: Any, xs: Array, ys: Array, block: int) -> Pass:
    """The pass in blocks; the last one is filled up with examples that have no label, of which nothing is learned."""
    count = ys.shape[0]
    size = min(block, count)
    blocks = -(-count // size)
    extra = blocks * size - count
    padded = jnp.pad(xs, ((0, extra), (0, 0)), mode="edge").reshape(blocks, size, -1)
    labels = jnp.pad(ys, (0, extra), constant_values=jnp.nan).reshape(blocks, size)

    def step(state: Any, example: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array, Array]]:
        state, prediction, info = forecaster.predict_update(state, *example)
        return state, (prediction, info.dictionary_size, info.nonfinite)

    state, (prediction, size_after, nonfinite) = lax.scan(step, state, (padded, labels))
    prediction = prediction.reshape(-1)[:count]
    trace = Forecasts(prediction, _loss(prediction, ys), jnp.repeat(size_after, size)[:count])
    end = jnp.asarray(count, jnp.int32)
    return Pass(state, trace, end, end, jnp.zeros((), bool), nonfinite.any())


def _growing_blocks(forecaster: Any, xs: Array, ys: Array, block: int, begin: Pass) -> Pass:
    """The pass in blocks that end early where the forecaster's features change."""
    inputs = jnp.pad(xs, ((0, block), (0, 0)), mode="edge")
    labels = jnp.pad(ys, (0, block), constant_values=jnp.nan)
    trace = jax.tree.map(lambda values: jnp.pad(values, (0, block)), begin.forecasts)

    def step(run: Pass) -> Pass:
        x = lax.dynamic_slice_in_dim(inputs, run.t, block)
        y = lax.dynamic_slice_in_dim(labels, run.t, block)
        state, prediction, done, info = forecaster.advance(run.state, x, y, run.count - run.t)
        new = Forecasts(prediction, _loss(prediction, y), jnp.broadcast_to(info.dictionary_size, (block,)))
        # what is past `done` will be written over
        trace = jax.tree.map(
            lambda old, values: lax.dynamic_update_slice_in_dim(old, values, run.t, 0), run.forecasts, new
        )
        return Pass(state, trace, run.t + done, run.count, info.overflow, run.nonfinite | info.nonfinite)

    run = lax.while_loop(_goes_on, step, begin.replace(forecasts=trace))
    return run.replace(forecasts=jax.tree.map(lambda values: values[:-block], run.forecasts))


_start = jax.jit(lambda forecaster, x, key: forecaster.init(x, key))
_stream = partial(jax.jit, static_argnames="block")(stream)


def prequential(
    forecaster: Any, xs: Any, ys: Any, key: PRNGKey, *, state: Any = None, first: int = 0, block: int = BLOCK
) -> tuple[Forecasts, Any]:
    """(forecasts, state after the stream) of examples xs [n,d] with labels ys [n]; NaN: predicted, not learned.

    Goes on from `state` after `first` examples when given. Raises ValueError for shapes that do not fit, inputs that are not
    finite and an empty stream, FloatingPointError for an infinite label.
    """
    xs, ys = check_stream(xs, ys)
    key = check_keys(key, 0, "key must be one key, such as jax.random.key(0)")
    init_key, stream_key = jax.random.split(key)
    if state is None:
        forecaster.init(xs[0], init_key)  # static mistakes are said outside of jit
        state = _start(forecaster, xs[0], init_key)
    run = _stream(forecaster, state, xs, ys, stream_key, first, block=block)
    while bool(run.overflow):
        run = run.replace(state=forecaster.grow(run.state), overflow=jnp.zeros((), bool))
        run = _stream(forecaster, run.state, xs, ys, stream_key, first, begin=run, block=block)
    if bool(run.nonfinite):
        raise FloatingPointError(
            "the stream stopped: a label was infinite, or the state is no longer finite. Use NaN for a missing label;"
            " otherwise try float64 or a larger regularization."
        )
    return run.forecasts, run.state


def prequential_chunks(
    forecaster: Any,
    chunks: Iterable[tuple[Any, Any]],
    key: PRNGKey,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[Forecasts, Any]]:
    """(forecasts, state) of every chunk (xs, ys), in order, as `prequential` would have on all of them; only one chunk is in
    memory at a time. Chunks of one size compile once. `on_progress` is told the examples seen so far."""
    state, first = None, 0
    for xs, ys in chunks:
        forecasts, state = prequential(forecaster, xs, ys, key, state=state, first=first)
        first += np.shape(ys)[0]
        if on_progress is not None:
            on_progress(first)
        yield forecasts, state

"""A forecaster passes over a stream: the pure loop, for your own jit and vmap (`prequential` is the
host's side of it).

In blocks where the forecaster knows how to, with the predictions of single steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.linalg import any_over_vmap, put
from jsketch.online.step import step as one_step
from jsketch.online.step import takes
from jsketch.types import PRNGKey

BLOCK = 64  # examples in a block of matrix products (measured on a CPU, r = 190 to 715; THEORY 7.3)


@struct.dataclass
class Forecasts:
    """What happened, example by example; all [n]."""

    prediction: Array  # y^_t, made before y_t was seen
    loss: Array  # (y^_t - y_t)^2, zero where there is no label
    labelled: Array  # bool, whether there is one
    dictionary_size: Array  # int32, features or points after the example

    @property
    def average_loss(self) -> Array:
        """Mean squared loss of those of the first t examples that have a label, [n]; NaN before the
        first one."""
        count = jnp.cumsum(self.labelled, axis=-1, dtype=jnp.int32).astype(self.loss.dtype)
        return jnp.cumsum(self.loss, axis=-1) / count


@struct.dataclass
class Pass:
    """A pass up to example t. It stops early when a flag is raised, but for blocks in fixed
    features."""

    state: Any
    forecasts: Forecasts  # valid up to t
    t: Array  # [] int32, examples seen
    count: Array  # [] int32, examples of the stream
    overflow: Array  # [] bool, the next example does not fit the capacity and was not learned
    nonfinite: Array  # [] bool, an infinite label or a state that is not finite


def _empty(state: Any, ys: Array) -> Pass:
    zeros, false = jnp.zeros_like(ys), jnp.zeros((), bool)
    trace = Forecasts(zeros, zeros, jnp.isfinite(ys), jnp.zeros(ys.shape, jnp.int32))
    return Pass(
        state, trace, jnp.zeros((), jnp.int32), jnp.asarray(len(ys), jnp.int32), false, false
    )


def stream(
    forecaster: Any,
    state: Any,
    xs: Array,
    ys: Array,
    key: PRNGKey,
    first: ArrayLike = 0,
    resume: Pass | None = None,
    block: int = BLOCK,
) -> Pass:
    """The pass over examples in order, each predicted and then learned.

    forecaster  as in `prequential`
    state       of the forecaster, before the first of these examples; not read with `resume`
    xs          [n, d], the examples
    ys          [n], their labels; NaN: predicted, not learned
    key         one key; example t of the stream uses `fold_in(key, t)`
    first       [] int, number of examples before these in the whole stream
    resume      a pass over the same examples that overflowed, with a state that has grown
    block       int (static), examples of a block where the forecaster declares that it takes
                blocks, with the same predictions; else they go one by one
    """
    way = takes(forecaster)
    if way == "blocks":
        return _blocks(forecaster, state, xs, ys, block)
    if way == "growing blocks":
        return _growing_blocks(
            forecaster, xs, ys, min(block, ys.shape[0]), resume or _empty(state, ys)
        )

    def step(run: Pass) -> Pass:
        x, y, t = xs[run.t], ys[run.t], run.t
        step_key = jax.random.fold_in(key, first + t)
        new, prediction, info = one_step(forecaster, run.state, x, y, step_key)
        trace = Forecasts(
            put(run.forecasts.prediction, t, prediction),
            put(run.forecasts.loss, t, _loss(prediction, y)),
            # complete from the start
            run.forecasts.labelled,
            put(run.forecasts.dictionary_size, t, info.dictionary_size),
        )
        learned = (~info.overflow).astype(jnp.int32)
        return Pass(
            new, trace, t + learned, run.count, info.overflow, run.nonfinite | info.nonfinite
        )

    return lax.while_loop(_unfinished, step, resume or _empty(state, ys))


def _unfinished(run: Pass) -> Array:
    return (run.t < run.count) & ~run.overflow & ~run.nonfinite


def _loss(prediction: Array, y: Array) -> Array:
    return jnp.where(jnp.isfinite(y), jnp.square(prediction - y), 0)


def _blocks(forecaster: Any, state: Any, xs: Array, ys: Array, block: int) -> Pass:
    """The pass in blocks; the last one is filled up with examples without a label, which teach
    nothing."""
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
    sizes = jnp.repeat(size_after, size)[:count]
    trace = Forecasts(prediction, _loss(prediction, ys), jnp.isfinite(ys), sizes)
    end = jnp.asarray(count, jnp.int32)
    return Pass(state, trace, end, end, jnp.zeros((), bool), nonfinite.any())


def _growing_blocks(forecaster: Any, xs: Array, ys: Array, block: int, resume: Pass) -> Pass:
    """The pass in blocks that end early where the forecaster's features change."""
    inputs = jnp.pad(xs, ((0, block), (0, 0)), mode="edge")
    labels = jnp.pad(ys, (0, block), constant_values=jnp.nan)
    trace = jax.tree.map(lambda values: jnp.pad(values, (0, block)), resume.forecasts)

    def step(run: Pass) -> Pass:
        x = lax.dynamic_slice_in_dim(inputs, run.t, block)
        y = lax.dynamic_slice_in_dim(labels, run.t, block)
        # under vmap a run that has ended takes part to the end of the last one
        limit = jnp.where(_unfinished(run), run.count - run.t, 0)
        state, prediction, done, info = forecaster.advance(run.state, x, y, limit)
        sizes = jnp.broadcast_to(info.dictionary_size, (block,))
        new = Forecasts(prediction, _loss(prediction, y), jnp.isfinite(y), sizes)
        # entries after `done` will be written over
        trace = jax.tree.map(
            lambda old, values: lax.dynamic_update_slice_in_dim(old, values, run.t, 0),
            run.forecasts,
            new,
        )
        return Pass(
            state,
            trace,
            run.t + done,
            run.count,
            run.overflow | info.overflow,
            run.nonfinite | info.nonfinite,
        )

    run = lax.while_loop(
        lambda run: any_over_vmap(_unfinished(run)), step, replace(resume, forecasts=trace)
    )
    return replace(run, forecasts=jax.tree.map(lambda values: values[:-block], run.forecasts))

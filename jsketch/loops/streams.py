"""Runs of a forecaster over a stream: every prediction is made before its label is observed.

    stream       the pure pass, for use inside jit and vmap
    prequential  the pass on the host over arrays or chunks; capacities grow automatically

The key of an example depends on its index in the stream, so that the predictions do not change if
the stream is split into parts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.loops.capacities import with_stream_capacity
from jsketch.loops.traces import dataset_of, frame_of
from jsketch.numerics import one_after_another, while_any
from jsketch.online.standardized import REACH, Standardized
from jsketch.precision import dtype_of, in_dtype
from jsketch.results import Result, must_grow, result
from jsketch.sketch.taylor import Taylor
from jsketch.types import PRNGKey
from jsketch.warn import warn

BLOCK = 64  # examples of a block, the fastest number on a CPU (190 to 715 features; THEORY 7.3)
# number of examples whose scale is checked, and the share of the kernel that Taylor features must
# represent at half of them; otherwise there is a warning
SCALE_INPUTS, LEAST_SHARE = 1_000, 0.1
# an input has left its range if it is outside in so many of so many consecutive examples
OUTSIDE, WINDOW = 25, 100


@struct.dataclass
class Forecasts:
    """Predictions and losses of n examples, all [n].

    prediction       y^_t, before y_t is observed
    loss             (y^_t - y_t)^2, zero without a label
    labelled         bool
    dictionary_size  int32, features or points after the example
    """

    prediction: Array
    loss: Array
    labelled: Array
    dictionary_size: Array

    def summary(self) -> dict[str, Any]:
        """The values that the repr shows."""
        loss, labelled = np.asarray(self.loss, float), np.asarray(self.labelled)
        values = dict(examples=loss.shape[-1], labelled=int(labelled.sum()))
        if labelled.any():
            average = loss.sum() / labelled.sum()
            values |= dict(average_loss=average, root_mean_squared_error=average**0.5)
        return values | dict(dictionary_size=np.asarray(self.dictionary_size)[..., -1].max())

    @property
    def average_loss(self) -> Array:
        """Mean squared loss of the labelled examples so far, [n]; NaN before the first label."""
        count = jnp.cumsum(self.labelled, axis=-1, dtype=jnp.int32).astype(self.loss.dtype)
        return jnp.cumsum(self.loss, axis=-1) / count

    def _columns(self) -> dict[str, Any]:
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return columns | dict(average_loss=self.average_loss)

    def to_frame(self, axes: Sequence[str] | None = None) -> Any:
        """A DataFrame with a row for each example: seed (0 for a single stream), t (from 1 on),
        the fields and average_loss. `axes` and the errors are those of `BaseTrace.to_frame`."""
        return frame_of(self._columns(), axes)

    def to_xarray(self, axes: Sequence[str] | None = None, **attrs: Any) -> Any:
        """An xarray Dataset [t], or [seed, t], with the same columns. `axes`, `attrs` and the
        errors are those of `BaseTrace.to_xarray`."""
        return dataset_of(self._columns(), axes, attrs)


@struct.dataclass
class Pass:
    """A pass up to example t. It ends early, after a block, if the result is not RUNNING."""

    state: Any
    forecasts: Forecasts
    t: Array  # [] int32, examples so far
    count: Array  # [] int32, examples before the padding
    # [] int32, a `Result`: CAPACITY_EXCEEDED if example t exceeds the capacity and is not learned,
    # or NOT_FINITE if a label is infinite or the state is not finite
    result: Array


@jax.jit
def _empty_pass(state: Any, ys: Array, count: ArrayLike) -> Pass:
    zeros, zero = jnp.zeros_like(ys), jnp.zeros((), jnp.int32)
    forecasts = Forecasts(zeros, zeros, jnp.isfinite(ys), jnp.zeros(ys.shape, jnp.int32))
    return Pass(state, forecasts, t=zero, count=jnp.asarray(count, jnp.int32), result=zero)


def stream(*arguments: Any, **options: Any) -> Pass:
    """The pass of `continue_pass`, which takes the same arguments. From example t on, where nothing
    was learned, predictions and losses are NaN, and sizes of the dictionary -1."""
    run = continue_pass(*arguments, **options)
    learned = jnp.arange(run.forecasts.loss.shape[0], dtype=jnp.int32) < run.t
    forecasts = replace(
        run.forecasts,
        prediction=jnp.where(learned, run.forecasts.prediction, jnp.nan),
        loss=jnp.where(learned, run.forecasts.loss, jnp.nan),
        dictionary_size=jnp.where(learned, run.forecasts.dictionary_size, -1),
    )
    return replace(run, forecasts=forecasts)


def continue_pass(
    forecaster: Any,
    state: Any,
    xs: Array,
    ys: Array,
    key: PRNGKey,
    first: ArrayLike = 0,
    resume: Pass | None = None,
    block: int = BLOCK,
) -> Pass:
    """The pass over the examples in order; each is predicted and then learned. The forecasts have
    no meaning from example t on. A pass with a traced number that is out of its range ends before
    its first example, with the result `NOT_FINITE`. Under vmap on a CPU the passes are computed one
    after the other (`numerics.one_after_another`): together, four of `NystromAWV` took twice as
    long.

    forecaster  as in `prequential`
    state       state of the forecaster before the first of these examples; ignored with `resume`.
                Its dtype is that of the computation
    xs          [n, d], the examples
    ys          [n], their labels; an example with NaN is predicted and not learned
    key         one key; example t of the stream uses `fold_in(key, t)`
    first       [] int, number of examples before these in the whole stream
    resume      a pass over the same examples that goes on, for example after `grow`
    block       int (static), number of examples that are learned together; it changes no prediction
    """
    forecaster, xs, ys = in_dtype((forecaster, xs, ys), dtype_of((resume or state, xs)))
    start = resume
    if start is None:
        invalid = struct.outside_ranges(forecaster)  # `init` has checked the numbers that are known
        start = _empty_pass(state, ys, len(ys))
        start = replace(start, result=result((Result.NOT_FINITE, invalid)))
    one_pass = partial(_continue_pass, block=min(block, len(ys)))
    return one_after_another(one_pass, forecaster, start, xs, ys, key, jnp.asarray(first))


def _continue_pass(
    forecaster: Any, start: Pass, xs: Array, ys: Array, key: PRNGKey, first: Array, *, block: int
) -> Pass:
    # the last block may go past the end of the stream
    inputs = jnp.pad(xs, ((0, block), (0, 0)), mode="edge")
    labels = jnp.pad(ys, (0, block), constant_values=jnp.nan)
    forecasts = jax.tree.map(lambda values: jnp.pad(values, (0, block)), start.forecasts)

    def step(run: Pass) -> Pass:
        x = lax.dynamic_slice_in_dim(inputs, run.t, block)
        y = lax.dynamic_slice_in_dim(labels, run.t, block)
        numbers = first + run.t + jnp.arange(block, dtype=jnp.int32)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)
        # under vmap a finished run continues, with a limit of zero, until the last one ends
        limit = jnp.where(_unfinished(run), run.count - run.t, 0)
        state, prediction, done, info = forecaster.advance(run.state, x, y, limit, keys)
        new = Forecasts(prediction, _loss(prediction, y), jnp.isfinite(y), info.dictionary_size)
        # the next blocks overwrite the entries after `done`
        write = partial(lax.dynamic_update_slice_in_dim, start_index=run.t, axis=0)
        return replace(
            run,
            state=state,
            forecasts=jax.tree.map(write, run.forecasts, new),
            t=run.t + done,
            result=jnp.maximum(run.result, info.result),
        )

    run = while_any(_unfinished, step, replace(start, forecasts=forecasts))
    return replace(run, forecasts=jax.tree.map(lambda values: values[:-block], run.forecasts))


def _unfinished(run: Pass) -> Array:
    return (run.t < run.count) & (run.result == Result.RUNNING)


def _loss(prediction: Array, y: Array) -> Array:
    return jnp.where(jnp.isfinite(y), jnp.square(prediction - y), 0)


NOT_FINITE = (
    "the stream stopped: a label was infinite, or the state is no longer finite. Use NaN for a"
    " missing label; otherwise try float64 or a larger regularization."
)


init_state = jax.jit(lambda forecaster, x, key: forecaster.init(x, key))
split_key = jax.jit(lambda key: tuple(jax.random.split(key)))
_stream = partial(jax.jit, static_argnames="block")(continue_pass)


@struct.checked_names
def prequential(
    forecaster: Any,
    examples: Any,
    key: PRNGKey,
    *,
    state: Any = None,
    first: int = 0,
    block: int = BLOCK,
    on_progress: Callable[[int], None] | None = None,
    progress: bool = False,
) -> Any:
    """Predicts the examples of a stream in order, each before its label is observed, and learns
    them. Returns (forecasts, state after the stream).

    forecaster   a forecaster of `jsketch.online` or another one (`jsketch.types.Forecaster`)
    examples     a tuple (xs, ys) of finite inputs xs [n, d] and labels ys [n]; an example with the
                 label NaN is predicted and not learned. Or an iterable of such pairs, such as
                 `chunks`: only one pair is in memory at a time, and the result is an iterator over
                 the (forecasts, state) of each pair, with the same forecasts as for one long pair
    key          one key, of the forecaster's random choices
    state        a state that this function returned, to resume from; its dtype is that of the
                 computation. None: a new one. Its first capacities are those of the forecaster or,
                 for a dictionary of KORS, larger ones that probably hold for the first pair,
                 because a capacity that grows compiles another program
    first        int, number of examples before these in the whole stream, if `state` is given
    block        int, number of examples that are learned together; it changes no prediction, up to
                 rounding
    on_progress  a function of the number of examples so far, called after each pair
    progress     whether a line with the number of examples, their rate and the mean squared error
                 so far is printed to stderr after each pair

    All pairs are computed in the dtype of the first one. Pairs that are not longer than the first
    one use its compiled programs.

    Warns of experts of a mixture that diverge, of examples too large for the regularization
    (`online.rounding`), of inputs too large for the degree of Taylor features, of labels in a unit
    whose squared errors are beyond the numbers of the dtype, and once of each input that leaves the
    range of `online.Standardized`, the class of `default_forecaster`. Raises ValueError for shapes
    that do not fit, inputs that are not finite real numbers, an empty stream, pairs with other
    numbers of inputs and the state of another forecaster. Raises FloatingPointError for an infinite
    label, and if a prediction or the state is not finite.

    Example:

        forecaster = online.PKAWV(sketch.Taylor(inputs=2, degree=4, lengthscale=1.0))
        forecasts, state = prequential(forecaster, (xs, ys), jax.random.key(0))
        forecasts.loss.mean()
    """
    predict = partial(predict_pair, forecaster, key, block=block, watch=RangeWatch())
    one_pair = is_pair(examples)
    checks.boolean(progress=progress)
    report = _Report(first) if progress else None
    chunks = [examples] if one_pair else examples
    results = _predict_chunks(predict, chunks, state, first, on_progress, report)
    return next(results) if one_pair else results


def is_pair(examples: Any) -> bool:
    """Whether the examples are one pair (xs, ys). Raises ValueError unless they are a tuple of two
    or another iterable."""
    if isinstance(examples, str | os.PathLike):
        raise ValueError(f"a file is read by chunks({str(examples)!r}, target=...).")
    if hasattr(examples, "shape") or not isinstance(examples, Iterable):
        raise ValueError(
            "examples are a tuple (xs, ys) or an iterable of such pairs; a"
            f" {type(examples).__name__} was given."
        )
    if isinstance(examples, tuple) and len(examples) != 2:
        raise ValueError(f"examples are a pair (xs, ys); a tuple of {len(examples)} was given.")
    return isinstance(examples, tuple)


def pairs(examples: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The elements of an iterable. Raises ValueError unless there are some, all of them pairs."""
    empty = True
    for pair in examples:
        empty = False
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(
                f"the elements of a stream are pairs (xs, ys); a {type(pair).__name__} was given."
            )
        yield pair[0], pair[1]
    if empty:
        raise ValueError("the stream is empty; an iterator can be read only once.")


class _Report:
    """Prints the number of examples, their rate and the mean squared error so far."""

    def __init__(self, first: int):
        self.first, self.n_seen, self.n_labelled, self.loss_sum = first, 0, 0, 0.0
        self.start_time = time.perf_counter()

    def add(self, forecasts: Forecasts) -> None:
        loss, n_labelled = np.asarray(forecasts.loss, float), int(forecasts.labelled.sum())
        self.n_seen += len(loss)
        self.loss_sum += float(loss.sum())
        self.n_labelled += n_labelled
        rate = self.n_seen / (time.perf_counter() - self.start_time)
        line = f"{self.first + self.n_seen:,} examples, {rate:,.0f} a second"
        if n_labelled:
            error, last_error = self.loss_sum / self.n_labelled, loss.sum() / n_labelled
            line += f": mean squared error {error:.4g}, {last_error:.4g} in the last {len(loss):,}"
        print(line, file=sys.stderr, flush=True)


def _predict_chunks(
    predict: Callable[..., tuple[Forecasts, Any]],
    chunks: Iterable[tuple[Any, Any]],
    state: Any,
    first: int,
    on_progress: Callable[[int], None] | None,
    report: _Report | None,
) -> Iterator[tuple[Forecasts, Any]]:
    """Yields the (forecasts, state) of every chunk."""
    begin, first_length = first, 0
    input_shape: tuple[int, ...] = ()
    for xs, ys in pairs(chunks):
        if first_length and np.shape(xs)[1:] != input_shape:
            raise ValueError(
                f"the first chunk has examples of shape {input_shape}; the chunk after"
                f" {first - begin} examples has {np.shape(xs)[1:]}."
            )
        forecasts, state = predict(xs, ys, state, first, length=first_length)
        length = len(forecasts.loss)
        first_length, input_shape = first_length or length, np.shape(xs)[1:]
        first += length
        if on_progress is not None:
            on_progress(first)
        if report is not None:
            report.add(forecasts)
        yield forecasts, state


class RangeWatch:
    """Warns once of every input that has left the range of `online.Standardized`. For another
    forecaster it does nothing."""

    def __init__(self) -> None:
        self.recent: Any = None  # [at most WINDOW - 1, d], the last rows of `outside`
        self.warned: Any = False  # [d]

    def see(
        self, forecaster: Any, state: Any, xs: Any, received: int, count: int | None = None
    ) -> None:
        """Sees the first `count` rows of xs [n,d], or all of them, which are the last of `received`
        examples. The forecaster, the state and xs have one dtype."""
        if not hasattr(forecaster, "outside"):
            return
        outside = np.asarray(_outside(forecaster, state, xs))[:count]
        if self.recent is not None:
            outside = np.concatenate([self.recent, outside])
        self.recent = outside[1 - WINDOW :]
        if not outside.any():
            return
        sums = np.cumsum(np.pad(outside.astype(int), ((WINDOW, 0), (0, 0))), axis=0)
        has_left = (sums[WINDOW:] - sums[:-WINDOW] >= OUTSIDE).any(0) & ~np.asarray(self.warned)
        self.warned = self.warned | has_left
        if has_left.any():
            warn(
                f"inputs {np.flatnonzero(has_left).tolist()} have left the range in which all"
                f" features distinguish their values: in {OUTSIDE} of {WINDOW} consecutive examples"
                f" (up to example {received:,}) they are more than {REACH:g} scales from the"
                " centre of the examples that scaled them. If they matter, make a new forecaster,"
                " for example by default_forecaster, from examples of the new range."
            )


_outside = jax.jit(lambda forecaster, state, xs: forecaster.outside(state, xs))


def check_start(forecaster: Any, x: Array, key: PRNGKey) -> None:
    """`init` at x [d] raises errors for mistakes, because it is traced with known values. Nothing
    is compiled, unless `init` computes with these values."""
    try:
        jax.eval_shape(lambda: forecaster.init(x, key))
    except checks.VALUES_NEEDED:
        forecaster.init(x, key)


def predict_pair(
    forecaster: Any,
    key: PRNGKey,
    xs: Any,
    ys: Any,
    state: Any,
    first: int,
    block: int,
    watch: RangeWatch,
    length: int = 0,
) -> tuple[Forecasts, Any]:
    """`prequential` over arrays, which are padded to at least `length` examples."""
    forecaster, xs, ys, state, stream_key = prepare(forecaster, key, xs, ys, state, first, block)
    had_diverged = getattr(state, "diverged", False)
    count = len(ys)
    if count < length:
        xs = jnp.asarray(np.pad(np.asarray(xs), ((0, length - count), (0, 0)), mode="edge"))
        ys = jnp.asarray(np.pad(np.asarray(ys), (0, length - count), constant_values=np.nan))

    def advance(run: Pass) -> Pass:
        return _stream(forecaster, run.state, xs, ys, stream_key, first, resume=run, block=block)

    # the first call resumes an empty pass, because a call without `resume` is another program
    run = advance(_empty_pass(state, ys, count))
    while must_grow(run.result, NOT_FINITE):
        grown = forecaster.grow(run.state)
        run = advance(replace(run, state=grown, result=jnp.zeros_like(run.result)))
    forecasts = run.forecasts
    if count < len(ys):
        forecasts = jax.tree.map(lambda values: jnp.asarray(np.asarray(values)[:count]), forecasts)
    check_predictions(forecasts, first)
    _warn_of_unit(forecasts, ys)
    watch.see(forecaster, run.state, xs, first + count, count)
    warn_of_diverged(getattr(run.state, "diverged", False) & ~np.asarray(had_diverged))
    return forecasts, run.state


def prepare(
    forecaster: Any, key: PRNGKey, xs: Any, ys: Any, state: Any, first: int, block: int
) -> tuple[Any, Array, Array, Any, PRNGKey]:
    """(forecaster, xs, ys, state, key of the stream), all in one dtype, from the arguments of
    `prequential`, after its checks and warnings on the host."""
    checks.component("the forecaster", components.FORECASTER, forecaster)
    checks.nonnegative_integer(first=first)
    xs, ys = checks.stream(xs, ys, None if state is None else dtype_of(state), first)
    checks.forecaster_inputs(forecaster, xs)
    key = checks.one_key(key=key)
    checks.positive_integer(block=block)
    forecaster = in_dtype(forecaster, xs.dtype)
    init_key, stream_key = split_key(key)
    longest, first_example = _longest_example(xs), np.asarray(xs)[0]
    if state is None:
        check_start(forecaster, longest, init_key)
        _warn_of_scale(forecaster, xs)
        state = init_state(with_stream_capacity(forecaster, xs, block), first_example, init_key)
    else:
        _check_state(forecaster, state, first_example, init_key)
    forecaster.check_rounding(longest)
    return forecaster, xs, ys, state, stream_key


def check_predictions(forecasts: Forecasts, first: int) -> None:
    """Raises FloatingPointError if a prediction is not finite."""
    finite = np.isfinite(forecasts.prediction)
    if not finite.all():
        raise FloatingPointError(
            f"the prediction of example {first + np.flatnonzero(~finite)[0]} is not finite: try"
            " float64 or a larger regularization."
        )


def _warn_of_scale(forecaster: Any, xs: Array) -> None:
    """Warns if Taylor features represent little of the kernel at half of the first examples."""
    xs = xs[:SCALE_INPUTS]
    if isinstance(forecaster, Standardized):
        forecaster, xs = forecaster.forecaster, forecaster.first_inputs(xs)
    features = getattr(getattr(forecaster, "forecaster", forecaster), "features", None)
    if not isinstance(features, Taylor) or np.ndim(features.lengthscale):
        return
    share = float(np.median(features.represented_share(xs)))
    if share < LEAST_SHARE:
        warn(
            f"at half of the first inputs the Taylor features of degree {features.degree} represent"
            f" less than {max(share, 1e-9):.1g} of the kernel, so that predictions are near 0:"
            " scale the inputs, or use a larger lengthscale or loops.default_forecaster."
        )


def _warn_of_unit(forecasts: Forecasts, ys: Array) -> None:
    """Warns of labels whose squared errors are infinite or lose digits near 0."""
    limits, labels = jnp.finfo(ys.dtype), np.abs(np.asarray(ys, float))
    largest = float(np.max(labels, initial=0, where=~np.isnan(labels)))
    too_large = not np.isfinite(forecasts.loss).all()
    if too_large or 0 < largest < float(limits.tiny) ** 0.5:
        problem = "above the largest" if too_large else "below the least"
        warn(
            f"the squared errors of labels of this unit are {problem} number of {ys.dtype.name}:"
            " use another unit, in which the labels are near 1."
        )


def _check_state(forecaster: Any, state: Any, x: Any, key: PRNGKey) -> None:
    """Raises ValueError unless the state has the fields of `init` for x [d]."""
    expected = jax.eval_shape(init_state, forecaster, x, key)
    # as texts, because two classes of flax.struct may have equal structures
    if str(jax.tree.structure(state)) != str(jax.tree.structure(expected)):
        raise ValueError(
            f"state is of another forecaster: {type(forecaster).__name__} resumes from a"
            f" {type(expected).__name__}; {type(state).__name__} was given."
        )


def _longest_example(xs: Array) -> Array:
    """The longest example [d] of xs [n,d]. Features that grow with their inputs have the largest
    rounding errors there."""
    values = np.asarray(xs)
    with np.errstate(over="ignore"):
        longest = np.argmax(np.einsum("nd,nd->n", values, values))
    return jax.device_put(values[longest])


def warn_of_diverged(experts: ArrayLike) -> None:
    """Warns of the experts of a mixture that have just diverged, [G] bool."""
    if np.any(experts):
        warn(
            f"experts {np.flatnonzero(experts).tolist()} of the mixture's {np.size(experts)}"
            " diverged (their numbers are no longer finite): their weights stay zero, and the"
            " others continue."
        )

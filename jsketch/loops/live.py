"""A stream whose examples arrive one at a time, and which can be saved and resumed.

A `Live` is mutable, in contrast to states. Its predictions are those of `prequential` with the same
key on the same examples.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.random import fold_in
from jax.typing import DTypeLike

from jsketch import checks, components, struct
from jsketch.loops.describe import describe, rebuild, to_json
from jsketch.loops.saving import STREAM, RunFile, parse
from jsketch.loops.streams import (
    BLOCK,
    Forecasts,
    RangeWatch,
    check_start,
    init_state,
    predict_pair,
    split_key,
    warn_of_diverged,
)
from jsketch.precision import in_dtype
from jsketch.results import must_grow
from jsketch.show import html_table, short_repr
from jsketch.types import ForecastInfo, PRNGKey

Predictions = TypeVar("Predictions", float, np.ndarray)

DTYPES = ("float16", "bfloat16", "float32", "float64")
MAX_ROWS = 1024  # largest number of rows that one program predicts

_preview = jax.jit(lambda f, state, xs: f.preview(state, xs))


# the memory of the state is donated, because copying a large state takes ten times as long as the
# update
@partial(jax.jit, donate_argnums=1)
def _step(
    forecaster: Any, state: Any, x: Array, y: Array, key: PRNGKey, t: Array
) -> tuple[Any, Array, ForecastInfo]:
    """(state, prediction [], info) after example number t."""
    keys = fold_in(key, t)[None]
    state, predictions, _, info = forecaster.advance(state, x[None], y[None], 1, keys)
    return state, predictions[0], replace(info, dictionary_size=info.dictionary_size[0])


@struct.checked_names
class Live:
    """A forecaster and its state after `received` examples of d = `inputs` numbers.

    `mean_squared_error` and `mean_absolute_error` are means over the `labelled` examples. Each
    prediction was made before its label was learned.

    forecaster  a forecaster of `jsketch.online` or another one (`jsketch.types.Forecaster`)
    inputs      int, numbers d of an example
    key         one key, of the forecaster's random choices
    dtype       dtype of all computations; float: the default dtype of JAX

    The methods that learn warn as `prequential` does of an input that leaves its range, once for
    each `Live`; an example that is only predicted does not count.
    `learn` replaces `state` and reuses its memory: copy a state to keep it. If an example has
    another shape, a value is not a real number, an input is missing or infinite, or a label is
    infinite, the methods raise ValueError and change nothing. If `learn` or `predict_learn` makes
    the state infinite or NaN, the state is lost: this call and all later ones raise a
    FloatingPointError, and a file that was saved before is not overwritten.

    Example:

        stream = Live(online.PKAWV(sketch.Taylor(inputs=2, degree=4)), 2, jax.random.key(0))
        for x, y in zip(xs, ys):
            prediction = stream.predict_learn(x, y)
    """

    def __init__(self, forecaster: Any, inputs: int, key: PRNGKey, dtype: DTypeLike = float):
        """Raises ValueError for static mistakes, and for float64 if JAX does not enable it."""
        checks.component("the forecaster", components.FORECASTER, forecaster)
        checks.positive_integer(inputs=inputs)
        self.forecaster, self.inputs, self.received = forecaster, int(inputs), 0
        self.labelled, self._square_sum, self._absolute_sum = 0, 0.0, 0.0
        self._watch = RangeWatch()
        self._error = ""  # message of the error that invalidated the state
        self.dtype = checks.floating_dtype(None if dtype is float else dtype)
        if jax.dtypes.canonicalize_dtype(self.dtype) != self.dtype:
            raise ValueError(
                f"a stream of {self.dtype.name} numbers needs"
                ' jax.config.update("jax_enable_x64", True) before anything else.'
            )
        self._forecaster = in_dtype(forecaster, self.dtype)
        self._key = checks.one_key(key=key)
        init_key, self._stream_key = split_key(self._key)
        example = jax.device_put(np.zeros(self.inputs, self.dtype))
        check_start(forecaster, example, init_key)
        # squared length of the longest example whose rounding was checked; infinite after a warning
        self._checked_square = np.inf if forecaster.check_rounding(example) else 0.0
        self.state = init_state(self._forecaster, example, init_key)

    @property
    def mean_squared_error(self) -> float:
        """The mean squared error of predictions; NaN before the first label."""
        return self._square_sum / self.labelled if self.labelled else np.nan

    @property
    def mean_absolute_error(self) -> float:
        """The mean absolute error of predictions; NaN before the first label."""
        return self._absolute_sum / self.labelled if self.labelled else np.nan

    def summary(self) -> dict[str, Any]:
        """The values that the repr shows."""
        names = ("forecaster", "inputs", "received", "labelled")
        errors = ("mean_squared_error", "mean_absolute_error") if self.labelled else ()
        return {name: getattr(self, name) for name in (*names, *errors)}

    __repr__ = short_repr
    _repr_html_ = html_table

    def predict(self, x: Any) -> float:
        """The prediction at x [d]. If the capacity of the state is too small for x, the capacity
        grows. Raises FloatingPointError if the prediction is not finite."""
        return self._check_finite(float(self._preview(self._as_example(x)[None])[0]))

    def learn(self, x: Any, y: float) -> ForecastInfo:
        """Learns label y at x [d]; an example with the label NaN is counted but not learned. Raises
        FloatingPointError if the state is no longer finite."""
        return self._advance(self._as_example(x), self._as_label(y))[1]

    def predict_learn(self, x: Any, y: float) -> float:
        """`predict`, then `learn`, in one program."""
        return self._check_finite(self._advance(self._as_example(x), self._as_label(y))[0])

    def predict_many(self, xs: Any) -> np.ndarray:
        """The predictions [n] at the rows of xs [n,d], all from the same state."""
        xs = self._as_examples(xs, np.zeros(np.shape(xs)[:1]))[0]
        predictions = []
        for begin in range(0, len(xs), MAX_ROWS):
            rows = xs[begin : begin + MAX_ROWS]
            # padded to a power of two, so that few programs are compiled
            n_extra = 2 ** (len(rows) - 1).bit_length() - len(rows)
            padded = np.pad(rows, ((0, n_extra), (0, 0)), mode="edge")
            predictions.append(self._preview(padded)[: len(rows)])
        return self._check_finite(np.concatenate(predictions))

    def learn_many(self, xs: Any, ys: Any) -> Forecasts:
        """Learns ys [n] at xs [n,d] in order and returns the forecasts of `prequential`. Every
        new n compiles a program. Nothing is learned if a FloatingPointError is raised."""
        xs, ys = self._as_examples(xs, ys)
        self._check_state()
        forecasts, self.state = predict_pair(
            self.forecaster,
            self._key,
            xs,
            ys,
            self.state,
            self.received,
            block=BLOCK,
            watch=self._watch,
        )
        self.received += len(xs)
        self._add_errors(np.asarray(forecasts.prediction, float) - ys)
        return forecasts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the stream to a file, which is replaced atomically."""
        self._check_state()
        _file(path, self.forecaster).save(
            self.state,
            inputs=self.inputs,
            dtype=self.dtype.name,
            received=self.received,
            labelled=self.labelled,
            error_sums=[self._square_sum, self._absolute_sum],
            forecaster=to_json(self.forecaster),
            key=np.asarray(jax.random.key_data(self._key)).tolist(),
            key_kind=str(jax.random.key_impl(self._key)),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], forecaster: Any = None) -> Live:
        """The stream in a file. `forecaster` may be left out if all its parts are classes of
        jsketch. Raises FileNotFoundError if there is no file, and ValueError for a file that is
        damaged or of another forecaster; the message lists the differences."""
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist.")
        if forecaster is None:
            saved = parse(path, path.read_bytes(), STREAM)[0].get("forecaster")
            if saved is None:
                raise ValueError(
                    f"the forecaster of {path} has parts that are not of jsketch: give it, as in"
                    " Live.load(path, forecaster)."
                )
            try:
                forecaster = rebuild(saved)
            except Exception as error:  # a constructor may raise any error for other values
                raise ValueError(
                    f"the forecaster in {path} cannot be made ({error}): give it, as in"
                    " Live.load(path, forecaster)."
                ) from error
        file = _file(path, forecaster)
        content = file.load()
        assert content is not None
        header, state_bytes = content
        kind = file.entry(header, "key_kind", lambda k: isinstance(k, str), "a kind of key")
        words = f"a {kind} key"
        data = file.entry(header, "key", lambda k: isinstance(k, list), words)
        try:
            key = jax.random.wrap_key_data(jnp.asarray(np.array(data, np.uint32)), impl=kind)
        except (ValueError, TypeError, OverflowError) as error:
            raise file.invalid("key", f"is {data!r:.60}, and not {words}") from error
        dtype = file.entry(header, "dtype", lambda d: d in DTYPES, f"one of {', '.join(DTYPES)}")
        inputs = file.whole_number(header, "inputs")
        try:
            live = cls(forecaster, inputs, key, dtype)
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from error
        state = file.restore(live.state, state_bytes, may_grow=True)
        live.state = jax.tree.map(jnp.asarray, state)
        if to_json(forecaster) is not None:  # the states of other forecasters may change shape
            live._check_shapes(file)
        most = int(jnp.iinfo(jax.dtypes.canonicalize_dtype(int)).max)  # programs take the number
        live.received = file.whole_number(header, "received", most)
        live.labelled = file.whole_number(header, "labelled", most=live.received)
        live._square_sum, live._absolute_sum = file.entry(
            header, "error_sums", _are_sums, "two sums of errors"
        )
        return live

    def _check_shapes(self, file: RunFile) -> None:
        """Raises ValueError unless the arrays of a loaded state fit together: a step returns arrays
        of the same shapes."""
        example = jnp.zeros(self.inputs, self.dtype)
        arguments = self.state, example, example[0], self._stream_key, 0
        try:
            after = jax.eval_shape(_step, self._forecaster, *arguments)[0]
        except (TypeError, ValueError) as error:
            raise file.invalid("state", f"has arrays that do not fit together ({error})") from error
        for new, old in zip(jax.tree.leaves(after), jax.tree.leaves(self.state), strict=True):
            if new.shape != old.shape or new.dtype != old.dtype:
                raise file.invalid("state", "has arrays that do not fit together")

    def _advance(self, x: np.ndarray, y: np.ndarray) -> tuple[float, ForecastInfo]:
        self._check_state()
        while True:
            self.state, prediction, info = _step(
                self._forecaster, self.state, x, y, self._stream_key, self.received
            )
            if not self._must_grow(info.result):
                break
            self.state = self._forecaster.grow(self.state)
        self.received += 1
        self._watch.see(self._forecaster, self.state, x[None], self.received)
        self._add_errors(float(prediction) - np.asarray(y, float))
        if hasattr(info, "diverged"):
            warn_of_diverged(info.diverged)
        return float(prediction), info

    def _must_grow(self, result: Array) -> bool:
        message = (
            f"the state is no longer finite after example {self.received}: resume from a saved"
            " file, in float64 or with a larger regularization."
        )
        try:
            return must_grow(result, message)
        except FloatingPointError:
            self._error = message
            raise

    def _add_errors(self, errors: np.ndarray) -> None:
        """Adds the errors of predictions, [n] or [], to the sums. An unlabelled one is NaN."""
        errors = errors[np.isfinite(errors)]
        self.labelled += errors.size
        self._square_sum += float(np.square(errors).sum())
        self._absolute_sum += float(np.abs(errors).sum())

    def _check_state(self) -> None:
        if self._error:
            raise FloatingPointError(self._error)

    def _check_finite(self, predictions: Predictions) -> Predictions:
        if not np.isfinite(predictions).all():
            raise FloatingPointError(
                f"a prediction after {self.received} examples is not finite: the numbers of the"
                " state are too large. Try float64 or a larger regularization."
            )
        return predictions

    def _preview(self, xs: np.ndarray) -> np.ndarray:
        """The predictions [n] at xs [n,d], once the capacity is large enough."""
        self._check_state()
        while True:
            predictions, exceeded = _preview(self._forecaster, self.state, xs)
            if not exceeded:
                return np.asarray(predictions)
            self.state = self._forecaster.grow(self.state)

    def _as_examples(self, xs: Any, ys: Any) -> tuple[np.ndarray, np.ndarray]:
        xs, ys = checks.stream(xs, ys, self.dtype)
        if np.isinf(ys).any():
            raise ValueError(
                f"label {np.flatnonzero(np.isinf(ys))[0]} is infinite; a missing label is NaN."
            )
        if xs.shape[1] != self.inputs:
            raise ValueError(
                f"an example of this stream is a vector of {self.inputs} numbers; these have"
                f" {xs.shape[1]}."
            )
        return np.asarray(xs), np.asarray(ys)

    def _as_example(self, x: Any) -> np.ndarray:
        numbers = self._to_dtype(x, f"the {self.inputs} numbers of an example")
        if numbers.shape != (self.inputs,):
            raise ValueError(
                f"an example of this stream is a vector of {self.inputs} numbers; its shape is"
                f" {numbers.shape}."
            )
        if not np.isfinite(numbers).all():
            raise ValueError(
                f"inputs must be finite; input {np.flatnonzero(~np.isfinite(numbers))[0]} is not:"
                f" {x!r}."
            )
        checks.forecaster_inputs(self.forecaster, numbers[None])
        with np.errstate(over="ignore"):
            square = float(numbers @ numbers)
        # after a check, only an example of twice the norm is checked; after a warning, none is
        if square > 4 * self._checked_square:
            warned = self.forecaster.check_rounding(numbers)
            self._checked_square = np.inf if warned else square
        return numbers

    def _as_label(self, y: Any) -> np.ndarray:
        label = self._to_dtype(y, "labels")
        if label.shape != () or np.isinf(label):
            raise ValueError(
                f"a label is one finite number, or NaN for a missing label; {y!r} was given."
            )
        return label

    def _to_dtype(self, value: Any, name: str) -> np.ndarray:
        array = np.asarray(value)
        if array.dtype == self.dtype:
            return array
        # a number that overflows the dtype becomes infinite, and the caller then raises an error
        with np.errstate(over="ignore"):
            return np.asarray(checks.real(name, array)).astype(self.dtype)


def _are_sums(value: Any) -> bool:
    """Whether a value of JSON is a list of two numbers of at least 0."""
    numbers = value if isinstance(value, list) else []
    return len(numbers) == 2 and all(type(n) in (int, float) and n >= 0 for n in numbers)


def _file(path: str | os.PathLike[str], forecaster: Any) -> RunFile:
    return RunFile(Path(path), STREAM, describe(dict(forecaster=forecaster)))

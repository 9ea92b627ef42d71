"""What runs record: an entry for each evaluation, over arms or over a box, and its tables.

The names that runs over arms and over a box share are `y`, `regret`, `round`, `batch_size`, `best`
and `simple_regret`. A table has a row for each evaluation of each run.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import struct

AXES = ("setting", "seed")  # the default names of the axes before the evaluations
SHARED = ("y", "regret", "best", "simple_regret", "round", "batch_size")  # columns of both traces


def optional(package: str, name: str) -> Any:
    """An optional package, which `name` needs. Raises ImportError if it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f'{name} needs {package}, which is missing: pip install "jsketch[tables]"'
        ) from error


def axis_names(shape: tuple[int, ...], axes: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the axes of columns of this shape, whose last axis is t. Raises ValueError
    unless there is a name for each axis."""
    n_axes = len(shape) - 1
    if axes is None and n_axes <= len(AXES):
        return (*AXES[len(AXES) - n_axes :], "t")
    if axes is None or isinstance(axes, str) or len(axes) != n_axes:
        raise ValueError(
            f"axes are the names of the {n_axes} axes before the evaluations, the first one first,"
            f" such as ('setting', 'seed'); {axes!r} was given."
        )
    return (*axes, "t")


def _check_names(axes: tuple[str, ...], columns: Mapping[str, Any]) -> None:
    """Raises ValueError for an axis with the name of another axis or of a column, which it would
    replace."""
    taken = [name for name in axes if axes.count(name) > 1 or name in columns]
    if taken:
        raise ValueError(f"axes must have names of their own; {taken[0]!r} is taken.")


def frame_of(columns: Mapping[str, Any], axes: Sequence[str] | None = None) -> Any:
    """A tidy DataFrame of columns [..., T], and of vectors [..., T, d], which become d columns
    x0, x1, ... It begins with the columns of the axes and t, the number of the evaluation from 1
    on. Only x may be vectors. A single run has the seed 0."""
    pandas = optional("pandas", "to_frame")
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    shape = next(a.shape for name, a in arrays.items() if name != "x")
    if len(shape) == 1 and axes is None:
        arrays = {name: a[None] for name, a in arrays.items()}
        shape = (1, *shape)
    names = axis_names(shape, axes)
    _check_names(names, arrays)
    index = dict(zip(names, np.indices(shape).reshape(len(shape), -1), strict=True))
    index["t"] = index["t"] + 1
    flat: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == len(shape):
            flat[name] = array.reshape(-1)
        else:
            vectors = array.reshape(-1, array.shape[-1])
            flat |= {f"{name}{i}": vectors[:, i] for i in range(vectors.shape[1])}
    return pandas.DataFrame(index | flat)


def dataset_of(
    columns: Mapping[str, Any], axes: Sequence[str] | None = None, attrs: Any = None
) -> Any:
    """An xarray Dataset of columns [..., T], and of arrays [..., T, ...]. Its dimensions are the
    axes, t, `input` of x, and NAME_0, NAME_1, ... of other arrays."""
    xarray = optional("xarray", "to_xarray")
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    shape = next(a.shape for name, a in arrays.items() if name != "x")
    names = axis_names(shape, axes)
    _check_names(names, arrays)

    def dims(name: str, array: np.ndarray) -> tuple[str, ...]:
        if name == "x" and array.ndim == len(shape) + 1:
            return (*names, "input")
        return (*names, *(f"{name}_{i}" for i in range(array.ndim - len(shape))))

    coordinates = {name: np.arange(size) for name, size in zip(names, shape, strict=True)}
    coordinates["t"] = coordinates["t"] + 1
    variables = {name: (dims(name, array), array) for name, array in arrays.items()}
    return xarray.Dataset(variables, coordinates, dict(attrs or {}))


class BaseTrace:
    """The base class of `Trace` and `BoxTrace`: what traces over arms and over a box share. It has
    no fields of its own; `y` and `regret` are fields of both."""

    y: Array
    regret: Array

    @property
    def best(self) -> Array:
        """The largest finite y so far, [T] or [S, T]: -inf before the first, and NaN after the last
        evaluation of a run that ended early. Works under jit and vmap."""
        return _best(self.y, self.made)

    @property
    def simple_regret(self) -> Array:
        """The least regret so far, [T] or [S, T]: the optimum minus the largest value without noise
        of an arm or point with a successful evaluation. NaN before the first known regret, and
        after the last evaluation of a run that ended early. Works under jit and vmap."""
        return _least(self.regret, self.y, self.made)

    @property
    def made(self) -> Array:
        """Whether an evaluation was made, [T] or [S, T] bool; false after the last one of a run
        that ended early."""
        raise NotImplementedError

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns of `to_frame`."""
        raise NotImplementedError

    def to_frame(self, axes: Sequence[str] | None = None) -> Any:
        """A DataFrame with a row for each evaluation of each run. Its first columns are seed (0 for
        a single run), t (the number of the evaluation, from 1 on), arm, or x0, x1, ... over a box,
        y, regret, best and simple_regret. Rows after the last evaluation of a run that ended early
        have NaN and -1.

        axes  the names of the axes before the evaluations, such as those of a vmap; None: seed, or
              setting and seed

        Raises ImportError without pandas (`pip install "jsketch[tables]"`), and ValueError unless
        there is a name for each axis.

        Example:

            frame = run(bandit, problem, keys, 100).to_frame()
            frame.groupby("t").simple_regret.mean()  # over the seeds
        """
        return frame_of(self._columns(), axes)

    def to_xarray(self, axes: Sequence[str] | None = None, **attrs: Any) -> Any:
        """An xarray Dataset with the columns of `to_frame` as variables [seed, t], where x has the
        dimension `input` too, and with all fields of `info`, such as "info.observed".

        axes   as in `to_frame`
        attrs  attributes of the Dataset, such as the settings of the runs

        Raises ImportError without xarray (`pip install "jsketch[tables]"`), and ValueError unless
        there is a name for each axis.

        Example:

            data = jax.vmap(regret_of)(lengthscales).to_xarray(kernel="Gaussian")  # [setting, t]
        """
        columns = self._columns()
        for path, leaf in jax.tree_util.tree_leaves_with_path(getattr(self, "info", ())):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            columns[f"info.{name}"] = leaf
        return dataset_of(columns, axes, attrs)

    def _columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.column_names}


@struct.dataclass
class Trace(BaseTrace):
    """The evaluations of a run over arms, [T], or [S, T] over seeds. After the last evaluation of a
    run that ended early, rewards, regrets and widths are NaN, so that no sum or mean over them can
    be mistaken for a result, and integers are -1: `trace.arm >= 0` are the evaluations made. The
    reward of a failed evaluation is NaN too, and its arm is not -1.

    arm              int32
    y                the reward, as observed
    regret           f* - f(x_t), instantaneous
    round            int32, index of the round
    batch_size       int32, size of the batch that the evaluation belongs to
    dictionary_size  int32, inducing points (or distinct arms, for the exact posterior) after the
                     round
    width            confidence width with which the arms of the round were chosen
    """

    arm: Array
    y: Array
    regret: Array
    round: Array
    batch_size: Array
    dictionary_size: Array
    width: Array

    @property
    def made(self) -> Array:
        return self.arm >= 0

    @property
    def column_names(self) -> tuple[str, ...]:
        return ("arm", *SHARED, "dictionary_size", "width")


@struct.dataclass
class BoxTrace(BaseTrace):
    """The evaluations of a run over a box, [T], or [S, T] over seeds. After the last evaluation of
    a run that ended early, numbers are NaN, integers -1, and flags false.

    x           [T, d]
    y           as observed; NaN or infinite for a failed evaluation
    regret      f* - f(x_t), instantaneous; NaN if the problem has no `maximum`, or its objective no
                `value`
    round       int32, index of the round
    batch_size  int32, number of evaluations of the round
    value       f(x_t), without noise; NaN if the objective has no `value`
    info        `BoxInfo` of the round of each evaluation, fields [T, ...]
    """

    x: Array
    y: Array
    regret: Array
    round: Array
    batch_size: Array
    value: Array
    info: Any

    @property
    def made(self) -> Array:
        return self.round >= 0

    @property
    def column_names(self) -> tuple[str, ...]:
        return ("x", *SHARED, "value")


# programs of their own, because outside of jit each operation would be compiled by itself
@jax.jit
def _best(y: Array, made: Array) -> Array:
    observed = jnp.where(jnp.isfinite(y), y, -jnp.inf)
    return jnp.where(made, lax.cummax(observed, axis=observed.ndim - 1), jnp.nan)


@jax.jit
def _least(regret: Array, y: Array, made: Array) -> Array:
    known = jnp.where(jnp.isnan(regret) | ~jnp.isfinite(y), jnp.inf, regret)
    least = lax.cummin(known, axis=known.ndim - 1)
    return jnp.where(made & (least < jnp.inf), least, jnp.nan)


def no_value(dtype: Any) -> Array:
    """The value [] of a column that no evaluation has written: NaN, -1 or false."""
    if jnp.issubdtype(dtype, jnp.bool_):
        return jnp.zeros((), dtype)
    return jnp.asarray(jnp.nan if jnp.issubdtype(dtype, jnp.floating) else -1, dtype)

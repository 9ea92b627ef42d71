"""A parametric law that the user knows, with named inputs and named, bounded parameters.

The optimisers see the parameters as one vector z [p] of coordinates. A coordinate is the parameter,
or its logarithm if it is positive and its range is large, minus the starting guess and divided by
SHARE of the range: 0 is the guess, and a prior N(0, 1) says that the guess is roughly right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks
from jsketch.numerics import aligned
from jsketch.types import Box, PRNGKey, is_traced

SHARE = 0.25  # of the range of a parameter: one unit of its coordinate, a prior standard deviation
LOG_RATIO = 5.0  # positive parameters with upper / lower of at least this have logarithmic scale
PROBES = 64  # random points and parameters of `Parametric.check`
KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Scales(NamedTuple):
    """The coordinates of all parameters, vectors [p]."""

    middle: Array  # the guess, or its logarithm
    unit: Array  # one unit of the coordinate
    lower: Array  # the lower bound of the coordinate
    upper: Array
    log: np.ndarray  # bool, whether the scale is logarithmic


class Parametric:
    """A function whose form is known and whose parameters are not, as a model of GO-UCB.

    function    a function of inputs and parameters, by name. The arguments that `parameters` does
                not name are the inputs, in the order of the columns of x: rate(S, I, Vmax, Km) has
                the inputs S and I, which are numbers. A function with one input gets the whole
                point [d] if the box has more than one input. It is written with jax.numpy, returns
                one number, and is pure, as for `jax.jit`: a program that was compiled with it does
                not see later changes of other values that it reads, such as globals
    parameters  {name: (lower, upper, guess)}, numbers, or arrays of one shape for a parameter that
                is an array. A positive parameter whose upper bound is at least 5 times the lower
                one has a logarithmic scale

    Raises ValueError for bounds without lower <= guess <= upper, for a parameter that is no
    argument of the function, and for a function without inputs. `ModelGOUCB(model)` is the
    optimiser for it.

    Example:

        def rate(S, Vmax, Km, Ki):
            return Vmax * S / (Km + S + S**2 / Ki)

        ranges = dict(Vmax=(0.1, 100, 10), Km=(0.01, 10, 0.5), Ki=(0.1, 100, 5))
        law = Parametric(rate, ranges)
        law(law.guess, x)  # the law at a point x [d], with the guesses
    """

    def __init__(self, function: Callable[..., Any], parameters: Mapping[str, Any]):
        if not callable(function):
            raise ValueError(f"a model's function must be a function; {function!r} was given.")
        if not isinstance(parameters, Mapping) or not parameters:
            raise ValueError(
                "a model's parameters are {name: (lower, upper, guess)}, such as"
                f" dict(Vmax=(0.1, 100, 10)); {parameters!r} was given."
            )
        self.function = function
        self.ranges = {name: _range(name, value) for name, value in parameters.items()}
        self.inputs = _inputs(function, self.ranges)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Parametric) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"Parametric({name}({', '.join(self.inputs)}; {', '.join(self.ranges)}))"

    def _key(self) -> Any:
        # equal models share compiled programs
        return self.function, tuple((k, r.shape, r.tobytes()) for k, r in self.ranges.items())

    @property
    def guess(self) -> dict[str, Any]:
        """The starting guess of each parameter."""
        return {name: bounds[2] for name, bounds in self.ranges.items()}

    @property
    def size(self) -> int:
        """p, the number of parameters; an array counts with all its entries."""
        return sum(bounds[0].size for bounds in self.ranges.values())

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the p parameters: "w[0]", "w[1]", ... for an array w."""
        names: list[str] = []
        for name, (lower, _, _) in self.ranges.items():
            indices = (",".join(map(str, index)) for index in np.ndindex(lower.shape))
            names += [f"{name}[{index}]" if index else name for index in indices]
        return tuple(names)

    def scales(self, dtype: Any = float) -> Scales:
        """The coordinates, with arrays of a dtype."""
        lower, upper, guess = (
            np.concatenate([np.ravel(bounds[i]) for bounds in self.ranges.values()])
            for i in range(3)
        )
        log = (lower > 0) & (upper >= LOG_RATIO * lower)
        safe = [np.where(log, values, 1) for values in (lower, upper, guess)]
        lower, upper, guess = (
            np.where(log, np.log(positive), values)
            for positive, values in zip(safe, (lower, upper, guess), strict=True)
        )
        unit = SHARE * (upper - lower)
        ends = (lower - guess) / unit, (upper - guess) / unit
        middle, unit, low, high = (jnp.asarray(n, dtype) for n in (guess, unit, *ends))
        return Scales(middle, unit, low, high, log)

    def vector(self, z: Array) -> Array:
        """The parameters [p] of coordinates z [p], within their bounds."""
        scales = self.scales(z.dtype)
        t = scales.middle + scales.unit * jnp.clip(z, scales.lower, scales.upper)
        return jnp.where(scales.log, jnp.exp(jnp.where(scales.log, t, 0)), t)

    def coordinates(self, parameters: Mapping[str, Any], dtype: Any = float) -> Array:
        """The coordinates z [p] of parameters by name; the inverse of `named`."""
        scales = self.scales(dtype)
        values = jnp.concatenate(
            [jnp.ravel(jnp.asarray(parameters[n], dtype)) for n in self.ranges]
        )
        t = jnp.where(scales.log, jnp.log(jnp.where(scales.log, values, 1)), values)
        return (t - scales.middle) / scales.unit

    def named(self, values: Array) -> dict[str, Array]:
        """Values [p] of the parameters by name, in their shapes."""
        result, start = {}, 0
        for name, (lower, _, _) in self.ranges.items():
            result[name] = values[start : start + lower.size].reshape(lower.shape)
            start += lower.size
        return result

    def arguments(self, x: Array) -> dict[str, Array]:
        """The inputs of the function by name, for a point x [d]. Raises ValueError for a point with
        another number of inputs."""
        d = x.shape[0]
        if len(self.inputs) == d:
            return {name: x[i] for i, name in enumerate(self.inputs)}
        if len(self.inputs) == 1:
            return {self.inputs[0]: x}
        raise ValueError(
            f"the model has {len(self.inputs)} inputs, {', '.join(self.inputs)}, and the points"
            f" have {d}: arguments that are not inputs belong to the parameters."
        )

    def __call__(self, parameters: Mapping[str, Any], x: Array) -> Any:
        """The law at a point x [d] for parameters by name."""
        return self.function(**self.arguments(x), **parameters)

    def init(self, key: PRNGKey, x: Array) -> Array:
        """Random coordinates [p], uniform between the bounds."""
        scales = self.scales(x.dtype)
        unit = jax.random.uniform(key, scales.middle.shape, x.dtype)
        return scales.lower + unit * (scales.upper - scales.lower)

    def apply(self, z: Array, x: Array) -> Array:
        """The law at a point x [d] for coordinates z [p]."""
        return jnp.asarray(self(self.named(self.vector(z)), x), x.dtype)

    def check(self, box: Box) -> None:
        """Raises ValueError unless the function returns one number under jit and, if the bounds of
        the box are known, is finite for the guesses at its random points, and depends on each
        parameter."""
        x = jnp.asarray(box.lower)
        dtype = x.dtype
        self.arguments(x)
        guess = jnp.zeros(self.size, dtype)
        output = checks.traced_result("the model's function", self.apply, guess, x)
        shape = getattr(output, "shape", None)
        if shape != ():
            raise ValueError(
                "the model's function must return one number, shape (), for one point;"
                f" {output if shape is None else f'an array of shape {shape}'} was returned."
            )
        if is_traced(box.lower, box.upper):
            return
        with jax.core.eval_context():  # values of JAX are known under jit, too
            points, values, used = _probe(self, jax.random.key(0), box)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            where = self.arguments(points[bad[0]])
            shown = ", ".join(f"{name}={np.asarray(value):.4g}" for name, value in where.items())
            raise ValueError(
                f"the model's function returns {values[bad[0]]} for the guesses at {shown}: choose"
                " guesses, bounds and a box for which it is finite."
            )
        unused = [label for label, is_used in zip(self.labels, used, strict=True) if not is_used]
        if unused:
            raise ValueError(
                f"the model's function does not depend on {', '.join(unused)}: leave out parameters"
                " that have no effect in this box."
            )


def _range(name: str, value: Any) -> np.ndarray:
    """[3, ...], the lower bound, the upper bound and the guess of a parameter."""
    try:
        bounds = np.stack(np.broadcast_arrays(*(np.asarray(entry, float) for entry in value)))
    except (TypeError, ValueError):
        bounds = np.zeros(0)
    if len(bounds) != 3:
        raise ValueError(
            f"the range of parameter {name} is (lower, upper, guess), such as (0.1, 100, 10);"
            f" {value!r} was given."
        )
    lower, upper, guess = bounds
    if not (np.isfinite(bounds).all() and (lower < upper).all()):
        raise ValueError(
            f"parameter {name}: lower must be below upper, and both finite; {value!r} was given."
        )
    if not ((lower <= guess) & (guess <= upper)).all():
        raise ValueError(
            f"parameter {name}: the guess must lie between lower and upper; {value!r} was given."
        )
    return bounds


def _inputs(function: Callable[..., Any], ranges: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the inputs of a model's function."""
    arguments = inspect.signature(function).parameters
    missing = [name for name in ranges if name not in arguments]
    if missing:
        raise ValueError(
            f"the model's function has no argument {', '.join(missing)}: it is defined as"
            f" f{inspect.signature(function)}."
        )
    inputs = {name: a for name, a in arguments.items() if name not in ranges}
    starred = [str(a) for a in inputs.values() if a.kind not in KINDS]
    if starred or not inputs:
        raise ValueError(
            "the model's function must name each of its inputs, at least one, as in rate(S, Vmax,"
            f" Km); it is defined as f{inspect.signature(function)}."
        )
    return tuple(inputs)


def _probe(law: Parametric, key: PRNGKey, box: Box) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(random points [n, d], values [n] for the guesses, [p] bool whether the parameter has an
    effect at one of them)."""
    point_key, parameter_key = jax.random.split(key)
    lower, upper = jnp.asarray(box.lower), jnp.asarray(box.upper)
    x = jax.random.uniform(point_key, (PROBES, lower.size), lower.dtype)
    x = aligned(lower, x) + x * aligned(upper - lower, x)
    keys = jax.random.split(parameter_key, PROBES)
    z = jax.vmap(law.init, (0, None))(keys, lower)
    guess = jnp.zeros(law.size, lower.dtype)
    values = jax.vmap(law.apply, (None, 0))(guess, x)
    slopes = jax.vmap(jax.grad(law.apply))(z, x)
    # a slope that is NaN does not say that the parameter has no effect
    return np.asarray(x), np.asarray(values), np.asarray((slopes != 0).any(0))

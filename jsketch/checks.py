"""Checks of arguments on the host. The docstring of a check states what its arguments are;
other arguments raise ValueError, with the cause and a remedy. The values of tracers (under jit or
vmap) are not checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch import devices, numerics
from jsketch.components import KERNEL, Component
from jsketch.struct import Range, numbers_in_dtype
from jsketch.types import Arms, Box, PRNGKey, Query, is_traced, table_of_numbers
from jsketch.warn import warn

INT32_MAX = 2**31 - 1
GRAM_ARMS = 32  # number of arms whose Gram matrix is checked
INDEFINITENESS = 1e-4  # rounding explains negative eigenvalues up to this share of the largest one
ASYMMETRY = 1e-4  # the largest accepted asymmetry of kernel values, relative to the largest k(x,x)
LARGEST_ROUNDING = 1e-3  # larger rounding errors, as a share of k(x,x), cause a warning
# a smaller regularization, in units of eps k(x,x), causes a warning; it is 1e-3 k(x,x) in float32
LEAST_REGULARIZATION = 8192


# Numbers and choices


def _number_in(
    requirement: str,
    lower: float = -np.inf,
    upper: float = np.inf,
    included: tuple[float, ...] = (),
    *,
    arrays: bool = False,
    integers: bool = False,
) -> Callable[..., None]:
    """A check that every named value is one number strictly between the bounds, or one of the
    `included` bounds. With `arrays` the value is an array of such numbers; with `integers` it
    is a Python or NumPy integer, which is static."""

    def check(**values: Any) -> None:
        for name, value in values.items():
            shape = np.shape(value)
            if not arrays and not integers and shape != ():
                raise ValueError(
                    f"{name} must be one number; an array of shape {shape} was given. For several"
                    " numbers, use jax.vmap."
                )
            is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if integers and not is_integer:
                raise ValueError(f"{name} {requirement}; {value!r} was given.")
            if is_traced(value):
                continue
            x = np.asarray(value)
            if x.dtype.kind not in "biuf":
                raise ValueError(f"{name} {requirement}; {value!r} was given.")
            x = x.astype(float)
            if not np.all((x > lower) & (x < upper) | np.isin(x, included)):
                raise ValueError(f"{name} {requirement}; {value} was given.")

    return check


finite = _number_in("must be a finite number")
positive = _number_in("must be a finite number above 0", 0)
nonnegative = _number_in("must be a finite number, at least 0", 0, included=(0,))
all_positive = _number_in("must be a finite number above 0", 0, arrays=True)
all_nonnegative = _number_in("must be a finite number, at least 0", 0, included=(0,), arrays=True)
at_least_one = _number_in("must be at least 1", 1, included=(1,))
fraction = _number_in("must lie between 0 and 1", 0, 1, included=(0, 1))
probability = _number_in("is a probability and must lie strictly between 0 and 1", 0, 1)
positive_integer = _number_in("must be an integer of at least 1", 0, integers=True)
nonnegative_integer = _number_in("must be an integer, at least 0", -1, integers=True)


def in_range(allowed: Range, **values: Any) -> None:
    """Every named value is one number in the range of its field."""
    bounds = allowed.lower, allowed.upper, allowed.included
    _number_in(f"must be {allowed}", *bounds, integers=allowed.is_integer)(**values)


def choice(choices: tuple[Any, ...], **values: Any) -> None:
    """Every named value is one of the choices, which are texts or bools."""
    for name, value in values.items():
        if not isinstance(value, str | bool | np.bool_) or value not in choices:
            allowed = "True or False" if choices == BOOLEANS else f"one of {choices}"
            raise ValueError(f"{name} must be {allowed}; {value!r} was given.")


BOOLEANS = (True, False)
boolean = partial(choice, BOOLEANS)


def is_kernel(value: Any) -> bool:
    """Whether the value has the methods of a kernel; a class has none."""
    return not isinstance(value, type) and hasattr(value, "gram") and hasattr(value, "diag")


def component(name: str, kind: Component, value: Any, pytree: bool = False) -> None:
    """The named value is an object of this kind, and a pytree if `pytree` is True or the value is a
    kernel."""
    is_complete = all(hasattr(value, attribute) for attribute in kind.attributes)
    is_complete &= all(callable(getattr(value, method, None)) for method in kind.methods)
    if isinstance(value, type) or not is_complete:
        label = "kernel" if kind is KERNEL else name
        raise ValueError(f"{label} must be {kind.description}; {value!r} was given.")
    if (pytree or kind is KERNEL) and jax.tree_util.all_leaves([value]):
        raise ValueError(
            f"{name} is a {type(value).__name__}, which jit does not accept: decorate its class"
            " with @jsketch.struct.dataclass, and declare its fields below the class line, such as"
            " `lengthscale: float`."
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(value) if kind is KERNEL else ():
        if isinstance(leaf, str) or callable(leaf):
            field = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ValueError(
                f"{field} of {name}, {leaf!r}, is a leaf that jit does not accept: declare it with"
                " struct.field(pytree_node=False)."
            )


def constructor_arguments(algorithm: Any) -> None:
    """The components, the static fields and the width of an algorithm, or of another `Settings`,
    are valid. A static field is declared with its range or its choices (`struct.size`,
    `struct.choice`). Other fields are not checked: they may be arrays over which the algorithm is
    vmapped."""
    for field in algorithm.__dataclass_fields__.values():
        name, value = field.name, getattr(algorithm, field.name)
        is_omitted = value is None and "None" in str(field.type)
        if "component" in field.metadata:
            component(name, field.metadata["component"], value)
        elif name == "dictionary" and isinstance(value, type | str | float | int | None):
            raise ValueError(
                f"dictionary must be Draw() or Extend(slack), from jsketch.bandits; {value!r} was"
                " given."
            )
        elif field.metadata.get("pytree_node", True) or is_omitted:
            continue
        elif "function" in field.metadata:
            label, arguments = field.metadata["function"]
            function_of(label, value, arguments)
        elif "choices" in field.metadata:
            choice(field.metadata["choices"], **{name: value})
        elif "range" in field.metadata:
            in_range(field.metadata["range"], **{name: value})
    if hasattr(algorithm, "norm_bound") and hasattr(algorithm, "width"):
        width = algorithm.width
        if not callable(width) or jax.tree_util.all_leaves([width]):
            raise ValueError(
                "width must be a Width, such as widths.bbkb_paper, or widths.Formula(function) with"
                f" a function of (evidence, confidence); {width!r} was given."
            )


def settings(algorithm: Any) -> None:
    """Every field of an algorithm, or of another `Settings`, that is declared with a range
    (`struct.number`) is a scalar in this range, and so are the numbers of the width."""
    for field in getattr(algorithm, "__dataclass_fields__", {}).values():
        name, value = field.name, getattr(algorithm, field.name)
        is_omitted = value is None and "None" in str(field.type)
        if not field.metadata.get("pytree_node", True) or is_omitted:
            continue
        if "range" in field.metadata:
            in_range(field.metadata["range"], **{name: value})
        elif name in ("width", "dictionary"):
            settings(value)


def is_real(dtype: Any) -> bool:
    """Whether the values of a dtype are real numbers; bfloat16 and bool count as real."""
    real = jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)
    return bool(real or jnp.issubdtype(dtype, bool))


def one_number(**values: Any) -> None:
    """Every named value, traced or not, is one real number."""
    for name, value in values.items():
        dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
        if not is_real(dtype) or np.shape(value) != ():
            raise ValueError(f"{name} must be one real number, shape (); it is {value!r}.")


def not_smaller(current: int, **values: int) -> None:
    """The named new capacity is an integer of at least `current`."""
    positive_integer(**values)
    for name, value in values.items():
        if value < current:
            raise ValueError(f"{name} can only grow: it is {current}, and {value} was given.")


def memory(n_elements: int, dtype: DTypeLike, **sizes: int) -> None:
    """The named sizes are 32-bit integers, and arrays of `n_elements` numbers, which these sizes
    require, fit into the memory of the device. Temporary arrays are not counted; a size that is
    slightly too large may therefore raise no error."""
    needed, available = int(n_elements) * jnp.dtype(dtype).itemsize, devices.memory()
    if available is not None and needed > available:
        names = " and ".join([f"{name} = {size:,}" for name, size in sizes.items()])
        raise ValueError(
            f"{names} would need about {needed / 1e9:,.1f} GB, and the device has"
            f" {available / 1e9:,.1f} GB: choose smaller values."
        )
    for name, size in sizes.items():
        if size > INT32_MAX:
            raise ValueError(f"{name} can be at most {INT32_MAX:,}; {size:,} was given.")


def horizon(value: Any) -> int:
    """The value as an int, a positive 32-bit integer."""
    positive_integer(horizon=value)
    if value > INT32_MAX:
        raise ValueError(f"horizon can be at most {INT32_MAX:,} evaluations; {value:,} was given.")
    return int(value)


def real(name: str, value: Any) -> Any:
    """The value as an array of real numbers: a JAX array if the value is one or is traced,
    otherwise a NumPy array. `name` is the name of the value in messages."""
    try:
        array: Any = value
        if not isinstance(value, jax.Array):
            array = jnp.asarray(value) if is_traced(value) else np.asarray(value)
        # an array of objects may hold Python numbers
        array = array.astype(float) if array.dtype == object else array
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be real numbers: {error}.") from error
    # the kind of the dtype is compared first: `is_real` takes longer than learning an example
    if array.dtype.kind not in "fiub" and not is_real(array.dtype):
        raise ValueError(f"{name} must be real numbers; their dtype is {array.dtype}.")
    return array


def _keys(ndim: int, words: str, **values: Any) -> PRNGKey:
    """The named value as typed keys with `ndim` axes; pairs of uint32 numbers are converted."""
    ((name, value),) = values.items()
    is_uint32 = isinstance(value, jax.Array | np.ndarray) and value.dtype == np.uint32
    if is_uint32 and value.ndim == ndim + 1 and value.shape[-1] == 2:
        value = jax.random.wrap_key_data(jnp.asarray(value))
    is_key = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if not is_key or value.ndim != ndim or not value.size:
        raise ValueError(f"{name} must be {words}; {value!r} was given.")
    return value


one_key = partial(_keys, 0, "one key, such as jax.random.key(0)")
keys = partial(_keys, 1, "keys [S], one for each run, such as jax.random.split(key, 10)")


def function_of(name: str, function: Any, arguments: str) -> None:
    """The function takes the arguments that `arguments` lists."""
    if not callable(function):
        cause = f"a {type(function).__name__} was given"
        raise ValueError(f"{name} must be a function of ({arguments}); {cause}.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some built-in functions have no signature
    try:
        n_arguments = arguments.count(",") + 1
        signature.bind(*[None] * n_arguments)
    except TypeError as error:
        cause = f"its arguments are {signature}"
        raise ValueError(f"{name} must be a function of ({arguments}); {cause}.") from error


# JAX raises them where a function needs the values of its arguments
VALUES_NEEDED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def traced_result(name: str, function: Any, *arguments: Any) -> Any:
    """The shapes and dtypes of function(*arguments), which is traced but not compiled. Raises
    ValueError if the function needs the values of its arguments, in a Python `if` for example."""
    try:
        return jax.eval_shape(function, *arguments)
    except VALUES_NEEDED as error:
        raise _not_traced(name, error) from error


def _not_traced(name: str, error: Exception) -> ValueError:
    cause = str(error).split("\n")[0]
    return ValueError(
        f"{name} must be a function that jit accepts, without a Python `if`, float(...) or NumPy"
        " function of its arguments: use jnp.where or lax.cond for an `if`, and jax.numpy for"
        f" NumPy. JAX reports: {cause}"
    )


def objective(function: Any, *arguments: Any) -> None:
    """The function returns one real number for the `arguments` x [d] and key. If it has a method
    `value`, the method returns one real number for x. Both are traced but not compiled."""
    methods = [("the objective", function, "x, key")]
    if getattr(function, "value", None) is not None:
        methods.append(("the objective's value", function.value, "x"))
    for name, method, argument_names in methods:
        function_of(name, method, argument_names)
        y = traced_result(name, method, *arguments[: len(argument_names.split(","))])
        if getattr(y, "shape", None) != () or not is_real(y.dtype):
            result = f"an array of shape {y.shape}, dtype {y.dtype}" if hasattr(y, "dtype") else y
            raise ValueError(f"{name} must return one number, shape (); {result} was returned.")


# Domains and data


def arms(domain: Any) -> Arms:
    """The arms as JAX arrays; warns of constant features and of arms with equal features."""
    if isinstance(domain, Box):
        raise ValueError(
            "this algorithm chooses among arms, and the domain is a box: use an optimiser of"
            " jsketch.box, such as GOUCB, or a problem with arms."
        )
    if not isinstance(domain, Arms):
        cause = f"a {type(domain).__name__} was given"
        raise ValueError(f"arms are given as Arms(features), features [A, d]; {cause}.")
    if domain.sharding is not None or is_traced(domain.features):
        return domain  # arms that `scale.place` has checked, or whose values are not known
    features, left_out = jnp.asarray(arm_features(domain.features)), domain.left_out
    if left_out is not None:
        shape, dtype = jnp.shape(left_out), jax.dtypes.result_type(left_out)
        if shape != features.shape[:1] or dtype != jnp.bool_:
            raise ValueError(
                f"left_out is a mask of the arms, [A] bool; its shape is {shape}, and its dtype"
                f" {dtype}."
            )
    return Arms(features, left_out=left_out)


def arm_features(features: Any, warns: bool = True) -> Any:
    """The features of arms [A, d] as a NumPy or JAX array. If `warns` is True, the function warns
    of constant features and of arms with equal features."""
    if not isinstance(features, np.ndarray | jax.Array):
        try:
            features = np.asarray(table_of_numbers(features))
        except (TypeError, ValueError) as error:
            raise ValueError(f"features must be a matrix of numbers: {error}.") from error
    if jnp.ndim(features) != 2:
        raise ValueError(
            f"arms must be a matrix [A, d]; an array of shape {jnp.shape(features)} was given. A"
            " single feature is a column: use x[:, None]."
        )
    if 0 in features.shape:
        raise ValueError(f"there are no arms, or no features: the shape is {features.shape}.")
    if not jnp.issubdtype(features.dtype, jnp.floating):
        raise ValueError(
            f"arms must be floating point numbers; their dtype is {features.dtype}. Use"
            " x.astype(float)."
        )
    if is_traced(features):
        return features
    numbers = np.asarray(features)
    if not np.isfinite(numbers).all():
        row, column = np.argwhere(~np.isfinite(numbers))[0]
        cause = f"arm {row}, feature {column} is {numbers[row, column]}"
        raise ValueError(f"arms must be finite; {cause}. Remove or impute such arms.")
    if len(numbers) < 2 or not warns:
        return features
    constant = np.flatnonzero(np.ptp(numbers, axis=0) == 0)
    if constant.size and numbers.shape[1] > 1:
        warn(f"features {constant.tolist()} have the same value for every arm.")
    # projections of equal rows are equal; projections of different rows differ almost surely
    projection = numbers @ np.random.default_rng(0).standard_normal(numbers.shape[1])
    repeated = len(numbers) - np.unique(projection).size
    if repeated:
        warn(
            f"{repeated} of the {len(numbers)} arms repeat the features of another: to a kernel"
            " they are the same arm."
        )
    return features


def example(x: Any) -> Array:
    """One example, a vector [d] of floating point numbers."""
    if jnp.ndim(x) != 1 or np.shape(x)[0] == 0:
        raise ValueError(f"an example is a vector [d], d >= 1; its shape is {np.shape(x)}.")
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(f"examples must be floating point numbers; their dtype is {x.dtype}.")
    return x


def known(x: Any) -> Any:
    """The array as a NumPy array, unless it is traced. While a caller is traced, operations of JAX
    on it would be traced too, and its values would not be checked."""
    return x if is_traced(x) else np.asarray(x)


def candidates(x: Any, dimension: int) -> None:
    """The candidates are a finite, non-empty matrix [A, dimension]."""
    if jnp.ndim(x) != 2 or np.shape(x)[0] == 0 or np.shape(x)[1] != dimension:
        cause = f"the shape is {np.shape(x)}"
        raise ValueError(f"candidates must be a matrix [A, {dimension}], A >= 1; {cause}.")
    if not is_traced(x) and not np.isfinite(np.asarray(x)).all():
        raise ValueError("candidates must be finite.")


def floating_dtype(dtype: Any) -> Any:
    """The floating dtype as a JAX dtype; None is JAX's default."""
    try:
        found = jnp.dtype(jnp.result_type(float) if dtype is None else dtype)
    except TypeError:
        found = jnp.dtype(bool)
    if not jnp.issubdtype(found, jnp.floating):
        raise ValueError(f"dtype must be a floating dtype; {dtype!r} was given.")
    return found


def box(domain: Box, dimension: int) -> None:
    """The box is finite, has this dimension, and lower < upper."""
    for name, value in (("lower", domain.lower), ("upper", domain.upper)):
        if np.shape(value) != (dimension,):
            cause = f"its shape is {np.shape(value)}"
            raise ValueError(f"the box's {name} must have shape ({dimension},); {cause}.")
    if not is_traced(domain):
        low, high = (np.asarray(real("the box", bound)) for bound in (domain.lower, domain.upper))
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError(f"a box needs finite lower < upper; {low} and {high} were given.")
        with np.errstate(over="ignore"):
            sides = high - low
        if not np.isfinite(sides).all():
            raise ValueError(
                f"a box needs sides upper - lower that are finite in {sides.dtype.name}; {low} and"
                f" {high} were given."
            )


def arm_numbers(domain: Arms, **values: Any) -> None:
    """Every named value is a vector of arm numbers, integers in [0, A)."""
    for name, value in values.items():
        if is_traced(value):
            continue
        numbers = np.asarray(value)
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            cause = f"its shape is {numbers.shape}, its dtype {numbers.dtype}"
            kind = "a vector of arm numbers (integers, such as np.flatnonzero(mask))"
            raise ValueError(f"{name} must be {kind}; {cause}.")
        for arm in numbers[(numbers < 0) | (numbers >= domain.count)]:
            raise ValueError(f"{name} contains arm {arm}; the arms are 0 to {domain.count - 1}.")


def stream(xs: Any, ys: Any, dtype: DTypeLike | None = None, start: int = 0) -> tuple[Array, Array]:
    """(finite examples [n,d], labels [n]) as JAX arrays of the floating point `dtype` (None: the
    dtype of the examples). Labels may be NaN. `start` is the index of the first example in the
    stream, for messages."""
    xs, ys = real("examples", xs), real("labels", ys)
    if xs.ndim != 2 or ys.shape != xs.shape[:1]:
        cause = f"the shapes are {xs.shape} and {ys.shape}"
        raise ValueError(f"a stream is a matrix [n, d] of examples and n labels; {cause}.")
    if 0 in xs.shape:
        raise ValueError(f"the stream is empty: its examples have shape {xs.shape}.")
    if dtype is None:
        dtype = jax.dtypes.canonicalize_dtype(
            xs.dtype if jnp.issubdtype(xs.dtype, jnp.floating) else float
        )
    with np.errstate(over="ignore"):  # an infinite example raises below
        # `jnp.asarray` of a NumPy array would compile a program
        xs, ys = (jax.device_put(values.astype(dtype, copy=False)) for values in (xs, ys))
    # on an accelerator NumPy would copy the examples to the host
    isfinite = jnp.isfinite(xs) if numerics.on_accelerator() else np.isfinite(np.asarray(xs))
    is_finite_row = np.asarray(isfinite.all(1))
    if not is_finite_row.all():
        row = np.flatnonzero(~is_finite_row)[0]
        column = np.flatnonzero(~np.asarray(isfinite[row]))[0]
        raise ValueError(f"inputs must be finite; example {start + row} is not, at input {column}.")
    return xs, ys


# Queries, rewards and earlier evaluations over arms


def arm_query(domain: Arms, query: Query) -> Query:
    """The query as JAX arrays, in which arms that do not exist have the number A, because a scatter
    to row A writes nothing. Raises ValueError if the index is not a vector of arm numbers, if the
    mask is not one bool for each of them, or, unless the query is traced, if a slot in use has an
    arm that does not exist."""
    if not (hasattr(query, "index") and hasattr(query, "mask")):
        cause = f"a {type(query).__name__} was given"
        raise ValueError(f"a query is the result of `ask`, or Query(index, mask); {cause}.")
    index, mask = jnp.asarray(query.index), jnp.asarray(query.mask)
    if index.ndim != 1 or not jnp.issubdtype(index.dtype, jnp.integer):
        cause = f"its shape is {index.shape}, its dtype {index.dtype}"
        raise ValueError(f"a query's index must be a vector [B] of arm numbers; {cause}.")
    if mask.shape != index.shape or mask.dtype != bool:
        cause = f"its shape is {mask.shape}, its dtype {mask.dtype}"
        raise ValueError(f"a query's mask must be a bool for each of {index.size} slots; {cause}.")
    if not is_traced(index, mask):
        arm_numbers(domain, **{"the query": np.asarray(index)[np.asarray(mask)]})
    return Query(mark_invalid_arms(domain, index), mask)


def mark_invalid_arms(domain: Arms, numbers: ArrayLike) -> Array:
    """The arm numbers as int32; arms that do not exist have the number A."""
    numbers = jnp.asarray(numbers)
    invalid = (numbers < 0) | (numbers >= domain.count)
    # astype, because the array of an empty list has a floating dtype
    return jnp.where(invalid, domain.count, numbers).astype(jnp.int32)


def evaluation_limit(limit: ArrayLike | None) -> Array:
    """The limit as [] int32; None becomes the largest 32-bit integer. Raises ValueError unless
    the limit is an integer of at least 1."""
    if limit is None:
        return jnp.asarray(INT32_MAX, jnp.int32)
    dtype = limit.dtype if hasattr(limit, "dtype") else np.asarray(limit).dtype
    if np.shape(limit) != () or not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"limit must be an integer number of evaluations; {limit!r} was given.")
    at_least_one(limit=limit)
    return jnp.asarray(limit, jnp.int32)


def no_evaluations(algorithm: Any, data: Any) -> None:
    """The data are None, because the algorithm cannot start from observed evaluations."""
    if data is not None:
        raise ValueError(f"{type(algorithm).__name__} cannot start from observed evaluations.")


def evaluations(domain: Arms, pull_counts: Any, reward_sums: Any, integers: bool = True) -> None:
    """Earlier evaluations are two vectors [A]. The counts are nonnegative, and integers if
    `integers` is True. The sums of rewards are finite, and zero for an arm whose count is zero."""
    for name, value in (("pull_counts", pull_counts), ("reward_sums", reward_sums)):
        if np.shape(value) != (domain.count,):
            raise ValueError(
                f"{name} must have one number for each of the {domain.count} arms; its shape is"
                f" {np.shape(value)}."
            )
    if is_traced(pull_counts, reward_sums):
        return
    all_nonnegative(pull_counts=pull_counts)
    counts = np.asarray(pull_counts, float)
    sums = np.asarray(real("reward_sums", reward_sums), float)
    if not np.isfinite(sums).all():
        raise ValueError("reward_sums must be finite.")
    for arm in np.flatnonzero(integers & (counts != np.round(counts))):
        raise ValueError(f"pull_counts must be integers; the count of arm {arm} is {counts[arm]}.")
    for arm in np.flatnonzero((counts == 0) & (sums != 0)):
        raise ValueError(
            f"arm {arm} was never evaluated, but the sum of its rewards is {sums[arm]}."
        )


# Algorithms and problems


def state(bandit: Any, arms: Arms, value: Any, expected: Any = None) -> None:
    """The value is a state of this algorithm on arms of this number. `expected` has the shapes of
    a state of the algorithm; None: they are computed."""
    if expected is None:
        expected = jax.eval_shape(lambda key: bandit.init(arms, key), jax.random.key(0))
    state_type(bandit, value, expected)
    found, right = (dict(jax.tree_util.tree_leaves_with_path(s)) for s in (value, expected))
    for path, leaf in right.items():
        name = getattr(path[-1], "name", None) if path else None
        if name in ("counts", "mean", "variance") and path in found:
            sizes = np.shape(found[path])[-1:], leaf.shape[-1:]
            if sizes[0] != sizes[1]:
                raise ValueError(
                    f"state is of other arms: it has {sizes[0][0]} arms, and the domain has"
                    f" {sizes[1][0]}."
                )
    _points_are_arms(arms, value)


def _points_are_arms(arms: Arms, state: Any) -> None:
    """The points of a sketched posterior are among the arms of the dictionary."""
    p: Any = getattr(state, "posterior", None)
    if not hasattr(p, "points") or is_traced(arms, state):
        return
    leaves: Any = arms.features, p.points, state.inducing
    if not all(getattr(leaf, "is_fully_addressable", True) for leaf in leaves):
        return  # no process has all arms
    x, points, inducing = map(np.asarray, leaves)
    known = {row.tobytes() for row in x[inducing].astype(points.dtype)}
    if any(row.tobytes() not in known for row in points[: int(p.rank)]):
        raise ValueError(
            "state is of other arms: there are as many, but their features have changed."
        )


def state_type(algorithm: Any, value: Any, expected: Any) -> None:
    """The value has the type of `expected`, a state of the algorithm."""
    if type(value) is not type(expected):
        raise ValueError(
            f"state is of another algorithm: it is a {type(value).__name__}, and the states of"
            f" {type(algorithm).__name__} are {type(expected).__name__}."
        )


def feature_map(features: Any, method: str, words: str) -> None:
    """The feature map has a method with the name `method`."""
    if isinstance(features, type) or not callable(getattr(features, method, None)):
        raise ValueError(f"features must be {words}; {features!r} was given.")


def bandit_arms(bandit: Any, kernel: Any, domain: Any, key: PRNGKey, data: Any) -> Arms:
    """The arms as JAX arrays. The data are None, and the settings of the bandit, the key, the arms
    and the kernel are valid."""
    no_evaluations(bandit, data)
    one_key(key=key)
    settings(bandit)
    domain = arms(domain)
    model(domain, kernel, bandit.regularization)
    return domain


# Kernels


def kernel_inputs(kernel: Any, x: Any) -> None:
    """The optional methods `check` and `check_inputs` of the kernel accept the inputs x [n,d]."""
    if is_traced(kernel, x):
        return
    # while a caller is traced, operations on known values would be traced too
    with jax.core.eval_context():
        if hasattr(kernel, "check"):
            kernel.check(x)
        if hasattr(kernel, "check_inputs"):
            kernel.check_inputs(x)


def kernel_on(kernel: Any, x: Any) -> None:
    """`kernel_inputs`, and jit accepts the methods of the kernel for inputs x [n,d], n >= 1. They
    are traced but not compiled."""
    kernel_inputs(kernel, x)
    if not is_traced(kernel, x):
        arguments = numbers_in_dtype(kernel, x.dtype), x[:1]
        traced_result("a method of the kernel", _kernel_values, *arguments)


@jax.jit
def _kernel_values(kernel: Any, x: Array) -> tuple[Array, Array]:
    return kernel.gram(x, x), kernel.diag(x)


def forecaster_inputs(forecaster: Any, x: Any) -> None:
    """The kernel of the forecaster, or of the experts of a mixture, is defined for x [n,d]."""
    kernel: Any = getattr(getattr(forecaster, "forecaster", forecaster), "kernel", None)
    if hasattr(kernel, "check_inputs") and not is_traced(x):
        kernel.check_inputs(x)


def model(domain: Arms, kernel: Any, regularization: Any, n_points: int = 0) -> None:
    """The kernel is defined on the arms, and variances k(x,x) / regularization do not overflow.

    The kernel is symmetric. Warns of a kernel that is not positive semi-definite, of a
    regularization below the rounding errors of variances (THEORY 9.1), and of arms so far apart
    that rounding changes kernel values between the arms and `n_points` further points (such as
    inducing points) by more than LARGEST_ROUNDING k(x,x)."""
    # fewer arms than GRAM_ARMS are repeated, so that only one shape is compiled
    indices = np.linspace(0, domain.count - 1, GRAM_ARMS).astype(np.int32)
    # Without this context, even constants are traced if the caller is under jit. With
    # `ensure_compile_time_eval`, the constants of `_gram_and_rounding` would be compiled one by one
    with jax.core.eval_context():
        kernel_inputs(kernel, domain.features)
        if is_traced(domain, kernel):
            return
        x: Any = domain.features
        rows = indices
        if not n_points:
            # a NumPy sample, because every new number of arms is compiled again
            x, rows = np.asarray(x)[indices], np.arange(GRAM_ARMS, dtype=np.int32)
        try:
            # as one program: compiling the operations one by one takes a third of a second
            gram, rounding = jax.jit(
                _gram_and_rounding, static_argnums=3, compiler_options=devices.RUN_ONCE
            )(numbers_in_dtype(kernel, x.dtype), rows, x, n_points)
            gram = np.asarray(gram, float)
        except VALUES_NEEDED as error:
            raise _not_traced("the kernel's gram", error) from error
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the kernel cannot be evaluated on arms with {domain.features.shape[1]} features"
                f" ({error}). An ARD kernel needs one lengthscale for each feature."
            ) from error
    if not np.isfinite(gram).all():
        row, column = np.argwhere(~np.isfinite(gram))[0]
        raise ValueError(
            f"k(x, y) of arms {indices[row]} and {indices[column]} is {gram[row, column]}: check"
            f" the parameters of the kernel {kernel}."
        )
    dtype = domain.features.dtype
    eps = float(jnp.finfo(dtype).eps)
    share = eps * float(np.asarray(rounding))
    asymmetry = np.abs(gram - gram.T)
    # values that rounding decides cause the warning below
    if asymmetry.max() > max(ASYMMETRY, 10 * share) * np.abs(gram).max():
        row, column = np.unravel_index(asymmetry.argmax(), gram.shape)
        raise ValueError(
            f"a kernel must be symmetric: k(x, y) of arms {indices[row]} and {indices[column]} is"
            f" {gram[row, column]:.6g}, and k(y, x) is {gram[column, row]:.6g}."
        )
    eigenvalues = np.linalg.eigvalsh((gram + gram.T) / 2)
    if eigenvalues[0] < -INDEFINITENESS * max(eigenvalues[-1], 0):
        warn(
            "the kernel is not positive semi-definite on these arms, and its variances are"
            f" meaningless: the eigenvalues of the Gram matrix of {GRAM_ARMS} arms are between"
            f" {eigenvalues[0]:.3g} and {eigenvalues[-1]:.3g}."
        )
    if share > LARGEST_ROUNDING:
        remedy = "arms in float64 (jax_enable_x64) or " if dtype == jnp.float32 else ""
        warn(
            f"arms lie up to {(share / eps) ** 0.5:,.0f} lengthscales from their mean, and rounding"
            f" changes k(x, y) of close arms by up to {share:.1g} k(x,x) in {dtype}. Use"
            f" {remedy}larger lengthscales."
        )
    if is_traced(regularization):
        return
    smallest_lam = float(np.min(np.asarray(regularization, float)))
    least_lam = max(float(gram.diagonal().max()), 1) / float(jnp.finfo(dtype).max)
    if smallest_lam <= least_lam:
        raise ValueError(
            f"regularization must be above {least_lam:.2g}: variances are k(x,x) / regularization,"
            f" which overflows {dtype.name}; {regularization} was given."
        )
    regularization_above_rounding(regularization, gram[0, 0], dtype, "arms")


def regularization_above_rounding(
    regularization: Any, prior: ArrayLike, dtype: DTypeLike, inputs: str
) -> None:
    """Warns of a regularization that rounding errors of variances exceed (THEORY 9.1); `prior` []
    is k(x,x), and `inputs` is what has the dtype."""
    least = LEAST_REGULARIZATION * float(jnp.finfo(dtype).eps) * float(np.asarray(prior))
    if float(np.min(np.asarray(regularization, float))) >= least:
        return
    error, remedy = 1e-14, ""
    if dtype == jnp.float32:
        error, remedy = 1e-5, f"{inputs} in float64 (jax_enable_x64) or "
    warn(
        f"regularization {regularization} is too small to be meaningful in {np.dtype(dtype).name}:"
        f" variances are differences, which have rounding errors of about {error:g} k(x,x) and may"
        f" be 0. Use {remedy}a regularization of at least {least:.1g}."
    )


def kernel_rounding(kernel: Any, points: Array, n_points: int) -> ArrayLike:
    """The rounding error [] of kernel values between points [m,d] and `n_points` further points, in
    units of eps k(x,x). It is 1 for a kernel without a method `rounding`."""
    return kernel.rounding(points, n_points) if hasattr(kernel, "rounding") else 1.0


def _gram_and_rounding(kernel: Any, indices: Any, x: Any, n_points: int) -> tuple[Any, Any]:
    """(Gram matrix of the points x[indices], `kernel_rounding` of the points x [n,d])."""
    sample = x[indices]
    return kernel.gram(sample, sample), kernel_rounding(kernel, x, n_points)

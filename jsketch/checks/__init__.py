"""Static mistakes, said in plain words on the host. Values that are traced (under jit or vmap) are left to the caller."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import memory
from jsketch.types import Arms, Box, is_traced

MOST = 2**31 - 1  # of what is counted in 32 bits
SAMPLED = 32  # arms whose Gram matrix is looked at
INDEFINITE = 1e-4  # of the largest eigenvalue: a negative one beyond is no rounding


def _numbers(value: Any) -> np.ndarray:
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"a number was expected; {value!r} was given.")
    return numbers.astype(float)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def _hold(
    values: dict[str, Any], holds: Callable[[np.ndarray], Any], words: str, scalar: bool = True
) -> None:
    for name, value in values.items():
        if scalar and _shape(value) != ():
            raise ValueError(
                f"{name} must be one number; an array of shape {_shape(value)} was given. To try several, use jax.vmap."
            )
        if not is_traced(value) and not np.all(holds(_numbers(value))):
            raise ValueError(f"{name} {words}; {value} was given.")


def _is_positive(numbers: np.ndarray) -> Any:
    return np.isfinite(numbers) & (numbers > 0)


def _is_nonnegative(numbers: np.ndarray) -> Any:
    return np.isfinite(numbers) & (numbers >= 0)


def positive(**values: Any) -> None:
    """Raises ValueError unless every named value is one finite number > 0."""
    _hold(values, _is_positive, "must be a finite number above 0")


def nonnegative(**values: Any) -> None:
    """Raises ValueError unless every named value is one finite number >= 0."""
    _hold(values, _is_nonnegative, "must be a finite number, at least 0")


def all_positive(**values: Any) -> None:
    """Raises ValueError unless every number of every named array is finite and > 0."""
    _hold(values, _is_positive, "must be a finite number above 0", scalar=False)


def all_nonnegative(**values: Any) -> None:
    """Raises ValueError unless every number of every named array is finite and >= 0."""
    _hold(values, _is_nonnegative, "must be a finite number, at least 0", scalar=False)


def probability(**values: Any) -> None:
    """Raises ValueError unless every named value is one number strictly between 0 and 1."""
    _hold(values, lambda p: (p > 0) & (p < 1), "is a probability and must lie strictly between 0 and 1")


def fraction(**values: Any) -> None:
    """Raises ValueError unless every named value is one number in [0, 1]."""
    _hold(values, lambda p: (p >= 0) & (p <= 1), "must lie between 0 and 1")


def at_least_one(**values: Any) -> None:
    """Raises ValueError unless every named value is one finite number >= 1."""
    _hold(values, lambda x: np.isfinite(x) & (x >= 1), "must be at least 1")


def confidence(bandit: Any) -> None:
    """The assumptions that all optimistic algorithms share."""
    positive(regularization=bandit.regularization)
    nonnegative(noise_std=bandit.noise_std, norm_bound=bandit.norm_bound)
    probability(delta=bandit.delta)


def arms(domain: Arms) -> Arms:
    """The arms as JAX arrays. Raises ValueError for arms of a wrong rank, an empty set or non-finite features; warns of what
    is likely a mistake."""
    features = table(domain.features)
    if jnp.ndim(features) != 2:
        raise ValueError(
            f"arms must be a matrix [A, d], one candidate a row; an array of shape {jnp.shape(features)} was given."
            " A single feature is a column: use x[:, None]."
        )
    if features.shape[0] == 0 or features.shape[1] == 0:
        raise ValueError(
            f"there is nothing to choose from: arms have shape {features.shape}, need at least one row and column."
        )
    if not jnp.issubdtype(features.dtype, jnp.floating):
        raise ValueError(
            f"arms must be floating point numbers, such as x.astype(float); their dtype is {features.dtype}."
        )
    if is_traced(features):
        return domain
    numbers = np.asarray(features)
    finite = np.isfinite(numbers)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(
            f"arms must be finite; arm {row}, feature {column} is {numbers[row, column]}"
            f" ({(~finite).sum()} such values in all). Remove or impute them."
        )
    _warn_of_degenerate_features(numbers)
    return Arms(jnp.asarray(features))


def table(features: Any) -> Any:
    """An array as it is; a DataFrame, or lists of numbers, as a floating point array. Raises ValueError for what holds
    anything but real numbers."""
    if isinstance(features, np.ndarray | jax.Array):
        return features
    try:
        numbers = np.asarray(features)
        return numbers if numbers.dtype.kind in "fcV" else numbers.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"features must be a matrix of numbers: {error}.") from error


def _warn_of_degenerate_features(table: np.ndarray) -> None:
    if table.shape[0] < 2:
        return
    constant = np.flatnonzero(np.ptp(table, axis=0) == 0)
    if constant.size and table.shape[1] > 1:
        warnings.warn(
            f"features {constant.tolist()} have the same value for every arm and carry no information.",
            stacklevel=5,
        )
    # equal rows have equal projections; unequal ones practically never do
    projection = table @ np.random.default_rng(0).standard_normal(table.shape[1])
    repeated = table.shape[0] - np.unique(projection).size
    if repeated:
        warnings.warn(
            f"{repeated} of the {table.shape[0]} arms repeat the features of another: to a kernel they are the same arm.",
            stacklevel=5,
        )


def example(x: Any) -> Array:
    """One example [d]. Raises ValueError unless it is a vector of floating point numbers."""
    if jnp.ndim(x) != 1 or _shape(x)[0] == 0:
        raise ValueError(f"an example is a vector [d] of at least one input; its shape is {_shape(x)}.")
    if not jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating):
        raise ValueError(f"examples must be floating point numbers; their dtype is {jnp.asarray(x).dtype}.")
    return jnp.asarray(x)


def candidates(x: Any, dimension: int) -> None:
    """Raises ValueError unless x is a finite, non-empty matrix [A, dimension]."""
    if jnp.ndim(x) != 2 or _shape(x)[0] == 0 or _shape(x)[1] != dimension:
        raise ValueError(
            f"candidates must be a matrix [A, {dimension}], at least one a row, with the inputs of the history; its shape"
            f" is {_shape(x)}."
        )
    if not is_traced(x) and not np.isfinite(np.asarray(x)).all():
        raise ValueError(f"candidates must be finite; {(~np.isfinite(np.asarray(x))).sum()} values are not.")


def box(domain: Box, dimension: int) -> None:
    """Raises ValueError unless the box is finite, of this dimension, and has lower < upper."""
    for name, value in (("lower", domain.lower), ("upper", domain.upper)):
        if _shape(value) != (dimension,):
            raise ValueError(
                f"the box's {name} must have shape ({dimension},); its shape is {_shape(value)}."
            )
    if not is_traced(domain):
        low, high = _numbers(domain.lower), _numbers(domain.upper)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError(f"a box needs finite lower < upper in every input; {low} and {high} were given.")


def a_kernel(kernel: Any) -> None:
    """Raises ValueError for what is no kernel."""
    if isinstance(kernel, type) or not (hasattr(kernel, "gram") and hasattr(kernel, "diag")):
        raise ValueError(
            f"kernel must be a kernel with its numbers, such as kernels.Gaussian(lengthscale=1.0); {kernel!r} was given."
        )


def kernel_on(kernel: Any, x: Any) -> None:
    """Raises ValueError for what is no kernel, and, where the kernel itself can say so (a method `check`), for numbers that
    make none and inputs x [n,d] that it is not defined for."""
    a_kernel(kernel)
    if is_traced(kernel, x):
        return
    if hasattr(kernel, "check"):
        kernel.check(x)
    if hasattr(kernel, "check_inputs"):
        kernel.check_inputs(x)


def inputs_of(forecaster: Any, x: Any) -> None:
    """Raises ValueError for examples x [n,d] that the kernel of a forecaster, or of a mixture's, is not defined for."""
    kernel: Any = getattr(getattr(forecaster, "forecaster", forecaster), "kernel", None)
    if hasattr(kernel, "check_inputs") and not is_traced(x):
        kernel.check_inputs(x)


def features_of(maker: Any, method: str, wanted: str) -> None:
    """Raises ValueError for a feature map without that method."""
    if isinstance(maker, type) or not callable(getattr(maker, method, None)):
        raise ValueError(f"features must be {wanted}; {maker!r} was given.")


def model(domain: Arms, kernel: Any, regularization: Any) -> None:
    """Raises ValueError for a kernel that does not fit the arms; warns where it is not positive semi-definite, and when
    float32 cannot resolve variances at this regularization (THEORY 9.1)."""
    a_kernel(kernel)
    if is_traced(domain, kernel):
        return
    # inside somebody's jit even constants are traced, unless evaluated now
    with jax.ensure_compile_time_eval():
        kernel_on(kernel, domain.features)
        _check_values(domain, kernel)
        _warn_of_precision(domain, kernel, regularization)


def _check_values(domain: Arms, kernel: Any) -> None:
    # always as many, so that one shape is compiled
    some = np.linspace(0, domain.count - 1, SAMPLED).astype(np.int32)
    x = domain.features[some]
    try:
        gram = np.asarray(kernel.gram(x, x), float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the kernel cannot be evaluated on arms with {domain.features.shape[1]} features ({error}). An ARD kernel"
            " needs one lengthscale a feature."
        ) from error
    if not np.isfinite(gram).all():
        row, column = np.argwhere(~np.isfinite(gram))[0]
        raise ValueError(
            f"k(x, y) of arms {some[row]} and {some[column]} is {gram[row, column]}: check the numbers of the kernel"
            f" {kernel}."
        )
    eigenvalues = np.linalg.eigvalsh((gram + gram.T) / 2)
    if eigenvalues[0] < -INDEFINITE * max(eigenvalues[-1], 0):
        warnings.warn(
            f"the kernel is not positive semi-definite on these arms: of the Gram matrix of {SAMPLED} of them the least"
            f" eigenvalue is {eigenvalues[0]:.3g}, the largest {eigenvalues[-1]:.3g}. Variances then mean nothing.",
            stacklevel=5,
        )


def _warn_of_precision(domain: Arms, kernel: Any, regularization: Any) -> None:
    if is_traced(domain, kernel, regularization) or domain.features.dtype != jnp.float32:
        return
    scale = float(jnp.max(kernel.diag(domain.features[:1])))
    if float(np.min(_numbers(regularization))) < 1e-3 * scale:
        warnings.warn(
            f"regularization {regularization} is too small to be meaningful in float32: residuals carry an error of about"
            f" 1e-5 k(x,x), which is divided by it. Use arms in float64 (jax_enable_x64) or a regularization of at"
            f" least {1e-3 * scale:g}.",
            stacklevel=5,
        )


def _integer(values: dict[str, int], least: int, words: str) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer{words} {least}; {value!r} was given.")


def capacity(**values: int) -> None:
    """Raises ValueError unless every named static capacity is an integer >= 1."""
    _integer(values, 1, " of at least")


def count(**values: int) -> None:
    """Raises ValueError unless every named static count is an integer >= 0."""
    _integer(values, 0, ", at least")


def larger(before: int, **values: int) -> None:
    """Raises ValueError unless the named capacity to grow to is an integer, at least the one before."""
    capacity(**values)
    for name, value in values.items():
        if value < before:
            raise ValueError(f"{name} can only grow: it is {before}, and {value} was given.")


def room(numbers: int, dtype: Any, **sizes: int) -> None:
    """Raises ValueError when so many numbers, which the named sizes ask for, are more than the memory holds, and for a size
    that 32 bits cannot count."""
    said = " and ".join(f"{name} = {size:,}" for name, size in sizes.items())
    memory.check(int(numbers) * jnp.dtype(dtype).itemsize, said, "take less")
    for name, size in sizes.items():
        if size > MOST:
            raise ValueError(f"{name} can be at most {MOST:,}; {size:,} was given.")


def choice(choices: tuple[str, ...], **values: Any) -> None:
    """Raises ValueError unless every named value is one of the choices."""
    for name, value in values.items():
        if value not in choices:
            raise ValueError(f"{name} must be one of {choices}; {value!r} was given.")


def no_complex(**values: Any) -> None:
    """Raises ValueError for complex numbers, which would lose their imaginary part without a word."""
    for name, value in values.items():
        if np.iscomplexobj(value):
            raise ValueError(f"{name} must be real numbers; complex ones were given.")


def real(name: str, value: Any) -> Any:
    """The named value as an array of real numbers: NumPy's, or JAX's where it was one. Raises ValueError for complex ones
    and for what is no number."""
    try:
        array = (
            value
            if isinstance(value, jax.Array)
            else jnp.asarray(value)
            if is_traced(value)
            else np.asarray(value)
        )
        array = array.astype(float) if array.dtype == object else array  # numbers of Python, perhaps
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be real numbers: {error}.") from error
    # the small floats that NumPy has no letter for are known to jax; asking it first would cost more than an example
    if array.dtype.kind not in "fiub" and not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"{name} must be real numbers; their dtype is {array.dtype}.")
    return array


def arm_numbers(domain: Arms, **values: Any) -> None:
    """Raises ValueError unless every named value is a vector of arm numbers in [0, A)."""
    for name, value in values.items():
        if is_traced(value):
            continue
        numbers = np.asarray(value)
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            raise ValueError(
                f"{name} must be a vector of arm numbers; its shape is {numbers.shape}, its dtype {numbers.dtype}."
            )
        outside = numbers[(numbers < 0) | (numbers >= domain.count)]
        if outside.size:
            raise ValueError(f"{name} names arm {outside[0]}; the arms are 0 to {domain.count - 1}.")

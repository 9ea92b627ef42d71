"""Whether a kernel is one, and fits the inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch.checks.scalars import numbers_of
from jsketch.types import Arms, is_traced
from jsketch.warn import warn

# arms whose Gram matrix is checked
SAMPLED = 32
# of the largest eigenvalue: a negative one beyond is no rounding
INDEFINITE = 1e-4
# of k(x,x), and of the largest variance: what rounding may decide without a word
LARGEST_ROUNDING = 1e-3


def a_kernel(kernel: Any) -> None:
    """Raises ValueError for what is no kernel."""
    if isinstance(kernel, type) or not (hasattr(kernel, "gram") and hasattr(kernel, "diag")):
        raise ValueError(
            "kernel must be a kernel with its numbers, such as kernels.Gaussian(lengthscale=1.0);"
            f" {kernel!r} was given."
        )


def kernel_on(kernel: Any, x: Any) -> None:
    """Raises ValueError for what is no kernel, and, where the kernel itself can say so (a method
    `check`), for numbers that make none and inputs x [n,d] that it is not defined for."""
    a_kernel(kernel)
    if is_traced(kernel, x):
        return
    if hasattr(kernel, "check"):
        kernel.check(x)
    if hasattr(kernel, "check_inputs"):
        kernel.check_inputs(x)


def inputs_of(forecaster: Any, x: Any) -> None:
    """Raises ValueError for examples x [n,d] that the kernel of a forecaster, or of a mixture's, is
    not defined for."""
    kernel: Any = getattr(getattr(forecaster, "forecaster", forecaster), "kernel", None)
    if hasattr(kernel, "check_inputs") and not is_traced(x):
        kernel.check_inputs(x)


def features_of(maker: Any, method: str, wanted: str) -> None:
    """Raises ValueError for a feature map without that method."""
    if isinstance(maker, type) or not callable(getattr(maker, method, None)):
        raise ValueError(f"features must be {wanted}; {maker!r} was given.")


def model(domain: Arms, kernel: Any, regularization: Any) -> None:
    """Raises ValueError for a kernel that does not fit the arms; warns where it is not positive
    semi-definite, and when float32 cannot resolve variances at this regularization (THEORY 9.1)."""
    a_kernel(kernel)
    if is_traced(domain, kernel):
        return
    # inside a user's jit even constants are traced, unless evaluated now
    with jax.ensure_compile_time_eval():
        kernel_on(kernel, domain.features)
        scale = _check_values(domain, kernel)
        _check_quotient(domain, scale, regularization)
        _warn_of_precision(domain, kernel, regularization)


def roundings(kernel: Any, points: Array, others: int) -> ArrayLike:
    """By how many eps k(x,x) the values of a kernel between so many `others` and points [m,d] may
    be off, [] (its method `rounding`, if it has one)."""
    return kernel.rounding(points, others) if hasattr(kernel, "rounding") else 1.0


def spread(domain: Arms, kernel: Any, others: int) -> None:
    """Warns of arms so many lengthscales apart that values between them and so many `others` among
    them are rounded by more than LARGEST_ROUNDING."""
    if is_traced(domain, kernel):
        return
    eps = float(jnp.finfo(domain.features.dtype).eps)
    with jax.ensure_compile_time_eval():
        error = eps * float(np.asarray(_evaluated(roundings, kernel, domain.features, others)))
    if error > LARGEST_ROUNDING:
        single = domain.features.dtype == jnp.float32
        warn(
            f"arms lie up to {(error / eps) ** 0.5:,.0f} lengthscales from their mean, and rounding"
            f" changes k(x, y) of close ones by up to {error:.1g} k(x,x) in"
            f" {domain.features.dtype}. Use {'arms in float64 (jax_enable_x64) or ' * single}larger"
            " lengthscales."
        )


def _evaluated(function: Callable[..., Any], kernel: Any, x: Array, others: int = 0) -> Any:
    """function(kernel, x, others), in one program where the kernel can be an argument of it:
    operation by operation it would compile for a third of a second."""
    leaves = jax.tree.leaves(kernel)
    if all(isinstance(leaf, Array | np.ndarray | np.generic | float | int) for leaf in leaves):
        try:
            return _in_one_program(function, kernel, x, others)
        except jax.errors.JAXTypeError:
            # a kernel of NumPy's operations
            pass
    return function(kernel, x, others)


_in_one_program = jax.jit(
    lambda function, kernel, x, others: function(kernel, x, others), static_argnums=(0, 3)
)


def _gram(kernel: Any, x: Array, _: int) -> Array:
    return kernel.gram(x, x)


def _check_values(domain: Arms, kernel: Any) -> float:
    """The largest k(x,x) among SAMPLED arms."""
    # always as many, so that one shape is compiled
    some = np.linspace(0, domain.count - 1, SAMPLED).astype(np.int32)
    x = domain.features[some]
    try:
        gram = np.asarray(_evaluated(_gram, kernel, x), float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the kernel cannot be evaluated on arms with {domain.features.shape[1]} features"
            f" ({error}). An ARD kernel needs one lengthscale a feature."
        ) from error
    if not np.isfinite(gram).all():
        row, column = np.argwhere(~np.isfinite(gram))[0]
        raise ValueError(
            f"k(x, y) of arms {some[row]} and {some[column]} is {gram[row, column]}: check the"
            f" numbers of the kernel {kernel}."
        )
    eigenvalues = np.linalg.eigvalsh((gram + gram.T) / 2)
    if eigenvalues[0] < -INDEFINITE * max(eigenvalues[-1], 0):
        warn(
            "the kernel is not positive semi-definite on these arms: of the Gram matrix of"
            f" {SAMPLED} of them the least eigenvalue is {eigenvalues[0]:.3g}, the largest"
            f" {eigenvalues[-1]:.3g}. Variances then mean nothing."
        )
    return float(gram.diagonal().max())


def _check_quotient(domain: Arms, scale: float, regularization: Any) -> None:
    if is_traced(regularization):
        return
    dtype = np.dtype(domain.features.dtype)
    least = max(scale, 1) / float(jnp.finfo(dtype).max)
    if float(np.min(numbers_of(regularization))) <= least:
        raise ValueError(
            f"regularization must be above {least:.2g}: variances are k(x,x) divided by it, which"
            f" {dtype.name} ends below; {regularization} was given."
        )


def _warn_of_precision(domain: Arms, kernel: Any, regularization: Any) -> None:
    if is_traced(domain, kernel, regularization) or domain.features.dtype != jnp.float32:
        return
    scale = float(jnp.max(kernel.diag(domain.features[:1])))
    if float(np.min(numbers_of(regularization))) < 1e-3 * scale:
        warn(
            f"regularization {regularization} is too small to be meaningful in float32: residuals"
            " carry an error of about 1e-5 k(x,x), which is divided by it. Use arms in float64"
            f" (jax_enable_x64) or a regularization of at least {1e-3 * scale:g}."
        )

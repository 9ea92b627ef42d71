"""A warning that predictions may have large rounding errors.

Forecasters start from A^-1 = I / lam and subtract the part that each example explains, as the
papers do. The first example in a direction reduces A^-1 in that direction from 1 / lam to
1 / (lam + |z|^2), and the result has a relative error of eps |z|^2 / lam. Every earlier example
adds to this error (THEORY 9.5). On 110 streams the errors of PKAWV's predictions were 0.1 to 35
times eps |z|^2 / lam.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch.struct import numbers_in_dtype
from jsketch.types import is_traced
from jsketch.warn import warn

# limits of eps |z|^2 / lam; at 1e-6 predictions have an error of up to 4e-5 of the labels
LARGEST_ERROR, LARGEST_ERROR_FLOAT32 = 1e-6, 1e-4


def warn_if_large(square: ArrayLike, regularization: Any, dtype: DTypeLike) -> bool:
    """Warns, and returns True, if the regularization is too small in this dtype for examples with
    |z|^2 = square [], which is k(x,x) for a kernel. Traced values are not checked."""
    if is_traced(square, regularization):
        return False
    # by NumPy, because a maximum of an array of JAX compiles a program
    largest_square = float(np.max(np.asarray(square)))
    smallest_lam = float(np.min(np.asarray(regularization)))
    is_float32 = dtype == jnp.float32
    limit = LARGEST_ERROR_FLOAT32 if is_float32 else LARGEST_ERROR
    least_lam = float(jnp.finfo(dtype).eps) * largest_square / limit
    # other checks raise an error for numbers that overflow the dtype
    if least_lam <= smallest_lam or not np.isfinite(largest_square):
        return False
    warn(
        f"regularization {smallest_lam:g} is too small for features with |z|^2 ="
        f" {largest_square:.3g} in {np.dtype(dtype).name}: predictions carry a rounding error of up"
        " to 40 eps |z|^2 / lam of the labels, and more where a direction first occurs after"
        " thousands of examples. Use"
        f" {'float64 (jax_enable_x64), ' if is_float32 else ''}smaller features or a regularization"
        f" of at least {least_lam:.2g}."
    )
    return True


def warn_for_kernel(kernel: Any, x: Array, regularization: Any) -> bool:
    """`warn_if_large` for a kernel at one example x [d]."""
    if is_traced(kernel, x, regularization):
        return False
    with jax.core.eval_context():
        square = _variance(numbers_in_dtype(kernel, x.dtype), np.asarray(x)[None])
    return warn_if_large(np.asarray(square)[0], regularization, x.dtype)


def warn_for_features(features: Any, x: Array, regularization: Any) -> bool:
    """`warn_if_large` for a feature map at one example x [d]."""
    # a feature map that is no pytree cannot be an argument of a compiled program
    square = _square if jax.tree_util.all_leaves([features]) else _compiled_square
    return warn_if_large(square(features, x), regularization, x.dtype)


def _square(features: Any, x: Array) -> Array:
    return jnp.square(features.features(x[None])).sum()


_variance = jax.jit(lambda kernel, x: kernel.diag(x))
_compiled_square = jax.jit(_square)  # without compilation, Taylor features of 22 inputs are slow

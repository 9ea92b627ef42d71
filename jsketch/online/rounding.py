"""A warning before rounding errors decide predictions.

Forecasters start from A^-1 = I / lam and subtract what each example explains, as the papers do. The
first example in a direction reduces A^-1 there from 1 / lam to 1 / (lam + |z|^2): the difference
has a relative error of eps |z|^2 / lam. A block of B examples multiplies that by B^1.5 + B at
worst, and every example before the first one in a direction adds to it (THEORY 9.5). Measured for
PKAWV on 110 streams of 130 to 3,000 examples with 12 to 60 features, |z|^2 from 5 to 20,000 and
labels of size 1: errors of predictions were 0.1 to 35 eps |z|^2 / lam in single steps, and 0.3 to
26 in blocks of 64. Where a direction first occurs after t examples (12 features, t up to 6,000),
they grow by t / 170 in single steps and t / 900 in blocks. Without `penalize_current` they are
sqrt(1 + h) times as large at a prediction with leverage h.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch.types import is_traced
from jsketch.warn import warn

# Limits of eps |z|^2 / lam. In float64 predictions are then off by up to 4e-5 of the labels, and by
# 1e-3 where a direction first occurs after a million examples; float32 has no more digits anyway.
LARGEST_ERROR, LARGEST_ERROR_FLOAT32 = 1e-6, 1e-4


def check(square: ArrayLike, regularization: Any, dtype: DTypeLike) -> bool:
    """Warns, and returns True, where the regularization is too small for examples with |z|^2 =
    square [] (k(x,x) for a kernel) in this dtype. Traced values are not checked."""
    if is_traced(square, regularization):
        return False
    largest, smallest = float(np.max(square)), float(np.min(regularization))
    single = dtype == jnp.float32
    limit = LARGEST_ERROR_FLOAT32 if single else LARGEST_ERROR
    least = float(jnp.finfo(dtype).eps) * largest / limit
    # numbers that overflow the dtype raise another error later
    if least <= smallest or not np.isfinite(largest):
        return False
    warn(
        f"regularization {smallest:g} is too small for features with |z|^2 = {largest:.3g} in"
        f" {np.dtype(dtype).name}: predictions carry a rounding error of up to 40 eps |z|^2 / lam"
        " of the labels, and more where a direction is new after thousands of examples. Use"
        f" {'float64 (jax_enable_x64), ' if single else ''}smaller features or a regularization of"
        f" at least {least:.2g}."
    )
    return True


def check_kernel(kernel: Any, x: Array, regularization: Any) -> bool:
    """`check` for the features of a kernel, by k(x,x) of one example x [d]."""
    if is_traced(kernel, x, regularization):
        return False
    with jax.ensure_compile_time_eval():
        return check(kernel.diag(x[None])[0], regularization, x.dtype)


def check_features(features: Any, x: Array, regularization: Any) -> bool:
    """`check` for a feature map, by one example x [d]."""
    # a map that is a leaf itself cannot be an argument of a compiled program
    square = _square if jax.tree_util.all_leaves([features]) else _compiled_square
    return check(square(features, x), regularization, x.dtype)


def _square(features: Any, x: Array) -> Array:
    return jnp.square(features.features(x[None])).sum()


# operation by operation, Taylor features of 22 inputs take longer than learning 2,048 examples
_compiled_square = jax.jit(_square)

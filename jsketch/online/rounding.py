"""What rounding does to forecasters, said before a stream is lost to it.

They start from A^-1 = I / lam and take out of it what every example explains, as the papers do. The
first step in a direction turns |z|^2 / lam into |z|^2 / (lam + |z|^2) of it: the difference keeps a
relative error of eps |z|^2 / lam. A block of B examples multiplies it by B^1.5 + B at worst, and
every example before a direction is met adds to it (THEORY 9.5). Measured for PKAWV on 110 streams
of 130 to 3,000 examples with 12 to 60 features, |z|^2 from 5 to 20,000 and labels of size 1:
predictions were off by 0.1 to 35 eps |z|^2 / lam in single steps, 0.3 to 26 in blocks of 64. With
directions that are first met after t examples (12 features, t to 6,000): by another t / 170 in
single steps, t / 900 in blocks. Without `penalize_current` it is sqrt(1 + h) times as much where a
prediction has leverage h.
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

# of eps |z|^2 / lam: predictions are then off by up to 4e-5 of the labels in float64, and by 1e-3
# where a direction is first met after a million examples; float32 never promised more than that
LARGEST_STEP, LARGEST_STEP_FLOAT32 = 1e-6, 1e-4


def check(square: ArrayLike, regularization: Any, dtype: DTypeLike) -> bool:
    """Warns when examples with |z|^2 = square [] (k(x,x) for a kernel) and this regularization are
    too much for the dtype; says whether it did. Traced values are not checked."""
    if is_traced(square, regularization):
        return False
    largest, smallest = float(np.max(square)), float(np.min(regularization))
    single = dtype == jnp.float32
    step = LARGEST_STEP_FLOAT32 if single else LARGEST_STEP
    least = float(jnp.finfo(dtype).eps) * largest / step
    # numbers that are too large for the dtype end in an error of their own
    if least <= smallest or not np.isfinite(largest):
        return False
    warn(
        f"regularization {smallest:g} is too small for features with |z|^2 = {largest:.3g} in"
        f" {np.dtype(dtype).name}: predictions carry a rounding error of up to 40 eps |z|^2 / lam"
        " of the labels, and more where a direction is new after thousands of examples. Use"
        f" {'float64 (jax_enable_x64), ' if single else ''}smaller features or a regularization of"
        f" at least {least:.2g}.",
    )
    return True


def check_kernel(kernel: Any, x: Array, regularization: Any) -> bool:
    """`check` for features of a kernel, by k(x,x) of one example x [d]."""
    if is_traced(kernel, x, regularization):
        return False
    with jax.ensure_compile_time_eval():
        return check(kernel.diag(x[None])[0], regularization, x.dtype)

"""What rounding does to forecasters, said before a stream is lost to it; and the elimination of a
block, which keeps its digits.

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
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from jsketch import devices
from jsketch.linalg import matmul
from jsketch.types import is_traced
from jsketch.warn import warn

# of eps |z|^2 / lam: predictions are then off by up to 4e-5 of the labels in float64, and by 1e-3
# where a direction is first met after a million examples; float32 never promised more than that
LARGEST_STEP, LARGEST_STEP_FLOAT32 = 1e-6, 1e-4
PANEL = 32  # columns of a block that are eliminated one by one; the rest is products


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


def check_features(features: Any, x: Array, regularization: Any) -> bool:
    """`check` for the `features` of one example x [d]. Compiled: one after the other, the
    operations of 22 inputs take longer than to learn a chunk of 2,048 examples, and seconds the
    first time."""
    if jax.tree_util.all_leaves([features]):
        # an object that no compiled program takes as an argument
        square = jnp.square(features.features(x[None])).sum()
    else:
        square = _square(features, x)
    return check(square, regularization, x.dtype)


@jax.jit
def _square(features: Any, x: Array) -> Array:
    """|z|^2 [] of x [d]."""
    return jnp.square(features.features(x[None])).sum()


def eliminated(columns: Array, active: Array) -> Array:
    """[L; R L^-T] of columns [S; R], S [B,B] = L L^T symmetric and R [C,B]. Only columns that are
    `active` [B] eliminate: of the others L keeps the root of the pivot, and the rest is zero.

    S may have a condition number of 1 / eps: multipliers and rows are of the same triangle of it,
    and one step of refinement makes a product with L^-1 as good as substitution. Without the one
    predictions are off by up to 5,000 times more, without the other by 500 (THEORY 9.5).
    """
    if devices.on_accelerator():
        return _eliminated_at_once(columns, active)
    parts, size = [], len(active)
    for start in range(0, size, PANEL):
        left, takes = size - start, active[start : start + PANEL]
        count = len(takes)
        lower, inverse = _panel(columns[:count, :count], takes)
        here = columns[count:, :count]
        solved = matmul(here, inverse.T)
        solved = solved + matmul(here - matmul(solved, lower.T), inverse.T)
        solved = jnp.where(takes[None, :], solved, 0)
        parts.append(jnp.pad(jnp.concatenate([lower, solved]), ((start, 0), (0, 0))))
        columns = columns[count:, count:] - matmul(solved, solved[: left - count].T)
    return jnp.concatenate(parts, axis=1)


def _panel(gram: Array, active: Array) -> tuple[Array, Array]:
    """(L, L^-1) [p,p] of a symmetric gram [p,p]; its upper triangle is the one that counts."""
    size = len(active)
    rows = jnp.arange(size, dtype=jnp.int32)[:, None]
    zero = jnp.zeros((), jnp.int32)

    def column(j: Array, both: Array) -> Array:
        row = lax.dynamic_slice_in_dim(both, j, 1, 0)
        # a transpose would cost three times the loop
        # outside a compiled program j is of another integer type
        across = lax.dynamic_slice(both, (j, jnp.zeros_like(j)), (1, size)).reshape(size, 1)
        below = across / lax.dynamic_slice_in_dim(row, j, 1, 1)
        return both - jnp.where((rows > j) & active[j], below, 0) * row

    both = jnp.concatenate([gram, jnp.eye(size, dtype=gram.dtype)], axis=1)
    both = lax.fori_loop(zero, jnp.asarray(size, jnp.int32), column, both)
    both = both / jnp.sqrt(jnp.diagonal(both))[:, None]
    upper, inverse = both[:, :size], both[:, size:]
    strict = jnp.where(active[None, :], jnp.triu(upper, 1).T, 0)
    return strict + jnp.diag(jnp.diagonal(upper)), inverse


def _eliminated_at_once(columns: Array, active: Array) -> Array:
    """`eliminated` by one Cholesky factorization and substitution, for an accelerator, where each
    column would be a launch."""
    size = len(active)
    gram = columns[:size]
    identity = jnp.eye(size, dtype=gram.dtype)
    among = lax.linalg.cholesky(jnp.where(active[:, None] & active[None, :], gram, identity))
    columns = lax.linalg.triangular_solve(
        among, jnp.where(active[None, :], columns, 0), lower=True, transpose_a=True
    )
    strict = jnp.tril(columns[:size], -1)
    root = jnp.sqrt(jnp.diagonal(gram) - jnp.square(strict).sum(1))
    return jnp.concatenate([strict + root[:, None] * identity, columns[size:]])

"""Discounts for targets that drift: the weight of an example falls by gamma with each later one.

The discounted forecaster of Vovk, Azoury and Warmuth (Jacobsen, Cutkosky. ICML 2024, arXiv
2405.19175) by the definition of Xie, Zhang, Zhao, Zhou (arXiv 2602.08372, Section 3.1), with a
derivation of blocks in THEORY 7.12:

    y^_t = z_t.w,  w = argmin sum_{s<t} gamma^(t-s) (y_s - w.z_s)^2 + (w.z_t)^2 + gamma^t lam |w|^2.

Only labelled examples count as time: an example without a label is predicted as if it were the next
one to be learned and changes nothing, so that a stream may be cut and padded anywhere.

Windup. The regularization decays as gamma^t lam. In a direction of the features without examples
A^-1 grows as gamma^-t / lam, which costs the other directions their digits. `winds_up` flags this
before predictions are lost, after about 30 / (1 - gamma) examples at lam = |z|^2 in float64.
The field `renew`, an addition to the papers, prevents it: each example restores the regularization
of one feature, which stays between lam gamma^r and lam. It works for r (1 - gamma) up to about 20;
a shorter window needs fewer features.

Shrinkage. The penalty of the current example divides its prediction by 1 + h, and h is large in
every direction that is rare among the last 1 / (1 - gamma) examples: for inputs uniform on
[-1, 1]^2 and a Gaussian kernel of lengthscale 0.5 predictions have a tenth of their size at gamma =
0.97. `penalize_current=False` (without the guarantee) does not shrink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.linalg import matmul
from jsketch.types import is_traced

# of eps |z|^2 |A^-1|. Measured on dependent features, gamma = 0.9 and 0.95: at the limit errors of
# predictions are up to 5e-3 of the labels in blocks, 8e-3 in single steps and 1.4e-2 for
# `DiscountedKernelAWV`; 50 examples later they are 0.5
LARGEST_WINDUP = 1e-2
# gamma^e at the end of a block, whose last pivots are differences that lose as many digits
LEAST_DISCOUNT = 1e-3


def check(discount: Any) -> None:
    """Raises ValueError unless the discount is one number above 0 and at most 1."""
    checks.positive(discount=discount)
    if not is_traced(discount) and float(discount) > 1:
        raise ValueError(
            f"discount must be at most 1, which keeps all examples; {discount} was given. A window"
            " of n examples is 1 - 1 / n."
        )


def gamma_of(discount: Any, like: Array) -> Array:
    """The discount [] in the dtype of `like`. Outside of (0, 1], which only a traced one can be, it
    becomes NaN, as then do predictions, which infos flag."""
    gamma = jnp.asarray(discount, like.dtype)
    return jnp.where((gamma > 0) & (gamma <= 1), gamma, jnp.nan)


def power(discount: Any, exponents: Array, like: Array) -> Array:
    """gamma^exponents, of integers, in the dtype of `like`."""
    return gamma_of(discount, like) ** exponents.astype(like.dtype)


def block_discounts(discount: Any, learn: Array, like: Array) -> tuple[Array, Array]:
    """(gamma^(e/2) [B], gamma^n []) of a block: n examples are to `learn` [B] bool, and e of them
    come up to and including each example, which counts as labelled itself."""
    learned = jnp.cumsum(learn, dtype=jnp.int32)
    exponents = (learned + (~learn).astype(jnp.int32)).astype(like.dtype)
    return gamma_of(discount, like) ** (exponents / 2), power(discount, learned[-1], like)


def renewal_rows(
    regularization: ArrayLike, discount: Any, labelled: Array, learn: Array, like: Array
) -> Array:
    """[B,r] rows with label zero, one for each example to `learn` [B] after `labelled` [] others:
    each restores the regularization lam of one feature, in turn; `like` [B,r]."""
    size = like.shape[1]
    count = labelled + jnp.cumsum(learn, dtype=jnp.int32)
    # the remaining share since the last renewal, r examples ago, or since the start
    remaining = power(discount, jnp.minimum(count, size), like)
    lam = jnp.asarray(regularization, like.dtype)
    # before the first label the missing share is zero, whose root has no derivative
    missing = jnp.sqrt(jnp.where(learn, lam * (1 - remaining), 1))
    chosen = ((count - 1) % size)[:, None] == jnp.arange(size, dtype=jnp.int32)[None, :]
    return jnp.where(learn[:, None] & chosen, missing[:, None], 0)


def in_short_blocks(
    discount: Any,
    learn_rows: Callable[[Any, Array], tuple[Any, Array, Array]],
    state: Any,
    learn: Array,
    like: Array,
) -> tuple[Any, Array, Array]:
    """(state, g [B], h [B]) of `learn_rows(state, learn [B])`, over as many rows at a time as
    LEAST_DISCOUNT allows: all of a block of 64 for a discount of 0.9 and more."""
    rows = jnp.arange(len(learn), dtype=jnp.int32)
    gamma = gamma_of(discount, like)
    # a discount of 1 would divide by zero
    width = jnp.log(LEAST_DISCOUNT) / jnp.log(jnp.minimum(gamma, 0.999999))
    width = jnp.clip(width.astype(jnp.int32), 1, len(learn))

    def step(i: Array, before: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        state, g, h = before
        in_block = rows // width == i
        state, new_g, new_h = learn_rows(state, learn & in_block)
        return state, jnp.where(in_block, new_g, g), jnp.where(in_block, new_h, h)

    # outside of the loop, which changes the last bits, as one block is the usual case
    first = learn_rows(state, learn & (rows < width))
    return lax.fori_loop(jnp.ones_like(width), (len(learn) + width - 1) // width, step, first)


def symmetrized(state: Any, discount: Any) -> Any:
    """The state with A^-1 replaced by the mean of its two triangles, for a discount below 1: no
    example reduces their difference by rounding, which grows as gamma^-t."""
    inverse = state.inverse
    mean = (inverse + inverse.T) / 2
    return replace(state, inverse=jnp.where(jnp.asarray(discount) < 1, mean, inverse))


def winds_up(inverse: Array, z: Array, leverage: Array, learn: Array) -> Array:
    """[] bool, whether rounding decides predictions after rows z [B,r] with leverages [B], as far
    as they were learned; `inverse` [r,r] is A^-1 after them."""
    # a leverage that large has just been subtracted from A^-1, and directions without examples show
    # as soon as two parts of it do not cancel
    left = matmul(jnp.square(z), jnp.diagonal(inverse))
    largest = jnp.max(jnp.where(learn, jnp.maximum(left, leverage), 0))
    return jnp.finfo(z.dtype).eps * largest > LARGEST_WINDUP

"""Discounts for targets that drift. Every example multiplies the weights of the examples before it
by gamma.

The forecaster is that of Vovk, Azoury and Warmuth with discounts (Jacobsen, Cutkosky. ICML 2024,
arXiv 2405.19175) as Xie, Zhang, Zhao, Zhou define it (arXiv 2602.08372, Section 3.1):

    y^_t = z_t.w,  w = argmin sum_{s<t} gamma^(t-s) (y_s - w.z_s)^2 + (w.z_t)^2 + gamma^t lam |w|^2.

THEORY 7.12 derives updates for blocks, with A the matrix of this quadratic form in w. The time t
counts labelled examples only. An example without a label is predicted as if it were the next
labelled one and does not change the state; a stream may therefore be cut and padded anywhere.

Windup. The regularization decays as gamma^t lam. In a direction of the features without examples
A^-1 grows as gamma^-t / lam, and the other directions lose digits. `winds_up` flags this before
predictions are wrong, after about 30 / (1 - gamma) examples for lam = |z|^2 in float64. With
`renew`, which the papers do not have, each example restores the regularization of one of the r
features; the regularization of every feature then stays between lam gamma^r and lam. This
prevents windup for r (1 - gamma) up to about 20; a smaller gamma needs fewer features.

Shrinkage. The penalty of the current example divides its prediction by 1 + h. The leverage h is
large in every direction that is rare among the last 1 / (1 - gamma) examples. For uniform inputs on
[-1, 1]^2 and a Gaussian kernel of lengthscale 0.5, gamma = 0.97 divides predictions by ten.
`penalize_current=False` does not shrink predictions, and has no guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.numerics import matmul

# The limit of eps |z|^2 |A^-1|, an estimate of the relative error of predictions. For dependent
# features and gamma = 0.9 and 0.95 the measured errors at the limit are at most 5e-3 of the labels
# in blocks, 8e-3 in single steps and 1.4e-2 for `DiscountedKernelAWV`; 50 examples later, 0.5.
LARGEST_RELATIVE_ERROR = 1e-2
# the least gamma^e in a block, with e as in `block_discounts`; the last pivots of a block are
# differences, which lose about log10(gamma^-e) digits
LEAST_DISCOUNT = 1e-3


def check_discount(discount: Any) -> None:
    """Raises ValueError unless the discount is one number above 0 and at most 1."""
    checks.positive(discount=discount)
    checks.fraction(discount=discount)


def gamma_of(discount: Any, like: Array) -> Array:
    """The discount [] in the dtype of `like`. A traced discount outside (0, 1] becomes NaN;
    predictions then are NaN too, and the result is NOT_FINITE."""
    gamma = jnp.asarray(discount, like.dtype)
    return jnp.where((gamma > 0) & (gamma <= 1), gamma, jnp.nan)


def gamma_power(discount: Any, exponents: Array, like: Array) -> Array:
    """gamma^exponents for integer exponents, in the dtype of `like`."""
    return gamma_of(discount, like) ** exponents.astype(like.dtype)


def block_discounts(discount: Any, learn: Array, like: Array) -> tuple[Array, Array]:
    """(roots gamma^(e/2) [B], product gamma^n []) of the discounts in a block, where `learn` [B]
    bool marks n examples, and e is 1 + the number of marked examples before an example."""
    cumulative = jnp.cumsum(learn, dtype=jnp.int32)
    exponents = (cumulative + (~learn).astype(jnp.int32)).astype(like.dtype)
    roots = gamma_of(discount, like) ** (exponents / 2)
    return roots, gamma_power(discount, cumulative[-1], like=like)


def renewal_rows(
    regularization: ArrayLike, discount: Any, labelled: Array, learn: Array, like: Array
) -> Array:
    """Rows [B,r] to be learned with label zero: row b follows example b, and is zero unless `learn`
    [B] marks it. The row after labelled example t restores the regularization lam of feature t
    modulo r; `labelled` [] examples precede the block. `like` [B,r] sets the shape and dtype."""
    n_features = like.shape[1]
    count = labelled + jnp.cumsum(learn, dtype=jnp.int32)
    # the fraction of lam that remains since the last renewal, r examples ago, or since the start
    remaining = gamma_power(discount, jnp.minimum(count, n_features), like=like)
    lam = jnp.asarray(regularization, like.dtype)
    # before the first label the missing fraction is zero, at which the root has no derivative
    missing = jnp.sqrt(jnp.where(learn, lam * (1 - remaining), 1))
    index = jnp.arange(n_features, dtype=jnp.int32)
    is_renewed = ((count - 1) % n_features)[:, None] == index[None, :]
    return jnp.where(learn[:, None] & is_renewed, missing[:, None], 0)


def learn_in_short_blocks(
    discount: Any,
    learn_rows: Callable[[Any, Array], tuple[Any, Array, Array]],
    state: Any,
    learn: Array,
    like: Array,
) -> tuple[Any, Array, Array]:
    """(state, predictions g [B], leverages h [B]) of `learn_rows(state, learn [B])`. It is called
    for blocks of as many rows as LEAST_DISCOUNT permits, which are 65 for a discount of 0.9."""
    rows = jnp.arange(len(learn), dtype=jnp.int32)
    gamma = gamma_of(discount, like)
    # a discount of 1 would divide by zero
    length = jnp.log(LEAST_DISCOUNT) / jnp.log(jnp.minimum(gamma, 0.999999))
    length = jnp.clip(length.astype(jnp.int32), 1, len(learn))

    def step(i: Array, carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        state, g, h = carry
        in_block = rows // length == i
        state, new_g, new_h = learn_rows(state, learn & in_block)
        return state, jnp.where(in_block, new_g, g), jnp.where(in_block, new_h, h)

    # the first block, usually the only one, is not in the loop: the loop would change the last bits
    first_block = learn_rows(state, learn & (rows < length))
    n_blocks = (len(learn) + length - 1) // length
    return lax.fori_loop(jnp.ones_like(length), n_blocks, step, first_block)


def symmetrize_if_discounted(state: Any, discount: Any) -> Any:
    """The state, with A^-1 replaced by the mean of A^-1 and its transpose if the discount is below
    1, because rounding then makes the two differ by an amount that grows as gamma^-t."""
    inverse = state.inverse
    mean = (inverse + inverse.T) / 2
    return replace(state, inverse=jnp.where(jnp.asarray(discount) < 1, mean, inverse))


def winds_up(inverse: Array, z: Array, leverage: Array, learn: Array) -> Array:
    """Whether A^-1 is so large that rounding errors dominate predictions, [] bool. `inverse` [r,r]
    is A^-1 after the update with those rows of z [B,r] that `learn` [B] marks, and `leverage` [B]
    are their leverages before this update."""
    # The update subtracted terms as large as a leverage from A^-1. The diagonal of A^-1 is large
    # in directions without examples.
    growth = matmul(jnp.square(z), jnp.diagonal(inverse))
    largest = jnp.max(jnp.where(learn, jnp.maximum(growth, leverage), 0))
    return jnp.finfo(z.dtype).eps * largest > LARGEST_RELATIVE_ERROR

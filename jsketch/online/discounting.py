"""Forgetting for targets that drift: an example counts gamma times less with each one after it.

The discounted forecaster of Vovk, Azoury and Warmuth (Jacobsen, Cutkosky. Online linear regression
in dynamic environments via discounting. ICML 2024, arXiv 2405.19175), in features of a kernel's
space as Rokhlin (arXiv 2506.22631) runs it. Neither text was at hand in full: the definition is
the one that public code quotes from later work (Xie, Zhang, Zhao, Zhou, arXiv 2602.08372, Section
3.1),

    y^_t = z_t.w,  w = argmin sum_{s<t} gamma^(t-s) (y_s - w.z_s)^2 + (w.z_t)^2 + gamma^t lam |w|^2,

and the rest is derived here (THEORY 7.12). Time passes with labelled examples alone: one without a
label is predicted as if it were the next to be learned, and changes nothing, so that a stream may
be cut and filled up anywhere.

Windup. The regularization is forgotten as gamma^t lam: where examples leave a direction of the
features out, A^-1 grows as gamma^-t / lam in it, which takes the digits of all other directions
and in the end overflows. Features that are excited in all directions never come there. A flag
(`wound_up`) stops a stream before its predictions are lost, after some 30 / (1 - gamma) examples at
lam = |z|^2 in float64. `PKAWV.renew` keeps the regularization instead, of one feature an example:
each has between lam gamma^r and lam of it for ever. That is no part of the papers. It serves up to
r (1 - gamma) ~ 20; a window far shorter than the number r of features needs fewer features.

Shrinking. The penalty of the current example shrinks its prediction by 1 + h, and h is large in
every direction that the last 1 / (1 - gamma) examples hardly had. With rich features that is nearly
every input: inputs uniform on [-1, 1]^2 under a Gaussian kernel of lengthscale 0.5 are predicted
with a tenth of their size at gamma = 0.97, and well with `penalize_current=False` (projected kernel
ridge regression, without the guarantee). No flag is raised, as nothing is inexact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul
from jsketch.types import is_traced

# of eps |z|^2 |A^-1|; measured on dependent features, gamma = 0.9 and 0.95: when it is reached
# predictions are off by up to 5e-3 of the labels in blocks and 8e-3 in single steps, 50 examples
# later by 0.5; those of `KernelAWV` by 1.4e-2
LARGEST_WINDUP = 1e-2
# gamma^e at the end of a block: its last pivots are differences that lose as many digits
LEAST_DISCOUNT = 1e-3


@struct.dataclass
class RenewedState:
    """Ridge regression in r features whose regularization is renewed."""

    inverse: Array  # [r, r], A^-1
    weights: Array  # [r]
    labelled: Array  # [] int32, examples learned


def check(discount: Any, renew: bool = False) -> None:
    """Raises ValueError unless the discount is None or one number above 0 and at most 1, and for
    `renew` without one."""
    checks.truth(renew=renew)
    if discount is None:
        if renew:
            raise ValueError(
                "renew keeps the regularization of a forecaster that forgets: give it a discount,"
                " such as discount=0.99."
            )
        return
    checks.positive(discount=discount)
    if not is_traced(discount) and float(discount) > 1:
        raise ValueError(
            f"discount must be at most 1, which forgets nothing; {discount} was given. A window of"
            " n examples is 1 - 1 / n."
        )


def gamma_of(discount: Any, like: Array) -> Array:
    """The discount [] in the dtype of `like`. A traced one that is not above 0 and at most 1
    becomes NaN, as then do predictions, which infos flag."""
    gamma = jnp.asarray(discount, like.dtype)
    return jnp.where((gamma > 0) & (gamma <= 1), gamma, jnp.nan)


def power(discount: Any, exponents: Array, like: Array) -> Array:
    """gamma^exponents, of integers, in the dtype of `like`."""
    return gamma_of(discount, like) ** exponents.astype(like.dtype)


def fading(discount: Any, learn: Array, like: Array) -> tuple[Array, Array]:
    """(gamma^(e/2) [B], gamma^n []) of a block, with e the labelled examples up to each one as if
    it had a label, n those of `learn` [B] bool."""
    passed = jnp.cumsum(learn, dtype=jnp.int32)
    exponents = (passed + (~learn).astype(jnp.int32)).astype(like.dtype)
    return gamma_of(discount, like) ** (exponents / 2), power(discount, passed[-1], like)


def roots_of_weights(discount: Any, learn: Array, like: Array) -> Array:
    """gamma^(l/2) [n] of examples in order, l the number learned after each; `learn` [n] bool."""
    passed = jnp.cumsum(learn, dtype=jnp.int32)
    exponents = (passed[-1] - passed).astype(like.dtype)
    return gamma_of(discount, like) ** (exponents / 2)


def renewals(
    regularization: ArrayLike, discount: Any, labelled: Array, learn: Array, like: Array
) -> Array:
    """[B,r], for each example that is learned the row, with label zero, that brings the
    regularization of one feature, each in its turn, back to lam; `like` [B,r]."""
    size = like.shape[1]
    count = labelled + jnp.cumsum(learn, dtype=jnp.int32)
    # what it still has: its last turn was r examples ago, or there was none
    left = power(discount, jnp.minimum(count, size), like)
    lam = jnp.asarray(regularization, like.dtype)
    # before the first label nothing is missing, and a root of zero has no derivative
    missing = jnp.sqrt(jnp.where(learn, lam * (1 - left), 1))
    turn = ((count - 1) % size)[:, None] == jnp.arange(size, dtype=jnp.int32)[None, :]
    return jnp.where(learn[:, None] & turn, missing[:, None], 0)


def renewed(
    regularization: ArrayLike, discount: Any, before: Array, after: Array, like: Array
) -> Array:
    """[r], what renewals add to the regularization of each feature from so many examples learned
    to so many; `like` [r]."""
    size = like.shape[0]
    turn = jnp.arange(size, dtype=jnp.int32)

    def age(learned: Array) -> Array:
        return jnp.where(learned > turn, (learned - 1 - turn) % size, learned)

    left = power(discount, age(before) + after - before, like)
    gained = power(discount, age(after), like) - left
    return jnp.asarray(regularization, like.dtype) * gained


def in_spans(
    discount: Any,
    learned: Callable[[Any, Array], tuple[Any, Array, Array]],
    state: Any,
    learn: Array,
    like: Array,
) -> tuple[Any, Array, Array]:
    """(state, g [B], h [B]) of `learned(state, rows to learn [B] bool)`, over as many examples at a
    time as LEAST_DISCOUNT allows: all of a block of 64 for a discount of 0.9 and more."""
    rows = jnp.arange(len(learn), dtype=jnp.int32)
    gamma = gamma_of(discount, like)
    # a discount of 1 would divide by zero
    width = jnp.log(LEAST_DISCOUNT) / jnp.log(jnp.minimum(gamma, 0.999999))
    width = jnp.clip(width.astype(jnp.int32), 1, len(learn))

    def one(i: Array, before: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        state, g, h = before
        here = rows // width == i
        state, new_g, new_h = learned(state, learn & here)
        return state, jnp.where(here, new_g, g), jnp.where(here, new_h, h)

    # outside of a loop, which changes the last bits, where one time is enough
    first = learned(state, learn & (rows < width))
    return lax.fori_loop(jnp.ones_like(width), (len(learn) + width - 1) // width, one, first)


def interleaved(rows: Array, between: Array) -> Array:
    """[2B, ...], each of `rows` [B, ...] before that of `between`."""
    return jnp.stack([rows, between], axis=1).reshape(-1, *rows.shape[1:])


def symmetric(state: Any, discount: Any) -> Any:
    """The state without what rounding has put between the two triangles of A^-1: no example takes
    it out again, and after t more there is gamma^-t times as much of it. As it is for a discount of
    1 or none."""
    if discount is None:
        return state
    inverse = state.inverse
    mean = (inverse + inverse.T) / 2
    return replace(state, inverse=jnp.where(jnp.asarray(discount) < 1, mean, inverse))


def wound_up(inverse: Array, z: Array, leverage: Array, learn: Array) -> Array:
    """[] bool, whether rounding decides on predictions: of those rows of z [B,r], with leverages
    [B] before each, that were learned; `inverse` [r,r] is A^-1 after them.

    A leverage that large has just been taken out of A^-1, or what is in it of directions that no
    example has would be felt as soon as two parts of it do not cancel.
    """
    left = matmul(jnp.square(z), jnp.diagonal(inverse))
    largest = jnp.max(jnp.where(learn, jnp.maximum(left, leverage), 0))
    return jnp.finfo(z.dtype).eps * largest > LARGEST_WINDUP

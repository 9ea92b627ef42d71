"""Fits of a parametric law to evaluations, and the posterior of its parameters and values.

The model of a value is y = f(x; z) + g(x) + noise. f is the law with coordinates z [p]
(`box.Parametric`), which have the prior N(0, I) between their bounds. g is a discrepancy, a
Gaussian process that is zero unless the data speak for it (`misfit`).

1. `fit`: z is the maximum of the posterior density, from many starts, for the standard deviation of
   the noise that has the largest evidence.
2. `posterior`: f is linearised in z, which makes the model a linear one (Laplace's approximation).
   The matrix of its precision, J^T D^-1 J + I, is Sigma_t / sigma^2 of GO-UCB (eq. 3) with lam =
   sigma^2, and z is its w_t.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import betainc
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.box.go_ucb.parametric import Parametric
from jsketch.box.history import moments
from jsketch.kernels import Matern
from jsketch.numerics import matmul
from jsketch.types import PRNGKey

# standard deviations of the noise whose evidence is compared, in standard deviations of the values:
# where there are fewer values than parameters, small residuals do not say that the noise is small
NOISE_LEVELS = (0.003, 0.02, 0.06, 0.15, 0.4, 1.0)
NOISE_DOF = 1.0  # degrees of freedom that the best level has in the estimate of the noise
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-8, 1e8
# the lengthscales of a discrepancy, in diagonals of the unit cube; its share of the variance that
# the law does not explain; and this variance, in units of the estimated one
LENGTHSCALES, SHARES, VARIANCES = (0.15, 0.3, 0.6), (0.5, 0.8, 0.95, 0.99), (0.5, 1.0, 2.0, 4.0)
# the same variance without a discrepancy, down to that of values without noise
VARIANCES_ALONE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
# Gains of log evidence, and the least degrees of freedom of the residuals: from EVIDENCE_ADDED on
# a discrepancy is added, and from EVIDENCE on the law is said not to describe the values. An early
# discrepancy corrects a wrong law, and leaves a right one as it is
EVIDENCE_ADDED, EVIDENCE = 1.0, 3.0
NONLINEAR = 0.1  # share of the variance of draws that a linearised law may miss
SIMILAR_EVIDENCE = 2.0  # fits with so much less log evidence than the best one count as fits too


class Values(NamedTuple):
    """Evaluations in N slots."""

    x: Array  # [N, d]
    unit: Array  # [N, d], the same points in the unit cube
    y: Array  # [N], zero where `ok` is false
    ok: Array  # [N] bool


@struct.dataclass
class Discrepancy:
    """The Gaussian process g of what the law does not describe; variance 0 means that it is 0."""

    variance: Array  # []
    lengthscale: Array  # [], in sides of the box
    noise: Array  # [], the variance of the noise beside it
    evidence: Array  # [], log evidence of the best discrepancy minus that of none

    is_needed: Array  # [] bool, whether the law does not describe the values without it

    def gram(self, unit: Array, other: Array) -> Array:
        """Cov(g(u), g(v)) [n, m]."""
        return self.variance * Matern(self.lengthscale).gram(unit, other)


@struct.dataclass
class LawFit:
    """The result of a fit."""

    z: Array  # [p], coordinates of the parameters
    variance: Array  # [], of the noise; estimated unless it is known
    dof: Array  # [], degrees of freedom of this estimate; infinite if it is known
    discrepancy: Discrepancy
    left_out: Array  # [] int32, evaluations at which the law is not finite


def empty_fit(law: Parametric, like: Array) -> LawFit:
    """The fit without evaluations: the guesses."""
    one = jnp.ones((), like.dtype)
    none = Discrepancy(0 * one, one, one, 0 * one, jnp.zeros((), bool))
    z = jnp.zeros(law.size, like.dtype)
    return LawFit(z, one, one * NOISE_DOF, none, jnp.zeros((), jnp.int32))


class Linear(NamedTuple):
    """The law at coordinates z, linearised at N points; zero where a slot is not used."""

    residual: Array  # [N], y - f
    jacobian: Array  # [N, p]
    used: Array  # [N] bool


def linearised(law: Parametric, z: Array, values: Values) -> Linear:
    """The law at z; points at which it is not finite are left out."""
    f, jacobian = jax.vmap(jax.value_and_grad(law.apply), (None, 0))(z, values.x)
    used = values.ok & jnp.isfinite(f) & jnp.isfinite(jacobian).all(1)
    residual = jnp.where(used, values.y - f, 0)
    return Linear(residual, jnp.where(used[:, None], jacobian, 0), used)


def spread(values: Values) -> Array:
    """The standard deviation [] of the values; 1 if they are equal up to rounding."""
    unit, mean, deviation = moments(values.y, values.ok)
    rounding = jnp.sqrt(jnp.finfo(values.y.dtype).eps) * jnp.abs(mean)
    scale = unit * jnp.maximum(deviation, rounding)
    return jnp.where(scale > 0, scale, 1)


def loss(law: Parametric, values: Values, variance: Array, z: Array, centre: Array) -> Array:
    """-2 log posterior density [] of coordinates z [p], up to a constant, for noise of a known
    variance and the prior N(centre, I). A point at which the law is not finite is as bad as a
    residual of its value."""
    f = jax.vmap(law.apply, (None, 0))(z, values.x)
    residual = values.y - jnp.where(jnp.isfinite(f), f, 0)
    squares = jnp.where(values.ok, jnp.square(residual), 0).sum()
    return squares / variance + jnp.square(z - centre).sum()


def descend(
    law: Parametric, values: Values, variance: Array, z: Array, centre: Array, steps: int
) -> tuple[Array, Array]:
    """(z [p], loss []) after damped Gauss-Newton steps from z [p], with the prior N(centre, I). A
    coordinate at its bound moves only inwards."""
    scales = law.scales(z.dtype)
    identity = jnp.eye(law.size, dtype=z.dtype)
    z = jnp.clip(z, scales.lower, scales.upper)

    def step(_: int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        z, best, damping = carry
        linear = linearised(law, z, values)
        slope = matmul(linear.residual, linear.jacobian) / variance - (z - centre)
        precision = matmul(linear.jacobian.T, linear.jacobian) / variance + identity
        free = ~((z <= scales.lower) & (slope < 0) | (z >= scales.upper) & (slope > 0))
        precision = jnp.where(free[:, None] & free[None, :], precision, identity)
        precision += damping * jnp.diag(jnp.diagonal(precision))
        move = jax.scipy.linalg.solve(precision, jnp.where(free, slope, 0), assume_a="pos")
        new = jnp.clip(z + move, scales.lower, scales.upper)
        new_loss = loss(law, values, variance, new, centre)
        better = new_loss < best  # false for NaN
        damping = jnp.where(better, damping / 5, damping * 4)
        damping = jnp.clip(damping, LEAST_DAMPING, MOST_DAMPING)
        return jnp.where(better, new, z), jnp.where(better, new_loss, best), damping

    start = jnp.nan_to_num(loss(law, values, variance, z, centre), nan=jnp.inf)
    damping = jnp.asarray(FIRST_DAMPING, z.dtype)
    z, best, _ = lax.fori_loop(0, steps, step, (z, start, damping))
    return z, best


def log_evidence(law: Parametric, values: Values, variance: Array, z: Array, best: Array) -> Array:
    """The log evidence [] of noise of this variance, by Laplace's approximation at the fit z."""
    jacobian = linearised(law, z, values).jacobian
    precision = matmul(jacobian.T, jacobian) / variance + jnp.eye(law.size, dtype=z.dtype)
    scale = jnp.sqrt(jnp.diagonal(precision))
    lower = jnp.linalg.cholesky(precision / (scale[:, None] * scale[None, :]))
    half_logdet = (jnp.log(jnp.diagonal(lower)) + jnp.log(scale)).sum()
    return -(best + values.ok.sum(dtype=z.dtype) * jnp.log(variance)) / 2 - half_logdet


def fit(
    law: Parametric,
    values: Values,
    start: Array,
    key: PRNGKey,
    restarts: int,
    steps: int,
    noise_std: Array | None,
) -> LawFit:
    """The fit of the law to the values.

    start      [p], coordinates of the last fit, from which one descent starts; another one starts
               from the guesses, and `restarts` from random coordinates
    noise_std  [], the known standard deviation of the noise; None: it is that of NOISE_LEVELS whose
               fit has the largest evidence, and is then estimated from the residuals
    """
    random = jax.vmap(law.init, (0, None))(jax.random.split(key, restarts), values.x[0])
    starts = jnp.concatenate([start[None], jnp.zeros_like(start)[None], random])

    def at_level(variance: Array) -> tuple[Array, Array]:
        zero = jnp.zeros_like(start)  # the guesses
        ends, losses = jax.vmap(lambda z: descend(law, values, variance, z, zero, steps))(starts)
        winner = jnp.argmin(losses)
        evidence = log_evidence(law, values, variance, ends[winner], losses[winner])
        return ends[winner], jnp.where(jnp.isfinite(evidence), evidence, -jnp.inf)

    if noise_std is None:
        levels = jnp.square(spread(values) * jnp.asarray(NOISE_LEVELS, start.dtype))
        fits, evidence = jax.vmap(at_level)(levels)
        best = jnp.argmax(evidence)
        z = fits[best]
        linear = linearised(law, z, values)
        variance, dof = noise_variance(linear, jnp.sqrt(levels[best]))
    else:
        variance = jnp.square(jnp.asarray(noise_std, start.dtype))
        z, _ = at_level(variance)
        linear, dof = linearised(law, z, values), jnp.full_like(variance, jnp.inf)
    left_out = (values.ok & ~linear.used).sum(dtype=jnp.int32)
    zero, false = jnp.zeros_like(variance), jnp.zeros((), bool)
    none = Discrepancy(zero, jnp.ones_like(variance), variance, zero, false)
    return LawFit(z, variance, dof, none, left_out)


def noise_variance(linear: Linear, noise: Array) -> tuple[Array, Array]:
    """(the variance [] of the noise, its degrees of freedom []). The fit uses up tr(J^T J (J^T J +
    variance I)^-1) degrees of freedom, at most p (MacKay 1992)."""
    squares = jnp.square(linear.residual).sum() + NOISE_DOF * jnp.square(noise)
    count = linear.used.sum(dtype=squares.dtype)
    lengths = jnp.maximum(jnp.linalg.eigvalsh(matmul(linear.jacobian.T, linear.jacobian)), 0)

    def dof(variance: Array) -> Array:
        return NOISE_DOF + jnp.maximum(count - (lengths / (lengths + variance)).sum(), 0)

    start = squares / (count + NOISE_DOF)
    variance = lax.fori_loop(0, 10, lambda _, v: squares / dof(v), start)
    return variance, dof(variance)


def draws(
    law: Parametric, fit: LawFit, values: Values, key: PRNGKey, count: int, steps: int
) -> Array:
    """Coordinates [count, p] of the parameters that the values allow: fits to values and to a prior
    that are perturbed by their own noise, which for a linear law are draws from the posterior
    (randomised maximum likelihood; Oliver, He, Reynolds 1996). Where a law has several fits, the
    draws are near several of them. Each has two starts, the fit and the perturbed prior, of `steps`
    Gauss-Newton steps."""
    scales = law.scales(fit.z.dtype)

    def draw(key: PRNGKey) -> Array:
        prior_key, noise_key = jax.random.split(key)
        centre = jax.random.normal(prior_key, fit.z.shape, fit.z.dtype)
        noise = jnp.sqrt(fit.variance) * jax.random.normal(noise_key, values.y.shape, fit.z.dtype)
        perturbed = values._replace(y=jnp.where(values.ok, values.y + noise, 0))
        starts = jnp.stack([fit.z, jnp.clip(centre, scales.lower, scales.upper)])
        ends, losses = jax.vmap(lambda z: descend(law, perturbed, fit.variance, z, centre, steps))(
            starts
        )
        return ends[jnp.argmin(losses)]

    return jax.vmap(draw)(jax.random.split(key, count))


def deviations(fit: LawFit, drawn: Array) -> tuple[Array, Array]:
    """The posterior standard deviations [p] of z below and above the fit, from `draws` [n, p]. They
    differ where the law is far from linear."""
    move = drawn - fit.z[None]

    def one_sided(move: Array) -> Array:
        count = jnp.maximum((move > 0).sum(0), 1).astype(move.dtype)
        return jnp.sqrt(jnp.square(jnp.maximum(move, 0)).sum(0) / count)

    return one_sided(-move), one_sided(move)


def similar_fits(
    law: Parametric, fit: LawFit, values: Values, key: PRNGKey, count: int, steps: int
) -> Array:
    """Coordinates [count + 1, p] of the fit, and of fits from `count` random starts with `steps`
    Gauss-Newton steps; in place of those with clearly less log evidence than the best one
    (SIMILAR_EVIDENCE) there is the fit again. `draws` do not find them all, because most draws end
    near the fit, from which they start."""
    zero = jnp.zeros_like(fit.z)
    random = jax.vmap(law.init, (0, None))(jax.random.split(key, count), values.x[0])
    starts = jnp.concatenate([fit.z[None], random])

    def from_start(z: Array) -> tuple[Array, Array]:
        z, best = descend(law, values, fit.variance, z, zero, steps)
        return z, log_evidence(law, values, fit.variance, z, best)

    ends, evidence = jax.vmap(from_start)(starts)
    evidence = jnp.where(jnp.isfinite(evidence), evidence, -jnp.inf)
    is_similar = jnp.isfinite(evidence) & (evidence >= evidence.max() - SIMILAR_EVIDENCE)
    return jnp.where(is_similar[:, None], ends, fit.z[None])


def is_nearly_linear(law: Parametric, fit: LawFit, drawn: Array, x: Array) -> Array:
    """[] bool, whether the law that is linearised at the fit has the values of the laws of `drawn`
    coordinates [n, p] at points x [q, d], up to the share NONLINEAR of their variance. Values that
    are not finite do not count, and a linearisation that is not finite is not near to those that
    are."""

    def parts(x: Array) -> tuple[Array, Array]:
        f, gradient = jax.value_and_grad(law.apply)(fit.z, x)
        values = jax.vmap(law.apply, (0, None))(drawn, x)
        is_finite = jnp.isfinite(values)
        errors = jnp.where(is_finite, values - f - matmul(drawn - fit.z[None], gradient), 0)
        n_finite = jnp.maximum(is_finite.sum(), 1).astype(values.dtype)
        mean = jnp.where(is_finite, values, 0).sum() / n_finite
        return jnp.square(errors).sum(), jnp.where(is_finite, jnp.square(values - mean), 0).sum()

    error, variance = (part.sum() for part in jax.vmap(parts)(x))
    return error <= NONLINEAR * variance


def held(law: Parametric, fit: LawFit, values: Values) -> Array:
    """[p] int32, which bound holds a coordinate of the fit, because the posterior density increases
    beyond it: -1 the lower one, 1 the upper one, 0 none."""
    scales = law.scales(fit.z.dtype)
    linear = linearised(law, fit.z, values)
    slope = matmul(linear.residual, linear.jacobian) / fit.variance - fit.z
    below, above = (fit.z <= scales.lower) & (slope < 0), (fit.z >= scales.upper) & (slope > 0)
    return above.astype(jnp.int32) - below.astype(jnp.int32)


def misfit(fit: LawFit, law: Parametric, values: Values) -> Discrepancy:
    """The discrepancy with the largest evidence, whose variance is 0 unless it increases the log
    evidence by EVIDENCE_ADDED; it is needed if it does so by EVIDENCE. The evidence is that of the
    linearised law."""
    linear = linearised(law, fit.z, values)
    centred = linear.residual + matmul(linear.jacobian, fit.z)
    tangent = matmul(linear.jacobian, linear.jacobian.T)
    dtype, d = fit.z.dtype, values.x.shape[1]
    lengthscales = jnp.sqrt(d) * jnp.asarray(LENGTHSCALES, dtype)
    pairs = linear.used[:, None] & linear.used[None, :]
    grams = jax.vmap(lambda s: Matern(s).gram(values.unit, values.unit))(lengthscales)
    identity = jnp.eye(len(centred), dtype=dtype)

    def evidence(gram: Array, share: Array, factor: Array) -> Array:
        rest = fit.variance * factor * (share * gram + (1 - share) * identity)
        lower = jnp.linalg.cholesky(jnp.where(pairs, tangent + rest, identity))
        half = solve_triangular(lower, centred, lower=True)
        return -jnp.square(half).sum() / 2 - jnp.log(jnp.diagonal(lower)).sum()

    factors, shares = jnp.asarray(VARIANCES, dtype), jnp.asarray(SHARES, dtype)
    of_factors = jax.vmap(evidence, (None, None, 0))
    of_shares = jax.vmap(of_factors, (None, 0, None))
    on_grid = jax.vmap(of_shares, (0, None, None))(grams, shares, factors)  # [3, 4, 4]
    alone = jnp.asarray(VARIANCES_ALONE, dtype)
    none = jnp.nan_to_num(of_factors(grams[0], jnp.zeros((), dtype), alone), nan=-jnp.inf).max()
    best = jnp.argmax(jnp.where(jnp.isfinite(on_grid), on_grid, -jnp.inf))
    i, j, k = jnp.unravel_index(best, on_grid.shape)
    gain = on_grid.ravel()[best] - none
    free = linear.used.sum(dtype=dtype) - jnp.minimum(law.size, linear.used.sum(dtype=dtype))
    is_added, is_needed = ((gain > least) & (free >= least) for least in (EVIDENCE_ADDED, EVIDENCE))
    total = fit.variance * factors[k]
    return Discrepancy(
        variance=jnp.where(is_added, total * shares[j], 0),
        lengthscale=lengthscales[i],
        noise=jnp.where(is_added, total * (1 - shares[j]), fit.variance),
        evidence=gain,
        is_needed=is_needed,
    )


class Posterior(NamedTuple):
    """The posterior of the linearised law and of the discrepancy, factorized for many points."""

    law: Parametric
    fit: LawFit
    unit: Array  # [N, d]
    used: Array  # [N] bool
    inverse: Array  # [N, N], L^-1 of the covariance D = L L^T of discrepancy and noise
    jacobian: Array  # [N, p], L^-1 J
    factor: Array  # [p, p], U^-1 with U U^T = J^T D^-1 J + I
    move: Array  # [p], the change of z by the discrepancy; 0 without one
    weights: Array  # [N], L^-1 (residual - J move)

    def predict(self, x: Array, unit: Array) -> tuple[Array, Array]:
        """(mean [], variance []) of the function without noise at a point, x [d] in the box and
        `unit` [d] in the unit cube."""
        f, gradient = jax.value_and_grad(self.law.apply)(self.fit.z, x)
        discrepancy = self.fit.discrepancy
        cross = jnp.where(self.used, discrepancy.gram(unit[None], self.unit)[0], 0)
        half = matmul(self.inverse, cross)
        rest = matmul(self.factor, gradient - matmul(half, self.jacobian))
        variance = jnp.square(rest).sum() + discrepancy.variance - jnp.square(half).sum()
        mean = f + matmul(gradient, self.move) + matmul(half, self.weights)
        tiny = jnp.finfo(f.dtype).eps * self.fit.variance
        return mean, jnp.maximum(variance, tiny)

    def covariance(self) -> Array:
        """The covariance [p, p] of z."""
        return matmul(self.factor.T, self.factor)


def posterior(law: Parametric, fit: LawFit, values: Values) -> Posterior:
    """The posterior given the values."""
    linear = linearised(law, fit.z, values)
    pairs = linear.used[:, None] & linear.used[None, :]
    noise = jnp.diag(jnp.where(linear.used, fit.discrepancy.noise, 1))
    covariance = jnp.where(pairs, fit.discrepancy.gram(values.unit, values.unit), 0) + noise
    inverse = inverse_factor(covariance)
    jacobian, residual = matmul(inverse, linear.jacobian), matmul(inverse, linear.residual)
    identity = jnp.eye(law.size, dtype=fit.z.dtype)
    factor = inverse_factor(matmul(jacobian.T, jacobian) + identity)
    slope = matmul(residual, jacobian) - fit.z
    has_discrepancy = fit.discrepancy.variance > 0
    # without a discrepancy z is the maximum already, and a slope that is left is one at a bound
    move = jnp.where(has_discrepancy, matmul(factor.T, matmul(factor, slope)), 0)
    weights = residual - matmul(jacobian, move)
    weights = jnp.where(has_discrepancy, weights, 0)
    return Posterior(law, fit, values.unit, linear.used, inverse, jacobian, factor, move, weights)


def expected(law: Parametric, fit: LawFit, values: Values, extra: Values) -> Values:
    """The values and, after them, those of the points of `extra`, with their posterior means. Such
    values, of points that are pending, reduce the variance, and leave the mean as it is
    (hallucination, as in GP-BUCB)."""
    known = posterior(law, fit, values)
    means = jax.vmap(known.predict)(extra.x, extra.unit)[0]
    has_mean = extra.ok & jnp.isfinite(means)
    extra = extra._replace(y=jnp.where(has_mean, means, 0), ok=has_mean)
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), values, extra)


def inverse_factor(matrix: Array) -> Array:
    """L^-1 of a positive definite matrix L L^T."""
    # scaled to a unit diagonal, because coordinates have very different precisions
    scale = 1 / jnp.sqrt(jnp.diagonal(matrix))
    lower = jnp.linalg.cholesky(matrix * scale[:, None] * scale[None, :])
    identity = jnp.eye(len(matrix), dtype=matrix.dtype)
    return solve_triangular(lower, identity, lower=True) * scale[None, :]


def student_quantile(dof: Array, level: ArrayLike) -> Array:
    """The number q [] with P(|T| <= q) = level for Student's t with `dof` degrees of freedom, by
    bisection of the incomplete beta function."""
    dof = jnp.minimum(dof, 1e6)  # beyond it the normal quantile is exact to six digits

    def step(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        outside = betainc(dof / 2, jnp.full_like(dof, 0.5), dof / (dof + middle**2))
        return jnp.where(outside > 1 - level, middle, low), jnp.where(
            outside > 1 - level, high, middle
        )

    zero = jnp.zeros_like(dof)
    return lax.fori_loop(0, 50, step, (zero, zero + 700.0))[1]

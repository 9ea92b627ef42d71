"""The posterior of a Gaussian process as a function of the inputs: at any points, not only at arms.

`of` takes it from the state of an algorithm, and `condition` computes it from a history. Exact and
sketched posteriors have the same form. With the values k_S(x) [M] of the kernel between x and M
points S,

    mean(x) = m + k_S(x) . w,
    covariance(x, x') = k(x, x') - k_S(x)^T (E E^T - D D^T) k_S(x').

For the exact posterior (Rasmussen and Williams, 2006, equations 2.25 and 2.26) S are the evaluated
points, E E^T is the inverse of the covariance of their values, and D has no columns. For a sketch S
is the dictionary, E^T k_S(x) are the Nystrom features z(x), and D D^T = lam R V^-1 R^T: this is
lam times the covariance k~ of BBKB, equation 2.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.core import posterior as sketched
from jsketch.numerics import matmul, shifted_cholesky
from jsketch.posterior import exact, likelihood
from jsketch.posterior.likelihood import Values
from jsketch.struct import numbers_in_dtype
from jsketch.types import PRNGKey, is_traced

# The largest shift of a covariance, relative to max k(x,x), that rounding errors can require
LARGEST_SHIFT = 1e-3
# largest number of arms at which `of` compares a state with the algorithm, and the error that
# low-rank updates and near copies of arms may explain, relative to k(x,x)
COMPARED_ARMS, LARGEST_ERROR = 64, 1e-3


@struct.dataclass
class GaussianProcess:
    """The posterior of a function f at any points x [n, d].

    Means have the units of the rewards, and variances and covariances these units squared. They are
    those of f, without the noise of an evaluation; a new reward at x has the variance
    `variance(x) + noise`. (The `variance` of a bandit's state is in leverage units, that is,
    divided by the regularization.) The methods work under `jit`, `vmap` and `grad`. A stack of
    posteriors, such as those of several seeds, is a pytree over which `jax.vmap` maps.

    A derivative with respect to the numbers of the kernel or to the noise includes the history only
    if the function that is differentiated calls `condition`.

    kernel      a kernel of `jsketch.kernels`
    points      [M, d], the evaluated points, or the inducing points
    weights     [M], mean(x) = prior_mean + k(x, points) . weights
    explained   [M, M], E: |E^T k(points, x)|^2 is the variance that the points explain
    remaining   [M, P], D: |D^T k(points, x)|^2 is what remains of it given the noisy rewards
    noise       [], the variance of the noise of a reward, which is the regularization
    prior_mean  [], the mean of f before any evaluation

    Example:

        gp = posterior.condition(kernels.Gaussian(0.5), features, mean_reward, 0.01)
        gp.mean(features[:3]), gp.variance(features[:3])  # [3], [3]
    """

    kernel: Any
    points: Array
    weights: Array
    explained: Array
    remaining: Array
    noise: ArrayLike
    prior_mean: ArrayLike = 0.0

    def mean(self, x: ArrayLike) -> Array:
        """The posterior means [n] at points x [n, d]. Raises ValueError for another shape, as do
        the other methods."""
        return _mean(self, self._checked(x))

    def variance(self, x: ArrayLike) -> Array:
        """The posterior variances [n] at points x [n, d], at least 0."""
        return _variance(self, self._checked(x))

    def covariance(self, x: ArrayLike) -> Array:
        """The posterior covariances [n, n] of all pairs of points x [n, d]."""
        return _covariance(self, self._checked(x))

    def sample(self, key: PRNGKey, x: ArrayLike, n_samples: int = 1) -> Array:
        """Functions drawn from the posterior, with their values [n_samples, n] at points x [n, d],
        jointly for all points, in O(n^3). The same key gives the same standard normals, so that a
        draw is differentiable in x. The diagonal of the covariance is raised by n eps max k(x,x),
        or by the least of 10, 100, ... times this number with which the covariance is positive
        definite. Draws are NaN if that is more than LARGEST_SHIFT max k(x,x): the kernel is then
        not positive semi-definite."""
        checks.positive_integer(n_samples=n_samples)
        return _sample(self, checks.one_key(key=key), self._checked(x), n_samples)

    def _checked(self, x: ArrayLike) -> Array:
        """The points x [n, d] in the dtype of the posterior."""
        if self.points.ndim != 2:
            raise ValueError(
                f"this is a stack of posteriors of shape {self.points.shape[:-2]}: map over it, as"
                " in jax.vmap(lambda gp: gp.mean(x))(gp)."
            )
        points, d = jnp.asarray(checks.real("x", x)), self.points.shape[1]
        if points.ndim != 2 or points.shape[1] != d:
            raise ValueError(f"x must be points [n, {d}]; its shape is {points.shape}.")
        return points.astype(self.points.dtype)


@jax.jit
def _mean(gp: GaussianProcess, x: Array) -> Array:
    return matmul(gp.kernel.gram(x, gp.points), gp.weights) + gp.prior_mean


def _parts(gp: GaussianProcess, x: Array) -> tuple[Array, Array]:
    """(E^T k(points, x) [n,M], D^T k(points, x) [n,P]) at points x [n,d]."""
    gram = gp.kernel.gram(x, gp.points)
    return matmul(gram, gp.explained), matmul(gram, gp.remaining)


@jax.jit
def _variance(gp: GaussianProcess, x: Array) -> Array:
    explained, remaining = _parts(gp, x)
    return sketched.residual(gp.kernel.diag(x), explained) + jnp.square(remaining).sum(1)


@jax.jit
def _covariance(gp: GaussianProcess, x: Array) -> Array:
    explained, remaining = _parts(gp, x)
    prior = gp.kernel.gram(x, x)
    return prior - matmul(explained, explained.T) + matmul(remaining, remaining.T)


@partial(jax.jit, static_argnames="n_samples")
def _sample(gp: GaussianProcess, key: PRNGKey, x: Array, n_samples: int) -> Array:
    if not len(x):
        return jnp.zeros((n_samples, 0), x.dtype)
    covariance = _covariance(gp, x)
    prior = jax.lax.stop_gradient(jnp.max(gp.kernel.diag(x)))
    unit = jnp.where(prior > 0, prior, 1)
    # the search of the shift has no derivative; the factorization has one
    fixed = jax.lax.stop_gradient(covariance)
    shift = shifted_cholesky(fixed, len(x) * jnp.finfo(x.dtype).eps * unit)[1]
    shift = jnp.where(shift <= LARGEST_SHIFT * unit, shift, jnp.nan)
    root = jnp.linalg.cholesky(covariance + shift * jnp.eye(len(x), dtype=x.dtype))
    normal = jax.random.normal(key, (n_samples, len(x)), x.dtype)
    return _mean(gp, x)[None, :] + matmul(normal, root.T)


def of(algorithm: Any, state: Any, arms: Any = None) -> GaussianProcess:
    """The posterior of the state of an algorithm, at any points.

    It is the posterior of the observed rewards: evaluations that are pending do not count, and the
    picks of an unfinished batch of `PointBBKB` are hallucinated, as in its scores. At the arms,
    `mean` is `state.posterior.mean`, and the square root of `variance` is
    `bayes_std(state.posterior.variance, regularization)`. If all pulled arms are in the dictionary,
    the posterior of a sketched bandit is the exact one (THEORY 3.6).

    algorithm  a bandit on an exact or a sketched posterior (BKB, BBKB, FixedBKB, SketchedTS, GPUCB,
               GPBUCB, TS, EpsGreedy), `PointBBKB`, a contextual bandit of `jsketch.contrib`, or
               `GPBandit`, whose posterior is returned in the units of the box and of the values
    state      its state
    arms       the `Arms` of a bandit over arms. Others need none, because their states have the
               evaluated points, and a box is ignored

    Raises ValueError for an algorithm without such a posterior, for a state of another algorithm or
    of other arms, for a stack of states, for arms that are missing, and for a stale state, whose
    dictionary exceeds its capacity. If traced, the means of a stale state are NaN.

    Example:

        bandit = BBKB(kernels.Gaussian(0.5), noise_std=0.1)
        state = run(bandit, problem, jax.random.key(0), 50).state
        posterior.of(bandit, state, problem.arms).mean(jnp.zeros((1, 2)))  # [1]
    """
    method = getattr(algorithm, "gaussian_process", None)
    if isinstance(algorithm, type) or not callable(method):
        name = getattr(algorithm, "__name__", type(algorithm).__name__)
        advice = ""
        if not isinstance(algorithm, type) and callable(getattr(algorithm, "posterior", None)):
            advice = " Its method `posterior` has means and standard deviations."
        raise ValueError(f"{name} has no Gaussian process at new points.{advice}")
    if jnp.ndim(getattr(getattr(state, "posterior", None), "mean", 0.0)) > 1:
        raise ValueError(
            "the state is a stack of states, such as those of several seeds: map over it, as in"
            " jax.vmap(lambda state: posterior.of(algorithm, state, arms))(states)."
        )
    if "arms" not in inspect.signature(method).parameters:
        gp: GaussianProcess = _of_points(algorithm, method, state)
    elif arms is None:
        raise ValueError(
            f"{type(algorithm).__name__} chooses among arms: of(algorithm, state, arms) needs them."
        )
    else:
        arms = checks.arms(arms)
        if not is_traced(algorithm, state, arms):
            checks.state(algorithm, arms, state)
        gp = method(state, arms)
        is_known = not is_traced((gp, state, arms)) and arms.sharding is None
        if is_known and not np.any(getattr(state, "stale", False)):
            _check_model(gp, getattr(state, "posterior", None), arms)
    stale = getattr(state, "stale", False)
    if is_traced(stale):
        return replace(gp, weights=jnp.where(stale, jnp.nan, gp.weights))
    if np.any(stale):
        raise ValueError(
            "the posterior of the state is stale, because the dictionary exceeds its capacity:"
            " complete the state with `grow`."
        )
    return gp


def _of_points(algorithm: Any, method: Any, state: Any) -> GaussianProcess:
    """The posterior of an algorithm whose states have the evaluated points."""
    try:
        gp: GaussianProcess = method(state)
    except (AttributeError, TypeError, ValueError) as error:
        name = type(algorithm).__name__
        raise ValueError(
            f"the state is not one state of {name}, or is a stack of states: map over a stack, as"
            " in jax.vmap(lambda state: posterior.of(algorithm, state))(states)."
        ) from error
    return gp


def _check_model(gp: GaussianProcess, p: Any, arms: Any) -> None:
    """Raises ValueError if the process differs at arms from the posterior of the state: the kernel,
    the regularization or the arms are then not those with which the state was computed."""
    if p is None:
        return
    some = np.unique(np.linspace(0, arms.count - 1, COMPARED_ARMS).astype(int))
    x = arms.features[some]
    prior, scale = map(np.asarray, _scales(gp, x))
    mean, variance = np.asarray(p.mean)[some], np.asarray(gp.noise) * np.asarray(p.variance)[some]
    mean_error, variance_error = np.abs(gp.mean(x) - mean), np.abs(gp.variance(x) - variance)
    if (mean_error > LARGEST_ERROR * scale).any() or (variance_error > LARGEST_ERROR * prior).any():
        raise ValueError(
            "the state is of another kernel, of another regularization or of other arms: its"
            " posterior at arms differs from that of the algorithm."
        )


@jax.jit
def _scales(gp: GaussianProcess, x: Array) -> tuple[Array, Array]:
    """(k(x, x) [n], the largest sum of |k(x, z) w| over the points z []) of points x [n, d]. The
    mean is a sum that may cancel."""
    sums = matmul(jnp.abs(gp.kernel.gram(x, gp.points)), jnp.abs(gp.weights))
    return gp.kernel.diag(x), sums.max()


def of_sketched(kernel: Any, regularization: ArrayLike, p: sketched.Posterior) -> GaussianProcess:
    """The posterior of `jsketch.core.posterior` at any points."""
    lam = jnp.asarray(regularization, p.weights.dtype)
    dual = jnp.sqrt(lam) * p.dual
    return GaussianProcess(kernel, p.points, p.weights, p.root, dual, lam, jnp.zeros_like(lam))


def of_exact(
    kernel: Any, regularization: ArrayLike, p: exact.Exact, features: Array
) -> GaussianProcess:
    """The posterior of `jsketch.posterior.exact` over arms with these features [A,d], at any
    points."""
    lam = jnp.asarray(regularization, features.dtype)
    points, explained, nothing = _parts_of_exact(p, features)
    return GaussianProcess(kernel, points, p.weights, explained, nothing, lam, jnp.zeros_like(lam))


@jax.jit
def _parts_of_exact(p: exact.Exact, features: Array) -> tuple[Array, Array, Array]:
    used = exact.in_use(p)
    # L^-T inner L^-1 = E E^T
    root = matmul(p.inverse_root.T, jnp.linalg.cholesky(p.inner))
    explained = jnp.where(used[:, None] & used[None, :], root, 0)
    return features[p.pulled], explained, jnp.zeros((len(used), 0), features.dtype)


@struct.checked_names
def condition(
    kernel: Any,
    x: ArrayLike,
    y: ArrayLike,
    regularization: ArrayLike,
    *,
    mean: ArrayLike = 0.0,
    counts: ArrayLike | None = None,
) -> GaussianProcess:
    """The exact posterior given a history, in O(n^3). It is differentiable in all numbers.

    kernel          a kernel of `jsketch.kernels`; k(x, x) is the prior variance of f(x)
    x               [n, d], the evaluated points, which may repeat
    y               [n], the reward at each point. A reward that is not finite is not observed
    regularization  lam, the variance of the noise of a reward
    mean            [], the prior mean; that of the bandits is 0
    counts          [n], the number of rewards of which y is the average, 0 where there is none;
                    None: one reward at each point

    Raises ValueError for other shapes, and for an object that is not a kernel. Warns of a
    regularization below the rounding errors of variances, which may then be 0: use points in
    float64 (jax_enable_x64), or at least 1e-3 k(x, x) in float32.

    Example:

        trace = run(BBKB(kernels.Gaussian(0.5)), problem, jax.random.key(0), 50).trace
        x = problem.arms.features[trace.arm]
        posterior.condition(kernels.Gaussian(0.5), x, trace.y, 0.01).variance(x)  # [50]
    """
    values = likelihood.checked_values(
        kernel, x, y, counts, mean=mean, regularization=regularization
    )
    dtype = values.x.dtype
    lam, m = jnp.asarray(regularization, dtype), jnp.asarray(mean, dtype)
    kernel = numbers_in_dtype(kernel, dtype)
    if not is_traced(kernel, values, lam):
        prior = _prior_variance(kernel, values.x)
        checks.regularization_above_rounding(regularization, prior, dtype, "points")
    return _condition(kernel, values, lam, m)


@jax.jit
def _prior_variance(kernel: Any, x: Array) -> Array:
    return kernel.diag(x)[0]


@jax.jit
def _condition(kernel: Any, values: Values, lam: Array, mean: Array) -> GaussianProcess:
    used = values.counts > 0
    _, inverse = likelihood.inverse_factor(likelihood.covariance(kernel, values, lam))
    centred = jnp.where(used, values.y - mean, 0)
    weights = matmul(inverse.T, matmul(inverse, centred))
    explained = jnp.where(used[:, None] & used[None, :], inverse.T, 0)
    nothing = jnp.zeros((len(used), 0), values.x.dtype)
    return GaussianProcess(kernel, values.x, weights, explained, nothing, lam, mean)

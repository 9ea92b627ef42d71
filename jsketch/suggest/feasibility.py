"""The probability that an evaluation succeeds, given earlier successes and failures.

The model is a Gaussian process classifier with the probit likelihood, by Laplace's approximation
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 3.4 and algorithms
3.1, 3.2). Acquisitions use the probability as in Gelbart, Snoek, Adams. Bayesian optimization with
unknown constraints. UAI 2014. The kernel is the one that was fitted to the values, because there
are usually too few failures to fit another.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import ndtri
from jax.scipy.stats import norm

from jsketch.box.acquisition import log_normal_cdf
from jsketch.numerics import matmul
from jsketch.suggest import posterior
from jsketch.suggest.data import Data, padded_rows
from jsketch.suggest.model import LARGEST_EXACT, random_rows
from jsketch.types import PRNGKey

NEWTON_STEPS = 20  # the likelihood is log-concave, and Newton's method converges quadratically


def success_probability(kernel: Any, data: Data, key: PRNGKey) -> Array | None:
    """P(success) of all candidates, [A]; None if no evaluation failed.

    P(success) = Phi(g), with Phi the normal distribution function, g ~ GP(m, k) and k(x,x) = 1. For
    m = 0 the prior of P(success) would be uniform on [0, 1]. Instead, m is chosen such that the
    prior mean of P(success) is (s + 1) / (n + 2), for s successes in n evaluations (Laplace's
    rule). Of more than LARGEST_EXACT evaluations, a random sample of that size is used.
    """
    succeeded = data.observed
    if succeeded.all():
        return None
    rows = random_rows(len(succeeded), LARGEST_EXACT, key)
    index, mask = padded_rows(data.arms[rows])
    label = np.ones(len(mask))
    label[: len(rows)] = np.where(succeeded[rows], 1, -1)
    prior_mean = (succeeded.sum() + 1) / (len(succeeded) + 2)
    arrays = map(jnp.asarray, (index, label, mask, prior_mean))
    return _success_probability(kernel, data.library.features, *arrays)


@jax.jit
def _success_probability(
    kernel: Any, features: Array, index: Array, label: Array, mask: Array, prior_mean: Array
) -> Array:
    x = features[index]
    in_use = mask[:, None] & mask[None, :]
    gram = jnp.where(in_use, kernel.gram(x, x), 0)
    # the prior mean of Phi(g) is Phi(m / sqrt(1 + k(x,x)))
    centre = jnp.sqrt(2.0) * ndtri(prior_mean).astype(x.dtype)
    label = label.astype(x.dtype)

    def derivatives(g: Array) -> tuple[Array, Array]:
        """(first derivative, minus the second) of log Phi(label g); 0 in unused slots."""
        z = label * g
        hazard = jnp.exp(norm.logpdf(z) - log_normal_cdf(z))
        curvature = jnp.maximum(hazard * (z + hazard), 0)
        return jnp.where(mask, label * hazard, 0), jnp.where(mask, curvature, 0)

    def factor(curvature: Array) -> tuple[Array, Array]:
        """(sqrt W, L^-1), where W = diag(curvature) and I + sqrt W K sqrt W = L L^T."""
        root = jnp.sqrt(curvature)
        inner = jnp.eye(len(root), dtype=root.dtype) + root[:, None] * gram * root[None, :]
        return root, posterior.inverse_root_by_lapack(inner)

    def newton_step(_: Array, g: Array) -> Array:
        gradient, curvature = derivatives(g + centre)
        root, inverse = factor(curvature)
        b = curvature * g + gradient
        solved = matmul(inverse.T, matmul(inverse, root * matmul(gram, b)))
        return matmul(gram, b - root * solved)

    g = lax.fori_loop(0, NEWTON_STEPS, newton_step, jnp.zeros_like(label))
    gradient, curvature = derivatives(g + centre)
    root, inverse = factor(curvature)
    half, ratio = inverse * root[None, :], jnp.ones((), x.dtype)
    latent = posterior.Posterior(kernel, x, mask, weights=gradient, half=half, ratio=ratio)
    mean, variance = posterior.predict(latent, features)
    return jnp.exp(log_normal_cdf((centre + mean) / jnp.sqrt(1 + variance)))

"""Posteriors of Gaussian processes, their marginal likelihood and its maximum.

process      `GaussianProcess`, the posterior at any points: `of` the state of an algorithm, or
             `condition` on a history
likelihood   `log_marginal_likelihood` of a history, with derivatives in the numbers of the kernel
fitting      `fit`, the numbers with the largest marginal likelihood
plotting     `plot`, pictures of posteriors over one or two inputs
exact        the exact posterior over a finite set of arms, which observations update. The sketched
             one is in `jsketch.core`
"""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch.devices import one_program
from jsketch.posterior import exact
from jsketch.posterior.fitting import Fit, fit
from jsketch.posterior.likelihood import log_marginal_likelihood
from jsketch.posterior.plotting import plot
from jsketch.posterior.process import GaussianProcess, condition, of

__all__ = [
    "Fit",
    "GaussianProcess",
    "bayes_std",
    "condition",
    "effective_dimension",
    "exact",
    "fit",
    "log_marginal_likelihood",
    "of",
    "plot",
]


def bayes_std(variance: Array, regularization: ArrayLike) -> Array:
    """The Bayesian standard deviation sqrt(lam sigma^2), in units of the rewards, of a variance
    sigma^2 of any shape, divided by the regularization lam.

    Example:

        bayes_std(state.posterior.variance, bandit.regularization)
    """
    return jnp.sqrt(regularization * jnp.maximum(variance, 0))


def effective_dimension(
    kernel: Any, x: Array, regularization: ArrayLike, counts: ArrayLike = 1.0
) -> Array:
    """The effective dimension d_eff = Tr K (K + lam I)^-1, [], of evaluations (BKB eq. 5), where K
    has a row for each evaluation. It is the sum of their posterior variances, divided by lam, and
    about a dictionary's size divided by `qbar`. The cost is O(n^3).

    kernel          a kernel of `jsketch.kernels`
    x               [n, d], the evaluated points
    regularization  lam > 0
    counts          [n], the number of evaluations of each point; 0 for a point without any

    Example:

        effective_dimension(kernels.Gaussian(0.5), arms.features, 0.01, state.counts)
    """
    return _effective_dimension(kernel, x, regularization, counts)


@one_program()
def _effective_dimension(
    kernel: Any, x: Array, regularization: ArrayLike, counts: ArrayLike
) -> Array:
    root = jnp.broadcast_to(jnp.sqrt(jnp.asarray(counts, x.dtype)), len(x))
    eigenvalues = jnp.linalg.eigvalsh(root[:, None] * kernel.gram(x, x) * root[None, :])
    # those that should be 0 may be negative by rounding
    eigenvalues = jnp.maximum(eigenvalues, 0)
    return (eigenvalues / (eigenvalues + regularization)).sum()

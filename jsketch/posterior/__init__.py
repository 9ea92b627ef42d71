"""The exact posterior over a finite set of arms. The sketched one is in `jsketch.core`."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch.posterior import exact

__all__ = ["bayes_std", "exact"]


def bayes_std(variance: Array, regularization: ArrayLike) -> Array:
    """The Bayesian standard deviation sqrt(lam sigma^2), in units of the rewards, of a variance
    sigma^2 of any shape, divided by the regularization lam.

    Example:

        bayes_std(state.posterior.variance, bandit.regularization)
    """
    return jnp.sqrt(regularization * jnp.maximum(variance, 0))

"""Gaussian process regression on the unit cube, and the optimiser that reads it.

regression   posterior, marginal likelihood, draws
prior        priors of the hyperparameters
fit          their maximum likelihood, or maximum a posteriori
gp_bandit    GPBandit: an acquisition function of the posterior, maximised
"""

from jsketch.box.gp.regression import (
    Data,
    Hyperparameters,
    Posterior,
    condition,
    covariance_of_values,
    draw,
    in_few_slots,
    joint,
    log_marginal_likelihood,
    predict,
    standardized,
)

__all__ = [
    "Data",
    "Hyperparameters",
    "Posterior",
    "condition",
    "covariance_of_values",
    "draw",
    "in_few_slots",
    "joint",
    "log_marginal_likelihood",
    "predict",
    "standardized",
]

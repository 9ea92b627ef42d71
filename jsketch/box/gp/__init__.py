"""Gaussian processes on the unit cube.

regression   posterior, marginal likelihood, draws
fit          hyperparameters: bounds, priors, and their estimate
gp_bandit    `GPBandit`, the maximum of an acquisition function of the posterior
"""

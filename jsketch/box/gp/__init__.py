"""Gaussian processes on the unit cube.

regression   posterior, marginal likelihood, draws
fit          hyperparameters: their bounds, priors and estimates
gp_bandit    `GPBandit`, the maximum of an acquisition function of the posterior
"""

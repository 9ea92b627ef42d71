"""Posteriors given features (`ridge`) or all observed points (`exact`)."""

from jsketch.posterior import exact, ridge
from jsketch.posterior.ridge import bayes_std

__all__ = ["bayes_std", "exact", "ridge"]

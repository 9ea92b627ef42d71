"""The next batch of evaluations for a library of candidates, from arrays alone.

    from jsketch.suggest import suggest

    found = suggest(candidates, arms, values, batch=96)
    found.rows  # the candidates to evaluate next, best first

    data    checks the arrays and scales the features
    model   fits the lengthscale, the noise and the scale of a Gaussian process on a sketch of the
            evaluations
    batch   chooses the batch, by `bandits.FixedBKB`

Reading order is import order. Nothing here reads a file or prints.
"""

from jsketch.suggest.batch import Suggestion, suggest
from jsketch.suggest.data import standardized
from jsketch.suggest.model import Model, fit

__all__ = ["Model", "Suggestion", "fit", "standardized", "suggest"]

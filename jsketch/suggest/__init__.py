"""The next batch of evaluations for a library of candidates, from arrays alone.

    from jsketch.suggest import suggest

    found = suggest(candidates, arms, values, batch=96)
    found.rows  # the candidates to evaluate next, best first

    data             checks the arrays and scales the features; a `Library` is checked once
    residues         properties of amino acids, as columns beside the letters
    hyperparameters  the posterior mode of lengthscales, amplitude and noise
    model            fits them to the evaluations
    posterior        of all candidates, and jointly of a few: exact, or sketched
    acquisitions     choose a batch from a joint posterior
    constraints      one value of a column, costs and a budget, what is excluded
    feasibility      the chance that an evaluation succeeds
    choice           the compiled choice
    batch            `suggest`
    leave_one_out    every value predicted from all others

Reading order is import order. Nothing here reads a file or prints.
"""

from jsketch.suggest import acquisitions, residues
from jsketch.suggest.batch import Certificate, Suggestion, suggest
from jsketch.suggest.data import Library, library
from jsketch.suggest.leave_one_out import LeftOut, leave_one_out
from jsketch.suggest.model import Model, fit

__all__ = [
    "Certificate",
    "LeftOut",
    "Library",
    "Model",
    "Suggestion",
    "acquisitions",
    "fit",
    "leave_one_out",
    "library",
    "residues",
    "suggest",
]

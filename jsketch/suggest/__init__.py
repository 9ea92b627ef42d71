"""The next batch of evaluations for a library of candidates, from arrays.

    from jsketch.suggest import suggest

    found = suggest(candidates, arms, values, batch=96)
    found.rows  # the candidates to evaluate next, best first

    data             checks, scaling and padding of the arrays; `library`
    residues         properties of amino acids, as columns in addition to the letters
    discrete         kernels of fingerprints and of counts
    mixed            `Columns` and `Mixed`, the kernel of a table of several kinds of columns
    evidence         a bound on the likelihood of a sketched posterior
    model            fits a Gaussian process: `fit`, `leave_one_out`
    posterior        the posterior of all candidates, exact or sketched
    acquisitions     the choice of a batch from a joint posterior
    feasibility      the probability that an evaluation succeeds
    choice           the compiled choice
    batch            `suggest`, and the constraints of a batch
    campaigns        `join_campaigns`: earlier campaigns as further tasks
    prediction       `predict`: the posterior at all candidates
    stopping         whether further evaluations are worth it
    proposals        the next points of a space, or of a list
    tuning           `minimize` and `maximize` a function of them
    tables           the command `jsketch-suggest`, which needs the extra `tables`

Reading order is import order. Nothing but `tables` reads a file or prints.
"""

from jsketch.suggest import acquisitions, residues, stopping
from jsketch.suggest.batch import Scores, Suggestion, suggest
from jsketch.suggest.campaigns import Campaigns, join_campaigns
from jsketch.suggest.data import Library, library
from jsketch.suggest.discrete import MinMax, Tanimoto, pack_bits
from jsketch.suggest.mixed import Columns, Mixed
from jsketch.suggest.model import LeftOut, Model, fit, leave_one_out
from jsketch.suggest.prediction import Prediction, predict
from jsketch.suggest.tuning import maximize, minimize

__all__ = [
    "Campaigns",
    "Columns",
    "LeftOut",
    "Library",
    "MinMax",
    "Mixed",
    "Model",
    "Prediction",
    "Scores",
    "Suggestion",
    "Tanimoto",
    "acquisitions",
    "fit",
    "join_campaigns",
    "leave_one_out",
    "library",
    "maximize",
    "minimize",
    "pack_bits",
    "predict",
    "residues",
    "stopping",
    "suggest",
]

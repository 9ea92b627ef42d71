"""The next batch of evaluations for a library of candidates, from arrays.

    from jsketch.suggest import suggest

    suggestion = suggest(candidates, arms, values, batch=96)
    suggestion.rows  # the candidates to evaluate next, best first

    residues         properties of amino acids, as columns of numbers
    discrete         kernels of fingerprints and of counts
    mixed            `Columns` and `Mixed`, the kernel of numbers, categories and fingerprints
    data             `library`: checks, scaling and padding of arrays
    posterior        the posterior of all candidates, exact or sketched, and the evidence
    model            `fit` and `leave_one_out` of a Gaussian process
    acquisitions     the choice of a batch from a joint posterior
    feasibility      the probability that an evaluation succeeds
    choice           the compiled part of `suggest`
    batch            `suggest`, and checks of the constraints of a batch
    campaigns        `join_campaigns`: evaluations of earlier campaigns
    prediction       `predict`: the posterior at all candidates
    stopping         whether a campaign should end
    proposals        the next points of a space, or of a list
    own_model        the next points of a space, for a function whose form is known
    tuning           `minimize` and `maximize` over a space or a list
    adapters         `suggest` with the interfaces of Optuna and scikit-optimize
    tables           the command `jsketch-suggest`, which needs the extra `tables`

A module imports only modules above it. Modules are imported when they are first used.
"""

from typing import TYPE_CHECKING

from jsketch import lazy

if TYPE_CHECKING:
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

_MODULES = {
    **dict.fromkeys(("Scores", "Suggestion", "suggest"), "batch"),
    **dict.fromkeys(("Campaigns", "join_campaigns"), "campaigns"),
    **dict.fromkeys(("Library", "library"), "data"),
    **dict.fromkeys(("MinMax", "Tanimoto", "pack_bits"), "discrete"),
    **dict.fromkeys(("Columns", "Mixed"), "mixed"),
    **dict.fromkeys(("LeftOut", "Model", "fit", "leave_one_out"), "model"),
    **dict.fromkeys(("Prediction", "predict"), "prediction"),
    **dict.fromkeys(("maximize", "minimize"), "tuning"),
}

__getattr__, __dir__ = lazy.attach(
    __name__, _MODULES, {"acquisitions", "adapters", "residues", "stopping"}
)

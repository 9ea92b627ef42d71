"""Problems whose mean rewards depend on contexts or on the round, and the loop that plays them."""

from jsketch.contrib.problems import contextual, drifting
from jsketch.contrib.problems.contextual import ClientArms, ContextualArms
from jsketch.contrib.problems.drifting import DriftingArms, drifting_draw
from jsketch.contrib.problems.play import RunRecord, play

__all__ = [
    "ClientArms",
    "ContextualArms",
    "DriftingArms",
    "RunRecord",
    "contextual",
    "drifting",
    "drifting_draw",
    "play",
]

"""Problems whose mean changes with the rounds (`drifting`), or with contexts (`contextual`, of
several clients `clients`), each with a loop of its own."""

from jsketch.contrib.problems import clients, contextual, drifting
from jsketch.contrib.problems.contextual import ContextualArms
from jsketch.contrib.problems.drifting import DriftingArms, drifting_draw

__all__ = [
    "ContextualArms",
    "DriftingArms",
    "clients",
    "contextual",
    "drifting",
    "drifting_draw",
]

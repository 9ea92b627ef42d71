"""Problems: what is optimised. A problem is a pytree with `arms`, `mean_reward` [A] and
`sample(key, arm) -> reward`; on a box (`boxes`), a callable pytree with `box` and `value(x)`. One
whose mean changes with the rounds (`drifting`), or with contexts (`contextual`, of several clients
`clients`), has a loop of its own."""

from jsketch.problems import boxes, clients, contextual, drifting
from jsketch.problems.boxes import BoxProblem
from jsketch.problems.contextual import ContextualArms
from jsketch.problems.draws import gp_draw, rkhs_draw
from jsketch.problems.drifting import DriftingArms, drifting_draw
from jsketch.problems.finite import GaussianArms, RecordedArms, finite_arms, recorded_arms

__all__ = [
    "BoxProblem",
    "ContextualArms",
    "DriftingArms",
    "GaussianArms",
    "RecordedArms",
    "boxes",
    "clients",
    "contextual",
    "drifting",
    "drifting_draw",
    "finite_arms",
    "gp_draw",
    "recorded_arms",
    "rkhs_draw",
]

"""Problems: what is optimised. A problem is a pytree with `arms`, `mean_reward` [A] and
`sample(key, arm) -> reward`; on a box (`boxes`), a callable pytree with `box` and `value(x)`. One
whose mean changes with the rounds (`drifting`) has a loop of its own."""

from jsketch.problems import boxes, drifting
from jsketch.problems.boxes import BoxProblem
from jsketch.problems.draws import gp_draw, rkhs_draw
from jsketch.problems.drifting import DriftingArms, drifting_draw
from jsketch.problems.finite import GaussianArms, RecordedArms, finite_arms, recorded_arms

__all__ = [
    "BoxProblem",
    "DriftingArms",
    "GaussianArms",
    "RecordedArms",
    "boxes",
    "drifting",
    "drifting_draw",
    "finite_arms",
    "gp_draw",
    "recorded_arms",
    "rkhs_draw",
]

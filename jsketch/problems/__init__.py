"""Problems: objectives with their arms or their box. A problem is a pytree with `arms`,
`mean_reward` [A] and `sample(key, arm) -> reward`; on a box (`boxes`), a callable pytree with `box`
and `value(x)`. `adversary` plays against a forecaster.
"""

from jsketch.problems import boxes
from jsketch.problems.boxes import BoxProblem
from jsketch.problems.finite import (
    GaussianArms,
    RecordedArms,
    finite_arms,
    gp_draw,
    recorded_arms,
    rkhs_draw,
)

__all__ = [
    "BoxProblem",
    "GaussianArms",
    "RecordedArms",
    "boxes",
    "finite_arms",
    "gp_draw",
    "recorded_arms",
    "rkhs_draw",
]

"""Problems: objectives with their arms or their box. Over arms a problem is a pytree with `arms`,
`mean_reward` [A] and `sample(key, arm) -> reward`. Over a box (`boxes`) it is a callable pytree
whose attribute `domain` is the box; `on_box` makes a problem from a function, and `laws` has
parametric laws. `adversary` plays against a forecaster.
"""

from jsketch.problems import boxes, laws
from jsketch.problems.boxes import BoxProblem, OnBox, on_box
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
    "OnBox",
    "RecordedArms",
    "boxes",
    "finite_arms",
    "gp_draw",
    "laws",
    "on_box",
    "recorded_arms",
    "rkhs_draw",
]

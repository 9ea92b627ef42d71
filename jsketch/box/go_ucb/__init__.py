"""GO-UCB (Liu, Wang, ICML 2023).

go_ucb       `GOUCB`, the algorithm of the paper, with its `GradientAscent`
own_model    `ModelGOUCB`, for a law that the user knows, with `ModelState` and `ModelInfo`
local        `LocalGOUCB`, which refits the model and searches near the best observed point
ascents      `BallAscent`, a maximisation over points and parameters from many starts
ball         the confidence ball and its radius (eqs. 3 to 9)
rounds       the state, queries and infos
model        models, their least-squares fits (eq. 2), and what is left out
parametric   `Parametric`, a law with named inputs and parameters
law_fit      fits of a law, and the posterior of its parameters and values
"""

from jsketch.box.go_ucb.ascents import BallAscent
from jsketch.box.go_ucb.go_ucb import GOUCB, GradientAscent
from jsketch.box.go_ucb.local import LocalGOUCB
from jsketch.box.go_ucb.own_model import ModelGOUCB, ModelInfo, ModelState
from jsketch.box.go_ucb.rounds import GOInfo, GOQuery

__all__ = [
    "GOUCB",
    "BallAscent",
    "GOInfo",
    "GOQuery",
    "GradientAscent",
    "LocalGOUCB",
    "ModelGOUCB",
    "ModelInfo",
    "ModelState",
]

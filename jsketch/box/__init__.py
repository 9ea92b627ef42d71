"""Maximisation over a box: who chooses the next point. A folder per paper family, one history for
all.

history, scaling          what all share: observations and units
space, space_values       mixed spaces of hyperparameters, and their values
acquisition               acquisition functions of a Gaussian posterior
gp/                       Gaussian process regression and `GPBandit`
turbo/                    TuRBO: trust regions
go_ucb/                   GO-UCB: optimism over the parameters of a model
uniform                   the baseline
"""

from jsketch.box import acquisition, go_ucb, gp, history
from jsketch.box.go_ucb import oracle, radius
from jsketch.box.go_ucb.go_ucb import GOUCB
from jsketch.box.go_ucb.network import Network
from jsketch.box.gp import fit, prior
from jsketch.box.gp.gp_bandit import GPBandit
from jsketch.box.space import Category, Integer, Real, Space
from jsketch.box.turbo.turbo import Turbo
from jsketch.box.uniform import UniformBox

__all__ = [
    "GOUCB",
    "Category",
    "GPBandit",
    "Integer",
    "Network",
    "Real",
    "Space",
    "Turbo",
    "UniformBox",
    "acquisition",
    "fit",
    "go_ucb",
    "gp",
    "history",
    "oracle",
    "prior",
    "radius",
]

"""Maximisation over a box.

history       observations, initial points and scaling, for all optimisers
space         named hyperparameters (reals, integers, categories) as points of a box
acquisition   acquisition functions of a Gaussian posterior
gp/           Gaussian process regression and `GPBandit`
turbo/        `Turbo`, Bayesian optimisation in trust regions
go_ucb/       `ModelGOUCB` for a law of one's own, `GOUCB`, `LocalGOUCB`: optimism over parameters
uniform       `UniformBox`, a baseline of random points
"""

from jsketch.box import acquisition, go_ucb, gp, history
from jsketch.box.go_ucb import ball, model
from jsketch.box.go_ucb.ascents import BallAscent
from jsketch.box.go_ucb.go_ucb import GOUCB, GradientAscent
from jsketch.box.go_ucb.local import LocalGOUCB
from jsketch.box.go_ucb.model import Functions, Network
from jsketch.box.go_ucb.own_model import Estimate, ModelGOUCB
from jsketch.box.go_ucb.parametric import Parametric
from jsketch.box.gp import fit, regression
from jsketch.box.gp.gp_bandit import GPBandit
from jsketch.box.space import Category, Integer, Real, Space
from jsketch.box.turbo.turbo import Turbo
from jsketch.box.uniform import UniformBox

__all__ = [
    "GOUCB",
    "BallAscent",
    "Category",
    "Estimate",
    "Functions",
    "GPBandit",
    "GradientAscent",
    "Integer",
    "LocalGOUCB",
    "ModelGOUCB",
    "Network",
    "Parametric",
    "Real",
    "Space",
    "Turbo",
    "UniformBox",
    "acquisition",
    "ball",
    "fit",
    "go_ucb",
    "gp",
    "history",
    "model",
    "regression",
]

"""Maximisation over a box: who chooses the next point. One file per paper family, one history for all."""

from jsketch.box import acquisition, fit, gp, history, oracle, prior, radius
from jsketch.box.go_ucb import GOUCB
from jsketch.box.gp_bandits import GPBandit
from jsketch.box.network import Network
from jsketch.box.space import Category, Integer, Real, Space
from jsketch.box.turbo import Turbo
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
    "gp",
    "history",
    "oracle",
    "prior",
    "radius",
]

"""Maximisation over a box: who chooses the next point. One file per paper family, one history for all."""

from jsketch.box import acquisition, fit, gp, history
from jsketch.box.gp_bandits import GPBandit
from jsketch.box.turbo import Turbo
from jsketch.box.uniform import UniformBox

__all__ = ["GPBandit", "Turbo", "UniformBox", "acquisition", "fit", "gp", "history"]

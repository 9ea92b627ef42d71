"""Bandits: who chooses. One file per paper family; widths are functions that an algorithm is given."""

from jsketch.bandits import evolution, history, initial, partition, widths
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.evolution import RegularizedEvolution
from jsketch.bandits.fourier import FourierTS, FourierUCB
from jsketch.bandits.gp_bucb import GPBUCB
from jsketch.bandits.gp_ucb import GPUCB, EpsGreedy
from jsketch.bandits.linear_sketches import CBRAP, SOFUL
from jsketch.bandits.mini import MiniGP
from jsketch.bandits.plates import FixedBKB
from jsketch.bandits.points import PointBBKB
from jsketch.bandits.thompson import TS, SketchedTS
from jsketch.bandits.uniform import Uniform

__all__ = [
    "BBKB",
    "BKB",
    "CBRAP",
    "GPBUCB",
    "GPUCB",
    "SOFUL",
    "TS",
    "EpsGreedy",
    "FixedBKB",
    "FourierTS",
    "FourierUCB",
    "MiniGP",
    "PointBBKB",
    "RegularizedEvolution",
    "SketchedTS",
    "Uniform",
    "evolution",
    "history",
    "initial",
    "partition",
    "widths",
]

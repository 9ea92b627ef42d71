"""Bandits over a list of arms, or over points: one file per algorithm or paper. `core/` holds their
parts, `batches/` the rules that end a batch, `linear/` the linear ones, `points/` those without a
list of arms.

A width is a callable that an algorithm is given, with or without numbers of its own (`widths`).
"""

from jsketch.bandits import evolution
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.core import counts, initial, widths
from jsketch.bandits.core import counts as history  # its name before; README and user code know it
from jsketch.bandits.evolution import RegularizedEvolution
from jsketch.bandits.fixed_bkb import FixedBKB
from jsketch.bandits.gp_bucb import GPBUCB
from jsketch.bandits.gp_ucb import GPUCB, EpsGreedy
from jsketch.bandits.linear.fourier import FourierTS, FourierUCB
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL
from jsketch.bandits.mini_gp import MiniGP
from jsketch.bandits.points import partition
from jsketch.bandits.points.point_bbkb import PointBBKB
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
    "counts",
    "evolution",
    "history",
    "initial",
    "partition",
    "widths",
]

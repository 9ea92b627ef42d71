"""Bandits over a list of arms or over points, one file for each algorithm or paper. Their
mathematics is in `jsketch.core`; `linear/` has algorithms that are linear in inputs or features. A
new algorithm starts from `template`.
"""

from jsketch.bandits import evolution, history, initial
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.evolution import RegularizedEvolution
from jsketch.bandits.fixed_bkb import FixedBKB
from jsketch.bandits.gp_bucb import GPBUCB
from jsketch.bandits.gp_ucb import GPUCB, EpsGreedy
from jsketch.bandits.linear.fourier import FourierTS, FourierUCB
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL
from jsketch.bandits.point_bbkb import PointBBKB
from jsketch.bandits.thompson import SketchedTS
from jsketch.bandits.ts import TS
from jsketch.bandits.uniform import Uniform
from jsketch.core import widths
from jsketch.core.dictionary import Draw, Extend, qbar_theory
from jsketch.types import Evaluations

__all__ = [
    "BBKB",
    "BKB",
    "CBRAP",
    "GPBUCB",
    "GPUCB",
    "SOFUL",
    "TS",
    "Draw",
    "EpsGreedy",
    "Evaluations",
    "Extend",
    "FixedBKB",
    "FourierTS",
    "FourierUCB",
    "PointBBKB",
    "RegularizedEvolution",
    "SketchedTS",
    "Uniform",
    "evolution",
    "history",
    "initial",
    "qbar_theory",
    "widths",
]

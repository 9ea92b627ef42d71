"""Bandits over a list of arms or over points, one file for each algorithm or paper. `core/` has the
parts that algorithms share, `batches/` has the rules that fill and end a batch, and `linear/` has
algorithms that are linear in inputs or features. A new algorithm starts from `template`.
"""

from jsketch.bandits import evolution
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.core import counts as history
from jsketch.bandits.core import initial, widths
from jsketch.bandits.core.sketched import EVERY_BATCH
from jsketch.bandits.evolution import RegularizedEvolution
from jsketch.bandits.fixed_bkb import FixedBKB
from jsketch.bandits.gp_bucb import GPBUCB
from jsketch.bandits.gp_ucb import GPUCB, EpsGreedy
from jsketch.bandits.linear.fourier import FourierTS, FourierUCB
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL
from jsketch.bandits.point_bbkb import PointBBKB
from jsketch.bandits.thompson import TS, SketchedTS
from jsketch.bandits.uniform import Uniform
from jsketch.types import Evaluations

__all__ = [
    "BBKB",
    "BKB",
    "CBRAP",
    "EVERY_BATCH",
    "GPBUCB",
    "GPUCB",
    "SOFUL",
    "TS",
    "EpsGreedy",
    "Evaluations",
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
    "widths",
]

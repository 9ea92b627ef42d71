"""Bandits: who chooses. One file per algorithm or paper; `core/` holds their parts, `batches/` how
batches are filled, `points/` what has no list of arms, `nonstationary/` what forgets,
`contextual/` where every round has candidates of its own, `streamed/` arms in a file,
`few_batches/` few and long batches, `clients/` several that share a function, `unknown/` what
lacks a lengthscale or a norm.

A width is a callable that an algorithm is given, with numbers of its own or without (`widths`).
"""

from jsketch.bandits import distributed, evolution
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.clients.alone import Alone
from jsketch.bandits.clients.shared_embedding import SharedEmbedding
from jsketch.bandits.contextual.cbbkb import CBBKB
from jsketch.bandits.contextual.ek_ucb import EKUCB
from jsketch.bandits.contextual.k_ucb import KUCB
from jsketch.bandits.core import counts, initial, widths
from jsketch.bandits.core import counts as history  # its name before; README and user code know it
from jsketch.bandits.evolution import RegularizedEvolution
from jsketch.bandits.few_batches.batched_exploration import BatchedExploration
from jsketch.bandits.few_batches.random_exploration import RandomExploration
from jsketch.bandits.fixed_bkb import FixedBKB
from jsketch.bandits.gp_bucb import GPBUCB
from jsketch.bandits.gp_ucb import GPUCB, EpsGreedy
from jsketch.bandits.linear.fourier import FourierTS, FourierUCB
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL
from jsketch.bandits.mini_gp import MiniGP
from jsketch.bandits.nonstationary.discounted_bkb import DiscountedBKB
from jsketch.bandits.nonstationary.window_bkb import WindowBKB
from jsketch.bandits.points import partition
from jsketch.bandits.points.point_bbkb import PointBBKB
from jsketch.bandits.sharded import Sharded, place
from jsketch.bandits.streamed import Streamed, open_arms
from jsketch.bandits.thompson import TS, SketchedTS
from jsketch.bandits.uniform import Uniform
from jsketch.bandits.unknown.lengthscale_balancing import LengthscaleBalancing
from jsketch.bandits.unknown.norm_doubling import NormDoubling

__all__ = [
    "BBKB",
    "BKB",
    "CBBKB",
    "CBRAP",
    "EKUCB",
    "GPBUCB",
    "GPUCB",
    "KUCB",
    "SOFUL",
    "TS",
    "Alone",
    "BatchedExploration",
    "DiscountedBKB",
    "EpsGreedy",
    "FixedBKB",
    "FourierTS",
    "FourierUCB",
    "LengthscaleBalancing",
    "MiniGP",
    "NormDoubling",
    "PointBBKB",
    "RandomExploration",
    "RegularizedEvolution",
    "Sharded",
    "SharedEmbedding",
    "SketchedTS",
    "Streamed",
    "Uniform",
    "WindowBKB",
    "counts",
    "distributed",
    "evolution",
    "history",
    "initial",
    "open_arms",
    "partition",
    "place",
    "widths",
]

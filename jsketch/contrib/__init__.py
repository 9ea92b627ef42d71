"""Methods that are newer than the four papers. Their interfaces may change in any release.

contextual      the candidates change from round to round
clients         several clients share a function
discounted      forecasters of streams whose target drifts
unknown         the lengthscale or the norm of the function is unknown
few_batches     few and long batches
mini_gp         exact Gaussian processes that evaluate few arms many times each
nonstationary   mean rewards that change
partition       Ada-BKB's search of a box
problems        problems for these methods, and the loop over their rounds
"""

from jsketch.contrib import partition, problems
from jsketch.contrib.clients import IndependentClients, SharedEmbedding
from jsketch.contrib.contextual import CBBKB, EKUCB, KUCB
from jsketch.contrib.discounted import DiscountedKernelAWV, DiscountedPKAWV, discount_mixture
from jsketch.contrib.few_batches import BatchedExploration, RandomExploration
from jsketch.contrib.mini_gp import MiniGP
from jsketch.contrib.nonstationary import DiscountedBKB, WindowBKB
from jsketch.contrib.unknown.lengthscale_balancing import LengthscaleBalancing
from jsketch.contrib.unknown.norm import NormDoubling

__all__ = [
    "CBBKB",
    "EKUCB",
    "KUCB",
    "BatchedExploration",
    "DiscountedBKB",
    "DiscountedKernelAWV",
    "DiscountedPKAWV",
    "IndependentClients",
    "LengthscaleBalancing",
    "MiniGP",
    "NormDoubling",
    "RandomExploration",
    "SharedEmbedding",
    "WindowBKB",
    "discount_mixture",
    "partition",
    "problems",
]

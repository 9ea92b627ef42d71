"""Methods after the four papers, built on the core. Their interfaces may change in any release.

contextual      the candidates change from round to round
clients         several clients share a function
unknown         the lengthscale or the norm of the function is unknown
few_batches     few and long batches
nonstationary   mean rewards that change
problems        problems for these methods, and the loop that plays them
"""

from jsketch.contrib import problems
from jsketch.contrib.clients import IndependentClients, SharedEmbedding
from jsketch.contrib.contextual import CBBKB, EKUCB, KUCB
from jsketch.contrib.few_batches import BatchedExploration, RandomExploration
from jsketch.contrib.nonstationary import DiscountedBKB, WindowBKB
from jsketch.contrib.unknown.lengthscale_balancing import LengthscaleBalancing
from jsketch.contrib.unknown.norm import NormDoubling

__all__ = [
    "CBBKB",
    "EKUCB",
    "KUCB",
    "BatchedExploration",
    "DiscountedBKB",
    "IndependentClients",
    "LengthscaleBalancing",
    "NormDoubling",
    "RandomExploration",
    "SharedEmbedding",
    "WindowBKB",
    "problems",
]

"""Methods after the four papers, built on the core. Their interfaces may change in any release.

contextual      every round has candidates of its own
clients         several clients that share a function
unknown         the lengthscale of the function, or its norm, is not known
few_batches     few and long batches
nonstationary   mean rewards that change
problems        problems for these methods, and their loops
"""

from jsketch.contrib import problems
from jsketch.contrib.clients.independent import IndependentClients
from jsketch.contrib.clients.shared_embedding import SharedEmbedding
from jsketch.contrib.contextual.cbbkb import CBBKB
from jsketch.contrib.contextual.ek_ucb import EKUCB
from jsketch.contrib.contextual.k_ucb import KUCB
from jsketch.contrib.few_batches.batched_exploration import BatchedExploration
from jsketch.contrib.few_batches.random_exploration import RandomExploration
from jsketch.contrib.nonstationary.discounted_bkb import DiscountedBKB
from jsketch.contrib.nonstationary.window_bkb import WindowBKB
from jsketch.contrib.unknown.lengthscale_balancing import LengthscaleBalancing
from jsketch.contrib.unknown.norm_doubling import NormDoubling

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

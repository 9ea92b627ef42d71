"""Feature maps x -> z(x) in R^M, and dictionaries of up to M inducing points in fixed slots."""

from jsketch.sketch import bless, dictionary, nystrom
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.nystrom import Nystrom
from jsketch.sketch.taylor import Bounded, Taylor, WithConstant

__all__ = [
    "Bounded",
    "Dictionary",
    "Nystrom",
    "Taylor",
    "WithConstant",
    "bless",
    "dictionary",
    "nystrom",
]

"""Feature maps and dictionaries: x -> z(x) in R^M with a fixed M and a mask."""

from jsketch.sketch import bless, dictionary, nystrom
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.nystrom import Nystrom
from jsketch.sketch.taylor import Standardized, Taylor

__all__ = ["Dictionary", "Nystrom", "Standardized", "Taylor", "bless", "dictionary", "nystrom"]

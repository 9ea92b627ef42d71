"""Feature maps x -> z(x) in R^M, and samplers of inducing points."""

from jsketch.sketch import bless, nystrom
from jsketch.sketch.nystrom import Nystrom
from jsketch.sketch.taylor import Bounded, Taylor, WithConstant

__all__ = ["Bounded", "Nystrom", "Taylor", "WithConstant", "bless", "nystrom"]

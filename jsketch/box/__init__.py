"""Maximisation over a box: who chooses the next point. One file per paper family, one history for all."""

from jsketch.box import history
from jsketch.box.uniform import UniformBox

__all__ = ["UniformBox", "history"]

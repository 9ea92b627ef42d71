"""Forecasters of streams: each predicts the label of an example before it learns the label."""

from jsketch.online.gradient import FOGD, NOGD
from jsketch.online.kernel_awv import KernelAWV
from jsketch.online.mixture import Mixture, regularization_mixture
from jsketch.online.nystrom_awv import ForgettingNystromAWV, NystromAWV
from jsketch.online.pros_n_kons import ProsNKONS
from jsketch.online.ridge import PKAWV
from jsketch.online.sketched_kons import SketchedKONS
from jsketch.online.standardized import Standardized

__all__ = [
    "FOGD",
    "NOGD",
    "PKAWV",
    "ForgettingNystromAWV",
    "KernelAWV",
    "Mixture",
    "NystromAWV",
    "ProsNKONS",
    "SketchedKONS",
    "Standardized",
    "regularization_mixture",
]

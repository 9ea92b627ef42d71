"""Forecasters of streams: each predicts an example's label before it sees it, then learns it."""

from jsketch.online.gradient import FOGD
from jsketch.online.kernel_awv import KernelAWV
from jsketch.online.nystrom_awv import ForgettingNystromAWV, NystromAWV
from jsketch.online.ridge import PKAWV

__all__ = ["FOGD", "PKAWV", "ForgettingNystromAWV", "KernelAWV", "NystromAWV"]

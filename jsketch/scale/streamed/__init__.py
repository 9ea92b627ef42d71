"""Candidates larger than the memory, in a file. Only `Streamed` and `open_arms` are for users.

arm_file   a file of arms, read in chunks by a thread
table      the arms at hand, and bounds of the others
sweep      what a chunk says of a posterior
own        the arms that a state knows, and what it learns
picks      the compiled picks among the arms at hand
choice     a batch: sweep, picks, chunks read again
streamed   the algorithm
"""

from jsketch.scale.streamed.arm_file import ArmFile, open_arms
from jsketch.scale.streamed.own import StreamedState
from jsketch.scale.streamed.streamed import Streamed

__all__ = ["ArmFile", "Streamed", "StreamedState", "open_arms"]

"""Arms that exceed one device or one memory, and streams on several cores.

sharded       arms over the devices of a mesh
distributed   arms over several processes
streamed      arms in a file that is larger than the memory
segments      parts of a long stream side by side, on all cores or on an accelerator
"""

from jsketch.scale import distributed
from jsketch.scale.arm_file import open_arms
from jsketch.scale.segments import prequential_in_segments
from jsketch.scale.sharded import Sharded, place
from jsketch.scale.streamed import FileEvaluations, Streamed

__all__ = [
    "FileEvaluations",
    "Sharded",
    "Streamed",
    "distributed",
    "open_arms",
    "place",
    "prequential_in_segments",
]

"""Arms that do not fit on one device or in memory, and streams in parallel segments.

place                    arms over the devices of a mesh
distributed              arms over several processes
Streamed, open_arms      arms in a file that is larger than memory
prequential_in_segments  segments of a long stream in parallel, on an accelerator
"""

from jsketch.scale import distributed
from jsketch.scale.arm_file import open_arms
from jsketch.scale.placed import place
from jsketch.scale.segments import prequential_in_segments
from jsketch.scale.streamed import FileEvaluations, Streamed

__all__ = [
    "FileEvaluations",
    "Streamed",
    "distributed",
    "open_arms",
    "place",
    "prequential_in_segments",
]

"""Arms that exceed one device or one memory.

sharded       arms over the devices of a mesh
distributed   arms over several processes
streamed      arms in a file that is larger than the memory
"""

from jsketch.scale import distributed
from jsketch.scale.arm_file import open_arms
from jsketch.scale.sharded import Sharded, place
from jsketch.scale.streamed import FileEvaluations, Streamed

__all__ = ["FileEvaluations", "Sharded", "Streamed", "distributed", "open_arms", "place"]

"""The batch of a library that lies in parts, one in each of several processes, as `suggest` of the
whole makes it.

A process has whole blocks of rows, those that `posterior.predict` takes together: a mean then is
the same number to the last bit, and ties end alike. What was evaluated is small, and whole
everywhere. Messages are the largest scores of each part with their features: k (d + 5) numbers a
process for a shortlist of k candidates, whatever the size of the library.

    processes  who computes together
    rows       which rows each of them has
    batch      `suggest`
"""

from jsketch.suggest.parts.batch import suggest
from jsketch.suggest.parts.processes import Processes
from jsketch.suggest.parts.rows import Part, part

__all__ = ["Part", "Processes", "part", "suggest"]

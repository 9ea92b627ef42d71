"""Maximisers over a box. Each takes random candidates, starts from the best of them and ascends the
gradient. They differ in

    over_box     the box of the caller, scores of all points at once; the best of starts and ends
                 (PointBBKB, the adversary)
    over_cube    the unit cube, scores of all points at once; half of the candidates lie around the
                 best observed point, and the best point met on the way counts (acquisition
                 functions of a Gaussian process)
    over_pairs   a point of a box and parameters of a ball, one start at a time, by the caller's
                 steps and projection; the best pair met on the way counts (GO-UCB)
    candidates   the random points that the last two start from

They are not one function, because their picks would change: the steps round otherwise, and another
point comes back.
"""

from jsketch.search.over_box import maximise_over_box
from jsketch.search.over_cube import maximise_over_cube
from jsketch.search.over_pairs import maximise_over_pairs

__all__ = ["maximise_over_box", "maximise_over_cube", "maximise_over_pairs"]

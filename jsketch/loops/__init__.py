"""Loops: a bandit meets a problem. `arms/`, `box/` and `streams/` are what is driven, `saving/` is
runs in files.

    rollout     the pure run at a fixed capacity: one compiled loop over rounds, for your own jit
                and vmap
    run         rollout on the host, growing the capacity when a dictionary would not fit
    run_seeds   the same over seeds: vmapped on an accelerator, spread over the cores of a CPU
    drive       the same rounds for an objective that cannot be traced; resumable; `gap` is what is
                still to be gained
    run_box     a box optimiser meets an objective; `drive_box` for objectives that cannot be traced
    prequential a forecaster meets a stream: every prediction before its label
    chunks      a stream in a file, for `prequential_chunks`
    Live        a stream that arrives one example at a time, saved and resumed in another process

The unit is a round: ask, observe a batch, tell. The horizon counts evaluations, traces live on the
evaluation axis [T], and the last batch is cut at T. Keys are folded in by evaluation number from
two separate roots, one for the algorithm and one for the problem: all algorithms meet the same
noise under the same key, and a run continues at any point.
"""

from jsketch.loops.arms.advance import compiled_programs, next_capacity
from jsketch.loops.arms.drive import Driven, drive
from jsketch.loops.arms.rollout import Progress, Trace, regret_ratio, rollout, split_roots
from jsketch.loops.arms.run import Run, run, run_seeds
from jsketch.loops.arms.stop import gap
from jsketch.loops.box.drive_box import DrivenBox, drive_box
from jsketch.loops.box.run_box import BoxRun, rollout_box, run_box
from jsketch.loops.streams.chunks import chunks
from jsketch.loops.streams.live import Live
from jsketch.loops.streams.prequential import prequential, prequential_chunks
from jsketch.loops.streams.stream import Forecasts, stream

__all__ = [
    "BoxRun",
    "Driven",
    "DrivenBox",
    "Forecasts",
    "Live",
    "Progress",
    "Run",
    "Trace",
    "chunks",
    "compiled_programs",
    "drive",
    "drive_box",
    "gap",
    "next_capacity",
    "prequential",
    "prequential_chunks",
    "regret_ratio",
    "rollout",
    "rollout_box",
    "run",
    "run_box",
    "run_seeds",
    "split_roots",
    "stream",
]

"""Loops: runs of an algorithm on a problem over arms or a box, and of a forecaster over a stream.

    rollout      the pure run at a fixed capacity: one compiled loop over rounds, for use inside jit
                 and vmap
    run          rollout on the host, for one key or several: vmapped on an accelerator, on threads
                 on a CPU; capacities grow by themselves
    drive        the same rounds for an objective on the host; saved and resumed. `gap` bounds its
                 simple regret
    prequential  predictions of a stream, each before its label is observed
    default_forecaster  a forecaster for a stream of unknown scales
    chunks       a stream in arrays, a file or an iterator, for `prequential`
    Live         a stream whose examples arrive one at a time; saved and resumed
    plan         estimates of time and memory

The unit is a round: ask, evaluate a batch, tell. The horizon counts evaluations, traces have the
evaluation axis [T], and the last batch is cut at T.
"""

from jsketch.loops.advance import compiled_programs
from jsketch.loops.chunking import chunks
from jsketch.loops.defaults import default_forecaster
from jsketch.loops.host import Driven, drive, gap
from jsketch.loops.live import Live
from jsketch.loops.planning import plan
from jsketch.loops.rollouts import (
    BoxRun,
    Progress,
    Trace,
    regret_ratio,
    rollout,
)
from jsketch.loops.runs import Run, run
from jsketch.loops.streams import Forecasts, prequential

__all__ = [
    "BoxRun",
    "Driven",
    "Forecasts",
    "Live",
    "Progress",
    "Run",
    "Trace",
    "chunks",
    "compiled_programs",
    "default_forecaster",
    "drive",
    "gap",
    "plan",
    "prequential",
    "regret_ratio",
    "rollout",
    "run",
]

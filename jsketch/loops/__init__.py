"""Loops: runs of an algorithm on a problem over arms or a box, and of a forecaster over a stream.

    rollout      a run as a pure function for jit and vmap
    run          runs on the host for one key or several, with capacities that grow
    drive        a run with an objective on the host; the run can be saved and resumed, and `gap`
                 bounds its simple regret
    prequential  predictions for a stream, each made before its label is observed
    default_forecaster  a forecaster for a stream of inputs and labels of any units
    chunks       a stream in arrays, a file or an iterator, for `prequential`
    Live         a stream whose examples arrive one at a time, and which can be saved and resumed
    plan         estimates of time and memory

A round calls `ask` for a batch, evaluates it, and passes the results to `tell`. The horizon T
counts evaluations: traces have the evaluation axis [T], and the last batch is cut at T. Results of
all loops have `to_frame()`, and `to_xarray()`; traces over arms and over a box share their names.
"""

from jsketch.loops.advance import Report, compiled_programs
from jsketch.loops.chunking import chunks
from jsketch.loops.defaults import default_forecaster
from jsketch.loops.host import Driven, drive, gap
from jsketch.loops.live import Live
from jsketch.loops.planning import plan
from jsketch.loops.rollouts import Progress, regret_ratio, rollout
from jsketch.loops.runs import Run, run
from jsketch.loops.streams import Forecasts, prequential
from jsketch.loops.traces import BaseTrace, BoxTrace, Trace

__all__ = [
    "BaseTrace",
    "BoxTrace",
    "Driven",
    "Forecasts",
    "Live",
    "Progress",
    "Report",
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

"""One of several processes of a run over arms, for `test_distributed`. The arguments are the
coordinator, the number of processes, the number of this process, and options as JSON, such as the
`devices` of a process."""

import json
import sys
import warnings

import jax
import numpy as np

from jsketch import Arms, drive, kernels
from jsketch.bandits import BBKB, FixedBKB, history
from jsketch.loops.host import Driven
from jsketch.scale import distributed

ARMS, HORIZON = 31, 16
BATCH = 4


def runs(bandit, fixed, arms, values):
    """The picks of BBKB, and of FixedBKB after a warm start."""
    key, evaluate = jax.random.key(1), values.__getitem__
    first = drive(bandit, evaluate, arms, key, HORIZON)
    numbers = np.array([30, 4, 4, 17])
    data = history.of_evaluations(arms, numbers, values[numbers], "leverage")
    data = data.replace(failed=np.array([8]))
    begin = Driven(fixed.init(arms, key, data=data), np.zeros(0, np.int32), np.zeros(0))
    warm = drive(fixed, evaluate, arms, key, 2 * BATCH, state=begin)
    return dict(picks=first.x.tolist(), warm=warm.x.tolist())


if __name__ == "__main__":
    coordinator, processes, process = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    options = json.loads(sys.argv[4])
    warnings.simplefilter("ignore")
    x = np.random.default_rng(0).uniform(size=(ARMS, 2))
    x[30] = x[3]
    values = np.sin(6 * x[:, 0]) + np.cos(4 * x[:, 1])
    kernel = kernels.Gaussian(0.3)
    bandit = BBKB(kernel, max_batch=8, capacity=ARMS)
    fixed = FixedBKB(kernel, batch=BATCH, capacity=ARMS, repeat=False)
    if processes == 1:
        print(json.dumps(runs(bandit, fixed, Arms(x), values)))
        sys.exit()
    devices = processes * options["devices"]
    distributed.start(coordinator, processes=processes, process=process, devices=devices)
    mesh = jax.make_mesh((devices,), ("arms",))
    rows = distributed.rows_of_process(ARMS, mesh)
    other_dtype = x[rows].astype(np.float32 if process else np.float64)
    objects = x[rows].astype(object if process else float)
    for wrong in (x[rows][process:], other_dtype, objects, x[rows].astype(int)):
        try:
            distributed.place_rows(wrong, ARMS, mesh)
        except ValueError as error:
            print(error)
    arms = distributed.place_rows(x[rows], ARMS, mesh)
    print(json.dumps(runs(bandit, fixed, arms, values)))

"""One of several processes of a run over arms, for `test_distributed`: coordinator, number of
processes, its own number."""

import json
import sys
import warnings

import jax
import numpy as np

from jsketch import Arms, distributed, drive, kernels
from jsketch.bandits import BBKB, Sharded

ARMS, HORIZON = 31, 16

if __name__ == "__main__":
    coordinator, processes, process = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    x = np.random.default_rng(0).uniform(size=(ARMS, 2))
    x[30] = x[3]
    values = np.sin(6 * x[:, 0]) + np.cos(4 * x[:, 1])
    bandit = BBKB(kernels.Gaussian(0.3), max_batch=8, capacity=ARMS)
    if processes == 1:
        run = drive(bandit, lambda arms: values[arms], Arms(x), jax.random.key(1), HORIZON)
        print(json.dumps(run.arm.tolist()))
        sys.exit()
    distributed.start(coordinator, processes=processes, process=process, devices=processes)
    mesh = jax.make_mesh((jax.device_count(),), ("arms",))
    rows = distributed.own_rows(ARMS, mesh)
    try:
        distributed.place_own(x[rows][process:], ARMS, mesh)
    except ValueError as error:
        print(error)
    domain = distributed.place_own(x[rows], ARMS, mesh)
    key = jax.random.key(1)
    run = drive(Sharded(bandit, mesh), lambda arms: values[arms], domain, key, HORIZON)
    print(json.dumps(run.arm.tolist()))

"""How long the programs of runs are, how many of them a run compiles, and what a state contains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from jsketch import Arms, kernels, problems, rollout
from jsketch.bandits import BBKB, BKB, Draw

ROOT = Path(__file__).parents[2]
KEY = jax.random.key(0)
KERNEL = kernels.Gaussian(1.0)
X = np.random.default_rng(0).standard_normal((4_177, 8))  # the shape of the data set Abalone
MOST_LINES = {
    "bbkb": (BBKB(KERNEL, capacity=192), 3_700),
    "bbkb_draw": (BBKB(KERNEL, capacity=192, dictionary=Draw()), 3_700),
    "bkb": (BKB(KERNEL, capacity=192), 3_300),
    "bbkb_global_local": (BBKB(KERNEL, capacity=192, rule="global_local"), 4_500),
}


@pytest.mark.parametrize("name", MOST_LINES)
def test_the_program_of_a_rollout_is_short(name):
    """The lines of StableHLO of the one program of a run, which is what a user waits for."""
    bandit, most = MOST_LINES[name]
    problem = problems.finite_arms(X, np.sin(X.sum(1)), noise_std=0.1)
    program = jax.jit(lambda bandit, key: rollout(bandit, problem, key, 1_000))
    lines = program.trace(bandit, KEY).lower().as_text().count("\n")
    assert 1_000 < lines <= most


def test_a_state_has_few_leaves():
    state = jax.eval_shape(lambda key: BBKB(KERNEL).init(Arms(X), key), KEY)
    assert len(jax.tree.leaves(state)) <= 12


RUNS = """
import json, logging, re

import jax, jax.numpy as jnp, numpy as np
from jsketch import Live, kernels, online, prequential, problems, run
from jsketch.bandits import BBKB
from jsketch.sketch import Taylor

jax.config.update("jax_enable_compilation_cache", False)
names = []


class Names(logging.Handler):
    def emit(self, record):
        names.extend(re.findall(r"XLA compilation of jit\\((\\w+)\\)", record.getMessage()))


logging.getLogger("jax").addHandler(Names())
jax.config.update("jax_log_compiles", True)
x = np.random.default_rng(0).uniform(-1, 1, (300, 2))
problem = problems.finite_arms(x, np.sin(3 * x.sum(1)), noise_std=0.1)
numbers = [0.5, 1, np.float32(0.7), np.float64(0.7), np.int32(1), jnp.asarray(0.7), jnp.asarray(1)]
bandits = [BBKB(kernels.Gaussian(n), regularization=0.1, noise_std=n, ratio=n + 1) for n in numbers]
keys = list(jax.random.split(jax.random.key(0), len(numbers)))
compiled = []
for bandit, key in zip(bandits, keys):
    names.clear()
    capacity = run(bandit, problem, key, 100).capacity
    compiled.append([*names, capacity])
taylor = online.PKAWV(Taylor(inputs=2, degree=3))
standardized = online.Standardized(taylor, np.zeros(2), np.ones(2))
streams = [online.NystromAWV(kernels.Gaussian(0.5), 0.1), taylor, standardized]
begin = [lambda f=f: prequential(f, (x, x[:, 0]), keys[0]) for f in streams]
begin.append(lambda: Live(taylor, 2, keys[0]).learn(x[0], 1.0))
for stream in begin:
    names.clear()
    stream()
    compiled.append([*names])
print(json.dumps(compiled))
"""


def test_a_run_compiles_four_programs_and_other_numbers_none():
    """One program is the run, one begins it, and two are Gram matrices of some of the arms, by
    which the kernel is checked and the capacity chosen. No run needs a larger capacity.

    A stream has a program that learns it, two that begin it, one or two that check its examples,
    and one that splits the key; that of `NystromAWV` also a Gram matrix of some examples."""
    command = [sys.executable, "-W", "error", "-c", RUNS]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *runs, nystrom, taylor, standardized, live = json.loads(done.stdout)
    first, *others = runs
    assert len(first) - 1 <= 4 and first.count("_segment") == 1
    assert others == [[first[-1]]] * 6
    assert "continue_pass" in nystrom and len(nystrom) <= 6
    assert "continue_pass" in taylor and len(taylor) <= 5
    assert len(standardized) <= 7 and len(live) <= 4

"""Records the picks and predictions of every case of the tests, and compares two recordings bit by
bit.

    python tests/record.py make FILE       records runs of every row of the case tables
    python tests/record.py compare A B     exits with status 1 if two recordings differ

A refactoring must leave the recording unchanged: make one recording before it and one after it.
"""

import sys
from pathlib import Path

import jax
import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE / name) for name in ("bandits", "box", "loops", "online"))]


def run_all_cases():
    """Pairs (name, arrays) of all cases."""
    import cases
    from test_online import CASES, KEY, examples

    from jsketch import loops, problems, rollout
    from jsketch.box import LocalGOUCB
    from jsketch.suggest import acquisitions, suggest

    problem, key = cases.problem(), jax.random.key(0)
    run = jax.jit(lambda bandit, key: rollout(bandit, problem, key, horizon=cases.HORIZON))
    for name, bandit in cases.CASES.items():
        for seed in range(2):
            trace = run(bandit, jax.random.key(seed)).trace
            yield f"bandits/{name}/{seed}", (trace.arm, trace.y, trace.batch_size)
    for name, optimiser in (cases.OPTIMISERS | {"go_ucb_default": LocalGOUCB(initial=6)}).items():
        box_run = loops.run(optimiser, problems.boxes.branin(), key, horizon=12)
        yield f"boxes/{name}", (box_run.trace.x, box_run.trace.y)
    for name, forecaster in CASES.items():
        forecasts, _ = loops.prequential(forecaster, examples(), KEY)
        yield f"online/{name}", (forecasts.prediction,)

    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (200, 3))
    arms, noise = random.integers(0, 200, 40), 0.1 * random.standard_normal(40)
    y = np.sin(3 * x[arms, 0]) + x[arms, 1] + noise
    options = {
        "default": {},
        "failures": dict(values=np.where(np.arange(40) % 9 == 3, np.nan, y), failures=True),
        "same": dict(same=np.arange(200) % 3),
        "costs": dict(costs=1 + np.arange(200) % 7, budget=400.0),
        "errors": dict(errors=0.1 + np.arange(40) / 100),
    }
    for name in ("ExpectedImprovement", "Thompson", "TopTwo", "ProbabilityOfBest"):
        options[name] = dict(acquisition=getattr(acquisitions, name)())
    for name, changes in options.items():
        arguments = dict(candidates=x, arms=arms, values=y, batch=6, pending=[3, 5]) | changes
        suggestion = suggest(**arguments)
        yield f"suggest/{name}", (suggestion.rows, suggestion.mean, suggestion.std)


def make(path):
    arrays = {f"{name}[{i}]": a for name, group in run_all_cases() for i, a in enumerate(group)}
    np.savez(path, **arrays)
    print(f"{len(arrays)} arrays")


def compare(first, second):
    before, after = np.load(first), np.load(second)
    changed_names = sorted(set(before.files) ^ set(after.files))
    for name in sorted(set(before.files) & set(after.files)):
        if not np.array_equal(before[name], after[name], equal_nan=before[name].dtype.kind == "f"):
            changed_names.append(name)
    print(f"{len(before.files)} arrays, {len(changed_names)} differ", *changed_names, sep="\n  ")
    sys.exit(bool(changed_names))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    {"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])

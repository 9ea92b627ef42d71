"""Computations of `test_placed` on four devices. Requests and results are JSON."""

import json
import re
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

from jsketch import drive, kernels, rollout, run
from jsketch.bandits import BBKB, BKB, GPUCB, FixedBKB, SketchedTS, history
from jsketch.core.dictionary import Draw
from jsketch.loops.rollouts import start
from jsketch.problems import finite
from jsketch.scale import place

KERNEL = kernels.Gaussian(lengthscale=0.3)
SKETCH = dict(capacity=32)
BANDITS = {
    "bbkb": BBKB(KERNEL, max_batch=12, **SKETCH),
    "draw": BBKB(KERNEL, max_batch=12, dictionary=Draw(), **SKETCH),
    "local": BBKB(KERNEL, rule="global_local", ratio=1.5, max_batch=12, **SKETCH),
    "guaranteed": BBKB(
        KERNEL, rule="global_local", local_statistic="guaranteed", max_batch=12, **SKETCH
    ),
    "bkb": BKB(KERNEL, dictionary=Draw(), **SKETCH),
    "fixed": FixedBKB(KERNEL, batch=8, repeat=False, **SKETCH),
    "ts": SketchedTS(KERNEL, batch=5, **SKETCH),
    "exact": GPUCB(KERNEL, **SKETCH),
}
ARMS, HORIZON = 61, 24  # on four devices, three rows are padding
# a collective in the text of a program, after its results, such as s32[4,16]
COLLECTIVE = (
    r"= (.+?) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)

rollout_program = jax.jit(rollout, static_argnums=3)
start_program = jax.jit(start, static_argnums=3)


def mesh_of(devices, **options):
    """A mesh of the first devices. The axes are explicit, the default of JAX."""
    return jax.make_mesh((devices,), ("arms",), devices=jax.devices()[:devices], **options)


def problem():
    """(arms, mean rewards). The last arm, which is repeated as padding, is the best one."""
    x = np.random.default_rng(0).uniform(size=(ARMS, 2))
    mean = np.sin(6 * x[:, 0]) + np.cos(4 * x[:, 1])
    best = np.argmax(mean)
    x[[best, -1]], mean[[best, -1]] = x[[-1, best]], mean[[-1, best]]
    return x, mean


def on_devices(devices):
    """The problem over a mesh; 0 devices are no mesh, and "2x2" is a mesh with a second axis."""
    x, mean = problem()
    on_host = finite.finite_arms(x, mean, 0.1)
    if devices == 0:
        return on_host
    if devices == "2x2":
        mesh = jax.make_mesh((2, 2), ("copies", "arms"), axis_types=(AxisType.Auto,) * 2)
    else:
        mesh = mesh_of(devices)
    return on_host.replace(arms=place(x, mesh))


def runs(name, counts, dictionary="cold"):
    """The runs without a mesh and over meshes of `counts` devices. The `dictionary` of a warm start
    is None, "bless", "leverage" or a list of arms; "cold" is no warm start."""
    results = {}
    for devices in [0, *counts]:
        placed, key, bandit = on_devices(devices), jax.random.key(1), BANDITS[name]
        progress = None
        if dictionary != "cold":
            progress = start_program(bandit, placed, key, HORIZON)
            progress = progress.replace(state=warm(bandit, placed.arms, dictionary))
        result = rollout_program(bandit, placed, key, HORIZON, progress)
        results[str(devices)] = summary(result, placed.arms)
    return results


def warm(bandit, arms, dictionary):
    """The state after evaluations of arms on several devices, one of them twice."""
    numbers = np.array([0, 60, 17, 33, 33, 48])
    data = history.of_evaluations(arms, numbers, problem()[1][numbers] + 0.1, dictionary)
    if isinstance(bandit, FixedBKB):
        data = data.replace(failed=np.array([5, 59]))
    return bandit.init(arms, jax.random.key(1), data=data)


def summary(progress, arms):
    """What has to be the same on any number of devices, and what a device holds."""
    trace, state = progress.trace, progress.state
    vectors = [
        leaf for leaf in jax.tree.leaves(state) if np.shape(leaf)[:1] == (len(arms.features),)
    ]
    # a state on the exact posterior has neither of them
    history = [getattr(state, name, None) for name in ("counts", "inducing")]
    return dict(
        arms=trace.arm.tolist(),
        numbers=np.stack([trace.y, trace.width, trace.dictionary_size]).tolist(),
        padding=[0 if leaf is None else int(leaf[arms.count :].sum()) for leaf in history],
        is_divided=[leaf.addressable_shards[0].data.size < leaf.size for leaf in vectors],
    )


def loops(devices):
    """The arms of `run`, whose capacity grows, and of `drive` and its second part."""
    placed, key = on_devices(devices), jax.random.key(1)
    bandit = BBKB(KERNEL, max_batch=12, capacity=4)
    mean = problem()[1]
    first = drive(bandit, mean.__getitem__, placed.arms, key, 12)
    second = drive(bandit, mean.__getitem__, placed.arms, key, HORIZON, state=first)
    return dict(run=run(bandit, placed, key, HORIZON).trace.arm.tolist(), drive=second.x.tolist())


def collectives(text):
    """(name, shape) of each array that the devices exchange in a compiled program."""
    messages = re.findall(COLLECTIVE, text)
    shapes = [(name, re.findall(r"\w+\[([\d,]*)\]", results)) for results, name in messages]
    return sorted(
        (name, [int(n) for n in shape.split(",") if n]) for name, all_ in shapes for shape in all_
    )


def program(name, n_arms, devices):
    """The bytes on a device and the messages of a compiled run over many arms, in whose sweeps the
    arms have several chunks."""
    mesh = mesh_of(devices)
    arms = place(np.random.default_rng(0).uniform(size=(n_arms, 8)), mesh)
    bandit = BANDITS[name].replace(capacity=192)
    placed = finite.GaussianArms(arms, jnp.zeros(len(arms.features)), 0.1)
    compiled = rollout_program.lower(bandit, placed, jax.random.key(0), HORIZON).compile()
    memory = compiled.memory_analysis()
    return dict(
        bytes=memory.argument_size_in_bytes + memory.temp_size_in_bytes,
        rows=len(arms.features) // devices,
        messages=collectives(compiled.as_text()),
    )


def sort_program(n_arms, devices):
    """The messages of a program that has to gather a vector of all arms."""
    arms = place(np.random.default_rng(0).uniform(size=(n_arms, 8)), mesh_of(devices))
    compiled = jax.jit(lambda x: jnp.sort(x[:, 0])).lower(arms.features).compile()
    return dict(rows=len(arms.features) // devices, messages=collectives(compiled.as_text()))


def place_error(arms, devices):
    """The message of the error that `place` raises for `arms` arms, or None."""
    try:
        place(np.random.default_rng(0).uniform(size=(arms, 1)), mesh_of(devices))
    except ValueError as error:
        return str(error)
    return None


def rows(n_arms, devices):
    """(rows, padding, whether each device has its rows of the arms) of placed arms."""
    x = np.random.default_rng(0).uniform(size=(n_arms, 2))
    arms = place(x, mesh_of(devices))
    parts = [np.asarray(shard.data) for shard in arms.features.addressable_shards]
    expected = np.concatenate([x, np.repeat(x[-1:], arms.padding, 0)])
    return dict(
        rows=len(arms.features),
        padding=arms.padding,
        is_equal=bool((np.concatenate(parts) == expected).all()) and len(set(map(len, parts))) == 1,
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    functions = dict(
        runs=runs,
        loops=loops,
        program=program,
        sort_program=sort_program,
        place_error=place_error,
        rows=rows,
    )
    print(json.dumps([functions[name](*arguments) for name, *arguments in json.loads(sys.argv[1])]))

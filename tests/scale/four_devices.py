"""Computations of `test_sharded` on four devices. Requests and results are JSON."""

import json
import re
import sys
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from jsketch import Arms, kernels, rollout
from jsketch.bandits import BBKB, BKB, FixedBKB, SketchedTS, history
from jsketch.loops.rollouts import start
from jsketch.problems import finite
from jsketch.scale import Sharded, place
from jsketch.scale.shards import Shard

KERNEL = kernels.Gaussian(lengthscale=0.3)
CAPACITY = dict(capacity=32)
BANDITS = {
    "bbkb": BBKB(KERNEL, max_batch=12, **CAPACITY),
    "fixed": FixedBKB(KERNEL, batch=8, repeat=False, **CAPACITY),
    "extended": FixedBKB(KERNEL, batch=6, resparsify=4.0, **CAPACITY),
    "ts": SketchedTS(KERNEL, batch=5, **CAPACITY),
    "bkb": BKB(KERNEL, **CAPACITY),
    "local": BBKB(KERNEL, rule="global_local", ratio=1.5, max_batch=12, **CAPACITY),
    "swept": BBKB(KERNEL, lazy=False, max_batch=12, **CAPACITY),
}
ARMS, HORIZON = 61, 24  # 4 devices have three rows of padding
# a collective in the text of a program, after its results, such as s32[4,16]
COLLECTIVE = r"= (.+?) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\("

start_run = jax.jit(lambda bandit, problem, key: start(bandit, problem, key, HORIZON))
run = jax.jit(
    lambda bandit, problem, key, progress: rollout(bandit, problem, key, HORIZON, progress)
)


def mesh_of(devices):
    return jax.make_mesh((devices,), ("arms",), devices=jax.devices()[:devices])


def problem():
    """(arms, mean rewards). The best arm has copies on another device. Arms 19 and 20 are equal."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(ARMS, 2))
    best = int(np.argmax(np.sin(6 * x[:, 0]) + np.cos(4 * x[:, 1])))
    x[[50, 60]], x[20] = x[best], x[19]
    return x, np.sin(6 * x[:, 0]) + np.cos(4 * x[:, 1])


def picks(name, counts, dictionary="cold"):
    """The arms of a run without a mesh, and of runs over meshes of `counts` devices. The
    `dictionary` of a warm start is None, "bless", "leverage" or a list of arms; "cold" is no warm
    start."""
    x, mean = problem()
    host_problem = finite.finite_arms(x, mean, 0.1)
    bandit, key = BANDITS[name], jax.random.key(1)
    arms = {}
    for devices in [0, *counts]:  # 0 is no mesh
        algorithm, placed = bandit, host_problem
        if devices:
            mesh = mesh_of(devices)
            algorithm, placed = Sharded(bandit, mesh), host_problem.replace(arms=place(x, mesh))
        progress = start_run(algorithm, placed, key)
        if dictionary != "cold":
            progress = progress.replace(
                state=replace(warm(algorithm, placed.arms, mean, key, dictionary), domain=None)
            )
        arms[devices] = np.asarray(run(algorithm, placed, key, progress).trace.arm).tolist()
    return dict(without_mesh=arms.pop(0), on_meshes=arms)


def warm(bandit, domain, mean, key, dictionary):
    """The state after evaluations of arms on several devices, one of them twice."""
    arms = np.array([0, 60, 17, 33, 33, 48])
    data = history.of_evaluations(domain, arms, mean[arms] + 0.1, dictionary)
    if dictionary is None and not isinstance(bandit, Sharded):
        # without jit every operation would be compiled on its own
        return jax.jit(bandit.init)(domain, key, data=data)
    if isinstance(getattr(bandit, "bandit", bandit), FixedBKB):
        data = data.replace(failed=np.array([5, 59]))
    return bandit.init(domain, key, data=data)


def draws(devices):
    """{key type and dtype: whether the devices together draw the numbers of jax.random}."""
    rows, shard = -(-ARMS // devices), Shard("arms", ARMS)
    equal = {}
    for impl in ("threefry2x32", "rbg"):
        for dtype in (jnp.float32, jnp.float64):
            key = jax.random.key(3, impl=impl)

            def draw_shard(key, dtype=dtype):
                normal = shard.normal(key, (3, rows), dtype)
                return shard.uniform(key, (rows,), dtype), normal

            specs = (P("arms"), P(None, "arms"))
            part = jax.shard_map(
                draw_shard, mesh=mesh_of(devices), in_specs=P(), out_specs=specs, check_vma=False
            )
            uniform, normal = (np.asarray(a)[..., :ARMS] for a in part(key))
            same = (uniform == np.asarray(jax.random.uniform(key, (ARMS,), dtype))).all()
            same &= (normal == np.asarray(jax.random.normal(key, (3, ARMS), dtype))).all()
            equal[f"{impl} {np.dtype(dtype).name}"] = bool(same)
    return equal


def round_costs(arms, devices):
    """The bytes on a device, and the messages between devices, of a compiled round of BBKB."""
    mesh = mesh_of(devices)
    domain = place(np.random.default_rng(0).uniform(size=(arms, 8)), mesh)
    bandit = Sharded(BBKB(KERNEL, max_batch=12, **CAPACITY), mesh)
    key = jax.random.key(0)

    def step(bandit, state, key):
        query = bandit.ask(state, key)
        return bandit.tell(state, query, jnp.zeros(query.index.shape, jnp.float64), key)

    state = jax.eval_shape(bandit.init, domain, key)
    state = jax.tree.map(
        lambda leaf, spec: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=jax.NamedSharding(domain.features.sharding.mesh, spec)
        ),
        state.replace(domain=Arms(state.domain.features, domain.shard)),
        bandit._specs(state).replace(domain=Arms(P("arms"), domain.shard)),
    )
    program = jax.jit(step).lower(bandit, state, key).compile()
    memory = program.memory_analysis()
    return dict(
        bytes=memory.argument_size_in_bytes + memory.temp_size_in_bytes,
        # (result, name) of each collective
        messages=sorted(re.findall(COLLECTIVE, program.as_text())),
    )


def place_error(arms, devices):
    """The message of the error that `place` raises for `arms` arms, or None."""
    try:
        place(np.random.default_rng(0).uniform(size=(arms, 1)), mesh_of(devices))
    except ValueError as error:
        return str(error)
    return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    requests = json.loads(sys.argv[1])
    results = dict(
        picks={name: picks(name, counts) for name, counts in requests.get("picks", {}).items()},
        warm={name: picks(name, *more) for name, more in requests.get("warm", {}).items()},
        draws={n: draws(n) for n in requests.get("draws", [])},
        too_few=[place_error(*pair) for pair in requests.get("too_few", [])],
        rounds=[round_costs(*pair) for pair in requests.get("rounds", [])],
    )
    print(json.dumps(results))

"""The choice of `LocalGOUCB`'s defaults on functions of 20 inputs that are not those of Figure 2.

    python -m experiments.go_ucb_2023.choose --out results/go_ucb_2023/choose

The functions are a random network of the default model's kind (realizable), a quadratic whose
maximum is not at the centre, and Ackley's and Levy's functions. A run has 8 uniform points and 64
chosen ones. The table has the regret per step divided by that of uniform points.
"""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.results import outputs
from jsketch import loops
from jsketch.box import LocalGOUCB
from jsketch.box.go_ucb.ball import OFUL
from jsketch.problems import boxes
from jsketch.types import Box

DIMENSION, INITIAL, HORIZON = 20, 8, 72
NOISE_STD = 0.01


def random_network() -> boxes.BoxProblem:
    """A network with 25 hidden units and random weights on [-5,5]^20. Its maximum is the largest
    value that 64 gradient ascents reach."""
    keys = jax.random.split(jax.random.key(77), 3)
    inner_weights = 0.2 * jax.random.normal(keys[0], (25, DIMENSION))
    bias, outer_weights = jax.random.normal(keys[1], (25,)), 3 * jax.random.normal(keys[2], (25,))

    def value(x: jax.Array) -> jax.Array:
        return outer_weights @ jax.nn.sigmoid(inner_weights @ x + bias)

    def ascend(x: jax.Array) -> jax.Array:
        def step(i: int, x: jax.Array) -> jax.Array:
            return jnp.clip(x + 0.5 * (1 - i / 300) * jnp.sign(jax.grad(value)(x)), -5, 5)

        return jax.lax.fori_loop(0, 300, step, x)

    box = Box(jnp.full(DIMENSION, -5.0), jnp.full(DIMENSION, 5.0))
    starts = jax.random.uniform(jax.random.key(8), (64, DIMENSION), minval=-5, maxval=5)
    ends = jax.vmap(ascend)(starts)
    maximizer = ends[jnp.argmax(jax.vmap(value)(ends))]
    return boxes.BoxProblem(box, value(maximizer), maximizer, NOISE_STD, value)


def quadratic() -> boxes.BoxProblem:
    """The function -sum c_i (x_i - 2)^2 on [-5,5]^20, with c_i from 0.2 to 2."""
    curvature = jnp.linspace(0.2, 2, DIMENSION)
    box = Box(jnp.full(DIMENSION, -5.0), jnp.full(DIMENSION, 5.0))

    def value(x: jax.Array) -> jax.Array:
        return -(curvature * jnp.square(x - 2)).sum()

    return boxes.BoxProblem(box, jnp.zeros(()), jnp.full(DIMENSION, 2.0), NOISE_STD, value)


def regret_ratio(optimizer: LocalGOUCB, problem: boxes.BoxProblem, seeds: int) -> float:
    """The mean regret per step of the runs, divided by that of uniform points."""
    lower, upper = problem.domain.lower, problem.domain.upper
    x = jax.random.uniform(jax.random.key(1), (20_000, DIMENSION), lower.dtype, lower, upper)
    uniform_regret = problem.maximum - jax.vmap(problem.value)(x).mean()
    run = loops.run(optimizer, problem, jax.random.split(jax.random.key(11), seeds), HORIZON)
    return float(np.mean(np.asarray(run.trace.regret)) / uniform_regret)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=4)
    parser.add_argument("--reach", type=float, nargs="+", default=[0.02, 0.05, 0.1, 1.0])
    parser.add_argument("--regularization", type=float, nargs="+", default=[0.01, 1.0])
    parser.add_argument("--norm-bound", type=float, nargs="+", default=[0.1, 1.0])
    options = cli.parse(parser)
    names = ("seeds", "reach", "regularization", "norm_bound")
    config = {name: getattr(options, name) for name in names}
    with outputs.results_folder(options, "go_ucb_2023.choose", dict(settings=config)) as results:
        problems = dict(
            random_network=random_network(),
            quadratic=quadratic(),
            ackley=boxes.ackley(DIMENSION, NOISE_STD),
            levy=boxes.levy(DIMENSION, NOISE_STD),
        )
        rows: list[dict[str, Any]] = []
        for refit, reach, lam, norm_bound in product(
            (False, True), options.reach, options.regularization, options.norm_bound
        ):
            setting = dict(refit=refit, reach=reach, regularization=lam)
            optimizer = LocalGOUCB(initial=INITIAL, schedule=OFUL(norm_bound=norm_bound), **setting)
            ratios = {
                name: regret_ratio(optimizer, problem, options.seeds)
                for name, problem in problems.items()
            }
            mean = float(np.mean(list(ratios.values())))
            rows.append(dict(setting, norm_bound=norm_bound, mean=mean, **ratios))
            print(rows[-1], flush=True)
        rows.sort(key=lambda row: row["mean"])
        results.write(dict(seeds=options.seeds, rows=rows))

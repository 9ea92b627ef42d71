"""Figures 3, 4 and 7 of the BBKB paper: architecture search with and without 2,000 random initial
evaluations.

    python -m experiments.bbkb_2020.nas_bench_101 --initial 0 --out out/nas
    python -m experiments.bbkb_2020.nas_bench_101 --initial 2000 --out out/nas_warm
    python -m experiments.bbkb_2020.nas_bench_101 --dataset nasbench101_whole --out out/nas_whole

The data are a table of NAS-Bench-101 if one is in the data folder, else NAS-Bench-Macro. As on the
authors' poster, T = 12,000 includes the initial evaluations, and C = 2. As in Appendix D.2, the
lengthscale is 100, or 125 after initial evaluations, F = 1, delta = 1/T and q_bar = 2. For one
seed, all algorithms have the same initial evaluations, which count in the simple regret, but not in
the regret ratio.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.bbkb_2020.methods import ALGORITHMS, add_width
from experiments.data import architectures
from experiments.figures import plots
from experiments.results import outputs, summaries, tidy
from experiments.runs import against_published, bandit_runs
from experiments.runs.bandit_runs import Config
from experiments.runs.model_free import ModelFreeEpsGreedy
from jsketch.bandits import RegularizedEvolution, history

# algorithms that can start from earlier evaluations
WARM_START_ALGORITHMS = (
    *("uniform", "evolution", "eps_greedy_free"),
    *("bbkb_global", "bbkb_global_local"),
)
ALGORITHM_NAMES = (*WARM_START_ALGORITHMS, "sketched_ts", "eps_greedy")
# settings that the paper leaves open
CHOSEN_SETTINGS = [
    "dataset",
    "noise of the rewards",
    "noise_std",
    "regularization",
    "epsilon",
    "factor",
]
# {number of initial evaluations: {metric: panel of the poster}}
POSTER = {
    0: dict(simple_regret="nas_init0_simple_regret"),
    2000: dict(
        regret_ratio="nas_init2000_regret_ratio",
        batch_size="nas_init2000_batch_size",
        seconds="nas_init2000_seconds",
    ),
}


def make(name: str, c: Config, space: architectures.Space) -> Any:
    """The algorithm `name` with the settings of a configuration."""
    if name == "evolution":
        return RegularizedEvolution(jnp.asarray(space.neighbours))
    if name == "eps_greedy_free":
        return ModelFreeEpsGreedy(factor=c["factor"])
    bandit = ALGORITHMS[name](c | dict(norm_bound=1.0, qbar=2.0))
    if not name.startswith("bbkb"):
        return bandit
    return bandit.replace(max_batch=10_000, capacity=256 if c["initial"] else 64)


def initial_evaluations(problem: Any, config: Config, seed: int) -> tuple[Any, Any, Any]:
    """(arms [n], rewards [n], key for `init`) of the n initial evaluations of a seed."""
    # the offset keeps these keys, which all methods share, apart from those of the runs
    key = jax.random.fold_in(jax.random.key(config["root_seed"]), 1_000_000 + seed)
    arm_key, reward_key, init_key = jax.random.split(key, 3)
    arms = jax.random.randint(arm_key, (config["initial"],), 0, problem.arms.count)
    rewards = jax.vmap(problem.sample)(jax.random.split(reward_key, len(arms)), arms)
    return arms, rewards, init_key


def warm_state(name: str, bandit: Any, problem: Any, config: Config, seed: int) -> Any:
    """The state after the initial evaluations of one seed. BLESS draws the first dictionary of
    BBKB, and the last initial evaluations are the population of evolution."""
    arms, rewards, init_key = initial_evaluations(problem, config, seed)
    if name.startswith("bbkb") or name == "eps_greedy_free":
        dictionary = "bless" if name.startswith("bbkb") else None
        data = history.of_evaluations(
            problem.arms, np.asarray(arms), np.asarray(rewards), dictionary
        )
        return bandit.init(problem.arms, init_key, data=data)
    state = bandit.init(problem.arms, init_key)
    if name == "evolution":
        state = state.replace(
            members=arms[-bandit.population :].astype(jnp.int32),
            rewards=rewards[-bandit.population :],
            count=jnp.asarray(bandit.population, jnp.int32),
        )
    return state


def configure(name: str, options: argparse.Namespace, source: str) -> Config:
    """The configuration of one algorithm: everything that its results depend on."""
    return dict(
        dataset=source,
        algorithm=name,
        horizon=options.horizon - options.initial,
        initial=options.initial,
        width=options.width,
        delta=1 / options.horizon,
        lengthscale=125.0 if options.initial else 100.0,
        noise_std=0.01,
        regularization=1e-4,
        ratio=2.0,
        epsilon=0.05,
        factor=2.0,
        root_seed=0,
        seeds_side_by_side=options.workers,
        chosen=CHOSEN_SETTINGS,
    )


def run(
    name: str, config: Config, space: architectures.Space, problem: Any, options: argparse.Namespace
) -> list[dict[str, np.ndarray]]:
    """The runs of all seeds of one algorithm, which are saved in the folder. The simple regret at t
    is that of the best arm evaluated until t, initial evaluations included."""
    bandit = make(name, config, space)
    states = partial(warm_state, name, bandit, problem, config) if config["initial"] else None
    seeds = bandit_runs.seeds_of(options)[name]
    runs = bandit_runs.run_algorithm(name, bandit, problem, config, options.out, seeds, states)
    regrets = np.asarray(problem.mean_reward.max() - problem.mean_reward)
    for seed, arrays in enumerate(runs if config["initial"] else ()):
        arms = np.asarray(initial_evaluations(problem, config, seed)[0])
        arrays["simple_regret"] = np.minimum(arrays["simple_regret"], regrets[arms].min())
    return runs


def draw(folder: Path) -> None:
    """Draws the figures of bandit runs, and simple_regret.png."""
    bandit_runs.draw(folder)
    published = against_published.read_curves(folder).get("simple_regret")
    curves = tidy.load(folder).curves
    title, regrets = curves.attrs["title"], tidy.lines(curves, "simple_regret")
    plots.simple_regret(folder / "simple_regret.png", regrets, title, published)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, horizon=12_000, seeds=10, data_dir=None, workers=1)
    parser.add_argument("--dataset", choices=["auto", *architectures.CHOICES], default="auto")
    help_text = "number of random initial evaluations"
    parser.add_argument("--initial", type=int, choices=[0, 2000], default=0, help=help_text)
    bandit_runs.add_options(parser, ALGORITHM_NAMES, WARM_START_ALGORITHMS)
    add_width(parser)
    options = cli.parse(parser)
    # delta = 1/T must be below 1, and at least one evaluation must remain
    min_horizon = options.initial + 2
    if options.horizon < min_horizon:
        parser.error(f"--horizon must be at least {min_horizon}; {options.horizon} was given")
    excluded = set(options.algorithms) - set(WARM_START_ALGORITHMS)
    if options.initial and excluded:
        parser.error(
            f"{', '.join(sorted(excluded))} cannot start from earlier evaluations; use --initial 0"
        )
    space = architectures.load(options.dataset, options.data_dir)
    print(f"DATA: {space.source}; {len(space.features)} architectures", flush=True)
    if space.neighbours is None:
        print("evolution is omitted: this space has no table of neighbours", flush=True)
        options.algorithms = [name for name in options.algorithms if name != "evolution"]
    problem = architectures.problem(space)
    configs = {name: configure(name, options, space.source) for name in options.algorithms}
    with outputs.results_folder(
        options, "bbkb_2020.nas_bench_101", configs, options.seeds
    ) as results:
        runs = {n: run(n, config, space, problem, options) for n, config in configs.items()}
        algorithms = {name: bandit_runs.summarise(rows) for name, rows in runs.items()}
        for name, rows in runs.items():
            final = [float(row["simple_regret"][-1]) for row in rows]
            algorithms[name]["simple_regret"] = summaries.statistics(final, ci=True)
        summary = dict(
            config=configs, seeds=options.seeds, data=space.source, algorithms=algorithms
        )
        title = f"{space.name}, {options.initial} initial evaluations,"
        title += f" {bandit_runs.seeds_text(options)}, mean and 95% interval"
        results.write(summary, bandit_runs.tidy_runs(space.name, configs, runs), title)
        if space.name == "NAS-Bench-101":
            panels = POSTER[options.initial]
            # the poster's simple regrets are in units of accuracy, ours in units of the rewards
            scales = dict(simple_regret=1 / space.span)
            against_published.write_curves(
                options.out, panels, options.initial, options.data_dir, scales
            )
            against_published.compare(options.out, options.initial)
        draw(options.out)
    summaries.print_table(title, algorithms)

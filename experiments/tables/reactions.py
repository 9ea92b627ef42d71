"""Noisy bandits on recorded reactions, beside the published logs of other bandit algorithms.

    python -m experiments.tables.reactions --reference DIR --out results/tables/reactions

DIR is a checkout of github.com/doyle-lab-ucla/bandit-optimization (Wang et al., Nature 2024), with
its tables and its logs of 400 or 500 simulations of 100 rounds. An arm is a combination of reaction
conditions. A pull returns the reward of a random substrate that this simulation has not used with
that arm: a yield between 0 and 1, or whether a yield exceeds a cutoff. If all substrates of the
chosen arm are used, the available arm with the largest upper confidence bound is pulled.

The answer of a simulation is its most frequently pulled arm, as in the publication, or the arm with
the highest mean reward so far; among tied arms a random one, of which the share is the expectation.
The publication counts answers among its `top` arms (`*_top`); `*_best` counts the best arms only.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array, lax

from experiments import cli
from experiments.results import outputs, summaries, tidy
from experiments.runs import bandit_runs
from jsketch import checks, kernels
from jsketch.bandits import BKB, GPUCB, TS, Uniform, widths
from jsketch.types import Arms, PRNGKey

ROUNDS, AT = 100, (10, 25, 50, 75, 100)
# The settings follow from the range of the rewards and from the publication (assumed_sd = 0.25,
# two standard deviations), and were fixed before any run. The prior of an arm's mean is 0.5 ± 0.25.
# The noise of a yield is 0.25, and that of a binary reward at most 0.5. Arms that differ in one of
# two conditions have the correlation exp(-1); with INDEPENDENT it is 0.
PRIOR_MEAN, PRIOR_STD, DEVIATIONS = 0.5, 0.25, 2.0
LENGTHSCALE, INDEPENDENT = 1.0, 0.01
LOGS = "deebo/manuscript figures/saved logs"
RIVALS = (
    *("bayes_ucb_gaussian_c=2_assumed_sd=0.25", "bayes_ucb_gaussian_squared_c=2", "ucb1tuned"),
    *("eps_greedy_annealing", "ts_gaussian_assumed_sd_0.25", "ts_gaussian_squared"),
)


class Setting(NamedTuple):
    """A table of the checkout and its published logs."""

    file: str
    conditions: tuple[str, ...]  # columns
    top: int  # number of arms that the published figure counts as correct
    logs: dict[str, str]  # {algorithm: folder}
    explore_then_commit: str  # file of the published shares
    noise_std: float = 0.25
    cutoff: float | None = None  # the reward is whether the yield in percent exceeds it


def _figure_2(name: str, rival: str) -> dict[str, str]:
    return {rival: f"fig2/{name}_{rival}", "random": f"fig2/{name}_random"}


SETTINGS = {
    "nickel_borylation": Setting(
        *("nib-etoh.csv", ("ligand_name",), 3, _figure_2("nickel_borylation", "bayes_ucb_beta")),
        *("fig2/nickel_borylation_etc", 0.5, 50.0),
    ),
    "deoxyfluorination": Setting(
        *("deoxyf.csv", ("base_name", "fluoride_name"), 2),
        *(_figure_2("deoxyfluorination", "bayes_ucb_gaussian"), "fig2/deoxyfluorination_etc"),
    ),
    "cn_coupling": Setting(
        *("cn-processed.csv", ("base_name", "ligand_name"), 3),
        *({name: f"fig3/{name}-500s-100r-1e" for name in RIVALS}, "fig3/etc/top3"),
    ),
}


def load(folder: Path, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """(one-hot features [A,d], recorded rewards [A,R]) of the arms in the order of the logs."""
    frame = pd.read_csv(folder / "datasets" / setting.file)
    percent = frame["yield"].to_numpy()
    scaled = np.clip(percent / 100, 0, 1)
    rewards = scaled if setting.cutoff is None else (percent > setting.cutoff).astype(float)
    codes = [pd.factorize(frame[name])[0] for name in setting.conditions]
    shape = [int(code.max()) + 1 for code in codes]
    arms = np.ravel_multi_index(codes, shape)
    sizes = np.bincount(arms, minlength=int(np.prod(shape)))
    if (sizes != sizes[0]).any() or not np.isfinite(percent).all():
        raise ValueError(f"the arms of {setting.file} must have equally many recorded yields.")
    places = np.unravel_index(np.arange(len(sizes)), shape)
    features = np.hstack([np.eye(size)[place] for size, place in zip(shape, places, strict=True)])
    return features, rewards[np.argsort(arms, kind="stable")].reshape(len(sizes), -1)


def read_log(path: Path, recorded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(arms [S,T], rewards [S,T]) of a published log. Raises ValueError for a reward that is not
    among the recorded ones [A,R] of its arm."""
    log = pd.read_csv(path)
    simulations = int(log["num_sims"].max()) + 1
    arms, rewards = (
        log[name].to_numpy().reshape(simulations, -1)[:, :ROUNDS]
        for name in ("chosen_arm", "reward")
    )
    arms = arms.astype(int)
    if not np.isclose(rewards[..., None], recorded[arms], rtol=0, atol=1e-9).any(-1).all():
        raise ValueError(f"{path} has rewards that its arms do not have in the table.")
    return arms, rewards


@partial(jax.jit, static_argnames="rounds")
def play(
    bandit: Any, features: Array, recorded: Array, keys: PRNGKey, rounds: int
) -> tuple[Array, Array, Array]:
    """(arms [S,T], rewards [S,T], whether a capacity was exceeded or a posterior is not finite)."""
    domain, size = Arms(features), recorded.shape[1]

    def run(key: PRNGKey) -> tuple[Array, Array, Array]:
        init_key, order_key, round_key = jax.random.split(key, 3)
        shuffled = jax.random.permutation(order_key, recorded, axis=1, independent=True)

        def step(carry: tuple[Any, Array], t: Array) -> tuple[Any, tuple[Array, Array, Array]]:
            state, used = carry
            ask_key, tell_key = jax.random.split(jax.random.fold_in(round_key, t))
            arm = bandit.ask(state, ask_key, limit=1).index[0]
            bounds = bandit.confidence_bounds(state)
            scores = jnp.zeros(used.shape) if bounds is None else widths.ucb(*bounds)
            available = jnp.argmax(jnp.where(used < size, scores, -jnp.inf)).astype(jnp.int32)
            arm = jnp.where(used[arm] < size, arm, available)
            reward = shuffled[arm, used[arm]]
            scaled = (reward[None] - PRIOR_MEAN) / PRIOR_STD
            state, info = bandit.tell(state, checks.single_query(arm), scaled, tell_key)
            return (state, used.at[arm].add(1)), (arm, reward, info.overflow | info.nonfinite)

        start = bandit.init(domain, init_key), jnp.zeros(len(recorded), jnp.int32)
        return lax.scan(step, start, jnp.arange(rounds))[1]

    return jax.vmap(run)(keys)


def bandits_of(setting: Setting, arms: int) -> dict[str, Any]:
    """The algorithms of this library, for rewards in units of PRIOR_STD."""
    regularization = (setting.noise_std / PRIOR_STD) ** 2
    scale = LENGTHSCALE if len(setting.conditions) > 1 else INDEPENDENT
    common = dict(regularization=regularization, width=widths.Bayesian(DEVIATIONS), capacity=arms)
    draw = widths.Bayesian(1.0)  # a Thompson sample is then a draw from the posterior
    bandits = {
        "gp_ucb": GPUCB(kernels.Gaussian(scale), **common),
        "bkb": BKB(kernels.Gaussian(scale), **common),
        "ts": TS(kernels.Gaussian(scale), **common | dict(width=draw), scale=1.0, batch=1),
        "uniform": Uniform(),
    }
    if scale != INDEPENDENT:
        bandits["gp_ucb_independent"] = GPUCB(kernels.Gaussian(INDEPENDENT), **common)
    return bandits


def metrics(
    arms: np.ndarray, rewards: np.ndarray, means: np.ndarray, top: int
) -> dict[str, np.ndarray]:
    """{metric: its value [S,T] after each round} of runs [S,T] on arms with mean rewards [A]."""
    pulls = arms[..., None] == np.arange(len(means))
    counts, sums = pulls.cumsum(1), (pulls * rewards[..., None]).cumsum(1)
    averages = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
    correct = dict(top=means >= np.sort(means)[-top], best=means == means.max())
    found = {}
    for answer, scores in (("most_pulled", counts), ("highest_mean", averages)):
        leaders = scores == scores.max(-1, keepdims=True)
        for name, arms_counted in correct.items():
            found[f"{answer}_{name}"] = (leaders & arms_counted).sum(-1) / leaders.sum(-1)
    found["mean_reward"] = rewards.cumsum(1) / np.arange(1, arms.shape[1] + 1)
    return found | dict(regret=(means.max() - means[arms]).cumsum(1))


def rows_of(labels: dict[str, str], values: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """A row for each round of AT: the mean of each metric and the half width of its interval."""
    rows = []
    for t in AT:
        row: dict[str, Any] = dict(labels, round=t, simulations=len(values["regret"]))
        for name, value in values.items():
            row[name] = round(float(value[:, t - 1].mean()), 4)
            row[f"{name}_ci95"] = round(summaries.ci95(value[:, t - 1]), 4)
        rows.append(row)
    return rows


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=500, reference=None)
    cli.add_choices(parser, "--tables", list(SETTINGS))
    options = cli.parse(parser)
    if options.reference is None:
        raise ValueError("--reference takes a checkout of doyle-lab-ucla/bandit-optimization.")
    config: dict[str, Any] = dict(
        prior=[PRIOR_MEAN, PRIOR_STD], lengthscale=LENGTHSCALE, deviations=DEVIATIONS
    )
    config["noise"] = {name: SETTINGS[name].noise_std for name in options.tables}
    with outputs.results_folder(options, "tables.reactions", config, options.seeds) as results:
        rows: list[dict[str, Any]] = []
        seconds: dict[str, dict[str, float]] = {}
        committed: dict[str, dict[int, float]] = {}
        for name in options.tables:
            setting, logs = SETTINGS[name], options.reference / LOGS
            features, recorded = load(options.reference, setting)
            measure = partial(metrics, means=recorded.mean(1), top=setting.top)
            keys, seconds[name] = bandit_runs.keys_of(0, list(range(options.seeds))), {}
            for algorithm, bandit in bandits_of(setting, len(recorded)).items():
                start = time.process_time()
                arms, rewards, failed = map(
                    np.asarray, play(bandit, jnp.asarray(features), recorded, keys, ROUNDS)
                )
                seconds[name][algorithm] = round(time.process_time() - start, 2)
                if failed.any():
                    raise FloatingPointError(f"{algorithm} failed on {name}.")
                labels = dict(table=name, source="ours", algorithm=algorithm)
                rows += rows_of(labels, measure(arms, rewards))
            for algorithm, folder in setting.logs.items():
                labels = dict(table=name, source="published", algorithm=algorithm)
                rows += rows_of(labels, measure(*read_log(logs / folder / "log.csv", recorded)))
            curve = np.load(logs / f"{setting.explore_then_commit}.npy")  # after 0, 1, ... rounds
            committed[name] = {t: float(curve[t]) for t in AT if t < len(curve)}
        table = pd.DataFrame(rows)
        tidy.write_csv(options.out / "reactions.csv", table)
        results.write(dict(config=config, cpu_seconds=seconds, explore_then_commit_top=committed))
    shown = table.pivot_table("most_pulled_top", ["table", "source", "algorithm"], "round")
    print(shown.to_string())

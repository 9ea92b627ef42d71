"""Noisy bandits on recorded reactions, beside published logs of other bandit algorithms.

    python -m experiments.tables.reactions --reference DIR --out results/tables/reactions

DIR is a checkout of github.com/doyle-lab-ucla/bandit-optimization (Wang et al., Nature 2024). An
arm is a combination of reaction conditions. A pull returns the reward of a random substrate that
the simulation has not yet used with that arm. If all substrates are used, the arm with the
largest upper confidence bound among the other arms is pulled.

The answer of a simulation is its most frequently pulled arm, as in the publication, or the arm with
the highest mean reward so far; tied arms have equal shares of it. The publication counts the
answers among the `top` best arms (`*_top`), and `*_best` counts only the best arms.
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
from jsketch import kernels
from jsketch.bandits import BKB, GPUCB, TS, Uniform, widths
from jsketch.loops.advance import COMPILER_OPTIONS
from jsketch.results import Result
from jsketch.types import Arms, PRNGKey, Query

ROUNDS, REPORTED_ROUNDS = 100, (10, 25, 50, 75, 100)
# These settings were fixed before any run: rewards are in [0, 1], so that the prior of an arm's
# mean is 0.5 ± 0.25; the noise 0.25 and two standard deviations are those of the publication. Arms
# that differ in one of two conditions have the correlation exp(-1), and none with UNCORRELATED.
# Only "bkb_qbar_10" was added afterwards: it keeps the inducing points that BKB drops.
PRIOR_MEAN, PRIOR_STD, DEVIATIONS = 0.5, 0.25, 2.0
LENGTHSCALE, UNCORRELATED = 1.0, 0.01  # lengthscales
LOGS = "deebo/manuscript figures/saved logs"
RIVALS = (
    *("bayes_ucb_gaussian_c=2_assumed_sd=0.25", "bayes_ucb_gaussian_squared_c=2", "ucb1tuned"),
    *("eps_greedy_annealing", "ts_gaussian_assumed_sd_0.25", "ts_gaussian_squared"),
)


class Setting(NamedTuple):
    """A table of the checkout, and its published logs."""

    file: str
    conditions: tuple[str, ...]  # columns
    top: int  # number of arms that the publication counts as correct answers
    logs: dict[str, str]  # {algorithm: folder}
    noise_std: float = 0.25
    cutoff: float | None = None  # the reward is whether a yield in percent exceeds it


SETTINGS = {
    "nickel_borylation": Setting(
        *("nib-etoh.csv", ("ligand_name",), 3),
        {name: f"fig2/nickel_borylation_{name}" for name in ("bayes_ucb_beta", "random")},
        noise_std=0.5,  # the largest standard deviation of a binary reward
        cutoff=50.0,
    ),
    "deoxyfluorination": Setting(
        *("deoxyf.csv", ("base_name", "fluoride_name"), 2),
        {name: f"fig2/deoxyfluorination_{name}" for name in ("bayes_ucb_gaussian", "random")},
    ),
    "cn_coupling": Setting(
        *("cn-processed.csv", ("base_name", "ligand_name"), 3),
        {name: f"fig3/{name}-500s-100r-1e" for name in RIVALS},
    ),
}


def load(folder: Path, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """(one-hot features [A,d], recorded rewards [A,R]) of the arms in the order of the logs. Raises
    ValueError unless all arms have R yields."""
    frame = pd.read_csv(folder / "datasets" / setting.file)
    percent = frame["yield"].to_numpy()
    binary = setting.cutoff is not None
    rewards = (percent > setting.cutoff) * 1.0 if binary else np.clip(percent / 100, 0, 1)
    codes = [pd.factorize(frame[name])[0] for name in setting.conditions]
    shape = [int(code.max()) + 1 for code in codes]
    arms, n_arms = np.ravel_multi_index(codes, shape), int(np.prod(shape))
    if np.unique(np.bincount(arms, minlength=n_arms)).size > 1 or np.isnan(percent).any():
        raise ValueError(f"the arms of {setting.file} must have equally many recorded yields.")
    levels = zip(shape, np.unravel_index(np.arange(n_arms), shape), strict=True)
    features = np.hstack([np.eye(size)[level] for size, level in levels])
    return features, rewards[np.argsort(arms, kind="stable")].reshape(n_arms, -1)


def read_log(path: Path, recorded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(arms [S,T], rewards [S,T]) of a published log. Raises ValueError for a reward that is not
    among the recorded ones [A,R] of its arm."""
    log = pd.read_csv(path)
    shape = (log["num_sims"].nunique(), -1)
    arms = log["chosen_arm"].to_numpy(int).reshape(shape)[:, :ROUNDS]
    rewards = log["reward"].to_numpy().reshape(shape)[:, :ROUNDS]
    if not (np.abs(rewards[..., None] - recorded[arms]) < 1e-9).any(-1).all():
        raise ValueError(f"{path} has rewards that its arms do not have in the table.")
    return arms, rewards


@partial(jax.jit, static_argnames="rounds", compiler_options=COMPILER_OPTIONS)
def play(
    bandit: Any, features: Array, recorded: Array, keys: PRNGKey, rounds: int = ROUNDS
) -> tuple[Array, Array, Array]:
    """(arms [S,T], rewards [S,T], whether a capacity was exceeded or a posterior is not finite)."""

    arms = Arms(features)

    def run(key: PRNGKey) -> tuple[Array, Array, Array]:
        init_key, order_key, round_key = jax.random.split(key, 3)
        shuffled = jax.random.permutation(order_key, recorded, axis=1, independent=True)

        def step(carry: tuple[Any, Array], t: Array) -> tuple[Any, tuple[Array, Array, Array]]:
            state, pulls = carry
            ask_key, tell_key = jax.random.split(jax.random.fold_in(round_key, t))
            arm = bandit.ask(state, arms, ask_key, limit=1).index[0]
            bounds, has_unused = bandit.confidence_bounds(state, arms), pulls < recorded.shape[1]
            scores = jnp.zeros(len(recorded)) if bounds is None else widths.ucb(*bounds)
            other = lax.argmax(jnp.where(has_unused, scores, -jnp.inf), 0, jnp.int32)
            arm = jnp.where(has_unused[arm], arm, other)
            reward = shuffled[arm, pulls[arm]]
            standardized = (reward[None] - PRIOR_MEAN) / PRIOR_STD
            state, info = bandit.tell(state, arms, Query.of(arm), standardized, tell_key)
            return (state, pulls.at[arm].add(1)), (arm, reward, info.result != Result.RUNNING)

        start = bandit.init(arms, init_key), jnp.zeros(len(recorded), jnp.int32)
        return lax.scan(step, start, jnp.arange(rounds))[1]

    return jax.vmap(run)(keys)


def bandits_of(setting: Setting, n_arms: int) -> dict[str, Any]:
    """The algorithms of this library, for rewards standardized by the prior."""
    lengthscale = LENGTHSCALE if len(setting.conditions) > 1 else UNCORRELATED
    common: dict[str, Any] = dict(
        regularization=(setting.noise_std / PRIOR_STD) ** 2,
        width=widths.Bayesian(DEVIATIONS),
        capacity=n_arms,
    )
    # one sample of the posterior
    sample = common | dict(width=widths.Bayesian(1.0), scale=1.0)
    bandits: dict[str, Any] = {
        "gp_ucb": GPUCB(kernels.Gaussian(lengthscale), **common),
        "bkb": BKB(kernels.Gaussian(lengthscale), **common),
        "ts": TS(kernels.Gaussian(lengthscale), **sample, batch=1),
        "uniform": Uniform(),
    }
    if lengthscale == UNCORRELATED:
        return bandits | dict(bkb_qbar_10=BKB(kernels.Gaussian(lengthscale), **common, qbar=10.0))
    return bandits | dict(gp_ucb_independent=GPUCB(kernels.Gaussian(UNCORRELATED), **common))


def metrics(
    arms: np.ndarray, rewards: np.ndarray, means: np.ndarray, top: int
) -> dict[str, np.ndarray]:
    """{metric: its value [S,T] after each round} of runs [S,T] on arms with mean rewards [A]."""
    pulls = arms[..., None] == np.arange(len(means))
    counts, sums = pulls.cumsum(1), (pulls * rewards[..., None]).cumsum(1)
    averages = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
    correct_arms = dict(top=means >= np.sort(means)[-top], best=means == means.max())
    values = {}
    for answer, scores in (("most_pulled", counts), ("highest_mean", averages)):
        answers = scores == scores.max(-1, keepdims=True)
        for name, is_correct in correct_arms.items():
            values[f"{answer}_{name}"] = (answers & is_correct).sum(-1) / answers.sum(-1)
    values["mean_reward"] = rewards.cumsum(1) / np.arange(1, arms.shape[1] + 1)
    return values | dict(regret=(means.max() - means[arms]).cumsum(1))


def rows_of(labels: tuple[str, ...], values: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """A row for each of REPORTED_ROUNDS: means over the simulations, and half widths
    of their 95% intervals."""
    names = "table", "source", "algorithm", "simulations"
    identity = dict(zip(names, (*labels, len(values["regret"])), strict=True))
    rows = []
    for t in REPORTED_ROUNDS:
        columns = {name: value[:, t - 1] for name, value in values.items()}
        means = {name: round(float(column.mean()), 4) for name, column in columns.items()}
        ci95 = {f"{n}_ci95": round(summaries.ci95(column), 4) for n, column in columns.items()}
        rows.append(identity | dict(round=t) | means | ci95)
    return rows


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=500, reference=None)
    cli.add_choices(parser, "--tables", list(SETTINGS))
    options = cli.parse(parser)
    if options.reference is None:
        raise ValueError("--reference takes a checkout of doyle-lab-ucla/bandit-optimization.")
    noise = {name: SETTINGS[name].noise_std for name in options.tables}
    prior = dict(mean=PRIOR_MEAN, std=PRIOR_STD, lengthscale=LENGTHSCALE)
    config: dict[str, Any] = dict(noise=noise, prior=prior, deviations=DEVIATIONS)
    with outputs.results_folder(options, "tables.reactions", config, options.seeds) as results:
        rows: list[dict[str, Any]] = []
        seconds: dict[str, dict[str, float]] = {name: {} for name in options.tables}
        for name in options.tables:
            setting, keys = SETTINGS[name], bandit_runs.keys_of(0, list(range(options.seeds)))
            features, recorded = load(options.reference, setting)
            measure = partial(metrics, means=recorded.mean(1), top=setting.top)
            for algorithm, bandit in bandits_of(setting, len(recorded)).items():
                start = time.process_time()
                arms, rewards, failed = map(np.asarray, play(bandit, features, recorded, keys))
                seconds[name][algorithm] = round(time.process_time() - start, 2)
                print(name, algorithm, seconds[name][algorithm], flush=True)
                if failed.any():
                    raise FloatingPointError(f"{algorithm} failed on {name}.")
                rows += rows_of((name, "ours", algorithm), measure(arms, rewards))
            for algorithm, folder in setting.logs.items():
                run = read_log(options.reference / LOGS / folder / "log.csv", recorded)
                rows += rows_of((name, "published", algorithm), measure(*run))
        table = pd.DataFrame(rows)
        tidy.write_csv(options.out / "reactions.csv", table)
        results.write(dict(config=config, seeds=options.seeds, cpu_seconds=seconds))
    shown = table.pivot(index=["table", "source", "algorithm"], columns="round")
    print(shown[["most_pulled_top", "regret"]].to_string())

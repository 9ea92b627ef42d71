"""BKB, Figure 2: posteriors of a GP on [0, 1] that was evaluated on [0, 0.5] only.

The paper says that the error bars of BKB stay wide where nothing was observed and follow the exact
posterior elsewhere, and that the subset of regressors and random Fourier features suffer from
variance starvation. The data are generated: f is a GP draw on a grid, and t in {6, 63, 215}
evaluations lie uniformly in [0, 0.5]. The figure compares the posteriors of the exact GP, of BKB
(also called DTC), of the subset of regressors (BKB without the residual variance), and of as many
random Fourier features as BKB has inducing points.

The paper's "bandwidth sigma^2 = 100" is read as an inverse squared lengthscale, because f would be
constant with lengthscale 10: exp(-50 d^2), and with the curves of the poster exp(-100 d^2). Noise,
lambda, q_bar and the grid are open.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jax import Array
from matplotlib.axes import Axes

from experiments import common
from experiments.common import Options, Settings, Verdict
from experiments.figures import drawing
from experiments.results import tidy
from jsketch import Query, kernels, problems
from jsketch.bandits import BKB, GPUCB, Draw
from jsketch.core.posterior import embed
from jsketch.numerics import matmul
from jsketch.posterior import bayes_std
from jsketch.results import Result
from jsketch.sketch import fourier
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier
from jsketch.types import PRNGKey

GRID_SIZE, EVALUATIONS, EDGE = 501, (6, 63, 215), 0.5  # f is observed on [0, EDGE]
NOISE_STD, QFF_NODES = 0.1, 96
LAM = NOISE_STD**2
RUNS: dict[str, Settings] = {
    "bkb_2019/variance_starvation": dict(lengthscale=0.1, qbar=2.0, seeds=1_000),
    "bkb_2019/variance_starvation_poster": dict(lengthscale=0.0707, qbar=2.0, seeds=1_000),
    "bkb_2019/variance_starvation_poster_qbar5": dict(lengthscale=0.0707, qbar=5.0, seeds=100),
}
QUICK: Settings = dict(seeds=2)
METHODS = {  # {method: (label, colour)}
    "exact": ("exact GP", "#56B4E9"),
    "bkb": ("BKB (DTC)", "#009E73"),
    "sor": ("subset of\nregressors", "#E69F00"),
    "rff": ("random Fourier\nfeatures", "#D55E00"),
    "qff": ("quadrature\nFourier features", "#CC79A7"),
}
FIGURE_METHODS = ("exact", "bkb", "sor", "rff")
FIGURE_TABLE = "posteriors.parquet"  # the data of the figure, which shows seed 0


class Posterior(NamedTuple):
    """Mean and Bayesian standard deviation sqrt(lam sigma^2) at the grid, [A] each."""

    mean: Array
    std: Array


class Data(NamedTuple):
    """One GP draw and its observations."""

    x: Array  # [A, 1]
    f: Array  # [A]
    arms: Array  # [t] int32
    y: Array  # [t]


class Outcome(NamedTuple):
    """One seed: the data, the posteriors of all methods, and the arms [m] in BKB's dictionary."""

    data: Data
    posteriors: dict[str, Posterior]
    inducing: np.ndarray


def generate(key: PRNGKey, evaluations: int, kernel: kernels.Gaussian) -> Data:
    """A GP draw, and its noisy values at uniform points of [0, EDGE], the first `evaluations` of a
    list that depends on the key alone."""
    f_key, arm_key, noise_key = jax.random.split(key, 3)
    x = jnp.linspace(0, 1, GRID_SIZE)[:, None]
    f = problems.gp_draw(f_key, kernel, x, NOISE_STD).mean_reward
    n_observable = int(EDGE * (GRID_SIZE - 1)) + 1  # points in [0, EDGE]
    arms = jax.random.randint(arm_key, (max(EVALUATIONS),), 0, n_observable, jnp.int32)
    noise = NOISE_STD * jax.random.normal(noise_key, (max(EVALUATIONS),))[:evaluations]
    arms = arms[:evaluations]
    return Data(x, f, arms, f[arms] + noise)


def state_after(bandit: Any, data: Data, key: PRNGKey) -> tuple[Any, Array]:
    """(the state after the bandit has observed the evaluations one by one, whether its capacity was
    too small)."""
    arms = problems.finite_arms(data.x, data.f, NOISE_STD).arms
    state = bandit.init(arms, key)

    def step(state: Any, observed: tuple[Array, Array, Array]) -> tuple[Any, Array]:
        t, arm, y = observed
        tell_key = jax.random.fold_in(key, t)
        state, info = bandit.tell(state, arms, Query.of(arm), y[None], tell_key)
        return state, info.result == Result.CAPACITY_EXCEEDED

    steps = jnp.arange(len(data.arms), dtype=jnp.int32)
    state, overflow = jax.lax.scan(step, state, (steps, data.arms, data.y))
    return state, overflow.any()


def feature_posterior(z: Array, data: Data) -> Posterior:
    """The posterior of a linear model on features z [A, M], which has no residual variance."""
    observed = z[data.arms]
    v = LAM * jnp.eye(z.shape[1]) + matmul(observed.T, observed)
    lower = jnp.linalg.cholesky(v)
    whitened = jax.scipy.linalg.solve_triangular(lower, z.T, lower=True)  # u, [M, A]
    weights = jax.scipy.linalg.solve_triangular(lower, matmul(data.y, observed), lower=True)
    return Posterior(matmul(weights, whitened), bayes_std(jnp.square(whitened).sum(0), LAM))


@partial(jax.jit, static_argnames=("evaluations", "capacity", "lengthscale", "qbar"))
def sketched_posteriors(
    key: PRNGKey, evaluations: int, capacity: int, lengthscale: float, qbar: float
) -> tuple[Data, dict[str, Any], Array, Array]:
    """(data, {method: posterior} without random Fourier features, whether an arm is in BKB's
    dictionary [A], whether the dictionary exceeded the capacity) of one seed."""
    kernel = kernels.Gaussian(lengthscale)
    data_key, bkb_key = jax.random.split(key)
    data = generate(data_key, evaluations, kernel)
    model: dict[str, Any] = dict(kernel=kernel, regularization=LAM, noise_std=NOISE_STD)
    exact = state_after(GPUCB(**model, capacity=evaluations), data, bkb_key)[0].posterior
    bandit = BKB(**model, qbar=qbar, dictionary=Draw(), capacity=capacity)
    state, overflow = state_after(bandit, data, bkb_key)
    bkb = state.posterior
    projected_variance = jnp.square(embed(bkb, kernel, data.x)).sum(1)
    nodes = QuadratureFourier(QFF_NODES).draw(kernel, 1, key, data.x.dtype)
    posteriors = dict(
        exact=Posterior(exact.mean, bayes_std(exact.variance, LAM)),
        bkb=Posterior(bkb.mean, bayes_std(bkb.variance, LAM)),
        sor=Posterior(bkb.mean, bayes_std(projected_variance, LAM)),
        qff=feature_posterior(fourier.features(nodes, data.x), data),
    )
    return data, posteriors, state.inducing, overflow


@partial(jax.jit, static_argnames=("n_frequencies", "lengthscale"))
def rff_posterior(key: PRNGKey, data: Data, n_frequencies: int, lengthscale: float) -> Posterior:
    """The posterior with 2 * n_frequencies random Fourier features."""
    kernel, feature_key = kernels.Gaussian(lengthscale), jax.random.fold_in(key, 1)
    features = RandomFourier(n_frequencies).draw(kernel, 1, feature_key, data.x.dtype)
    return feature_posterior(fourier.features(features, data.x), data)


def play(
    seed: int, evaluations: int, lengthscale: float, qbar: float = 2.0, capacity: int = 48
) -> Outcome:
    """Runs one seed; doubles the capacity of the dictionary until it suffices."""
    key = jax.random.fold_in(jax.random.key(0), seed)
    data, posteriors, inducing, overflow = sketched_posteriors(
        key, evaluations, capacity, lengthscale, qbar
    )
    if bool(overflow):
        return play(seed, evaluations, lengthscale, qbar, 2 * capacity)
    n_frequencies = -(-int(inducing.sum()) // 2)  # half the inducing points, rounded up
    posteriors["rff"] = rff_posterior(key, data, n_frequencies, lengthscale)
    return Outcome(data, posteriors, np.flatnonzero(np.asarray(inducing)))


def measure(outcome: Outcome) -> dict[str, dict[str, float]]:
    """For each method, the ratios of its standard deviation to the exact one on the observed and on
    the unobserved half, and the share of the unobserved half where |f - mean| > 3 std."""
    unobserved = np.asarray(outcome.data.x[:, 0]) > EDGE
    numbers = {}
    for name in METHODS:
        mean, std = map(np.asarray, outcome.posteriors[name])
        ratio = std / np.asarray(outcome.posteriors["exact"].std)
        is_outside = np.abs(mean - outcome.data.f) > 3 * std + 1e-9  # up to rounding
        numbers[name] = dict(
            smallest_ratio_to_exact_unseen=float(ratio[unobserved].min()),
            smallest_ratio_to_exact_seen=float(ratio[~unobserved].min()),
            largest_ratio_to_exact_seen=float(ratio[~unobserved].max()),
            share_of_f_outside_3_std_unseen=float(is_outside[unobserved].mean()),
        )
    return numbers


def tidy_runs(config: dict[str, Any], outcomes: dict[int, list[Outcome]]) -> list[tidy.Run]:
    """The numbers of `measure` against t, as a run for each method and seed."""
    t = np.array(list(outcomes))
    runs = []
    for seed, seed_outcomes in enumerate(zip(*outcomes.values(), strict=True)):
        dictionary_sizes = np.array([len(outcome.inducing) for outcome in seed_outcomes])
        measured = [measure(outcome) for outcome in seed_outcomes]
        for name in METHODS:
            numbers = [by_method[name] for by_method in measured]
            fields = {field: np.array([row[field] for row in numbers]) for field in numbers[0]}
            run_config = dict(problem="gp_draw", algorithm=name, **config)
            runs.append(tidy.Run(run_config, seed, dict(t=t, dictionary=dictionary_sizes) | fields))
    return runs


def table_of(outcomes: dict[int, Outcome]) -> pd.DataFrame:
    """The data of the figure, in the columns t, series, x, value and sd; a series is f, the
    evaluations, the inducing points or a posterior."""
    parts = []
    for t, (data, posteriors, inducing) in outcomes.items():
        x = np.asarray(data.x[:, 0])
        series: dict[str, tuple[Any, Any, Any]] = dict(
            f=(x, data.f, np.nan),
            evaluations=(x[np.asarray(data.arms)], data.y, np.nan),
            inducing_points=(x[inducing], np.nan, np.nan),
            **{name: (x, *posteriors[name]) for name in FIGURE_METHODS},
        )
        parts += [
            pd.DataFrame(dict(t=t, series=name, x=xs, value=np.asarray(value), sd=np.asarray(sd)))
            for name, (xs, value, sd) in series.items()
        ]
    return pd.concat(parts, ignore_index=True).astype({"series": "category"})


def run(folder: Path, settings: Settings, options: Options) -> None:
    lengthscale, qbar, draws = settings["lengthscale"], settings["qbar"], settings["seeds"]
    config = dict(
        kernel="Gaussian",
        lengthscale=lengthscale,
        noise_std=NOISE_STD,
        regularization=LAM,
        qbar=qbar,
        grid=GRID_SIZE,
        root_seed=0,
    )
    # the number of draws is part of the configuration, because single runs are not saved
    session = config | dict(draws=draws, evaluations=EVALUATIONS, observed=[0, EDGE])
    with options.results(folder, "bkb_2019.fig2_starvation", session, draws) as results:
        outcomes = {
            t: [play(seed, t, lengthscale, qbar) for seed in range(draws)] for t in EVALUATIONS
        }
        summary = dict(config=session, seeds=draws, data="generated")
        results.write(summary, tidy_runs(config, outcomes), "GP draws evaluated on [0, 0.5]")
        first_draw = {t: of_draws[0] for t, of_draws in outcomes.items()}
        tidy.write_table(folder / FIGURE_TABLE, table_of(first_draw))


def draw(folder: Path) -> None:
    """Draws variance_starvation.png from the table in the folder: a column for each t, a row for
    each method."""
    table = tidy.read_table(folder / FIGURE_TABLE)
    columns = table["t"].unique()
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (7.6, 6.4), "axes.grid": False}):
        figure, panels = plt.subplots(
            len(FIGURE_METHODS), len(columns), sharex=True, sharey=True, squeeze=False
        )
        panels[0, 0].set_ylim(-4.2, 4.2)
        for column, t in enumerate(columns):
            series = dict(iter(table[table["t"] == t].groupby("series", observed=True)))
            panels[0, column].set_title(
                f"$t = {t}$, {len(series['inducing_points'])} inducing points", loc="left"
            )
            for axes, name in zip(panels[:, column], FIGURE_METHODS, strict=True):
                _draw_panel(axes, series, name)
        for axes, name in zip(panels[:, 0], FIGURE_METHODS, strict=True):
            axes.set_ylabel(METHODS[name][0])
        for axes in panels[-1]:
            axes.set_xlabel("$x$")
        figure.suptitle(
            "GP draw (black), evaluations (dots), posterior mean ± 3 sd; dashed: prior; grey:"
            " unseen; triangles: dictionary",
            fontsize=8,
        )
        drawing.save(figure, folder / "variance_starvation.png")


def _draw_panel(axes: Axes, series: dict[Any, pd.DataFrame], name: str) -> None:
    """Draws one posterior with f and the evaluations, and the inducing points if the method has
    them."""
    axes.axvspan(EDGE, 1, color="0.96", linewidth=0)
    for prior_bound in (-3, 3):
        axes.axhline(prior_bound, color="0.75", linewidth=0.7, linestyle=(0, (3, 2)))
    posterior, f, observed = series[name], series["f"], series["evaluations"]
    x, mean, half_width = posterior["x"], posterior["value"], 3 * posterior["sd"]
    colour = METHODS[name][1]
    axes.fill_between(x, mean - half_width, mean + half_width, color=colour, alpha=0.3, linewidth=0)
    axes.plot(x, mean, color=colour)
    axes.margins(x=0)
    axes.plot(f["x"], f["value"], color="black", linewidth=0.9)
    axes.plot(observed["x"], observed["value"], ".", color="0.25", markersize=2.5, alpha=0.7)
    if name in ("bkb", "sor"):
        points = series["inducing_points"]["x"]
        bottom: dict[str, Any] = dict(transform=axes.get_xaxis_transform(), clip_on=False, zorder=3)
        axes.plot(points, np.zeros_like(points), "^", color="#D55E00", markersize=4, **bottom)


# --- the rules

MIN_RATIO = 0.95  # error bars are too narrow if their ratio to the exact GP's is smaller
MARGIN = 0.1  # standard deviations are close if their ratio is within this distance of 1
STARVATION = 5  # error bars starve if f leaves them this many times as often as the exact GP's
KERNELS = {"exp(-50 d^2)": "variance_starvation", "exp(-100 d^2)": "variance_starvation_poster"}


def of_kernels(check: Callable[[Path], Verdict], root: Path) -> Verdict:
    """The verdict of a claim with both kernels."""
    return common.all_of({k: partial(check, root / "bkb_2019" / f) for k, f in KERNELS.items()})


def by_t(folder: Path, method: str, field: str) -> dict[str, np.ndarray]:
    """{"t = 6": a field [S] of a method in S draws}, for each number t of evaluations."""
    times, draws = common.curve(folder, field, method)
    return {f"t = {t}": column for t, column in zip(times, draws.T, strict=True)}


def text_of(values: dict[str, np.ndarray]) -> str:
    """The intervals of the means over draws, as text."""
    return common.listed({name: common.mean_interval(draws) for name, draws in values.items()})


def keeps_prior(root: Path) -> Verdict:
    """The smallest ratio of BKB's standard deviation to the exact one on the unobserved half lies
    above MIN_RATIO in the mean over draws, at each t."""

    def case(folder: Path) -> Verdict:
        ratios = by_t(folder, "bkb", "smallest_ratio_to_exact_unseen")
        holds = common.all_above(map(common.mean_interval, ratios.values()), MIN_RATIO)
        least = min(draws.min() for draws in ratios.values())
        return common.verdict(holds, f"{text_of(ratios)}; the least of all draws {least:.3f}")

    return of_kernels(case, root)


def close_to_exact(folder: Path) -> Verdict:
    """The smallest and the largest ratio of BKB's standard deviation to the exact one on the
    observed half lie within MARGIN of 1 in the mean over draws, at each t."""
    smallest = by_t(folder, "bkb", "smallest_ratio_to_exact_seen")
    largest = by_t(folder, "bkb", "largest_ratio_to_exact_seen")
    margins = [draws - (1 - MARGIN) for draws in smallest.values()]
    margins += [1 + MARGIN - draws for draws in largest.values()]
    wide = max((draws > 1 + MARGIN).mean() for draws in largest.values())
    text = f"smallest {text_of(smallest)}; largest {text_of(largest)}, above {1 + MARGIN:g} in up"
    holds = common.all_above(map(common.mean_interval, margins), 0)
    return common.verdict(holds, f"{text} to {wide:.1%} of the draws")


def follows_exact(root: Path) -> Verdict:
    """`close_to_exact` with both kernels and q_bar = 2, and with exp(-100 d^2) and q_bar = 5; the
    paper leaves q_bar open."""
    larger = root / "bkb_2019/variance_starvation_poster_qbar5"
    return common.agreed(
        {
            "q_bar = 2": partial(of_kernels, close_to_exact, root),
            "q_bar = 5": partial(close_to_exact, larger),
        }
    )


def starves(method: str, folder: Path) -> Verdict:
    """The share of the unobserved half on which f lies outside mean +- 3 standard deviations, minus
    STARVATION times the share of the exact GP, lies above 0 at each t."""
    share, exact = (
        by_t(folder, name, "share_of_f_outside_3_std_unseen") for name in (method, "exact")
    )
    margins = [share[t] - STARVATION * exact[t] for t in share]
    holds = common.all_above(map(common.mean_interval, margins), 0)
    return common.verdict(holds, f"{text_of(share)}; the exact GP {text_of(exact)}")


def subset_of_regressors_starves(root: Path) -> Verdict:
    """The subset of regressors `starves` with both kernels."""
    return of_kernels(partial(starves, "sor"), root)


def fourier_features_starve(root: Path) -> Verdict:
    """As many random Fourier features as BKB has inducing points starve with both kernels."""
    return of_kernels(partial(starves, "rff"), root)


CHECKS = (keeps_prior, follows_exact, subset_of_regressors_starves, fourier_features_starve)

if __name__ == "__main__":
    common.main(__file__)

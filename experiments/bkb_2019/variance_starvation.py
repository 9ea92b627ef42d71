"""Figure 2 of the BKB paper: posteriors of a GP on [0, 1] that was evaluated on [0, 0.5] only.

    python -m experiments.bkb_2019.variance_starvation --out out/variance_starvation

The data are generated: f is a GP draw on a grid, and t in {6, 63, 215} evaluations lie uniformly in
[0, 0.5]. The figure compares the posteriors of the exact GP, of BKB (also called DTC), of the
subset of regressors (BKB without the residual variance), and of as many random Fourier features as
BKB has inducing points. summary.json also has the posterior of quadrature Fourier features.

The paper's "bandwidth sigma^2 = 100" is read as an inverse squared lengthscale, because f would be
constant with lengthscale 10. With --lengthscale 0.0707 the kernel is exp(-100 d^2), as in the
curves of the poster.
"""

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

from experiments import cli
from experiments.figures import drawing
from experiments.results import outputs, summaries, tidy
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
# settings that the paper leaves open
CHOSEN_SETTINGS = [
    *("lengthscale", "noise_std", "regularization", "qbar", "width"),
    *("number of features", "grid"),
]
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


def run(
    seed: int, evaluations: int, lengthscale: float, qbar: float = 2.0, capacity: int = 48
) -> Outcome:
    """Runs one seed; doubles the capacity of the dictionary until it suffices."""
    key = jax.random.fold_in(jax.random.key(0), seed)
    data, posteriors, inducing, overflow = sketched_posteriors(
        key, evaluations, capacity, lengthscale, qbar
    )
    if bool(overflow):
        return run(seed, evaluations, lengthscale, qbar, 2 * capacity)
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


def summarise(runs: list[tidy.Run]) -> dict[str, Any]:
    """Means and 95% intervals over seeds of the numbers of each method, by t. Only the tables have
    the values of single seeds."""
    by_method: dict[str, Any] = {}
    for name in METHODS:
        arrays = [run.arrays for run in runs if run.config["algorithm"] == name]
        by_method[name] = {
            str(t): {
                field: summaries.statistics([a[field][i] for a in arrays], ci=True, values=False)
                for field in arrays[0]
                if field != "t"
            }
            for i, t in enumerate(arrays[0]["t"])
        }
    return by_method


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


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=20)
    parser.add_argument("--lengthscale", type=cli.positive, default=0.1)
    parser.add_argument("--qbar", type=cli.positive, default=2.0)
    options = cli.parse(parser)
    print("data: generated (GP draws)")
    config = dict(
        kernel="Gaussian",
        lengthscale=options.lengthscale,
        noise_std=NOISE_STD,
        regularization=LAM,
        qbar=options.qbar,
        grid=GRID_SIZE,
        evaluations=EVALUATIONS,
        observed=[0, EDGE],
        features="random: as many as BKB has inducing points; quadrature: nodes",
        quadrature_nodes=QFF_NODES,
        root_seed=0,
        chosen=CHOSEN_SETTINGS,
    )
    # the number of draws is part of the configuration, because single runs are not saved
    identity = config | dict(draws=options.seeds)
    with outputs.results_folder(options, "bkb_2019.variance_starvation", identity) as results:
        outcomes = {
            t: [run(seed, t, options.lengthscale, options.qbar) for seed in range(options.seeds)]
            for t in EVALUATIONS
        }
        runs = tidy_runs(config, outcomes)
        methods = summarise(runs)
        summary = dict(config=config, seeds=options.seeds, data="generated", methods=methods)
        results.write(summary, runs, "GP draws evaluated on [0, 0.5]")
        first_outcomes = {t: seed_outcomes[0] for t, seed_outcomes in outcomes.items()}
        tidy.write_table(options.out / FIGURE_TABLE, table_of(first_outcomes))
        draw(options.out)
    for name, by_t in methods.items():
        summaries.print_table(name, by_t)

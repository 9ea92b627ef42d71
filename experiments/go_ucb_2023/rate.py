"""GO-UCB, Theorem 4.1: how the cumulative regret grows with T.

The theorem bounds the regret by sqrt(T) up to logarithms, for a function of the model (realizable)
and n = sqrt(T) points in phase I. Here the function is a bump with d_w = 5 parameters on [-1,1]^2,
the noise is 0.3, each T has its own runs, lambda = sqrt(T), and the fit of phase I and the ascent
converge. The theorem's constant in beta_t is open: the radius is that of linear bandits with
|w_0 - w*| <= T^(-1/4), the order of Theorem 5.2, so that sqrt(lambda) |w_0 - w*| <= 1.

    theorem  Algorithm 1: w_t by eq. 5, and rows of phase II only
    refit    w_t is a least-squares fit of all observations, and all rows are those at w_t
    uniform  uniform points

The slope of the log of the mean regret on log T has no rule: the theorem leaves its constants open,
so that no slope refutes it. At T = 64 and 128, on which the slope of Algorithm 1 depends, the fit
of phase I is often far from the truth, and condition (8) of the theorem is not shown to hold.

The steps are those of `GOUCB`; its state has a row for each evaluation, and this one a triangular
factor of 5 rows with the same sums, so that a step costs the same at each T.
"""

import math
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import Array, lax

from experiments import common
from experiments.common import Options, Settings
from experiments.figures import drawing
from experiments.results import tidy
from experiments.runs.bandit_runs import grid, keys_of
from jsketch.box.go_ucb import BallAscent
from jsketch.box.go_ucb import model as models
from jsketch.box.go_ucb.ascents import Region
from jsketch.box.go_ucb.ball import OFUL, Ball, Step, ellipsoid, estimate
from jsketch.box.go_ucb.go_ucb import linear_row

NOISE_STD = 0.3
TRUTH = (1.0, 0.3, -0.2, 0.5, 0.0)
# {form: (label, colour, dashes)}
FORMS: dict[str, tuple[str, str, Any]] = {
    "theorem": ("Algorithm 1", "#D55E00", "solid"),
    "refit": ("w fitted to all", "#CC79A7", (0, (6, 1))),
    "uniform": ("uniform", "#000000", (0, (1, 1.5))),
}
RUNS: dict[str, Settings] = {
    "go_ucb_2023/rate": dict(horizons=(64, 128, 256, 512, 1024), forms=tuple(FORMS), seeds=32)
}
QUICK: Settings = dict(horizons=(16, 32), seeds=2)
LATE = 256  # the least T of the slope without the shortest runs


def bump(w: Array, x: Array) -> Array:
    """height exp(-|x - centre|^2 / (2 width^2)) + offset of w = (height, centre, width, offset)."""
    return w[0] * jnp.exp(-jnp.square(x - w[1:3]).sum() / (2 * jnp.square(w[3]))) + w[4]


def draw_parameters(key: Any, x: Array) -> Array:
    low, high = jnp.array([0.5, -1, -1, 0.3, -0.5]), jnp.array([1.5, 1, 1, 0.8, 0.5])
    return jax.random.uniform(key, (5,), x.dtype, low, high)


MODEL = models.flatten(models.Functions(draw_parameters, bump), jnp.zeros(2))
LOWER, UPPER = -jnp.ones(2), jnp.ones(2)


class State(NamedTuple):
    """After some evaluations of phase II."""

    x: Array  # [n + T, 2]
    y: Array  # [n + T]
    known: Array  # [n + T] bool, evaluated
    factor: Array  # [5, 5], R with R^T R = sum g g^T
    target: Array  # [5], z with R^T z = sum g (g^T w + y - f)
    w: Array  # [5]


def play(form: str, horizon: int, key: Any) -> Array:
    """The regrets [n + T] of a run with T = horizon."""
    n, lam = round(math.sqrt(horizon)), math.sqrt(horizon)
    first, fit, noise, second = jax.random.split(key, 4)
    noises = NOISE_STD * jax.random.normal(noise, (n + horizon,))
    truth, schedule = jnp.array(TRUTH), OFUL(norm_bound=horizon**-0.25, noise_std=NOISE_STD)
    points = jax.random.uniform(first, (n + horizon, 2), minval=-1, maxval=1)
    values = jax.vmap(partial(bump, truth))(points)
    if form == "uniform":
        return TRUTH[0] + TRUTH[4] - values
    known = jnp.arange(n + horizon) < n
    y = jnp.where(known, values + noises, 0)
    w0 = models.fit(models.LevenbergMarquardt(), MODEL, points[:n], y[:n], known[:n], fit).w

    def step(t: Array, state: State) -> State:
        sigma = ellipsoid(state.factor, lam)
        shape = Step(t + 1, horizon, 5, sigma.regularization, sigma.logdet, jnp.ones(()))
        ball = Ball(sigma, state.w, schedule(shape))
        best = state.x[jnp.argmax(jnp.where(state.known, state.y, -jnp.inf))]
        region = Region(best, LOWER, UPPER)
        x = BallAscent().maximise(MODEL, ball, region, jax.random.fold_in(second, t)).x
        value = bump(truth, x) + noises[n + t]
        state = state._replace(
            x=state.x.at[n + t].set(x),
            y=state.y.at[n + t].set(value),
            known=state.known.at[n + t].set(True),
        )
        return with_fit(state) if form == "refit" else with_row(state, x, value, w0, lam)

    zeros = jnp.zeros((5, 5))
    start = State(jnp.where(known[:, None], points, 0), y, known, zeros, zeros[0], w0)
    if form == "refit":
        start = with_fit(start)
    x = lax.fori_loop(0, horizon, step, start).x
    return TRUTH[0] + TRUTH[4] - jax.vmap(partial(bump, truth))(x)


def with_row(state: State, x: Array, y: Array, w0: Array, lam: float) -> State:
    """The state with another row, and w_t of eq. 5."""
    row = linear_row(MODEL, state.w, x, y, jnp.ones((), bool))
    above = jnp.concatenate([state.factor, state.target[:, None]], axis=1)
    rows = jnp.concatenate([above, jnp.append(row.gradient, row.target)[None]])
    triangle = jnp.linalg.qr(rows, mode="r")
    factor, target = triangle[:5, :5], triangle[:5, 5]
    w = estimate(ellipsoid(factor, lam), factor, target, w0)
    return state._replace(factor=factor, target=target, w=w)


def with_fit(state: State) -> State:
    """The state whose w_t is fitted to all observations, by damped Gauss-Newton steps from the
    previous one, and whose rows are those at w_t."""

    def residuals(w: Array) -> tuple[Array, Array]:
        values, gradients = jax.vmap(jax.value_and_grad(bump), (None, 0))(w, state.x)
        known = state.known[:, None]
        return jnp.where(state.known, state.y - values, 0), jnp.where(known, gradients, 0)

    def step(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        w, mu = carry
        residual, gradients = residuals(w)
        gram = gradients.T @ gradients
        ridge = mu * jnp.trace(gram) / 5 * jnp.eye(5)
        new = w + jnp.linalg.solve(gram + ridge, gradients.T @ residual)
        better = jnp.square(residuals(new)[0]).sum() < jnp.square(residual).sum()
        return jnp.where(better, new, w), jnp.where(better, mu / 5, mu * 4)

    w, _ = lax.fori_loop(0, 10, step, (state.w, jnp.array(1e-2)))
    _, gradients = residuals(w)
    return state._replace(w=w, factor=jnp.linalg.qr(gradients, mode="r"))


def run(folder: Path, settings: Settings, options: Options) -> None:
    seeds = settings["seeds"]
    config = dict(settings, truth=TRUTH, noise_std=NOISE_STD, root_seed=0)
    with options.results(folder, "go_ucb_2023.rate", config, seeds) as results:
        table: list[tidy.Run] = []
        for horizon in settings["horizons"]:
            for form in settings["forms"]:
                keys = keys_of(horizon, list(range(seeds)))
                regrets = np.asarray(jax.jit(jax.vmap(partial(play, form, horizon)))(keys))
                t = grid(regrets.shape[1])
                rows = [dict(t=t, regret=r[t - 1], cumulative_regret=r.sum()) for r in regrets]
                table += tidy.runs_of(
                    dict(problem=f"T = {horizon}", algorithm=form, T=horizon), rows
                )
                print(f"T = {horizon}, {form}: {regrets.sum(1).mean():.1f}", flush=True)
        results.write(dict(config=config, seeds=seeds), table, "regret of a realizable function")


def regret_by_horizon(folder: Path, form: str) -> tuple[np.ndarray, np.ndarray]:
    """(T [P], cumulative regrets [S, P]) of a form."""
    summary = common.tables(folder).summary
    rows = summary[summary["algorithm"] == form]
    table = rows.pivot(index="seed", columns="T", values="cumulative_regret")
    return table.columns.to_numpy(float), table.to_numpy()


def slope(folder: Path, form: str, first: int = 0) -> common.Interval:
    """The least-squares slope of the log of the mean regret on log T for T >= first, and half the
    width of the 95% interval of 2,000 bootstrap samples of the runs of each T; NaN without two such
    T."""
    horizons, regrets = regret_by_horizon(folder, form)
    horizons, regrets = horizons[horizons >= first], regrets[:, horizons >= first]
    if len(horizons) < 2:
        return math.nan, math.nan
    rng, seeds = np.random.default_rng(0), len(regrets)
    picks = rng.integers(seeds, size=(2_000, *regrets.shape))
    means = np.take_along_axis(regrets[None], picks, axis=1).mean(1)  # [2000, P]
    measured, *slopes = np.polyfit(
        np.log(horizons), np.log(np.vstack([regrets.mean(0), means])).T, 1
    )[0]
    low, high = np.quantile(slopes, (0.025, 0.975))
    return float(measured), float(high - low) / 2


def draw(folder: Path) -> None:
    title = "cumulative regret of separate runs, noise 0.3, d_w = 5"
    with plt.rc_context(drawing.STYLE):
        figure, axes = plt.subplots()
        for form, (words, colour, dashes) in FORMS.items():
            text = f"{words}, {common.interval_text(slope(folder, form), 2)}"
            if form == "theorem":
                late = common.interval_text(slope(folder, form, LATE), 2)
                text += f"\nfrom T = {LATE} on {late}"
            drawing.line(axes, *regret_by_horizon(folder, form), text, colour, dashes)
        drawing.log_axes(axes)
        axes.set_xlabel("horizon $T$")
        axes.set_ylabel("cumulative regret $R_T$")
        drawing.finish(figure, axes, folder / "rate.png", title, "slope and its 95% interval")


CHECKS = ()  # no slope decides

if __name__ == "__main__":
    common.main(__file__)

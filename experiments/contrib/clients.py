"""Beyond the papers: clients on a common Nystrom embedding (after Li et al., NeurIPS 2022).

Clients maximise the same function in different contexts: regret against communication.
There are 32 clients. "waves" is a smooth function of one context and one action (200 random
cosines, approximately a draw of a Gaussian process of lengthscale 0.6) with 20 actions, noise 0.3
and T = 600; "squares" is the problem of this name in `contrib.contextual`, with T = 200. In
`exchange_D` clients have a common embedding (after Li et al., NeurIPS 2022) and exchange data when
the variances of one client add up to more than D; in `alone` each client runs EK-UCB (beta = 2).
The tables have the regret of all clients divided by that of uniform actions; how many numbers are
sent in both directions, as sums over the embedding (`sent`) and as points and rewards
(`sent_as_data`); how many exchanges there are; and the number of inducing points.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import Array
from matplotlib.ticker import NullFormatter

from experiments import common
from experiments.common import Options, Settings
from experiments.contrib import contextual, saving
from experiments.figures import drawing
from experiments.figures.styles import style
from experiments.results import tidy
from jsketch import kernels, struct
from jsketch.bandits import widths
from jsketch.contrib import EKUCB, IndependentClients, SharedEmbedding
from jsketch.contrib.problems import ClientArms, ContextualArms, play
from jsketch.sketch.kors import Sampling

CLIENTS = 32
THRESHOLDS = (1.0, 0.3, 0.1, 0.03, 0.0)
METHODS = ("alone", *(f"exchange_{d:g}" for d in THRESHOLDS))
SEEDS = {"exchange_0": 2}  # fewer seeds, because this method takes most of the time
N_COSINES, LENGTHSCALE, NOISE = 200, 0.6, 0.3  # of "waves"
FIELDS = dict(
    final_regret_ratio=("R_T / R_T^unif", 4),
    exchanges=("exchanges", 1),
    final_sent=("numbers sent", 0),
    final_sent_as_data=("numbers sent as data", 0),
    points=("inducing points at T", 0),
)
RUNS: dict[str, Settings] = {
    "beyond/clients": dict(problems=("waves", "squares"), methods=METHODS, seeds=4, horizon=600)
}
QUICK: Settings = dict(seeds=2, horizon=4, methods=("alone", "exchange_1"))
# {problem: (lengthscale, lambda, width in standard deviations, qbar, rounds, capacity)}
SETTINGS = {
    "waves": (LENGTHSCALE, NOISE**2, 2.0, 2.0, 600, 128),
    "squares": (0.1, contextual.LAM, contextual.WIDTH, 3.0, 200, 192),
}


@struct.dataclass
class Waves:
    """A random function of unit variance, approximately a draw of a Gaussian process."""

    frequencies: Array  # [R, c + a]: R cosines of contexts [c] and actions [a]
    phases: Array  # [R]

    def __call__(self, context: Array, action: Array) -> Array:
        waves = jnp.cos(self.frequencies @ jnp.concatenate([context, action]) + self.phases)
        return jnp.sqrt(2 / self.phases.shape[0]) * waves.sum()


def problem_of(name: str) -> ContextualArms:
    if name == "squares":
        return contextual.problem_of(name)
    frequency_key, phase_key = jax.random.split(jax.random.key(5))
    frequencies = jax.random.normal(frequency_key, (N_COSINES, 2)) / LENGTHSCALE
    phases = jax.random.uniform(phase_key, (N_COSINES,), maxval=2 * jnp.pi)
    actions = jnp.linspace(0, 1, 20)[:, None]
    return ContextualArms(actions, Waves(frequencies, phases), NOISE)


def bandit_of(name: str, method: str, horizon: int) -> Any:
    """The bandit of a method, for `horizon` rounds."""
    lengthscale, lam, deviations, qbar, _, capacity = SETTINGS[name]
    common: dict[str, Any] = dict(
        kernel=kernels.Gaussian(lengthscale),
        regularization=lam,
        width=widths.Bayesian(deviations),
        max_history=horizon,
        capacity=capacity,
    )
    if method == "alone":
        return IndependentClients(EKUCB(**common, sampling=Sampling(mu=lam, beta=2.0)), CLIENTS)
    threshold = float(method.removeprefix("exchange_"))
    return SharedEmbedding(
        **common,
        qbar=qbar,
        threshold=threshold,
        clients=CLIENTS,
        max_wait=horizon,
        # if a draw misses a region, the next draw may have too many points of that region
        scale_to_capacity=True,
    )


def runs(settings: Settings, name: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a problem, one dict for each seed."""
    *_, rounds, _ = SETTINGS[name]
    horizon = min(settings["horizon"], rounds)
    seeds = seeds_of(settings)[method]
    keys = jax.random.split(jax.random.key(1), settings["seeds"])[:seeds]
    bandit = bandit_of(name, method, horizon)
    record = play(ClientArms(problem_of(name)), bandit, horizon, keys)
    t = saving.grid(horizon)
    regret, uniform = (np.asarray(a).cumsum(1) for a in (record.regret, record.uniform_regret))
    curves = dict(
        regret_ratio=(regret / uniform)[:, t - 1],
        sent=np.asarray(record.sent, float)[:, t - 1],
        sent_as_data=np.asarray(record.sent_as_data, float)[:, t - 1],
    )
    return saving.by_seed(
        dict(t=t, horizon=horizon),
        **curves,
        **{f"final_{metric}": curve[:, -1] for metric, curve in curves.items()},
        exchanges=np.asarray(record.exchanges)[:, -1],
        points=np.asarray(record.dictionary_size)[:, -1],
    )


def draw(folder: Path) -> None:
    """Writes numbers.csv and draws regret_sent.png from the tables in the folder: R_T / R_T^unif
    against the count of numbers sent, and this count against rounds."""
    curves = tidy.load(folder).curves
    problems = list(curves["problem"].unique())
    size = (2.2 + 2.9 * len(problems), 5.4)
    with plt.rc_context(drawing.STYLE | {"figure.figsize": size}):
        figure, axes = plt.subplots(2, len(problems), squeeze=False)
        for (regret_axes, sent_axes), problem in zip(axes.T, problems, strict=True):
            part = curves[curves["problem"] == problem]
            ratio, sent, as_data = (
                tidy.lines(part, metric) for metric in ("regret_ratio", "sent", "sent_as_data")
            )
            _draw_final_points(regret_axes, ratio, sent, "sums over the embedding", "o")
            _draw_final_points(regret_axes, ratio, as_data, "points and rewards", "s")
            if "alone" in ratio:
                mean, dotted = ratio["alone"][1][:, -1].mean(), (0, (1, 1.5))
                regret_axes.axhline(mean, color="#000000", linestyle=dotted, label="each alone")
            regret_axes.set(title=str(problem), xscale="log", xlabel="numbers sent until T")
            regret_axes.xaxis.set_minor_formatter(NullFormatter())
            regret_axes.set_ylim(bottom=0)
            regret_axes.margins(x=0.1)
            for name, (t, values) in sent.items():
                if name != "alone":
                    label, colour, dashes = style(name)
                    sent_axes.plot(t, values.mean(0), color=colour, linestyle=dashes, label=label)
            if "exchange_0" in as_data:
                t, values = as_data["exchange_0"]
                label = "every point at once"
                dotted = (0, (1, 1))
                sent_axes.plot(t, values.mean(0), color="#0072B2", linestyle=dotted, label=label)
            sent_axes.set(yscale="log", xlabel="rounds $t$")
        axes[0, 0].set_ylabel("$R_T\\,/\\,R_T^{\\mathrm{unif}}$")
        axes[1, 0].set_ylabel("numbers sent so far")
        for axes_row in axes:
            axes_row[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        drawing.save(figure, folder / "regret_sent.png", curves.attrs["title"])
    saving.write_numbers(folder, FIELDS)


def _draw_final_points(axes: Any, ratio: Any, sent: Any, label: str, marker: str) -> None:
    """Draws a point for each threshold, in the colour of the threshold: the mean regret at T
    against the mean count of numbers sent until T."""
    names = [name for name in ratio if name != "alone"]
    x, y = ([curves[name][1][:, -1].mean() for name in names] for curves in (sent, ratio))
    axes.plot(x, y, color="0.6", marker=marker, markersize=5, label=label)
    for x_value, y_value, name in zip(x, y, names, strict=True):
        axes.plot(x_value, y_value, color=style(name)[1], marker=marker, markersize=5)


def seeds_of(settings: Settings) -> dict[str, int]:
    """The number of seeds of each method."""
    most = settings["seeds"]
    return {method: min(most, SEEDS.get(method, most)) for method in settings["methods"]}


def run(folder: Path, settings: Settings, options: Options) -> None:
    seeds = seeds_of(settings)
    title = f"{CLIENTS} clients, {settings['seeds']} seeds (2 of an exchange every round), means"
    saving.run(folder, "beyond.clients", title, settings, options, runs, seeds=seeds)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)

"""Figure 1 of PKAWV: exponents b of the regret n^b against exponents a of the dictionary size n^a,
by the bounds and as measured.

python -m experiments.pkawv_2019.rates --out results/pkawv_2019/rates

Curves are the bounds (8) of the paper with mu = n m^(-1/gamma) and the best lambda, for
d_eff(lambda) = (n / lambda)^gamma. Points are PKAWV with the first m = n^a of the features sqrt(2)
i^(-1/(2 gamma)) cos(pi i x), which satisfy the capacity condition, and with the same lambda
(Corollary 8). The regret is relative to the function of norm 1 that generates the labels.
"""

import argparse
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from experiments import cli
from experiments.figures import drawing
from experiments.results import outputs, store, tidy
from jsketch import loops, online, struct

GAMMAS = (0.25, 2**0.5 - 1, 0.75)
N_FEATURES = 512  # dimensions of the space
NOISE_STD = 0.3
DATA = "generated, capacity condition with equality"
SIZES = np.linspace(0, 1, 201)  # exponents a of the curves
MEASURED_SIZES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # exponents a of the points

COUNTS = [256, 512, 1024, 2048, 4096]  # n

# {method: (label, colour, dashes)}
STYLES: dict[str, tuple[str, str, Any]] = {
    "pkawv": ("PKAWV", "#D55E00", "solid"),
    "beforehand": ("PKAWV, features beforehand", "#CC79A7", (0, (6, 1))),
    "sketched_kons": ("Sketched-KONS", "#0072B2", (0, (3, 1, 1, 1))),
    "pros_n_kons": ("Pros-N-KONS", "#000000", (0, (1, 1.5))),
}
MARKERS = dict(beforehand="o", pkawv="s", pros_n_kons="^")  # of measured exponents

Line = tuple[float, float]  # (slope, intercept) in the exponent of lambda


def minimax(lines: list[Line]) -> tuple[float, float]:
    """(the point of [0, 1] at which the maximum of the lines is smallest, this maximum)."""
    candidates = [0.0, 1.0]
    for (slope, intercept), (other_slope, other_intercept) in combinations(lines, 2):
        if slope != other_slope:
            candidates.append((other_intercept - intercept) / (slope - other_slope))
    values = [(max(s * x + i for s, i in lines), x) for x in candidates if 0 <= x <= 1]
    value, minimizer = min(values)
    return minimizer, value


def exponent(method: str, gamma: float, a: float) -> tuple[float, float]:
    """(l, b) of a method with m = n^a by (8), where lambda = n^l and the regret is n^b."""
    mu = 1 - a / gamma  # the exponent of mu
    # the exponents of lambda and of d_eff(lambda), as lines in l
    bias, dimension = (1.0, 0.0), (-gamma, gamma)
    if method == "pkawv":
        return minimax([bias, dimension, (-1, 1 + a + mu)])
    if method == "beforehand":
        return minimax([bias, dimension, (-1, 1 + mu)])
    if method == "sketched_kons":
        return minimax([bias, (-gamma, gamma + 1 - a)])
    # Pros-N-KONS
    return minimax([(1.0, a), (-gamma, gamma + a), (-1, 1 + mu)])


def curve(method: str, gamma: float) -> np.ndarray:
    """The exponents b, at most 1, of the best dictionary with at most n^a points, a in SIZES."""
    return np.minimum(1, np.minimum.accumulate([exponent(method, gamma, a)[1] for a in SIZES]))


@struct.dataclass
class Cosines:
    """Features sqrt(2) scale_i cos(pi i x) of x [n,1]; a scale of zero removes a feature."""

    scale: Array  # [R]

    def features(self, x: Array) -> Array:
        """The features [n, R]."""
        i = jnp.arange(1, len(self.scale) + 1, dtype=x.dtype)
        return jnp.sqrt(2.0) * self.scale[None, :] * jnp.cos(jnp.pi * i[None, :] * x)


def scales(gamma: ArrayLike) -> Array:
    """i^(-1 / (2 gamma)), [R], with which the capacity condition holds with equality."""
    return jnp.arange(1.0, N_FEATURES + 1) ** (-0.5 / gamma)


@partial(jax.jit, static_argnames="n")
def stream(key: Array, gamma: ArrayLike, n: int) -> tuple[Array, Array, Array]:
    """(examples [n,1], the function's values [n], labels [n])."""
    weights = jnp.arange(1.0, N_FEATURES + 1) ** -0.55
    # a function of norm 1, hardly smoother than the space requires
    weights = weights / jnp.sqrt(jnp.square(weights).sum())
    x_key, sign_key, noise_key = jax.random.split(key, 3)
    xs = jax.random.uniform(x_key, (n, 1))
    signs = jax.random.rademacher(sign_key, (N_FEATURES,), xs.dtype)
    mean = Cosines(scales(gamma)).features(xs) @ (signs * weights)
    return xs, mean, mean + NOISE_STD * jax.random.normal(noise_key, (n,))


@partial(jax.jit, static_argnames="n")
def regrets(keys: Array, gamma: Array, n_features: Array, regularization: Array, n: int) -> Array:
    """The regret [S] of PKAWV with the first `n_features` features after n examples."""
    i, scale = jnp.arange(1.0, N_FEATURES + 1), scales(gamma)

    def regret_of(key: Array) -> Array:
        xs, mean, ys = stream(key, gamma, n)
        features = Cosines(jnp.where(i <= n_features, scale, 0))
        forecaster = online.PKAWV(features, regularization)
        state = forecaster.init(xs[0], key)
        forecasts = loops.streams.stream(forecaster, state, xs, ys, key).forecasts
        return forecasts.loss.sum() - jnp.square(ys - mean).sum()

    return jax.vmap(regret_of)(keys)


def measure(
    gamma: float, a: float, counts: list[int], seeds: int
) -> tuple[float, float, np.ndarray]:
    """(b, standard error of b over seeds, regrets [N,S] after each of the N counts n of examples);
    b is the slope of log regret on log n."""
    power, _ = exponent("beforehand", gamma, a)  # lambda = n^power
    keys = jax.random.split(jax.random.key(0), seeds)
    rows = []
    for n in counts:
        n_features, regularization = jnp.asarray(float(n**a)), jnp.asarray(float(n**power))
        rows.append(np.asarray(regrets(keys, jnp.asarray(gamma), n_features, regularization, n)))
    table = np.array(rows)  # [N, S]
    return *slope(counts, table), table


def slope(counts: list[int], table: np.ndarray) -> tuple[float, float]:
    """(the slope of log mean regret on log n, its standard error over seeds by the jackknife) of
    regrets [N,S]."""
    log_counts = np.log(counts)

    def fit_slope(rows: np.ndarray) -> float:
        return float(np.polyfit(log_counts, np.log(np.maximum(rows.mean(1), 1e-9)), 1)[0])

    n_seeds = table.shape[1]
    slopes = np.array([fit_slope(np.delete(table, s, axis=1)) for s in range(n_seeds)])
    error = float(np.sqrt((n_seeds - 1) / n_seeds * np.square(slopes - np.mean(slopes)).sum()))
    return fit_slope(table), error


def draw(folder: Path) -> None:
    """Draws rates.png, with one panel for each gamma, from the summaries in the folder and in the
    neighbouring folders of `kors_rates`."""
    measured, path = tidy.load(folder).provenance["measured"], folder / "rates.png"
    measured_by_kors = {}  # {method: measured exponents}
    for method, name in (("pkawv", "nystrom_rates"), ("pros_n_kons", "pros_n_kons_rates")):
        if (folder.parent / name / tidy.PROVENANCE).exists():
            summary = store.read_json(folder.parent / name / tidy.PROVENANCE)
            measured_by_kors[method] = summary["measured"]
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (9.0, 3.0)}):
        figure, panels = plt.subplots(1, 3, sharey=True)
        for axes, gamma in zip(panels, GAMMAS, strict=True):
            for method, (label, colour, dashes) in STYLES.items():
                axes.plot(SIZES, curve(method, gamma), color=colour, linestyle=dashes, label=label)
            axes.axhline(gamma / (1 + gamma), color="0.6", linewidth=0.8)
            rows = measured[f"{gamma:.3f}"]
            points = {"beforehand": [dict(row, a=float(a)) for a, row in rows.items()]}
            points |= {
                name: by_gamma[f"{gamma:.3f}"] for name, by_gamma in measured_by_kors.items()
            }
            for method, exponents in points.items():
                a, b, error = (
                    np.array([row[field] for row in exponents])
                    for field in ("a", "exponent", "standard_error")
                )
                style = dict(fmt=MARKERS[method], color=STYLES[method][1], markersize=4)
                axes.errorbar(a, b, 1.96 * error, label=f"measured: {STYLES[method][0]}", **style)
            axes.set_title(f"$\\gamma$ = {gamma:.3f}", loc="left")
            axes.set_xlabel("dictionary exponent $a$")
        panels[0].set_ylabel("regret exponent $b$")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        drawing.save(figure, path)


def parse(parser: argparse.ArgumentParser, counts: list[int]) -> argparse.Namespace:
    """The options of the parser, of `cli.parse`, and --counts. Exits with a message if seeds and
    counts do not determine a slope with an error."""
    parser.add_argument("--counts", type=cli.count, nargs="+", default=counts)
    options = cli.parse(parser)
    counts = options.counts
    if len(set(counts)) < len(counts):
        parser.error("--counts must be distinct")
    if options.seeds < 2 or len(counts) < 2 or min(counts) < 2:
        parser.error(
            "a slope with an error needs at least 2 seeds and 2 counts of at least 2 examples"
        )
    return options


@cli.command
def main() -> None:
    options = parse(cli.parser(__doc__, seeds=16), COUNTS)
    config = dict(
        counts=options.counts, seeds=options.seeds, features=N_FEATURES, noise_std=NOISE_STD
    )
    folder_config = dict(config, gammas=GAMMAS, sizes=MEASURED_SIZES)
    with outputs.results_folder(options, "pkawv_2019.rates", folder_config) as results:
        measured: dict[str, dict[str, dict[str, float]]] = {}
        runs = []
        for gamma in GAMMAS:
            rows = measured[f"{gamma:.3f}"] = {}
            for a in MEASURED_SIZES:
                b, error, table = measure(gamma, a, options.counts, options.seeds)
                run_config = dict(
                    problem="capacity_condition", algorithm="beforehand", gamma=gamma, a=a
                )
                t = np.array(options.counts)
                runs += tidy.runs_of(run_config, [dict(t=t, regret=regret) for regret in table.T])
                rows[f"{a:g}"] = dict(
                    exponent=b,
                    standard_error=error,
                    bound=min(1.0, exponent("beforehand", gamma, a)[1]),
                    last_regret=float(table[-1].mean()),
                )
                print(f"gamma {gamma:.3f}, a {a:g}: {rows[f'{a:g}']}", flush=True)
        theory = {
            f"{gamma:.3f}": {method: curve(method, gamma)[::20].tolist() for method in STYLES}
            for gamma in GAMMAS
        }
        summary = dict(
            config=config,
            data=DATA,
            measured=measured,
            theory=dict(sizes=SIZES[::20].tolist(), exponents=theory),
        )
        results.write(summary, runs, "regret of PKAWV under a capacity condition")
        draw(options.out)

"""PKAWV, Figure 1 and Table 1: exponents b of the regret n^b against exponents a of the dictionary
size n^a.

The paper draws the bounds (8), with mu = n m^(-1/gamma) and the best lambda, under the capacity
condition d_eff(lambda) = (n / lambda)^gamma; it measures nothing. Curves are these bounds. Points
are measured on generated streams: the features sqrt(2) i^(-1/(2 gamma)) cos(pi i x) satisfy the
condition, and the labels are a function of norm 1 with noise, to which the regret is relative.

"beforehand" is PKAWV with the first n^a features (Corollary 8); "pkawv" is PKAWV with KORS
(Corollary 7) and "pros_n_kons" Pros-N-KONS, both with about n^a points. All have the lambda that
minimises their bound.
"""

from collections.abc import Callable
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

from experiments import common
from experiments.common import Interval, Options, Settings, Verdict
from experiments.figures import drawing
from experiments.results import store, tidy
from jsketch import loops, online, struct
from jsketch.sketch.kors import Sampling

GAMMAS = (0.25, 2**0.5 - 1, 0.75)  # those of the figure
N_FEATURES = 512  # dimensions of the space
NOISE_STD = 0.3
BOUND = 2.0  # of the labels of KORS's runs, which are clipped, and of Pros-N-KONS's predictions
SIZES = np.linspace(0, 1, 201)  # exponents a of the curves
COUNTS = (256, 512, 1024, 2048, 4096)  # n

BEFOREHAND, KORS, PROS = (
    f"pkawv_2019/{name}" for name in ("rates", "nystrom_rates", "pros_n_kons_rates")
)
# `sizes` are exponents a; those of Pros-N-KONS are multiples of the a that minimises (8)
RUNS: dict[str, Settings] = {
    BEFOREHAND: dict(method="beforehand", sizes=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6), seeds=16),
    # streams that were in no run before the rule of Corollary 7
    KORS: dict(method="pkawv", sizes=(0.2, 0.35, 0.5), root_seed=2, seeds=8),
    PROS: dict(method="pros_n_kons", sizes=(0.5, 1.0), root_seed=1, seeds=8),
}
RUNS = {folder: dict(counts=COUNTS) | settings for folder, settings in RUNS.items()}
QUICK: Settings = dict(counts=(32, 64), sizes=(0.3, 0.5), seeds=2)

TOLERANCE = 0.1  # the largest distance of an exponent from its bound

# {method: (label, colour, dashes)}, and markers of measured exponents
STYLES: dict[str, tuple[str, str, Any]] = {
    "pkawv": ("PKAWV", "#D55E00", "solid"),
    "beforehand": ("PKAWV, features beforehand", "#CC79A7", (0, (6, 1))),
    "sketched_kons": ("Sketched-KONS", "#0072B2", (0, (3, 1, 1, 1))),
    "pros_n_kons": ("Pros-N-KONS", "#000000", (0, (1, 1.5))),
}
MARKERS = dict(beforehand="o", pkawv="s", pros_n_kons="^")

Line = tuple[float, float]  # (slope, intercept) in the exponent of lambda


# --- the bounds (8)


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


# --- the streams and the runs


@struct.dataclass
class Cosines:
    """Features sqrt(2) scale_i cos(pi i x) of x [n,1]; a scale of zero removes a feature. `gram`
    and `diag` are their kernel."""

    scale: Array  # [R]

    def features(self, x: Array) -> Array:
        """The features [n, R]."""
        i = jnp.arange(1, len(self.scale) + 1, dtype=x.dtype)
        return jnp.sqrt(2.0) * self.scale[None, :] * jnp.cos(jnp.pi * i[None, :] * x)

    def gram(self, x: Array, y: Array) -> Array:
        """The Gram matrix [n, m]."""
        return self.features(x) @ self.features(y).T

    def diag(self, x: Array) -> Array:
        """k(x_i, x_i), [n]."""
        return jnp.square(self.features(x)).sum(1)


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


def with_features_beforehand(gamma: float, a: float, n: int, seeds: int) -> dict[str, np.ndarray]:
    """The regrets [S] of PKAWV with the first n^a features."""
    keys = jax.random.split(jax.random.key(0), seeds)
    numbers = (gamma, float(n**a), float(n ** exponent("beforehand", gamma, a)[0]))
    return dict(regret=np.asarray(regrets(keys, *map(jnp.asarray, numbers), n)))


def with_points(
    method: str, root_seed: int, gamma: float, a: float, n: int, seeds: int
) -> dict[str, np.ndarray]:
    """The regrets [S] and numbers of points [S] of a method with a dictionary of about n^a."""
    kernel, regularization = Cosines(scales(gamma)), float(n ** exponent(method, gamma, a)[0])
    sampling = Sampling(mu=float(n ** (1 - a / gamma)))
    forecaster = (
        online.NystromAWV(kernel, regularization, sampling)
        if method == "pkawv"
        else online.ProsNKONS(kernel, regularization, BOUND, sampling)
    )
    rows = []
    for seed in range(seeds):
        xs, mean, ys = stream(jax.random.fold_in(jax.random.key(root_seed), seed), gamma, n)
        ys = jnp.clip(ys, -BOUND, BOUND)
        forecasts, _ = loops.prequential(forecaster, (xs, ys), jax.random.key(seed))
        regret = forecasts.loss.sum() - jnp.square(ys - mean).sum()
        rows.append((float(regret), int(forecasts.dictionary_size[-1])))
    table = np.array(rows)
    return dict(regret=table[:, 0], size=table[:, 1])


def run(folder: Path, settings: Settings, options: Options) -> None:
    method, counts, seeds = settings["method"], settings["counts"], settings["seeds"]
    measure: Callable[..., dict[str, np.ndarray]] = (
        with_features_beforehand
        if method == "beforehand"
        else partial(with_points, method, settings["root_seed"])
    )
    config = dict(settings, gammas=GAMMAS, features=N_FEATURES, noise_std=NOISE_STD, bound=BOUND)
    with options.results(folder, "pkawv_2019.fig1_rates", config, seeds) as results:
        runs: list[tidy.Run] = []
        for gamma in GAMMAS:
            best = 2 * gamma / (1 + gamma) ** 2 if method == "pros_n_kons" else 1.0
            for a in (multiple * best for multiple in settings["sizes"]):
                rows = [measure(gamma, a, n, seeds) for n in counts]
                of_run = dict(problem="capacity_condition", algorithm=method, gamma=gamma, a=a)
                curves = [
                    {name: np.array([row[name][seed] for row in rows]) for name in rows[0]}
                    for seed in range(seeds)
                ]
                runs += tidy.runs_of(of_run, [dict(t=np.array(counts)) | c for c in curves])
                print(f"gamma {gamma:.3f}, a {a:.2f}: {runs[-1].arrays}", flush=True)
        title = f"regret of {STYLES[method][0]} under a capacity condition"
        results.write(dict(config=config, data="generated"), runs, title)


# --- measured exponents


def slope(counts: np.ndarray, values: np.ndarray) -> Interval:
    """The slope of log mean value on log n of values [S,N], and the half width of its interval by
    the jackknife over seeds, NaN for a single one."""
    logs, n_seeds = np.log(counts), len(values)

    def of_mean(rows: np.ndarray) -> float:
        return float(np.polyfit(logs, np.log(np.maximum(rows.mean(0), 1e-9)), 1)[0])

    if n_seeds < 2:
        return of_mean(values), float("nan")
    slopes = np.array([of_mean(np.delete(values, s, axis=0)) for s in range(n_seeds)])
    error = np.sqrt((n_seeds - 1) / n_seeds * np.square(slopes - slopes.mean()).sum())
    return of_mean(values), common.student(n_seeds) * float(error)


def exponents(folder: Path, metric: str = "regret") -> dict[tuple[float, float], Interval]:
    """{(gamma, a): the exponent of n with which a metric grows}. Of the saved runs with KORS only
    these exponents exist, in summary.json."""
    if tidy.is_complete(folder) or not (folder / tidy.PROVENANCE).exists():
        rows, found = common.tables(folder).curves, {}
        for key, part in rows.groupby(["gamma", "a"], observed=True):
            ((counts, values),) = tidy.lines(part, metric).values()
            found[key] = slope(counts, values)
        return found
    saved = store.read_json(folder / tidy.PROVENANCE)
    quantile = common.student(saved["config"]["seeds"])
    columns = dict(regret=("exponent", "standard_error"), size=("size_exponent", "none"))[metric]
    return {
        (gamma, row["a"]): (row[columns[0]], quantile * row.get(columns[1], 0))
        for gamma in GAMMAS
        for row in saved["measured"][f"{gamma:.3f}"]
    }


def draw(folder: Path) -> None:
    """Draws rates.png in the folder of the features beforehand, with a panel for each gamma."""
    folders = [folder.parent / Path(name).name for name in RUNS]
    found = {
        settings["method"]: exponents(path)
        for path, settings in zip(folders, RUNS.values(), strict=True)
        if (path / tidy.PROVENANCE).exists()
    }
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (9.0, 3.0)}):
        figure, panels = plt.subplots(1, 3, sharey=True)
        for axes, gamma in zip(panels, GAMMAS, strict=True):
            for method, (label, colour, dashes) in STYLES.items():
                axes.plot(SIZES, curve(method, gamma), color=colour, linestyle=dashes, label=label)
            axes.axhline(gamma / (1 + gamma), color="0.6", linewidth=0.8)
            for method, rows in found.items():
                points = [(a, *interval) for (g, a), interval in rows.items() if g == gamma]
                a, b, half = np.array(points).T
                style = dict(fmt=MARKERS[method], color=STYLES[method][1], markersize=4)
                axes.errorbar(a, b, half, label=f"measured: {STYLES[method][0]}", **style)
            axes.set_title(f"$\\gamma$ = {gamma:.3f}", loc="left")
            axes.set_xlabel("dictionary exponent $a$")
        panels[0].set_ylabel("regret exponent $b$")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        drawing.save(figure, folders[0] / "rates.png")


# --- the rules


def reaches_optimum(root: Path) -> Verdict:
    """At the least measured a of at least 2 gamma / (1 + gamma) the exponent's interval contains
    gamma / (1 + gamma) and lies within TOLERANCE of it, for each gamma that has such an a."""
    found, holds, texts = exponents(root / BEFOREHAND), True, []
    for gamma in GAMMAS:
        optimal, needed = gamma / (1 + gamma), 2 * gamma / (1 + gamma)
        enough = [a for g, a in found if g == gamma and a >= needed]
        if not enough:
            texts.append(f"gamma {gamma:.3f}: no measured a is as large as {needed:.2f}")
            continue
        measured, half = found[gamma, min(enough)]
        distance = abs(measured - optimal)
        holds &= distance <= half and distance + half <= TOLERANCE
        text = common.interval_text((measured, half), 3)
        texts.append(f"gamma {gamma:.3f}: {text} at a = {min(enough)}, optimal {optimal:.3f}")
    return common.verdict(holds, "; ".join(texts))


def on_the_line(root: Path) -> Verdict:
    """The intervals of all measured exponents lie within TOLERANCE of the bounds."""
    gaps = {
        (gamma, a): (measured - min(1, exponent("beforehand", gamma, a)[1]), half)
        for (gamma, a), (measured, half) in exponents(root / BEFOREHAND).items()
    }
    farthest = max(abs(gap) + half for gap, half in gaps.values())
    above = sum(gap > half for gap, half in gaps.values())
    text = f"no interval reaches farther than {farthest:.3f} from the bound"
    text += f"; {above} of {len(gaps)} exponents are above it beyond their interval"
    return common.verdict(common.all_near_zero(gaps.values(), TOLERANCE), text)


def corollary_7(root: Path) -> Verdict:
    """The intervals of the exponents of the regret minus their bounds, and of those of the points
    minus a, lie below what logarithms add between the least and the largest n. The claim differs if
    one lies above. The last term of Theorem 6 has |I_n|, m log(n)^2 by Proposition 5, so that the
    regret may have log(n)^2 where this term is the largest, a < 2 gamma / (1 - gamma^2), and else
    log n. The points may have log n: the other logarithm of Proposition 5 is that of beta = 12
    log(n / delta), which Theorem 6 assumes, and the runs have beta = 1. Only runs of KORS's
    settings count: the exponents in summary.json are of streams that the rule had seen."""
    common.tables(root / KORS)  # raises Missing
    regret, points = exponents(root / KORS), exponents(root / KORS, "size")
    ends = np.array([min(COUNTS), max(COUNTS)], float)
    logarithm = float(np.diff(np.log(np.log(ends)))[0] / np.diff(np.log(ends))[0])
    excess = {
        "regret": [(b - min(1, exponent("pkawv", *k)[1]), half) for k, (b, half) in regret.items()],
        "points": [(measured - a, half) for (_, a), (measured, half) in points.items()],
    }
    allowed = [2 if a < 2 * gamma / (1 - gamma**2) else 1 for gamma, a in regret]
    allowed += [1] * len(points)
    rows = [*excess["regret"], *excess["points"]]
    margins = [(n * logarithm - gap, half) for n, (gap, half) in zip(allowed, rows, strict=True)]
    largest = {name: common.interval_text(max(gaps), 3) for name, gaps in excess.items()}
    text = f"largest excess {largest['regret']} of the regret's and {largest['points']} of the"
    text += f" points' exponents; log n adds {logarithm:.3f}"
    return common.verdict(common.all_above(margins, 0), text)


def levels_off(root: Path) -> Verdict:
    """The least exponent of Pros-N-KONS by (8) is within 0.01 of the printed 4 gamma / (1 +
    gamma)^2, for each gamma. This is algebra; measured exponents are in the text."""
    gaps, texts = [], []
    for gamma in GAMMAS:
        least, printed = min(curve("pros_n_kons", gamma)), min(1, 4 * gamma / (1 + gamma) ** 2)
        gaps.append(abs(printed - least))
        texts.append(f"gamma {gamma:.3f}: {least:.3f} by (8), printed {printed:.3f}")
    if (root / PROS / tidy.PROVENANCE).exists():
        for (gamma, a), interval in exponents(root / PROS).items():
            measured = common.interval_text(interval, 3)
            texts.append(f"measured for gamma {gamma:.3f} at a = {a:.2f}: {measured}")
    return common.verdict(max(gaps) <= 0.01, "; ".join(texts))


def beats_sketched_kons(root: Path) -> Verdict:
    """By (8) at gamma = 1/2, PKAWV's exponent exceeds that of Sketched-KONS at no a. Algebra."""
    del root
    excess = curve("pkawv", 0.5) - curve("sketched_kons", 0.5)
    worst = int(np.argmax(excess))
    text = f"PKAWV's exponent is more by up to {excess[worst]:.3f}, at a = {SIZES[worst]:.2f}"
    return common.verdict(excess[worst] <= 1e-9, text)


CHECKS = (reaches_optimum, on_the_line, corollary_7, levels_off, beats_sketched_kons)

if __name__ == "__main__":
    common.main(__file__)

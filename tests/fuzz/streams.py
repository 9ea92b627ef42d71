"""Fuzzes streams: compares predictions and dictionaries of forecasters with their definitions."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from compiled import default_flags_jit
from draw import SMOOTHNESS, kernel_of, points
from forecasts import (
    forgetting_ridge,
    gradient,
    kors_probabilities,
    leverages,
    mixture,
    n_joined,
    pros_n_kons,
    ridge,
    ridge_on_dictionary,
    sketched_kons,
    spans,
)
from report import tolerance
from truth import EPS, LD, cholesky, gram, perturbed, solve

from jsketch import kernels, online, struct
from jsketch.loops.streams import stream
from jsketch.results import Result
from jsketch.sketch import fourier, kors
from jsketch.sketch.kors import Sampling
from jsketch.sketch.newton import LEAST_RESIDUAL

SIZES = ((40, 2), (1, 1), (7, 2), (90, 3))  # (examples, dimension); only the first without --long
STYLES, HARD_STYLES = ("uniform", "normal", "repeated", "grid"), ("walk", "pairs")
BLOCK = 16
NOISE = 16  # error of a kernel value, as a multiple of EPS, as in `perturbed`
NEARLY_DEPENDENT = 1e-7  # a joining point with a smaller residual / k(x,x) is nearly dependent
INIT = jax.jit(lambda forecaster, x, key: forecaster.init(x, key))
RUN = default_flags_jit(
    lambda forecaster, state, xs, ys, key: stream(forecaster, state, xs, ys, key, block=BLOCK)
)
DRAWS = jax.jit(lambda key, like: kors.draws(key, 0, like.shape[0], like.dtype))
QUICK = ("nystrom", "mixture", "pros_n_kons", "sketched_kons")
ALGORITHMS = (*QUICK, "kernel", "cosines", "forgetting", "nogd", "fogd", "vovk", "nystrom_code")


@struct.dataclass
class Cosines:
    """Features without a kernel: cosines and a constant."""

    frequencies: jax.Array

    def features(self, x):
        waves = jnp.cos(jnp.matmul(x, self.frequencies, precision=jax.lax.Precision.HIGHEST))
        return jnp.concatenate([waves, jnp.ones((len(x), 1), x.dtype)], 1)


class Problem:
    """A stream, a kernel of the library and of the oracles, and the settings of forecasters."""

    def __init__(self, seed, long):
        random = np.random.default_rng([seed, 3])
        size_index = seed // 11 % len(SIZES) if long else 0
        count, dimension = SIZES[size_index]
        style, self.xs = points(random, count, dimension, STYLES + HARD_STYLES * long)
        smoothness = SMOOTHNESS[size_index % 3]
        description, self.kernel, self.parts = kernel_of(random, self.xs, smoothness)
        self.ys = np.sin(self.xs.sum(1)) + 0.3 * random.standard_normal(count)
        labels = str(random.choice(["all", "some", "signs", "late", "constant"]))
        if labels == "signs":
            self.ys = np.sign(self.ys)
        elif labels == "constant":
            self.ys = np.ones(count)
        elif labels == "some":
            self.ys[random.uniform(size=count) < 0.3] = np.nan
        elif labels == "late":
            self.ys[: count // 2] = np.nan
        true_gram = gram(self.parts, self.xs, self.xs)
        self.grams = [true_gram] + [perturbed(true_gram, random) for _ in range(2)]
        self.max_kernel = float(np.diag(true_gram).max())  # the largest k(x,x)
        # at least 1e-3 without --long
        relative_lam = 10 ** (random.uniform(-8, 1) if long else random.uniform(-3, 1))
        self.lam = self.max_kernel * float(relative_lam)
        self.mu = self.lam * float(10 ** random.uniform(-1, 1))
        self.beta = float(random.choice([0.3, 1.0, 4.0]))
        self.bound = float(random.choice([0.5, 1.0, 3.0]))
        self.frequencies = random.standard_normal((dimension, 5))
        self.step = float(random.choice([0.01, 0.1]))
        self.gamma = float(random.choice([0.0, 0.2, 1.0]))
        self.largest_label = np.nanmax(np.abs(self.ys), initial=0.0)
        stream_description = f"seed {seed}, {count} {style} examples, {labels} labels"
        self.description = f"{stream_description}, {description}, lam {self.lam:.2e}"


def forecaster_of(name, p):
    common = dict(kernel=p.kernel, regularization=p.lam, capacity=len(p.xs))
    weights = "code" if name == "nystrom_code" else "theory"
    sketch = common | dict(sampling=Sampling(p.mu, p.beta, eps=0.5, weights=weights))
    cosines = online.PKAWV(Cosines(jnp.asarray(p.frequencies)), p.lam)
    lams = p.lam * np.array([1.0, 10.0, 100.0])
    mixture_of = partial(online.regularization_mixture, cosines, lams, bound=p.bound)
    return {
        "kernel": online.KernelAWV(**common),
        "cosines": cosines,
        "nystrom": online.NystromAWV(**sketch, memory=128),
        "nystrom_code": online.NystromAWV(**sketch, penalize_current=False, memory=128),
        "forgetting": online.ForgettingNystromAWV(**sketch),
        "pros_n_kons": online.ProsNKONS(**sketch, bound=p.bound),
        "sketched_kons": online.SketchedKONS(
            **common, bound=p.bound, minimum_probability=p.gamma, oversampling=p.beta
        ),
        "nogd": online.NOGD(p.kernel, p.step / p.max_kernel, count=5),
        "fogd": online.FOGD(kernels.Gaussian(p.parts[0][2]), p.step, count=6),
        "mixture": mixture_of(),
        "vovk": mixture_of(rule="vovk"),
    }[name]


def check(seed, report, long=False):
    """Checks a run. The seed determines the forecaster and the stream."""
    names = ALGORITHMS if long else QUICK
    name, p = names[seed % len(names)], Problem(seed, long)
    report.problem = f"{name}, {p.description}"
    forecaster, key = forecaster_of(name, p), jax.random.key(seed)
    initial = INIT(forecaster, jnp.asarray(p.xs[0]), key)
    run = RUN(forecaster, initial, p.xs, p.ys, key)
    report.same("all examples", (run.result, run.t), (Result.RUNNING, len(p.xs)))
    labelled = np.isfinite(p.ys)
    prediction = np.asarray(run.forecasts.prediction)
    losses = np.where(labelled, (prediction - np.where(labelled, p.ys, 0)) ** 2, 0)
    report.true("losses", np.allclose(run.forecasts.loss, losses, rtol=1e-12, atol=1e-300))
    expected = PREDICTIONS[name](p, run, initial, key, report)
    if expected is not None:
        truths, allowance = expected
        floor = 1e-10 + rounding_of_inverse(name, p) + allowance
        if np.ndim(floor):
            # only predictions with small rounding errors are compared
            accurate = floor <= 0.1 * p.largest_label
            prediction, floor = prediction[accurate], floor[accurate]
            truths = [np.asarray(truth)[accurate] for truth in truths]
        report.near("prediction", prediction, truths, floor)


def rounding_of_inverse(name, p):
    """The rounding error of predictions by an updated A^-1: eps |z|^2 / lam (`online.rounding`)."""
    if name == "pros_n_kons":
        # A step of slope g and weight w changes the leverage l = |z|^2 / lam of an example to
        # l / (1 + w l), about 1 / w, and its output to g / w. Both are differences with a relative
        # error of eps w l. The next projection divides the output by the leverage, so that each of
        # the two adds an error of eps l |g|, where |g| <= 2 (bound + |y|).
        return 2 * EPS * p.max_kernel / p.lam * 2 * (p.bound + p.largest_label)
    update_inverse = ("cosines", "mixture", "vovk", "nystrom", "nystrom_code", "forgetting")
    # |z|^2 <= 6 here. By THEORY 9.5 the factor is at most B^1.5 + B = 80 for blocks of B = 16 and
    # labels -1 and 1; at most 2 was measured, and 300 to 500 if the elimination is not symmetric
    return 32 * EPS * 6 / p.lam if name in update_inverse else 0.0


def of_grams(function):
    """Predictions from the Gram matrix and from perturbed ones, without a further allowance."""
    return lambda p, run, initial, key, report: ([function(p, g) for g in p.grams], 0.0)


def of_cosines(function):
    def predictions(p, run, initial, key, report):
        waves = np.cos(np.asarray(p.xs, LD) @ np.asarray(p.frequencies, LD))
        true = np.column_stack([waves, np.ones(len(p.xs), LD)])
        random = np.random.default_rng(0)
        # the features have independent errors
        errors = [0 * true] + [16 * EPS * random.uniform(-1, 1, true.shape) for _ in range(2)]
        return [function(p, (true + e) @ (true + e).T) for e in errors], 0.0

    return predictions


def predictions_in_spans(p, joined, predict, feature_error, report):
    """(predictions from the span of a dictionary and from perturbed spans, a further allowance), or
    None if all predictions depend on rounding. predict(features) -> [n].

    Float64 resolves directions down to NOISE rounding errors of the kernel values. If a point is
    nearly dependent on others when it joins, the predictions get an allowance for two effects.
    Rounding determines whether `sketch.newton` keeps directions below 1e-10, and predictions with
    and without them are both right. Features have errors of sqrt(eps), and predictions have at
    most `feature_error` [] or [n] times these errors.
    """
    noise = NOISE * max(len(joined), 1) * EPS
    features, residuals = spans(p.grams[0], joined, cut=noise)
    truths = [predict(features)] + [predict(spans(g, joined, cut=noise)[0]) for g in p.grams[1:]]
    if not (residuals < NEARLY_DEPENDENT).any():
        return truths, 0.0
    alternatives = [predict(spans(p.grams[0], joined, r)[0]) for r in (0, LEAST_RESIDUAL)]
    difference = max(float(np.abs(other - truths[0]).max()) for other in alternatives)
    allowance = 2 * difference + 4 * EPS**0.5 * feature_error
    if tolerance(truths) + np.min(allowance) > 0.1 * p.largest_label:
        report.skipped["predictions that rounding decides"] += 1
        return None
    report.checks["dictionaries that are nearly dependent"] += 1
    return truths, allowance


def of_dictionaries(function, authors_code=False):
    """Checks the decisions of KORS, and returns the predictions with its dictionary."""

    def predictions(p, run, initial, key, report):
        sizes = np.diff(np.asarray(run.forecasts.dictionary_size), prepend=0)
        # sizes are recorded at the ends of blocks; the points identify the examples that joined
        points = np.asarray(run.state.dictionary.points)[: sizes.sum()]
        joined, start = [], 0
        uniform = np.asarray(DRAWS(jax.random.key_data(key), p.xs[:, 0]))
        for x in points:
            arrivals = [t for t in range(start, len(p.xs)) if np.array_equal(p.xs[t], x)]
            is_unique = len(arrivals) == 1
            t = arrivals[0] if is_unique else first_to_join(p, joined, arrivals, uniform)
            joined.append(t)
            start = t + 1
        joined = np.array(joined, int)
        probability, *perturbed_ones = (probabilities(p, g, joined.tolist()) for g in p.grams)
        slack = 8 * max(float(np.abs(q - probability).max()) for q in perturbed_ones) + 1e-9
        probability = np.asarray(probability, float)
        is_clear = np.abs(uniform - probability) > slack
        has_joined = np.isin(np.arange(len(p.xs)), joined)
        wrong = np.flatnonzero(is_clear & ((uniform < probability) != has_joined))
        report.true("points join where they are drawn", not len(wrong), str(wrong))
        if not is_clear.all():
            report.skipped["draws too close to call"] += 1
            return None
        # an error of z is multiplied by the weights of the ridge regression, whose norm is at most
        # |y| / (2 sqrt(lam))
        feature_error = (p.max_kernel / p.lam * np.isfinite(p.ys).sum()) ** 0.5 * p.largest_label
        if authors_code:
            # with h = z A^-1 z and residuals e, errors dZ of observed features change a prediction
            # z A^-1 Z^T y by |A^-1 z| |dZ^T e| + |Z A^-1 z| |dZ w| <= sqrt(h / lam) |dZ| |e| +
            # sqrt(h) |dZ| |w|; the other forecasters divide the change by 1 + h
            h = leverages(p.ys, joined, spans(p.grams[0], joined)[0], p.lam)
            feature_error = feature_error * np.sqrt(np.maximum(h, 1))
        predict = partial(function, p, joined)
        result = predictions_in_spans(p, joined, predict, feature_error, report)
        if result is None or not authors_code:
            return result
        # without division by 1 + h the error of A^-1 is multiplied by sqrt(1 + h) (THEORY 9.5)
        truths, allowance = result
        excess = np.sqrt(1 + np.maximum(h, 0)) - 1
        return truths, allowance + rounding_of_inverse("nystrom_code", p) * excess

    def probabilities(p, gram, joined):
        return kors_probabilities(gram, joined, p.mu, p.beta, 0.5, authors_code)

    def first_to_join(p, joined, arrivals, uniform):
        """The first of the equal examples `arrivals` that is drawn."""
        for t in arrivals:
            if uniform[t] < probabilities(p, p.grams[0][: t + 1, : t + 1], joined)[t]:
                return t
        return arrivals[0]

    return predictions


def of_sketched_kons(p, run, initial, key, report):
    """Checks that a labelled example enters with the larger of gamma and the probability of
    KORS. Returns the predictions."""
    labels = np.flatnonzero(np.isfinite(p.ys))
    uniform = np.asarray(DRAWS(jax.random.key_data(key), p.xs[:, 0]))
    entered, probabilities, is_close = [], [], False
    for i, t in enumerate(labels):
        noise = np.diag(LD(p.lam) * np.array(probabilities, LD))
        lower = cholesky(p.grams[0][np.ix_(entered, entered)] + noise)
        half = solve(lower, p.grams[0][entered, t])
        residual = max(p.grams[0][t, t] - half @ half, LD(0))
        probability = max(min(LD(1), LD(p.beta) * residual / (LD(p.lam) + residual)), LD(p.gamma))
        is_close |= abs(uniform[i] - float(probability)) < 1e-7
        if uniform[i] < probability:
            entered.append(int(t))
            probabilities.append(probability)
    if is_close:
        report.skipped["draws too close to call"] += 1
        return None
    report.same("examples in the matrix", run.state.sketch.used, len(entered))
    enters = np.isin(np.arange(len(p.xs)), entered)
    return [sketched_kons(g, p.ys, enters, p.lam, p.bound) for g in p.grams], 0.0


def of_gradient(p, run, initial, key, report):
    """Predictions of gradient steps in the span of the first five labelled examples."""
    joined = np.flatnonzero(np.isfinite(p.ys))[:5]
    counts = n_joined(joined, len(p.xs))

    def predict(features):
        return gradient([features[m] for m in counts], p.ys, p.step / p.max_kernel)

    # each step changes predictions by at most 2 step |y|
    feature_error = 2 * p.step * len(p.ys) * p.largest_label
    return predictions_in_spans(p, joined, predict, feature_error, report)


def of_fourier(p, run, initial, key, report):
    z = np.asarray(fourier.features(initial.features, jnp.asarray(p.xs)), LD)
    errors = 16 * EPS * np.random.default_rng(0).uniform(-1, 1, z.shape)
    return [gradient([features] * len(p.xs), p.ys, p.step) for features in (z, z + errors)], 0.0


def mixture_by(rule):
    def predictions(p, g):
        experts = np.array([ridge(g, p.ys, p.lam * s, awv=True) for s in (1.0, 10.0, 100.0)])
        return mixture(experts, p.ys, p.bound, rule)

    return predictions


PREDICTIONS = {
    "kernel": of_grams(lambda p, g: ridge(g, p.ys, p.lam, awv=True)),
    "cosines": of_cosines(lambda p, g: ridge(g, p.ys, p.lam, awv=True)),
    # j are the examples that joined, and z the features in their spans
    "nystrom": of_dictionaries(lambda p, j, z: ridge_on_dictionary(p.ys, j, z, p.lam, awv=True)),
    "nystrom_code": of_dictionaries(
        lambda p, j, z: ridge_on_dictionary(p.ys, j, z, p.lam, awv=False), authors_code=True
    ),
    "forgetting": of_dictionaries(lambda p, j, z: forgetting_ridge(p.ys, j, z, p.lam, awv=True)),
    "pros_n_kons": of_dictionaries(lambda p, j, z: pros_n_kons(p.ys, j, z, p.lam, p.bound)),
    "sketched_kons": of_sketched_kons,
    "nogd": of_gradient,
    "fogd": of_fourier,
    "mixture": of_cosines(mixture_by("average")),
    "vovk": of_cosines(mixture_by("vovk")),
}

"""Claims of PKAWV (Jézéquel, Gaillard, Rudi, NeurIPS 2019), and the rules that decide them."""

from collections.abc import Callable
from functools import partial

import numpy as np

from experiments.claims import (
    Case,
    Claim,
    Experiment,
    Finding,
    Interval,
    Measurements,
    Missing,
    Paper,
    Source,
    Withdrawn,
    all_above,
    difference_interval,
    empty_if_missing,
    entry,
    interval_text,
    labelled_intervals,
    labelled_numbers,
    labelled_texts,
    mean,
    mean_curve,
    mean_interval,
    mean_text,
    number,
    probability_interval,
    read_sibling,
    seed_values,
)
from experiments.figures.styles import label

MAX_LOSS_RATIO = 1.05  # a loss or error is close to another one if at most this many times as large
LOSS_TOLERANCE = 0.02  # average losses are equally good if their relative difference is smaller
MAX_REGRET_RATIO = 1.1  # a regret has converged if it is at most this many times Kernel-AWV's
SKETCHES = ("taylor_2", "taylor_3", "nystrom")
MILLION, TEN_MINUTES = 1_000_000, 600.0  # examples, seconds
# average losses and seconds on casp in the notebook of the first author
NOTEBOOK = dict(taylor_2=0.061, taylor_3=0.0605, nystrom=0.0605, fogd=0.0705, pros_n_kons=0.081)
NOTEBOOK_SECONDS = dict(taylor_2=8.5, taylor_3=26.0, nystrom=370.0, fogd=4.5, pros_n_kons=55.0)
# seconds of degree 2 divided by the least seconds
MAX_TIME_RATIO = NOTEBOOK_SECONDS["taylor_2"] / min(NOTEBOOK_SECONDS.values())
FALKON_ERROR = 0.196  # 0/1 error on SUSY with 10,000 centres (Rudi, Carratino, Rosasco 2017)


def _numbers(source: Source, names: tuple[str, ...], field: str) -> list[float]:
    """A field of summary.json for each of the methods."""
    return [number(source, "methods", name, field) for name in names]


def as_notebook(source: Source, names: tuple[str, ...]) -> Finding:
    """Whether each loss in the notebook differs from our mean loss by at most 1.96 standard
    deviations over random orders and draws, or by at most 1%."""
    losses = {name: seed_values(source, "methods", name, "average_loss") for name in names}
    means = {name: float(np.mean(runs)) for name, runs in losses.items()}
    texts = {n: f"{means[n]:.4f} ({min(x):.4f} to {max(x):.4f})" for n, x in losses.items()}
    published = [NOTEBOOK[name] for name in names]
    margins = {n: max(1.96 * float(np.std(x, ddof=1)), 0.01 * means[n]) for n, x in losses.items()}
    return Finding(
        f"Means and ranges of {entry(source, 'seeds')} orders: {labelled_texts(texts)}; published:"
        f" {labelled_numbers(names, published, 4)}.",
        all(abs(NOTEBOOK[name] - means[name]) <= margins[name] for name in names),
    )


def near_exact(source: Source, metric: str) -> Finding:
    """Whether the loss or error of degree 2 is close to the exact forecaster's at the last example
    of the exact forecaster, which the time limit stops."""
    n, exact = mean_curve(source, metric, "kernel_ridge")
    degrees = [m for m in ("taylor_2", "taylor_3", "taylor_4") if m in entry(source, "methods")]
    losses = [float(np.interp(n[-1], *mean_curve(source, metric, name))) for name in degrees]
    return Finding(
        f"{metric.replace('_', ' ').capitalize()} at n = {n[-1]:,}, where the exact forecaster"
        f" stopped: {exact[-1]:.4f} exact, {losses[0]:.4f} with M = 2.",
        losses[0] <= MAX_LOSS_RATIO * exact[-1],
        f"With larger degrees: {labelled_numbers(degrees[1:], losses[1:], 4)}.",
    )


def degree_two_is_fast(source: Source) -> Finding:
    """Whether degree 2 takes at most MAX_TIME_RATIO times the least seconds of the methods."""
    names = ("taylor_2", "taylor_3", "nystrom", "fogd", "pros_n_kons", "kernel_ridge")
    seconds = _numbers(source, names, "seconds")
    holds = seconds[names.index("taylor_2")] <= MAX_TIME_RATIO * min(seconds)
    return Finding(f"Seconds: {labelled_numbers(names, seconds, 2)}.", holds)


def nystrom_as_taylor(source: Source) -> Finding:
    """Whether Nystrom and degree 3 have equal losses in the same orders."""
    losses = {
        name: np.asarray(seed_values(source, "methods", name, "average_loss")) for name in SKETCHES
    }
    excess = mean_interval(losses["nystrom"] / losses["taylor_3"] - 1)
    return Finding(
        f"Average loss of Nystrom divided by degree 3's, minus 1, in {entry(source, 'seeds')}"
        f" orders: {interval_text(excess, 4)}.",
        abs(excess[0]) + excess[1] < LOSS_TOLERANCE,
    )


def others_are_worse(source: Source) -> Finding:
    """Whether FOGD and Pros-N-KONS have larger losses than each sketch in the same orders."""
    others = ("fogd", "pros_n_kons")
    losses = {n: seed_values(source, "methods", n, "average_loss") for n in (*SKETCHES, *others)}
    gaps = {
        f"{label(other)} minus {label(name)}": difference_interval(losses[other], losses[name])
        for other in others
        for name in SKETCHES
    }
    return Finding(
        f"Differences of average losses in {entry(source, 'seeds')} orders:"
        f" {labelled_intervals(gaps, 4)}.",
        all_above(gaps.values(), 0),
    )


def nystrom_is_slowest(source: Source) -> Finding:
    """Whether Nystrom takes more seconds than the other sketches."""
    names = ("nystrom", "taylor_2", "taylor_3", "fogd", "pros_n_kons")
    seconds = _numbers(source, names, "seconds")
    holds = seconds[names.index("nystrom")] == max(seconds)
    published = [NOTEBOOK_SECONDS[name] for name in names]
    note = "" if holds else f"In the notebook: {labelled_numbers(names, published, 1)}."
    return Finding(f"Seconds: {labelled_numbers(names, seconds, 2)}.", holds, note)


def least_errors(source: Source, metric: str) -> Finding:
    """Whether the error of degree 2 is close to the least of the methods that end the stream."""
    methods = entry(source, "methods")
    length = max(number(source, "methods", name, "examples") for name in methods)
    names = tuple(name for name in methods if methods[name]["examples"] == length)
    errors = _numbers(source, names, metric)
    if "taylor_2" not in names:
        raise Missing("this run has no finished taylor_2")
    holds = errors[names.index("taylor_2")] <= MAX_LOSS_RATIO * min(errors)
    note = "" if holds else _sizes_note(source, ("taylor_2", names[int(np.argmin(errors))]))
    words = metric.replace("_", " ").capitalize()
    return Finding(f"{words}: {labelled_numbers(names, errors, 4)}.", holds, note)


@empty_if_missing
def _sizes_note(source: Source, names: tuple[str, str]) -> str:
    """The numbers of features of two methods, and the ratio of their seconds, as text."""
    sizes, seconds = _numbers(source, names, "size"), _numbers(source, names, "seconds")
    return (
        f"Features: {labelled_numbers(names, sizes, 0)}; the second method takes"
        f" {seconds[1] / seconds[0]:.0f} times the seconds of the first."
    )


def a_million_in_ten_minutes(source: Source) -> Finding:
    """Whether M = 2 has FALKON's error after a million examples of SUSY, within ten minutes. A
    stream that is shorter is judged by `_fit_to_sample`."""
    n, errors = mean_curve(source, "error_rate", "taylor_2")
    bound = 1.01 * FALKON_ERROR
    if n[-1] < MILLION:
        return _fit_to_sample(read_sibling(source, "susy_fit"), bound)
    n_of_seconds, seconds = mean_curve(source, "seconds", "taylor_2")
    error = float(np.interp(MILLION, n, errors))
    duration = float(np.interp(MILLION, n_of_seconds, seconds))
    return Finding(
        f"After {MILLION:,} examples of M = 2: 0/1 error {error:.4f} (FALKON: {FALKON_ERROR}),"
        f" {duration:.1f} s.",
        error <= bound and duration <= TEN_MINUTES,
    )


def _fit_to_sample(source: Source, bound: float) -> Finding:
    """Whether the error of least squares with the features of M = 2, on the rows to which it was
    fitted, exceeds a bound; the claim then fails, and is undecided otherwise."""
    rows = int(number(source, "examples"))

    def error_interval(scaling: str) -> Interval:
        error = number(source, "scalings", scaling, "taylor_2", "error_of_fit")
        return probability_interval(round(error * rows), rows)

    def text(scaling: str) -> str:
        fit = interval_text(error_interval(scaling), 4)
        on_other_rows = number(source, "scalings", scaling, "taylor_2", "error_of_other_rows")
        return f"{fit} on these rows, {on_other_rows:.4f} on other rows"

    return Finding(
        f"Least squares with the features of M = 2, inputs in [-1, 1], fitted to {rows:,} rows: 0/1"
        f" error {text('paper')} (FALKON: {FALKON_ERROR}).",
        False if all_above([error_interval("paper")], bound) else None,
        f"Inputs in [0, 1], as in the authors' code: {text('authors')}. Columns of mean 0 and"
        f" variance 1: {text('standardized')}.",
    )


def _regrets_text(source: Source, names: tuple[str, ...]) -> str:
    """The mean regrets of methods, as text."""
    return labelled_texts(
        {name: mean_text(source, "methods", name, "regret", digits=1) for name in names}
    )


def _regret_gap(source: Source, less: str, more: str) -> Interval:
    """The interval of the regret of method `more` minus the regret of method `less` on the same
    seeds. Each method has its own adversary."""
    more_runs, less_runs = (seed_values(source, "methods", n, "regret") for n in (more, less))
    return difference_interval(more_runs, less_runs)


def less_regret(source: Source, less: str, more: str) -> Finding:
    """Whether method `less` has less regret than method `more`, on the same seeds."""
    gap, excess = _regret_gap(source, less, more), _regret_gap(source, "kernel_awv", less)
    holds = all_above([gap], 0)
    # the size of Kernel-AWV is left out: it has a point for each example
    sizes = [mean(source, "methods", name, "dictionary_size") for name in (less, more)]
    note = (
        f"{label(less)} is above Kernel-AWV by {interval_text(excess, 1)}. Points or features:"
        f" {labelled_numbers((less, more), sizes, 0)}."
    )
    return Finding(
        f"Regret after all rounds: {_regrets_text(source, (less, more))}; difference"
        f" {interval_text(gap, 1)}.",
        holds,
        "" if holds else note,
    )


def extreme_regret(source: Source, name: str, least: bool) -> Finding:
    """Whether a method has the least regret of all methods or, unless `least`, the largest one."""
    others = [other for other in entry(source, "methods") if other != name]
    pairs = {other: (name, other) if least else (other, name) for other in others}
    gaps = {other: _regret_gap(source, less, more) for other, (less, more) in pairs.items()}
    nearest = min(gaps, key=lambda other: gaps[other][0])
    return Finding(
        f"Regret after all rounds: {_regrets_text(source, (name, *others))}; the least difference"
        f" is {interval_text(gaps[nearest], 1)} ({label(nearest)}).",
        all_above(gaps.values(), 0),
    )


def taylor_converges(source: Source) -> Finding:
    """Whether the regret of Taylor features falls as M grows, close to Kernel-AWV's for M = 4."""
    names = ("kernel_awv", "taylor_4", "taylor_3", "taylor_2")
    regrets = [mean(source, "methods", name, "regret") for name in names]
    kernel_awv, degree_4, *_ = regrets
    return Finding(
        f"Regret after all rounds: {_regrets_text(source, names)}.",
        regrets == sorted(regrets) and degree_4 <= MAX_REGRET_RATIO * kernel_awv,
    )


# a factor log n adds this number to an exponent that is fitted between n = 256 and 4,096
LOG_EXPONENT = 0.146
EXPONENT_TOLERANCE = 0.1  # the largest distance of an exponent from its bound


def reaches_optimum(source: Source) -> Finding:
    """Whether the exponent at the least measured a of at least 2 gamma / (1 + gamma) is close to
    the optimal exponent, for each gamma."""
    holds, texts = True, []
    for key, rows in entry(source, "measured").items():
        gamma = float(key)
        optimal, needed_a = gamma / (1 + gamma), 2 * gamma / (1 + gamma)
        large_enough = [a for a in rows if float(a) >= needed_a]
        if not large_enough:
            texts.append(f"gamma {key}: no measured a is as large as {needed_a:.2f}")
            continue
        a = large_enough[0]
        exponent, half = _exponent_interval(source, key, a)
        distance = abs(exponent - optimal)
        holds &= distance <= half and distance + half <= EXPONENT_TOLERANCE
        text = interval_text((exponent, half), 3)
        texts.append(f"gamma {key}: {text} at a = {a}, optimal {optimal:.3f}")
    return Finding(f"{'; '.join(texts)}.", bool(holds))


def _exponent_interval(source: Source, gamma: str, a: str) -> Interval:
    """The interval of the measured exponent of the regret with n^a points."""
    row = ("measured", gamma, a)
    return number(source, *row, "exponent"), 1.96 * number(source, *row, "standard_error")


def on_the_line(source: Source) -> Finding:
    """Whether the intervals of all measured exponents are close to the bounds."""
    texts, all_excesses, largest_distance = [], [], 0.0
    for gamma, rows in entry(source, "measured").items():
        excesses = []  # intervals of measured exponent minus bound
        for a in rows:
            exponent, half = _exponent_interval(source, gamma, a)
            excesses.append((exponent - number(source, "measured", gamma, a, "bound"), half))
        distance, half = max(((abs(excess), half) for excess, half in excesses), key=sum)
        largest_distance = max(largest_distance, distance + half)
        texts.append(f"gamma {gamma}: {interval_text((distance, half), 3)}")
        all_excesses.extend(excesses)
    above_count = sum(excess > half for excess, half in all_excesses)
    largest_end = max(0.0, *(excess + half for excess, half in all_excesses))
    return Finding(
        f"Largest distance of a measured exponent from the bound: {'; '.join(texts)}; {above_count}"
        f" of {len(all_excesses)} exponents are above the bound beyond their interval, and the"
        f" largest upper end of an interval is {largest_end:.2f} above the bound.",
        largest_distance <= EXPONENT_TOLERANCE,
    )


def levels_off(source: Source) -> Finding:
    """Whether the least exponents of Pros-N-KONS by the bounds (8) are the printed ones."""
    holds, texts = True, []
    for key, curves in entry(source, "theory", "exponents").items():
        gamma, least = float(key), min(curves["pros_n_kons"])
        printed = 4 * gamma / (1 + gamma) ** 2
        holds &= abs(min(printed, 1) - least) <= 0.01
        texts.append(f"gamma {key}: {least:.3f}, printed {printed:.3f}")
    note = _measured_pros_n_kons_note(source)
    return Finding(f"By the bounds (8): {'; '.join(texts)}.", holds, note)


@empty_if_missing
def _measured_pros_n_kons_note(source: Source) -> str:
    """The measured exponents where the bounds (8) are least, as text."""
    measured = entry(read_sibling(source, "pros_n_kons_rates"), "measured")
    least = {gamma: min(rows, key=lambda row: row["bound"]) for gamma, rows in measured.items()}
    text = "; ".join(
        f"gamma {gamma}: {interval_text((row['exponent'], 1.96 * row['standard_error']), 3)} at a ="
        f" {row['a']:.2f}"
        for gamma, row in least.items()
    )
    return f"Measured where (8) is least: {text}."


def corollary_7(source: Source) -> Finding:
    """Whether, for PKAWV with KORS, the exponents of the regret exceed the bounds (8), and the
    exponents of the number of points exceed a, by at most LOG_EXPONENT."""
    measured = entry(read_sibling(source, "nystrom_rates"), "measured")
    regret_excess, size_excess, texts = -np.inf, -np.inf, []
    for gamma, rows in measured.items():
        regret_excess = max(regret_excess, *(row["exponent"] - row["bound"] for row in rows))
        size_excess = max(size_excess, *(row["size_exponent"] - row["a"] for row in rows))
        exponents = ", ".join(
            f"{row['exponent']:.2f} ({row['bound']:.2f}) with n^{row['size_exponent']:.2f} points"
            f" ({row['a']:.2f})"
            for row in rows
        )
        texts.append(f"gamma {gamma}: {exponents}")
    return Finding(
        f"Measured exponents, with the bound of (8) and a in parentheses: {'; '.join(texts)}."
        f" Largest excess: {regret_excess:.3f} for the regret, {size_excess:.3f} for the number of"
        " points.",
        bool(max(regret_excess, size_excess) <= LOG_EXPONENT),
    )


def beats_sketched_kons(source: Source) -> Finding:
    """Whether PKAWV's exponent by the bounds (8) exceeds that of Sketched-KONS at no a."""
    # imports JAX and matplotlib, which the other rules do not need
    from experiments.pkawv_2019 import rates

    # the bounds need no run
    del source
    excess = rates.curve("pkawv", 0.5) - rates.curve("sketched_kons", 0.5)
    worst = int(np.argmax(excess))
    return Finding(
        "PKAWV's exponent minus that of Sketched-KONS, by the bounds (8) at gamma = 1/2: at most"
        f" {excess[worst]:+.3f}, at a = {rates.SIZES[worst]:.2f}.",
        bool(excess[worst] <= 1e-9),
    )


# {folder: name of its case}
STREAMS = dict(casp="casp", cod_rna="cod-rna", susy="SUSY", ijcnn1="ijcnn1")


def _on_streams(check: Callable[..., Finding]) -> tuple[Case, ...]:
    """A case for each stream; the metric is the loss on casp, and the error on the others."""
    metrics = dict.fromkeys(STREAMS, "error_rate") | dict(casp="average_loss")
    return tuple(
        _on(folder, partial(check, metric=metrics[folder]), name)
        for folder, name in STREAMS.items()
    )


def _on(
    folder: str, check: Callable[[Source], Finding], name: str = "", others: tuple[str, ...] = ()
) -> Case:
    """A case on a folder of this paper, whose rule or note also reads the folders `others`."""
    return Case(f"pkawv_2019/{folder}", check, name, others)


_SCALING = "All streams have inputs in [0, 1], as in the authors' code; the paper states [-1, 1]."
CLAIMS = (
    Claim(
        "Section 3.2, Figure 1",
        "Features chosen beforehand reach the optimal exponent gamma / (1 + gamma) at a = 2 gamma"
        " / (1 + gamma).",
        "At the least measured a of at least 2 gamma / (1 + gamma), the 95% interval of the"
        f" exponent contains the optimal one and lies within {EXPONENT_TOLERANCE} of it, for gamma"
        " = 0.25 and 0.414.",
        "For gamma = 0.75 the dictionary would have n^0.86 = 1,247 points at n = 4,096; the kernel"
        " of the experiment has rank 512.",
        (_on("rates", reaches_optimum),),
        ("confirmed",),
    ),
    Claim(
        "Section 3.2, Figure 1",
        "With fewer features chosen beforehand the exponent of the bound grows along a line in a,"
        " and the measured exponents follow it.",
        f"The 95% intervals of all measured exponents are within {EXPONENT_TOLERANCE} of the"
        " bound.",
        "The exponents of the figure fall by 0.33 to 0.6 between the smallest and the largest"
        " measured a of a line. The bound holds up to logarithms: one factor log n adds"
        f" {LOG_EXPONENT} between n = 256 and 4,096. The features are the first n^a cosines of the"
        " kernel, not a dictionary of points.",
        (_on("rates", on_the_line),),
        ("confirmed",),
        "The earlier rule compared estimates; this one compares intervals.",
    ),
    Claim(
        "Corollary 7",
        "PKAWV with KORS has a regret of at most n^b with a dictionary of n^a points, up to"
        " logarithms.",
        f"No measured exponent of the regret is more than {LOG_EXPONENT} above b, and no measured"
        f" exponent of the number of points is more than {LOG_EXPONENT} above a.",
        "Appendix E defines the paper's inequality up to logarithmic factors. One factor log n"
        f" adds {LOG_EXPONENT} to an exponent between n = 256 and 4,096.",
        (_on("rates", corollary_7, others=("pkawv_2019/nystrom_rates",)),),
        ("confirmed",),
        "Without a logarithm the claim would differ: exponents of the number of points exceed a by"
        " up to 0.117.",
    ),
    Claim(
        "Table 1",
        "Pros-N-KONS levels off at the exponent 4 gamma / (1 + gamma)^2.",
        "The printed exponent is within 0.01 of the least exponent by the paper's bounds (8).",
        "The statement is algebra.",
        (_on("rates", levels_off, others=("pkawv_2019/pros_n_kons_rates",)),),
        ("differs",),
        cause="The cause is an erratum: the bounds (8) give gamma (3 + gamma) / (1 + gamma)^2"
        " (THEORY 7.11). The interval measured at gamma = 0.25 contains the printed 0.640, but not"
        " the 0.520 of (8); the bounds (8) hold up to logarithms.",
    ),
    Claim(
        "Section 3.2",
        "PKAWV's rate beats that of Sketched-KONS for gamma up to 1/2.",
        "By the bounds (8) at gamma = 1/2, PKAWV's exponent exceeds that of Sketched-KONS at no a.",
        "The statement is algebra.",
        (_on("rates", beats_sketched_kons),),
        ("differs",),
        cause="The cause is an erratum: by (8) the lines of the two methods coincide at gamma ="
        " sqrt(2) - 1 = 0.414 (THEORY 7.11).",
    ),
    Claim(
        "Section 4, Figures 2 and 4",
        "In all experiments Taylor features of degree 2 approximate the kernel forecaster"
        " reasonably well.",
        "At the example at which the time limit stopped the exact forecaster, the average loss"
        f" (casp) or 0/1 error of degree 2 is at most {MAX_LOSS_RATIO - 1:.0%} above the exact"
        " forecaster's.",
        f"The paper's curves of the two forecasters are hardly distinguishable. {_SCALING}",
        _on_streams(near_exact),
        ("confirmed", "differs", "confirmed", "differs"),
        cause="On cod-rna the cause is the degree: the excess falls from 60% with M = 2 to 17% with"
        " M = 3 and 5.5% with M = 4. On ijcnn1 the cause is unknown: the excess is 14% with M = 2"
        " and 12% with M = 3.",
    ),
    Claim(
        "Section 4, Figures 2 and 4",
        "Taylor features of degree 2 end close to the best of all forecasters.",
        "The average loss (casp) or 0/1 error of degree 2 is at most"
        f" {MAX_LOSS_RATIO - 1:.0%} above the least of the methods that finished the stream.",
        "The figures show the statement, but the text does not make it. With the methods of the"
        f" paper alone the verdict is the same. {_SCALING}",
        _on_streams(least_errors),
        ("differs", "confirmed", "differs"),
        "There is a fourth case, casp.",
        "The cause is the number of features: larger degrees and larger dictionaries have less"
        " error.",
    ),
    Claim(
        "Section 4, Figures 2 and 4",
        "Degree 2 is usually very fast.",
        f"Degree 2 takes at most {MAX_TIME_RATIO:.1f} times the least seconds of the paper's"
        " methods (medians of up to five passes).",
        "In the notebook of the first author degree 2 takes 1.9 times FOGD's seconds on casp."
        f" {_SCALING}",
        tuple(_on(folder, degree_two_is_fast, name) for folder, name in STREAMS.items()),
        ("confirmed",) * 4,
        "The earlier rule required the least time of all methods. The paper does not state this,"
        " and its own curve on casp would fail. By that rule casp and cod-rna are confirmed, and"
        " SUSY and ijcnn1 are not.",
    ),
    Claim(
        "Section 4",
        "On the first million examples of SUSY, degree 2 has FALKON's error, within ten minutes.",
        f"After {MILLION:,} examples the 0/1 error is at most 1% above {FALKON_ERROR}, FALKON's"
        f" with 10,000 centres, and at most {TEN_MINUTES:g} s have passed. Without the file of all"
        " rows, least squares with the same features and the paper's scaling is fitted to a random"
        " sample of rows; the claim fails where the 95% interval of its error on these rows lies"
        " above that bound.",
        "The paper compares error and time. The forecaster approaches the fit, whose error on"
        " its own rows is too low, and the forecaster's average over the stream includes earlier,"
        " larger errors.",
        (_on("susy", a_million_in_ten_minutes, others=("pkawv_2019/susy_fit",)),),
        ("not decidable here",),
        "The first rule needed the file. The second used the scaling of the authors' code; by that"
        " rule the claim differs as well.",
        "The scaling of the inputs is a part of the cause: with columns of mean 0 and variance 1"
        " the claim would be undecided. The rest is unknown.",
    ),
    Claim(
        "Appendix G, Figure 3",
        "Kernel-AWV has the lowest regret.",
        "The 95% intervals of the other methods' regret minus Kernel-AWV's, with the same starts"
        " (each method has its own adversary), lie above 0.",
        "The paper draws a single game.",
        (_on("adversarial", partial(extreme_regret, name="kernel_awv", least=True)),),
        ("confirmed",),
        "The earlier rule compared means; this one compares intervals.",
    ),
    Claim(
        "Appendix G, Figure 3",
        "Taylor features converge very fast to the regret of Kernel-AWV as M grows.",
        "The regrets fall from M = 2 to M = 4, and the regret of M = 4 is at most"
        f" {MAX_REGRET_RATIO - 1:.0%} above Kernel-AWV's.",
        "M = 4 is the largest degree of the figure. The bound of 10% is our choice; the verdict is"
        " the same for each bound up to 42%.",
        (_on("adversarial", taylor_converges),),
        ("confirmed",),
        "The earlier rule compared the order of the regrets only; by it the claim is confirmed.",
    ),
    Claim(
        "Appendix G, Figure 3",
        "Pros-N-KONS performs poorly.",
        "Pros-N-KONS has the largest regret, beyond the 95% intervals of the differences.",
        "Pros-N-KONS is the uppermost curve of the figure.",
        (_on("adversarial", partial(extreme_regret, name="pros_n_kons", least=False)),),
        ("confirmed",),
        "The earlier rule compared means; this one compares intervals.",
    ),
    Claim(
        "Appendix G, Figure 3",
        "FOGD performs surprisingly well.",
        "The regret of FOGD with 1,000 frequencies is below that of Taylor features of degree 2,"
        " beyond the 95% interval of the difference.",
        "In the figure FOGD lies between PKAWV and Kernel-AWV. Section 4 fixes 1,000 frequencies;"
        " with 100, as in the other claims on this figure, the difference is 16.1 ± 1.2.",
        (_on("adversarial", partial(less_regret, less="fogd_1000", more="taylor_2")),),
        ("confirmed",),
        "The earlier rule compared the mean with 100 frequencies; this one compares the interval"
        " with 1,000.",
    ),
    Claim(
        "Appendix G, Figure 3",
        "Nystrom follows Kernel-AWV.",
        "Nystrom's regret is below that of Taylor features of degree 4, beyond the 95% interval of"
        " the difference.",
        "In the figure the curves of Nystrom and Kernel-AWV coincide; the text does not state it.",
        (_on("adversarial", partial(less_regret, less="nystrom", more="taylor_4")),),
        ("differs",),
        cause="The cause is the curve: Nystrom's curve in the authors' notebook is a second run of"
        " exact Kernel-AWV (THEORY 7.10).",
    ),
    Claim(
        "Appendix G, Figure 4",
        "The average losses on casp are those of the first author's notebook (Figure 4).",
        "Each published loss is within 1.96 standard deviations of the losses of 20 random orders"
        " and draws around their mean, or within 1% of it.",
        "A published loss is of one order and one draw, printed with two or three digits.",
        (
            _on("casp_orders", partial(as_notebook, names=SKETCHES), "PKAWV"),
            _on("casp_orders", partial(as_notebook, names=("fogd",)), "FOGD"),
            _on("casp_orders", partial(as_notebook, names=("pros_n_kons",)), "Pros-N-KONS"),
        ),
        ("confirmed", "confirmed", "differs"),
        "The earlier rule allowed 2% around the loss of one order. By that rule Pros-N-KONS is 2.6%"
        " off, which is less than its variation between draws.",
    ),
    Claim(
        "Appendix G, Figure 4",
        "On casp Nystrom is as good as Taylor features of degree 3.",
        "The 95% interval of the ratio of the two average losses in 20 orders lies within"
        f" {LOSS_TOLERANCE:.0%} of 1.",
        "The bound is our choice; the curves of the figure coincide.",
        (_on("casp_orders", nystrom_as_taylor),),
        ("confirmed",),
        "The earlier rule judged one order; this one judges the interval of twenty.",
    ),
    Claim(
        "Appendix G, Figure 4",
        "On casp FOGD and Pros-N-KONS are worse than PKAWV.",
        "The 95% intervals of the average losses of FOGD and of Pros-N-KONS, minus those of each"
        " sketch of PKAWV in the same 20 orders, lie above 0.",
        "The curves of the figure do not cross.",
        (_on("casp_orders", others_are_worse),),
        ("confirmed",),
        "The earlier rule judged one order; this one judges the intervals of twenty.",
    ),
    Claim(
        "Appendix G, Figure 4",
        "On casp Nystrom is the slowest of the sketches.",
        "Nystrom takes the most seconds (medians of up to five passes).",
        "In the notebook Nystrom takes 14 times the seconds of Taylor features of degree 3.",
        (_on("casp", nystrom_is_slowest),),
        ("differs",),
        cause="The cause is the implementation: ours computes blocks of examples, and the listing"
        " of Appendix H.2 copies all rows at each example. In NumPy code that follows the listing,"
        " an example takes 2.5 ms at n = 2,500 and 7.9 ms at n = 45,000, and an example of degree 3"
        " takes 1.6 ms (measured once, not saved; FOGD and Pros-N-KONS were not timed in NumPy).",
    ),
)
WITHDRAWN = (
    Withdrawn(
        "Section 3.1",
        "The degree of the Taylor features may be increased over time.",
        ("confirmed",),
        "The bound of Theorem 4 is 10 to 20 times the measured regret: the check cannot fail.",
    ),
)


def _stream(name: str, item: str, note: str) -> Experiment:
    title = STREAMS[name]
    file, metric = ("loss", "Average squared loss") if name == "casp" else ("error", "0/1 error")
    lines = "one line for each forecaster"
    figures = {
        f"{file}.png": f"{metric} on {title} against examples, {lines}",
        "time.png": f"Seconds on {title} against examples on log axes, {lines}",
        "loss_at_time.png": f"Average squared loss on {title} against seconds, {lines}",
    }
    return Experiment(f"pkawv_2019/{name}", f"{item}: {title}", note, figures)


_AS_AUTHORS = (
    "The first author's settings, scaling and prediction (projected kernel ridge regression)."
)
_SAMPLE = (
    " Without the 880 MB file in the data folder, the stream is a random sample of 39,930 rows; its"
    " source is in the provenance."
)
RATES = Experiment(
    "pkawv_2019/rates",
    "Figure 1 and Table 1: rates",
    "Curves of the bounds (8), and exponents measured under the capacity condition: of PKAWV with"
    " features chosen beforehand and with KORS, and of Pros-N-KONS.",
    {
        "rates.png": "Exponent of the regret against exponent of the dictionary size for three"
        " values of gamma: bounds of four methods, and measured exponents of three with intervals"
    },
)
DEGREE = Experiment(
    "pkawv_2019/growing_degree",
    "Section 3.1: a degree that grows with the stream",
    "An experiment of ours on generated streams, with R in lengthscales. The paper proposes a"
    " growing degree, and runs fixed degrees.",
    tables={
        "regret.csv": "Regret by stream and n: with growing M, with fixed M, and of Kernel-AWV"
    },
)
ADVERSARY = Experiment(
    "pkawv_2019/adversarial",
    "Figure 3: the greedy adversary",
    "Our adversary climbs by gradients from many starts, and is stronger than the notebook's, which"
    " has a single start.",
    {
        "regret.png": "Regret against examples in games with the adversary, one line for each"
        " forecaster, 95% bands"
    },
)
ORDERS = Experiment(
    "pkawv_2019/casp_orders",
    "Figure 4: casp, 20 random orders and draws",
    "All other settings are those of casp.",
    measurements=(
        Measurements(
            "Average loss, mean over orders", dict(average_loss=("average loss", 4)), ("methods",)
        ),
    ),
)

PAPER = Paper(
    "PKAWV",
    "Efficient online learning with kernels for adversarial large scale problems (NeurIPS 2019)",
    (
        RATES,
        DEGREE,
        _stream("cod_rna", "Figure 2", _AS_AUTHORS),
        _stream("susy", "Figure 2", _AS_AUTHORS + _SAMPLE),
        ADVERSARY,
        _stream("casp", "Figure 4", _AS_AUTHORS),
        ORDERS,
        _stream("ijcnn1", "Figure 4", _AS_AUTHORS),
    ),
    CLAIMS,
    WITHDRAWN,
)

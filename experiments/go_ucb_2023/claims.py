"""Claims of GO-UCB (Liu, Wang, ICML 2023).

A rule is a function from a `Source` to a `Finding`. Functions that return evidence for the reason
of a failure return an empty text if the results that they need are missing.
"""

from collections.abc import Callable, Iterable

import numpy as np

from experiments.claims import (
    Claim,
    Experiment,
    Figure,
    Finding,
    Missing,
    Paper,
    Source,
    entry,
    half_width,
    list_numbers,
    list_texts,
    mean,
    mean_text,
    number,
    optional,
    read_sibling,
)
from experiments.figures.styles import label
from experiments.results import tidy
from experiments.results.summaries import ci95

PHASE_ONE = 5  # uniform points on f1
PAPER_SEEDS = 5
CLASSICAL = ("gp_ei", "gp_pi", "gp_ucb")
OTHERS = (*CLASSICAL, "turbo")
METHODS = ("go_ucb", *OTHERS)
FLAT = 0.01  # regret per step over the uniform policy's
STEADY = 0.75  # regret per step at the end over that of the whole run
BENT = 0.5  # regret per step after the bend over that before it

Interval = tuple[float, float]
Rule = Callable[[dict[str, dict[str, float]]], bool]  # of {function: {method: regret ratio}}


def _key(function: str, name: str, field: str) -> tuple[str, ...]:
    return "functions", function, "algorithms", name, field


def _ratios(source: Source, function: str, names: tuple[str, ...], field: str) -> list[float]:
    return [mean(source, *_key(function, name, field)) for name in names]


def _regrets(source: Source, function: str) -> dict[str, np.ndarray]:
    """{method: regrets [S, n + T]} of the tables of Figure 2; empty without them."""
    if not (source.folder / tidy.CURVES).exists():
        return {}
    curves = tidy.load(source.folder).curves
    of_function = curves[curves["problem"] == function]
    return {name: values for name, (_, values) in tidy.lines(of_function, "regret").items()}


@optional
def _with_uniform_candidates(source: Source, functions: tuple[str, ...], holds: Rule) -> str:
    """A text on whether the statement holds if all candidates of the GP acquisitions are uniform in
    the box, from the results of `variants`."""
    keys = {"go_ucb": "go_ucb", **{n: f"{n}_uniform" for n in CLASSICAL}, "turbo": "turbo"}
    other = read_sibling(source, "variants")
    ratios: dict[str, dict[str, float]] = {}
    words = []
    for f in functions:
        fields = {n: _key(f, of, "regret_ratio") for n, of in keys.items()}
        ratios[f] = {n: mean(other, *key) for n, key in fields.items()}
        text = list_texts({n: mean_text(other, *key, digits=3) for n, key in fields.items()})
        words.append(f"{f}: {text}")
    seeds = entry(other, "seeds")
    return (
        "By default half of the candidates of a GP acquisition lie near the best observed point."
        f" With all of them uniform it {'holds' if holds(ratios) else 'does not hold'}, by the"
        f" mean: regret ratios of {seeds} seeds, {'; '.join(words)}."
    )


def _paired(source: Source, function: str, other: str) -> tuple[float, float, str]:
    """(low, high) of the 95% interval of another method's cumulative regret minus GO-UCB's on the
    same seeds, and a sentence; (inf, inf, "") without the tables."""
    regrets = _regrets(source, function)
    if not {"go_ucb", other} <= regrets.keys():
        return np.inf, np.inf, ""
    more = (regrets[other] - regrets["go_ucb"]).sum(1)
    wide = ci95(more)
    words = (
        f"{label(other)}'s minus GO-UCB's on the same seeds: {more.mean():.1f} ± {wide:.1f}, above"
        f" 0 in {(more > 0).sum()} of {len(more)}."
    )
    return more.mean() - wide, more.mean() + wide, words


def best_on(function: str) -> Callable[[Source], Finding]:
    def check(source: Source) -> Finding:
        regrets = _ratios(source, function, METHODS, "cumulative_regret")
        text = list_texts(
            {
                n: mean_text(source, *_key(function, n, "cumulative_regret"), digits=1)
                for n in METHODS
            }
        )
        note = _with_uniform_candidates(
            source, (function,), lambda r: r[function]["go_ucb"] == min(r[function].values())
        )
        next_best = OTHERS[int(np.argmin(regrets[1:]))]
        low, high, words = _paired(source, function, next_best)
        holds = None if low <= 0 <= high else regrets[0] == min(regrets)
        return Finding(f"Cumulative regret: {text}.", holds, f"{words} {note}".strip())

    return check


def small_share(function: str, name: str, field: str, words: str) -> Callable[[Source], Finding]:
    """The regret per step is at most FLAT times that of the uniform policy."""

    def check(source: Source) -> Finding:
        [ratio] = _ratios(source, function, (name,), field)
        regrets, note = _regrets(source, function).get(name), ""
        if ratio > FLAT and regrets is not None:
            uniform = number(source, "functions", function, "uniform_regret")
            late = regrets[:, -10:].mean(1) / uniform
            note = (
                f"In {(late <= FLAT).sum()} of {len(late)} repetitions it is at most {FLAT:.0%};"
                f" the mean of the first {PAPER_SEEDS}, the paper's number, is"
                f" {late[:PAPER_SEEDS].mean():.4f}."
            )
        text = f"Regret per step {words} over the uniform policy's: {ratio:.4f}."
        return Finding(text, ratio <= FLAT, note)

    return check


def least_bars(source: Source) -> Finding:
    widths = [half_width(source, *_key("f1", name, "cumulative_regret")) for name in METHODS]
    holds, regrets, note = widths[0] == min(widths), _regrets(source, "f1"), ""
    if not holds and set(METHODS) <= regrets.keys():
        first = ci95(regrets["go_ucb"][:, :PHASE_ONE].sum(1))
        rest = [ci95(regrets[name][:, PHASE_ONE:].sum(1)) for name in METHODS]
        note = (
            f"Phase I alone, uniform points that all share, has {first:.2f}; without it:"
            f" {list_numbers(METHODS, rest, 2)}."
        )
    return Finding(f"Half widths: {list_numbers(METHODS, widths, 2)}.", holds, note)


def steady(function: str, names: tuple[str, ...]) -> Callable[[Source], Finding]:
    """The regret grows linearly: the last ten steps have at least STEADY of the average regret."""

    def check(source: Source) -> Finding:
        last = _ratios(source, function, names, "ratio_last_10")
        whole = _ratios(source, function, names, "regret_ratio")
        shares = [a / b for a, b in zip(last, whole, strict=True)]
        text = list_numbers(names, shares, 2)
        holds = min(shares) >= STEADY
        note = "" if holds else _why_not_steady(source, function)
        return Finding(
            f"Regret per step of the last ten over that of the whole run: {text}.", holds, note
        )

    return check


@optional
def _why_not_steady(source: Source, function: str) -> str:
    if function == "f1":
        simple = mean_text(source, *_key("f1", "uniform", "simple_regret"), digits=4)
        return (
            f"The best of as many uniform points on f1 has regret {simple}: the optimum is a"
            " plateau."
        )
    last, whole = (
        mean(source, *_key(function, "go_ucb_eq5", field))
        for field in ("ratio_last_10", "regret_ratio")
    )
    return f"GO-UCB with the paper's eq. 5, where ours refits the network, has {last / whole:.2f}."


def smaller_gap(source: Source) -> Finding:
    def gaps(ratios: dict[str, dict[str, float]]) -> list[float]:
        return [min(r[name] for name in OTHERS) - r["go_ucb"] for r in ratios.values()]

    def smaller(ratios: dict[str, dict[str, float]]) -> bool:
        on_f2, on_f3 = gaps(ratios)
        return 0 < on_f3 < on_f2

    functions = ("f2", "f3")
    ratios = {
        f: dict(zip(METHODS, _ratios(source, f, METHODS, "regret_ratio"), strict=True))
        for f in functions
    }
    return Finding(
        f"Next best regret ratio minus GO-UCB's: {list_numbers(functions, gaps(ratios))}.",
        smaller(ratios),
        _with_uniform_candidates(source, functions, smaller),
    )


def _more(source: Source, problem: str) -> tuple[str, list[Interval]]:
    """The cumulative regret minus that of GO-UCB on the same seeds, as text and as intervals."""
    keys = [("problems", problem, "algorithms", name, "more_than_go_ucb") for name in OTHERS]
    text = list_texts({key[3]: mean_text(source, *key, digits=3) for key in keys})
    centres = [(mean(source, *key), half_width(source, *key)) for key in keys]
    return text, [(centre - width, centre + width) for centre, width in centres]


def _all(inside: Iterable[bool], outside: Iterable[bool]) -> bool | None:
    """Whether a statement holds for several intervals: True if each interval satisfies it, False if
    one contradicts it, and None otherwise."""
    if any(outside):
        return False
    return True if all(inside) else None


def _ahead(source: Source, text: str, intervals: list[Interval]) -> Finding:
    """GO-UCB has less regret than all other methods, by the paired differences."""
    holds = _all((low > 0 for low, _ in intervals), (high < 0 for _, high in intervals))
    return Finding(
        f"Cumulative regret more than GO-UCB's: {text}.", holds, _beyond(source, intervals)
    )


def _beyond(source: Source, intervals: list[Interval]) -> str:
    """A text with the numbers of paired differences above and below 0."""
    above = sum(low > 0 for low, _ in intervals)
    below = sum(high < 0 for _, high in intervals)
    by_mean = sum(low + high > 0 for low, high in intervals)
    return (
        f"Differences above 0 beyond the interval: {above} of {len(intervals)} ({by_mean} by the"
        f" mean), below 0: {below}, from {entry(source, 'repetitions')} repetitions."
    )


def similar(problem: str) -> Callable[[Source], Finding]:
    """The error bars of GO-UCB and each other method overlap: their means differ by at most the sum
    of both half widths."""

    def check(source: Source) -> Finding:
        text, intervals = _more(source, problem)
        keys = {n: ("problems", problem, "algorithms", n, "cumulative_regret") for n in METHODS}
        widths = [
            half_width(source, *keys["go_ucb"]) + half_width(source, *keys[name]) for name in OTHERS
        ]
        pairs = [(*interval, w) for interval, w in zip(intervals, widths, strict=True)]
        holds = _all(
            (max(-low, high) <= width for low, high, width in pairs),
            (max(low, -high) > width for low, high, width in pairs),
        )
        bars = list_texts({name: mean_text(source, *key, digits=3) for name, key in keys.items()})
        note = f"More than GO-UCB's on the same seeds: {text}. {_beyond(source, intervals)}"
        return Finding(f"Cumulative regret: {bars}.", holds, note)

    return check


def much_better(problem: str) -> Callable[[Source], Finding]:
    return lambda source: _ahead(source, *_more(source, problem))


def better_throughout(data: str) -> Callable[[Source], Finding]:
    def check(source: Source) -> Finding:
        models = ("random_forest", "mlp", "gradient_boosting")
        parts = {model: _more(source, f"{model}-{data}") for model in models}
        text = " | ".join(f"{m.replace('_', ' ')}: {words}" for m, (words, _) in parts.items())
        return _ahead(source, text, [one for _, intervals in parts.values() for one in intervals])

    return check


def _bend(source: Source, problem: str, name: str) -> tuple[float, float]:
    """Regret per step until t = 23 and after."""
    key = ("problems", problem, "algorithms", name)
    before, after = (
        mean(source, *key, f"regret_per_step_{when}_23") for when in ("until", "after")
    )
    return before, after


def bends(source: Source) -> Finding:
    names = ("turbo", *CLASSICAL)
    rates = [_bend(source, "mlp-breast_cancer", name) for name in names]
    before, after = zip(*rates, strict=True)
    bent = [a <= BENT * b for b, a in rates]
    holds = bent[0] and not any(bent[1:])
    return Finding(
        f"Regret per step until t = 23: {list_numbers(names, before)}; after:"
        f" {list_numbers(names, after)}.",
        holds,
        "" if holds else _bends_on_all_problems(source),
    )


def _bends_on_all_problems(source: Source) -> str:
    """The range of the ratios of the regret per step after t = 23 to that before."""
    ratios: dict[str, list[float]] = {"TuRBO": [], "the GP methods": []}
    for problem in entry(source, "problems"):
        for name in ("turbo", *CLASSICAL):
            try:
                before, after = _bend(source, problem, name)
            except Missing:
                continue
            if before > 0:
                ratios["TuRBO" if name == "turbo" else "the GP methods"].append(after / before)
    ranges = "; ".join(f"{n}: {min(v):.2f} to {max(v):.2f}" for n, v in ratios.items() if v)
    return (
        "The ratio of the regret per step after t = 23 to that before, on all problems of Figures 3"
        f" to 5: {ranges}."
    )


_LEAST = (
    "GO-UCB has less mean cumulative regret than GP-EI, GP-PI, GP-UCB and TuRBO. Where the 95%"
    " interval of the paired difference to the next best contains 0, nothing is decided."
)
_LINEAR = (
    f"The regret per step of the last ten evaluations is at least {STEADY} of that of the"
    " whole run, for each of them."
)
_LEVEL = (
    "A fault of our TuRBO is an unlikely cause: it is level with its authors' code on three other"
    " functions (go_ucb_2023/turbo)."
)
_FLAT = f"The regret per step is at most {FLAT:.0%} of the uniform policy's"

SYNTHETIC = Experiment(
    "go_ucb_2023/synthetic",
    "Figure 2: functions of 20 inputs",
    "f1: an all-ones network; f2: Styblinski-Tang; f3: Rastrigin. The same settings for all, chosen"
    " elsewhere.",
    (
        Figure(
            "figure2.png",
            "Cumulative regret on f1, f2 and f3 against evaluations, one line for each method",
        ),
        Figure("figure2_5.png", "The same of the first five repetitions, the paper's number"),
    ),
    (
        *(
            Claim("Figure 2", f"GO-UCB has the least regret on {f}.", _LEAST, best_on(f))
            for f in ("f1", "f2", "f3")
        ),
        Claim(
            "Figure 2a",
            "GO-UCB finds the optimum of f1 shortly after phase I.",
            f"{_FLAT}, after its second step.",
            small_share("f1", "go_ucb", "ratio_after_second_step", "after the second"),
        ),
        *(
            Claim(
                "Figure 2a",
                f"{label}'s regret on f1 stays the same from t = 22 on.",
                f"{_FLAT}, in the last ten evaluations.",
                small_share("f1", name, "ratio_last_10", "of the last ten"),
                reason=cause,
            )
            for name, label, cause in (("go_ucb", "GO-UCB", ""), ("turbo", "TuRBO", _LEVEL))
        ),
        Claim(
            "Figure 2a",
            "GO-UCB has the smallest error bars on f1.",
            "GO-UCB has the least half width of the 95% interval.",
            least_bars,
            reason="A large part of the interval is due to phase I, whose points all methods"
            " share.",
        ),
        Claim(
            "Figure 2a",
            "GP-EI, GP-PI and GP-UCB have almost linear regret on f1.",
            _LINEAR,
            steady("f1", CLASSICAL),
            reason="They reach the plateau within the run as well.",
        ),
        *(
            Claim(
                f"Figure {label}",
                f"All methods have linear regret on {f}.",
                _LINEAR,
                steady(f, ("go_ucb", *OTHERS)),
                reason="Methods that stay near the best observed point keep improving.",
            )
            for f, label in (("f2", "2b"), ("f3", "2c"))
        ),
        Claim(
            "Figure 2b, 2c",
            "GO-UCB's lead is smaller on f3 than on f2.",
            "The next best method's regret ratio minus GO-UCB's is positive on f3, and larger on"
            " f2.",
            smaller_gap,
        ),
    ),
)
_SETS = {3: "breast_cancer", 4: "australian", 5: "diabetes"}
_CLEAR = (
    "The 95% interval of the paired difference to GO-UCB lies above 0 for each of the four{}. The"
    " claim fails where one lies below 0; else nothing is decided."
)

TUNING = Experiment(
    "go_ucb_2023/tuning",
    "Figures 3 to 5: tuning three classifiers on three data sets",
    "The best accuracy of all methods replaces the unknown maximum. Differences are paired.",
    tuple(
        Figure(
            f"figure{n}.png",
            "Cumulative regret in tuning a random forest, a network and gradient boosting on"
            f" {name.replace('_', ' ')}, one line for each method",
        )
        for n, name in _SETS.items()
    ),
    (
        Claim(
            "Figure 3a",
            "All methods are similar for the random forest on breast cancer.",
            "For each of the four, the 95% interval of the paired difference to GO-UCB contains"
            " only differences with which the error bars of the two overlap. The claim fails where"
            " one contains no such difference; else nothing is decided.",
            similar("random_forest-breast_cancer"),
        ),
        Claim(
            "Figure 3b",
            "GO-UCB is much better for the network.",
            _CLEAR.format(""),
            much_better("mlp-breast_cancer"),
        ),
        Claim(
            "Figure 3c",
            "GO-UCB is much better for gradient boosting.",
            _CLEAR.format(""),
            much_better("gradient_boosting-breast_cancer"),
        ),
        Claim(
            "Figure 3b",
            "TuRBO's regret bends after t = 23, those of the GP methods do not.",
            f"The regret per step after t = 23 is at most {BENT} of that until then for"
            " TuRBO, and more for the GP methods.",
            bends,
            reason="TuRBO slows down here, but not by half.",
        ),
        *(
            Claim(
                f"Figure {n}",
                f"GO-UCB is better than all others on {name}, with every classifier.",
                _CLEAR.format(" and each classifier"),
                better_throughout(name),
            )
            for n, name in list(_SETS.items())[1:]
        ),
    ),
)

PAPER = Paper(
    "GO-UCB",
    "Global optimization with parametric function approximation (ICML 2023)",
    (SYNTHETIC, TUNING),
)

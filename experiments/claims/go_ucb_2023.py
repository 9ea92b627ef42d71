"""Claims of GO-UCB (Liu, Wang, ICML 2023)."""

from __future__ import annotations

from collections.abc import Callable

from experiments.claims.base import (
    Claim,
    Experiment,
    Figure,
    Found,
    Paper,
    Source,
    half,
    listed,
    mean,
    shown,
    written,
)

CLASSICAL = ("gp_ei", "gp_pi", "gp_ucb")
OTHERS = (*CLASSICAL, "turbo")
FLAT = 0.01  # regret a step over the uniform policy's
STEADY = 0.75  # regret a step at the end over that of the whole run
BENT = 0.5  # regret a step after the bend over that before it


def _key(function: str, name: str, field: str) -> tuple[str, ...]:
    return "functions", function, "algorithms", name, field


def _ratios(source: Source, function: str, names: tuple[str, ...], field: str) -> list[float]:
    return [mean(source, *_key(function, name, field)) for name in names]


def best_on(function: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        names = ("go_ucb", *OTHERS)
        regrets = _ratios(source, function, names, "cumulative_regret")
        text = written({n: shown(source, *_key(function, n, "cumulative_regret"), digits=1) for n in names})
        return Found(f"Cumulative regret: {text}.", regrets[0] == min(regrets))

    return check


def small_share(function: str, name: str, field: str, words: str) -> Callable[[Source], Found]:
    """A share of the uniform policy's regret that counts as none."""

    def check(source: Source) -> Found:
        [ratio] = _ratios(source, function, (name,), field)
        return Found(f"Regret a step {words} over the uniform policy's: {ratio:.4f}.", ratio <= FLAT)

    return check


def least_bars(source: Source) -> Found:
    names = ("go_ucb", *OTHERS)
    widths = [half(source, *_key("f1", name, "cumulative_regret")) for name in names]
    return Found(f"Half widths: {listed(names, widths, 2)}.", widths[0] == min(widths))


def steady(function: str, names: tuple[str, ...]) -> Callable[[Source], Found]:
    """Regret grows linearly: as much a step at the end as before."""

    def check(source: Source) -> Found:
        last = _ratios(source, function, names, "ratio_last_10")
        whole = _ratios(source, function, names, "regret_ratio")
        shares = [a / b for a, b in zip(last, whole, strict=True)]
        return Found(
            f"Regret a step of the last ten over that of the whole run: {listed(names, shares, 2)}.",
            min(shares) >= STEADY,
        )

    return check


def smaller_gap(source: Source) -> Found:
    gaps = []
    for function in ("f2", "f3"):
        ours, *others = _ratios(source, function, ("go_ucb", *OTHERS), "regret_ratio")
        gaps.append(min(others) - ours)
    return Found(
        f"Next best regret ratio minus GO-UCB's: {listed(('f2', 'f3'), gaps)}.", 0 < gaps[1] < gaps[0]
    )


def _more(source: Source, problem: str) -> tuple[str, list[tuple[float, float]]]:
    """Paired differences to GO-UCB in cumulative regret, as text and as intervals."""
    keys = [("problems", problem, "algorithms", name, "more_than_go_ucb") for name in OTHERS]
    text = written({key[3]: shown(source, *key, digits=3) for key in keys})
    return text, [
        (mean(source, *key) - half(source, *key), mean(source, *key) + half(source, *key)) for key in keys
    ]


def similar(problem: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        text, intervals = _more(source, problem)
        return Found(
            f"Cumulative regret more than GO-UCB's: {text}.", all(low <= 0 <= high for low, high in intervals)
        )

    return check


def much_better(problem: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        text, intervals = _more(source, problem)
        return Found(f"Cumulative regret more than GO-UCB's: {text}.", all(low > 0 for low, _ in intervals))

    return check


def better_throughout(data: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        parts = [
            (model, *_more(source, f"{model}-{data}"))
            for model in ("random_forest", "mlp", "gradient_boosting")
        ]
        text = " | ".join(f"{model.replace('_', ' ')}: {words}" for model, words, _ in parts)
        holds = all(low + high > 0 for *_, intervals in parts for low, high in intervals)
        return Found(f"Cumulative regret more than GO-UCB's: {text}.", holds)

    return check


def bends(source: Source) -> Found:
    keys = [("problems", "mlp-breast_cancer", "algorithms", name) for name in ("turbo", *CLASSICAL)]
    before = [mean(source, *key, "regret_per_step_until_23") for key in keys]
    after = [mean(source, *key, "regret_per_step_after_23") for key in keys]
    names = [key[-1] for key in keys]
    holds = after[0] <= BENT * before[0] and all(
        b > BENT * a for a, b in zip(before[1:], after[1:], strict=True)
    )
    return Found(
        f"Regret a step until t = 23: {listed(names, before)}; after: {listed(names, after)}.", holds
    )


_RUN = "python -m experiments.go_ucb_2023"
_LEAST = "Least mean cumulative regret of GO-UCB, GP-EI, GP-PI, GP-UCB and TuRBO."
_LINEAR = (
    f"Regret a step of the last ten evaluations at least {STEADY} of that of the whole run, for each of them."
)
_FLAT = f"Regret a step at most {FLAT:.0%} of the uniform policy's."

SYNTHETIC = Experiment(
    "go_ucb_2023/synthetic",
    "Figure 2: functions of 20 inputs",
    f"{_RUN}.synthetic --seeds 50 --out results/go_ucb_2023/synthetic",
    "f1: an all-ones network; f2: Styblinski-Tang; f3: Rastrigin. The same settings for all, chosen elsewhere.",
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
            f"After its second step: {_FLAT.lower()}",
            small_share("f1", "go_ucb", "ratio_after_second_step", "after the second"),
        ),
        *(
            Claim(
                "Figure 2a",
                f"{label}'s regret on f1 stays the same from t = 22 on.",
                f"Last ten evaluations: {_FLAT.lower()}",
                small_share("f1", name, "ratio_last_10", "of the last ten"),
            )
            for name, label in (("go_ucb", "GO-UCB"), ("turbo", "TuRBO"))
        ),
        Claim(
            "Figure 2a",
            "GO-UCB has the smallest error bars on f1.",
            "Least half width of them all.",
            least_bars,
        ),
        Claim(
            "Figure 2a",
            "GP-EI, GP-PI and GP-UCB have almost linear regret on f1.",
            _LINEAR,
            steady("f1", CLASSICAL),
        ),
        *(
            Claim(
                f"Figure {label}",
                f"All methods have linear regret on {f}.",
                _LINEAR,
                steady(f, ("go_ucb", *OTHERS)),
            )
            for f, label in (("f2", "2b"), ("f3", "2c"))
        ),
        Claim(
            "Figure 2b, 2c",
            "GO-UCB's lead is smaller on f3 than on f2.",
            "The next best method's regret ratio minus GO-UCB's is above 0 on f3, and larger on f2.",
            smaller_gap,
        ),
    ),
)
_SETS = {3: "breast_cancer", 4: "australian", 5: "diabetes"}
_CLEAR = "The 95% interval of the paired difference to GO-UCB lies above 0 for each of the four."

TUNING = Experiment(
    "go_ucb_2023/tuning",
    "Figures 3 to 5: tuning three classifiers on three data sets",
    f"{_RUN}.tuning --repetitions 5 --out results/go_ucb_2023/tuning",
    "The best accuracy that any method met stands for the unknown maximum. Differences are paired.",
    tuple(
        Figure(
            f"figure{n}.png",
            f"Cumulative regret in tuning a random forest, a network and gradient boosting on {name.replace('_', ' ')},"
            " one line for each method",
        )
        for n, name in _SETS.items()
    ),
    (
        Claim(
            "Figure 3a",
            "All methods are similar for the random forest on breast cancer.",
            "The 95% interval of the paired difference to GO-UCB holds 0 for each of the four.",
            similar("random_forest-breast_cancer"),
        ),
        Claim(
            "Figure 3b", "GO-UCB is much better for the network.", _CLEAR, much_better("mlp-breast_cancer")
        ),
        Claim(
            "Figure 3c",
            "GO-UCB is much better for gradient boosting.",
            _CLEAR,
            much_better("gradient_boosting-breast_cancer"),
        ),
        Claim(
            "Figure 3b",
            "TuRBO's regret bends after t = 23, those of the GP methods do not.",
            f"Regret a step after t = 23 at most {BENT} of that until then for TuRBO, and more for the GP methods.",
            bends,
        ),
        *(
            Claim(
                f"Figure {n}",
                f"GO-UCB is better than all others on {name}, with every classifier.",
                "Mean paired difference to GO-UCB above 0 for each of the four and each classifier.",
                better_throughout(name),
            )
            for n, name in list(_SETS.items())[1:]
        ),
    ),
)

PAPER = Paper(
    "GO-UCB", "Global optimization with parametric function approximation (ICML 2023)", (SYNTHETIC, TUNING)
)

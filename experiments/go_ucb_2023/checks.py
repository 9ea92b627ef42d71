"""What decides the claims of GO-UCB (Liu, Wang, ICML 2023)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from experiments.claims import (
    Found,
    Missing,
    Source,
    beside,
    entry,
    half,
    listed,
    mean,
    shown,
    written,
)
from experiments.go_ucb_2023 import causes

PHASE_ONE = 5  # uniform points on f1
CLASSICAL = ("gp_ei", "gp_pi", "gp_ucb")
OTHERS = (*CLASSICAL, "turbo")
FLAT = 0.01  # regret a step over the uniform policy's
STEADY = 0.75  # regret a step at the end over that of the whole run
BENT = 0.5  # regret a step after the bend over that before it

Interval = tuple[float, float]
Rule = Callable[[dict[str, dict[str, float]]], bool]  # of {function: {method: regret ratio}}


def _key(function: str, name: str, field: str) -> tuple[str, ...]:
    return "functions", function, "algorithms", name, field


def _ratios(source: Source, function: str, names: tuple[str, ...], field: str) -> list[float]:
    return [mean(source, *_key(function, name, field)) for name in names]


def _from_uniform_candidates(source: Source, function: str) -> dict[str, tuple[float, str]]:
    """Regret ratios, and the same with their intervals as text, of GO-UCB and the others, the GP
    acquisitions maximised from uniform candidates alone. Raises Missing where `variants` was not
    run."""
    there = beside(source, "variants")
    taken = {"go_ucb": "go_ucb", **{n: f"{n}_uniform" for n in CLASSICAL}, "turbo": "turbo"}
    keys = {name: _key(function, of, "regret_ratio") for name, of in taken.items()}
    return {n: (mean(there, *key), shown(there, *key, digits=3)) for n, key in keys.items()}


def _note_on_candidates(source: Source, functions: tuple[str, ...], holds: Rule) -> str:
    """Whether the statement holds when no candidate of a GP acquisition lies near the best point;
    empty without those runs."""
    try:
        found = {f: _from_uniform_candidates(source, f) for f in functions}
        seeds = entry(beside(source, "variants"), "seeds")
    except Missing:
        return ""
    ratios = {f: {name: ratio for name, (ratio, _) in rows.items()} for f, rows in found.items()}
    text = "; ".join(
        f"{f}: {written({name: words for name, (_, words) in rows.items()})}"
        for f, rows in found.items()
    )
    return (
        "By default half of the candidates of a GP acquisition lie near the best observed point."
        f" With all of them uniform it {'holds' if holds(ratios) else 'does not hold'}, by the"
        f" mean: regret ratios of {seeds} seeds, {text}."
    )


def best_on(function: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        names = ("go_ucb", *OTHERS)
        regrets = _ratios(source, function, names, "cumulative_regret")
        text = written(
            {n: shown(source, *_key(function, n, "cumulative_regret"), digits=1) for n in names}
        )
        note = _note_on_candidates(
            source, (function,), lambda r: r[function]["go_ucb"] == min(r[function].values())
        )
        holds: bool | None = regrets[0] == min(regrets)
        next_best = OTHERS[int(np.argmin(regrets[1:]))]
        low, high, words = causes.paired(source, function, next_best)
        if low <= 0 <= high:
            holds = None
        return Found(f"Cumulative regret: {text}.", holds, f"{words} {note}".strip())

    return check


def small_share(function: str, name: str, field: str, words: str) -> Callable[[Source], Found]:
    """A share of the uniform policy's regret that counts as none."""

    def check(source: Source) -> Found:
        [ratio] = _ratios(source, function, (name,), field)
        note = "" if ratio <= FLAT else causes.flat_seeds(source, function, name)
        return Found(
            f"Regret a step {words} over the uniform policy's: {ratio:.4f}.", ratio <= FLAT, note
        )

    return check


def least_bars(source: Source) -> Found:
    names = ("go_ucb", *OTHERS)
    widths = [half(source, *_key("f1", name, "cumulative_regret")) for name in names]
    holds = widths[0] == min(widths)
    note = "" if holds else causes.bars_of_phase_two(source, names, PHASE_ONE)
    return Found(f"Half widths: {listed(names, widths, 2)}.", holds, note)


def steady(function: str, names: tuple[str, ...]) -> Callable[[Source], Found]:
    """Regret grows linearly: as much a step at the end as before."""

    def check(source: Source) -> Found:
        last = _ratios(source, function, names, "ratio_last_10")
        whole = _ratios(source, function, names, "regret_ratio")
        shares = [a / b for a, b in zip(last, whole, strict=True)]
        return Found(
            "Regret a step of the last ten over that of the whole run:"
            f" {listed(names, shares, 2)}.",
            min(shares) >= STEADY,
            "" if min(shares) >= STEADY else _why_not_steady(source, function),
        )

    return check


def _why_not_steady(source: Source, function: str) -> str:
    return causes.plateau(source) if function == "f1" else causes.share_of_eq5(source, function)


def smaller_gap(source: Source) -> Found:
    gaps = []
    for function in ("f2", "f3"):
        ours, *others = _ratios(source, function, ("go_ucb", *OTHERS), "regret_ratio")
        gaps.append(min(others) - ours)

    def smaller(ratios: dict[str, dict[str, float]]) -> bool:
        found = [min(r[name] for name in OTHERS) - r["go_ucb"] for r in ratios.values()]
        return 0 < found[1] < found[0]

    return Found(
        f"Next best regret ratio minus GO-UCB's: {listed(('f2', 'f3'), gaps)}.",
        0 < gaps[1] < gaps[0],
        _note_on_candidates(source, ("f2", "f3"), smaller),
    )


def _more(source: Source, problem: str) -> tuple[str, list[Interval]]:
    """Paired differences to GO-UCB in cumulative regret, as text and as intervals."""
    keys = [("problems", problem, "algorithms", name, "more_than_go_ucb") for name in OTHERS]
    text = written({key[3]: shown(source, *key, digits=3) for key in keys})
    return text, [
        (mean(source, *key) - half(source, *key), mean(source, *key) + half(source, *key))
        for key in keys
    ]


def _all(inside: Iterable[bool], outside: Iterable[bool]) -> bool | None:
    """Whether a statement on several differences holds: yes where every interval lies in what it
    says, no where one lies wholly outside, else it is not decided."""
    if any(outside):
        return False
    return True if all(inside) else None


def _ahead(intervals: list[Interval]) -> bool | None:
    """Whether GO-UCB has less regret than all others, of the paired differences."""
    return _all((low > 0 for low, _ in intervals), (high < 0 for _, high in intervals))


def similar(problem: str) -> Callable[[Source], Found]:
    """Level as far as the paper's figure tells: the bars of two methods overlap where their means
    are no further apart than both half widths."""

    def check(source: Source) -> Found:
        text, intervals = _more(source, problem)
        keys = {
            name: ("problems", problem, "algorithms", name, "cumulative_regret")
            for name in ("go_ucb", *OTHERS)
        }
        ours = half(source, *keys["go_ucb"])
        pairs = [
            (low, high, ours + half(source, *keys[name]))
            for name, (low, high) in zip(OTHERS, intervals, strict=True)
        ]
        holds = _all(
            (max(-low, high) <= margin for low, high, margin in pairs),
            (max(low, -high) > margin for low, high, margin in pairs),
        )
        bars = written({name: shown(source, *key, digits=3) for name, key in keys.items()})
        return Found(
            f"Cumulative regret: {bars}.",
            holds,
            f"More than GO-UCB's on the same seeds: {text}. {causes.beyond(source, intervals)}",
        )

    return check


def much_better(problem: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        text, intervals = _more(source, problem)
        return Found(
            f"Cumulative regret more than GO-UCB's: {text}.",
            _ahead(intervals),
            causes.beyond(source, intervals),
        )

    return check


def better_throughout(data: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        parts = [
            (model, *_more(source, f"{model}-{data}"))
            for model in ("random_forest", "mlp", "gradient_boosting")
        ]
        text = " | ".join(f"{model.replace('_', ' ')}: {words}" for model, words, _ in parts)
        every = [interval for *_, intervals in parts for interval in intervals]
        return Found(
            f"Cumulative regret more than GO-UCB's: {text}.",
            _ahead(every),
            causes.beyond(source, every),
        )

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
        f"Regret a step until t = 23: {listed(names, before)}; after: {listed(names, after)}.",
        holds,
        "" if holds else causes.bends_elsewhere(source, CLASSICAL),
    )

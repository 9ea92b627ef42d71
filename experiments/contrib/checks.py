"""The rules that decide the claims of methods beyond the four papers.

A rule is a function of a folder of results; a rule with parameters is returned by a function.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.claims import (
    Finding,
    Missing,
    Source,
    curve,
    entry,
    list_numbers,
    list_texts,
    mean,
    mean_text,
    number,
)
from experiments.contrib.saving import REGRET
from experiments.results.summaries import ci95

NEAR = 1.1  # factor within which two regrets count as equal
SHORT = 0.5  # share of the rounds below which a dictionary, or a number of exchanges, is short
SUBLINEAR = 0.9  # exponent below which a regret grows slower than T
HALF = 0.5  # factor below which a regret or a loss is much smaller
DELTA = 0.1  # failure probability of the confidence sets
LEFT = 0.9  # share of the runs, at delta = 0.05 twice
CHOSEN, ALWAYS, ALONE = "exchange_0.1", "exchange_0", "alone"  # clients

Check = Callable[[Source], Finding]


class Row(NamedTuple):
    """The result of a rule on one problem."""

    label: str
    numbers: str
    holds: bool
    reason: str = ""  # shown where the rule does not hold


def combined(first: str, rows: Iterable[Row]) -> Finding:
    """The result of a rule that has to hold for all rows."""
    rows = list(rows)
    numbers = "; ".join(f"{row.label}: {row.numbers}" for row in rows)
    bad = [f"{row.label} ({row.reason})" for row in rows if not row.holds and row.reason]
    note = f"Not on {', '.join(bad)}." if bad else ""
    return Finding(f"{first}{numbers}.", all(row.holds for row in rows), note)


def _path(problem: str, method: str, field: str) -> tuple[str, ...]:
    return ("problems", problem, "methods", method, field)


def _mean(source: Source, problem: str, method: str, field: str) -> float:
    return mean(source, *_path(problem, method, field))


def _values(source: Source, problem: str, method: str, field: str) -> np.ndarray:
    return np.asarray(entry(source, *_path(problem, method, field), "values"), float)


def _problems(source: Source, method: str | None = None) -> list[str]:
    """The problems, those with the method if one is given."""
    parts = entry(source, "problems")
    found = [p for p in parts if method is None or method in parts[p]["methods"]]
    if not found:
        raise Missing(f"the summary holds no {method}")
    return found


def _spaced(problem: str) -> str:
    return problem.replace("_", " ")


def _at(source: Source, problem: str, method: str, metric: str, t: float) -> np.ndarray:
    """A metric [S] of a method, interpolated at t."""
    points, values = curve(source, metric, method, problem)
    return np.array([np.interp(t, points, row) for row in values])


def at_most(
    factor: float,
    methods: Sequence[str],
    other: str,
    *,
    field: str = REGRET,
    name: str = "R_T / R_T^unif",
    problems: Sequence[str] | None = None,
    best: bool = False,
    digits: int = 3,
) -> Check:
    """Each of the methods, or the best of them, has at most `factor` times the number of the other;
    on the given problems, or on every problem with the first method."""

    def row(source: Source, problem: str) -> Row:
        runs = entry(source, "problems", problem, "methods")
        names = [method for method in methods if method in runs] if problems is None else methods
        values = {method: _mean(source, problem, method, field) for method in (*names, other)}
        names = [min(names, key=lambda method: values[method])] if best else names
        times = max(values[method] for method in names) / values[other]
        numbers = list_texts(
            {
                m: mean_text(source, *_path(problem, m, field), digits=digits)
                for m in (*names, other)
            }
        )
        return Row(_spaced(problem), numbers, times <= factor, f"{times:.2f} times")

    return lambda source: combined(
        f"{name}, ", (row(source, p) for p in problems or _problems(source, methods[0]))
    )


# contexts


def same_regret(method: str, other: str, field: str = "final_regret") -> Check:
    """At most NEAR times the other's regret, on a dictionary of at most SHORT of the rounds."""

    def row(source: Source, problem: str) -> Row:
        regret = [_mean(source, problem, name, field) for name in (method, other)]
        points = _mean(source, problem, method, "points")
        horizon = _mean(source, problem, method, "horizon")
        holds = regret[0] <= NEAR * regret[1] and points <= SHORT * horizon
        numbers = f"{list_numbers([method, other], regret, 1)}, {points:.0f} points"
        return Row(_spaced(problem), numbers, holds, f"{regret[0] / regret[1]:.2f} times")

    return lambda source: combined(
        "Regret at T and points at T, ", (row(source, p) for p in _problems(source))
    )


def _at_shorter_end(
    method: str,
    others: Sequence[str],
    metric: str,
    first: str,
    digits: int,
    rule: Callable[[list[np.ndarray]], tuple[bool, str]],
) -> Check:
    """A rule on the values [S] of a method and of each other, where the shorter of both ends."""

    def row(source: Source, problem: str, other: str) -> Row:
        names = [method, other]
        end = min(_mean(source, problem, name, "horizon") for name in names)
        values = [_at(source, problem, name, metric, end) for name in names]
        numbers = list_numbers(names, [float(v.mean()) for v in values], digits)
        return Row(f"{_spaced(problem)}, t = {end:.0f}", numbers, *rule(values))

    return lambda source: combined(
        first, (row(source, p, other) for p in _problems(source) for other in others)
    )


def faster(method: str, others: Sequence[str], factor: float = 1.0) -> Check:
    """Less CPU time than each of the others, by the factor."""

    def rule(values: list[np.ndarray]) -> tuple[bool, str]:
        seconds = [float(v.mean()) for v in values]
        return seconds[0] * factor <= seconds[1], f"{seconds[0] / seconds[1]:.2f} times"

    return _at_shorter_end(method, others, "seconds", "CPU seconds of all seeds, ", 2, rule)


def no_more_regret(method: str, others: Sequence[str]) -> Check:
    """At most NEAR times the regret of each of the others."""

    def rule(values: list[np.ndarray]) -> tuple[bool, str]:
        regret, gap = [float(v.mean()) for v in values], values[0] - values[1]
        reason = (
            f"{regret[0] / regret[1]:.2f} times; {gap.mean():.1f} ± {ci95(gap):.1f} more, over"
            " pairs of runs"
        )
        return regret[0] <= NEAR * regret[1], reason

    return _at_shorter_end(method, others, "regret", "Cumulative regret, ", 1, rule)


# streams


def mixture_bound(source: Source) -> Finding:
    """The mixture's total loss is within its bound of the best expert's, on every stream."""
    discounts = entry(source, "config", "discounts")
    experts = [f"gamma_{g:g}" if g < 1 else "static" for g in discounts]
    bound, most, streams = 2 * math.log(len(experts)), -math.inf, 0
    for problem in _problems(source):
        best = np.min([_values(source, problem, name, "total_loss") for name in experts], axis=0)
        excess = _values(source, problem, "over_discounts", "total_loss") - best
        most, streams = max(most, float(excess.max())), streams + len(excess)
    return Finding(
        f"At most {most:.2f} more than the best expert, over {streams} streams; the bound is"
        f" {bound:.2f}.",
        most <= bound,
    )


# few batches


def few_batches(source: Source) -> Finding:
    """No run has more batches than the bound."""

    def row(problem: str) -> Row:
        name, others = "batched_exploration", ["bbkb_global", "bbkb_global_local"]
        batches = _values(source, problem, name, "batches").max()
        most = number(source, *_path(problem, name, "most_batches"), "mean")
        beside = list_numbers(others, [_mean(source, problem, o, "batches") for o in others], 0)
        return Row(_spaced(problem), f"{batches:.0f} of {most:.0f} ({beside})", batches <= most)

    return combined("Batches, ", map(row, _problems(source)))


def best_is_left(source: Source) -> Finding:
    """The best arm is not ruled out in 1 - DELTA of the runs where F is known."""
    name, field = "batched_exploration", "best_is_left"
    left = _values(source, "known_norm", name, field)
    others = [
        f"{_spaced(p)}: {_mean(source, p, name, field):.0%}"
        for p in _problems(source)
        if p != "known_norm"
    ]
    return Finding(
        f"In {left.mean():.0%} of {len(left)} runs. Where F is assumed too small,"
        f" {', '.join(others)}.",
        bool(left.mean() >= 1 - DELTA),
    )


def random_is_enough(source: Source) -> Finding:
    """Uniform active arms have at most NEAR times the regret, in as many batches."""

    def row(problem: str) -> Row:
        names = ["random_exploration", "batched_exploration"]
        regret = [_mean(source, problem, name, REGRET) for name in names]
        batches = [_mean(source, problem, name, "batches") for name in names]
        holds = regret[0] <= NEAR * regret[1] and batches[0] <= batches[1]
        return Row(_spaced(problem), list_numbers(names, regret, 3), holds)

    return combined("R_T / R_T^unif, ", map(row, _problems(source)))


def sublinear_exploration(source: Source) -> Finding:
    """The regret of the exploration between runs of T / 4 and of T has a small exponent."""

    def row(problem: str) -> Row:
        names = ("batched_exploration_quarter", "batched_exploration")
        regret = [_mean(source, problem, n, "final_regret") for n in names]
        horizon = [_mean(source, problem, n, "horizon") for n in names]
        exponent = math.log(regret[1] / regret[0]) / math.log(horizon[1] / horizon[0])
        reason = ""
        if exponent >= SUBLINEAR:
            ratios = [
                mean_text(source, *_path(problem, name, REGRET), digits=3)
                for name in ("batched_exploration", "bbkb_global")
            ]
            reason = f"{ratios[0]} of uniform arms' regret, BBKB {ratios[1]}"
        return Row(_spaced(problem), f"{exponent:.2f}", exponent < SUBLINEAR, reason)

    return combined("Exponents, ", map(row, _problems(source)))


# widths


def _width(source: Source, name: str, field: str) -> float:
    """A number of a width, which is on one of the two posteriors."""
    return _mean(source, _problems(source, name)[0], name, field)


def covers(name: str) -> Check:
    """The width covers in 1 - DELTA of the runs."""

    def check(source: Source) -> Finding:
        share, needed = (_width(source, name, field) for field in ("covered", "most_needed"))
        return Finding(
            f"In {share:.0%} of the runs; the largest share of the width that a run needed is"
            f" {needed:.2f}, mean of the runs.",
            share >= 1 - DELTA,
        )

    return check


def tighter(name: str, other: str, width: bool = True) -> Check:
    """Less regret, and a smaller width where widths are in the same units."""

    def check(source: Source) -> Finding:
        regret = [_width(source, n, REGRET) for n in (name, other)]
        last = [_width(source, n, "last_width") for n in (name, other)]
        words = f"R_T / R_T^unif: {list_numbers([name, other], regret)}."
        words += f" Width at T: {list_numbers([name, other], last, 2)}." if width else ""
        return Finding(words, regret[0] < regret[1] and (not width or last[0] < last[1]))

    return check


# unknown lengthscale and norm


def right_is_left(method: str) -> Check:
    """The right lengthscale is not ruled out in LEFT of the runs on the draw."""

    def check(source: Source) -> Finding:
        methods = entry(source, "problems", "draw", "methods")
        if method not in methods:
            raise Missing(f"the summary holds no {method}")
        fields = [field for field in methods[method] if field.startswith("out_")]
        counts = [_values(source, "draw", method, field).sum() for field in fields]
        right = _values(source, "draw", method, "out_1")
        words = f"Ruled out in {right.sum():.0f} of {len(right)} runs"
        shown_counts = " ".join(f"{count:.0f}" for count in counts)
        return Finding(
            f"{words} (all candidates, the longest first: {shown_counts}).",
            bool(1 - right.mean() >= LEFT),
        )

    return check


def bound_is_not_doubled_too_often(source: Source) -> Finding:
    """The last norm bound is at most twice the norm in LEFT of the runs."""
    last = _values(source, "draw", "norm_doubling", "last_bound")
    norm = _mean(source, "draw", "norm_doubling", "norm")
    within = float((last <= 2 * norm).mean())
    return Finding(
        f"F at T is {last.min():g} to {last.max():g}; |f| is {norm:.1f}.", within >= LEFT
    )


# clients


def few_exchanges(source: Source) -> Finding:
    """NEAR times the regret of exchanging every round with at most SHORT of the exchanges."""

    def row(problem: str) -> Row:
        names = [CHOSEN, ALWAYS]
        values = [_values(source, problem, name, REGRET) for name in names]
        both = min(map(len, values))
        ratio = [float(np.mean(value[:both])) for value in values]
        rounds = [_mean(source, problem, name, "exchanges") for name in names]
        numbers = (
            f"{list_numbers(names, ratio, 4)} ({both} seeds), in {rounds[0]:.0f} for"
            f" {rounds[1]:.0f} exchanges"
        )
        holds = ratio[0] <= NEAR * ratio[1] and rounds[0] <= SHORT * rounds[1]
        return Row(problem, numbers, holds, f"{ratio[0] / ratio[1]:.2f} times the regret")

    return combined("", map(row, _problems(source, CHOSEN)))


def fewer_numbers(source: Source) -> Finding:
    """Sums over the embedding send less than every point at once."""

    def row(problem: str) -> Row:
        sent = _mean(source, problem, CHOSEN, "final_sent")
        data = _mean(source, problem, ALWAYS, "final_sent_as_data")
        points = _mean(source, problem, CHOSEN, "points")
        numbers = f"{sent:,.0f} numbers for {data:,.0f}, {points:.0f} inducing points at T"
        return Row(problem, numbers, sent < data, f"{sent / data:.2f} times")

    return combined("", map(row, _problems(source, CHOSEN)))


def sublinear_clients(source: Source) -> Finding:
    """Regret and numbers sent have small exponents from T / 4 to T."""

    def row(problem: str) -> Row:
        powers = []
        for metric in ("regret_ratio", "sent"):
            t, values = curve(source, metric, CHOSEN, problem)
            late = t >= t[-1] / 4
            x, y = t[late], values.mean(0)[late] * (t[late] if metric == "regret_ratio" else 1)
            powers.append(float(np.log(y[-1] / y[0]) / np.log(x[-1] / x[0])))
        numbers = f"regret {powers[0]:.2f}, numbers sent {powers[1]:.2f}"
        return Row(problem, numbers, max(powers) < SUBLINEAR, f"{max(powers):.2f}")

    return combined("", map(row, _problems(source, CHOSEN)))

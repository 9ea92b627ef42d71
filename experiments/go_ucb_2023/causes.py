"""Why claims of GO-UCB fail: what the same runs, read otherwise, say.

Each function returns a sentence or two, or an empty text where the tables that it reads are absent.
"""

from __future__ import annotations

import numpy as np

from experiments.claims import Missing, Source, entry, listed, mean, number, shown
from experiments.figures.styles import label
from experiments.results import tidy
from experiments.results.summaries import ci95

PAPER_SEEDS = 5
FLAT = 0.01  # regret a step over the uniform policy's, as the rule has it


def _regrets(source: Source, function: str) -> dict[str, np.ndarray]:
    """{method: regrets [S, n + T]} of the tables of Figure 2; empty without them."""
    if not (source.folder / tidy.CURVES).exists():
        return {}
    curves = tidy.load(source.folder).curves
    of_function = curves[curves["problem"] == function]
    return {name: values for name, (_, values) in tidy.lines(of_function, "regret").items()}


def flat_seeds(source: Source, function: str, name: str) -> str:
    """In how many repetitions the last ten evaluations have no regret to speak of."""
    regrets = _regrets(source, function).get(name)
    if regrets is None:
        return ""
    late = regrets[:, -10:].mean(1) / number(source, "functions", function, "uniform_regret")
    return (
        f"In {(late <= FLAT).sum()} of {len(late)} repetitions it is at most {FLAT:.0%}; the mean"
        f" of the first {PAPER_SEEDS}, the paper's number, is {late[:PAPER_SEEDS].mean():.4f}."
    )


def paired(source: Source, function: str, other: str) -> tuple[float, float, str]:
    """The 95% interval of another method's cumulative regret minus GO-UCB's on the same seeds, and
    that in words; (inf, inf, no words) without the tables."""
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


def bars_of_phase_two(source: Source, names: tuple[str, ...], initial: int) -> str:
    """Half widths without the uniform points of phase I, which all methods share."""
    regrets = _regrets(source, "f1")
    if not set(names) <= regrets.keys():
        return ""
    widths = [ci95(regrets[name][:, initial:].sum(1)) for name in names]
    first = ci95(regrets[names[0]][:, :initial].sum(1))
    return (
        f"Phase I alone, uniform points that all share, has {first:.2f}; without it:"
        f" {listed(names, widths, 2)}."
    )


def share_of_eq5(source: Source, function: str) -> str:
    """The same share with the parameters of the paper's eq. 5."""
    key = ("functions", function, "algorithms", "go_ucb_eq5")
    try:
        share = mean(source, *key, "ratio_last_10") / mean(source, *key, "regret_ratio")
    except Missing:
        return ""
    return f"GO-UCB with the paper's eq. 5, where ours refits the network, has {share:.2f}."


def plateau(source: Source) -> str:
    """What chance finds on f1."""
    try:
        found = shown(source, "functions", "f1", "algorithms", "uniform", "simple_regret", digits=4)
    except Missing:
        return ""
    return f"The best of as many uniform points on f1 has regret {found}: the optimum is a plateau."


def beyond(source: Source, intervals: list[tuple[float, float]]) -> str:
    """How many paired differences to GO-UCB lie above and below 0, by the mean and beyond the
    interval, of how many repetitions."""
    above = sum(low > 0 for low, _ in intervals)
    below = sum(high < 0 for _, high in intervals)
    by_mean = sum(low + high > 0 for low, high in intervals)
    return (
        f"Differences above 0 beyond the interval: {above} of {len(intervals)} ({by_mean} by the"
        f" mean), below 0: {below}, from {entry(source, 'repetitions')} repetitions."
    )


def bends_elsewhere(source: Source, classical: tuple[str, ...]) -> str:
    """The rate after t = 23 over that before, on all problems."""
    found: dict[str, list[float]] = {"TuRBO": [], "the GP methods": []}
    for problem in entry(source, "problems"):
        for name in ("turbo", *classical):
            key = ("problems", problem, "algorithms", name)
            try:
                before = mean(source, *key, "regret_per_step_until_23")
                after = mean(source, *key, "regret_per_step_after_23")
            except Missing:
                continue
            if before > 0:
                found["TuRBO" if name == "turbo" else "the GP methods"].append(after / before)
    text = "; ".join(f"{n}: {min(v):.2f} to {max(v):.2f}" for n, v in found.items() if v)
    return (
        "Regret a step after t = 23 over that until then, on all problems of Figures 3 to 5:"
        f" {text}."
    )

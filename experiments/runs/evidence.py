"""Evidence for the reason why a claim on bandit runs fails: numbers of the published curves, and of
runs with other settings.

Each function returns a sentence or two, or an empty text if the runs that it reads are absent.
"""

import numpy as np

from experiments.claims import (
    Missing,
    Source,
    empty_if_missing,
    entry,
    lines,
    list_numbers,
    read_sibling,
)
from experiments.figures.styles import label
from experiments.results.summaries import growth
from experiments.runs import against_published

EQUAL_REGRET = 0.005  # relative regrets per step count as equal if they differ by less


@empty_if_missing
def late_regret(source: Source) -> str:
    """The regret per step in the second half of the runs, for the methods that reach T."""
    curves = {n: line for n, line in lines(source, "regret_ratio").items() if n != "uniform"}
    end = max(t[-1] for t, _ in curves.values())
    late = {}
    for name, (t, ratio) in curves.items():
        if t[-1] == end:
            total = t * ratio.mean(0)
            late[name] = float((total[-1] - np.interp(end / 2, t, total)) / (end - end / 2))
    text = list_numbers(late, late.values(), 4)
    text = f"Regret per step after t = {end // 2:,}, over the uniform policy's: {text}."
    if max(late.values()) - min(late.values()) > EQUAL_REGRET:
        return text
    text = (
        f"{text} All methods then play equally good arms; they differ in their earlier exploration."
    )
    best = min(values[:, -1].min() for values in _simple_regrets(source, list(late)))
    return text if best <= 0 else f"{text} None evaluated an arm of less regret than {best:.4f}."


def _simple_regrets(source: Source, names: list[str]) -> list[np.ndarray]:
    """The simple regrets [S, P] of methods; one zero for tables without them."""
    try:
        curves = lines(source, "simple_regret")
    except Missing:
        return [np.zeros((1, 1))]
    return [curves[name][1] for name in names]


def published_growth(source: Source) -> str:
    """The powers of t with which the poster's batch sizes grow."""
    curves = against_published.read_curves(source.folder.parent / "nas_warm").get("batch_size", {})
    if not curves:
        return ""
    powers = [growth(t, size) for t, size in curves.values()]
    return (
        "The same fit to the poster's curves of the architecture search after initial evaluations:"
        f" {list_numbers(curves, powers, 2)}."
    )


def at_lengthscales(table: dict[str, dict[str, float]], keys: list[str], source: Source) -> str:
    """All regret ratios at some lengthscales, by algorithm and lengthscale."""
    parts = []
    for key in keys:
        horizon = entry(source, "lengthscales", key, "algorithms", "bbkb_global", "horizon")
        ratios = list_numbers(table, [row[key] for row in table.values()], 3)
        parts.append(f"At {key}: {ratios} (T = {horizon:,}).")
    return " ".join(parts)


@empty_if_missing
def search_settings(source: Source) -> str:
    """Seeds with the best cell, by setting of the architecture search."""
    settings = entry(read_sibling(source, "nas_settings"), "settings")
    seeds = entry(read_sibling(source, "nas_settings"), "seeds")
    counts = {name: row["seeds_with_the_best_cell"] for name, row in settings.items()}
    text = "; ".join(f"{name}: {count}" for name, count in counts.items())
    return f"Seeds of {seeds} with the best cell by t = 2,000, global rule: {text}."


def poster_seconds(source: Source) -> dict[str, float]:
    """The seconds of whole runs on the poster by method; empty if it does not show this search."""
    curves = against_published.read_curves(source.folder).get("seconds", {})
    return {name: float(seconds[-1]) for name, (_, seconds) in curves.items()}


def published_search_seconds(source: Source, names: tuple[str, ...]) -> str:
    """The seconds of methods on the poster, which shows the search after initial evaluations
    only."""
    curves = against_published.read_curves(source.folder.parent / "nas_warm").get("seconds", {})
    if not set(names) <= curves.keys():
        return ""
    seconds = ", ".join(
        f"{label(name)} {curves[name][1][-1]:.1f} s for {curves[name][0][-1]:,.0f} evaluations"
        for name in names
    )
    return f"On the poster, after 2,000 evaluations: {seconds}. Our own evolution is compiled."

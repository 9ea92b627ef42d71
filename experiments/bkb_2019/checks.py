"""What decides the claims of BKB (Calandriello, Carratino, Lazaric, Valko, Rosasco, COLT 2019)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.claims import (
    Found,
    Missing,
    Source,
    beside,
    entry,
    lines,
    listed,
    mean,
    number,
    shown,
)
from experiments.results.summaries import ci95

LINEAR_EXPONENT = 0.9  # of the regret between T/2 and T: 1 is linear
STARVED = 5  # times the exact GP's share of f outside its bars


def _over_t(source: Source, method: str, field: str, of: str = "mean") -> dict[str, float]:
    """A number of a method for each t."""
    return {
        t: number(source, "evaluations", t, "methods", method, field, of)
        for t in entry(source, "evaluations")
    }


def _at(values: dict[str, float], digits: int = 3) -> str:
    return ", ".join(f"{value:.{digits}f} (t = {t})" for t, value in values.items())


def keeps_prior(method: str) -> Callable[[Source], Found]:
    """Error bars of the unseen half against the exact ones."""

    def check(source: Source) -> Found:
        ratio = _over_t(source, method, "smallest_ratio_to_exact_unseen")
        return Found(
            f"Smallest sd over the exact GP's, mean of the draws: {_at(ratio)}.",
            min(ratio.values()) >= 0.95,
        )

    return check


def follows_exact(source: Source) -> Found:
    low = _over_t(source, "bkb", "smallest_ratio_to_exact_seen")
    high = _over_t(source, "bkb", "largest_ratio_to_exact_seen")
    holds = min(low.values()) >= 0.9 and max(high.values()) <= 1.1
    note = "" if holds else _draws_above(source, max(high, key=lambda t: high[t]))
    return Found(f"sd over the exact GP's: at least {_at(low)}; at most {_at(high)}.", holds, note)


def _draws_above(source: Source, t: str) -> str:
    """In how many draws BKB's bars are too wide where f was observed."""
    key = ("evaluations", t, "methods", "bkb", "largest_ratio_to_exact_seen", "values")
    try:
        ratios = np.asarray(entry(source, *key))
    except Missing:
        return ""
    return (
        f"At t = {t} it is above 1.1 in {(ratios > 1.1).sum()} of {len(ratios)} draws, where it"
        f" reaches {ratios.max():.2f}; the median draw has {np.median(ratios):.4f}."
    )


def starves(method: str) -> Callable[[Source], Found]:
    """The share of the unseen half on which f leaves the error bars."""

    def check(source: Source) -> Found:
        share = _over_t(source, method, "share_of_f_outside_3_std_unseen")
        exact = _over_t(source, "exact", "share_of_f_outside_3_std_unseen")
        return Found(
            f"Share of the unseen half where f is outside: {_at(share)}; with the exact GP"
            f" {_at(exact)}.",
            all(share[t] >= STARVED * exact[t] for t in share),
        )

    return check


def linear_regret(method: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        exponents = {
            name: mean(source, "algorithms", name, "regret_exponent") for name in (method, "bkb")
        }
        text = f"Exponents: {listed(list(exponents), list(exponents.values()), 2)}."
        if exponents["bkb"] >= LINEAR_EXPONENT or exponents[method] >= LINEAR_EXPONENT:
            return Found(text, exponents["bkb"] < LINEAR_EXPONENT)
        rise, wide = _rise(source, method)
        note = f"From T/4 to T/2 it was {exponents[method] - rise:.2f}: ± {wide:.2f} on the change."
        if rise > wide:
            return Found(text, None, f"{note} Longer runs would tell where it ends.")
        return Found(text, False, note)

    return check


def _rise(source: Source, method: str) -> tuple[float, float]:
    """By how much the exponent of the regret between T/2 and T is above that between T/4 and T/2,
    and the half width of its 95% interval."""
    found = lines(source, "regret_ratio")
    if method not in found:
        raise Missing(f"the curves hold no {method}")
    t, ratio = found[method]
    places = t[-1] / np.array([4, 2, 1])
    logs = np.log2([np.interp(places, t, t * row) for row in ratio])
    change = logs[:, 2] - 2 * logs[:, 1] + logs[:, 0]
    return float(change.mean()), ci95(change)


def below_soful(source: Source) -> Found:
    keys = [("algorithms", name, "regret_ratio") for name in ("bkb", "soful")]
    note = ""
    if "bkb_logdet" in entry(source, "algorithms"):
        ratio = shown(source, "algorithms", "bkb_logdet", "regret_ratio")
        note = f"With SOFUL's width, of the log-determinant, BKB has {ratio}."
    return Found(
        f"R_T / R_T^unif: BKB: {shown(source, *keys[0])}; SOFUL: {shown(source, *keys[1])}.",
        mean(source, *keys[0]) < mean(source, *keys[1]),
        note,
    )


def finds_size(source: Source) -> Found:
    sizes = {
        name: mean(beside(source, f"linear_{name}"), "algorithms", "bkb", "dictionary_size")
        for name in ("slow", "fast", "low_rank")
    }
    holds = sizes["slow"] >= 2 * max(sizes["fast"], sizes["low_rank"])
    return Found(f"Inducing points at T: {listed(list(sizes), list(sizes.values()), 1)}.", holds)


def as_unsketched(source: Source) -> Found:
    ratios = [mean(source, "algorithms", name, "regret_ratio") for name in ("soful", "gp_ucb")]
    return Found(
        f"R_T / R_T^unif: {listed(['SOFUL', 'GP-UCB'], ratios, 4)}.",
        abs(ratios[0] / ratios[1] - 1) <= 0.01,
    )

"""Claims of clients that share a function, and what decides them."""

from __future__ import annotations

import numpy as np

from experiments.claims import (
    Claim,
    Experiment,
    Figure,
    Found,
    Missing,
    Source,
    listed,
    shown,
    written,
)
from experiments.contrib.checks import HALF, NEAR, SHORT, SUBLINEAR
from experiments.contrib.claimed.each import mean_of, on_each, values_of
from experiments.contrib.saving import REGRET
from experiments.results import tidy

ALWAYS, ALONE = "exchange_0", "alone"
CHOSEN = "exchange_0.1"  # the threshold that the claims are of


def less_than_alone(source: Source) -> Found:
    """Regret of clients that exchange against that of each alone."""

    def one(problem: str) -> tuple[str, bool, str]:
        path = ("problems", problem, "methods")
        ratio = {name: mean_of(source, problem, name, REGRET) for name in (CHOSEN, ALONE)}
        said = written({n: shown(source, *path, n, REGRET, digits=4) for n in ratio})
        times = ratio[CHOSEN] / ratio[ALONE]
        return said, times <= HALF, f"{times:.2f} times"

    return on_each(source, one, CHOSEN, "R_T / R_T^unif, ")


def few_exchanges(source: Source) -> Found:
    """The regret of exchanging in every round with at most SHORT of the exchanges."""

    def one(problem: str) -> tuple[str, bool, str]:
        names = [CHOSEN, ALWAYS]
        values = [values_of(source, problem, name, REGRET) for name in names]
        both = min(map(len, values))
        ratio = [float(np.mean(value[:both])) for value in values]
        rounds = [mean_of(source, problem, name, "exchanges") for name in names]
        said = (
            f"{listed(names, ratio, 4)} ({both} seeds), in {rounds[0]:.0f} for {rounds[1]:.0f}"
            " exchanges"
        )
        fits = ratio[0] <= NEAR * ratio[1] and rounds[0] <= SHORT * rounds[1]
        return said, fits, f"{ratio[0] / ratio[1]:.2f} times the regret"

    return on_each(source, one, CHOSEN)


def fewer_numbers(source: Source) -> Found:
    """What the sums over the embedding send against every point at once."""

    def one(problem: str) -> tuple[str, bool, str]:
        sent = mean_of(source, problem, CHOSEN, "final_sent")
        data = mean_of(source, problem, ALWAYS, "final_sent_as_data")
        points = mean_of(source, problem, CHOSEN, "points")
        said = f"{sent:,.0f} numbers for {data:,.0f}, {points:.0f} inducing points at T"
        return said, sent < data, f"{sent / data:.2f} times"

    return on_each(source, one, CHOSEN)


def sublinear(source: Source) -> Found:
    """Exponents of the regret and of the numbers sent, from T / 4 to T."""
    if not (source.folder / tidy.CURVES).exists():
        raise Missing(f"there is no {tidy.CURVES} in {source.folder.name}")
    curves = tidy.load(source.folder).curves

    def one(problem: str) -> tuple[str, bool, str]:
        part = curves[curves["problem"] == problem]
        powers = []
        for metric in ("regret_ratio", "sent"):
            lines = tidy.lines(part, metric)
            if CHOSEN not in lines:
                raise Missing(f"{tidy.CURVES} holds no {metric} of {CHOSEN} on {problem}")
            t, values = lines[CHOSEN]
            late = t >= t[-1] / 4
            grown = values.mean(0)[late] * (t[late] if metric == "regret_ratio" else 1)
            powers.append(_power(t[late], grown))
        said = f"regret {powers[0]:.2f}, numbers sent {powers[1]:.2f}"
        return said, max(powers) < SUBLINEAR, f"{max(powers):.2f}"

    return on_each(source, one, CHOSEN)


def _power(x: np.ndarray, y: np.ndarray) -> float:
    """The power of x that y grows with between its ends."""
    return float(np.log(y[-1] / y[0]) / np.log(x[-1] / x[0]))


CLIENTS = Experiment(
    "beyond/clients",
    "Clients on a common Nystrom embedding (after Li et al., NeurIPS 2022)",
    "32 clients, each in contexts of its own: a smooth function (`waves`, T = 600), and one with"
    " steps (`squares`, T = 200). Clients exchange when one of them has gathered a variance of D;"
    " the claims are of D = 0.1. Numbers sent are counted in both directions. Clients alone are"
    " EK-UCB.",
    (
        Figure(
            "regret_sent.png",
            "Above, regret over that of uniform actions against the numbers that clients send, for"
            " five thresholds and two forms of messages; below, numbers sent so far against rounds",
        ),
    ),
    (
        Claim(
            "Li et al.: clients learn from each other",
            "Clients that exchange have less regret than each alone.",
            f"At most {HALF:g} times, on every problem.",
            less_than_alone,
        ),
        Claim(
            "THEORY 6.10",
            "Waiting until a client has learned D costs no regret beside exchanging every round.",
            f"At most {NEAR:g} times the regret of exchanging in every round, with at most"
            f" {SHORT:.0%} of the exchanges, on every problem.",
            few_exchanges,
            cause="What the others have learned arrives late.",
        ),
        Claim(
            "Li et al.: both regret and communication are sublinear in T",
            "Neither regret nor what is sent grows as fast as T.",
            f"Exponents between T / 4 and T below {SUBLINEAR:g}, on every problem.",
            sublinear,
            cause="Inducing points are still joining.",
        ),
        Claim(
            "Li et al.: less communication than transferring the data",
            "Sums over the embedding send less than every point at once.",
            "Fewer numbers at T, on every problem.",
            fewer_numbers,
            cause="An exchange sends 2 m (m + 1) numbers a client, and the points of a round"
            " N (d + 1): with many inducing points T is too short.",
        ),
    ),
)

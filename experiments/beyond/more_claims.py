"""Claims of clients that share a function and of unknown lengthscales, and what decides them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from experiments.beyond.checks import HALF, NEAR, SHORT, SUBLINEAR
from experiments.beyond.saving import REGRET
from experiments.claims import (
    Claim,
    Experiment,
    Figure,
    Found,
    Missing,
    Source,
    entry,
    listed,
    mean,
    shown,
    written,
)
from experiments.results import tidy

ALWAYS, ALONE = "exchange_0", "alone"
CHOSEN = "exchange_0.1"  # the threshold that the claims are of
TWICE = 2.0  # of the regret at the right lengthscale
LEFT = 0.9  # of the runs, at delta = 0.05 twice


def _mean(source: Source, problem: str, method: str, field: str) -> float:
    return mean(source, "problems", problem, "methods", method, field)


def _values(source: Source, problem: str, method: str, field: str) -> list[float]:
    return list(entry(source, "problems", problem, "methods", method, field, "values"))


def _problems(source: Source, method: str) -> list[str]:
    found = [p for p, part in entry(source, "problems").items() if method in part["methods"]]
    if not found:
        raise Missing(f"the summary holds no {method}")
    return found


def _each(
    source: Source,
    one: Callable[[str], tuple[str, bool, str]],
    said_first: str = "",
    method: str = CHOSEN,
) -> Found:
    """(words, whether it holds, a note where it does not) of every problem that has the method."""
    words, holds, notes = [], True, []
    for problem in _problems(source, method):
        said, fits, note = one(problem)
        words.append(f"{problem}: {said}")
        holds &= fits
        if not fits:
            notes.append(f"{problem}: {note}")
    return Found(f"{said_first}{'; '.join(words)}.", holds, f"{'; '.join(notes)}." if notes else "")


def at_most(factor: float, methods: Sequence[str], other: str) -> Callable[[Source], Found]:
    """Each at most `factor` times the regret of the other, on every problem that has both."""

    def check(source: Source) -> Found:
        def one(problem: str) -> tuple[str, bool, str]:
            path = ("problems", problem, "methods")
            names = [name for name in (*methods, other) if name in entry(source, *path)]
            ratio = {name: _mean(source, problem, name, REGRET) for name in names}
            said = written({n: shown(source, *path, n, REGRET, digits=3) for n in names})
            times = max(ratio[name] for name in names if name != other) / ratio[other]
            return said, times <= factor, f"{times:.2f} times"

        return _each(source, one, "R_T / R_T^unif, ", methods[0])

    return check


def right_is_left(method: str) -> Callable[[Source], Found]:
    """The right lengthscale is not ruled out where its norm is known."""

    def check(source: Source) -> Found:
        methods = entry(source, "problems", "draw", "methods")
        if method not in methods:
            raise Missing(f"the summary holds no {method}")
        out = [
            float(np.sum(entry(source, "problems", "draw", "methods", method, field, "values")))
            for field in methods[method]
            if field.startswith("out_")
        ]
        right = float(_mean(source, "draw", method, "out_1"))
        runs = len(entry(source, "problems", "draw", "methods", method, "out_1", "values"))
        counts = " ".join(f"{count:.0f}" for count in out)
        words = f"Ruled out in {right * runs:.0f} of {runs} runs"
        return Found(f"{words} (all candidates, the longest first: {counts}).", 1 - right >= LEFT)

    return check


def bound_is_not_doubled_too_often(source: Source) -> Found:
    path = ("problems", "draw", "methods", "norm_doubling")
    last = np.asarray(entry(source, *path, "last_bound", "values"), float)
    norm = mean(source, *path, "norm")
    within = float((last <= 2 * norm).mean())
    return Found(f"F at T is {last.min():g} to {last.max():g}; |f| is {norm:.1f}.", within >= LEFT)


def less_than_alone(source: Source) -> Found:
    """Regret of clients that exchange against that of each alone."""

    def one(problem: str) -> tuple[str, bool, str]:
        path = ("problems", problem, "methods")
        ratio = {name: _mean(source, problem, name, REGRET) for name in (CHOSEN, ALONE)}
        said = written({n: shown(source, *path, n, REGRET, digits=4) for n in ratio})
        times = ratio[CHOSEN] / ratio[ALONE]
        return said, times <= HALF, f"{times:.2f} times"

    return _each(source, one, "R_T / R_T^unif, ")


def few_exchanges(source: Source) -> Found:
    """The regret of exchanging in every round with at most SHORT of the exchanges."""

    def one(problem: str) -> tuple[str, bool, str]:
        names = [CHOSEN, ALWAYS]
        values = [_values(source, problem, name, REGRET) for name in names]
        both = min(map(len, values))
        ratio = [float(np.mean(value[:both])) for value in values]
        rounds = [_mean(source, problem, name, "exchanges") for name in names]
        said = (
            f"{listed(names, ratio, 4)} ({both} seeds), in {rounds[0]:.0f} for {rounds[1]:.0f}"
            " exchanges"
        )
        fits = ratio[0] <= NEAR * ratio[1] and rounds[0] <= SHORT * rounds[1]
        return said, fits, f"{ratio[0] / ratio[1]:.2f} times the regret"

    return _each(source, one)


def fewer_numbers(source: Source) -> Found:
    """What the sums over the embedding send against every point at once."""

    def one(problem: str) -> tuple[str, bool, str]:
        sent = _mean(source, problem, CHOSEN, "final_sent")
        data = _mean(source, problem, ALWAYS, "final_sent_as_data")
        points = _mean(source, problem, CHOSEN, "points")
        said = f"{sent:,.0f} numbers for {data:,.0f}, {points:.0f} inducing points at T"
        return said, sent < data, f"{sent / data:.2f} times"

    return _each(source, one)


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

    return _each(source, one)


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

_WHERE = " On Abalone longer candidates are ruled out late, or never."
UNKNOWN = Experiment(
    "beyond/unknown",
    "Unknown lengthscale and norm (LB-GP-UCB, Ziomek, Adachi, Osborne, NeurIPS 2024)",
    "Five candidates, from four times the right lengthscale to a quarter of it, over BBKB's sketch,"
    " with a width of two posterior standard deviations: on a GP draw of known norm (T = 500), and"
    " on Abalone (T = 300, BBKB's lengthscale taken as the right one). `balancing, certified` has"
    " the width that the guarantee asks for. The norm is doubled in BBKB at the right lengthscale"
    " and with the width of the code.",
    (
        Figure(
            "regret_ratio.png",
            "Regret over that of uniform arms, and rounds, against evaluations for BBKB at three"
            " lengthscales, for balancing by four rules, and for a norm bound that is doubled",
        ),
    ),
    (
        Claim(
            "THEORY 6.8, LB-GP-UCB",
            "With a width that covers, the right candidate is not ruled out.",
            f"In at least {LEFT:.0%} of the runs on the draw, whose norm is known.",
            right_is_left("lb_certified"),
        ),
        Claim(
            "THEORY 6.9, norm test",
            "Nor is it by the lower bound on the norm.",
            "The same.",
            right_is_left("lb_norm_test"),
        ),
        Claim(
            "LB-GP-UCB: Theorem 4.1",
            "Balancing by the paper's order of regret pays a factor beside the right lengthscale.",
            f"At most {TWICE:g} times BBKB's mean regret there, on every problem.",
            at_most(TWICE, ["lb_order"], "bbkb_right"),
            cause="The order theta^-d log(n)^(d+1) leaves most rounds to the longest candidate"
            " until rewards contradict it." + _WHERE,
        ),
        Claim(
            "THEORY 6.8, realised regret",
            "Balancing by realised widths pays less.",
            f"At most {TWICE:g} times, with the norm test and without, on every problem.",
            at_most(TWICE, ["lb_realised", "lb_norm_test"], "bbkb_right"),
            cause="Candidates that are not ruled out take turns." + _WHERE,
        ),
        Claim(
            "THEORY 6.8, marginal likelihood",
            "The candidate of largest evidence does as well, without a guarantee.",
            f"At most {TWICE:g} times BBKB's mean regret at the right lengthscale, on every"
            " problem.",
            at_most(TWICE, ["lb_evidence"], "bbkb_right"),
            cause="On Abalone the evidence, with lambda for the noise and 1 for the prior variance,"
            " prefers a candidate twice too long.",
        ),
        Claim(
            "LB-GP-UCB's docstring",
            "A lengthscale four times too long costs more than not to know it.",
            "Each rule has less mean regret than BBKB there, on every problem.",
            at_most(1.0, ["lb_order", "lb_realised", "lb_norm_test", "lb_evidence"], "bbkb_long"),
        ),
        Claim(
            "THEORY 6.9, NormDoubling",
            "A bound that starts below |f| / 2 is never doubled beyond 2 |f|.",
            f"In at least {LEFT:.0%} of the runs.",
            bound_is_not_doubled_too_often,
        ),
        Claim(
            "BKB, Section 4, guess-and-double",
            "Doubling costs no regret beside the norm itself.",
            f"At most {NEAR:g} times the mean regret of F = |f|.",
            at_most(NEAR, ["norm_doubling"], "norm_known"),
        ),
    ),
)

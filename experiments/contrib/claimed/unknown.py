"""Claims of unknown lengthscales and norms, and what decides them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from experiments.claims import (
    Claim,
    Experiment,
    Figure,
    Found,
    Missing,
    Source,
    entry,
    mean,
    shown,
    written,
)
from experiments.contrib.checks import NEAR
from experiments.contrib.claimed.each import mean_of, on_each
from experiments.contrib.saving import REGRET

TWICE = 2.0  # of the regret at the right lengthscale
LEFT = 0.9  # of the runs, at delta = 0.05 twice


def at_most(factor: float, methods: Sequence[str], other: str) -> Callable[[Source], Found]:
    """Each at most `factor` times the regret of the other, on every problem that has both."""

    def check(source: Source) -> Found:
        def one(problem: str) -> tuple[str, bool, str]:
            path = ("problems", problem, "methods")
            names = [name for name in (*methods, other) if name in entry(source, *path)]
            ratio = {name: mean_of(source, problem, name, REGRET) for name in names}
            said = written({n: shown(source, *path, n, REGRET, digits=3) for n in names})
            times = max(ratio[name] for name in names if name != other) / ratio[other]
            return said, times <= factor, f"{times:.2f} times"

        return on_each(source, one, methods[0], "R_T / R_T^unif, ")

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
        right = float(mean_of(source, "draw", method, "out_1"))
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

"""Claims of methods beyond the four papers, from docstrings and jsketch/THEORY.md.

A rule is a function from a `Source` to a `Finding`. A rule with parameters is returned by a
function of these parameters.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.claims import (
    Claim,
    Experiment,
    Figure,
    Finding,
    Missing,
    Paper,
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
RELIABLE = 0.9  # share of the runs in which a statement of probability 1 - delta must hold
THRESHOLD, EVERY_ROUND, ALONE = "exchange_0.1", "exchange_0", "alone"  # methods for clients

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
    failures = [f"{row.label} ({row.reason})" for row in rows if not row.holds and row.reason]
    note = f"Not on {', '.join(failures)}." if failures else ""
    return Finding(f"{first}{numbers}.", all(row.holds for row in rows), note)


def _path(problem: str, method: str, field: str) -> tuple[str, ...]:
    return ("problems", problem, "methods", method, field)


def _mean(source: Source, problem: str, method: str, field: str) -> float:
    return mean(source, *_path(problem, method, field))


def _values(source: Source, problem: str, method: str, field: str) -> np.ndarray:
    return np.asarray(entry(source, *_path(problem, method, field), "values"), float)


def _problems(source: Source, method: str | None = None) -> list[str]:
    """The names of the problems with results of the method, or of all problems."""
    parts = entry(source, "problems")
    names = [p for p in parts if method is None or method in parts[p]["methods"]]
    if not names:
        raise Missing(f"the summary holds no {method}")
    return names


def _title(problem: str) -> str:
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
    """Each of the methods, or the best of them if `best`, has at most `factor` times the value of
    the other method, on the given problems or on all problems with the first method."""

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
        return Row(_title(problem), numbers, times <= factor, f"{times:.2f} times")

    return lambda source: combined(
        f"{name}, ", (row(source, p) for p in problems or _problems(source, methods[0]))
    )


# contexts


def same_regret(method: str, other: str, field: str = "final_regret") -> Check:
    """The method has at most NEAR times the regret of the other method, and its number of inducing
    points is at most SHORT times the number of rounds."""

    def row(source: Source, problem: str) -> Row:
        regret = [_mean(source, problem, name, field) for name in (method, other)]
        points = _mean(source, problem, method, "points")
        horizon = _mean(source, problem, method, "horizon")
        holds = regret[0] <= NEAR * regret[1] and points <= SHORT * horizon
        numbers = f"{list_numbers([method, other], regret, 1)}, {points:.0f} points"
        return Row(_title(problem), numbers, holds, f"{regret[0] / regret[1]:.2f} times")

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
    """A rule on the values [S] of a method and of each other method, at the end of the shorter of
    the two runs."""

    def row(source: Source, problem: str, other: str) -> Row:
        names = [method, other]
        end = min(_mean(source, problem, name, "horizon") for name in names)
        values = [_at(source, problem, name, metric, end) for name in names]
        numbers = list_numbers(names, [float(v.mean()) for v in values], digits)
        return Row(f"{_title(problem)}, t = {end:.0f}", numbers, *rule(values))

    return lambda source: combined(
        first, (row(source, p, other) for p in _problems(source) for other in others)
    )


def faster(method: str, others: Sequence[str], factor: float = 1.0) -> Check:
    """The method takes at most 1 / factor of the CPU time of each of the others."""

    def rule(values: list[np.ndarray]) -> tuple[bool, str]:
        seconds = [float(v.mean()) for v in values]
        return seconds[0] * factor <= seconds[1], f"{seconds[0] / seconds[1]:.2f} times"

    return _at_shorter_end(method, others, "seconds", "CPU seconds of all seeds, ", 2, rule)


def no_more_regret(method: str, others: Sequence[str]) -> Check:
    """The method has at most NEAR times the regret of each of the others."""

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
    """The total loss of the mixture exceeds that of its best expert by at most the bound, on every
    stream."""
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
    """The number of batches is at most the bound in every run."""

    def row(problem: str) -> Row:
        name, others = "batched_exploration", ["bbkb_global", "bbkb_global_local"]
        batches = _values(source, problem, name, "batches").max()
        most = number(source, *_path(problem, name, "most_batches"), "mean")
        batches_of_others = list_numbers(
            others, [_mean(source, problem, o, "batches") for o in others], 0
        )
        return Row(
            _title(problem), f"{batches:.0f} of {most:.0f} ({batches_of_others})", batches <= most
        )

    return combined("Batches, ", map(row, _problems(source)))


def best_arm_is_active(source: Source) -> Finding:
    """The best arm stays active in 1 - DELTA of the runs whose norm bound F holds."""
    name, field = "batched_exploration", "best_is_left"
    active = _values(source, "known_norm", name, field)
    others = [
        f"{_title(p)}: {_mean(source, p, name, field):.0%}"
        for p in _problems(source)
        if p != "known_norm"
    ]
    return Finding(
        f"In {active.mean():.0%} of {len(active)} runs. Where F is assumed too small,"
        f" {', '.join(others)}.",
        bool(active.mean() >= 1 - DELTA),
    )


def random_is_enough(source: Source) -> Finding:
    """Uniform exploration of the active arms has at most NEAR times the regret, and no more
    batches."""

    def row(problem: str) -> Row:
        names = ["random_exploration", "batched_exploration"]
        regret = [_mean(source, problem, name, REGRET) for name in names]
        batches = [_mean(source, problem, name, "batches") for name in names]
        holds = regret[0] <= NEAR * regret[1] and batches[0] <= batches[1]
        return Row(_title(problem), list_numbers(names, regret, 3), holds)

    return combined("R_T / R_T^unif, ", map(row, _problems(source)))


def sublinear_exploration(source: Source) -> Finding:
    """The exponent of the regret between runs of T / 4 and of T evaluations is below SUBLINEAR."""

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
        return Row(_title(problem), f"{exponent:.2f}", exponent < SUBLINEAR, reason)

    return combined("Exponents, ", map(row, _problems(source)))


# widths


def _width(source: Source, name: str, field: str) -> float:
    """A number of a confidence width, from the only problem (posterior) on which it was run."""
    return _mean(source, _problems(source, name)[0], name, field)


def covers(name: str) -> Check:
    """The confidence set contains the function in 1 - DELTA of the runs."""

    def check(source: Source) -> Finding:
        share, needed = (_width(source, name, field) for field in ("covered", "most_needed"))
        return Finding(
            f"In {share:.0%} of the runs; the largest share of the width that a run needed is"
            f" {needed:.2f}, mean of the runs.",
            share >= 1 - DELTA,
        )

    return check


def tighter(name: str, other: str, width: bool = True) -> Check:
    """The width has less regret than the other. If `width`, it is also smaller at T (a comparison
    of widths in the same units)."""

    def check(source: Source) -> Finding:
        regret = [_width(source, n, REGRET) for n in (name, other)]
        last = [_width(source, n, "last_width") for n in (name, other)]
        words = f"R_T / R_T^unif: {list_numbers([name, other], regret)}."
        words += f" Width at T: {list_numbers([name, other], last, 2)}." if width else ""
        return Finding(words, regret[0] < regret[1] and (not width or last[0] < last[1]))

    return check


# unknown lengthscale and norm


def right_is_kept(method: str) -> Check:
    """The right lengthscale remains a candidate in RELIABLE of the runs on the draw."""

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
            bool(1 - right.mean() >= RELIABLE),
        )

    return check


def bound_is_not_doubled_too_often(source: Source) -> Finding:
    """The last norm bound is at most twice the norm in RELIABLE of the runs."""
    last = _values(source, "draw", "norm_doubling", "last_bound")
    norm = _mean(source, "draw", "norm_doubling", "norm")
    within = float((last <= 2 * norm).mean())
    return Finding(
        f"F at T is {last.min():g} to {last.max():g}; |f| is {norm:.1f}.", within >= RELIABLE
    )


# clients


def few_exchanges(source: Source) -> Finding:
    """At most NEAR times the regret of exchanges in every round, with at most SHORT of them."""

    def row(problem: str) -> Row:
        names = [THRESHOLD, EVERY_ROUND]
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

    return combined("", map(row, _problems(source, THRESHOLD)))


def fewer_numbers(source: Source) -> Finding:
    """Messages with sums over the embedding have fewer numbers than messages with every point."""

    def row(problem: str) -> Row:
        sent = _mean(source, problem, THRESHOLD, "final_sent")
        data = _mean(source, problem, EVERY_ROUND, "final_sent_as_data")
        points = _mean(source, problem, THRESHOLD, "points")
        numbers = f"{sent:,.0f} numbers for {data:,.0f}, {points:.0f} inducing points at T"
        return Row(problem, numbers, sent < data, f"{sent / data:.2f} times")

    return combined("", map(row, _problems(source, THRESHOLD)))


def sublinear_clients(source: Source) -> Finding:
    """The exponents of regret and of numbers sent, between T / 4 and T, are below SUBLINEAR."""

    def row(problem: str) -> Row:
        powers = []
        for metric in ("regret_ratio", "sent"):
            t, values = curve(source, metric, THRESHOLD, problem)
            late = t >= t[-1] / 4
            x, y = t[late], values.mean(0)[late] * (t[late] if metric == "regret_ratio" else 1)
            powers.append(float(np.log(y[-1] / y[0]) / np.log(x[-1] / x[0])))
        numbers = f"regret {powers[0]:.2f}, numbers sent {powers[1]:.2f}"
        return Row(problem, numbers, max(powers) < SUBLINEAR, f"{max(powers):.2f}")

    return combined("", map(row, _problems(source, THRESHOLD)))


FORGETTING = ("gamma_0.9", "gamma_0.97", "gamma_0.99", "gamma_0.997", "gamma_0.999")
_MUCH = f"At most {HALF:g} times"
_SHRUNK = (
    "The penalty of the current example shrinks a prediction by 1 + h, and h is large where few of"
    " the last 1 / (1 - gamma) inputs were, in a rich space nearly everywhere (THEORY 7.12)."
)

CONTEXTS = Experiment(
    "beyond/contextual",
    "Contexts: EK-UCB (Zenati et al., AISTATS 2022)",
    "Two of the problems of its authors' scripts, with their lengthscale, regularization and width."
    " CBKB and CBBKB stop at t = 300. CPU seconds are those of all seeds in one program, compiled"
    " before, while other processes were running.",
    (
        Figure(
            "regret.png",
            "Cumulative regret, CPU seconds and inducing points against rounds for kernel UCB"
            " with contexts, exact, with incremental projections and with resampled dictionaries",
        ),
    ),
    (
        Claim(
            "THEORY 6.6, EK-UCB",
            "Incremental projections on a KORS dictionary keep the regret of the exact kernel UCB"
            " with far fewer points (beta = 2).",
            f"Mean regret at T at most {NEAR:g} times K-UCB's, with at most"
            f" {SHORT:.0%} of its points, on every problem.",
            same_regret("ek_ucb_2", "k_ucb"),
        ),
        Claim(
            "THEORY 6.6, EK-UCB",
            "It does so with the shorter dictionary of beta = 0.5 as well.",
            "The same.",
            same_regret("ek_ucb_0.5", "k_ucb"),
            reason="A point joins with probability beta tau at most: a new region waits for its"
            " first points, which costs regret early.",
        ),
        Claim(
            "EK-UCB's docstring",
            "A round costs less than that of the exact kernel UCB (O(C M^2) for O(C t^2)).",
            "Fewer CPU seconds at T than K-UCB, on every problem.",
            faster("ek_ucb_2", ["k_ucb"]),
        ),
        Claim(
            "EK-UCB's docstring",
            "A dictionary that only grows is cheaper than one that is resampled from all points"
            " (CBKB, CBBKB).",
            "Fewer CPU seconds than both at t = 300, on every problem.",
            faster("ek_ucb_2", ["cbkb", "cbbkb_3"]),
        ),
        Claim(
            "EK-UCB's docstring",
            "It has no more regret than they have.",
            f"At most {NEAR:g} times the regret of either at t = 300, on every problem.",
            no_more_regret("ek_ucb_2", ["cbkb", "cbbkb_3"]),
        ),
        Claim(
            "CBBKB's docstring",
            "Drawing the dictionary when the variances exceed C = 3 costs a fraction of drawing it"
            " in every round, as CBKB does.",
            "At most half of its CPU seconds, on every problem.",
            faster("cbbkb_3", ["cbkb"], factor=2),
        ),
        Claim(
            "CBBKB's docstring",
            "CBBKB has CBKB's regret.",
            f"At most {NEAR:g} times CBKB's regret at t = 300, on every problem.",
            no_more_regret("cbbkb_3", ["cbkb"]),
            reason="Until the next draw no reward changes the posterior in a region that the"
            " dictionary lacks.",
        ),
    ),
)

DRIFT = Experiment(
    "beyond/drift",
    "Streams whose target changes: discounted Kernel-AWV and PKAWV (Jacobsen, Cutkosky, ICML 2024)",
    "Generated streams: `jumps` has another function every 500 examples, `turning` another phase in"
    " each, `still` the same. Forecasters on the kernel itself run on the first stream of"
    " `jumps` alone, river's on the first stream of each, where river is installed.",
    (
        Figure(
            "average_loss.png",
            "Average squared loss against examples on three streams, for forecasters that forget"
            " nothing, at five rates, for their mixture, and for river's models",
        ),
    ),
    (
        Claim(
            "THEORY 7.12, PKAWV with a discount",
            "Where the target changes, an example that counts less the older it is helps.",
            f"{_MUCH} the average loss without a discount, for the best of the discounts, on"
            " `jumps` and `turning`.",
            at_most(
                HALF,
                FORGETTING,
                "static",
                field="loss",
                name="Average loss",
                problems=["jumps", "turning"],
                best=True,
            ),
        ),
        Claim(
            "THEORY 7.9, over_discounts",
            "The mixture over discounts loses at most log(G) / eta = 2 B^2 log G more than its best"
            " one, on every stream.",
            "So it is on every stream (B = 1, total losses).",
            mixture_bound,
        ),
        Claim(
            "THEORY 7.12, Kernel-AWV with a discount",
            "On the kernel itself a discount helps as well.",
            f"{_MUCH} the average loss without a discount, at a discount of 0.99, on `jumps`.",
            at_most(
                HALF,
                ["kernel_0.99"],
                "kernel_static",
                field="loss",
                name="Average loss",
                problems=["jumps"],
            ),
            reason=_SHRUNK,
        ),
    ),
)

FEW = Experiment(
    "beyond/few_batches",
    "Few batches: batched pure exploration (Li, Scarlett, AISTATS 2022)",
    "Functions on 500 points (lengthscale 0.2, noise 0.1): a draw of a Gaussian process, with the"
    " assumption F = 1, and one of known norm 2. FixedBKB has batches of 96, and as many as the"
    " exploration has.",
    (
        Figure(
            "regret_ratio.png",
            "Regret over that of uniform arms, and batches, against evaluations for batched"
            " exploration, BBKB with both rules and FixedBKB",
        ),
    ),
    (
        Claim(
            "THEORY 6.7",
            "T evaluations take at most ceil(log2 log2 T) + 1 batches.",
            "No run has more.",
            few_batches,
        ),
        Claim(
            "THEORY 6.7",
            "With probability 1 - delta the best arm is never ruled out.",
            f"It is left in at least {1 - DELTA:.0%} of the runs where F is known.",
            best_arm_is_active,
        ),
        Claim(
            "Li, Scarlett: regret of order sqrt(T gamma_T), up to logarithms",
            "Regret grows slower than T.",
            f"Its exponent between runs of T / 4 and of T is below {SUBLINEAR:g}, on every"
            " problem.",
            sublinear_exploration,
        ),
        Claim(
            "Salgia, Vakili, Zhao, ICML 2024: regret of the same order with random arms",
            "Within a batch, uniform arms do as well as those of the largest variance.",
            f"At most {NEAR:g} times the regret on every problem, in as many batches.",
            random_is_enough,
        ),
    ),
)


def _covers(name: str, item: str) -> Claim:
    return Claim(
        item,
        f"`{name}` covers f at all arms during a whole run with probability 1 - delta.",
        f"In at least {1 - DELTA:.0%} of the runs, checked every 10 evaluations.",
        covers(name),
    )


WIDTHS = Experiment(
    "beyond/width_coverage",
    "Tighter confidence widths (Whitehouse et al., NeurIPS 2023; Flynn, Reeb, AISTATS 2025)",
    "One function of known norm 2 on 100 arms, delta = 0.1, seeds of noise.",
    (
        Figure(
            "coverage.png",
            "For each confidence width the share of it that each run needed to cover the"
            " function, all below one, and the regret",
        ),
    ),
    (
        _covers("gp_ucb_tight", "THEORY 4.1, Whitehouse et al."),
        _covers("smooth_tight", "THEORY 4.1, Whitehouse et al."),
        _covers("mixture", "THEORY 4.7, Flynn and Reeb"),
        _covers("certified", "THEORY 4.4"),
        _covers("certified_mixture", "THEORY 4.8"),
        Claim(
            "THEORY 4.7, Flynn and Reeb",
            "The mixture's width is never above the self-normalized one, and has less regret.",
            "Smaller at T, and less mean regret.",
            tighter("mixture", "gp_ucb_tight"),
        ),
        Claim(
            "THEORY 4.1, Whitehouse et al.",
            "A regularization that grows with T, by the decay of the eigenvalues, has less regret"
            " than that of the noise.",
            "Less mean regret with the same formula.",
            tighter("smooth_tight", "gp_ucb_tight", width=False),
        ),
        Claim(
            "THEORY 4.8",
            "On a sketch, too, the mixture's width is the smaller one, and has less regret.",
            "Smaller at T than `certified`, and less mean regret.",
            tighter("certified_mixture", "certified"),
        ),
    ),
)

_DISCOUNTS, _WINDOWS = ("discount_0.998", "discount_0.995"), ("window_500",)
_RESTARTS = f"At most {NEAR:g} times the regret of restarts every 350 rounds."
_CAUSE = (
    "No width covers a mean that moves (THEORY 6.5): weights keep old rewards for some"
    " 1 / (1 - gamma) or W rounds, where a restart drops all of them at once."
)


def _forgets(methods: tuple[str, ...], item: str, problem: str) -> tuple[Claim, Claim]:
    name = methods[0].split("_")[0].capitalize() + "s"
    where = "drift" if problem == "drift" else "jump"
    return (
        Claim(
            item,
            f"{name} have less dynamic regret than BKB where means {where}.",
            f"{_MUCH} BKB's mean regret, each.",
            at_most(HALF, methods, "bkb", problems=[problem]),
            reason="What is forgotten has to be explored again.",
        ),
        Claim(
            f"{item}, against restarts",
            f"{name} do as well as restarts where means {where}.",
            _RESTARTS,
            at_most(NEAR, methods, "restart_350", problems=[problem], best=True),
            reason=_CAUSE,
        ),
    )


CHANGING = Experiment(
    "beyond/drifting_arms",
    "Means that change: discounted and windowed BKB (Deng et al., 2022; Zhou, Shroff, 2021)",
    "100 arms; four functions of norm 2 one after the other, with straight lines between them"
    " (`drift`) or all at once (`jump`); the same width for all. Regret is dynamic, against the"
    " best arm of each round.",
    (
        Figure(
            "regret_ratio.png",
            "Dynamic regret over that of uniform arms against rounds, for BKB, restarts,"
            " discounts and a window, where means drift and where they jump",
        ),
    ),
    (
        *_forgets(_DISCOUNTS, "THEORY 6.5, DiscountedBKB", "drift"),
        *_forgets(_WINDOWS, "THEORY 6.5, WindowBKB", "drift"),
        *_forgets(_DISCOUNTS, "THEORY 6.5, DiscountedBKB", "jump"),
        *_forgets(_WINDOWS, "THEORY 6.5, WindowBKB", "jump"),
    ),
)

TWICE = 2.0  # factor over the regret at the right lengthscale
_WHERE = " On Abalone longer candidates are ruled out late, or never."
UNKNOWN = Experiment(
    "beyond/unknown",
    "Unknown lengthscale and norm (LB-GP-UCB, Ziomek, Adachi, Osborne, NeurIPS 2024)",
    "Five candidates, from four times the right lengthscale to a quarter of it, over BBKB's sketch,"
    " with a width of two posterior standard deviations: on a GP draw of known norm (T = 500), and"
    " on Abalone (T = 300, BBKB's lengthscale taken as the right one). `balancing, certified` has"
    " the width that the guarantee needs. The norm is doubled in BBKB at the right lengthscale"
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
            f"In at least {RELIABLE:.0%} of the runs on the draw, whose norm is known.",
            right_is_kept("lb_certified"),
        ),
        Claim(
            "THEORY 6.9, norm test",
            "The lower bound on the norm does not rule it out either.",
            "The same.",
            right_is_kept("lb_norm_test"),
        ),
        Claim(
            "LB-GP-UCB: Theorem 4.1",
            "Balancing by the paper's order of regret costs a factor over the right lengthscale.",
            f"At most {TWICE:g} times BBKB's mean regret there, on every problem.",
            at_most(TWICE, ["lb_order"], "bbkb_right"),
            reason="The order theta^-d log(n)^(d+1) leaves most rounds to the longest candidate"
            " until rewards contradict it." + _WHERE,
        ),
        Claim(
            "THEORY 6.8, realised regret",
            "Balancing by realised widths pays a smaller factor.",
            f"At most {TWICE:g} times, with the norm test and without, on every problem.",
            at_most(TWICE, ["lb_realised", "lb_norm_test"], "bbkb_right"),
        ),
        Claim(
            "THEORY 6.8, marginal likelihood",
            "The candidate of largest evidence does as well, without a guarantee.",
            f"At most {TWICE:g} times BBKB's mean regret at the right lengthscale, on every"
            " problem.",
            at_most(TWICE, ["lb_evidence"], "bbkb_right"),
            reason="On Abalone the evidence, with lambda for the noise and 1 for the prior"
            " variance, prefers a candidate twice too long.",
        ),
        Claim(
            "LB-GP-UCB's docstring",
            "A lengthscale four times too long costs more than balancing.",
            "Each rule has less mean regret than BBKB there, on every problem.",
            at_most(1.0, ["lb_order", "lb_realised", "lb_norm_test", "lb_evidence"], "bbkb_long"),
        ),
        Claim(
            "THEORY 6.9, NormDoubling",
            "A bound that starts below |f| / 2 is never doubled beyond 2 |f|.",
            f"In at least {RELIABLE:.0%} of the runs.",
            bound_is_not_doubled_too_often,
        ),
        Claim(
            "BKB, Section 4, guess-and-double",
            "Doubling costs no regret compared with F = |f|.",
            f"At most {NEAR:g} times the mean regret of F = |f|.",
            at_most(NEAR, ["norm_doubling"], "norm_known"),
        ),
    ),
)

CLIENTS = Experiment(
    "beyond/clients",
    "Clients on a common Nystrom embedding (after Li et al., NeurIPS 2022)",
    "32 clients, each in different contexts: a smooth function (`waves`, T = 600), and one with"
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
            at_most(HALF, [THRESHOLD], ALONE, digits=4),
        ),
        Claim(
            "THEORY 6.10",
            "Exchanging at a threshold D costs no regret compared with exchanging every round.",
            f"At most {NEAR:g} times the regret of exchanging in every round, with at most"
            f" {SHORT:.0%} of the exchanges, on every problem.",
            few_exchanges,
        ),
        Claim(
            "Li et al.: both regret and communication are sublinear in T",
            "Neither regret nor the numbers sent grow as fast as T.",
            f"Exponents between T / 4 and T below {SUBLINEAR:g}, on every problem.",
            sublinear_clients,
        ),
        Claim(
            "Li et al.: less communication than transferring the data",
            "Sums over the embedding send less than every point at once.",
            "Fewer numbers at T, on every problem.",
            fewer_numbers,
            reason="An exchange sends 2 m (m + 1) numbers a client, and the points of a round"
            " N (d + 1): with many inducing points T is too short.",
        ),
    ),
)

PAPER = Paper(
    "Beyond the four papers",
    "later methods, built from the same components",
    (CONTEXTS, DRIFT, FEW, WIDTHS, CHANGING, UNKNOWN, CLIENTS),
)

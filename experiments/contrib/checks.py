"""What decides the claims of methods beyond the four papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from experiments.claims import Found, Missing, Source, entry, listed, mean, number, shown, written
from experiments.contrib.saving import REGRET
from experiments.results import tidy
from experiments.results.summaries import ci95

NEAR = 1.1  # of a regret that is "the same"
SHORT = 0.5  # of the rounds: a dictionary that is much shorter
SUBLINEAR = 0.9  # exponent of a regret that grows slower than T
HALF = 0.5  # of a regret or a loss that is much smaller
DELTA = 0.1  # of the confidence sets


def _methods(problem: str, method: str, field: str) -> tuple[str, ...]:
    return ("problems", problem, "methods", method, field)


def _mean(source: Source, problem: str, method: str, field: str) -> float:
    return mean(source, *_methods(problem, method, field))


def _values(source: Source, problem: str, method: str, field: str) -> np.ndarray:
    return np.asarray(entry(source, *_methods(problem, method, field), "values"), float)


def _problems(source: Source) -> list[str]:
    return list(entry(source, "problems"))


def _of(problem: str) -> str:
    return problem.replace("_", " ")


def same_regret(method: str, other: str, field: str = "final_regret") -> Callable[[Source], Found]:
    """At most NEAR times the other's regret, on a dictionary of at most SHORT of the rounds."""

    def check(source: Source) -> Found:
        words, bad, holds = [], [], True
        for problem in _problems(source):
            regret = [_mean(source, problem, name, field) for name in (method, other)]
            points = _mean(source, problem, method, "points")
            horizon = _mean(source, problem, method, "horizon")
            fits = regret[0] <= NEAR * regret[1] and points <= SHORT * horizon
            holds &= fits
            said = f"{_of(problem)}: {listed([method, other], regret, 1)}, {points:.0f} points"
            words.append(said)
            if not fits:
                early = horizon / 5
                means = (_at(source, problem, n, "regret", early).mean() for n in (method, other))
                bad.append(
                    f"{_of(problem)} ({regret[0] / regret[1]:.2f} times;"
                    f" {regret[0] - regret[1]:.1f} more at T, {next(means) - next(means):.1f} more"
                    f" at t = {early:.0f} already)"
                )
        note = f"Not on {', '.join(bad)}." if bad else ""
        return Found(f"Regret at T and points at T, {'; '.join(words)}.", holds, note)

    return check


def _at(source: Source, problem: str, method: str, metric: str, t: float) -> np.ndarray:
    """A metric [S] of a method at t, between its points."""
    if not (source.folder / tidy.CURVES).exists():
        raise Missing(f"there is no {tidy.CURVES} in {source.folder.name}")
    curves = tidy.load(source.folder).curves
    lines = tidy.lines(curves[curves["problem"] == problem], metric)
    if method not in lines:
        raise Missing(f"{tidy.CURVES} holds no {metric} of {method} on {_of(problem)}")
    at, values = lines[method]
    return np.array([np.interp(t, at, row) for row in values])


def faster(method: str, others: Sequence[str], factor: float = 1.0) -> Callable[[Source], Found]:
    """Less CPU time than each of the others where the shorter of both ends, on every problem."""

    def check(source: Source) -> Found:
        words, bad = [], []
        for problem in _problems(source):
            for other in others:
                end = min(_mean(source, problem, name, "horizon") for name in (method, other))
                seconds = [
                    float(_at(source, problem, name, "seconds", end).mean())
                    for name in (method, other)
                ]
                said = listed([method, other], seconds, 2)
                words.append(f"{_of(problem)}, t = {end:.0f}: {said}")
                if seconds[0] * factor > seconds[1]:
                    bad.append(f"{_of(problem)} ({seconds[0] / seconds[1]:.2f} times)")
        note = f"Not on {', '.join(bad)}." if bad else ""
        return Found(f"CPU seconds of all seeds, {'; '.join(words)}.", not bad, note)

    return check


def no_more_regret(method: str, others: Sequence[str]) -> Callable[[Source], Found]:
    """At most NEAR times the regret of each of the others where the shorter of both ends."""

    def check(source: Source) -> Found:
        words, bad = [], []
        for problem in _problems(source):
            for other in others:
                end = min(_mean(source, problem, name, "horizon") for name in (method, other))
                runs = [_at(source, problem, name, "regret", end) for name in (method, other)]
                regret = [float(run.mean()) for run in runs]
                said = listed([method, other], regret, 1)
                words.append(f"{_of(problem)}, t = {end:.0f}: {said}")
                if regret[0] > NEAR * regret[1]:
                    apart = runs[0] - runs[1]
                    bad.append(
                        f"{_of(problem)} ({regret[0] / regret[1]:.2f} times; {apart.mean():.1f} ±"
                        f" {ci95(apart):.1f} more, over pairs of runs)"
                    )
        note = f"Not on {', '.join(bad)}." if bad else ""
        return Found(f"Cumulative regret, {'; '.join(words)}.", not bad, note)

    return check


def mixture_bound(source: Source) -> Found:
    """The mixture's total loss against its best expert's, stream by stream."""
    discounts = entry(source, "config", "discounts")
    experts = [f"gamma_{g:g}" if g < 1 else "static" for g in discounts]
    bound, most, streams = 2 * math.log(len(experts)), -math.inf, 0
    for problem in _problems(source):
        best = np.min([_values(source, problem, name, "total_loss") for name in experts], axis=0)
        excess = _values(source, problem, "over_discounts", "total_loss") - best
        most, streams = max(most, float(excess.max())), streams + len(excess)
    return Found(
        f"At most {most:.2f} more than the best expert, over {streams} streams; the bound is"
        f" {bound:.2f}.",
        most <= bound,
    )


def forgetting_helps(best_of: Sequence[str], static: str, problems: Sequence[str]) -> Callable:
    """The least loss of a discount is at most HALF of what forgets nothing."""

    def check(source: Source) -> Found:
        words, holds, notes = [], True, []
        for problem in problems:
            losses = {name: _mean(source, problem, name, "loss") for name in (*best_of, static)}
            best = min(best_of, key=lambda name: losses[name])
            names = [best, static]
            words.append(f"{_of(problem)}: {listed(names, [losses[n] for n in names])}")
            if losses[best] > HALF * losses[static]:
                holds = False
                notes.append(f"{_of(problem)}: {losses[best] / losses[static]:.2f} times.")
        return Found(f"Average loss, {'; '.join(words)}.", holds, " ".join(notes))

    return check


def kernel_discount(source: Source) -> Found:
    """The forecaster on the whole kernel, and the same without the current example's penalty."""
    names = ["kernel_0.99", "kernel_static", "kernel_ridge_0.99"]
    losses = [_mean(source, "jumps", name, "loss") for name in names]
    return Found(
        f"Average loss on one stream of jumps, {listed(names[:2], losses[:2])}.",
        losses[0] <= HALF * losses[1],
        f"Without the penalty of the current example: {losses[2]:.3f}.",
    )


def few_batches(source: Source) -> Found:
    name, words, holds = "batched_exploration", [], True
    for problem in _problems(source):
        batches = _values(source, problem, name, "batches").max()
        most = number(source, *_methods(problem, name, "most_batches"), "mean")
        others = ["bbkb_global", "bbkb_global_local"]
        beside = [_mean(source, problem, other, "batches") for other in others]
        words.append(f"{_of(problem)}: {batches:.0f} of {most:.0f} ({listed(others, beside, 0)})")
        holds &= batches <= most
    return Found(f"Batches, {'; '.join(words)}.", holds)


def best_is_left(source: Source) -> Found:
    left = _values(source, "known_norm", "batched_exploration", "best_is_left")
    others = [
        f"{_of(p)}: {_mean(source, p, 'batched_exploration', 'best_is_left'):.0%}"
        for p in _problems(source)
        if p != "known_norm"
    ]
    return Found(
        f"In {left.mean():.0%} of {len(left)} runs. Where F is assumed too small,"
        f" {', '.join(others)}.",
        bool(left.mean() >= 1 - DELTA),
    )


def random_is_enough(source: Source) -> Found:
    """Uniform arms among those left have at most NEAR times the regret, in as many batches."""
    names, words, holds = ["random_exploration", "batched_exploration"], [], True
    for problem in _problems(source):
        regret = [_mean(source, problem, name, REGRET) for name in names]
        batches = [_mean(source, problem, name, "batches") for name in names]
        words.append(f"{_of(problem)}: {listed(names, regret, 3)}")
        holds &= regret[0] <= NEAR * regret[1] and batches[0] <= batches[1]
    return Found(f"R_T / R_T^unif, {'; '.join(words)}.", holds)


def sublinear(source: Source) -> Found:
    """Exponent of the exploration's regret between runs of T / 4 and of T."""
    words, bad = [], []
    for problem in _problems(source):
        whole, quarter = (f"batched_exploration{end}" for end in ("", "_quarter"))
        grown = [_mean(source, problem, n, "final_regret") for n in (quarter, whole)]
        longer = [_mean(source, problem, n, "horizon") for n in (quarter, whole)]
        exponent = math.log(grown[1] / grown[0]) / math.log(longer[1] / longer[0])
        words.append(f"{_of(problem)}: {exponent:.2f}")
        if exponent >= SUBLINEAR:
            bad.append(problem)
    notes = []
    for problem in bad:
        ratios = [
            shown(source, *_methods(problem, name, REGRET), digits=3)
            for name in ("batched_exploration", "bbkb_global")
        ]
        notes.append(f"{_of(problem)}: {ratios[0]} of uniform arms' regret, BBKB {ratios[1]}.")
    return Found(f"Exponents, {'; '.join(words)}.", not bad, " ".join(notes))


def _width(source: Source, name: str, field: str) -> float:
    """A number of a width, which is on one of the two posteriors."""
    for problem in _problems(source):
        if name in entry(source, "problems", problem, "methods"):
            return _mean(source, problem, name, field)
    raise Missing(f"the summary holds no {name}")


def covers(name: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        share, needed = (_width(source, name, field) for field in ("covered", "most_needed"))
        return Found(
            f"In {share:.0%} of the runs; the largest share of the width that a run needed is"
            f" {needed:.2f}, mean of the runs.",
            share >= 1 - DELTA,
        )

    return check


def tighter(name: str, other: str, width: bool = True) -> Callable[[Source], Found]:
    """Less regret, and a smaller width where widths are in the same units."""

    def check(source: Source) -> Found:
        regret = [_width(source, n, REGRET) for n in (name, other)]
        last = [_width(source, n, "last_width") for n in (name, other)]
        said = f"R_T / R_T^unif: {listed([name, other], regret)}."
        said += f" Width at T: {listed([name, other], last, 2)}." if width else ""
        return Found(said, regret[0] < regret[1] and (not width or last[0] < last[1]))

    return check


def gains(methods: Sequence[str], problem: str) -> Callable[[Source], Found]:
    """Each at most HALF of what forgets nothing."""

    def check(source: Source) -> Found:
        names = [*methods, "bkb"]
        ratio = {name: _mean(source, problem, name, REGRET) for name in names}
        bad = [name for name in methods if ratio[name] > HALF * ratio["bkb"]]
        note = "; ".join(f"{name}: {ratio[name] / ratio['bkb']:.2f} times BKB's" for name in bad)
        with_intervals = {
            name: shown(source, *_methods(problem, name, REGRET), digits=3) for name in names
        }
        return Found(f"R_T / R_T^unif: {written(with_intervals)}.", not bad, note)

    return check


def as_restarts(methods: Sequence[str], problem: str) -> Callable[[Source], Found]:
    """The best of them against restarts every 350 rounds."""

    def check(source: Source) -> Found:
        anew = "restart_350"
        ratio = {name: _mean(source, problem, name, REGRET) for name in (*methods, anew)}
        best = min(methods, key=lambda name: ratio[name])
        late = [_mean(source, problem, name, "last_tenth") for name in (best, anew)]
        return Found(
            f"R_T / R_T^unif: {listed([best, anew], [ratio[best], ratio[anew]])}.",
            ratio[best] <= NEAR * ratio[anew],
            f"{ratio[best] / ratio[anew]:.2f} times; over the last tenth"
            f" {listed([best, anew], late)}.",
        )

    return check

"""Numbers of a method on a problem, and a rule that is to hold on every problem."""

from __future__ import annotations

from collections.abc import Callable

from experiments.claims import Found, Missing, Source, entry, mean


def mean_of(source: Source, problem: str, method: str, field: str) -> float:
    return mean(source, "problems", problem, "methods", method, field)


def values_of(source: Source, problem: str, method: str, field: str) -> list[float]:
    return list(entry(source, "problems", problem, "methods", method, field, "values"))


def problems_of(source: Source, method: str) -> list[str]:
    found = [p for p, part in entry(source, "problems").items() if method in part["methods"]]
    if not found:
        raise Missing(f"the summary holds no {method}")
    return found


def on_each(
    source: Source,
    one: Callable[[str], tuple[str, bool, str]],
    method: str,
    said_first: str = "",
) -> Found:
    """(words, whether it holds, a note where it does not) of every problem that has the method."""
    words, holds, notes = [], True, []
    for problem in problems_of(source, method):
        said, fits, note = one(problem)
        words.append(f"{problem}: {said}")
        holds &= fits
        if not fits:
            notes.append(f"{problem}: {note}")
    return Found(f"{said_first}{'; '.join(words)}.", holds, f"{'; '.join(notes)}." if notes else "")

"""The checks of a fuzzer, and a record of those that failed."""

from collections import Counter

import numpy as np


class Report:
    """Stores each failure with the description of its problem, whose seed reproduces it."""

    def __init__(self):
        self.checks, self.failures, self.skipped = Counter(), [], Counter()
        self.problem = ""

    def true(self, name, holds, detail=""):
        """Counts a check, and stores a failure unless it holds."""
        self.checks[name] += 1
        if not bool(holds):
            self.failures.append(f"{self.problem}: {name} {detail}")

    def near(self, name, actual, truths, floor=0.0):
        """Checks that |actual - truths[0]| is at most 16 times the difference of the perturbed
        truths[1:] from truths[0], plus 1e-9 |truths[0]|, plus `floor` (one number or an array)."""
        truth = np.asarray(truths[0], float)
        allowed = tolerance(truths) + floor
        error = np.abs(np.asarray(actual, float) - truth)
        error, allowed = np.atleast_1d(*np.broadcast_arrays(error, allowed))
        worst = np.unravel_index(np.argmax(error - allowed), error.shape) if error.size else None
        holds = np.isfinite(error).all() and (worst is None or error[worst] <= allowed[worst])
        detail = "" if holds else f"off by {error[worst]:.2e}, rounding is {allowed[worst]:.2e}"
        self.true(name, holds, detail)

    def same(self, name, actual, expected):
        actual, expected = np.asarray(actual), np.asarray(expected)
        equal = np.array_equal(actual, expected, equal_nan=expected.dtype.kind == "f")
        self.true(name, equal, f"{actual!s:.80} is not {expected!s:.80}")


def tolerance(truths, times=16.0, relative=1e-9):
    """The tolerance of a float64 program around truths[0]: `times` the largest difference of the
    perturbed truths[1:], plus `relative` |truths[0]|."""
    truth, *others = (np.asarray(t, float) for t in truths)
    spread = max((np.max(np.abs(t - truth), initial=0.0) for t in others), default=0.0)
    return times * spread + relative * np.max(np.abs(truth), initial=0.0)

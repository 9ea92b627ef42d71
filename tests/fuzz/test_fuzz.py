"""A few seeds of every kind in every run of the tests; scripts/fuzz has the rest."""

import warnings

import arms
import boxes
import pytest
import sheets
import streams
from report import Report

SEEDS = {"arms": (arms, 24), "streams": (streams, 32), "boxes": (boxes, 40), "sheets": (sheets, 24)}


def run(kind, long, count):
    report = Report()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(count):
            SEEDS[kind][0].check(seed, report, long)
    assert not report.failures, "\n".join(report.failures)
    return report


@pytest.mark.parametrize("kind", SEEDS)
def test_random_problems(kind):
    report = run(kind, False, SEEDS[kind][1])
    assert sum(report.checks.values()) > 100 and sum(report.skipped.values()) <= SEEDS[kind][1] / 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arms", "streams", "boxes"])
def test_hard_random_problems(kind):
    run(kind, True, 100)

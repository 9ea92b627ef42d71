"""A few seeds of every kind; scripts/fuzz runs more."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

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


def test_the_script_runs_with_a_safe_path():
    """The scripts set PYTHONSAFEPATH, which excludes the folder of the program from the path."""
    program, seeds = Path(__file__).with_name("main.py"), ("--first", "1", "--count", "1")
    command = [sys.executable, program, "sheets", *seeds]
    environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "0 failures" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arms", "streams", "boxes"])
def test_hard_random_problems(kind):
    run(kind, True, 100)

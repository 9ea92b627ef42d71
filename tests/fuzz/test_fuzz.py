"""The fuzzers with a few seeds of every kind; scripts/fuzz runs more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from main import campaign

N_SEEDS = dict(arms=24, streams=32, boxes=40, sheets=24)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("kind", N_SEEDS)
def test_random_problems_match_the_oracles(kind):
    report = campaign(kind, long=False, count=N_SEEDS[kind])
    assert not report.failures
    assert sum(report.checks.values()) > 100 and sum(report.skipped.values()) <= N_SEEDS[kind] / 4


def test_the_script_runs_with_a_safe_path():
    """The scripts set PYTHONSAFEPATH, which excludes the folder of the program from the path."""
    program, seeds = Path(__file__).with_name("main.py"), ("--first", "1", "--count", "1")
    command = [sys.executable, program, "sheets", *seeds]
    environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert "0 failures" in process.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arms", "streams", "boxes"])
def test_hard_random_problems_match_the_oracles(kind):
    assert not campaign(kind, long=True, count=100).failures

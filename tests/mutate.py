"""Applies the mutations of mutations.toml to a copy of the tree, one at a time, and runs the tests
that should fail.

    scripts/mutate                     all of them, half an hour on one core
    scripts/mutate --only sketch       those whose file or description contains "sketch"

Prints a Markdown table. Exits with status 1 if the tests of a mutation pass, unless the field
`survives` of the mutation gives a reason.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTATIONS = Path(__file__).with_name("mutations.toml")
COPIED = ("jsketch", "experiments", "tests", "scripts", "pyproject.toml", "README.md")
# tests that take longer count as failed, because a mutation may make a loop endless
TIMEOUT_MINUTES = 10
OPTIONS = ("-x", "-q", "-p", "no:xdist", "--no-header")
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def copy_tree(folder):
    """Copies the parts of the tree in COPIED, without caches."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)


def run_tests(folder, tests):
    """(whether a test failed, seconds). Raises RuntimeError when no test ran."""
    environment = dict(
        os.environ, PYTHONPATH=str(folder), JAX_ENABLE_X64="1", JSKETCH_DEFAULT_FLAGS="0"
    )
    environment.setdefault("XLA_FLAGS", QUICK)
    command = [sys.executable, "-m", "pytest", *OPTIONS, *tests.split()]
    began = time.perf_counter()
    try:
        options = dict(cwd=folder, env=environment, timeout=60 * TIMEOUT_MINUTES)
        process = subprocess.run(command, capture_output=True, text=True, **options)
    except subprocess.TimeoutExpired:
        return True, time.perf_counter() - began
    if process.returncode not in (0, 1):
        raise RuntimeError(
            f"pytest could not run {tests}:\n{process.stdout[-2000:]}{process.stderr[-2000:]}"
        )
    return process.returncode == 1, time.perf_counter() - began


def outcome(folder, mutation):
    """(outcome, seconds) of one mutation. The outcome is "killed", "equivalent" or "SURVIVED". The
    file in the copy is restored."""
    path = folder / mutation["file"]
    text = path.read_text()
    if text.count(mutation["old"]) != 1:
        raise SystemExit(
            f"{mutation['file']} must contain this text exactly once: {mutation['old']}"
        )
    path.write_text(text.replace(mutation["old"], mutation["new"]))
    try:
        failed, seconds = run_tests(folder, mutation["tests"])
    finally:
        path.write_text(text)
    if failed:
        return "killed", seconds
    return ("equivalent" if "survives" in mutation else "SURVIVED"), seconds


def main():
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("scripts/mutate", description=__doc__, formatter_class=layout)
    parser.add_argument(
        "--only", default="", help="a word in the file or description of a mutation"
    )
    word = parser.parse_args().only
    mutations = tomllib.loads(MUTATIONS.read_text())["mutation"]
    chosen = [m for m in mutations if word in f"{m['file']} {m['what']}"]
    if not chosen:
        raise SystemExit(f"no file or description of a mutation contains {word!r}.")
    print("| file | mutation | tests | outcome | seconds |\n|---|---|---|---|---|", flush=True)
    counts = {"killed": 0, "equivalent": 0, "SURVIVED": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_tree(folder)
        for m in chosen:
            result, seconds = outcome(folder, m)
            counts[result] += 1
            tests = m["tests"].replace("tests/", "")
            reason = f": {m['survives']}" if result == "equivalent" else ""
            row = (m["file"], m["what"], tests, result + reason, f"{seconds:.0f}")
            print("|", " | ".join(row), "|", flush=True)
    print("; ".join(f"{count} {result}" for result, count in counts.items()))
    sys.exit(counts["SURVIVED"] > 0)


if __name__ == "__main__":
    main()

"""Makes small faults in a copy of the library, one at a time, and runs the tests that call the
faulty function, until one fails. A fault that no test detects is a gap of the tests.

    scripts/mutate                                     3 faults in each file of jsketch
    scripts/mutate jsketch/sketch --count 20           20 faults in each file of a folder
    scripts/mutate jsketch/search.py::ascend --all     every fault in a function
    scripts/mutate 'jsketch/search.py::ascend::sign#1' one fault again

Prints the faults that are not detected, and then a Markdown table with a row for each file. Exits
with status 1 if a fault survives that settings.toml does not list as equivalent, if no test calls a
faulty function, or if a test detects a listed fault.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

# the scripts set PYTHONSAFEPATH, which excludes this folder from the path
sys.path.insert(0, str(Path(__file__).parent))

from mutants import instrumented, mutants, sample

ROOT = Path(__file__).parents[2]
COPIED = ("jsketch", "experiments", "tests", "scripts", "docs", "pyproject.toml", "README.md")
SESSION = str(Path(__file__).with_name("session.py"))
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
# the module in which instrumented files note the functions that a test calls
HITS = "SEEN = set()\nadd, clear = SEEN.add, SEEN.clear\n"
# A mutant may loop forever. One that takes this many times the time of the recorded tests, and a
# minute for the start, counts as detected.
SLOWDOWN, START_SECONDS = 5, 60
NO_TEST_RAN = 5  # an exit status of pytest
# what may become of a fault; "untested": no test calls the function; "listed": a test detects it
# although it is listed as equivalent
OUTCOMES = ("detected", "equivalent", "survived", "untested", "listed")
FAILURES = ("survived", "untested", "listed")


def settings():
    """(arguments of pytest by prefix of a file, reasons by identity of an equivalent mutant)."""
    tables = tomllib.loads(Path(__file__).with_name("settings.toml").read_text())
    return tables["tests"], tables["equivalent"]


def arguments_for(file, table):
    """The arguments of pytest for a file: those of the longest prefix of its name in the table."""
    prefixes = [prefix for prefix in table if file.startswith(prefix)]
    if not prefixes:
        raise SystemExit(f"[tests] of settings.toml has no row for {file}.")
    return table[max(prefixes, key=len)]


def copy_tree(folder):
    """Copies the parts of the tree in COPIED, without caches."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)


def python(folder, arguments, limit=None, **variables):
    """(exit status, output) of Python in a folder. The status is None after `limit` seconds."""
    environment = dict(
        os.environ, PYTHONPATH=str(folder), JAX_ENABLE_X64="1", JSKETCH_DEFAULT_FLAGS="0"
    )
    environment.setdefault("XLA_FLAGS", QUICK)
    options = dict(cwd=folder, env=environment | variables, stdin=subprocess.DEVNULL, text=True)
    output = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    with subprocess.Popen([sys.executable, *arguments], **options, **output) as process:
        try:
            said = process.communicate(timeout=limit)[0]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            # tests may have started processes as well
            os.killpg(process.pid, signal.SIGKILL)
            return None, ""


def record(folder, sources, arguments):
    """{test: (seconds, called functions)} of the tests that pass in a copy of the tree.

    Each file of tests has a process of its own, because programs that are already compiled call no
    function of the library.
    """
    (folder / "mutation_hits.py").write_text(HITS)
    for file, source in sources.items():
        (folder / file).write_text(instrumented(file, source))
    output, recorded = folder / "recorded.json", {}
    for argument in _files_of_tests(folder, arguments):
        output.unlink(missing_ok=True)
        status, said = python(folder, [SESSION, "record", str(output), argument])
        tests = json.loads(output.read_text()) if output.exists() else {}
        if not tests and status not in (0, NO_TEST_RAN):
            raise SystemExit(f"No test of {argument} passes without a fault:\n{said[-2000:]}")
        recorded |= tests
    for file, source in sources.items():
        (folder / file).write_text(source)
    return recorded


def _files_of_tests(folder, arguments):
    """The arguments, with the files of each folder in its place."""
    found = {}
    for argument in arguments:
        paths = (folder / argument).rglob("test_*.py") if (folder / argument).is_dir() else ()
        names = sorted(path.relative_to(folder).as_posix() for path in paths)
        found |= dict.fromkeys(names or [argument])
    return list(found)


def chosen_tests(mutant, recorded, arguments):
    """The recorded tests that can detect a mutant, in the order in which they run.

    First come those that call its function, and the quick ones among them. The other tests of these
    files follow, because they may use results or compiled programs of the first ones. For a
    mutation outside of functions, the functions of its file take the place of its function.
    """

    def calls(test):
        places = recorded[test][1]
        if mutant.in_function:
            return mutant.place in places
        return any(place.startswith(f"{mutant.file}::") for place in places)

    known = [test for test in recorded if test.startswith(tuple(arguments))]
    callers = {test for test in known if calls(test)}
    files = {test.partition("::")[0] for test in callers}
    near = [test for test in known if test.partition("::")[0] in files]
    return sorted(near, key=lambda test: (test not in callers, recorded[test][0]))


def survives(folder, mutant, source, tests, seconds):
    """Whether the tests pass in a copy of the tree with the mutant. The copy is restored."""
    chosen = folder / "chosen_tests.txt"
    chosen.write_text("\n".join(tests) + "\n")
    path = folder / mutant.file
    path.write_text(mutant.apply(source))
    try:
        limit = START_SECONDS + SLOWDOWN * seconds
        command = [SESSION, "run", str(chosen)]
        status, said = python(folder, command, limit, PYTHONDONTWRITEBYTECODE="1")
    finally:
        path.write_text(source)
    if status == NO_TEST_RAN:
        raise SystemExit(f"pytest could not run the tests of {mutant.identity}:\n{said[-2000:]}")
    return status == 0


def outcome(folder, mutant, source, tests, seconds, equivalent):
    """One of OUTCOMES. The tests take `seconds` without a fault."""
    passed = not tests or survives(folder, mutant, source, tests, seconds)
    if mutant.identity in equivalent:
        return "equivalent" if passed else "listed"
    if not tests:
        return "untested"
    return "survived" if passed else "detected"


class File(NamedTuple):
    """A file of the library and its faults."""

    name: str
    source: str
    total: int  # the number of faults of which `chosen` is a sample
    chosen: list
    arguments: list  # of pytest


def matches(identity, names):
    """Whether a fault is in one of the folders, files, classes or functions, or is one of them."""
    ends = ("/", "::", ".", "#")
    return any(
        identity == name or identity.startswith(tuple(name.rstrip("/") + end for end in ends))
        for name in names
    )


def choose(names, count, seed, table):
    """The `File`s of the library that have faults with these names. Each has a sample of `count`
    faults, or all of them if `count` is None."""
    files = []
    for path in sorted((ROOT / "jsketch").rglob("*.py")):
        file, source = path.relative_to(ROOT).as_posix(), path.read_text()
        found = [mutant for mutant in mutants(file, source) if matches(mutant.identity, names)]
        if found:
            chosen = found if count is None else sample(found, count, seed)
            files.append(File(file, source, len(found), chosen, arguments_for(file, table)))
    if not files:
        raise SystemExit(f"No fault has the name {' or '.join(names)}.")
    return files


def row(file, counts, minutes):
    """A line of the table."""
    numbers = (file.total, len(file.chosen), *(counts[kind] for kind in OUTCOMES))
    return f"| {file.name} | {' | '.join(map(str, numbers))} | {minutes:.1f} |"


def run(files, equivalent, n_workers, folder):
    """Runs the tests of all chosen faults in copies of the tree under `folder`, and prints what
    becomes of them. Returns whether all are detected or equivalent."""
    first = folder / "0"
    copy_tree(first)
    began = time.perf_counter()
    sources = {file.name: file.source for file in files}
    arguments = sorted({argument for file in files for argument in file.arguments})
    recorded = record(first, sources, arguments)
    minutes = (time.perf_counter() - began) / 60
    print(f"{len(recorded)} tests without a fault took {minutes:.1f} minutes.", flush=True)

    copies = SimpleQueue()
    for i in range(n_workers):
        # the copies have the compiled programs of the recorded tests, too
        copies.put(shutil.copytree(first, folder / str(i)) if i else first)

    def run_one(file, mutant):
        tests = chosen_tests(mutant, recorded, file.arguments)
        seconds = sum(recorded[test][0] for test in tests)
        copied = copies.get()
        try:
            return outcome(copied, mutant, file.source, tests, seconds, equivalent)
        finally:
            copies.put(copied)

    rows, good = [], True
    with ThreadPoolExecutor(n_workers) as pool:
        for file in files:
            began, counts = time.perf_counter(), Counter()
            results = pool.map(partial(run_one, file), file.chosen)
            for mutant, result in zip(file.chosen, results, strict=True):
                counts[result] += 1
                good = good and result not in FAILURES
                if result != "detected":
                    reason = f": {equivalent[mutant.identity]}" if result == "equivalent" else ""
                    print(f"{result}: {mutant}{reason}", flush=True)
            rows.append(row(file, counts, (time.perf_counter() - began) / 60))
            print(f"{counts['detected']} of {len(file.chosen)} detected in {file.name}", flush=True)
    columns = ("file", "faults", "chosen", *OUTCOMES, "minutes")
    print("", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows, sep="\n")
    return good


def main():
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("scripts/mutate", description=__doc__, formatter_class=layout)
    words = "a folder, a file, FILE::FUNCTION, or FILE::FUNCTION::OPERATOR#N; by default jsketch"
    parser.add_argument("names", nargs="*", default=["jsketch"], metavar="name", help=words)
    parser.add_argument("--count", type=int, default=3, help="faults in each file (default: 3)")
    parser.add_argument("--all", action="store_true", help="all faults")
    words = "the seed that chooses the faults (default: 0)"
    parser.add_argument("--seed", type=int, default=0, help=words)
    words = "processes that run tests (default: 1)"
    parser.add_argument("--workers", type=int, default=1, help=words)
    options = parser.parse_args()
    table, equivalent = settings()
    count = None if options.all else options.count
    files = choose(options.names, count, options.seed, table)
    with tempfile.TemporaryDirectory() as folder:
        good = run(files, equivalent, options.workers, Path(folder))
    sys.exit(not good)


if __name__ == "__main__":
    main()

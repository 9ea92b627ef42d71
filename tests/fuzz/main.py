"""Random problems against the oracles, from the command line.

    scripts/fuzz                             300 problems of each kind, like those of the tests
    scripts/fuzz --long --count 700          hard ones too (near-duplicates, regularizations down to
                                             1e-8), of all shapes
    scripts/fuzz arms --long --first 138 --count 1     one problem again
    scripts/fuzz sheets --count 2000         2,000 tables, as files of all formats

Prints the checks that failed; if there are any, the status is 1. A seed determines its problem.
"""

import argparse
import importlib
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

import jax

KINDS = ("arms", "streams", "boxes", "sheets")
PROGRESS = 100  # problems between two lines of progress; each line also clears JAX's caches
# the scripts set PYTHONSAFEPATH, which excludes this folder from the path
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]


def main():
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("scripts/fuzz", description=__doc__, formatter_class=layout)
    words = "arms, streams, boxes, sheets; by default all"
    parser.add_argument("kinds", nargs="*", default=KINDS, metavar="kind", help=words)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=300, help="seeds of each kind")
    words = "all algorithms and shapes, and hard problems"
    parser.add_argument("--long", action="store_true", help=words)
    options = parser.parse_args()
    unknown = set(options.kinds) - set(KINDS)
    if unknown or options.count < 1 or options.first < 0:
        parser.error(f"kinds are {', '.join(KINDS)}, --count is at least 1 and --first at least 0.")
    # most of the time is compilation, and tiny problems need no optimized machine code
    os.environ.setdefault("JSKETCH_DEFAULT_FLAGS", "0")
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    )
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    warnings.simplefilter("ignore")  # small regularizations are intended, and warned of
    seeds = dict(count=options.count, first=options.first)
    reports = [campaign(kind, options.long, **seeds) for kind in options.kinds]
    sys.exit(any(report.failures for report in reports))


def campaign(kind, long, count, first=0):
    """Checks `count` problems of one kind, from the seed `first` on, and returns the report."""
    check = importlib.import_module(kind).check
    report, start = importlib.import_module("report").Report(), time.perf_counter()
    for seed in range(first, first + count):
        n_printed = len(report.failures)
        try:
            check(seed, report, long)
        except Exception:
            report.failures.append(f"{report.problem}: {traceback.format_exc()}")
        for failure in report.failures[n_printed:]:
            print("FAILED", failure, flush=True)
        n_done, seconds = seed - first + 1, time.perf_counter() - start
        if n_done % PROGRESS == 0:
            print(f"{kind}: {n_done} problems, {seconds:.0f} s", flush=True)
            jax.clear_caches()
    n_checks, skipped = sum(report.checks.values()), dict(report.skipped)
    print(
        f"{kind}: {count} problems, {n_checks} checks of {len(report.checks)} kinds,"
        f" {len(report.failures)} failures, not compared: {skipped or 'none'}, {seconds:.0f} s",
        flush=True,
    )
    return report


if __name__ == "__main__":
    main()

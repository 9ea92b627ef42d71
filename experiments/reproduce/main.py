"""Runs all experiments of the four papers and beyond them, one after the other, and builds the
report of them.

    scripts/reproduce --dry-run      # the plan alone
    scripts/reproduce --quick        # each at a tiny size, in reproduced/: minutes
    scripts/reproduce                # what is missing in results/: hours on 2 cores
    scripts/reproduce --out again    # all of it in another folder: a day and more

The commands are those of the papers' READMEs, with --out in place of results/. What is there is
skipped; what was killed resumes with the same command. A command that fails stops no other one:
failures are listed at the end, with exit status 1. What needs data that are absent is not run, and
says so. The output of each command is in runs/reproduce.log of its folder.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from experiments import cli, commands
from experiments.data import datasets
from experiments.reproduce import needs, plan, quick, running
from experiments.reproduce.plan import Step
from experiments.results import files, store

RESULTS = commands.ROOT / "results"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = cli.parser(__doc__, prog="scripts/reproduce")
    parser.add_argument(
        "--quick", action="store_true", help="a tiny size of each: figures, but no findings"
    )
    parser.add_argument(
        "--only", nargs="+", choices=commands.PAPERS, default=commands.PAPERS, metavar="PAPER"
    )
    parser.add_argument(
        "--out", type=Path, help="folder of all results (default: results/; reproduced/ if --quick)"
    )
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and end")
    options = parser.parse_args(arguments)
    out = options.out or (Path("reproduced") if options.quick else RESULTS)
    options.out = out.expanduser().resolve()
    if options.quick and options.out.is_relative_to(RESULTS):
        parser.error(f"--quick runs are no results: --out must not lie in {RESULTS.name}/")
    return options


def planned(options: argparse.Namespace) -> list[Step]:
    """Raises FileNotFoundError for a data folder that was asked for and does not exist."""
    found = [
        quick.shrunk(command) if options.quick else command
        for paper in commands.PAPERS
        if paper in options.only
        for command in commands.of_paper(paper)
    ]
    data = datasets.find_folder(options.data_dir).resolve()
    return plan.steps(found, options.out, data, options.quick)


def changes(options: argparse.Namespace) -> dict[str, str]:
    """Environment variables of the commands."""
    found = {}
    if options.data_dir is not None:
        found["JSKETCH_DATA"] = str(options.data_dir.expanduser().resolve())
    if options.quick and "XLA_FLAGS" not in os.environ:
        found["XLA_FLAGS"] = quick.XLA_FLAGS
    return found


def run_step(step: Step, options: argparse.Namespace) -> str:
    """Runs a command; why it failed, or an empty text."""
    ended, started = step.folder / "runs" / plan.ENDED, time.monotonic()
    command = step.command
    try:
        files.check_folder(step.folder / "runs")
        ended.unlink(missing_ok=True)
        arguments = ("-m", command.module, *command.arguments)
        status = running.run(arguments, step.log, changes(options))
    except (OSError, ValueError) as error:
        return cli.sentence(error)
    if status:
        return running.reason(status, step.log)
    store.write_json(ended, dict(command=command.text(), seconds=time.monotonic() - started))
    return ""


def run_all(steps: list[Step], options: argparse.Namespace) -> tuple[dict[str, str], ...]:
    """Runs what is to be run; ({folder: why it failed}, {folder: why it was not run})."""
    failed: dict[str, str] = {}
    left = {s.command.folder: f"{s.state}: {s.note}" for s in steps if not s.runs and s.note}
    todo = [step for step in steps if step.runs]
    for number, step in enumerate(todo, 1):
        folder = step.command.folder
        place = f"[{number} of {len(todo)}] {folder}"
        # another process may have made it since
        if plan.finished(step.folder):
            print(f"{place}: {plan.THERE}", flush=True)
            continue
        print(f"{place}: running; its output: {plan.shown(step.log)}", flush=True)
        started = time.monotonic()
        why = run_step(step, options)
        took = plan.duration(time.monotonic() - started)
        print(f"    {f'FAILED after {took}: {why}' if why else f'done in {took}'}", flush=True)
        absent = needs.missing(step.command, datasets.find_folder(options.data_dir)) if why else []
        if absent:
            left[folder] = f"{plan.ABSENT}: {why}"
        elif why:
            failed[folder] = why
    return failed, left


def report(options: argparse.Namespace) -> bool:
    """Builds the report of the results; whether that failed."""
    page = Path("report").resolve() if options.out == RESULTS else options.out / "report"
    arguments = ["-m", "experiments.report.main", "--results", str(options.out)]
    notice = ("--notice", quick.NOTICE) if options.quick else ()
    print("\nThe report:", flush=True)
    return running.run((*arguments, "--out", str(page), *notice), None, {}) != 0


def listed(title: str, found: dict[str, str]) -> None:
    if found:
        print(f"\n{title}")
        for folder, why in found.items():
            print(f"  {folder}: {why}")


@cli.line
def main() -> None:
    options = parse()
    steps = planned(options)
    print(plan.text(steps, options.out))
    if options.dry_run:
        return
    files.check_folder(options.out)
    # a kill ends the running command too, as Ctrl-C does
    signal.signal(signal.SIGTERM, _terminated)
    print(flush=True)
    failed, left = run_all(steps, options)
    if report(options):
        failed["report"] = "the report could not be built; the reason is above"
    listed("Not run:", left)
    listed("FAILED (the same command tries them again):", failed)
    if failed:
        raise SystemExit(1)


def _terminated(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()

"""Runs all experiments of the four papers and beyond them, one after the other, and builds their
report.

    scripts/reproduce --dry-run      # prints the plan
    scripts/reproduce --quick        # each at a tiny size, in reproduced/: minutes
    scripts/reproduce                # the results that are missing in results/: hours on 2 cores
    scripts/reproduce --out again    # all results in another folder: more than a day
    scripts/reproduce --figure bbkb:2 go_ucb:3   # the commands of some figures of the papers

The commands are those of the papers' READMEs, with --out in place of results/. Finished commands
are skipped, and interrupted ones resume. If a command fails, the others still run, and the exit
status is 1. The output of each command is in runs/reproduce.log of its folder.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments import cli, commands
from experiments.commands import Command
from experiments.data import datasets
from experiments.reproduce import needs, quick
from experiments.results import files, outputs, store, tidy

RESULTS = commands.ROOT / "results"
FINISHED, RUN, RESUME, NOT_RUN = "finished", "to run", "to resume", "not run"
# in runs/ of a folder; a log without a record belongs to an interrupted command
LOG, RECORD = "reproduce.log", "reproduced.json"


class Step(NamedTuple):
    """A command and its state."""

    command: Command  # with --out in the folder of all results
    folder: Path
    state: str
    note: str  # why the command does not run, or the files that it downloads

    @property
    def log(self) -> Path:
        return self.folder / "runs" / LOG


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = cli.parser(__doc__, prog="scripts/reproduce", data_dir=None)
    parser.add_argument("--quick", action="store_true", help="run at a tiny size, as a test")
    cli.add_choices(parser, "--only", commands.PAPERS, help="papers (default: all)")
    figure_help = "figures whose commands run, such as bbkb:2 (default: all)"
    parser.add_argument(
        "--figure", nargs="+", type=figure, metavar="PAPER:NUMBER", help=figure_help
    )
    out_help = "folder of all results (default: results/; reproduced/ if --quick)"
    parser.add_argument("--out", type=Path, help=out_help)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and end")
    options = parser.parse_args(arguments)
    out = options.out or (Path("reproduced") if options.quick else RESULTS)
    options.out = out.expanduser().resolve()
    if options.quick and options.out.is_relative_to(RESULTS):
        parser.error(f"--quick runs are no results: --out must not lie in {RESULTS.name}/")
    return options


def figure(text: str) -> tuple[str, int]:
    """The paper and the figure, ("bbkb_2020", 2) for "bbkb:2". The `type` of an option."""
    name, _, number = text.partition(":")
    figures = {
        paper.rpartition("_")[0]: {n for c in commands.paper_commands(paper) for n in c.figures}
        for paper in commands.PAPERS
        if "_" in paper
    }
    if not number.isdecimal() or int(number) not in figures.get(name, ()):
        listed = (f"{paper}:{n}" for paper, numbers in figures.items() for n in sorted(numbers))
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(listed)}; {text!r} was given")
    return next(paper for paper in commands.PAPERS if paper.startswith(f"{name}_")), int(number)


def plan(options: argparse.Namespace) -> list[Step]:
    """The commands of the papers with their states. Raises FileNotFoundError when --data-dir does
    not exist."""
    data = datasets.find_folder(options.data_dir).resolve()
    steps = []
    for paper in commands.PAPERS:
        for command in commands.paper_commands(paper) if paper in options.only else ():
            figures = {(paper, number) for number in command.figures}
            if options.figure and not figures & set(options.figure):
                continue
            folder = options.out / command.folder
            if options.quick:
                command = quick.shrink(command)
            state, note = state_and_note(command, folder, data)
            steps.append(Step(command.with_results_in(options.out), folder, state, note))
    return steps


def state_and_note(command: Command, folder: Path, data: Path) -> tuple[str, str]:
    """The fields `state` and `note` of a step."""
    if is_finished(folder):
        return FINISHED, ""
    if commands.PLACEHOLDER in command.arguments:
        return NOT_RUN, f"{commands.PLACEHOLDER} is a checkout of the authors' code, see the README"
    packages = needs.missing_packages(command)
    if packages:
        return NOT_RUN, f"it needs packages: pip install {' '.join(packages)}"
    missing = needs.missing(command, data)
    unavailable = [file.filename for file in missing if not file.url]
    if unavailable:
        names = ", ".join(unavailable)
        return NOT_RUN, f"{names} cannot be downloaded and is not in the data folder"
    note = f"downloads {', '.join(file.filename for file in missing)}" if missing else ""
    return (RESUME if outputs.record_path(folder).exists() else RUN), note


def is_finished(folder: Path) -> bool:
    """Whether the folder has its summary, and the command was not interrupted after writing it."""
    runs = folder / "runs"
    interrupted = (runs / LOG).exists() and not (runs / RECORD).exists()
    return (folder / tidy.PROVENANCE).exists() and not interrupted


def print_plan(steps: list[Step], root: Path) -> None:
    paper = None
    path = Path(sys.executable)
    python = str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    for step in steps:
        if step.command.paper != paper:
            paper = step.command.paper
            print(f"\n{paper}")
        note = f"; {step.note}" if step.note else ""
        print(f"  {step.command.folder}: {step.state}{note}\n      {step.command.text(python)}")
    counts = Counter(step.state for step in steps)
    states = [f"{counts[name]} {name}" for name in (FINISHED, RESUME, RUN, NOT_RUN) if counts[name]]
    print(f"\n{len(steps)} commands, results in {root}: {', '.join(states)}.", flush=True)


def execute(arguments: Sequence[str], log: Path | None, environment: Mapping[str, str]) -> int:
    """Runs `python` with the arguments in the root of the repository, with its output in the file
    `log`, and returns the exit status. environment: additional environment variables."""
    command, variables = [sys.executable, *arguments], os.environ | environment
    if log is None:
        return subprocess.run(command, cwd=commands.ROOT, env=variables).returncode
    with log.open("wb") as output:
        streams: dict[str, Any] = dict(stdout=output, stderr=subprocess.STDOUT)
        streams["stdin"] = subprocess.DEVNULL
        return subprocess.run(command, cwd=commands.ROOT, env=variables, **streams).returncode


def run_step(step: Step, options: argparse.Namespace) -> str:
    """Runs a command. Returns why it fails, or an empty text if it succeeds."""
    environment = {}
    if options.data_dir is not None:
        environment["JSKETCH_DATA"] = str(options.data_dir.expanduser().resolve())
    if options.quick and "XLA_FLAGS" not in os.environ:
        environment["XLA_FLAGS"] = quick.XLA_FLAGS
    record, start = step.folder / "runs" / RECORD, time.monotonic()
    command = step.command
    try:
        files.check_folder(step.folder / "runs")
        record.unlink(missing_ok=True)
        status = execute(("-m", command.module, *command.arguments), step.log, environment)
    except (OSError, ValueError) as error:
        return cli.sentence(error)
    if status:
        return reason(status, step.log)
    store.write_json(record, dict(command=command.text(), seconds=time.monotonic() - start))
    return ""


def reason(status: int, log: Path) -> str:
    """Why a command failed: the signal that ended it, or the last line of its output."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    lines = log.read_text(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return last.removeprefix("error: ") or f"exit status {status}"


def run_all(steps: list[Step], options: argparse.Namespace) -> tuple[dict[str, str], ...]:
    """Runs the commands. Returns two dicts {folder: reason}: of the commands that fail, and of
    those that do not run."""
    failed: dict[str, str] = {}
    skipped = {step.command.folder: step.note for step in steps if step.state == NOT_RUN}
    todo = [step for step in steps if step.state in (RUN, RESUME)]
    for number, step in enumerate(todo, 1):
        folder = step.command.folder
        if is_finished(step.folder):  # another process may have finished it since the plan
            continue
        place = f"[{number} of {len(todo)}] {folder}"
        print(f"{place}: running, with its output in {step.log}", flush=True)
        began = time.monotonic()
        why = run_step(step, options)
        took = f"{time.monotonic() - began:,.0f} s"
        if why and needs.missing(step.command, datasets.find_folder(options.data_dir)):
            skipped[folder] = why
            print(f"    not run, because its data are absent ({took})", flush=True)
        elif why:
            failed[folder] = why
            print(f"    FAILED after {took}: {why}", flush=True)
        else:
            names = ", ".join(path.name for path in sorted(step.folder.glob("*.png")))
            drawn = f": {names} in {step.folder}" if names else ""
            print(f"    done in {took}{drawn}", flush=True)
    return failed, skipped


@cli.command
def main() -> None:
    options = parse()
    steps = plan(options)
    print_plan(steps, options.out)
    if options.dry_run:
        return
    files.check_folder(options.out)
    try:
        failed, skipped = run_all(steps, options)
    except KeyboardInterrupt:
        n_finished = sum(is_finished(step.folder) for step in steps)
        raise KeyboardInterrupt(
            f"{n_finished} of {len(steps)} commands are finished. The same command makes the"
            " others, and resumes the one that was interrupted."
        ) from None
    page = Path("report").resolve() if options.out == RESULTS else options.out / "report"
    notice = ("--notice", quick.NOTICE) if options.quick else ()
    arguments = ("--results", str(options.out), "--out", str(page), *notice)
    print("\nThe report:", flush=True)
    # without a log and without additional variables
    if execute(("-m", "experiments.report.main", *arguments), None, {}):
        failed["report"] = "the report could not be built; the reason is above"
    for title, reasons in (("Not run:", skipped), ("FAILED (run the command again):", failed)):
        if reasons:
            lines = (f"{folder}: {why}" for folder, why in reasons.items())
            print(f"\n{title}", *lines, sep="\n  ")
    if failed:
        raise SystemExit(1)

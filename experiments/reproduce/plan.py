"""What is there, what is to be run, and how long it took last time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from experiments.commands import PAPERS, PLACEHOLDER, ROOT, Command
from experiments.reproduce import needs
from experiments.results import outputs, store, tidy

THERE, RUN, RESUME = "there already", "to run", "unfinished, resumes"
ABSENT, READERS = "not run: data absent", "not run"
LOG, ENDED = "reproduce.log", "reproduced.json"  # in runs/ of a folder


class Step(NamedTuple):
    """A command, and what is to become of it."""

    command: Command  # with --out in the folder of all results
    folder: Path
    state: str
    note: str  # why it is not run, or what it downloads
    seconds: float | None  # of the last run
    whole: bool  # whether those are of the whole command

    @property
    def log(self) -> Path:
        return self.folder / "runs" / LOG

    @property
    def runs(self) -> bool:
        return self.state in (RUN, RESUME)


def steps(commands: list[Command], root: Path, data: Path, quick: bool) -> list[Step]:
    """The plan for the commands with results below `root` and data in the folder `data`."""
    return [_step(command, root, data, quick) for command in commands]


def _step(command: Command, root: Path, data: Path, quick: bool) -> Step:
    folder = root / command.folder
    state, note = _state(command, folder, data)
    ended = folder / "runs" / ENDED
    seconds, whole = _number(_read(ended).get("seconds")), True
    # a tiny run takes no longer than the others do
    if seconds is None and not quick:
        # what is committed says how long it took, wherever it is made again
        there = folder if (folder / tidy.PROVENANCE).exists() else ROOT / "results" / command.folder
        seconds, whole = recorded_seconds(_read(there / tidy.PROVENANCE)) or None, False
    return Step(command.into(root), folder, state, note, seconds, whole)


def _state(command: Command, folder: Path, data: Path) -> tuple[str, str]:
    if finished(folder):
        return THERE, ""
    if PLACEHOLDER in command.arguments:
        return READERS, f"{PLACEHOLDER} is a checkout of the authors' code, see the README"
    packages = needs.missing_packages(command)
    if packages:
        return READERS, f"it needs packages: pip install {' '.join(packages)}"
    lacking = needs.missing(command, data)
    gone = [file.name for file in lacking if not file.url]
    if gone:
        return ABSENT, f"{', '.join(gone)} cannot be downloaded and is not in the data folder"
    note = f"downloads {', '.join(file.name for file in lacking)}" if lacking else ""
    return (RESUME if outputs.record_path(folder).exists() else RUN), note


def finished(folder: Path) -> bool:
    """Whether the results are there: a summary, and no run of this script that was cut short while
    it drew the figures."""
    runs = folder / "runs"
    cut_short = (runs / LOG).exists() and not (runs / ENDED).exists()
    return (folder / tidy.PROVENANCE).exists() and not cut_short


def recorded_seconds(found: Any, seeds: float = 1) -> float:
    """The seconds that a summary records for its runs, added up; 0 where it records none."""
    if not isinstance(found, dict):
        return 0.0
    seeds = _number(found.get("seeds")) or seeds
    per_seed = _number(found.get("run_seconds")) or _number(found.get("seconds_per_seed"))
    once = None if per_seed else _number(found.get("seconds"))
    if per_seed or once:
        return (per_seed or 0) * seeds + (once or 0) + (_number(found.get("compile_seconds")) or 0)
    return sum(recorded_seconds(value, seeds) for value in found.values())


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _read(path: Path) -> dict[str, Any]:
    """Empty where there is nothing that can be read: a time is shown or not."""
    try:
        return store.read_json(path)
    except (OSError, ValueError):
        return {}


def duration(seconds: float) -> str:
    """Such as 8 s, 12 min or 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def shown(path: Path) -> Path:
    """Relative to where the reader is."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def text(plan: list[Step], root: Path) -> str:
    """The plan as it is printed: for each paper its commands, with what becomes of them."""
    lines = []
    for paper in PAPERS:
        of_paper = [step for step in plan if step.command.paper == paper]
        lines += [f"\n{paper}  (experiments/{paper}/README.md)"] if of_paper else []
        for step in of_paper:
            words = [step.state]
            words += [step.note] if step.note else []
            if step.seconds is not None:
                what = "took" if step.whole else "its runs took"
                words.append(f"{what} {duration(step.seconds)}")
            lines.append(f"  {step.command.folder}: {'; '.join(words)}")
            lines.append(f"      {step.command.text().replace(str(root), str(shown(root)))}")
    counts = [
        f"{sum(step.state == state for step in plan)} {state}"
        for state in (THERE, RESUME, RUN, ABSENT, READERS)
        if any(step.state == state for step in plan)
    ]
    lines.append(f"\n{len(plan)} commands, results in {shown(root)}: {', '.join(counts)}.")
    return "\n".join(lines)

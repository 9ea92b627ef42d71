"""The commands that make the results of the papers, read from the code blocks of their READMEs.

`scripts/reproduce` runs them, and `scripts/report` shows them with the figures.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path(__file__).resolve().parents[1]
# folders under results/; "beyond" has the methods that are not in the four papers, "tables" the
# comparisons with other packages
PAPERS = ("bkb_2019", "bbkb_2020", "go_ucb_2023", "pkawv_2019", "beyond", "tables")
EXPERIMENTS = {"beyond": "contrib"}  # {paper: folder under experiments/} where the names differ
RESULTS = "results/"  # every --out in a README begins with it
PLACEHOLDER = "DIR"  # stands for a checkout of the authors' code


class Command(NamedTuple):
    """`python -m module arguments`, which writes its results to one folder."""

    folder: str  # under results/, for example "bbkb_2020/abalone"
    module: str  # for example "experiments.bbkb_2020.regret"
    arguments: tuple[str, ...]
    figures: tuple[int, ...] = ()  # figures of the paper, from the comment beside or above it

    @property
    def paper(self) -> str:
        return self.folder.split("/")[0]

    def with_results_in(self, root: Path | str) -> Self:
        """The same command with `root` in place of results/."""
        arguments = (
            str(Path(root) / argument.removeprefix(RESULTS))
            if argument.startswith(RESULTS)
            else argument
            for argument in self.arguments
        )
        return self._replace(arguments=tuple(arguments))

    def text(self, python: str = "python") -> str:
        """The command as a line for the shell."""
        return shlex.join((python, "-m", self.module, *self.arguments))

    def values(self, option: str) -> tuple[str, ...]:
        """The values of an option; empty if it is not given."""
        if option not in self.arguments:
            return ()
        rest = self.arguments[self.arguments.index(option) + 1 :]
        ends = (i for i, word in enumerate(rest) if word.startswith("--"))
        return rest[: next(ends, len(rest))]


def parse_commands(text: str) -> list[Command]:
    """The commands in the code blocks of a README, in their order, that have an --out under
    results/. A backslash continues a line. Raises ValueError for two commands with one --out."""
    commands: dict[str, Command] = {}
    figures_above: tuple[int, ...] = ()
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.startswith("#"):
            figures_above = figures_in(line)
        if not line.strip().startswith("python -m experiments."):
            continue
        _, _, module, *arguments = shlex.split(line, comments=True)
        figures_beside = figures_in(line.partition("#")[2])
        command = Command("", module, tuple(arguments), figures_beside or figures_above)
        out = next(iter(command.values("--out")), "")
        folder = out.removeprefix(RESULTS)
        if folder == out:
            continue
        if folder in commands:
            raise ValueError(f"two commands write their results to {out}.")
        commands[folder] = command._replace(folder=folder)
    return list(commands.values())


def figures_in(comment: str) -> tuple[int, ...]:
    """The numbers of figures in a comment: (3, 4, 5) for "Figures 3 to 5"."""
    numbers: set[int] = set()
    for first, word, last in re.findall(r"Figures? (\d+)(?: (to|and) (\d+))?", comment):
        ends = int(first), int(last or first)
        numbers |= set(range(ends[0], ends[1] + 1)) if word == "to" else set(ends)
    return tuple(sorted(numbers))


def paper_commands(paper: str) -> list[Command]:
    """The commands in the README of a paper."""
    folder = ROOT / "experiments" / EXPERIMENTS.get(paper, paper)
    return parse_commands((folder / "README.md").read_text())


def commands_by_folder() -> dict[str, Command]:
    """The commands of all papers, by their folders under results/."""
    return {command.folder: command for paper in PAPERS for command in paper_commands(paper)}

"""Runs figures and tables of the papers, each of which is one file.

    scripts/reproduce                     # lists them, with the minutes that each took
    scripts/reproduce bbkb:1              # runs, draws and judges Figure 1 of BBKB, in reproduced/
    scripts/reproduce bbkb:1 --quick      # a tiny run, as a test
    scripts/reproduce bbkb:1 --saved      # draws and judges the saved results in results/
    scripts/reproduce bbkb:1 --seeds 3 --out again --workers 2
    scripts/reproduce all --quick

An interrupted command resumes when it is repeated. `python -m experiments.bbkb_2020.fig1_regret`
is the same command.
"""

import argparse
import ast
import importlib
import re
from pathlib import Path

from experiments import cli, common


def registry() -> dict[str, Path]:
    """{name: file} of all figures: "bbkb:1" for each number in bbkb_2020/fig1_regret.py, and
    "bbkb:widths" for a file without a number."""
    found: dict[str, Path] = {}
    for file in sorted(Path(__file__).parent.glob("*/*.py")):
        if "common.main(__file__)" not in file.read_text():
            continue
        name, _, year = file.parent.name.rpartition("_")
        paper = name if year.isdecimal() else file.parent.name
        numbered = re.match(r"fig((?:\d+_)*\d+)", file.stem)
        numbers = numbered[1].split("_") if numbered else [file.stem]
        found |= {f"{paper}:{number}": file for number in numbers}
    return found


def module(file: Path) -> str:
    """The module of a figure's file."""
    return ".".join(file.resolve().relative_to(common.ROOT).with_suffix("").parts)


def print_list() -> None:
    """Prints the name, the minutes and the title of each figure."""
    names: dict[Path, list[str]] = {}
    for name, file in registry().items():
        names.setdefault(file, []).append(name)
    print(f"{'name':28}{'minutes':>12}  title")
    for file, aliases in names.items():
        folders = importlib.import_module(module(file)).RUNS
        took = [common.minutes(common.RESULTS / folder) for folder in folders]
        measured = sum(minutes for minutes in took if minutes is not None)
        text = f"{measured:,.0f}" if None not in took else f"{measured:,.0f} + ?"
        if set(took) == {None}:
            text = "not measured"
        title = (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()[0]
        print(f"{' '.join(aliases):28}{text:>12}  {title}")
    print(
        "\nminutes of the commands that made results/, or the sum over the runs of a command that"
        " was not timed; + ?: some folders were not run or not timed"
    )


def parse(arguments: list[str] | None = None) -> tuple[list[Path], common.Options]:
    """The figures that a command line names, and its options."""
    parser = cli.parser(__doc__, prog="scripts/reproduce")
    known = registry()

    def figure(text: str) -> str:
        if text != "all" and text not in known:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of all, {', '.join(known)}")
        return text

    parser.add_argument("figures", nargs="*", type=figure, metavar="FIGURE", help="PAPER:NUMBER")
    common.add_options(parser)
    given = parser.parse_args(arguments)
    names = list(known) if "all" in given.figures else given.figures
    return list(dict.fromkeys(known[name] for name in names)), common.options_of(parser, given)


@cli.command
def main() -> None:
    files, options = parse()
    if not files:
        print_list()
    failed = []
    cli.set_up_jax()  # before the figures' modules make arrays
    for file in files:
        print(f"== {module(file)}", flush=True)
        try:
            common.make(importlib.import_module(module(file)), options)
        except (ValueError, OSError) as error:
            if len(files) == 1:
                raise
            failed.append(f"{module(file)}: {cli.sentence(error)}")
    if failed:
        print("\nFAILED (run the command again):", *failed, sep="\n  ")
        raise SystemExit(1)

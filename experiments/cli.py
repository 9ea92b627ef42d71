"""Functions for all command lines: parsers with shared options, the setup of JAX, progress bars,
and error messages without a traceback.

A script makes its parser with `parser`, adds options to it (some of them with `add_choices`), and
reads them with `parse` or `parse_benchmark`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from jsketch.suggest.tables import command_line
from jsketch.suggest.tables.command_line import check_new, set_up_jax

count, positive, sentence = command_line.count, command_line.positive, command_line.sentence
_SHARED: dict[str, dict[str, Any]] = {
    "seeds": dict(type=count, help="number of seeds (default %(default)s)"),
    "horizon": dict(type=count, help="evaluations of a run (default %(default)s)"),
    "repeats": dict(type=count, help="timed runs after an untimed one (default %(default)s)"),
    "data_dir": dict(type=Path, help="folder of the data sets"),
    "first_seed": dict(type=int, help="the first seed (default %(default)s)"),
    "limit": dict(type=count, help="number of examples, from the first on (default: all)"),
    "reference": dict(type=Path, help="checkout of the authors' code"),
    "workers": dict(
        type=count,
        help="processes, one thread each; 1 is this process, with all cores (default %(default)s)",
    ),
}


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Decorates the `main` of a script as `command_line.command` does, and calls it if its module
    is the program (`python -m`). `main` must therefore be the last function of its module."""
    wrapped = command_line.command(main)
    if main.__module__ == "__main__":
        wrapped()
    return wrapped


def parser(
    description: str | None, prog: str | None = None, **defaults: Any
) -> argparse.ArgumentParser:
    """A parser with those options of _SHARED to which `defaults` gives a default:
    parser(doc, seeds=10, data_dir=None) has --seeds and --data-dir. Its help shows the description,
    which is the docstring of a module, with its line breaks."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=prog, description=description, formatter_class=layout)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, **_SHARED[name])
    return parser


def add_choices(
    parser: argparse.ArgumentParser,
    option: str,
    choices: Sequence[str],
    default: Sequence[str] | None = None,
    help: str | None = None,
) -> None:
    """Adds an option that takes one or more of the choices; the default is all of them."""
    chosen = list(choices if default is None else default)
    parser.add_argument(option, nargs="+", choices=list(choices), default=chosen, help=help)


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of an experiment, to which --out, --overwrite and --keep are added for its folder
    of results (`results.outputs`). Also sets up JAX."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--overwrite", action="store_true", help="replace other results in --out")
    group.add_argument("--keep", action="store_true", help="reuse the runs of another commit")
    options = parser.parse_args()
    set_up_jax()
    return options


def parse_benchmark(parser: argparse.ArgumentParser, cached: bool = False) -> argparse.Namespace:
    """The options of a benchmark, to which --out and --overwrite are added for its JSON file
    (`results.store.write_numbers`). Also sets up JAX, with a compilation cache if `cached`. Raises
    ValueError or OSError if the file cannot be written."""
    parser.add_argument("--out", type=Path, help="write the numbers to this JSON file")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    options = parser.parse_args()
    check_new(options.out, options.overwrite)
    set_up_jax(cached)
    return options


def import_from(folder: Path, file: str, repository: str) -> None:
    """Adds a checkout of authors' code to the import path. Raises FileNotFoundError if the folder
    does not contain `file`."""
    if not (folder / file).exists():
        raise FileNotFoundError(
            f"{folder} does not contain {file}: --reference takes a checkout of {repository}."
        )
    sys.path.insert(0, str(folder.resolve()))


def progress(total: int, done: int = 0, unit: str = "runs", name: str | None = None) -> Any:
    """A progress bar (tqdm) on the standard error, or `Lines` if that is no terminal.

    total: number of units of work; done: number of units that an earlier session finished.
    """
    if not sys.stderr.isatty():
        return Lines(total, done, unit, name)
    from tqdm import tqdm

    # 12k for large numbers
    scale = total >= 1_000
    return tqdm(total=total, initial=done, unit=f" {unit}", unit_scale=scale, desc=name)


class Lines:
    """A progress bar for a file of output: a line after each tenth of the work."""

    def __init__(self, total: int, done: int, unit: str, name: str | None):
        self.total, self.n, self.unit = total, done, unit
        self.prefix = f"{name}: " if name else ""
        self.start_time = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, n: int) -> None:
        before, self.n = self.n, self.n + n
        if 10 * self.n // self.total > 10 * before // self.total:
            seconds = time.monotonic() - self.start_time
            line = f"{self.prefix}{self.n:,} of {self.total:,} {self.unit} after {seconds:,.0f} s"
            print(line, file=sys.stderr, flush=True)

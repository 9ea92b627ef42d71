"""Functions for all command lines: parsers with shared options, the setup of JAX, progress bars,
and error messages without a traceback.

A script makes its parser with `parser`, adds options to it (some of them with `add_choices`), and
reads them with `parse` or `parse_benchmark`.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jsketch.suggest.tables import command_line
from jsketch.suggest.tables.command_line import check_new, set_up_jax

count, positive, sentence = command_line.count, command_line.positive, command_line.sentence
WORKERS = "threads for the runs (default 1); several may compute wrong numbers with jaxlib 0.10.2"
LOG_INTERVAL = 30.0  # seconds between two lines of progress in a file
_SHARED: dict[str, dict[str, Any]] = {
    "seeds": dict(type=count, help="number of seeds (default %(default)s)"),
    "horizon": dict(type=count, help="evaluations of a run (default %(default)s)"),
    "repeats": dict(type=count, help="timed runs after an untimed one (default %(default)s)"),
    "data_dir": dict(type=Path, help="folder of the data sets"),
    "first_seed": dict(type=int, help="the first seed (default %(default)s)"),
    "limit": dict(type=count, help="number of examples, from the first on (default: all)"),
    "reference": dict(type=Path, help="checkout of the authors' code"),
    "workers": dict(type=count, help=WORKERS),
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


def progress(total: int, done: int = 0, unit: str = "run", name: str | None = None) -> Any:
    """A progress bar (tqdm) on the standard error. If the standard error is not a terminal, one
    line is written every LOG_INTERVAL seconds.

    total: number of units of work; done: number of units that an earlier session finished.
    """
    from tqdm import tqdm

    is_terminal = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=done,
        unit=unit,
        unit_scale=total >= 1_000,  # 12k for large numbers
        desc=name,
        mininterval=0.1 if is_terminal else LOG_INTERVAL,
        # tqdm's monitor thread refreshes the bar at this interval
        maxinterval=10.0 if is_terminal else 2 * LOG_INTERVAL,
    )

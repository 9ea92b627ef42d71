"""Functions for all command lines: parsers with shared options, the setup of JAX, progress bars,
and error messages without a traceback.

A script makes its parser with `parser`, and adds the options that several scripts have with
`add_shared`, `add_choices`, `add_out_folder` or `add_out_file`.
"""

import argparse
import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

INTERRUPTED = 130  # the exit status that shells report after Ctrl-C
TRACEBACK = "JSKETCH_TRACEBACK"
LOG_INTERVAL = 30.0  # seconds between two lines of progress in a file


def parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """A parser whose help shows the description, the docstring of a module, line by line."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=prog, description=description, formatter_class=form)


def count(text: str) -> int:
    """An integer of at least 1, as the `type` of an option."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; {number} was given")
    return number


def positive(text: str) -> float:
    """A finite number above 0, as the `type` of an option."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a finite number above 0; {text} was given")
    return number


_SHARED: dict[str, dict[str, Any]] = {
    "seeds": dict(type=count, help="number of seeds (default %(default)s)"),
    "horizon": dict(type=count, help="evaluations of a run (default %(default)s)"),
    "repeats": dict(type=count, help="timed runs, after one that compiles (default %(default)s)"),
    "data_dir": dict(type=Path, help="folder of the data sets"),
}


def add_shared(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    """Adds options that several scripts share, each with its default:
    add_shared(parser, seeds=10, data_dir=None) adds --seeds and --data-dir. The options are seeds,
    horizon, repeats and data_dir."""
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, **_SHARED[name])


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


def add_out_folder(parser: argparse.ArgumentParser) -> None:
    """Adds --out, --overwrite and --keep of an experiment (`results.outputs`)."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    finished = parser.add_mutually_exclusive_group()
    finished.add_argument(
        "--overwrite", action="store_true", help="replace other results in that folder"
    )
    finished.add_argument(
        "--keep",
        action="store_true",
        help="resume with runs of another commit, if nothing else differs",
    )


def add_out_file(parser: argparse.ArgumentParser) -> None:
    """Adds --out and --overwrite of a benchmark (`results.files.check_new`)."""
    parser.add_argument("--out", type=Path, help="write the numbers to this JSON file")
    parser.add_argument("--overwrite", action="store_true", help="replace that file")


def import_from(folder: Path, file: str, repository: str) -> None:
    """Adds a checkout of authors' code to the import path. Raises FileNotFoundError if the folder
    does not contain `file`."""
    if not (folder / file).exists():
        raise FileNotFoundError(
            f"{folder} does not contain {file}: --reference takes a checkout of {repository}."
        )
    sys.path.insert(0, str(folder.resolve()))


def progress(total: int, done: int = 0, unit: str = "run", name: str | None = None) -> Any:
    """A progress bar (tqdm) on the standard error. When that is not a terminal, a line is written
    every LOG_INTERVAL seconds, because a file keeps every update.

    total: number of units of work; done: number of units that an earlier session finished.
    """
    from tqdm import tqdm

    terminal = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=done,
        unit=unit,
        unit_scale=total >= 1_000,  # 12k for large numbers
        desc=name,
        mininterval=0.1 if terminal else LOG_INTERVAL,
        # tqdm's monitor thread refreshes the bar at this interval
        maxinterval=10.0 if terminal else 2 * LOG_INTERVAL,
    )


def set_up_jax(cached: bool = True) -> None:
    """Enables float64 and, if `cached`, a persistent cache of compiled programs in the user's cache
    folder. Benchmarks that time the compilation do not use the cache.
    """
    # scripts that compute nothing start faster without importing JAX
    import jax

    jax.config.update("jax_enable_x64", True)
    if cached:
        import pooch

        jax.config.update("jax_compilation_cache_dir", str(pooch.os_cache("jsketch") / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Decorates the `main` of a script.

    Errors that users can correct (ValueError, OSError, FloatingPointError of a run that diverges,
    MemoryError) become SystemExit("error: ..."), with exit status 1. Ctrl-C becomes exit status
    130. Any other exception is a fault of the program and keeps its traceback; with
    JSKETCH_TRACEBACK=1 in the environment all errors do.
    """

    @functools.wraps(main)
    def wrapper() -> None:
        try:
            main()
        except KeyboardInterrupt:
            print("\ninterrupted", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None
        except (ValueError, OSError, FloatingPointError, MemoryError) as error:
            if os.environ.get(TRACEBACK):
                raise
            raise SystemExit(f"error: {sentence(error)}") from error

    return wrapper


def sentence(error: BaseException) -> str:
    """The message of an exception on one line; for errors of the system, its text and the file."""
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    elif isinstance(error, MemoryError):
        text = f"there is not enough memory. {error}"
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())

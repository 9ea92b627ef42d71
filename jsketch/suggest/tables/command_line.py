"""Functions for command lines: types of options, the setup of JAX, errors without a traceback, and
checks that files can be written.

The module imports no package until it needs one, so that a command answers `--help` at once."""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

INTERRUPTED = 130  # the exit status that shells report after Ctrl-C
TRACEBACK = "JSKETCH_TRACEBACK"
PROBE = bytes(4096)  # the content of the temporary file of `probe`

Number = TypeVar("Number", int, float)


def number_type(
    kind: Callable[[str], Number], is_valid: Callable[[Number], bool], valid: str
) -> Callable[[str], Number]:
    """The `type` of an option whose value is a valid number; `valid` describes such numbers."""

    def convert(text: str) -> Number:
        number = kind(text)
        if not is_valid(number):
            raise argparse.ArgumentTypeError(f"must be {valid}; {text} was given")
        return number

    convert.__name__ = getattr(kind, "__name__", "number")  # the name in messages
    return convert


count = number_type(int, lambda n: n >= 1, "at least 1")
positive = number_type(float, lambda x: 0 < x < math.inf, "a finite number above 0")


def set_up_jax(cached: bool = True) -> None:
    """Enables float64 and, with `cached`, a folder of compiled programs, from which a second run of
    a command loads them."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if cached:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("jsketch")) / "compiled"
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Decorates the `main` of a script.

    Errors that users can correct (ValueError, OSError, FloatingPointError of a run that diverges,
    MemoryError) become SystemExit("error: ..."), which is exit status 1, and Ctrl-C becomes exit
    status 130. Other exceptions are faults of the program and keep their traceback; with
    JSKETCH_TRACEBACK=1 in the environment all errors keep it.
    """

    @functools.wraps(main)
    def wrapper() -> None:
        try:
            main()
        except KeyboardInterrupt as interrupt:
            # the message names the results that are saved
            print(f"\ninterrupted{f': {interrupt}' if interrupt.args else ''}", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None
        except (ValueError, OSError, FloatingPointError, MemoryError) as error:
            if os.environ.get(TRACEBACK):
                raise
            raise SystemExit(f"error: {sentence(error)}") from error

    return wrapper


def sentence(error: BaseException) -> str:
    """The message of an exception on one line; for an OSError, its text and the file."""
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    elif isinstance(error, MemoryError):
        text = f"there is not enough memory. {error}"
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())


def check_writable(path: Path) -> None:
    """Raises ValueError or OSError unless a file can be written at `path`."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; the name of a file is needed.")
    if path.exists() and not path.is_file():  # a device or a pipe
        return
    parent = Path(os.path.realpath(path)).parent
    if not parent.is_dir():
        raise ValueError(f"{path} cannot be written: its folder does not exist.")
    probe(parent)


def check_new(path: Path | None, overwrite: bool) -> None:
    """Calls `check_writable`, and raises ValueError for an existing file without `overwrite`. A
    path of None is accepted."""
    if path is None:
        return
    check_writable(path)
    if path.is_file() and not overwrite:
        raise ValueError(f"{path} exists: name another file, or use --overwrite to replace it.")


def probe(folder: Path) -> None:
    """Writes a temporary file, which is the only test for missing permissions and full disks."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(PROBE)
    except OSError as error:
        from jsketch.loops.saving import error_at

        raise error_at(folder, error) from error

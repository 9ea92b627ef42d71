"""What all command lines share: their options, how jax is set up, and how they end.

They end with 0, or 1 and a sentence, or 130 after Ctrl-C; without a traceback.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.results import files

# seconds that compiled code and threads, which no exception reaches, have to end after Ctrl-C
GRACE = 3.0
INTERRUPTED = 128 + signal.SIGINT  # what a shell expects
TRACEBACK = "JSKETCH_TRACEBACK"
LOG_INTERVAL = 30.0  # seconds between two lines of progress in a file
_said = threading.Event()


def parser(description: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """A parser whose help shows the description, the docstring of a module, line by line."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=prog, description=description, formatter_class=form)


def count(text: str) -> int:
    """A whole number of at least 1, as the `type` of an option; argparse says which option it was
    that is not."""
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


def add_out_folder(parser: argparse.ArgumentParser) -> None:
    """--out, --overwrite and --keep of an experiment (`results.outputs`)."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    finished = parser.add_mutually_exclusive_group()
    finished.add_argument(
        "--overwrite", action="store_true", help="replace other results in that folder"
    )
    finished.add_argument(
        "--keep",
        action="store_true",
        help="resume with runs of another commit, where nothing else differs",
    )


def add_out_file(parser: argparse.ArgumentParser) -> None:
    """--out and --overwrite of a benchmark (`results.files.check_new`)."""
    parser.add_argument("--out", type=Path, help="write the numbers to this JSON file")
    parser.add_argument("--overwrite", action="store_true", help="replace that file")


def progress(total: int, done: int = 0, unit: str = "run", name: str | None = None) -> Any:
    """A progress bar (tqdm) on the standard error; into a file or a pipe, where every update would
    be kept as text, it writes a line in LOG_INTERVAL seconds.

    total: units of the whole work; done: those of an earlier session.
    """
    from tqdm import tqdm

    watched = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=done,
        unit=unit,
        # large numbers are read easier as 12k; 3 of 5 runs stay as they are
        unit_scale=total >= 1_000,
        desc=name,
        mininterval=0.1 if watched else LOG_INTERVAL,
        # a thread of its own asks for a line that often
        maxinterval=10.0 if watched else 2 * LOG_INTERVAL,
    )


def set_up_jax(cached: bool = True) -> None:
    """Float64 for all experiments, and compiled programs that are kept on disk between processes,
    in a per-user folder: a second run compiles nothing. cached: False where compilation is timed.
    """
    # command lines that compute nothing start without it
    import jax

    jax.config.update("jax_enable_x64", True)
    if cached:
        import pooch

        jax.config.update("jax_compilation_cache_dir", str(pooch.os_cache("jsketch") / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def line(main: Callable[[], None]) -> Callable[[], None]:
    """Decorates the `main` of a command line.

    What users can mend (ValueError, OSError, FloatingPointError of a run that diverges,
    MemoryError) becomes SystemExit("error: ..."), status 1; Ctrl-C becomes SystemExit(130).
    JSKETCH_TRACEBACK=1 in the environment shows where an error came from. Any other exception is a
    fault of the program and keeps its traceback.
    """

    @functools.wraps(main)
    def ended() -> None:
        if main.__module__ == "__main__":
            _watch_for_interrupts()
        try:
            main()
            # a full disk under a redirected output shows here
            sys.stdout.flush()
        except KeyboardInterrupt:
            _say_interrupted()
            raise SystemExit(INTERRUPTED) from None
        except (ValueError, OSError, FloatingPointError, MemoryError) as error:
            if os.environ.get(TRACEBACK):
                raise
            if main.__module__ == "__main__":
                _drop_unwritten_output()
            raise SystemExit(f"error: {sentence(error)}") from error

    return ended


def sentence(error: BaseException) -> str:
    """What an exception says, on one line; of the system's errors the words and the file."""
    if isinstance(error, OSError) and error.strerror:
        words = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    elif isinstance(error, MemoryError):
        words = f"there is not enough memory. {error}"
    else:
        words = str(error) or type(error).__name__
    return " ".join(words.split())


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Processes that are started within ignore Ctrl-C, which a terminal sends to all of them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _watch_for_interrupts() -> None:
    """Ctrl-C raises KeyboardInterrupt in the main thread, and ends the process after GRACE seconds
    if that does not: a compiled program, or a pool that waits for its threads, would run on for
    minutes."""
    # while packages were loaded
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # the number of each signal, at once
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_interrupt, args=(reader,), daemon=True).start()


def _end_after_interrupt(reader: int) -> None:
    while os.read(reader, 1)[0] != signal.SIGINT:
        pass
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    time.sleep(GRACE)
    for child in multiprocessing.active_children():
        child.kill()
    files.remove_parts()
    _say_interrupted()
    os._exit(INTERRUPTED)


def _say_interrupted() -> None:
    """Once, whichever thread comes first."""
    if not _said.is_set():
        _said.set()
        print("\ninterrupted", file=sys.stderr, flush=True)


def _drop_unwritten_output() -> None:
    """Whatever cannot be written to the standard output would be tried again, and reported, while
    Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""Command lines: exit statuses, messages of errors, and the files that they write."""

import errno
import os
import sys

import pytest

from experiments import cli
from jsketch.suggest.tables import command_line, results
from jsketch.suggest.tables import main as suggest


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("--seeds must be\n  at least 1"), "error: --seeds must be at least 1"),
        (OSError(errno.ENOSPC, "No space left on device"), "error: No space left on device"),
        (NotADirectoryError(errno.ENOTDIR, "No directory", "a/b"), "error: No directory: a/b"),
        (FileNotFoundError("there is no folder a"), "error: there is no folder a"),
        (FloatingPointError("the run stopped"), "error: the run stopped"),
        (MemoryError("8 TiB"), "error: there is not enough memory. 8 TiB"),
        (ValueError(), "error: ValueError"),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_of_the_user_end_with_one_line(error, code, monkeypatch):
    @cli.command
    def main():
        raise error

    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    monkeypatch.setenv(command_line.TRACEBACK, "1")
    if isinstance(error, Exception):
        with pytest.raises(type(error)):
            main()


def test_suggest_on_a_full_disk_fails_before_it_computes(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "suggest", pytest.fail)
    monkeypatch.setattr(
        command_line,
        "probe",
        lambda folder: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(28), "x")),
    )
    monkeypatch.setattr(sys, "argv", ["suggest", "none.csv", "--out", str(tmp_path / "n.csv")])
    with pytest.raises(SystemExit, match="error: No space left on device: x"):
        suggest.main()
    assert list(tmp_path.iterdir()) == []

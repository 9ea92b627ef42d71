"""Errors of command lines, atomic replacement of files, and damaged files."""

import errno
import os
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from experiments import cli
from experiments.results import files, store, tidy
from jsketch.suggest.tables import command_line, results
from jsketch.suggest.tables import main as suggest


def file_names(folder):
    return sorted(path.name for path in folder.iterdir())


def raise_full_disk(dir):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(dir / "tmp123"))


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
def test_an_error_ends_a_command_with_one_line(error, code, monkeypatch):
    @cli.command
    def main():
        raise error

    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == code
    monkeypatch.setenv(command_line.TRACEBACK, "1")
    if isinstance(error, Exception):
        with pytest.raises(type(error)):
            main()


def test_suggest_on_a_full_disk_fails_before_it_computes(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "suggest", pytest.fail)
    monkeypatch.setattr(tempfile, "TemporaryFile", raise_full_disk)
    monkeypatch.setattr(sys, "argv", ["suggest", "none.csv", "--out", str(tmp_path / "n.csv")])
    with pytest.raises(SystemExit, match=f"error: No space left on device: {tmp_path}"):
        suggest.main()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, step, error
):
    path = tmp_path / "a.json"
    store.write_json(path, 1)

    def fail(*arguments):
        raise error

    monkeypatch.setattr(step, fail)
    with pytest.raises(type(error)) as error_info:
        store.write_json(path, 2)
    monkeypatch.undo()
    assert path.read_text() == "1\n" and file_names(tmp_path) == ["a.json"]
    if isinstance(error, OSError):  # the error of fsync itself names no file
        assert error_info.value.filename == str(path)


def test_links_and_modes_of_files_are_kept(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "a.csv", tmp_path / "a.csv"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    command_line.check_writable(link)
    files.write(link, b"new")
    assert link.is_symlink() and target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert file_names(tmp_path) == ["a.csv", "real"] and file_names(tmp_path / "real") == ["a.csv"]
    files.write(tmp_path / "b", b"")
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o666 & ~umask


def test_devices_are_not_replaced():
    command_line.check_writable(Path("/dev/null"))
    files.write(Path("/dev/null"), b"x")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        files.write(Path("/dev/full"), b"x")


def test_paths_that_cannot_be_written_are_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file", tmp_path / "file" / "a" / "b"):
        with pytest.raises(ValueError, match=r"--out names a folder; .*/file is a file"):
            files.check_folder(path)
    (tmp_path / "dangling").symlink_to(tmp_path / "no" / "a.json")
    for path in (tmp_path / "no" / "a.json", tmp_path / "dangling"):
        with pytest.raises(ValueError, match="cannot be written: its folder does not exist"):
            command_line.check_writable(path)
    with pytest.raises(ValueError, match="is a folder; the name of a file is needed"):
        command_line.check_writable(tmp_path)
    command_line.check_new(None, False)
    command_line.check_new(tmp_path / "new.json", False)
    command_line.check_new(tmp_path / "file", True)
    with pytest.raises(ValueError, match="file exists: .* --overwrite"):
        command_line.check_new(tmp_path / "file", False)
    files.check_folder(tmp_path / "a" / "b")
    assert (tmp_path / "file").read_text() == "kept" and file_names(tmp_path / "a" / "b") == []
    # the error names the folder, and not the temporary file in it
    monkeypatch.setattr(tempfile, "TemporaryFile", raise_full_disk)
    for check in (
        files.check_folder,
        lambda folder: command_line.check_writable(folder / "a.json"),
    ):
        with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
            check(tmp_path)


def test_files_without_a_checksum_are_read(tmp_path):
    """Older results have no checksum. pandas reads the files that have one."""
    (tmp_path / "a.json").write_text('{"seeds": 3}')
    assert store.read_json(tmp_path / "a.json") == dict(seeds=3)
    table = pd.DataFrame(dict(t=[1, 2], value=[0.5, 0.25]))
    table.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(tidy.read_table(tmp_path / "a.parquet"), table)
    tidy.write_table(tmp_path / "b.parquet", table)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "b.parquet"), table)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000 + b"]" * 100_000])
def test_damaged_json_is_refused(tmp_path, content):
    """Deep nesting ends in a RecursionError, which is not a ValueError."""
    path = tmp_path / "runs" / "bkb.json"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ValueError, match="bkb.json is damaged"):
        store.read_json(path)
    with pytest.raises(ValueError, match="bkb.json is damaged .* how the runs of bkb were made"):
        store.record_configuration(tmp_path, "bkb", {})

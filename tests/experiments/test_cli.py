"""Command lines: how they end, which options they share, and how they write files."""

import ast
import errno
import os
import sys
import time
from pathlib import Path

import pytest

from experiments import cli
from jsketch import command_line
from jsketch.suggest.tables import main as suggest

SOURCES = list((Path(__file__).parents[2] / "experiments").rglob("*.py"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("--seeds must be\n  at least 1"), "error: --seeds must be at least 1"),
        (OSError(errno.ENOSPC, "No space left on device"), "error: No space left on device"),
        (
            NotADirectoryError(errno.ENOTDIR, "Not a directory", "a/b"),
            "error: Not a directory: a/b",
        ),
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
    monkeypatch.setenv(cli.TRACEBACK, "1")
    if isinstance(error, Exception):
        with pytest.raises(type(error)):
            main()


def test_faults_of_the_program_keep_their_traceback():
    @cli.command
    def main():
        raise KeyError("x")

    with pytest.raises(KeyError):
        main()


def test_shared_options():
    parser = cli.parser("A script.")
    cli.add_shared(parser, seeds=10, data_dir=None)
    cli.add_choices(parser, "--only", ("a", "b"))
    cli.add_choices(parser, "--methods", ("c", "d"), default=["d"])
    options = parser.parse_args([])
    assert vars(options) == dict(seeds=10, data_dir=None, only=["a", "b"], methods=["d"])
    given = ["--seeds", "3", "--data-dir", "x", "--only", "b", "--methods", "c", "d"]
    options = parser.parse_args(given)
    assert vars(options) == dict(seeds=3, data_dir=Path("x"), only=["b"], methods=["c", "d"])
    for refused in (["--seeds", "0"], ["--only", "c"], ["--only"]):
        with pytest.raises(SystemExit):
            parser.parse_args(refused)


def test_every_script_ends_this_way():
    for file in SOURCES:
        tree = ast.parse(file.read_text())
        if any(
            isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body
        ):
            (main,) = (
                node
                for node in tree.body
                if isinstance(node, ast.FunctionDef) and node.name == "main"
            )
            assert [ast.unparse(name) for name in main.decorator_list] == ["cli.command"], file


def test_results_are_written_in_one_way_only():
    """Files are replaced by `files.write`, and tables are written to folders that are locked."""
    for file in SOURCES:
        if file.name == "files.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tidy.write":
                assert file.name in ("outputs.py", "main.py"), f"{file}:{node.lineno}"
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("write_bytes", "write_text", "copyfile"), (
                    f"{file}:{node.lineno}"
                )
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("savefig"):
                assert ast.unparse(node.args[0]) == "buffer", f"{file}:{node.lineno}"


def test_suggest_on_a_full_disk_fails_before_it_computes(tmp_path, monkeypatch):
    monkeypatch.setattr(suggest, "suggest", pytest.fail)
    monkeypatch.setattr(
        command_line,
        "probe",
        lambda folder: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(28), "x")),
    )
    monkeypatch.setattr(sys, "argv", ["suggest", "none.csv", "--out", str(tmp_path / "n.csv")])
    with pytest.raises(SystemExit, match="error: No space left on device: x"):
        suggest.main()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("terminal", "at_most"), [(True, 1_000), (False, 3)])
def test_progress_fills_no_log(terminal, at_most, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with cli.progress(40, done=10, unit="seed", name="bkb") as bar:
        for _ in range(30):
            time.sleep(0.02)
            bar.update()
    lines = [text for text in capsys.readouterr().err.split("\r") if text.strip()]
    assert lines[0].startswith("bkb:  25%") and "40/40" in lines[-1] and "seed" in lines[-1]
    assert len(lines) <= at_most and (len(lines) > 3) == terminal

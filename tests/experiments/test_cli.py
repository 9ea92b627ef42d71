"""How command lines end: a sentence and a status, whatever happens, and nothing half-written after
Ctrl-C."""

import ast
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import cli
from experiments.results import files
from experiments.suggest import main as suggest

ROOT = Path(__file__).parents[2]
LEFT = ()
# in the background of a shell a process ignores Ctrl-C
HEEDS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
BEGIN = f"""{HEEDS}
import os, sys, threading, time
from pathlib import Path
from experiments import cli
from experiments.results import files
from experiments.suggest import main as suggest

cli.GRACE = 0.2
folder = Path(sys.argv[1])

@cli.line
def main():
"""
# what no exception reaches: a thread in the middle of a file, and a pool that waits for it
WRITES = """
    from concurrent.futures import ThreadPoolExecutor

    os.fsync = lambda file: (print("begun", flush=True), time.sleep(60))
    with ThreadPoolExecutor() as pool:
        pool.submit(files.write, folder / "a.json", b"x" * 9).result()
"""
SLEEPS = """
    print("begun", flush=True)
    time.sleep(60)
"""


def started(body, folder):
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + body + "\nmain()", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("body", [SLEEPS, WRITES], ids=["sleeps", "writes"])
def test_ctrl_c_ends_everything_with_a_word(tmp_path, body):
    files.write(tmp_path / "a.json", b"old")
    process = started(body, tmp_path)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=20)
    assert process.returncode == 130 and error == "\ninterrupted\n" and output == ""
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"old"


def test_ctrl_c_while_packages_are_loaded_is_silent():
    """`python -m` imports `experiments` first; then come seconds of other packages."""
    code = (
        f"{HEEDS}\nimport sys; sys.argv = ['-m']\nimport experiments, time\nprint('begun', flush=1)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}\ntime.sleep(60)"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == (b"", b"")
    assert process.returncode == -signal.SIGINT  # 130 in a shell


def test_a_full_disk_under_the_output_is_one_sentence(tmp_path):
    with Path("/dev/full").open("w") as output:
        process = subprocess.run(
            [sys.executable, "-c", BEGIN + "    print('x')\nmain()", str(tmp_path)],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.returncode == 1 and process.stderr == "error: No space left on device\n"


@pytest.mark.parametrize(
    ("error", "said"),
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
def test_what_users_can_mend_gets_a_sentence(error, said, monkeypatch, capsys):
    @cli.line
    def main():
        raise error

    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == said
    monkeypatch.setenv(cli.TRACEBACK, "1")
    if isinstance(error, Exception):
        with pytest.raises(type(error)):
            main()


def test_faults_of_the_program_keep_their_traceback():
    @cli.line
    def main():
        raise KeyError("x")

    with pytest.raises(KeyError):
        main()


def test_every_command_line_ends_this_way():
    for file in (ROOT / "experiments").rglob("*.py"):
        tree = ast.parse(file.read_text())
        if file.name not in LEFT and any(
            isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body
        ):
            (main,) = (
                node
                for node in tree.body
                if isinstance(node, ast.FunctionDef) and node.name == "main"
            )
            assert [ast.unparse(name) for name in main.decorator_list] == ["cli.line"], file


def test_results_are_written_in_one_way_only():
    """No second idea of how a file replaces another one; tables only in folders that are held."""
    for file in (ROOT / "experiments").rglob("*.py"):
        if file.name == "files.py" or file.name in LEFT:
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


def test_suggest_on_a_full_disk_says_so_before_it_computes(tmp_path, monkeypatch):
    monkeypatch.setattr(suggest, "suggest", pytest.fail)
    monkeypatch.setattr(
        files,
        "_probe",
        lambda folder: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(28), "x")),
    )
    monkeypatch.setattr(
        sys, "argv", ["suggest", "--candidates", "none.csv", "--out", str(tmp_path / "n.csv")]
    )
    with pytest.raises(SystemExit, match="error: No space left on device: x"):
        suggest.main()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("watched", "at_most"), [(True, 1_000), (False, 3)])
def test_progress_fills_no_log(watched, at_most, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: watched, raising=False)
    with cli.progress(40, done=10, unit="seed", name="bkb") as bar:
        for _ in range(30):
            time.sleep(0.02)
            bar.update()
    lines = [text for text in capsys.readouterr().err.split("\r") if text.strip()]
    assert lines[0].startswith("bkb:  25%") and "40/40" in lines[-1] and "seed" in lines[-1]
    assert len(lines) <= at_most and (len(lines) > 3) == watched

"""The help of the scripts is printed before anything is installed, and is that of the commands."""

import importlib
import os
import resource
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jsketch

ROOT = Path(__file__).parents[2]
HELP = ROOT / "scripts" / "help"
SCRIPTS = {path.name for path in (ROOT / "scripts").iterdir() if path.is_file() and not path.suffix}
# {script: the module or the file of its command}
COMMANDS = {
    "bench": "experiments.bench.bandits",
    "demo": "experiments.demo",
    "fuzz": "tests/fuzz/main.py",
    "mutate": "tests/mutations/mutate.py",
    "reproduce": "experiments.reproduce",
    "suggest": "jsketch.suggest.tables.main",
    "sweep": "experiments.sweep.main",
}


def test_every_script_has_a_help():
    assert {path.stem for path in HELP.iterdir()} == SCRIPTS == COMMANDS.keys() | {"docs", "test"}
    for name in SCRIPTS:
        script = (ROOT / "scripts" / name).read_text()
        assert "setup_env.sh" in script and COMMANDS.get(name, "").removesuffix(".main") in script
    for name, *options in (("docs", "--small"), ("test", "--python PYTHON", "--slow")):
        script, text = (ROOT / "scripts" / name).read_text(), (HELP / f"{name}.txt").read_text()
        assert all(f'"${{1:-}}" = "{option.split()[0]}"' in script for option in options)
        usage = " ".join(f"[{option}]" for option in options)
        assert text.startswith(f"usage: scripts/{name} {usage} [ARGUMENT ...]\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_is_that_of_the_command(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["x", "--help"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit):
        if COMMANDS[name].endswith(".py"):
            runpy.run_path(str(ROOT / COMMANDS[name]), run_name="__main__")
        else:
            importlib.import_module(COMMANDS[name]).main()
    printed, saved = capsys.readouterr().out, (HELP / f"{name}.txt").read_text()
    # versions of Python break lines in different places
    command = COMMANDS[name] if COMMANDS[name].endswith(".py") else f"-m {COMMANDS[name]}"
    command = command.replace("suggest.tables.main", "suggest.tables")  # it has a __main__.py
    advice = f"COLUMNS=80 .venv/bin/python {command} --help > scripts/help/{name}.txt"
    assert printed.split() == saved.split(), f"after a change of options: {advice}"
    assert saved.startswith(
        f"usage: {'jsketch-suggest' if name == 'suggest' else f'scripts/{name}'} "
    )


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--help"], 0, (HELP / "suggest.txt").read_text()),
        (["--version"], 0, f"jsketch-suggest {jsketch.__version__}"),
        (["sheet.csv", "--batch", "0"], 2, "must be at least 1; 0 was given"),
        (["sheet.csv", "--target", "1", "--minimize"], 2, "are two goals: leave one out"),
    ],
)
def test_options_of_suggest_are_answered_before_packages_are_imported(arguments, status, text):
    """Importing JAX and pandas takes seconds."""
    program = f"""
import sys, jsketch
from jsketch.suggest.tables.main import main
sys.argv = ["jsketch-suggest", *{arguments!r}]
try:
    main()
finally:
    imported = {{"jax", "numpy", "pandas", "matplotlib"}} & sys.modules.keys()
    assert not imported, imported
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "COLUMNS": "80"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == status
    assert " ".join(text.split()) in " ".join((done.stdout + done.stderr).split())


def cpu_seconds_of_processes():
    """Those of the processes that ended; the wall time depends on what else the machine does."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_a_help_needs_no_environment(tmp_path, flag):
    """A copy of the scripts alone, without Python, answers at once and makes nothing."""
    subprocess.run(["cp", "-r", str(ROOT / "scripts"), str(tmp_path / "scripts")], check=True)
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "cat", "dirname"):
        (tools / tool).symlink_to(shutil.which(tool))
    for name in SCRIPTS:
        began = cpu_seconds_of_processes()
        command = ["bash", str(tmp_path / "scripts" / name), flag]
        done = subprocess.run(command, env=dict(PATH=str(tools)), capture_output=True, text=True)
        assert cpu_seconds_of_processes() - began < 0.5 and (done.returncode, done.stderr) == (
            0,
            "",
        )
        assert done.stdout == (HELP / f"{name}.txt").read_text()
    assert sorted(os.listdir(tmp_path)) == ["scripts", "tools"]

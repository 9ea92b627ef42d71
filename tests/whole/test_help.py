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
    for name, option in dict(docs="--small", test="--slow").items():
        script, text = (ROOT / "scripts" / name).read_text(), (HELP / f"{name}.txt").read_text()
        assert f'"${{1:-}}" = "{option}"' in script
        assert text.startswith(f"usage: scripts/{name} [{option}] [ARGUMENT ...]\n")


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
    module = COMMANDS[name].removesuffix(".py").replace("/", ".")
    advice = f"COLUMNS=80 .venv/bin/python -m {module} --help > scripts/help/{name}.txt"
    assert printed.split() == saved.split(), f"after a change of options: {advice}"
    assert saved.startswith(
        f"usage: {'jsketch-suggest' if name == 'suggest' else f'scripts/{name}'} "
    )


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

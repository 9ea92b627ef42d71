"""The README: its code runs in order, its commands run, its links and files exist."""

import re
import shlex
import shutil
import warnings
from pathlib import Path

import jax
import pandas as pd
import pytest

from jsketch.suggest.tables import main as suggest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
EXAMPLE = ROOT / "experiments" / "suggest" / "example"
READMES = [
    file
    for file in ROOT.rglob("README.md")
    if not any(p.startswith(".") for p in file.relative_to(ROOT).parts)
]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.M | re.S)


def test_the_code_runs(tmp_path, monkeypatch, capsys):
    """Block after block; all printed numbers are finite."""
    monkeypatch.chdir(tmp_path)
    names = {}
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="a batch filled its capacity")
        for code in blocks("python"):
            exec(compile(code, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "nan" not in printed
    assert len(names["found"].rows) == 8 and names["runs"].trace.arm.shape == (4, 200)


def test_the_commands_suggest_two_batches(tmp_path, monkeypatch):
    """The pending batch of a copy of the example is not suggested again."""
    for file in EXAMPLE.glob("*.csv"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = [
        shlex.split(line.replace("$E", str(tmp_path)))
        for line in blocks("bash")[0].splitlines()
        if "scripts/suggest" in line
    ]
    for _, *options in commands:
        suggest.run(suggest.parse(options))
    first, second = (pd.read_csv(n)["id"].tolist() for n in ("next.csv", "after.csv"))
    assert len(commands) == 2 and len(set(first + second)) == 16


@pytest.mark.parametrize("file", READMES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_exist(file):
    links = re.findall(r"\]\(([^)#]+)\)", file.read_text())
    missing = [link for link in links if "://" not in link and not (file.parent / link).exists()]
    assert missing == []


def test_files_and_scripts_exist():
    named = set(re.findall(r"`((?:jsketch|experiments|tests|scripts)/[\w/.-]+)", TEXT))
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []

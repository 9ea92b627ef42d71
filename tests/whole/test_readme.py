"""The README and the site: each block of code runs alone and prints the output below it, and the
targets of links exist. `scripts/docs` executes the notebooks."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import pandas as pd
import pytest

from jsketch.suggest.tables.options import parse
from jsketch.suggest.tables.outputs import run as run_command

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# without the notebooks and the generated page
PAGES = [
    file
    for file in (ROOT / "docs").rglob("*.md")
    if file.name != "gallery.md"
    and "_build" not in file.parts
    and "file_format: mystnb" not in file.read_text()
]
FILES_WITH_LINKS = [
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("*.md"),
    *(ROOT / "experiments").rglob("README.md"),
    *(ROOT / "tests").rglob("README.md"),
]


def blocks(text, language="python"):
    """Pairs (code, printed text) of a page. The printed text is in the comments at the end of a
    block, or in a fenced block directly below."""
    matches = re.findall(rf"^```{language}\n(.*?)^```\n(?:```text\n(.*?)^```)?", text, re.M | re.S)
    for code, below in matches:
        comments = re.search(r"((?:^# .*\n)+)\Z", code, re.M)
        yield code, below or (comments[1].replace("# ", "") if comments else "")


@pytest.mark.parametrize(
    ("code", "printed"), [*blocks(README)], ids=["sweep", "run", "function", "law", "stream"]
)
def test_a_block_of_the_readme_runs_in_a_new_process(code, printed, tmp_path):
    """The block has at most 12 lines of code. JAX's default configuration gives no warning."""
    (tmp_path / "block.py").write_text(code)
    # JAX_ENABLE_X64 may be set for the tests, and is not part of the default configuration
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    process = subprocess.run(
        [sys.executable, "block.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert "Warning" not in process.stderr
    assert printed and process.stdout == printed
    assert len([line for line in code.splitlines() if line.strip() and line[0] != "#"]) <= 12


PAGE_BLOCKS = [
    pytest.param(*block, id=f"{file.relative_to(ROOT)}-{number}")
    for file in PAGES
    for number, block in enumerate(blocks(file.read_text()))
]


@pytest.mark.parametrize(("code", "printed"), PAGE_BLOCKS)
def test_a_block_of_the_site_runs_alone(code, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="a batch filled its capacity")
        exec(compile(code, "page", "exec"), {})
    out = capsys.readouterr().out
    assert "nan" not in out
    if printed:
        assert out == printed


def test_the_command_of_the_readme_suggests_a_batch(tmp_path, monkeypatch):
    """Each row of the batch is an unmeasured row of the sheet."""
    monkeypatch.chdir(tmp_path)
    sheet = next(text for text, _ in blocks(README, "text") if text.startswith("Solvent"))
    Path("sheet.csv").write_text(sheet)
    *_, (command, _) = blocks(README, "bash")
    match = re.fullmatch(r'jsketch-suggest (sheet.csv) --value "(.*)" --batch (\d)\n', command)
    run_command(parse([match[1], "--value", match[2], "--batch", match[3]]))
    table, batch = pd.read_csv("sheet.csv"), pd.read_csv("next.csv")
    unmeasured = table[table["Yield (%)"].isna()]
    conditions = ["Solvent", "Temperature (°C)"]
    assert len(batch) == int(match[3]) and batch["Yield (%)"].isna().all()
    assert len(batch.merge(unmeasured[conditions])) == len(batch)


@pytest.mark.parametrize("file", FILES_WITH_LINKS, ids=lambda file: str(file.relative_to(ROOT)))
def test_targets_of_links_exist(file):
    if "_build" in file.parts:
        pytest.skip("built by scripts/docs")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", file.read_text())
    missing = [link for link in links if "://" not in link and not (file.parent / link).exists()]
    # docs/gallery.py writes gallery.md
    assert [link for link in missing if not link.endswith("gallery.md")] == []


def test_files_that_the_text_names_exist():
    text = README + (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:jsketch|experiments|tests|scripts)/[\w/.-]+)", text))
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []

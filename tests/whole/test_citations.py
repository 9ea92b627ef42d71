"""Citations of jsketch/THEORY.md name sections that exist, and THEORY.md names files and functions
that exist."""

import importlib
import operator
import re
from contextlib import suppress
from pathlib import Path

import jsketch

ROOT = Path(__file__).parents[2]
THEORY = (ROOT / "jsketch" / "THEORY.md").read_text()
NUMBER = r"\d+\.\d+"
SECTIONS = set(re.findall(rf"^\*\*({NUMBER}) ", THEORY, flags=re.M))
CITATION = re.compile(rf"THEORY ({NUMBER}(?:(?:, | to | and ){NUMBER})*)")


def test_every_citation_has_its_section():
    cited = 0
    for folder in ("jsketch", "experiments", "tests", "docs"):
        for path in (*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")):
            for words in CITATION.findall(path.read_text()):
                numbers = re.findall(NUMBER, words)
                cited += len(numbers)
                assert set(numbers) <= SECTIONS, f"{path.relative_to(ROOT)} cites THEORY {words}"
    assert cited > 50  # the pattern finds citations


def test_the_table_of_equations_names_files():
    table = THEORY.split("## 11.")[1]
    rows = [row.split("|") for row in table.splitlines() if row.startswith("|")][2:]
    assert len(rows) > 15
    for _, _, numbers, files, _ in rows:
        assert set(re.findall(NUMBER, numbers)) <= SECTIONS
        for name in re.findall(r"`([\w/]+\.py)`", files):
            assert (ROOT / "jsketch" / name).exists() or (ROOT / name).exists(), name


def test_the_text_names_modules_and_functions():
    named = re.findall(
        r"`((?:bandits|box|loops|online|posterior|problems|search|sketch)\.[a-z_.]+)`", THEORY
    )
    assert len(named) > 15
    for name in named:
        package, module = name.split(".")[:2]
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"jsketch.{package}.{module}")
        operator.attrgetter(name)(jsketch)

"""What the code cites exists: sections of jsketch/THEORY.md, and the files that its last table
names."""

import importlib
import operator
import re
from contextlib import suppress
from pathlib import Path

import pytest

import jsketch

ROOT = Path(__file__).parents[2]
THEORY = ROOT / "jsketch" / "THEORY.md"
NUMBER = r"\d+\.\d+"
CITATION = re.compile(rf"THEORY ({NUMBER}(?:(?:, | to | and ){NUMBER})*)")


def sections() -> set[str]:
    return set(re.findall(rf"^\*\*({NUMBER}) ", THEORY.read_text(), flags=re.M))


def sources() -> list[Path]:
    folders = ("jsketch", "experiments", "tests", "scripts")
    found = [
        p
        for folder in folders
        for p in (ROOT / folder).rglob("*")
        if p.suffix in (".py", ".md", "")
    ]
    return [
        p for p in (*found, ROOT / "README.md") if p.is_file() and p not in (THEORY, Path(__file__))
    ]


def test_every_citation_has_its_section():
    known, cited = sections(), 0
    for path in sources():
        for words in CITATION.findall(path.read_text()):
            numbers = re.findall(NUMBER, words)
            cited += len(numbers)
            assert set(numbers) <= known, f"{path.relative_to(ROOT)} cites THEORY {words}"
    assert cited > 50  # a pattern that finds nothing proves nothing
    with pytest.raises(AssertionError):
        assert set(re.findall(NUMBER, CITATION.findall("THEORY 5.4, 99.1")[0])) <= known


def test_nothing_is_cited_that_a_clone_lacks():
    """Notes that are not in the repository were cited once, by other names."""
    for path in sources():
        assert not re.search(
            r"(?<![A-Z/_])theory\.md|design, section|(?<![\w-])C-[PGAB]\d+", path.read_text()
        ), path


def test_the_table_of_equations_names_files():
    table = THEORY.read_text().split("## 11.")[1]
    known = sections()
    rows = [row.split("|") for row in table.splitlines() if row.startswith("|")][2:]
    assert len(rows) > 15
    for _, _, numbers, files, _ in rows:
        assert set(re.findall(NUMBER, numbers)) <= known
        for name in re.findall(r"`([\w/]+\.py)`", files):
            assert (ROOT / "jsketch" / name).exists() or (ROOT / name).exists(), name


def exists(name: str) -> bool:
    """Whether `room.module`, or an attribute of either, is there."""
    room, _, rest = name.partition(".")
    with suppress(ModuleNotFoundError):
        importlib.import_module(f"jsketch.{room}.{rest.partition('.')[0]}")
    try:
        operator.attrgetter(name)(jsketch)
    except AttributeError:
        return False
    return True


def test_the_text_names_modules_and_functions():
    rooms = "bandits|box|loops|online|posterior|problems|search|sketch"
    named = re.findall(rf"`((?:{rooms})\.[a-z_.]+)`", THEORY.read_text())
    assert len(named) > 15
    for name in named:
        assert exists(name), name
    assert not exists("bandits.dozens")

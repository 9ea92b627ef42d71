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


def test_headings_with_equations_name_the_code():
    headings = re.findall(rf"^\*\*{NUMBER} [^(\n]*\(([^)]*)\)", THEORY, flags=re.M)
    equations = [heading for heading in headings if re.search(r"\beqs?\.|Algorithm", heading)]
    assert len(equations) >= 15
    for heading in equations:
        assert re.search(r"`[\w./]+`", heading), heading
        for file in re.findall(r"`([\w/]+\.py)`", heading):
            assert (ROOT / file).exists()


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

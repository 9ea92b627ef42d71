"""The modules that THEORY.md names and its cited sections exist."""

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


def test_cited_sections_of_theory_exist():
    n_cited = 0
    for folder in ("jsketch", "experiments", "tests", "docs"):
        for path in (*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")):
            for words in CITATION.findall(path.read_text()):
                numbers = re.findall(NUMBER, words)
                n_cited += len(numbers)
                assert set(numbers) <= SECTIONS, f"{path.relative_to(ROOT)} cites THEORY {words}"
    assert n_cited > 50  # the pattern finds citations


def test_modules_and_functions_that_theory_names_exist():
    named = re.findall(
        r"`((?:bandits|box|loops|online|posterior|problems|search|sketch)\.[a-z_.]+)`", THEORY
    )
    files = re.findall(r"`([\w/]+\.py)`", THEORY)
    assert len(named) > 15 and [file for file in files if not (ROOT / file).exists()] == []
    for name in named:
        package, module = name.split(".")[:2]
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"jsketch.{package}.{module}")
        operator.attrgetter(name)(jsketch)

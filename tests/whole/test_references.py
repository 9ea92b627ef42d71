"""The modules that THEORY.md names, its cited sections and the texts of mutations exist."""

import importlib
import operator
import re
import tomllib
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


def test_mutations_find_their_texts():
    """Each text occurs once and differs from its replacement, and the named tests exist."""
    wrong = []
    for mutation in tomllib.loads((ROOT / "tests" / "mutations.toml").read_text())["mutation"]:
        count = (ROOT / mutation["file"]).read_text().count(mutation["old"])
        if count != 1 or mutation["new"] == mutation["old"]:
            wrong.append(f"{mutation['file']} holds {count} times: {mutation['old']}")
        for test in mutation["tests"].split():
            path, _, name = test.partition("::")
            if f"def {name.partition('[')[0]}" not in (ROOT / path).read_text():
                wrong.append(f"no test {test} for: {mutation['what']}")
    assert not wrong, "\n".join(wrong)

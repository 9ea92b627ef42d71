"""The faults of scripts/mutate, which tests they meet, and its tables."""

import ast

import pytest
from mutants import instrumented, mutants, sample
from mutate import ROOT, arguments_for, choose, chosen_tests, matches, outcome, record, settings

SOURCE = '''"""A module."""
import jax.numpy as jnp

LIMIT = 8  # "8" in a comment


class Sum:
    """A class."""

    start: float = 0.5

    def add(self, x: "1", é=True):
        """Adds 1."""
        if é and x < 3:
            self.check(x)
        return jnp.where(~x, (self.start +
            x.T), jnp.maximum(x, 0)).at[1].set(-x)


def total(values):
    def square(x):
        return jnp.square(x) / 2 if x else x

    return sum(square(x) for x in values) & LIMIT


def refuse():
    raise ValueError(f"{1 + 1}", 1)
'''
FAULTS = """
module constant#1: 8 -> 9
Sum constant#1: 0.5 -> 1.0
Sum.add constant#1: True -> False
Sum.add condition#1: é and x < 3 -> not (é and x < 3)
Sum.add logic#1: é and x < 3 -> é or x < 3
Sum.add boundary#1: x < 3 -> x <= 3
Sum.add opposite#1: x < 3 -> x >= 3
Sum.add constant#2: 3 -> 4
Sum.add statement#1: self.check(x) -> pass
Sum.add update#1: WHERE.at[1].set(-x) -> WHERE
Sum.add where#1: WHERE -> self.start + x.T
Sum.add where#2: WHERE -> jnp.maximum(x, 0)
Sum.add sign#1: ~x -> x
Sum.add arithmetic#1: self.start + x.T -> self.start - x.T
Sum.add left_operand#1: self.start + x.T -> self.start
Sum.add transpose#1: x.T -> x
Sum.add exchange#1: jnp.maximum(x, 0) -> jnp.minimum(x, 0)
Sum.add unwrap#1: jnp.maximum(x, 0) -> x
Sum.add constant#3: 0 -> 1
Sum.add constant#4: 1 -> 2
Sum.add sign#2: -x -> x
total.square arithmetic#1: jnp.square(x) / 2 -> jnp.square(x) * 2
total.square left_operand#1: jnp.square(x) / 2 -> jnp.square(x)
total.square unwrap#1: jnp.square(x) -> x
total.square constant#1: 2 -> 3
total.square condition#1: x -> not x
total logic#1: SUM & LIMIT -> SUM | LIMIT
total left_operand#1: SUM & LIMIT -> SUM
total exchange#1: SUM -> max((square(x) for x in values))
"""


def test_faults_of_a_source():
    """Each replaces the text of one place, which parses; comments and annotations stay."""
    where = "jnp.where(~x, self.start + x.T, jnp.maximum(x, 0))"
    total = "sum((square(x) for x in values))"
    found = mutants("a.py", SOURCE)
    lines = {f"{m.function} {m.operator}#{m.number}: {m.before} -> {m.after}" for m in found}
    expected = FAULTS.replace("WHERE", where).replace("SUM", total).strip().splitlines()
    assert lines == set(expected) and len(found) == len(expected)
    trees = {ast.dump(ast.parse(m.apply(SOURCE))) for m in found}
    assert len(trees | {ast.dump(ast.parse(SOURCE))}) == len(found) + 1
    assert all('LIMIT = 8  # "8"' in m.apply(SOURCE) for m in found if m.function != "module")


def test_identities_do_not_depend_on_lines():
    moved = SOURCE.replace("LIMIT = 8", "\n# more\nNAME = 'x'\nLIMIT = 8").replace("+\n", "+")
    identities = [[m.identity for m in mutants("a.py", text)] for text in (SOURCE, moved)]
    assert identities[0] == identities[1] and len(set(identities[0])) == len(identities[0])


def test_a_sample_is_reproducible():
    found = mutants("a.py", SOURCE)
    first = sample(found, 8, seed=0)
    assert first == sample(found, 8, seed=0) != sample(found, 8, seed=1)
    assert set(sample(found, 4, seed=0)) < set(first) and len(first) == 8
    assert sample(found, 1000, seed=0) == found


def test_names_choose_faults():
    identity = "jsketch/search.py::Ascent.step::sign#1"
    for name in ("jsketch", "jsketch/", "jsketch/search.py", "jsketch/search.py::Ascent"):
        assert matches(identity, [name]) and matches(identity, [name, "other"])
    for name in ("jsketch/search.py::Ascent.step", "jsketch/search.py::Ascent.step::sign"):
        assert matches(identity, [name]) and not matches(identity + "0", [name + "#1"])
    assert matches(identity, [identity]) and not matches(identity + "0", [identity])
    assert not matches(identity, ["jsketch/sea"])


def test_the_tables_name_files_tests_and_faults_that_exist():
    table, equivalent = settings()
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "jsketch").rglob("*.py")]
    for prefix, arguments in table.items():
        assert any(file.startswith(prefix) for file in files), prefix
        for argument in arguments:
            path, _, test = argument.partition("::")
            assert (ROOT / path).exists(), argument
            assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text() if test else True
    assert all(arguments_for(file, table) for file in files)
    for identity, reason in equivalent.items():
        file = identity.partition("::")[0]
        known = {mutant.identity for mutant in mutants(file, (ROOT / file).read_text())}
        assert identity in known and reason, identity


def test_every_file_of_the_library_can_be_mutated():
    files = choose(["jsketch"], 1, 0, settings()[0])
    assert len(files) > 100
    for file in files:
        (mutant,) = file.chosen
        assert ast.dump(ast.parse(mutant.apply(file.source))) != ast.dump(ast.parse(file.source))
        compile(instrumented(file.name, file.source), file.name, "exec")


SMALL = '''"""Two functions, one of which is tested."""


def clamp(x):
    if x > 9:
        return 9
    return x


def unused(x):
    return x + 1
'''
TESTS = """import pytest
from small import clamp

COMPUTED = []


def test_first():
    COMPUTED.append(clamp(20))
    assert COMPUTED


def test_uses_what_the_first_test_computed():
    assert COMPUTED == [9]


def test_that_fails():
    assert clamp(1) == 2
"""


def test_faults_in_a_small_tree(tmp_path):
    """One is detected by a test that uses a result of another one, and one survives."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_small.py").write_text(TESTS)
    (tmp_path / "small.py").write_text(SMALL)
    recorded = record(tmp_path, {"small.py": SMALL}, ["tests"])
    tests = ["tests/test_small.py::test_first"]
    tests.append("tests/test_small.py::test_uses_what_the_first_test_computed")
    assert sorted(recorded) == tests and (tmp_path / "small.py").read_text() == SMALL
    assert recorded[tests[0]][1] == ["small.py::clamp"] and recorded[tests[1]][1] == []

    def result(fault, equivalent=()):
        (mutant,) = (m for m in mutants("small.py", SMALL) if m.identity.endswith(fault))
        chosen = chosen_tests(mutant, recorded, ["tests"])
        assert chosen == ([] if mutant.function == "unused" else tests)
        return outcome(tmp_path, mutant, SMALL, chosen, 1.0, equivalent), mutant.identity

    assert result("clamp::constant#2")[0] == "detected"
    survived, identity = result("clamp::boundary#1")
    assert survived == "survived" and result("clamp::boundary#1", {identity})[0] == "equivalent"
    assert result("unused::arithmetic#1")[0] == "untested"
    assert result("clamp::opposite#1", {"small.py::clamp::opposite#1"})[0] == "listed"
    assert (tmp_path / "small.py").read_text() == SMALL


@pytest.mark.parametrize("fault", ["raise SystemExit", "while True: pass"])
def test_a_fault_that_ends_the_import_or_never_ends_is_detected(tmp_path, fault, monkeypatch):
    if "while" in fault:
        monkeypatch.setattr("mutate.START_SECONDS", 3)
    (tmp_path / "test_small.py").write_text("import small\n\n\ndef test_it():\n    pass\n")
    (tmp_path / "small.py").write_text("LIMIT = 1\n")
    recorded = record(tmp_path, {"small.py": "LIMIT = 1\n"}, ["test_small.py"])

    class Fault:
        file, identity = "small.py", "fault"

        def apply(source):
            return source + fault

    assert outcome(tmp_path, Fault, "LIMIT = 1\n", list(recorded), 0.1, ()) == "detected"

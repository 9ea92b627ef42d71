"""The table of mutations fits the tree, so that `scripts/mutate` can run all of it."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_mutations_find_their_texts():
    """Each text occurs once and differs from its replacement, and its tests exist."""
    stale = []
    for mutation in tomllib.loads((ROOT / "tests" / "mutations.toml").read_text())["mutation"]:
        count = (ROOT / mutation["file"]).read_text().count(mutation["old"])
        if count != 1 or mutation["new"] == mutation["old"]:
            stale.append(f"{mutation['file']} holds {count} times: {mutation['old']}")
        for test in mutation["tests"].split():
            path, _, name = test.partition("::")
            if f"def {name.partition('[')[0]}" not in (ROOT / path).read_text():
                stale.append(f"no test {test} for: {mutation['what']}")
    assert not stale, "\n".join(stale)

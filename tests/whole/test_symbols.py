"""Every name between backticks on the page for readers of the papers exists."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import jsketch

PAGE = (Path(__file__).parents[2] / "docs" / "symbols.md").read_text()
# a name may be broken at the end of a line of prose, but names of tables are not
IMPORT = "from jsketch.core.posterior import embed"
SPANS = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", PAGE)]


def resolve(name):
    """The object, or the field of a class, that has this name below jsketch. Raises AttributeError
    if there is none."""
    value = jsketch
    for part in name.split("."):
        if part in getattr(value, "__dataclass_fields__", {}):
            value = value.__dataclass_fields__[part]
        elif inspect.ismodule(value) and not hasattr(value, part):
            value = importlib.import_module(f"{value.__name__}.{part}")
        else:
            value = getattr(value, part)
    return value


def test_every_name_of_the_page_exists():
    names = {span for span in SPANS if span != IMPORT}
    assert IMPORT in SPANS and len(names) > 100
    missing = []
    for name in names:
        try:
            resolve(name)
        except (AttributeError, ModuleNotFoundError):
            missing.append(name)
    assert sorted(missing) == []


@pytest.mark.parametrize("name", ["bandits.BBKB.C", "core.posterior.Posterior.sd", "core.no"])
def test_a_name_that_does_not_exist_is_found_out(name):
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolve(name)


def test_a_row_of_a_table_has_four_cells():
    """Each table has its own names: the third cell of most rows."""
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {6}

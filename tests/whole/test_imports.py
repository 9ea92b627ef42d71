"""Which way imports run, read from the files: down the reading order, and never in a circle."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jsketch"


def reading_order() -> list[str]:
    """The rooms in the order that the package's docstring gives."""
    order = re.search(r"import order: `([^`]*)`", (PACKAGE / "__init__.py").read_text())[1]
    return [room.strip().rstrip("/") for room in order.split(",")]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str, modules: set[str]) -> set[str]:
    """The modules that a file imports by name, also inside of functions; `modules` are those of the
    package."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules else node.module)
    return found


def graph() -> dict[str, set[str]]:
    """Each module with those of the package that it imports."""
    files = {name_of(path): path.read_text() for path in PACKAGE.rglob("*.py")}
    return {name: imported(text, set(files)) & set(files) for name, text in files.items()}


def room_of(module: str) -> str:
    return module.split(".")[1]


def folder_of(module: str, packages: set[str]) -> str:
    return module if module in packages else module.rpartition(".")[0]


def circle(edges: dict[str, set[str]]) -> list[str]:
    """Nodes that lie on a circle, or lead to one: what is left when nodes without edges are taken
    away."""
    left = {node: set(to) - {node} for node, to in edges.items()}
    while free := [node for node, to in left.items() if not to & set(left)]:
        for node in free:
            del left[node]
    return sorted(left)


def against(order: list[str], edges: dict[str, set[str]]) -> list[str]:
    """The imports that run up the reading order."""
    return [
        f"{name} imports {to}"
        for name, found in edges.items()
        for to in found
        if name != "jsketch"
        and (to == "jsketch" or order.index(room_of(to)) > order.index(room_of(name)))
    ]


def test_every_room_has_its_place_in_the_reading_order():
    rooms = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert set(reading_order()) == rooms - {"__init__"}


def test_no_import_runs_back_up():
    edges = graph()
    assert len(edges) > 100
    assert against(reading_order(), edges) == []
    up = {"jsketch.kernels.table": {"jsketch.bandits.bkb"}, "jsketch.bandits.bkb": {"jsketch"}}
    assert len(against(reading_order(), up)) == 2


def test_no_circle():
    """Neither of modules nor of folders: the parts of a room do not import what is made of them."""
    edges = graph()
    assert circle(edges) == []
    packages = {name_of(path) for path in PACKAGE.rglob("__init__.py")}
    folders: dict[str, set[str]] = {}
    for name, found in edges.items():
        # a package's own file imports what is inside to show it
        if name not in packages:
            folders.setdefault(folder_of(name, packages), set()).update(
                folder_of(to, packages) for to in found
            )
    assert circle(folders) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


def test_the_library_knows_no_experiment():
    for path in PACKAGE.rglob("*.py"):
        roots = {name.partition(".")[0] for name in imported(path.read_text(), set())}
        assert not roots & {"experiments", "tests"}, path


def test_rooms_are_small():
    """At most 12 modules side by side and 300 lines a file."""
    for folder in {path.parent for path in PACKAGE.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) <= 12, folder
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 300, path


def test_a_circle_through_a_function_is_found():
    source = (
        "def late():\n    from jsketch.bandits import bkb, BBKB\n    import jsketch.box.space\n"
    )
    assert imported(source, {"jsketch.bandits.bkb"}) == {
        "jsketch.bandits.bkb",
        "jsketch.bandits",
        "jsketch.box.space",
    }
    with pytest.raises(AssertionError, match="relative"):
        imported("from . import bkb", set())

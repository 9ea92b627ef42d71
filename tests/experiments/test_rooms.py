"""The rooms of experiments/: imports run from what says something about a paper to what all share;
nothing goes round."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
# a room imports from itself and from those before it
ROOMS = [
    *(
        "results",
        "cli",
        "data",
        "figures",
        "pages",
        "commands",
        "claims",
        "suggest",
        "pools",
        "runs",
        "demo",
    ),
    *("bkb_2019", "bbkb_2020", "pkawv_2019", "go_ucb_2023", "beyond"),
    *("bench", "sweep", "report", "redraw", "reproduce"),
]


def modules() -> dict[str, Path]:
    """All modules of experiments/ by their dotted names."""
    files = (ROOT / "experiments").rglob("*.py")
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


def imported(file: Path, known: dict[str, Path]) -> set[str]:
    """The modules of experiments/ that a file imports, within functions too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known.keys()


def test_imports_run_one_way():
    known = modules()
    graph = {name: imported(file, known) for name, file in known.items()}
    assert sum(map(len, graph.values())) > 100  # a graph without arrows proves nothing
    TopologicalSorter(graph).prepare()  # raises CycleError, with the circle
    for name, others in graph.items():
        for other in others - {"experiments"}:
            here, there = (path.split(".")[1] for path in (name, other))
            assert ROOMS.index(there) <= ROOMS.index(here), f"{name} imports {other}"


def test_rooms_are_small():
    """Nobody reads a folder of thirty files, or a file of five hundred lines."""
    for folder in {file.parent for file in modules().values()}:
        assert len([path for path in folder.iterdir() if path.suffix in (".py", ".md")]) <= 12, (
            folder
        )
    for file in modules().values():
        assert len(file.read_text().splitlines()) <= 300, file

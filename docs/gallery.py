"""Writes two pages of the site: gallery.md, the pictures of results/ with the commands that make
them, and papers/verdicts.md, the claims of each paper with their rules, verdicts and causes."""

import importlib
from pathlib import Path

from experiments import common, reproduce

ROOT = Path(__file__).parents[1]
# pictures of experiments that are no figure of a paper: folder, file, caption, command
OTHERS = (
    (
        "pools",
        "arylation.png",
        "Best yield against reactions made, in a library of 1,728 direct arylations: jsketch, a"
        " random forest and random choices (50 campaigns each); published: EDBO and 50 chemists",
        "python -m experiments.pools.picture",
    ),
    (
        "closed_loop",
        "simple_regret.png",
        "Difference to the best of 4,177 candidates against evaluations: batches of 8 of"
        " jsketch.suggest, and random batches",
        "python -m experiments.suggest.closed_loop --out results/closed_loop",
    ),
)
HEAD = """# Gallery

The command above a group of pictures makes them, and with `--saved` draws them again from the saved
tables; bands are 95% intervals of the mean over seeds. The claims are in
[Verdicts](papers/verdicts.md).
"""


def write() -> None:
    parts = [HEAD]
    drawn: set[str] = set()  # folders that an earlier figure has shown
    for name, file in first_names().items():
        figure = importlib.import_module(reproduce.module(file))
        title = figure.__doc__.splitlines()[0]
        shown = [
            picture(folder, path.name, f"{title} {path.stem.replace('_', ' ')}, {folder}")
            for folder in figure.RUNS
            if folder not in drawn
            for path in sorted((ROOT / "results" / folder).glob("*.png"), key=regret_first)
        ]
        drawn |= set(figure.RUNS)
        if shown:
            parts += [f"## {title}\n", f"```text\nscripts/reproduce {name}\n```\n", *shown]
    parts.append("## Campaigns\n")
    parts += [f"{picture(*other[:3])}```text\n{other[3]}\n```\n" for other in OTHERS]
    update(ROOT / "docs" / "gallery.md", "\n".join(parts))
    update(ROOT / "docs" / "papers" / "verdicts.md", verdicts())


def regret_first(path: Path) -> tuple[bool, str]:
    return "regret" not in path.name, path.name


def first_names() -> dict[str, Path]:
    """{name: file} of the figures, with one name for each file."""
    files = {file: name for name, file in reversed(reproduce.registry().items())}
    return {name: file for file, name in reversed(files.items())}


def update(page: Path, text: str) -> None:
    """Writes a page unless it has this text already."""
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def verdicts() -> str:
    """The page of verdicts.toml."""
    parts = [
        "# Verdicts\n",
        "The rule of a verdict is in words here, and in code beside the settings that it judges.\n",
    ]
    for paper, entries in common.verdicts().items():
        parts.append(f"## {paper.upper().replace('_', '-')}\n")
        for entry in entries.values():
            parts.append(f"**{entry['claim']}** ({entry['place']}): {entry['verdict']}.\n")
            lines = [f"Rule: {entry['statistic']}: {entry['threshold']}."]
            lines += [f"Cause: {entry['cause']}"] if entry.get("cause") else []
            if entry["why"]:
                lines.append(f"Before: {entry['was']}. {entry['why']}")
            parts.append("\n".join(f"- {line}" for line in lines) + "\n")
    return "\n".join(parts)


def picture(folder: str, file: str, caption: str) -> str:
    return f":::{{figure}} ../results/{folder}/{file}\n:alt: {caption}\n\n{caption}\n:::\n\n"

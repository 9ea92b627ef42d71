"""Writes two pages of the site: gallery.md, the pictures of results/ with the commands that make
them, and papers/verdicts.md, the claims of each paper, grouped by verdict."""

from pathlib import Path

import pandas as pd

from experiments import claims, commands
from experiments.report import main as report

ROOT = Path(__file__).parents[1]
# pictures of experiments without claims: folder, file, caption, command
WITHOUT_CLAIMS = (
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

The command below a group of pictures makes them; bands are 95% intervals of the mean over seeds.
`scripts/reproduce` runs the commands of the papers, and `python -m experiments.redraw results`
draws their pictures again from the saved tables. The verdicts on the papers' claims are in
[How the papers fared](papers/index.md).
"""


def write() -> None:
    parts = [HEAD, "## Campaigns\n"]
    parts += [_picture(*picture) for picture in WITHOUT_CLAIMS]
    by_folder = commands.commands_by_folder()
    for paper in report.PAPERS:
        parts.append(f"## {paper.name}\n")
        for experiment in paper.experiments:
            parts += _experiment(experiment, by_folder[experiment.folder].text())
    _update(ROOT / "docs" / "gallery.md", "\n".join(parts))
    _update(ROOT / "docs" / "papers" / "verdicts.md", _verdicts())


def _update(page: Path, text: str) -> None:
    """Writes a page unless it has this text already."""
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def _verdicts() -> str:
    """The page of the recorded verdicts."""
    table = pd.read_csv(ROOT / "results" / "verdicts.csv")
    parts = ["# Verdicts\n", "`scripts/report` has the rule, numbers and cause of each verdict.\n"]
    for paper, claims_of_paper in table.groupby("paper", sort=False):
        parts.append(f"## {paper}\n")
        for verdict, rows in claims_of_paper.groupby("verdict"):
            # "Section 3.2, Figure 2" becomes "Figure 2"
            places = rows["place"].str.rpartition(", ")[2]
            items = "- " + places + ": " + rows["statement"]
            parts.append("\n".join([f"**{verdict.capitalize()}**\n", *items, ""]))
    return "\n".join(parts)


def _experiment(experiment: claims.Experiment, command: str) -> list[str]:
    folder = experiment.folder
    figures = [f for f in experiment.figures if (ROOT / "results" / folder / f).exists()]
    if not figures:
        return []
    shown = [_picture(folder, file, experiment.figures[file]) for file in figures]
    return [f"### {experiment.title}\n", *shown, f"```text\n{command}\n```\n"]


def _picture(folder: str, file: str, caption: str, command: str = "") -> str:
    block = f"```text\n{command}\n```\n" if command else ""
    return f":::{{figure}} ../results/{folder}/{file}\n:alt: {caption}\n\n{caption}\n:::\n\n{block}"

"""Writes docs/gallery.md: the pictures of results/, each with the command that makes it."""

from pathlib import Path

from experiments import claims, commands
from experiments.report import main as report

ROOT = Path(__file__).parents[1]
# pictures of experiments without claims: folder, file, caption, command
OTHERS = (
    (
        "pools",
        "arylation.png",
        "Best yield against reactions made, direct arylation, 1,728 reactions: jsketch, a random"
        " forest and random reactions (50 campaigns each); published: EDBO and 50 chemists",
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
    parts += [_picture(folder, file, text, command) for folder, file, text, command in OTHERS]
    made_by = commands.commands_by_folder()
    for paper in report.PAPERS:
        parts.append(f"## {paper.name}\n")
        for experiment in paper.experiments:
            parts += _experiment(experiment, made_by[experiment.folder].text())
    target = ROOT / "docs" / "gallery.md"
    text = "\n".join(parts)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


def _experiment(experiment: claims.Experiment, command: str) -> list[str]:
    folder = experiment.folder
    figures = [f for f in experiment.figures if (ROOT / "results" / folder / f).exists()]
    if not figures:
        return []
    shown = [_picture(folder, file, experiment.figures[file]) for file in figures]
    return [f"### {experiment.title}\n", *shown, f"```text\n{command}\n```\n"]


def _picture(folder: str, file: str, caption: str, command: str = "") -> str:
    made_by = f"```text\n{command}\n```\n" if command else ""
    return (
        f":::{{figure}} ../results/{folder}/{file}\n:alt: {caption}\n\n{caption}\n:::\n\n{made_by}"
    )

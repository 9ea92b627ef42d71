"""Builds a page that compares the claims of the papers with our figures and numbers.

    scripts/report                      # report/index.html from results/
    scripts/report --results DIR --out DIR

For each claim of the four papers, and of the methods beyond them, the page shows the statement, our
figure, our number, a verdict (confirmed, differs, not decidable here), the rule of the verdict, and
the provenance of the results. Nothing is run.
"""

import csv
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from experiments import claims, cli, commands, pages
from experiments.bbkb_2020 import claims as bbkb_2020
from experiments.bkb_2019 import claims as bkb_2019
from experiments.contrib import claims as beyond
from experiments.go_ucb_2023 import claims as go_ucb_2023
from experiments.pkawv_2019 import claims as pkawv_2019
from experiments.results import environment, files

TEMPLATE = "report/report.html.jinja"
TITLE = "Do the papers hold?"
# paper, setting, text of the paper, our choice, evidence
UNSPECIFIED_SETTINGS = Path(__file__).parent / "unspecified_settings.csv"
PAPERS = (bkb_2019.PAPER, bbkb_2020.PAPER, go_ucb_2023.PAPER, pkawv_2019.PAPER, beyond.PAPER)
VERDICTS = (claims.CONFIRMED, claims.DIFFERS, claims.UNDECIDED, claims.UNREADABLE)


class Section(NamedTuple):
    """An experiment as the page shows it."""

    experiment: claims.Experiment
    command: str
    outcomes: list[claims.Outcome]
    figures: list[claims.Figure]  # those whose files exist
    tables: list[tuple[str, list[list[str]]]]  # (caption, rows with the header first)
    provenance: dict[str, Any]


def section(part: claims.Experiment, folder: Path, command: str) -> Section:
    """The verdicts, figures and tables of an experiment whose results are in `folder`."""
    return Section(
        part,
        command,
        [claims.judge(claim, folder) for claim in part.claims],
        [figure for figure in part.figures if (folder / figure.file).is_file()],
        [
            (table.caption, rows)
            for table in part.tables
            if (folder / table.file).is_file() and (rows := _rows(folder / table.file))
        ],
        provenance(folder),
    )


def _rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def provenance(folder: Path) -> dict[str, Any]:
    """The provenance of the results in a folder; empty without a readable summary."""
    try:
        summary = claims.read(folder).summary
    except (claims.Missing, ValueError, OSError):
        return {}
    commit = summary.get("commit") or {}
    states: dict[Any, str] = {True: " (with uncommitted changes)", False: " (clean)"}
    fields = {
        "data": summary.get("data"),
        "seeds": _seeds(summary),
        "commit": commit.get("hash") and commit["hash"] + states.get(commit.get("dirty"), ""),
        "date": summary.get("date"),
        "versions": _fields_text(summary.get("versions") or {}),
        "hardware": _fields_text(summary.get("hardware") or {}),
        "dtype": summary.get("dtype"),
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _seeds(summary: dict[str, Any]) -> Any:
    """The number of seeds, and the methods with another number of seeds."""
    config = summary.get("config") or {}
    counts = [part.get(name) for part in (summary, config) for name in ("seeds", "repetitions")]
    seeds = next((count for count in counts if count is not None), None)
    first = next(iter((summary.get("lengthscales") or {}).values()), summary)
    others = {
        name: row["seeds"]
        for name, row in (first.get("algorithms") or {}).items()
        if row.get("seeds") not in (None, seeds)
    }
    return f"{seeds}; {claims.list_numbers(others, others.values(), 0)}" if others else seeds


def _fields_text(fields: dict[str, Any]) -> str:
    values = {
        name.replace("_", " "): ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in fields.items()
    }
    return "; ".join(f"{name} {value}" for name, value in values.items())


def build(root: Path, out: Path, notice: str = "") -> dict[str, list[Section]]:
    """Writes out/index.html, with `notice` as its first paragraph, and copies the figures to
    out/figures. Returns the sections of each paper. Raises FileNotFoundError if `root` is not a
    folder, and ValueError or OSError if `out` cannot be written."""
    if not root.is_dir():
        raise FileNotFoundError(
            f"there is no folder {root}: run an experiment first, or name it with --results."
        )
    files.check_folder(out)
    made_by = commands.by_folder()
    sections = {
        paper.name: [
            section(part, root / part.folder, made_by[part.folder].text())
            for part in paper.experiments
        ]
        for paper in PAPERS
    }
    for part in (part for parts in sections.values() for part in parts):
        for figure in part.figures:
            place = Path(part.experiment.folder, figure.file)
            files.write(out / "figures" / place, (root / place).read_bytes())
    counts = {name: verdict_counts(parts) for name, parts in sections.items()}
    total = sum(counts.values(), Counter[str]())
    commit = environment.commit()
    head, *settings = _rows(UNSPECIFIED_SETTINGS)
    pages.write(
        out / "index.html",
        TEMPLATE,
        title=TITLE,
        notice=notice,
        commit=commit["hash"] + (" with uncommitted changes" if commit["dirty"] is True else ""),
        verdicts=[word for word in VERDICTS if word != claims.UNREADABLE or total[word]],
        papers=[(paper, sections[paper.name], counts[paper.name]) for paper in PAPERS],
        total=total,
        settings_head=head[1:],
        settings={
            paper.name: [row[1:] for row in settings if row[0] == paper.name] for paper in PAPERS
        },
    )
    return sections


def verdict_counts(sections: list[Section]) -> Counter[str]:
    """The number of claims by verdict."""
    return Counter(outcome.verdict for part in sections for outcome in part.outcomes)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--results", type=Path, default=environment.ROOT / "results", help="folder of all results"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder of the page (default: report)"
    )
    parser.add_argument("--notice", default="", help="first paragraph of the page")
    options = parser.parse_args()
    sections = build(options.results, options.out, options.notice)
    for name, parts in sections.items():
        counts = verdict_counts(parts)
        shown = ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])
        print(f"{name:24s}{shown}")
    print(f"{options.out / 'index.html'} opens in any browser")


if __name__ == "__main__":
    main()

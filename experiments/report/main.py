"""Builds one page that says whether the papers hold: their claims beside our figures and numbers.

    scripts/report                      # report/index.html from results/
    scripts/report --results DIR --out DIR

Every figure and claim of the four papers, and of the methods beyond them, has the statement, our
figure, our number, a verdict (confirmed, differs, not decidable here) by a rule that the page
states, and how the results were made.
Nothing is run. Any browser opens it from disk.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

from experiments import cli, commands
from experiments.claims import Experiment, Missing, Outcome, Paper, judge, listed, read
from experiments.report import markup
from experiments.report.left_open import LEFT_OPEN
from experiments.report.papers import PAPERS
from experiments.results import environment, files

TITLE = "Do the papers hold?"
PICTURES = "figures"


class Section(NamedTuple):
    """One experiment, judged."""

    experiment: Experiment
    outcomes: list[Outcome]


def judged(paper: Paper, root: Path) -> list[Section]:
    """All claims of a paper with their verdicts, from the folders under `root`."""
    return [
        Section(part, [judge(claim, root / part.folder) for claim in part.claims])
        for part in paper.experiments
    ]


def provenance(folder: Path) -> dict[str, Any]:
    """How the results of a folder were made, in words; empty where there are none that can be
    read."""
    try:
        summary = read(folder).summary
    except (Missing, ValueError, OSError):
        return {}
    made, config = _fields(summary.get("commit")), _fields(summary.get("config"))
    seeds = next(
        (
            part[name]
            for part in (summary, config)
            for name in ("seeds", "repetitions")
            if name in part
        ),
        None,
    )
    changed: dict[Any, str] = {True: " (with changes that were not committed)", False: " (clean)"}
    found = {
        "data": summary.get("data"),
        "seeds": seeds,
        "commit": f"{made['hash']}{changed.get(made.get('dirty'), '')}"
        if made.get("hash")
        else None,
        "date": summary.get("date"),
        "versions": _listed(summary.get("versions")),
        "hardware": _listed(summary.get("hardware")),
        "dtype": summary.get("dtype"),
    }
    found["seeds"] = _with_fewer(seeds, summary)
    return {name: value for name, value in found.items() if value not in (None, "")}


def _with_fewer(seeds: Any, summary: dict[str, Any]) -> Any:
    """The number of seeds, and the methods that were run with fewer."""
    lengthscales = list(_fields(summary.get("lengthscales")).values())
    rows = _fields(_fields(lengthscales[0] if lengthscales else summary).get("algorithms"))
    own = {name: _fields(row).get("seeds") for name, row in rows.items()}
    fewer = {name: count for name, count in own.items() if count not in (None, seeds)}
    return f"{seeds}; {listed(list(fewer), list(fewer.values()), 0)}" if fewer else seeds


def _fields(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> str:
    fields = _fields(value).items()
    parts = ((name, ", ".join(map(str, v)) if isinstance(v, list) else v) for name, v in fields)
    return "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in parts)


def pictures(part: Experiment, folder: Path, out: Path) -> list[str]:
    """Copies the figures of an experiment beside the page; their HTML. A picture that cannot be
    read is said."""
    found = []
    for figure in part.figures:
        file = folder / figure.file
        if not file.is_file():
            continue
        name = f"{part.folder.replace('/', '-')}-{figure.file}"
        try:
            shown = markup.picture(f"{PICTURES}/{name}", file, figure.alt)
        except ValueError as error:
            found.append(f"<p>{markup.text(str(error))}: it is not shown.</p>\n")
            continue
        files.write(out / PICTURES / name, file.read_bytes())
        found.append(shown)
    return found


def tables(part: Experiment, folder: Path) -> list[str]:
    """The CSV tables of an experiment as HTML, those that are there."""
    return [
        markup.table(table.caption, list(csv.reader(io.StringIO(path.read_text()))), folded=True)
        for table in part.tables
        if (path := folder / table.file).is_file()
    ]


def build(root: Path, out: Path, notice: str = "") -> dict[str, list[Section]]:
    """Writes out/index.html and the pictures beside it, with a `notice` above all else; the
    sections of each paper.

    Raises FileNotFoundError when `root` is no folder, and ValueError or OSError when `out` cannot
    be written.
    """
    if not root.is_dir():
        raise FileNotFoundError(
            f"there is no folder {root}: run an experiment first, or name it with --results."
        )
    files.check_folder(out)
    sections = {paper.name: judged(paper, root) for paper in PAPERS}
    made_by = commands.by_folder()
    body = [
        markup.counts(
            {
                (p.name, markup.anchor(p.name)): [o for s in sections[p.name] for o in s.outcomes]
                for p in PAPERS
            }
        )
    ]
    for paper in PAPERS:
        body.append(
            "<h2"
            f' id="{markup.anchor(paper.name)}">{markup.text(f"{paper.name}: {paper.title}")}</h2>'
        )
        body.append(markup.left_open(LEFT_OPEN.get(paper.name, ())))
        for part, outcomes in sections[paper.name]:
            folder = root / part.folder
            body.append(
                markup.experiment(
                    part,
                    made_by[part.folder].text(),
                    outcomes,
                    pictures(part, folder, out),
                    tables(part, folder),
                    provenance(folder),
                )
            )
    above = f"<p><strong>{markup.text(notice)}</strong></p>" if notice else ""
    intro = above + (
        "<p>Each figure and claim of the four papers, and what is stated of the methods beyond"
        " them, in our words, beside what was measured here."
        " The rule under a claim decides its verdict; the numbers are read from the saved results."
        " Intervals are 95%, over seeds.</p><p>Confirmed: the rule holds. Differs: the statement"
        " does not hold with the paper's own settings, as far as the paper gives them. Not"
        " decidable here: something of the paper's set-up is missing, or the runs do not tell two"
        " methods apart, and the page says which."
        "</p><p>Built at commit"
        f" <code>{markup.text(_commit())}</code>.</p>"
    )
    files.write(out / "index.html", markup.page(TITLE, intro, "\n".join(body)).encode())
    return sections


def _commit() -> str:
    made = environment.commit()
    return f"{made['hash']}{' with changes' if made['dirty'] is True else ''}"


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--results", type=Path, default=environment.ROOT / "results", help="folder of all results"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder of the page (default: report)"
    )
    parser.add_argument("--notice", default="", help="a sentence at the top of the page")
    options = parser.parse_args()
    sections = build(options.results, options.out, options.notice)
    for name, parts in sections.items():
        verdicts = [outcome.verdict for part in parts for outcome in part.outcomes]
        said = ", ".join(
            f"{verdicts.count(word)} {word}" for word in markup.VERDICTS if word in verdicts
        )
        print(f"{name:24s}{said}")
    print(f"{options.out / 'index.html'} opens in any browser")


if __name__ == "__main__":
    main()

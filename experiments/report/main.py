"""Builds a page that compares the claims of the papers with our figures and numbers.

    scripts/report                      # report/index.html from results/
    scripts/report --results DIR --out DIR
    scripts/report --record             # also results/verdicts.csv
    scripts/report --archive runs.tar.gz    # also the tables from which verdicts are computed

For each claim of the four papers the page shows the place and the statement, the rule with its
reason, our numbers, the verdict with its cause, and the provenance of the results. Methods beyond
the papers have tables without verdicts. The command runs no experiment.
"""

import csv
import gzip
import io
import tarfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd

from experiments import claims, cli, commands
from experiments.bbkb_2020 import claims as bbkb_2020
from experiments.bkb_2019 import claims as bkb_2019
from experiments.contrib import claims as beyond
from experiments.go_ucb_2023 import claims as go_ucb_2023
from experiments.pkawv_2019 import claims as pkawv_2019
from experiments.results import environment, files, tidy

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parents[1]),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TITLE = "Do the papers hold?"
# the columns are paper, setting, text of the paper, our choice, evidence
UNSPECIFIED_SETTINGS = Path(__file__).parent / "unspecified_settings.csv"
RECORD = Path("verdicts.csv")  # in the folder of results
PAPERS = (bkb_2019.PAPER, bbkb_2020.PAPER, go_ucb_2023.PAPER, pkawv_2019.PAPER, beyond.PAPER)
VERDICTS = (claims.CONFIRMED, claims.DIFFERS, claims.UNDECIDED, claims.UNREADABLE)


class Section(NamedTuple):
    """An experiment as the page shows it."""

    experiment: claims.Experiment
    command: str
    figures: dict[str, str]  # {file: what the picture shows}, of files that exist
    tables: list[tuple[str, list[list[str]]]]  # (caption, rows with the header first)
    provenance: dict[str, Any]  # empty without a readable summary


class Part(NamedTuple):
    """A paper as the page shows it."""

    paper: claims.Paper
    outcomes: list[claims.Outcome]
    sections: list[Section]


def parts_of(root: Path) -> list[Part]:
    """The parts of the page for all papers, from the results in `root`."""
    made_by = commands.commands_by_folder()
    return [
        Part(
            paper,
            [claims.judge(claim, root) for claim in paper.claims],
            [section(e, root / e.folder, made_by[e.folder].text()) for e in paper.experiments],
        )
        for paper in PAPERS
    ]


def section(experiment: claims.Experiment, folder: Path, command: str) -> Section:
    """The section of an experiment whose results are in `folder`."""
    tables = [
        (caption, rows)
        for file, caption in experiment.tables.items()
        if (folder / file).is_file() and (rows := _csv_rows(folder / file))
    ]
    how_made = provenance(folder)
    if how_made:
        source = claims.read(folder)
        tables += [
            (table.caption, claims.measurement_rows(source, table))
            for table in experiment.measurements
        ]
    figures = {file: alt for file, alt in experiment.figures.items() if (folder / file).is_file()}
    return Section(experiment, command, figures, tables, how_made)


def _csv_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def provenance(folder: Path) -> dict[str, Any]:
    """How the results in a folder were made; empty without a readable summary."""
    try:
        summary = claims.read(folder).summary
    except (claims.Missing, ValueError, OSError):
        return {}
    commit = summary.get("commit") or {}
    dirty_words: dict[Any, str] = {True: " (with uncommitted changes)", False: " (clean)"}
    fields = {
        "data": summary.get("data"),
        "seeds": _seed_counts(summary),
        "commit": commit.get("hash") and commit["hash"] + dirty_words.get(commit.get("dirty"), ""),
        "date": summary.get("date"),
        "versions": _fields_text(summary.get("versions") or {}),
        "hardware": _fields_text(summary.get("hardware") or {}),
        "dtype": summary.get("dtype"),
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _seed_counts(summary: dict[str, Any]) -> Any:
    """The number of seeds and, as text, the numbers of seeds of methods with more or fewer."""
    config = summary.get("config") or {}
    counts = [part.get(name) for part in (summary, config) for name in ("seeds", "repetitions")]
    seeds = next((count for count in counts if count is not None), None)
    # a summary of several lengthscales has the algorithms under each of them
    by_algorithm = next(iter((summary.get("lengthscales") or {}).values()), summary)
    others = {
        name: row["seeds"]
        for name, row in (by_algorithm.get("algorithms") or {}).items()
        if row.get("seeds") not in (None, seeds)
    }
    return f"{seeds}; {claims.labelled_numbers(others, others.values(), 0)}" if others else seeds


def _fields_text(fields: dict[str, Any]) -> str:
    """The text "name value; ..."."""
    values = {
        name.replace("_", " "): ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in fields.items()
    }
    return "; ".join(f"{name} {value}" for name, value in values.items())


def build(root: Path, out: Path, notice: str = "") -> list[Part]:
    """Writes out/index.html, with `notice` as its first paragraph, and copies the figures to
    out/figures. Returns the parts. Raises FileNotFoundError if `root` is not a folder, and
    ValueError or OSError if `out` cannot be written."""
    if not root.is_dir():
        raise FileNotFoundError(
            f"there is no folder {root}: run an experiment first, or give --results its folder."
        )
    files.check_folder(out)
    parts = parts_of(root)
    for page_section in [one for part in parts for one in part.sections]:
        for file in page_section.figures:
            path = Path(page_section.experiment.folder, file)
            files.write(out / "figures" / path, (root / path).read_bytes())
    counts = {part.paper.name: verdict_counts(part) for part in parts}
    total = sum(counts.values(), Counter[str]())
    commit = environment.commit()
    head, *settings = _csv_rows(UNSPECIFIED_SETTINGS)
    page = ENVIRONMENT.get_template(
        "report/report.html.jinja"
    ).render(
        title=TITLE,
        notice=notice,
        commit=commit["hash"] + (" with uncommitted changes" if commit["dirty"] is True else ""),
        verdicts=[word for word in VERDICTS if word != claims.UNREADABLE or total[word]],
        parts=parts,
        origins=partial(origins, root=root),
        judged_by=judged_by(parts),
        counts=counts,
        total=total,
        settings_head=head[1:],  # without the column "paper"
        settings={
            paper.name: [row[1:] for row in settings if row[0] == paper.name] for paper in PAPERS
        },
    )
    files.write(out / "index.html", page.encode())
    return parts


def verdict_counts(part: Part) -> Counter[str]:
    """{verdict: number of claims}."""
    return Counter(outcome.verdict for outcome in part.outcomes)


def record_text(parts: list[Part], root: Path) -> str:
    """A CSV table with a row for each claim: its rule, its verdict, and the results in `root` that
    the rule reads."""
    columns = ["paper", "place", "statement", "rule", "why", "numbers", "verdict"]
    columns += ["cause and notes", "earlier verdicts", "change of the rule", "results", "commands"]
    rows = []
    for part in parts:
        for claim, verdict, numbers, note in part.outcomes:
            sources = origins(claim, root)
            results = [f"{folder} at {source['commit']}" for folder, source in sources.items()]
            row = [part.paper.name, claim.place, claim.statement, claim.rule, claim.why]
            row += [" ".join(numbers), verdict, note, ", ".join(claim.earlier_verdicts)]
            row += [claim.change, "; ".join(results)]
            row += ["; ".join(source["command"] for source in sources.values())]
            rows.append(row)
    return pd.DataFrame(rows, columns=columns).to_csv(index=False, lineterminator="\n")


def origins(claim: claims.Claim, root: Path) -> dict[str, dict[str, str]]:
    """{folder: {"commit", "command"}} of the results that a rule reads."""
    made_by = commands.commands_by_folder()
    return {
        folder: dict(
            commit=provenance(root / folder).get("commit", "not run"),
            command=made_by[folder].text(),
        )
        for folder in claim.folders
    }


def judged_by(parts: list[Part]) -> dict[str, list[str]]:
    """{folder of results: the places and rules of the claims that read it}."""
    rules: dict[str, list[str]] = {}
    for claim in (outcome.claim for part in parts for outcome in part.outcomes):
        for folder in claim.folders:
            rules.setdefault(folder, []).append(f"{claim.place}: {claim.rule}")
    return rules


def archive_bytes(parts: list[Part], root: Path) -> bytes:
    """A tar.gz file with the tables and summary.json of all experiments of the papers, and the
    record with the rules. The same results give the same bytes."""
    folders = [section.experiment.folder for part in parts for section in part.sections]
    folders += judged_by(parts)
    paths = {Path(folder, name) for folder in folders for name in tidy.FILES}
    # files beside the folders, such as the seconds of the authors' program of evolution
    for paper in {Path(folder).parent for folder in folders}:
        paths |= {path.relative_to(root) for path in (root / paper).glob("*.json")}
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        contents = {str(RECORD): record_text(parts, root).encode()}
        contents |= {str(p): (root / p).read_bytes() for p in paths if (root / p).is_file()}
        for name, content in sorted(contents.items()):
            member = tarfile.TarInfo(f"results/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, prog="scripts/report")
    results, out = environment.ROOT / "results", Path("report")  # defaults
    record_help = "write verdicts.csv into the folder of results"
    archive_help = "file (.tar.gz) for the tables of the papers' experiments"
    parser.add_argument("--results", type=Path, default=results, help="folder of all results")
    parser.add_argument("--out", type=Path, default=out, help="folder of the page")
    parser.add_argument("--notice", default="", help="first paragraph of the page")
    parser.add_argument("--record", action="store_true", help=record_help)
    parser.add_argument("--archive", type=Path, help=archive_help)
    options = parser.parse_args()
    parts = build(options.results, options.out, options.notice)
    if options.record:
        files.write(options.results / RECORD, record_text(parts, options.results).encode())
    if options.archive:
        files.write(options.archive, archive_bytes(parts, options.results))
    for part in parts:
        counts = verdict_counts(part)
        text = ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])
        print(f"{part.paper.name:24s}{text or 'measurements'}")
    print(f"{options.out / 'index.html'} opens in any browser")

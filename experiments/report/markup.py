"""The HTML of the report: one page without scripts, readable from a wide screen down to a phone."""

from __future__ import annotations

import html
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.claims import (
    CONFIRMED,
    DIFFERS,
    UNDECIDED,
    UNREADABLE,
    Experiment,
    Outcome,
    Setting,
)

WIDE = 1_400  # pixels; a picture at least as wide has panels and needs the whole line
VERDICTS = (CONFIRMED, DIFFERS, UNDECIDED, UNREADABLE)
STYLE = """
body { margin: 0; background: #fff; color: #1a1a1a; font: 1rem/1.5 system-ui, sans-serif; }
main, header { max-width: 64rem; margin: 0 auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1.5rem 0 .5rem; }
h2 { font-size: 1.3rem; margin: 3rem 0 .25rem; padding-top: 1rem; border-top: 2px solid #1a1a1a; }
h3 { font-size: 1.1rem; margin: 2.25rem 0 .25rem; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: #00508c; }
code { font: .85rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; background: #f3f3f3;
  padding: .1em .3em; }
.box { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; padding: .25rem 0; color: #4a4a4a; }
th, td { text-align: left; vertical-align: top; padding: .45rem .75rem .45rem 0;
  border-bottom: 1px solid #d9d9d9; }
td, dd { overflow-wrap: anywhere; }
.counts { max-width: 40rem; }
.numbers { font-size: .875rem; }
.counts td, .counts thead th + th { text-align: right; }
.counts th { white-space: nowrap; }
.claims td:nth-child(1) { width: 7rem; }
.claims td:nth-child(2) { width: 42%; }
.item, .rule { color: #4a4a4a; font-size: .875rem; display: block; }
.verdict { white-space: nowrap; font-weight: 600; padding-left: .5rem; border-left: .35rem solid; }
.confirmed { color: #00664b; } .differs { color: #a33f00; } .not-decidable-here { color: #595959; }
.unreadable { color: #8a004f; }
.figures { display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; }
.wide { grid-column: 1 / -1; }
img { max-width: 100%; height: auto; display: block; }
figcaption { color: #4a4a4a; font-size: .875rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; padding: .25rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .5rem 0;
  font-size: .875rem; }
dt { color: #4a4a4a; } dd { margin: 0; }
@media (max-width: 40rem) {
  .counts { font-size: .875rem; }
  .counts th, .counts td { padding-right: .5rem; }
  .counts .verdict { padding-left: .25rem; border-width: .2rem; }
  .claims thead { position: absolute; clip-path: inset(50%); }
  .claims tr, .claims td { display: block; width: auto !important; border: 0; padding: .15rem 0; }
  .claims tr { border-bottom: 1px solid #d9d9d9; padding: .6rem 0; }
}
"""

text = html.escape


def page(title: str, intro: str, body: str) -> str:
    """The whole document."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta'
        f' charset="utf-8">\n<title>{text(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon"'
        ' href="data:,">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{text(title)}</h1>\n{intro}\n</header>\n"
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def verdict(word: str) -> str:
    return f'<span class="verdict {anchor(word)}">{text(word)}</span>'


def anchor(name: str) -> str:
    """A name as an id or a class: letters, digits and hyphens."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def counts(rows: Mapping[tuple[str, str], Iterable[Outcome]]) -> str:
    """The table of verdicts at the top; a row for each (name, anchor)."""
    found = {
        name: Counter(outcome.verdict for outcome in outcomes) for name, outcomes in rows.items()
    }
    total = sum(found.values(), Counter())
    columns = [word for word in VERDICTS if word != UNREADABLE or total[word]]
    head = "".join(f'<th scope="col">{verdict(word)}</th>' for word in columns)
    lines = [
        f'<tr><th scope="row"><a href="#{at}">{text(name)}</a></th>'
        + "".join(f"<td>{count[word]}</td>" for word in columns)
        + "</tr>"
        for (name, at), count in found.items()
    ]
    lines.append(
        '<tr><th scope="row">all</th>'
        + "".join(f"<td>{total[word]}</td>" for word in columns)
        + "</tr>"
    )
    return (
        '<div class="box"><table class="counts"><caption>Claims by verdict</caption>\n'
        f'<thead><tr><th scope="col">paper</th>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table></div>"
    )


def claims(outcomes: Iterable[Outcome]) -> str:
    """The claims of one experiment: verdict, what the paper says and what decides, what was
    measured."""
    rows = [
        f"<tr><td>{verdict(outcome.verdict)}</td>"
        f'<td><span class="item">{text(outcome.claim.item)}</span>{text(outcome.claim.statement)}'
        f'<span class="rule">Confirmed if: {text(outcome.claim.rule)}</span></td>'
        f"<td>{text(outcome.number)}"
        + (f'<span class="rule">{text(outcome.note)}</span>' if outcome.note else "")
        + "</td></tr>"
        for outcome in outcomes
    ]
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("verdict", "the paper", "measured here")
    )
    return (
        f'<div class="box"><table class="claims"><thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def table(caption: str, rows: Sequence[Sequence[str]], folded: bool = False) -> str:
    """A table whose first row is its head; `folded` away until it is asked for."""
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in rows[0])
    lines = "\n".join(
        "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:]
    )
    said = f"<summary>{text(caption)}</summary>" if folded else ""
    above = "" if folded else f"<caption>{text(caption)}</caption>"
    found = (
        f'<div class="box"><table class="numbers">{above}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>\n"
    )
    return f"<details>{said}\n{found}</details>\n" if folded else found


def left_open(settings: Sequence[Setting]) -> str:
    """The table of what a paper leaves open; nothing where it is empty."""
    head = ("setting", "the paper", "chosen here", "evidence")
    return table("Settings that the paper leaves open", [head, *settings]) if settings else ""


def experiment(
    part: Experiment,
    command: str,
    outcomes: list[Outcome],
    pictures: list[str],
    tables: list[str],
    provenance: Mapping[str, Any],
) -> str:
    """One experiment: what it is, its pictures and tables, its claims, how to run it, and how it
    was run."""
    shown = f'<div class="figures">\n{"".join(pictures)}</div>\n' if pictures else ""
    how = "Run again with" if provenance else "Not run. Run it with"
    made = (
        "<details><summary>How these results were made</summary>\n<dl>\n"
        + "\n".join(
            f"<dt>{text(name)}</dt><dd>{text(str(value))}</dd>"
            for name, value in provenance.items()
        )
        + "\n</dl></details>\n"
        if provenance
        else ""
    )
    return (
        f'<section id="{anchor(part.folder)}">\n<h3>{text(part.title)}</h3>\n'
        f"<p>{text(part.note)}</p>\n{shown}"
        f"{claims(outcomes) if outcomes else ''}\n{''.join(tables)}"
        f"<p>{how}: <code>{text(command)}</code></p>\n{made}</section>\n"
    )


def picture(source: str, file: Path, alt: str) -> str:
    """A figure that links to its file; its size is written down so that nothing moves while it
    loads."""
    width, height = png_size(file)
    wide = ' class="wide"' if width >= WIDE else ""
    return (
        f'<figure{wide}><a href="{text(source)}">'
        f'<img src="{text(source)}" width="{width}" height="{height}" alt="{text(alt)}"></a>'
        f"<figcaption>{text(alt)}.</figcaption></figure>\n"
    )


def png_size(file: Path) -> tuple[int, int]:
    """(width, height) in pixels. Raises ValueError for a file that is no PNG."""
    head = file.read_bytes()[:24]
    if len(head) < 24 or head[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError(f"{file.name} is no PNG picture")
    width, height = struct.unpack(">II", head[16:])
    return width, height

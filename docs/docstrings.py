"""Docstrings of jsketch as reStructuredText.

A docstring is plain text. Three kinds of blocks are recognised: lines `name   description` in two
columns, indented code, and paragraphs. Docstrings of public dataclasses have a line for every
field.
"""

import re
import textwrap
from collections.abc import Iterator

ROW = re.compile(r"(\S.*?) {2,}(?!#)(\S.*)$")
EMPTY = "\\"  # an empty paragraph
BULLET = re.compile(r"(- |\d+\. )")


def convert(app, what, name, obj, options, lines) -> None:
    """The handler of Sphinx's event autodoc-process-docstring: rewrites `lines` in place."""
    text = "\n".join(lines)
    lines[:] = _converted(text)


def _blocks(text: str) -> Iterator[list[str]]:
    for block in re.split(r"\n\s*\n", text):
        if block.strip():
            yield block.strip("\n").splitlines()


def _converted(text: str) -> Iterator[str]:
    for block in _blocks(text):
        indented = all(line.startswith("    ") for line in block)
        rows = _table(textwrap.dedent("\n".join(block)).splitlines())
        if rows:
            yield from _definitions(rows)
        elif indented:
            yield from ["::", "", *block]
        else:
            yield from _unindented(block)
        yield ""


def _unindented(block: list[str]) -> Iterator[str]:
    """A paragraph, or a list with its continuation lines indented."""
    indent = 0  # of a continuation line; 0 before a list begins
    for line in map(str.strip, block):
        item = BULLET.match(line)
        if item and (indent or item[0] in ("- ", "1. ")):
            if not indent:
                yield ""
            indent = len(item[0])
            yield item[0] + _inline(line[indent:])
        else:
            yield " " * indent + _inline(line)


def _table(block: list[str]) -> list[tuple[str, str]]:
    """The rows of a block in two columns; empty for a block of another kind."""
    rows: list[tuple[str, str]] = []
    for line in block:
        row = ROW.fullmatch(line)
        if row and not line.startswith(" "):
            rows.append((row[1], row[2]))
        elif rows and line.startswith("  "):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
        elif line.isidentifier():
            rows.append((line, ""))
        else:
            return []
    return rows if any(description for _, description in rows) else []


def _definitions(rows) -> Iterator[str]:
    for name, description in rows:
        yield f"``{name.replace('`', '')}``"
        yield f"    {_inline(description) or EMPTY}"
    yield ""


def _inline(text: str) -> str:
    """Escapes markup outside of backticks; names in backticks become links to the reference."""
    parts = re.split(r"(`[^`]+`)", text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"([\\*_|`])", r"\\\1", part)
        elif not re.fullmatch(r"`[A-Za-z_][\w.]*`", part):
            parts[i] = f"`{part}`"  # a literal
        # a letter may not follow the last backtick directly
        if i % 2 and i + 1 < len(parts) and re.match(r"\w", parts[i + 1]):
            parts[i] += "\\ "
    # a line that begins with "i." or "(a)" would begin a list
    return re.sub(r"^(\(?\w{1,4})([.)]) ", r"\1\\\2 ", "".join(parts))

"""The vocabulary of docstrings, comments and messages: the field's standard terms, one for one
thing."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# phrase: what is said instead
FORBIDDEN = {
    r"\b(?:un)?told\b(?! (?:apart|from)\b)": "observed",
    r"\bpast (?:evaluation|example|input|reward|choice|observation|pull|data)": "observed",
    r"\bunder ?way\b": "pending, or unfinished",
    r"\b(?:go|goes|going|gone|went) on\b": "resumes (a run), continues (anything else)",
    r"\bbegun\b": "started",
    r"\blook(?:s|ed|ing)? (?:at|back)\b": "score refresh, bound check; reads, checks",
    r"\bplates?\b": "fixed-size batch",
    r"\btracers? (?:can|cannot|may|enters?)\b": "can be traced, cannot be traced",
    r"\b(?:any|some|no|every)body\b": "your own jit and vmap; the subject by its name",
    r"\bof (?:which|whom|whose)\b": "a sentence with its subject first",
}
# folders whose words are still to be changed
EXEMPT: tuple[str, ...] = ()
ANY = re.compile("|".join(FORBIDDEN))


def files():
    found = sorted(
        path for room in ("jsketch", "experiments") for path in (ROOT / room).rglob("*.py")
    )
    return [path for path in found if not path.relative_to(ROOT).as_posix().startswith(EXEMPT)]


def prose(source):
    """(line, text) of each comment block and each string of several words; names in backticks are
    left out."""
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string.lstrip("# ")
    block = []
    for line in sorted(comments):
        if block and line == block[-1] + 1:
            block.append(line)
        else:
            if block:
                yield block[0], " ".join(comments[i] for i in block)
            block = [line]
    if block:
        yield block[0], " ".join(comments[i] for i in block)
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value.strip()
        ):
            yield node.lineno, node.value


def wrong(source):
    """(line, words, what is said instead) of every forbidden phrase."""
    # most files have none, and are not taken apart
    if not ANY.search(" ".join(source.replace("#", " ").split())):
        return []
    return [
        (line, match.group(), instead)
        for line, text in prose(source)
        for phrase, instead in FORBIDDEN.items()
        for match in re.finditer(phrase, re.sub(r"`[^`]*`", "`", " ".join(text.split())))
    ]


def test_docstrings_comments_and_messages_use_the_standard_terms():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words!r}: {instead}"
        for path in files()
        for line, words, instead in wrong(path.read_text())
    ]
    assert len(files()) > 100 and not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('"""Runs that go\non."""', 1),
        ("x = 1  # what is under\n# way\n", 1),
        ('raise ValueError(f"arms {x} were told.")', 1),
        ("told = begun  # `told` counts; told apart\n", 0),
    ],
)
def test_a_forbidden_phrase_is_found_in_prose_alone(source, count):
    assert len(wrong(source)) == count

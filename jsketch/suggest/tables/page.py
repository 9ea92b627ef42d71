"""The page of a suggestion (`jsketch-suggest --report`): one HTML file that contains its
pictures."""

from __future__ import annotations

from pathlib import Path

import jinja2
import markupsafe

from jsketch.loops import saving
from jsketch.suggest.tables import factors, messages, molecules, pictures
from jsketch.suggest.tables.pictures import Figure
from jsketch.suggest.tables.results import Results

TEMPLATE = Path(__file__).with_name("page.html.jinja")
EFFECTS = 6  # pictures of main effects
EFFECT = (
    "Blue: by the model, the average over all other conditions, with its 90% interval. Grey:"
    " measured values. The factor of the largest effect comes first, and all have the same axis of"
    " values."
)
PREDICTED = "predicted (90%)"
DRAWN = 100  # candidates whose molecules are drawn


def write(results: Results) -> None:
    """Writes the page to `options.report`."""
    options, inputs = results.options, results.inputs
    figures, notes = [], messages.describe_batch(results)
    if results.predicted is not None:
        fit, note = pictures.fit(results)
        notes = [note]
        figures = [pictures.best_so_far(results), fit]
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    head, rows = _table(results)
    verdict = messages.verdict(results)
    first, *remarks = messages.describe_inputs(options, inputs)
    html = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=f"Batch {inputs.batch_number} of {options.candidates.name}",
        verdict=verdict,
        heading="The batch, if you go on" if verdict.startswith("Stop") else "The batch",
        notes=[f"{first}.", *notes],
        remarks=remarks,
        figures=[*_of_conditions(results), *figures],
        head=head,
        rows=rows,
        nowrap=head.index(PREDICTED) if PREDICTED in head else -1,
    )
    saving.write(options.report, html.encode())


def _of_conditions(results: Results) -> list[Figure]:
    """Pictures of the conditions: a grid of two factors and main effects; the map of a library of
    numbers and fingerprints; the columns that matter where they are many."""
    inputs = results.inputs
    effects = factors.effects(results)
    some = [effect.factor for effect in effects]
    some = some or [factor for factor in factors.factors(inputs) if factor.numbers is None]
    figures = [pictures.grid(results, *some[:2])] if len(some) > 1 else []
    if all(group.kind != "category" for group in inputs.candidates.columns):
        figures.append(pictures.map_of_library(results))
    ends = pictures.common_ends(results, effects) if effects else (0.0, 1.0)
    captions = [EFFECT, *[""] * EFFECTS]
    for effect, caption in zip(effects[:EFFECTS], captions, strict=False):
        figures.append(pictures.effect(results, effect, ends, caption))
    names = inputs.candidates.names
    if results.predicted is not None and len(names) > EFFECTS:
        figures.append(pictures.importance(names, results.model.lengthscale))
    return figures


def _table(results: Results) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of the batch: ids, conditions, predictions and reasons."""
    options, inputs, batch = results.options, results.inputs, results.batch
    names, cells = messages.conditions(inputs, batch.rows)
    head = ["id" if inputs.sheet is None else inputs.sheet.id_name, *names]
    rows = [[i, *row] for i, row in zip(inputs.candidates.ids[batch.rows], cells, strict=True)]
    for at, name in enumerate(head[1:], 1):
        if name in options.smiles:
            for row in rows[:DRAWN]:
                row[at] = markupsafe.Markup(molecules.drawing(row[at]))
    if results.predicted is not None:
        head.append(PREDICTED)
        for row, words in zip(rows, messages.predictions(results), strict=True):
            row.append(words)
    head.append("reason")
    for row, reason in zip(rows, messages.reasons(results), strict=True):
        row.append(reason)
    return head, rows

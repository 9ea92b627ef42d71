"""The page of a suggestion (`jsketch-suggest --report`): one HTML file that contains its
pictures."""

from __future__ import annotations

from pathlib import Path

import jinja2
import markupsafe
import pandas as pd

from jsketch.loops import saving
from jsketch.suggest.tables import factors, messages, molecules, pictures
from jsketch.suggest.tables.pictures import Figure
from jsketch.suggest.tables.results import Results

TEMPLATE = Path(__file__).with_name("page.html.jinja")
MAX_EFFECTS = 6  # largest number of pictures of main effects
EFFECT_CAPTION = (
    "Blue: the prediction of the model, averaged over all other conditions, with a 90% interval."
    " Grey: measured values. The factor with the largest effect comes first, and all pictures of"
    " effects have the same axis of values."
)
PREDICTION_HEADER = "predicted (90%)"
MAX_DRAWINGS = 100  # largest number of candidates whose molecules are drawn


def write(results: Results) -> None:
    """Writes the page to `options.report`."""
    options, inputs = results.options, results.inputs
    figures, notes = [], messages.describe_batch(results)
    if results.predicted is not None:
        figure, note = pictures.leave_one_out(results)
        notes[0] = note  # in place of the sentence on the model
        figures = [pictures.best_so_far(results), figure]
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    table = _table(results)
    head = list(table)
    verdict = messages.verdict(results)
    first, *remarks = messages.describe_inputs(options, inputs)
    html = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=f"Batch {inputs.batch_number} of {options.candidates.name}",
        verdict=verdict,
        heading="The batch, if you go on" if results.stops else "The batch",
        notes=[f"{first}.", *notes],
        remarks=remarks,
        figures=[*_condition_figures(results), *figures],
        head=head,
        rows=table.to_numpy(object).tolist(),
        nowrap=head.index(PREDICTION_HEADER) if PREDICTION_HEADER in head else -1,
    )
    saving.write(options.report, html.encode())


def _condition_figures(results: Results) -> list[Figure]:
    """Pictures of the conditions: a grid of two factors, the main effects, the map of a library of
    numbers and fingerprints, and the importance of the columns if there are many."""
    inputs = results.inputs
    effects = factors.effects(results)
    shown = [effect.factor for effect in effects]
    shown = shown or [factor for factor in factors.factors(inputs) if factor.numbers is None]
    figures = [pictures.grid(results, *shown[:2])] if len(shown) > 1 else []
    if all(group.kind != "category" for group in inputs.candidates.columns):
        figures.append(pictures.map_of_library(results))
    limits = pictures.value_limits(results, effects) if effects else (0.0, 1.0)
    for i, effect in enumerate(effects[:MAX_EFFECTS]):
        caption = EFFECT_CAPTION if i == 0 else ""
        figures.append(pictures.effect(results, effect, limits, caption))
    names = inputs.candidates.names
    if results.predicted is not None and len(names) > MAX_EFFECTS:
        figures.append(pictures.importance(names, results.model.lengthscale))
    return figures


def _table(results: Results) -> pd.DataFrame:
    """The batch: ids, conditions, predictions and reasons."""
    options, inputs, batch = results.options, results.inputs, results.batch
    frame = messages.conditions(inputs, batch.rows)
    for name in options.smiles:
        words = frame[name]
        drawings = [markupsafe.Markup(molecules.drawing(word)) for word in words[:MAX_DRAWINGS]]
        frame[name] = pd.Series([*drawings, *words[MAX_DRAWINGS:]], dtype=object)
    frame.insert(0, inputs.sheet.id_name, inputs.candidates.ids[batch.rows])
    if results.predicted is not None:
        predictions = messages.predictions(results)
        frame.insert(len(frame.columns), PREDICTION_HEADER, predictions, allow_duplicates=True)
    frame.insert(len(frame.columns), "reason", messages.reasons(results), allow_duplicates=True)
    return frame

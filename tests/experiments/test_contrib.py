"""Experiments beyond the four papers: tables, figures, and runs that resume."""

import numpy as np
import pytest

from experiments import claims, redraw
from experiments.contrib import clients, contextual, saving
from experiments.contrib.claims import PAPER
from experiments.figures.styles import label
from experiments.results import store, tidy

T = np.array([1, 100, 400])
EXPERIMENTS = {part.folder.split("/")[1]: part for part in PAPER.experiments}


def run(problem, method, seed, slope=1.0, **numbers):
    """A run whose curves grow by `slope` in every round."""
    curves = ("regret", "seconds", "dictionary", "average_loss", "regret_ratio", "rounds", "needed")
    arrays = dict(t=T) | {name: slope * T for name in curves}
    arrays |= {name: np.asarray(float(value)) for name, value in numbers.items()}
    return tidy.Run(dict(problem=problem, algorithm=method), seed, arrays)


def results_folder(folder, name, runs):
    """A folder with the results of generated runs."""
    tidy.write(folder, runs, f"beyond.{name}", "a title")
    summary = dict(config=dict(horizon=400), problems=saving.summarise_problems(runs))
    store.write_json(folder / tidy.PROVENANCE, summary)
    return folder


METHODS = dict(
    contextual=contextual.METHODS,
    clients=clients.METHODS,
    drift=("static", "gamma_0.99"),
    drifting_arms=("bkb", "restart_350"),
    few_batches=("batched_exploration", "bbkb_global"),
    unknown=("bbkb_right", "lb_order"),
    width_coverage=("mixture", "certified"),
)


@pytest.mark.parametrize("name", list(METHODS))
def test_the_table_has_the_means_and_intervals_of_all_methods(tmp_path, name):
    [table] = EXPERIMENTS[name].measurements
    messages, runs = dict(sent=50.0 * T, sent_as_data=3.0 * T) if name == "clients" else {}, []
    for method in METHODS[name]:
        for seed in range(2):
            # the values 0.5 and 0.7 have the mean 0.6 and Student's interval 12.706 * 0.1 = 1.2706
            numbers = dict.fromkeys(table.fields, 0.5 + 0.2 * seed)
            runs.append(run("squares", method, seed, **numbers))
            runs[-1].arrays.update(messages)
    folder = results_folder(tmp_path / name, name, runs)
    head, *rows = claims.measurement_rows(claims.read(folder), table)
    assert head == ["problem", "method", *(title for title, _ in table.fields.values())]
    assert [row[1] for row in rows] == [label(method) for method in METHODS[name]]
    for column, (_, digits) in enumerate(table.fields.values(), 2):
        assert {row[column] for row in rows} == {f"{0.6:.{digits}f} ± {1.2706:.{digits}f}"}
    assert redraw.redraw(folder)
    assert all((folder / file).is_file() for file in EXPERIMENTS[name].figures)


def test_a_table_leaves_out_missing_numbers_and_methods_without_numbers(tmp_path):
    table = claims.Measurements("a table", dict(loss=("loss", 2), size=("size", 0)), ("methods",))
    methods = dict(a=dict(loss=0.125, size=7), b=dict(loss=dict(mean=2.0, values=[2.0])), c={})
    store.write_json(tmp_path / tidy.PROVENANCE, dict(methods=methods))
    rows = claims.measurement_rows(claims.read(tmp_path), table)
    assert rows == [["method", "loss", "size"], ["a", "0.12", "7"], ["b", "2.00", ""]]


def test_finished_runs_are_kept_after_an_interrupt(tmp_path):
    """The next call does not repeat finished runs."""
    calls, pairs = [], [(problem, method) for problem in "pq" for method in "ab"]

    def make(problem, method):
        calls.append((problem, method))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return [dict(t=T, regret=T + seed, total=seed) for seed in range(2)]

    def runs(config):
        return saving.load_or_run(tmp_path, config, pairs, 2, make)

    with pytest.raises(KeyboardInterrupt):
        runs(dict(horizon=400))
    finished = runs(dict(horizon=400))
    assert calls == [("p", "a"), ("p", "b"), ("q", "a"), ("q", "a"), ("q", "b")]
    names = [(run.config["problem"], run.config["algorithm"], run.seed) for run in finished]
    assert names == [(p, m, seed) for p, m in pairs for seed in range(2)]
    assert all(run.arrays["total"] == run.seed for run in finished)
    with pytest.raises(ValueError, match="horizon was 400, is now 500"):
        runs(dict(horizon=500))

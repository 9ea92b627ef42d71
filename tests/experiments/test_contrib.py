"""Experiments beyond the four papers: tables, figures, and runs that resume."""

import csv

import numpy as np
import pytest

from experiments.contrib import (
    clients,
    contextual,
    drift,
    drifting_arms,
    few_batches,
    saving,
    unknown,
    width_coverage,
)
from experiments.figures.styles import label
from experiments.results import store, tidy

T = np.array([1, 100, 400])
# {experiment: methods in its tables}
METHODS = {
    contextual: contextual.METHODS,
    clients: clients.METHODS,
    drift: ("static", "gamma_0.99"),
    drifting_arms: ("bkb", "restart_350"),
    few_batches: ("batched_exploration", "bbkb_global"),
    unknown: ("bbkb_right", "lb_order"),
    width_coverage: ("mixture", "certified"),
}


def run(problem, method, seed, slope=1.0, **numbers):
    """A run whose curves grow by `slope` in every round."""
    curves = ("regret", "seconds", "dictionary", "average_loss", "regret_ratio", "rounds", "needed")
    arrays = dict(t=T) | {name: slope * T for name in (*curves, "sent", "sent_as_data")}
    arrays |= {name: np.asarray(float(value)) for name, value in numbers.items()}
    return tidy.Run(dict(problem=problem, algorithm=method), seed, arrays)


def results_folder(folder, runs):
    """A folder with the results of generated runs."""
    tidy.write(folder, runs, "beyond.test", "a title")
    store.write_json(folder / tidy.PROVENANCE, dict(config=dict(horizon=400)))
    return folder


@pytest.mark.parametrize("experiment", METHODS, ids=lambda experiment: experiment.__name__)
def test_a_figure_has_a_picture_and_a_table_of_all_methods(tmp_path, experiment):
    numbers = dict(most_needed=0.5, final_regret_ratio=0.5, loss=0.5)
    methods = METHODS[experiment]
    runs = [run("squares", m, seed, 1.0, **numbers) for m in methods for seed in range(2)]
    folder = results_folder(tmp_path, runs)
    experiment.draw(folder)
    assert list(folder.glob("*.png"))
    _, *rows = csv.reader((folder / "numbers.csv").read_text().splitlines())
    assert [row[1] for row in rows] == [label(method) for method in methods]


def test_a_table_has_the_means_and_intervals_of_the_numbers_that_exist(tmp_path):
    runs = [run("squares", "bkb", seed, final_regret=0.5 + 0.2 * seed) for seed in range(2)]
    runs += [run("squares", "uniform", 0, final_regret=2.0), run("squares", "cbkb", 0, points=7)]
    fields = dict(final_regret=("regret", 2), points=("points", 0), absent=("absent", 1))
    saving.write_numbers(results_folder(tmp_path, runs), fields)
    assert list(csv.reader((tmp_path / "numbers.csv").read_text().splitlines())) == [
        ["problem", "method", "regret", "points"],
        # 0.5 and 0.7 have the mean 0.6 and Student's interval 12.706 * 0.1
        ["squares", label("bkb"), "0.60 ± 1.27", ""],
        ["squares", label("uniform"), "2.00", ""],
        ["squares", label("cbkb"), "", "7"],
    ]


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

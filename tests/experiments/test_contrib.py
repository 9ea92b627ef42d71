"""Experiments beyond the four papers: tables and figures of made-up runs, and runs that resume."""

import argparse
from functools import partial

import jax
import numpy as np
import pytest

from experiments import claims, redraw
from experiments.contrib import clients, contextual, drift, saving
from experiments.contrib.claims import PAPER
from experiments.figures.styles import label
from experiments.results import store, tidy
from jsketch.contrib.problems import play

T = np.array([1, 100, 400])
EXPERIMENTS = {part.folder.split("/")[1]: part for part in PAPER.experiments}


def run(problem, method, seed, slope=1.0, **numbers):
    """A run whose curves all grow by `slope` a round."""
    curves = ("regret", "seconds", "dictionary", "average_loss", "regret_ratio", "rounds", "needed")
    arrays = dict(t=T) | {name: slope * T for name in curves}
    arrays |= {name: np.asarray(float(value)) for name, value in numbers.items()}
    return tidy.Run(dict(problem=problem, algorithm=method), seed, arrays)


def made(folder, name, runs):
    """A folder of results with made-up runs."""
    tidy.write(folder, runs, f"beyond.{name}", "a title")
    summary = dict(config=dict(horizon=400), problems=saving.of_problems(runs))
    store.write_json(folder / tidy.PROVENANCE, summary)
    return folder


def numbers_of(name):
    """All numbers that the table of an experiment reads, and the curves of its figure."""
    fields = EXPERIMENTS[name].measurements[0].fields
    curves = dict(sent=50.0 * T, sent_as_data=3.0 * T) if name == "clients" else {}
    return dict.fromkeys(fields, 0.5), curves


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
    runs = []
    for method in METHODS[name]:
        numbers, curves = numbers_of(name)
        for seed in range(2):
            # values 0.5 and 0.7: mean 0.6, interval 1.96 sd / sqrt(2) = 0.196
            shifted = {field: value + 0.2 * seed for field, value in numbers.items()}
            single = run("squares", method, seed, **shifted)
            single.arrays.update(curves)
            runs.append(single)
    folder = made(tmp_path / name, name, runs)
    [table] = EXPERIMENTS[name].measurements
    head, *rows = claims.measured(claims.read(folder), table)
    assert head == ["problem", "method", *(head for head, _ in table.fields.values())]
    assert [row[1] for row in rows] == [label(method) for method in METHODS[name]]
    for column, (_, digits) in enumerate(table.fields.values(), 2):
        assert {row[column] for row in rows} == {f"{0.6:.{digits}f} ± {0.196:.{digits}f}"}
    assert redraw.redraw(folder)
    assert all((folder / figure.file).is_file() for figure in EXPERIMENTS[name].figures)


def test_a_table_leaves_out_missing_numbers_and_methods_without_any(tmp_path):
    table = claims.Measurements("a table", dict(loss=("loss", 2), size=("size", 0)), ("methods",))
    methods = dict(a=dict(loss=0.125, size=7), b=dict(loss=dict(mean=2.0, values=[2.0])), c={})
    store.write_json(tmp_path / tidy.PROVENANCE, dict(methods=methods))
    rows = claims.measured(claims.read(tmp_path), table)
    assert rows == [["method", "loss", "size"], ["a", "0.12", "7"], ["b", "2.00", ""]]


@pytest.mark.slow
def test_runs_in_parts_are_those_of_play():
    problem = contextual.problem_of("squares")
    bandit = contextual.bandit_of("ek_ucb_2", 40, 40, 3.0)
    keys = jax.random.split(jax.random.key(3), 2)
    in_parts, seconds = contextual.measured(problem, bandit, 40, keys)
    expected = play(problem, bandit, 40, keys)
    assert np.array_equal(in_parts.action, expected.action) and (np.diff(seconds) >= 0).all()
    assert np.array_equal(in_parts.reward, expected.reward) and len(seconds) == contextual.PARTS
    options = argparse.Namespace(horizon=40, seeds=2)
    # the keys of the experiment, which every method has
    keys = jax.random.split(jax.random.key(1), 2)
    uniform = play(problem, bandit, 40, keys).uniform_regret.sum(1)
    runs = contextual.runs(options, "squares", "uniform")
    np.testing.assert_allclose([run["final_regret"] for run in runs], uniform, rtol=1e-12)


def test_finished_runs_are_kept_after_an_interrupt(tmp_path, monkeypatch):
    """Finished runs are not made again, and neither are streams that have stopped."""
    calls, pairs = [], [(problem, method) for problem in "pq" for method in "ab"]

    def make(problem, method):
        calls.append((problem, method))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return [dict(t=T, regret=T + seed, total=seed) for seed in range(2)]

    def runs(config):
        return saving.of_all(tmp_path, config, pairs, 2, make)

    with pytest.raises(KeyboardInterrupt):
        runs(dict(horizon=400))
    finished = runs(dict(horizon=400))
    assert calls == [("p", "a"), ("p", "b"), ("q", "a"), ("q", "a"), ("q", "b")]
    names = [(run.config["problem"], run.config["algorithm"], run.seed) for run in finished]
    assert names == [(p, m, seed) for p, m in pairs for seed in range(2)]
    assert all(run.arrays["total"] == run.seed for run in finished)
    with pytest.raises(ValueError, match="horizon was 400, is now 500"):
        runs(dict(horizon=500))

    monkeypatch.setattr(drift, "losses", lambda method, task: calls.append(method))
    made = partial(drift.runs, argparse.Namespace(seeds=2, examples=8))
    for _ in range(2):
        stopped = saving.of_all(tmp_path, {}, [("jumps", "static")], 2, made)
        assert calls[5:] == ["static"] * 2 and all("stopped" in run.arrays for run in stopped)


def test_the_last_point_of_a_curve_is_the_horizon():
    for horizon in (1, 7, 119, 4_000):
        t = saving.grid(horizon)
        assert t[-1] == horizon and len(t) == min(horizon, saving.POINTS) and (np.diff(t) > 0).all()

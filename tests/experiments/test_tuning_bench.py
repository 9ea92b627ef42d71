"""The benchmark of `minimize`: its problems, and runs that are kept in a file."""

import sys

import numpy as np
import pandas as pd
import pytest

from experiments.bench import tuning


@pytest.mark.parametrize("name", tuning.PROBLEMS)
def test_every_problem_has_a_finite_loss_that_depends_on_its_hyperparameters(name):
    problem = tuning.PROBLEMS[name]
    loss = tuning.loss_of(problem)
    points = np.random.default_rng(0).random((3, len(problem.space.names)))
    losses = [loss(**problem.space.decode(10 * u)) for u in points]
    assert np.isfinite(losses).all() and len(set(losses)) > 1


def test_finished_runs_are_kept(tmp_path, monkeypatch, capsys):
    file = tmp_path / "runs.csv"
    words = ["--only", "linear", "--samplers", "random", "--out", str(file), "--seeds"]
    for seeds, printed in (("1", 1), ("2", 1), ("2", 0)):
        monkeypatch.setattr(sys, "argv", ["tuning", *words, seeds])
        tuning.main()
        lines = capsys.readouterr().out.splitlines()
        assert sum(" seed " in line for line in lines) == printed
    runs = pd.read_csv(file)
    assert list(runs["seed"]) == [0, 1] and (runs["best_40"] <= runs["best_20"]).all()
    last = lines[-1].split()
    assert last[:2] == ["linear", "random"] and float(last[2]) == pytest.approx(
        runs["best_20"].mean(), abs=1e-4
    )

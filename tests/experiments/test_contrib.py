"""Experiments beyond the four papers: verdicts of made-up runs, figures, and runs that resume."""

import argparse
import itertools
from functools import partial

import jax
import numpy as np
import pytest

from experiments import claims, redraw
from experiments.contrib import clients, contextual, drift, few_batches, saving, unknown
from experiments.contrib.claims import PAPER
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


def runs_of(numbers, problems):
    """Two seeds of every method on every problem; numbers: {method: arguments of `run`}."""
    cases = itertools.product(problems, numbers.items(), range(2))
    return [run(problem, method, seed, **values) for problem, (method, values), seed in cases]


def outcomes(root, name, runs, drawn=False, **config):
    """The verdicts of an experiment; `drawn` also draws its figures."""
    folder = root / "beyond" / name
    tidy.write(folder, runs, f"beyond.{name}", "a title")
    config = dict(horizon=400) | config
    summary = dict(config=config, problems=saving.of_problems(runs))
    store.write_json(folder / tidy.PROVENANCE, summary)
    judged = [claims.judge(claim, folder) for claim in EXPERIMENTS[name].claims]
    if drawn:
        assert redraw.redraw(folder)
        assert all((folder / figure.file).is_file() for figure in EXPERIMENTS[name].figures)
    return [outcome.verdict for outcome in judged]


def contexts(points, slopes):
    common = dict(points=points, horizon=400)
    numbers = {m: dict(slope=s, final_regret=s * 400, **common) for m, s in slopes.items()}
    return runs_of(numbers, ["squares"])


def test_contexts(tmp_path):
    slopes = dict(zip(contextual.METHODS, (5.0, 2.0, 1.0, 4.0, 2.0), strict=True))
    assert set(outcomes(tmp_path, "contextual", contexts(50, slopes), True)) == {"confirmed"}
    # the dictionary has more than half of the rounds, and EK-UCB the largest time and regret
    slopes |= dict(ek_ucb_2=9.0, cbbkb_3=4.5)
    verdicts = outcomes(tmp_path, "contextual", contexts(201, slopes))
    assert set(verdicts) == {"differs"}


def streams(excess, forgets):
    losses = dict(static=40.0, over_discounts=10.0 + excess, kernel_static=40.0)
    losses |= {f"gamma_{g:g}": forgets for g in (0.9, 0.97, 0.99, 0.997, 0.999)}
    losses |= {"kernel_0.99": 2 * forgets, "kernel_ridge_0.99": forgets}
    numbers = {m: dict(loss=total / 400, total_loss=total) for m, total in losses.items()}
    return runs_of(numbers, ("jumps", "turning"))


@pytest.mark.parametrize(
    "excess, forgets, expected",
    [
        # 2 log 6 = 3.58
        (3.5, 10.0, ["confirmed"] * 3),
        (3.7, 10.0, ["confirmed", "differs", "confirmed"]),
        (3.7, 21.0, ["differs", "confirmed", "differs"]),
    ],
)
def test_drift(tmp_path, excess, forgets, expected):
    discounts = [0.9, 0.97, 0.99, 0.997, 0.999, 1.0]
    runs = streams(excess, forgets)
    assert outcomes(tmp_path, "drift", runs, discounts=discounts) == expected


@pytest.mark.parametrize(
    "batches, left, regret, random, expected",
    [(5, 1, 200.0, 0.54, "confirmed"), (6, 0, 400.0, 0.56, "differs")],
)
def test_few_batches(tmp_path, batches, left, regret, random, expected):
    ratios = dict(bbkb_global=0.5, bbkb_global_local=0.5, random_exploration=random)
    numbers = {m: dict(batches=batches, final_regret_ratio=r) for m, r in ratios.items()}
    common = dict(best_is_left=left, most_batches=few_batches.most_batches(400), batches=batches)
    for name, total, horizon in (("", regret, 400), ("_quarter", 100.0, 100)):
        more = dict(horizon=horizon, final_regret=total, final_regret_ratio=0.5)
        numbers[f"batched_exploration{name}"] = common | more
    runs = runs_of(numbers, ("gp_draw_0", "known_norm"))
    assert outcomes(tmp_path, "few_batches", runs) == [expected] * 4


@pytest.mark.parametrize("covered, better, expected", [(1, 0.3, "confirmed"), (0, 0.6, "differs")])
def test_widths(tmp_path, covered, better, expected):
    ahead = ("mixture", "smooth_tight", "certified_mixture")
    values = dict.fromkeys(ahead, better) | dict(gp_ucb_tight=0.5, certified=0.5)
    common = dict(covered=covered, most_needed=0.5)
    numbers = {m: common | dict(last_width=v, final_regret_ratio=v) for m, v in values.items()}
    runs = runs_of(numbers, ["exact"])
    assert set(outcomes(tmp_path, "width_coverage", runs, covered == 1)) == {expected}


def test_changing_means(tmp_path):
    ratio = {"bkb": 0.4, "restart_350": 0.1, "discount_0.998": 0.1, "discount_0.995": 0.2}
    ratio |= dict(window_500=0.21)
    numbers = {m: dict(final_regret_ratio=v, last_tenth=v) for m, v in ratio.items()}
    runs = runs_of(numbers, ("drift", "jump"))
    verdicts = outcomes(tmp_path, "drifting_arms", runs)
    assert verdicts == ["confirmed", "confirmed", "differs", "differs"] * 2


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


def of_clients(chosen, sent, exchanges, slope=0.5):
    """Runs in which the regret of every threshold but the chosen one is 0.01."""
    ratio = {name: 0.01 for name in clients.METHODS} | {"alone": 0.1, "exchange_0.1": chosen}
    runs = []
    for name, value in ratio.items():
        for seed in range(2):
            numbers = dict(final_sent=sent, final_sent_as_data=1_000.0, exchanges=400.0, points=9)
            numbers["exchanges"] = exchanges if name == "exchange_0.1" else 400.0
            single = run("waves", name, seed, final_regret_ratio=value, **numbers)
            t = single.arrays["t"]
            # a regret and messages that grow with this power
            single.arrays.update(sent=50.0 * t**slope, sent_as_data=3.0 * t)
            single.arrays["regret_ratio"] = value * (t / t[-1]) ** (slope - 1)
            runs.append(single)
    return runs


def test_clients(tmp_path):
    assert set(outcomes(tmp_path, "clients", of_clients(0.011, 900, 20), True)) == {"confirmed"}
    runs = of_clients(0.051, 1_100, 20, slope=1.0)
    assert set(outcomes(tmp_path, "clients", runs)) == {"differs"}
    # the regret of exchanging always, but in more than half of the rounds
    verdicts = outcomes(tmp_path, "clients", of_clients(0.01, 900, 201))
    assert verdicts == ["confirmed", "differs", "confirmed", "confirmed"]


def of_unknown(balanced, ruled_out, bound):
    ratio = dict(bbkb_right=0.1, bbkb_long=0.3, bbkb_short=0.2, norm_small=0.2)
    ratio |= {name: balanced for name in unknown.METHODS if name.startswith("lb_")}
    ratio |= dict(norm_known=0.25, norm_doubling=1.5 * balanced)
    runs = []
    for problem in ("draw", "abalone"):
        for name, value in ratio.items():
            if problem == "abalone" and name in unknown.ON_DRAW:
                continue
            for seed in range(2):
                numbers = dict(norm=4.0)
                if name.startswith("lb_"):
                    numbers |= {f"out_{f:g}": ruled_out * (seed == 0) for f in unknown.FACTORS}
                if name == "norm_doubling":
                    numbers["last_bound"] = bound
                runs.append(run(problem, name, seed, final_regret_ratio=value, **numbers))
    return runs


@pytest.mark.parametrize(
    "balanced, out, bound, expected", [(0.18, 0, 6.4, "confirmed"), (0.31, 1, 8.1, "differs")]
)
def test_unknown(tmp_path, balanced, out, bound, expected):
    runs = of_unknown(balanced, out, bound)
    assert set(outcomes(tmp_path, "unknown", runs, out == 0)) == {expected}

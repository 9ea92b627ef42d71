"""The rules and the measurements of BKB's figures, on made-up tables and on a small problem."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from experiments import common
from experiments.bkb_2019 import linear, theorems, time
from experiments.results import store, tidy
from jsketch import Arms


def write(folder, runs):
    """Writes tables of the runs (problem, algorithm, seed, arrays)."""
    table = [tidy.Run(dict(problem=p, algorithm=name), seed, a) for p, name, seed, a in runs]
    tidy.write(folder, table, "made up", "made up")
    store.write_json(folder / tidy.PROVENANCE, {})


def test_accuracy_is_1_if_all_pulled_arms_are_in_the_dictionary():
    """A dictionary without some of them has the factors that definitions on the arms' span give."""
    random = np.random.default_rng(0)
    x = random.uniform(size=(12, 2))
    counts = np.array([3.0, 1, 4, 0, 2, 1, 0, 0, 5, 1, 0, 2])
    gram = np.asarray(theorems.KERNEL.gram(jnp.asarray(x), jnp.asarray(x)))

    def variance_of(inducing):
        points = gram[:, inducing]
        nystrom = points @ np.linalg.inv(gram[np.ix_(inducing, inducing)]) @ points.T
        system = np.diag(np.where(counts > 0, theorems.LAM / np.maximum(counts, 1e-12), 1e12))
        explained = nystrom @ np.linalg.inv(nystrom + system) @ nystrom
        return (np.diag(gram) - np.diag(explained)) / theorems.LAM

    every, few = counts > 0, np.arange(12) == 2
    saved = dict(x=x, counts=np.stack([counts, counts]), inducing=np.stack([every, few]))
    saved["variance"] = np.stack([variance_of(every), variance_of(few)])
    measured = theorems.accuracy(saved)
    np.testing.assert_allclose(measured["variance_factor"][0], 1, rtol=1e-6)
    np.testing.assert_allclose(measured["operator_factor"][0], 1, rtol=1e-6)
    ratio = variance_of(few) / variance_of(every)
    np.testing.assert_allclose(measured["variance_factor"][1], max(ratio.max(), 1 / ratio.min()))
    points = gram[:, few]
    nystrom = points @ points.T / gram[few, few]
    exact = gram @ (counts[:, None] * gram) + theorems.LAM * gram
    sketched = nystrom @ (counts[:, None] * nystrom) + theorems.LAM * gram
    eigenvalues = scipy.linalg.eigh(sketched, exact, eigvals_only=True)
    factor = max(eigenvalues.max(), 1 / eigenvalues.min())
    np.testing.assert_allclose(measured["operator_factor"][1], factor, rtol=1e-5)
    assert (measured["dictionary"] == [8, 1]).all() and (measured["pulled"] == 8).all()
    d_eff = np.trace(gram * counts @ np.linalg.inv(gram * counts + theorems.LAM * np.eye(12)))
    np.testing.assert_allclose(measured["d_eff"], d_eff, rtol=1e-8)


def test_a_kept_dictionary_only_loses_arms_while_probabilities_fall():
    bandit = theorems.make("bkb_kept_2", theorems.jax.random.key(0))
    arms = Arms(jnp.linspace(0, 1, theorems.ARMS)[:, None])
    state = bandit.init(arms, theorems.jax.random.key(1))
    state = state.replace(counts=jnp.ones(theorems.ARMS))
    sizes, before = [], None
    for scale in (0.3, 0.2, 0.1):
        posterior = state.posterior.replace(variance=jnp.full(theorems.ARMS, scale))
        drawn = bandit.resparsify(state.replace(posterior=posterior), theorems.jax.random.key(2))
        assert before is None or not (drawn & ~before).any()
        before, sizes = drawn, [*sizes, int(drawn.sum())]
    # each arm is kept with probability 2/3, and then 1/2
    np.testing.assert_allclose(sizes, np.array([0.6, 0.4, 0.2]) * theorems.ARMS, atol=30)


def theorem_runs(factor=2.0, size=20.0, bkb=150.0, uniform=1_000.0):
    """Runs in which BKB has these numbers, d_eff = 10 and 80 pulled arms, and GP-UCB regret 100."""
    t, runs = np.array([10, 500]), []
    for seed in range(40):
        noise = 1 + 0.001 * seed
        for name, regret in dict(gp_ucb=100.0, uniform=uniform).items():
            runs.append(("made up", name, seed, dict(t=t, regret=np.full(2, regret * noise))))
        for name in theorems.SKETCHED:
            numbers = dict(variance_factor=factor, operator_factor=factor, dictionary=size)
            numbers |= dict(pulled=80.0, d_eff=10.0, regret=bkb * noise)
            arrays = {k: np.full(2, v) for k, v in numbers.items()}
            runs.append(("made up", name, seed, dict(t=t) | arrays))
    return runs


@pytest.mark.parametrize(
    ("check", "word", "numbers"),
    [
        (theorems.accurate_variances, "confirmed", {}),
        (theorems.accurate_operators, "differs", dict(factor=4.0)),
        (theorems.small_dictionary, "confirmed", {}),
        (theorems.small_dictionary, "undecided", dict(size=100.0)),  # a sixth is 30 for q_bar = 1
        (theorems.small_dictionary, "differs", dict(size=200.0)),
        (theorems.regret_of_gp_ucb, "confirmed", {}),
        (theorems.regret_of_gp_ucb, "undecided", dict(bkb=400.0)),
        (theorems.regret_of_gp_ucb, "differs", dict(bkb=2_000.0)),
        (theorems.regret_of_gp_ucb, "undecided", dict(uniform=250.0)),  # the rule cannot fail
    ],
)
def test_a_rule_of_a_theorem(tmp_path, check, word, numbers):
    write(tmp_path / theorems.FOLDER, theorem_runs(**numbers))
    assert common.judge(check, tmp_path).word == word


@pytest.mark.parametrize(("power", "word"), [(1.0, "confirmed"), (1.3, "differs")])
def test_the_rule_of_the_time(tmp_path, power, word):
    runs = []
    for varied, arms, horizon in [
        *(("arms", n, 200) for n in (1_000, 4_000)),
        *(("evaluations", 1_000, t) for t in (250, 1_000)),
    ]:
        for seed in range(3):
            config = dict(problem=varied, algorithm="bkb", arms=arms, horizon=horizon)
            seconds = arms * horizon**power * (1 + 0.01 * seed)
            arrays = dict(t=np.array([horizon]), cpu_seconds=np.array(seconds))
            arrays |= dict(inducing_points=np.array(5.0), cost=np.array([seconds]))
            runs.append(tidy.Run(config, seed, arrays))
    tidy.write(tmp_path / time.FOLDER, runs, "made up", "made up")
    store.write_json(tmp_path / time.FOLDER / tidy.PROVENANCE, {})
    assert common.judge(time.near_linear_time, tmp_path).word == word


@pytest.mark.parametrize(
    ("full", "tuned", "word"),
    [(0.3, 0.2, "confirmed"), (0.3, 0.05, "undecided"), (0.05, 0.2, "differs")],
)
def test_the_comparison_with_soful_ts_counts_both_widths(tmp_path, full, tuned, word):
    for name in linear.PROBLEMS:
        for end, ratio in (("", tuned), ("_ts", full)):
            ratios = dict(soful_ts=ratio, bkb=0.1, bkb_theory=0.1)
            runs = [
                ("made up", method, seed, dict(t=np.array([1]), final_regret_ratio=np.array(value)))
                for method, value in ratios.items()
                for seed in range(3)
            ]
            for *_, seed, arrays in runs:
                arrays |= dict(regret_ratio=np.ones(1))
                arrays["final_regret_ratio"] = arrays["final_regret_ratio"] + 1e-3 * seed
            write(tmp_path / "bkb_2019" / (name + end), runs)
    assert common.judge(linear.less_regret_than_soful_ts, tmp_path).word == word


def test_a_quick_measurement_of_the_theorems_runs_and_resumes(tmp_path, monkeypatch):
    quick = dict(seeds=1, stops=(2, 5), methods=("gp_ucb", "bkb_1"))
    monkeypatch.setattr(theorems, "QUICK", quick)
    options = common.Options(tmp_path, quick=True)
    common.make(theorems, options)
    folder = tmp_path / theorems.FOLDER
    assert (folder / "theorems.png").exists()
    pulled = common.curve(folder, "pulled", "bkb_1")[1]
    assert ((pulled >= 1) & (pulled <= [2, 5])).all()
    # all runs exist
    monkeypatch.setattr(theorems, "play", None)
    common.make(theorems, options)

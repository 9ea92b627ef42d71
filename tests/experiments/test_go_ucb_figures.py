"""Figures of GO-UCB: the null baseline, rules on made-up tables, the rows of rate.py, and quick
figures."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import common
from experiments.go_ucb_2023 import fig2_functions, fig3_4_5_tuning, own_model, rate
from experiments.results import store, tidy

F1 = fig2_functions.FUNCTIONS["f1"]
STEPS = F1[1] + F1[2]


def write_f1(folder, regrets):
    """Tables of runs on f1 with the regrets {method: [S, 30]}; the observed values are their
    negatives."""
    runs = [
        tidy.Run(
            dict(problem="f1", algorithm=name),
            seed,
            dict(t=np.arange(1, STEPS + 1), regret=row, y=-row),
        )
        for name, rows in regrets.items()
        for seed, row in enumerate(np.asarray(rows, float))
    ]
    tidy.write(folder, runs, "made up", "made up")
    provenance = dict(functions=dict(f1=dict(uniform_regret=1.0)))
    store.write_json(folder / tidy.PROVENANCE, provenance)


def test_the_null_baseline_repeats_the_best_observed_point_of_phase_one(tmp_path):
    regret = np.full((2, STEPS), 9.0)
    regret[0, :5], regret[1, :5] = [5, 3, 4, 6, 7], [2, 8, 8, 8, 8]
    write_f1(tmp_path / "runs", dict(uniform=regret))
    null = fig2_functions.repeated(tmp_path / "runs", "f1", "uniform")
    assert (null[:, :5] == regret[:, :5]).all() and (null[:, 5:].T == [3, 2]).all()


def test_a_flat_curve_is_confirmed_only_if_phase_two_finds_the_optimum(tmp_path):
    """Ten groups of five runs without an optimal point in phase I, or with one in each."""
    found, lost, lucky = np.ones((50, STEPS)), np.ones((50, STEPS)), np.ones((50, STEPS))
    found[:, 5:] = 0
    lucky[:, 4:] = 0
    half = np.concatenate([lucky[:40], lost[:10]])
    words = {}
    for name, regret in dict(found=found, lost=lost, lucky=half).items():
        root = tmp_path / name
        for folder in ("rates_f1", "synthetic"):
            write_f1(root / "go_ucb_2023" / folder, dict(go_ucb_printed=regret))
        words[name] = common.judge(fig2_functions.optimum_after_phase_one, root).word
    assert words == dict(found="confirmed", lost="differs", lucky="undecided")


@pytest.mark.parametrize(
    ("ours", "authors", "word"),
    [
        *((0, 0, "confirmed"), (1, 1, "differs"), (1, 0, "undecided"), (1, None, "undecided")),
        # t = 22 is the evaluation 22 or 27
        (np.arange(STEPS) < F1[1] + 21, np.arange(STEPS) < F1[1] + 21, "undecided"),
        (np.arange(STEPS) < 21, np.arange(STEPS) < 21, "confirmed"),
    ],
)
def test_turbo_is_flat_with_both_implementations(tmp_path, ours, authors, word):
    """Regrets of 0 or of uniform points (1) in all 50 runs, or at some evaluations; None: not
    run."""
    flat, folder = np.zeros((50, STEPS)), tmp_path / "go_ucb_2023"
    write_f1(folder / "rates_f1", dict(go_ucb_printed=flat))
    write_f1(folder / "synthetic_f1", dict(go_ucb_printed=flat))
    write_f1(folder / "synthetic_uniform", dict(gp_ei_uniform=flat))
    write_f1(folder / "synthetic", dict(go_ucb_printed=flat, turbo=flat + ours))
    if authors is not None:
        write_f1(folder / "turbo_f1", dict(original=flat + authors))
    found = common.judge(fig2_functions.flat_from_22, tmp_path)
    assert found.word == word, found.numbers


@pytest.mark.parametrize(
    ("found", "turbo", "word"),
    [(0.0, 0.3, "confirmed"), (0.2, 0.1, "differs"), (0.2, 0.3, "undecided")],
)
def test_phase_two_is_effective_if_it_leads_and_finds_better_points(tmp_path, found, turbo, word):
    """GO-UCB's regret in phase II is `found`, where the best point of phase I has 0.2; the others
    have the regret of `turbo`."""
    problem = "mlp-breast_cancer"

    def write(name, methods):
        runs = [
            tidy.Run(
                dict(problem=problem, algorithm=method),
                seed,
                dict(t=np.arange(1, 31), regret=np.append(np.full(5, 0.2), np.full(25, second))),
            )
            for method, second in methods.items()
            for seed in range(20)
        ]
        folder = tmp_path / "go_ucb_2023" / name
        tidy.write(folder, runs, "made up", "made up")
        f_star = {problem: dict(f_star=[1.0] * 20)}
        store.write_json(folder / tidy.PROVENANCE, dict(problems=f_star))

    others = dict.fromkeys((*fig3_4_5_tuning.UNIFORM_GP, "turbo"), turbo)
    write("tuning_perceptron", dict(go_ucb_printed=found) | others)
    for name in fig3_4_5_tuning.IMPLEMENTATIONS.values():
        methods = fig3_4_5_tuning.RUNS[name]["methods"]
        write(name.split("/")[1], dict.fromkeys(methods, turbo))
    verdict = common.judge(fig3_4_5_tuning.phase_two_is_effective, tmp_path)
    assert verdict.word == word, verdict.numbers


def test_intervals_of_tuning_are_over_partitions():
    """The folds of a partition count once; those of an unfinished one do not count."""
    values = np.append(np.repeat([1.0, 2.0, 4.0], 5), 100.0)
    found = fig3_4_5_tuning.difference(values, np.zeros(16))
    assert found == common.mean_interval([1.0, 2.0, 4.0])
    with pytest.raises(common.Missing, match="whole partition"):
        fig3_4_5_tuning.of_partitions(values[:4])


def test_implementations_that_disagree_or_were_not_run_leave_a_claim_undecided():
    def missing():
        raise common.Missing("made up")

    cases = {
        name: partial(common.verdict, holds, "") for name, holds in dict(a=True, b=False).items()
    }
    assert common.agreed(cases).word == common.UNDECIDED
    assert common.agreed(dict(a=cases["a"])).word == common.CONFIRMED
    assert common.agreed(dict(b=cases["b"])).word == common.DIFFERS
    for name in cases:
        word, numbers = common.agreed({name: cases[name], "other": missing})
        assert word == common.UNDECIDED and "Not run: made up" in numbers


def test_claims_on_methods_that_were_not_run_are_undecided(tmp_path):
    """The folders of a quick run have two methods on f1."""
    rng = np.random.default_rng(0)
    for folder in fig2_functions.RUNS:
        regrets = dict(uniform=rng.random((2, STEPS)), go_ucb_printed=rng.random((2, STEPS)))
        write_f1(tmp_path / folder, regrets)
    for check in fig2_functions.CHECKS:
        word, numbers = common.judge(check, tmp_path)
        assert word == common.UNDECIDED, numbers
    numbers = common.judge(fig2_functions.go_ucb_leads, tmp_path).numbers
    assert "Not run: runs of turbo" in numbers


def test_tables_of_laws_have_paired_differences_and_shares_of_parameters(tmp_path):
    """Two seeds with 4 and 2 identified of 5 parameters, of which 3 and 2 intervals hold."""
    t = np.arange(1, 11)
    final = [
        dict(held=3, held_exchanged=4, identified=4, held_any=4),
        dict(held=2, held_exchanged=2, identified=2, held_any=5),
    ]
    runs = []
    for seed, values in enumerate(final):
        curves = dict(t=t, regret_ratio=np.full(10, 0.2 + seed), simple_regret=np.zeros(10))
        values |= dict(parameters=5, misfit_5=False, misfit_10=seed == 1, noise_ratio=1.5)
        numbers = {name: np.array(value) for name, value in values.items()}
        runs.append(tidy.Run(dict(problem="hill", algorithm="model"), seed, curves | numbers))
        curves = curves | dict(regret_ratio=np.full(10, 1.0 + seed))
        runs.append(tidy.Run(dict(problem="hill", algorithm="uniform"), seed, curves))
    tidy.write(tmp_path, runs, "made up", "made up")
    store.write_json(tmp_path / tidy.PROVENANCE, {})
    own_model.draw(tmp_path)
    assert (tmp_path / "regret.png").exists()
    regrets = (tmp_path / "regret.csv").read_text().splitlines()
    assert "hill,regret_ratio,10,uniform,1.500,-0.800 ± 0.000" in regrets
    intervals = (tmp_path / "intervals.csv").read_text().splitlines()[1]
    assert intervals == "hill,0.600,0.833,1.000,0.900,0.000,0.500,1.500"


def test_rows_as_a_triangular_factor_give_the_estimate_of_all_rows():
    """`rate.with_row` against eq. 5 in dense NumPy code."""
    keys, lam = jax.random.split(jax.random.key(0), 3), 3.0
    x = jax.random.uniform(keys[0], (12, 2), minval=-1, maxval=1)
    y, w0 = jax.random.normal(keys[1], (12,)), rate.draw_parameters(keys[2], x[0])
    zeros = jnp.zeros((5, 5))
    state = rate.State(x, y, jnp.ones(12, bool), zeros, zeros[0], w0)
    add, slope = jax.jit(rate.with_row), jax.jit(jax.value_and_grad(rate.bump))
    rows, targets, w = np.zeros((0, 5)), np.zeros(0), np.asarray(w0)
    for point, value in zip(x, y, strict=True):
        f, gradient = map(np.asarray, slope(jnp.asarray(w), point))
        rows, targets = np.vstack([rows, gradient]), np.append(targets, gradient @ w + value - f)
        sigma = lam * np.eye(5) + rows.T @ rows
        w = np.linalg.solve(sigma, rows.T @ targets + lam * np.asarray(w0))
        state = add(state, point, value, w0, lam)
    np.testing.assert_allclose(state.w, w, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(state.factor.T @ state.factor, rows.T @ rows, atol=1e-10)


def test_the_slope_is_that_of_a_power(tmp_path):
    powers = dict(theorem=0.9, refit=0.5, uniform=1.0)
    runs = [
        tidy.Run(
            dict(problem=f"T = {t}", algorithm=form, T=t),
            seed,
            dict(t=np.arange(2), regret=np.ones(2), cumulative_regret=np.array(scale * t**p)),
        )
        for form, p in powers.items()
        for t in (64, 128, 256, 512)
        for seed, scale in enumerate((1.0, 1.01))
    ]
    tidy.write(tmp_path, runs, "made up", "made up")
    store.write_json(tmp_path / tidy.PROVENANCE, {})
    # the mean regrets are a power of T, but those of samples of the runs are not
    for form, power in powers.items():
        for first in (0, 256):
            assert rate.slope(tmp_path, form, first)[0] == pytest.approx(power, abs=1e-9)


def test_a_quick_figure_runs_and_is_drawn(tmp_path):
    folder = "go_ucb_2023/synthetic"
    common.make(fig2_functions, common.Options(tmp_path, quick=True, only=(folder,)))
    assert (tmp_path / folder / "figure2.png").exists()
    assert json.loads((tmp_path / folder / "summary.json").read_text())["seeds"] == 2


def test_the_null_baseline_of_tuning_has_the_regret_of_phase_one(tmp_path):
    regret = np.linspace(1, 0, 30)
    config = dict(problem="mlp-breast_cancer", algorithm="turbo")
    runs = tidy.runs_of(config, [dict(t=np.arange(1, 31), regret=regret)])
    tidy.write(tmp_path, runs, "made up", "made up")
    store.write_json(tmp_path / tidy.PROVENANCE, {})
    null = fig3_4_5_tuning.regrets_in(tmp_path, "mlp-breast_cancer")["repeat"]
    assert (null[0, :5] == regret[:5]).all() and (null[0, 5:] == regret[4]).all()

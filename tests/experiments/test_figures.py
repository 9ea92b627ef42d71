"""Figures of the papers: their form, and verdicts that the saved runs and verdicts.toml share."""

import importlib
import re
import shutil

import numpy as np
import pytest

from experiments import common, reproduce
from experiments.bbkb_2020 import (
    fig1_regret,
    fig2_time,
    fig3_7_batches,
    fig4_search,
    fig5_6_bandwidths,
)
from experiments.data import datasets
from experiments.results import store, tidy

FIGURES = {
    reproduce.module(file): importlib.import_module(reproduce.module(file))
    for file in reproduce.registry().values()
}
CHECKS = [(figure, check) for figure in FIGURES.values() for check in figure.CHECKS]
ENTRIES = {
    f"{paper}.{name}": entry
    for paper, entries in common.verdicts().items()
    for name, entry in entries.items()
}
FIELDS = ("place", "claim", "statistic", "threshold", "verdict", "was", "why")


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_a_figure_has_its_parts_and_its_runs_exist(figure):
    assert figure.RUNS and callable(figure.run) and callable(figure.draw)
    assert isinstance(figure.QUICK, dict) and figure.__doc__
    for folder, settings in figure.RUNS.items():
        assert "seeds" in settings, folder


@pytest.mark.parametrize(
    ("figure", "check"), CHECKS, ids=[f"{common.paper_of(f)}.{c.__name__}" for f, c in CHECKS]
)
def test_the_saved_runs_give_the_verdict_of_the_file(figure, check):
    word, numbers = common.judge(check, common.RESULTS)
    assert word == common.verdict_entry(figure, check)["verdict"], numbers


CAUSES = [
    (name, cause)
    for figure in FIGURES.values()
    for name, cause in getattr(figure, "CAUSES", {}).items()
    if ENTRIES[f"{common.paper_of(figure)}.{name}"]["cause_run"] != "untested"
]


@pytest.mark.parametrize(("name", "cause"), CAUSES, ids=[name for name, _ in CAUSES])
def test_the_runs_that_differ_in_the_cause_confirm_the_claim(name, cause):
    word, numbers = common.judge(cause, common.RESULTS)
    assert word == common.CONFIRMED, numbers


@pytest.mark.parametrize(("name", "entry"), ENTRIES.items(), ids=ENTRIES)
def test_an_entry_is_complete_and_its_cause_is_a_folder_of_runs(name, entry):
    assert all(isinstance(entry[field], str) for field in FIELDS)
    words = {common.CONFIRMED, common.DIFFERS, common.UNDECIDED, common.WITHDRAWN}
    assert entry["verdict"] in words
    judged = {f"{common.paper_of(figure)}.{check.__name__}" for figure, check in CHECKS}
    has_rule = not entry["statistic"].startswith("none")
    assert (name in judged) == has_rule
    # a claim without a rule is not decided, and one that is withdrawn has no rule
    assert has_rule or entry["verdict"] in {common.UNDECIDED, common.WITHDRAWN}
    assert not (has_rule and entry["verdict"] == common.WITHDRAWN)
    # a verdict that changed says why
    assert entry["why"] or entry["verdict"] == entry["was"] or not entry["was"]
    cause_run = entry.get("cause_run")
    if entry["verdict"] == common.DIFFERS:
        folders = [cause_run] if isinstance(cause_run, str) else cause_run
        assert folders
        for folder in folders:
            exists = common.tidy.is_complete(common.RESULTS / folder)
            assert folder == "untested" or exists, folder


PAGES = {
    common.paper_of(figure): common.Path(figure.__file__).with_name("README.md").read_text()
    for figure in FIGURES.values()
}


@pytest.mark.parametrize(("name", "entry"), ENTRIES.items(), ids=ENTRIES)
def test_the_page_of_the_paper_has_the_verdict(name, entry):
    assert f"| {entry['claim']} | {entry['verdict']} |" in PAGES[name.split(".")[0]]


README = common.Path(common.__file__).parents[1].joinpath("README.md").read_text()
FOLDERS = {common.paper_of(figure): figure.__name__.split(".")[1] for figure in FIGURES.values()}


@pytest.mark.parametrize("paper", common.verdicts())
def test_the_readme_counts_the_verdicts(paper):
    pattern = rf"\(experiments/{FOLDERS[paper]}/README.md\) \| (\d+) \| (\d+) \| (\d+) \|"
    [counts] = re.findall(pattern, README)
    found = [entry["verdict"] for entry in common.verdicts()[paper].values()]
    words = (common.CONFIRMED, common.DIFFERS, common.UNDECIDED)
    assert [int(number) for number in counts] == [found.count(word) for word in words]


def write_runs(folder, metric, values, t=(1, 10)):
    """Writes tables of runs whose metric has the values {algorithm: one for each seed} at all t."""
    runs = [
        tidy.Run(
            dict(problem="made up", algorithm=name),
            seed,
            {"t": np.array(t), metric: np.full(len(t), value)},
        )
        for name, row in values.items()
        for seed, value in enumerate(row)
    ]
    tidy.write(folder, runs, "made up", "made up")
    store.write_json(folder / tidy.PROVENANCE, dict(minutes=2.5))


def test_a_rule_confirms_differs_and_leaves_undecided(tmp_path):
    """On made-up tables of four folders, of which one has another baseline."""
    rules = dict(bbkb_global=[0.10, 0.11, 0.12], bbkb_global_local=[0.30, 0.31, 0.32])
    cases = {
        "confirmed": [0.20, 0.20, 0.23],
        "differs": [0.05, 0.06, 0.08],
        "undecided": [0.05, 0.20, 0.11],
    }
    for word, baseline in cases.items():
        root = tmp_path / word
        for name in ("abalone", "cadata", "abalone_code", "cadata_code"):
            row = baseline if name == "cadata" else cases["confirmed"]
            write_runs(root / "bbkb_2020" / name, "regret_ratio", rules | dict(gp_ucb=row))
        assert common.judge(fig1_regret.least_regret, root).word == word
    (root / "bbkb_2020" / "cadata" / "summary.json").unlink()
    word, numbers = common.judge(fig1_regret.least_regret, root)
    assert word == "undecided" and "Not run: bbkb_2020/cadata" in numbers
    # one seed decides nothing
    one_seed = {name: row[:1] for name, row in rules.items()} | dict(gp_ucb=[0.01])
    write_runs(root / "bbkb_2020" / "cadata", "regret_ratio", one_seed)
    word, numbers = common.judge(fig1_regret.least_regret, root)
    assert word == "undecided" and "GP-UCB -0.0900 (one seed)" in numbers
    assert common.minutes(root / "bbkb_2020" / "cadata") == 2.5


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((0.5, 0.25), "0.50 ± 0.25"),
        ((0.5, np.nan), "0.50 (one seed)"),
        ((np.nan, np.nan), "no value"),
    ],
)
def test_the_text_of_an_interval(interval, text):
    assert common.interval_text(interval, 2) == text


@pytest.mark.parametrize(
    ("ours", "baseline", "word", "counts"),
    [
        ((0.10, 0.10), ((0.10, 0.10), (0.30, 0.30)), "confirmed", "GP-UCB 1 to 1"),
        ((0.10, 0.30), ((0.10, 0.10), (0.10, 0.10)), "differs", "GP-UCB 2 to 2"),
        ((0.10, 0.30), ((0.10, 0.10), (0.30, 0.30)), "differs", "GP-UCB 1 to 1"),
        # an interval that contains the limit of 0.15, and a single seed
        ((0.10, 0.10), ((0.10, 0.10), (0.10, 0.19)), "undecided", "GP-UCB 1 to 2"),
        ((0.10, 0.10), ((0.10, 0.10), (0.30,)), "undecided", "GP-UCB 1 to 2"),
    ],
)
def test_the_range_of_bandwidths_counts_beyond_the_intervals(
    tmp_path, ours, baseline, word, counts
):
    """Two bandwidths, with two seeds each."""
    rules = dict.fromkeys(fig5_6_bandwidths.BATCHED, tuple((ratio, ratio) for ratio in ours))
    runs = [
        tidy.Run(
            dict(problem="made up", algorithm=name, lengthscale=lengthscale),
            seed,
            dict(t=np.arange(2), regret_ratio=np.ones(2), final_regret_ratio=np.array(ratio)),
        )
        for name, rows in (rules | dict(gp_ucb=baseline)).items()
        for lengthscale, ratios in zip((5.0, 17.5), rows, strict=True)
        for seed, ratio in enumerate(ratios)
    ]
    for name in ("bandwidths_abalone", "bandwidths_abalone_code", "bandwidths_cadata"):
        tidy.write(tmp_path / "bbkb_2020" / name, runs, "made up", "made up")
        store.write_json(tmp_path / "bbkb_2020" / name / tidy.PROVENANCE, {})
    found = common.judge(fig5_6_bandwidths.widest_range, tmp_path)
    assert found.word == word and counts in found.numbers


def test_batches_of_readings_that_disagree_are_undecided(tmp_path):
    """Batches that start at 1, 2, 4, ... and grow with a power of it."""
    starts = 2 ** np.arange(10)
    for word, power in (("confirmed", 1.0), ("undecided", 2.0)):
        for reading, folders in fig3_7_batches.READINGS.items():
            p = power if reading == "code's width, less noise" else 1.0
            for name, rules in folders.items():
                runs = [
                    tidy.Run(
                        dict(problem="made up", algorithm=rule),
                        seed,
                        dict(t=starts, batch_size=1 + starts**p),
                    )
                    for rule in rules
                    for seed in range(2)
                ]
                folder = tmp_path / word / "bbkb_2020" / name
                tidy.write(folder, runs, "made up", "made up")
                store.write_json(folder / tidy.PROVENANCE, {})
        found = common.judge(fig3_7_batches.batches_grow_linearly, tmp_path / word)
        assert found.word == word, found.numbers


@pytest.mark.parametrize(
    ("global_rule", "epsilon_greedy", "word"),
    [
        ((3.0, 4.0), (30.0, 31.0), "confirmed"),
        ((3.0, 4.0), (1.0, 1.3), "differs"),
        ((3.0, 4.0), (3.5, 31.0), "undecided"),
        # evolution's CPU seconds confirm, and refute nothing
        ((28.0, 29.0), (30.0, 31.0), "undecided"),
    ],
)
def test_the_search_is_compared_with_all_baselines(tmp_path, global_rule, epsilon_greedy, word):
    """Evolution takes 20 CPU seconds, and the local rule as long as the global one."""
    folder = tmp_path / "bbkb_2020"
    seconds = dict.fromkeys(fig4_search.RULES, global_rule)
    write_runs(folder / "nas_warm", "seconds", seconds | dict(eps_greedy_free=epsilon_greedy))
    write_runs(folder / "nas_warm_local", "seconds", dict(bbkb_global_local=global_rule))
    evolution = dict(evaluations=fig4_search.WARM["new"], seeds=[dict(cpu_seconds=20.0)])
    store.write_json(folder / "authors_evolution.json", evolution)
    assert common.judge(fig3_7_batches.faster_than_evolution, tmp_path).word == word


@pytest.mark.parametrize(
    ("grouped", "ungrouped", "word"),
    [
        ((9.0, 9.5), 50.0, "confirmed"),
        ((0.5, 0.6), 50.0, "undecided"),
        ((0.5, 0.6), 1.0, "differs"),
    ],
)
def test_both_implementations_of_the_baselines_count(tmp_path, grouped, ungrouped, word):
    """BBKB takes 2 to 3 seconds."""
    folder, exact = tmp_path / "bbkb_2020", ("gp_ucb", "gp_bucb")
    rules = dict.fromkeys(fig1_regret.BATCHED, (2.0, 3.0))
    for name in fig2_time.THEOREMS:
        baselines = dict.fromkeys(exact, grouped)
        write_runs(folder / name, "seconds", rules | baselines, t=(1, 2_000))
    runs = [
        tidy.Run(
            dict(problem=problem, algorithm=name),
            0,
            dict(t=np.array([1, 2_000]), seconds=np.full(2, ungrouped)),
        )
        for problem in fig2_time.THEOREMS
        for name in exact
    ]
    tidy.write(folder / "ungrouped", runs, "made up", "made up")
    store.write_json(folder / "ungrouped" / tidy.PROVENANCE, {})
    assert common.judge(fig2_time.fraction_of_exact, tmp_path).word == word


def test_a_search_that_leads_at_some_t_only_is_undecided(tmp_path):
    """And so is one whose readings of the settings disagree."""
    t, even = (1, 134, 136, 300, 1_000), np.array([0.0, 1e-4, -1e-4])
    readings = ("nas", "nas_code", "nas_less_noise", "nas_less_noise_two_arms")
    for word, last in (("confirmed", 1e-3), ("differs", 3e-3), ("undecided", 2e-3)):
        runs = [
            tidy.Run(
                dict(problem="made up", algorithm=name),
                seed,
                dict(t=np.array(t), simple_regret=np.array([1, row[0], *row]) + noise),
            )
            for name, row in dict(
                evolution=(4e-3, 3e-3, 2e-3),
                bbkb_global=(1e-3, 1e-3, last),
                bbkb_global_local=(1e-3, 1e-3, 1e-3),
            ).items()
            for seed, noise in enumerate(even * (1 if name == "evolution" else 2))
        ]
        for reading in readings:
            folder = tmp_path / word / "bbkb_2020" / reading
            tidy.write(folder, runs, "made up", "made up")
            store.write_json(folder / tidy.PROVENANCE, {})
        assert common.judge(fig4_search.beats_evolution, tmp_path / word).word == word
    other = tmp_path / "differs" / "bbkb_2020" / "nas_code"
    shutil.copytree(other, tmp_path / "confirmed" / "bbkb_2020" / "nas_code", dirs_exist_ok=True)
    word, numbers = common.judge(fig4_search.beats_evolution, tmp_path / "confirmed")
    assert word == "undecided" and "[code's width] differs" in numbers


def test_a_quick_figure_runs_resumes_draws_and_is_judged(tmp_path, monkeypatch, capsys):
    """With made-up data, and without the curves of the poster."""
    random = np.random.default_rng(0)
    data = datasets.Dataset("made up", random.normal(size=(40, 3)), random.normal(size=40), "here")
    monkeypatch.setattr(datasets, "load", lambda *_: data)
    names = ["bbkb_2020/abalone", "--quick", "--seeds", "1", "--out", str(tmp_path)]
    [file], options = reproduce.parse(["bbkb:1", "--only", *names])
    figure = importlib.import_module(reproduce.module(file))
    common.make(figure, options)
    printed, folder = capsys.readouterr().out, tmp_path / "bbkb_2020" / "abalone"
    assert "UNDECIDED" in printed and "numbers and verdicts are not results" in printed
    assert {path.name for path in folder.glob("*.png")} >= {"regret_ratio.png", "time.png"}
    assert common.tables(folder).provenance["minutes"] > 0
    times = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*.npz")}
    common.make(figure, options)
    assert len(times) == 3 and times == {path: path.stat().st_mtime_ns for path in times}
    with pytest.raises(ValueError, match="there is no cadata: choose from bbkb_2020/abalone"):
        common.make(figure, common.Options(tmp_path, only=("cadata",)))
    for wrong in (["bbkb:99"], ["bbkb:1", "--quick", "--out", str(common.RESULTS)]):
        with pytest.raises(SystemExit):
            reproduce.parse(wrong)

"""The page of the report, its verdicts, and what it shows of missing or broken results."""

import importlib.util
import re
from collections import Counter
from html import unescape

import matplotlib.image
import numpy as np
import pytest

from experiments import claims, commands
from experiments.go_ucb_2023 import tuning
from experiments.report import main as report
from experiments.results import environment, store

EXPERIMENTS = [part for paper in report.PAPERS for part in paper.experiments]
RESULTS = environment.ROOT / "results"
ABALONE, TUNING = "bbkb_2020/abalone", "go_ucb_2023/tuning"


def numbers(ratio, seconds=1.0):
    return dict(regret_ratio=dict(mean=ratio, ci95=0.01), run_seconds=seconds)


def made_results(root, **changes):
    """One experiment in which BBKB has the least regret, and a table of another one."""
    algorithms = dict(uniform=numbers(1.0), gp_ucb=numbers(0.3, 4.0), bkb=numbers(0.2, 9.0))
    algorithms |= dict(bbkb_global=numbers(0.1), bbkb_global_local=numbers(0.15, 2.0))
    commit = dict(hash="0123abcd", dirty=True)
    summary = dict(seeds=1, data="made <up>", commit=commit, algorithms=algorithms | changes)
    store.write_json(root / ABALONE / "summary.json", summary)
    matplotlib.image.imsave(root / ABALONE / "regret_ratio.png", np.zeros((4, 6, 3)))
    (root / "bbkb_2020/widths").mkdir(exist_ok=True)
    (root / "bbkb_2020/widths/widths.csv").write_text("width,mean\n<certified>,0.1\n")
    return root


def outcomes(root, folder=ABALONE):
    part = next(part for part in EXPERIMENTS if part.folder == folder)
    return {claim.statement: claims.judge(claim, root / folder) for claim in part.claims}


def sound_page(out):
    """(the HTML of a page, the files of its pictures); all links and pictures resolve."""
    page = (out / "index.html").read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    for link in re.findall(r'<a href="([^"]+)"', page):
        assert link[1:] in ids if link.startswith("#") else (out / link).is_file(), link
    pictures = re.findall(r'<img src="([^"]+)" alt="[^"]{20,}"', page)
    assert len(pictures) == page.count("<img") and all((out / file).is_file() for file in pictures)
    return page, pictures


@pytest.mark.parametrize(
    ("holds", "lacks", "verdict", "note"),
    [
        (True, "", "confirmed", "a note"),
        (False, "", "differs", "the cause a note"),
        (None, "", "not decidable here", "a note"),
        (True, "the data", "not decidable here", "Missing here: the data. a note"),
        (False, "the data", "not decidable here", "Missing here: the data. a note"),
    ],
)
def test_a_claim_is_judged_by_its_rule_and_by_what_it_lacks(tmp_path, holds, lacks, verdict, note):
    store.write_json(tmp_path / "summary.json", {})
    finding = claims.Finding("a number", holds, "a note")
    claim = claims.Claim("Figure", "so", "if", lambda _: finding, lacks, "the cause")
    outcome = claims.judge(claim, tmp_path)
    assert outcome == claims.Outcome(claim, verdict, "a number", note)


def test_verdicts_follow_from_the_numbers(tmp_path):
    least, fast = "BBKB has the smallest regret.", "BBKB takes a fraction of BKB's time."
    verdicts = outcomes(made_results(tmp_path))
    assert verdicts[least].verdict == verdicts[fast].verdict == "confirmed"
    assert "BKB: 0.2000 ± 0.0100" in verdicts[least].numbers
    verdicts = outcomes(made_results(tmp_path, gp_ucb=numbers(0.05), bkb=numbers(0.2, 1.5)))
    assert verdicts[least].verdict == verdicts[fast].verdict == "differs"


@pytest.mark.parametrize(
    ("difference", "half_width", "better", "similar"),
    [
        (0.3, 0.2, "confirmed", "not decidable here"),
        (-0.1, 0.2, "not decidable here", "confirmed"),
        # bars of 0.2 overlap up to a difference of 0.4
        (0.35, 0.1, "confirmed", "not decidable here"),
        (-0.6, 0.1, "differs", "differs"),
    ],
)
def test_methods_are_compared_by_pairs(tmp_path, difference, half_width, better, similar):
    rows = {name: (1.0, 0.1, 1.0) for name in ("gp_ei", "gp_pi", "gp_ucb")}
    rows |= dict(go_ucb=(0.0, 0.0, 0.2), turbo=(difference, half_width, 0.2))
    algorithms = {
        name: dict(
            more_than_go_ucb=dict(mean=more, ci95=wide),
            cumulative_regret=dict(mean=1.0 + more, ci95=bar),
        )
        for name, (more, wide, bar) in rows.items()
    }
    names = [f"{model}-{data}" for model in tuning.MODELS for data in tuning.SOURCES]
    problems = {name: dict(algorithms=algorithms) for name in names}
    store.write_json(tmp_path / TUNING / "summary.json", dict(problems=problems, repetitions=5))
    verdicts = outcomes(tmp_path, TUNING)
    assert verdicts["GO-UCB is much better for gradient boosting."].verdict == better
    forest = verdicts["All methods are similar for the random forest on breast cancer."]
    assert forest.verdict == similar


def test_missing_results_are_named(tmp_path):
    missing = outcomes(made_results(tmp_path))["BBKB takes a fraction of GP-BUCB's time."]
    assert missing[1:3] == ("not decidable here", "The summary holds no algorithms / gp_bucb.")
    for outcome in outcomes(tmp_path, "go_ucb_2023/synthetic").values():
        assert outcome.verdict == "not decidable here" and "no summary.json" in outcome.numbers
    with pytest.raises(FileNotFoundError, match="run an experiment first"):
        report.build(tmp_path / "nothing", tmp_path / "out")


@pytest.mark.parametrize("content", ["{", "[]", '{"algorithms": {"bkb": {"run_seconds": "fast"}}}'])
def test_broken_results_leave_a_page_without_the_machines_paths(tmp_path, content):
    root = made_results(tmp_path / "results")
    (root / ABALONE / "summary.json").write_text(content)
    (root / ABALONE / "time.png").mkdir()
    (root / ABALONE / "curves.parquet").write_bytes(b"not a table")
    (root / "bbkb_2020/widths/widths.csv").write_text("")
    assert "unreadable" in {outcome.verdict for outcome in outcomes(root).values()}
    report.build(root, tmp_path / "out")
    page, pictures = sound_page(tmp_path / "out")
    assert len(pictures) == 1 and str(tmp_path) not in page


def test_text_is_escaped(tmp_path):
    report.build(made_results(tmp_path / "results"), tmp_path, "tiny <runs>")
    page, _ = sound_page(tmp_path)
    assert "tiny &lt;runs&gt;" in page and "made &lt;up&gt;" in page
    assert "<td>&lt;certified&gt;</td><td>0.1</td>" in page
    assert "0123abcd (with uncommitted changes)" in page
    assert "<script" not in page and "http" not in page


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(the folder of the page of the saved results, its sections)."""
    out = tmp_path_factory.mktemp("report")
    return out, [part for parts in report.build(RESULTS, out).values() for part in parts]


def test_page_of_the_saved_results(saved):
    out, sections = saved
    page, pictures = sound_page(out)
    files = [f"{part.folder}/{figure.file}" for part in EXPERIMENTS for figure in part.figures]
    assert pictures == [f"figures/{file}" for file in files if (RESULTS / file).is_file()]
    texts = re.findall(r"<section.*?</section>", unescape(page), flags=re.DOTALL)
    for part, text in zip(sections, texts, strict=True):
        assert part.experiment.title in text and part.command in text
        verdicts = re.findall(r'class="verdict [a-z-]+">([a-z ]+)<', text)
        assert verdicts == [outcome.verdict for outcome in part.outcomes]
    judged = [outcome for part in sections for outcome in part.outcomes]
    counts = Counter(outcome.verdict for outcome in judged)
    assert counts["confirmed"] >= 10 and counts["differs"] >= 10 and counts["unreadable"] == 0
    # each claim that differs has a cause with its evidence
    assert all(len(o.note) >= 40 for o in judged if o.verdict == "differs")


def test_claims_name_folders_and_modules_that_exist():
    made_by = commands.by_folder()
    assert len({part.folder for part in EXPERIMENTS}) == len(EXPERIMENTS)
    for part in EXPERIMENTS:
        assert part.figures or part.tables
        assert importlib.util.find_spec(made_by[part.folder].module)

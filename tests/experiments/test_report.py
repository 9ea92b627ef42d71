"""The page of the report, its verdicts, and missing or broken results."""

import importlib.util
import re
import tarfile
from collections import Counter
from html import unescape

import matplotlib.image
import numpy as np
import pytest

from experiments import claims, commands
from experiments.report import main as report
from experiments.results import environment, store, tidy

EXPERIMENTS = [experiment for paper in report.PAPERS for experiment in paper.experiments]
RESULTS = environment.ROOT / "results"
CLAIMS = [claim for paper in report.PAPERS for claim in paper.claims]
ABALONE, CADATA = "bbkb_2020/abalone", "bbkb_2020/cadata"


def algorithm_summary(regret_ratio, seconds=1.0):
    values = [regret_ratio, regret_ratio + 0.01]
    ratios = dict(mean=regret_ratio + 0.005, ci95=0.01, values=values)
    return dict(regret_ratio=ratios, run_seconds=seconds, horizon=4_000)


def generated_results(root, **replaced):
    """Writes runs on Abalone, in which BBKB has the least regret, and a table of widths. `replaced`
    has other (regret ratio, seconds) of some algorithms."""
    numbers = dict(uniform=(1.0,), gp_ucb=(0.3, 4.0), bkb=(0.2, 9.0))
    numbers |= dict(bbkb_global=(0.1,), bbkb_global_local=(0.15, 2.0))
    algorithms = {name: algorithm_summary(*row) for name, row in (numbers | replaced).items()}
    commit = dict(hash="0123abcd", dirty=True)
    summary = dict(seeds=2, data="made <up>", commit=commit, algorithms=algorithms)
    store.write_json(root / ABALONE / "summary.json", summary)
    t = np.array([1_000, 2_000, 4_000])
    runs = [
        tidy.Run(
            dict(problem="abalone", algorithm=name),
            seed,
            dict(
                t=t,
                regret_ratio=np.full(3, result["regret_ratio"]["values"][seed]),
                # half of the time is over at t = 2,000
                seconds=result["run_seconds"] * np.array([0.1, 0.5, 1.0]),
            ),
        )
        for name, result in algorithms.items()
        for seed in range(2)
    ]
    tidy.write(root / ABALONE, runs, "bbkb_2020.regret", "generated")
    matplotlib.image.imsave(root / ABALONE / "regret_ratio.png", np.zeros((4, 6, 3)))
    (root / "bbkb_2020/widths").mkdir(exist_ok=True)
    store.write_json(root / "bbkb_2020/widths/summary.json", {})
    (root / "bbkb_2020/widths/widths.csv").write_text("width,mean\n<certified>,0.1\n")
    return root


def outcomes(root, folder=ABALONE):
    """{statement: outcome} of the claims with a case of the folder, judged by that case only."""
    results = {}
    for claim in CLAIMS:
        for case in claim.cases:
            if case.folder == folder:
                results[claim.statement] = claims.judge(claim._replace(cases=(case,)), root)
    return results


def checked_page(out):
    """(the HTML of a page, the files of its pictures). Checks that links and pictures exist."""
    page = (out / "index.html").read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    for link in re.findall(r'<a href="([^"]+)"', page):
        assert link[1:] in ids if link.startswith("#") else (out / link).is_file(), link
    pictures = re.findall(r'<img src="([^"]+)" alt="[^"]{20,}"', page)
    assert len(pictures) == page.count("<img") and all((out / file).is_file() for file in pictures)
    return page, pictures


@pytest.mark.parametrize(
    ("decisions", "verdict", "note"),
    [
        ((True,), "confirmed", "a note"),
        ((True, True), "confirmed", "0: a note 1: a note"),
        ((True, None), "not decidable here", "0: a note 1: a note"),
        ((None, np.False_), "differs", "the cause 0: a note 1: a note"),
    ],
)
def test_a_claim_is_judged_by_all_of_its_cases(tmp_path, decisions, verdict, note):
    store.write_json(tmp_path / "part" / "summary.json", {})
    names = [str(i) if len(decisions) > 1 else "" for i in range(len(decisions))]
    findings = [claims.Finding("a number", holds, "a note") for holds in decisions]
    cases = tuple(
        claims.Case("part", lambda _, finding=finding: finding, name)
        for finding, name in zip(findings, names, strict=True)
    )
    claim = claims.Claim("Figure", "so", "if", "why", cases, cause="the cause")
    numbers = tuple(f"{name}: a number" if name else "a number" for name in names)
    assert claims.judge(claim, tmp_path) == claims.Outcome(claim, verdict, numbers, note)


def test_verdicts_follow_from_the_numbers(tmp_path):
    claim_of_regret = "BBKB has the smallest regret on Abalone and Cadata."
    claim_of_time = "BBKB takes only a fraction of BKB's time."
    results = outcomes(generated_results(tmp_path))
    assert results[claim_of_regret].verdict == results[claim_of_time].verdict == "confirmed"
    assert "BKB: 0.2050 (BBKB 0.1050) at t = 4,000" in results[claim_of_regret].numbers[0]
    assert "GP-UCB: 0.2000 ± 0.0000" in results[claim_of_regret].numbers[0]
    results = outcomes(generated_results(tmp_path, gp_ucb=(0.05,), bkb=(0.2, 1.5)))
    assert results[claim_of_regret].verdict == results[claim_of_time].verdict == "differs"


@pytest.mark.parametrize(
    ("centre", "half_width", "leads", "is_tie"),
    [
        (0.3, 0.2, True, False),
        # an interval below 0.05 is no lead
        (0.02, 0.02, False, None),
        (0.02, 0.05, None, None),
        # the interval does not contain 0, but contains the margin 0.02 of a tie
        (0.015, 0.01, False, None),
        (0.005, 0.006, False, True),
        (-0.3, 0.2, False, False),
    ],
)
def test_the_same_intervals_decide_a_lead_and_a_tie(centre, half_width, leads, is_tie):
    assert claims.leads([(1.0, 0.1), (centre, half_width)], 0.05) is leads
    assert claims.all_near_zero([(0.0, 0.01), (centre, half_width)], 0.02) is is_tie


def test_intervals_of_few_runs_have_wide_quantiles():
    # quantiles of Student's distribution for 1 and 4 degrees of freedom
    assert claims.mean_interval([0.0, 2.0]) == pytest.approx((1, 12.706), rel=1e-4)
    interval = claims.mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval == pytest.approx((3, 2.776 * np.sqrt(2.5 / 5)), rel=1e-3)
    assert np.isnan(claims.mean_interval([1.0])[1])
    # Wilson's interval for 9 of 10, as in tables
    centre, half_width = claims.probability_interval(9, 10)
    assert (centre - half_width, centre + half_width) == pytest.approx((0.5958, 0.9821), abs=1e-4)


def test_an_interval_that_contains_the_bound_decides_nothing():
    assert claims.all_above([(1.0, 0.5), (2.0, 0.1)], 0.4) is True
    assert claims.all_above([(1.0, 0.5), (2.0, 0.1)], 0.6) is None
    assert claims.all_above([(1.0, 0.5), (0.1, 0.1)], 0.6) is False


def test_missing_results_are_named(tmp_path):
    algorithms = dict(uniform=algorithm_summary(1.0), bkb=algorithm_summary(0.2))
    store.write_json(tmp_path / CADATA / "summary.json", dict(algorithms=algorithms))
    outcome = outcomes(tmp_path, CADATA)["BBKB takes only a fraction of BKB's time."]
    assert outcome.verdict == "not decidable here"
    assert outcome.numbers == ("Cadata: This run has none of bbkb_global, bbkb_global_local.",)
    for outcome in outcomes(tmp_path, "go_ucb_2023/synthetic").values():
        assert outcome.verdict == "not decidable here" and "no summary.json" in outcome.numbers[0]
    with pytest.raises(FileNotFoundError, match="run an experiment first"):
        report.build(tmp_path / "nothing", tmp_path / "out")


@pytest.mark.parametrize("content", ["{", "[]", '{"algorithms": {"bkb": {}, "bbkb_global": {}}}'])
def test_broken_results_give_a_page_without_paths_of_the_machine(tmp_path, content):
    root = generated_results(tmp_path / "results")
    (root / ABALONE / "summary.json").write_text(content)
    (root / ABALONE / "time.png").mkdir()
    (root / ABALONE / "curves.parquet").write_bytes(b"not a table")
    (root / "bbkb_2020/widths/widths.csv").write_text("")
    assert "unreadable" in {outcome.verdict for outcome in outcomes(root).values()}
    report.build(root, tmp_path / "out")
    page, pictures = checked_page(tmp_path / "out")
    assert len(pictures) == 1 and str(tmp_path) not in page


def test_text_is_escaped(tmp_path):
    report.build(generated_results(tmp_path / "results"), tmp_path, "tiny <runs>")
    page, _ = checked_page(tmp_path)
    assert "tiny &lt;runs&gt;" in page and "made &lt;up&gt;" in page
    assert "<td>&lt;certified&gt;</td><td>0.1</td>" in page
    assert "0123abcd (with uncommitted changes)" in page
    assert "<script" not in page and "http" not in page


@pytest.fixture(scope="module")
def saved_page(tmp_path_factory):
    """(the folder of the page of the saved results, the papers on it)."""
    out = tmp_path_factory.mktemp("report")
    return out, report.build(RESULTS, out)


def test_the_page_of_the_saved_results_is_complete(saved_page):
    out, parts = saved_page
    page, pictures = checked_page(out)
    files = [f"{e.folder}/{file}" for e in EXPERIMENTS for file in e.figures]
    assert pictures == [f"figures/{file}" for file in files if (RESULTS / file).is_file()]
    text = unescape(page)
    sections = re.findall(r"<section.*?</section>", text, flags=re.DOTALL)
    expected_sections = [section for part in parts for section in part.sections]
    for section, html in zip(expected_sections, sections, strict=True):
        assert section.experiment.title in html and section.command in html
    verdicts = re.findall(r'<tr><td><span class="verdict [a-z-]+">([a-z ]+)<', text)
    results = [outcome for part in parts for outcome in part.outcomes]
    assert verdicts == [outcome.verdict for outcome in results]
    for claim, _, numbers, _ in results:
        phrases = (claim.place, claim.statement, claim.rule, claim.why, *numbers)
        assert all(phrase in text for phrase in phrases)
    counts = Counter(outcome.verdict for outcome in results)
    assert counts["unreadable"] == 0 and counts["not decidable here"] <= 6
    # each claim that differs has a cause, or the page states that it is unknown
    causes = [outcome.claim.cause for outcome in results]
    assert all(len(cause) >= 40 or cause == claims.CAUSE_UNKNOWN for cause in causes)


def test_recorded_verdicts_are_those_of_the_saved_results(saved_page):
    _, parts = saved_page
    assert (RESULTS / report.RECORD).read_text() == report.record_text(parts, RESULTS)
    readme = (environment.ROOT / "README.md").read_text()
    for part in (part for part in parts if part.outcomes):
        counts = report.verdict_counts(part)
        row = " | ".join(str(counts[word]) for word in report.VERDICTS[:3])
        assert re.search(rf"\| \[{part.paper.name}\]\S+ \| {re.escape(row)} \|", readme)


def test_the_archive_has_the_runs_and_the_rules_of_all_claims(saved_page, tmp_path):
    _, parts = saved_page
    content = report.archive_bytes(parts, RESULTS)
    (tmp_path / "runs.tar.gz").write_bytes(content)
    with tarfile.open(tmp_path / "runs.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    extracted = tmp_path / "results"
    assert (extracted / report.RECORD).read_bytes() == (RESULTS / report.RECORD).read_bytes()
    assert [claims.judge(claim, extracted).verdict for claim in CLAIMS] == [
        outcome.verdict for part in parts for outcome in part.outcomes
    ]
    assert content == report.archive_bytes(parts, RESULTS)


def test_claims_name_folders_and_modules_that_exist():
    by_folder = commands.commands_by_folder()
    folders = {experiment.folder for experiment in EXPERIMENTS}
    assert len(folders) == len(EXPERIMENTS)
    cases = [case for claim in CLAIMS for case in claim.cases]
    assert {case.folder for case in cases} <= folders
    assert {folder for case in cases for folder in case.other_folders} <= by_folder.keys()
    for experiment in EXPERIMENTS:
        assert experiment.figures or experiment.tables or experiment.measurements
        assert importlib.util.find_spec(by_folder[experiment.folder].module)

"""The report: verdicts follow from numbers, what is missing or broken is said, and a browser shows
the page as it should."""

import importlib.util
import json
import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from experiments import claims, commands
from experiments.bbkb_2020 import checks as bbkb
from experiments.go_ucb_2023 import synthetic, tuning, tuning_runs
from experiments.report import main as report
from experiments.report.papers import PAPERS
from experiments.results import environment, store, summaries, tidy
from experiments.runs import against_published

EXPERIMENTS = [part for paper in PAPERS for part in paper.experiments]
OWN = environment.ROOT / "results"
ABALONE = "bbkb_2020/abalone"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
browser = pytest.mark.skipif(
    CHROMIUM is None,
    reason="NO BROWSER: chromium is not installed, so nobody looked at the page of the report",
)
# put into a copy of the page by the tests alone: the page itself has no script
LOOK = """<script>addEventListener("load", () => {
  const images = [...document.images], root = document.documentElement;
  parent.postMessage(JSON.stringify({
    loaded: images.filter(i => i.complete && i.naturalWidth > 0).length,
    broken: images.filter(i => !i.complete || i.naturalWidth === 0).map(i => i.getAttribute("src")),
    window: innerWidth, page: root.scrollWidth,
  }), "*");
});</script></body>"""
# a window is never narrower than 500 pixels, a frame may be
FRAME = """<!DOCTYPE html><body>
<iframe src="looked_at.html" width="{width}" height="900" style="border: 0"></iframe><script>
addEventListener("message", e => {{
  document.body.innerHTML = "<pre>" + e.data + "</pre>"; }});</script></body>"""


def numbers(value, half=0.01, seconds=1.0):
    return dict(
        regret_ratio=dict(mean=value, ci95=half, values=[value]),
        batches=dict(mean=10.0, values=[10.0]),
        run_seconds=seconds,
    )


def made_results(root, **changes):
    """A folder with one experiment of which BBKB has the least regret."""
    algorithms = dict(
        uniform=numbers(1.0), gp_ucb=numbers(0.3, seconds=4.0), bkb=numbers(0.2, seconds=9.0)
    ) | dict(bbkb_global=numbers(0.1), bbkb_global_local=numbers(0.15, seconds=2.0))
    made = dict(hash="0123abcd", dirty=True)
    summary = dict(seeds=1, data="made <up>", commit=made, algorithms=algorithms | changes)
    store.write_json(root / ABALONE / "summary.json", summary)
    matplotlib.image.imsave(root / ABALONE / "regret_ratio.png", np.zeros((4, 6, 3)))
    return root


def outcomes(root, folder=ABALONE):
    part = next(part for part in EXPERIMENTS if part.folder == folder)
    return {claim.statement: claims.judge(claim, root / folder) for claim in part.claims}


class Page(HTMLParser):
    """Ids, links and images of a page; raises AssertionError for tags that do not close in
    order."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.images, self.open = [], [], [], []
        self.feed(path.read_text())
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.open += [tag] * (tag not in self.VOID)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if tag == "a" else []
        self.images += [attrs] if tag == "img" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_page(out):
    """What must hold of any page; its images."""
    page = Page(out / "index.html")
    assert len(set(page.ids)) == len(page.ids)
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (out / link).is_file(), link
    for image in page.images:
        assert (out / image["src"]).is_file() and len(image["alt"]) > 20
    return page.images


def test_verdicts_follow_from_the_numbers(tmp_path):
    def verdict(statement, **changes):
        return outcomes(made_results(tmp_path, **changes))[statement].verdict

    least, fast = "BBKB has the smallest regret.", "BBKB takes a fraction of BKB's time."
    assert verdict(least) == "confirmed"
    assert verdict(least, gp_ucb=numbers(0.05)) == "differs"
    assert verdict(fast) == "confirmed"
    assert verdict(fast, bkb=numbers(0.2, seconds=1.5)) == "differs"
    found = outcomes(tmp_path)[least]
    assert "BKB: 0.2000 ± 0.0100" in found.number and "GP-UCB: 0.3000" in found.number


def test_what_lacks_the_means_to_decide_is_undecided_either_way(tmp_path):
    def check(source):
        return claims.Found("a number", source.summary["holds"], "a note")

    def judged(holds, lacks):
        store.write_json(tmp_path / "summary.json", dict(holds=holds))
        return claims.judge(claims.Claim("Figure", "so", "if", check, lacks), tmp_path)

    assert judged(False, "").verdict == "differs" and judged(False, "").note == "a note"
    assert judged(True, "").verdict == "confirmed"
    for holds in (True, False, None):
        found = judged(holds, "the data")
        assert found.verdict == "not decidable here"
        assert found.note == "Missing here: the data. a note"


@pytest.mark.parametrize(
    "exponents, verdict",
    [
        # between T/4 and T/2, and between T/2 and T
        ((0.8, 0.95), "confirmed"),
        ((0.6, 0.8), "not decidable here"),
        ((0.8, 0.6), "differs"),
        ((0.7, 0.7), "differs"),
    ],
)
def test_a_regret_that_still_steepens_is_not_judged(tmp_path, exponents, verdict):
    folder = tmp_path / "bkb_2019/linear_slow"
    runs = []
    for seed, off in enumerate((-0.02, 0.0, 0.02)):
        early, late = exponents
        regret = 2.0 ** np.array([0.0, early - off, early + late])
        t = np.array([250, 500, 1000])
        runs.append(
            tidy.Run(dict(problem="p", algorithm="cbrap"), seed, dict(t=t, regret_ratio=regret / t))
        )
    summary = {
        name: dict(regret_exponent=dict(mean=mean))
        for name, mean in (("cbrap", exponents[1]), ("soful", 0.95), ("bkb", 0.5))
    }
    store.write_json(folder / "summary.json", dict(algorithms=summary))
    tidy.write(folder, runs, "bkb_2019.linear", "a title")
    found = outcomes(tmp_path, "bkb_2019/linear_slow")
    assert found["So does a random projection of fixed size (CBRAP)."].verdict == verdict


def test_what_the_numbers_do_not_tell_is_undecided(tmp_path):
    store.write_json(tmp_path / "summary.json", {})
    level = claims.Found("two numbers", None, "level")
    found = claims.judge(claims.Claim("Figure", "so", "if", lambda _: level), tmp_path)
    assert found.verdict == "not decidable here" and found.note == "level"


@pytest.mark.parametrize("power, verdict", [(1.0, "confirmed"), (2.0, "differs")])
def test_batches_that_grow_from_any_size_on_grow_linearly(tmp_path, power, verdict):
    """A line that starts at 64 is one, as the poster's are."""
    folder = made_results(tmp_path) / ABALONE
    runs = []
    for name in ("bbkb_global", "bbkb_global_local"):
        starts = [1]
        while starts[-1] < 10_000:
            starts.append(starts[-1] + int(64 + 0.2 * 10_000 * (starts[-1] / 10_000) ** power))
        t = np.array(starts[:-1])
        runs.append(
            tidy.Run(dict(problem="p", algorithm=name), 0, dict(t=t, batch_size=np.diff(starts)))
        )
    tidy.write(folder, runs, "bbkb_2020.regret", "a title")
    found = outcomes(tmp_path)["Batch sizes grow linearly with t under both rules."]
    assert found.verdict == verdict


def test_rules_hold_on_the_published_curves_that_they_are_about():
    curves = against_published.kept(OWN / "bbkb_2020/nas_warm")["batch_size"]
    low, high = bbkb.LINEAR
    assert all(low <= summaries.growth(t, size) <= high for t, size in curves.values())
    curves = against_published.kept(OWN / "bbkb_2020/cadata")["regret_ratio"]
    (t, ratio), others = curves["ts"], curves["bbkb_global"]
    halfway = np.interp(t[-1] / 2, t, ratio)
    assert ratio[-1] > 0.9 * halfway
    assert ratio[-1] > bbkb.ABOVE * np.interp(t[-1], *others)


def test_methods_that_stop_are_compared_where_they_stop(tmp_path):
    root = made_results(tmp_path)
    runs = []
    for name, end in (("bbkb_global", 8), ("bbkb_global_local", 8), ("gp_ucb", 4), ("bkb", 8)):
        t = np.arange(1, end + 1)
        ratio = (0.5 if name == "gp_ucb" else 0.9) / t + 0.1 * (name == "bkb")
        arrays = dict(t=t, regret_ratio=ratio, seconds=t * (9.0 if name == "gp_ucb" else 1.0))
        runs.append(tidy.Run(dict(problem="p", algorithm=name), 0, arrays))
    tidy.write(root / ABALONE, runs, "bbkb_2020.regret", "a title")
    summary = store.read_json(root / ABALONE / "summary.json")
    for name in ("bbkb_global", "bbkb_global_local", "gp_ucb", "bkb"):
        summary["algorithms"][name]["horizon"] = 4 if name == "gp_ucb" else 8
    store.write_json(root / ABALONE / "summary.json", summary)
    found = outcomes(root)
    least = found["BBKB has the smallest regret."]
    assert least.verdict == "differs" and "GP-UCB at t = 4: 0.1250, BBKB 0.2250" in least.number
    fast = found["BBKB takes a fraction of GP-UCB's time."]
    assert fast.verdict == "confirmed" and "until t = 4" in fast.number


def test_page_of_a_tiny_folder(tmp_path):
    root = made_results(tmp_path / "results")
    tables = root / "bbkb_2020" / "widths" / "widths.csv"
    tables.parent.mkdir()
    tables.write_text("width,mean\n<certified>,0.1\n")
    report.build(root, tmp_path / "out", "tiny <runs>")
    assert len(check_page(tmp_path / "out")) == 1
    html = (tmp_path / "out" / "index.html").read_text()
    assert (
        "tiny &lt;runs&gt;" in html
        and "made &lt;up&gt;" in html
        and "0123abcd (with changes that were not committed)" in html
    )
    assert "<td>&lt;certified&gt;</td><td>0.1</td>" in html
    assert "<script" not in html and "http" not in html


def test_page_of_the_repositorys_results(tmp_path):
    sections = report.build(OWN, tmp_path)
    assert {image["src"] for image in check_page(tmp_path)} == {
        f"figures/{part.folder.replace('/', '-')}-{figure.file}"
        for part in EXPERIMENTS
        for figure in part.figures
        if (OWN / part.folder / figure.file).exists()
    }
    found = [outcome for parts in sections.values() for part in parts for outcome in part.outcomes]
    assert not [outcome for outcome in found if outcome.verdict == "unreadable"]
    # for each that differs a cause with its evidence
    assert not [o.claim for o in found if o.verdict == "differs" and len(o.note) < 40]
    for word in ("confirmed", "differs"):
        assert sum(outcome.verdict == word for outcome in found) >= 10
    html, made_by = (tmp_path / "index.html").read_text(), commands.by_folder()
    for parts in sections.values():
        for part, judged in parts:
            section = html.split(
                f'<section id="{part.folder.replace("/", "-").replace("_", "-")}">'
            )[1]
            section = section.split("</section>")[0]
            assert section.count('class="verdict') == len(judged)
            assert escape(made_by[part.folder].text()) in section


def test_what_is_missing_is_said(tmp_path):
    root = made_results(tmp_path)
    missing = outcomes(root)["BBKB takes a fraction of GP-BUCB's time."]
    assert (
        missing.verdict == "not decidable here"
        and missing.number == "The summary holds no algorithms / gp_bucb."
    )
    for outcome in outcomes(root, "go_ucb_2023/synthetic").values():
        assert (
            outcome.verdict == "not decidable here"
            and "There is no summary.json in go_ucb_2023" in outcome.number
        )
    assert (
        outcomes(root)["Batch sizes grow linearly with t under both rules."].verdict
        == "not decidable here"
    )


@pytest.mark.parametrize(
    "content", ["{", "[]", "", '{"algorithms": {"bkb": {"run_seconds": "fast"}}}']
)
def test_what_is_broken_is_said(tmp_path, content):
    root = made_results(tmp_path / "results")
    (root / ABALONE / "summary.json").write_text(content)
    (root / ABALONE / "regret_ratio.png").write_bytes(b"no picture")
    (root / ABALONE / "time.png").unlink(missing_ok=True)
    (root / ABALONE / "time.png").mkdir()
    assert {outcome.verdict for outcome in outcomes(root).values()} <= {
        "unreadable",
        "not decidable here",
    }
    report.build(root, tmp_path / "out")
    assert check_page(tmp_path / "out") == []
    assert "regret_ratio.png is no PNG picture" in (tmp_path / "out" / "index.html").read_text()


def test_no_path_of_this_machine_is_on_the_page(tmp_path):
    root = made_results(tmp_path / "results")
    (root / ABALONE / "curves.parquet").write_bytes(b"no table")
    assert "unreadable" in {outcome.verdict for outcome in outcomes(root).values()}
    report.build(root, tmp_path / "out")
    assert str(tmp_path) not in (tmp_path / "out" / "index.html").read_text()


def test_a_number_that_is_none_is_unreadable(tmp_path):
    wrong = numbers(0.2) | dict(run_seconds="fast")
    found = outcomes(made_results(tmp_path, bkb=wrong))["BBKB takes a fraction of BKB's time."]
    assert found.verdict == "unreadable" and "is 'fast', not a finite number" in found.number


def test_claims_of_go_ucb_read_what_its_experiments_write(tmp_path):
    names, random = ("go_ucb", "gp_ei", "gp_pi", "gp_ucb", "turbo"), np.random.default_rng(0)
    functions = {}
    for function, (_, n, t) in synthetic.FUNCTIONS.items():
        # GO-UCB: no regret after phase I; the others: the same at every step
        late = {name: 0.0 if name == "go_ucb" else 1.0 for name in names}
        runs = {
            name: [
                dict(regret=np.r_[np.ones(n), np.full(t, late[name]) + 1e-3 * seed], seconds=1.0)
                for seed in range(3)
            ]
            for name in names
        }
        functions[function] = synthetic.summarise(function, runs, 1.0)
    store.write_json(tmp_path / "go_ucb_2023/synthetic/summary.json", dict(functions=functions))
    problems = {}
    for model, data in ((m, d) for m in tuning.MODELS for d in tuning.SOURCES):
        quality = {name: 0.9 if name == "go_ucb" else 0.5 for name in names}
        runs = {
            name: [
                dict(
                    accuracy=quality[name]
                    + 0.01 * random.uniform(size=tuning_runs.N + tuning_runs.T),
                    x=random.uniform(size=(tuning_runs.N + tuning_runs.T, 2)),
                )
                for _ in range(3)
            ]
            for name in names
        }
        problems[f"{model}-{data}"] = tuning.summarise(runs)[0]
    store.write_json(
        tmp_path / "go_ucb_2023/tuning/summary.json", dict(problems=problems, repetitions=3)
    )
    found = outcomes(tmp_path, "go_ucb_2023/synthetic")
    assert {outcome.verdict for outcome in found.values()} == {"confirmed", "differs"}
    assert found["GO-UCB has the least regret on f2."].verdict == "confirmed"
    assert found["GO-UCB's regret on f1 stays the same from t = 22 on."].verdict == "confirmed"
    assert found["TuRBO's regret on f1 stays the same from t = 22 on."].verdict == "differs"
    assert found["All methods have linear regret on f3."].verdict == "differs"
    assert not any("candidates" in outcome.note for outcome in found.values())
    # with uniform candidates GP-PI is ahead on f3, and there alone
    ratios = {name: 2.0 for name in ("turbo", *(f"{n}_uniform" for n in names[1:4]))}
    ratios |= dict(go_ucb=1.0)
    variants = {
        function: dict(
            algorithms={
                name: dict(regret_ratio=dict(mean=ratio, ci95=0.1))
                for name, ratio in (ratios | dict(gp_pi_uniform=ahead)).items()
            }
        )
        for function, ahead in (("f1", 2.0), ("f2", 2.0), ("f3", 0.5))
    }
    store.write_json(
        tmp_path / "go_ucb_2023/variants/summary.json", dict(seeds=3, functions=variants)
    )
    found = outcomes(tmp_path, "go_ucb_2023/synthetic")
    assert "uniform it holds" in found["GO-UCB has the least regret on f2."].note
    note = found["GO-UCB has the least regret on f3."].note
    assert "uniform it does not hold" in note and "GP-PI: 0.500 ± 0.100" in note
    assert "does not hold" in found["GO-UCB's lead is smaller on f3 than on f2."].note
    found = outcomes(tmp_path, "go_ucb_2023/tuning")
    assert {outcome.verdict for outcome in found.values()} == {"confirmed", "differs"}
    assert found["GO-UCB is much better for the network."].verdict == "confirmed"
    assert (
        found["All methods are similar for the random forest on breast cancer."].verdict
        == "differs"
    )


def tuning_results(root, difference, half_width, bar=0.2):
    """Breast cancer and Australian where the last of the four others has a paired difference to
    GO-UCB of its own, and the others 1 +- 0.1."""
    problems = {}
    for model, data in ((m, d) for m in tuning.MODELS for d in tuning.SOURCES):
        rows = {
            name: dict(
                more_than_go_ucb=dict(mean=more, ci95=wide),
                cumulative_regret=dict(mean=1.0 + more, ci95=half),
            )
            for name, more, wide, half in (
                ("go_ucb", 0.0, 0.0, 0.2),
                *((name, 1.0, 0.1, 1.0) for name in ("gp_ei", "gp_pi", "gp_ucb")),
                ("turbo", difference, half_width, bar),
            )
        }
        problems[f"{model}-{data}"] = dict(algorithms=rows)
    store.write_json(
        root / "go_ucb_2023/tuning/summary.json", dict(problems=problems, repetitions=5)
    )
    return outcomes(root, "go_ucb_2023/tuning")


@pytest.mark.parametrize(
    "difference, half_width, verdict",
    [
        (0.3, 0.2, "confirmed"),
        # ahead by the mean, and behind by the mean
        (0.1, 0.2, "not decidable here"),
        (-0.1, 0.2, "not decidable here"),
        (-0.3, 0.2, "differs"),
    ],
)
def test_better_is_judged_by_paired_intervals(tmp_path, difference, half_width, verdict):
    found = tuning_results(tmp_path, difference, half_width)
    for statement in (
        "GO-UCB is much better for gradient boosting.",
        "GO-UCB is better than all others on australian, with every classifier.",
    ):
        assert found[statement].verdict == verdict
        assert "from 5 repetitions" in found[statement].note


@pytest.mark.parametrize(
    "difference, half_width, bar, verdict",
    [
        # bars of 0.2 each overlap until 0.4; a difference beyond its interval may be below that
        (0.1, 0.05, 0.2, "confirmed"),
        (-0.1, 0.2, 0.2, "confirmed"),
        (0.35, 0.1, 0.2, "not decidable here"),
        (-0.45, 0.1, 0.2, "not decidable here"),
        (-0.6, 0.1, 0.2, "differs"),
        (0.6, 0.1, 0.2, "differs"),
        (0.6, 0.1, 0.6, "confirmed"),
    ],
)
def test_similar_is_what_the_bars_of_a_figure_cannot_tell(
    tmp_path, difference, half_width, bar, verdict
):
    found = tuning_results(tmp_path, difference, half_width, bar)
    statement = "All methods are similar for the random forest on breast cancer."
    assert found[statement].verdict == verdict


@pytest.mark.parametrize("found, words", [(0.104, "it holds"), (0.106, "it does not hold")])
def test_degree_two_under_the_papers_scaling_is_a_note(tmp_path, found, words):
    """The verdict is of the authors' scaling; the note of the paper's, by the same 5%."""
    folder = tmp_path / "pkawv_2019/cod_rna"
    store.write_json(folder / "summary.json", {})
    runs = [
        tidy.Run(
            dict(problem="cod_rna", algorithm=name), 0, dict(t=np.array([1, n]), error_rate=error)
        )
        for name, n, error in (
            ("kernel_ridge", 50, np.full(2, 0.1)),
            ("taylor_2", 100, np.full(2, 0.2)),
        )
    ]
    tidy.write(folder, runs, "pkawv_2019.large_scale", "cod-rna")
    statement = "Taylor features of degree 2 approximate the kernel forecaster reasonably well."
    before = outcomes(tmp_path, "pkawv_2019/cod_rna")[statement]
    assert before.verdict == "differs" and "[-1, 1]" not in before.note
    rows = {
        name: dict(error_rate=error, examples=50)
        for name, error in (("kernel_ridge", 0.1), ("taylor_2", found))
    }
    measured = dict(cod_rna=dict(authors=rows, paper=rows))
    store.write_json(tmp_path / "pkawv_2019/settings/summary.json", dict(measured=measured))
    after = outcomes(tmp_path, "pkawv_2019/cod_rna")[statement]
    assert after.verdict == "differs" and words in after.note


@pytest.mark.parametrize(
    "last, error, seconds, verdict",
    [
        (39_930, 0.19, 1.0, "not decidable here"),
        (2_000_000, 0.197, 500.0, "confirmed"),
        (2_000_000, 0.2, 500.0, "differs"),
        (2_000_000, 0.19, 1300.0, "differs"),
    ],
)
def test_the_claim_on_a_million_examples(tmp_path, last, error, seconds, verdict):
    """Judged at one million, and not where the stream ends."""
    folder = tmp_path / "pkawv_2019/susy"
    store.write_json(folder / "summary.json", dict(examples=last))
    ends = dict(t=np.array([1, last]), error_rate=np.full(2, error))
    run = tidy.Run(
        dict(problem="susy", algorithm="taylor_2"), 0, ends | dict(seconds=np.array([0, seconds]))
    )
    tidy.write(folder, [run], "pkawv_2019.large_scale", "susy")
    statement = (
        "On the first million examples of SUSY, degree 2 has FALKON's error, within ten minutes."
    )
    found = outcomes(tmp_path, "pkawv_2019/susy")[statement]
    assert found.verdict == verdict, found.number
    if last < 1_000_000:
        assert found.number.startswith("Not run: the file is absent. 39,930 rows")


@pytest.mark.parametrize("error, verdict", [(0.11, "confirmed"), (0.2, "differs")])
def test_claims_of_streams_of_signs(tmp_path, error, verdict):
    def saw(error_rate, seconds, examples=100):
        return dict(error_rate=error_rate, seconds=seconds, examples=examples)

    # what was stopped on the way is not compared with
    methods = dict(
        taylor_2=saw(error, 1.0), nystrom=saw(0.11, 4.0), nystrom_theory=saw(0.01, 9.0, examples=50)
    )
    store.write_json(tmp_path / "pkawv_2019/susy/summary.json", dict(methods=methods))
    found = outcomes(tmp_path, "pkawv_2019/susy")["They are close to the best of all forecasters."]
    assert found.verdict == verdict and "PKAWV, Nyström (KORS): 0.1100" in found.number


def test_no_results_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="run an experiment first"):
        report.build(tmp_path / "nothing", tmp_path / "out")


def test_claims_name_what_exists():
    made_by = commands.by_folder()
    folders = [part.folder for part in EXPERIMENTS]
    assert len(set(folders)) == len(folders)
    for part in EXPERIMENTS:
        assert part.figures or part.tables
        assert importlib.util.find_spec(made_by[part.folder].module)
        texts = [claim.statement for claim in part.claims]
        assert len(set(texts)) == len(texts)


def chromium(page: Path, *options):
    """Standard output, and what the page logged."""
    ran = subprocess.run(
        [
            CHROMIUM,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"),
            f"--user-data-dir={page.parent / 'profile'}",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout, [
        line for line in ran.stderr.splitlines() if "CONSOLE" in line or "ERR_" in line
    ]


def looked_at(page: Path, width: int):
    """What a browser of that width sees of the page, and what is logged."""
    page.with_name("looked_at.html").write_text(page.read_text().replace("</body>", LOOK))
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(width=width))
    dom, logged = chromium(frame, "--window-size=1600,900", "--dump-dom")
    return json.loads(re.search(r"<pre>(.*)</pre>", dom)[1]), logged


@browser
@pytest.mark.parametrize("width", [1280, 375])
def test_a_browser_shows_the_page(tmp_path, width):
    report.build(OWN, tmp_path)
    seen, logged = looked_at(tmp_path / "index.html", width)
    assert seen["broken"] == [] and seen["loaded"] == len(check_page(tmp_path)) > 20
    assert seen["window"] == width and seen["page"] <= width  # nothing to scroll sideways
    picture = tmp_path / "screen.png"
    logged += chromium(
        tmp_path / "index.html", f"--window-size={width},900", f"--screenshot={picture}"
    )[1]
    assert logged == []
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[1] == width and 0.01 < (pixels[..., :3].mean(-1) < 0.5).mean() < 0.5


@browser
def test_the_browser_would_notice(tmp_path):
    report.build(made_results(tmp_path / "results"), tmp_path)
    page = tmp_path / "index.html"
    [picture] = (tmp_path / "figures").glob("*.png")
    picture.unlink()
    page.write_text(page.read_text().replace("<h1>", '<div style="width: 900px">wide</div><h1>'))
    page.write_text(page.read_text().replace("</main>", "</main><script>nobody.knows()</script>"))
    seen, logged = looked_at(page, 375)
    assert (
        seen["broken"] == [f"figures/{picture.name}"] and seen["loaded"] == 0 and seen["page"] > 375
    )
    assert any("nobody is not defined" in line for line in logged)

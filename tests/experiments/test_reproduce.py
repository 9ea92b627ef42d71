"""scripts/reproduce: commands of the READMEs, finished results, and failures."""

import importlib
import sys

import pytest

from experiments import cli, commands
from experiments.data import architectures
from experiments.reproduce import main as reproduce
from experiments.reproduce import needs, quick
from experiments.results import environment, store

COMMANDS = commands.commands_by_folder()
README = """# A paper

In the text, `python -m experiments.bkb_2019.linear --out results/bkb_2019/prose` does not count:

    python -m experiments.bkb_2019.linear --spectrum slow \\
        --out results/bkb_2019/one      # Figure 1
    python -m experiments.bbkb_2020.authors_code --reference DIR

```bash
python -m experiments.pkawv_2019.rates --out results/bkb_2019/two
```
"""


class Parsed(Exception):
    """Ends an experiment whose options were accepted."""


def make_command(folder, module="experiments.bkb_2019.linear", *options):
    return commands.Command(folder, module, (*options, "--out", f"results/{folder}"))


def test_commands_are_read_from_code_blocks():
    first, second = commands.parse_commands(README)
    assert first.text() == (
        "python -m experiments.bkb_2019.linear --spectrum slow --out results/bkb_2019/one"
    )
    assert (second.folder, second.module) == ("bkb_2019/two", "experiments.pkawv_2019.rates")
    assert first.with_results_in("a").values("--out") == ("a/bkb_2019/one",)
    with pytest.raises(ValueError, match="two commands write their results to results/bkb_2019"):
        commands.parse_commands(README + README)


def test_every_saved_result_of_a_paper_has_its_command():
    saved = {
        f"{paper}/{summary.parent.name}"
        for paper in commands.PAPERS
        for summary in (environment.ROOT / "results" / paper).glob("*/summary.json")
    }
    assert len(saved) > 20 and saved <= COMMANDS.keys()
    for folder, command in COMMANDS.items():
        # --only PAPER runs the README of a paper, which may contain only commands of this paper
        paper = folder.split("/")[0]
        assert command.module.split(".")[1] == commands.EXPERIMENTS.get(paper, paper)


@pytest.mark.parametrize("is_quick", [False, True], ids=["whole", "quick"])
def test_experiments_accept_the_options_of_their_commands(monkeypatch, is_quick):
    def stop():
        raise Parsed

    monkeypatch.setattr(cli, "set_up_jax", stop)
    for command in COMMANDS.values():
        arguments = quick.shrink(command).arguments if is_quick else command.arguments
        monkeypatch.setattr(sys, "argv", [command.module, *arguments])
        with pytest.raises(Parsed):
            importlib.import_module(command.module).main()


def test_missing_data_files_are_listed(tmp_path):
    macro = make_command("bbkb_2020/x", "experiments.bbkb_2020.nas_bench_101", "--dataset", "macro")
    assert needs.missing(macro, tmp_path) == [architectures.MACRO]
    susy = make_command("pkawv_2019/x", "experiments.pkawv_2019.large_scale", "--data", "susy")
    assert [file.url for file in needs.missing(susy, tmp_path)] == [""]
    (tmp_path / "SUSY.csv.gz").touch()
    assert needs.missing(susy, tmp_path) == []
    assert needs.missing(make_command("bkb_2019/x"), tmp_path) == []
    # all data sets in the READMEs are known, except those that are generated
    for command in COMMANDS.values():
        if command.module in needs.DATA_OPTIONS and "gp_draw_0" not in command.values("--problems"):
            assert needs.files(command), command


def run_reproduce(tmp_path, monkeypatch, arguments, outcomes):
    """Runs `reproduce` on four commands in place of the READMEs' commands. Returns the folders that
    were run and the exit status. outcomes: {folder: exit status of its command, or "interrupt"}."""
    ran = []

    def execute(command, log, changes):
        if log is None:
            ran.append("report")
            return 0
        folder = log.parents[1].relative_to(tmp_path / "out").as_posix()
        ran.append(folder)
        log.write_text("some words\nerror: it cannot be.\n")
        status = outcomes.get(folder, 0)
        if status == "interrupt":
            raise KeyboardInterrupt
        if status == 0:
            store.write_json(log.parents[1] / "summary.json", {})
        return status

    nas_bench = "experiments.bbkb_2020.nas_bench_101"
    by_paper = dict(
        bkb_2019=[make_command("bkb_2019/a"), make_command("bkb_2019/b")],
        bbkb_2020=[make_command("bbkb_2020/c", nas_bench, "--dataset", "nasbench101_whole")],
        go_ucb_2023=[
            make_command("go_ucb_2023/d", "experiments.go_ucb_2023.choose", "--reference", "DIR")
        ],
    )
    monkeypatch.setattr(commands, "paper_commands", lambda paper: by_paper.get(paper, []))
    monkeypatch.setattr(reproduce, "execute", execute)
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    common = ("--out", str(tmp_path / "out"), "--data-dir", str(data))
    monkeypatch.setattr(sys, "argv", ["reproduce", *common, *arguments])
    status = 0
    try:
        reproduce.main()
    except SystemExit as error:
        status = error.code
    return ran, status


def test_a_run_continues_after_a_failure_and_skips_finished_results(tmp_path, monkeypatch, capsys):
    ran, status = run_reproduce(tmp_path, monkeypatch, ["--dry-run"], {})
    assert (ran, status) == ([], 0) and not (tmp_path / "out").exists()
    assert "4 commands" in capsys.readouterr().out

    ran, status = run_reproduce(tmp_path, monkeypatch, [], {"bkb_2019/a": 1})
    printed = capsys.readouterr().out
    assert (ran, status) == (["bkb_2019/a", "bkb_2019/b", "report"], 1)
    assert "2 to run, 2 not run." in printed
    failures = printed.split("FAILED (run the command again):")[1]
    assert failures.split() == ["bkb_2019/a:", "it", "cannot", "be."]
    assert "bbkb_2020/c: nasbench101_full_mean_test.npz cannot be downloaded" in printed
    assert "go_ucb_2023/d: DIR is a checkout of the authors' code" in printed

    assert run_reproduce(tmp_path, monkeypatch, [], {}) == (["bkb_2019/a", "report"], 0)
    assert "FAILED" not in capsys.readouterr().out

    only = ["--only", "bbkb_2020"]
    assert run_reproduce(tmp_path, monkeypatch, only, {}) == (["report"], 0)


def test_finished_results_are_kept_after_an_interrupt(tmp_path, monkeypatch, capsys):
    ran, status = run_reproduce(tmp_path, monkeypatch, [], {"bkb_2019/b": "interrupt"})
    assert (ran, status) == (["bkb_2019/a", "bkb_2019/b"], 130)
    assert "interrupted: 1 of 4 commands are finished. The same" in capsys.readouterr().err
    assert run_reproduce(tmp_path, monkeypatch, [], {}) == (["bkb_2019/b", "report"], 0)
    # without its record a command runs again, because its figures may be missing
    (tmp_path / "out/bkb_2019/a/runs" / reproduce.RECORD).unlink()
    assert run_reproduce(tmp_path, monkeypatch, [], {}) == (["bkb_2019/a", "report"], 0)


def test_figures_of_the_papers_are_found_by_name():
    assert commands.figures_in("# Figures 3 and 4: a search; Figures 5 to 7") == (3, 4, 5, 6, 7)
    assert commands.figures_in("no picture") == ()
    numbers = dict(bbkb_2020=range(1, 8), go_ucb_2023=range(2, 6), pkawv_2019=range(1, 5))
    for paper, expected in numbers.items():
        paper_commands = commands.paper_commands(paper)
        assert {n for command in paper_commands for n in command.figures} == set(expected)
    options = reproduce.parse(["--figure", "bbkb:2", "pkawv:1", "--dry-run"])
    folders = [step.command.folder for step in reproduce.plan(options)]
    assert folders[:2] == ["bbkb_2020/abalone", "bbkb_2020/cadata"]
    assert set(folders[2:]) == {f"pkawv_2019/{p}rates" for p in ("", "nystrom_", "pros_n_kons_")}
    with pytest.raises(SystemExit):
        reproduce.parse(["--figure", "bbkb:9"])

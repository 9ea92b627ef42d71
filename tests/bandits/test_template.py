"""The template of CONTRIBUTING.md is an algorithm that works, and so do the rows printed there."""

import re
from pathlib import Path

import cases

from experiments.bbkb_2020 import methods
from experiments.results import tidy
from experiments.sweep import main as sweep
from experiments.sweep.settings import Sweep
from jsketch.bandits.template import ConstantWidth

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


def row(names):
    """The entry of the algorithm "mine" in a table, which CONTRIBUTING.md prints."""
    found = re.findall(r'`"mine": (.*?),`', TEXT)
    [value] = [text for text in found if ("lambda" in text) == hasattr(names, "ALGORITHMS")]
    return eval(value, vars(names) | dict(Mine=ConstantWidth))


def test_a_copy_of_the_template_beats_random_arms_on_the_printed_sweep(tmp_path, monkeypatch):
    assert row(cases) == ConstantWidth(**cases.SKETCH)
    monkeypatch.setitem(methods.ALGORITHMS, "mine", row(methods))
    command = re.search(r"`scripts/sweep (--problem .*?)`", TEXT).group(1)
    options = sweep.parse(f"{command} --arms 300 --horizon 200 --seeds 2".split())
    assert options.algorithm == "mine" and set(options.grid["beta"]) > {ConstantWidth.beta}
    sweep.run(Sweep(**vars(options) | dict(out=tmp_path, grid=dict(lengthscale=(1.0, 3.0)))))
    ratios = tidy.load(tmp_path).summary["final_regret_ratio"]
    assert len(ratios) == 4 and ratios.max() < 0.5  # uniformly random arms have 1

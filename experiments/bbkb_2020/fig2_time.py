"""BBKB, Figure 2: the run time on Abalone and Cadata.

The paper shows the seconds of the first 2,000 iterations, and says that BBKB takes only a fraction
of the time of the others. The runs are those of Figure 1, and so are their settings. Our GP-UCB and
GP-BUCB group repeated arms, which the paper's count of operations does not: `ungrouped` is another
implementation, of GP-UCB on Abalone. Seconds are wall seconds without compilation, which other
programs on the machine lengthen.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from experiments import common
from experiments.bbkb_2020 import fig1_regret
from experiments.bbkb_2020.fig1_regret import BATCHED, draw, run
from experiments.common import Verdict
from experiments.figures.styles import label

__all__ = ["CHECKS", "QUICK", "RUNS", "draw", "run"]

THEOREMS, CODE = ("abalone", "cadata"), ("abalone_code", "cadata_code")
RUNS = {f"bbkb_2020/{name}": fig1_regret.RUNS[f"bbkb_2020/{name}"] for name in THEOREMS + CODE}
QUICK = fig1_regret.QUICK
ITERATIONS = 2_000  # the figure's
FRACTION = 0.5  # the largest share that one would call a fraction


def ratio_to(baselines: Sequence[str], folder: Path, of_baselines: Path | None = None) -> Verdict:
    """The slowest run of BBKB's faster rule takes at most FRACTION of the seconds of a baseline's
    fastest run; the claim fails if its fastest run takes more than that of a slowest run. The
    baselines are in the same folder, or in `of_baselines`, whose problem has the folder's name."""

    def seconds(name: str) -> np.ndarray:
        return common.values_at(folder, "seconds", name, ITERATIONS)

    def seconds_of_baseline(name: str) -> np.ndarray:
        if of_baselines is None:
            return seconds(name)
        return common.values_at(of_baselines, "seconds", name, ITERATIONS, problem=folder.name)

    bbkb = min(map(seconds, BATCHED), key=np.median)
    others = {name: seconds_of_baseline(name) for name in baselines}
    ends = {n: (bbkb.min() / s.max(), bbkb.max() / s.min()) for n, s in others.items()}
    fails = any(least > FRACTION for least, _ in ends.values())
    holds = all(most <= FRACTION for _, most in ends.values())
    texts = {name: f"{least:.3f} to {most:.3f}" for name, (least, most) in ends.items()}
    text = f"seconds of BBKB's faster rule over those of {common.listed(texts)}"
    return common.verdict(common.decision(fails, holds), text)


def fraction_of_bkb(root: Path) -> Verdict:
    """`ratio_to` BKB, with the widths of the theorems and of the code."""
    folder = root / "bbkb_2020"
    return common.all_of({n: partial(ratio_to, ["bkb"], folder / n) for n in THEOREMS + CODE})


def fraction_of_exact(root: Path) -> Verdict:
    """`ratio_to` GP-UCB and GP-BUCB, with the widths of the theorems: with our implementation of
    the baselines, which groups repeated arms, and with one that does not. The claim is undecided
    where they disagree, or where one was not run."""
    folder = root / "bbkb_2020"

    def judged(of_baselines: Path | None) -> Verdict:
        return common.all_of(
            {
                f"{name}, {label(baseline)}": partial(
                    ratio_to, [baseline], folder / name, of_baselines
                )
                for name in THEOREMS
                for baseline in ("gp_ucb", "gp_bucb")
            }
        )

    implementations = {"with groups": None, "without groups": folder / "ungrouped"}
    return common.agreed({name: partial(judged, path) for name, path in implementations.items()})


def with_other_widths(root: Path) -> Verdict:
    """`ratio_to` GP-UCB with the widths of the authors' code."""
    folder = root / "bbkb_2020"
    return common.all_of({name: partial(ratio_to, ["gp_ucb"], folder / name) for name in CODE})


CHECKS = (fraction_of_bkb, fraction_of_exact)
CAUSES = {"fraction_of_exact": with_other_widths}

if __name__ == "__main__":
    common.main(__file__)

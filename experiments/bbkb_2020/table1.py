"""BBKB, Table 1: the best bandwidth of each algorithm (Abalone).

The paper takes the bandwidths that perform best in cross-validation, without describing it. The
runs are those of Figure 5. async-TS is left out, because our Thompson sampling is another method:
it samples from the sketched posterior, in batches.
"""

from pathlib import Path

import numpy as np

from experiments import common
from experiments.bbkb_2020 import fig5_6_bandwidths
from experiments.bbkb_2020.fig5_6_bandwidths import QUICK, draw, final_ratios, run
from experiments.bbkb_2020.methods import LENGTHSCALES
from experiments.common import Verdict

__all__ = ["CHECKS", "QUICK", "RUNS", "draw", "run"]

FOLDER = "bbkb_2020/bandwidths_abalone"
RUNS = {FOLDER: fig5_6_bandwidths.RUNS[FOLDER]}
JUDGED = ("bbkb_global", "bbkb_global_local", "bkb", "gp_ucb", "gp_bucb")


def best_bandwidths(root: Path) -> Verdict:
    """For each algorithm the regret at every other bandwidth minus the regret at the table's, on
    the same seeds, lies above 0. The claim differs if one interval lies below."""
    table = {name: LENGTHSCALES["abalone"][name] for name in JUDGED}
    found = final_ratios(root / FOLDER, table)
    decisions, texts = [], {}
    for name, lengthscale in table.items():
        at_table = found[name].pop(lengthscale)
        gaps = {k: common.difference_interval(r, at_table) for k, r in found[name].items()}
        decisions.append(common.all_above(gaps.values(), 0))
        best = min(gaps, key=lambda k: np.mean(found[name][k]))
        texts[name] = f"{common.interval_text(gaps[best], 4)} at {best:g}"
    holds = common.decision(False in decisions, None not in decisions)
    return common.verdict(holds, f"the best other bandwidth's ratio more: {common.listed(texts)}")


CHECKS = (best_bandwidths,)

if __name__ == "__main__":
    common.main(__file__)

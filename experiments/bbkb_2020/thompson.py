"""BBKB, Appendix D.1: Thompson sampling with its full width (Cadata).

Batched Thompson sampling struggled to converge in the paper's experiments, which therefore divide
its width by 10. The check judges whether the full width has more regret. The paper's method draws
from the exact posterior of 20,640 arms. A pivoted Cholesky factor [A, r] of their Gram matrix
leaves variances of at most 1e-10 (lambda is 1e-4), and makes each draw a product with r normals.
Runs of our sketched Thompson sampling, another method, are beside it.
"""

from pathlib import Path

import numpy as np

from experiments import common
from experiments.bbkb_2020 import cadata_settings
from experiments.bbkb_2020.cadata_settings import FULL, QUICK, draw, run
from experiments.common import Verdict

__all__ = ["CHECKS", "QUICK", "RUNS", "draw", "run"]

EXACT, SKETCHED = (f"bbkb_2020/cadata_settings_{name}" for name in ("exact_ts", "ts"))
RUNS = {folder: cadata_settings.RUNS[folder] for folder in (EXACT, SKETCHED)}
MORE, T = 1.2, 2_000  # more regret is this many times another's


def full_width_has_more_regret(root: Path) -> Verdict:
    """With the full width the ratio at T exceeds MORE times that of a tenth of the width, on the
    same seeds, for the exact posterior. The sketched one decides nothing."""

    def ratios(folder: str, name: str) -> list[np.ndarray]:
        settings = (FULL, "as in regret")
        path = root / folder
        return [common.values_at(path, "regret_ratio", name, T, problem=s) for s in settings]

    full, tenth = ratios(EXACT, "ts")
    gap = common.difference_interval(full, MORE * tenth)
    text = f"{full.mean():.3f} with the full width, {tenth.mean():.3f} with a tenth; the first"
    text += f" minus {MORE} times the second {common.interval_text(gap, 3)}"
    sketched = "{:.3f} and {:.3f}".format(*(r.mean() for r in ratios(SKETCHED, "sketched_ts")))
    text += f"; our sketched Thompson sampling has {sketched}"
    return common.verdict(common.all_above([gap], 0), text)


CHECKS = (full_width_has_more_regret,)

if __name__ == "__main__":
    common.main(__file__)

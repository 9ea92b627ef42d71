"""Beyond BBKB's Figures 3 to 7: NAS-Bench-Macro, and all 423,624 cells of NAS-Bench-101.

The settings are those of `fig4_search`. The local rule is left out in the whole space, where it
takes 1.4 s an evaluation.
"""

from experiments import common
from experiments.bbkb_2020 import fig4_search as search
from experiments.bbkb_2020.fig4_search import draw, run
from experiments.common import Settings

__all__ = ["CHECKS", "QUICK", "RUNS", "draw", "run"]

WHOLE = search.COLD | dict(data="nasbench101_whole", seeds=2)
MACRO = search.COLD | dict(data="macro", width="code", new=2_000, total=2_000)
RUNS: dict[str, Settings] = {
    "bbkb_2020/nas_whole": WHOLE | dict(algorithms=("uniform", "eps_greedy_free", "bbkb_global")),
    "bbkb_2020/nas_whole_code": WHOLE | dict(width="code", algorithms=("uniform", "bbkb_global")),
    "bbkb_2020/nas_macro": MACRO
    | dict(algorithms=("uniform", "evolution", *search.RULES, "sketched_ts", "eps_greedy")),
    "bbkb_2020/nas_macro_warm": MACRO
    | dict(initial=2_000, total=4_000, lengthscale=125.0)
    | dict(algorithms=("uniform", "evolution", *search.RULES)),
}
QUICK: Settings = dict(new=20, seeds=1)
CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)

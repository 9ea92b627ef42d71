"""Published results on the recorded libraries, and the same statistics of our campaigns."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.pools import campaigns, libraries
from experiments.pools.libraries import Pool


class Setting(NamedTuple):
    """A library, the sizes of the batches, and the statistic."""

    load: Callable[[str | Path | None], Pool]
    sizes: tuple[int, ...]  # of the batches, the first one random
    at: tuple[int, ...]  # numbers of evaluations after which the statistic is computed
    statistic: str
    published: Mapping[str, Sequence[float | None]] = {}  # {method: the statistic at each of `at`}


ARYLATION_AT = (5, 10, 15, 25, 50, 75)
ARYLATION = {
    # Shields et al., Nature 590, 2021: 50 runs, and 50 chemists
    "EDBO (GP-EI, DFT)": (50.0, 74.1, 86.2, 95.6, 99.8, 100.0),
    "chemists": (64.8, 79.8, 85.0, 91.7, 94.2, 94.9),
}
GB1 = {
    # ALDE: 70 runs with a random batch of 96 and four chosen ones, after 480 evaluations
    name: (None, None, None, None, share)
    for name, share in {
        "GP-UCB, one-hot": 0.819,
        "DNN-UCB, one-hot": 0.903,
        "boosting-TS, AAindex": 0.930,
        "random": 0.471,
    }.items()
}
_GB1 = Setting(
    libraries.gb1, (96,) * 5, tuple(96 * k for k in range(1, 6)), "best over maximum", GB1
)
_NANOPARTICLES = Setting(
    libraries.nanoparticles, (4,) * 12, (8, 16, 24, 32, 48), "share of best settings found"
)
SETTINGS = {
    "arylation_one_hot": Setting(
        libraries.arylation_one_hot, (5,) * 15, ARYLATION_AT, "best yield (%)", ARYLATION
    ),
    "arylation_dft": Setting(
        libraries.arylation_dft, (5,) * 15, ARYLATION_AT, "best yield (%)", ARYLATION
    ),
    "gb1": _GB1,
    "gb1_residues": _GB1._replace(load=partial(libraries.gb1, properties=True)),
    # Graff, Shakhnovich, Coley, Chemical Science 2021: greedy, 6 batches of 1% of the library
    **{
        f"enamine{size}": Setting(
            partial(libraries.enamine, size),
            (batch,) * 6,
            tuple(batch * k for k in range(1, 7)),
            f"share of the top {top}",
            {"MolPAL (message passing)": (None,) * 5 + (share,)},
        )
        for size, batch, top, share in (("10k", 105, 100, 0.596), ("50k", 502, 500, 0.688))
    },
    "nanoparticles": _NANOPARTICLES,
    "nanoparticles_repeats": _NANOPARTICLES._replace(
        load=partial(libraries.nanoparticles, repeats=True)
    ),
    "crossed_barrel": Setting(
        libraries.crossed_barrel, (5,) * 10, (5, 10, 25, 50), "best toughness"
    ),
    "oer_plate": Setting(
        libraries.oer_plate, (5,) * 10, (5, 10, 15, 25, 50), "best negated overpotential (V)"
    ),
    "grain_boundary": Setting(
        libraries.grain_boundary, (10,) * 10, (10, 30, 50, 100), "best value"
    ),
    "nasbench101": Setting(
        libraries.nasbench101,
        (10,) * 15,
        (10, 20, 50, 100, 150),
        "accuracy minus the best accuracy (percentage points)",
    ),
}
# {library: n}, where the statistic is the share of the n best candidates that a campaign finds
TOP = {"enamine10k": 100, "enamine50k": 500, "nanoparticles": 1, "nanoparticles_repeats": 1}


def statistics(name: str, pool: Pool, campaign_list: Sequence[campaigns.Campaign]) -> np.ndarray:
    """[S, len(at)], the statistic of the setting for each campaign."""
    setting = SETTINGS[name]
    if name in TOP:
        return campaigns.top_found(campaign_list, pool.values, TOP[name], setting.at)
    best = campaigns.best_so_far(campaign_list, setting.at)
    return best / pool.values.max() if setting.statistic == _GB1.statistic else best


def lines(name: str, values: np.ndarray, method: str = "suggest") -> list[str]:
    """A table in Markdown: the means of our `values` [S, len(at)] with standard errors, and the
    published numbers."""
    setting = SETTINGS[name]

    def row(label: str, cells: Sequence[Any]) -> str:
        return "| " + " | ".join([label, *map(str, cells)]) + " |"

    # shares, values that are at most 1 but may be large and negative, and other values
    digits = 3 if np.abs(values).max() <= 1 else 2 if values.max() <= 1 else 1
    n_seeds = len(values)
    error = values.std(0, ddof=min(n_seeds - 1, 1)) / n_seeds**0.5
    pairs = zip(values.mean(0), error, strict=True)
    rows = [row(setting.statistic, setting.at), row("---", ["---"] * len(setting.at))]
    label = f"{'jsketch' if method == 'suggest' else method}, {n_seeds} seeds"
    rows.append(row(label, [f"{m:.{digits}f} ± {e:.{digits}f}" for m, e in pairs]))
    for published_method, numbers in setting.published.items():
        cells = ["" if number is None else f"{number:.{digits}f}" for number in numbers]
        rows.append(row(published_method, cells))
    return rows

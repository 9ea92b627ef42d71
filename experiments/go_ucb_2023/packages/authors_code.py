"""Runs a checkout of the TuRBO authors' code (uber-research/TuRBO) beside ours.

Nothing of it is part of this project: give the comparison a folder that holds its
`turbo/turbo_1.py`. It needs torch and gpytorch, which this project does not.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PACKAGES = ("torch", "gpytorch", "linear_operator")


class ReferenceRun(NamedTuple):
    """One run of the authors' code."""

    x: np.ndarray  # [T, d]
    y: np.ndarray  # [T], to be maximised
    seconds: float


def load(folder: Path) -> Any:
    """The authors' package `turbo`. Raises FileNotFoundError when the folder holds no
    turbo/turbo_1.py."""
    if not (folder / "turbo" / "turbo_1.py").exists():
        raise FileNotFoundError(
            f"{folder} holds no turbo/turbo_1.py: --reference takes a checkout of"
            " uber-research/TuRBO, the authors' code."
        )
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("gpytorch")
    except ImportError as error:
        raise SystemExit(
            "error: the authors' code needs torch and gpytorch: pip install torch gpytorch"
        ) from error
    # matrices this small are faster on one core
    torch.set_num_threads(1)
    sys.path.insert(0, str(folder.resolve()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return importlib.import_module("turbo")


def run(
    folder: Path,
    function: Callable[[np.ndarray], float],
    lower: np.ndarray,
    upper: np.ndarray,
    horizon: int,
    initial: int,
    seed: int,
) -> ReferenceRun:
    """TuRBO-1 on function(x [d]), to be maximised, with all their defaults and batches of 1.

    A restart at the end evaluates its whole design: what is past the horizon is left out.
    """
    library = load(folder)
    np.random.seed(seed)  # noqa: NPY002 - their code draws from it
    importlib.import_module("torch").manual_seed(seed)
    optimizer = library.Turbo1(
        f=lambda x: -function(x),
        lb=lower,
        ub=upper,
        n_init=initial,
        max_evals=horizon,
        batch_size=1,
        verbose=False,
    )
    began = time.perf_counter()
    optimizer.optimize()
    seconds = time.perf_counter() - began
    return ReferenceRun(optimizer.X[:horizon], -optimizer.fX[:horizon, 0], seconds)


def versions() -> dict[str, str]:
    """Of the packages that the authors' code runs on. Raises ValueError when one is missing."""
    try:
        return {name: importlib.metadata.version(name) for name in PACKAGES}
    except importlib.metadata.PackageNotFoundError as error:
        raise ValueError(
            f"the authors' code needs {', '.join(PACKAGES)}; {error.name} is not installed."
        ) from error

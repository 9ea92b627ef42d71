"""The first author's NumPy implementation (Remjez/kernel-online-learning), from a checkout: a
folder DIR with its `forecaster.py` for `scripts/bench-online --reference DIR`."""

from __future__ import annotations

import importlib
import math
import sys
import time
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FREQUENCIES = 1000  # of FOGD


class ReferenceRun(NamedTuple):
    """Predictions of the first examples of a stream, and the seconds that they took."""

    prediction: np.ndarray
    seconds: float


def can_run(method: str) -> bool:
    """Whether the author has the method. The Nystrom forecaster, which needs the package
    choldate, is left out."""
    return method in ("taylor", "fogd", "pros_n_kons")


def make(
    folder: Path, method: str, degree: int, lengthscale: float, inputs: int, count: int
) -> Any:
    """The author's forecaster with the settings of the notebook: projected ridge regression, lam =
    1. Raises FileNotFoundError where the folder holds no forecaster.py."""
    if not (folder / "forecaster.py").exists():
        raise FileNotFoundError(
            f"{folder} holds no forecaster.py: --reference takes a checkout of"
            " Remjez/kernel-online-learning, the author's code."
        )
    sys.path.insert(0, str(folder.resolve()))
    # the module imports choldate for its Nystrom forecaster
    absent = types.ModuleType("choldate")
    absent.cholupdate = absent.choldowndate = None  # type: ignore[attr-defined]
    sys.modules.setdefault("choldate", absent)
    library = importlib.import_module("forecaster")

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return math.exp(-float(np.sum((a - b) ** 2)) / (2 * lengthscale**2))

    if method == "taylor":
        size = sum(inputs**k for k in range(degree + 1))
        return library.Ridge_reg(
            size, 1.0, lambda x: library.compute_taylor_features(x, degree, lengthscale)
        )
    if method == "fogd":
        return library.Fourier_online_GD_reg(inputs, FREQUENCIES, lengthscale, 1 / math.sqrt(count))
    return library.Pros_n_kons(inputs, 1.0, kernel)


def run(
    folder: Path,
    method: str,
    degree: int,
    lengthscale: float,
    xs: np.ndarray,
    ys: np.ndarray,
    limit_seconds: float,
) -> ReferenceRun:
    """Predicts and learns xs [n,d], ys [n] one by one until the time is up; at least two
    examples."""
    forecaster = make(folder, method, degree, lengthscale, xs.shape[1], len(ys))
    predictions: list[float] = []
    began = time.perf_counter()
    for x, y in zip(xs, ys, strict=True):
        predictions.append(float(forecaster.predict(x)))
        forecaster.update(x, y)
        if len(predictions) >= 2 and time.perf_counter() - began > limit_seconds:
            break
    return ReferenceRun(np.array(predictions), time.perf_counter() - began)

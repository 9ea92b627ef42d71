"""Runs a checkout of the BBKB authors' NumPy implementation (luigicarratino/batch-bkb) beside ours.

Nothing of it is part of this project: give `against_authors --reference DIR` a
folder that holds its `bkb_lib.py`.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CLASSES = {"bkb": "BKB", "bbkb_global": "Batch_BKB", "bbkb_global_local": "Local_Batch_BKB"}


class ReferenceRun(NamedTuple):
    """One run of the authors' code."""

    regret: np.ndarray  # [T], instantaneous
    dictionary_size: int
    batches: int
    seconds: float


def load(folder: Path) -> tuple[Any, Any]:
    """The authors' modules (bkb_lib, utils) from a checkout. Raises FileNotFoundError when it holds
    no bkb_lib.py."""
    if not (folder / "bkb_lib.py").exists():
        raise FileNotFoundError(
            f"{folder} holds no bkb_lib.py: --reference takes a checkout of"
            " luigicarratino/batch-bkb, the authors' code."
        )
    sys.path.insert(0, str(folder.resolve()))
    return importlib.import_module("bkb_lib"), importlib.import_module("utils")


def run(
    folder: Path,
    algorithm: str,
    features: np.ndarray,
    mean_reward: np.ndarray,
    horizon: int,
    seed: int,
    *,
    lengthscale: float,
    noise_std: float,
    regularization: float | None = None,
    qbar: float = 2.0,
    ratio: float = 2.0,
) -> ReferenceRun:
    """One run on arms [A,d] with mean rewards [A], started at two uniform arms: their code cannot
    start from one.

    lam = noise_std^2 unless given, F = 1, delta = 1/T. The kernel is the fast one of their
    utilities.
    """
    try:
        # their code's kernels; only needed here
        from sklearn.gaussian_process.kernels import (
            RBF,
            PairwiseKernel,
        )
    except ImportError as error:
        raise SystemExit(
            "error: the authors' code needs scikit-learn: pip install scikit-learn"
        ) from error

    library, utilities = load(folder)
    random = np.random.RandomState(seed)
    kernel = utilities.FastMixinKernel(
        RBF(lengthscale),
        PairwiseKernel(
            gamma=1 / (2 * lengthscale**2), metric="rbf", pairwise_kernels_kwargs={"n_jobs": 1}
        ),
    )
    options = dict(
        lam=noise_std**2 if regularization is None else regularization,
        dot=kernel,
        noise_variance=noise_std**2,
        fnorm=1.0,
        delta=1 / horizon,
        qbar=qbar,
        verbose=0,
    )
    if algorithm != "bkb":
        options["ratio_threshold"] = ratio
    bandit = getattr(library, CLASSES[algorithm])(**options)

    def reward(arms: np.ndarray) -> np.ndarray:
        return mean_reward[arms] + noise_std * random.randn(len(arms))

    began = time.perf_counter()
    first = random.choice(len(features), 2, replace=False)
    bandit.initialize(features, first, reward(first))
    picks, batches = [first], 1
    done = len(first)
    while done < horizon:
        batch = np.asarray(bandit.predict()[0])[: horizon - done]
        bandit.update(batch, reward(batch), random)
        picks.append(batch)
        done += len(batch)
        batches += 1
    seconds = time.perf_counter() - began
    arms = np.concatenate(picks)
    return ReferenceRun(
        mean_reward.max() - mean_reward[arms], int(bandit.dict_size_unique), batches, seconds
    )

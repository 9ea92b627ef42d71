"""Architecture search spaces with recorded accuracies, and substitutes for missing records.

BBKB's experiment uses the 12,416 NAS-Bench-101 cells with 4 inner nodes, each 3x3 convolution or
max-pooling. The accuracies of the three trainings of each are in a file of 499 MB, which is rarely
available. The choices, of which every summary names one:
    nasbench101        the cells with these accuracies, from `nasbench101_results.npz` in the data
                       folder
    nasbench101_means  the cells with their recorded mean accuracies, and noise of NOISE_STD
    nasbench101_whole  the same of all 423,624 cells of NAS-Bench-101
    macro              NAS-Bench-Macro, a substitute: 6,561 other architectures, 3 trainings each
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pooch

from experiments.data.datasets import find_folder, verified
from experiments.results import store
from jsketch import problems
from jsketch.bandits import evolution

CANDIDATES = "nasbench101_v6_conv3x3_maxpool3x3_candidates.npz"
CANDIDATES_SHA256 = "5e895841790b1fb4f173a2575f2a1e0b37815d6bd171fc4cfe21a5f4e5d63f49"
# module_hash [n] S32, test_accuracy [n, 3] in [0, 1], training_seconds [n, 3]
RESULTS = "nasbench101_results.npz"
RECORDED = ("module_hash", "test_accuracy", "training_seconds")
MACRO = "nas-bench-macro_cifar10.json"
MACRO_SHA256 = "686dee8363cc21cca8c1f321ad5749454f2d9b9ca5972682e137e539bc522297"
MACRO_URL = "https://raw.githubusercontent.com/xiusu/NAS-Bench-Macro/master/data/nas-bench-macro_cifar10.json"
MEANS = "nasbench101_v6_mean_test_accuracy.npz"
MEANS_SHA256 = "1f32d572ec1726039dc56aeb6eee9ae8c268dced4a680929a29fb4528086963b"
WHOLE = "nasbench101_full_mean_test.npz"
WHOLE_SHA256 = "ba058159087afa06c791a3e79371a54ef99a92294b2a0a32785622b38debe78f"
IMAGES = 9_984  # test images
# standard deviation of the test accuracy of one training around the mean of its cell. The sampling
# of 9,984 images gives sqrt(p (1 - p) / 9,984) = 0.0027 at p = 0.92, a lower bound; the rest,
# 0.0037, is our guess of the variation between trainings: the mean distance of one of them from the
# mean of two others is then 0.0045
NOISE_STD = 0.0046
CHOICES = ("nasbench101", "nasbench101_means", "nasbench101_whole", "macro")


class Space(NamedTuple):
    """A finite space of architectures; the mean rewards span [0, 1]."""

    name: str
    features: np.ndarray  # [A, d]
    evaluations: np.ndarray  # [A, R]; R = 1 for means
    # [A, K] int32, the cells one change apart, padded with -1; None for spaces that are too large
    neighbours: np.ndarray | None
    training_seconds: np.ndarray | None  # [A], means; None when no time was recorded
    source: str
    noise_std: float | None = None  # around `evaluations`, if they are means
    span: float = 1.0  # the difference of accuracy between rewards 0 and 1


def problem(space: Space) -> Any:
    """The arms of a space: a reward is one of the recorded evaluations at random, or a mean with
    Gaussian noise."""
    if space.noise_std is None:
        return problems.recorded_arms(space.features, space.evaluations)
    return problems.finite_arms(space.features, space.evaluations[:, 0], space.noise_std)


def load(choice: str, data_dir: str | Path | None = None) -> Space:
    """The space of that name; "auto" is the first of nasbench101, nasbench101_means and macro whose
    file is available. Raises ValueError (unknown name, wrong checksum) or OSError (a missing file
    that cannot be downloaded)."""
    folder = find_folder(data_dir)
    if choice == "auto":
        tables = {"nasbench101": RESULTS, "nasbench101_means": MEANS}
        there = (name for name, file in tables.items() if (folder / file).exists())
        choice = next(there, "macro")
    if choice not in CHOICES:
        raise ValueError(
            f"There is no space called '{choice}'; choose one of: auto, {', '.join(CHOICES)}."
        )
    makers = {
        "nasbench101": _recorded_cells,
        "nasbench101_means": _mean_cells,
        "nasbench101_whole": _whole_space,
        "macro": _macro,
    }
    return makers[choice](folder)


def _read(path: Path, sha256: str, remedy: str) -> bytes:
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is not in {path.parent}. {remedy}")
    return verified(path, sha256)


def scale(evaluations: np.ndarray) -> np.ndarray:
    """Evaluations [A,R] shifted and scaled so that the arms' means span [0, 1]."""
    means = evaluations.mean(1)
    return (evaluations - means.min()) / (means.max() - means.min())


def _macro(folder: Path) -> Space:
    path = folder / MACRO
    if not path.exists():
        print(f"{MACRO} is not in {folder}: downloading it from {MACRO_URL}", flush=True)
        pooch.retrieve(MACRO_URL, known_hash=f"sha256:{MACRO_SHA256}", fname=MACRO, path=folder)
    table = json.loads(_read(path, MACRO_SHA256, f"Download it from {MACRO_URL}."))
    codes = np.array([[int(digit) for digit in key] for key in table])
    onehot = (codes[:, :, None] == np.arange(3)).reshape(len(codes), -1) / np.sqrt(codes.shape[1])
    evaluations = np.array([entry["test_acc"] for entry in table.values()])
    source = (
        f"REAL accuracies of NAS-Bench-Macro ({MACRO}), a stand-in: not the NAS-Bench-101 cells of"
        " the paper"
    )
    return Space(
        "NAS-Bench-Macro",
        onehot,
        scale(evaluations),
        evolution.one_change_apart(codes),
        None,
        source,
    )


def _cells(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features [12416, 17], codes [12416, 17], hashes). The features of edges and of operations
    are each divided by their largest norm (BBKB D.2, THEORY 10.1)."""
    remedy = (
        "It is enumerated, not downloaded; `--dataset macro` needs another file, which can be"
        " downloaded."
    )
    with np.load(io.BytesIO(_read(folder / CANDIDATES, CANDIDATES_SHA256, remedy))) as table:
        edges, ops = (
            table["adjacency_upper"][:, 1:-1].astype(float),
            table["is_conv3x3"].astype(float),
        )
        hashes = table["module_hash"]
    halves = [half / np.linalg.norm(half, axis=1).max() for half in (edges, ops)]
    return np.concatenate(halves, 1), np.concatenate([edges, ops], 1).astype(int), hashes


def _neighbours(codes: np.ndarray) -> np.ndarray:
    """The cells one change apart; the few cells without such a neighbour have the nearest cell."""
    table = evolution.one_change_apart(codes)
    for arm in np.flatnonzero((table < 0).all(1)):
        distance = (codes != codes[arm]).sum(1)
        distance[arm] = codes.shape[1] + 1
        table[arm, 0] = int(np.argmin(distance))
    return table


def _of_means(name: str, features: np.ndarray, accuracy: np.ndarray, file: str) -> Space:
    """A space without neighbours, of mean accuracies [A]."""
    span = float(accuracy.max() - accuracy.min())
    source = (
        f"REAL mean test accuracies of three trainings (NAS-Bench-101, {file}, checksum checked)"
        f" with GENERATED Gaussian noise, standard deviation {NOISE_STD:g} of accuracy"
    )
    means = scale(accuracy[:, None])
    return Space(name, features, means, None, None, source, NOISE_STD / span, span)


def _mean_cells(folder: Path) -> Space:
    features, codes, hashes = _cells(folder)
    with np.load(io.BytesIO(_read(folder / MEANS, MEANS_SHA256, "It cannot be downloaded."))) as t:
        if (t["module_hash"] != hashes).any():
            raise ValueError(f"the rows of {MEANS} are not those of {CANDIDATES}.")
        accuracy = t["mean_test_accuracy"]
    space = _of_means("NAS-Bench-101", features, accuracy, MEANS)
    return space._replace(neighbours=_neighbours(codes))


def _whole_space(folder: Path) -> Space:
    """Features [423624, 36]: 21 bits of the adjacency matrix and 5 operations one-hot, each part
    divided by its largest norm, as in `_cells`."""
    with np.load(io.BytesIO(_read(folder / WHOLE, WHOLE_SHA256, "It cannot be downloaded."))) as t:
        edges = np.unpackbits(t["adjacency_upper"], axis=1)[:, :21].astype(float)
        ops = (t["ops"][:, :, None] == np.arange(3)).reshape(len(edges), -1).astype(float)
        accuracy = t["correct_sum3"] / (3 * IMAGES)
    halves = [half / np.linalg.norm(half, axis=1).max() for half in (edges, ops)]
    return _of_means("the whole of NAS-Bench-101", np.concatenate(halves, 1), accuracy, WHOLE)


def _recorded_cells(folder: Path) -> Space:
    features, codes, hashes = _cells(folder)
    path = folder / RESULTS
    if not path.exists():
        raise FileNotFoundError(
            f"{RESULTS} is not in {folder}. Extract it from nasbench_only108.tfrecord"
            " (github.com/google-research/nasbench): arrays module_hash [n] (S32), test_accuracy"
            " [n, 3] and training_seconds [n, 3] after 108 epochs."
        )
    table = store.read_npz(path)
    absent = [name for name in RECORDED if name not in table]
    if absent:
        raise ValueError(f"{RESULTS} has no array {absent[0]}; it needs {', '.join(RECORDED)}.")
    place = {name: row for row, name in enumerate(table["module_hash"].tolist())}
    missing = [name for name in hashes.tolist() if name not in place]
    if missing:
        raise ValueError(
            f"{RESULTS} lacks {len(missing)} of the {len(hashes)} candidates, e.g. {missing[0]!r}."
        )
    rows = [place[name] for name in hashes.tolist()]
    accuracy, seconds = table["test_accuracy"][rows], table["training_seconds"][rows]
    for name, values, most in (
        ("test_accuracy", accuracy, 1),
        ("training_seconds", seconds, np.inf),
    ):
        if values.shape != (len(rows), 3) or not ((values >= 0) & (values <= most)).all():
            raise ValueError(f"{name} in {RESULTS} must be [n, 3] with values in [0, {most}].")
    # the user makes this file, so that it has no published checksum
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    source = (
        f"NAS-Bench-101 accuracies as found in {RESULTS} (origin NOT VERIFIED; sha256 {digest})"
    )
    return Space(
        "NAS-Bench-101", features, scale(accuracy), _neighbours(codes), seconds.mean(1), source
    )

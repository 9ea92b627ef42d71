"""Architecture search spaces with recorded accuracies.

BBKB's experiment uses the 12,416 NAS-Bench-101 cells with 4 inner nodes, each of which is a 3x3
convolution or max-pooling. These spaces are available:
    nasbench101_means  BBKB's cells with their recorded mean accuracies, and noise of NOISE_STD
    nasbench101_whole  all 423,624 cells of NAS-Bench-101, with the same noise
    macro              NAS-Bench-Macro, a substitute: 6,561 other architectures, 3 trainings each
"""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.data.datasets import Source, find_folder, read
from jsketch import problems
from jsketch.bandits import evolution

CANDIDATES = Source(
    "nasbench101_v6_conv3x3_maxpool3x3_candidates.npz",
    "5e895841790b1fb4f173a2575f2a1e0b37815d6bd171fc4cfe21a5f4e5d63f49",
    text=False,
)
MACRO = Source(
    "nas-bench-macro_cifar10.json",
    "686dee8363cc21cca8c1f321ad5749454f2d9b9ca5972682e137e539bc522297",
    "https://raw.githubusercontent.com/xiusu/NAS-Bench-Macro/master/data/nas-bench-macro_cifar10.json",
    text=False,
)
MEANS = Source(
    "nasbench101_v6_mean_test_accuracy.npz",
    "1f32d572ec1726039dc56aeb6eee9ae8c268dced4a680929a29fb4528086963b",
    text=False,
)
WHOLE = Source(
    "nasbench101_full_mean_test.npz",
    "ba058159087afa06c791a3e79371a54ef99a92294b2a0a32785622b38debe78f",
    text=False,
)
N_IMAGES = 9_984  # test images
# standard deviation of the test accuracy of one training around the mean of its cell: the sampling
# of 9,984 images gives sqrt(p (1 - p) / 9,984) = 0.0027 at p = 0.92, and the rest, 0.0037, is our
# guess of the variation between trainings
NOISE_STD = 0.0046


class Space(NamedTuple):
    """A finite space of architectures; the mean rewards span [0, 1]."""

    name: str
    features: np.ndarray  # [A, d]
    evaluations: np.ndarray  # [A, R]; R = 1 for means
    # [A, K] int32, the cells one change away from each cell, padded with -1; None: too many cells
    neighbours: np.ndarray | None
    source: str
    noise_std: float | None = None  # around `evaluations`, if they are means
    span: float = 1.0  # the difference of accuracy between rewards 0 and 1
    lowest: float = 0.0  # the accuracy at reward 0


def problem(space: Space) -> Any:
    """The arms of a space: a reward is one of the recorded evaluations at random, or a mean with
    Gaussian noise."""
    if space.noise_std is None:
        return problems.recorded_arms(space.features, space.evaluations)
    return problems.finite_arms(space.features, space.evaluations[:, 0], space.noise_std)


def load(choice: str, data_dir: str | Path | None = None) -> Space:
    """The space named `choice` in CHOICES; "auto" is nasbench101_means if its file is available,
    else macro. Raises ValueError for a wrong checksum, and OSError for a missing file that
    cannot be downloaded."""
    folder = find_folder(data_dir)
    if choice == "auto":
        choice = "nasbench101_means" if (folder / MEANS.filename).exists() else "macro"
    return CHOICES[choice](folder)


def _read_npz(source: Source, folder: Path) -> Mapping[str, np.ndarray]:
    return np.load(io.BytesIO(read(source, folder)))


def scale(evaluations: np.ndarray) -> np.ndarray:
    """Evaluations [A,R] shifted and scaled so that the arms' means span [0, 1]."""
    means = evaluations.mean(1)
    return (evaluations - means.min()) / (means.max() - means.min())


def _macro(folder: Path) -> Space:
    table = json.loads(read(MACRO, folder))
    codes = np.array([[int(digit) for digit in key] for key in table])
    one_hot = (codes[:, :, None] == np.arange(3)).reshape(len(codes), -1)
    features = one_hot / np.sqrt(codes.shape[1])  # of norm 1
    evaluations = np.array([entry["test_acc"] for entry in table.values()])
    source = (
        f"REAL accuracies of NAS-Bench-Macro ({MACRO.filename}), a stand-in: not the NAS-Bench-101"
        " cells of the paper"
    )
    neighbours = evolution.one_change_apart(codes)
    return Space("NAS-Bench-Macro", features, scale(evaluations), neighbours, source)


def _scaled_halves(edges: np.ndarray, ops: np.ndarray) -> np.ndarray:
    return np.concatenate([half / np.linalg.norm(half, axis=1).max() for half in (edges, ops)], 1)


def _neighbours(codes: np.ndarray) -> np.ndarray:
    """The table of neighbours, which are one change away. A cell without such neighbours has the
    nearest cell as its only neighbour."""
    table = evolution.one_change_apart(codes)
    for arm in np.flatnonzero((table < 0).all(1)):
        distances = (codes != codes[arm]).sum(1)
        distances[arm] = codes.shape[1] + 1  # larger than all others
        table[arm, 0] = int(np.argmin(distances))
    return table


def _space_of_means(name: str, features: np.ndarray, accuracy: np.ndarray, file: Source) -> Space:
    """The space of mean accuracies [A] from `file`, without a table of neighbours."""
    span = float(accuracy.max() - accuracy.min())
    source = (
        f"REAL mean test accuracies of three trainings (NAS-Bench-101, {file.filename}, checksum"
        f" checked) with GENERATED Gaussian noise, standard deviation {NOISE_STD:g} of accuracy"
    )
    units = dict(noise_std=NOISE_STD / span, span=span, lowest=float(accuracy.min()))
    return Space(name, features, scale(accuracy[:, None]), None, source, **units)


def _cells_of_paper(folder: Path) -> Space:
    """The cells of the paper, with features [12416, 17] of edges and of operations, each part
    divided by its largest norm (BBKB D.2, THEORY 10.1)."""
    cells, table = _read_npz(CANDIDATES, folder), _read_npz(MEANS, folder)
    if (table["module_hash"] != cells["module_hash"]).any():
        raise ValueError(f"rows of {MEANS.filename} and {CANDIDATES.filename} are different cells.")
    edges, ops = cells["adjacency_upper"][:, 1:-1].astype(float), cells["is_conv3x3"].astype(float)
    accuracy = table["mean_test_accuracy"]
    space = _space_of_means("NAS-Bench-101", _scaled_halves(edges, ops), accuracy, MEANS)
    return space._replace(neighbours=_neighbours(np.concatenate([edges, ops], 1).astype(int)))


def _whole_space(folder: Path) -> Space:
    """All cells, with features [423624, 36]: 21 bits of the adjacency matrix and 5 operations
    one-hot, each part divided by its largest norm, as in `_cells_of_paper`."""
    table = _read_npz(WHOLE, folder)
    edges = np.unpackbits(table["adjacency_upper"], axis=1)[:, :21].astype(float)
    ops = (table["ops"][:, :, None] == np.arange(3)).reshape(len(edges), -1).astype(float)
    accuracy = table["correct_sum3"] / (3 * N_IMAGES)  # over three trainings
    return _space_of_means(
        "the whole of NAS-Bench-101", _scaled_halves(edges, ops), accuracy, WHOLE
    )


CHOICES = {"nasbench101_means": _cells_of_paper, "nasbench101_whole": _whole_space, "macro": _macro}

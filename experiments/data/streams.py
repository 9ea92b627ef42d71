"""The streams of the PKAWV paper: casp, ijcnn1, cod-rna and SUSY, raw or scaled and shuffled.

Files are found, verified and downloaded as in `datasets`. The whole of SUSY (880 MB) is never
downloaded: without SUSY.csv.gz in the data folder a random sample is used. Loading susy prints
which of the two is used.

Shapes: n examples, d inputs.
"""

import gzip
import hashlib
import io
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file

from experiments.data import datasets
from experiments.data.datasets import Dataset, Source

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
UCI_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases"
CASP = Source(
    filename="CASP.csv",
    sha256="4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40",
    url=f"{UCI_URL}/00265/CASP.csv",
    header='"RMSD","F1","F2","F3","F4","F5","F6","F7","F8","F9"',
)
SVMLIGHT = {  # {name: (number of inputs, files that make up the stream)}
    "ijcnn1": (
        22,
        (
            Source(
                filename="ijcnn1.bz2",
                sha256="7fe291672c3fefe6a7e3c51529becd23f0e985ba05ffb8d53c9c648c1e91cc19",
                url=f"{LIBSVM}/ijcnn1.bz2",
            ),
            Source(
                filename="ijcnn1.t.bz2",
                sha256="e7b0bbd518641980dc322746c6bc59d019d3153934e6258e48f9d8cfae2c4bb8",
                url=f"{LIBSVM}/ijcnn1.t.bz2",
            ),
        ),
    ),
    "cod_rna": (
        8,
        (
            Source(
                filename="cod-rna.t.bz2",
                sha256="58cff16df896436b06343df78ccaef37a6979d819abbcadbec3cb16b93938df6",
                url=f"{LIBSVM}/cod-rna.t",
            ),
        ),
    ),
}
SUSY, SUSY_URL, SUSY_ROWS = "SUSY.csv.gz", f"{UCI_URL}/00279/SUSY.csv.gz", 5_000_000
SUSY_SAMPLE = Source(
    "susy_sample_39930.npz",
    "203a185c978c9d09f5df0fbf9be5189e90bc6a8cb5b66af669b14a9bcb9a3109",
    text=False,
)

NAMES = ("casp", "ijcnn1", "cod_rna", "susy")
SCALINGS = ("authors", "paper")


class Stream(NamedTuple):
    """Scaled examples in their order."""

    xs: np.ndarray  # [n, d]
    ys: np.ndarray  # [n]; classes are -1 and +1
    classes: bool  # whether the labels are classes
    source: str


def load(name: str, data_dir: str | Path | None = None) -> Dataset:
    """Raw inputs [n, d] and labels [n] in the order of the files; ijcnn1 is the training set, then
    the test set. Raises ValueError for a wrong checksum, OSError for a missing folder or file."""
    folder = datasets.find_folder(data_dir)
    if name == "susy":
        return _susy(folder)
    if name == "casp":
        table = np.loadtxt(io.BytesIO(datasets.read(CASP, folder)), delimiter=",", skiprows=1)
        return Dataset(name, table[:, 1:], table[:, 0], datasets.citation(CASP))
    dimension, sources = SVMLIGHT[name]
    parts = [
        load_svmlight_file(io.BytesIO(datasets.read(s, folder)), n_features=dimension)
        for s in sources
    ]
    features = np.concatenate([x.toarray() for x, _ in parts])
    target = np.concatenate([y for _, y in parts])
    return Dataset(name, features, target, " and ".join(map(datasets.citation, sources)))


def load_stream(
    name: str,
    scaling: str = "authors",
    data_dir: str | Path | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> Stream:
    """The whole data set scaled, then shuffled by `seed`, then cut to its first `limit` examples.
    Raises the errors of `load` and `scale`."""
    dataset = load(name, data_dir)
    xs, ys = scale(dataset, scaling)
    order = np.random.default_rng(seed).permutation(len(ys))[:limit]
    return Stream(xs[order], ys[order], classes=name != "casp", source=dataset.source)


def scale(dataset: Dataset, scaling: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [n, d] and labels [n] scaled with the extremes of the whole data set; a constant input
    becomes 0.

    "paper" scales every input and the label linearly onto [-1, 1] (Section 4 of the paper).
    "authors" follows the authors' notebook for the published curves (THEORY 10.2): inputs are
    scaled onto [0, 1], the labels y of casp (RMSD) and SUSY (classes 0 and 1) become 2 y - 1, and
    all labels are divided by the largest. Raises ValueError for another scaling.
    """
    if scaling not in SCALINGS:
        raise ValueError(f"There is no scaling '{scaling}'; choose one of: {', '.join(SCALINGS)}.")
    low, span = dataset.features.min(axis=0), np.ptp(dataset.features, axis=0)
    xs, ys = (dataset.features - low) / np.where(span > 0, span, 1), dataset.target
    if scaling == "authors":
        ys = 2 * ys - 1 if dataset.name in ("casp", "susy") else ys
        return xs, ys / ys.max()
    return np.where(span > 0, 2 * xs - 1, 0), 2 * (ys - ys.min()) / np.ptp(ys) - 1


def _susy(folder: Path) -> Dataset:
    """All of SUSY if it is in the folder, else the sample. Prints which of the two it is."""
    if (folder / SUSY).exists():
        dataset, hint = _all_of_susy(folder / SUSY), ""
    elif (folder / SUSY_SAMPLE.filename).exists():
        table = np.load(io.BytesIO(datasets.read(SUSY_SAMPLE, folder)))
        source = (
            f"ONLY A RANDOM SAMPLE of {len(table['y']):,} rows ({SUSY_SAMPLE.filename}, sha256"
            f" {SUSY_SAMPLE.sha256} checked), NOT the {SUSY_ROWS:,} rows of {SUSY}"
        )
        dataset = Dataset("susy", table["X"].astype(float), table["y"].astype(float), source)
        hint = f"; for all of them put {SUSY_URL} (880 MB) into {folder}"
    else:
        raise FileNotFoundError(
            f"Neither {SUSY} nor {SUSY_SAMPLE.filename} is in {folder}. Download {SUSY_URL} (880"
            " MB) and put it there."
        )
    print(f"*** susy: {dataset.source}{hint} ***", flush=True)
    return dataset


def _all_of_susy(path: Path) -> Dataset:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        with gzip.open(path) as file:
            # the values are decimal representations of float32 numbers
            table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path.name} in {path.parent} is damaged ({error}). Download it again from {SUSY_URL}."
        ) from error
    if table.shape != (SUSY_ROWS, 19):
        raise ValueError(
            f"{path.name} in {path.parent} is not the published file: {SUSY_ROWS:,} rows of 19"
            f" columns were expected, and it has {table.shape[0]:,} of {table.shape[1]}. Download"
            f" it again from {SUSY_URL}."
        )
    # SUSY has no published checksum
    source = f"ALL {SUSY_ROWS:,} rows of {SUSY} ({SUSY_URL}; origin not verified, sha256 {digest})"
    return Dataset("susy", table[:, 1:].astype(float), table[:, 0].astype(float), source)

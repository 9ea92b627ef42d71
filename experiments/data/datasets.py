"""Named data sets of the papers, whose checksums are verified.

A data set is read from the folder that `find_folder` returns; a missing file is downloaded from its
public source. Generated data never replace a data set.

Shapes: A rows (the candidate arms), d columns.
"""

import bz2
import hashlib
import io
import os
import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import requests  # a dependency of pooch

from experiments.results import files

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """A file of data: its local name, the sha256 of its content, and its address."""

    filename: str  # a file that ends in .bz2 stays compressed
    sha256: str
    url: str = ""  # of a file that can be downloaded
    # the file's name inside the archive at `url`; "" when `url` is the file itself
    member: str = ""
    header: str = ""  # replaces the first line, in which public copies differ, before hashing
    text: bool = True  # whether the content is text: decompressed, with LF line ends


SOURCES = {
    "abalone": Source(
        filename="abalone.data",
        sha256="de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
        url="https://archive.ics.uci.edu/static/public/1/abalone.zip",
        member="abalone.data",
    ),
    "cadata": Source(
        filename="cal_housing.data",
        sha256="a2b44dcc7e1c9091b43c4f458b25cbd1f7e8068d08edd26bc4703108d3fa6214",
        url="https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.tgz",
        member="CaliforniaHousing/cal_housing.data",
    ),
}

SEX_CODES = {"M": 0.0, "F": 1.0, "I": 2.0}


@dataclass(frozen=True)
class Dataset:
    """Raw values: `features` [A, d] and `target` [A], float64. source: the public file."""

    name: str
    features: np.ndarray
    target: np.ndarray
    source: str


def load(name: str, data_dir: str | Path | None = None) -> Dataset:
    """Loads a data set by name, and downloads its file when it is missing. Raises ValueError for
    an unknown name or a wrong checksum, and OSError for a missing folder or a failed download."""
    if name not in SOURCES:
        raise ValueError(
            f"There is no data set called '{name}'; choose one of: {', '.join(SOURCES)}."
        )
    source = SOURCES[name]
    content = read(source, find_folder(data_dir))
    codes: Any = {0: SEX_CODES.__getitem__} if name == "abalone" else None  # of the first column
    table = np.loadtxt(io.BytesIO(content), delimiter=",", converters=codes, encoding="utf-8")
    return Dataset(name=name, features=table[:, :-1], target=table[:, -1], source=citation(source))


def citation(source: Source) -> str:
    """The file, its address and its checksum, for summaries."""
    return f"{source.filename} from {source.url}, sha256 {source.sha256} checked"


def read(source: Source, folder: Path) -> bytes:
    """The verified content of `source`, which is downloaded when it is not in the folder. Raises
    ValueError for a wrong checksum, and OSError if there is no file and no download."""
    path = folder / source.filename
    if not path.exists():
        download(source, path)
    content = _content_of(path.read_bytes(), source)
    digest = hashlib.sha256(content).hexdigest()
    if digest != source.sha256:
        remedy = (
            f" Delete it to download it again from {source.url}, or name another folder with"
            " --data-dir or JSKETCH_DATA."
        )
        raise ValueError(
            f"{path.name} in {path.parent} is not the published file: the sha256 of its content is"
            f" {digest}, expected {source.sha256}.{remedy if source.url else ''}"
        )
    return content


def find_folder(data_dir: str | Path | None = None) -> Path:
    """The folder of the data files: `data_dir`, else $JSKETCH_DATA, else shared/data beside the
    repository when it exists, else a cache of the user. Raises FileNotFoundError when `data_dir` or
    $JSKETCH_DATA does not exist."""
    variable = os.environ.get("JSKETCH_DATA")
    for path, origin in ((data_dir, "--data-dir"), (variable, "JSKETCH_DATA")):
        if path:
            folder = Path(path).expanduser()
            if not folder.is_dir():
                raise FileNotFoundError(
                    f"The data folder {folder}, named by {origin}, does not exist; create it first."
                )
            return folder
    shared = ROOT.parent / "shared" / "data"
    return shared if shared.is_dir() else Path(pooch.os_cache("jsketch"))


def download(source: Source, path: Path) -> None:
    """Downloads `source` and writes it to `path` if its checksum is right. Raises OSError when it
    cannot be downloaded or written, and ValueError for another checksum."""
    if not source.url:
        raise FileNotFoundError(
            f"{path.name} is not in {path.parent}, and it cannot be downloaded."
        )
    remedy = (
        f"Download {source.url} yourself and put {source.member or 'it'} into {path.parent} as"
        f" {path.name}, or name a folder that has it with --data-dir or JSKETCH_DATA."
    )
    print(f"{path.name} is not in {path.parent}: downloading it from {source.url}", flush=True)
    pooch.get_logger().setLevel("WARNING")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            # the checksum is that of the content; the bytes of the archive may change
            archive = Path(
                pooch.retrieve(source.url, known_hash=None, fname="archive", path=scratch)
            )
            raw = _read_member(archive, source.member) if source.member else archive.read_bytes()
        content = _content_of(raw, source)
        digest = hashlib.sha256(content).hexdigest()
        if digest != source.sha256:
            raise ValueError(
                f"{source.member or path.name} at {source.url} has sha256 {digest}, expected"
                f" {source.sha256}; nothing was written. {remedy}"
            )
        files.write(path, bz2.compress(content) if path.suffix == ".bz2" else content)
    except (OSError, KeyError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        offline = isinstance(error, ConnectionError | requests.ConnectionError)
        reason = "there is no connection" if offline else error
        raise OSError(f"Could not get {path.name} ({reason}). {remedy}") from error


def preprocess(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Features with mean 0 and standard deviation 1 per column [A, d], and the target scaled to [0,
    1] [A]. Raises ValueError when a column or the target is constant."""
    constant = np.flatnonzero(np.ptp(dataset.features, axis=0) == 0)
    if constant.size:
        raise ValueError(
            f"Columns {constant.tolist()} of '{dataset.name}' are constant and cannot be scaled;"
            " remove them."
        )
    low, high = dataset.target.min(), dataset.target.max()
    if low == high:
        raise ValueError(
            f"The target of '{dataset.name}' is constant ({low}): there is nothing to optimize."
        )
    features = (dataset.features - dataset.features.mean(axis=0)) / dataset.features.std(axis=0)
    return features, (dataset.target - low) / (high - low)


def _content_of(file: bytes, source: Source) -> bytes:
    """The content of a file, from which the checksum is computed. Text is decompressed, and gets
    the header of its source and LF line ends, exactly one of them at its end."""
    if not source.text:
        return file
    try:
        content = bz2.decompress(file) if file.startswith(b"BZh") else file
    except (OSError, ValueError):
        content = file  # the file is damaged, and fails the checksum
    content = content.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
    if source.header:
        content = source.header.encode() + b"\n" + content.partition(b"\n")[2]
    return content


def _read_member(archive: Path, member: str) -> bytes:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            return zipped.read(member)
    with tarfile.open(archive) as tarred:
        entry = tarred.extractfile(member)
        if entry is None:
            raise KeyError(f"{member} is not a file of the archive")
        return entry.read()

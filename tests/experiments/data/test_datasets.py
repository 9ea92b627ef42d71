"""Data sets: which folder is read, what a wrong or missing file says, and the published values."""

import dataclasses
import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pooch
import pytest

from experiments.data import datasets

SHARED = datasets.ROOT.parent / "shared" / "data"
real_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="no shared data folder beside the repository"
)

PUBLISHED = {  # rows, mean of the raw target
    "abalone": (4177, 9.933684),
    "cadata": (20640, 206855.816909),
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("JSKETCH_DATA", raising=False)


@pytest.fixture
def tiny_source(monkeypatch):
    """A made-up data set of three rows, registered under its right checksum; returns (source,
    content)."""
    content = b"M,1.0,5\nF,2.0,6\nI,4.0,9\n"
    source = datasets.Source(
        "tiny.data",
        hashlib.sha256(content).hexdigest(),
        "https://example.org/tiny.zip",
        "inside/tiny.data",
    )
    monkeypatch.setitem(datasets.SOURCES, "tiny", source)
    return source, content


def served(monkeypatch, content: bytes):
    """Make pooch 'download' a zip archive that holds inside/tiny.data."""

    def retrieve(url, known_hash, fname, path):
        archive = Path(path) / fname
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr("inside/tiny.data", content)
        return str(archive)

    monkeypatch.setattr(pooch, "retrieve", retrieve)


@real_data
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_real_values(name):
    rows, mean = PUBLISHED[name]
    dataset = datasets.load(name, SHARED)
    assert dataset.features.shape == (rows, 8)
    assert dataset.features.dtype == dataset.target.dtype == np.float64
    assert abs(dataset.target.mean() - mean) < 1e-5
    assert str(SHARED) not in dataset.source  # the source goes into committed summaries

    features, mean_reward = datasets.preprocess(dataset)
    np.testing.assert_allclose(features.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(features.std(axis=0), 1.0, atol=1e-10)
    assert mean_reward.min() == 0.0 and mean_reward.max() == 1.0


@real_data
def test_abalone_sex_is_coded():
    sex = datasets.load("abalone", SHARED).features[:, 0]
    assert [int((sex == code).sum()) for code in (0, 1, 2)] == [1528, 1307, 1342]  # M, F, I


def test_folder_precedence(tmp_path, monkeypatch):
    asked, named, root = tmp_path / "asked", tmp_path / "named", tmp_path / "checkout"
    cache = tmp_path / "cache"
    for folder in (asked, named, root):
        folder.mkdir()
    monkeypatch.setattr(datasets, "ROOT", root)
    monkeypatch.setattr(pooch, "os_cache", lambda project: cache / project)
    assert datasets.find_folder() == cache / "jsketch"
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert datasets.find_folder() == tmp_path / "shared" / "data"
    monkeypatch.setenv("JSKETCH_DATA", str(named))
    assert datasets.find_folder() == named
    assert datasets.find_folder(asked) == asked


def test_a_folder_that_was_asked_for_must_exist(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="nowhere, named by --data-dir, does not exist"):
        datasets.find_folder(tmp_path / "nowhere")
    monkeypatch.setenv("JSKETCH_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="named by JSKETCH_DATA"):
        datasets.find_folder()


def test_unknown_name():
    with pytest.raises(
        ValueError, match="no data set called 'iris'; choose one of: abalone, cadata"
    ):
        datasets.load("iris")


def test_wrong_checksum_names_file_folder_and_remedy(tmp_path):
    (tmp_path / "abalone.data").write_text("M,1,2\n")
    with pytest.raises(ValueError, match=r"abalone.data in .* is not the published file") as caught:
        datasets.load("abalone", tmp_path)
    assert str(tmp_path) in str(caught.value) and "Delete it" in str(caught.value)


def test_no_network_names_file_folder_and_remedy(tmp_path, monkeypatch):
    def no_network(*args, **kwargs):
        raise ConnectionError("name resolution failed")

    monkeypatch.setattr(pooch, "retrieve", no_network)
    with pytest.raises(OSError, match="Could not get cal_housing.data into") as caught:
        datasets.load("cadata", tmp_path)
    assert str(tmp_path) in str(caught.value) and "JSKETCH_DATA" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_download_normalises_line_ends_and_is_kept(tmp_path, monkeypatch, tiny_source):
    source, content = tiny_source
    served(monkeypatch, content.replace(b"\n", b"\r\n").rstrip())
    path = tmp_path / source.filename
    datasets.download(source, path)
    assert path.read_bytes() == content
    monkeypatch.delattr(pooch, "retrieve")  # the second load must not need it
    monkeypatch.setitem(datasets.SOURCES, "abalone", source)
    dataset = datasets.load("abalone", tmp_path)
    np.testing.assert_array_equal(dataset.features, [[0, 1], [1, 2], [2, 4]])
    np.testing.assert_array_equal(dataset.target, [5, 6, 9])


@pytest.mark.usefixtures("tiny_source")
def test_download_of_other_content_writes_nothing(tmp_path, monkeypatch):
    served(monkeypatch, b"M,1.0,7\n")
    with pytest.raises(ValueError, match="nothing was written"):
        datasets.load("tiny", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_without_the_file(tmp_path, monkeypatch, tiny_source):
    source, content = tiny_source
    served(monkeypatch, content)
    lacking = dataclasses.replace(source, member="other.data")
    with pytest.raises(OSError, match="other.data"):
        datasets.download(lacking, tmp_path / "tiny.data")


def test_constant_columns_and_targets_are_refused():
    features = np.array([[1.0, 3.0], [2.0, 3.0]])
    with pytest.raises(ValueError, match=r"Columns \[1\] of 'flat' are constant"):
        datasets.preprocess(datasets.Dataset("flat", features, np.array([0.0, 1.0]), ""))
    with pytest.raises(ValueError, match="target of 'flat' is constant"):
        datasets.preprocess(datasets.Dataset("flat", features[:, :1], np.ones(2), ""))

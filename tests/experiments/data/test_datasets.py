"""Data sets, streams and architectures: folders, downloads, and missing or damaged files."""

import bz2
import dataclasses
import hashlib
import io
import math
import zipfile
from pathlib import Path

import numpy as np
import pooch
import pytest
import requests
from rows import check_refusals

from experiments.data import architectures, classifiers, datasets, streams
from experiments.data.datasets import Dataset

TINY = b"M,1.0,5\nF,2.0,6\nI,4.0,9\n"
CSV = b'"RMSD","F1","F2"\n2.0,10,7\n5.0,30,7\n0.0,20,7\n'
SVMLIGHT = (b"-1 1:4\n+1 1:2 2:0.5\n", b"-1 2:1.5\n")
SHARED = datasets.ROOT.parent / "shared" / "data"


@pytest.fixture(autouse=True)
def unset_data_variable(monkeypatch):
    monkeypatch.delenv("JSKETCH_DATA", raising=False)


@pytest.fixture
def real_data():
    if not SHARED.is_dir():
        pytest.skip("NO REAL DATA: no shared data folder beside the repository")
    return SHARED


def source(filename, content, **options):
    digest = hashlib.sha256(content).hexdigest()
    return datasets.Source(filename, digest, "https://example.org/file", **options)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Generated files, whose checksums replace the published ones in the sources."""
    monkeypatch.setitem(datasets.SOURCES, "tiny", source("tiny.data", TINY, member="in/tiny.data"))
    (tmp_path / "CASP.csv").write_bytes(CSV)
    monkeypatch.setattr(streams, "CASP", source("CASP.csv", CSV, header='"RMSD","F1","F2"'))
    parts = tuple(source(f"part{i}.bz2", content) for i, content in enumerate(SVMLIGHT))
    for part, content in zip(parts, SVMLIGHT, strict=True):
        (tmp_path / part.filename).write_bytes(bz2.compress(content))
    monkeypatch.setitem(streams.SVMLIGHT, "ijcnn1", (2, parts))
    return tmp_path


def serve(monkeypatch, content):
    """Makes pooch download a file with this content."""

    def retrieve(url, known_hash, fname, path):
        (Path(path) / fname).write_bytes(content)
        return str(Path(path) / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)


def zipped(content):
    """A zip archive that holds in/tiny.data."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("in/tiny.data", content)
    return archive.getvalue()


# data sets


def test_folders_of_data_are_searched_in_order(tmp_path, monkeypatch):
    given, in_variable, root = (tmp_path / name for name in ("given", "variable", "checkout"))
    cache = tmp_path / "cache"
    for path in (given, in_variable, root):
        path.mkdir()
    monkeypatch.setattr(datasets, "ROOT", root)
    monkeypatch.setattr(pooch, "os_cache", lambda project: cache / project)
    assert datasets.find_folder() == cache / "jsketch"
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert datasets.find_folder() == tmp_path / "shared" / "data"
    monkeypatch.setenv("JSKETCH_DATA", str(in_variable))
    assert datasets.find_folder() == in_variable
    assert datasets.find_folder(given) == given
    with pytest.raises(FileNotFoundError, match="nowhere, named by --data-dir, does not exist"):
        datasets.find_folder(tmp_path / "nowhere")


# the last number is the mean of the targets, or with two classes the share of the larger label
REAL = [
    (datasets, "abalone", 4_177, 8, 9.933684),
    (datasets, "cadata", 20_640, 8, 206_855.816909),
    (streams, "casp", 45_730, 9, 7.748528),
    (streams, "ijcnn1", 141_691, 22, 13_565 / 141_691),
    (streams, "cod_rna", 271_617, 8, 90_539 / 271_617),
    (classifiers, "breast_cancer", 683, 9, 239 / 683),
    (classifiers, "australian", 690, 14, 307 / 690),
    (classifiers, "diabetes", 768, 8, 268 / 768),
]


@pytest.mark.parametrize(("module", "name", "rows", "inputs", "mean"), REAL)
def test_real_data_have_the_published_rows_and_targets(real_data, module, name, rows, inputs, mean):
    dataset = module.load(name, real_data)
    target, labels = dataset.target, set(dataset.target)
    assert dataset.features.shape == (rows, inputs) and np.isfinite(dataset.features).all()
    assert dataset.features.dtype == target.dtype == np.float64
    assert (target > 0 if len(labels) == 2 else target).mean() == pytest.approx(mean, abs=1e-5)
    assert str(real_data) not in dataset.source  # the source goes into committed summaries
    if module is classifiers:
        assert labels == {0.0, 1.0} and "checked" in dataset.source
    if name == "abalone":
        sex = dataset.features[:, 0]
        assert [int((sex == code).sum()) for code in (0, 1, 2)] == [1528, 1307, 1342]  # M, F, I
    if module is datasets:
        features, mean_reward = datasets.preprocess(dataset)
        np.testing.assert_allclose(features.mean(axis=0), 0.0, atol=1e-10)
        np.testing.assert_allclose(features.std(axis=0), 1.0, atol=1e-10)
        assert mean_reward.min() == 0.0 and mean_reward.max() == 1.0


@pytest.mark.parametrize(
    ("load", "name"),
    [(datasets.load, "abalone"), (datasets.load, "cadata")]
    + [(classifiers.load, name) for name in classifiers.SOURCES],
)
def test_missing_and_wrong_files_are_named_with_a_remedy(tmp_path, monkeypatch, load, name):
    def no_network(*args, **kwargs):
        raise requests.ConnectionError("HTTPSConnectionPool(host=...): Max retries exceeded")

    monkeypatch.setattr(pooch, "retrieve", no_network)
    file = tmp_path / (datasets.SOURCES | classifiers.SOURCES)[name].filename
    words = (
        rf"^Could not get {file.name} \(there is no connection\)\. Download http.* into {tmp_path}"
    )
    with pytest.raises(OSError, match=f"{words} as {file.name}, or name .*JSKETCH_DATA"):
        load(name, tmp_path)
    assert list(tmp_path.iterdir()) == []
    file.write_text("1,2,0\n")
    with pytest.raises(ValueError, match=f"{file.name} in {tmp_path} is not the published.*Delete"):
        load(name, tmp_path)


def test_a_download_with_other_line_endings_is_saved_as_published(folder, monkeypatch):
    serve(monkeypatch, zipped(TINY.replace(b"\n", b"\r\n").rstrip()))
    tiny = datasets.SOURCES["tiny"]
    datasets.download(tiny, folder / tiny.filename)
    assert (folder / tiny.filename).read_bytes() == TINY
    monkeypatch.delattr(pooch, "retrieve")  # a second load must not download it
    monkeypatch.setitem(datasets.SOURCES, "abalone", tiny)
    dataset = datasets.load("abalone", folder)
    np.testing.assert_array_equal(dataset.features, [[0, 1], [1, 2], [2, 4]])
    np.testing.assert_array_equal(dataset.target, [5, 6, 9])


def test_a_download_of_other_content_writes_nothing(folder, monkeypatch):
    serve(monkeypatch, zipped(b"M,1.0,7\n"))
    with pytest.raises(ValueError, match="nothing was written"):
        datasets.load("tiny", folder)
    other = dataclasses.replace(datasets.SOURCES["tiny"], member="other.data")
    with pytest.raises(OSError, match="other.data"):
        datasets.download(other, folder / "tiny.data")
    assert not (folder / "tiny.data").exists()


@pytest.mark.parametrize("packed", [True, False])
def test_a_missing_file_is_downloaded_and_stays_compressed(folder, monkeypatch, packed):
    before = streams.load("ijcnn1", folder)
    (folder / "part0.bz2").unlink()
    serve(monkeypatch, bz2.compress(SVMLIGHT[0]) if packed else SVMLIGHT[0])
    np.testing.assert_array_equal(streams.load("ijcnn1", folder).features, before.features)
    monkeypatch.delattr(pooch, "retrieve")
    assert bz2.decompress((folder / "part0.bz2").read_bytes()) == SVMLIGHT[0]
    streams.load("ijcnn1", folder)


# streams


def test_svmlight_files_are_joined_in_order(folder):
    dataset = streams.load("ijcnn1", folder)
    np.testing.assert_array_equal(dataset.features, [[4, 0], [2, 0.5], [0, 1.5]])
    np.testing.assert_array_equal(dataset.target, [-1, 1, -1])
    assert "part0.bz2" in dataset.source and "part1.bz2" in dataset.source
    assert str(folder) not in dataset.source


def test_scalings_are_those_of_the_authors_and_of_the_paper(folder):
    casp, ijcnn1 = streams.load("casp", folder), streams.load("ijcnn1", folder)
    xs, ys = streams.scale(casp, "authors")
    np.testing.assert_allclose(xs, [[0, 0], [1, 0], [0.5, 0]])
    np.testing.assert_allclose(ys, np.array([3, 9, -1]) / 9)
    xs, ys = streams.scale(casp, "paper")
    np.testing.assert_allclose(xs, [[-1, 0], [1, 0], [0, 0]])
    np.testing.assert_allclose(ys, [-0.2, 1, -1])
    for scaling in streams.SCALINGS:
        np.testing.assert_array_equal(streams.scale(ijcnn1, scaling)[1], [-1, 1, -1])


def test_the_seed_shuffles_rows_with_their_labels(folder):
    whole = streams.load_stream("casp", "paper", folder, seed=1)
    xs, ys = streams.scale(streams.load("casp", folder), "paper")
    pairs = [sorted(zip(x[:, 0], y, strict=True)) for x, y in ((whole.xs, whole.ys), (xs, ys))]
    assert pairs[0] == pairs[1]
    first_two = streams.load_stream("casp", "paper", folder, seed=1, limit=2)
    np.testing.assert_array_equal(first_two.xs, whole.xs[:2])
    np.testing.assert_array_equal(first_two.ys, whole.ys[:2])
    orders = {tuple(streams.load_stream("casp", "paper", folder, seed=s).ys) for s in range(8)}
    assert len(orders) > 1
    assert not whole.classes and streams.load_stream("ijcnn1", data_dir=folder).classes


def test_casp_without_quotation_marks_is_the_same_file(folder):
    (folder / "CASP.csv").write_bytes(CSV.replace(b'"', b"").replace(b"\n", b"\r\n"))
    np.testing.assert_array_equal(streams.load("casp", folder).target, [2, 5, 0])


# architectures


def test_the_source_of_the_macro_space_states_that_it_is_a_stand_in(real_data):
    space = architectures.load("macro", real_data)
    assert space.features.shape == (6561, 24) and space.evaluations.shape == (6561, 3)
    assert space.neighbours.shape == (6561, 16) and "stand-in" in space.source
    means = space.evaluations.mean(1)
    np.testing.assert_allclose([means.min(), means.max()], [0, 1], atol=1e-12)


# tuning of classifiers


def generated_dataset(rows=60):
    """A data set of two inputs, the first of which determines the class in most rows."""
    random = np.random.default_rng(0)
    features = random.standard_normal((rows, 2))
    target = (features[:, 0] + 0.3 * random.standard_normal(rows) > 0).astype(float)
    return datasets.Dataset("diabetes", features, target, "made up")


def test_folds_partition_the_rows_and_keep_the_shares_of_classes():
    target = generated_dataset(53).target
    for splits in (range(5), range(5, 10)):
        test_rows = [classifiers.split(target, i)[1] for i in splits]
        assert sorted(np.concatenate(test_rows)) == list(range(53))
        for i, rows in zip(splits, test_rows, strict=True):
            assert set(classifiers.split(target, i)[0]) == set(range(53)) - set(rows)
            assert abs(target[rows].mean() - target.mean()) < 0.1
    assert set(classifiers.split(target, 0)[1]) != set(classifiers.split(target, 5)[1])


def test_a_failed_fit_returns_nan_and_the_reason_and_errors_of_the_disk_are_raised(monkeypatch):
    def evaluate(result):
        def accuracy(*_):
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(classifiers, "accuracy", accuracy)
        return classifiers.evaluate("mlp", generated_dataset(), 0, dict(depth=3))

    assert evaluate(0.5) == (0.5, "")
    value, reason = evaluate(ValueError("no such loss"))
    assert math.isnan(value) and reason == "ValueError: no such loss"
    with pytest.raises(OSError, match="the disk"):
        evaluate(OSError("the disk"))


# refusals


CONSTANT_COLUMN = Dataset("flat", np.array([[1.0, 3.0], [2.0, 3.0]]), np.array([0.0, 1.0]), "")


def test_mistakes_are_refused(folder):
    # a truncated file
    (folder / "part1.bz2").write_bytes(bz2.compress(SVMLIGHT[1])[:-5])
    rows = (
        (lambda: datasets.load("iris"), "no data set called 'iris'; choose one of: abalone, cad"),
        (lambda: datasets.preprocess(CONSTANT_COLUMN), r"Columns \[1\] of 'flat' are constant"),
        (lambda: streams.load("ijcnn1", folder), "part1.bz2 .* not the published file"),
    )
    check_refusals(rows)

"""Streams: files joined and checked, both scalings, the shuffle, and which SUSY it is; made-up
files and the real ones."""

import bz2
import gzip
import hashlib
from pathlib import Path

import numpy as np
import pooch
import pytest

from experiments.data import datasets, streams

SHARED = datasets.ROOT.parent / "shared" / "data"
real_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="NO REAL DATA: no shared data folder beside the repository"
)

REAL = {  # rows, inputs, share of the label +1 (for casp: mean RMSD)
    "casp": (45_730, 9, 7.748528),
    "ijcnn1": (141_691, 22, 13_565 / 141_691),
    "cod_rna": (271_617, 8, 90_539 / 271_617),
    "susy": (39_930, 18, 0.4592),
}
CSV = b'"RMSD","F1","F2"\n2.0,10,7\n5.0,30,7\n0.0,20,7\n'
LIGHT = (b"-1 1:4\n+1 1:2 2:0.5\n", b"-1 2:1.5\n")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("JSKETCH_DATA", raising=False)


def source(filename, content, **options):
    return datasets.Source(
        filename, hashlib.sha256(content).hexdigest(), "https://example.org/file", **options
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Made-up files under the names and checksums of made-up sources."""
    (tmp_path / "CASP.csv").write_bytes(CSV)
    monkeypatch.setattr(streams, "CASP", source("CASP.csv", CSV, header='"RMSD","F1","F2"'))
    parts = tuple(source(f"part{i}.bz2", content) for i, content in enumerate(LIGHT))
    for part, content in zip(parts, LIGHT, strict=True):
        (tmp_path / part.filename).write_bytes(bz2.compress(content))
    monkeypatch.setitem(streams.SVMLIGHT, "ijcnn1", (2, parts))
    return tmp_path


def put_susy(folder: Path, monkeypatch, rows: int, name: str = streams.SUSY) -> np.ndarray:
    table = np.arange(19.0 * rows).reshape(rows, 19) / 7
    table[:, 0] = np.arange(rows) % 2
    if name == streams.SUSY:
        text = "\n".join(
            ",".join(f"{value:.18e}" for value in row.astype(np.float32)) for row in table
        )
        (folder / name).write_bytes(gzip.compress(text.encode()))
        monkeypatch.setattr(streams, "SUSY_ROWS", 6)
    else:
        np.savez(folder / name, X=table[:, 1:].astype(np.float32), y=table[:, 0].astype(np.int8))
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        monkeypatch.setattr(streams, "SUSY_SAMPLE_SHA256", digest)
    return table


def test_svmlight_files_are_joined_in_order(folder):
    dataset = streams.load("ijcnn1", folder)
    np.testing.assert_array_equal(dataset.features, [[4, 0], [2, 0.5], [0, 1.5]])
    np.testing.assert_array_equal(dataset.target, [-1, 1, -1])
    assert "part0.bz2" in dataset.source and "part1.bz2" in dataset.source
    assert str(folder) not in dataset.source  # the source goes into committed summaries


def test_scalings(folder):
    casp = streams.load("casp", folder)
    xs, ys = streams.scale(casp, "authors")
    np.testing.assert_allclose(xs, [[0, 0], [1, 0], [0.5, 0]])
    np.testing.assert_allclose(ys, np.array([3, 9, -1]) / 9)
    xs, ys = streams.scale(casp, "paper")
    np.testing.assert_allclose(xs, [[-1, 0], [1, 0], [0, 0]])
    np.testing.assert_allclose(ys, [-0.2, 1, -1])
    for scaling in streams.SCALINGS:
        np.testing.assert_array_equal(
            streams.scale(streams.load("ijcnn1", folder), scaling)[1], [-1, 1, -1]
        )
    with pytest.raises(ValueError, match="no scaling 'none'; choose one of: authors, paper"):
        streams.scale(casp, "none")


def test_the_seed_shuffles_rows_with_their_labels(folder):
    whole = streams.load_stream("casp", "paper", folder, seed=1)
    xs, ys = streams.scale(streams.load("casp", folder), "paper")
    assert sorted(zip(whole.xs[:, 0], whole.ys, strict=True)) == sorted(
        zip(xs[:, 0], ys, strict=True)
    )
    again = streams.load_stream("casp", "paper", folder, seed=1, limit=2)
    np.testing.assert_array_equal(again.xs, whole.xs[:2])
    np.testing.assert_array_equal(again.ys, whole.ys[:2])
    orders = {tuple(streams.load_stream("casp", "paper", folder, seed=s).ys) for s in range(8)}
    assert len(orders) > 1
    assert not whole.classes and streams.load_stream("ijcnn1", data_dir=folder).classes


def test_mistakes(folder):
    with pytest.raises(ValueError, match="no stream called 'higgs'; choose one of: casp"):
        streams.load("higgs", folder)
    with pytest.raises(ValueError, match="at least 1; 0 was given"):
        streams.load_stream("casp", data_dir=folder, limit=0)
    (folder / "part1.bz2").write_bytes(bz2.compress(b"-1 2:1.6\n"))
    with pytest.raises(ValueError, match=r"part1.bz2 in .* is not the published file"):
        streams.load("ijcnn1", folder)
    (folder / "part1.bz2").write_bytes(bz2.compress(LIGHT[1])[:-5])  # an interrupted copy
    with pytest.raises(ValueError, match=r"part1.bz2 in .* is not the published file"):
        streams.load("ijcnn1", folder)


def test_casp_with_another_header_is_the_same_file(folder):
    (folder / "CASP.csv").write_bytes(CSV.replace(b'"', b"").replace(b"\n", b"\r\n"))
    np.testing.assert_array_equal(streams.load("casp", folder).target, [2, 5, 0])


@pytest.mark.parametrize("packed", [True, False])
def test_a_missing_file_is_downloaded_and_kept_compressed(folder, monkeypatch, packed):
    def retrieve(url, known_hash, fname, path):
        (Path(path) / fname).write_bytes(bz2.compress(LIGHT[0]) if packed else LIGHT[0])
        return str(Path(path) / fname)

    before = streams.load("ijcnn1", folder)
    (folder / "part0.bz2").unlink()
    monkeypatch.setattr(pooch, "retrieve", retrieve)
    np.testing.assert_array_equal(streams.load("ijcnn1", folder).features, before.features)
    monkeypatch.delattr(pooch, "retrieve")
    assert bz2.decompress((folder / "part0.bz2").read_bytes()) == LIGHT[0]
    streams.load("ijcnn1", folder)


def test_susy_says_loudly_which_it_is(folder, monkeypatch, capsys):
    with pytest.raises(FileNotFoundError, match="Neither SUSY.csv.gz nor susy_sample_39930.npz"):
        streams.load("susy", folder)
    table = put_susy(folder, monkeypatch, 4, streams.SUSY_SAMPLE)
    sample = streams.load("susy", folder)
    np.testing.assert_array_equal(sample.features, table[:, 1:].astype(np.float32))
    assert (
        sample.source.startswith("ONLY A RANDOM SAMPLE of 4 rows")
        and sample.source in capsys.readouterr().out
    )
    _, ys = streams.scale(sample, "authors")
    np.testing.assert_array_equal(ys, [-1, 1, -1, 1])

    table = put_susy(folder, monkeypatch, 6)  # all of it wins
    whole = streams.load("susy", folder)
    np.testing.assert_array_equal(whole.features, table[:, 1:].astype(np.float32))
    assert whole.source.startswith("ALL 6 rows") and whole.source in capsys.readouterr().out
    assert str(folder) not in whole.source + sample.source

    put_susy(folder, monkeypatch, 5)
    with pytest.raises(ValueError, match=r"6 rows of 19 columns were expected, and it has 5 of 19"):
        streams.load("susy", folder)


@real_data
@pytest.mark.parametrize("name", streams.NAMES)
def test_real_values(name):
    rows, inputs, centre = REAL[name]
    dataset = streams.load(name, SHARED)
    if name == "susy" and "ALL" in dataset.source:
        rows, centre = 5_000_000, 0.4576
    assert dataset.features.shape == (rows, inputs) and dataset.features.dtype == np.float64
    raw = dataset.target if name == "casp" else dataset.target > 0
    assert raw.mean() == pytest.approx(centre, abs=5e-5)
    assert str(SHARED) not in dataset.source
    for scaling, low in (("authors", 0), ("paper", -1)):
        xs, ys = streams.scale(dataset, scaling)
        np.testing.assert_allclose(xs.min(0), low, atol=1e-12)
        np.testing.assert_allclose(xs.max(0), 1, atol=1e-12)
        assert ys.max() == 1
        assert name == "casp" or set(ys) == {-1.0, 1.0}
    if name == "casp":
        assert streams.scale(dataset, "authors")[1].min() == pytest.approx(-1 / 40.998)

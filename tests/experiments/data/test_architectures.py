"""Architecture spaces: what each is called, its shapes, and tables that are missing or wrong."""

import hashlib

import numpy as np
import pytest

from experiments.data import architectures, datasets

SHARED = datasets.ROOT.parent / "shared" / "data"
real_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="no shared data folder beside the repository"
)
HASHES = np.array([b"%032d" % i for i in range(6)])


@pytest.fixture
def small_cells(monkeypatch):
    """Six cells in place of the 12,416."""
    codes = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1], [1, 1, 0], [1, 0, 0]])
    monkeypatch.setattr(
        architectures, "_cells", lambda folder: (codes.astype(float), codes, HASHES)
    )


def table(**changes):
    random = np.random.default_rng(0)
    whole = dict(
        module_hash=HASHES[::-1],
        test_accuracy=random.uniform(0.8, 0.9, (6, 3)),
        training_seconds=random.uniform(500, 900, (6, 3)),
    )
    return whole | changes


@real_data
def test_the_stand_in_is_named_as_one():
    space = architectures.load("macro", SHARED)
    assert space.features.shape == (6561, 24) and space.evaluations.shape == (6561, 3)
    assert space.neighbours.shape == (6561, 16) and "stand-in" in space.source
    means = space.evaluations.mean(1)
    np.testing.assert_allclose([means.min(), means.max()], [0, 1], atol=1e-12)


def test_a_table_is_joined_by_hash_and_its_origin_is_not_vouched_for(tmp_path, small_cells):
    np.savez(tmp_path / architectures.RESULTS, **table())
    space = architectures.load("auto", tmp_path)
    np.testing.assert_allclose(
        space.evaluations, architectures.scale(table()["test_accuracy"][::-1])
    )
    np.testing.assert_allclose(space.training_seconds, table()["training_seconds"][::-1].mean(1))
    assert "NOT VERIFIED" in space.source and "REAL" not in space.source


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(test_accuracy=np.full((6, 3), np.nan)), "test_accuracy"),
        (dict(test_accuracy=np.full((6, 3), 93.0)), r"values in \[0, 1\]"),
        (dict(training_seconds=np.full((6, 3), -1.0)), "training_seconds"),
        (dict(test_accuracy=np.full((6, 2), 0.9)), r"\[n, 3\]"),
        (dict(module_hash=np.array([b"x%031d" % i for i in range(6)])), "lacks 6 of the 6"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path, small_cells, changes, words):
    np.savez(tmp_path / architectures.RESULTS, **table(**changes))
    with pytest.raises(ValueError, match=words):
        architectures.load("nasbench101", tmp_path)


def test_a_missing_table_is_not_replaced(tmp_path, small_cells):
    with pytest.raises(FileNotFoundError, match="Extract it"):
        architectures.load("nasbench101", tmp_path)
    with pytest.raises(ValueError, match="no space called 'other'"):
        architectures.load("other", tmp_path)


def test_recorded_means_have_noise_around_them(tmp_path, small_cells, monkeypatch):
    accuracy = np.linspace(0.1, 0.9, 6)
    np.savez(tmp_path / architectures.MEANS, module_hash=HASHES, mean_test_accuracy=accuracy)
    digest = hashlib.sha256((tmp_path / architectures.MEANS).read_bytes()).hexdigest()
    monkeypatch.setattr(architectures, "MEANS_SHA256", digest)
    space = architectures.load("auto", tmp_path)
    assert space.name == "NAS-Bench-101" and "GENERATED Gaussian noise" in space.source
    problem = architectures.problem(space)
    np.testing.assert_allclose(problem.mean_reward, np.linspace(0, 1, 6), atol=1e-12)
    # rewards of 0 and 1 are 0.8 of accuracy apart
    assert space.span == pytest.approx(0.8)
    assert float(problem.noise_std) == pytest.approx(architectures.NOISE_STD / 0.8)
    monkeypatch.setattr(architectures, "_cells", lambda folder: (None, None, HASHES[::-1]))
    with pytest.raises(ValueError, match="rows of"):
        architectures.load("nasbench101_means", tmp_path)

"""Shared by the tests of data: no data folder from the environment, and the real data."""

import pytest

from experiments.data import datasets

SHARED = datasets.ROOT.parent / "shared" / "data"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("JSKETCH_DATA", raising=False)


@pytest.fixture
def real_data():
    if not SHARED.is_dir():
        pytest.skip("NO REAL DATA: no shared data folder beside the repository")
    return SHARED

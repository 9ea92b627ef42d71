"""`scripts/suggest --smiles`: molecules read by RDKit, where it is installed."""

import sys

import numpy as np
import pandas as pd
import pytest

from experiments.suggest import molecules, tables
from jsketch.kernels import Tanimoto

SMILES = ["CCO", "CCN", "c1ccccc1O", "OCC", "[Na+].[Cl-]"]
KINDS = tables.Kinds(smiles=["molecule"])


def table(tmp_path, words):
    path = tmp_path / "library.csv"
    pd.DataFrame({"id": np.arange(len(words)), "molecule": words}).to_csv(path, index=False)
    return path


def test_without_rdkit(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ValueError, match=r"--smiles needs RDKit, .* pip install -e '.\[smiles\]'"):
        tables.read_candidates(table(tmp_path, SMILES), kinds=KINDS)


def test_molecules_are_fingerprints(tmp_path, monkeypatch):
    """Ethanol written twice is one molecule, and the amine is more like it than phenol is; the same
    in blocks."""
    pytest.importorskip("rdkit")
    found = tables.read_candidates(table(tmp_path, SMILES), kinds=KINDS)
    assert [group.kind for group in found.columns] == ["bits"] and found.names == ["molecule"]
    alike = np.asarray(Tanimoto().gram(found.features, found.features))
    assert alike[0, 3] == 1 > alike[0, 1] > alike[0, 2]
    # C-C, C-O at one bond and C-O at two: three pairs, each counted once
    bits = sum(int(word).bit_count() for word in found.features[0])
    assert bits == 3
    monkeypatch.setattr(molecules, "BLOCK", 2)
    np.testing.assert_array_equal(molecules.fingerprints(SMILES).packed, found.features)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["CCO", "C1CC"],
            r"row 3, column 'molecule': RDKit cannot read 'C1CC' as a molecule \(1",
        ),
        (["CCO", ""], "row 3, column 'molecule': the value is missing"),
        (["CCO", "CCO"], "column 'molecule': every value is CCO"),
        (["CCO", "OCC"], "column 'molecule': every fingerprint is the same"),
        (["CCO", "12"], "RDKit cannot read '12' as a molecule"),
    ],
)
def test_what_is_no_molecule(tmp_path, words, said):
    pytest.importorskip("rdkit")
    with pytest.raises(ValueError, match=said):
        tables.read_candidates(table(tmp_path, words), kinds=KINDS)

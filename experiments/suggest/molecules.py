"""Molecules as fingerprints, by RDKit: what `scripts/suggest --smiles` adds.

Atom pairs up to three bonds apart, hashed and counted into BITS bits (Carhart, Smith,
Venkataraghavan. J. Chem. Inf. Comput. Sci. 1985; RDKit's generator with its own defaults but for
the distance): the fingerprints of the Enamine libraries of `experiments.pools`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jsketch.kernels.discrete import pack_bits

BITS = 2048
FARTHEST = 3  # bonds between two atoms
BLOCK = 4096  # molecules whose bits are packed together


def fingerprints(smiles: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(fingerprints as words of `pack_bits` [A, W], whether each could be read [A] bool); zeros for
    a molecule that could not. Raises ValueError where RDKit is missing."""
    chem, generator = _rdkit()
    parts, read = [], np.zeros(len(smiles), bool)
    for start in range(0, len(smiles), BLOCK):
        bits = np.zeros((len(smiles[start : start + BLOCK]), BITS), int)
        for i, words in enumerate(smiles[start : start + BLOCK]):
            molecule = chem.MolFromSmiles(words)
            if molecule is not None and molecule.GetNumAtoms():
                bits[i] = generator.GetFingerprintAsNumPy(molecule)
                read[start + i] = True
        parts.append(pack_bits(bits))
    return np.concatenate(parts), read


def _rdkit() -> tuple[Any, Any]:
    """(RDKit's reader, the generator)."""
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import rdFingerprintGenerator
    except ImportError as error:
        raise ValueError(
            "--smiles needs RDKit, which is not installed: pip install -e '.[smiles]'"
        ) from error
    # what cannot be read is said once, in words
    rdBase.DisableLog("rdApp.*")
    generator = rdFingerprintGenerator.GetAtomPairGenerator(maxDistance=FARTHEST, fpSize=BITS)
    return Chem, generator

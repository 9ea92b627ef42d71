"""Molecules as fingerprints, by RDKit: `scripts/suggest --smiles`.

Atom pairs up to three bonds apart, hashed and counted into BITS bits (Carhart, Smith,
Venkataraghavan. J. Chem. Inf. Comput. Sci. 1985; RDKit's generator with its own defaults but for
the distance): the fingerprints of the Enamine libraries of `experiments.pools`. They ignore
stereochemistry, charges, isotopes and atoms without a bond, such as the ions of a salt. Those have
MARKED bits of their own: each marked atom is paired with every atom that is as near.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jsketch.kernels.discrete import pack_bits

BITS = 2048
MARKED = 1024  # bits for stereochemistry, charges, isotopes and single atoms
FARTHEST = 3  # bonds between two atoms
BLOCK = 4096  # molecules whose bits are packed together


class Fingerprints(NamedTuple):
    """Of A molecules."""

    packed: np.ndarray  # [A, W], words of `pack_bits`; zeros where a molecule is not readable
    readable: np.ndarray  # [A] bool
    canonical: np.ndarray  # [A] str objects, the same for all spellings of a molecule


def fingerprints(smiles: Sequence[str]) -> Fingerprints:
    """The fingerprints of molecules [A]. Raises ValueError where RDKit is missing."""
    chem, labeler, generator = _rdkit()
    parts, readable = [], np.zeros(len(smiles), bool)
    canonical = np.full(len(smiles), "", object)
    for start in range(0, len(smiles), BLOCK):
        block = smiles[start : start + BLOCK]
        bits = np.zeros((len(block), BITS + MARKED), int)
        for i, words in enumerate(block):
            molecule = chem.MolFromSmiles(words)
            if molecule is None or not molecule.GetNumAtoms():
                continue
            readable[start + i] = True
            canonical[start + i] = chem.MolToSmiles(molecule)
            bits[i, :BITS] = generator.GetFingerprintAsNumPy(molecule)
            bits[i, BITS + _marked(chem, labeler, molecule)] = 1
        parts.append(pack_bits(bits))
    return Fingerprints(np.concatenate(parts), readable, canonical)


def _marked(chem: Any, labeler: Any, molecule: Any) -> np.ndarray:
    """Places among MARKED bits: pairs of marked atoms, hashed and counted."""
    marks = _marks(chem, labeler, molecule)
    if not marks:
        return np.zeros(0, int)
    distance = chem.GetDistanceMatrix(molecule)
    symbols = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    pairs: Counter[tuple[Any, ...]] = Counter()
    for at, mark in marks.items():
        for other in np.flatnonzero(distance[at] <= FARTHEST):
            pairs[(mark, symbols[at], int(distance[at, other]), symbols[other])] += 1
    words = [repr((pair, k)).encode() for pair, count in pairs.items() for k in range(count)]
    return np.unique([zlib.crc32(word) % MARKED for word in words])


def _marks(chem: Any, labeler: Any, molecule: Any) -> dict[int, tuple[Any, ...]]:
    """What atom pairs ignore, by atom."""
    centres = (a.GetChiralTag() != chem.ChiralType.CHI_UNSPECIFIED for a in molecule.GetAtoms())
    double = (b.GetStereo() > chem.BondStereo.STEREOANY for b in molecule.GetBonds())
    if any(centres) or any(double):
        labeler.AssignCIPLabels(molecule)
    bonds: dict[int, list[str]] = {}
    for bond in molecule.GetBonds():
        if bond.HasProp("_CIPCode"):
            for at in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()):
                bonds.setdefault(at, []).append(bond.GetProp("_CIPCode"))
    found = {}
    for atom in molecule.GetAtoms():
        at, alone = atom.GetIdx(), atom.GetDegree() == 0
        mark = (
            atom.GetFormalCharge(),
            atom.GetIsotope(),
            atom.GetNumRadicalElectrons(),
            atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "",
            "".join(sorted(bonds.get(at, []))),
            atom.GetTotalNumHs() + 1 if alone else 0,
        )
        if any(mark):
            found[at] = mark
    return found


def _rdkit() -> tuple[Any, Any, Any]:
    """(RDKit's reader, its labels of stereochemistry, the generator)."""
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import rdCIPLabeler, rdFingerprintGenerator
    except ImportError as error:
        raise ValueError(
            "--smiles needs RDKit, which is not installed: pip install -e '.[smiles]'"
        ) from error
    # one error message names the molecules that cannot be read
    rdBase.DisableLog("rdApp.*")
    generator = rdFingerprintGenerator.GetAtomPairGenerator(maxDistance=FARTHEST, fpSize=BITS)
    return Chem, rdCIPLabeler, generator

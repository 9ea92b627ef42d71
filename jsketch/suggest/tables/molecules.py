"""Fingerprints of molecules, by RDKit: `jsketch-suggest --smiles`.

Pairs of atoms up to three bonds apart are counted and hashed into BITS bits (Carhart, Smith,
Venkataraghavan. J. Chem. Inf. Comput. Sci. 1985). These bits ignore stereochemistry, charges,
isotopes and atoms without a bond, such as the ions of a salt. Atoms with one of these properties
are marked: the pairs of a marked atom and an atom at most three bonds away are hashed into
MARKED_BITS further bits.
"""

from __future__ import annotations

import html
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jsketch.suggest.discrete import pack_bits

BITS = 2048
MARKED_BITS = 1024  # for stereochemistry, charges, isotopes and single atoms
MAX_DISTANCE = 3  # bonds between the atoms of a pair
BLOCK = 4096  # number of molecules whose bits are packed together
MARKS = re.compile(r"[\[@/\\.|]")  # characters of SMILES with marked atoms
DRAWING = 170, 110  # width and height of a drawn molecule, in pixels


class Fingerprints(NamedTuple):
    """Fingerprints of A molecules."""

    packed: np.ndarray  # [A, W], words of `pack_bits`; zeros for an unreadable molecule
    readable: np.ndarray  # [A] bool
    canonical: np.ndarray  # [A] str objects, equal for all spellings of a molecule


def fingerprints(smiles: Sequence[str]) -> Fingerprints:
    """The fingerprints of molecules [A]. Raises ValueError without RDKit."""
    chem, labeler, generator = _rdkit()
    parts, readable = [], np.zeros(len(smiles), bool)
    canonical = np.full(len(smiles), "", object)
    for start in range(0, len(smiles), BLOCK):
        block = smiles[start : start + BLOCK]
        bits = np.zeros((len(block), BITS + MARKED_BITS), bool)
        for i, word in enumerate(block):
            molecule = chem.MolFromSmiles(word)
            if molecule is None or not molecule.GetNumAtoms():
                continue
            readable[start + i] = True
            canonical[start + i] = chem.MolToSmiles(molecule)
            bits[i, :BITS] = generator.GetFingerprintAsNumPy(molecule)
            # a molecule without these characters has a marked atom only if it is a single atom
            if molecule.GetNumAtoms() == 1 or MARKS.search(word.replace("[nH]", "")):
                bits[i, BITS + _marked_bits(chem, labeler, molecule)] = 1
        parts.append(pack_bits(bits))
    return Fingerprints(np.concatenate(parts), readable, canonical)


def drawing(smiles: str) -> str:
    """A molecule as SVG, with its SMILES as the title. Raises ValueError without RDKit."""
    chem, _, _ = _rdkit()
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas: Any = rdMolDraw2D.MolDraw2DSVG(*DRAWING)
    canvas.drawOptions().clearBackground = False
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, chem.MolFromSmiles(smiles))
    canvas.FinishDrawing()
    svg = canvas.GetDrawingText()
    start = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[svg.index('<svg') : start]}<title>{html.escape(smiles)}</title>{svg[start:]}"


def _marked_bits(chem: Any, labeler: Any, molecule: Any) -> np.ndarray:
    """The indices, among the MARKED_BITS, of the counted and hashed pairs with a marked atom."""
    marks = _marks(chem, labeler, molecule)
    if not marks:
        return np.zeros(0, int)
    distance = chem.GetDistanceMatrix(molecule)
    symbols = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    pairs: Counter[tuple[Any, ...]] = Counter()
    for i, mark in marks.items():
        for j in np.flatnonzero(distance[i] <= MAX_DISTANCE):
            pairs[(mark, symbols[i], int(distance[i, j]), symbols[j])] += 1
    words = [repr((pair, k)).encode() for pair, count in pairs.items() for k in range(count)]
    return np.unique([zlib.crc32(word) % MARKED_BITS for word in words])


def _marks(chem: Any, labeler: Any, molecule: Any) -> dict[int, tuple[Any, ...]]:
    """{index of a marked atom: its properties that atom pairs ignore}."""
    centres = (a.GetChiralTag() != chem.ChiralType.CHI_UNSPECIFIED for a in molecule.GetAtoms())
    stereo_bonds = (b.GetStereo() > chem.BondStereo.STEREOANY for b in molecule.GetBonds())
    if any(centres) or any(stereo_bonds):
        labeler.AssignCIPLabels(molecule)
    bonds: dict[int, list[str]] = {}
    for bond in molecule.GetBonds():
        if bond.HasProp("_CIPCode"):
            for i in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()):
                bonds.setdefault(i, []).append(bond.GetProp("_CIPCode"))
    marks = {}
    for atom in molecule.GetAtoms():
        i, is_single = atom.GetIdx(), atom.GetDegree() == 0
        mark = (
            atom.GetFormalCharge(),
            atom.GetIsotope(),
            atom.GetNumRadicalElectrons(),
            atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "",
            "".join(sorted(bonds.get(i, []))),
            atom.GetTotalNumHs() + 1 if is_single else 0,
        )
        if any(mark):
            marks[i] = mark
    return marks


def _rdkit() -> tuple[Any, Any, Any]:
    """(RDKit's module Chem, its module of stereochemistry labels, a fingerprint generator)."""
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import rdCIPLabeler, rdFingerprintGenerator
    except ImportError as error:
        raise ValueError(
            '--smiles needs RDKit, which is not installed: pip install "jsketch[smiles]"'
        ) from error
    # unreadable molecules are reported once, by the caller
    rdBase.DisableLog("rdApp.*")
    generator = rdFingerprintGenerator.GetAtomPairGenerator(maxDistance=MAX_DISTANCE, fpSize=BITS)
    return Chem, rdCIPLabeler, generator

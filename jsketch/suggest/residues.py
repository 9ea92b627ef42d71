"""Physical properties of amino acids, as numeric features of the sites of a protein.

If amino acids are categories, any two different ones have the same distance. With these columns,
leucine is close to isoleucine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Residue(NamedTuple):
    """Properties of an amino acid."""

    hydropathy: float  # Kyte, Doolittle. J. Mol. Biol. 157, 1982
    volume: float  # in cubic angstroms; Zamyatnin. Prog. Biophys. Mol. Biol. 24, 1972
    charge: float  # in water, at pH 7; 0.5 for histidine, whose pK is near 7


RESIDUES = {
    "A": Residue(1.8, 88.6, 0.0),
    "C": Residue(2.5, 108.5, 0.0),
    "D": Residue(-3.5, 111.1, -1.0),
    "E": Residue(-3.5, 138.4, -1.0),
    "F": Residue(2.8, 189.9, 0.0),
    "G": Residue(-0.4, 60.1, 0.0),
    "H": Residue(-3.2, 153.2, 0.5),
    "I": Residue(4.5, 166.7, 0.0),
    "K": Residue(-3.9, 168.6, 1.0),
    "L": Residue(3.8, 166.7, 0.0),
    "M": Residue(1.9, 162.9, 0.0),
    "N": Residue(-3.5, 114.1, 0.0),
    "P": Residue(-1.6, 112.7, 0.0),
    "Q": Residue(-3.5, 143.8, 0.0),
    "R": Residue(-4.5, 173.4, 1.0),
    "S": Residue(-0.8, 89.0, 0.0),
    "T": Residue(-0.7, 116.1, 0.0),
    "V": Residue(4.2, 140.0, 0.0),
    "W": Residue(-0.9, 227.8, 0.0),
    "Y": Residue(-1.3, 193.6, 0.0),
}


def properties(letters: np.ndarray) -> dict[str, np.ndarray]:
    """The properties that vary among the letters [A] of one site, each as numbers [A].

    Raises ValueError for a letter that is none of the 20 amino acids.
    """
    distinct, index = np.unique(np.asarray(letters, str), return_inverse=True)
    unknown = [letter for letter in distinct if letter not in RESIDUES]
    if unknown:
        raise ValueError(
            f"'{unknown[0]}' is none of the 20 amino acids, {''.join(RESIDUES)}: gaps, lower-case"
            " letters and other letters have no properties."
        )
    table = np.array([RESIDUES[letter] for letter in distinct])[index]
    varies = np.ptp(table, axis=0) > 0
    return {name: table[:, i] for i, name in enumerate(Residue._fields) if varies[i]}

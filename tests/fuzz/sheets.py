"""Fuzzes `jsketch-suggest`: arrays read from tables do not depend on formats and spellings."""

import contextlib
import io
import tempfile
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import sheet_draw
import sheet_faults
from sheet_files import ENDINGS, write

from jsketch.suggest import Columns, fit, library
from jsketch.suggest.tables import cells, inputs, results
from jsketch.suggest.tables import outputs as command
from jsketch.suggest.tables.options import parse

PERIOD = 20  # one of 20 sheets has a batch, because a fit takes half a second
TOLERANCE = 1e-9  # relative to the range of numbers; the order of sums changes the rounding
REMAINING = 10  # candidates that are left in a sheet of LAYOUTS; a batch suggests all of them
NAMES_OF_RESULTS = ("status", "Pending", "ERROR", "cost", "mean", "Standard_Deviation")


class Case:
    """One sheet, its folder, and the report of failures."""

    def __init__(self, seed, report, folder):
        self.seed, self.report, self.folder = seed, report, folder
        self.suggests = seed % PERIOD == 0
        layout = sheet_draw.LAYOUTS[seed // (2 * PERIOD) % len(sheet_draw.LAYOUTS)]
        self.sheet = sheet_draw.sheet(seed, layout if self.suggests else None)
        self.random = np.random.default_rng([seed, 12])
        kinds = ", ".join(column.option or column.kind for column in self.sheet.columns)
        self.description = f"seed {seed}, {self.sheet.count} candidates ({kinds})"
        report.problem = self.description
        self.files = 0

    def new_path(self, table, ending):
        """The path of a new file."""
        self.files += 1
        return self.folder / f"{table}{self.files}{ending}"

    def write_files(self, grids, ending=None):
        """(options that name the files, {table: (path, row in the file of each row)}), or None if
        the format cannot represent a table. Without an ending, each table has a random one."""
        options, written = [], {}
        for name, grid in grids.items():
            if not len(grid) and name in ("pending", "exclude"):
                continue
            # Excel files take longest to write, and fewer of them suffice
            random_ending = str(self.random.choice(ENDINGS, p=[0.6, 0.1, 0.3]))
            is_further = ending == ".xlsx" and len(grids) > 1 and name in ("pending", "exclude")
            path = self.new_path(name, random_ending if is_further or ending is None else ending)
            written[name] = path, write(path, grid, self.random)
            if written[name][1] is None:
                return None
            # the sheet comes first, because an option before it could take it as an argument
            first = name == "candidates"
            options = [str(path), *options] if first else [*options, f"--{name}", str(path)]
        return options, written

    def read_arrays(self, grids, words, ending=None, options=None):
        """(options, Inputs) of the tables. If they are refused, reports it and returns None."""
        files, _ = self.write_files(grids, ending)
        options = self.sheet.options() if options is None else options
        parsed = parse([*files, *options, "--batch", "1", "--out", str(self.folder / "next.csv")])
        self.report.problem = f"{self.description}, {words}"
        try:
            arrays = inputs.read(parsed)
        except Exception as error:
            self.report.true("is read", False, f"{type(error).__name__}: {error}")
            return None
        self.report.true("is read", True)
        return parsed, arrays

    def check_truth(self, arrays, truth):
        """Checks that the arrays are exactly those of the sheet."""
        r, candidates = self.report, arrays.candidates
        r.same("ids", candidates.ids, truth["ids"])
        r.same("features", candidates.features, truth["features"])
        r.same("names of features", candidates.names, truth["names"])
        kinds = [(group.kind, group.width) for group in candidates.columns]
        r.true("kinds of features", kinds == truth["columns"], f"{kinds} is not {truth['columns']}")
        for name in ("arms", "goals", "pending", "excluded"):
            r.same(name, getattr(arrays, name), truth[name])
        optional = dict(errors=arrays.errors, same=candidates.same, cost=candidates.cost)
        for name, array in optional.items():
            r.true(f"{name} is read if the sheet has it", (array is None) == (truth[name] is None))
            if array is not None and truth[name] is not None:
                r.same(name, array, truth[name])
        _, counts = np.unique(truth["features"], axis=0, return_counts=True)
        n_equal = int(counts[counts > 1].sum())
        notes = [note for note in candidates.notes if "have the same features" in note]
        expected = [str(n_equal)] if n_equal else []
        r.same("equal candidates", [note.split()[0] for note in notes], expected)

    def check_formats(self):
        truth = self.sheet.truth()
        for ending in ENDINGS:
            read = self.read_arrays(self.sheet.grids(), f"as {ending or 'a mixture'}", ending)
            if read is not None:
                self.check_truth(read[1], truth)

    def check_units(self):
        """Checks that scaled features do not depend on units; powers of two between units cause no
        rounding."""
        if all(column.kind != "numbers" for column in self.sheet.columns):
            return
        powers_of_two = bool(self.random.integers(2))
        grids = self.sheet.grids()
        for column in self.sheet.columns:
            if column.kind != "numbers":
                continue
            is_dyadic = all((64 * x).is_integer() and abs(x) < 1e6 for x in column.cells)
            factor, shift = 2.0 ** int(self.random.integers(-8, 9)), 0.0
            if powers_of_two and is_dyadic:
                shift = float(self.random.integers(-100, 100))
            elif not powers_of_two:
                factor = float(self.random.choice([1000.0, 1e-3, 1.8, 60.0, -1.0]))
            converted = [factor * x + shift for x in column.cells]
            grids["candidates"].columns[column.name] = converted
        tables = {name: grids[name] for name in ("candidates", "observations")}
        read = self.read_arrays(tables, "in other units")
        if read is None:
            return
        truth = self.sheet.truth()
        groups = [Columns(*column) for column in truth["columns"]]
        expected = np.asarray(library(truth["features"], groups).features)
        actual = np.asarray(read[1].library.features)
        if powers_of_two:
            self.report.same("features in units of powers of two", actual, expected)
        else:
            # a negative factor changes a scaled number x to 1 - x
            difference = np.abs(actual - expected)
            difference = np.minimum(difference, np.abs(1 - actual - expected)).max()
            detail = f"differ by {difference:.1e}"
            self.report.true("features in other units", difference <= TOLERANCE, detail)

    def check_changes(self):
        """Checks that permuted rows, more columns, and negated values with --minimize are read
        correctly."""
        sheet, random = self.sheet, self.random
        grids, truth = sheet.grids(), sheet.truth()
        added = self.add_columns(grids)
        observed = random.choice(sheet.arms, random.integers(1, 4)).tolist()
        grids["pending"].columns[sheet.id_name] += [sheet.ids[arm] for arm in observed]
        order = {name: random.permutation(len(grid)) for name, grid in grids.items()}
        grids = {name: grid.rows(order[name]) for name, grid in grids.items()}
        values = grids["observations"].columns[sheet.value_name]
        values[:] = [y if isinstance(y, str) else -y for y in values]
        options = [option for option in sheet.options() if option != "--minimize"]
        options += [] if sheet.minimize else ["--minimize"]
        read = self.read_arrays(grids, f"permuted, negated, with {added}", options=options)
        if read is None:
            return
        new_row = np.argsort(order["candidates"])
        for name in ("ids", "features", "same", "cost"):
            truth[name] = None if truth[name] is None else truth[name][order["candidates"]]
        for name in ("arms", "goals", "errors"):
            truth[name] = None if truth[name] is None else truth[name][order["observations"]]
        truth["arms"] = new_row[truth["arms"]]
        for name in ("pending", "excluded"):
            truth[name] = np.sort(new_row[truth[name]])
        self.check_truth(read[1], truth)
        notes = [note for note in read[1].candidates.notes if "not used as conditions" in note]
        are_named = len(notes) == 1 and all(f"'{name}'" in notes[0] for name in added)
        self.report.true("columns that are left out are named", are_named, str(notes))

    def add_columns(self, grids):
        """Adds columns that are not features at random places. Returns their names."""
        sheet, random, library = self.sheet, self.random, grids["candidates"]
        names = list(NAMES_OF_RESULTS)
        names += [sheet.error_name] if sheet.error_name is not None else []
        names = [name for name in dict.fromkeys(names) if name not in library.columns]
        added = random.permutation(names)[: random.integers(1, 4)].tolist()
        for name in added:
            column = random.standard_normal(sheet.count).tolist()
            column = [None if random.uniform() < 0.3 else cell for cell in column]
            if random.uniform() < 0.3:
                column = random.choice(["done", "failed", "later"], sheet.count).tolist()
            library.columns[name] = column
        # features stay in their order among themselves, which is also the order in the truth
        features = {column.name for column in sheet.columns}
        order = random.permutation(list(library.columns)).tolist()
        next_feature = iter([name for name in library.columns if name in features])
        order = [next(next_feature) if name in features else name for name in order]
        library.columns = {name: library.columns[name] for name in order}
        remarks = random.choice(["", "a;b", "1,5", "2024-01-05"], len(grids["observations"]))
        grids["observations"].columns["remark"] = remarks.tolist()
        return added

    def check_ids_written(self):
        """Checks that the ids of a batch that is written in any format are read unchanged."""
        random = self.random
        rows = random.permutation(self.sheet.count)[: random.integers(1, 6)]
        for ending in ENDINGS:
            path = self.new_path("batch", ending)
            ids = np.array(self.sheet.ids, object)[rows]
            batch = pd.DataFrame({self.sheet.id_name: ids, "mean": 0.0, "standard_deviation": 1.0})
            path.write_bytes(cells.content(path, batch))
            table = cells.read(path, [self.sheet.id_name])
            self.report.problem = f"{self.description}, a batch as {ending}"
            self.report.same("ids of a batch", table.text(self.sheet.id_name).to_numpy(object), ids)

    def check_refusals(self):
        """Checks that one mistake is refused in every format by a message that names its place."""
        grids, random = self.sheet.grids(), self.random
        fault = sheet_faults.make_fault(self.seed, self.sheet, grids, random)
        intact_grids = {name: grid for name, grid in grids.items() if name != fault.table}
        intact_files, _ = self.write_files(intact_grids, ".csv")
        for ending in ENDINGS if fault.table is not None else (".csv",):
            self.report.problem = f"{self.description}, {fault.words} as {ending}"
            wrong_grids = {} if fault.table is None else {fault.table: grids[fault.table]}
            files_and_rows = self.write_files(wrong_grids, ending)
            if files_and_rows is None:
                continue
            files, written = files_and_rows
            first = fault.table == "candidates"
            files = [*files, *intact_files] if first else [*intact_files, *files]
            out = self.new_path("refused", str(random.choice(ENDINGS)))
            arguments = [*files, *self.sheet.options(), "--batch", "1", *fault.options]
            message = self.refusal([*arguments, "--out", str(out)])
            if message is None:
                continue
            path, row_numbers = written.get(fault.table, (None, None))
            place = [] if path is None else [str(path)]
            # the header, of number -1, is row 1 of a file, but no row of a Parquet file
            if fault.row is not None and (fault.row >= 0 or ending != ".parquet"):
                place.append(f"row {row_numbers[fault.row] if fault.row >= 0 else 1}")
            place += [] if fault.column is None else [f"column '{fault.column}'"]
            for word in place:
                self.report.true("a refusal names its place", word in message, f"{word}: {message}")
        new_files = {p.name for p in self.folder.iterdir() if p.name.startswith("refused")}
        self.report.true("nothing is written", not new_files, str(new_files))

    def refusal(self, arguments):
        """The message of the ValueError of the command. If it raises none, or not in one sentence,
        reports a failure and returns None."""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                command.run(parse(arguments))
        except Exception as error:
            # some names and ids contain "two" and a line break
            one_line = "\n" not in str(error).replace("two\n", "")
            holds = type(error) is ValueError and one_line
            self.report.true("a refusal is a sentence", holds, f"{type(error).__name__}: {error}")
            return str(error) if holds else None
        self.report.true("a mistake is refused", False)
        return None

    def check_damage(self):
        """Checks that a file that is cut off or has wrong bytes is either read or refused with a
        message."""
        ending, random = str(self.random.choice(ENDINGS)), self.random
        path = min(path for path in self.folder.iterdir() if path.match(f"candidates*{ending}"))
        raw = bytearray(path.read_bytes())
        if random.uniform() < 0.5:
            raw = raw[: random.integers(len(raw))]
        for i in random.integers(0, max(len(raw), 1), random.integers(1, 4)):
            raw[i : i + 1] = bytes([random.integers(256)])
        path = self.new_path("damaged", ending)
        path.write_bytes(bytes(raw))
        self.report.problem = f"{self.description}, a damaged {ending}"
        arguments = [str(path), *self.sheet.options(), "--batch", "1"]
        try:
            inputs.read(parse([*arguments, "--out", str(self.folder / "next.csv")]))
        except Exception as error:
            is_refusal = type(error) is ValueError and str(path) in str(error)
            error_text = f"{type(error).__name__}: {error}"
            self.report.true("damage is read or refused", is_refusal, error_text)
        else:
            self.report.true("damage is read or refused", True)

    def check_batch(self):
        """Checks the file of a batch, and that picks, means and deviations depend neither on the
        order of rows nor on units."""
        sheet, report = self.sheet, self.report
        ending = str(self.random.choice(ENDINGS))
        out = self.new_path("next", ending)
        files, _ = self.write_files(sheet.grids())
        arguments = [*files, *sheet.options(), "--batch", str(REMAINING)]
        report.problem = f"{self.description}, the command"
        with contextlib.redirect_stdout(io.StringIO()):
            batch = command.run(parse([*arguments, "--out", str(out)]))
        names = ["predicted", "low_90", "high_90"]
        table, ids = cells.read(out, [sheet.id_name, *names]), np.array(sheet.ids, object)
        report.same("ids of the batch", table.text(sheet.id_name), ids[batch.rows])
        predicted, low, high = (table.numbers(name) for name in names)
        sign = -1 if sheet.minimize else 1
        # the file keeps three significant digits of the width of an interval
        is_close = np.abs(predicted - sign * batch.mean) <= 0.01 * (high - low)
        report.true("means of the batch", is_close.all())
        report.true("intervals are not empty", (low < high).all())
        report.true("rows are distinct", len(set(batch.rows)) == REMAINING)
        truth = sheet.truth()
        taken = {*truth["arms"].tolist(), *truth["pending"].tolist(), *truth["excluded"].tolist()}
        report.true("no candidate is suggested again", not taken & set(batch.rows.tolist()))

        grids = sheet.grids()
        order = self.random.permutation(len(sheet.arms))
        grids["observations"] = grids["observations"].rows(order)
        self.compare("observations in another order", grids, batch, np.arange(sheet.count), 1.0)
        rows = self.random.permutation(sheet.count)
        grids = sheet.grids()
        grids["candidates"] = grids["candidates"].rows(rows)
        self.compare("the library in another order", grids, batch, rows, 1.0)
        grids, scale = sheet.grids(), 2.0 ** int(self.random.integers(-20, 21))
        for name in (sheet.value_name, sheet.error_name):
            if name is not None:
                column = grids["observations"].columns[name]
                column[:] = [scale * y for y in column]
        # memory alignment changes the order of sums, and so the rounding of a fit
        self.compare("values in other units", grids, batch, np.arange(sheet.count), scale)

    def compare(self, words, grids, batch, rows, scale):
        """Compares `batch` of the sheet with the batch of tables whose candidate i is candidate
        rows[i] of the sheet, and whose values are multiplied by `scale`."""
        read = self.read_arrays(grids, words)
        if read is None:
            return
        options, arrays = read
        report, key = self.report, jax.random.key(0)
        options.batch = REMAINING
        model = fit(arrays.library, arrays.arms, arrays.goals, errors=arrays.errors, key=key)
        for name, unit in dict(lengthscale=1.0, ratio=1.0, scale=scale, centre=scale).items():
            old, new = np.asarray(getattr(batch.model, name)) * unit, getattr(model, name)
            size = np.abs(old).max() if name != "centre" else scale * batch.model.scale + abs(old)
            difference = np.abs(old - np.asarray(new)).max() / size
            report.true(f"{name} of the model", difference <= 1e-6, f"differs by {difference:.1e}")
        # the fits were compared above; batches are compared with equal models
        model = batch.model
        limits = tuple(scale * limit for limit in model.limits)
        same = model._replace(scale=model.scale * scale, centre=model.centre * scale, limits=limits)
        other = results.choose(options, arrays, key, same)
        picked, expected = rows[other.rows], batch.rows
        report.same("the same candidates are picked", np.sort(picked), np.sort(expected))
        place = np.argsort(expected)[np.searchsorted(np.sort(expected), picked)]
        size = scale * np.abs(batch.mean).max() + scale * batch.std.max()
        for name, a, b in (("mean", batch.mean, other.mean), ("std", batch.std, other.std)):
            difference = np.abs(scale * a[place] - b).max() / size
            detail = f"differs by {difference:.1e}"
            report.true(f"{name} of candidates", difference <= TOLERANCE, detail)
        # candidates with equal features may be picked in any order
        group = np.unique(self.sheet.truth()["features"], axis=0, return_inverse=True)[1].ravel()
        report.same("picks", group[picked], group[expected])


def check(seed, report, long=False):
    """Checks one sheet, and if the seed is a multiple of PERIOD also its batch."""
    with tempfile.TemporaryDirectory(prefix="sheet") as name:
        case = Case(seed, report, Path(name))
        case.check_formats()
        case.check_units()
        case.check_changes()
        case.check_ids_written()
        case.check_refusals()
        case.check_damage()
        if case.suggests:
            case.check_batch()

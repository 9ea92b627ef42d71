"""Streams and sheets in CSV files have one reader, whose results do not depend on the blocks in
which it reads them; indices of pandas are never inputs, and messages name the file and the row."""

import codecs
import datetime
import gzip
import re
import sys
import tomllib
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from packaging.requirements import Requirement
from pyarrow import parquet
from rows import check_refusals

from jsketch import chunks, csv_files
from jsketch.suggest.tables import candidates, cells

HEAT = "T (\u00b0C)"


def write(path, text, encoding="utf-8"):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def read(path, size=3, target="y", **options):
    """The examples of a file, [n, d + 1] with the labels last."""
    pairs = list(chunks(path, size=size, target=target, **options))
    assert [len(ys) for _, ys in pairs[:-1]] == [size] * (len(pairs) - 1)
    return np.concatenate([np.column_stack(pair) for pair in pairs])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_streams_and_sheets_have_the_same_numbers_in_every_encoding(tmp_path, encoding, separator):
    """Blanks surround names and cells. Commas are decimal between semicolons and tabs."""
    rows = [[HEAT, " y ", "note"], ["60.5 ", "1", "\u00b5 \u00fc"], ["-3.25", " 2.5 ", ""]]
    lines = [separator.join(row) for row in rows]
    if separator != ",":
        lines[1:] = [line.replace(".", ",") for line in lines[1:]]
    path = write(tmp_path / "a.csv", "\r\n".join(lines), encoding)
    expected = [[60.5, 1.0], [-3.25, 2.5]]
    np.testing.assert_array_equal(read(path, inputs=[HEAT]), expected)
    table = cells.read(path, [HEAT])
    np.testing.assert_array_equal(np.stack([table.numbers(n) for n in (HEAT, "y")], 1), expected)
    assert table.text("note").tolist() == ["\u00b5 \u00fc", ""]


def long_text(separator, mark):
    """A file with gaps, empty rows, quoted line ends and a late letter that is not ASCII."""
    random = np.random.default_rng(0)
    rows = [separator.join(["a", "flag", "count", "note", "y"])]
    for i in range(60):
        a = str(random.integers(-9, 9)) if i < 20 else f"{random.normal():.3f}".replace(".", mark)
        flag = str(random.choice(["True", "FALSE", ""]))
        note = '"two\nlines"' if i % 7 == 3 else "\u00e9" * (i > 50)
        label = "" if i % 9 == 4 else f"0{mark}{i}"
        rows.append(separator.join([f'"{a}"', flag, str(i), note, label]))
        if i % 11 == 5:
            rows += ["", separator * 4]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("separator", "mark"), [(",", "."), (";", ","), ("\t", ",")])
def test_blocks_and_chunks_do_not_change_the_numbers(
    tmp_path, monkeypatch, newline, separator, mark
):
    text = long_text(separator, mark).replace("\n", newline)
    options = dict(inputs=["a", "flag", "count"])
    path = write(tmp_path / "a.csv", text)
    expected = read(path, 1000, **options)
    assert expected.shape == (60, 4) and np.isnan(expected).sum() > 15
    assert set(np.unique(expected[:, 1])[:2]) == {0, 1} and (expected[:, 2] == range(60)).all()
    np.testing.assert_allclose(expected[[0, 59], 3], [0.0, 0.59])
    sheet = cells.read(path, ["y"])
    for encoding in ("utf-8", "utf-16", "cp1252"):
        write(path, text, encoding)
        for block in (11, 64, 500):
            monkeypatch.setattr(csv_files, "BLOCK", block)
            np.testing.assert_array_equal(read(path, 7, **options), expected)
            copy = cells.read(path, ["y"])
            pd.testing.assert_frame_equal(copy.frame, sheet.frame)
    assert sheet.text("note").tolist().count("two\nlines") == 9


def test_a_file_is_read_in_constant_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 2**14)
    path = write(tmp_path / "a.csv", "a,y\n" + "1.5,2.25\n" * 200_000)
    stream = chunks(path, size=1000, target="y")
    tracemalloc.start()
    total = sum(ys.sum() for _, ys in stream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 450_000 and peak < path.stat().st_size / 3


LINES = b"a,y\n" + b"1.5,2\n" * 50


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LINES + b"late,2\n", r"row 52, column 'a': 'late' is not a number: convert the column\."),
        (LINES + b"1.5,?\nlate,1\n", r"row 52, column 'y': '\?' is not a number"),
        (
            LINES + b"2020-03-19 17:00:07,2\n",
            r"row 52, column 'a': .* is a date .*to_datetime\(col",
        ),
        (LINES + b'"1,5",2\n', r"row 52, column 'a': '1,5' does not have the decimal mark '\.' of"),
        (LINES + b"1,2,3\n", r"row 52: it has 3 cells, more than the 2 names of the header"),
        (b"a,y\n1,2,3\n1,2\n", "row 2: it has 3 cells"),
        (LINES + b"\n\n1,2,3\n", "row 54: it has 3 cells"),
        (LINES + b'1,"2\n' + LINES, "row 52: a quotation mark is not closed"),
        (b"a,y,\xc3\xa9\n" + LINES[4:] + b"1,2,\xe9\n", "line 52: the byte 0xe9 .*, utf-8. Save"),
        (b"a,y,\xe9\n" + LINES[4:] + b"1,2,\x81\n", "line 52: the byte 0x81 .*, cp1252. Save"),
        (LINES + b"1,\0\n", "line 52: it is not text. Comma-separated values are needed"),
        (codecs.BOM_UTF16_LE + b"a\0,\0y\0\n\0" + b"1\0" * 50 + b"1", "is damaged: .*truncated"),
        (b"a;y\n1;2\n1.234;2\n", "row 3, column 'a': the point in '1.234' may be decimal or"),
        (b'a,y\n"1,234",2\n', "row 2, column 'a': '1,234' has a decimal comma, or a comma between"),
    ],
)
def test_faults_in_mid_file_name_the_file_and_the_row(tmp_path, monkeypatch, text, words):
    """They are past a first block of 16 bytes."""
    path = write(tmp_path / "a.csv", text)
    for block in (16, 2**20):
        monkeypatch.setattr(csv_files, "BLOCK", block)
        with pytest.raises(ValueError, match=f"a.csv,? {words}"):
            read(path, inputs=["a"])
    with gzip.open(tmp_path / "a.csv.gz", "wb") as file:
        file.write(LINES)
    write(tmp_path / "a.csv.gz", (tmp_path / "a.csv.gz").read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"a.csv.gz is damaged: Compressed file"):
        read(tmp_path / "a.csv.gz")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_an_index_of_pandas_is_no_input(tmp_path, ending):
    """Other programs keep the names by which pandas replaces a missing one."""
    path = tmp_path / f"a{ending}"
    columns = dict(a=[5.0, 6.0], y=[1.0, 2.0])

    def save(**more):
        table = pd.DataFrame({**more, **columns}, index=[3, 1])
        if ending == ".parquet":
            parquet.write_table(pyarrow.table({**more, **columns}), path)
        else:
            table.to_csv(path, index=False)
        return path

    def save_without_a(name):
        table = pd.DataFrame({name: [3, 1], "y": [1.0, 2.0]})
        if ending == ".parquet":
            parquet.write_table(pyarrow.Table.from_pandas(table, preserve_index=False), path)
        else:
            table.to_csv(path, index=False)
        return path

    for name in ("Unnamed: 0", "__index_level_0__"):
        save(**{name: [3, 1]})
        header = f"a{ending}{', row 1' if ending == '.csv' else ''}"
        words = rf"{header}: column 1 has no name \('{name}' is how pandas calls"
        with pytest.raises(ValueError, match=rf"{words}.*; name it, or .* inputs=\['a'\]"):
            chunks(path, target="y")
        with pytest.raises(ValueError, match=rf"{words} such a column\); name it or remove it"):
            cells.read(path, ["y"])
        # without a named column, there is no list of inputs to give
        with pytest.raises(ValueError, match=r"such a column\); name it, .*inputs=\['y'\]"):
            chunks(path, target="a")
        with pytest.raises(ValueError, match=r"such a column\); name it\."):
            chunks(save_without_a(name), target="y")
        save(**{name: [3, 1]})
        # a column that is named on purpose is read
        assert read(path, inputs=[name]).tolist() == [[3, 1], [1, 2]]
        assert cells.read(path, [name]).names == [name, "a", "y"]
    table = pd.DataFrame(columns, index=[3, 1])
    if ending == ".parquet":  # its metadata tell that the column is an index
        table.to_parquet(path)
        assert read(path).tolist() == [[5, 1], [6, 2]] and cells.read(path, []).names == ["a", "y"]
        table.rename_axis("time").to_parquet(path)
        assert read(path, inputs=["time"]).tolist() == [[3, 1], [1, 2]]
        assert read(path).shape == (2, 3)
    else:
        table.to_csv(path)
        words = r"a.csv, row 1: column 1 has no name; name it, or name the inputs with inputs=\['a"
        with pytest.raises(ValueError, match=words):
            chunks(path, target="y")
    assert read(path, inputs=["a"]).tolist() == [[5, 1], [6, 2]]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_repeated_names_are_refused(tmp_path, ending):
    """The second of two columns `y` would be an input that equals the label."""
    path, columns = tmp_path / f"a{ending}", [[1.0, 2.0]] * 4
    if ending == ".csv":
        write(path, "a,y,y,b\n1,1,1,1\n2,2,2,2\n")
    else:
        parquet.write_table(pyarrow.Table.from_arrays(columns, ["a", "y", "y", "b"]), path)
    header = f"a{ending}{', row 1' if ending == '.csv' else ''}"
    words = f"{header}: there are 2 columns 'y'; their names must differ"
    for options in ({}, dict(inputs=["a"]), dict(target="a", inputs=["y"]), dict(target="a")):
        with pytest.raises(ValueError, match=words):
            chunks(path, **{"target": "y", **options})
    assert read(path, target="a", inputs=["b"]).tolist() == [[1, 1], [2, 2]]


def test_columns_of_parquet_files_are_numbers(tmp_path):
    """Booleans and decimals with gaps are numbers; words, dates and lists are refused."""
    path = tmp_path / "a.parquet"
    columns = {
        "flag": pyarrow.array([True, None, False]),
        "count": pyarrow.array([1, None, 3], pyarrow.uint64()),
        "half": pyarrow.array(np.array([0.5, 1.5, 2.5], np.float16)),
        "price": pyarrow.array([1, 2, None], pyarrow.int64()).cast(pyarrow.decimal128(21, 2)),
        "none": pyarrow.nulls(3),
        "y": pyarrow.array([1.0, 2.0, None]),
    }
    parquet.write_table(pyarrow.table(columns), path)
    nan = np.nan
    expected = [[1, 1, 0.5, 1, nan, 1], [nan, nan, 1.5, 2, nan, 2], [0, 3, 2.5, nan, nan, nan]]
    np.testing.assert_array_equal(read(path), expected)
    for wrong, words in [
        (pyarrow.array(["1", "2", "3"]), "column 'x': its cells have the type string and are not"),
        (pd.to_datetime(["2020-01-01"] * 3), "column 'x': it holds dates and not .*leave it out"),
        (pyarrow.array([[1]] * 3), "column 'x': its cells have the type list"),
    ]:
        parquet.write_table(pyarrow.table(dict(x=wrong, **columns)), path)
        with pytest.raises(ValueError, match=f"a.parquet, {words}"):
            chunks(path, target="y")
    write(path, path.read_bytes()[:-90])
    with pytest.raises(ValueError, match=r"a.parquet cannot be read"):
        chunks(path, target="y")


@pytest.mark.parametrize(
    ("row", "numbers"),
    [("", None), (" ", None), (' , "" ," "', None), ("5", [5, np.nan, np.nan])],
)
def test_rows_may_be_empty_or_short(tmp_path, row, numbers):
    """They are the first ones, from which pandas takes the number of columns."""
    path = write(tmp_path / "a.csv", f"a,b,y\n{row}\n1,2,3\n{row}\n4,5,6\n{row}")
    rows = [numbers, [1, 2, 3], numbers, [4, 5, 6], numbers]
    expected = np.array([row for row in rows if row is not None], float)
    np.testing.assert_array_equal(read(path, 10), expected)
    assert len(cells.read(path, ["y"])) == len(expected)


def recipe_of(refused):
    """The expression of pandas in the message of a refusal, as a function of a column."""
    with pytest.raises(ValueError, match="numbers?; pandas computes ") as caught:
        refused()
    expression = re.search(r"by (.*? / pandas\.Timedelta\(\w+=1\))", str(caught.value))[1]
    return lambda column: eval(expression, dict(pandas=pd, column=column))


NOON = 9501.5  # 2026-01-05 12:00 in days since 2000-01-01


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2026-01-05", "2026-02-01"], [9501, 9528]),
        (["2026-01-05 12:00:00", "2026-01-05 18:00:00"], [NOON, NOON + 0.25]),
        (["2026-01-05 12:00+00:00", "2026-01-05 12:00+06:00"], [NOON, NOON - 0.25]),
        (["2026-01-05T12:00:00Z", ""], [NOON, np.nan]),
        (["05.01.2026", "01.02.2026"], [9501, 9528]),
        (["05/01/2026 12:00", "13/01/2026 12:00"], [NOON, NOON + 8]),
        (["10:30", "9:15"], [10.5, 9.25]),
        (["10:30:00", "26:00:36"], [10.5, 26.01]),
        (["0 days 10:30:00", "-1 days +23:00:00"], [10.5, -1]),
        (["1 days 00:00:00.5", ""], [24 + 0.5 / 3600, np.nan]),
    ],
)
def test_the_advice_on_dates_and_times_in_text_computes_numbers(tmp_path, cells, expected):
    """pandas reads 05.01.2026 as May 1 unless dayfirst is given, and 10:30 as a time of today."""
    table = pd.DataFrame(dict(a=cells, y=[1.0, 2.0]))
    path = tmp_path / "a.csv"
    table.to_csv(path, index=False)
    recipe = recipe_of(lambda: chunks(path, target="y"))
    np.testing.assert_allclose(recipe(pd.read_csv(path)["a"]), expected)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pyarrow.array([datetime.date(2026, 1, 5), None]), [9501, np.nan]),
        (pyarrow.array([datetime.datetime(2026, 1, 5, 12), None]), [NOON, np.nan]),
        (pd.to_datetime(["2026-01-05 12:00+00:00"] * 2).tz_convert("Asia/Tokyo"), [NOON, NOON]),
        (pyarrow.array([datetime.time(10, 30), datetime.time(0, 0, 36)]), [10.5, 0.01]),
        (pyarrow.array([datetime.time(10, 30), None]), [10.5, np.nan]),
        (pyarrow.array([datetime.timedelta(hours=26), None]), [26, np.nan]),
    ],
)
def test_the_advice_on_dates_and_times_in_parquet_computes_numbers(tmp_path, cells, expected):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(dict(a=cells, y=[1.0, 2.0])), path)
    recipe = recipe_of(lambda: chunks(path, target="y"))
    np.testing.assert_allclose(recipe(pd.read_parquet(path)["a"]), expected)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_first_line_of_excel_determines_the_separator(tmp_path, separator):
    """The header has more cells with another separator. The line is no row."""
    other = ";" if separator == "," else ","
    names = [f"a{other}b{other}c{other}d", "y"]
    for line in (f"sep={separator}", f'"sep={separator}"'):
        rows = [line, separator.join(f'"{name}"' for name in names), separator.join("12")]
        path = write(tmp_path / "a.csv", "\r\n".join([*rows, f"3{separator}x"]), "utf-8-sig")
        with pytest.raises(ValueError, match="a.csv, row 3, column 'y': 'x' is not a number"):
            read(path)
        assert cells.read(path, ["y"]).location(1, "y") == f"{path}, row 3, column 'y'"
        write(path, "\r\n".join(rows))
        assert read(path).tolist() == [[1, 2]]
        table = cells.read(path, [])
        assert table.names == names and table.semicolons == (separator == ";")
        assert [*table.numbers(names[0]), *table.numbers("y")] == [1, 2]


def test_streams_and_sheets_have_the_same_missing_values(tmp_path):
    words = ["NaN", "nan", "None", "NULL", "null", "NA", "n/a", "<NA>", "-nan", "#N/A", "#DIV/0!"]
    rows = [f"{i},{word}" for i, word in enumerate(["", *words, "2.5"])]
    path = write(tmp_path / "a.csv", "\n".join(["a,y", *rows]))
    expected = [*[np.nan] * (len(words) + 1), 2.5]
    np.testing.assert_array_equal(read(path, 50)[:, 1], expected)
    done = candidates.read_sheet(path, candidates.Roles(id=None, results=("y",))).evaluations
    assert done.arms.tolist() == [len(words) + 1] and done.values.tolist() == [2.5]


@pytest.mark.parametrize("above", ["\n", " \n", ",\n", "sep=,\n\n"])
def test_the_first_row_has_the_names(tmp_path, above):
    path = write(tmp_path / "a.csv", f"{above}a,y\n1,2\n")
    words = "a.csv, row 1: it is empty; it needs the column names"
    for refused in (lambda: chunks(path, target="y"), lambda: cells.read(path, ["y"])):
        with pytest.raises(ValueError, match=words):
            refused()


def test_the_columns_of_a_stream_are_checked(tmp_path):
    path = write(tmp_path / "a.csv", "y\n1\n2\n")
    other = write(tmp_path / "b.csv", "a,b,y\n2,yes,1\n")
    check_refusals(
        [
            (lambda: chunks(path, target="y"), "a.csv has no column besides the target y"),
            (
                lambda: chunks(other, target="y"),
                r"b.csv, row 2, column 'b': 'yes' is not a number: .* out with inputs=\['a",
            ),
        ]
    )


def test_sheets_are_not_compressed(tmp_path):
    """Their outputs have the ending of the sheet, but are never compressed."""
    with gzip.open(tmp_path / "a.csv.gz", "wb") as file:
        file.write(LINES)
    assert len(read(tmp_path / "a.csv.gz", 100)) == 50
    with pytest.raises(ValueError, match=r"a.csv.gz is compressed: decompress it"):
        cells.read(tmp_path / "a.csv.gz", [])


def test_the_extra_for_tables_has_the_packages_of_streams_in_files():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    names = {Requirement(need).name for need in project["optional-dependencies"]["tables"]}
    assert {"pandas", "pyarrow"} <= names


@pytest.mark.parametrize(("ending", "package"), [(".csv", "pandas"), (".parquet", "pyarrow")])
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, ending, package):
    path = write(tmp_path / f"a{ending}", "a,y\n1,2\n")
    monkeypatch.setitem(sys.modules, package, None)
    words = rf'a{ending} needs {package}, .*: pip install "jsketch\[tables\]"'
    with pytest.raises(ImportError, match=words):
        chunks(path, target="y")

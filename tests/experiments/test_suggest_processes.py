"""`scripts/suggest --processes`: two processes write what one writes; mistakes are said once."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from experiments.suggest import cells, main, options, tables
from experiments.suggest.several import processes, split
from jsketch.suggest import acquisitions, fit, library, parts, posterior, suggest
from jsketch.suggest.data import checked

ROOT = Path(__file__).parents[2]
A = 2301


def together(count, call):
    """call(processes) in a thread for each of several processes; what the first one gave or
    raised."""
    said, given = [None] * count, [None] * count
    barrier = threading.Barrier(count)

    def one(number):
        def gather(value):
            said[number] = value
            barrier.wait(60)
            heard = list(said)
            barrier.wait(60)
            return heard

        try:
            given[number] = call(parts.Processes(number, count, gather))
        except ValueError as error:
            given[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given


def table(count=A):
    """Numbers on a grid, so that many candidates tie, and a column of words whose second half
    has others than its first."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.integers(0, 4, (count, 3)), columns=["size", "mass", "charge"])
    frame["solvent"] = np.where(np.arange(count) < count // 2, "water", "ethanol")
    frame.insert(0, "id", [f"c{i}" for i in range(count)])
    f = np.sin(frame["size"]) + 0.3 * frame["mass"] + (frame["solvent"] == "ethanol")
    done = pd.DataFrame({"id": frame["id"], "value": f})[::97]
    return frame, done


@pytest.mark.parametrize("count", [2049, 4101, 2048 * 2100 + 1])
@pytest.mark.parametrize("number_of", [2, 3])
def test_every_candidate_is_of_one_process(count, number_of):
    """In blocks of one length, and next to each other but for the overlap of the last block."""
    if count < posterior.BLOCK * (number_of - 1) + 1:
        with pytest.raises(ValueError, match="2 blocks of at most 2048, too few for 3 processes"):
            parts.part(count, 0, number_of)
        return
    found = [parts.part(count, number, number_of) for number in range(number_of)]
    own = np.concatenate([part.rows[part.own] for part in found])
    np.testing.assert_array_equal(own, np.arange(count))
    assert max(np.diff(part.rows).max() for part in found) == 1


@pytest.mark.parametrize(
    ("acquisition", "evaluations"),
    [(acquisitions.ExpectedImprovement(), 30), (acquisitions.UCB(), 0)],
)
def test_the_batch_of_one_process_to_the_last_bit(acquisition, evaluations):
    """Ties, failures, pending and excluded candidates, a library that the blocks do not divide."""
    random = np.random.default_rng(1)
    x = random.integers(0, 4, (A, 3)).astype(float)
    arms = random.integers(0, A, evaluations)
    values = np.where(random.uniform(size=len(arms)) < 0.2, np.nan, np.sin(x[arms]).sum(1))
    pending, excluded = np.array([5, 2295]), np.append(arms[:2], [7, 1150, 2299])
    whole, key = library(x), jax.random.key(4)
    model = fit(whole, arms, values, key=key)
    options = dict(batch=6, acquisition=acquisition, failures=True, key=key)
    alone = suggest(whole, arms, values, pending=pending, exclude=excluded, model=model, **options)
    numbers = np.union1d(arms, pending)
    small = whole._replace(features=whole.features[numbers])
    at, waiting = np.searchsorted(numbers, arms), np.searchsorted(numbers, pending)

    def one(processes):
        part = parts.part(A, processes.number, 2)
        data = checked(small, None, at, values, waiting, True)
        features = whole.features[part.rows]
        return parts.suggest(
            processes, part, features, data, numbers, model, excluded=excluded, **options
        )

    for found in together(2, one):
        np.testing.assert_array_equal(found.rows, alone.rows)
        np.testing.assert_array_equal(found.mean, alone.mean)
        np.testing.assert_array_equal(found.std, alone.std)
        assert found.certificate == alone.certificate
        assert (found.chance is None) == (evaluations == 0)
        if evaluations:
            np.testing.assert_array_equal(found.chance, alone.chance)
    assert not set(alone.rows) & set(np.concatenate([arms, pending, excluded]))


@pytest.mark.parametrize("rows", [None, 500])
def test_a_piece_of_a_parquet_file(tmp_path, rows):
    """Of one row group and of several, with the rows of the whole as a spreadsheet counts them."""
    frame, _ = table(1800)
    frame.to_parquet(tmp_path / "l.parquet", row_group_size=rows)
    whole = cells.read(tmp_path / "l.parquet", ["id"])
    piece = cells.read(tmp_path / "l.parquet", ["id"], lambda count: slice(count // 3, 1300))
    pd.testing.assert_frame_equal(piece, whole[600:1300])


def test_ids_that_are_a_range_beside_the_columns(tmp_path):
    frame = table(1800)[0].drop(columns="id")
    frame.index = pd.RangeIndex(5, 5 + 3 * 1800, 3, name="id")
    frame.to_parquet(tmp_path / "l.parquet")
    whole = cells.read(tmp_path / "l.parquet", ["id"])
    piece = cells.read(tmp_path / "l.parquet", ["id"], lambda count: slice(600, 1300))
    pd.testing.assert_frame_equal(piece, whole[600:1300])


def test_a_word_that_two_rows_of_one_part_have(tmp_path):
    """Each part is read as the whole: a category, though a part has another word in every row."""
    frame = table(2049)[0][["id", "size"]].assign(name=[f"w{i}" for i in range(2049)])
    frame.loc[3, "name"] = "w2"
    frame.to_csv(tmp_path / "l.csv", index=False)
    for one in read(tmp_path / "l.csv"):
        assert one.library.columns[1] == ("category", 2048)


def read(path, *more):
    given = options.parse(["--candidates", str(path), "--batch", "4", *map(str, more)])
    return together(2, lambda processes: split.read(given, processes))


def test_parts_are_scaled_and_named_as_a_whole(tmp_path):
    """Words, letters and extremes that one part alone has."""
    frame, done = table()
    random = np.random.default_rng(2)
    letters = np.array(list("ACDE"))[random.integers(0, 3, (A, 3))]
    letters[-1], letters[:, 2] = list("EAA"), "A"
    frame["site"] = ["".join(row) for row in letters]
    frame["bits"] = ["".join(row) for row in random.integers(0, 2, (A, 20)).astype(str)]
    frame.loc[3, "mass"] = 9
    frame.to_csv(tmp_path / "l.csv", index=False)
    done.to_csv(tmp_path / "d.csv", index=False)
    named = "--protein", "site", "--bits", "bits", "--categories", "charge"
    kinds = tables.Kinds(["charge"], (), ["bits"], ["site"])
    whole = tables.read_candidates(tmp_path / "l.csv", "id", kinds)
    scaled = np.asarray(library(whole.features, whole.columns).features)
    found = read(tmp_path / "l.csv", *named, "--observations", tmp_path / "d.csv")
    for one in found:
        assert (one.candidates.columns, one.candidates.names) == (whole.columns, whole.names)
        np.testing.assert_array_equal(one.library.features, scaled[one.part.rows])
        np.testing.assert_array_equal(one.candidates.ids, whole.ids[one.part.rows])
        np.testing.assert_array_equal(one.inputs.library.features, scaled[one.numbers])
        np.testing.assert_array_equal(one.numbers, np.arange(0, A, 97))
        assert one.inputs.total == A


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [
        (1500, "id", "c7", "row 9, column 'id': the id 'c7' is that of a row of another process"),
        (A - 1, "mass", "heavy", f"row {A + 1}, column 'mass': the value is 'heavy', not a finite"),
        (A - 2, "size", "", f"row {A}, column 'size': the value is missing"),
        (slice(None), "mass", 2, "column 'mass': every value is 2"),
        (2, "solvent", 5, "row 2, column 'solvent': the value is 'water', not a finite number"),
    ],
)
def test_what_is_wrong_in_one_part_is_said_in_all(tmp_path, row, column, value, words):
    frame = table()[0].astype(object)
    frame.loc[row, column] = value
    frame.to_csv(tmp_path / "l.csv", index=False)
    said = read(tmp_path / "l.csv")
    assert words in str(said[0]) and str(said[0]) == str(said[1])


def test_what_needs_all_candidates_is_refused(capsys):
    for option in ("--same", "--cost", "--report"):
        with pytest.raises(SystemExit):
            options.parse(["--candidates", "l.csv", "--processes", "2", option, "x"])
        assert f"{option} reads all candidates at once" in capsys.readouterr().err


def test_srun_and_the_option_agree(monkeypatch):
    assert not processes.by_srun(2)
    monkeypatch.setenv(processes.STEP, "3")
    assert processes.by_srun(3)
    with pytest.raises(ValueError, match="srun started 3 tasks, and --processes is 2"):
        processes.by_srun(2)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal, time; time.sleep(9 * {first}); os.kill(os.getpid(), 9)", "process 1"),
        ("raise SystemExit('error: ' + 'no' * {first})", "^no$"),
    ],
)
def test_a_process_that_ends_ends_the_others(monkeypatch, code, words):
    monkeypatch.setattr(processes, "GRACE", 0.1)
    first = f"(__import__('os').environ['{processes.JOIN}'][-1] == '0')"
    with pytest.raises(ValueError, match=words):
        processes.start(2, [sys.executable, "-c", code.format(first=first)])


def test_two_processes_write_what_one_writes(tmp_path, capsys):
    """As a user types it; the second process alone reads half of the table."""
    frame, done = table()
    frame.to_parquet(tmp_path / "l.parquet")
    done.to_csv(tmp_path / "d.csv", index=False)
    given = ["--batch", "6", "--candidates", tmp_path / "l.parquet", "--explain"]
    given = [*map(str, given), "--observations", str(tmp_path / "d.csv"), "--out"]
    main.run(options.parse([*given, str(tmp_path / "1.csv")]))
    said = capsys.readouterr().out.splitlines()
    command = [sys.executable, "-m", "experiments.suggest.main", *given, str(tmp_path / "2.csv")]
    ended = subprocess.run(
        [*command, "--processes", "2"],
        cwd=ROOT,
        env=os.environ | dict(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "1.csv").read_text() == (tmp_path / "2.csv").read_text()
    first, *lines = ended.stdout.splitlines()
    assert "process 0 of 2" in first and lines[:-1] == said[:-1] and len(said) > 8

"""A saved file with a flipped bit, or without its end, either has the intact values or is refused
with a message that names the file."""

import json
import zlib

import jax
import numpy as np
import pytest
from rows import failing
from test_checkpoint import BOX, FIXED, LINEAR, first_coordinate

from experiments.results import outputs, store, tidy
from jsketch import loops, online
from jsketch.box import UniformBox
from jsketch.sketch.taylor import Taylor

KEY = jax.random.key(0)
FORECASTER = online.PKAWV(Taylor(2, 4, 0.8), 0.5)
CONFIG = dict(problem="tiny", algorithm="bkb", horizon=20, noise_std=0.01, chosen=["t", 3])


def stream(path):
    """The stream in the file. A missing file is written first."""
    if not path.exists():
        live = loops.Live(FORECASTER, 2, KEY)
        live.learn_many(np.linspace(-1, 1, 40).reshape(20, 2), np.linspace(0, 1, 20))
        live.save(path)
    live = loops.Live.load(path, FORECASTER)
    return live.state, live.received, live.inputs, jax.random.key_data(live._key)


def run(path):
    result = loops.run(FIXED, LINEAR, KEY, 8, checkpoint=path)
    return result.trace, result.state


def box(path):
    objective, calls = failing([], None, first_coordinate)
    driven = loops.drive(UniformBox(), objective, BOX, KEY, 4, checkpoint=path)
    return driven.state, driven.x, driven.y, driven.n_unobserved, len(calls)


def arrays(seed):
    values = np.random.default_rng(seed).uniform(size=(2, 20))
    return dict(
        t=np.arange(1, 21),
        regret_ratio=values[0],
        simple_regret=values[1],
        final_regret_ratio=values[0, -1],
        batches=np.asarray(seed),
    )


def tables(path):
    """The tables of the folder of the file."""
    folder = path.parent
    if not path.exists():
        runs = [tidy.Run(CONFIG, seed, arrays(seed)) for seed in range(3)]
        tidy.write(folder, runs, "tiny", "a title")
        store.write_json(folder / tidy.PROVENANCE, dict(seeds=3, numbers=[0.25, 1e-7], held=CONFIG))
    loaded = tidy.load(folder)
    return *map(_as_json, (loaded.curves, loaded.summary)), json.dumps(loaded.provenance)


def _as_json(table):
    columns = {name: table[name].to_numpy().tolist() for name in table}
    return json.dumps([list(map(str, table.dtypes)), columns, table.attrs])


def single_run(path):
    if not path.exists():
        store.write_npz(path, arrays(0) | dict(commit=np.asarray("one")))
    arrays_read = store.read_saved(path)
    return [(name, str(value.dtype), value.tolist()) for name, value in arrays_read.items()]


def recorded_configuration(path):
    store.record_configuration(path.parents[1], path.stem, CONFIG)
    return store.read_json(path)


def record(path):
    folder = path.parents[1]
    if not path.exists():
        values = dict(experiment="tiny", commit="one", config=CONFIG, seeds=2)
        outputs.Folder(folder, values, ["one"], False, {})._record(values)
    return outputs.read_record(folder)


# {kind: (file, function that reads the file, and first writes it if it is missing)}
KINDS = dict(
    stream=("saved.stream", stream),
    arms=("arms.saved", run),
    box=("box.saved", box),
    curves=(tidy.CURVES, tables),
    table_of_runs=(tidy.SUMMARY, tables),
    summary=(tidy.PROVENANCE, tables),
    single_run=("runs/bkb-000.npz", single_run),
    configuration=("runs/bkb.json", recorded_configuration),
    record=("runs/experiment.json", record),
)


def are_equal(one, other):
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(*(map(np.asarray, jax.tree.leaves(values)) for values in (one, other)), strict=True)
    return all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs
    )


def outcome(read, path, intact):
    """The outcome of reading the file: "refused" by a ValueError that names the file, "harmless" if
    the values equal the intact ones, "silent" if they differ, or the text of another error."""
    try:
        values = read(path)
    except Exception as error:
        is_refusal = type(error) is ValueError and path.name in str(error)
        return "refused" if is_refusal else f"{type(error).__name__}: {error}"
    return "harmless" if are_equal(values, intact) else "silent"


def outcomes_of_flips(kind, folder, choose):
    """[(byte, bit, outcome)] for files in which one of the bits choose(content) is flipped, and for
    files that end before this bit."""
    name, read = KINDS[kind]
    path, outcomes = folder / name, []
    path.parent.mkdir(parents=True, exist_ok=True)
    read(path)  # writes the file
    content, intact = path.read_bytes(), read(path)
    for byte, bit in (divmod(int(i), 8) for i in choose(content)):
        flipped = content[:byte] + bytes([content[byte] ^ 1 << bit]) + content[byte + 1 :]
        for damaged in (flipped, content[: byte * 8 // 10]):
            path.write_bytes(damaged)
            outcomes.append((byte, bit, outcome(read, path, intact)))
    path.write_bytes(content)
    assert are_equal(read(path), intact)
    return outcomes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_flips", [15, pytest.param(150, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_refused_or_harmless(kind, n_flips, tmp_path):
    random = np.random.default_rng(zlib.crc32(kind.encode()))
    outcomes = outcomes_of_flips(
        kind, tmp_path, lambda content: random.choice(8 * len(content), n_flips, replace=False)
    )
    assert [flip for flip in outcomes if flip[2] not in ("refused", "harmless")] == []


@pytest.mark.parametrize("kind", ["stream", "arms", "box"])
def test_the_names_of_a_header_are_in_the_hash(kind, tmp_path):
    """If the lowest bit of the first letter of a name is flipped, the file is refused."""

    def first_letters(content):
        header = next(
            entry
            for line in content.splitlines()
            if {"belongs", "forecaster"} & (entry := json.loads(line)).keys()
        )
        return [8 * (content.index(f'"{name}": '.encode()) + 1) for name in header]

    outcomes = outcomes_of_flips(kind, tmp_path, first_letters)
    assert {outcome for _, _, outcome in outcomes} == {"refused"}

"""Streams of single examples, of chunks and through files have the predictions of `prequential`."""

import weakref
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import test_online
from rows import by_name, check_refusals

from jsketch import kernels, loops, online, struct
from jsketch.loops import live as live_streams
from jsketch.loops.describe import describe, rebuild
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor
from jsketch.types import Forecaster

KEY = jax.random.key(3)
GAUSSIAN = kernels.Gaussian(0.8)
TAYLOR = online.PKAWV(Taylor(2, 4, 0.8), 0.5)
CASES = {
    "taylor": TAYLOR,
    "kernel": online.KernelAWV(GAUSSIAN, 0.5, capacity=16),
    "kors": online.NystromAWV(GAUSSIAN, 0.5, Sampling(0.3, 2.0), capacity=16),
    "fogd": online.FOGD(GAUSSIAN, 0.1, count=20),
    "mixture": online.regularization_mixture(TAYLOR, [0.1, 1.0], bound=1.0),
}
# these take long to compile, and the loop is the same for all forecasters
SLOW = ("kernel", "mixture")
each = by_name(CASES, SLOW)


def compiled_programs():
    """Programs that live streams have compiled in this process."""
    names = ("init_state", "_preview", "_step")  # jitted functions of `live`
    return sum(getattr(live_streams, name)._cache_size() for name in names)


def examples(n=40):
    x, y = test_online.examples(n=n)
    return x, test_online.with_value(y, slice(4, None, 13), np.nan)


def run(stream, xs, ys):
    """The predictions of single examples, each before its label is learned."""
    return np.array([stream.predict_learn(x, y) for x, y in zip(xs, ys, strict=True)])


@each
def test_live_has_the_predictions_of_prequential_also_through_a_file(name, tmp_path):
    """Examples are passed one by one, capacities grow, and the stream is saved and loaded."""
    xs, ys = examples()
    # without a state, the first capacities would be larger ones than those of `Live`
    start = CASES[name].init(jnp.asarray(xs[0]), jax.random.split(KEY)[0])
    forecasts, state = loops.prequential(CASES[name], (xs, ys), KEY, state=start, block=1)
    stream = loops.Live(CASES[name], 2, KEY)
    first_predictions = run(stream, xs[:25], ys[:25])
    stream.save(tmp_path / "stream")
    loaded = loops.Live.load(tmp_path / "stream", CASES[name])
    assert loaded.received == 25 and loaded.predict(xs[25]) == stream.predict(xs[25])
    without_forecaster = loops.Live.load(tmp_path / "stream")
    assert describe(without_forecaster.forecaster) == describe(CASES[name])
    assert without_forecaster.predict(xs[25]) == stream.predict(xs[25])
    last_predictions = []
    for x, y in zip(xs[25:], ys[25:], strict=True):
        last_predictions.append(loaded.predict(x))
        assert loaded.predict(x) == last_predictions[-1]
        loaded.learn(x, y)
    predictions = np.append(first_predictions, last_predictions)
    np.testing.assert_allclose(predictions, forecasts.prediction, rtol=1e-12, atol=1e-12)
    chex.assert_trees_all_close(loaded.state, state, rtol=1e-9, atol=1e-12)
    chex.assert_trees_all_equal_dtypes(loaded.state, state)
    errors = (forecasts.prediction - ys)[np.isfinite(ys)]
    assert loaded.labelled == errors.size == 37
    assert loaded.mean_squared_error == pytest.approx(np.square(errors).mean(), rel=1e-9)
    assert loaded.mean_absolute_error == pytest.approx(np.abs(errors).mean(), rel=1e-9)
    # the repr has fewer digits
    assert f"mean_squared_error={loaded.mean_squared_error}"[:24] in repr(loaded)


@struct.dataclass
class Squares:
    """Features that a user defines."""

    size: int = struct.field(pytree_node=False, default=2)

    def features(self, x):
        return x**2


def test_load_needs_a_forecaster_that_has_parts_of_the_user(tmp_path):
    path, forecaster = tmp_path / "stream", online.PKAWV(Squares(), 0.5)
    stream = loops.Live(forecaster, 2, KEY)
    assert np.isnan(stream.mean_squared_error) and "labelled=0" in repr(stream)
    stream.learn_many(*examples(10))
    stream.save(path)
    with pytest.raises(ValueError, match=r"not of jsketch: give it, as in Live.load\(path, fore"):
        loops.Live.load(path)
    loaded = loops.Live.load(path, forecaster)
    assert loaded.mean_squared_error == stream.mean_squared_error > 0


def test_a_file_rebuilds_classes_of_the_library_only():
    rows = [
        ("os", "system", "os is not a module of jsketch"),
        ("jsketch.loops.saving", "write", "write of .* is not a data"),
        ("jsketch.loops.saving", "Path", "Path of .* is not a d"),
    ]
    saved = [(dict(module=module, name=name, fields={}), words) for module, name, words in rows]
    check_refusals((partial(rebuild, value), words) for value, words in saved)


@each
def test_batches_have_the_predictions_of_single_examples(name):
    """Batches and single examples alternate, and `predict_many` uses one state for all rows."""
    xs, ys = examples()
    forecaster = CASES[name].replace(capacity=64) if name == "kors" else CASES[name]
    forecasts, _ = loops.prequential(forecaster, (xs, ys), KEY)
    stream, mixed_stream = loops.Live(forecaster, 2, KEY), loops.Live(forecaster, 2, KEY)
    run(stream, xs[:31], ys[:31])
    parts = [mixed_stream.learn_many(xs[:13], ys[:13]).prediction]
    parts.append([mixed_stream.predict_learn(xs[13], ys[13])])
    parts.append(mixed_stream.learn_many(xs[14:31], ys[14:31]).prediction)
    predictions = np.concatenate(parts)
    np.testing.assert_allclose(predictions, forecasts.prediction[:31], rtol=1e-9, atol=1e-9)
    one_by_one = [stream.predict(x) for x in xs]
    np.testing.assert_allclose(mixed_stream.predict_many(xs), one_by_one, rtol=1e-9, atol=1e-9)
    assert mixed_stream.received == 31


def test_many_rows_need_few_programs(monkeypatch):
    monkeypatch.setattr(live_streams, "MAX_ROWS", 8)
    xs, ys = examples()
    stream = loops.Live(TAYLOR.replace(features=Taylor(2, 5, 0.8)), 2, KEY)
    stream.learn_many(xs, ys)
    n_programs = compiled_programs()
    for n in (1, 3, 4, 5, 8, 9, 21, 40):
        one_by_one = [stream.predict(x) for x in xs[:n]]
        np.testing.assert_allclose(stream.predict_many(xs[:n]), one_by_one, atol=1e-12)
    assert compiled_programs() - n_programs == 3  # for 1, 4 and 8 rows


def test_a_new_example_compiles_nothing():
    xs, ys = examples()
    stream = loops.Live(TAYLOR, 2, KEY)
    stream.predict(xs[0]), stream.learn(xs[0], ys[0])
    n_programs = compiled_programs()
    run(stream, xs[1:], ys[1:])
    second_stream = loops.Live(TAYLOR.replace(regularization=0.7), 2, jax.random.key(9))
    second_stream.predict(list(xs[0])), second_stream.learn(jnp.asarray(xs[0]), 1)
    assert compiled_programs() == n_programs
    growing_stream = loops.Live(online.KernelAWV(GAUSSIAN, 0.5, capacity=18), 2, KEY)
    n_programs = compiled_programs()
    run(growing_stream, xs, ys)
    assert compiled_programs() - n_programs == 3  # capacities 18, 27 and 41
    assert growing_stream.state.points.shape[0] == 41


def test_another_forecaster_or_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "stream"
    loops.Live(TAYLOR, 2, KEY).save(path)
    rows = [
        (TAYLOR.replace(regularization=0.7), "regularization was 0.5, is 0.7\\."),
        (TAYLOR.replace(features=Taylor(2, 3, 0.8)), "features.degree was 4, is 3\\."),
        (TAYLOR.replace(penalize_current=False), "penalize_current was True, is False"),
        (CASES["fogd"], "forecaster was PKAWV, is FOGD"),
    ]
    check_refusals(
        (partial(loops.Live.load, path, f), f"another run.*{words}") for f, words in rows
    )
    grids = (np.linspace(0.1, end, 17) for end in (1, 2))
    mixture, other_mixture = (online.regularization_mixture(TAYLOR, g, bound=1.0) for g in grids)
    loops.Live(mixture, 2, KEY).save(path)
    with pytest.raises(ValueError, match=r"grid.regularization was float64\[17\]"):
        loops.Live.load(path, other_mixture)
    path.write_bytes(b"\x00\x01")
    with pytest.raises(ValueError, match="not a saved jsketch live stream"):
        loops.Live.load(path, TAYLOR)


MISTAKES = [
    (lambda s: s.predict([0.0, 1.0, 2.0]), r"vector of 2 numbers; its shape is \(3,\)"),
    (lambda s: s.predict([0.0, np.nan]), "input 1 is not"),
    (lambda s: s.predict(np.array([0.0, 1j])), "must be real numbers; their dtype is complex128"),
    (lambda s: s.learn([np.inf, 0.0], 1.0), "input 0 is not"),
    (lambda s: s.learn(["a", "b"], 1.0), "the 2 numbers of an example must be real"),
    (lambda s: s.learn([0.0, 1.0], np.inf), "one finite number, or NaN"),
    (lambda s: s.learn([0.0, 1.0], "high"), "labels must be real numbers"),
    (lambda s: s.predict_many([[0.0, 1.0, 2.0]]), "vector of 2 numbers; these have 3"),
    (lambda s: s.predict_many([0.0, 1.0]), "a matrix"),
    (lambda s: s.learn_many(np.ones((3, 2)), np.ones(2)), "the shapes are"),
    (lambda s: s.learn_many(np.ones((3, 2)), [1, np.inf, 2]), "label 1 is infinite"),
    (lambda s: loops.Live(TAYLOR, 0, KEY), "inputs must be"),
    (lambda s: loops.Live(TAYLOR, 3, KEY), "have 2 inputs; 3 were given"),
    (lambda s: loops.Live(TAYLOR, 2, KEY, dtype=int), "floating dtype"),
    (lambda s: loops.chunks(np.ones((4, 2)), np.ones(3)), r"the shapes are \(4, 2\) and \(3,\)"),
    (lambda s: loops.chunks(np.ones((0, 2)), np.ones(0)), "at least one"),
    (lambda s: loops.chunks(np.ones((4, 2)), np.ones(4), 0), "size must be"),
]


def test_mistakes_raise_and_change_nothing():
    stream = loops.Live(TAYLOR, 2, KEY)
    check_refusals((partial(action, stream), words) for action, words in MISTAKES)
    assert stream.received == 0


def test_every_method_raises_once_the_state_is_not_finite(tmp_path):
    """A file that was saved before keeps the finite state."""
    stream = loops.Live(online.FOGD(GAUSSIAN, 1e3, count=20), 2, KEY)
    stream.save(tmp_path / "stream")
    x, xs, ys = [0.1, 0.2], np.full((3, 2), 0.1), np.ones(3)
    for action in (
        lambda: stream.learn(x, 1e308),
        lambda: stream.learn(x, 1.0),
        lambda: stream.predict(x),
        lambda: stream.predict_learn(x, 1.0),
        lambda: stream.predict_many(xs),
        lambda: stream.learn_many(xs, ys),
        lambda: stream.save(tmp_path / "stream"),
    ):
        with pytest.raises(FloatingPointError, match="no longer finite after example 0"):
            action()
    loaded = loops.Live.load(tmp_path / "stream", stream.forecaster)
    assert loaded.received == 0 and loaded.predict(x) == 0


def test_a_prediction_that_is_not_finite_raises():
    """The far example has no label, so that the state is finite and the stream continues."""
    far = [1e200, 1e200]
    stream = loops.Live(online.KernelAWV(kernels.Linear(), 0.5, capacity=4), 2, KEY)
    stream.learn([0.1, 0.2], 1.0)
    for action in (
        lambda: stream.predict(far),
        lambda: stream.predict_many([far]),
        lambda: stream.predict_learn(far, np.nan),
    ):
        with pytest.raises(FloatingPointError, match="a prediction after . examples is not finite"):
            action()
    assert stream.received == 2 and np.isfinite(stream.predict([0.1, 0.2]))
    with pytest.raises(FloatingPointError, match="the prediction of example 2 is not finite"):
        stream.learn_many([far], [np.nan])
    assert stream.received == 2


@pytest.mark.float32
def test_the_dtype_of_a_stream_is_that_of_the_argument(tmp_path):
    taylor = online.PKAWV(Taylor(2, 2), 0.5)
    stream = loops.Live(taylor, 2, KEY, dtype=np.float32)
    assert isinstance(stream.predict_learn(np.ones(2), 1), float)
    dtypes = {leaf.dtype for leaf in jax.tree.leaves(stream.state)}
    assert dtypes == {jnp.dtype("float32")}
    stream.save(tmp_path / "stream")
    assert loops.Live.load(tmp_path / "stream", taylor).dtype == np.float32
    if not jax.config.jax_enable_x64:
        with pytest.raises(ValueError, match="jax_enable_x64"):
            loops.Live(taylor, 2, KEY, dtype=np.float64)


def test_memory_does_not_grow_with_the_stream():
    """No chunk that was learned is kept, neither by NumPy nor by JAX."""
    chunks, counts = [], []

    def read():
        for _ in range(8):
            xs, ys = examples()
            chunks.append(weakref.ref(xs))
            yield xs, ys

    for forecasts, state in loops.prequential(TAYLOR, read(), KEY):
        del forecasts, state
        alive = sum(chunk() is not None for chunk in chunks)
        counts.append((alive, len(jax.live_arrays())))
    # JAX may release a chunk after the next one has come; from the third on the arrays are as many
    alive, arrays = zip(*counts, strict=True)
    assert len(counts) == 8 and max(alive) <= 2 and set(arrays[2:]) == {arrays[2]}


def table_of(xs, ys):
    return pd.DataFrame(dict(a=xs[:, 0], y=ys, b=xs[:, 1], note=["-"] * len(ys)))


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "eu.csv", "tsv", "npy", "pairs"])
def test_chunks_contain_the_rows_of_files_and_pairs(tmp_path, kind):
    """Chunks extend across row groups of Parquet. All columns except the target are inputs."""
    xs, ys = examples(23)
    path, options = tmp_path / f"events.{kind}", dict(target="y")
    if kind == "parquet":
        table_of(xs, ys).to_parquet(path, row_group_size=4)
        options["inputs"] = ["a", "b"]
    elif kind in ("npy", "pairs"):
        np.save(tmp_path / "x.npy", xs)
        path, options = zip(xs, ys, strict=True), {}
    else:
        table = table_of(xs, ys).drop(columns="note")
        dialects = {"tsv": dict(sep="\t"), "eu.csv": dict(sep=";", decimal=",")}
        table.to_csv(path, index=False, **dialects.get(kind, {}))
    if kind == "npy":
        pieces = list(loops.chunks(np.load(tmp_path / "x.npy", mmap_mode="r"), ys, 10))
        assert all(isinstance(x, np.memmap) for x, _ in pieces)
    else:
        stream = loops.chunks(path, size=10, **options)
        pieces = list(stream)
        if kind != "pairs":  # a second loop starts at the first chunk
            np.testing.assert_array_equal(next(iter(stream))[1], pieces[0][1])
    assert [len(y) for _, y in pieces] == [10, 10, 3]
    np.testing.assert_allclose(np.concatenate([x for x, _ in pieces]), xs, rtol=1e-15)
    np.testing.assert_allclose(np.concatenate([y for _, y in pieces]), ys, rtol=1e-15)


def test_wrong_streams_are_refused():
    xs, ys = examples(5)
    exhausted = iter(loops.chunks(xs, ys))
    list(exhausted)
    for stream, words in [
        ("events.csv", r"a file is read by chunks\('events.csv', target="),
        ([xs, ys], "pairs .*; a ndarray was given"),
        (exhausted, "the stream is empty; an iterator"),
        (list(zip(xs, ys, strict=True)), r"examples and n labels; the shapes are \(2,\) and \(\)"),
    ]:
        for call in (partial(loops.prequential, TAYLOR, key=KEY), loops.default_forecaster):
            with pytest.raises(ValueError, match=words):
                list(call(stream))
    for wrong in (type(TAYLOR), TAYLOR.features):
        for call in (partial(loops.prequential, wrong, (xs, ys)), partial(loops.Live, wrong, 2)):
            words = "must be an object with methods init, predict and advance"
            with pytest.raises(ValueError, match=words):
                call(KEY)


def test_wrong_files_are_refused(tmp_path):
    path = tmp_path / "events.csv"
    table_of(*examples(5)).to_csv(path, index=False)
    (tmp_path / "empty.csv").write_text("a,y\n")
    mixed, junk, void = (tmp_path / name for name in ("mixed.csv", "junk.parquet", "void.csv"))
    mixed.write_text("a,y\n0.5,1\nlate,2\n")
    junk.write_text("a,y\n")
    void.write_text("")
    (tmp_path / "points.csv").write_text("a;y\n0,5;1\n1.234;2\n")
    (tmp_path / "long.csv").write_text("a,y\n1,2,3\n4,5,6\n")
    for make, words in [
        (lambda: loops.chunks(path), "column of the labels, one of a, y, b, note in"),
        (lambda: loops.chunks(path, target="z"), "has no column z; it has a, y, b"),
        (lambda: list(loops.chunks(path, target="y")), "row 2, column 'note': '-' is not a"),
        (lambda: loops.chunks(path, "y"), "labels of a file are its column `target`"),
        (lambda: loops.chunks(path, target="y", inputs="a"), r"such as \['a'\]; 'a' was"),
        (lambda: loops.chunks(path, target="y", inputs=[]), "inputs is a list of col"),
        (lambda: loops.chunks(path, target="y", inputs=["y"]), "not contain the target"),
        (lambda: loops.chunks(mixed, target="y"), "'late' is not a number: convert the"),
        (lambda: loops.chunks(tmp_path / "points.csv", target="y"), "row 3, .*'1.234' does not"),
        (lambda: loops.chunks(tmp_path / "long.csv", target="y"), "row 2: it has 3 cells, more"),
        (lambda: loops.chunks(path, target=["y"]), r"has no column \['y'\]; it has a"),
        (lambda: loops.chunks(junk, target="y"), "junk.parquet cannot be read: "),
        (lambda: loops.chunks(void, target="y"), "void.csv, row 1: it is empty; it needs"),
        (lambda: loops.chunks("events.xlsx", target="y"), "a .parquet or .csv file"),
        (lambda: loops.chunks(tmp_path / "empty.csv", target="y"), "has no rows"),
        (lambda: loops.chunks(*examples(5), target="y"), "columns of a file"),
        (lambda: list(loops.chunks([1.0, 2.0], size=3)), "has pairs"),
        (lambda: list(loops.chunks([], size=3)), "the stream is empty"),
    ]:
        with pytest.raises(ValueError, match=words):
            list(make())
    with pytest.raises(FileNotFoundError, match="no.csv does not exist"):
        loops.chunks("no.csv", target="y")


def test_commas_in_text_are_not_decimal(tmp_path):
    (tmp_path / "events.csv").write_text("a;note;y\n1.5;x 1,2;2\n")
    ((xs, ys),) = loops.chunks(tmp_path / "events.csv", target="y", inputs=["a"])
    assert xs.tolist() == [[1.5]] and ys.tolist() == [2]


def test_a_forecaster_needs_update_or_advance():
    with pytest.raises(NotImplementedError, match="Forecaster must define update or advance"):
        Forecaster().update(None, np.zeros(2), 0.0, KEY)


def test_chunks_are_converted_to_the_dtype_of_the_first_one():
    """The first chunk is float32. Later ones are float64, integers and lists."""
    xs, ys = (np.asarray(a, np.float32) for a in examples(12))
    forecaster, ones = CASES["kors"], (np.ones((6, 2), int), [1] * 6)
    pieces = [(xs[:6], ys[:6]), (xs[6:].astype(float), ys[6:].astype(float)), ones]
    mixed_dtypes = [f.prediction for f, _ in loops.prequential(forecaster, pieces, KEY)]
    float32_pieces = [(np.asarray(x, np.float32), np.asarray(y, np.float32)) for x, y in pieces]
    expected = [f.prediction for f, _ in loops.prequential(forecaster, float32_pieces, KEY)]
    assert {prediction.dtype for prediction in mixed_dtypes} == {jnp.dtype(jnp.float32)}
    np.testing.assert_array_equal(mixed_dtypes, expected)
    too_large = [pieces[0], (np.full((6, 2), 1e300), ys[:6])]
    with pytest.raises(ValueError, match="must be finite; example 6 is not, at input 0"):
        list(loops.prequential(forecaster, too_large, KEY))


def test_tables_and_lists_are_streams():
    xs, ys = examples(12)
    expected, _ = loops.prequential(TAYLOR, (xs, ys), KEY)
    pairs = (pd.DataFrame(xs, index=range(12, 0, -1)), pd.Series(ys)), (xs.tolist(), ys.tolist())
    for pair in pairs:
        forecasts, _ = loops.prequential(TAYLOR, pair, KEY)
        np.testing.assert_array_equal(forecasts.prediction, expected.prediction)
        parts = list(loops.chunks(*pair, size=6))
        np.testing.assert_array_equal(np.concatenate([x for x, _ in parts]), xs)

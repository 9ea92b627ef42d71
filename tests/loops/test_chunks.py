"""Chunks of streams longer than memory, in whatever they come, and what is told of their losses."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from test_live import CASES, KEY, TAYLOR, examples

from jsketch import loops, online, struct


def test_chunks_of_memory_mapped_files(tmp_path):
    xs, ys = examples(23)
    np.save(tmp_path / "x.npy", xs)
    np.save(tmp_path / "y.npy", ys)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"]
    pieces = list(loops.chunks(*mapped, 10))
    assert [len(y) for _, y in pieces] == [10, 10, 3]
    # nothing is read yet
    assert all(isinstance(piece, np.memmap) for pair in pieces for piece in pair)
    parts = [
        f.prediction for f, _ in loops.prequential_chunks(TAYLOR, loops.chunks(*mapped, 10), KEY)
    ]
    whole, _ = loops.prequential(TAYLOR, xs, ys, KEY)
    np.testing.assert_allclose(np.concatenate(parts), whole.prediction, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["taylor", "kors", "fogd"])
def test_chunks_follow_the_floats_of_the_first(name):
    """float32 before float64, integers, lists: what the same numbers in float32 give."""
    xs, ys = (np.asarray(a, np.float32) for a in examples(12))
    pieces = [
        (xs[:6], ys[:6]),
        (xs[6:].astype(float), ys[6:].astype(float)),
        (np.ones((6, 2), int), [1] * 6),
    ]
    mixed = [f.prediction for f, _ in loops.prequential_chunks(CASES[name], pieces, KEY)]
    same = [(np.asarray(x, np.float32), np.asarray(y, np.float32)) for x, y in pieces]
    for made, wanted in zip(mixed, loops.prequential_chunks(CASES[name], same, KEY), strict=True):
        assert made.dtype == jnp.float32
        np.testing.assert_array_equal(made, wanted[0].prediction)
    too_large = [pieces[0], (np.full((6, 2), 1e300), ys[:6])]
    with pytest.raises(ValueError, match="inputs must be finite; example 0 is not"):
        list(loops.prequential_chunks(CASES[name], too_large, KEY))


@pytest.mark.parametrize("forecaster", [CASES["kernel"], CASES["fogd"]])
def test_a_chunk_with_other_inputs_is_refused(forecaster):
    """Kernels of distances would take one column for the first of two."""
    xs, ys = examples(6)
    with pytest.raises(ValueError, match=r"shape \(2,\); the one after 6 examples has \(1,\)"):
        list(loops.prequential_chunks(forecaster, [(xs, ys), (xs[:, :1], ys)], KEY))
    _, state = loops.prequential(CASES["kernel"], xs, ys, KEY)
    with pytest.raises(ValueError, match="1 and of 2 inputs"):
        loops.prequential(CASES["kernel"], xs[:, :1], ys, KEY, state=state)


def test_tables_and_lists_are_streams(tmp_path):
    xs, ys = examples(12)
    whole, _ = loops.prequential(TAYLOR, xs, ys, KEY)
    for given in (
        (pd.DataFrame(xs, index=range(12, 0, -1)), pd.Series(ys)),
        (xs.tolist(), ys.tolist()),
    ):
        np.testing.assert_array_equal(
            loops.prequential(TAYLOR, *given, KEY)[0].prediction, whole.prediction
        )
        parts = list(loops.chunks(*given, 6))
        np.testing.assert_array_equal(np.concatenate([x for x, _ in parts]), xs)
    assert np.isfinite(
        loops.prequential(TAYLOR, xs.astype(object), ys.astype(object), KEY)[0].prediction
    ).all()


@pytest.mark.parametrize("name", ["taylor", "kors", "fogd", "kernel"])
def test_the_average_loss_is_that_of_the_labelled(name):
    """In all three loops of `stream`, and in what a live stream tells."""
    xs, ys = examples(12)
    ys[[0, 5, 6, 11]] = np.nan
    forecasts, _ = loops.prequential(CASES[name], xs, ys, KEY)
    live = loops.Live(CASES[name], 2, KEY).learn_many(xs, ys)
    errors = np.square(np.asarray(forecasts.prediction) - ys)
    wanted = [np.nan, *(np.nanmean(errors[: t + 1]) for t in range(1, 12))]
    for told in (forecasts, live):
        np.testing.assert_array_equal(told.labelled, np.isfinite(ys))
        np.testing.assert_allclose(told.average_loss, wanted, rtol=1e-12)


@struct.dataclass
class Counted:
    """Features that note each time that Python runs them."""

    calls: list = struct.field(pytree_node=False, compare=False)

    def features(self, x):
        self.calls.append(x.shape)
        return jnp.concatenate([x, x * x], axis=1)


def test_no_chunk_runs_the_features_outside_of_compiled_programs():
    """One by one their operations take longer than a chunk of thousands is learned in."""
    xs, ys = examples(40)
    forecaster = online.PKAWV(Counted([]))
    calls = []
    for count in (20, 20, 40):
        pieces = loops.chunks(xs[:count], ys[:count], 4)
        list(loops.prequential_chunks(forecaster, pieces, KEY))
        calls.append(len(forecaster.features.calls))
    # what `init` says of static mistakes it says once a stream
    assert calls[0] > 2 and calls[2] - calls[1] == calls[1] - calls[0] <= 2

"""`minimize` and `maximize`: results, failures, parallel evaluations, files, and refusals."""

import datetime
import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from rows import check_refusals, failing

import jsketch
from jsketch import Space, maximize, minimize
from jsketch.suggest import proposals
from jsketch.suggest.mixed import Columns

SPACE = Space(
    rate=(1e-4, 1.0, "log"),
    share=(0.0, 1.0),
    depth=(1, 12, int),
    trees=(1, 500, int, "log"),
    kind=["x", "y", "z"],
)


def loss(rate, share, depth, trees, kind):
    smooth = (np.log10(rate) + 2) ** 2 + (share - 0.3) ** 2 + 0.05 * (depth - 5) ** 2
    return smooth + 0.2 * (np.log(trees) - 3) ** 2 + 0.3 * (kind != "y")


def loss_with_failures(**h):
    if h["share"] > 0.6:
        raise FloatingPointError("too large")
    return np.nan if h["kind"] == "z" else loss(**h)


def assert_same(result, other):
    assert [e.candidate for e in result.evaluations] == [e.candidate for e in other.evaluations]
    np.testing.assert_array_equal(result.values, other.values)


def test_the_minimum_of_mixed_hyperparameters():
    result = minimize(loss, SPACE, 40, progress=False)
    uniform = np.random.default_rng(0).random((2000, 5))
    random_median = np.median([loss(**SPACE.decode(10 * u)) for u in uniform])
    assert result.best_value == loss(**result.best) == result.values.min()
    assert result.best_value < 0.05 < random_median
    assert result.best["kind"] == "y" and type(result.best["depth"]) is int
    assert len({tuple(e.candidate.values()) for e in result.evaluations}) == 40


def test_maximize_is_minimize_of_the_negative():
    minimum = minimize(loss, SPACE, 12, progress=False)
    maximum = maximize(lambda **h: -loss(**h), SPACE, 12, progress=False)
    np.testing.assert_array_equal(maximum.values, -minimum.values)
    assert maximum.best == minimum.best and maximum.best_value == -minimum.best_value


def test_failures_are_recorded_and_become_rare():
    result = minimize(loss_with_failures, SPACE, 30, catch=FloatingPointError, progress=False)
    frame = result.to_frame()
    assert list(frame.columns) == [*SPACE.names, "value", "failed", "error", "seconds"]
    failed = (frame.share > 0.6) | (frame.kind == "z")
    np.testing.assert_array_equal(frame.failed, failed)
    np.testing.assert_array_equal(frame.value.isna(), failed)
    assert set(frame.error[frame.share > 0.6]) == {"FloatingPointError: too large"}
    # evaluations fail in 60% of the space
    assert frame.failed[20:].mean() < 0.4
    assert not frame.duplicated(list(SPACE.names)).any()
    assert result.best_value < 0.5


def test_an_uncaught_error_ends_the_run_and_has_its_result():
    raise_at_ten, calls = failing([10], KeyError("broken"), loss)
    with pytest.raises(KeyError) as error_info:
        minimize(raise_at_ten, SPACE, 20, catch=ValueError, progress=False)
    assert [e.candidate for e in error_info.value.result.evaluations] == calls[:9]
    assert "`result`" in error_info.value.__notes__[0]


def test_a_running_evaluation_is_kept_when_another_one_of_its_batch_raises():
    def f(seconds):
        time.sleep(seconds)
        if seconds == 1.0:
            raise KeyError("broken")
        return seconds

    with pytest.raises(KeyError) as error_info:
        minimize(f, [1.0, 2.0], 2, batch=2, progress=False)
    assert error_info.value.result.values.tolist() == [2.0]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_file_resumes_and_extends_a_run(tmp_path, batch):
    settings = dict(catch=FloatingPointError, batch=batch, progress=False)
    expected = minimize(loss_with_failures, SPACE, 20, **settings)
    raise_at_ten, calls = failing([10], KeyError("broken"), loss_with_failures)
    file = tmp_path / "tuning.run"
    with pytest.raises(KeyError):
        minimize(raise_at_ten, SPACE, 14, checkpoint=file, **settings)
    result = minimize(raise_at_ten, SPACE, 14, checkpoint=file, **settings)
    assert len(result.evaluations) == 14
    n_calls = len(calls)
    assert_same(minimize(raise_at_ten, SPACE, 20, checkpoint=file, **settings), expected)
    assert len(calls) == n_calls + 6
    # the file already has 20 evaluations, so that the function is not called for the first 5
    assert len(minimize(raise_at_ten, SPACE, 5, checkpoint=file, **settings).evaluations) == 20
    assert len(calls) == n_calls + 6


def test_a_file_of_another_run_is_refused(tmp_path):
    file = tmp_path / "tuning.run"
    minimize(loss, SPACE, 3, checkpoint=file, progress=False)
    with pytest.raises(ValueError, match="another run: seed was 0, is 1"):
        minimize(loss, SPACE, 3, checkpoint=file, seed=1, progress=False)
    with pytest.raises(ValueError, match="another run: maximized was False, is True"):
        maximize(loss, SPACE, 3, checkpoint=file, progress=False)


def test_a_run_is_extended_with_another_batch(tmp_path, capsys):
    file = tmp_path / "tuning.run"
    minimize(loss, SPACE, 3, checkpoint=file, progress=False)
    result = minimize(loss, SPACE, 6, batch=5, checkpoint=file)
    assert capsys.readouterr().err.startswith("3 evaluations were loaded from tuning.run\n")
    # the points of the initial design are those of the first call
    assert_same(result, minimize(loss, SPACE, 6, progress=False))


def test_threads_evaluate_a_batch_at_the_same_time():
    barrier = threading.Barrier(3, timeout=30)

    def wait_for_others(**h):
        barrier.wait()
        return loss(**h)

    result = minimize(wait_for_others, SPACE, 12, batch=3, progress=False)
    assert_same(result, minimize(loss, SPACE, 12, batch=3, progress=False))
    assert len({tuple(e.candidate.values()) for e in result.evaluations}) == 12


@pytest.mark.slow
def test_processes_evaluate_a_batch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os\n"
        "from jsketch import Space, minimize\n"
        "def f(x):\n"
        "    if x > 0.9: raise ValueError('large')\n"
        "    return os.getpid()\n"
        "if __name__ == '__main__':\n"
        "    result = minimize(f, Space(x=(0.0, 1.0)), 4, batch=2, workers='processes',"
        " catch=ValueError, progress=False)\n"
        "    assert os.getpid() not in result.values\n"
        "    print(len(result.evaluations))\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert run.stdout == "4\n", run.stderr


@pytest.mark.parametrize(
    "candidates",
    [
        [dict(a=a, b=b) for a in range(10) for b in "uvw"],
        [(a, b) for a in range(10) for b in "uvw"],
        np.array([[a, b] for a in range(10) for b in range(3)]),
    ],
)
def test_the_best_of_a_list_of_candidates_is_found(candidates):
    def value(candidate):
        a, b = candidate.values() if isinstance(candidate, dict) else candidate
        return (float(a) - 6) ** 2 + 20 * (b in ("u", 0))

    result = minimize(value, candidates, 15, progress=False)
    assert result.best_value == 0
    assert len({repr(e.candidate) for e in result.evaluations}) == 15


STEPS = np.array([0, 1, 4])
DAY = datetime.datetime(2026, 1, 31)
NUMBERS = {
    "jax array": jnp.asarray(STEPS),
    "bfloat16 array": jnp.asarray(STEPS, jnp.bfloat16),
    "jax scalars": [jnp.float32(i) for i in STEPS],
    "arrays without axes": [np.array(i) for i in STEPS],
    "long doubles": list(STEPS.astype(np.longdouble)),
    "decimals": [Decimal(int(i)) / 10 for i in STEPS],
    "fractions and integers": [0, Fraction(1, 4), Decimal(1)],
    "large integers": [10**300 + int(i) for i in STEPS],
    "large reals": [-1.7e308, -0.85e308, 1.7e308],
    "texts": ["-1e-1", "0", "0.3"],
    "datetimes": [DAY + datetime.timedelta(hours=int(i)) for i in STEPS],
    "dates": [DAY.date() + datetime.timedelta(int(i)) for i in STEPS],
    "time differences": [datetime.timedelta(hours=int(i)) for i in STEPS],
    "datetime64": np.datetime64("2026-01-31") + STEPS,
    "datetime64 of two units": [
        np.datetime64("2026", "D"),
        *np.array(["2026-01-01T06", "2026-01-02T00"], "M8[h]"),
    ],
    "timedelta64": STEPS.astype("timedelta64[s]"),
    "timestamps": pd.Series(pd.to_datetime(STEPS, unit="ns")),
    "time zone": pd.DataFrame(dict(a=pd.to_datetime(STEPS, unit="D", utc=True))),
    "a column of objects": pd.DataFrame(dict(a=pd.Series([0, 1.0, np.int8(4)], dtype=object))),
}
CATEGORIES = {
    "codes": ["007", "010", "3"],
    "texts and a number": ["1", "2", 4],
    "numbers and None": [0, None, 4],
    "jax bools": [jnp.array(True), jnp.array(False), True],
    "NumPy bools": [np.True_, False],
}


# columns of all dtypes with a missing value in row 1
GAPS = [
    *(pd.array([1, None, 2], dtype=dtype) for dtype in ("Int64", "Float64")),
    pd.array(["x", None, "y"], dtype="string"),
    pd.array([True, None, False], dtype="boolean"),
    pd.Categorical(["x", None, "y"]),
    pd.to_datetime(["2026-01-01", None, "2026-01-02"]),
    np.array(["x", None, "y"], object),
    np.array([1, None, 2.5], object),
    np.array([1.0, np.nan, 2.5]),
]
TABLES_WITH_GAPS = [
    kind(gap) for gap in GAPS for kind in (pd.Series, lambda x: pd.DataFrame({"a": x}))
]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_and_dates_of_any_type_are_ordered(name):
    """f gets the object of the list."""
    domain = proposals.domain_of(NUMBERS[name])
    assert domain.columns == (Columns("numbers", 1),)
    np.testing.assert_allclose(np.asarray(domain.library.features)[:, 0], [0, 0.25, 1], atol=1e-12)
    if isinstance(NUMBERS[name], list):
        assert all(domain.candidate(i) is one for i, one in enumerate(NUMBERS[name]))


@pytest.mark.parametrize("name", CATEGORIES)
def test_other_values_are_categories(name):
    domain = proposals.domain_of(CATEGORIES[name])
    n_different = 3 if len(CATEGORIES[name]) == 3 and "bools" not in name else 2
    assert domain.columns == (Columns("category", n_different),)


def test_ordered_categoricals_are_categories_and_their_codes_are_numbers():
    sizes = pd.Categorical(["S", "M", "L"], categories=["S", "M", "L"], ordered=True)
    for table in (pd.Series(sizes), pd.DataFrame(dict(a=sizes))):
        assert proposals.domain_of(table).columns == (Columns("category", 3),)
    domain = proposals.domain_of(sizes.codes)
    np.testing.assert_array_equal(domain.library.features, [[0], [0.5], [1]])


def test_many_rows_of_a_jax_array_are_candidates():
    points = np.random.default_rng(0).random((1500, 2))
    domain = proposals.domain_of(jnp.asarray(points))
    assert domain.columns == (Columns("numbers", 1), Columns("numbers", 1))
    scaled = (points - points.min(0)) / np.ptp(points, axis=0)
    np.testing.assert_allclose(domain.library.features, scaled, atol=1e-12)
    assert isinstance(domain.candidate(3), jax.Array) and domain.candidate(3).shape == (2,)


def test_a_run_over_jax_numbers_and_dates_resumes(tmp_path):
    """A run over numbers of JAX has the points of the run over those of NumPy."""
    values = np.linspace(0, 1, 20)
    options = dict(evaluations=7, progress=False)

    def value(one):
        return (float(one) - 0.613) ** 2

    expected = [float(e.candidate) for e in minimize(value, values, **options).evaluations]
    path = tmp_path / "run"
    minimize(value, jnp.asarray(values), evaluations=5, progress=False, checkpoint=path)
    run = minimize(value, jnp.asarray(values), **options, checkpoint=path)
    assert [float(e.candidate) for e in run.evaluations] == expected
    days = [DAY + datetime.timedelta(days=i) for i in range(6)]
    for count in (5, 6):
        run = minimize(
            lambda day: float(day.day), days, count, progress=False, checkpoint=tmp_path / "days"
        )
    assert run.best == DAY + datetime.timedelta(days=1) and len(run.evaluations) == 6


def test_earlier_evaluations_take_the_place_of_the_first_points(tmp_path):
    """They are neither evaluated again nor in the result, and belong to a file."""
    candidates = [(a, kind) for a in range(4) for kind in ("x", "y")]
    data = [((0, "x"), 3.0), ((3, "y"), None), ((2, "x"), float("nan"))]
    evaluated = []

    def f(candidate):
        evaluated.append(candidate)
        return candidate[0]

    with pytest.warns(UserWarning, match="ends after evaluation 5: no other point"):
        result = minimize(f, candidates, 9, data=data, progress=False)
    assert len(result.evaluations) == 5 and result.best == (0, "y")
    assert not set(evaluated) & {pair[0] for pair in data}

    space = Space(a=(0.0, 1.0))
    path = tmp_path / "a.run"
    settings = dict(space=space, checkpoint=path, progress=False)
    known = [(dict(a=float(a)), (a - 0.3) ** 2) for a in np.linspace(0, 1, 6)]
    first = minimize(lambda a: (a - 0.3) ** 2, evaluations=2, data=known, **settings)
    assert abs(first.best["a"] - 0.3) < 0.1  # the model knows where it is
    assert len(minimize(lambda a: 9.0, evaluations=2, data=known, **settings).evaluations) == 2
    with pytest.raises(ValueError, match="holds another run: data"):
        minimize(lambda a: 9.0, evaluations=2, data=known[:3], **settings)


def test_a_run_ends_when_every_point_was_evaluated():
    with pytest.warns(UserWarning, match="ends after evaluation 6: no other point is left"):
        result = minimize(lambda a, b: a + b, Space(a=(1, 3, int), b=[0, 1]), 20, progress=False)
    assert sorted(result.values) == [1, 2, 2, 3, 3, 4]
    for candidates in (pd.Series(["a", "b", "c"]), [(word, (1, 2)) for word in "abc"]):
        with pytest.warns(UserWarning, match="ends after evaluation 3"):
            result = maximize(lambda one: ord(one[0]), candidates, 20, batch=2, progress=False)
        assert result.best[0] == "c"


def test_progress_is_a_line_for_every_better_value(capsys):
    result = minimize(loss, SPACE, 12)
    lines = capsys.readouterr().err.splitlines()
    best = np.minimum.accumulate(result.values)
    # the first, every better and the last evaluation
    numbers = [i + 1 for i in range(12) if i == 0 or best[i] < best[i - 1] or i == 11]
    assert [int(line.split(" of 12: ")[0]) for line in lines] == numbers
    assert f"{result.best_value:.6g} at rate=" in lines[-1]


def test_the_best_so_far_is_drawn():
    import matplotlib.pyplot as plt

    result = minimize(loss, SPACE, 5, progress=False)
    axes = result.plot()
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), np.minimum.accumulate(result.values))
    plt.close(axes.figure)


def test_without_a_success_there_is_no_best_value():
    failure, space = np.float32(-np.inf), Space(x=(0.0, 1.0))
    words = "all evaluations failed; .* last one: the value is (None|-inf)"
    with pytest.warns(UserWarning, match=words):
        result = minimize(lambda x: failure if x > 0.5 else None, space, 8, progress=False)
    assert [e.failed for e in result.evaluations] == [True] * 8
    assert len({e.error for e in result.evaluations}) == 2
    with pytest.raises(ValueError, match="no evaluation has succeeded"):
        result.best  # noqa: B018


def test_the_number_of_candidates_does_not_change_with_the_values(monkeypatch):
    """Another number of candidates would compile the programs again."""
    shapes = set()
    original_suggest = proposals.suggest

    def record_shape(library, *arguments, **options):
        shapes.add(library.features.shape)
        return original_suggest(library, *arguments, **options)

    monkeypatch.setattr(proposals, "suggest", record_shape)
    minimize(loss, SPACE, 16, progress=False)
    assert shapes == {(proposals.CANDIDATES, 7)}


def test_importing_jsketch_does_not_import_suggest():
    """tests/whole/test_readme.py imports `minimize` in a new process."""
    code = "import jsketch, sys; print('jsketch.suggest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n" and callable(jsketch.minimize)
    with pytest.raises(AttributeError, match="no attribute 'minimise'"):
        jsketch.minimise  # noqa: B018


def test_mistakes_are_refused():
    rows = [
        (3, SPACE, {}, "f must be a function"),
        (loss, dict(a=(0, 1)), {}, "space must be a Space, such as"),
        (loss, [], {}, "list of candidates is empty"),
        (loss, [dict(a=1), dict(b=2)], {}, "must have the same parts"),
        (loss, [f"word {i}" for i in range(1001)], {}, "part 0 .* has 1001 different values"),
        (loss, np.ones((3, 2, 2)), {}, "part 0 of a candidate is an array"),
        (loss, [1.0, np.nan], {}, "finite; part 0 of candidate 1 is nan"),
        (loss, [1.0, Decimal("sNaN")], {}, "finite; part 0 of candidate 1 is .*sNaN"),
        (loss, [1.0, Fraction(10**400)], {}, "finite; part 0 of candidate 1 is Frac"),
        (loss, ["1e999", "1"], {}, "finite; part 0 of candidate 0 is '1e999'"),
        (loss, np.array(["2026", "NaT"], "M8[D]"), {}, "finite; part 0 of candidate 1 is .*NaT"),
        (loss, [pd.Timestamp(0), pd.NaT], {}, "no missing values; part 0 of candidate 1 is NaT"),
        *((loss, table, {}, "no missing values; the value of row 1") for table in TABLES_WITH_GAPS),
        (loss, ["a", np.nan], {}, "no missing values; part 0 of candidate 1 is nan"),
        (loss, np.array(3.0), {}, "space must be a Space, .* or a list of candidates; array.3"),
        (loss, jnp.array(3.0), {}, "space must be a Space, .* or a list of candidates; Array.3"),
        (
            loss,
            [DAY, DAY.replace(tzinfo=datetime.UTC)],
            {},
            "dates of part 0 .* be compared",
        ),
        (loss, [DAY, DAY.date()], {}, "dates of part 0 of the candidates cannot be compared"),
        (lambda h: 1.0, SPACE, dict(catch=TypeError), r"called as f\(.*, but is defined as f\(h\)"),
        (lambda a, b: a, [(1, 2), (3, 4)], {}, r"f\(candidate\), but is defined as f\(a, b"),
        (lambda one: [one, one], [1.0, 2.0], {}, "f must return one number"),
        (loss, SPACE, dict(evaluations=0), "evaluations must be"),
        (loss, SPACE, dict(batch=0), "batch must be"),
        (loss, SPACE, dict(workers="gpu"), "workers"),
        (lambda **h: 1.0, SPACE, dict(workers="processes", batch=2), "define f by `def` in a file"),
        (loss, SPACE, dict(catch="ValueError"), "catch is an exception class"),
        (loss, SPACE, dict(seed=-1), "seed must be"),
        (loss, SPACE, dict(checkpoint=3), "checkpoint is the path of a file"),
        (loss, SPACE, dict(data=3), "data are earlier evaluations, a list of pairs"),
        (loss, SPACE, dict(data=[3]), r"data\[0\] is a pair \(candidate, value\); 3 was"),
        (loss, SPACE, dict(data=[(dict(q=1), 2)]), r"data\[0\]: unknown hyperparameters: q"),
        (loss, SPACE, dict(data=[(3, 2)]), r"data\[0\]: hyperparameters must be a mapping"),
        (len, ["a", "b"], dict(data=[("b", 1), ("c", 2)]), r"data\[1\]: 'c' is not an element"),
        (len, ["a", "b"], dict(data=[("b", np.inf)]), r"data\[0\]: the value is a finite number"),
        (len, ["a", "b"], dict(data=[("b", True)]), r"data\[0\]: the value is .*; True was"),
    ]
    check_refusals((partial(minimize, *row[:2], **row[2], progress=False), row[3]) for row in rows)


def test_the_repr_and_the_progress_have_every_hyperparameter(capsys):
    space = Space(*SPACE.hyperparameters, decay=(0.0, 1.0), layers=(10, 1000, int))
    shown = repr(minimize(lambda decay, layers, **h: loss(**h), space, 3))
    for text in (shown, capsys.readouterr().err.splitlines()[-1]):
        assert all(f"{name}=" in text for name in space.names) and "..." not in text

"""A file whose content was changed, and whose hash was renewed, is refused by a sentence that names
the file and the entry."""

import hashlib
import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization
from test_checkpoint import ARMS, BOX, FIXED, KEY, LINEAR, first_coordinate

from jsketch import Query, Space, kernels, loops, minimize, online, struct
from jsketch.bandits import GPUCB
from jsketch.box import UniformBox
from jsketch.core import history
from jsketch.sketch import Taylor
from jsketch.types import Algorithm

KERNEL = online.KernelAWV(kernels.Gaussian(0.5), 0.5, capacity=4)
SPACE = Space(x=(0.0, 1.0), n=(1, 5, int))


def run(path):
    return loops.run(FIXED, LINEAR, KEY, 8, checkpoint=path)


def exact_run(path):
    return loops.run(GPUCB(kernels.Gaussian(0.3)), LINEAR, KEY, 8, checkpoint=path)


def drive(path):
    return loops.drive(FIXED, np.sin, ARMS, KEY, 8, checkpoint=path)


def drive_over_box(path):
    return loops.drive(UniformBox(), first_coordinate, BOX, KEY, 3, checkpoint=path)


def stream(path, forecaster=KERNEL):
    if not path.exists():
        live = loops.Live(forecaster, 2, KEY)
        live.learn_many(np.linspace(-1, 1, 12).reshape(6, 2), np.linspace(0, 1, 6))
        live.save(path)
    return loops.Live.load(path)


def standardized_stream(path):
    pkawv = online.PKAWV(Taylor(2, 1), 0.5)
    return stream(path, online.Standardized(pkawv, np.zeros(2), np.asarray([1.0, 0.0])))


def tuning(path):
    f = lambda x, n: x + n  # noqa: E731
    return minimize(f, SPACE, 3, checkpoint=path, progress=False)


def put(*names, value):
    """A function that sets an entry of a nested dictionary or list; with the value `delete` it
    deletes the entry, and a function is applied to the old entry."""

    def change(content):
        for name in names[:-1]:
            content = content[name]
        if value is delete:
            del content[names[-1]]
        else:
            content[names[-1]] = value(content[names[-1]]) if callable(value) else value

    return change


def delete():
    raise NotImplementedError


def first(value):
    """A function that returns an array with another first value."""

    def change(array):
        changed = np.array(array)
        changed.ravel()[:1] = value
        return changed

    return change


def rewrite(path, header, state):
    """Changes the header and the state of a file, and renews its hash."""
    line, header_line, content = path.read_bytes().split(b"\n", 2)
    entries, arrays = json.loads(header_line), serialization.msgpack_restore(content)
    header(entries)
    state(arrays)
    rest = json.dumps(entries).encode() + b"\n" + serialization.msgpack_serialize(arrays)
    first_line = json.loads(line) | dict(sha256=hashlib.sha256(rest).hexdigest())
    path.write_bytes(json.dumps(first_line).encode() + b"\n" + rest)


def same(content):
    pass


NAN, FLOAT16 = first(np.nan), partial(np.asarray, dtype=np.float16)
STATES = [
    (
        exact_run,
        ("state", "posterior", "pulled"),
        first(1000),
        "state.posterior.pulled has the value 1000, which is not the number of one of 12 arms",
    ),
    (run, ("state", "due"), np.asarray(4, np.int32), "state.due has the value 4, which is above 3"),
    (run, ("state", "due"), np.asarray(-1, np.int32), "state.due has the value -1"),
    (run, ("result",), np.asarray(4, np.int32), "entry result has the value 4, which is above 3"),
    (
        run,
        ("state", "posterior", "mean"),
        NAN,
        "state.posterior.mean has the value nan, which is not finite",
    ),
    (
        run,
        ("state", "posterior", "mean"),
        FLOAT16,
        r"state.posterior.mean is float16\[12\], and the run has float64\[12\]",
    ),
    (
        run,
        ("state", "posterior", "variance"),
        first(-1),
        "state.posterior.variance has the value -1.0, which is negative",
    ),
    (run, ("state", "counts"), first(-2), "state.counts has the value -2"),
    (run, ("state", "information"), first(-1), "state.information has the value -1"),
    (
        run,
        ("state", "posterior", "dual"),
        lambda a: a[:, :2],
        r"state.posterior.dual is float64\[12, 2\]",
    ),
    (
        run,
        ("state", "posterior", "mean"),
        delete,
        "at ./state/posterior is not a Posterior: it lacks mean",
    ),
    (
        run,
        ("trace", "arm"),
        first(12),
        "trace.arm has the value 12, which is not the number of one",
    ),
    (run, ("t",), np.asarray(9, np.int32), "entry t is 9, and the horizon is 8"),
    (run, ("t",), np.asarray(-1, np.int32), "entry t has the value -1, which is negative"),
    (run, ("trace",), np.zeros(3), "other fields"),
    (drive, ("x",), first(40), "entry x has the value 40, outside the domain"),
    (drive, ("y",), first(np.inf), "entry y has an infinite value"),
    (drive, ("y",), lambda a: a[:3], r"entry y is float64\[3\], and the run has float64\[8\]"),
    (drive, ("n_unobserved",), 9, "n_unobserved is 9, and not a whole number of at most 8"),
    (drive, ("state", "sums"), NAN, "state.sums has the value nan"),
    (drive_over_box, ("x",), first(1.5), "entry x has the value 1.5, outside the domain"),
    (stream, ("inverse",), NAN, "entry inverse has the value nan, which is not finite"),
    (stream, ("used",), np.asarray(-1, np.int32), "entry used has the value -1, which is negative"),
    (stream, ("points",), lambda a: a[:1], r"entry points is float64\[1, 2\]"),
    (
        stream,
        ("points",),
        lambda a: np.tile(a, (3, 1)),
        "state has arrays that do not fit together",
    ),
    (standardized_stream, ("scale",), NAN, "entry scale has the value nan, which is not finite"),
    (standardized_stream, ("scale",), first(np.inf), "entry scale has the value inf"),
    (standardized_stream, ("scale",), first(-1), "scale has the value -1.0, which is negative"),
    (standardized_stream, ("middle",), NAN, "entry middle has the value nan"),
    (standardized_stream, ("late",), NAN, "entry late has the value nan"),
    (standardized_stream, ("varied",), first(-1), "varied has the value -1, which is negative"),
    (standardized_stream, ("varied",), first(999), "varied has the value 999, which is above"),
]
HEADERS = [
    (run, ("capacity",), delete, "entry capacity is missing"),
    (run, ("capacity",), 10**9, "capacity is 1000000000, and not a whole number of at most 12"),
    (run, ("capacity",), 8, None),
    (run, ("belongs",), delete, "entry belongs is missing"),
    (drive, ("evaluations",), delete, "entry evaluations is missing"),
    (drive, ("evaluations",), 2, r"entry x is int32\[8\], and the run has int32\[2\]"),
    (stream, ("received",), delete, "entry received is missing"),
    (stream, ("received",), -1, "received is -1, and not a whole number"),
    (stream, ("received",), 10**30, "received is 10*, and not a whole number of at most"),
    (stream, ("labelled",), 99, "labelled is 99, and not a whole number of at most 6"),
    (stream, ("error_sums",), [1.0], "error_sums is .1.0., and not two sums of errors"),
    (stream, ("dtype",), "int8", "dtype is 'int8', and not one of float16"),
    (stream, ("dtype",), "float32", r"is float64\[\], and the run has float32\[\]|float64"),
    (stream, ("key",), [1, 2, 3], "entry key is .1, 2, 3., and not a"),
    (stream, ("key_kind",), "rot13", "and not a rot13 key"),
    (stream, ("inputs",), 0, "cannot be loaded: inputs must be"),
    (stream, ("forecaster", "name"), "No", "the forecaster in .* cannot be made"),
    (tuning, ("initial",), delete, "entry initial is missing"),
    (tuning, ("evaluations",), {}, "evaluations is {}, and not a list"),
    (tuning, ("evaluations", 1, 0), [0.5], r"evaluations\[1\] is no evaluation of this space"),
    (tuning, ("evaluations", 1, 0), [0.5, 7.0], r"evaluations\[1\] is no evaluation"),
    (tuning, ("evaluations", 1, 1), "best", r"evaluations\[1\] is no evaluation"),
    (tuning, ("evaluations", 2, 3), -1.0, r"evaluations\[2\] is no evaluation"),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """{function: the content of the file that it writes}."""
    folder, contents = tmp_path_factory.mktemp("saved"), {}
    for write in (run, exact_run, drive, drive_over_box, stream, standardized_stream, tuning):
        path = folder / write.__name__
        write(path)
        contents[write] = path.read_bytes()
    return contents


@pytest.mark.parametrize("part", ["header", "state"])
def test_changed_entries_are_refused(part, saved, tmp_path):
    path = tmp_path / "changed.file"
    for read, names, value, words in HEADERS if part == "header" else STATES:
        path.write_bytes(saved[read])
        change = put(*names, value=value)
        rewrite(path, **(dict(header=same, state=same) | {part: change}))
        if words is None:  # a smaller capacity than that of the bandit changes nothing
            read(path)
            continue
        with pytest.raises(ValueError, match=words) as error_info:
            read(path)
        assert "changed.file" in str(error_info.value), names


def test_a_renewed_hash_alone_changes_nothing(saved, tmp_path):
    for read, content in saved.items():
        path = tmp_path / read.__name__
        path.write_bytes(content)
        rewrite(path, same, same)
        read(path)


@struct.dataclass
class Rewards:
    """A state of a user: the reward of each arm, infinite before the first, and all rewards."""

    mean: jax.Array
    rewards: jax.Array


@struct.dataclass
class Listing(Algorithm):
    """Pulls the arms in order. The shapes and the dtypes of its states change."""

    def init(self, arms, key, *, horizon=None, data=None):
        dtype = arms.features.dtype
        return Rewards(jnp.full(arms.count, jnp.inf, dtype), jnp.zeros(0, jnp.float32))

    def ask(self, state, arms, key, limit=None):
        return Query.of(jnp.argmax(state.mean))

    def tell(self, state, arms, query, y, key):
        rewards = jnp.append(state.rewards.astype(y.dtype), y)
        return Rewards(state.mean.at[query.index].set(y), rewards), history.round_info(query, y)


def test_states_of_a_user_may_have_any_values(tmp_path):
    result = loops.drive(Listing(), np.sin, ARMS, KEY, 3, checkpoint=tmp_path / "run")
    resumed = loops.drive(Listing(), pytest.fail, ARMS, KEY, 3, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(result.state.rewards, resumed.state.rewards)
    assert np.isinf(resumed.state.mean).sum() == 9


def test_contents_that_are_not_a_state_are_refused(saved, tmp_path):
    path = tmp_path / "changed.file"
    for read, content in saved.items():
        line, header, _ = content.split(b"\n", 2)
        for rest in (header + b"\n\xc1\xc1", b"[]\n", b"{\n", b""):
            digest = dict(sha256=hashlib.sha256(rest).hexdigest())
            first_line = json.dumps(json.loads(line) | digest).encode()
            path.write_bytes(first_line + b"\n" + rest)
            if read is tuning and rest.startswith(header):
                continue  # the header alone has the evaluations
            with pytest.raises(ValueError, match=r"changed\.file") as error_info:
                read(path)
            assert type(error_info.value) is ValueError

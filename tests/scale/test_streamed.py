"""Candidates in a file have the picks of arms in memory, for any size of the buffer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import by_name, check_refusals
from small_problems import KEY

from jsketch import Arms, Query, kernels
from jsketch.bandits import BBKB, Draw, Extend, FixedBKB, history
from jsketch.core.history import random_arm
from jsketch.results import Result
from jsketch.scale import FileEvaluations, Streamed, arm_random, open_arms

ASK = jax.jit(lambda bandit, state, arms, key: bandit.ask(state, arms, key))
TELL = jax.jit(lambda bandit, state, *evaluations: bandit.tell(state, *evaluations))

ARMS, CHUNK = 37, 8  # the last chunk has five arms
SMALL = dict(keep=6, offer=3)  # small sizes, for which chunks are read again
COMMON = dict(kernel=kernels.Gaussian(0.4), regularization=0.05, noise_std=0.2, capacity=64)
OBSERVED = np.array([3, 11, 3, 36, 20])
DICTIONARY = np.array([3, 20, 25])  # arm 25 was not observed
Y = np.array([0.5, -0.2, 0.7, np.nan, 0.1])


def arms_of(dtype="float64", distinct=False):
    """Arms, unless `distinct` with duplicates within a chunk and in different chunks."""
    x = np.random.default_rng(0).uniform(0, 2, (ARMS, 2)).astype(dtype)
    if not distinct:
        x[[30, 36]], x[20] = x[5], x[19]
    return x


def save_arms(folder, x, name="arms.npy", chunk=CHUNK, dtype=None):
    np.save(folder / name, x)
    return open_arms(folder / name, chunk=chunk, dtype=dtype)


def rewards_of(query, x, t):
    """Noisy rewards [B], one of which is a failure."""
    index, mask = np.asarray(query.index), np.asarray(query.mask)
    y = np.sin(3 * x[index].sum(1).astype(float)) + 0.1 * np.sin(7.0 * t + np.arange(len(index)))
    y[t % len(y)] = np.nan
    return np.where(mask, y, np.nan)


def arms_asked(query):
    return np.asarray(query.index)[np.asarray(query.mask)]


def run_both(folder, bandit, rounds, x=None, warm=False, pend=False, **options):
    """(pairs of batches, numbers of chunks that are read for them, last states), in memory and of
    the file. With `pend`, every second batch is pending at the next one."""
    x = arms_of() if x is None else x
    arms = Arms(jnp.asarray(x, jnp.float64))
    over_file = Streamed(bandit, **SMALL | options)
    file = save_arms(folder, x, dtype="float64")
    past = file_past = None
    if warm:
        past = history.of_evaluations(arms, OBSERVED, Y, DICTIONARY)
        file_past = FileEvaluations(OBSERVED, Y, DICTIONARY)
    state = bandit.init(arms, KEY, data=past)
    file_state = over_file.init(file, KEY, data=file_past)
    batches, reads, pending = [], [], []
    for t in range(rounds):
        ask_key = jax.random.fold_in(KEY, 100 + t)
        query, chosen = (
            ASK(bandit, state, arms, ask_key),
            over_file.choose(file_state, file, ask_key),
        )
        batches.append((arms_asked(query).tolist(), arms_asked(chosen.query).tolist()))
        reads.append(chosen.n_reads)
        pending.append((query, chosen.query))
        if pend and t % 2 == 0:
            state = bandit.pend(state, arms, query)
            file_state = over_file.pend(file_state, file, chosen.query)
            continue
        for in_memory, of_file in pending:
            y, key = rewards_of(in_memory, x, t), jax.random.fold_in(KEY, t)
            state, info = TELL(bandit, state, arms, in_memory, jnp.asarray(y), key)
            ends = Result.RUNNING if in_memory.mask.any() else Result.NOTHING_TO_ASK
            assert int(info.result) == ends
            file_state, file_info = over_file.tell(file_state, file, of_file, y, key)
            assert jax.tree.map(int, file_info.replace(width=0)) == jax.tree.map(
                int, info.replace(width=0)
            )
            np.testing.assert_allclose(file_info.width, info.width, rtol=1e-9)
        pending = []
    return batches, reads, state, file_state


CASES = {  # name: (bandit, rounds, options of `run_both`)
    # a wide kernel, so that picks change the scores of other arms
    "wide": (
        FixedBKB(**COMMON | dict(kernel=kernels.Gaussian(1.5)), batch=12),
        3,
        dict(warm=True, keep=2, offer=1),
    ),
    "fixed_from_nothing": (FixedBKB(**COMMON, batch=8), 5, {}),
    # few arms are certain to be drawn into the dictionary
    "pending": (
        FixedBKB(**COMMON, qbar=0.05, batch=8, max_pending=16),
        3,
        dict(warm=True, pend=True, x=arms_of("float32")),
    ),
    # arms in the dictionary have other rounding errors than their duplicates
    "fresh_draws": (
        FixedBKB(**COMMON, qbar=0.05, batch=8, dictionary=Draw()),
        4,
        dict(x=arms_of(distinct=True)),
    ),
    "extended": (FixedBKB(**COMMON, batch=8, dictionary=Extend(9.0)), 6, {}),
    "no_repeat": (FixedBKB(**COMMON, batch=8, repeat=False), 6, {}),
    "all_kept": (FixedBKB(**COMMON, batch=8), 3, dict(keep=64, offer=64)),
}


@pytest.mark.filterwarnings("ignore:.*repeat the features")
@by_name(CASES, CASES.keys() - {"pending", "no_repeat"})
def test_the_picks_are_those_of_the_arms_in_memory(tmp_path, name):
    bandit, rounds, options = CASES[name]
    batches, reads, state, file_state = run_both(tmp_path, bandit, rounds, **options)
    assert max(len(in_memory) for in_memory, _ in batches) > 4
    for in_memory, of_file in batches:
        assert of_file == in_memory
    # some of the 5 chunks are read again unless all arms are kept
    assert (max(reads) > 5) == (name != "all_kept")
    if name == "no_repeat":
        assert sorted(arm for batch, _ in batches for arm in batch) == list(range(ARMS))
    number = np.asarray(file_state.number)
    numbers, tracked = number[number < ARMS], file_state.tracked
    assert set(np.flatnonzero(state.counts)) <= set(numbers.tolist())
    inducing = numbers[np.asarray(tracked.inducing)[: len(numbers)]]
    np.testing.assert_array_equal(inducing, np.flatnonzero(state.inducing))
    for field in ("counts", "sums", "pending", "tried"):
        values = np.asarray(getattr(tracked, field))[: len(numbers)]
        np.testing.assert_allclose(values, np.asarray(getattr(state, field))[numbers], atol=1e-12)
    for field in ("mean", "variance"):
        values = np.asarray(getattr(tracked.posterior, field))[: len(numbers)]
        expected = np.asarray(getattr(state.posterior, field))[numbers]
        np.testing.assert_allclose(values, expected, atol=1e-9)


def test_random_numbers_of_single_arms_are_those_of_all_arms():
    index = np.array([0, 3, 4, 35, 36], np.int32)
    for key in (KEY, jax.random.key_data(KEY)):
        for dtype in (jnp.float32, jnp.float64):
            entries = arm_random.uniform_at(key, jnp.asarray(index), ARMS, dtype)
            expected = jax.random.uniform(key, (ARMS,), dtype)[index]
            np.testing.assert_array_equal(entries, expected)


def test_a_capacity_that_is_exceeded_grows(tmp_path):
    """The batch is observed, and the next one is that of arms in memory with a larger capacity."""
    x = arms_of(distinct=True)  # the scores of equal arms tie, and rounding chooses one of them
    file, large = save_arms(tmp_path, x), CASES["wide"][0]
    small = Streamed(large.replace(capacity=4), **SMALL)
    state, file_state, arms = large.init(Arms(x), KEY), small.init(file, KEY), Arms(jnp.asarray(x))
    for t in range(2):
        query = ASK(large, state, arms, KEY)
        of_file = small.ask(file_state, file, KEY)
        np.testing.assert_array_equal(arms_asked(of_file), arms_asked(query))
        y = rewards_of(query, x, t)
        state, _ = TELL(large, state, arms, query, jnp.asarray(y), KEY)
        file_state, info = small.tell(file_state, file, of_file, y, KEY)
        assert int(info.result) == Result.RUNNING
        assert int(info.dictionary_size) == int(state.dictionary_size) > 4


@pytest.mark.filterwarnings("ignore:.*repeat the features")
def test_empty_histories_and_files_without_new_arms(tmp_path):
    """Empty lists equal no data. After evaluations of all arms the file has no new arm."""
    x = arms_of("float32")
    file, over_file = save_arms(tmp_path, x), Streamed(CASES["pending"][0], **SMALL)
    no_data, empty = (
        over_file.init(file, KEY, data=data) for data in (None, FileEvaluations([], []))
    )
    asked = [arms_asked(over_file.ask(state, file, KEY)).tolist() for state in (no_data, empty)]
    assert asked[0] == asked[1] and asked[0][0] == int(random_arm(Arms(x), KEY))
    all_arms = FileEvaluations(np.arange(ARMS), np.sin(np.arange(ARMS)))
    full = over_file.init(file, KEY, data=all_arms)
    chosen, posterior = over_file.choose(full, file, KEY), full.tracked.posterior
    width = over_file.confidence_width(full, file)
    assert posterior.mean.dtype == width.dtype == jnp.float32
    scores = posterior.mean + width * jnp.sqrt(posterior.variance)
    assert int(chosen.query.index[0]) == int(scores[:ARMS].argmax())
    assert chosen.query.size == 8


def test_invalid_files_are_refused(tmp_path):
    x = arms_of()
    (tmp_path / "text.npy").write_text("1 2 3")
    (tmp_path / "nothing.npy").touch()
    with_nan = x.copy()
    with_nan[29, 1] = np.nan
    rows = (
        (lambda: open_arms(tmp_path / "none.npy"), "there is no file"),
        (lambda: open_arms(5), "takes the path of a .npy file; 5 was given"),
        (lambda: open_arms(tmp_path / "text.npy"), r"not a \.npy file of numbers"),
        (lambda: open_arms(tmp_path / "nothing.npy"), r"not a \.npy file of numbers.*No data left"),
        (lambda: save_arms(tmp_path, x[:, 0]), r"must be a matrix \[A, d\].*\(37,\)"),
        (lambda: save_arms(tmp_path, x.astype(int)), "in native byte order; .* has int64"),
        (lambda: save_arms(tmp_path, np.asfortranarray(x)), "Fortran order"),
        (lambda: save_arms(tmp_path, x, chunk=0), "chunk must be an integer of at least 1"),
        (lambda: save_arms(tmp_path, x, dtype=int), "dtype must be a floating dtype"),
        (lambda: save_arms(tmp_path, with_nan).read(3), "be finite; arm 29, feature 1 .* is nan"),
    )
    check_refusals(rows)
    file = save_arms(tmp_path, x)
    (tmp_path / "arms.npy").write_bytes((tmp_path / "arms.npy").read_bytes()[:-50])
    with pytest.raises(ValueError, match="shorter than its header"):
        open_arms(tmp_path / "arms.npy")
    with pytest.raises(ValueError, match=r"ends before arm 33; it had 37 arms"):
        file.read(4)
    np.save(tmp_path / "arms.npy", x[:, :1])
    with pytest.raises(ValueError, match=r"has changed .* \[37, 1\] .* \[37, 2\]"):
        next(file.read_in_order())


def test_mistakes_are_refused(tmp_path):
    x = arms_of()
    file, fixed = save_arms(tmp_path, x), FixedBKB(**COMMON, batch=4)
    over_file = Streamed(fixed)
    state = over_file.init(file, KEY, data=FileEvaluations(OBSERVED, Y, DICTIONARY))
    ard = fixed.replace(kernel=kernels.Gaussian(np.ones(3)))

    def begin(bandit=fixed, arms=file, data=None, **options):
        return Streamed(bandit, **options).init(arms, KEY, data=data)

    query, query_4 = (Query(jnp.array([arm], jnp.int32), jnp.ones(1, bool)) for arm in (40, 4))
    other_key = jax.random.key(0, impl="rbg")
    rows = (
        (lambda: begin(BBKB(**COMMON)), "takes a FixedBKB; a BBKB"),
        (lambda: begin(keep=5, offer=6), "keep must be at least offer; keep=5, offer=6"),
        (lambda: begin(keep=0), "keep must be an integer"),
        (lambda: begin(ard), "lengthscale has shape"),
        (lambda: begin(arms=Arms(x)), r"a file, open_arms\(path\).*Arms was given"),
        (lambda: begin(data=FileEvaluations([37], [0.0])), "contains arm 37; the arms are"),
        (lambda: begin(data=FileEvaluations(rewards=[0.0])), "give arms with them"),
        (
            lambda: over_file.tell(state, file, query, jnp.zeros(1), KEY),
            "the query contains arm 40",
        ),
        (
            lambda: jax.jit(lambda s: over_file.ask(s, file, KEY))(state),
            "call ask and tell in a Python loop",
        ),
        (lambda: over_file.pend(state, file, query_4), "1 distinct arms would be pending"),
        (lambda: arm_random.check_counting(other_key, ARMS), "default implementation"),
    )
    check_refusals(rows)

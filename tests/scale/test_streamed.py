"""Candidates in a file have the picks of arms in memory, for any size of the buffer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import by_name, check_refusals
from small_problems import ASK, INIT, KEY, TELL

from jsketch import Arms, Query, kernels
from jsketch.bandits import BBKB, FixedBKB, history
from jsketch.scale import FileEvaluations, Streamed, open_arms, shards, sweep

ARMS, CHUNK = 37, 8  # the last chunk has five arms
SMALL = dict(keep=6, offer=3)  # small sizes, for which chunks are read again
COMMON = dict(kernel=kernels.Gaussian(0.4), regularization=0.05, noise_std=0.2, capacity=64)
OBSERVED = np.array([3, 11, 3, 36, 20])
DICTIONARY = np.array([3, 20, 25])  # arm 25 was not observed
Y = np.array([0.5, -0.2, 0.7, np.nan, 0.1])


def arms_of(dtype="float64"):
    """Arms with duplicates within a chunk and in different chunks."""
    x = np.random.default_rng(0).uniform(0, 2, (ARMS, 2)).astype(dtype)
    x[[30, 36]], x[20] = x[5], x[19]
    return x


def save_arms(folder, x, name="arms.npy", chunk=CHUNK):
    np.save(folder / name, x)
    return open_arms(folder / name, chunk=chunk)


def rewards_of(query, x, t):
    """Noisy rewards [B], one of which is a failure."""
    index, mask = np.asarray(query.index), np.asarray(query.mask)
    y = np.sin(3 * x[index].sum(1).astype(float)) + 0.1 * np.sin(7.0 * t + np.arange(len(index)))
    y[t % len(y)] = np.nan
    return np.where(mask, y, np.nan)


def arms_asked(query):
    return np.asarray(query.index)[np.asarray(query.mask)]


def inducing_points(sketch):
    """The distinct inducing points."""
    arms = sketch.dictionary.index[sketch.dictionary.mask]
    return np.unique(np.asarray(sketch.domain.features)[np.asarray(arms)], axis=0)


def run_both(folder, bandit, rounds, warm=False, pend=False, **options):
    """(pairs of batches, numbers of chunks that are read for them, last states), in memory and of
    the file. With `pend`, every second batch is pending at the next one."""
    x = arms_of("float32" if options.get("screen") else "float64")
    domain = Arms(jnp.asarray(x, jnp.float64))
    over_file = Streamed(bandit, **SMALL | options)
    file = save_arms(folder, x)
    if warm:
        past = history.of_evaluations(domain, OBSERVED, Y)
        state = INIT(bandit, domain.features, past.pull_counts, past.reward_sums, DICTIONARY)
        file_state = over_file.init(file, KEY, data=FileEvaluations(OBSERVED, Y, DICTIONARY))
    else:
        state, file_state = bandit.init(domain, KEY), over_file.init(file, KEY)
    batches, reads, pending = [], [], []
    for t in range(rounds):
        query, chosen = ASK(bandit, state), over_file.choose(file_state)
        batches.append((arms_asked(query).tolist(), arms_asked(chosen.query).tolist()))
        assert not chosen.incomplete
        reads.append(chosen.n_reads)
        pending.append((query, chosen.query))
        if pend and t % 2 == 0:
            state, file_state = bandit.pend(state, query), over_file.pend(file_state, chosen.query)
            continue
        for in_memory, of_file in pending:
            y, key = rewards_of(in_memory, x, t), jax.random.fold_in(KEY, t)
            state, info = TELL(bandit, state, in_memory, jnp.asarray(y), key)
            assert not bool(info.overflow)
            assert int(info.dictionary_size) == int(state.dictionary.size)
            file_state, file_info = over_file.tell(file_state, of_file, y, key)
            assert int(file_info.dictionary_size) == int(file_state.sketch.dictionary.size)
            # low-rank updates, which are for arms in memory, omit arms that repeat another
            dictionaries = inducing_points(file_state.sketch), inducing_points(state)
            np.testing.assert_array_equal(*dictionaries)
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
    "screened": (
        FixedBKB(**COMMON, qbar=0.05, batch=8, max_pending=16),
        3,
        dict(warm=True, pend=True, screen=True),
    ),
    "extended": (FixedBKB(**COMMON, batch=8, resparsify=9.0), 6, {}),
    "no_repeat": (FixedBKB(**COMMON, batch=8, repeat=False), 6, {}),
    "all_kept": (FixedBKB(**COMMON, batch=8), 3, dict(keep=64, offer=64)),
}


@pytest.mark.filterwarnings("ignore:.*repeat the features")
@by_name(CASES, CASES.keys() - {"screened", "no_repeat"})
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
    tracked = number[number < ARMS]
    assert set(np.flatnonzero(state.pull_counts)) <= set(tracked.tolist())
    for field in ("pull_counts", "reward_sums", "mean", "variance"):
        values = np.asarray(getattr(file_state.sketch, field))[: len(tracked)]
        np.testing.assert_allclose(values, np.asarray(getattr(state, field))[tracked], atol=1e-9)
    # the sweep over the file reads W as a triangular matrix
    assert (np.tril(np.asarray(file_state.sketch.whiten), -1) == 0).all()


def scores_and_bounds(folder, seed):
    """(bounds in float32, scores in float32, scores in float64) of arms with near-duplicates."""
    random = np.random.default_rng(seed)
    centres = random.uniform(0, 4, (60, 3))
    noise = 10.0 ** -(seed % 4) * random.standard_normal((600, 3))
    x = centres[random.integers(60, size=600)] + noise
    file = save_arms(folder, x.astype(np.float32), chunk=600)
    kernel, lam = kernels.Gaussian(random.uniform(0.5, 2)), 10 ** random.uniform(-3, -1)
    over_file = Streamed(FixedBKB(kernel, lam, capacity=64), screen=True)
    observed = random.integers(600, size=50)
    state = over_file.init(file, KEY, data=FileEvaluations(observed, random.standard_normal(50)))
    x, excluded, width = jnp.asarray(file.read(0)), jnp.zeros(0, jnp.int32), jnp.asarray(2.0)
    new_arms = np.setdiff1d(np.arange(600), np.asarray(state.number))

    def scores(dtype, safety):
        factors = sweep.factors(state.sketch, kernel, lam, 600, dtype)
        rows, arms = x.astype(dtype), jnp.asarray(600, jnp.int32)
        top = sweep.top_arms(factors, kernel, lam, width, rows, excluded, arms, 600, safety)
        return np.asarray(top.score, float)[new_arms]

    return scores(jnp.float32, 8.0), scores(jnp.float32, 0.0), scores(jnp.float64, 0.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scores_in_float64_are_below_the_bounds_of_float32(tmp_path):
    """The median of largest slack / largest rounding error over 12 problems is below 100."""
    slack = []
    for seed in range(12):
        bound, score, exact = scores_and_bounds(tmp_path, seed)
        assert (exact <= bound).all()
        slack.append(np.max(bound - exact) / np.max(np.abs(score - exact)))
    assert np.median(slack) < 100


@pytest.mark.filterwarnings("ignore:.*repeat the features")
def test_a_violated_bound_is_flagged(tmp_path):
    """With a safety of 0 the bounds in float32 may be below the scores in float64."""
    x = arms_of("float32")
    over_file = Streamed(CASES["screened"][0], **SMALL, screen=True, safety=0.0)
    data = FileEvaluations(OBSERVED, Y, DICTIONARY)
    state = over_file.init(save_arms(tmp_path, x), KEY, data=data)
    assert over_file.choose(state).incomplete
    with pytest.warns(UserWarning, match="may have missed arms"):
        over_file.ask(state, KEY)


@pytest.mark.filterwarnings("ignore")
def test_empty_histories_and_files_without_new_arms(tmp_path):
    """Empty lists equal no data. After evaluations of all arms the file has no new arm."""
    x = arms_of("float32")
    file, over_file = save_arms(tmp_path, x), Streamed(CASES["screened"][0], **SMALL, screen=True)
    starts = (None, FileEvaluations([], []))
    no_data, empty = (over_file.init(file, KEY, data=data) for data in starts)
    asked = [arms_asked(over_file.choose(state).query).tolist() for state in (no_data, empty)]
    assert asked[0] == asked[1] and asked[0][0] == int(no_data.first_arm)
    all_arms = FileEvaluations(np.arange(ARMS), np.sin(np.arange(ARMS)))
    full_state = over_file.init(file, KEY, data=all_arms)
    chosen, width = over_file.choose(full_state), float(over_file.confidence_width(full_state))
    scores = full_state.sketch.mean + width * jnp.sqrt(full_state.sketch.variance)
    assert int(chosen.query.index[0]) == int(scores[:ARMS].argmax())
    assert not chosen.incomplete and chosen.query.size == 8


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
        (lambda: begin(screen=True), "this file has float64"),
        (lambda: begin(ard), "lengthscale has shape"),
        (lambda: begin(arms=Arms(x)), r"a file, open_arms\(path\).*Arms was given"),
        (lambda: begin(data=FileEvaluations([37], [0.0])), "contains arm 37; the arms are"),
        (lambda: begin(data=FileEvaluations(rewards=[0.0])), "give arms with them"),
        (lambda: over_file.tell(state, query, jnp.zeros(1), KEY), "the query contains arm 40"),
        (lambda: jax.jit(over_file.ask)(state, KEY), "call ask and tell in a Python loop"),
        (lambda: over_file.pend(state, query_4), "1 distinct arms would be pending"),
        (lambda: shards.check_counting(other_key, ARMS), "default implementation"),
    )
    check_refusals(rows)

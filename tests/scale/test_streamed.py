"""Candidates in a file: the picks of the arms in memory, whatever is kept of a sweep; a bound of
float32 that is checked; files that are wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import INIT, KEY

from jsketch import Arms, Query, kernels
from jsketch.bandits import BBKB, BKB, FixedBKB, history
from jsketch.scale import Streamed, open_arms, shards
from jsketch.scale.streamed import own, sweep, table

ARMS, CHUNK = 37, 8  # the last chunk has five
SMALL = dict(keep=6, offer=3)  # so few that chunks are read again
COMMON = dict(kernel=kernels.Gaussian(0.4), regularization=0.05, noise_std=0.2, capacity=64)
ASK = jax.jit(lambda bandit, state: bandit.ask(state, KEY))
TELL = jax.jit(lambda bandit, state, query, y, key: bandit.tell(state, query, y, key))
DONE = np.array([3, 11, 3, 36, 20])
KEEP = np.array([3, 20, 25])  # a dictionary with an arm that nothing is known of
Y = np.array([0.5, -0.2, 0.7, np.nan, 0.1])


def arms_of(dtype="float64"):
    """Arms among which several are the same, within a chunk and in others."""
    x = np.random.default_rng(0).uniform(0, 2, (ARMS, 2)).astype(dtype)
    x[[30, 36]], x[20] = x[5], x[19]
    return x


def saved(folder, x, name="arms.npy", chunk=CHUNK):
    np.save(folder / name, x)
    return open_arms(folder / name, chunk=chunk)


def rewards_of(query, x, t):
    """Noisy rewards [B], one of them a failure."""
    index, mask = np.asarray(query.index), np.asarray(query.mask)
    y = np.sin(3 * x[index].sum(1).astype(float)) + 0.1 * np.sin(7.0 * t + np.arange(len(index)))
    y[t % len(y)] = np.nan
    return np.where(mask, y, np.nan)


def arms_asked(query):
    return np.asarray(query.index)[np.asarray(query.mask)]


def both(folder, bandit, rounds, warm=False, pend=False, **options):
    """The batches in memory and of the file, round by round, and the last states. With pend every
    second batch is pending while the next one is chosen."""
    screen = options.get("screen", False)
    x = arms_of("float32" if screen else "float64")
    domain = Arms(jnp.asarray(x, jnp.float64))
    streamed = Streamed(bandit, **SMALL | options)
    file = saved(folder, x)
    if warm:
        counts, sums = history.of_evaluations(domain, DONE, Y)
        state = INIT(bandit, domain.features, counts, sums, KEEP)
        other = streamed.init(file, KEY, arms=DONE, rewards=Y, dictionary=KEEP)
    else:
        state, other = bandit.init(domain, KEY), streamed.init(file, KEY)
    batches, reads, waiting = [], [], []
    for t in range(rounds):
        query, chosen = ASK(bandit, state), streamed.choose(other)
        batches.append((arms_asked(query).tolist(), arms_asked(chosen.query).tolist()))
        assert not chosen.missed
        reads.append(chosen.chunks)
        waiting.append((query, chosen.query))
        if pend and t % 2 == 0:
            state, other = bandit.pend(state, query), streamed.pend(other, chosen.query)
            continue
        for one, another in waiting:
            y, key = rewards_of(one, x, t), jax.random.fold_in(KEY, t)
            state, info = TELL(bandit, state, one, jnp.asarray(y), key)
            assert not bool(info.overflow)
            other, same = streamed.tell(other, another, y, key)
            assert int(same.dictionary_size) == int(info.dictionary_size)
        waiting = []
    return batches, reads, getattr(state, "sketch", state), other


CASES = {
    # a wide kernel, so that picks change the scores of other arms
    "bbkb": (
        BBKB(**COMMON | dict(kernel=kernels.Gaussian(1.5)), ratio=40.0, max_batch=12),
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
    "no_repeat": (FixedBKB(**COMMON, batch=8, repeat=False), 6, {}),
    "all_kept": (FixedBKB(**COMMON, batch=8), 3, dict(keep=64, offer=64)),
}
QUICK = ("screened",)


@pytest.mark.filterwarnings("ignore:.*repeat the features")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_the_picks_are_those_of_the_arms_in_memory(tmp_path, name):
    bandit, rounds, options = CASES[name]
    batches, reads, state, other = both(tmp_path, bandit, rounds, **options)
    assert max(len(wanted) for wanted, _ in batches) > 4
    for wanted, found in batches:
        assert found == wanted
    # chunks are read again where the kept arms do not say enough, and only there
    assert (max(reads) > 5) == (name not in ("all_kept",))
    if name == "no_repeat":
        assert sorted(arm for batch, _ in batches for arm in batch) == list(range(ARMS))
    number = np.asarray(other.number)
    known = number[number < ARMS]
    assert set(np.flatnonzero(state.pull_counts)) <= set(known.tolist())
    for field in ("pull_counts", "reward_sums", "mean", "variance"):
        found = np.asarray(getattr(other.sketch, field))[: len(known)]
        np.testing.assert_allclose(found, np.asarray(getattr(state, field))[known], atol=1e-9)


def test_some_numbers_of_a_draw_are_drawn_alone():
    index = np.array([36, 0, 19], np.int32)
    found = shards.uniform_at(KEY, jnp.asarray(index), ARMS, jnp.float64)
    np.testing.assert_array_equal(found, np.asarray(jax.random.uniform(KEY, (ARMS,)))[index])
    with pytest.raises(ValueError, match="default kind"):
        shards.check_counting(jax.random.key(0, impl="rbg"), ARMS)


def test_of_arms_that_tie_the_lowest_stay_and_the_others_raise_their_chunks():
    score = np.array([1.0, 2.0, 2.0, 0.0, 2.0])
    zeros, number = np.zeros(5), np.array([0, 4, 9, 10, 17], np.int32)
    some = table.Table(number, zeros[:, None], zeros, zeros, score, number == 10)
    kept, rest = table.split(some, 2)
    assert kept.number.tolist() == [4, 9, 10] and rest.number.tolist() == [0, 17]
    bounds = table.raised(np.array([-np.inf, 3.0, 0.5]), rest, CHUNK)
    assert bounds.tolist() == [1.0, 3.0, 2.0]
    filled = table.filled(kept, 5)
    assert filled.number.tolist() == [4, 9, 10, table.FREE, table.FREE]
    assert np.isneginf(filled.score[3:]).all()


def screened_state(folder, seed, spread):
    """A posterior in float64 over arms in float32, many of them near-duplicates: `spread` apart."""
    random = np.random.default_rng(seed)
    centres = random.uniform(0, 4, (60, 3))
    x = centres[random.integers(60, size=600)] + spread * random.standard_normal((600, 3))
    file = saved(folder, x.astype(np.float32), f"{seed}.npy", chunk=600)
    bandit = FixedBKB(
        kernels.Gaussian(random.uniform(0.5, 2)), 10 ** random.uniform(-3, -1), capacity=64
    )
    done = random.integers(600, size=50)
    streamed = Streamed(bandit, screen=True)
    state = streamed.init(file, KEY, arms=done, rewards=random.standard_normal(50))
    return bandit, file, state, np.asarray(state.number)[np.asarray(state.number) < 600]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scores_in_float64_are_below_the_bounds_of_float32(tmp_path):
    """Also with near-duplicates in the dictionary; and the bounds are not far above."""
    slack = []
    for seed in range(12):
        bandit, file, state, known = screened_state(tmp_path, seed, 10.0 ** -(seed % 4))
        x, width = jnp.asarray(file.read(0)), 2.0
        rounded, exact = (
            sweep.factors(state.sketch, bandit.kernel, bandit.regularization, 600, dtype)
            for dtype in (jnp.float32, jnp.float64)
        )
        none = jnp.zeros(0, jnp.int32)
        common = (bandit.kernel, bandit.regularization, jnp.asarray(width))
        found, plain, wanted = (
            sweep.top(factors, *common, rows, none, jnp.asarray(600, jnp.int32), 600, safety)
            for factors, rows, safety in (
                (rounded, x, 8.0),
                (rounded, x, 0.0),
                (exact, x.astype(jnp.float64), 0.0),
            )
        )
        bound, score, true = (np.asarray(t.score, float) for t in (found, plain, wanted))
        others = np.setdiff1d(np.arange(600), known)
        assert (true <= bound)[others].all()
        slack.append(np.max((bound - true)[others]) / np.max(np.abs(score - true)[others]))
    assert np.median(slack) < 100


@pytest.mark.filterwarnings("ignore:.*repeat the features")
def test_a_bound_that_does_not_hold_is_flagged(tmp_path):
    """Without its safety the ranking in float32 is no bound, and the query says so."""
    x = arms_of("float32")
    streamed = Streamed(CASES["screened"][0], **SMALL, screen=True, safety=0.0)
    state = streamed.init(saved(tmp_path, x), KEY, arms=DONE, rewards=Y, dictionary=KEEP)
    assert streamed.choose(state).missed
    with pytest.warns(UserWarning, match="may have missed arms"):
        streamed.ask(state, KEY)


@pytest.mark.filterwarnings("ignore")
def test_no_evaluations_and_none_that_are_left(tmp_path):
    """A start from empty lists is one from nothing; and a screened file of which every arm is
    known."""
    x = arms_of("float32")
    file, streamed = saved(tmp_path, x), Streamed(CASES["screened"][0], **SMALL, screen=True)
    before, empty = streamed.init(file, KEY), streamed.init(file, KEY, arms=[], rewards=[])
    asked = [arms_asked(streamed.choose(state).query).tolist() for state in (before, empty)]
    assert asked[0] == asked[1] and asked[0][0] == int(before.first_arm)
    everything = streamed.init(file, KEY, arms=np.arange(ARMS), rewards=np.sin(np.arange(ARMS)))
    chosen = streamed.choose(everything)
    mean, variance = (
        np.asarray(a)[:ARMS] for a in (everything.sketch.mean, everything.sketch.variance)
    )
    width = float(streamed.confidence_width(everything))
    assert int(chosen.query.index[0]) == np.argmax(mean + width * np.sqrt(variance))
    assert not chosen.missed and chosen.query.size == 8


def test_wrong_files_are_refused(tmp_path):
    x = arms_of()
    with pytest.raises(ValueError, match="there is no file"):
        open_arms(tmp_path / "none.npy")
    for name, wrong, message in (
        ("vector", x[:, 0], r"must be a matrix \[A, d\].*\(37,\)"),
        ("empty", x[:0], r"must be a matrix \[A, d\]"),
        ("integers", x.astype(int), "float32 or float64; .* holds int64"),
        ("fortran", np.asfortranarray(x), "Fortran order"),
    ):
        with pytest.raises(ValueError, match=message):
            saved(tmp_path, wrong, f"{name}.npy")
    with pytest.raises(ValueError, match="chunk must be an integer of at least 1"):
        saved(tmp_path, x, chunk=0)
    (tmp_path / "text.npy").write_text("1 2 3")
    with pytest.raises(ValueError, match=r"no \.npy file of numbers"):
        open_arms(tmp_path / "text.npy")
    (tmp_path / "nothing.npy").touch()
    with pytest.raises(ValueError, match=r"no \.npy file of numbers.*No data left"):
        open_arms(tmp_path / "nothing.npy")
    with pytest.raises(ValueError, match="there is no file"):
        open_arms(tmp_path)
    with pytest.raises(ValueError, match="takes the path of a .npy file; 5 was given"):
        open_arms(5)
    file = saved(tmp_path, x)
    whole = (tmp_path / "arms.npy").read_bytes()
    (tmp_path / "arms.npy").write_bytes(whole[:-50])
    with pytest.raises(ValueError, match="shorter than its header"):
        open_arms(tmp_path / "arms.npy")
    with pytest.raises(ValueError, match=r"ends before arm 33, and had 37 arms"):
        file.read(4)
    np.save(tmp_path / "arms.npy", x[:, :1])
    with pytest.raises(ValueError, match=r"another file .* \[37, 1\] .* \[37, 2\]"):
        next(file.in_order())
    bad = x.copy()
    bad[29, 1] = np.nan
    with pytest.raises(ValueError, match=r"must be finite; arm 29, feature 1 .* is nan"):
        Streamed(BBKB(**COMMON)).init(saved(tmp_path, bad), KEY)


def test_mistakes_are_said_in_plain_words(tmp_path):
    x = arms_of()
    file, fixed = saved(tmp_path, x), FixedBKB(**COMMON, batch=4)
    for streamed, message in (
        (Streamed(BKB(**COMMON)), "takes a BBKB or a FixedBKB; a BKB"),
        (Streamed(BBKB(**COMMON, rule="global_local")), 'rule="global"'),
        (Streamed(BBKB(**COMMON, initial=np.arange(3))), "without `initial`"),
        (Streamed(fixed, keep=5, offer=6), "raise keep"),
        (Streamed(fixed, keep=0), "keep must be an integer"),
        (Streamed(fixed, screen=True), "this one holds float64"),
        (Streamed(fixed.replace(qbar=-1.0)), "qbar"),
        (Streamed(fixed.replace(kernel=kernels.Gaussian(np.ones(3)))), "lengthscale has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            streamed.init(file, KEY)
    streamed = Streamed(fixed)
    with pytest.raises(ValueError, match=r"open_arms\(path\); what was given is a Arms"):
        streamed.init(Arms(jnp.asarray(x)), KEY)
    with pytest.raises(ValueError, match="names arm 37; the arms are 0 to 36"):
        streamed.init(file, KEY, arms=[37], rewards=[0.0])
    with pytest.raises(ValueError, match="give arms with them"):
        streamed.init(file, KEY, rewards=[0.0])
    state = streamed.init(file, KEY, arms=DONE, rewards=Y, dictionary=KEEP)
    assert state.number.shape == (own.SLOTS,)
    query = Query(jnp.array([40], jnp.int32), jnp.ones(1, bool))
    with pytest.raises(ValueError, match="the query names arm 40"):
        streamed.tell(state, query, jnp.zeros(1), KEY)
    with pytest.raises(ValueError, match="call ask and tell in a loop of your own"):
        jax.jit(lambda state: streamed.ask(state, KEY))(state)
    with pytest.raises(ValueError, match="1 distinct arms would be pending"):
        streamed.pend(state, Query(jnp.array([4], jnp.int32), jnp.ones(1, bool)))

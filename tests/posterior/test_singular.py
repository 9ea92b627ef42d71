"""Covariances without a root, near-duplicates, and regularizations below rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from truth import LD, cholesky, gram, pivoted, solve

from jsketch import Arms, kernels, loops, online
from jsketch.bandits import BKB, TS
from jsketch.bandits.core import sketched
from jsketch.kernels import Precomputed, index_features
from jsketch.linalg import shifted_cholesky
from jsketch.sketch.taylor import Taylor
from jsketch.types import Query

KEY = jax.random.key(0)
LAM = 1e-4
GAUSSIAN = [("gaussian", 1, 1.0, 0)]
CUT = 8 * np.finfo(LD).eps  # pivots below CUT times the number of points are left out


def ts(table, **options):
    table = jnp.asarray(table, jnp.zeros(()).dtype)
    bandit = TS(Precomputed(table), regularization=0.01, batch=4, capacity=8, **options)
    return bandit, Arms(index_features(table))


@pytest.mark.float32
def test_samples_of_a_singular_covariance_are_finite():
    """The kernel values have 6 digits. The argmax of NaN samples would always be arm 0."""
    x = np.linspace(0, 1, 40)
    table = np.round(np.exp(-np.square(x[:, None] - x) / 2), 6)
    assert np.linalg.eigvalsh(table).min() < -1e-6
    bandit, arms = ts(table, scale=1.0)

    @jax.jit
    def one_round(state, key):
        query = bandit.ask(state, key)
        y = jnp.sin(query.index.astype(state.count.dtype) / 7)
        state, info = bandit.tell(state, query, y, key)
        return state, info, bandit.samples(state, key)

    state = bandit.init(arms, KEY)
    # The shift is small relative to the prior variance of 1.
    assert float(state.shift) < 1e-3
    for t in range(2):
        state, info, samples = one_round(state, jax.random.key(t))
        assert np.isfinite(samples).all() and not bool(info.nonfinite)
    assert len(set(np.asarray(samples).argmax(1))) > 1


@pytest.mark.float32
@pytest.mark.filterwarnings("ignore:the kernel is not positive semi-definite")
def test_an_indefinite_covariance_is_flagged():
    table = np.eye(6) - 0.9 * np.eye(6)[::-1] - 0.5
    assert np.linalg.eigvalsh(table).min() < -1
    bandit, arms = ts((table + table.T) / 2)
    with pytest.raises(ValueError, match="needs .* added to the diagonal"):
        bandit.init(arms, KEY)

    # a traced kernel can only be flagged
    @jax.jit
    def flag():
        state = bandit.init(arms, KEY)
        return bandit.tell(state, bandit.ask(state, KEY), jnp.zeros(4), KEY)[1].nonfinite

    assert bool(flag())


def test_the_shift_is_the_smallest_that_gives_a_root():
    matrix = np.diag([1.0, 1.0, -3e-7])
    lower, shift = shifted_cholesky(jnp.asarray(matrix), 1e-9)
    assert float(shift) == pytest.approx(1e-6)
    np.testing.assert_allclose(lower @ lower.T, matrix + 1e-6 * np.eye(3), atol=1e-15)
    for other, desired in (
        (np.eye(3), 1e-9),
        (np.zeros((3, 3)), 1e-9),
        (np.full((3, 3), np.nan), np.inf),
    ):
        assert float(shifted_cholesky(jnp.asarray(other), 1e-9)[1]) == pytest.approx(desired)


@pytest.fixture(scope="module")
def one_round():
    """A function from arms x [40,2] to (the state with arms 0 to 19 in the dictionary and arms 0 to
    29 pulled, the state after a masked query, the info of this query)."""
    bandit = BKB(kernels.Gaussian(1.0), regularization=LAM, capacity=40, qbar=1e9)
    arm = jnp.arange(40)

    @jax.jit
    def start_and_tell(x):
        counts = jnp.where(arm < 30, 1.0, 0.0)
        history = counts, counts, arm < 20
        state = sketched.start(Arms(x), bandit.kernel, LAM, 40, KEY, history)
        masked = Query(jnp.zeros(1, jnp.int32), jnp.zeros(1, bool))
        return state, *bandit.tell(state, masked, jnp.ones(1), KEY)

    return start_and_tell


def exact_variance(x, state):
    """The variance [A] in long double, with the points of the dictionary that `state` keeps."""
    rank = int((np.abs(np.asarray(state.nystrom.root)).sum(0) > 0).sum())
    points = np.asarray(state.nystrom.points)[:rank]
    rows = [int(np.flatnonzero((x == point).all(1))[0]) for point in points]
    z, _ = pivoted(gram(GAUSSIAN, x, x), rows, CUT * rank)
    precision = LAM * np.eye(z.shape[1], dtype=LD) + (z.T * np.asarray(state.pull_counts)) @ z
    residual = np.maximum(1 - np.square(z).sum(1), 0)
    residual[:20] = 0
    return residual / LAM + np.square(solve(cholesky(precision), z.T)).sum(0)


@pytest.mark.parametrize(("gap", "imprecise"), [(2e-7, True), (0.1, False)])
def test_variances_that_rounding_decides_are_flagged(one_round, gap, imprecise):
    """The dictionary has ten pairs of arms. Rounded kernel values hardly determine the difference
    of the features of two close arms, and other arms have components in this direction. No
    arithmetic on the rounded values is more accurate, so that the variances are flagged."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        x = random.uniform(-3, 3, (40, 2))
        x[10:20] = x[:10] + gap * random.standard_normal((10, 2))
        state, after, info = one_round(jnp.asarray(x))
        exact = exact_variance(x, state)
        error = float(np.abs(np.asarray(state.variance) - exact).max())
        assert (error > 1e-4 * exact.max()) == imprecise
        assert 0.1 * error < float(state.rounding) < 100 * error
        assert bool(state.imprecise) == imprecise
        assert bool(info.imprecise) == bool(after.imprecise) == imprecise


@pytest.fixture(scope="module")
def state_of_pairs():
    """A function from arms x [30,2] to the state with arms 0 to 11 in the dictionary and arms 0 to
    19 pulled; the kernel is Gaussian with lengthscale 1, and lam is 0.01."""

    @jax.jit
    def start(x):
        arm = jnp.arange(30)
        counts = jnp.where(arm < 20, 5, 0).astype(x.dtype)
        return sketched.start(
            Arms(x), kernels.Gaussian(1.0), 0.01, 16, KEY, (counts, counts, arm < 12)
        )

    return start


@pytest.mark.parametrize(("dtype", "gap"), [("float64", 3e-8), ("float32", 2e-4), ("float32", 0)])
def test_inducing_points_below_the_rank_cut_are_flagged(state_of_pairs, dtype, gap):
    """Arms 6 to 11 are at a distance `gap` of arms 0 to 5, and some of them are dropped. The others
    do not represent the features in which the two arms of a pair differ, unless they are equal."""
    random = np.random.default_rng(1)
    x = random.uniform(-1.5, 1.5, (30, 2))
    x[6:12] = x[:6] + gap * random.choice([-1, 1], (6, 2))
    x = x.astype(dtype)
    state = state_of_pairs(jnp.asarray(x))
    rank = int((np.diag(state.nystrom.root) > 0).sum())
    assert rank < 12
    x = x.astype(LD)
    z, pivots = pivoted(gram(GAUSSIAN, x, x), range(12), 1e-17)
    assert len(pivots) == (12 if gap else 6)
    precision = 0.01 * np.eye(len(pivots), dtype=LD) + (z.T * np.asarray(state.pull_counts)) @ z
    exact = (1 - np.square(z).sum(1)) / 0.01 + np.square(solve(cholesky(precision), z.T)).sum(0)
    error = np.abs(np.asarray(state.variance) - exact).max() / exact.max()
    assert (error > 0.01) == (gap > 0), error
    assert bool(state.imprecise) == (gap > 0)
    # rounding alone would not set the flag
    assert float(state.rounding) < 1e-3 * float(state.variance.max())


@pytest.mark.float32
def test_a_regularization_below_rounding_is_warned_of():
    """The warning is given for lam = 1e-6 and 1e-4 in float32, and for large features."""
    x = jnp.ones(2, jnp.float32)
    kernel = kernels.Gaussian(1.0)
    makers = (
        lambda lam: online.PKAWV(Taylor(2, 2, 1.0), lam),
        lambda lam: online.KernelAWV(kernel, lam, capacity=2),
        lambda lam: online.NystromAWV(kernel, lam, capacity=2, memory=2),
        lambda lam: online.ProsNKONS(kernel, lam, capacity=2),
        lambda lam: online.SketchedKONS(kernel, lam, capacity=2),
    )
    for make in makers:
        for lam in (1e-6, 1e-4):
            with pytest.warns(UserWarning, match="too small for features .* float32"):
                make(lam).check_rounding(x)
        make(0.01).check_rounding(x)
    with pytest.warns(UserWarning, match="smaller features or a regularization of at least"):
        online.NystromAWV(kernels.Linear(1e-6), 1e-3).check_rounding(jnp.ones(2))


def test_the_rounding_of_later_examples_is_warned_of():
    """A stream warns once, at the line of the user. `Live` starts from an example of zeros."""
    forecaster = online.KernelAWV(kernels.Linear(1e-6), 1e-3, capacity=2)
    xs, ys = np.array([[0.0, 0.0], [1.0, 1.0]]), np.ones(2)
    live = loops.Live(forecaster, 2, KEY)
    live.learn(xs[0], 1.0)
    with pytest.warns(UserWarning, match="too small for features") as warnings_list:
        live.learn(xs[1], 1.0)
        live.predict(10 * xs[1])
    assert [warning.filename for warning in warnings_list] == [__file__]
    mixture = online.Mixture(forecaster, {"regularization": jnp.asarray([1e-3, 1e9])}, 1.0)
    for model in (forecaster, mixture):
        for state in (None, model.init(jnp.zeros(2), KEY)):
            with pytest.warns(UserWarning, match="too small for features") as warnings_list:
                loops.prequential(model, (xs, ys), KEY, state=state)
            assert [warning.filename for warning in warnings_list] == [__file__]

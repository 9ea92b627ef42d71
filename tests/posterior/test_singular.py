"""Covariances without a root, near-duplicates, and regularizations below rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from truth import EPS, LD, cholesky, gram, pivoted, solve

from jsketch import Arms, kernels, loops, online, problems
from jsketch.bandits import BKB, TS, imprecision
from jsketch.core import diagnosis, posterior
from jsketch.kernels import Precomputed, index_features
from jsketch.numerics import shifted_cholesky
from jsketch.results import Result
from jsketch.sketch.taylor import Taylor
from jsketch.types import Evaluations

KEY = jax.random.key(0)
LAM = 1e-4
GAUSSIAN, KERNEL = [("gaussian", 1, 1.0, 0)], kernels.Gaussian(1.0)
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
        query = bandit.ask(state, arms, key)
        y = jnp.sin(query.index.astype(state.count.dtype) / 7)
        state, info = bandit.tell(state, arms, query, y, key)
        return state, info, bandit.samples(state, arms, key)

    state = bandit.init(arms, KEY)
    # The shift is small relative to the prior variance of 1.
    assert float(state.shift) < 1e-3
    for t in range(2):
        state, info, samples = one_round(state, jax.random.key(t))
        assert np.isfinite(samples).all() and int(info.result) == Result.RUNNING
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
        query = bandit.ask(state, arms, KEY)
        return bandit.tell(state, arms, query, jnp.zeros(4), KEY)[1].result

    assert int(flag()) == Result.NOT_FINITE


def test_the_shift_is_the_smallest_that_gives_a_root():
    matrix = np.diag([1.0, 1.0, -3e-7])
    shifted = jax.jit(shifted_cholesky)
    lower, shift = map(np.asarray, shifted(matrix, 1e-9))
    assert float(shift) == pytest.approx(1e-6)
    np.testing.assert_allclose(lower @ lower.T, matrix + 1e-6 * np.eye(3), atol=1e-15)
    for other, desired in (
        (np.eye(3), 1e-9),
        (np.zeros((3, 3)), 1e-9),
        (np.full((3, 3), np.nan), np.inf),
    ):
        assert float(shifted(other, 1e-9)[1]) == pytest.approx(desired)


IMPRECISE = 1e-3  # the error, relative to the largest variance, of which `run` warns
UPDATE = jax.jit(posterior.update, static_argnums=6)
IMPRECISION = jax.jit(diagnosis.imprecision)


def diagnosed(kernel, lam, x, counts, inducing, capacity):
    """(the posterior, its estimated imprecision, whether the bound on the host exceeds IMPRECISE).
    Rewards do not matter."""
    x = jnp.asarray(x)
    counts, inducing = jnp.asarray(counts, x.dtype), jnp.asarray(inducing)
    p = UPDATE(kernel, lam, x, counts, counts, inducing, capacity)
    estimate = float(IMPRECISION(kernel, lam, x, counts, inducing, p))
    may_be = imprecision.may_be_imprecise(p, int(inducing.sum()), lam, IMPRECISE)
    return p, estimate, may_be


def exact_variance(x, p, counts):
    """The variance [A] in long double, with the points of the dictionary that `p` keeps."""
    rank = int(p.rank)
    points = np.asarray(p.points)[:rank]
    rows = [int(np.flatnonzero((x == point).all(1))[0]) for point in points]
    z, _ = pivoted(gram(GAUSSIAN, x, x), rows, CUT * rank)
    precision = LAM * np.eye(z.shape[1], dtype=LD) + (z.T * counts) @ z
    residual = np.maximum(1 - np.square(z).sum(1), 0)
    residual[:20] = 0
    return residual / LAM + np.square(solve(cholesky(precision), z.T)).sum(0)


@pytest.mark.parametrize(("gap", "imprecise"), [(2e-7, True), (0.1, False)])
def test_variances_that_rounding_decides_are_estimated(gap, imprecise):
    """The dictionary has ten pairs of arms. Rounded kernel values hardly determine the difference
    of the features of two close arms, and other arms have components in this direction. No
    arithmetic on the rounded values is more accurate, so that the variances are imprecise."""
    arm = np.arange(40)
    for seed in range(3):
        random = np.random.default_rng(seed)
        x = random.uniform(-3, 3, (40, 2))
        x[10:20] = x[:10] + gap * random.standard_normal((10, 2))
        counts = np.where(arm < 30, 1.0, 0.0)
        p, estimate, may_be = diagnosed(KERNEL, LAM, x, counts, arm < 20, 40)
        exact = exact_variance(x, p, counts)
        error = float(np.abs(np.asarray(p.variance) - exact).max())
        assert (error > 1e-4 * exact.max()) == imprecise
        # without the error by points that the rank cut drops
        rounding = EPS / LAM * float(diagnosis._amplification(KERNEL, jnp.asarray(x), p))
        assert 0.1 * error < rounding < 100 * error
        assert (estimate > IMPRECISE) == imprecise
        assert may_be >= imprecise


def test_a_run_with_near_duplicates_warns():
    """Ten pairs of arms are at a distance of 2e-7, and the dictionary has all pulled arms."""
    random = np.random.default_rng(0)
    x = random.uniform(-3, 3, (40, 2))
    x[10:20] = x[:10] + 2e-7 * random.standard_normal((10, 2))
    bandit = BKB(KERNEL, LAM, capacity=40, qbar=1e9)
    problem = problems.finite_arms(x, np.sin(x[:, 0]), 0.01)
    counts = np.where(np.arange(40) < 20, 1.0, 0.0)
    state = jax.jit(lambda: bandit.init(problem.arms, KEY, data=Evaluations(counts, counts)))()
    with pytest.warns(UserWarning, match="rounding may have changed variances by"):
        loops.run(bandit, problem, KEY, 1, states=[state])


@pytest.mark.parametrize(("dtype", "gap"), [("float64", 3e-8), ("float32", 2e-4), ("float32", 0)])
def test_inducing_points_below_the_rank_cut_are_found(dtype, gap):
    """Arms 6 to 11 are at a distance `gap` of arms 0 to 5, and some of them are dropped. The others
    do not represent the features in which the two arms of a pair differ, unless they are equal."""
    random, arm = np.random.default_rng(1), np.arange(30)
    x = random.uniform(-1.5, 1.5, (30, 2))
    x[6:12] = x[:6] + gap * random.choice([-1, 1], (6, 2))
    x, counts = x.astype(dtype), np.where(arm < 20, 5.0, 0.0)
    p, estimate, may_be = diagnosed(KERNEL, 0.01, x, counts, arm < 12, 16)
    assert int(p.rank) < 12 and may_be
    x = x.astype(LD)
    z, pivots = pivoted(gram(GAUSSIAN, x, x), range(12), 1e-17)
    assert len(pivots) == (12 if gap else 6)
    precision = 0.01 * np.eye(len(pivots), dtype=LD) + (z.T * counts) @ z
    exact = (1 - np.square(z).sum(1)) / 0.01 + np.square(solve(cholesky(precision), z.T)).sum(0)
    error = np.abs(np.asarray(p.variance) - exact).max() / exact.max()
    assert (error > 0.01) == (gap > 0), error
    assert (estimate > IMPRECISE) == (gap > 0)


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

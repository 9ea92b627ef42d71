"""Test vectors (files of arrays) from the BBKB authors' implementation: the public API reproduces
every array. The tolerances are those of the vectors' README: 1e-5 of the range of an array, and
1e-6 for means and scores. Two small vectors are in tests/golden. Others are read from the folder
JSKETCH_GOLDEN, by default one beside the repository."""

import functools
import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import ASK, GRAM, INIT, KEY, SCORES, WIDTH

from jsketch import Arms, kernels
from jsketch.bandits import BBKB, BKB, Draw, widths
from jsketch.bandits.bbkb import SketchedEvidence
from jsketch.core import posterior

HERE = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("JSKETCH_GOLDEN", HERE.parents[1] / "shared" / "golden"))
# marked slow: each vector compiles programs for its shapes, and these are similar to other vectors
SLOW = ("rbf_lownoise", "rbf_repeats", "rbf_wide")


FEATURES, EMBED = jax.jit(posterior.features), jax.jit(posterior.embed)


def golden_files():
    """Test parameters: the vectors of tests/golden, and those of FOLDER with other contents."""
    paths = sorted((HERE / "golden").glob("*.npz"))
    contents = {path.read_bytes() for path in paths}
    other_paths = sorted(FOLDER.glob("*.npz"))
    paths += [path for path in other_paths if path.read_bytes() not in contents]
    rows = [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW))
        for path in paths
    ]
    missing = pytest.param(None, id="other", marks=pytest.mark.skip(f"no vectors in {FOLDER}"))
    return rows if other_paths else [*rows, missing]


def close(actual, desired, tolerance):
    desired = np.asarray(desired, float)
    scale = np.ptp(desired) if desired.size > 1 and np.ptp(desired) > 0 else np.abs(desired).max()
    np.testing.assert_allclose(np.asarray(actual, float), desired, rtol=0, atol=tolerance * scale)


class Golden:
    """The arrays of a test vector, and the algorithms in the state that they describe."""

    def __init__(self, path):
        self.data = dict(np.load(path))
        self.spec = spec = json.loads(str(self.data["spec"]))
        kernel = spec["kernel"]
        self.kernel = {
            "rbf": lambda: kernels.Gaussian(kernel["lengthscale"]),
            "matern": lambda: kernels.Matern(kernel["lengthscale"], nu=kernel["nu"]),
            "linear": lambda: kernels.Linear(),
        }[kernel["type"]]()
        capacity, noise_std = len(self.data["dictionary_index"]) + 5, spec["noise_variance"] ** 0.5
        self.common = dict(kernel=self.kernel, regularization=spec["lam"], noise_std=noise_std)
        self.common |= {name: spec[name] for name in ("norm_bound", "delta", "qbar")}
        self.common |= dict(dictionary=Draw(), capacity=capacity)
        self.arms = Arms(jnp.asarray(self.data["arms"]))

    @functools.cached_property
    def state(self):
        """The state of BKB, which is also that of BBKB."""
        names = ("arms", "pull_counts", "reward_sums", "dictionary_index")
        return INIT(BKB(**self.common), *(self.data[name] for name in names))

    def bbkb(self, rule, beta, **options):
        options |= dict(ratio=self.spec["ratio_threshold"], rule=rule)
        width = widths.Formula(lambda *_: jnp.asarray(beta))
        return BBKB(**self.common, width=width, **options)

    def batch(self, rule, **options):
        width = self.data[f"{rule}_beta_before"]  # the authors' width before the batch
        bandit = self.bbkb(rule, width, max_batch=400, **options)
        query = ASK(bandit, self.state, self.arms, KEY)
        return np.asarray(query.index)[np.asarray(query.mask)]


@pytest.fixture(scope="module", params=golden_files())
def golden(request):
    return Golden(request.param)


def test_posterior_and_bkb_are_those_of_the_authors(golden):
    d = golden.data
    bandit = BKB(**golden.common)
    state, arms = golden.state, golden.arms
    close(state.posterior.mean, d["posterior_mean"], 1e-6)
    close(state.posterior.variance, d["posterior_variance"], 1e-5)
    if "posterior_variance_60_digits" in d:
        close(state.posterior.variance, d["posterior_variance_60_digits"], 1e-5)
    close(WIDTH(bandit, state, arms), d["beta_bkb"], 1e-6)
    close(SCORES(bandit, state, arms), d["bkb_ucb"], 1e-6)
    assert np.asarray(ASK(bandit, state, arms, KEY).index)[0] == d["bkb_choice"]
    assert int(state.posterior.rank) == d["embedding_rank"]
    close(covariance(golden, state, np.arange(8)), d["posterior_covariance"], 1e-5)


def features(golden, state):
    """(z(x), u(x)) of all arms."""
    arguments = state.posterior, golden.kernel, golden.arms.features
    return (np.asarray(f(*arguments)) for f in (FEATURES, EMBED))


def covariance(golden, state, rows):
    z, u = features(golden, state)
    x = np.asarray(golden.arms.features)
    gram = np.asarray(GRAM(golden.kernel, x[rows], x))
    return (gram - z[rows] @ z.T) / golden.spec["lam"] + u[rows] @ u.T


def test_batches_of_both_rules_are_those_of_the_authors(golden):
    d = golden.data
    np.testing.assert_array_equal(golden.batch("global"), d["global_batch"])
    np.testing.assert_array_equal(golden.batch("global_local"), d["global_local_batch_strict"])
    batch = golden.batch("global_local", strict=False)
    np.testing.assert_array_equal(batch, d["global_local_batch"])


def test_ratio_bounds_are_those_of_the_authors(golden):
    d, c = golden.data, golden.spec["ratio_threshold"]
    state = golden.state
    batch, variance = d["global_local_batch"], np.asarray(state.posterior.variance)
    global_bounds = 1 + np.cumsum(variance[batch])
    squared = np.square(covariance(golden, state, batch)) / variance
    local_bounds = 1 + np.cumsum(squared, 0).max(1)
    close(global_bounds, d["global_ratio_bounds"], 1e-5)
    close(local_bounds, d["local_ratio_bounds"], 1e-5)
    close(local_bounds[-1], d["global_local_ratio_bound_max"], 1e-5)
    close(global_bounds[len(d["global_batch"]) - 1], d["global_ratio_bound"], 1e-5)
    both_exceed = np.flatnonzero((global_bounds > c) & (local_bounds > c))
    assert len(d["global_local_batch_strict"]) == both_exceed[0] + 1


@pytest.mark.parametrize("rule", ["global", "global_local"])
def test_widths_are_those_of_the_authors(golden, rule):
    d, state = golden.data, golden.state
    bandit = BBKB(**golden.common, ratio=golden.spec["ratio_threshold"], rule=rule)
    before = np.asarray(d[f"{rule}_logdet_before"])
    increment = np.log1p(np.asarray(state.posterior.variance)[d[f"{rule}_batch"]]).sum()
    close(before + increment, d[f"{rule}_logdet_after"], 1e-5)
    close(increment, d[f"{rule}_logdet_after"] - d[f"{rule}_logdet_before"], 1e-4)
    confidence = widths.Confidence(
        bandit.regularization, bandit.noise_std, bandit.norm_bound, bandit.delta, bandit.ratio
    )
    information = jnp.asarray([before + increment, before + increment])
    evidence = SketchedEvidence(bandit, state.replace(information=information), golden.arms)
    close(widths.bbkb_code(evidence, confidence), d[f"{rule}_beta_after"], 1e-6)
    # before the first batch the authors' width is BKB's
    close(widths.bkb_code(evidence, confidence), d[f"{rule}_beta_before"], 1e-6)


@pytest.mark.parametrize("rule", ["global", "global_local"])
def test_scores_after_a_batch_are_those_of_the_authors(golden, rule):
    """After each pick the authors update no score below the score of the pick (THEORY 5.7)."""
    d, lam = golden.data, golden.spec["lam"]
    p = golden.state.posterior
    z, u = features(golden, golden.state)
    mean, beta = np.asarray(p.mean), float(d[f"{rule}_beta_before"])
    gram_diagonal = np.asarray(golden.kernel.diag(golden.arms.features))
    residual = np.where(
        golden.state.inducing, 0, posterior.residual(gram_diagonal, jnp.asarray(z)) / lam
    )
    scores = mean + beta * np.sqrt(np.asarray(p.variance))
    inverse = np.eye(u.shape[1])  # P = (I + sum_s u_s u_s^T)^-1
    for arm in d[f"{rule}_batch"]:
        direction = inverse @ u[arm]
        inverse = inverse - np.outer(direction, direction) / (1 + u[arm] @ direction)
        scores[arm] = mean[arm] + beta * np.sqrt(u[arm] @ inverse @ u[arm])
        updated = scores >= scores[arm]
        embedded = np.einsum("ij,jk,ik->i", u[updated], inverse, u[updated])
        scores[updated] = mean[updated] + beta * np.sqrt(residual[updated] + embedded)
    close(scores, d[f"{rule}_ucb_after_batch"], 1e-6)

"""Deterministic statements about batches, ratios and confidence (THEORY 4.4 to 5.6)."""

import numpy as np
import oracles
import pytest
from cases import features as case_features
from small_problems import ARMS, ASK, KEY, ROLLOUT, TELL, WIDTH, batch_of, bounds, random_problems

from jsketch import kernels, problems
from jsketch.bandits import GPBUCB, GPUCB, widths
from jsketch.contrib import MiniGP


@pytest.mark.parametrize("ratio", [1.5, 4.0])
def test_ratio_bounds_hold(ratio):
    """The variance ratio of any arm since the start of the batch is at most the global bound
    (THEORY 5.2, Lemma 1) and at most the local bound from the embedded covariance e (5.4)."""
    longest = 0
    for p in random_problems():
        _, _, batch = batch_of(p, ratio, noise_std=0.3, norm_bound=1.0)
        global_bounds, _, local_bounds = bounds(p, batch)
        start = oracles.variance_after(p.gram, p.dictionary, p.counts, np.array([], int), p.lam)
        for size in range(1, len(batch) + 1):
            after = oracles.variance_after(p.gram, p.dictionary, p.counts, batch[:size], p.lam)
            variance_ratio = start / after
            assert (variance_ratio <= global_bounds[size - 1] * (1 + 1e-6)).all()
            assert (variance_ratio <= local_bounds[size - 1] * (1 + 1e-6)).all()
        longest = max(longest, len(batch))
    assert longest > 1


def test_certified_intervals_cover_without_noise():
    """THEORY 4.4: without noise |mu~ - f| <= F (sqrt(lam) + sqrt(rho)) sigma~ at all arms; F = |f|.
    For at least one problem F sqrt(lam) sigma~, the bias of `_code` widths, is too small."""
    n_exceeded = 0
    for p in random_problems():
        random = np.random.default_rng(2)
        weights = random.standard_normal(ARMS)
        f = p.gram @ weights
        norm = np.sqrt(weights @ f)
        assumed = dict(noise_std=0.0, norm_bound=norm, ratio=1.0, width=widths.certified)
        bandit, state = p.state(sums=p.counts * f, **assumed)
        error = np.abs(np.asarray(state.posterior.mean) - f)
        sd, width = np.sqrt(np.asarray(state.posterior.variance)), WIDTH(bandit, state, p.arms)
        assert (error <= float(width) * sd * (1 + 1e-6) + 1e-8).all()
        n_exceeded += (error > np.sqrt(p.lam) * norm * sd * (1 + 1e-6)).any()
    assert n_exceeded > 0


def test_mini_gp_ucb_repeats_an_arm_until_its_deviation_is_divided_by_c():
    """A batch pulls one arm (C^2 - 1) / sigma^2 times and gives the posterior of GP-BUCB."""
    x = np.asarray(case_features())
    problem = problems.finite_arms(x, np.sin(4 * x[:, 0]), 0.1)
    bandit = MiniGP(kernels.Gaussian(0.5), 0.01, ratio=3.0, max_batch=2000)
    state, arms = ROLLOUT(bandit, problem, KEY, 600).state, problem.arms
    query = ASK(bandit, state, arms, KEY)
    arm, size = int(np.asarray(query.index)[0]), int(query.size)
    variance = float(np.asarray(state.posterior.variance)[arm])
    assert size == max(int(8 / variance), 1) and size > 1
    y = np.where(query.mask, np.cos(np.arange(2000.0)), np.nan)
    after, _ = TELL(bandit, state, arms, query, y, KEY)
    shrinkage = variance / float(np.asarray(after.posterior.variance)[arm])
    assert shrinkage == pytest.approx(1 + size * variance, rel=1e-9)
    assert 9 - variance <= shrinkage <= 9
    gp_bucb, _ = TELL(GPBUCB(kernels.Gaussian(0.5), 0.01), state, arms, query, y, KEY)
    np.testing.assert_allclose(after.posterior.mean, gp_bucb.posterior.mean, atol=1e-9)
    np.testing.assert_allclose(after.posterior.logdet, gp_bucb.posterior.logdet, rtol=1e-9)


def test_gp_bucb_batches_end_with_the_pick_whose_bound_exceeds_c():
    """Only the last pick raises the bound above C. The bound is prod_s (1 + sigma^2_{s-1}(x_s))
    (BBKB Alg. 2), or 1 + the sum of the variances at the start of the batch (Lemma 1)."""
    x = np.asarray(case_features())
    problem = problems.finite_arms(x, np.sin(4 * x[:, 0]), 0.1)
    gram, sizes, options = oracles.gaussian(x, x, 2.0), {}, dict(max_batch=200, new_arms=40)
    # at this regularization picks lower the variances of later picks in their batch
    run = ROLLOUT(GPUCB(kernels.Gaussian(2.0), 1.0), problem, KEY, 10)
    for rule in ("product", "sum"):
        bandit = GPBUCB(kernels.Gaussian(2.0), 1.0, ratio=3.0, rule=rule, **options)
        query = ASK(bandit, run.state, problem.arms, KEY)
        counts = np.bincount(run.trace.arm, minlength=60).astype(float)
        start, bounds_after = np.diag(oracles.exact(gram, counts, counts, 1.0)[1]), [1.0]
        for arm in np.asarray(query.index)[np.asarray(query.mask)]:
            variance = np.diag(oracles.exact(gram, counts, counts, 1.0)[1])[arm]
            bound = bounds_after[-1]
            bounds_after.append(bound * (1 + variance) if rule == "product" else bound + start[arm])
            counts[arm] += 1
        assert bounds_after[-1] > 3.0 >= bounds_after[-2]
        sizes[rule] = len(bounds_after) - 1
    assert sizes["sum"] >= sizes["product"] > 1

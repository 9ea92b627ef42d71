"""The papers' deterministic statements about batches, ratios and confidence (THEORY 4.4 to 5.6),
against oracles."""

import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from cases import features as case_features
from small_problems import ARMS, KEY, PROBLEMS, Problem, batch_of, bounds, near

from jsketch import Arms, kernels, loops, problems
from jsketch.bandits import BBKB, BKB, GPBUCB, GPUCB, widths
from jsketch.contrib import MiniGP
from jsketch.types import Evaluations


@pytest.fixture(scope="module")
def drawn():
    return [Problem(seed) for seed in range(PROBLEMS)]


def batches_of(p, ratio, **options):
    return batch_of(p, ratio, **dict(noise_std=0.3, norm_bound=1.0) | options)


@pytest.mark.parametrize("ratio", [1.5, 4.0])
def test_ratio_bounds_hold(drawn, ratio):
    """THEORY 5.2 (Lemma 1), 5.4 with e, 5.3: the true variance ratio of every arm at every step of
    the batch."""
    longest = 0
    for p in drawn:
        _, _, batch = batches_of(p, ratio)
        total, _, with_e = bounds(p, batch)
        start = oracles.embedded_after(p.gram, p.keep, p.counts, np.array([], int), p.lam)
        for size in range(1, len(batch) + 1):
            after = oracles.embedded_after(p.gram, p.keep, p.counts, batch[:size], p.lam)
            true = start / after
            assert (true <= total[size - 1] * (1 + 1e-6)).all()
            assert (true <= with_e[size - 1] * (1 + 1e-6)).all()
        assert (total[:-1] <= ratio * (1 + 1e-9)).all()
        assert total[-1] > ratio * (1 - 1e-9) or len(batch) == 60
        longest = max(longest, len(batch))
    assert longest > 1


def test_the_exact_ratio_pays_for_the_sketch(drawn):
    """BBKB Lemma 6: the exact ratio of every arm is at most 1 + alpha sum sigma~^2_fb(x_s), alpha
    the largest sigma^2 / sigma~^2 at the start of the batch, and so 3 (1 + sum) on the event of
    THEORY 3.2; without alpha it is no bound."""
    accurate = beyond = 0
    for p in drawn:
        _, _, batch = batches_of(p, 4.0)
        total = bounds(p, batch)[0]

        def variance(pulls, p=p):
            counts = p.counts + np.bincount(pulls, minlength=ARMS)
            return np.diag(oracles.exact(p.gram, counts, counts, p.lam)[1])

        start = variance(batch[:0])
        sketched = np.diag(oracles.sketched(p.gram, p.keep, p.counts, p.sums, p.lam)[1])
        alpha = max((start / sketched).max(), 1)
        for size in range(1, len(batch) + 1):
            ratio = (start / variance(batch[:size])).max()
            assert ratio <= (1 + alpha * (total[size - 1] - 1)) * (1 + 1e-6)
            assert alpha > 3 or ratio <= 3 * total[size - 1] * (1 + 1e-6)
            beyond += ratio > total[size - 1] * (1 + 1e-6)
        accurate += alpha <= 3
    assert accurate > 5 and beyond > 0


def test_global_local_extends_global_and_stops_strictly(drawn):
    """THEORY 5.5: a superset, ended at the first step at which both bounds exceed C; and THEORY
    5.4's order of bounds."""
    longer = 0
    for p in drawn:
        _, _, short = batches_of(p, 6.0)
        _, _, batch = batches_of(p, 6.0, rule="global_local")
        np.testing.assert_array_equal(batch[: len(short)], short)
        longer += len(batch) > len(short)
        total, with_k, _ = bounds(p, batch)
        assert (with_k.max(1) <= total * (1 + 1e-7)).all()
        over = (total > 6.0) & (with_k.max(1) > 6.0)
        assert not over[:-1].any() and (over[-1] or len(batch) == 60)
    assert longer >= 5


def test_the_printed_local_bound_is_no_bound():
    """THEORY 5.4's counterexample to Lemma 3 with k~: ratio 1.83 at arm 1, k~-bound 1.0, e-bound
    6.0."""
    phi = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0]])
    gram, keep, counts = phi @ phi.T, np.array([2]), np.zeros(3)
    _, full, embedded, _, _ = oracles.sketched(gram, keep, counts, counts, 0.1)
    bandit = BBKB(kernel=kernels.Linear(), regularization=0.1, capacity=4)
    with pytest.warns(UserWarning, match="same value for every arm"):
        state = bandit.init(Arms(jnp.asarray(phi)), KEY, data=Evaluations(counts, counts, keep))
    near(state.variance, np.diag(full))
    ratio = full[0, 0] / oracles.embedded_after(gram, keep, counts, np.array([1]), 0.1)[0]
    assert ratio == pytest.approx(1.83, abs=0.01)
    assert 1 + full[0, 1] ** 2 / full[0, 0] == pytest.approx(1.0, abs=1e-9)
    assert 1 + embedded[0, 1] ** 2 / full[0, 0] == pytest.approx(6.0, abs=1e-6)


def test_ratio_one_is_bkb():
    """THEORY 5.3: C = 1 gives batches of one, and BKB's picks when both have one width."""
    x = case_features()
    problem = problems.finite_arms(x, jnp.sin(4 * x[:, 0]), 0.1)
    options = dict(kernel=kernels.Gaussian(0.5), noise_std=0.1, delta=0.1, width=widths.bkb_code)
    options |= dict(regularization=0.01)
    single = loops.run(BKB(**options), problem, KEY, 60).trace
    batched = loops.run(BBKB(**options, ratio=1.0, max_batch=8), problem, KEY, 60).trace
    np.testing.assert_array_equal(single.arm, batched.arm)
    assert int(batched.batch_size.max()) == 1


def test_noiseless_confidence(drawn):
    """THEORY 4.4: |mu~ - f| <= F (sqrt lam + sqrt rho) sigma~ for any dictionary; the `code` bias
    alone is not enough."""
    failures = 0
    for p in drawn:
        random = np.random.default_rng(2)
        weights = random.standard_normal(ARMS)
        f = p.gram @ weights
        norm = np.sqrt(weights @ f)
        assumed = dict(noise_std=0.0, norm_bound=norm, ratio=1.0, width=widths.certified)
        bandit, state = p.state(sums=p.counts * f, **assumed)
        error, sd = np.abs(np.asarray(state.mean) - f), np.sqrt(np.asarray(state.variance))
        assert (error <= float(bandit.confidence_width(state)) * sd * (1 + 1e-6) + 1e-8).all()
        failures += (error > np.sqrt(p.lam) * norm * sd * (1 + 1e-6)).any()
    assert failures > 0


def test_the_sum_rule_outlasts_the_product_rule(drawn):
    """THEORY 5.6: with the exact posterior, prod (1 + sigma^2_{s-1}) >= 1 + sum sigma^2_fb, and
    both bound the ratio."""
    longer = 0
    for p in drawn:
        batch = batches_of(p, 5.0, keep=np.arange(ARMS))[2]
        start = variance = oracles.embedded_after(
            p.gram, np.arange(ARMS), p.counts, batch[:0], p.lam
        )
        product, total = 1.0, 1.0
        for size, arm in enumerate(batch, 1):
            product, total = product * (1 + variance[arm]), total + start[arm]
            variance = oracles.embedded_after(
                p.gram, np.arange(ARMS), p.counts, batch[:size], p.lam
            )
            ratio = (start / variance).max()
            assert ratio <= total * (1 + 1e-6) and total <= product * (1 + 1e-6)
            longer += product > 5.0 >= total
    assert longer >= 5


def test_mini_gp_ucb_repeats_an_arm_until_its_deviation_is_divided_by_c():
    """A batch is one arm, (C^2 - 1)/sigma^2 times. The posterior after it is that of the rewards
    one by one."""
    x = case_features()
    problem = problems.finite_arms(x, jnp.sin(4 * x[:, 0]), 0.1)
    bandit = MiniGP(kernels.Gaussian(0.5), 0.01, ratio=3.0, max_batch=2000)
    state = loops.rollout(bandit, problem, KEY, 600).state.replace(domain=problem.arms)
    query = bandit.ask(state, KEY)
    arm, size = int(query.index[0]), int(query.size)
    before = float(state.posterior.variance[arm])
    assert size == max(int(8 / before), 1) and size > 1
    y = jnp.where(query.mask, jnp.cos(jnp.arange(2000.0)), jnp.nan)
    after, _ = bandit.tell(state, query, y, KEY)
    shrinks = before / float(after.posterior.variance[arm])
    assert shrinks == pytest.approx(1 + size * before, rel=1e-9) and 9 - before <= shrinks <= 9
    one_by_one, _ = GPBUCB(kernels.Gaussian(0.5), 0.01).tell(state, query, y, KEY)
    np.testing.assert_allclose(after.posterior.mean, one_by_one.posterior.mean, atol=1e-9)
    np.testing.assert_allclose(after.posterior.logdet, one_by_one.posterior.logdet, rtol=1e-9)


def test_gp_bucb_batches_end_where_their_rule_ends_them():
    """The product of 1 + sigma^2_{s-1} (BBKB Alg. 2), or Lemma 1's sum, exceeds C with the last
    pick and not before."""
    x = np.asarray(case_features())
    problem = problems.finite_arms(x, np.sin(4 * x[:, 0]), 0.1)
    gram, sizes, options = oracles.gaussian(x, x, 2.0), {}, dict(max_batch=200, new_arms=40)
    # at this regularization picks lower the variances of later ones in their batch
    before = loops.rollout(GPUCB(kernels.Gaussian(2.0), 1.0), problem, KEY, 10)
    for rule in ("product", "sum"):
        bandit = GPBUCB(kernels.Gaussian(2.0), 1.0, ratio=3.0, rule=rule, **options)
        query = bandit.ask(before.state.replace(domain=problem.arms), KEY)
        counts = np.bincount(before.trace.arm, minlength=60).astype(float)
        first, bounds_after = np.diag(oracles.exact(gram, counts, counts, 1.0)[1]), [1.0]
        for arm in np.asarray(query.index)[np.asarray(query.mask)]:
            variance = np.diag(oracles.exact(gram, counts, counts, 1.0)[1])[arm]
            bound = bounds_after[-1]
            bounds_after.append(bound * (1 + variance) if rule == "product" else bound + first[arm])
            counts[arm] += 1
        assert bounds_after[-1] > 3.0 >= bounds_after[-2]
        sizes[rule] = len(bounds_after) - 1
    assert sizes["sum"] >= sizes["product"] > 1

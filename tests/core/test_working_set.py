"""The picks of a batch and the rules that end it, compared with dense NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from jsketch import kernels
from jsketch.core import local_rule, posterior, working_set

ARMS, SLOTS, WIDTH = 50, 64, 0.7
UPDATE = jax.jit(posterior.update, static_argnums=6)


class Problem:
    """A posterior of random arms, half of whose pulled arms are in the dictionary."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.x = random.uniform(0, 4, (ARMS, 2))
        self.lam, lengthscale = 10 ** random.uniform(-2, 0), random.uniform(0.4, 1.5)
        counts = random.poisson(0.7, ARMS).astype(float)
        sums = counts * random.standard_normal(ARMS)
        inducing = (counts > 0) & (random.uniform(size=ARMS) < 0.5)
        self.kernel = kernels.Gaussian(lengthscale)
        arrays = (jnp.asarray(a) for a in (self.x, counts, sums, inducing))
        self.posterior = UPDATE(self.kernel, self.lam, *arrays, 32)
        gram = oracles.gaussian(self.x, self.x, lengthscale)
        self.mean, self.full, self.embedded, self.residual, _ = oracles.sketched(
            gram, np.flatnonzero(inducing), counts, sums, self.lam
        )

    def picks(self, limit, may_continue):
        """The picks of a batch whose scores are all updated after every pick, as long as
        may_continue(picks) is true."""
        picks, explained = [], np.zeros(ARMS)
        while len(picks) < limit and may_continue(picks):
            variance = np.diag(self.full) - explained
            picks.append(int(np.argmax(self.mean + WIDTH * np.sqrt(variance))))
            within = self.embedded[np.ix_(picks, picks)] + np.eye(len(picks))
            covariances = self.embedded[:, picks]
            explained = np.einsum("ij,ij->i", covariances @ np.linalg.inv(within), covariances)
        return picks

    def global_bound(self, picks):
        return 1 + np.diag(self.full)[picks].sum()

    def local_bound(self, picks, guaranteed=False):
        sums = np.square(self.full[:, picks]).sum(1)
        if guaranteed:
            sums = np.maximum(sums, np.square(self.embedded[:, picks]).sum(1))
        return (1 + sums / np.diag(self.full)).max()


def batch_of(problem, rule, ratio, limit, **options):
    p = problem.posterior
    scores = p.mean + WIDTH * jnp.sqrt(p.variance)
    batch = working_set.empty(p, scores, SLOTS)
    arguments = (jnp.asarray(problem.x), WIDTH, batch, ratio, jnp.asarray(limit))
    if rule == "global":
        batch = working_set.add_picks(p, problem.kernel, *arguments)
    else:
        batch = local_rule.add_picks_local(p, problem.kernel, problem.lam, *arguments, **options)
    return np.asarray(batch.arms)[: int(batch.size)].tolist()


@pytest.mark.parametrize("limit", [1, 40])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 200.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_batch_has_the_picks_of_full_updates_until_lemma_1(seed, ratio, limit):
    problem = Problem(seed)
    expected = problem.picks(limit, lambda picks: problem.global_bound(picks) <= ratio)
    assert batch_of(problem, "global", ratio, limit) == expected


@pytest.mark.parametrize("guaranteed", [False, True])
@pytest.mark.parametrize("ratio", [1.5, 8.0, 60.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_of_the_local_rule_continues_until_lemma_3(seed, ratio, guaranteed):
    problem = Problem(seed)
    expected = problem.picks(60, lambda picks: problem.local_bound(picks, guaranteed) <= ratio)
    assert batch_of(problem, "global_local", ratio, 60, guaranteed=guaranteed) == expected
    assert len(expected) >= len(batch_of(problem, "global", ratio, 60)) - guaranteed


@pytest.mark.parametrize("ratio", [1.5, 8.0])
def test_the_authors_check_the_local_bound_one_pick_later(ratio):
    problem = Problem(0)
    n = len(problem.picks(60, lambda picks: problem.global_bound(picks) <= ratio))
    expected = problem.picks(
        60, lambda picks: len(picks) <= n or problem.local_bound(picks) <= ratio
    )
    assert batch_of(problem, "global_local", ratio, 60, strict=False) == expected


def test_a_batch_of_scores_that_are_not_numbers_ends():
    problem = Problem(0)
    p = problem.posterior
    batch = working_set.empty(p, jnp.full(ARMS, jnp.nan), SLOTS)
    arguments = (jnp.asarray(problem.x), jnp.nan, batch, 100.0, jnp.asarray(20))
    assert int(working_set.add_picks(p, problem.kernel, *arguments).size) == 20

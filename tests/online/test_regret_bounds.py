"""Bounds that hold w.h.p. for dictionaries that KORS draws (THEORY 7.5; PKAWV Proposition 5 and
Theorem 6)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import kernels, loops, online
from jsketch.sketch import kors
from jsketch.sketch.kors import Sampling

N, DELTA, SEEDS = 900, 0.1, 64


def stream(seed):
    """Clusters that come one after the other, and labels of either sign: what a dictionary has to
    follow."""
    random = np.random.default_rng(seed)
    centres = np.repeat(random.uniform(-1, 1, (6, 1)), N // 6, axis=0)
    xs = centres + 0.15 * random.standard_normal((N, 1))
    ys = np.sign(np.sin(7 * xs.sum(1)) + 0.3 * random.standard_normal(N))
    return jnp.asarray(xs), jnp.asarray(ys)


def missed_at_most(gram, inside, mu):
    """Whether |(I - P) C (I - P)| <= mu, P the projection onto the points `inside`: mu I - (K - K_I
    K_II^-1 K_I^T) has a Cholesky root. The jitter makes the projection smaller, so that it can only
    fail what holds."""
    factor = np.linalg.cholesky(gram[np.ix_(inside, inside)] + 1e-9 * np.eye(len(inside)))
    half = np.linalg.solve(factor, gram[inside])
    try:
        np.linalg.cholesky(mu * np.eye(len(gram)) - (gram - half.T @ half))
    except np.linalg.LinAlgError:
        return False
    return True


@pytest.mark.slow
def test_proposition_5_and_theorem_6():
    """With beta = 12 log(n / delta) and eps = 1/2: |(I - P_t) C_t (I - P_t)| <= mu at every 300th
    t, m at most 9 d_eff(mu) log(2n / delta)^2, and the regret against lam |f|^2 + losses at most
    B^2 d_eff log(e + e n / lam) + 2 B^2 (m + 1) n mu / lam, in at least 1 - delta of 64 streams and
    draws."""
    mu = lam = 1.0
    kernel = kernels.Gaussian(2.0)
    sampling = Sampling(mu, kors.theory_beta(N, DELTA), 0.5)
    forecaster = online.NystromAWV(kernel, lam, sampling, capacity=N, memory=N)
    projections = sizes = regrets = 0
    smaller = []
    for seed in range(SEEDS):
        xs, ys = stream(seed)
        # nearly every example joins: a block would be read again after each of them
        forecasts, _ = loops.prequential(forecaster, xs, ys, jax.random.key(seed), block=1)
        gram = np.asarray(kernel.gram(xs, xs))
        count = np.asarray(forecasts.dictionary_size)
        # the examples in the dictionary, in order
        joined = np.flatnonzero(np.diff(count, prepend=0))
        held = all(
            missed_at_most(gram[:t, :t], joined[joined < t], mu) for t in range(300, N + 1, 300)
        )
        projections += held
        smooth = np.linalg.solve(gram + mu * np.eye(N), gram)  # mu = lam: both effective dimensions
        own = np.trace(smooth)
        sizes += count[-1] <= 9 * own * np.log(2 * N / DELTA) ** 2
        best = float(ys @ (ys - smooth @ ys))  # min lam |f|^2 + losses = lam y^T (K + lam I)^-1 y
        bound = own * np.log(np.e + np.e * N / lam) + 2 * (count[-1] + 1) * N * mu / lam
        regrets += float(forecasts.loss.sum()) - best <= bound
        smaller.append(count[-1] / N)
    print(
        f"mu {mu}: m / n {np.mean(smaller):.2f}, held {projections}, {sizes}, {regrets} of {SEEDS}"
    )
    assert np.mean(smaller) < 0.9  # a dictionary of all points would hold for nothing
    assert min(projections, sizes, regrets) >= (1 - DELTA) * SEEDS

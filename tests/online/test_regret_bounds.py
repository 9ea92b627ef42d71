"""Bounds for dictionaries that KORS draws: PKAWV's Theorem 9 for any of them, Proposition 5 and
Theorem 6 w.h.p. (THEORY 7.5, 7.7)."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from jsketch import kernels, loops, online
from jsketch.sketch import kors
from jsketch.sketch.kors import Sampling

N, DELTA, SEEDS = 900, 0.1, 64


def stream(seed):
    """Clusters that come one after the other, so that the dictionary has to grow; labels of either
    sign."""
    random = np.random.default_rng(seed)
    centres = np.repeat(random.uniform(-1, 1, (6, 1)), N // 6, axis=0)
    xs = centres + 0.15 * random.standard_normal((N, 1))
    ys = np.sign(np.sin(7 * xs.sum(1)) + 0.3 * random.standard_normal(N))
    return jnp.asarray(xs), jnp.asarray(ys)


def theorem_9(gram, dictionaries, ys, lam):
    """(sum_t y_t^2 v_t^T A~_t^-1 v_t, sum_t (mu_t + lam) mu_t t) with v_t = P_t phi_t, A~_t = lam I
    + P_t C_t P_t and mu_t = |(P_{t+1} - P_t) C_t (P_{t+1} - P_t)|, P_{n+1} = I; `dictionaries`
    holds the examples in the dictionary at each t."""
    values, vectors = np.linalg.eigh(gram)
    phi = vectors * np.sqrt(np.maximum(values, 0))  # gram = phi phi^T
    n = len(gram)

    def projection(inside):
        basis = np.linalg.svd(phi[inside].T, full_matrices=False)[0]
        return basis @ basis.T

    spans = [projection(inside) for inside in dictionaries] + [np.eye(n)]
    in_span = left_out = 0.0
    for t in range(1, n + 1):
        projected, change = phi[:t] @ spans[t - 1], phi[:t] @ (spans[t] - spans[t - 1])
        solved = np.linalg.solve(lam * np.eye(n) + projected.T @ projected, projected[-1])
        in_span += ys[t - 1] ** 2 * (projected[-1] @ solved)
        mu = np.linalg.norm(change, 2) ** 2
        left_out += (mu + lam) * mu * t
    return in_span, left_out


def test_theorem_9():
    """For every sequence of dictionaries and any labels, the regret relative to the minimum of
    lam |f|^2 + losses is at most in_span + left_out / lam^2.

    Two smaller right-hand sides are exceeded on some stream: that of the paper, without lam |f|^2
    and with left_out / lam (on stream 3, where almost every example joins the dictionary), and
    in_span alone.
    """
    n, lengthscale = 30, 0.3
    exceeds_printed = exceeds_in_span = 0
    forecaster = online.NystromAWV(
        kernels.Gaussian(lengthscale), 1.0, Sampling(1.0, 0.5), capacity=n, memory=n
    )
    for seed in range(12):
        random = np.random.default_rng(seed)
        xs, ys = random.uniform(-1, 1, (n, 1)), random.choice([-1.0, 1.0], n)
        lam, beta = (30.0, 20.0) if seed == 3 else (10 ** random.uniform(-1.5, 1), 0.5)
        forecaster = forecaster.replace(regularization=lam, sampling=Sampling(1.0, beta))
        run, _ = loops.prequential(forecaster, (xs, ys), jax.random.key(seed))
        joined = np.flatnonzero(np.diff(np.asarray(run.dictionary_size), prepend=0))
        assert 1 < len(joined) < (n if seed != 3 else n + 1)
        gram = oracles.gaussian(xs, xs, lengthscale)
        in_span, left_out = theorem_9(gram, [joined[joined <= t] for t in range(n)], ys, lam)
        best = lam * ys @ np.linalg.solve(gram + lam * np.eye(n), ys)
        loss = float(run.loss.sum())
        assert loss <= best + in_span + left_out / lam**2 + 1e-8
        exceeds_in_span += loss > best + in_span
        # against the function through all examples, whose loss is 0
        exceeds_printed += loss > in_span + left_out / lam
    assert exceeds_in_span > 0 and exceeds_printed > 0


def residual_is_at_most(gram, inside, mu):
    """Whether |(I - P) C (I - P)| <= mu, where P projects on the points `inside`.

    This holds if mu I - (K - K_I K_II^-1 K_I^T) has a Cholesky factor. The jitter makes the
    projection smaller and the test stricter.
    """
    factor = np.linalg.cholesky(gram[np.ix_(inside, inside)] + 1e-9 * np.eye(len(inside)))
    half = np.linalg.solve(factor, gram[inside])
    try:
        np.linalg.cholesky(mu * np.eye(len(gram)) - (gram - half.T @ half))
    except np.linalg.LinAlgError:
        return False
    return True


@pytest.mark.slow
def test_proposition_5_and_theorem_6():
    """With beta = 12 log(n / delta), eps = 1/2 and |y| <= B = 1, each of three bounds holds in at
    least 1 - delta of 64 random streams:

    residual  |(I - P_t) C_t (I - P_t)| <= mu, tested at every 300th t
    size      the dictionary has m <= 9 d_eff(mu) log(2n / delta)^2 points
    regret    relative to the minimum of lam |f|^2 + losses it is at most
              B^2 d_eff log(e + e n / lam) + 2 B^2 (m + 1) n mu / lam
    """
    mu = lam = 1.0
    kernel = kernels.Gaussian(2.0)
    sampling = Sampling(mu, kors.theory_beta(N, DELTA), 0.5)
    forecaster = online.NystromAWV(kernel, lam, sampling, capacity=N, memory=N)
    projections = sizes = regrets = 0
    size_ratios = []
    for seed in range(SEEDS):
        xs, ys = stream(seed)
        # nearly every example joins, and ends a block
        forecasts, _ = loops.prequential(forecaster, (xs, ys), jax.random.key(seed), block=1)
        gram = np.asarray(kernel.gram(xs, xs))
        count = np.asarray(forecasts.dictionary_size)
        # the examples in the dictionary, in order
        joined = np.flatnonzero(np.diff(count, prepend=0))
        small_residuals = all(
            residual_is_at_most(gram[:t, :t], joined[joined < t], mu)
            for t in range(300, N + 1, 300)
        )
        projections += small_residuals
        smooth = np.linalg.solve(gram + mu * np.eye(N), gram)  # mu = lam: both effective dimensions
        dimension = np.trace(smooth)
        sizes += count[-1] <= 9 * dimension * np.log(2 * N / DELTA) ** 2
        best = float(ys @ (ys - smooth @ ys))  # min lam |f|^2 + losses = lam y^T (K + lam I)^-1 y
        bound = dimension * np.log(np.e + np.e * N / lam) + 2 * (count[-1] + 1) * N * mu / lam
        regrets += float(forecasts.loss.sum()) - best <= bound
        size_ratios.append(count[-1] / N)
    print(
        f"mu {mu}: m / n {np.mean(size_ratios):.2f}; bounds that hold, of {SEEDS}: residual"
        f" {projections}, size {sizes}, regret {regrets}"
    )
    assert np.mean(size_ratios) < 0.9  # for a dictionary of all points the bounds are trivial
    assert min(projections, sizes, regrets) >= (1 - DELTA) * SEEDS

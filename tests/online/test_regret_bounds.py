"""Bounds for dictionaries of KORS: PKAWV's Proposition 5, Theorems 6 and 9 (THEORY 7.5)."""

import jax
import numpy as np
import oracles
import pytest

from jsketch import kernels, loops, online
from jsketch.sketch import kors
from jsketch.sketch.kors import Sampling


def terms_of_theorem_9(gram, dictionaries, ys, lam):
    """(in_span = sum_t y_t^2 v_t^T A~_t^-1 v_t, left_out = sum_t (mu_t + lam) mu_t t), with v_t =
    P_t phi_t, A~_t = lam I + P_t C_t P_t and mu_t = |(P_{t+1} - P_t) C_t (P_{t+1} - P_t)|. C_t is
    sum_{s<=t} phi_s phi_s^T. P_t projects on the span of the examples `dictionaries[t - 1]`, and
    P_{n+1} = I."""
    values, vectors = np.linalg.eigh(gram)
    phi = vectors * np.sqrt(np.maximum(values, 0))  # gram = phi phi^T
    n = len(gram)

    def projection(dictionary):
        basis = np.linalg.svd(phi[dictionary].T, full_matrices=False)[0]
        return basis @ basis.T

    projections = [projection(dictionary) for dictionary in dictionaries] + [np.eye(n)]
    in_span = left_out = 0.0
    for t in range(1, n + 1):
        projected = phi[:t] @ projections[t - 1]
        change = phi[:t] @ (projections[t] - projections[t - 1])
        solved = np.linalg.solve(lam * np.eye(n) + projected.T @ projected, projected[-1])
        in_span += ys[t - 1] ** 2 * (projected[-1] @ solved)
        mu = np.linalg.norm(change, 2) ** 2
        left_out += (mu + lam) * mu * t
    return in_span, left_out


def test_theorem_9_holds_for_all_dictionaries():
    """On 12 streams, the regret relative to the minimum of lam |f|^2 + losses is at most in_span +
    left_out / lam^2, the terms above.

    Two smaller bounds fail for some stream: in_span alone, and the bound of the paper, which lacks
    lam |f|^2 and has left_out / lam. The bound of the paper fails for stream 3, where almost every
    example joins the dictionary.
    """
    n, lengthscale = 30, 0.3
    n_above_in_span = n_above_paper = 0
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
        dictionaries = [joined[joined <= t] for t in range(n)]
        in_span, left_out = terms_of_theorem_9(gram, dictionaries, ys, lam)
        best = lam * ys @ np.linalg.solve(gram + lam * np.eye(n), ys)
        loss = float(run.loss.sum())
        assert loss <= best + in_span + left_out / lam**2 + 1e-8
        n_above_in_span += loss > best + in_span
        # without lam |f|^2 the minimum is 0, the loss of the function through all examples
        n_above_paper += loss > in_span + left_out / lam
    assert n_above_in_span > 0 and n_above_paper > 0


def clusters(seed, n):
    """A stream of clusters, one after the other, with labels of either sign."""
    random = np.random.default_rng(seed)
    xs = np.repeat(random.uniform(-1, 1, (6, 1)), n // 6, axis=0)
    xs = xs + 0.15 * random.standard_normal((n, 1))
    return xs, np.sign(np.sin(7 * xs[:, 0]) + 0.3 * random.standard_normal(n))


@pytest.mark.slow
def test_proposition_5_and_theorem_6_hold_with_their_probability():
    """With mu = lam = 1, beta = 12 log(n / delta), eps = 1/2 and |y| <= 1, each of three bounds
    holds in at least 1 - delta of 64 random streams: the residual |(I - P_t) C_t (I - P_t)| is at
    most mu (at every 300th t), the dictionary has m <= 9 d_eff log(2n / delta)^2 points, and the
    regret to the minimum of lam |f|^2 + losses is at most d_eff log(e + e n) + 2 (m + 1) n. A bound
    that holds with probability exactly 1 - delta would fail for 46% of all keys."""
    n, delta, seeds = 900, 0.1, 64
    sampling = Sampling(1.0, kors.theory_beta(n, delta), 0.5)
    forecaster = online.NystromAWV(kernels.Gaussian(2.0), 1.0, sampling, capacity=n, memory=n)
    within_bounds, relative_size = np.zeros(3), 0.0
    for seed in range(seeds):
        xs, ys = clusters(seed, n)
        # nearly every example joins the dictionary, which ends a block
        run, _ = loops.prequential(forecaster, (xs, ys), jax.random.key(seed), block=1)
        gram, size = oracles.gaussian(xs, xs, 2.0), np.asarray(run.dictionary_size)
        joined, residuals = np.flatnonzero(np.diff(size, prepend=0)), []
        for t in range(300, n + 1, 300):
            z = oracles.features(gram[:t, :t], joined[joined < t])
            residuals.append(np.linalg.eigvalsh(gram[:t, :t] - z @ z.T)[-1])
        smooth = np.linalg.solve(gram + np.eye(n), gram)
        d_eff, best = np.trace(smooth), ys @ (ys - smooth @ ys)
        bound = d_eff * np.log(np.e + np.e * n) + 2 * (size[-1] + 1) * n
        within_bounds += (
            max(residuals) <= 1,
            size[-1] <= 9 * d_eff * np.log(2 * n / delta) ** 2,
            float(run.loss.sum()) - best <= bound,
        )
        relative_size += size[-1] / n / seeds
    assert relative_size < 0.9  # for a dictionary of all points the bounds are trivial
    assert (within_bounds >= (1 - delta) * seeds).all()

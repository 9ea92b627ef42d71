"""Posteriors over finite arms in function space; the library computes in a feature space."""

from typing import NamedTuple

import numpy as np
from truth import LD, cholesky, pivoted, solve


class Posterior(NamedTuple):
    """A posterior whose variances and covariances are divided by the regularization."""

    mean: np.ndarray  # [A]
    variance: np.ndarray  # [A]
    logdet: np.ndarray  # []
    # [A,A], the part of the covariance that pulls within a batch change (if exact, all of it)
    embedded: np.ndarray
    residual: np.ndarray  # [A], the part of the variance that these pulls do not change
    covariance: np.ndarray  # [A,A]


def exact(gram, counts, sums, lam):
    """The posterior after counts [A] pulls with rewards that add up to sums [A]."""
    mean, covariance, logdet = _regression(gram, counts, sums, lam)
    variance = np.maximum(np.diag(covariance), 0)
    return Posterior(mean, variance, logdet, covariance, 0 * variance, covariance)


def sketched(gram, dictionary, counts, sums, lam, cut):
    """BKB's posterior (BBKB eqs. 1 to 3): regression with the projection of the kernel on a
    dictionary of arms. The residual of the projection is added to the variance, and is zero at the
    m arms of the dictionary. Pivots below `cut` m max k(x,x) are omitted."""
    largest = np.max(np.diag(gram)[dictionary]) if len(dictionary) else 0
    z, _ = pivoted(gram, dictionary, cut * max(len(dictionary), 1) * largest)
    projected = z @ z.T
    mean, embedded, logdet = _regression(projected, counts, sums, lam)
    residual = np.maximum(np.diag(gram - projected), 0)
    residual[np.asarray(dictionary, int)] = 0
    covariance = (gram - projected) / LD(lam) + embedded
    variance = residual / LD(lam) + np.maximum(np.diag(embedded), 0)
    return Posterior(mean, variance, logdet, embedded, residual / LD(lam), covariance)


def _regression(gram, counts, sums, lam):
    """(mean, covariance / lam, logdet(K / lam + I)) from average rewards with noise lam / count."""
    lam, pulled = LD(lam), np.flatnonzero(np.asarray(counts) > 0)
    if not len(pulled):
        return np.zeros(len(gram), LD), gram / lam, LD(0)
    noise = lam / np.asarray(counts, LD)[pulled]
    lower = cholesky(gram[np.ix_(pulled, pulled)] + np.diag(noise))
    half = solve(lower, gram[pulled])
    averages = np.asarray(sums, LD)[pulled] / np.asarray(counts, LD)[pulled]
    logdet = 2 * np.log(np.diag(lower)).sum() - np.log(noise).sum()
    return half.T @ solve(lower, averages), (gram - half.T @ half) / lam, logdet


def covariance_after_pulls(covariance, arm, times=1):
    """The covariance after `times` more pulls of an arm."""
    column = covariance[:, arm]
    return covariance - np.outer(column, column) / (column[arm] + LD(1) / LD(times))

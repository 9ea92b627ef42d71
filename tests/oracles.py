"""Plain and slow NumPy versions of the equations of the papers."""

import numpy as np


def gaussian(x, y, lengthscale):
    return np.exp(-np.square(x[:, None] - y[None]).sum(-1) / (2 * lengthscale**2))


def exact(gram, counts, sums, lam):
    """(mean, covariance / lam, logdet(K_T/lam + I)) of a GP from the ungrouped history, by a T x T
    matrix without counts."""
    arms = np.repeat(np.arange(len(counts)), counts.astype(int))
    y = (sums / np.maximum(counts, 1))[arms]
    inner = np.linalg.inv(gram[np.ix_(arms, arms)] + lam * np.eye(len(arms)))
    mean = gram[:, arms] @ inner @ y
    covariance = (gram - gram[:, arms] @ inner @ gram[arms]) / lam
    logdet = np.linalg.slogdet(gram[np.ix_(arms, arms)] / lam + np.eye(len(arms)))[1]
    return mean, covariance, logdet


def features(gram, dictionary):
    """z of every arm, [A, rank], by an eigendecomposition that is cut at m eps max(w)."""
    values, vectors = np.linalg.eigh(gram[np.ix_(dictionary, dictionary)])
    keep = values > len(dictionary) * np.finfo(float).eps * values.max()
    return gram[:, dictionary] @ (vectors[:, keep] / np.sqrt(values[keep]))


def sketched(gram, dictionary, counts, sums, lam):
    """(mean, full covariance k~, embedded covariance e, residual, logdet(V/lam)) of the DTC
    posterior (BBKB 1 to 3)."""
    z = features(gram, dictionary)
    v = lam * np.eye(z.shape[1]) + z.T @ (counts[:, None] * z)
    inverse = np.linalg.inv(v)
    embedded = z @ inverse @ z.T
    full = (gram - z @ z.T) / lam + embedded
    residual = np.diag(gram) - np.square(z).sum(1)
    logdet = np.linalg.slogdet(v / lam)[1]
    return z @ inverse @ z.T @ sums, full, embedded, residual, logdet


def embedded_after(gram, dictionary, counts, pulls, lam):
    """The full sketched variance after `pulls` more pulls, computed from scratch."""
    counts = counts + np.bincount(pulls, minlength=len(counts))
    return np.diag(sketched(gram, dictionary, counts, counts * 0, lam)[1])


def check_law(draws, mean, covariance):
    """Sample mean and covariance of `draws` [n, A] are within 4.5 standard errors."""
    variance, count = np.diag(covariance), len(draws)
    assert (np.abs(draws.mean(0) - mean) < 4.5 * np.sqrt(variance / count)).all()
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / count)
    assert (np.abs(np.cov(draws.T) - covariance) < 4.5 * error).all()

"""Oracles of the tests: reference implementations of the papers' equations in slow NumPy."""

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm


def gaussian(x, y, lengthscale):
    return np.exp(-np.square(x[:, None] - y[None]).sum(-1) / (2 * lengthscale**2))


def matern_52(x, lengthscale):
    """The Matern 5/2 kernel of all pairs of points."""
    r = np.sqrt(5 * np.square((x[:, None] - x[None]) / lengthscale).sum(-1))
    return (1 + r + r * r / 3) * np.exp(-r)


def exact(gram, counts, sums, lam):
    """(mean, covariance / lam, logdet(K_T/lam + I)) of a GP. K_T [T,T] has a row for every pull,
    and each pull of an arm has the arm's average reward."""
    arms = np.repeat(np.arange(len(counts)), counts.astype(int))
    y = (sums / np.maximum(counts, 1))[arms]
    inner = np.linalg.inv(gram[np.ix_(arms, arms)] + lam * np.eye(len(arms)))
    mean = gram[:, arms] @ inner @ y
    covariance = (gram - gram[:, arms] @ inner @ gram[arms]) / lam
    logdet = np.linalg.slogdet(gram[np.ix_(arms, arms)] / lam + np.eye(len(arms)))[1]
    return mean, covariance, logdet


def features(gram, dictionary):
    """Nystrom features [A, rank] from a dictionary of m arms. Eigenvalues of at most m eps times
    the largest one are left out."""
    values, vectors = np.linalg.eigh(gram[np.ix_(dictionary, dictionary)])
    used = values > len(dictionary) * np.finfo(float).eps * values.max()
    return gram[:, dictionary] @ (vectors[:, used] / np.sqrt(values[used]))


def sketched(gram, dictionary, counts, sums, lam):
    """(mean, full covariance k~, embedded covariance e, residual variances, logdet(V/lam)) of the
    DTC posterior (BBKB eq. 1 to 3)."""
    z = features(gram, dictionary)
    v = lam * np.eye(z.shape[1]) + z.T @ (counts[:, None] * z)
    inverse = np.linalg.inv(v)
    embedded = z @ inverse @ z.T
    full = (gram - z @ z.T) / lam + embedded
    residual = np.diag(gram) - np.square(z).sum(1)
    logdet = np.linalg.slogdet(v / lam)[1]
    return z @ inverse @ z.T @ sums, full, embedded, residual, logdet


def of_observations(gram, dictionary, observed, rewards, lam):
    """`sketched` after the observations with the indices `observed`; observation i is at point i.
    With an empty dictionary the posterior is the prior."""
    if not len(dictionary):
        return np.zeros(len(gram)), gram / lam, np.zeros_like(gram), np.diag(gram), 0.0
    counts = np.bincount(observed, minlength=len(gram)).astype(float)
    sums = np.bincount(observed, rewards[observed], minlength=len(gram))
    return sketched(gram, dictionary, counts, sums, lam)


def variance_after(gram, dictionary, counts, pulls, lam):
    """The variance of `sketched` [A] after the further `pulls`, computed from scratch."""
    counts = counts + np.bincount(pulls, minlength=len(counts))
    return np.diag(sketched(gram, dictionary, counts, counts * 0, lam)[1])


def check_law(draws, mean, covariance, mean_errors=4.5, covariance_errors=4.5):
    """Compares the mean and covariance of `draws` [n,A] with the true ones: A means within
    `mean_errors` and A (A + 1) / 2 covariances within `covariance_errors` standard errors of normal
    draws. At 4.5 standard errors a correct entry fails with probability 7e-6."""
    variance, count = np.diag(covariance), len(draws)
    assert (np.abs(draws.mean(0) - mean) < mean_errors * np.sqrt(variance / count)).all()
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / count)
    assert (np.abs(np.cov(draws.T) - covariance) < covariance_errors * error).all()


def laplace(t, power):
    """The integral of s^power exp(-s^2/2 - t s) over s > 0, by quadrature with s / max(t, 1) in
    place of s."""
    scale = max(t, 1.0)

    def integrand(s):
        return s**power * np.exp(-((s / scale) ** 2) / 2 - t / scale * s)

    value, _ = quad(integrand, 0, 60, epsabs=0, epsrel=1e-12, limit=200)
    return value / scale ** (power + 1)


def log_cdf(z):
    """log Phi(z) = log phi(z) + log of the integral of exp(-s^2/2 + z s), for z < 0."""
    return norm.logcdf(z) if z >= 0 else norm.logpdf(z) + np.log(laplace(-z, 0))


def log_excess(z):
    """log E (Z + z)_+: phi(z) times the integral of s exp(-s^2/2 + z s), for z < 0."""
    if z >= 0:
        return np.log(norm.pdf(z) + z * norm.cdf(z))
    return norm.logpdf(z) + np.log(laplace(-z, 1))

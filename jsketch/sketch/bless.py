"""Dictionaries of observed evaluations by leverage score sampling, on the host, for warm starts.

BLESS: Rudi, Calandriello, Carratino, Rosasco. On fast leverage score sampling and optimal learning.
NeurIPS 2018. The regularization decreases from level to level, from a value at which all scores are
very small to the given one. Each level estimates the scores with the dictionary of the previous
level, so that no n x n matrix is formed.

An arm with n_i evaluations counts as n_i copies of one point: its feature map is sqrt(n_i)
phi(x_i), and its leverage score is n_i sigma^2(x_i).

Because kernel values have a rounding error of eps k(x,x), every regularization below about
m eps k(x,x) for m points gives the scores of about m eps k(x,x).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsketch.types import PRNGKey

# largest number of draws in a level; if a draw keeps one point on average, all draws are empty with
# probability e^-100
DRAWS = 100
# oversampling of each level; with 2, the value of the authors, scores have errors of more than a
# factor 3
QBAR = 10.0
LEAST_ROWS = 256  # the least number of rows of a compiled Gram matrix
# `_factor` multiplies m eps k(x,x) by at most this many powers of 10, because rounding errors are
# larger for points hundreds of lengthscales from their mean
ATTEMPTS = 6


class WeightedDictionary(NamedTuple):
    """A weighted dictionary of points."""

    rows: np.ndarray  # [m] int, row numbers of the points
    probability: np.ndarray  # [m], inclusion probabilities, the inverse weights


_gram = jax.jit(lambda kernel, x, y: kernel.gram(x, y))
_diag = jax.jit(lambda kernel, x: kernel.diag(x))


def _pad(x: np.ndarray) -> jnp.ndarray:
    """The points x [n,d], padded with copies of the first one to LEAST_ROWS rows or a power of two,
    because each size compiles a program."""
    size = max(LEAST_ROWS, 1 << max(len(x) - 1, 0).bit_length())
    return jnp.asarray(np.concatenate([x, np.broadcast_to(x[:1], (size - len(x), x.shape[1]))]))


def _scaled_gram(
    kernel: Any, x: np.ndarray, counts_x: np.ndarray, y: np.ndarray, counts_y: np.ndarray
) -> np.ndarray:
    """The matrix of sqrt(n_i n_j) k(x_i,y_j), where counts_x has the n_i and counts_y the n_j."""
    if len(x) == 0 or len(y) == 0:
        return np.zeros((len(x), len(y)))
    gram = np.array(_gram(kernel, _pad(x), _pad(y)), float)[: len(x), : len(y)]
    # in place, because the matrix may be large
    gram *= np.sqrt(counts_x)[:, None]
    gram *= np.sqrt(counts_y)
    return gram


def _scaled_diag(kernel: Any, x: np.ndarray, n: np.ndarray) -> np.ndarray:
    return n * np.asarray(_diag(kernel, _pad(x)), float)[: len(x)]


def _eps(kernel: Any, x: np.ndarray) -> float:
    """The machine epsilon of the kernel's values at points x [n,d]."""
    return float(jnp.finfo(jax.eval_shape(_diag, kernel, jnp.asarray(x[:1])).dtype).eps)


def leverage_scores(
    kernel: Any, points: Any, counts: Any, dictionary: WeightedDictionary, regularization: float
) -> np.ndarray:
    """Estimated ridge leverage scores [n] in [0,1] of points [n,d] with counts [n] of evaluations:
    (k~_ii - k~_iD (K~_DD + lam diag(p))^-1 k~_Di) / lam, k~_ij = sqrt(n_i n_j) k(x_i,x_j), where p
    are the inclusion probabilities of the dictionary D (BLESS eq. 3; THEORY 3.4)."""
    from scipy import linalg  # a tenth of a second that most scripts do not need

    x, n = np.asarray(points), np.asarray(counts, float)
    diag = _scaled_diag(kernel, x, n)
    if len(dictionary.rows) == 0:  # SciPy 1.13 does not solve empty systems
        return np.clip(diag / regularization, 0, 1)
    chosen, chosen_counts = x[dictionary.rows], n[dictionary.rows]
    cross = _scaled_gram(kernel, chosen, chosen_counts, x, n)
    noise, rounding = regularization * dictionary.probability, len(chosen) * _eps(kernel, x)
    root, ratio = _factor(cross[:, dictionary.rows], noise, rounding)
    half = linalg.solve_triangular(root, cross, lower=True, overwrite_b=True, check_finite=False)
    residual = diag - np.einsum("ij,ij->j", half, half)
    return np.clip(residual / np.maximum(regularization, ratio * diag), 0, 1)


def _factor(gram: np.ndarray, noise: np.ndarray, rounding: float) -> tuple[np.ndarray, float]:
    """(L, r) with L L^T = gram + diag(max(noise, r diag(gram))), where r is the first of rounding,
    10 rounding ... with which the sum is positive definite. Raises ValueError if no r suffices."""
    for ratio in rounding * 10.0 ** np.arange(ATTEMPTS):
        diagonal = np.maximum(noise, ratio * np.diag(gram))
        try:
            return np.linalg.cholesky(gram + np.diag(diagonal)), float(ratio)
        except np.linalg.LinAlgError:
            continue
    raise ValueError(
        "the kernel's matrix is not positive semi-definite, by far more than rounding, so that"
        " these points have no leverage scores."
    )


def exact_leverage_scores(
    kernel: Any, points: Any, counts: Any, regularization: float
) -> np.ndarray:
    """Ridge leverage scores diag(K~ (K~ + lam I)^-1), [n]; K~ as in `leverage_scores`; O(n^3)."""
    x, n = np.asarray(points), np.asarray(counts, float)
    gram = _scaled_gram(kernel, x, n, x, n)
    noise = np.maximum(regularization, len(n) * _eps(kernel, x) * np.diag(gram))
    solved = np.linalg.solve(gram + np.diag(noise), gram)
    return np.clip(np.diag(solved), 0, 1)


def bless(
    kernel: Any, points: Any, counts: Any, regularization: float, key: PRNGKey
) -> WeightedDictionary:
    """A weighted dictionary whose scores are accurate to a factor 3 with high probability.

    kernel          a kernel, of `jsketch.kernels` or another one
    points          [n, d], evaluated points
    counts          [n] integers above 0, number of evaluations of each point
    regularization  lam > 0, at which the scores are taken
    key             the key of the draws

    The size is about QBAR times the effective dimension, and may be zero if all scores are nearly
    zero. Raises ValueError for an empty history, invalid counts or a non-positive regularization.
    """
    x, n = np.asarray(points), np.asarray(counts, float)
    if len(x) == 0 or n.shape != (len(x),) or (n <= 0).any() or (n != np.round(n)).any():
        raise ValueError(
            "bless needs at least one point, and for each a whole number of evaluations above 0."
        )
    if regularization <= 0:
        raise ValueError(f"regularization must be above 0; {regularization} was given.")
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    diag = _scaled_diag(kernel, x, n)
    first_lam = max(float(diag.sum()), 2 * regularization)
    # smaller regularizations have the same scores up to rounding errors
    last_lam = max(regularization, _eps(kernel, x) * diag.min(where=diag > 0, initial=first_lam))
    levels = max(2, int(np.ceil(np.log(first_lam / last_lam))))  # one for each factor e
    dictionary = WeightedDictionary(np.zeros(0, int), np.zeros(0))
    for lam in np.geomspace(first_lam, last_lam, levels):
        dictionary = _draw_level(kernel, x, n, diag, dictionary, float(lam), rng)
    return dictionary


def _draw_level(
    kernel: Any,
    x: np.ndarray,
    n: np.ndarray,
    diag: np.ndarray,
    dictionary: WeightedDictionary,
    lam: float,
    rng: np.random.Generator,
) -> WeightedDictionary:
    """The dictionary of one level. Candidates are drawn by the bound k/(k + lam) on their scores,
    and the dictionary from the candidates by estimated scores. Empty draws are repeated."""
    bound = np.minimum(1, QBAR * diag / (diag + lam))
    for _ in range(DRAWS):
        candidates = np.flatnonzero(rng.uniform(size=len(x)) < bound)
        if len(candidates) == 0:
            continue
        rows = np.concatenate([candidates, dictionary.rows])
        previous = WeightedDictionary(np.arange(len(candidates), len(rows)), dictionary.probability)
        scores = leverage_scores(kernel, x[rows], n[rows], previous, lam)[: len(candidates)]
        probability = np.minimum(QBAR * scores, bound[candidates])
        accepted = rng.uniform(size=len(candidates)) * bound[candidates] < probability
        if accepted.any():
            return WeightedDictionary(candidates[accepted], probability[accepted])
    # after DRAWS empty draws the scores of this level are nearly zero, or are rounding errors
    return dictionary

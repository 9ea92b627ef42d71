"""`kernels.Mixed`: values and positive semi-definiteness against NumPy, and columns that do not
fit."""

import jax
import numpy as np
import pytest

from jsketch.kernels import Columns, Mixed
from jsketch.kernels.discrete import pack_bits

RANDOM = np.random.default_rng(0)
A, BITS = 30, 40
NUMBERS = RANDOM.uniform(0, 1, (A, 2))
LEVELS = RANDOM.integers(0, 3, A)
SETS = RANDOM.integers(0, 2, (A, BITS))
SITES = RANDOM.integers(0, 4, A)
# out of order on purpose: a category before and after the numbers
COLUMNS = (
    Columns("category", 3),
    Columns("bits", 3),
    Columns("numbers", 2),
    Columns("category", 4),
)
X = np.hstack([np.eye(3)[LEVELS], pack_bits(SETS), NUMBERS, np.eye(4)[SITES]])
LENGTHS = np.array([0.7, 0.4, 0.3, 2.0, 1.3])


def by_pairs(i, j):
    """The kernel's value of two candidates, in words."""
    common, either = (SETS[i] & SETS[j]).sum(), (SETS[i] | SETS[j]).sum()
    squares = [
        float(LEVELS[i] != LEVELS[j]),
        1 - common / either,
        *np.square(NUMBERS[i] - NUMBERS[j]),
        float(SITES[i] != SITES[j]),
    ]
    r = np.sqrt(5 * (np.array(squares) / LENGTHS**2).sum())
    return (1 + r + r * r / 3) * np.exp(-r)


def test_values_and_positivity():
    kernel = Mixed(LENGTHS, COLUMNS)
    kernel.check(X)
    kernel.check_inputs(X)
    gram = np.asarray(jax.jit(kernel.gram)(X, X))
    expected = np.array([[by_pairs(i, j) for j in range(A)] for i in range(A)])
    np.testing.assert_allclose(gram, expected, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), 1)
    assert np.linalg.eigvalsh(gram).min() > -1e-12


@pytest.mark.parametrize(
    ("columns", "x", "words"),
    [
        (COLUMNS[:3], X, "columns name 8 columns in all; the candidates have 12"),
        ((Columns("words", 12),), X, "kind"),
        ((Columns("category", 12),), X, "columns 0 to 11 are a category"),
        ((Columns("bits", 12),), X, "words of 16 bits"),
    ],
)
def test_columns_that_do_not_fit(columns, x, words):
    with pytest.raises(ValueError, match=words):
        Mixed(LENGTHS, columns).check_inputs(x)


def test_lengthscales_that_do_not_fit():
    with pytest.raises(ValueError, match="has 5 lengthscales"):
        Mixed(LENGTHS[:4], COLUMNS).check(X)
    with pytest.raises(ValueError, match="above 0"):
        Mixed(-LENGTHS, COLUMNS).check(X)

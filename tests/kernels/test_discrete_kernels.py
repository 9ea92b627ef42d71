"""Kernels of sets, of counts and of mixed columns, and kernels given as tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import check_refusals
from small_problems import ASK, INIT

from jsketch import Arms, kernels
from jsketch.bandits import BBKB
from jsketch.kernels.table import check_table
from jsketch.suggest import Columns, Mixed, discrete
from jsketch.suggest.discrete import pack_bits

RANDOM = np.random.default_rng(0)
BITS = (RANDOM.uniform(size=(50, 75)) < RANDOM.uniform(0, 0.6, (50, 1))).astype(int)
BITS[7] = BITS[31] = 0
COUNTS = RANDOM.poisson(0.7, (40, 23)).astype(float)
COUNTS[5] = 0
POINTS = RANDOM.uniform(size=(60, 2))


def test_tanimoto_is_the_ratio_of_set_sizes():
    sets = [set(np.flatnonzero(row)) for row in BITS]
    desired = np.array([[len(a & b) / len(a | b) if a | b else 1.0 for b in sets] for a in sets])
    packed = jnp.asarray(pack_bits(BITS))
    assert packed.shape == (50, 5)
    np.testing.assert_allclose(discrete.Tanimoto().gram(packed, packed), desired, atol=1e-15)
    bits = jnp.asarray(BITS, float)
    gram = discrete.Tanimoto(packed=False).gram(bits, bits)
    np.testing.assert_allclose(gram, desired, atol=1e-15)
    np.testing.assert_allclose(discrete.Tanimoto().diag(packed), np.diag(desired))
    assert np.linalg.eigvalsh(desired).min() > -1e-12


def test_packed_bits_survive_float32():
    float32_bits = jnp.asarray(pack_bits(BITS, np.float32))
    assert float32_bits.dtype == jnp.float32
    gram = discrete.Tanimoto().gram(float32_bits, float32_bits)
    packed = jnp.asarray(pack_bits(BITS))
    np.testing.assert_allclose(gram, discrete.Tanimoto().gram(packed, packed), atol=1e-6)
    mixed_gram = discrete.Tanimoto().gram(float32_bits, pack_bits(BITS))
    np.testing.assert_array_equal(mixed_gram, gram)
    with jax.enable_x64(False):
        numpy_gram = discrete.Tanimoto().gram(pack_bits(BITS), pack_bits(BITS))
    np.testing.assert_array_equal(numpy_gram, gram)


def test_min_max_is_the_ratio_of_sums():
    x = jnp.asarray(COUNTS)
    minima, maxima = (f(COUNTS[:, None], COUNTS).sum(2) for f in (np.minimum, np.maximum))
    desired = np.where(maxima > 0, minima / np.maximum(maxima, 1e-300), 1)
    np.testing.assert_allclose(discrete.MinMax().gram(x, x), desired, atol=1e-14)
    np.testing.assert_allclose(discrete.MinMax().diag(x), np.diag(desired))
    assert np.linalg.eigvalsh(desired).min() > -1e-12


@pytest.mark.filterwarnings("ignore:.*of the 50 arms repeat")
@pytest.mark.parametrize(
    ("kernel", "x"),
    [(kernels.Gaussian(0.5), POINTS), (discrete.Tanimoto(), pack_bits(BITS))],
    ids=["gaussian", "tanimoto"],
)
def test_a_table_of_kernel_values_gives_the_picks_of_its_kernel(kernel, x):
    table = kernel.gram(x, x)
    counts = np.arange(len(x)) % 3.0
    picks = []
    for k, arms in ((kernel, x), (kernels.Precomputed(table), kernels.index_features(table))):
        bandit = BBKB(k, regularization=0.1, noise_std=0.3, max_batch=16, capacity=60, ratio=60.0)
        sums = counts * np.sin(np.arange(len(x)))
        state = INIT(bandit, arms, counts, sums, None)
        picks.append(ASK(bandit, state, Arms(arms), jax.random.key(0)))
    np.testing.assert_array_equal(picks[0].index, picks[1].index)
    assert int(picks[0].size) > 1


NUMBERS = RANDOM.uniform(0, 1, (30, 2))
LEVELS = RANDOM.integers(0, 3, 30)
SETS = RANDOM.integers(0, 2, (30, 40))
SITES = RANDOM.integers(0, 4, 30)
# one category is before the numbers and one after them
KINDS = ("category", 3), ("bits", 3), ("numbers", 2), ("category", 4)
COLUMNS = tuple(Columns(*kind) for kind in KINDS)
CANDIDATES = np.hstack([np.eye(3)[LEVELS], pack_bits(SETS), NUMBERS, np.eye(4)[SITES]])
LENGTHS = np.array([0.7, 0.4, 0.3, 2.0, 1.3])


def mixed_value(i, j):
    """The kernel's value of two candidates, from their categories, sets and numbers."""
    common, either = (SETS[i] & SETS[j]).sum(), (SETS[i] | SETS[j]).sum()
    squares = [
        float(LEVELS[i] != LEVELS[j]),
        1 - common / either,
        *np.square(NUMBERS[i] - NUMBERS[j]),
        float(SITES[i] != SITES[j]),
    ]
    r = np.sqrt(5 * (np.array(squares) / LENGTHS**2).sum())
    return (1 + r + r * r / 3) * np.exp(-r)


def test_mixed_kernels_match_their_formula():
    kernel = Mixed(LENGTHS, COLUMNS)
    kernel.check(CANDIDATES)
    kernel.check_inputs(CANDIDATES)
    gram = np.asarray(jax.jit(kernel.gram)(CANDIDATES, CANDIDATES))
    expected = np.array([[mixed_value(i, j) for j in range(30)] for i in range(30)])
    np.testing.assert_allclose(gram, expected, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(CANDIDATES), 1)
    assert np.linalg.eigvalsh(gram).min() > -1e-12


def check(lengthscales=LENGTHS, columns=COLUMNS):
    kernel = Mixed(lengthscales, columns)
    kernel.check_inputs(CANDIDATES)
    kernel.check(CANDIDATES)


def test_wrong_bits_columns_and_lengthscales_are_refused():
    rows = [
        (lambda: pack_bits(np.full((2, 3), 2)), "zeros and ones"),
        (lambda: pack_bits(BITS, np.float16), "cannot hold 16 bits"),
        (lambda: check(columns=COLUMNS[:3]), "columns add up to 8; candidates have 12"),
        (lambda: check(columns=(Columns("words", 12),)), "kind"),
        (lambda: check(columns=(Columns("category", 12),)), "columns 0 to 11 are a category"),
        (lambda: check(columns=(Columns("bits", 12),)), "words of 16 bits"),
        (lambda: check(LENGTHS[:4]), "has 5 lengthscales"),
    ]
    check_refusals(rows)


def test_a_table_is_symmetric_up_to_a_ten_thousandth_of_its_largest_variance(monkeypatch):
    monkeypatch.setattr("jsketch.kernels.table.ROWS", 2)
    table = np.diag([1.0, 2.0, 1.0, 1.0, 1.0])
    table[3, 4] = 1.9e-4
    check_table(table)
    for entry in ((0, 1), (3, 2), (3, 4)):
        wrong = table.copy()
        wrong[entry] += 2.1e-4
        low, high = sorted(entry)
        with pytest.raises(ValueError, match=rf"symmetric: entry \[{low}, {high}\]"):
            check_table(wrong)

"""Kernels of sets and counts against set formulas, and a bandit on packed fingerprints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Arms, kernels
from jsketch.bandits import BBKB
from jsketch.kernels.discrete import pack_bits

RANDOM = np.random.default_rng(0)
BITS = (RANDOM.uniform(size=(50, 75)) < RANDOM.uniform(0, 0.6, (50, 1))).astype(int)
BITS[7] = BITS[31] = 0
COUNTS = RANDOM.poisson(0.7, (40, 23)).astype(float)
COUNTS[5] = 0


def test_tanimoto_is_the_ratio_of_set_sizes():
    sets = [set(np.flatnonzero(row)) for row in BITS]
    desired = np.array([[len(a & b) / len(a | b) if a | b else 1.0 for b in sets] for a in sets])
    packed = jnp.asarray(pack_bits(BITS))
    assert packed.shape == (50, 5)
    np.testing.assert_allclose(kernels.Tanimoto().gram(packed, packed), desired, atol=1e-15)
    plain = jnp.asarray(BITS, float)
    np.testing.assert_allclose(
        kernels.Tanimoto(packed=False).gram(plain, plain), desired, atol=1e-15
    )
    np.testing.assert_allclose(kernels.Tanimoto().diag(packed), np.diag(desired))
    assert np.linalg.eigvalsh(desired).min() > -1e-12


def test_bits_survive_float32():
    single = jnp.asarray(pack_bits(BITS, np.float32))
    assert single.dtype == jnp.float32
    gram = kernels.Tanimoto().gram(single, single)
    np.testing.assert_allclose(
        gram, kernels.Tanimoto().gram(*[jnp.asarray(pack_bits(BITS))] * 2), atol=1e-6
    )


def test_min_max_is_the_ratio_of_sums():
    x = jnp.asarray(COUNTS)
    low, high = (
        np.minimum(COUNTS[:, None], COUNTS).sum(2),
        np.maximum(COUNTS[:, None], COUNTS).sum(2),
    )
    desired = np.where(high > 0, low / np.maximum(high, 1e-300), 1)
    np.testing.assert_allclose(kernels.MinMax().gram(x, x), desired, atol=1e-14)
    np.testing.assert_allclose(kernels.MinMax().diag(x), np.diag(desired))
    assert np.linalg.eigvalsh(desired).min() > -1e-12


@pytest.mark.filterwarnings("ignore:.*of the 50 arms repeat")
def test_a_bandit_on_fingerprints_picks_as_on_their_table():
    packed = jnp.asarray(pack_bits(BITS))
    table = kernels.Tanimoto().gram(packed, packed)
    counts = np.arange(50.0) % 3
    picks = []

    @jax.jit  # in one program instead of one for each operation
    def asked(bandit, arms, counts, sums):
        state = bandit.init(Arms(arms), jax.random.key(0), pull_counts=counts, reward_sums=sums)
        return bandit.ask(state, jax.random.key(0))

    for kernel, arms in (
        (kernels.Tanimoto(), packed),
        (kernels.Precomputed(table), kernels.index_features(table)),
    ):
        bandit = BBKB(
            kernel, regularization=0.1, noise_std=0.3, max_batch=16, capacity=50, ratio=60.0
        )
        picks.append(asked(bandit, arms, counts, counts * BITS[:, 3].astype(float)))
    np.testing.assert_array_equal(picks[0].index, picks[1].index)
    assert int(picks[0].size) > 1


@pytest.mark.parametrize("wrong", [np.full((2, 3), 2), np.zeros(4)])
def test_bits_must_be_bits(wrong):
    with pytest.raises(ValueError, match="zeros and ones"):
        pack_bits(wrong)


def test_words_need_a_float_that_holds_them():
    with pytest.raises(ValueError, match="cannot hold 16 bits"):
        pack_bits(BITS, np.float16)

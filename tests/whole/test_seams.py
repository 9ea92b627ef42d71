"""Where two promises meet: host loops and one dtype, kernels that are none and exact samples, warm
starts and tracing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Arms, kernels, loops
from jsketch.bandits import BKB, TS, Uniform
from jsketch.box import UniformBox
from jsketch.types import Box, Query

KEY = jax.random.key(0)
X = jnp.asarray(np.random.default_rng(0).uniform(size=(6, 2)))
BANDIT = BKB(kernels.Gaussian(0.3), capacity=6)


def test_drive_ends_where_the_posterior_does():
    """Rewards whose sum is no float any more: `run` says so, and so does `drive`."""
    with pytest.raises(FloatingPointError, match="posterior is not finite") as raised:
        loops.drive(BANDIT, lambda arms: [1e308] * len(arms), Arms(X), KEY, 6)
    assert raised.value.driven.t >= 1


def test_rewards_are_finite_in_the_dtype_that_learns_them():
    """1e300 is a number in float64 and infinite in float32: it is refused, and not recorded as if
    it had been learned."""
    single = X.astype(jnp.float32)
    with pytest.raises(ValueError, match="infinite in float32"):
        loops.drive(Uniform(), lambda arms: [1e300] * len(arms), Arms(single), KEY, 2)
    box = Box(jnp.zeros(1, jnp.float32), jnp.ones(1, jnp.float32))
    with pytest.raises(ValueError, match="infinite in the box's float32"):
        loops.drive_box(UniformBox(), lambda x: 1e300, box, KEY, 2)


@pytest.mark.filterwarnings("ignore:the kernel is not positive semi-definite")
def test_a_negative_diagonal_has_no_samples():
    """No shift would ever have been enough: the search for one must end."""
    table = -jnp.eye(5)
    bandit = TS(kernels.Precomputed(table), batch=2, capacity=4)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        bandit.init(Arms(kernels.index_features(table)), KEY)


def test_a_traced_dictionary_of_arms_that_are_not_there_is_flagged():
    ones = jnp.ones(6)
    query = Query(jnp.zeros(1, jnp.int32), jnp.ones(1, bool))

    @jax.jit
    def told(dictionary):
        state = BANDIT.init(Arms(X), KEY, pull_counts=ones, reward_sums=ones, dictionary=dictionary)
        return state.dictionary.mask.sum(), BANDIT.tell(state, query, jnp.ones(1), KEY)[1].nonfinite

    assert [int(value) for value in told(jnp.array([0, 3]))] == [2, 0]
    for wrong in ([-1, 3], [3, 99]):
        assert [int(value) for value in told(jnp.array(wrong))] == [1, 1]

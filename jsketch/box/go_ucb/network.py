"""The parametric function of GO-UCB's experiments: two linear layers with a sigmoid between them
(section 6)."""

from __future__ import annotations

import jax
from flax import linen as nn
from jax import Array
from jax.typing import DTypeLike

from jsketch.types import PRNGKey


def uniform_fan_in(key: PRNGKey, shape: tuple[int, ...], dtype: DTypeLike, fan_in: int) -> Array:
    """Uniform in +-1/sqrt(fan_in), what the paper's framework draws by default."""
    bound = fan_in**-0.5
    return jax.random.uniform(key, shape, dtype, -bound, bound)


class Network(nn.Module):
    """f_w(x) = w2 . sigmoid(W1 x + b1) + b2 for x [d]; d_w = hidden (d + 2) + 1, which is 551 at d
    = 20."""

    hidden: int = 25

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """[] for x [d], computed in its dtype."""
        return self._linear(1, nn.sigmoid(self._linear(self.hidden, x)))[0]

    def _linear(self, size: int, x: Array) -> Array:
        def init(key: PRNGKey, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
            return uniform_fan_in(key, shape, dtype, x.shape[0])

        return nn.Dense(size, kernel_init=init, bias_init=init, param_dtype=x.dtype)(x)

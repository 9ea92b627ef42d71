"""jsketch: sketched kernel bandits and online kernel regression in JAX.

    Kernel -> Sketch -> Posterior -> { Bandit | Forecaster } -> Loop

A kernel, sketched into M features, gives a ridge posterior; an algorithm scores candidates with it;
an observation updates it. The core has the four papers, their baselines and what they need to run:
`types`, `linalg`, `kernels`, `sketch`, `posterior`, `search`, `online`, `bandits`, `box`,
`problems`, `loops` and `adapters`. Three packages build on it and are imported by name:

    jsketch.contrib   methods after the papers; their interfaces may change
    jsketch.scale     arms beyond one device or one memory
    jsketch.suggest   the next batch of experiments from a table

Dimension legend, used in every shape comment of the package:
    A arms (candidates)          d inputs per arm             M sketch capacity (static)
    m sketch size, m <= M        B batch capacity (static)    N capacity for observed arms (static)
    T horizon, in evaluations    S seeds

Scales. Variances follow the papers' "leverage units": sigma^2 is divided by the regularization
lambda everywhere, so the prior variance is k(x,x)/lambda. The Bayesian standard deviation is
`posterior.bayes_std(variance, lambda)`.

The library follows the dtype of the arms and sets no jax configuration; experiments run in float64.
"""

from jsketch import (
    bandits,
    box,
    kernels,
    loops,
    online,
    posterior,
    problems,
    sketch,
    struct,
)
from jsketch.loops import drive, plan, rollout, run
from jsketch.types import Arms, Box, Info, Query

__version__ = "0.1.0"

__all__ = [
    "Arms",
    "Box",
    "Info",
    "Query",
    "bandits",
    "box",
    "drive",
    "kernels",
    "loops",
    "online",
    "plan",
    "posterior",
    "problems",
    "rollout",
    "run",
    "sketch",
    "struct",
]

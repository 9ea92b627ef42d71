"""Linear bandits on Fourier features of a stationary kernel: UCB, and Thompson sampling (TS-QFF).

The features are taken for the kernel itself, residual 0. With fewer of them than the explored space
has dimensions the posterior underestimates variances where nothing was observed (variance
starvation: Wang, Gehring, Kohli, Jegelka. Batched large-scale Bayesian optimization in
high-dimensional spaces. AISTATS 2018); BKB keeps the residual and does not.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import features, widths
from jsketch.bandits.core.features import FeatureState
from jsketch.posterior import features as posteriors
from jsketch.precision import one_dtype
from jsketch.sketch import fourier
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query


def _start(bandit: FourierUCB | FourierTS, domain: Arms, key: PRNGKey) -> FeatureState:
    checks.confidence(bandit)
    checks.positive(scale=bandit.scale)
    domain = checks.arms(domain)
    checks.model(domain, bandit.kernel, bandit.regularization)
    checks.features_of(
        bandit.features, "draw", "RandomFourier or QuadratureFourier, from sketch.fourier"
    )
    checks.one_key(key=key)
    arm_key, feature_key = jax.random.split(key)
    arms = domain.features
    drawn = bandit.features.draw(bandit.kernel, arms.shape[1], feature_key, arms.dtype)
    return features.start(bandit, domain, arm_key, fourier.features(drawn, fourier.near_zero(arms)))


@struct.dataclass
@one_dtype
class FourierUCB:
    """GP-UCB with Fourier features, random (the default) or by quadrature, in place of the kernel;
    O(A M + M^2) a step."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    scale: ArrayLike = 1.0  # factor on the width
    features: Any = RandomFourier()  # or QuadratureFourier
    width: widths.Width = widths.gp_ucb_code

    def init(self, domain: Arms, key: PRNGKey) -> FeatureState:
        """The state before the first round. Raises ValueError on static mistakes."""
        return _start(self, domain, key)

    def confidence_width(self, state: FeatureState) -> Array:
        """beta_t, []."""
        return features.confidence_width(self, state)

    def scores(self, state: FeatureState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        return features.upper_bounds(self, state)

    def ask(self, state: FeatureState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return features.best(state, self.scores(state))

    def tell(
        self, state: FeatureState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[FeatureState, Info]:
        return features.learn(self, state, query, y, key)


@struct.dataclass
@one_dtype
class FourierTS:
    """Thompson sampling with Fourier features, by quadrature (TS-QFF, the default) or random; O(A M
    + M^2) a step.

    Mutny and Krause. Efficient high dimensional Bayesian optimization with additivity and
    quadrature Fourier features. NeurIPS 2018, Algorithm 1. A sample is one draw of the M weights,
    joint over all arms.
    """

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    scale: ArrayLike = 1.0  # factor on the width
    features: Any = QuadratureFourier()  # or RandomFourier
    # a sample is a draw from the Bayesian posterior, and not one of a confidence set
    width: widths.Width = widths.Bayesian(deviations=1.0)

    def init(self, domain: Arms, key: PRNGKey) -> FeatureState:
        """The state before the first round. Raises ValueError on static mistakes."""
        return _start(self, domain, key)

    def confidence_width(self, state: FeatureState) -> Array:
        """The factor on the posterior's standard deviation in leverage units, []."""
        return features.confidence_width(self, state)

    def sample(self, state: FeatureState, key: PRNGKey) -> Array:
        """A draw of the mean rewards of all arms, [A], from N(mean, width^2 covariance)."""
        normal = jax.random.normal(key, (state.whitened.shape[1],), state.whitened.dtype)
        deviation = posteriors.deviation(state.posterior, state.whitened, normal)
        return state.posterior.mean + self.confidence_width(state) * deviation

    def ask(self, state: FeatureState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return features.best(state, self.sample(state, key))

    def tell(
        self, state: FeatureState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[FeatureState, Info]:
        return features.learn(self, state, query, y, key)

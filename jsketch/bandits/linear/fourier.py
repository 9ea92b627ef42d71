"""Linear bandits on Fourier features of a stationary kernel: UCB and Thompson sampling (TS-QFF).

The features replace the kernel, and the variances have no residual. If there are fewer features
than dimensions of the explored space, the posterior underestimates variances at unobserved points
(variance starvation: Wang, Gehring, Kohli, Jegelka. Batched large-scale Bayesian optimization in
high-dimensional spaces. AISTATS 2018). BKB avoids this, because its variances include the residual.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.linear import feature_posterior
from jsketch.bandits.linear.feature_posterior import FeatureBandit, FeatureState
from jsketch.core import history, widths
from jsketch.numerics import matmul
from jsketch.sketch import fourier
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier
from jsketch.types import Arms, PRNGKey, Query


@struct.dataclass
class FourierBandit(FeatureBandit, widths.KernelBandit):
    """The fields and the method `init` that FourierUCB and FourierTS share."""

    scale: ArrayLike = struct.number(1.0, above=0)  # factor on the width
    features: Any = RandomFourier()  # or QuadratureFourier
    width: widths.Width = widths.gp_ucb_code  # the confidence width, one of `bandits.widths`

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.feature_map(
            self.features, "draw", "RandomFourier or QuadratureFourier, from sketch.fourier"
        )

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> FeatureState:
        x = checks.bandit_arms(self, self.kernel, arms, key, data).features
        _, feature_key = jax.random.split(key)
        fourier_map = self.features.draw(self.kernel, x.shape[1], feature_key, x.dtype)
        z = fourier.features(fourier_map, fourier.subtract_large_means(x))
        return feature_posterior.start(self.regularization, z)


@struct.dataclass
class FourierUCB(FourierBandit):
    """GP-UCB on random (the default) or quadrature Fourier features. A step costs O(A M + M^2).

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    scale           factor on the width
    features        `RandomFourier` or `QuadratureFourier`, from `jsketch.sketch.fourier`
    width           the confidence width, one of `bandits.widths`
    """


@struct.dataclass
class FourierTS(FourierBandit):
    """Thompson sampling on quadrature (TS-QFF, the default) or random Fourier features. A step
    costs O(A M + M^2).

    Mutny and Krause. Efficient high dimensional Bayesian optimization with additivity and
    quadrature Fourier features. NeurIPS 2018, Algorithm 1. One draw of the M weights determines
    the sampled mean rewards of all arms.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    scale           factor on the width
    features        `QuadratureFourier` or `RandomFourier`, from `jsketch.sketch.fourier`
    width           the factor on the standard deviations of a draw, one of `bandits.widths`; by
                    default draws come from the Bayesian posterior
    """

    features: Any = QuadratureFourier()
    width: widths.Width = widths.Bayesian(deviations=1.0)

    def sample(self, state: FeatureState, arms: Arms, key: PRNGKey) -> Array:
        """A draw [A] of the mean rewards of all arms from N(mean, width^2 covariance)."""
        normal = jax.random.normal(key, (state.whitened.shape[1],), state.whitened.dtype)
        deviation = matmul(state.whitened, matmul(state.posterior.root, normal))
        return state.posterior.mean + self.confidence_width(state, arms) * deviation

    def ask(
        self, state: FeatureState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        return history.query_of_best(arms, self.sample(state, arms, key), state.count, key)

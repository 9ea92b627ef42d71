"""Linear bandits, k(x,y) = x.y, on a sketch of a fixed size: SOFUL and CBRAP.

SOFUL is exact if its sketch has at least as many directions as the pulled arms span. With smaller
sketches the regret of SOFUL and CBRAP may grow linearly if the spectrum of the arms decays slowly;
BKB with a linear kernel adapts the size of its sketch (BKB, Sec. 5).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, kernels, struct
from jsketch.bandits.linear import feature_posterior
from jsketch.bandits.linear.feature_posterior import FeatureBandit, FeatureState
from jsketch.core import history, widths
from jsketch.core.widths import ucb
from jsketch.numerics import matmul
from jsketch.sketch import projection
from jsketch.sketch.projection import FrequentDirections
from jsketch.types import Algorithm, Arms, Info, PRNGKey, Query


@struct.dataclass
class SOFULState:
    """The frequent directions of the pulled arms and the moment of their rewards, O(m d) memory."""

    sketch: FrequentDirections  # m directions
    moment: Array  # [d], sum_i y_i x_i, which is not sketched
    count: Array  # [], number of observations


@struct.dataclass
class LinearBandit(Algorithm):
    """The fields that SOFUL and CBRAP share."""

    regularization: ArrayLike = struct.number(1e-2, above=0)  # lam, usually noise_std^2
    noise_std: ArrayLike = struct.number(0.1, at_least=0)  # xi
    norm_bound: ArrayLike = struct.number(1.0, at_least=0)  # F >= |theta|
    delta: ArrayLike = struct.number(0.1, above=0, below=1)  # failure probability
    scale: ArrayLike = struct.number(1.0, above=0)  # factor on the width
    width: widths.Width = widths.gp_ucb_code  # the confidence width, one of `bandits.widths`
    size: int = struct.size(16)  # m, the size of the sketch


@struct.dataclass
class SOFUL(LinearBandit):
    """Linear UCB or Thompson sampling with V = lam I + S^T S, where S are the frequent directions
    of the pulled arms.

    Kuzborskij, Cella, Cesa-Bianchi. Efficient linear bandits through matrix sketching. AISTATS
    2019. The width `soful_paper` is that of Theorem 1; the default `gp_ucb_code` ignores discarded
    directions. A width is computed from a `widths.DirectionsEvidence`. A choice costs O(A m d) with
    UCB and O(A d) with TS, and an observation O(m^2 d + m^3).

    regularization  lam, usually noise_std^2
    noise_std       xi
    norm_bound      F >= |theta|
    delta           failure probability
    scale           factor on the width
    width           the confidence width, one of `bandits.widths`
    size            m, the size of the sketch
    form            "ucb": the scores are upper confidence bounds, "ts": Thompson samples
    """

    form: str = struct.choice("ucb", of=("ucb", "ts"))

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> SOFULState:
        arms = checks.bandit_arms(self, kernels.Linear(), arms, key, data)
        dimension, dtype = arms.features.shape[1], arms.features.dtype
        checks.memory(self.size * (dimension + self.size), dtype, size=self.size)
        state = SOFULState(
            sketch=projection.empty(self.size, dimension, dtype),
            moment=jnp.zeros(dimension, dtype),
            count=jnp.zeros((), dtype),
        )
        # raises ValueError if the width reads a field that this evidence does not have
        jax.eval_shape(lambda: self.confidence_width(state, arms))
        return state

    def confidence_width(self, state: SOFULState, arms: Arms) -> Array:
        """The confidence width [] (beta~_t of the paper), times `scale`."""
        evidence = widths.DirectionsEvidence(
            count=state.count,
            logdet=projection.logdet(state.sketch, self.regularization),
            prior_variance=jnp.max(jnp.square(arms.features).sum(1)),
            shrunk=state.sketch.shrunk,
            size=self.size,
            inputs=state.moment.shape[0],
        )
        return jnp.asarray(self.scale * widths.confidence_width(self, evidence))

    def weights(self, state: SOFULState) -> Array:
        """The weights V^-1 sum_i y_i x_i, [d], whose product with an arm is the mean of the arm."""
        return projection.power(state.sketch, state.moment, self.regularization, exponent=-1)

    def scores(self, state: SOFULState, arms: Arms) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        mean = matmul(arms.features, self.weights(state))
        variance = projection.variance(state.sketch, arms.features, self.regularization)
        return ucb(mean, variance, self.confidence_width(state, arms))

    def sample(self, state: SOFULState, arms: Arms, key: PRNGKey) -> Array:
        """A draw [A] of the mean rewards, with weights from N(V^-1 sum_i y_i x_i, width^2 V^-1)."""
        normal = jax.random.normal(key, state.moment.shape, state.moment.dtype)
        deviation = projection.power(state.sketch, normal, self.regularization, exponent=-0.5)
        weights = self.weights(state) + self.confidence_width(state, arms) * deviation
        return matmul(arms.features, weights)

    def ask(
        self, state: SOFULState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        is_ts = self.form == "ts"
        scores = self.sample(state, arms, key) if is_ts else self.scores(state, arms)
        return history.query_of_best(arms, scores, state.count, key)

    def tell(
        self, state: SOFULState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SOFULState, Info]:
        observed = query.mask & jnp.isfinite(y)

        def step(
            slot: Array, carry: tuple[FrequentDirections, Array]
        ) -> tuple[FrequentDirections, Array]:
            sketch, moment = carry
            x, is_observed = arms.features[query.index[slot]], observed[slot]
            appended = projection.append(sketch, x)
            sketch = jax.tree.map(partial(jnp.where, is_observed), appended, sketch)
            return sketch, moment + x * jnp.where(is_observed, y[slot], 0)

        start = state.sketch, state.moment
        sketch, moment = lax.fori_loop(0, history.last_slot(query), step, start)
        info = history.round_info(
            query,
            y,
            size=(sketch.energies > 0).sum(dtype=jnp.int32),
            width=self.confidence_width(state, arms),
            finite=jnp.isfinite(moment).all(),
        )
        count = state.count + info.observed.astype(state.count.dtype)
        return replace(state, sketch=sketch, moment=moment, count=count), info


@struct.dataclass
class CBRAP(FeatureBandit, LinearBandit):
    """Linear UCB on the arms after a random Gaussian projection to m dimensions, which `init`
    draws. A step costs O(A m + m^2).

    Yu, Lyu, King. CBRAP: contextual bandits with random projection. AAAI 2017. As in the paper, the
    width assumes that the projected model is exact.

    regularization  lam, usually noise_std^2
    noise_std       xi
    norm_bound      F >= |theta|
    delta           failure probability
    scale           factor on the width
    width           the confidence width, one of `bandits.widths`
    size            m, the size of the sketch
    """

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> FeatureState:
        x = checks.bandit_arms(self, kernels.Linear(), arms, key, data).features
        _, projection_key = jax.random.split(key)
        checks.memory(self.size * (sum(x.shape) + self.size), x.dtype, size=self.size)
        gaussian = projection.gaussian(projection_key, x.shape[1], self.size, x.dtype)
        return feature_posterior.start(self.regularization, matmul(x, gaussian))

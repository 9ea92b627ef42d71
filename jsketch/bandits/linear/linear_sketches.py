"""Linear bandits, k(x,y) = x.y, on a sketch of a fixed size: SOFUL and CBRAP.

SOFUL is exact if its sketch has at least as many directions as the pulled arms span. With smaller
sketches the regret of SOFUL and CBRAP may grow linearly if the spectrum of the arms decays slowly;
BKB with a linear kernel adapts the size of its sketch (BKB, Sec. 5).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, kernels, struct
from jsketch.bandits.core import counts, widths
from jsketch.bandits.core.widths import ucb
from jsketch.bandits.linear import feature_posterior
from jsketch.bandits.linear.feature_posterior import FeatureBandit, FeatureState
from jsketch.linalg import matmul
from jsketch.sketch import projection
from jsketch.sketch.projection import FrequentDirections
from jsketch.struct import in_dtype
from jsketch.types import Algorithm, Arms, Info, PRNGKey, Query


@struct.dataclass
class SOFULState:
    """The frequent directions of the pulled arms and the moment of their rewards, O(m d) memory."""

    domain: Arms  # A arms; constant
    first_arm: Array  # [] int32, a random arm for the first pull, redrawn if its evaluation fails
    sketch: FrequentDirections  # m directions
    moment: Array  # [d], sum_i y_i x_i, which is not sketched
    count: Array  # [], number of observations
    prior_variance: Array  # [], max_x |x|^2


@struct.dataclass
class LinearBandit(Algorithm):
    """The fields that SOFUL and CBRAP share."""

    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |theta|
    delta: ArrayLike = 0.1  # failure probability
    scale: ArrayLike = 1.0  # factor on the width
    width: widths.Width = widths.gp_ucb_code  # the confidence width, one of `bandits.widths`
    size: int = struct.field(pytree_node=False, default=16)  # m, the size of the sketch


@struct.dataclass
class SOFUL(LinearBandit):
    """Linear UCB or Thompson sampling with V = lam I + S^T S, where S are the frequent directions
    of the pulled arms.

    Kuzborskij, Cella, Cesa-Bianchi. Efficient linear bandits through matrix sketching. AISTATS
    2019. The width `soful_paper` is that of Theorem 1; the default `gp_ucb_code` ignores discarded
    directions. A width is computed from a `widths.DirectionsEvidence`. A choice costs O(A m d) with
    UCB and O(A d) with TS, and an observation O(m^2 d + m^3).
    """

    form: str = struct.field(pytree_node=False, default="ucb")  # or "ts"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"form": ("ucb", "ts")}

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> SOFULState:
        domain = checks.bandit_arms(self, kernels.Linear(), domain, key, data)
        arms = domain.features
        checks.memory(self.size * (arms.shape[1] + self.size), arms.dtype, size=self.size)
        state = SOFULState(
            domain=domain,
            first_arm=jax.random.randint(key, (), 0, domain.count, jnp.int32),
            sketch=projection.empty(self.size, arms.shape[1], arms.dtype),
            moment=jnp.zeros(arms.shape[1], arms.dtype),
            count=jnp.zeros((), arms.dtype),
            prior_variance=jnp.max(jnp.square(arms).sum(1)),
        )
        # raises ValueError if the width reads a field that this evidence does not have
        jax.eval_shape(lambda: self.confidence_width(state))
        return state

    def confidence_width(self, state: SOFULState) -> Array:
        """The confidence width [] (beta~_t of the paper), times `scale`."""
        evidence = widths.DirectionsEvidence(
            count=state.count,
            logdet=projection.logdet(state.sketch, self._lam(state)),
            prior_variance=state.prior_variance,
            shrunk=state.sketch.shrunk,
            size=self.size,
            inputs=state.moment.shape[0],
        )
        width = widths.confidence_width(self, evidence)
        return jnp.asarray(in_dtype(self.scale, width.dtype) * width, state.moment.dtype)

    def _lam(self, state: SOFULState) -> ArrayLike:
        return in_dtype(self.regularization, state.moment.dtype)

    def weights(self, state: SOFULState) -> Array:
        """The weights V^-1 sum_i y_i x_i, [d], whose product with an arm is the mean of the arm."""
        return projection.power(state.sketch, state.moment, self._lam(state), exponent=-1)

    def scores(self, state: SOFULState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        arms = state.domain.features
        variance = projection.variance(state.sketch, arms, self._lam(state))
        return ucb(matmul(arms, self.weights(state)), variance, self.confidence_width(state))

    def sample(self, state: SOFULState, key: PRNGKey) -> Array:
        """A draw [A] of the mean rewards, with weights from N(V^-1 sum_i y_i x_i, width^2 V^-1)."""
        normal = jax.random.normal(key, state.moment.shape, state.moment.dtype)
        deviation = projection.power(state.sketch, normal, self._lam(state), exponent=-0.5)
        weights = self.weights(state) + self.confidence_width(state) * deviation
        return matmul(state.domain.features, weights)

    def ask(self, state: SOFULState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        scores = self.sample(state, key) if self.form == "ts" else self.scores(state)
        return counts.query_of_best(state, scores)

    def tell(
        self, state: SOFULState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SOFULState, Info]:
        query, y = checks.feedback(state.domain, query, y)
        observed = query.mask & jnp.isfinite(y)

        def step(
            i: Array, carry: tuple[FrequentDirections, Array]
        ) -> tuple[FrequentDirections, Array]:
            sketch, moment = carry
            x = state.domain.features[query.index[i]]
            appended = projection.append(sketch, x)
            sketch = jax.tree.map(partial(jnp.where, observed[i]), appended, sketch)
            return sketch, moment + x * jnp.where(observed[i], y[i], 0)

        sketch, moment = counts.scan_slots(step, (state.sketch, state.moment), query)
        size, width = (sketch.energies > 0).sum(dtype=jnp.int32), self.confidence_width(state)
        finite = jnp.isfinite(moment).all()
        info = counts.round_info(query, y, size=size, width=width, finite=finite)
        new = counts.count_observations(state, info, key)
        return replace(new, sketch=sketch, moment=moment), info


@struct.dataclass
class CBRAP(FeatureBandit, LinearBandit):
    """Linear UCB on the arms after a random Gaussian projection to m dimensions, which `init`
    draws. A step costs O(A m + m^2).

    Yu, Lyu, King. CBRAP: contextual bandits with random projection. AAAI 2017. As in the paper, the
    width assumes that the projected model is exact.
    """

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> FeatureState:
        domain = checks.bandit_arms(self, kernels.Linear(), domain, key, data)
        arm_key, projection_key = jax.random.split(key)
        arms = domain.features
        floats = self.size * (domain.count + arms.shape[1] + self.size)
        checks.memory(floats, arms.dtype, size=self.size)
        gaussian = projection.gaussian(projection_key, arms.shape[1], self.size, arms.dtype)
        return feature_posterior.start(self.regularization, domain, arm_key, matmul(arms, gaussian))

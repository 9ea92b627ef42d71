"""Linear bandits on a sketch whose size is fixed in advance: SOFUL and CBRAP. Features are used as
they are, k(x,y) = x.y.

Both are exact when the sketch has the dimension of the span of the pulled arms. With a smaller
sketch they may suffer linear regret where the spectrum of the arms decays slowly; BKB with a linear
kernel chooses the size itself (BKB, Sec. 5).
"""

from __future__ import annotations

from dataclasses import replace
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
from jsketch.types import Algorithm, Arms, Evaluations, Info, PRNGKey, Query


@struct.dataclass
class SOFULState:
    """Frequent directions of the pulled arms, and the moment of their rewards; memory O(m d)."""

    domain: Arms  # A arms; constant
    # [] int32, uniform: the first pull, redrawn when it fails
    first_arm: Array
    sketch: FrequentDirections  # m directions
    moment: Array  # [d], sum_i y_i x_i, not sketched
    count: Array  # [], observations
    prior_variance: Array  # [], max_x |x|^2


@struct.dataclass
class LinearBandit(Algorithm):
    """The fields that SOFUL and CBRAP share."""

    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |theta|
    delta: ArrayLike = 0.1  # failure probability
    scale: ArrayLike = 1.0  # factor on the width
    # the confidence width, one of `bandits.widths`
    width: widths.Width = widths.gp_ucb_code
    size: int = struct.field(pytree_node=False, default=16)  # m

    def _check(self, domain: Arms, key: PRNGKey, data: Evaluations | None) -> Arms:
        checks.no_evaluations(self, data)
        checks.settings(self)
        checks.one_key(key=key)
        domain = checks.arms(domain)
        checks.model(domain, kernels.Linear(), self.regularization)
        return domain


@struct.dataclass
class SOFUL(LinearBandit):
    """Linear UCB or Thompson sampling with V = lam I + S^T S, S the frequent directions of the
    pulled arms.

    Kuzborskij, Cella, Cesa-Bianchi. Efficient linear bandits through matrix sketching. AISTATS
    2019. The width `soful_paper` is its Theorem 1; `gp_ucb_code`, the default, ignores the
    directions that the sketch has discarded. A width reads a `widths.DirectionsEvidence`.

    Cost O(A m d) a step by UCB, O(A d) by TS, and O(m^2 d + m^3) for the sketch.
    """

    form: str = struct.field(pytree_node=False, default="ucb")  # or "ts"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"form": ("ucb", "ts")}

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> SOFULState:
        domain = self._check(domain, key, data)
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
        # raises for a width that reads other evidence
        jax.eval_shape(lambda: self.confidence_width(state))
        return state

    def confidence_width(self, state: SOFULState) -> Array:
        """beta~_t, []."""
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
        """V^-1 sum_i y_i x_i, [d]; the mean of an arm is its product with the features."""
        return projection.power(state.sketch, state.moment, self._lam(state), -1)

    def scores(self, state: SOFULState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        arms = state.domain.features
        variance = projection.variance(state.sketch, arms, self._lam(state))
        return ucb(matmul(arms, self.weights(state)), variance, self.confidence_width(state))

    def sample(self, state: SOFULState, key: PRNGKey) -> Array:
        """A draw of the mean rewards of all arms, [A]: weights from N(V^-1 sum_i y_i x_i, width^2
        V^-1)."""
        normal = jax.random.normal(key, state.moment.shape, state.moment.dtype)
        drawn = projection.power(state.sketch, normal, self._lam(state), -0.5)
        return matmul(
            state.domain.features, self.weights(state) + self.confidence_width(state) * drawn
        )

    def ask(self, state: SOFULState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        scores = self.sample(state, key) if self.form == "ts" else self.scores(state)
        return counts.first_or_best(state, scores)

    def tell(
        self, state: SOFULState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SOFULState, Info]:
        query, y = checks.feedback(state.domain, query, y)
        observed = counts.usable(query, y)

        def one(
            i: Array, carry: tuple[FrequentDirections, Array]
        ) -> tuple[FrequentDirections, Array]:
            sketch, moment = carry
            x = state.domain.features[query.index[i]]
            appended = projection.append(sketch, x)
            sketch = jax.tree.map(
                lambda new, old: jnp.where(observed[i], new, old), appended, sketch
            )
            return sketch, moment + x * jnp.where(observed[i], y[i], 0)

        sketch, moment = counts.over_slots(one, (state.sketch, state.moment), query)
        size = (sketch.energies > 0).sum(dtype=jnp.int32)
        info = counts.round_info(
            query,
            y,
            size=size,
            width=self.confidence_width(state),
            finite=jnp.isfinite(moment).all(),
        )
        new = counts.count_observations(state, info.observed, query.mask.any(), key)
        return replace(new, sketch=sketch, moment=moment), info


@struct.dataclass
class CBRAP(FeatureBandit, LinearBandit):
    """Linear UCB on a Gaussian projection of the features to m dimensions, drawn once at the start;
    O(A m + m^2) a step.

    Yu, Lyu, King. CBRAP: contextual bandits with random projection. AAAI 2017. The width takes the
    projected model for the truth, as the paper's algorithm does.
    """

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> FeatureState:
        domain = self._check(domain, key, data)
        arm_key, projection_key = jax.random.split(key)
        arms = domain.features
        checks.memory(
            self.size * (domain.count + arms.shape[1] + self.size), arms.dtype, size=self.size
        )
        drawn = projection.gaussian(projection_key, arms.shape[1], self.size, arms.dtype)
        return feature_posterior.start(self, domain, arm_key, matmul(arms, drawn))

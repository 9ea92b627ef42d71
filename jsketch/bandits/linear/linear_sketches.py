"""Linear bandits on a sketch whose size is fixed in advance: SOFUL and CBRAP. Features are used as
they are, k(x,y) = x.y.

Both are exact when the sketch is as large as the space that the pulled arms span, and may suffer
linear regret when it is smaller and the spectrum of the arms decays slowly; BKB with a linear
kernel finds the size by itself (BKB, Sec. 5).
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, kernels, struct
from jsketch.bandits.core import counts, features, widths
from jsketch.bandits.core.features import FeatureState
from jsketch.checks import queries
from jsketch.linalg import matmul
from jsketch.precision import one_dtype
from jsketch.sketch import projection
from jsketch.sketch.projection import FrequentDirections
from jsketch.types import Arms, Info, PRNGKey, Query

FORMS = ("ucb", "ts")


@struct.dataclass
class SOFULState:
    """Frequent directions of the pulled arms, and the moment of their rewards; memory O(m d)."""

    domain: Arms  # A arms; never changes
    # [] int32, uniform; pulled while nothing is known, another one after it failed
    first_arm: Array
    sketch: FrequentDirections  # m directions
    moment: Array  # [d], sum_i y_i x_i, not sketched
    count: Array  # [], observations so far
    prior_variance: Array  # [], max_x |x|^2


@struct.dataclass
@one_dtype
class SOFUL:
    """Linear UCB or Thompson sampling with V = lam I + S^T S, S the frequent directions of the
    pulled arms.

    Kuzborskij, Cella, Cesa-Bianchi. Efficient linear bandits through matrix sketching. AISTATS
    2019. The width `soful_paper` is its Theorem 1; `gp_ucb_code`, sqrt(lam) F + xi
    sqrt(logdet(V/lam) + log 1/delta), knows nothing of what the sketch lost. A width reads a
    `widths.DirectionsEvidence`.

    Cost O(A m d) a step by UCB, O(A d) by TS, and O(m^2 d + m^3) for the sketch.
    """

    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |theta|
    delta: ArrayLike = 0.1  # failure probability
    scale: ArrayLike = 1.0  # factor on the width
    size: int = struct.field(pytree_node=False, default=16)  # m
    form: str = struct.field(pytree_node=False, default="ucb")  # or "ts"
    width: widths.Width = widths.gp_ucb_code  # or widths.soful_paper

    def init(self, domain: Arms, key: PRNGKey) -> SOFULState:
        """The state before the first round. Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.positive(scale=self.scale)
        checks.capacity(size=self.size)
        checks.one_key(key=key)
        checks.choice(FORMS, form=self.form)
        domain = checks.arms(domain)
        checks.model(domain, kernels.Linear(), self.regularization)
        arms = domain.features
        checks.room(self.size * (arms.shape[1] + self.size), arms.dtype, size=self.size)
        state = SOFULState(
            domain=domain,
            first_arm=jax.random.randint(key, (), 0, domain.count, jnp.int32),
            sketch=projection.empty(self.size, arms.shape[1], arms.dtype),
            moment=jnp.zeros(arms.shape[1], arms.dtype),
            count=jnp.zeros((), arms.dtype),
            prior_variance=jnp.max(jnp.square(arms).sum(1)),
        )
        # raises for a width that reads what SOFUL does not know
        jax.eval_shape(lambda: self.confidence_width(state))
        return state

    def confidence_width(self, state: SOFULState) -> Array:
        """beta~_t, []."""
        evidence = widths.DirectionsEvidence(
            count=state.count,
            logdet=projection.logdet(state.sketch, self.regularization),
            prior_variance=state.prior_variance,
            shrunk=state.sketch.shrunk,
            size=self.size,
            inputs=state.moment.shape[0],
        )
        width = self.width(evidence, widths.assumptions(self))
        return jnp.asarray(self.scale * width, state.moment.dtype)

    def weights(self, state: SOFULState) -> Array:
        """V^-1 sum_i y_i x_i, [d]; the mean of an arm is its product with the features."""
        return projection.power(state.sketch, state.moment, self.regularization, -1)

    def scores(self, state: SOFULState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        arms = state.domain.features
        variance = projection.variance(state.sketch, arms, self.regularization)
        return matmul(arms, self.weights(state)) + self.confidence_width(state) * jnp.sqrt(variance)

    def sample(self, state: SOFULState, key: PRNGKey) -> Array:
        """A draw of the mean rewards of all arms, [A]: weights from N(V^-1 sum_i y_i x_i, width^2
        V^-1)."""
        normal = jax.random.normal(key, state.moment.shape, state.moment.dtype)
        drawn = projection.power(state.sketch, normal, self.regularization, -0.5)
        return matmul(
            state.domain.features, self.weights(state) + self.confidence_width(state) * drawn
        )

    def ask(self, state: SOFULState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        scores = self.sample(state, key) if self.form == "ts" else self.scores(state)
        best = jnp.argmax(scores).astype(jnp.int32)
        return queries.single(jnp.where(state.count == 0, state.first_arm, best))

    def tell(
        self, state: SOFULState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SOFULState, Info]:
        query, y = queries.feedback(state.domain, query, y)
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
        info = features.describe(query, y, self.confidence_width(state), size, moment)
        new = counts.counted(state, info.observed, query.mask.any(), key)
        return replace(new, sketch=sketch, moment=moment), info


@struct.dataclass
@one_dtype
class CBRAP:
    """Linear UCB on a Gaussian projection of the features to m dimensions, drawn once at the start;
    O(A m + m^2) a step.

    Yu, Lyu, King. CBRAP: contextual bandits with random projection. AAAI 2017. The width takes the
    projected model for the truth, as the paper's algorithm does.
    """

    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |theta|
    delta: ArrayLike = 0.1  # failure probability
    scale: ArrayLike = 1.0  # factor on the width
    width: widths.Width = widths.gp_ucb_code
    size: int = struct.field(pytree_node=False, default=16)  # m

    def init(self, domain: Arms, key: PRNGKey) -> FeatureState:
        """The state before the first round. Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.positive(scale=self.scale)
        checks.capacity(size=self.size)
        domain = checks.arms(domain)
        checks.model(domain, kernels.Linear(), self.regularization)
        checks.one_key(key=key)
        arm_key, projection_key = jax.random.split(key)
        arms = domain.features
        checks.room(
            self.size * (domain.count + arms.shape[1] + self.size), arms.dtype, size=self.size
        )
        drawn = projection.gaussian(projection_key, arms.shape[1], self.size, arms.dtype)
        return features.start(self, domain, arm_key, matmul(arms, drawn))

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

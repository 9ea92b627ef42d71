"""EK-UCB: kernel UCB for contexts on a dictionary that only grows, with incremental projections.

Zenati, Bietti, Diemert, Mairal, Martin, Gaillard. Efficient kernelized UCB for contextual bandits.
AISTATS 2022. With Z the dictionary, S the points played so far with rewards Y, and P_Z the
projection on the span of Z, the index of a point x is mean(x) + width sqrt(variance(x)),

    mean(x)     = k_Z(x)^T (K_ZS K_SZ + lam K_ZZ)^-1 K_ZS Y,
    variance(x) = (k(x,x) - k_Z(x)^T K_ZZ^-1 k_Z(x)) / lam
                  + k_Z(x)^T (K_ZS K_SZ + lam K_ZZ)^-1 k_Z(x).

After its reward the point may join Z by KORS, an online draw by its ridge leverage score at mu
(`sketch.kors`, THEORY 7.5); all earlier points are then projected on the larger span. A round costs
O(C M^2) for C candidates, and O(t M) where a point joins: O(C T M^2) in all.

That is projected kernel ridge regression on a KORS dictionary, `online.NystromAWV` without the
penalty of the current example, in orthonormal coordinates z of Z instead of kernel values: with A =
lam I + sum_s z_s z_s^T, mean = z^T A^-1 sum_s y_s z_s and variance = (k(x,x) - |z|^2) / lam + z^T
A^-1 z (THEORY 6.6).

What the definition rests on: the authors' published scripts, the paper not being at hand in full.
They differ in one place: their draw takes u + s (u - k(x,x))^2 for k(x,x) - (u + s (u -
k(x,x))^2), the explained part of k(x,x) for the one that is missing, so that a point joins the
sooner the better it is represented. Here the draw is that of KORS.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import widths
from jsketch.contrib.contextual import choice
from jsketch.linalg import matmul
from jsketch.online.nystrom_awv import NystromAWV, NystromState
from jsketch.precision import in_dtype, one_dtype
from jsketch.sketch import kors, nystrom
from jsketch.sketch.kors import Sampling
from jsketch.types import ForecastInfo, Info, Kernel, PRNGKey


@struct.dataclass
class GrowingEvidence:
    """What a width may read, all []: the sums of each round's own variance, and no statistic that
    reads the history again."""

    count: Array  # t, rewards observed
    information: Array  # sum_s log(1 + sigma~_s^2(x_s)), each with the variance of its own round
    information_sketched: Array  # sum_s log(1 + 3 sigma~_s^2(x_s))
    prior_variance: Array  # kappa^2, the largest k(x,x) of the points played


@struct.dataclass
class EKState:
    """The forecaster's dictionary and posterior, and what widths read."""

    stream: NystromState
    evidence: GrowingEvidence


@struct.dataclass
@one_dtype
class EKUCB:
    """EK-UCB. Widths that read the information or nothing serve: `bbkb_code`, `bbkb_paper` (C = 1),
    `Bayesian`, and a `Formula` of your own.

    The authors' experiments take width = 0.1, mu = lam, eps = 1/2 and beta = lam / 1000 to lam /
    10.
    """

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    sampling: Sampling = struct.field(default_factory=Sampling)  # mu, beta, eps of KORS
    width: widths.Width = widths.bbkb_code
    max_history: int = struct.field(pytree_node=False, default=1024)  # H, rewards in all
    capacity: int = struct.field(pytree_node=False, default=64)  # M

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> EKState:
        """The state before the first round, for points with `dimension` inputs; the key is that of
        all draws. Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.capacity(dimension=dimension, max_history=self.max_history)
        checks.one_key(key=key)
        x = jnp.zeros(dimension, checks.floating(dtype=dtype or jnp.zeros(()).dtype))
        stream = in_dtype(self._forecaster(), x.dtype).init(x, key)
        zero = jnp.zeros((), x.dtype)
        return EKState(stream, GrowingEvidence(zero, zero, zero, zero))

    def _forecaster(self) -> NystromAWV:
        return NystromAWV(
            self.kernel,
            self.regularization,
            self.sampling,
            penalize_current=False,
            capacity=self.capacity,
            memory=self.max_history,
        )

    def confidence_width(self, state: EKState) -> Array:
        """[]."""
        return widths.confidence_width(self, state.evidence)

    def posterior(self, state: EKState, x: Array) -> tuple[Array, Array]:
        """(mean [n], variance [n] in leverage units) at points x [n,d]."""
        stream = state.stream
        z = matmul(kors.cross(stream.dictionary, self.kernel, x), stream.basis.T)
        explained = jnp.maximum((matmul(z, stream.inverse) * z).sum(1), 0)
        missing = nystrom.residual(self.kernel.diag(x), z)
        return matmul(z, stream.weights), missing / self.regularization + explained

    def scores(self, state: EKState, x: Array) -> Array:
        """Upper confidence bounds at points x [n,d], [n]."""
        return choice.upper_bound(*self.posterior(state, x), self.confidence_width(state))

    def ask(self, state: EKState, candidates: Array, key: PRNGKey) -> Array:
        """The number [] of the best of the candidates [C,d]; a uniform one while nothing is known.

        Raises ValueError for an empty or non-finite matrix, and one with another number of inputs.
        """
        x = choice.candidates_of(self.kernel, candidates, state.stream.inputs.shape[1])
        return choice.best(self.scores(state, x), state.evidence.count > 0, key)

    def tell(
        self, state: EKState, x: Array, y: ArrayLike, key: PRNGKey | None = None
    ) -> tuple[EKState, Info]:
        """Learns the reward y [] of the point x [d], and draws whether x joins. A reward that is
        not finite changes nothing, nor does one that finds no room (`info.overflow`). The draw's
        key is that of `init`."""
        x = choice.point_of(self.kernel, x, state.stream.inputs.shape[1])
        y = choice.reward_of(y, x.dtype)
        variance = self.posterior(state, x[None])[1][0]
        # a limit of zero examples changes nothing
        stream, done, info = _advance(
            self._forecaster(), state.stream, x, y, jnp.isfinite(y).astype(jnp.int32)
        )
        learned = done > 0
        before = state.evidence
        evidence = GrowingEvidence(
            count=before.count + learned.astype(x.dtype),
            information=before.information + jnp.where(learned, jnp.log1p(variance), 0),
            information_sketched=before.information_sketched
            + jnp.where(learned, jnp.log1p(widths.ALPHA * variance), 0),
            prior_variance=jnp.where(
                learned,
                jnp.maximum(before.prior_variance, self.kernel.diag(x[None])[0]),
                before.prior_variance,
            ),
        )
        width = self.confidence_width(state)
        return EKState(stream, evidence), Info(
            batch_size=jnp.ones((), jnp.int32),
            observed=learned.astype(jnp.int32),
            dictionary_size=info.dictionary_size,
            width=width,
            overflow=info.overflow,
            truncated=jnp.zeros((), bool),
            nonfinite=info.nonfinite | jnp.isinf(y) | ~jnp.isfinite(width),
        )

    def grow(self, state: EKState) -> EKState:
        """The same state with more room where it is full, for points of the dictionary or for
        rewards."""
        return replace(state, stream=self._forecaster().grow(state.stream))


@jax.jit
def _advance(
    forecaster: NystromAWV, stream: NystromState, x: Array, y: Array, limit: Array
) -> tuple[NystromState, Array, ForecastInfo]:
    """(state, learned [] int32, info) after one example. One program: operation by operation it
    would compile for seconds."""
    stream, _, done, info = forecaster.advance(stream, x[None], y[None], limit)
    return stream, done, info

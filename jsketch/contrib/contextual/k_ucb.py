"""K-UCB: kernel UCB for contexts with the exact posterior, which is grown by one row a round.

Valko, Korda, Munos, Flaounas, Cristianini. Finite-time analysis of kernelised contextual bandits.
UAI 2013. With K + lam I = L L^T over the points played, l = L^-1 k(x) and v = L^-1 Y,

    mean(x) = l^T v,   variance(x) = (k(x,x) - |l|^2) / lam     (THEORY 2.1),

and the point's own row of L is (l^T, sqrt(k(x,x) - |l|^2 + lam)). Those are the residual and the
row of a KORS dictionary at mu = lam that every point joins with probability one (`sketch.kors`): it
is kept as one. O(C H^2) a choice, O(H^2) a reward, H slots.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import widths
from jsketch.bandits.core.widths import Evidence
from jsketch.contrib.contextual import choice
from jsketch.linalg import matmul, put_if
from jsketch.precision import one_dtype
from jsketch.sketch import kors
from jsketch.sketch.kors import Kors, Sampling
from jsketch.types import Info, Kernel, PRNGKey


@struct.dataclass
class KUCBState:
    """The exact posterior of t points of at most H."""

    history: Kors  # of all points, at mu = lam
    innovations: Array  # [H], L^-1 Y, zero beyond t
    evidence: Evidence


@struct.dataclass
@one_dtype
class KUCB:
    """Kernel UCB with the exact posterior; what EK-UCB is when every point joins."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    width: widths.Width = widths.gp_ucb_code
    max_history: int = struct.field(pytree_node=False, default=1024)  # H

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> KUCBState:
        """The state before the first round, for points with `dimension` inputs; the key is not
        used. Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.capacity(dimension=dimension, max_history=self.max_history)
        checks.one_key(key=key)
        x = jnp.zeros(dimension, checks.floating(dtype=dtype or jnp.zeros(()).dtype))
        checks.room(
            self.max_history * (self.max_history + dimension), x.dtype, max_history=self.max_history
        )
        checks.kernel_on(self.kernel, x[None])
        return KUCBState(
            history=kors.empty(x, self.max_history),
            innovations=jnp.zeros(self.max_history, x.dtype),
            evidence=widths.of_exact(*[jnp.zeros((), x.dtype)] * 3),
        )

    def confidence_width(self, state: KUCBState) -> Array:
        """[]."""
        return widths.confidence_width(self, state.evidence)

    def _read(self, state: KUCBState, x: Array) -> tuple[Array, Array]:
        """(rows L^-1 k(x) [n,H], lam times the variance [n]) at points x [n,d]."""
        k = kors.cross(state.history, self.kernel, x)
        at = Sampling(mu=self.regularization)
        _, row, rest = kors.scores(state.history, self.kernel, at, x, k)
        return row, rest

    def posterior(self, state: KUCBState, x: Array) -> tuple[Array, Array]:
        """(mean [n], variance [n] in leverage units) at points x [n,d]."""
        row, rest = self._read(state, x)
        return matmul(row, state.innovations), rest / self.regularization

    def scores(self, state: KUCBState, x: Array) -> Array:
        """Upper confidence bounds at points x [n,d], [n]."""
        return choice.upper_bound(*self.posterior(state, x), self.confidence_width(state))

    def ask(self, state: KUCBState, candidates: Array, key: PRNGKey) -> Array:
        """As `EKUCB.ask`."""
        x = choice.candidates_of(self.kernel, candidates, state.history.points.shape[1])
        return choice.best(self.scores(state, x), state.evidence.count > 0, key)

    def tell(
        self, state: KUCBState, x: Array, y: ArrayLike, key: PRNGKey | None = None
    ) -> tuple[KUCBState, Info]:
        """Learns the reward y [] of the point x [d]. A reward that is not finite changes nothing,
        nor does one that finds no room (`info.overflow`)."""
        history = state.history
        x = choice.point_of(self.kernel, x, history.points.shape[1])
        y = choice.reward_of(y, x.dtype)
        row, rest = (of_one[0] for of_one in self._read(state, x[None]))
        finite = jnp.isfinite(y)
        full = finite & (history.used >= history.points.shape[0])
        learned = finite & ~full
        one = jnp.ones((), x.dtype)
        at = Sampling(mu=self.regularization)
        surprise = jnp.where(learned, y, 0) - matmul(row, state.innovations)
        new = surprise / jnp.sqrt(rest + self.regularization)
        gained = jnp.where(learned, jnp.log1p(rest / self.regularization), 0)
        before = state.evidence
        evidence = widths.of_exact(
            before.count + learned.astype(x.dtype),
            before.logdet + gained,
            jnp.where(
                learned,
                jnp.maximum(before.prior_variance, self.kernel.diag(x[None])[0]),
                before.prior_variance,
            ),
        )
        after = KUCBState(
            history=kors.join(history, at, x, one, row, rest, learned),
            innovations=put_if(learned, state.innovations, history.used, new),
            evidence=evidence,
        )
        width = self.confidence_width(state)
        bad = jnp.isinf(y) | ~jnp.isfinite(width) | ~jnp.isfinite(new)
        return after, Info(
            batch_size=jnp.ones((), jnp.int32),
            observed=learned.astype(jnp.int32),
            dictionary_size=after.history.used,
            width=width,
            overflow=full,
            truncated=jnp.zeros((), bool),
            nonfinite=bad,
        )

    def grow(self, state: KUCBState) -> KUCBState:
        """The same state with room for twice as many rewards."""
        size = state.innovations.shape[0]
        return replace(
            state,
            history=kors.grow(state.history, 2 * size),
            innovations=jnp.pad(state.innovations, (0, size)),
        )

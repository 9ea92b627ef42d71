"""Bandits with contexts: in each round the candidates are new points (context, action).

`KUCB` is kernel UCB with the exact posterior, `EKUCB` has a dictionary that only grows, and `CBBKB`
resamples its dictionary as BKB and BBKB do.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.bandits.point_bbkb import (
    PointBBKB,
    PointState,
    predict_in_batch,
    process_in_batch,
)
from jsketch.core import history, posterior, widths
from jsketch.core.dictionary import Draw
from jsketch.devices import one_program
from jsketch.numerics import matmul, put_if
from jsketch.online.nystrom_awv import NystromAWV, NystromState
from jsketch.posterior import GaussianProcess
from jsketch.precision import in_dtype, one_dtype
from jsketch.results import Result, result
from jsketch.sketch import kors
from jsketch.sketch.kors import Kors, Sampling
from jsketch.types import ForecastInfo, Info, PRNGKey, Query


@struct.dataclass
@one_dtype
class ContextualUCB(widths.KernelBandit):
    """The base of bandits that play the candidate with the largest upper confidence bound.

    A bandit with contexts has four methods:

    init(dimension, key, dtype=None) -> state   for points with `dimension` inputs
    ask(state, candidates [C,d], key) -> []     the index of the candidate to play
    tell(state, x [d], y [], key) -> (state, Info)   the reward y of any point x. A reward that is
        not finite or exceeds the capacity does not change the state.
    grow(state) -> state                        the same state with a larger capacity

    A subclass implements `init`, `tell`, `grow`, `posterior` and `gaussian_process`. Its states
    have `dimension`, the number d of inputs; `started` [] bool, whether a reward was observed; and
    `evidence`, unless the subclass implements `confidence_width`.
    """

    # the confidence width, one of `bandits.widths`
    width: widths.Width = widths.bbkb_code
    max_history: int = struct.size(1024)  # H rewards

    def posterior(self, state: Any, x: Array) -> tuple[Array, Array]:
        """(mean [n], variance [n]) at points x [n,d] given all rewards. Variances are divided by
        the regularization."""
        raise NotImplementedError

    def confidence_width(self, state: Any) -> Array:
        """The width of the upper confidence bounds, []."""
        return widths.confidence_width(self, state.evidence)

    def scores(self, state: Any, x: Array) -> Array:
        """Upper confidence bounds at points x [n,d], [n]."""
        mean, variance = self.posterior(state, x)
        return widths.ucb(mean, variance, self.confidence_width(state))

    def ask(self, state: Any, candidates: Array, key: PRNGKey) -> Array:
        """The index [] int32 of the candidate [C,d] with the largest score, or a uniform one before
        the first reward. Raises ValueError as `check_points` does."""
        check_points(self.kernel, candidates, state.dimension)
        return argmax_or_uniform(self.scores(state, jnp.asarray(candidates)), state.started, key)

    def _checked_origin(self, dimension: int, key: PRNGKey, dtype: Any) -> Array:
        """The point zero [dimension], in the dtype of the state, after checks of all arguments."""
        checks.settings(self)
        checks.positive_integer(dimension=dimension)
        checks.one_key(key=key)
        return jnp.zeros(dimension, checks.floating_dtype(dtype))

    def _check_example(self, state: Any, x: Any, y: Any) -> tuple[Array, Array]:
        """(x [d], y []) as arrays of the same dtype. Raises ValueError unless x is finite and has
        the number of inputs given to `init`, and y is one real number."""
        x = checks.example(x)
        check_points(self.kernel, x[None], state.dimension)
        checks.one_number(y=y)
        return x, jnp.asarray(y, x.dtype)


def check_points(kernel: Any, x: Any, dimension: int) -> None:
    """Raises ValueError unless x is a nonempty finite matrix with `dimension` columns."""
    checks.candidates(x, dimension)
    checks.kernel_inputs(kernel, x)


def argmax_or_uniform(scores: Array, started: Array, key: PRNGKey) -> Array:
    """The index [] int32 of the largest of the scores [C], or a uniform index unless `started`."""
    uniform = jax.random.randint(key, (), 0, scores.shape[0], jnp.int32)
    return jnp.where(started, jnp.argmax(scores).astype(jnp.int32), uniform)


def info_of_reward(
    y: Array, size: Array, width: Array, exceeded: Array, finite: Array | bool = True
) -> Info:
    """The `history.round_info` of a round with one reward y []."""
    query = Query.of(jnp.zeros((), jnp.int32))
    arguments: dict[str, Any] = dict(size=size, width=width, finite=finite, exceeded=exceeded)
    return history.round_info(query, y[None], **arguments)


@struct.dataclass
class KUCBState:
    """The exact posterior of t points, t <= H."""

    points: Kors  # a KORS dictionary with mu = lam that contains all points
    innovations: Array  # [H], L^-1 Y as in `KUCB`, then zeros
    evidence: widths.Evidence

    @property
    def dimension(self) -> int:
        return self.points.points.shape[1]

    @property
    def started(self) -> Array:
        return self.evidence.count > 0


@struct.dataclass
@one_dtype
class KUCB(ContextualUCB):
    """Kernel UCB with the exact posterior. A choice costs O(C H^2) and a reward O(H^2).

    Valko, Korda, Munos, Flaounas, Cristianini. Finite-time analysis of kernelised contextual
    bandits. UAI 2013. With K + lam I = L L^T over the played points, l = L^-1 k(x) and v = L^-1 Y,

        mean(x) = l^T v,   variance(x) = (k(x,x) - |l|^2) / lam     (THEORY 2.1),

    and x adds the row (l^T, sqrt(k(x,x) - |l|^2 + lam)) to L. A KORS dictionary at mu = lam
    (`sketch.kors`) that contains all points has l as its row and k(x,x) - |l|^2 as its residual.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    width           the confidence width for the exact posterior, one of `bandits.widths`
    max_history     H rewards
    """

    width: widths.Width = widths.gp_ucb_code

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> KUCBState:
        origin = self._checked_origin(dimension, key, dtype)
        floats = self.max_history * (self.max_history + dimension)
        checks.memory(floats, origin.dtype, max_history=self.max_history)
        checks.kernel_on(self.kernel, origin[None])
        zero = jnp.zeros((), origin.dtype)
        return KUCBState(
            points=kors.empty(origin, self.max_history),
            innovations=jnp.zeros(self.max_history, origin.dtype),
            evidence=widths.exact_evidence(count=zero, logdet=zero, prior_variance=zero),
        )

    def _rows(self, state: KUCBState, x: Array) -> tuple[Array, Array]:
        """(rows L^-1 k(x) [n,H], lam times the variance [n]) at points x [n,d]."""
        k = kors.cross(state.points, self.kernel, x)
        sampling = Sampling(mu=self.regularization)
        _, row, residual = kors.scores(state.points, self.kernel, sampling, x, k)
        return row, residual

    def posterior(self, state: KUCBState, x: Array) -> tuple[Array, Array]:
        row, residual = self._rows(state, x)
        return matmul(row, state.innovations), residual / self.regularization

    def gaussian_process(self, state: KUCBState) -> GaussianProcess:
        inverse, points = state.points.inverse, kors.fill_with_first(state.points)
        used = jnp.arange(len(points), dtype=jnp.int32) < state.points.used
        explained = jnp.where(used[:, None] & used[None, :], inverse.T, 0)
        weights = matmul(explained, state.innovations)
        lam = jnp.asarray(self.regularization, points.dtype)
        nothing = jnp.zeros((len(points), 0), points.dtype)
        return GaussianProcess(self.kernel, points, weights, explained, nothing, lam)

    def tell(
        self, state: KUCBState, x: Array, y: ArrayLike, key: PRNGKey | None = None
    ) -> tuple[KUCBState, Info]:
        x, y = self._check_example(state, x, y)
        points, evidence = state.points, state.evidence
        row, residual = (values[0] for values in self._rows(state, x[None]))
        finite = jnp.isfinite(y)
        exceeded = finite & (points.used >= len(points.points))
        observed = finite & ~exceeded
        sampling = Sampling(mu=self.regularization)
        error = jnp.where(observed, y, 0) - matmul(row, state.innovations)
        innovation = error / jnp.sqrt(residual + self.regularization)
        prior_variance = jnp.maximum(evidence.prior_variance, self.kernel.diag(x[None])[0])
        information = jnp.log1p(residual / self.regularization)
        new = KUCBState(
            points=kors.join(points, sampling, x, jnp.ones((), x.dtype), row, residual, observed),
            innovations=put_if(observed, state.innovations, points.used, innovation),
            evidence=widths.exact_evidence(
                count=evidence.count + observed.astype(x.dtype),
                logdet=evidence.logdet + jnp.where(observed, information, 0),
                prior_variance=jnp.where(observed, prior_variance, evidence.prior_variance),
            ),
        )
        width = self.confidence_width(state)
        return new, info_of_reward(y, new.points.used, width, exceeded, jnp.isfinite(innovation))

    def grow(self, state: KUCBState) -> KUCBState:
        """The same state with capacity for twice as many rewards."""
        capacity = len(state.innovations)
        return replace(
            state,
            points=kors.grow(state.points, 2 * capacity),
            innovations=jnp.pad(state.innovations, (0, capacity)),
        )


@struct.dataclass
class GrowingEvidence:
    """The scalars [] that determine widths. sigma~_s^2 is the variance before the reward of round
    s."""

    count: Array  # t, observed rewards
    information: Array  # sum_s log(1 + sigma~_s^2(x_s))
    information_sketched: Array  # sum_s log(1 + 3 sigma~_s^2(x_s))
    prior_variance: Array  # kappa^2, the largest k(x,x) of the played points


@struct.dataclass
class EKState:
    """The dictionary and posterior of `NystromAWV`, and the evidence for widths."""

    stream: NystromState
    evidence: GrowingEvidence

    @property
    def dimension(self) -> int:
        return self.stream.inputs.shape[1]

    @property
    def started(self) -> Array:
        return self.evidence.count > 0


@struct.dataclass
@one_dtype
class EKUCB(ContextualUCB):
    """Kernel UCB on a dictionary that only grows. In round t, C candidates cost O(C M^2), and a
    point that joins the dictionary costs O(t M).

    Zenati, Bietti, Diemert, Mairal, Martin, Gaillard. Efficient kernelized UCB for contextual
    bandits. AISTATS 2022. With Z the dictionary and S the played points with rewards Y,

        mean(x)     = k_Z(x)^T (K_ZS K_SZ + lam K_ZZ)^-1 K_ZS Y,
        variance(x) = (k(x,x) - k_Z(x)^T K_ZZ^-1 k_Z(x)) / lam
                      + k_Z(x)^T (K_ZS K_SZ + lam K_ZZ)^-1 k_Z(x).

    After its reward a point joins Z with a probability that KORS computes from its ridge leverage
    score at mu (`sketch.kors`, THEORY 7.5); all earlier points are then projected on the larger
    span. The posterior is that of `online.NystromAWV` without the penalty of the current example
    (THEORY 6.6). The authors' published scripts draw by the explained part of k(x,x), not by the
    residual.

    The width may be `bbkb_code`, `bbkb_paper` (C = 1), `Bayesian`, or a `Formula` of the fields of
    `GrowingEvidence`. The authors' experiments have width = 0.1, mu = lam, eps = 1/2, and a beta
    from lam / 1000 to lam / 10.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    width           the confidence width, one of `bandits.widths`
    max_history     H rewards
    sampling        mu, beta, eps of KORS
    capacity        M inducing points
    """

    sampling: Sampling = struct.component(components.SAMPLING, default_factory=Sampling)
    capacity: int = struct.size(64)

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> EKState:
        """The state before the first round; KORS uses `key` for all draws. Raises ValueError for
        invalid arguments."""
        origin = self._checked_origin(dimension, key, dtype)
        stream = in_dtype(self._forecaster(), origin.dtype).init(origin, key)
        zero = jnp.zeros((), origin.dtype)
        evidence = GrowingEvidence(**{f.name: zero for f in fields(GrowingEvidence)})
        return EKState(stream, evidence)

    def _forecaster(self) -> NystromAWV:
        return NystromAWV(
            self.kernel,
            self.regularization,
            self.sampling,
            penalize_current=False,
            capacity=self.capacity,
            memory=self.max_history,
        )

    def posterior(self, state: EKState, x: Array) -> tuple[Array, Array]:
        stream = state.stream
        z = matmul(kors.cross(stream.dictionary, self.kernel, x), stream.basis.T)
        explained = jnp.maximum((matmul(z, stream.inverse) * z).sum(1), 0)
        residual = posterior.residual(self.kernel.diag(x), z)
        return matmul(z, stream.weights), residual / self.regularization + explained

    def gaussian_process(self, state: EKState) -> GaussianProcess:
        stream, points = state.stream, kors.fill_with_first(state.stream.dictionary)
        used = jnp.arange(len(points), dtype=jnp.int32) < stream.dictionary.used
        root = jnp.where(used[:, None], stream.basis.T, 0)
        lam = jnp.asarray(self.regularization, points.dtype)
        remaining = jnp.sqrt(lam) * matmul(root, jnp.linalg.cholesky(stream.inverse))
        weights = matmul(root, stream.weights)
        return GaussianProcess(self.kernel, points, weights, root, remaining, lam)

    def tell(
        self, state: EKState, x: Array, y: ArrayLike, key: PRNGKey | None = None
    ) -> tuple[EKState, Info]:
        x, y = self._check_example(state, x, y)
        variance = self.posterior(state, x[None])[1][0]
        # with a limit of zero examples `advance` does not change the state
        limit = jnp.isfinite(y).astype(jnp.int32)
        stream, n_observed, forecast = _advance(self._forecaster(), state.stream, x, y, limit)
        observed, evidence = n_observed > 0, state.evidence
        prior_variance = jnp.maximum(evidence.prior_variance, self.kernel.diag(x[None])[0])
        new_evidence = GrowingEvidence(
            count=evidence.count + observed.astype(x.dtype),
            information=evidence.information + jnp.where(observed, jnp.log1p(variance), 0),
            information_sketched=evidence.information_sketched
            + jnp.where(observed, jnp.log1p(widths.ALPHA * variance), 0),
            prior_variance=jnp.where(observed, prior_variance, evidence.prior_variance),
        )
        exceeded = forecast.result == Result.CAPACITY_EXCEEDED
        finite = forecast.result != Result.NOT_FINITE
        size, width = stream.dictionary.used, self.confidence_width(state)
        return EKState(stream, new_evidence), info_of_reward(y, size, width, exceeded, finite)

    def grow(self, state: EKState) -> EKState:
        """The same state with more capacity where the dictionary or the history is full."""
        return replace(state, stream=self._forecaster().grow(state.stream))


# without jit each operation would be compiled separately, which takes seconds
@jax.jit
def _advance(
    forecaster: NystromAWV, stream: NystromState, x: Array, y: Array, limit: Array
) -> tuple[NystromState, Array, ForecastInfo]:
    """(state, number [] int32 of observed examples, info) after one example."""
    stream, _, n_observed, info = forecaster.advance(stream, x[None], y[None], limit)
    return stream, n_observed, info


@struct.dataclass
class CBBKBState:
    """The state of PointBBKB, and the rewards of its unfinished batch."""

    points: PointState
    rewards: Array  # [B], NaN in free slots
    # [M], sum_s (y_s - mean(x_s)) u_s over the unfinished batch, with the means at its start
    moment: Array

    @property
    def dimension(self) -> int:
        return self.points.history.shape[1]

    @property
    def started(self) -> Array:
        return self.points.used > 0


@struct.dataclass
@one_dtype
class CBBKB(ContextualUCB):
    """BBKB for contexts, or CBKB with `ratio` 1. Scores of n candidates cost O(n M^2), and the
    end of a batch O(H m^2 + m^3) for m inducing points.

    Zenati et al. (AISTATS 2022) compare EK-UCB with CBBKB and CBKB. The dictionary is drawn from
    all played points when 1 + the sum of the variances of the points since the last draw exceeds
    C = `ratio` (Calandriello et al., ICML 2020, Lemma 1), or is empty.
    The posterior uses every reward immediately. Let s run over the points since the last draw,
    P = (I + sum_s u_s u_s^T)^-1, and let mean_0 be the mean at that draw. The mean given all
    rewards, on the dictionary of that draw, is (THEORY 6.6)

        mean(x) = mean_0(x) + u(x)^T P sum_s (y_s - mean_0(x_s)) u_s,     u as in THEORY 9.3.

    The width and the variances in the sum are computed at the start of the batch; no theorem covers
    the width for C > 1. In the authors' published scripts the variances shrink within a batch.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    width           the confidence width, one of `bandits.widths`
    max_history     H rewards
    qbar            oversampling
    ratio           C >= 1; 1 is CBKB
    max_batch       B, the largest number of picks of a batch
    capacity        M inducing points
    """

    # `_point_bandit` passes these fields to PointBBKB
    qbar: ArrayLike = struct.number(2.0, above=0)
    ratio: ArrayLike = struct.number(2.0, at_least=1)
    max_batch: int = struct.size(64)
    capacity: int = struct.size(64)

    def _point_bandit(self) -> PointBBKB:
        return PointBBKB(**vars(self), dictionary=Draw())

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> CBBKBState:
        return self._empty_batch(self._point_bandit().init(dimension, key, dtype))

    def _empty_batch(self, points: PointState) -> CBBKBState:
        """The state after a draw."""
        zeros = jnp.zeros_like(points.posterior.weights)
        return CBBKBState(points, jnp.full(self.max_batch, jnp.nan, zeros.dtype), zeros)

    def confidence_width(self, state: CBBKBState) -> Array:
        return self._point_bandit().confidence_width(state.points)

    def posterior(self, state: CBBKBState, x: Array) -> tuple[Array, Array]:
        p, covariance = state.points.posterior, state.points.covariance
        model = self.kernel, self.regularization
        return predict_in_batch(p, *model, x, covariance, state.moment)

    def gaussian_process(self, state: CBBKBState) -> GaussianProcess:
        p, covariance = state.points.posterior, state.points.covariance
        return process_in_batch(p, self.kernel, self.regularization, covariance, state.moment)

    def tell(
        self, state: CBBKBState, x: Array, y: ArrayLike, key: PRNGKey
    ) -> tuple[CBBKBState, Info]:
        x, y = self._check_example(state, x, y)
        bandit, points = self._point_bandit(), state.points
        width, is_full = self.confidence_width(state), bandit.full(points)
        usable = jnp.isfinite(y) & ~is_full
        picked = CBBKBState(
            points=bandit.pull_unchecked(points, x),
            rewards=put_if(usable, state.rewards, points.batch_size, y),
            moment=state.moment + self._moment(points, x[None], y[None]),
        )
        ends = usable & (bandit.ends(picked.points) | (points.dictionary_size == 0))

        def end_batch() -> tuple[CBBKBState, Array]:
            drawn, info = bandit.tell(picked.points, picked.rewards, key)
            return self._empty_batch(drawn), info.result

        new, outcome = lax.cond(ends, end_batch, lambda: (picked, result()))
        fits = outcome != Result.CAPACITY_EXCEEDED
        new = jax.tree.map(partial(jnp.where, usable & fits), new, state)
        exceeded, finite = jnp.isfinite(y) & (is_full | ~fits), outcome != Result.NOT_FINITE
        return new, info_of_reward(y, new.points.dictionary_size, width, exceeded, finite)

    def _moment(self, points: PointState, x: Array, y: Array) -> Array:
        """The terms of the moment [M] of the rewards y [n] at points x [n,d]; a reward that is not
        finite has none."""
        p = points.posterior
        mean, _ = posterior.predict(p, self.kernel, self.regularization, x)
        return matmul(jnp.where(jnp.isfinite(y), y - mean, 0), posterior.embed(p, self.kernel, x))

    def grow(self, state: CBBKBState) -> CBBKBState:
        """The same state with twice the capacity of the history if the history is full, or else of
        the dictionary."""
        is_full = int(state.points.used) >= len(state.points.history)
        return _grown(self, state, extends=is_full)


@one_program("extends")
def _grown(bandit: CBBKB, state: CBBKBState, extends: bool) -> CBBKBState:
    """The state with twice the capacity of the history, or of the dictionary."""
    over_points, points = bandit._point_bandit(), state.points
    slots = len(points.history)
    if extends:
        grown = over_points.extend(points, 2 * slots)
    else:
        grown = over_points.grow(points, 2 * points.capacity)
    batch = points.batch_start + jnp.arange(bandit.max_batch, dtype=jnp.int32)
    batch_points = points.history[jnp.minimum(batch, slots - 1)]
    moment = bandit._moment(grown, batch_points, state.rewards)
    return replace(state, points=grown, moment=moment)

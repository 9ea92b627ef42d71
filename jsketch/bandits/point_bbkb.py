"""BKB and BBKB for candidates that are points and not arms of a fixed list: a new set of candidates
in every step (contextual bandits), or a box.

The points of the history are the arms of a `BBKB`, which observes the feedback, draws the
dictionary and computes the posterior. Only the picks differ: they are made one by one, from the
candidates of each step. Within a batch, the dictionary and the feedback are frozen and every pick
is hallucinated. A batch costs O(H m^2 + m^3), a choice among A candidates O(A m^2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits import starts
from jsketch.bandits.bbkb import BBKB, State
from jsketch.core import posterior, widths
from jsketch.core.dictionary import Extend, Rule
from jsketch.core.history import random_arm
from jsketch.core.posterior import Posterior
from jsketch.core.working_set import stop
from jsketch.numerics import matmul, put_if, take
from jsketch.posterior import GaussianProcess, process
from jsketch.precision import in_dtype, one_dtype
from jsketch.search import maximise_over_box
from jsketch.types import Arms, Box, Info, PRNGKey, Query, is_traced


@struct.dataclass
class PointState(State):
    """BBKB's state, whose arms are the points of the history, and the unfinished batch. An
    evaluation of a point that is already in the history counts for the first slot of this point."""

    history: Array  # [H, d], the points of all picks in order
    used: Array  # [] int32, number of slots of the history in use, the unfinished batch included
    batch_start: Array  # [] int32, the slot of the first pick of the unfinished batch
    covariance: Array  # [M, M], P = (I + sum_s u_s u_s^T)^-1, s in the unfinished batch
    bound: Array  # [], 1 + sum of the variances of the unfinished batch (BBKB Lemma 1)

    @property
    def arms(self) -> Arms:
        """The points of the history as arms."""
        return Arms(self.history)

    @property
    def batch_size(self) -> Array:
        """The number [] of picks of the unfinished batch."""
        return self.used - self.batch_start


@struct.dataclass
@one_dtype
class PointBBKB(widths.KernelBandit):
    """BBKB over points. Find a point with `choose` or `maximise`, add it to the batch with `pull`,
    and call `tell` with the rewards of the batch once `ends` is true.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    qbar            oversampling
    dictionary      how the dictionary changes after a batch, as in BBKB
    width           the confidence width, one of `bandits.widths`
    ratio           C >= 1; 1 is BKB, with one evaluation in a batch
    max_batch       B, the largest number of picks of a batch
    capacity        M, the largest number of inducing points
    max_history     H, the largest number of evaluations of a run; `extend` increases it

    Example:

        bandit = PointBBKB(kernels.Gaussian(0.5), noise_std=0.1)
        state = bandit.init(2, jax.random.key(0))
        while not bandit.ends(state):
            point = bandit.maximise(state, jax.random.key(1), Box(jnp.zeros(2), jnp.ones(2)))
            state = bandit.pull(state, point)
        points = state.history[state.batch_start : state.used]
        y = jnp.pad(-jnp.square(points).sum(1), (0, bandit.max_batch - len(points)))
        state, info = bandit.tell(state, y, jax.random.key(2))
    """

    qbar: ArrayLike = struct.number(2.0, above=0)
    dictionary: Rule = Extend()
    width: widths.Width = widths.bbkb_code
    ratio: ArrayLike = struct.number(2.0, at_least=1)
    max_batch: int = struct.size(64)
    capacity: int = struct.size(64)
    max_history: int = struct.size(1024)

    @property
    def _over_history(self) -> BBKB:
        """The BBKB whose arms are the points of the history."""
        names = "kernel regularization noise_std norm_bound delta qbar dictionary width ratio"
        return BBKB(**{name: getattr(self, name) for name in names.split()}, capacity=self.capacity)

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> PointState:
        """The state before the first pick, for points with `dimension` inputs. Raises ValueError
        for invalid arguments."""
        checks.positive_integer(dimension=dimension)
        dtype = checks.floating_dtype(dtype)
        starts.checked(self, Arms(jnp.zeros((1, dimension), dtype)), key, self.capacity)
        floats = self.max_history * (dimension + 5) + 4 * self.capacity**2
        checks.memory(floats, dtype, max_history=self.max_history, capacity=self.capacity)
        history = jnp.zeros((self.max_history, dimension), dtype)
        prior = in_dtype(self._over_history, dtype)._prior(Arms(history))
        zero = jnp.zeros((), jnp.int32)
        batch = _empty_batch(zero, self.capacity, dtype)
        return PointState(**vars(prior), history=history, used=zero, **batch)

    def confidence_width(self, state: PointState) -> Array:
        """The confidence width [] (alpha~_fb of the paper), constant within a batch."""
        return self._over_history.confidence_width(state, state.arms)

    def posterior(self, state: PointState, x: Array) -> tuple[Array, Array]:
        """(mean [n], variance [n]) at points x [n,d], after the hallucinated picks of the
        unfinished batch. Variances are divided by the regularization."""
        model = self.kernel, self.regularization
        return predict_in_batch(state.posterior, *model, x, state.covariance)

    def gaussian_process(self, state: PointState) -> GaussianProcess:
        """The posterior at any points (`jsketch.posterior.of`), after the hallucinated picks of the
        unfinished batch."""
        model = self.kernel, self.regularization
        return process_in_batch(state.posterior, *model, state.covariance)

    def scores(self, state: PointState, x: Array) -> Array:
        """Upper confidence bounds at points x [n,d], [n]."""
        mean, variance = self.posterior(state, x)
        # the lower bound makes the scores differentiable where the variance is zero
        return widths.ucb(mean, jnp.maximum(variance, 1e-12), self.confidence_width(state))

    def choose(self, state: PointState, key: PRNGKey, candidates: Array) -> Array:
        """The index [] of the candidate with the largest upper confidence bound among candidates
        [A,d]; the first pick is drawn uniformly at random. Raises ValueError for an empty or
        non-finite matrix, or if the number of columns is not the `dimension` of `init`."""
        checks.candidates(candidates, state.history.shape[1])
        checks.kernel_inputs(self.kernel, candidates)
        best = jnp.argmax(self.scores(state, candidates)).astype(jnp.int32)
        return jnp.where(state.used == 0, random_arm(Arms(candidates), key), best)

    def maximise(self, state: PointState, key: PRNGKey, box: Box) -> Array:
        """The point [d] of the box with the largest upper confidence bound that gradient ascent
        from many starts finds; the first pick is drawn uniformly at random. Raises ValueError if
        the dimension of the box is not that of `init`."""
        checks.box(box, state.history.shape[1])
        # both draws use the same key, because only one of them is returned
        best, _ = maximise_over_box(lambda x: self.scores(state, x), key, box)
        uniform = jax.random.uniform(key, box.lower.shape, best.dtype, box.lower, box.upper)
        return jnp.where(state.used == 0, uniform, best)

    def pull(self, state: PointState, x: Array) -> PointState:
        """The state with the point x [d] added to the batch; the pick is hallucinated until `tell`.
        Raises ValueError for a point that is not finite or has another number of inputs. If the
        batch or the history is full, a traced pick is dropped (check `ends` and `full`), and any
        other pick raises ValueError."""
        x = checks.example(x)
        checks.candidates(x[None], state.history.shape[1])
        if not is_traced(state, x) and bool(self.full(state)):
            raise ValueError(
                "the batch or the history is full: tell the batch (max_batch ="
                f" {self.max_batch}), or `extend` the history (max_history ="
                f" {len(state.history)})."
            )
        return self.pull_unchecked(state, x)

    def pull_unchecked(self, state: PointState, x: Array) -> PointState:
        """`pull` without its checks; if the batch or the history is full, the pick is dropped."""
        p, fits, slot = state.posterior, ~self.full(state), state.used
        mean, variance = posterior.predict(p, self.kernel, self.regularization, x[None])
        u = jnp.where(fits, posterior.embed(p, self.kernel, x[None])[0], 0)
        return replace(
            state,
            history=put_if(fits, state.history, slot, x),
            posterior=replace(
                p,
                mean=put_if(fits, p.mean, slot, mean[0]),
                variance=put_if(fits, p.variance, slot, variance[0]),
            ),
            used=slot + fits.astype(jnp.int32),
            covariance=after_pull(state.covariance, u),
            bound=state.bound + jnp.where(fits, variance[0], 0),
        )

    def ends(self, state: PointState) -> Array:
        """Whether the batch has ended, [] bool: its bound exceeds C (BBKB Lemma 1), or it has B
        picks. Call `tell` before the next pick then."""
        # a pick without variance leaves the bound at 1
        most = jnp.where(jnp.asarray(self.ratio) > 1, self.max_batch, 1)
        return stop(state.bound, self.ratio) | (state.batch_size >= most)

    def full(self, state: PointState) -> Array:
        """Whether the batch or the history is full, [] bool."""
        return (state.batch_size >= self.max_batch) | (state.used >= len(state.history))

    def tell(self, state: PointState, y: Array, key: PRNGKey) -> tuple[PointState, Info]:
        """(state, info) after the rewards y [B] of the batch, in the order of its picks. A reward
        of NaN is not observed, and entries beyond the last pick are ignored. If the dictionary
        exceeds the capacity, `grow` completes the state."""
        y = jnp.asarray(checks.real("y", y)).astype(state.history.dtype)
        if y.shape != (self.max_batch,):
            raise ValueError(
                f"y must have max_batch = {self.max_batch} rewards, NaN beyond the last pick; its"
                f" shape is {y.shape}."
            )
        slots = jnp.arange(self.max_batch, dtype=jnp.int32)
        picked = take(state.history, jnp.minimum(state.batch_start + slots, len(state.history) - 1))
        equal = (picked[:, None] == state.history[None]).all(-1)
        first = jnp.argmax(equal, axis=1).astype(jnp.int32)
        query = Query(index=first, mask=slots < state.batch_size)
        new, info = self._over_history.tell(state, state.arms, query, y, key)
        return replace(new, **_empty_batch(new.used, new.capacity, y.dtype)), info

    def grow(self, state: PointState, capacity: int) -> PointState:
        """The same state with capacity for `capacity` inducing points."""
        checks.not_smaller(state.capacity, capacity=capacity)
        return self._with_posterior(state, capacity)

    def extend(self, state: PointState, max_history: int) -> PointState:
        """The same state with capacity for `max_history` evaluations."""
        checks.not_smaller(len(state.history), max_history=max_history)
        extra = max_history - len(state.history)
        vectors = {name: getattr(state, name) for name in ("counts", "sums", "inducing")}
        padded: dict[str, Any] = {
            name: jnp.pad(vector, (0, extra)) for name, vector in vectors.items()
        }
        history = jnp.pad(state.history, ((0, extra), (0, 0)))
        return self._with_posterior(replace(state, history=history, **padded), state.capacity)

    def _with_posterior(self, state: PointState, capacity: int) -> PointState:
        """The state with the posterior of its history, and the picks of its batch made again:
        another computation may rotate the features u."""
        grown = self._over_history.grow(state, state.arms, capacity)
        batch = _empty_batch(state.batch_start, capacity, state.history.dtype)
        start = replace(grown, used=state.batch_start, **batch)

        def pull(slot: Array, new: PointState) -> PointState:
            return self.pull_unchecked(new, state.history[slot])

        return lax.fori_loop(state.batch_start, state.used, pull, start)


def _empty_batch(used: Array, capacity: int, dtype: Any) -> dict[str, Any]:
    """The fields of a state at the start of a batch, with `used` [] slots of the history in use."""
    return dict(
        batch_start=used, covariance=jnp.eye(capacity, dtype=dtype), bound=jnp.ones((), dtype)
    )


def predict_in_batch(
    p: Posterior,
    kernel: Any,
    regularization: ArrayLike,
    x: Array,
    covariance: Array,
    moment: Array | None = None,
) -> tuple[Array, Array]:
    """(mean [n], variance [n]) at points x [n,d] after pulls s that the posterior does not have.
    Variances are divided by the regularization. With P = (I + sum_s u_s u_s^T)^-1 (THEORY 9.3)

        mean(x) = mean_p(x) + u(x)^T P b,   variance(x) = r(x) / lam + u(x)^T P u(x).

    p           the posterior without the pulls, with the mean mean_p
    covariance  [M, M], P, from `after_pull`
    moment      [M], b = sum_s (y_s - mean_p(x_s)) u_s; None: the pulls are hallucinated
    """
    mean, variance = posterior.predict(p, kernel, regularization, x)
    u = posterior.embed(p, kernel, x)
    embedded = jnp.maximum((matmul(u, covariance) * u).sum(1), 0)
    if moment is not None:
        mean = mean + matmul(u, matmul(covariance, moment))
    return mean, posterior.residual(variance, u) + embedded


def process_in_batch(
    p: Posterior,
    kernel: Any,
    regularization: ArrayLike,
    covariance: Array,
    moment: Array | None = None,
) -> GaussianProcess:
    """The posterior of `predict_in_batch`, which has its arguments but the points."""
    gp = process.of_sketched(kernel, regularization, p)
    remaining = matmul(gp.remaining, jnp.linalg.cholesky(covariance))
    added = 0 if moment is None else matmul(p.dual, matmul(covariance, moment))
    return replace(gp, weights=gp.weights + added, remaining=remaining)


def after_pull(covariance: Array, u: Array) -> Array:
    """P = (I + sum_s u_s u_s^T)^-1 [M,M] after one more pull, of a point with the features u [M]
    (Sherman and Morrison). Features of zero change nothing."""
    direction = matmul(covariance, u)
    scaled = direction / (1 + jnp.maximum(matmul(u, direction), 0))
    return covariance - direction[:, None] * scaled[None, :]

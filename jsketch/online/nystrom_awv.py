"""PKAWV with Nystrom features on a KORS dictionary: exact ridge regression on the span of a
dictionary that grows.

Jezequel, Gaillard, Rudi. NeurIPS 2019, Section 3.2 and Appendix H (THEORY 7.6). The paper keeps an
n x m matrix; here the inputs observed so far are kept, O(n d), and read once, O(n m), whenever a
point joins. The posterior lives in orthonormal coordinates z of the dictionary, A = lam I + sum_t
z_t z_t^T: a point that joins adds one coordinate, after a turn of the others where rounding decides
its pivot (O(m^3), `newton`), so that A is bordered, and never nearly singular as the matrix in
kernel coordinates is. Between two points that join the features are fixed, and examples are learned
in blocks of matrix products.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import cond_per_run, lazy_cond, matmul, matmul_rows, pad_identity
from jsketch.online import ridge, rounding
from jsketch.online.ridge import Past, Sums, damped, learn_block
from jsketch.precision import one_dtype
from jsketch.sketch import kors, newton
from jsketch.sketch.kors import Kors, Received, Sampling
from jsketch.sketch.newton import Rotation
from jsketch.types import ForecastInfo, PRNGKey

CHUNK = ridge.PAST_CHUNK


LEAST_ROWS = 64  # a block of `prequential`


def _whole_chunks(rows: int) -> int:
    return max(rows, LEAST_ROWS) if rows <= CHUNK else -(-rows // CHUNK) * CHUNK


@struct.dataclass
class NystromState:
    """m points of at most M, and t examples of at most N."""

    dictionary: Kors
    basis: Array  # [M, M]; z(x) = basis k_I(x), orthonormal (`newton`); zero rows add no coordinate
    inverse: Array  # [M, M], A^-1
    weights: Array  # [M], A^-1 sum_t y_t z_t
    inputs: Array  # [N, d]
    labels: Array  # [N], NaN where there is none
    received: Array  # [] int32, t
    key: Array  # key data of the draws; `predict` and `update` make the same one


@struct.dataclass
@one_dtype
class NystromAWV:
    """PKAWV (or projected kernel ridge regression, without `penalize_current`) on a dictionary that
    KORS samples.

    Without `remember` (`ForgettingNystromAWV`) observed inputs are not kept: the memory is O(M^2),
    independent of the stream, and an example stays what it was in the span of its own time. That is
    not the paper's algorithm, nor in its theorems.
    """

    kernel: Any
    regularization: ArrayLike = 1.0  # lam
    sampling: Sampling = struct.field(default_factory=Sampling)
    penalize_current: bool = struct.field(pytree_node=False, default=True)
    capacity: int = struct.field(pytree_node=False, default=64)  # M points at first
    memory: int = struct.field(pytree_node=False, default=4 * CHUNK)  # N examples at first
    remember: bool = struct.field(pytree_node=False, default=True)

    takes = "growing blocks"

    def init(self, x: Array, key: PRNGKey) -> NystromState:
        """Nothing seen; x [d] is one example. Raises ValueError on static mistakes."""
        checks.positive(regularization=self.regularization)
        checks.capacity(capacity=self.capacity, memory=self.memory)
        x = checks.example(x)
        checks.kernel_on(self.kernel, x[None])
        floats = (
            self.capacity * (3 * self.capacity + len(x))
            + self.memory * (len(x) + 1) * self.remember
        )
        checks.room(floats, x.dtype, capacity=self.capacity, memory=self.memory)
        self.check_rounding(x)
        kors.check(self.sampling, x.dtype)
        rows = _whole_chunks(self.memory) if self.remember else 0
        return NystromState(
            dictionary=kors.empty(x, self.capacity),
            basis=jnp.zeros((self.capacity, self.capacity), x.dtype),
            inverse=jnp.eye(self.capacity, dtype=x.dtype) / self.regularization,
            weights=jnp.zeros(self.capacity, x.dtype),
            inputs=jnp.zeros((rows, *x.shape), x.dtype),
            labels=jnp.zeros(rows, x.dtype),
            received=jnp.zeros((), jnp.int32),
            key=jax.random.key_data(key),
        )

    def check_rounding(self, x: Array) -> bool:
        """Warns, and says whether it did, when rounding is too much for an example x [d]
        (`rounding`). On the host."""
        return rounding.check_kernel(self.kernel, x, self.regularization)

    def predict(self, state: NystromState, x: Array) -> Array:
        """y^ [] for x [d], with x in the dictionary if KORS draws it and there is room (`update`
        says if there is none)."""
        _, prediction, _, _ = self.advance(state, x[None], jnp.full((1,), jnp.nan, x.dtype), 1)
        return prediction[0]

    def update(
        self, state: NystromState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[NystromState, ForecastInfo]:
        """Learns y [] at x [d]; a label that is not finite is not learned. On overflow the state
        comes back unchanged."""
        state, _, _, info = self.advance(state, x[None], jnp.asarray(y)[None], 1)
        return state, info

    def advance(
        self, state: NystromState, x: Array, y: Array, limit: ArrayLike
    ) -> tuple[NystromState, Array, Array, ForecastInfo]:
        """`predict` and `update` of examples x [B,d], y [B] in order, before the next one that
        joins the dictionary and at most `limit` of them: (state, y^ [B] valid before `done`, done
        [] int32, info).

        `done` is zero on overflow, and for a limit of zero, which changes nothing. Under vmap only
        a run that has a new coordinate reads its past.
        """
        count = len(y)
        slots = jnp.arange(count, dtype=jnp.int32)
        if self.remember and count > state.inputs.shape[0]:
            raise ValueError(
                f"a block of {count} examples does not fit a memory of {state.inputs.shape[0]}:"
                " raise `memory`."
            )
        limit = jnp.asarray(limit, jnp.int32)
        no_memory = (
            jnp.asarray(self.remember)
            & (state.received + count > state.inputs.shape[0])
            & (limit > 0)
        )
        draws = kors.draws(state.key, state.received, count, x.dtype)
        received = kors.receive(
            state.dictionary, self.kernel, self.sampling, x, draws, (limit > 0) & ~no_memory
        )
        full = no_memory | received.full
        done = jnp.where(full, 0, jnp.minimum(received.until, limit))

        taken = slots < done
        if self.remember:
            # before the past is read: a memory that is written to behind a reader is copied whole
            labels = jnp.where(jnp.isfinite(y), y, jnp.nan)
            state = self._keep(
                state, jnp.where(taken[:, None], x, 0), jnp.where(taken, labels, 0), done
            )
        learn = taken & jnp.isfinite(y)
        state, z = self._border(state, received, x[0])
        inverse, weights, before, leverage = learn_block(state.inverse, state.weights, z, y, learn)
        state = replace(state, inverse=inverse, weights=weights, received=state.received + done)
        bad = jnp.any(jnp.isinf(y) & taken) | ~jnp.isfinite(weights).all()
        info = ForecastInfo(state.dictionary.used, full, bad)
        return state, damped(before, leverage, self.penalize_current), done, info

    def grow(self, state: NystromState) -> NystromState:
        """The same state with more room, for points and for examples alike where they are full."""
        size, rows = state.basis.shape[0], state.inputs.shape[0]
        capacity = size if int(state.dictionary.used) < size else 2 * size
        # a block that does not fit is refused whole: when the points had room, it was the memory
        # that had none
        short = capacity == size or int(state.received) + min(rows, CHUNK) > rows
        memory = _whole_chunks(4 * rows) if self.remember and short else rows
        extra, extra_rows = capacity - size, memory - rows
        lam = jnp.asarray(self.regularization, state.basis.dtype)
        return replace(
            state,
            dictionary=kors.grow(state.dictionary, capacity),
            basis=jnp.pad(state.basis, (0, extra)),
            inverse=pad_identity(state.inverse * lam, capacity) / lam,
            weights=jnp.pad(state.weights, (0, extra)),
            inputs=jnp.pad(state.inputs, ((0, extra_rows), (0, 0))),
            labels=jnp.pad(state.labels, (0, extra_rows)),
        )

    def _border(
        self, state: NystromState, received: Received, x: Array
    ) -> tuple[NystromState, Array]:
        """(The posterior with x [d] in the dictionary, if it joined; z [B,M] of the block), after
        one pass over the observed examples where x adds a coordinate.

        With v the new direction, c_i the coordinate along it of an observed example and p = sum_i
        c_i z_i without v, the precision A grows by v p^T + p v^T + sum_i c_i^2 v v^T. Without one v
        is zero, and nothing changes.
        """
        dictionary = received.dictionary
        lam = jnp.asarray(self.regularization, received.k.dtype)
        points = kors.filled(dictionary.points, dictionary.used, x)
        joined, z = newton.join_first(
            state.basis,
            state.dictionary.used,
            received.k,
            x,
            self.kernel,
            points,
            _Learned(state.inverse, state.weights, lam),
            _turned,
            received.joins,
        )
        basis, v, new = joined.basis, joined.direction, joined.direction.any()
        past = Past(state.inputs, state.labels, state.received)
        sums = self._read_again(past, points, joined.dual, new)

        def bordered(learned: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            inverse, weights, v = learned
            mixed = matmul(basis, sums.mixed)
            mixed = mixed - v * matmul(v, mixed)
            solved = matmul(inverse, mixed)
            schur = lam + sums.square - matmul(mixed, solved)
            solved = solved - v
            along = (sums.moment - matmul(mixed, weights)) / schur
            inverse = (
                inverse
                - v[:, None] * (v / lam)[None, :]
                + solved[:, None] * (solved / schur)[None, :]
            )
            # v is spent: XLA would work out v v^T before every step, were it the same after this
            return inverse, weights - solved * along, jnp.zeros_like(v)

        inverse, weights, _ = lazy_cond(
            new, bordered, (joined.carried.inverse, joined.carried.weights, v)
        )
        state = replace(state, dictionary=dictionary, basis=basis, inverse=inverse, weights=weights)
        return state, z

    def _read_again(self, past: Past, points: Array, dual: Array, new: Array) -> Sums:
        """The sums of the coordinate k_I(x_i)^T dual, if it is a `new` one []; zero if not.

        What rows of `points` [M,d] behind m hold does not matter: `dual` [M] and columns of the
        basis are zero there.
        """
        zero = jnp.zeros((), dual.dtype)
        nothing = Sums(jnp.zeros_like(dual), zero, zero)
        if not self.remember:
            return nothing
        return cond_per_run(new, ridge.read_again, nothing, (self.kernel, past, points, dual))

    def _keep(self, state: NystromState, x: Array, y: Array, done: Array) -> NystromState:
        """The state with the block x [B,d], y [B] in its memory behind what was received, zero from
        `done` on; these rows will be written over."""
        start = state.received
        rows = [
            jnp.where(done > 0, new, lax.dynamic_slice_in_dim(old, start, len(new)))
            for new, old in ((x, state.inputs), (y, state.labels))
        ]
        return replace(
            state,
            inputs=lax.dynamic_update_slice_in_dim(state.inputs, rows[0], start, 0),
            labels=lax.dynamic_update_slice_in_dim(state.labels, rows[1], start, 0),
        )


class _Learned(NamedTuple):
    """What turns with the coordinates."""

    inverse: Array
    weights: Array
    regularization: Array


def _turned(learned: _Learned, turn: Rotation) -> _Learned:
    """What was learned, in other coordinates: nothing yet along those that are new."""
    rows, rank = turn
    inverse = matmul_rows(matmul_rows(rows, learned.inverse, rank), rows.T, rank)
    missing = jnp.eye(len(rows), dtype=rows.dtype) - matmul_rows(rows, rows.T, rank)
    lam = learned.regularization
    return _Learned(inverse + missing / lam, matmul(rows, learned.weights), lam)


def ForgettingNystromAWV(
    kernel: Any, regularization: ArrayLike = 1.0, **options: Any
) -> NystromAWV:
    """`NystromAWV` that keeps no observed inputs: see there what is lost."""
    return NystromAWV(kernel, regularization, remember=False, **options)

"""PKAWV with Nystrom features on a KORS dictionary: exact ridge regression on the span of a growing
dictionary.

Jezequel, Gaillard, Rudi. NeurIPS 2019, Section 3.2 and Appendix H (THEORY 7.6). The paper stores an
n x m matrix. This code stores the observed inputs, O(n d), and evaluates the kernel again, O(n m),
whenever a point joins the dictionary. The posterior is in orthonormal coordinates z of the
dictionary, where A = lam I + sum_t z_t z_t^T is never nearly singular. A point that joins adds a
coordinate, a row and a column of A; if rounding decides its pivot, the other coordinates are
rotated first, O(m^3) (`sketch.newton`). As long as no point joins, the features are fixed, and
examples are learned in blocks of matrix products.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import components, struct
from jsketch.numerics import lazy_cond, matmul
from jsketch.online import base
from jsketch.online.ridge import awv_prediction, learn_block
from jsketch.precision import in_first_dtype
from jsketch.sketch import kors
from jsketch.sketch.kors import Arrival, Sampling
from jsketch.types import ForecastInfo, PRNGKey

CHUNK = 1024  # number of observed examples in one kernel matrix
LEAST_ROWS = 64  # the least capacity for examples: the block size of `prequential`


def _round_up_to_chunks(rows: int) -> int:
    """A capacity of at least `rows` and LEAST_ROWS; above CHUNK, a multiple of CHUNK."""
    return max(rows, LEAST_ROWS) if rows <= CHUNK else -(-rows // CHUNK) * CHUNK


@struct.dataclass
class NystromState(base.DictionaryState):
    """A dictionary with its posterior, and t of at most N observed examples."""

    inputs: Array  # [N, d]
    labels: Array  # [N], NaN for a missing label


@struct.dataclass
class NystromAWV(base.KernelForecaster, base.GrowingFeatures):
    """PKAWV on a dictionary that KORS samples.

    kernel            a kernel of `jsketch.kernels`
    regularization    lambda of PKAWV, alpha of the Newton steps
    sampling          `Sampling`, the settings mu, beta and eps of KORS
    penalize_current  True: AWV, whose prediction is shrunk by the current example. False: projected
                      kernel ridge regression
    capacity          int, the initial capacity M for inducing points
    memory            int, the initial capacity N for examples
    remember          False (`ForgettingNystromAWV`): observed inputs are not stored. The state has
                      size O(M^2) for any stream, and an example stays projected on the span at
                      its arrival. The paper has no such algorithm, and its theorems do not
                      apply

    Example:

        from jsketch.sketch.kors import Sampling

        forecaster = NystromAWV(kernels.Gaussian(1.0), 0.1, Sampling(mu=0.1))
        forecasts, state = prequential(forecaster, (xs, ys), jax.random.key(0))
    """

    sampling: Sampling = struct.component(components.SAMPLING, default_factory=Sampling)
    penalize_current: bool = struct.choice(True)
    capacity: int = struct.size(64)
    memory: int = struct.size(4 * CHUNK, at_least=0)
    remember: bool = struct.choice(True)

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> NystromState:
        size, stored = self.capacity, self.memory * self.remember

        def n_numbers(d: int) -> int:
            return size * (3 * size + d) + stored * (d + 1)

        x = base.checked_example(self, x, n_numbers, capacity=size, memory=self.memory)
        kors.check(self.sampling, x.dtype)
        rows = _round_up_to_chunks(self.memory) if self.remember else 0
        return NystromState(
            **vars(base.empty_dictionary(x, size, self.regularization, key)),
            inputs=jnp.zeros((rows, *x.shape), x.dtype),
            labels=jnp.zeros(rows, x.dtype),
        )

    def advance(
        self,
        state: NystromState,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[NystromState, Array, Array, ForecastInfo]:
        """See `Forecaster.advance`. The kernel is evaluated at the observed examples only if there
        is a new coordinate; under vmap, if any run has one."""
        count, rows = len(y), state.inputs.shape[0]
        limit = jnp.asarray(limit, jnp.int32)
        memory_full = (limit > 0) & self.remember & (state.received + count > rows)
        draws = kors.draws(state.key, state.received, count, x.dtype)
        arrival = kors.receive(
            state.dictionary, self.kernel, self.sampling, x, draws, (limit > 0) & ~memory_full
        )
        full = memory_full | arrival.full
        done = jnp.where(full, 0, jnp.minimum(arrival.next_join, limit))

        processed = jnp.arange(count, dtype=jnp.int32) < done
        if self.remember and count <= rows:  # a longer block exceeds the capacity
            # the write comes before the loop over the examples, because XLA would copy an array
            # that is written after a loop has read it
            labels = jnp.where(jnp.isfinite(y), y, jnp.nan)
            state = self._store(
                state, jnp.where(processed[:, None], x, 0), jnp.where(processed, labels, 0), done
            )
        learn = processed & jnp.isfinite(y)
        state, z = self._join(state, arrival, x[0])
        inverse, weights, g, leverage = learn_block(state.inverse, state.weights, z, y, learn)
        state = replace(state, inverse=inverse, weights=weights, received=state.received + done)
        info = base.info_after(state.dictionary.used, jnp.where(processed, y, 0), weights, full)
        return state, awv_prediction(g, leverage, self.penalize_current), done, info

    def grow(self, state: NystromState) -> NystromState:
        """The same state with larger capacities where they are exhausted: twice as many inducing
        points, four times as many examples."""
        size, rows = state.basis.shape[0], state.inputs.shape[0]
        capacity = size if int(state.dictionary.used) < size else 2 * size
        # a block overflows as a whole: if there is space for inducing points, the memory is full
        memory_full = capacity == size or int(state.received) + min(rows, CHUNK) > rows
        extra = _round_up_to_chunks(4 * rows) - rows if self.remember and memory_full else 0
        return replace(
            base.grow_dictionary(state, capacity, self.regularization),
            inputs=jnp.pad(state.inputs, ((0, extra), (0, 0))),
            labels=jnp.pad(state.labels, (0, extra)),
        )

    def _join(self, state: NystromState, arrival: Arrival, x: Array) -> tuple[NystromState, Array]:
        """(the state with x [d] in the dictionary if it joins; the features z [B,M] of the block).

        Let v be the unit vector of the new coordinate, c_i the new coordinate of the i-th observed
        example, and p the sum of c_i z_i in the other coordinates. A increases by
        v p^T + p v^T + sum_i c_i^2 v v^T. If there is no new coordinate, v is zero and A stays.
        """
        dictionary = arrival.dictionary
        lam = jnp.asarray(self.regularization, arrival.k.dtype)
        posterior = _Posterior(state.inverse, state.weights, lam)
        points = kors.fill_unused(dictionary.points, dictionary.used, x)
        joined, z = base.join_first(state, arrival, x, points, self.kernel, posterior, _rotate)
        basis, v, is_new = joined.basis, joined.direction, joined.direction.any()
        sums = self._sums(state, points, joined.dual, is_new)

        def add_coordinate(posterior: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            inverse, weights, v = posterior
            mixed = matmul(basis, sums.mixed)
            mixed = mixed - v * matmul(v, mixed)  # p
            solved = matmul(inverse, mixed)
            schur = lam + sums.square - matmul(mixed, solved)
            solved = solved - v  # A^-1 p - v
            new_weight = (sums.moment - matmul(mixed, weights)) / schur
            inverse = inverse - v[:, None] * (v / lam)[None, :]
            inverse = inverse + solved[:, None] * (solved / schur)[None, :]
            # if v were returned unchanged, XLA would compute v v^T before every step
            return inverse, weights - solved * new_weight, jnp.zeros_like(v)

        inverse, weights, _ = lazy_cond(
            is_new, add_coordinate, (joined.state.inverse, joined.state.weights, v)
        )
        state = replace(state, dictionary=dictionary, basis=basis, inverse=inverse, weights=weights)
        return state, z

    def _sums(self, state: NystromState, points: Array, dual: Array, is_new: Array) -> _Sums:
        """The sums over the observed examples for their new coordinate k_I(x)^T dual, or zeros if
        there is no new coordinate (`is_new` [] is False). Rows of `points` [M,d] from m on have no
        effect, because `dual` [M] and the columns of the basis are zero there."""
        zero = jnp.zeros((), dual.dtype)
        zeros = _Sums(jnp.zeros_like(dual), zero, zero)
        if not self.remember:
            return zeros
        args = (self.kernel, state.inputs, state.labels, state.received, points, dual)
        return lazy_cond(is_new, lambda zeros: _sum_chunks(zeros, args), zeros)

    def _store(self, state: NystromState, x: Array, y: Array, done: Array) -> NystromState:
        """The state with the block x [B,d], y [B] appended to the observed examples. The rows of
        the block from `done` on are zero, and the next block overwrites them."""
        start = state.received
        inputs, labels = (
            jnp.where(done > 0, new, lax.dynamic_slice_in_dim(old, start, len(new)))
            for new, old in ((x, state.inputs), (y, state.labels))
        )
        return replace(
            state,
            inputs=lax.dynamic_update_slice_in_dim(state.inputs, inputs, start, 0),
            labels=lax.dynamic_update_slice_in_dim(state.labels, labels, start, 0),
        )


class _Sums(NamedTuple):
    """Sums over the labelled examples, where c_i is the new coordinate of example i."""

    mixed: Array  # [M], sum_i c_i k_I(x_i)
    square: Array  # [], sum_i c_i^2
    moment: Array  # [], sum_i c_i y_i


def _sum_chunks(zeros: _Sums, args: tuple[Any, Array, Array, Array, Array, Array]) -> _Sums:
    """The sums for the coordinates k_I(x_i)^T dual, by chunks of examples; args are (kernel, inputs
    [N,d], labels [N] with NaN for a missing one, rows in use [], points [M,d], dual [M])."""
    kernel, inputs, labels, used, points, dual = args
    size = min(CHUNK, len(inputs))

    def add(i: Array, sums: _Sums) -> _Sums:
        x = lax.dynamic_slice_in_dim(inputs, i * size, size)
        y = lax.dynamic_slice_in_dim(labels, i * size, size)
        in_use = i * size + jnp.arange(size, dtype=jnp.int32) < used
        labelled = in_use & jnp.isfinite(y)
        k = kernel.gram(x, points)
        coordinate = jnp.where(labelled, matmul(k, dual), 0)
        return _Sums(
            sums.mixed + matmul(coordinate, k),
            sums.square + matmul(coordinate, coordinate),
            sums.moment + matmul(coordinate, jnp.where(labelled, y, 0)),
        )

    return lax.fori_loop(0, (used + size - 1) // size, add, zeros)


class _Posterior(NamedTuple):
    """The posterior in the coordinates of the dictionary."""

    inverse: Array
    weights: Array
    regularization: Array


def _rotate(posterior: _Posterior, rows: Array) -> _Posterior:
    """The posterior in coordinates rotated by `rows` [M,M], which is the prior in added
    dimensions."""
    inverse = matmul(matmul(rows, posterior.inverse), rows.T)
    missing = jnp.eye(len(rows), dtype=rows.dtype) - matmul(rows, rows.T)
    lam = posterior.regularization
    return _Posterior(inverse + missing / lam, matmul(rows, posterior.weights), lam)


def ForgettingNystromAWV(
    kernel: Any, regularization: ArrayLike = 1.0, **options: Any
) -> NystromAWV:
    """`NystromAWV` with `remember=False`, which does not store observed inputs."""
    return NystromAWV(kernel, regularization, remember=False, **options)

"""PKAWV with Nystrom features on a KORS dictionary: exact ridge regression on the span of a dictionary that grows.

Jezequel, Gaillard, Rudi. NeurIPS 2019, Section 3.2 and Appendix H (theory.md A10). The paper keeps an n x m matrix; here
the past inputs are kept, O(n d), and read once, O(n m^2), whenever a point joins. The posterior lives in the Newton
coordinates z of the dictionary, A = lam I + sum_t z_t z_t^T: a point that joins adds one coordinate and changes none, so
that A is bordered, and never nearly singular as the matrix in kernel coordinates is.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.bandits import checks
from jsketch.linalg import matmul, pad_identity, put
from jsketch.sketch import kors
from jsketch.sketch.kors import Kors, Sampling
from jsketch.types import ForecastInfo, PRNGKey

CHUNK = 1024  # past examples read together
# of k(x,x); below it a point that joins is in the span of the others, and rounding would pass for a coordinate
LEAST_RESIDUAL = 1e-10


@struct.dataclass
class NystromState:
    """m points of at most M, and t labelled examples of at most N."""

    dictionary: Kors
    basis: Array  # [M, M], L^-1 of K_II = L L^T, lower triangular: z(x) = basis k_I(x); zero rows add no coordinate
    inverse: Array  # [M, M], A^-1
    weights: Array  # [M], A^-1 sum_t y_t z_t
    inputs: Array  # [N, d]
    labels: Array  # [N]
    learned: Array  # [] int32, t
    received: Array  # [] int32, all examples, labelled or not
    key: Array  # key data of the draws; `predict` and `update` make the same one


@struct.dataclass
class NystromAWV:
    """PKAWV (or projected kernel ridge regression, without `penalize_current`) on a dictionary that KORS samples."""

    kernel: Any
    regularization: ArrayLike = 1.0  # lam
    sampling: Sampling = struct.field(default_factory=Sampling)
    penalize_current: bool = struct.field(pytree_node=False, default=True)
    capacity: int = struct.field(pytree_node=False, default=64)  # M points at first
    memory: int = struct.field(pytree_node=False, default=CHUNK)  # N examples at first

    def init(self, x: Array, key: PRNGKey) -> NystromState:
        """Nothing seen; x [d] is one example. Raises ValueError on static mistakes."""
        sampling = self.sampling
        checks.positive(regularization=self.regularization, mu=sampling.mu, beta=sampling.beta)
        checks.nonnegative(eps=sampling.eps)
        checks.capacity(capacity=self.capacity, memory=self.memory)
        checks.choice(kors.WEIGHTS, weights=sampling.weights)
        checks.a_kernel(self.kernel)
        x = checks.example(x)
        zero = jnp.zeros((), jnp.int32)
        return NystromState(
            dictionary=kors.empty(x, self.capacity),
            basis=jnp.zeros((self.capacity, self.capacity), x.dtype),
            inverse=jnp.eye(self.capacity, dtype=x.dtype) / self.regularization,
            weights=jnp.zeros(self.capacity, x.dtype),
            inputs=jnp.zeros((-(-self.memory // CHUNK) * CHUNK, *x.shape), x.dtype),
            labels=jnp.zeros(-(-self.memory // CHUNK) * CHUNK, x.dtype),
            learned=zero,
            received=zero,
            key=jax.random.key_data(key),
        )

    def predict(self, state: NystromState, x: Array) -> Array:
        """y^ [] for x [d], with x in the dictionary if KORS draws it."""
        state, z, _ = self._receive(state, x)
        return self._prediction(state, z)

    def update(
        self, state: NystromState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[NystromState, ForecastInfo]:
        """Learns y [] at x [d]; a label that is not finite is not learned. On overflow the state comes back unchanged."""
        state, _, info = self.step(state, x, y, key)
        return state, info

    def step(
        self, state: NystromState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[NystromState, Array, ForecastInfo]:
        """`predict` and `update` in one: (state, y^, info)."""
        seen = jnp.isfinite(y)
        forgotten = seen & (state.learned >= state.inputs.shape[0])  # no room for the example itself
        new, z, full = self._receive(state, x, forgotten)
        prediction = self._prediction(new, z)
        full = full | forgotten
        learn = seen & ~full
        direction = jnp.where(learn, matmul(new.inverse, z), 0)
        pivot = 1 + matmul(z, direction)
        surprise = jnp.where(learn, y - matmul(z, new.weights), 0)
        slot = jnp.minimum(new.learned, new.inputs.shape[0] - 1)
        new = new.replace(
            inverse=new.inverse - direction[:, None] * (direction / pivot),
            weights=new.weights + direction * (surprise / pivot),
            inputs=put(new.inputs, slot, jnp.where(learn, x, new.inputs[slot])),
            labels=put(new.labels, slot, jnp.where(learn, y, new.labels[slot])),
            learned=new.learned + learn.astype(jnp.int32),
            received=state.received + (~full).astype(jnp.int32),
        )
        nonfinite = jnp.isinf(y) | ~jnp.isfinite(new.weights).all()
        return new, prediction, ForecastInfo(new.dictionary.used, full, nonfinite)

    def grow(self, state: NystromState) -> NystromState:
        """The same state with more room, for points and for examples alike where they are full."""
        size, rows = state.basis.shape[0], state.inputs.shape[0]
        capacity = size if int(state.dictionary.used) < size else 2 * size
        memory = rows if int(state.learned) < rows else 2 * rows
        extra, extra_rows = capacity - size, memory - rows
        lam = jnp.asarray(self.regularization, state.basis.dtype)
        return state.replace(
            dictionary=kors.grow(state.dictionary, capacity),
            basis=jnp.pad(state.basis, (0, extra)),
            inverse=pad_identity(state.inverse * lam, capacity) / lam,
            weights=jnp.pad(state.weights, (0, extra)),
            inputs=jnp.pad(state.inputs, ((0, extra_rows), (0, 0))),
            labels=jnp.pad(state.labels, (0, extra_rows)),
        )

    def _prediction(self, state: NystromState, z: Array) -> Array:
        ridge = matmul(z, state.weights)
        if not self.penalize_current:
            return ridge
        return ridge / (1 + jnp.maximum(matmul(z, matmul(state.inverse, z)), 0))

    def _receive(
        self, state: NystromState, x: Array, forgotten: ArrayLike = False
    ) -> tuple[NystromState, Array, Array]:
        """(state with x in the dictionary if it is drawn, z(x) [M], whether there was no room for it []).

        Under vmap both sides of the cond are paid for at every step: sweep short streams only.
        """
        key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.received)
        k = kors.cross(state.dictionary, self.kernel, x)
        joins, *drawn = kors.draw(state.dictionary, self.kernel, self.sampling, x, k, key)
        full = joins & (state.dictionary.used >= state.basis.shape[0])
        z = matmul(state.basis, k)

        def joined() -> tuple[Array, Array, Array, Array, Kors]:
            dictionary = kors.join(state.dictionary, self.sampling, x, *drawn)
            return *self._border(state, x, z), dictionary

        def same() -> tuple[Array, Array, Array, Array, Kors]:
            return state.basis, state.inverse, state.weights, z, state.dictionary

        basis, inverse, weights, z, dictionary = lax.cond(
            joins & ~full & ~jnp.asarray(forgotten), joined, same
        )
        state = state.replace(basis=basis, inverse=inverse, weights=weights, dictionary=dictionary)
        return state, z, full

    def _border(self, state: NystromState, x: Array, z: Array) -> tuple[Array, Array, Array, Array]:
        """(basis, A^-1, weights, z(x)) with x as the next point, after one look at the past examples."""
        slot = state.dictionary.used
        own = self.kernel.diag(x[None])[0]
        residual = own - jnp.square(z).sum()
        new = residual > LEAST_RESIDUAL * own
        pivot = jnp.sqrt(jnp.where(new, residual, 1))

        def read(i: Array, sums: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            past = lax.dynamic_slice_in_dim(state.inputs, i * CHUNK, CHUNK)
            labels = lax.dynamic_slice_in_dim(state.labels, i * CHUNK, CHUNK)
            known = i * CHUNK + jnp.arange(CHUNK, dtype=jnp.int32) < state.learned
            # rows of the basis past m are zero, so what the unused points hold does not matter
            old = matmul(self.kernel.gram(past, state.dictionary.points), state.basis.T)
            coordinate = (self.kernel.gram(past, x[None])[:, 0] - matmul(old, z)) / pivot
            coordinate = jnp.where(known, coordinate, 0)
            mixed, square, moment = sums
            return (
                mixed + matmul(coordinate, old),
                square + matmul(coordinate, coordinate),
                moment + matmul(coordinate, labels),
            )

        zero = jnp.zeros((), z.dtype)
        chunks = (state.learned + CHUNK - 1) // CHUNK
        mixed, square, moment = lax.fori_loop(0, chunks, read, (jnp.zeros_like(z), zero, zero))
        solved = put(matmul(state.inverse, mixed), slot, -jnp.ones((), z.dtype))
        schur = self.regularization + square - matmul(mixed, matmul(state.inverse, mixed))
        inverse = put(state.inverse, slot, jnp.zeros_like(z)).at[:, slot].set(0)
        inverse = inverse + solved[:, None] * (solved / schur)
        weights = state.weights - solved * ((moment - matmul(mixed, state.weights)) / schur)
        row = put(-matmul(z, state.basis), slot, jnp.ones((), z.dtype)) / pivot
        return (
            jnp.where(new, put(state.basis, slot, row), state.basis),
            jnp.where(new, inverse, state.inverse),
            jnp.where(new, weights, state.weights),
            put(z, slot, jnp.where(new, pivot, 0)),
        )

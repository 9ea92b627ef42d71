"""How fast this machine is at what runs are made of, measured once per process and dtype in about a second."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch.linalg import matmul, put

ROWS, SIZE = 2_048, 256  # a chunk of arms, and a sketch
LARGE = 1_536  # side of a square matrix too large for a core's cache
STEPS = 400
PATIENCE = 0.1  # seconds that a measurement is repeated


@dataclass(frozen=True)
class Machine:
    """Speeds, in the dtype of the features."""

    products: float  # flops a second, of matrix products [ROWS, SIZE] @ [SIZE, SIZE]
    cached: float  # bytes a second, of products of a vector with a matrix [SIZE, SIZE]
    memory: float  # the same with a matrix [LARGE, LARGE]
    scan: float  # seconds an entry of looking for the largest one of a vector [ROWS]
    step: float  # seconds of a step of a loop that changes a few numbers
    itemsize: int  # bytes of a number

    def bandwidth(self, matrix: float) -> float:
        """Bytes a second of products of a vector with a matrix of that many bytes."""
        small, large = SIZE**2 * self.itemsize, LARGE**2 * self.itemsize
        part = min(max(math.log(max(matrix, 1) / small) / math.log(large / small), 0), 1)
        return self.cached ** (1 - part) * self.memory**part


def _seconds(function: Callable[..., Any], *args: Any) -> float:
    """The shortest of several calls, compiled before."""
    compiled = jax.jit(function).lower(*args).compile()
    jax.block_until_ready(compiled(*args))
    times: list[float] = []
    while len(times) < 3 or sum(times) < PATIENCE:  # the first calls may meet cold threads or other programs
        began = time.perf_counter()
        jax.block_until_ready(compiled(*args))
        times.append(time.perf_counter() - began)
    return min(times)


def _looped(body: Callable[[Array, Any], Any]) -> Callable[..., Any]:
    """A loop of a traced number of steps, which is not unrolled; the numbers a step needs are in its carry."""
    return lambda carry, steps: lax.fori_loop(0, steps, body, carry)


def _vector_products(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
    matrix, vector = carry
    return matrix, matmul(matrix, vector)


def _largest(i: Array, vector: Array) -> Array:
    return put(vector, jnp.argmax(vector), -jnp.ones((), vector.dtype))


def _small(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
    row, total = carry
    return put(row, i % row.shape[0], total), total + row[0]


@functools.cache
def measure(dtype: Any) -> Machine:
    """The machine in a dtype; measured at the first call."""
    dtype = jnp.dtype(dtype)
    chunk, square, large = (jnp.ones(s, dtype) for s in ((ROWS, SIZE), (SIZE, SIZE), (LARGE, LARGE)))
    steps, few = jnp.asarray(STEPS), jnp.asarray(8)
    products = _seconds(lambda a, b: matmul(matmul(matmul(a, b), b), b), chunk, square / SIZE)
    cached = _seconds(_looped(_vector_products), (square / SIZE, square[0]), steps)
    memory = _seconds(_looped(_vector_products), (large / LARGE, large[0]), few)
    scan = _seconds(_looped(_largest), jnp.ones(ROWS, dtype), steps)
    step = _seconds(_looped(_small), (jnp.ones(32, dtype), jnp.zeros((), dtype)), 10 * steps)
    return Machine(
        products=6 * ROWS * SIZE**2 / products,
        cached=STEPS * square.nbytes / cached,
        memory=8 * large.nbytes / memory,
        scan=scan / STEPS / ROWS,
        step=step / STEPS / 10,
        itemsize=dtype.itemsize,
    )


@functools.cache
def _entry(structure: Any, shapes: tuple[tuple[int, ...], ...], dimensions: int, dtype: Any) -> float:
    # numbers stay numbers, and vectors and tables keep their size
    kernel = jax.tree.unflatten(structure, [jnp.ones(shape, dtype) if shape else 1.0 for shape in shapes])
    x = jnp.linspace(0, 1, ROWS * dimensions, dtype=dtype).reshape(ROWS, dimensions)
    return _seconds(lambda kernel, x: kernel.gram(x, x[:SIZE]), kernel, x) / (ROWS * SIZE)


def entry(kernel: Any, dimensions: int, dtype: Any) -> float:
    """Seconds an entry of a kernel matrix of inputs with that many features."""
    leaves, structure = jax.tree.flatten(kernel)
    return _entry(structure, tuple(jnp.shape(leaf) for leaf in leaves), dimensions, jnp.dtype(dtype))

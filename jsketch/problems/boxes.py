"""Test functions on boxes, to be maximised, with their exact maxima and optional Gaussian noise.

A problem is a callable pytree: `problem(x, key) -> y` is a noisy evaluation, and `problem.value(x)`
the value without noise. `on_box` makes a problem of another function. The first three functions are
those of GO-UCB's Figure 2 (THEORY 8.4); the others are from the literature on optimisation, with
the opposite sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.box.history import checked_box
from jsketch.linalg import matmul
from jsketch.types import Box, PRNGKey


@struct.dataclass
class BoxProblem:
    """y = function(x) + noise_std * standard normal, x in the box `domain`."""

    domain: Box  # the box
    maximum: Array  # [], of the function on the box
    maximiser: Array  # [d], a point with the maximum
    noise_std: ArrayLike  # standard deviation of the noise of an evaluation
    function: Callable[[Array], Array] = struct.field(pytree_node=False)  # x [d] -> []

    def value(self, x: Array) -> Array:
        """The function [] at x [d], without noise."""
        return self.function(x)

    def __call__(self, x: Array, key: PRNGKey) -> Array:
        return self.function(x) + self.noise_std * jax.random.normal(key, (), x.dtype)


@struct.dataclass
class OnBox:
    """The problem of maximising a function over a box."""

    objective: Any  # a function (x [d], key) -> y
    domain: Box  # the box


@struct.checked_names
def on_box(objective: Callable[[Array, PRNGKey], Array], box: Box) -> OnBox:
    """The problem of maximising a function over a box, for `loops.run` and `loops.rollout`.

    objective  a function, or a callable pytree, of x [d] and a key that returns y [], larger is
               better; NaN or infinite for a failed evaluation. If it has a method `value(x) -> []`,
               the run also records these values without noise
    box        Box(lower, upper), with bounds [d]

    Raises ValueError for an objective that is not a function and for an invalid box.
    """
    if not callable(objective):
        raise ValueError(
            f"the objective must be a function of a point and a key; {objective!r} was given."
        )
    # a plain function is no pytree, and jit accepts it only as a static argument
    if jax.tree_util.all_leaves([objective]):
        objective = jax.tree_util.Partial(objective)
    return OnBox(objective, checked_box(box))


def _on_cube(
    function: Callable[[Array], Array],
    bounds: tuple[float, float],
    d: int,
    maximiser: float,
    maximum: float,
    noise_std: ArrayLike,
) -> BoxProblem:
    checks.capacity(d=d)
    checks.nonnegative(noise_std=noise_std)
    lower, upper = (jnp.full(d, float(bound)) for bound in bounds)
    return BoxProblem(
        Box(lower, upper),
        jnp.asarray(float(maximum)),
        jnp.full(d, float(maximiser)),
        noise_std,
        function,
    )


def _all_ones_network(x: Array) -> Array:
    return 25 * jax.nn.sigmoid(x.sum() + 1) + 1


def all_ones_network(d: int = 20, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """f1 of GO-UCB: a network of 25 sigmoid units with all weights and biases 1, on [-5,5]^d. In 20
    dimensions the values of 24% of all points are within 1e-3 of the maximum."""
    maximum = 25 / (1 + math.exp(-5 * d - 1)) + 1
    return _on_cube(_all_ones_network, (-5, 5), d, 5, maximum, noise_std)


def _styblinski_tang(x: Array) -> Array:
    return -jnp.sum(x**4 - 16 * x**2 + 5 * x) / 2


def styblinski_tang(d: int = 20, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """f2 of GO-UCB: -1/2 sum (x^4 - 16 x^2 + 5 x) on [-5,5]^d; the paper omits the parentheses. Of
    its 2^d local maxima one is global."""
    # the least root of the derivative, 4 x^3 - 32 x + 5
    root = -2.903534027771177
    maximum = -d * (root**4 - 16 * root**2 + 5 * root) / 2
    return _on_cube(_styblinski_tang, (-5, 5), d, root, maximum, noise_std)


def _rastrigin(x: Array) -> Array:
    return jnp.sum(10 * jnp.cos(2 * jnp.pi * x) - 10 - x**2)


def rastrigin(d: int = 20, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """f3 of GO-UCB: -10 d + sum (10 cos(2 pi x) - x^2) on [-5,5]^d. Every integer point has a local
    maximum nearby."""
    return _on_cube(_rastrigin, (-5, 5), d, 0, 0, noise_std)


@jax.custom_jvp
def _root_mean_square(x: Array) -> Array:
    return jnp.sqrt(jnp.mean(x**2))


@_root_mean_square.defjvp
def _root_mean_square_jvp(points: tuple[Array], changes: tuple[Array]) -> tuple[Array, Array]:
    """The derivative, which is defined as 0 at x = 0. The divisor is bounded below: a comparison of
    the root with 0 could fail, because a compiled program may compute 1e-17 in place of 0."""
    (x,), (change,) = points, changes
    root = _root_mean_square(x)
    return root, jnp.mean(x * change) / jnp.maximum(root, 4096 * jnp.finfo(x.dtype).eps)


def _ackley(x: Array) -> Array:
    radius = _root_mean_square(x)
    # expm1 makes the maximum exactly zero
    return 20 * jnp.expm1(-radius / 5) + math.e * jnp.expm1(jnp.mean(jnp.cos(2 * jnp.pi * x)) - 1)


def ackley(d: int = 10, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """Ackley's function on [-5,10]^d, as in the TuRBO paper; the centre is not the maximum."""
    return _on_cube(_ackley, (-5, 10), d, 0, 0, noise_std)


def _levy(x: Array) -> Array:
    w = 1 + (x - 1) / 4
    middle = jnp.square(w[:-1] - 1) * (1 + 10 * jnp.square(jnp.sin(jnp.pi * w[:-1] + 1)))
    last = jnp.square(w[-1] - 1) * (1 + jnp.square(jnp.sin(2 * jnp.pi * w[-1])))
    return -(jnp.square(jnp.sin(jnp.pi * w[0])) + middle.sum() + last)


def levy(d: int = 10, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """Levy's function on [-10,10]^d."""
    return _on_cube(_levy, (-10, 10), d, 1, 0, noise_std)


def _branin(x: Array) -> Array:
    valley = x[1] - 5.1 / (4 * jnp.pi**2) * x[0] ** 2 + 5 / jnp.pi * x[0] - 6
    return -(jnp.square(valley) + 10 * (1 - 1 / (8 * jnp.pi)) * jnp.cos(x[0]) + 10)


def branin(noise_std: ArrayLike = 0.0) -> BoxProblem:
    """Branin's function on [-5,10] x [0,15], with three global maxima."""
    checks.nonnegative(noise_std=noise_std)
    box = Box(jnp.array([-5.0, 0.0]), jnp.array([10.0, 15.0]))
    # at this point the square of the valley is zero and the cosine is -1
    maximum, maximiser = jnp.asarray(-10 / (8 * math.pi)), jnp.array([math.pi, 2.275])
    return BoxProblem(box, maximum, maximiser, noise_std, _branin)


_HARTMANN_WEIGHTS = (1.0, 1.2, 3.0, 3.2)
_HARTMANN_SCALES = (
    (10.0, 3.0, 17.0, 3.5, 1.7, 8.0),
    (0.05, 10.0, 17.0, 0.1, 8.0, 14.0),
    (3.0, 3.5, 1.7, 10.0, 17.0, 8.0),
    (17.0, 8.0, 0.05, 10.0, 0.1, 14.0),
)
_HARTMANN_CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def _hartmann6(x: Array) -> Array:
    weights, scales, centres = (
        jnp.asarray(table, x.dtype)
        for table in (_HARTMANN_WEIGHTS, _HARTMANN_SCALES, _HARTMANN_CENTRES)
    )
    return matmul(weights, jnp.exp(-jnp.sum(scales * jnp.square(x[None, :] - centres), 1)))


def hartmann6(noise_std: ArrayLike = 0.0) -> BoxProblem:
    """Hartmann's function in six dimensions, on [0,1]^6."""
    checks.nonnegative(noise_std=noise_std)
    box = Box(jnp.zeros(6), jnp.ones(6))
    # Newton's method refined the published digits
    point = (
        0.2016895110067,
        0.1500106918234,
        0.4768739742219,
        0.2753324304940,
        0.3116516166001,
        0.6573005340657,
    )
    return BoxProblem(box, jnp.asarray(3.322368011415515), jnp.array(point), noise_std, _hartmann6)

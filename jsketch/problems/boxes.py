"""Test functions on boxes, to be maximised, with their exact maxima and optional Gaussian noise.

A problem is a callable pytree: `problem(x, key) -> y` is a noisy evaluation, and `problem.value(x)`
is the value without noise. `on_box` makes a problem from another function. The first three
functions are those of GO-UCB's Figure 2 (THEORY 8.4); the others are from the literature on
optimisation, with the opposite sign.
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
from jsketch.types import Box, PRNGKey


@struct.dataclass
class BoxProblem:
    """y = function(x) + noise_std * standard normal, x in the box `domain`.

    domain     the box
    maximum    [], of the function on the box
    maximiser  [d], a point at which the function has its maximum
    noise_std  standard deviation of the noise of an evaluation
    function   x [d] -> []
    """

    domain: Box
    maximum: Array
    maximiser: Array
    noise_std: ArrayLike
    function: Callable[[Array], Array] = struct.field(pytree_node=False)

    def value(self, x: Array) -> Array:
        """The function [] at x [d], without noise."""
        return self.function(x)

    def __call__(self, x: Array, key: PRNGKey) -> Array:
        return self.function(x) + self.noise_std * jax.random.normal(key, (), x.dtype)


@struct.dataclass
class OnBox:
    """The problem of maximising a function over a box.

    objective  a function (x [d], key) -> y
    domain     the box
    maximum    [], of the objective without noise; None: not known
    """

    objective: Any
    domain: Box
    maximum: Any = None


@struct.checked_names
def on_box(
    objective: Callable[[Array, PRNGKey], Array], box: Box, maximum: ArrayLike | None = None
) -> OnBox:
    """The problem of maximising a function over a box, for `loops.run` and `loops.rollout`.

    objective  a function, or a callable pytree, of x [d] and a key that returns y [], larger is
               better; NaN or infinite for a failed evaluation. If it has a method `value(x) -> []`,
               the run also records these values without noise
    box        Box(lower, upper), with bounds [d]
    maximum    [], the largest `value` in the box, from which a run computes its regrets; None: it
               is not known, and regrets are NaN

    Raises ValueError for an objective that is not a function, for an invalid box, and for a maximum
    of an objective without `value`.

    Example:

        def f(x, key):
            return -((x - 0.3) ** 2).sum() + 0.01 * jax.random.normal(key)

        box = Box(jnp.zeros(2), jnp.ones(2))
        run(UniformBox(), on_box(f, box), jax.random.key(0), 20).trace.best  # [20]
    """
    if not callable(objective):
        raise ValueError(
            f"the objective must be a function of a point and a key; {objective!r} was given."
        )
    if maximum is not None:
        checks.finite(maximum=maximum)
        if getattr(objective, "value", None) is None:
            raise ValueError(
                "maximum gives regrets only with values without noise: the objective has no method"
                " value(x)."
            )
    # a plain function is no pytree, and jit accepts it only as a static argument
    if jax.tree_util.all_leaves([objective]):
        objective = jax.tree_util.Partial(objective)
    return OnBox(objective, checked_box(box), maximum)


def _on_cube(
    function: Callable[[Array], Array],
    bounds: tuple[float, float],
    d: int,
    noise_std: ArrayLike,
    *,
    maximiser: float,
    maximum: float,
) -> BoxProblem:
    """A problem on [low,high]^d, whose maximiser has equal inputs."""
    checks.positive_integer(d=d)
    checks.nonnegative(noise_std=noise_std)
    lower, upper = (jnp.full(d, float(bound)) for bound in bounds)
    return BoxProblem(
        domain=Box(lower, upper),
        maximum=jnp.asarray(float(maximum)),
        maximiser=jnp.full(d, float(maximiser)),
        noise_std=noise_std,
        function=function,
    )


def _all_ones_network(x: Array) -> Array:
    return 25 * jax.nn.sigmoid(x.sum() + 1) + 1


def all_ones_network(d: int = 20, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """f1 of GO-UCB: a network of 25 sigmoid units with all weights and biases 1, on [-5,5]^d. In 20
    dimensions the values of 24% of all points are within 1e-3 of the maximum."""
    maximum = 25 / (1 + math.exp(-5 * d - 1)) + 1
    return _on_cube(_all_ones_network, (-5, 5), d, noise_std, maximiser=5, maximum=maximum)


def _styblinski_tang(x: Array) -> Array:
    return -jnp.sum(x**4 - 16 * x**2 + 5 * x) / 2


def styblinski_tang(d: int = 20, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """f2 of GO-UCB: -1/2 sum (x^4 - 16 x^2 + 5 x) on [-5,5]^d; the paper omits the parentheses. One
    of the 2^d local maxima is global."""
    # the least root of the derivative, 4 x^3 - 32 x + 5
    root = -2.903534027771177
    maximum = -d * (root**4 - 16 * root**2 + 5 * root) / 2
    return _on_cube(_styblinski_tang, (-5, 5), d, noise_std, maximiser=root, maximum=maximum)


def _rastrigin(x: Array) -> Array:
    return jnp.sum(10 * jnp.cos(2 * jnp.pi * x) - 10 - x**2)


def rastrigin(d: int = 20, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """f3 of GO-UCB: -10 d + sum (10 cos(2 pi x) - x^2) on [-5,5]^d. Every integer point has a local
    maximum nearby."""
    return _on_cube(_rastrigin, (-5, 5), d, noise_std, maximiser=0, maximum=0)


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
    """Ackley's function on [-5,10]^d, as in the TuRBO paper; its maximum is not at the centre."""
    return _on_cube(_ackley, (-5, 10), d, noise_std, maximiser=0, maximum=0)


def _levy(x: Array) -> Array:
    w = 1 + (x - 1) / 4
    middle_terms = jnp.square(w[:-1] - 1) * (1 + 10 * jnp.square(jnp.sin(jnp.pi * w[:-1] + 1)))
    last_term = jnp.square(w[-1] - 1) * (1 + jnp.square(jnp.sin(2 * jnp.pi * w[-1])))
    return -(jnp.square(jnp.sin(jnp.pi * w[0])) + middle_terms.sum() + last_term)


def levy(d: int = 10, noise_std: ArrayLike = 0.0) -> BoxProblem:
    """Levy's function on [-10,10]^d."""
    return _on_cube(_levy, (-10, 10), d, noise_std, maximiser=1, maximum=0)


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

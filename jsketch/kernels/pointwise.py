"""A kernel that is given by a function of two points."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks, struct
from jsketch.kernels.combined import Operators
from jsketch.struct import child, in_dtype
from jsketch.types import is_traced


@struct.dataclass
class Pointwise(Operators):
    """A kernel that is given by a function of two points, or by a kernel of tinygp or GPJax.
    `Pointwise(tinygp.kernels.ExpSquared(0.5))` and `Pointwise(gpjax.kernels.RBF(lengthscale=0.5))`
    are `Gaussian(0.5)`.

    function  a function of x [d] and y [d] that returns k(x, y), a number; or a kernel of tinygp or
              GPJax. The numbers of a callable pytree, such as these kernels and
              `jax.tree_util.Partial(function, lengthscale=0.5)`, remain leaves. Those inside of a
              plain function are constants, and another function compiles another program

    Derivatives are those of the function; the square root of a squared distance has none between
    equal points. Raises ValueError if the function cannot be called with two arguments; a bandit or
    a forecaster also if it is not symmetric, does not return one number, or is not one that jit
    accepts. By default the distance of several kernels of tinygp is a sum of absolute differences
    (`distance=tinygp.kernels.L2Distance()` is the Euclidean one).

    Example:

        def tanimoto(x, y):
            both = x @ y
            return both / (x @ x + y @ y - both)

        kernel = 0.5 * Pointwise(tanimoto) + Linear()
    """

    function: Any

    def __post_init__(self) -> None:
        if isinstance(self.function, type):
            raise ValueError(f"function must be an object, not a class; {self.function} was given.")
        checks.function_of("function", self._of_points, "x, y")
        self._refuse_constants()
        # a plain function is no pytree, and jit accepts it only as a static argument
        if jax.tree_util.all_leaves([self.function]):
            object.__setattr__(self, "function", jax.tree_util.Partial(self._of_points))

    @property
    def _of_points(self) -> Any:
        # the call of a kernel of tinygp takes arrays of points
        return getattr(self.function, "evaluate", self.function)

    def gram(self, x: Array, y: Array) -> Array:
        k = self._in_dtype(x)
        values = jax.vmap(lambda one: jax.vmap(lambda other: k(one, other))(y))(x)
        return values.reshape(len(x), len(y)).astype(x.dtype)

    def diag(self, x: Array) -> Array:
        return jax.vmap(self._in_dtype(x))(x, x).reshape(len(x)).astype(x.dtype)

    def check(self, x: Any) -> None:
        value = checks.traced_result("the function of a kernel", self._in_dtype(x), x[0], x[0])
        if np.size(value) != 1:
            raise ValueError(
                "the function of a kernel must return one number, shape (), for two points [d];"
                f" {value} was returned."
            )

    def check_inputs(self, x: Any) -> None:
        """Raises ValueError if the function is not symmetric at the first two different inputs x
        [n,d], because the covariance of a process has no other half."""
        points = np.asarray(x)
        others = np.flatnonzero((points != points[0]).any(1))
        if not others.size or is_traced(self):
            return
        pair = points[np.array([0, others[0]])]
        # a caller under jit knows the values, which are not traced in this context
        with jax.core.eval_context():
            gram = np.asarray(_gram(self, jnp.asarray(pair)), float)
        if abs(gram[0, 1] - gram[1, 0]) > checks.ASYMMETRY * np.abs(gram).max():
            raise ValueError(
                f"the function of a kernel must be symmetric: k(x, y) is {gram[0, 1]:.6g} and"
                f" k(y, x) is {gram[1, 0]:.6g} for x = {pair[0]} and y = {pair[1]}."
            )

    def _refuse_constants(self) -> None:
        """Raises ValueError for kernel + ours, where the kernel of another library is on the left:
        it has made a constant of our kernel."""
        leaves = jax.tree_util.tree_leaves_with_path(self.function, is_leaf=checks.is_kernel)
        for path, leaf in leaves:
            owner = functools.reduce(child, path[:-1], self.function)
            if path and checks.is_kernel(leaf) and type(owner).__name__ == "Constant":
                raise ValueError(
                    f"another library takes the kernel {leaf!r} for a constant: it is added or"
                    f" multiplied as Pointwise(kernel) + {leaf!r}."
                )

    def _in_dtype(self, x: Array) -> Any:
        """The function of two points, with its numbers in the dtype of x."""
        return in_dtype(self, x.dtype)._of_points


@jax.jit
def _gram(kernel: Pointwise, x: Array) -> Array:
    return kernel.gram(x, x)

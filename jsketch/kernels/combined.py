"""Scaled kernels, sums and products of kernels, kernels of some of the inputs, and the operators *
and + of kernels."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.struct import in_dtype


class Operators:
    """Base class of kernels. k1 + k2 is `Sum(k1, k2)`, k1 * k2 is `Product(k1, k2)`, and 2.0 * k is
    `Scaled(k, 2.0)`; `sum` adds a list of kernels. A kernel is divided by a number as 0.5 * k.
    Raises ValueError for a factor that is an array, complex, negative or not finite."""

    # an array of NumPy leaves `number * kernel` to the kernel
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        _refuse_functions(other)
        return Sum(self, other) if checks.is_kernel(other) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if checks.is_kernel(other):
            return Product(self, other)
        _refuse_functions(other)
        is_number = isinstance(other, float | int | complex | np.ndarray | np.generic | Array)
        is_bool = isinstance(other, bool) or getattr(other, "dtype", None) == np.bool_
        if not is_number or is_bool:
            return NotImplemented
        checks.nonnegative(variance=other)
        return Scaled(self, other)

    # a kernel on the left that is not of this library, or the 0 with which `sum` begins
    def __radd__(self, other: Any) -> Any:
        if type(other) is int and other == 0:
            return self
        return Sum(other, self) if checks.is_kernel(other) else NotImplemented

    def __rmul__(self, other: Any) -> Any:
        return Product(other, self) if checks.is_kernel(other) else self * other


def _refuse_functions(other: Any) -> None:
    """Raises ValueError for a function, and for a kernel of tinygp or GPJax: these libraries would
    treat the kernel of jsketch as a constant."""
    if callable(other) and not checks.is_kernel(other) and not isinstance(other, type):
        raise ValueError(
            "a function, or a kernel of another library, is added or multiplied as"
            f" Pointwise(kernel); {other!r} was given."
        )


@struct.dataclass
class Scaled(Operators, struct.Settings):
    """variance * kernel.

    kernel    a kernel of `jsketch.kernels`
    variance  a number >= 0
    """

    kernel: Any = struct.component(components.KERNEL)
    variance: ArrayLike = struct.number(1.0, at_least=0)

    def gram(self, x: Array, y: Array) -> Array:
        return in_dtype(self.variance, x.dtype) * self.kernel.gram(x, y)

    def diag(self, x: Array) -> Array:
        return in_dtype(self.variance, x.dtype) * self.kernel.diag(x)

    def check(self, x: Any) -> None:
        checks.nonnegative(variance=self.variance)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        """The error, in eps k(x,x), of values between points [m,d] and `n_others` other ones."""
        return checks.kernel_rounding(self.kernel, points, n_others)

    def check_inputs(self, x: Any) -> None:
        checks.kernel_inputs(self.kernel, x)


@struct.dataclass
class Pair(Operators, struct.Settings):
    """Base class of kernels that combine two kernels on the same inputs."""

    left: Any = struct.component(components.KERNEL)  # a kernel of `jsketch.kernels`
    right: Any = struct.component(components.KERNEL)  # a kernel of `jsketch.kernels`

    def check_inputs(self, x: Any) -> None:
        checks.kernel_inputs(self.left, x)
        checks.kernel_inputs(self.right, x)


@struct.dataclass
class Sum(Pair):
    """left + right.

    left   a kernel of `jsketch.kernels`
    right  a kernel of `jsketch.kernels`
    """

    def gram(self, x: Array, y: Array) -> Array:
        return self.left.gram(x, y) + self.right.gram(x, y)

    def diag(self, x: Array) -> Array:
        return self.left.diag(x) + self.right.diag(x)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        """The larger error of the two kernels, in eps k(x,x), which bounds the error of the sum."""
        left, right = (checks.kernel_rounding(k, points, n_others) for k in (self.left, self.right))
        return jnp.maximum(left, right)


@struct.dataclass
class Product(Pair):
    """left * right.

    left   a kernel of `jsketch.kernels`
    right  a kernel of `jsketch.kernels`
    """

    def gram(self, x: Array, y: Array) -> Array:
        return self.left.gram(x, y) * self.right.gram(x, y)

    def diag(self, x: Array) -> Array:
        return self.left.diag(x) * self.right.diag(x)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        """The sum of the errors of the two kernels, because relative errors of factors add."""
        return sum(checks.kernel_rounding(k, points, n_others) for k in (self.left, self.right))


@struct.dataclass
class Select(Operators, struct.Settings):
    """kernel(x[columns], y[columns]): a kernel of some of the inputs. A sum of such kernels is an
    additive model.

    kernel   a kernel of `jsketch.kernels`; its lengthscales are those of the selected inputs
    columns  the numbers of the inputs, such as [0, 2], static

    Raises ValueError for columns that are not distinct integers of at least 0, and for inputs that
    do not have such columns.

    Example:

        Select(Gaussian(0.5), [0]) + Select(Matern(), [1, 2])
    """

    kernel: Any = struct.component(components.KERNEL)
    columns: tuple[int, ...] = struct.field(pytree_node=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = np.atleast_1d(np.asarray(self.columns))
        are_numbers = columns.ndim == 1 and columns.dtype.kind in "iu" and np.all(columns >= 0)
        if not are_numbers or len(np.unique(columns)) < len(columns):
            raise ValueError(
                "columns must be distinct numbers of inputs, from 0, such as [0, 2];"
                f" {self.columns!r} was given."
            )
        # a tuple, because static fields are hashed
        object.__setattr__(self, "columns", tuple(columns.tolist()))

    def gram(self, x: Array, y: Array) -> Array:
        return self.kernel.gram(self._selected(x), self._selected(y))

    def diag(self, x: Array) -> Array:
        return self.kernel.diag(self._selected(x))

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        """The error of the kernel, in eps k(x,x), of values between points [m,d] and others."""
        return checks.kernel_rounding(self.kernel, self._selected(points), n_others)

    def check_inputs(self, x: Any) -> None:
        checks.kernel_inputs(self.kernel, self._selected(x))

    def _selected(self, x: Any) -> Any:
        # JAX reads the last column in place of one that does not exist
        if max(self.columns) >= x.shape[1]:
            raise ValueError(
                f"columns {list(self.columns)} are not among the {x.shape[1]} inputs, whose numbers"
                f" are 0 to {x.shape[1] - 1}."
            )
        return x[:, np.array(self.columns)]

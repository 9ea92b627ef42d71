"""A computation has one floating dtype: the dtype of the arms, the box or the first example.

Observations, and settings of another dtype such as `np.float64(0.01)`, are converted to it.
Python numbers have no dtype and are not converted.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsketch.struct import in_dtype

__all__ = ["dtype_of", "in_dtype", "in_first_dtype", "one_dtype"]

Class = TypeVar("Class", bound=type)
Method = TypeVar("Method", bound=Callable[..., Any])


def dtype_of(value: Any) -> Any:
    """The dtype, as JAX converts it, of the first leaf that is a floating point array or NumPy
    number; if there is none, of the first Python float; if there is none, JAX's default."""
    for leaf in sorted(jax.tree.leaves(value), key=_is_python_number):
        dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
        if jnp.issubdtype(dtype, jnp.floating):
            return jax.dtypes.canonicalize_dtype(dtype)
    return jnp.result_type(float)


def _is_python_number(leaf: Any) -> bool:
    # jit converts Python numbers to weakly typed arrays without a shape
    return not hasattr(leaf, "dtype") or (getattr(leaf, "weak_type", False) and not leaf.shape)


def one_dtype(algorithm: Class) -> Class:
    """A class decorator, applied before `struct.dataclass`. Every public method with arguments
    converts the fields of the object and the other arguments to the dtype of the first argument
    (arms, box, state or example). It is for algorithms whose methods the user calls without a
    loop, such as `PointBBKB`: where a loop begins a run, it converts the numbers once."""
    for name, method in list(vars(algorithm).items()):
        if (
            inspect.isfunction(method)
            and not name.startswith("_")
            and len(inspect.signature(method).parameters) > 1
        ):
            setattr(algorithm, name, in_first_dtype(method))
    return algorithm


def in_first_dtype(method: Method) -> Method:
    """The method with all numbers in the dtype of its first argument."""
    first_name = list(inspect.signature(method).parameters)[1]

    @functools.wraps(method)
    def wrapped(self: Any, *arguments: Any, **kwargs: Any) -> Any:
        dtype = dtype_of(arguments[0] if arguments else kwargs.get(first_name))
        return method(in_dtype(self, dtype), *in_dtype(arguments, dtype), **in_dtype(kwargs, dtype))

    return cast(Method, wrapped)

"""One floating dtype in a computation: that of the arms, of the box or of the first example, which
the state then keeps.

Numbers that have a dtype of their own (`np.float64(0.01)`, a vector of lengthscales) follow it, and
so do observations. Python's numbers have none and stay as they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

Class = TypeVar("Class", bound=type)
Method = TypeVar("Method", bound=Callable[..., Any])


def dtype_of(value: Any) -> Any:
    """The floating dtype of the first leaf that has one of its own, as JAX would hold it; without
    any that of the first number of Python, which jit holds as an array of no shape; JAX's own when
    there is none."""
    for leaf in sorted(jax.tree.leaves(value), key=_is_python_number):
        dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
        if jnp.issubdtype(dtype, jnp.floating):
            return jax.dtypes.canonicalize_dtype(dtype)
    return jnp.result_type(float)


def _is_python_number(leaf: Any) -> bool:
    if not hasattr(leaf, "dtype"):
        return True
    return getattr(leaf, "weak_type", False) and not leaf.shape


def in_dtype(tree: Any, dtype: DTypeLike) -> Any:
    """The same pytree with its floating arrays and NumPy numbers in that dtype; itself when there
    is nothing to change."""

    def follow(leaf: Any) -> Any:
        if not isinstance(leaf, np.generic | np.ndarray | jax.Array):
            return leaf
        if leaf.dtype == dtype or not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        # weak: a number of Python that jit was given
        return leaf if isinstance(leaf, jax.Array) and leaf.weak_type else jnp.asarray(leaf, dtype)

    leaves, structure = jax.tree.flatten(tree)
    changed = [follow(leaf) for leaf in leaves]
    if all(new is old for new, old in zip(changed, leaves, strict=True)):
        return tree
    return jax.tree.unflatten(structure, changed)


def one_dtype(algorithm: Class) -> Class:
    """For a class of numbers, before it is made a dataclass: every public method with arguments
    computes in the dtype of its first one (arms, box, state or example); its own numbers and the
    other arguments are brought to it."""
    for name, method in list(vars(algorithm).items()):
        if (
            inspect.isfunction(method)
            and not name.startswith("_")
            and len(inspect.signature(method).parameters) > 1
        ):
            setattr(algorithm, name, in_first_dtype(method))
    return algorithm


def in_first_dtype(method: Method) -> Method:
    """A method that computes in the dtype of its first argument."""
    first = list(inspect.signature(method).parameters)[1]

    @functools.wraps(method)
    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        dtype = dtype_of(arguments[0] if arguments else named.get(first))
        return method(in_dtype(self, dtype), *in_dtype(arguments, dtype), **in_dtype(named, dtype))

    return cast(Method, wrapped)

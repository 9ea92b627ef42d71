"""Frozen dataclasses that are registered as pytrees.

    @struct.dataclass
    class Matern:
        lengthscale: ArrayLike                                  # a leaf of the pytree
        nu: float = struct.field(pytree_node=False, default=2.5)  # static: part of the structure

This is `flax.struct.dataclass` without its options, except that pytrees of two classes
never have equal structures. `jax.tree_util.register_dataclass` (JAX 0.10), which Flax uses,
compares the number of fields and the static values of two dataclasses but not their classes;
`jax.jit` therefore sometimes runs the program of another class.

A subclass inherits the fields of its base and must be decorated as well.

The repr of an object has at most ten lines (`jsketch.show`). A misspelt argument of a constructor
raises a TypeError with the nearest name.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization
from flax.struct import field
from jax import Array
from jax.core import Tracer
from jax.typing import DTypeLike

from jsketch import show
from jsketch.components import Component

__all__ = [
    "Range",
    "Settings",
    "checked_names",
    "child",
    "choice",
    "component",
    "dataclass",
    "field",
    "in_dtype",
    "number",
    "numbers_in_dtype",
    "outside_ranges",
    "size",
]

Tree = TypeVar("Tree")
Class = TypeVar("Class", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])


def _replace(self: Any, /, **changes: Any) -> Any:
    """A copy in which the named fields have other values."""
    return dataclasses.replace(self, **changes)


class Range(NamedTuple):
    """The numbers that a field may have: above or below a bound, which may be included."""

    lower: float = -math.inf
    upper: float = math.inf
    included: tuple[float, ...] = ()
    is_integer: bool = False

    def __str__(self) -> str:
        """What a value must be, for messages."""
        bounds = []
        if math.isfinite(self.lower):
            word = "at least" if self.lower in self.included else "above"
            bounds.append(f"{word} {self.lower:g}")
        if math.isfinite(self.upper):
            word = "at most" if self.upper in self.included else "below"
            bounds.append(f"{word} {self.upper:g}")
        kind = "a number" if math.inf in self.included else "a finite number"
        kind = "an integer of" if self.is_integer else kind
        separator = ", " if bounds and bounds[0].startswith("at least") else " "
        return kind + (" " if self.is_integer else separator) + " and ".join(bounds)


def number(
    default: Any = dataclasses.MISSING,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Any:
    """A field whose value is a number [], over which vmap can map, in a range.

    Example:

        regularization: ArrayLike = struct.number(1e-2, above=0)
    """
    return _field_in(default, True, above, at_least, below, at_most, is_integer=False)


def size(default: Any = dataclasses.MISSING, *, at_least: int = 1) -> Any:
    """A static field whose value is an integer of at least `at_least`, such as a capacity.

    Example:

        batch: int = struct.size(96)
    """
    return _field_in(default, False, None, at_least, None, None, is_integer=True)


def choice(default: Any = dataclasses.MISSING, *, of: tuple[Any, ...] = (True, False)) -> Any:
    """A static field whose value is one of several texts, or a bool.

    Example:

        rule: str = struct.choice("global", of=("global", "global_local"))
    """
    return field(pytree_node=False, default=default, metadata={"choices": of})


def component(kind: Component, **options: Any) -> Any:
    """A field whose value is an object of this kind, such as a kernel; the options are those of
    `field`.

    Example:

        kernel: Kernel = struct.component(components.KERNEL)
    """
    return field(metadata=dict(component=kind), **options)


def _field_in(
    default: Any,
    is_leaf: bool,
    above: float | None,
    at_least: float | None,
    below: float | None,
    at_most: float | None,
    is_integer: bool,
) -> Any:
    lower = above if at_least is None else at_least
    upper = below if at_most is None else at_most
    included = tuple(bound for bound in (at_least, at_most) if bound is not None)
    values = Range(
        -math.inf if lower is None else lower,
        math.inf if upper is None else upper,
        included,
        is_integer,
    )
    return field(pytree_node=is_leaf, default=default, metadata={"range": values})


@dataclass_transform(field_specifiers=(field, component))
def dataclass(cls: Class) -> Class:
    """The class as a frozen dataclass and a pytree. Its fields are leaves, except those declared by
    `field(pytree_node=False)`, which are static: a new value compiles a new program. Raises
    ValueError for a field that is not an argument of the constructor."""
    if "__repr__" not in vars(cls):
        cls.__repr__ = show.short_repr  # type: ignore[assignment, method-assign]
    if hasattr(cls, "summary"):
        cls._repr_html_ = show.html_table  # type: ignore[attr-defined]
    dataclasses.dataclass(frozen=True, repr=False)(cls)
    cls.replace = _replace  # type: ignore[attr-defined]
    fields = dataclasses.fields(cls)
    checked_names(cls)  # replaces the constructor in place
    for f in fields:
        if not f.init:
            raise ValueError(
                f"field {f.name} of {cls.__name__} has init=False, but the constructor of a pytree"
                " must take all fields."
            )
    node_fields = [f.name for f in fields if f.metadata.get("pytree_node", True)]
    static_fields = [f.name for f in fields if f.name not in node_fields]
    _register_pytree(cls, node_fields, static_fields)
    _register_state_dict(cls, node_fields)
    return cls


def checked_names(function: Function) -> Function:
    """A decorator of a function or a class. A call with a wrong name of an argument then raises a
    TypeError that suggests the nearest name. A class is changed in place."""
    if isinstance(function, type):
        function.__init__ = _with_check(function.__init__, function.__name__)  # type: ignore[misc]
        return function
    return _with_check(function, function.__name__)


def _with_check(function: Any, name: str) -> Any:
    names = [key for key in inspect.signature(function).parameters if key != "self"]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for wrong in kwargs.keys() - names:
            nearest = difflib.get_close_matches(wrong, names, 1)
            advice = f": did you mean {nearest[0]}?" if nearest else f"; it has {', '.join(names)}."
            raise TypeError(f"{name} has no argument {wrong}{advice}")
        return function(*args, **kwargs)

    return call


class Settings:
    """The base class of dataclasses of settings, such as algorithms and kernels. It has no fields.
    Their constructors raise ValueError for an invalid static field, and for a component, such as a
    kernel, without the attributes that it needs."""

    def __post_init__(self) -> None:
        # imported at the call, because `jsketch.checks` imports this module
        import_module("jsketch.checks").constructor_arguments(self)


def _register_pytree(cls: type, node_fields: list[str], static_fields: list[str]) -> None:
    keys = [jax.tree_util.GetAttrKey(name) for name in node_fields]

    def flatten(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        get = vars(value).__getitem__
        return tuple(map(get, node_fields)), tuple(map(get, static_fields))

    def flatten_with_keys(value: Any) -> Any:
        children, aux = flatten(value)
        return tuple(zip(keys, children, strict=True)), aux

    def unflatten(aux: tuple[Any, ...], children: Any) -> Any:
        value: Any = object.__new__(cls)
        value.__dict__.update(zip(node_fields, children, strict=True))
        value.__dict__.update(zip(static_fields, aux, strict=True))
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def _register_state_dict(cls: type, node_fields: list[str]) -> None:
    """Registers the class with `flax.serialization`, which saves these fields by name."""

    def to_state_dict(value: Any) -> dict[str, Any]:
        return {name: serialization.to_state_dict(getattr(value, name)) for name in node_fields}

    def from_state_dict(value: Any, saved: dict[str, Any]) -> Any:
        if not isinstance(saved, dict) or sorted(saved) != sorted(node_fields):
            found = f"is {saved!r:.60}"
            if isinstance(saved, dict):
                missing = ", ".join(name for name in node_fields if name not in saved)
                unknown = ", ".join(map(str, saved.keys() - set(node_fields)))
                parts = {"lacks": missing, "has the unknown": unknown}
                found = " and ".join(f"{verb} {names}" for verb, names in parts.items() if names)
            raise ValueError(
                f"the saved value at {serialization.current_path() or '.'} is not a {cls.__name__}:"
                f" it {found}."
            )
        restore = serialization.from_state_dict
        fields = {name: restore(getattr(value, name), saved[name], name) for name in node_fields}
        return dataclasses.replace(value, **fields)

    serialization.register_serialization_state(cls, to_state_dict, from_state_dict)


def in_dtype(tree: Tree, dtype: DTypeLike) -> Tree:
    """The pytree with its arrays and NumPy numbers in the `dtype`, if they and the dtype are
    floating. Python numbers, which jit converts to weakly typed arrays, do not change."""
    leaves, structure = jax.tree.flatten(tree)
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    if not jnp.issubdtype(dtype, jnp.floating):
        return tree
    changed = False
    for i, leaf in enumerate(leaves):
        if (
            isinstance(leaf, np.generic | np.ndarray | jax.Array)
            and leaf.dtype != dtype
            and jnp.issubdtype(leaf.dtype, jnp.floating)
            and not getattr(leaf, "weak_type", False)
        ):
            leaves[i] = jnp.asarray(leaf, dtype)
            changed = True
    return jax.tree.unflatten(structure, leaves) if changed else tree


def numbers_in_dtype(tree: Tree, dtype: DTypeLike) -> Tree:
    """The pytree with its real numbers as arrays in the `dtype`, so that settings that differ only
    in the type of a number (1, 1.0, np.float32(1)) share compiled programs. A single integer is a
    real number where it is a field of a class of jsketch; a user's class may index with it."""
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    if not jnp.issubdtype(dtype, jnp.floating):
        return tree

    def convert(path: tuple[Any, ...], leaf: Any) -> Any:
        leaf_dtype = jax.dtypes.result_type(leaf)
        is_real = jnp.issubdtype(leaf_dtype, jnp.floating)
        if jnp.issubdtype(leaf_dtype, jnp.integer) and jnp.ndim(leaf) == 0:
            owner = functools.reduce(child, path[:-1], tree)
            is_real = type(owner).__module__.startswith("jsketch.")
        if not is_real or isinstance(leaf, Tracer) or jnp.ndim(leaf):
            return jnp.asarray(leaf, dtype) if is_real else leaf
        # By NumPy, because JAX compiles a program for each type of number. In this context the
        # value remains known under jit, and is checked
        with jax.core.eval_context():
            return jax.device_put(np.asarray(leaf).astype(dtype))

    return jax.tree_util.tree_map_with_path(convert, tree)


def outside_ranges(settings: Any) -> Array:
    """Whether a traced number of the settings, or of a part of them such as the kernel, is outside
    the range of its field (`number`), [] bool. No error can be raised for the value of a tracer; a
    run with such a number ends before its first evaluation, with the result `NOT_FINITE`.

    Example:

        jax.vmap(struct.outside_ranges)(BBKB(kernel, qbar=jnp.array([2.0, -1.0])))
    """
    values, ranges = [], []
    for path, leaf in jax.tree_util.tree_leaves_with_path(settings):
        owner = functools.reduce(child, path[:-1], settings)
        fields = getattr(owner, "__dataclass_fields__", {})
        name = getattr(path[-1], "name", None) if path else None
        if name in fields and "range" in fields[name].metadata and isinstance(leaf, Tracer):
            values.append(jnp.ravel(leaf))
            ranges += [fields[name].metadata["range"]] * leaf.size
    if not values:
        return jnp.zeros((), bool)
    # one comparison of all numbers, because a program is compiled in proportion to its operations
    x = jnp.concatenate(values).astype(jnp.result_type(float, *values))
    bounds = np.array([(r.lower, r.upper) for r in ranges]).T
    is_included = np.array([(r.lower in r.included, r.upper in r.included) for r in ranges]).T
    lower, upper = jnp.asarray(bounds, x.dtype)
    # no number equals NaN
    lowest, highest = jnp.asarray(np.where(is_included, bounds, np.nan), x.dtype)
    return ~jnp.all((x > lower) & (x < upper) | (x == lowest) | (x == highest))


def child(node: Any, key: Any) -> Any:
    """The child of a pytree at a key of `jax.tree_util`; None for a node of an unknown kind."""
    if isinstance(key, jax.tree_util.GetAttrKey):
        return getattr(node, key.name, None)
    if isinstance(key, jax.tree_util.DictKey):
        return node[key.key]
    return node[key.idx] if isinstance(key, jax.tree_util.SequenceKey) else None

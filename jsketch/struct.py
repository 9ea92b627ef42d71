"""Frozen dataclasses that are registered as pytrees.

    @struct.dataclass
    class Matern:
        lengthscale: ArrayLike                                  # a leaf of the pytree
        nu: float = struct.field(pytree_node=False, default=2.5)  # static: part of its structure

This is `flax.struct.dataclass` without its options, except that two classes never have equal
structures. `jax.tree_util.register_dataclass` (JAX 0.10), which Flax uses, compares the number of
fields and the static values of two dataclasses but not their classes, so that `jax.jit` sometimes
runs the program of another class.

A subclass inherits the fields of its base and is decorated as well.

The repr of an object has at most ten lines (`jsketch.show`); a misspelt argument of a constructor
raises a TypeError with the nearest name; and the docstring of a class documents all fields: it
includes the comments of those that it does not document itself.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import textwrap
import tokenize
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization
from flax.struct import field
from jax.typing import DTypeLike

from jsketch import arguments, show

__all__ = ["dataclass", "field", "in_dtype"]

Tree = TypeVar("Tree")
Class = TypeVar("Class", bound=type)


def _replace(self: Any, /, **changes: Any) -> Any:
    """A copy in which the fields of these names have other values."""
    return dataclasses.replace(self, **changes)


@dataclass_transform(field_specifiers=(field,))
def dataclass(cls: Class) -> Class:
    """The class as a frozen dataclass and a pytree. Its fields are leaves in order, except those of
    `field(pytree_node=False)`, which are static: a program is compiled for each of their values.
    Raises ValueError for a field that the constructor does not take."""
    if "__repr__" not in vars(cls):
        cls.__repr__ = show.short_repr  # type: ignore[assignment, method-assign]
    if hasattr(cls, "summary"):
        cls._repr_html_ = show.html_table  # type: ignore[attr-defined]
    dataclasses.dataclass(frozen=True, repr=False)(cls)
    cls.replace = _replace  # type: ignore[attr-defined]
    fields = dataclasses.fields(cls)
    arguments.checked(cls)
    cls.__doc__ = _Docstring(cls)  # type: ignore[assignment]
    for f in fields:
        if not f.init:
            raise ValueError(
                f"field {f.name} of {cls.__name__} has init=False: a pytree is made of its fields,"
                " so that its constructor must take each."
            )
    leaves = [f.name for f in fields if f.metadata.get("pytree_node", True)]
    static = [f.name for f in fields if f.name not in leaves]
    _register_pytree(cls, leaves, static)
    _register_state_dict(cls, leaves)
    return cls


class _Docstring:
    """The docstring of a class, and a line for each field that it does not document: the comment
    of the field, in the class or in its nearest base. It is made when it is first read."""

    def __init__(self, cls: Any):
        self.cls, self.plain, self.whole = cls, cls.__doc__, ""

    def __get__(self, instance: Any, owner: Any) -> str | None:
        if not self.whole and self.plain:
            self.whole = _with_fields(self.cls, self.plain)
        return self.plain and self.whole


def _with_fields(cls: Any, plain: str) -> str:
    known: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        doc = vars(base).get("__doc__")
        known |= _comments(base) | _entries(doc.plain if isinstance(doc, _Docstring) else doc)
    names = [f.name for f in dataclasses.fields(cls) if f.name not in _entries(plain)]
    if not names:
        return plain
    width = max(map(len, names)) + 4
    lines = [
        textwrap.fill(
            f"{name:{width}}" + known.get(name, ""),
            96,
            initial_indent="    ",
            subsequent_indent=" " * (width + 4),
        )
        for name in names
    ]
    title = "Further fields" if len(names) < len(dataclasses.fields(cls)) else "Fields"
    return "\n".join([plain.rstrip(), "", f"    {title}:", "", *lines, "    "])


def _entries(doc: str | None) -> dict[str, str]:
    """{name: description} of the lines "name   description" of a docstring; a line may have several
    names."""
    entry = r"^ {4}(\w+(?:, \w+)*) {2,}(\S.*(?:\n {5,}\S.*)*)"
    return {
        name: " ".join(match[2].split())
        for match in re.finditer(entry, doc or "", re.M)
        for name in match[1].split(", ")
    }


def _comments(cls: type) -> dict[str, str]:
    """{name: comment} of the annotated names in the source of a class; none without a source."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}
    lines = source.splitlines()
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found = {}
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = node.lineno - 1
            while above in comments and lines[above - 1].lstrip().startswith("#"):
                above -= 1
            rows = range(above + 1, (node.end_lineno or node.lineno) + 1)
            text = " ".join(comments[row] for row in rows if row in comments)
            if text:
                found[node.target.id] = text
    return found


def _register_pytree(cls: type, leaves: list[str], static: list[str]) -> None:
    keys = [jax.tree_util.GetAttrKey(name) for name in leaves]

    def flatten(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        get = vars(value).__getitem__
        return tuple(map(get, leaves)), tuple(map(get, static))

    def flatten_with_keys(value: Any) -> Any:
        children, aux = flatten(value)
        return tuple(zip(keys, children, strict=True)), aux

    def unflatten(aux: tuple[Any, ...], children: Any) -> Any:
        value: Any = object.__new__(cls)
        value.__dict__.update(zip(leaves, children, strict=True))
        value.__dict__.update(zip(static, aux, strict=True))
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def _register_state_dict(cls: type, leaves: list[str]) -> None:
    """For `flax.serialization`: the leaves by name."""

    def to_state_dict(value: Any) -> dict[str, Any]:
        return {name: serialization.to_state_dict(getattr(value, name)) for name in leaves}

    def from_state_dict(value: Any, saved: dict[str, Any]) -> Any:
        if not isinstance(saved, dict) or sorted(saved) != sorted(leaves):
            names = ", ".join(sorted(saved)) if isinstance(saved, dict) else repr(saved)
            raise ValueError(
                f"A {cls.__name__} has the fields {', '.join(leaves)}; what was saved at"
                f" {serialization.current_path() or '.'} has {names}."
            )
        restored = {
            name: serialization.from_state_dict(getattr(value, name), saved[name], name=name)
            for name in leaves
        }
        return dataclasses.replace(value, **restored)

    serialization.register_serialization_state(cls, to_state_dict, from_state_dict)


def in_dtype(tree: Tree, dtype: DTypeLike) -> Tree:
    """The same pytree with its floating arrays and NumPy numbers in that dtype. Python numbers, and
    arrays that jit made of them, have no dtype and stay as they are."""
    leaves, structure = jax.tree.flatten(tree)
    dtype, changed = jax.dtypes.canonicalize_dtype(dtype), False
    if not jnp.issubdtype(dtype, jnp.floating):
        return tree
    for i, leaf in enumerate(leaves):
        if (
            isinstance(leaf, np.generic | np.ndarray | jax.Array)
            and leaf.dtype != dtype
            and jnp.issubdtype(leaf.dtype, jnp.floating)
            and not getattr(leaf, "weak_type", False)
        ):
            leaves[i], changed = jnp.asarray(leaf, dtype), True
    return jax.tree.unflatten(structure, leaves) if changed else tree

"""Descriptions of algorithms, problems and forecasters: classes, numbers and static choices.
The file of a run contains the description of the run, and a run that resumes from the file must
have the same description.

Functions and classes are compared by name only: an edited kernel or objective is not noticed. A
function or an object may have an attribute `checkpoint_tag`, a text that is compared too and that
the user changes together with the code.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import importlib
import json
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MAX_NUMBERS, MAX_ENTRIES = 16, 64  # longer arrays and longer lists are described by a hash
MAX_DIFFERENCES = 8  # largest number of differences in a message
TAG = "checkpoint_tag"

# types of values without parts
LEAVES: tuple[type, ...] = (
    *(bool, str, int, float, complex, bytes, type(None), type(...), enum.Enum, types.ModuleType),
    *(np.generic, np.dtype, np.ndarray, jax.Array),
)

Parts = list[tuple[str, Any]]  # (name, value)


def describe(value: Any) -> dict[str, Any]:
    """All classes, static choices and numbers within a value by their dotted names: {"kernel":
    "Gaussian", "kernel.lengthscale": 0.5, ...}."""
    description: dict[str, Any] = {}
    _add(value, "", description, ())
    return description


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Texts such as 'kernel.lengthscale was 0.5, is 0.7', one for each name whose values differ."""
    changes = []
    for name in sorted(old.keys() | new.keys()):
        was, is_now = old.get(name, "absent"), new.get(name, "absent")
        if was != is_now and repr(was) != repr(is_now):  # NaN differs from NaN
            changes.append(f"{name or 'the class'} was {was}, is {is_now}")
    rest = [f"{len(changes) - MAX_DIFFERENCES} more"] * (len(changes) > MAX_DIFFERENCES)
    return changes[:MAX_DIFFERENCES] + rest


def to_json(value: Any) -> Any:
    """The JSON of a value, from which `rebuild` makes an equal one; None unless the value consists
    of objects and functions of jsketch, numbers, texts, arrays, tuples, lists and dicts."""
    try:
        return _as_json(value)
    except TypeError:
        return None


def _as_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        # a NumPy float is a Python float too, and JSON would lose its type
        return value if type(value).__module__ == "builtins" else _as_json(np.asarray(value))
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return dict(tuple=list(map(_as_json, value)))
    if type(value) is list:
        return list(map(_as_json, value))
    if type(value) is dict and all(type(name) is str for name in value):
        return dict(dict={name: _as_json(entry) for name, entry in value.items()})
    if isinstance(value, np.ndarray | np.generic | jax.Array) and value.dtype.kind in "biuf":
        return dict(array=np.asarray(value).tolist(), dtype=value.dtype.name)
    source = value if hasattr(value, "__qualname__") else type(value)
    if not source.__module__.startswith("jsketch.") or not source.__qualname__.isidentifier():
        raise TypeError(f"{source} is not of jsketch")
    result: dict[str, Any] = dict(module=source.__module__, name=source.__qualname__)
    if source is not value:
        names = [field.name for field in dataclasses.fields(value)]
        result["fields"] = {name: _as_json(getattr(value, name)) for name in names}
    return result


def rebuild(saved: Any) -> Any:
    """The value whose `to_json` is `saved`. Raises ValueError unless all classes are of jsketch."""
    if isinstance(saved, list):
        return list(map(rebuild, saved))
    if not isinstance(saved, dict):
        return saved
    if "dict" in saved:
        return {name: rebuild(entry) for name, entry in saved["dict"].items()}
    if "tuple" in saved:
        return tuple(map(rebuild, saved["tuple"]))
    if "array" in saved:
        return np.asarray(saved["array"], saved["dtype"])
    if not saved["module"].startswith("jsketch."):
        raise ValueError(f"{saved['module']} is not a module of jsketch.")
    source = getattr(importlib.import_module(saved["module"]), saved["name"])
    if "fields" not in saved:
        return source
    if not dataclasses.is_dataclass(source) or source.__module__ != saved["module"]:
        raise ValueError(f"{saved['name']} of {saved['module']} is not a dataclass.")
    fields = {name: rebuild(field) for name, field in saved["fields"].items()}
    return source(**fields)  # type: ignore[operator]


def _add(value: Any, name: str, description: dict[str, Any], ancestors: tuple[Any, ...]) -> None:
    """Adds a value and its parts to `description`. The value is nested in the `ancestors`."""
    if any(value is ancestor for ancestor in ancestors):
        description[name] = "a reference to an object that contains it"
        return
    text, parts = _text_and_parts(value)
    if type(value) is not dict:
        description[name] = text
    elif name and not parts:
        description[name] = "no entries"
    for key, part in parts:
        _add(part, f"{name}.{key}" if name else key, description, (*ancestors, value))


def _text_and_parts(value: Any) -> tuple[Any, Parts]:
    """(description of a value without its parts, its parts)."""
    if isinstance(value, LEAVES) and getattr(value, "dtype", None) != np.dtype(object):
        return _describe_leaf(value), []
    tag = [(TAG, value.__dict__[TAG])] if TAG in getattr(value, "__dict__", {}) else []
    if isinstance(value, jax.sharding.Mesh):
        # the names of devices differ between processes
        return "mesh", list(value.shape.items())
    if isinstance(value, functools.partial):
        return "partial", [(part, getattr(value, part)) for part in ("func", "args", "keywords")]
    # only bound methods: the `__self__` of a built-in function is a module, as the default is here
    if not isinstance(getattr(value, "__self__", types), types.ModuleType):
        return f"method {value.__name__}", [("self", value.__self__)]
    if hasattr(value, "__qualname__"):
        return _name(value), tag
    if type(value) is dict:
        return None, [(_entry_name(key), value[key]) for key in sorted(value, key=_entry_name)]
    if type(value) in (set, frozenset):
        return "set", [(str(i), s) for i, s in enumerate(sorted(map(_json, value)))]
    if type(value) in (list, tuple) or isinstance(value, np.ndarray):
        elements = value.ravel().tolist() if isinstance(value, np.ndarray) else value
        if len(elements) <= MAX_ENTRIES:
            return f"{len(elements)} entries", [(str(i), part) for i, part in enumerate(elements)]
        entries = "".join(map(_json, elements))
        return f"{len(elements)} entries {hashlib.sha256(entries.encode()).hexdigest()}", []
    return _name(type(value)), _fields(value)


def _fields(value: Any) -> Parts:
    """The attributes of an object by name or, if it has none, its children as a pytree."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        names = sorted(getattr(value, "__dict__", {}))
    parts = [
        (name, getattr(value, name))
        for name in names
        if not isinstance(getattr(type(value), name, None), functools.cached_property)
        and hasattr(value, name)
    ]
    if not parts:
        node = jax.tree_util.default_registry.flatten_one_level(value)
        if node is not None:
            children, static = node
            parts = [(f"tree.{i}", part) for i, part in enumerate([*children, static])]
    return parts


def _describe_leaf(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return f"{_name(type(value))}.{value.name}"
    is_plain = isinstance(value, bool | str | int | float) and not isinstance(value, np.generic)
    if value is None or is_plain:
        return value
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if value is Ellipsis or isinstance(value, complex | np.dtype):
        return str(value)
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return f"{jax.random.key_impl(value)} key {_describe_leaf(jax.random.key_data(value))}"
    numbers = np.asarray(value)
    # dtypes that NumPy does not have, such as bfloat16
    if jnp.issubdtype(numbers.dtype, jnp.floating) and numbers.dtype.kind != "f":
        numbers = numbers.astype(np.float32)
    if numbers.size <= MAX_NUMBERS and numbers.dtype.kind in "biufU":
        return numbers.tolist()
    content = np.ascontiguousarray(numbers).tobytes()
    return f"{numbers.dtype}{list(numbers.shape)} {hashlib.sha256(content).hexdigest()}"


def _name(value: Any) -> str:
    """The name of a class or a function, with its module unless it is a class of jsketch."""
    module = value.__module__ or ""
    in_jsketch = isinstance(value, type) and module.startswith("jsketch.")
    return value.__qualname__ if in_jsketch else f"{module}.{value.__qualname__}"


def _entry_name(key: Any) -> str:
    """The name of an entry of a dictionary; a text with dots is quoted."""
    return key if isinstance(key, str) and "." not in key else f"[{_json(key)}]"


def _json(value: Any) -> str:
    return json.dumps(describe(value), sort_keys=True)

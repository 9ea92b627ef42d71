"""What a forecaster or a run is, in words that can be written to a file and compared.

Everything that decides on the numbers has a word: every leaf and every static field of a pytree,
the state of any other object (what pickle would write of it), and of functions and classes that
belong to no installed package their code and the values that it reads. What cannot be described is
refused: two different things must never have the same words.
"""

from __future__ import annotations

import copyreg
import dataclasses
import enum
import functools
import hashlib
import json
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsketch.loops.saving import describe_code as code
from jsketch.loops.saving import processes

FEW = 16  # numbers of an array that are listed; longer ones are named by a digest
LONG = 64  # parts of a list that are listed
MOST_DIFFERENCES = 8  # in a sentence

Parts = list[tuple[str, Any]]  # name and value of each


def describe(value: Any, name: str = "") -> dict[str, Any]:
    """Every class, choice and number within a value by its dotted name: {"kernel": "Gaussian",
    ...}.

    A dataclass is described by its fields. Raises ValueError, with the name, for what cannot be
    described: a lock, an open file.
    """
    found: dict[str, Any] = {}
    _tell(value, name, found, {})
    return found


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """'kernel.lengthscale was 0.5, is 0.7' for every name where two descriptions differ."""
    missing = "not there"
    pairs = (
        (name, before.get(name, missing), now.get(name, missing))
        for name in before.keys() | now.keys()
    )
    # NaN is not equal to itself
    changed = sorted((name, a, b) for name, a, b in pairs if a != b and repr(a) != repr(b))
    told = [f"{name or 'the class'} was {a}, is {b}" for name, a, b in changed[:MOST_DIFFERENCES]]
    return told + [f"{len(changed) - len(told)} more"] * (len(changed) > len(told))


def _tell(value: Any, name: str, found: dict[str, Any], seen: dict[int, tuple[str, Any]]) -> None:
    """Adds the words of a value. `seen` has the ids of what it lies within and of the code
    described so far."""
    if _is_leaf(value):
        found[name] = _leaf(value)
        return
    if id(value) in seen:
        found[name] = f"the same as {seen[id(value)][0] or 'the whole'}"
        return
    seen[id(value)] = name, value
    try:
        word, parts = _taken_apart(value)
    except Exception as error:
        raise ValueError(
            f"{name or 'this'} cannot be described in a file, so it could not be told from another"
            f" one: {code.name_of(type(value))} says nothing of its state ({error}). Keep numbers,"
            " arrays and functions only, or give the class a method __getstate__ that returns what"
            " it is."
        ) from error
    if word is not None:
        found[name] = word
    elif name and not parts:
        found[name] = "no entries"
    for part, inner in parts:
        _tell(inner, f"{name}.{part}" if name else part, found, seen)
    # equal objects may be one or several; functions and classes are one
    if not code.is_code(value):
        del seen[id(value)]


def _is_leaf(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype != object
    plain = (
        bool,
        str,
        int,
        float,
        complex,
        bytes,
        enum.Enum,
        np.generic,
        np.dtype,
        jax.Array,
        types.ModuleType,
    )
    return value is None or value is Ellipsis or isinstance(value, plain)


def _leaf(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return f"{code.name_of(type(value))}.{value.name}"
    if value is None or (
        isinstance(value, bool | str | int | float) and not isinstance(value, np.generic)
    ):
        return value
    if isinstance(value, types.ModuleType):
        return code.module_word(value)
    if value is Ellipsis or isinstance(value, complex | np.dtype):
        return str(value)
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return f"{jax.random.key_impl(value)} key {_leaf(np.asarray(jax.random.key_data(value)))}"
    if processes.is_spread(value):
        # no process has all of it: the parts as they lie over the processes
        return f"{value.dtype}{list(value.shape)} over processes {processes.digest(value)}"
    numbers = np.asarray(value)
    # bfloat16 and the like
    if jnp.issubdtype(numbers.dtype, jnp.floating) and numbers.dtype.kind != "f":
        numbers = numbers.astype(np.float32)
    if numbers.size <= FEW and numbers.dtype.kind in "biufU":
        return numbers.tolist()
    return (
        f"{numbers.dtype}{list(numbers.shape)} {_digest(np.ascontiguousarray(numbers).tobytes())}"
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _taken_apart(value: Any) -> tuple[Any, Parts]:
    """(the word for a value, its parts); no word for a dictionary at the top."""
    if code.is_code(value):
        return code.taken_apart(value)
    if isinstance(value, jax.sharding.Mesh):
        # its devices have no names that last; how many rows pad the arms follows from these
        return "mesh", list(value.shape.items())
    if isinstance(value, functools.partial):
        return "partial", [(of, getattr(value, of)) for of in ("func", "args", "keywords")]
    if type(value) is dict:
        return None, [(_key(key), value[key]) for key in sorted(value, key=_key)]
    if type(value) in (set, frozenset):
        told = sorted(json.dumps(describe(member)) for member in value)
        return f"{len(told)} members", [(str(i), member) for i, member in enumerate(told)]
    if type(value) in (list, tuple) or isinstance(value, np.ndarray):
        listed = value.ravel().tolist() if isinstance(value, np.ndarray) else value
        parts = [(str(i), part) for i, part in enumerate(listed)]
        shape = f" of shape {list(value.shape)}" if isinstance(value, np.ndarray) else ""
        if len(parts) <= LONG:
            return f"{len(parts)} parts{shape}", parts
        whole = json.dumps([describe(part) for _, part in parts])
        return f"{len(parts)} parts{shape} {_digest(whole.encode())}", []
    if isinstance(value, types.MethodType):
        return "method", [("self", value.__self__), ("func", value.__func__)]
    kind = type(value)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        parts = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = list(zip(value._fields, value, strict=True))
    else:
        parts = _state(value)
    if not code.is_installed(kind.__module__):
        parts.append(("class", kind))
    return code.name_of(kind), parts


def _key(key: Any) -> str:
    """How an entry of a dictionary is called; text that looks like a dotted name is put in
    quotes."""
    return key if isinstance(key, str) and "." not in key else f"[{json.dumps(describe(key))}]"


def _state(value: Any) -> list[tuple[str, Any]]:
    """All that pickle would write of an object, by the names of its attributes; and what it is to
    `jax.tree`."""
    leaves = jax.tree_util.default_registry.flatten_one_level(value)
    try:
        parts = _reduced(value)
    except Exception:
        if leaves is None:
            raise
        parts = []
    if leaves is None:
        return parts
    children, static = leaves
    known = {id(part) for _, part in parts} | {id(value), id(None)}
    more = [*children, *(static if isinstance(static, tuple | list) else [static])]
    return parts + [(f"tree.{i}", part) for i, part in enumerate(more) if id(part) not in known]


def _reduced(value: Any) -> list[tuple[str, Any]]:
    kind = type(value)
    reduced = copyreg.dispatch_table.get(kind, lambda value: value.__reduce_ex__(4))(value)
    if isinstance(reduced, str):
        return [("named", reduced)]
    function, arguments, state, members, items = (*reduced, None, None, None)[:5]
    parts: list[tuple[str, Any]] = []
    if function is copyreg.__newobj__:  # type: ignore[attr-defined]
        arguments = arguments[1:]
    else:
        parts.append(("made_by", function))
    if arguments:
        parts.append(("arguments", tuple(arguments)))
    dictionary, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if all(part is None or isinstance(part, dict) for part in (dictionary, slots)):
        attributes = (dictionary or {}) | (slots or {})
        derived = {
            name for base in kind.__mro__ for name, held in vars(base).items() if _is_cached(held)
        }
        parts += [
            (str(name), attributes[name])
            for name in sorted(attributes, key=str)
            if name not in derived
        ]
    else:
        parts.append(("state", state))
    parts += [("members", list(members))] if members is not None else []
    return parts + ([("items", dict(items))] if items is not None else [])


def _is_cached(held: Any) -> bool:
    return isinstance(held, functools.cached_property)

"""Functions and classes for `describe`: a name, and for the user's own their code and the values
that it reads.

Code of an installed package, and of jsketch, is described by its name: versions say the rest. A
user's function is described by its instructions, its defaults, the variables that it closes over,
the globals that it reads, and what it may reach through the user's own modules; a class by its
methods and attributes. Instructions are the same in every process of one version of Python.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import importlib
import importlib.util
import re
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

INSTALLED = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
PACKAGES = re.compile("(site|dist)-packages")
# kinds of attributes of a class that are no data: slots, what named tuples and abstract classes
# keep
INTERNAL = (types.MemberDescriptorType, types.GetSetDescriptorType)
BOOKKEEPING = {"_abc_impl", "_fields", "_field_defaults"}


def is_installed(module: str | None) -> bool:
    """Whether a module belongs to jsketch, to Python or to an installed package, and not to the
    user."""
    top = (module or "").partition(".")[0]
    if top == "__main__" or top not in sys.modules:
        return False
    if top == "jsketch":
        return True
    found = sys.modules[top]
    places = (
        [found.__file__]
        if getattr(found, "__file__", None)
        else list(getattr(found, "__path__", []))
    )
    return _are_installed(places)


def _are_installed(places: Iterable[Any]) -> bool:
    return all(str(place).startswith(INSTALLED) or PACKAGES.search(str(place)) for place in places)


def is_code(value: Any) -> bool:
    """Whether it is a class, a function, or a library's wrapper of one, such as a jitted
    function."""
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return True
    return (
        callable(value) and hasattr(value, "__wrapped__") and is_installed(type(value).__module__)
    )


def name_of(value: Any) -> str:
    """The name of a class or a function; classes of jsketch without their module."""
    module = getattr(value, "__module__", None) or ""
    short = isinstance(value, type) and module.partition(".")[0] == "jsketch"
    return value.__qualname__ if short else f"{module}.{value.__qualname__}"


def taken_apart(value: Any) -> tuple[str, list[tuple[str, Any]]]:
    """(name, parts) of a class or a function."""
    if isinstance(value, type):
        return name_of(value), [] if is_installed(value.__module__) else list(_class_parts(value))
    if isinstance(value, types.FunctionType):
        return name_of(value), _function_parts(value)
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        bound = owner is not None and not isinstance(owner, types.ModuleType)
        return name_of(value), [("self", owner)] if bound else []
    return name_of(value if hasattr(value, "__qualname__") else type(value)), [
        ("wrapped", value.__wrapped__)
    ]


def _function_parts(function: types.FunctionType) -> list[tuple[str, Any]]:
    # `__module__` may be that of another function, which this one wraps
    installed = is_installed(function.__globals__.get("__name__"))
    code = function.__code__
    if installed and function.__closure__ is None and "<" not in code.co_qualname:
        return []
    defaults = {str(i): value for i, value in enumerate(function.__defaults__ or ())}
    defaults |= function.__kwdefaults__ or {}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}
    named = (
        {}
        if installed
        else {n: function.__globals__[n] for n in _reads(code) if n in function.__globals__}
    )
    parts: dict[str, Any] = dict(defaults=defaults)
    parts["closure"] = {
        name: held for name, held in closure.items() if not isinstance(held, types.ModuleType)
    }
    parts["globals"] = {
        name: held for name, held in named.items() if not isinstance(held, types.ModuleType)
    }
    if not installed:
        modules = [
            held for held in (named | closure).values() if isinstance(held, types.ModuleType)
        ]
        modules += _imported(code, function.__globals__.get("__package__"))
        parts["modules"] = _reached(modules, _names(code))
    digest = hashlib.sha256(_instructions(code).encode()).hexdigest()[:16]
    return [("code", digest), *((name, held) for name, held in parts.items() if held)]


def _reads(code: types.CodeType) -> set[str]:
    """Names of the globals that a function, or one within it, reads."""
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return own.union(*map(_reads, _inner(code)))


def _names(code: types.CodeType) -> set[str]:
    """Names of all attributes, and whatever else, that a function, or one within it, reads."""
    return set(code.co_names).union(*map(_names, _inner(code)))


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [value for value in code.co_consts if isinstance(value, types.CodeType)]


def _imported(code: types.CodeType, package: str | None) -> list[types.ModuleType]:
    """The user's own modules that a function, or one within it, imports; a module that is not there
    is left out."""
    found: list[types.ModuleType | None] = []
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for at, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        # the two values before are the level of a relative import and the names after `from ...
        # import`
        level, wanted = steps[at - 2].argval, steps[at - 1].argval or ()
        name = (
            step.argval
            if not level
            else importlib.util.resolve_name("." * level + step.argval, package)
        )
        parts = name.split(".")
        every = [".".join(parts[: end + 1]) for end in range(len(parts))]
        found += [_own_module(each) for each in [*every, *(f"{name}.{part}" for part in wanted)]]
    modules = [module for module in found if module is not None]
    return modules + [module for inner in _inner(code) for module in _imported(inner, package)]


def _own_module(name: str) -> types.ModuleType | None:
    """A module of the user's by its name, imported if it has to be: the function that names it
    would do the same."""
    top = name.partition(".")[0]
    if top not in sys.modules:
        spec = importlib.util.find_spec(top)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or [])]
        if _are_installed([place for place in places if place is not None]):
            return None
    elif is_installed(name):
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _reached(modules: list[types.ModuleType], names: Iterable[str]) -> dict[str, Any]:
    """What of the user's own modules has one of the names of a function's attributes:
    {"mine.helper": helper}. Some of it may have that name by chance; nothing that `mine.helper` or
    `mine.part.helper` means is missed."""
    found: dict[str, Any] = {}
    waiting, done = list(modules), set()
    while waiting:
        module = waiting.pop()
        if module.__name__ in done or is_installed(module.__name__):
            continue
        done.add(module.__name__)
        held = {name: vars(module)[name] for name in names if name in vars(module)}
        waiting += [value for value in held.values() if isinstance(value, types.ModuleType)]
        values = {
            name: value for name, value in held.items() if not isinstance(value, types.ModuleType)
        }
        found |= {f"{module.__name__}.{name}": value for name, value in values.items()}
    return found


def module_word(module: types.ModuleType) -> str:
    """A module as a value: its name, and for the user's own what its file says. Raises ValueError
    where there is no file."""
    if is_installed(module.__name__):
        return module.__name__
    try:
        source = Path(module.__file__ or "").read_bytes()
    except OSError as error:
        raise ValueError(
            f"the module {module.__name__} cannot be described in a file: it is no installed"
            f" package, and its source cannot be read ({error}). Keep functions instead of modules."
        ) from error
    return f"{module.__name__} {hashlib.sha256(source).hexdigest()[:16]}"


def _instructions(code: types.CodeType) -> str:
    """What a function does, the same in every process of one version of Python."""
    constants = [
        _instructions(value)
        if isinstance(value, types.CodeType)
        else str(sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value))
        for value in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _class_parts(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and attributes, own ones and inherited from the user's other classes; fields of
    dataclasses are the instance's."""
    own = kind.__dict__
    fields = (
        {field.name for field in dataclasses.fields(kind)}
        if dataclasses.is_dataclass(kind)
        else set()
    )
    fields |= set(getattr(kind, "_fields", ()))
    for name in sorted(own):
        for part, held in _functions_of(name, own[name]):
            special = name.startswith("__") and name.endswith("__")
            if isinstance(held, types.FunctionType):
                # by dataclasses
                written = not (special and held.__code__.co_filename == "<string>" and fields)
                if written:
                    yield part, held
            elif not (special or name in fields | BOOKKEEPING or isinstance(held, INTERNAL)):
                yield part, held
    bases = [base for base in kind.__bases__ if not is_installed(base.__module__)]
    yield from ((f"base{i}", base) for i, base in enumerate(bases))


def _functions_of(name: str, held: Any) -> list[tuple[str, Any]]:
    """An attribute of a class, as it is or as the functions that a descriptor holds."""
    if isinstance(held, staticmethod | classmethod):
        return [(name, held.__func__)]
    if isinstance(held, functools.cached_property):
        return [(name, held.func)]
    if isinstance(held, property):
        return [
            (f"{name}.{of}", getattr(held, of))
            for of in ("fget", "fset")
            if getattr(held, of) is not None
        ]
    return [(name, held)]

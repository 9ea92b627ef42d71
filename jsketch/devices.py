"""The device on which programs run: its memory, and how XLA compiles for it."""

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jaxlib
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

# Options of `jax.jit`. XLA raises an error for one that its version does not have
EMITTERS: dict[str, Any] = {}
if jaxlib.__version__.startswith("0.10."):
    EMITTERS["xla_cpu_use_fusion_emitters"] = False
# of a program that runs once on few numbers, and takes less time than its optimization
RUN_ONCE = EMITTERS | {"xla_backend_optimization_level": 0}


def one_program(
    *static: str, options: dict[str, Any] | None = None
) -> Callable[[Function], Function]:
    """A decorator of functions that users call now and then, outside of `jit`: the function is one
    compiled program there, where its operations one by one would be a hundred.

    static   the names of arguments that are static
    options  of the compiler

    What `jit` does not take, such as an algorithm whose class is no pytree, goes to the function
    itself, and so do tracers.
    """

    def decorate(function: Function) -> Function:
        compiled = jax.jit(function, static_argnames=static, compiler_options=options)

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            if not all(map(_is_concrete, jax.tree.leaves((arguments, named)))):
                return function(*arguments, **named)
            with jax.core.eval_context():  # values of JAX are known under jit, too
                return compiled(*arguments, **named)

        return cast(Function, call)

    return decorate


def _is_concrete(leaf: Any) -> bool:
    """Whether a leaf is an array or a number that is not traced."""
    numbers = jax.Array | np.ndarray | np.generic | bool | int | float
    return isinstance(leaf, numbers) and not isinstance(leaf, jax.core.Tracer)


def memory() -> int | None:
    """The bytes of memory of the default device, or of the machine for a CPU; None if unknown."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None

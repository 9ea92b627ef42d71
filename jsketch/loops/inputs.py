"""Mistakes in what the loops are called with, said in plain words."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from jsketch import checks, devices
from jsketch.types import Arms, PRNGKey


def check_horizon(horizon: Any) -> None:
    """Raises ValueError unless the horizon is an integer of at least 1."""
    if not checks.is_integer(horizon, 1):
        raise ValueError(
            f"horizon counts evaluations and must be an integer of at least 1; {horizon!r} was"
            " given."
        )
    if horizon > checks.MOST:
        raise ValueError(
            f"horizon can be at most {checks.MOST:,} evaluations; {horizon!r} was given."
        )


def check_keys(keys: Any, rank: int, wanted: str) -> PRNGKey:
    """`keys` as typed keys of that rank (old-style uint32 pairs are taken too). Raises ValueError
    for anything else."""
    if isinstance(keys, jax.Array) and keys.dtype == jnp.uint32 and keys.ndim == rank + 1:
        keys = jax.random.wrap_key_data(keys)
    if (
        not (isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key))
        or keys.ndim != rank
    ):
        raise ValueError(f"{wanted}; {keys!r} was given.")
    return keys


def check_bandit(bandit: Any) -> None:
    """Raises ValueError unless it is an algorithm over arms that jit takes, with the methods of
    `jsketch.types.Bandit`."""
    if isinstance(bandit, type) or not all(
        callable(getattr(bandit, name, None)) for name in ("init", "ask", "tell")
    ):
        raise ValueError(
            f"bandit must be an algorithm with its numbers, such as BBKB(kernel); {bandit!r} was"
            " given."
        )
    _check_pytree("bandit", bandit)
    for name, wanted, named in (
        ("init", "domain, key", {}),
        ("ask", "state, key, limit=None", {"limit": None}),
        ("tell", "state, query, y, key", {}),
    ):
        signature = inspect.signature(getattr(bandit, name))
        try:
            signature.bind(*[None] * (wanted.count(",") + 1 - len(named)), **named)
        except TypeError as error:
            raise ValueError(
                f"the method of an algorithm is {name}({wanted}); that of"
                f" {type(bandit).__name__} is {name}{signature}."
            ) from error


def _check_pytree(name: str, value: Any) -> None:
    """Raises ValueError for an object of a class that jit does not know."""
    kind = type(value).__name__
    if jax.tree_util.all_leaves([value]):
        raise ValueError(
            f"{name} is a {kind}, which jit does not take: make it a pytree with"
            " @jsketch.struct.dataclass above its class (a class that inherits from one needs its"
            " own)."
        )


def _check_fields(name: str, value: Any) -> None:
    """Raises ValueError for a pytree with a leaf that is no array of numbers, or with an array in a
    static field."""
    kind = type(value).__name__
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        if not hasattr(leaf, "dtype") and not isinstance(leaf, bool | int | float | complex):
            raise ValueError(
                f"{name}: {kind}{jax.tree_util.keystr(path)} is {leaf!r}, which jit does not take:"
                " a field that is no number is declared struct.field(pytree_node=False)."
            )
    # a class may be registered as a pytree in another way
    for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
        static = field.metadata.get("pytree_node") is False
        if static and isinstance(getattr(value, field.name), np.ndarray | jax.Array):
            raise ValueError(
                f"{name}: {kind}.{field.name} is an array, which jit cannot compare: use a tuple,"
                " or declare it without struct.field(pytree_node=False)."
            )


def check_started(bandit: Any, state: Any) -> None:
    """Raises ValueError for an algorithm, whose numbers its `init` checked, or a state that loops
    over arms cannot carry."""
    _check_pytree("the state of the bandit", state)
    if "domain" not in getattr(state, "__dataclass_fields__", {}):
        raise ValueError(
            f"the state of the bandit is a {type(state).__name__}: it must be a dataclass with the"
            " arms in its field `domain`."
        )
    _check_fields("bandit", bandit)


def check_state(bandit: Any, domain: Arms, found: Any) -> None:
    """Raises ValueError for a state of another algorithm, or of other arms."""
    wanted = jax.eval_shape(bandit.init, domain, jax.random.key(0))
    if type(found) is not type(wanted):
        raise ValueError(
            f"state is of another algorithm: it holds a {type(found).__name__}, and a"
            f" {type(bandit).__name__} has a {type(wanted).__name__}."
        )
    if found.domain is None:
        raise ValueError("state has no arms: give it them back with types.attach(state, arms).")
    if not _same(found.domain.features, domain.features):
        raise ValueError(
            f"state is of other arms: it has {found.domain.count} of them, and {domain.count} were"
            " given, or their features differ."
        )


def _same(x: Any, y: Any) -> bool:
    """Whether arrays are equal; over several processes none holds all of them."""
    if x is y:
        return True
    if getattr(x, "is_fully_addressable", True) or np.shape(x) != np.shape(y):
        return np.array_equal(np.asarray(x), np.asarray(y))
    return bool(_equal(x, y))


@jax.jit
def _equal(x: Array, y: Array) -> Array:
    return (x == y).all()


def check_problem(problem: Any) -> None:
    """Raises ValueError unless it is a problem over arms that jit takes, with the attributes of
    `jsketch.types.ArmProblem`."""
    if isinstance(problem, type) or not all(
        hasattr(problem, name) for name in ("arms", "mean_reward", "sample")
    ):
        raise ValueError(
            "problem must have arms, their mean rewards and a method sample, such as"
            " problems.finite_arms(features, mean_reward, noise_std); what was given is a"
            f" {type(problem).__name__}. For a function of your own there is drive(bandit,"
            " function, Arms(features), key, horizon)."
        )
    _check_pytree("problem", problem)
    _check_fields("problem", problem)


def check_objective(objective: Callable[..., Any], *arguments: Any) -> None:
    """Raises ValueError unless objective(x [d], key), given as `arguments`, is one real number; and
    likewise its method `value` of x, if it has one. Traces both, compiles nothing."""
    _check_number("the objective must be a function of a point and a key", objective, *arguments)
    value = getattr(objective, "value", None)
    if value is not None:
        _check_number("the objective's value must be a function of a point", value, arguments[0])


def _check_number(wanted: str, function: Callable[..., Any], *arguments: Any) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # not everything that can be called says with what
        signature = None
    try:
        if signature is not None:
            signature.bind(*arguments)
    except TypeError as error:
        raise ValueError(f"{wanted}; its arguments are {signature}.") from error

    def checked(*arguments: Any) -> None:
        y = function(*arguments)
        dtype = y.dtype if hasattr(y, "dtype") else np.asarray(y).dtype if np.isscalar(y) else None
        real = dtype is not None and any(
            jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer, bool)
        )
        if not real or np.shape(y) != ():
            what = (
                f"an array of shape {y.shape} and dtype {dtype}" if hasattr(y, "dtype") else repr(y)
            )
            raise ValueError(f"{wanted} that returns one number, shape (); {what} was returned.")

    jax.eval_shape(checked, *arguments)


def check_stream(xs: Any, ys: Any, dtype: DTypeLike | None = None) -> tuple[Array, Array]:
    """Examples [n,d] and labels [n] as arrays of the floating `dtype`; without one, of that of the
    examples.

    Raises ValueError for an empty stream, shapes that do not fit, what is not a real number and
    inputs that are not finite in that dtype; labels may be NaN.
    """
    xs, ys = checks.real("examples", xs), checks.real("labels", ys)
    if xs.ndim != 2 or ys.shape != xs.shape[:1]:
        raise ValueError(
            "a stream is a matrix [n, d] of examples and a vector [n] of labels; the shapes are"
            f" {xs.shape} and {ys.shape}."
        )
    if xs.shape[0] == 0 or xs.shape[1] == 0:
        raise ValueError(
            f"the stream is empty: its examples have shape {xs.shape}, need at least one row and"
            " column."
        )
    if dtype is None:
        dtype = jax.dtypes.canonicalize_dtype(
            xs.dtype if jnp.issubdtype(xs.dtype, jnp.floating) else float
        )
    with np.errstate(over="ignore"):  # said below
        xs, ys = (
            jnp.asarray(xs.astype(dtype, copy=False)),
            jnp.asarray(ys.astype(dtype, copy=False)),
        )
    # on an accelerator, where they are now: they would have to come back for NumPy
    finite = (
        np.asarray(jnp.isfinite(xs).all(1))
        if devices.on_accelerator()
        else np.isfinite(np.asarray(xs)).all(1)
    )
    if not finite.all():
        raise ValueError(
            f"inputs must be finite; example {np.flatnonzero(~finite)[0]} is not ({(~finite).sum()}"
            " such examples in all)."
        )
    return xs, ys

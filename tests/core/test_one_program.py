"""Functions that are one compiled program outside of jit (`devices.one_program`)."""

import jax
import numpy as np
import pytest

from jsketch import struct
from jsketch.devices import RUN_ONCE, one_program


@struct.dataclass
class Number:
    value: float
    name: str = struct.field(pytree_node=False, default="")


class Plain:
    value = 2.0


@pytest.mark.parametrize("options", [None, RUN_ONCE])
def test_numbers_and_arrays_are_compiled_once(options):
    traced = []

    @one_program("times", options=options)
    def scaled(number, x, times):
        traced.append(isinstance(x, jax.core.Tracer))
        return number.value * x * times

    for value, x in ((2.0, np.ones(3)), (3.0, np.zeros(3)), (4.0, np.full(3, 5.0))):
        np.testing.assert_array_equal(scaled(Number(value), x, 2), 2 * value * x)
    assert traced == [True]
    assert scaled(Number(2.0, "other"), np.ones(3), times=3).tolist() == [6, 6, 6]
    assert traced == [True, True]


def test_what_jit_does_not_take_goes_to_the_function():
    """For example an object whose class is no pytree."""
    traced = []

    @one_program()
    def scaled(number, x):
        traced.append(isinstance(x, jax.core.Tracer))
        return number.value * x

    assert scaled(Plain(), np.ones(2)).tolist() == [2, 2]
    assert traced == [False]


def test_tracers_go_to_the_function():
    """A compiled caller contains the operations of the function and no call of its program.
    Derivatives and maps are those of the function."""
    scaled = one_program(options=RUN_ONCE)(lambda number, x: number.value * x**2)
    assert "pjit" not in str(jax.make_jaxpr(scaled)(Number(2.0), 3.0))
    assert float(jax.jit(scaled)(Number(2.0), 3.0)) == 18
    assert float(jax.grad(scaled, 1)(Number(2.0), 3.0)) == 12
    assert jax.vmap(scaled, (None, 0))(Number(2.0), np.arange(3.0)).tolist() == [0, 2, 8]


def test_known_values_are_computed_at_once_in_a_compiled_caller():
    x = jax.numpy.arange(3.0)
    known = one_program(options=RUN_ONCE)(lambda number, x: number.value * x)
    added = jax.jit(lambda y: known(Number(2.0), x) + y)(1.0)
    np.testing.assert_array_equal(added, [1, 3, 5])

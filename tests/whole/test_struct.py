"""Dataclasses are pytrees, and no two classes have equal structures."""

import dataclasses
import importlib
import pkgutil
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization

import jsketch
from jsketch import struct
from jsketch.suggest.acquisitions import ExpectedImprovement, Thompson


@struct.dataclass
class Pair:
    a: float
    b: float = 2.0
    name: str = struct.field(pytree_node=False, default="pair")


@struct.dataclass
class Twin:
    a: float
    b: float = 2.0
    name: str = struct.field(pytree_node=False, default="pair")


def pytrees():
    """An instance of every dataclass of the library that is a pytree, with zeros in its fields."""
    kinds = {}
    for module in pkgutil.walk_packages(jsketch.__path__, "jsketch."):
        if "adapters" in module.name or "suggest.tables" in module.name:  # need other packages
            continue
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                value = object.__new__(kind)
                value.__dict__.update({field.name: 0 for field in dataclasses.fields(kind)})
                if not jax.tree_util.all_leaves([value]):  # what is not a pytree is a leaf
                    kinds[kind] = value
    return list(kinds.values())


def test_no_two_classes_have_the_same_structure():
    """jit would share one program between classes of equal structure."""
    instances = pytrees()
    assert len(instances) > 100
    structures = [(type(value), jax.tree.structure(value)) for value in instances]
    for (kind, structure), (other_kind, other_structure) in combinations(structures, 2):
        assert structure != other_structure, f"{kind} has the structure of {other_kind}"
    assert jax.tree.structure(Thompson()) != jax.tree.structure(ExpectedImprovement())
    assert jax.tree.structure(Pair(1)) == jax.tree.structure(Pair(3))
    assert jax.tree.structure(Pair(1)) != jax.tree.structure(Pair(1, name="other"))


def test_jit_keeps_the_class():
    identity = jax.jit(lambda value: value)
    for kind in (Pair, Twin):
        given = kind(jnp.ones(3), 4.0, "name")
        returned = identity(given)
        assert type(returned) is kind and returned.name == "name"
        jax.tree.map(np.testing.assert_array_equal, returned, given)


def test_fields_are_frozen_and_replace_returns_a_changed_copy():
    pair = Pair(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair.a = 2.0
    assert pair.replace(a=3.0) == dataclasses.replace(pair, a=3.0) == Pair(3.0)


def test_the_state_dict_has_the_leaves_and_restores_them():
    saved = serialization.to_state_dict(Pair(1.0, Twin(5.0)))
    assert saved == {"a": 1.0, "b": {"a": 5.0, "b": 2.0}}
    restored = serialization.from_state_dict(Pair(0.0, Twin(0.0), "kept"), saved)
    assert restored == Pair(1.0, Twin(5.0), "kept")
    words = "the saved value at ./b is not a Twin: it lacks b and has the unknown c"
    with pytest.raises(ValueError, match=words):
        serialization.from_state_dict(Pair(0.0, Twin(0.0)), {"a": 1.0, "b": {"a": 1, "c": 2}})
    with pytest.raises(ValueError, match="the saved value at . is not a Pair: it is None"):
        serialization.from_state_dict(Pair(0.0), None)

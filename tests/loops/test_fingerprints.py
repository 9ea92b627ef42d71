"""The description of a run contains every leaf and every static field of users' classes."""

import functools
import json
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization

from jsketch import Arms, kernels, loops, struct
from jsketch.bandits import Uniform
from jsketch.loops import saving
from jsketch.loops.describe import describe, differences

KEY = jax.random.key(0)


class Plain:
    """A kernel that is not a pytree, with a number and a static choice."""

    floor = 0.0

    def __init__(self, lengthscale=0.5, form="full"):
        self.lengthscale, self.form = lengthscale, form

    def gram(self, x, y):
        return jnp.exp(-jnp.square((x[:, None] - y) / self.lengthscale).sum(2))

    def width(self, evidence, assumed):
        return jnp.asarray(self.lengthscale)


@jax.tree_util.register_pytree_node_class
class Node(Plain):
    """The same kernel as a pytree."""

    def tree_flatten(self):
        return (self.lengthscale,), self.form

    @classmethod
    def tree_unflatten(cls, form, leaves):
        return cls(*leaves, form)


@jax.tree_util.register_static
class Static(Plain):
    """A pytree that is static as a whole."""


@struct.dataclass
class Data:
    lengthscale: object = 0.5
    form: object = struct.field(pytree_node=False, default="full")


class Pair(NamedTuple):
    lengthscale: float
    form: str = "full"


LONG_ARRAY = np.arange(100.0)
DIFFERENT_PAIRS = {
    "plain": (Plain(0.5), Plain(0.7)),
    "plain_static": (Plain(form="full"), Plain(form="short")),
    "node": (Node(0.5), Node(0.7)),
    "node_static": (Node(form="full"), Node(form="short")),
    "node_array": (Node(LONG_ARRAY), Node(LONG_ARRAY + 1e-9)),
    "static": (Static(0.5), Static(0.7)),
    "dataclass": (Data(0.5), Data(0.7)),
    "dataclass_of_plain": (Data(form=Plain(0.5)), Data(form=Plain(0.7))),
    "named_tuple": (Pair(0.5), Pair(0.7)),
    "tuple_for_a_named_tuple": (Pair(0.5), (0.5, "full")),
    "dictionary": (Data({"a": {"b": 1}}), Data({"a.b": 1})),
    "empty": (Data({"a": {}}), Data({})),
    "sets": (Data(form=frozenset({1, 2})), Data(form=frozenset({1, 3}))),
    "objects": (np.array([Plain(0.5)]), np.array([Plain(0.7)])),
    "keys": (Data(jax.random.key(0)), Data(jax.random.key(1))),
    "complex": (Data(1 + 2j), Data(1 + 3j)),
    "long_list": (Data(list(LONG_ARRAY)), Data([*LONG_ARRAY[:-1], 98.0])),
    "method": (Plain(0.5).width, Plain(0.7).width),
    "partial": (jax.tree_util.Partial(np.add, 1.0), jax.tree_util.Partial(np.add, 2.0)),
    "mesh": [jax.make_mesh((1,), (axis,), devices=jax.devices()[:1]) for axis in ("arms", "rows")],
    "same_name": (type("Gaussian", (), {})(), kernels.Gaussian(0.5)),
}


@struct.dataclass
class Holder:
    """An algorithm that accepts any kernel."""

    kernel: Any = 0.0


@pytest.mark.parametrize("name", DIFFERENT_PAIRS)
def test_different_values_have_different_descriptions(name):
    """The descriptions of equal values are equal, also after one is read from a file."""
    first, second = DIFFERENT_PAIRS[name]
    description, repeated, other = (describe(Holder(value)) for value in (first, first, second))
    saved = json.loads(json.dumps(description))
    assert differences(saved, other) and not differences(saved, repeated)
    assert "0x" not in json.dumps(description)  # no addresses


def test_a_difference_names_the_field():
    for kind in (Plain, Node, Data, Static):
        changes = differences(describe(Holder(kind(0.5))), describe(Holder(kind(0.7))))
        assert changes == ["kernel.lengthscale was 0.5, is 0.7"]
    first, second = (describe(Holder(Plain(value).width)) for value in (0.5, 0.7))
    assert differences(first, second) == ["kernel.self.lengthscale was 0.5, is 0.7"]
    changes = differences({}, {str(i): i for i in range(20)})
    assert len(changes) == 9 and changes[-1] == "12 more"


def test_equal_objects_have_equal_descriptions():
    """Among the objects are NaN, shared ones, one with a cache, and one that contains itself."""

    class Cached(Plain):
        @functools.cached_property
        def gain(self):
            return self.lengthscale * 2

    with_cached_gain, cyclic, shared = Cached(), Plain(), Plain()
    assert with_cached_gain.gain == 1.0
    cyclic.itself = cyclic
    for first, second in [
        (Data(np.nan), Data(np.nan)),
        (Data(shared, shared), Data(Plain(), Plain())),
        (with_cached_gain, Cached()),
    ]:
        assert not differences(describe(first), describe(second))
    assert describe(cyclic)["itself"] == "a reference to an object that contains it"


def test_code_is_compared_by_its_name_and_tag():
    def description(tag):
        def objective(x):
            return x

        if tag is not None:
            objective.checkpoint_tag = tag
        return describe(dict(objective=objective))

    assert description(None) == description(None) and description("1") == description("1")
    changes = differences(description("1"), description("2"))
    assert changes == ["objective.checkpoint_tag was 1, is 2"]


@struct.dataclass
class UsersBandit(Uniform):
    """An algorithm of the user: uniform arms, and a number outside the state."""

    lengthscale: float = 0.5


@struct.dataclass
class UsersProblem:
    """A problem of the user."""

    mean_reward: object

    @property
    def arms(self):
        return Arms(jnp.arange(4.0)[:, None])

    def sample(self, key, arm):
        return self.mean_reward[arm]


def test_a_run_of_the_users_classes_resumes_its_own_file_only(tmp_path):
    path, rewards = tmp_path / "run", jnp.arange(4.0)

    def run(lengthscale, mean_reward):
        bandit = UsersBandit(lengthscale=lengthscale)
        return loops.run(bandit, UsersProblem(mean_reward), KEY, 6, checkpoint=path)

    np.testing.assert_array_equal(run(0.5, rewards).trace.arm, run(0.5, rewards).trace.arm)
    with pytest.raises(ValueError, match="another run: bandit.lengthscale was 0.5, is 0.7"):
        run(0.7, rewards)
    with pytest.raises(ValueError, match="another run: problem.mean_reward was"):
        run(0.5, rewards + 1)
    # the file lacks a field of `Progress`
    header, body = saving.parse(path, path.read_bytes(), saving.SIMULATED_RUN)
    fields = serialization.msgpack_restore(body)
    del fields["result"]
    saving.RunFile(path, saving.SIMULATED_RUN, header.pop("belongs")).save(fields, **header)
    with pytest.raises(ValueError, match="another version of jsketch, whose states had other"):
        run(0.5, rewards)

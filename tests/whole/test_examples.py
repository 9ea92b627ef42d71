"""The examples in docstrings run, except those of jsketch.suggest.adapters."""

import inspect
import re
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from rows import by_name

import jsketch
from jsketch import adapters, contrib, kernels, scale, suggest

# of two objects with one name, that of the last package is used
PACKAGES = (contrib, scale, jsketch.box, suggest, adapters, jsketch.bandits, jsketch.online)
PUBLIC = {
    name: getattr(package, name)
    for package in (*PACKAGES, jsketch.problems, kernels, jsketch)
    for name in package.__all__
}
BLOCK = re.compile(r"(?<=\n\n)(?: {4}.*\n?|\n)+")  # lines that are indented by four spaces


def example_of(value):
    """The indented block of a docstring that is not a formula; "" if there is none."""
    docstring = "" if inspect.ismodule(value) else inspect.getdoc(value) or ""
    code = (textwrap.dedent(block) for block in BLOCK.findall(docstring))
    return next((text for text in code if not text.startswith("mean(x)")), "")


EXAMPLES = {name: code for name, value in PUBLIC.items() if (code := example_of(value))}


def negative_sum(x, key=None):
    """The objective of the examples, of one point [d] or of points [n, d]."""
    return -x.sum(-1)


@pytest.fixture(scope="module")
def names():
    """The objects that the examples use."""
    random = np.random.default_rng(0)
    features, mean_reward = random.uniform(-1, 1, (40, 2)), random.uniform(-1, 1, 40)
    xs, ys = random.uniform(-1, 1, (20, 2)), random.uniform(-1, 1, 20)
    problem = jsketch.problems.finite_arms(features, mean_reward, 0.1)
    key, box = jax.random.key(0), jsketch.Box(jnp.zeros(2), jnp.ones(2))
    modules = dict(jax=jax, jnp=jnp, np=np, scale=scale)
    arms = dict(features=features, mean_reward=mean_reward, problem=problem)
    places = dict(mesh=jax.make_mesh((1,), ("arms",)), kernel=kernels.Gaussian(1.0))
    campaigns = dict(x=features, arms=[3, 14], values=[0.2, 0.7], old_x=xs, old_values=ys)
    cycle = 2 * np.eye(40) - np.roll(np.eye(40), 1, 0) - np.roll(np.eye(40), -1, 0)
    others = dict(xs=xs, ys=ys, key=key, box=box, f=negative_sum, laplacian=cycle)
    return PUBLIC | modules | arms | campaigns | places | others


@pytest.mark.filterwarnings("ignore")
@by_name(EXAMPLES, {"LocalGOUCB", "GPBandit", "Turbo", "plan"})
def test_the_example_of_a_docstring_runs(name, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "parquet" in EXAMPLES[name]:
        pd.DataFrame(names["xs"], columns=["a", "y"]).to_parquet("events.parquet")
    exec(EXAMPLES[name], dict(names))


def test_what_a_user_calls_first_has_an_example():
    first = {"run", "rollout", "drive", "prequential", "Live", "minimize", "BBKB", "suggest"}
    assert first <= EXAMPLES.keys()

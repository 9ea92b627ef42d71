"""`jsketch.plan`: the time and the memory of a run, from a few of its evaluations."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsketch
from jsketch import kernels, problems, struct
from jsketch.bandits import BBKB, GPUCB, Uniform
from jsketch.loops import advance, planning

KERNEL = kernels.Gaussian(1.0)
BBKB_SMALL = BBKB(KERNEL, regularization=0.01, capacity=16)


def problem(n_arms=400):
    x = np.random.default_rng(0).uniform(-2, 2, (n_arms, 2))
    return problems.finite_arms(x, np.exp(-np.square(x - 0.5).sum(1)), 0.1)


@pytest.mark.parametrize("bandit", [BBKB_SMALL, GPUCB(KERNEL, capacity=30), Uniform()])
def test_a_plan_is_positive_and_grows_with_the_seeds(bandit, monkeypatch):
    monkeypatch.setattr(planning, "PILOT_SECONDS", 0.05)
    plan = jsketch.plan(bandit, problem(), 30)
    assert 0 < plan.pilot <= 30 and plan.seconds > 0 and plan.bytes > 0
    plan_of_seeds = jsketch.plan(bandit, problem(), 30, seeds=20)
    assert plan_of_seeds.bytes > plan.bytes and plan_of_seeds.seeds == 20
    assert f"20 x {type(bandit).__name__}, 30 evaluations of 400 arms" in str(plan_of_seeds)


def test_a_run_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a run of BBKB with 400 arms would need about .* GB"):
        jsketch.plan(BBKB_SMALL, problem(), 30, memory=1e4)


def test_the_type_of_a_number_compiles_no_other_program():
    """`run` and `plan` convert the numbers of the algorithm to the dtype of the arms."""
    few_arms = problem(30)

    def programs_after(lengthscale, noise_std):
        bandit = BBKB(kernels.Gaussian(lengthscale), noise_std=noise_std, max_batch=4)
        run = jsketch.run(bandit, few_arms, jax.random.key(0), 6)
        return advance.compiled_programs(), np.asarray(run.trace.arm)

    n_programs, arms = programs_after(1.0, 1.0)
    for number in (1, np.float32(1), np.float64(1), np.int32(1), jnp.asarray(1)):
        other_programs, other_arms = programs_after(number, number)
        assert other_programs == n_programs, type(number)
        np.testing.assert_array_equal(other_arms, arms)


@struct.dataclass
class OneColumn:
    """A kernel of one feature, whose number is an integer."""

    column: Any

    def gram(self, x, y):
        return jnp.exp(-jnp.square(x[:, self.column][:, None] - y[:, self.column][None]))

    def diag(self, x):
        return jnp.ones(len(x), x.dtype)


def test_an_integer_of_a_users_class_remains_an_integer():
    bandit = BBKB(OneColumn(1), noise_std=1, max_batch=4)
    key, few_arms = jax.random.key(0), problem(30)
    run = jsketch.run(bandit, few_arms, key, 6)
    traced_run = jax.jit(lambda bandit: jsketch.rollout(bandit, few_arms, key, 6))(bandit)
    np.testing.assert_array_equal(run.trace.arm, traced_run.trace.arm)

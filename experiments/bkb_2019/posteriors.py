"""The posteriors of Figure 2 of the BKB paper: of a GP draw on [0,1] that was evaluated on [0,
EDGE] only."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import Query, kernels, problems
from jsketch.bandits import BKB
from jsketch.bandits.core.sketched import SketchState, residuals
from jsketch.linalg import matmul
from jsketch.posterior import bayes_std, exact, ridge
from jsketch.sketch import fourier
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier
from jsketch.types import PRNGKey

GRID, EVALUATIONS, EDGE = 501, (6, 63, 215), 0.5
LENGTHSCALE, NOISE_STD, QBAR, QFF_NODES = 0.1, 0.1, 2.0, 96
LAM = NOISE_STD**2


class Posterior(NamedTuple):
    """Mean and Bayesian standard deviation sqrt(lam sigma^2) at the grid, [A] each."""

    mean: Array
    std: Array


class Setting(NamedTuple):
    """One GP draw and what was observed of it."""

    x: Array  # [A, 1]
    f: Array  # [A]
    arms: Array  # [t] int32
    y: Array  # [t]


class Outcome(NamedTuple):
    """One seed: the data, the posteriors of all methods, and the arms [m] in BKB's dictionary."""

    setting: Setting
    posteriors: dict[str, Posterior]
    inducing: np.ndarray


def generate(key: PRNGKey, evaluations: int, kernel: kernels.Gaussian) -> Setting:
    """A GP draw, and `evaluations` noisy values at uniform points of [0, EDGE]; more of them
    continue the same list."""
    f_key, arm_key, noise_key = jax.random.split(key, 3)
    x = jnp.linspace(0, 1, GRID)[:, None]
    f = problems.gp_draw(f_key, kernel, x, NOISE_STD).mean_reward
    inside = int(EDGE * (GRID - 1)) + 1
    arms = jax.random.randint(arm_key, (max(EVALUATIONS),), 0, inside, jnp.int32)[:evaluations]
    noise = NOISE_STD * jax.random.normal(noise_key, (max(EVALUATIONS),))[:evaluations]
    return Setting(x, f, arms, f[arms] + noise)


def bkb_state(
    setting: Setting, key: PRNGKey, capacity: int, kernel: kernels.Gaussian
) -> tuple[SketchState, Array]:
    """BKB after the evaluations, observed one by one: every step resamples its dictionary. And
    whether it ever overflowed."""
    bandit = BKB(kernel, regularization=LAM, noise_std=NOISE_STD, qbar=QBAR, capacity=capacity)
    state = bandit.init(problems.finite_arms(setting.x, setting.f, NOISE_STD).arms, key)

    def step(state: SketchState, given: tuple[Array, Array, Array]) -> tuple[SketchState, Array]:
        t, arm, y = given
        query = Query(arm[None], jnp.ones(1, bool))
        state, info = bandit.tell(state, query, y[None], jax.random.fold_in(key, t))
        return state, info.overflow

    steps = jnp.arange(len(setting.arms), dtype=jnp.int32)
    state, overflow = jax.lax.scan(step, state, (steps, setting.arms, setting.y))
    return state, overflow.any()


def on_features(z: Array, setting: Setting) -> Posterior:
    """The posterior that takes features z [A,M] for the kernel: residual 0."""
    observed = z[setting.arms]
    fitted = ridge.fit(matmul(observed.T, observed), matmul(setting.y, observed), LAM)
    u = matmul(z, fitted.whiten)
    variance = ridge.variance(u, jnp.zeros(len(z)), LAM)
    return Posterior(ridge.mean(fitted, u), bayes_std(variance, LAM))


@partial(jax.jit, static_argnames=("evaluations", "capacity", "lengthscale"))
def sketched(
    key: PRNGKey, evaluations: int, capacity: int, lengthscale: float
) -> tuple[Setting, dict[str, Any], Dictionary, Array]:
    """(setting, posteriors of all methods but RFF, dictionary, overflow) of one seed."""
    kernel = kernels.Gaussian(lengthscale)
    data_key, bkb_key = jax.random.split(key)
    setting = generate(data_key, evaluations, kernel)
    counts, sums = (
        jnp.zeros(GRID).at[setting.arms].add(v) for v in (jnp.ones(evaluations), setting.y)
    )
    dense = exact.dense(kernel, setting.x, counts, sums, LAM)
    state, overflow = bkb_state(setting, bkb_key, capacity, kernel)
    unseen = residuals(kernel, state.nystrom, state.dictionary, state.domain.features) / LAM
    without = jnp.maximum(state.variance - unseen, 0)
    grid = QuadratureFourier(QFF_NODES).draw(kernel, 1, key, setting.x.dtype)
    posteriors = dict(
        exact=Posterior(dense.mean, bayes_std(dense.variance, LAM)),
        bkb=Posterior(state.mean, bayes_std(state.variance, LAM)),
        sor=Posterior(state.mean, bayes_std(without, LAM)),
        qff=on_features(fourier.features(grid, setting.x), setting),
    )
    return setting, posteriors, state.dictionary, overflow


@partial(jax.jit, static_argnames=("count", "lengthscale"))
def random_features(key: PRNGKey, setting: Setting, count: int, lengthscale: float) -> Posterior:
    """The posterior with 2 count random Fourier features."""
    kernel, feature_key = kernels.Gaussian(lengthscale), jax.random.fold_in(key, 1)
    drawn = RandomFourier(count).draw(kernel, 1, feature_key, setting.x.dtype)
    return on_features(fourier.features(drawn, setting.x), setting)


def one(seed: int, evaluations: int, lengthscale: float = LENGTHSCALE) -> Outcome:
    """What is observed under one seed."""
    key, capacity = jax.random.fold_in(jax.random.key(0), seed), 48
    while True:
        setting, posteriors, dictionary, overflow = sketched(
            key, evaluations, capacity, lengthscale
        )
        if not bool(overflow):
            break
        capacity *= 2
    posteriors["rff"] = random_features(key, setting, -(-int(dictionary.size) // 2), lengthscale)
    return Outcome(setting, posteriors, np.asarray(dictionary.index)[np.asarray(dictionary.mask)])

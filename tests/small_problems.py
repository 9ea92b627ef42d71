"""Small random problems for tests of the theory, and programs that several tests share."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles

from jsketch import Arms, kernels, loops, problems
from jsketch.bandits import BBKB
from jsketch.bandits.bbkb import SketchedEvidence
from jsketch.loops.rollouts import start
from jsketch.types import Evaluations

PROBLEMS = 40
ARMS = 30
KEY = jax.random.key(0)
ROLLOUT = jax.jit(loops.rollout, static_argnames="horizon")
ASK = jax.jit(lambda bandit, state, *arguments: bandit.ask(state, *arguments))
SCORES = jax.jit(lambda bandit, state, arms: bandit.scores(state, arms))
TELL = jax.jit(lambda bandit, state, *arguments: bandit.tell(state, *arguments))
GROW = jax.jit(
    lambda bandit, state, arms, capacity: bandit.grow(state, arms, capacity), static_argnums=3
)
GRAM = jax.jit(lambda kernel, x, y: kernel.gram(x, y))
WIDTH = jax.jit(lambda bandit, state, arms: bandit.confidence_width(state, arms))


def _state_with(bandit, x, counts, sums, dictionary=None):
    """The state of a sketched bandit after evaluations of arms x, whose dictionary has exactly the
    arms `dictionary` [n], or all pulled arms. The information is the bound of THEORY 2.4."""
    arms = Arms(x)
    state = bandit.init(arms, KEY, data=Evaluations(counts, sums))
    if dictionary is not None:
        inducing = jnp.zeros(len(x), bool).at[dictionary].set(True)
        state = bandit.grow(replace(state, inducing=inducing), arms, state.capacity)
    evidence = SketchedEvidence(bandit, state, arms)
    upper = evidence.logdet + evidence.residual_sum / bandit.regularization
    return replace(state, information=jnp.stack([upper, upper]))


INIT = jax.jit(_state_with)


def after_each(bandit, x, rewards, new_points):
    """(states, posteriors at `new_points`, infos) after each of the rewards at x, stacked."""

    def step(state, evaluation):
        state, info = bandit.tell(state, *evaluation)
        return state, (state, bandit.posterior(state, jnp.asarray(new_points)), info)

    evaluations = jnp.asarray(x), jnp.asarray(rewards), jax.random.split(KEY, len(x))
    return jax.lax.scan(step, bandit.init(2, KEY), evaluations)[1]


class Problem:
    """Random arms, counts and rewards, and a dictionary of 6 random arms, with or without pulls."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.x = random.uniform(0, 2, (ARMS, 2))
        self.lengthscale = random.uniform(0.3, 2)
        self.lam = 10 ** random.uniform(-3, 0)
        self.counts = random.poisson(random.uniform(0.3, 3), ARMS).astype(float)
        self.counts[random.integers(ARMS)] += 1
        self.sums = self.counts * random.standard_normal(ARMS)
        self.dictionary = np.sort(random.choice(ARMS, 6, replace=False))
        self.kernel = kernels.Gaussian(self.lengthscale)
        self.gram = oracles.gaussian(self.x, self.x, self.lengthscale)

    @property
    def arms(self):
        return Arms(jnp.asarray(self.x))

    def state(self, dictionary=None, sums=None, **options):
        """(a BBKB, its state after the evaluations); the dictionary has the arms `dictionary`."""
        dictionary = self.dictionary if dictionary is None else dictionary
        sums = self.sums if sums is None else sums
        options = dict(kernel=self.kernel, regularization=self.lam, capacity=32) | options
        bandit = BBKB(**options)
        return bandit, INIT(bandit, self.x, self.counts, sums, np.resize(dictionary, 32))


def rkhs_problem(key, kernel, n_arms, noise, norm):
    """A random function of this norm on uniform arms [A,2]."""
    x_key, f_key = jax.random.split(key)
    x = jax.random.uniform(x_key, (n_arms, 2))
    return problems.rkhs_draw(f_key, kernel, x, noise, norm=norm)


@cache
def random_problems():
    return [Problem(seed) for seed in range(PROBLEMS)]


@partial(jax.jit, static_argnums=(1, 3))
def states_at(bandit, draw, keys, stops):
    """(problems [S], finished runs [S], states [S, len(stops)]). The run of a key is on the problem
    draw(key) and ends at the last stop; its states are those after each number of evaluations in
    `stops`. Bandits that differ only in numbers do not compile this program again."""

    def one(key):
        problem, horizon = draw(key), stops[-1]

        def until(progress, stop):
            progress = loops.rollout(bandit, problem, key, horizon, progress, stop)
            return progress, progress.state

        # a rollout of 0 rounds has the same result, but would be a second program to compile
        initial = start(bandit, problem, key, horizon)
        return problem, *jax.lax.scan(until, initial, jnp.array(stops, jnp.int32))

    return jax.vmap(one)(keys)


def walk(seed, n=120):
    """(a random walk [n,1], labels [n])."""
    x = np.cumsum(0.1 * np.random.default_rng(seed).standard_normal((n, 1)), 0)
    return x, np.sin(2 * x[:, 0])


def batch_of(p, ratio, **options):
    """(bandit, state, picks) of one batch of BBKB."""
    bandit, state = p.state(max_batch=60, ratio=ratio, **options)
    query = ASK(bandit, state, p.arms, KEY)
    return bandit, state, np.asarray(query.index)[np.asarray(query.mask)]


def bounds(p, batch):
    """Bounds after each pick: global [B], local [B,A] from the full and the embedded covariance."""
    _, full, embedded, _, _ = oracles.sketched(p.gram, p.dictionary, p.counts, p.sums, p.lam)
    variance = np.diag(full)
    local = [1 + np.cumsum(np.square(c[batch]) / variance, 0) for c in (full, embedded)]
    return 1 + np.cumsum(variance[batch]), *local


def assert_near(actual, desired, tolerance=1e-7):
    atol = tolerance * np.max(np.abs(desired))
    np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=atol)

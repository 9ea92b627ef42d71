"""Maximisation of f_x(w) over points x of a region and parameters w of the ball.

An ascent has a method maximise(model, ball, region, key) -> Maximum. `BallAscent` starts at many
pairs (x, w); the ascent of the paper is `GradientAscent` in go_ucb.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from jsketch import struct
from jsketch.box.go_ucb.ball import Ball, Displacement
from jsketch.box.go_ucb.model import FlatModel
from jsketch.search import Ascent, ascend
from jsketch.types import PRNGKey

Pairs = tuple[Array, Displacement]  # points x [K, d] and w - w_t

# The length of a step of the ascent over w, in radii of the ball. A long step that is projected
# back follows the gradient along the surface.
BALL_RATE = 2.0
# Over this last share of the steps the length falls to zero, to reach maxima inside the ball.
BALL_DECAY = 0.1
# Every fourth start moves w along the gradient, the others in random directions.
GRADIENT_EVERY = 4
UNIFORM = 64  # uniform points, of which `GradientAscent` takes the first that may be chosen
NEAR = 0.1  # deviation of the candidates near the best point, in sides of the region


class Region(NamedTuple):
    """The points among which an ascent searches, in the units of the model."""

    best: Array  # [d], the best observed point
    lower: Array  # [d]
    upper: Array  # [d]
    # points [K, d] -> [K] bool, whether a point is not chosen, because evaluations near it failed;
    # None: every point may be chosen
    excludes: Callable[[Array], Array] | None = None

    def allowed(self, x: Array, values: Array) -> Array:
        """The values [K] of points x [K, d], and -inf at those that are not chosen."""
        return values if self.excludes is None else jnp.where(self.excludes(x), -jnp.inf, values)

    def first_allowed(self, x: Array) -> Array:
        """The first [d] of points x [K, d] that may be chosen; x[0] if there is none."""
        return x[jnp.argmax(self.allowed(x, jnp.zeros_like(x[:, 0])))]

    def uniform(self, key: PRNGKey, count: int) -> Array:
        """Uniform points [count, d]."""
        unit = jax.random.uniform(key, (count, *self.best.shape), self.best.dtype)
        return self.lower[None, :] + unit * (self.upper - self.lower)[None, :]

    def clip(self, x: Array) -> Array:
        """The nearest points [K, d] of the region to points x [K, d]."""
        return jnp.clip(x, self.lower[None, :], self.upper[None, :])


class Maximum(NamedTuple):
    """The pair (x, w) that an ascent returns."""

    x: Array  # [d]
    v: Array  # [d_w], w - w_t
    value: Array  # [], f_w(x); -inf if the ascent met no finite value


def ascent_keys(key: PRNGKey) -> tuple[Array, Array, Array]:
    """The keys of uniform points, which are the same in all ascents, of normal points, and of
    directions."""
    points_key, directions_key = jax.random.split(key)
    uniform_key, normal_key = jax.random.split(points_key)
    return uniform_key, normal_key, directions_key


def best_pair(ascents: Ascent, v: Callable[[Any], Array], otherwise: Array) -> Maximum:
    """The best pair of ascents over pairs (x, p), where v(p) is w - w_t. If no value of the ascents
    is finite, x is the point `otherwise` [d]."""
    winner = jnp.argmax(ascents.values)
    x, p = jax.tree.map(lambda leaf: leaf[winner], ascents.best)
    value = ascents.values[winner]
    return Maximum(jnp.where(jnp.isfinite(value), x, otherwise), v(p), value)


class Candidates(NamedTuple):
    """Points of a region, and the model at w_t."""

    x: Array  # [n, d]
    gradient: Array  # [n, d_w], in w
    counts: Array  # [n] bool, false if the candidate is left out (`box.model.LeftOut`)


@struct.dataclass
class BallAscent(struct.Settings):
    """The maximum over x and w of projected ascents from many starts, in the coordinates of w in
    which the ball is round.

    rate        the first step size of Adam in the ascent over x, which falls to zero as a cosine
    candidates  int, random points: half of them uniform, and half near the best observed point
    starts      int, ascents: one from the best observed point, nearly half from uniform candidates,
                and the others from the candidates with the largest values
    steps       int, steps of each ascent
    """

    rate: ArrayLike = struct.number(0.05, above=0)
    candidates: int = struct.size(256)
    starts: int = struct.size(16)
    steps: int = struct.size(60)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.starts <= self.candidates:
            raise ValueError(
                f"starts are chosen from {self.candidates} candidates and the best observed point,"
                f" at least 2 of them; {self.starts} were given."
            )

    def maximise(self, model: FlatModel, ball: Ball, region: Region, key: PRNGKey) -> Maximum:
        """The best pair (x, w) of all ascents. To first order in w, f_x(w) increases fastest along
        `Ball.to_surface` of its gradient, if lengths are measured by |.|_Sigma."""
        uniform_key, normal_key, directions_key = ascent_keys(key)
        uniform = region.uniform(uniform_key, self.candidates - self.candidates // 2)

        def value(x: Array, p: Displacement) -> Array:
            return model.value(ball.centre + p.v, x)

        def values(pairs: Pairs) -> Array:
            return region.allowed(pairs[0], jax.vmap(value)(*pairs))

        def directions(_: Any, pairs: Pairs) -> tuple[Array, Pairs]:
            values, (x, p) = jax.vmap(jax.value_and_grad(value, (0, 1)))(*pairs)
            return region.allowed(pairs[0], values), (x, jax.vmap(ball.to_surface)(p.v))

        def project(pairs: Pairs) -> Pairs:
            x, p = pairs
            excess = jax.vmap(ball.excess)(*p)[:, None]
            return region.clip(x), Displacement(p.v / excess, p.image / excess)

        spread, best, scored = self._candidates(model, ball, region, uniform, normal_key)
        scores = values((scored.x, jax.vmap(ball.to_surface)(scored.gradient)))
        starts, along_gradient = self._starts(spread, best, scored, scores)
        random = jax.random.normal(directions_key, starts.gradient.shape, uniform.dtype)
        leaving = jnp.where(along_gradient[:, None], starts.gradient, random)
        pairs = starts.x, jax.vmap(ball.to_surface)(leaving)
        ascents = ascend(values, pairs, self._rule(uniform.dtype), project, self.steps, directions)
        return best_pair(ascents, lambda p: p.v, otherwise=region.first_allowed(uniform))

    def _candidates(
        self, model: FlatModel, ball: Ball, region: Region, uniform: Array, key: PRNGKey
    ) -> tuple[Candidates, Candidates, Candidates]:
        """(uniform candidates from which ascents start whatever their value, because the candidates
        with the largest values may lie near one local maximum; the best observed point; the other
        candidates). Those near the best observed point are this point plus normal noise."""
        noise = jax.random.normal(key, (self.candidates // 2, len(region.best)), uniform.dtype)
        near = region.best[None, :] + NEAR * (region.upper - region.lower)[None, :] * noise
        n_spread = (self.starts - 1) // 2
        scored = jnp.concatenate([uniform[n_spread:], region.clip(near)])
        x = jnp.concatenate([uniform[:n_spread], region.best[None], scored])
        linear = jax.vmap(model.linearize, (None, 0))(ball.centre, x)
        all_candidates = Candidates(x, linear.gradient, linear.counts)
        spread, others = split(all_candidates, n_spread)
        return spread, *split(others, 1)

    def _starts(
        self, spread: Candidates, best: Candidates, scored: Candidates, scores: Array
    ) -> tuple[Candidates, Array]:
        """(the starts [K], [K] bool whether w leaves w_t along the gradient there). A network has
        many local maxima in w, and the gradient leads to only one of them; at the candidate with
        the largest score the direction is the gradient. If the best observed point is left out, the
        next candidate takes its place."""
        n_top = self.starts - 1 - len(spread.x)
        scores = jnp.where(scored.counts & jnp.isfinite(scores), scores, -jnp.inf)
        order = lax.top_k(scores, n_top + 1)[1]
        top, spare = split(jax.tree.map(lambda leaf: leaf[order], scored), n_top)
        best = jax.tree.map(lambda a, b: jnp.where(best.counts[0], a, b), best, spare)
        starts = jax.tree.map(lambda *parts: jnp.concatenate(parts), spread, best, top)
        of_parts = every_fourth(len(spread.x)), np.array([False]), every_fourth(n_top)
        return starts, jnp.asarray(np.concatenate(of_parts))

    def _rule(self, dtype: DTypeLike) -> optax.GradientTransformation:
        """The optax rule of the ascent over (x, p)."""
        rate = jnp.asarray(self.rate, dtype)

        def cosine(count: Array) -> Array:
            return rate * (1 + jnp.cos(jnp.pi * count.astype(dtype) / self.steps)) / 2

        def constant_then_decay(count: Array) -> Array:
            remaining = (self.steps - count.astype(dtype)) / (self.steps * BALL_DECAY)
            return BALL_RATE * jnp.minimum(remaining, 1)

        # Adam scales every coordinate separately, which suits a box. On the surface of a ball Adam
        # would not converge to the point where the gradient is normal to the surface.
        ball_rule = optax.sgd(constant_then_decay)
        return optax.partition({"x": optax.adam(cosine), "p": ball_rule}, ("x", "p"))


def split(candidates: Candidates, n: int) -> tuple[Candidates, Candidates]:
    """(the first n candidates, the others)."""
    first = jax.tree.map(lambda leaf: leaf[:n], candidates)
    return first, jax.tree.map(lambda leaf: leaf[n:], candidates)


def every_fourth(n: int) -> np.ndarray:
    """[n] bool, true at 0, 4, 8, ..."""
    return np.arange(n) % GRADIENT_EVERY == 0

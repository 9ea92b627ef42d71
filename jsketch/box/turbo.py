"""TuRBO-1 and TuRBO-m: local GPs in trust regions, of which Thompson sampling picks the points.

Eriksson, Pearce, Gardner, Turner, Poloczek. Scalable global optimization via local Bayesian optimization. NeurIPS 2019.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.box import gp, history, memory, trust_regions
from jsketch.box.fit import Bounds, each, fit
from jsketch.box.gp import Data
from jsketch.box.history import History
from jsketch.box.trust_regions import Regions
from jsketch.kernels import Matern
from jsketch.precision import one_dtype
from jsketch.types import Box, PRNGKey

MOST_CANDIDATES = 5000  # by default


@struct.dataclass
class TurboState:
    box: Box
    initial: Array  # [n, d]
    history: History
    owner: Array  # [N] int32, the region for which each evaluation was made
    regions: Regions


@struct.dataclass
class TurboQuery:
    """A `BoxQuery` that knows for which region each point is."""

    x: Array  # [B, d]
    mask: Array  # [B] bool
    region: Array  # [B] int32

    @property
    def size(self) -> Array:
        """Number of evaluations asked for, []."""
        return self.mask.sum(dtype=jnp.int32)


@struct.dataclass
class TurboInfo:
    """`BoxInfo`, and the regions after the round."""

    observed: Array  # [] int32
    failed: Array  # [] int32
    best: Array  # []
    length: Array  # [R], base sides
    restarts: Array  # [] int32, regions that were started anew


@struct.dataclass
@one_dtype
class Turbo:
    """TuRBO with `regions` trust regions, which share the `initial` points and compete for batches of `batch`.

    `candidates` Thompson-sampled points a region and round: by default 100 for each input, at most 5000, are drawn in
    `frequencies` random Fourier features.
    A region that has become too small starts anew, from as many uniform points as it had at first.

    `bounds` and `least_length` are the published ones, for noisy functions: without noise take it out of the bounds, such as
    Bounds(noise=(1e-6, 1e-5)), and let regions shrink further. On Ackley's function of 10 inputs that is the difference
    between 0 and at least 18 of 20 runs within 0.1 of the maximum after 400 evaluations (tests/test_turbo.py).

    Departures from the published code (theory.md A11), which minimises. First points are uniform, not a Latin hypercube:
    all optimisers here share them. y is standardized by the mean, not the median, and the standard deviation of the region's
    own successful evaluations. Hyperparameters are fitted by L-BFGS from the last fit, not by 50 steps of Adam. Thompson
    samples are of f: the fitted noise is in the posterior, but none is added to the samples, as it is there; and the prior's
    part of them comes from Fourier features, whose covariance is right on average only. A candidate that would change no
    input changes a random one of all, where the published one never takes the last. Failures are counted in evaluations,
    max(4, d) of them, so that batches that regions share mean the same; for one region with batches of b these are the
    published ceil(max(4 / b, d / b)) rounds.
    """

    kernel: Any = Matern()
    bounds: Bounds = trust_regions.BOUNDS
    least_length: ArrayLike = 2.0**-7  # of a region's base side, in sides of the box
    regions: int = struct.field(pytree_node=False, default=1)
    batch: int = struct.field(pytree_node=False, default=1)
    initial: int = struct.field(pytree_node=False, default=8)
    candidates: int | None = struct.field(pytree_node=False, default=None)
    frequencies: int = struct.field(pytree_node=False, default=512)
    restarts: int = struct.field(pytree_node=False, default=0)  # fits from other points than the last fit
    fit_steps: int = struct.field(pytree_node=False, default=15)  # L-BFGS steps of each

    def init(self, box: Box, key: PRNGKey, horizon: int) -> TurboState:
        """Nothing evaluated yet. Raises ValueError on static mistakes, and for more evaluations, candidates, frequencies or
        regions than memory allows."""
        checks.capacity(regions=self.regions, batch=self.batch, fit_steps=self.fit_steps)
        checks.capacity(frequencies=self.frequencies, initial=self.initial, horizon=horizon)
        checks.capacity(candidates=self.batch if self.candidates is None else self.candidates)
        checks.a_kernel(self.kernel)
        checks.count(restarts=self.restarts)
        checks.positive(least_length=self.least_length)
        self.bounds.check()
        box = history.checked_box(box)
        if self.initial < self.regions:
            raise ValueError(
                f"each of the {self.regions} regions needs one of the initial points; initial is {self.initial}."
            )
        if self._candidates(box.lower.size) < self.batch:
            raise ValueError(
                f"candidates must be at least the batch, {self.batch}; {self.candidates} was given."
            )
        self._check_memory(box, horizon)
        initial = history.initial_points(box, key, self.initial)
        return TurboState(
            box=box,
            initial=initial,
            history=history.empty(box, horizon),
            owner=jnp.zeros(horizon, jnp.int32),
            regions=self._fresh(jnp.zeros((), jnp.int32), initial),
        )

    def _check_memory(self, box: Box, horizon: int) -> None:
        d, n = box.lower.size, int(horizon)
        count, features = int(self._candidates(d)), 2 * int(self.frequencies)
        # at the least: a region's covariance, factor and one product, its candidates' features and covariances; all regions'
        # candidates and draws; the points
        floats = 3 * n**2 + (n + count) * features + n * count
        floats += int(self.regions) * count * (d + int(self.batch)) + d * (int(self.initial) + n)
        memory.check(
            floats * box.lower.dtype.itemsize,
            f"{horizon} evaluations with {count} candidates in {self.frequencies} frequencies, {self.regions} regions,"
            f" batches of {self.batch} and {self.initial} initial points of {d} inputs",
            "take fewer",
        )

    def ask(self, state: TurboState, key: PRNGKey) -> TurboQuery:
        """The initial points, dealt out to the regions; then uniform points of regions that have just been started, and the
        maxima of Thompson samples."""
        slots = max(self.initial, self.batch)

        def padded(x: Array, region: Array) -> tuple[Array, Array]:
            extra = slots - x.shape[0]
            return jnp.pad(x, ((0, extra), (0, 0)), mode="edge"), jnp.pad(region, (0, extra))

        def first() -> tuple[Array, Array, Array]:
            dealt = jnp.arange(self.initial, dtype=jnp.int32) % self.regions
            return *padded(state.initial, dealt), jnp.asarray(self.initial, jnp.int32)

        def later() -> tuple[Array, Array, Array]:
            x, region, size = self._propose(state, key)
            return *padded(x, region), size

        x, region, size = lax.cond(state.history.count == 0, first, later)
        size = jnp.minimum(size, state.history.capacity - state.history.count)
        return TurboQuery(x=x, mask=jnp.arange(slots, dtype=jnp.int32) < size, region=region)

    def tell(
        self, state: TurboState, query: TurboQuery, y: Array, key: PRNGKey
    ) -> tuple[TurboState, TurboInfo]:
        """Learns y [B], moves the regions and refits their models."""
        y = history.values(query, y)
        after = history.add(state.history, query, y)
        owner = history.write(state.owner, query.region, state.history.count, query.size)
        numbered = jnp.arange(self.regions, dtype=jnp.int32)

        of_region = query.mask & (query.region == numbered[:, None])
        found = jnp.max(jnp.where(of_region & jnp.isfinite(y), y, -jnp.inf), 1)
        own = state.history.ok & self._mine(state)
        best = jnp.max(jnp.where(own, state.history.y, -jnp.inf), 1)
        regions = trust_regions.after_round(state.regions, best, found, of_region.sum(1, dtype=jnp.int32))
        fresh = self._fresh(after.count, state.initial)
        regions, small = trust_regions.restarted(regions, fresh, self.least_length)

        state = state.replace(history=after, owner=owner, regions=regions)
        keys = jax.random.split(key, self.regions)

        def refit(mine: Array, numbers: Any, key: PRNGKey) -> Any:
            def numbers_of(data: Data) -> Any:
                return fit(self.kernel, data, self.bounds, numbers, key, self.restarts, self.fit_steps)[0]

            return gp.in_few_slots(self._data(state, mine), numbers_of)

        numbers = each(refit, self._mine(state), regions.numbers, keys)
        news = history.info(state.history, after)
        observed = jnp.isfinite(y) & query.mask
        info = TurboInfo(
            observed=observed.sum(dtype=jnp.int32),
            failed=query.size - observed.sum(dtype=jnp.int32),
            best=news.best,
            length=regions.length,
            restarts=small.sum(dtype=jnp.int32),
        )
        return state.replace(regions=regions.replace(numbers=numbers)), info

    def _candidates(self, d: int) -> int:
        return min(100 * d, MOST_CANDIDATES) if self.candidates is None else self.candidates

    def _fresh(self, first: Array, initial: Array) -> Regions:
        """All regions as they are when they start, after `first` [] evaluations."""
        numbered = jnp.arange(self.initial, dtype=jnp.int32) % self.regions
        design = (numbered == jnp.arange(self.regions, dtype=jnp.int32)[:, None]).sum(1, dtype=jnp.int32)
        return trust_regions.started(design, first, self.bounds, initial.shape[1], initial.dtype)

    def _mine(self, state: TurboState) -> Array:
        """Evaluations of each region since it was last started, [R,N]."""
        numbered = jnp.arange(self.regions, dtype=jnp.int32)[:, None]
        slots = jnp.arange(state.owner.shape[0], dtype=jnp.int32)
        return (
            (state.owner == numbered)
            & (slots >= state.regions.first[:, None])
            & (slots < state.history.count)
        )

    def _data(self, state: TurboState, mine: Array) -> Data:
        past = state.history
        return gp.standardized(history.to_unit(state.box, past.x), past.y, past.ok & mine)

    def _propose(self, state: TurboState, key: PRNGKey) -> tuple[Array, Array, Array]:
        """(points [batch,d], their regions [batch], how many are in use [])."""
        uniform_key, region_key = jax.random.split(key)
        slots = jnp.arange(self.batch, dtype=jnp.int32)
        uniform = jax.random.uniform(uniform_key, (self.batch, state.initial.shape[1]), state.initial.dtype)
        wanted = jnp.cumsum(state.regions.design, dtype=jnp.int32)
        wants = jnp.searchsorted(wanted, slots, side="right").astype(jnp.int32)

        u, values = self._thompson(state, region_key)
        ready = state.regions.design == 0
        values = jnp.where(ready[:, None, None], values, -jnp.inf)
        # the regions' candidates side by side, [batch, R C]
        values = jnp.moveaxis(values, 1, 0).reshape(self.batch, -1)

        def pick(taken: Array, row: Array) -> tuple[Array, Array]:
            best = jnp.argmax(jnp.where(taken, -jnp.inf, row)).astype(jnp.int32)
            return taken | (jnp.arange(row.shape[0], dtype=jnp.int32) == best), best

        _, picked = lax.scan(pick, jnp.zeros(values.shape[1], bool), values)
        region = picked // u.shape[1]
        design = slots < wanted[-1]
        point = jnp.where(design[:, None], uniform, u[region, picked % u.shape[1]])
        size = jnp.where(ready.any(), self.batch, jnp.minimum(wanted[-1], self.batch))
        return history.from_unit(state.box, point), jnp.where(design, wants, region), size

    def _thompson(self, state: TurboState, key: PRNGKey) -> tuple[Array, Array]:
        """Candidates of each region [R,C,d] and draws of f at them [R,batch,C]."""

        def one(mine: Array, region: Regions, key: PRNGKey) -> tuple[Array, Array]:
            candidate_key, sample_key = jax.random.split(key)
            data = self._data(state, mine)
            count = self._candidates(state.initial.shape[1])
            u = trust_regions.candidates(data, mine, region.numbers, region.length, candidate_key, count)

            def draws(data: Data) -> Array:
                posterior = gp.condition(self.kernel, region.numbers, data)
                return gp.draw(posterior, u, sample_key, self.batch, self.frequencies)

            return u, data.centre + data.spread * gp.in_few_slots(data, draws)

        return each(one, self._mine(state), state.regions, jax.random.split(key, self.regions))

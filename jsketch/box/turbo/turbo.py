"""TuRBO-1 and TuRBO-m: Thompson sampling on local GPs in trust regions.

Eriksson, Pearce, Gardner, Turner, Poloczek. Scalable global optimization via local Bayesian
optimization. NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.box import history
from jsketch.box.gp import regression
from jsketch.box.gp.fit import Bounds
from jsketch.box.gp.regression import Data
from jsketch.box.history import History
from jsketch.box.turbo import local_gp, trust_regions
from jsketch.box.turbo.trust_regions import Regions
from jsketch.kernels import Matern
from jsketch.posterior.fitting import map_or_vmap
from jsketch.types import Box, BoxInfo, BoxQuery, PRNGKey

MAX_CANDIDATES = 5000  # the largest default number of candidates


@struct.dataclass
class TurboState:
    box: Box
    initial: Array  # [n, d], points of the first round
    history: History
    owner: Array  # [N] int32, the region of each evaluation
    regions: Regions


@struct.dataclass
class TurboQuery(BoxQuery):
    region: Array  # [B] int32, the region of each point


@struct.dataclass
class TurboInfo(BoxInfo):
    length: Array  # [R], base sides of the regions after the round
    restarts: Array  # [] int32, number of regions that restarted


@struct.dataclass
class Turbo(struct.Settings):
    """TuRBO, whose trust regions share the initial points and compete for the points of a batch. A
    region that is too small restarts with a Latin hypercube of as many points as it first had. Of
    the candidates of a region, those whose nearest evaluation failed are chosen last.

    kernel        a kernel of the inputs divided by the fitted lengthscales
    bounds        `Bounds`, by default the published ones. For functions without noise,
                  Bounds(noise=(1e-6, 1e-5)) and a smaller `least_length` find better points
    least_length  a region restarts if its base side, in sides of the box, is shorter
    regions       int, trust regions
    batch         int, evaluations of a round
    initial       int, uniform points of the first round
    candidates    int, number of points at which values are drawn jointly, in each region and round;
                  by default 100 for each input, but at most 5000
    frequencies   int, random Fourier frequencies of the draws at more than 2000 candidates
    fit_steps     int, steps of Adam of each fit

    The default is the published TuRBO-1. It differs from the authors' code (THEORY 8.5) in that
    initial points are uniform and divided among regions, failures are counted in evaluations, the
    last input may be the only perturbed one, and more than 2000 candidates use Fourier features in
    place of a Lanczos factor of rank 100.

    Example:

        run(Turbo(batch=4), problems.on_box(f, box), jax.random.key(0), 16).trace.best  # [16]
    """

    kernel: Any = struct.component(components.KERNEL, default=Matern())
    bounds: Bounds = struct.component(components.BOUNDS, default=trust_regions.BOUNDS)
    least_length: ArrayLike = struct.number(2.0**-7, above=0)
    regions: int = struct.size(1)
    batch: int = struct.size(1)
    initial: int = struct.size(8, at_least=0)
    candidates: int | None = struct.size(None)
    frequencies: int = struct.size(512)
    fit_steps: int = struct.size(50)

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> TurboState:
        checks.no_evaluations(self, data)
        checks.settings(self)
        self.bounds.check()
        box, horizon = history.checked_box(domain), checks.horizon(horizon)
        if self.initial < self.regions:
            raise ValueError(
                f"each of the {self.regions} regions needs one of the initial points; initial is"
                f" {self.initial}."
            )
        if self._candidates(box.lower.size) < self.batch:
            raise ValueError(
                f"candidates must be at least the batch, {self.batch}; {self.candidates} was given."
            )
        # the largest arrays are the covariance of a region, its factor and one product
        empty_history = history.empty(box, horizon, other_floats=3 * horizon**2)
        initial = history.initial_points(box, key, self.initial, horizon)
        # the initial points take the place of the first design points
        placeholder = jnp.zeros(
            (self.regions, -(-self.initial // self.regions), box.lower.size), initial.dtype
        )
        return TurboState(
            box=box,
            initial=initial,
            history=empty_history,
            owner=jnp.zeros(horizon, jnp.int32),
            regions=self._new_regions(jnp.zeros((), jnp.int32), placeholder),
        )

    def ask(self, state: TurboState, key: PRNGKey, limit: ArrayLike | None = None) -> TurboQuery:
        """The initial points, distributed over the regions, in the first round; later the design
        points of regions that have restarted, and the maxima of Thompson samples."""
        slots = max(self.initial, self.batch)

        def padded(x: Array, region: Array) -> tuple[Array, Array]:
            extra = slots - x.shape[0]
            return jnp.pad(x, ((0, extra), (0, 0)), mode="edge"), jnp.pad(region, (0, extra))

        def initial_points() -> tuple[Array, Array, Array]:
            region = jnp.arange(self.initial, dtype=jnp.int32) % self.regions
            return *padded(state.initial, region), jnp.asarray(self.initial, jnp.int32)

        def proposals() -> tuple[Array, Array, Array]:
            x, region, size = self._propose(state, key)
            return *padded(x, region), size

        x, region, size = lax.cond(state.history.count == 0, initial_points, proposals)
        size = jnp.minimum(size, history.n_remaining(state.history, limit))
        return TurboQuery(x=x, mask=jnp.arange(slots, dtype=jnp.int32) < size, region=region)

    def tell(
        self, state: TurboState, query: TurboQuery, y: Array, key: PRNGKey
    ) -> tuple[TurboState, TurboInfo]:
        """(state, info) after the values y [B], with updated regions and refitted models."""
        y = history.checked_values(query, y)
        old_history, new_history = state.history, history.add(state.history, query, y)
        owner = history.write(state.owner, query.region, state.history.count, query.size)
        region = jnp.arange(self.regions, dtype=jnp.int32)[:, None]

        is_of_region = query.mask[None, :] & (query.region[None, :] == region)
        new_best = jnp.max(jnp.where(is_of_region & jnp.isfinite(y)[None, :], y, -jnp.inf), 1)
        observed = state.history.ok[None, :] & self._members(state)
        best = jnp.max(jnp.where(observed, state.history.y, -jnp.inf), 1)
        regions = trust_regions.after_round(
            state.regions, best, new_best, is_of_region.sum(1, dtype=jnp.int32)
        )
        n_design, d = state.regions.points.shape[1:]
        designs = jax.vmap(lambda k: trust_regions.latin_hypercube(k, n_design, d, y.dtype))
        new = self._new_regions(new_history.count, designs(jax.random.split(key, self.regions)))
        regions, restarts = trust_regions.restart(regions, new, self.least_length)
        state = replace(state, history=new_history, owner=owner, regions=regions)
        max_points = max(
            state.owner.shape[0], min(self._candidates(state.initial.shape[1]), local_gp.MAX_JOINT)
        )

        def refit(members: Array) -> local_gp.Model:
            def fit(data: Data) -> local_gp.Model:
                return local_gp.fit(self.kernel, data, self.bounds, self.fit_steps, max_points)

            return regression.at_smallest_capacity(self._data(state, members), fit)

        model = map_or_vmap(refit, self._members(state))
        info = TurboInfo(
            **vars(history.info(old_history, new_history)),
            length=regions.length,
            restarts=restarts.sum(dtype=jnp.int32),
        )
        return replace(state, regions=replace(regions, model=model)), info

    def _candidates(self, d: int) -> int:
        return min(100 * d, MAX_CANDIDATES) if self.candidates is None else self.candidates

    def _new_regions(self, first: Array, points: Array) -> Regions:
        """New regions that start after `first` [] evaluations, with design points [R,P,d]."""
        owner = jnp.arange(self.initial, dtype=jnp.int32) % self.regions
        region = jnp.arange(self.regions, dtype=jnp.int32)[:, None]
        design = (owner[None, :] == region).sum(1, dtype=jnp.int32)
        return trust_regions.new_regions(design, first, points, self.bounds)

    def _members(self, state: TurboState) -> Array:
        """[R,N] bool, whether an evaluation was made for a region since its last restart."""
        region = jnp.arange(self.regions, dtype=jnp.int32)[:, None]
        slots = jnp.arange(state.owner.shape[0], dtype=jnp.int32)[None, :]
        return (
            (state.owner[None, :] == region)
            & (slots >= state.regions.first[:, None])
            & (slots < state.history.count)
        )

    def _data(self, state: TurboState, members: Array) -> Data:
        observed = state.history
        u = history.to_unit(state.box, observed.x)
        return local_gp.standardized(u, observed.y, observed.ok & members)

    def _propose(self, state: TurboState, key: PRNGKey) -> tuple[Array, Array, Array]:
        """(points [batch,d], their regions [batch], the number of points in use [])."""
        slots = jnp.arange(self.batch, dtype=jnp.int32)
        # the design points come first, region after region; those of a region are in reverse order
        ends = jnp.cumsum(state.regions.design, dtype=jnp.int32)
        owner = jnp.searchsorted(ends, slots, side="right").astype(jnp.int32)
        design_point = state.regions.points[owner, ends[owner] - slots - 1]

        u, values = self._draw_values(state, key)
        has_no_design = state.regions.design == 0
        values = jnp.where(has_no_design[:, None, None], values, -jnp.inf)
        values = jnp.moveaxis(values, 1, 0).reshape(self.batch, -1)  # [batch, R C]

        def pick(is_picked: Array, row: Array) -> tuple[Array, Array]:
            best = jnp.argmax(jnp.where(is_picked, -jnp.inf, row)).astype(jnp.int32)
            return is_picked | (jnp.arange(row.shape[0], dtype=jnp.int32) == best), best

        _, picks = lax.scan(pick, jnp.zeros(values.shape[1], bool), values)
        region = picks // u.shape[1]
        is_design = slots < ends[-1]
        point = jnp.where(is_design[:, None], design_point, u[region, picks % u.shape[1]])
        size = jnp.where(has_no_design.any(), self.batch, jnp.minimum(ends[-1], self.batch))
        return history.from_unit(state.box, point), jnp.where(is_design, owner, region), size

    def _draw_values(self, state: TurboState, key: PRNGKey) -> tuple[Array, Array]:
        """(candidates of each region [R,C,d], draws of their values [R,batch,C]). The value of a
        candidate whose nearest evaluation failed is the least number, by which the others come
        first."""
        near = history.near_failures(state.box, state.history)

        def draw_region(members: Array, region: Regions, key: PRNGKey) -> tuple[Array, Array]:
            candidate_key, sample_key = jax.random.split(key)
            data = self._data(state, members)
            count = self._candidates(state.initial.shape[1])
            lengthscale = region.model.numbers.lengthscale
            u = trust_regions.candidates(
                data, members, lengthscale, region.length, candidate_key, count
            )
            values = local_gp.draw(
                self.kernel, region.model, data, u, sample_key, self.batch, self.frequencies
            )
            excluded = near(u)
            # if all are near failures, for example before the first success, none is left out
            excluded &= ~excluded.all()
            return u, jnp.where(excluded[None, :], jnp.finfo(values.dtype).min, values)

        return map_or_vmap(
            draw_region, self._members(state), state.regions, jax.random.split(key, self.regions)
        )

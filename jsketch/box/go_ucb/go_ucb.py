"""GO-UCB: optimistic maximisation of a parametric function over a box.

Liu, Wang. Global optimization with parametric function approximation. ICML 2023, Algorithm 1
(THEORY 8.1 to 8.3). Phase I evaluates n uniform points and fits w0 to them (`oracle`). Phase II
keeps a ball of parameters around w_t (`ellipsoid`, with squared radius beta_t of `radius`) and
evaluates x_t = argmax_x max_{w in Ball_t} f_w(x), found by projected gradient ascent over x and u,
|u| <= 1, in w = w_t + sqrt(beta_t) Sigma_t^-1/2 u (`optimism`): w never leaves the ball.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, memory, struct
from jsketch.box import history, scaling
from jsketch.box.go_ucb import optimism, oracle, parametric, radius
from jsketch.box.go_ucb.ellipsoid import ellipsoid
from jsketch.box.go_ucb.forms import Ball
from jsketch.box.go_ucb.network import Network
from jsketch.box.go_ucb.optimism import Proposal
from jsketch.box.go_ucb.oracle import LevenbergMarquardt
from jsketch.box.go_ucb.parametric import GOState, NotFinite
from jsketch.box.go_ucb.radius import OFUL
from jsketch.linalg import lazy_cond
from jsketch.precision import one_dtype
from jsketch.sketch.tangent import Flat, flatten
from jsketch.types import Box, BoxQuery, PRNGKey


@struct.dataclass
class GOQuery:
    """`BoxQuery`, and how the point was chosen."""

    x: Array  # [B, d]
    mask: Array  # [B] bool
    proposal: Proposal

    @property
    def size(self) -> Array:
        return self.mask.sum(dtype=jnp.int32)


@struct.dataclass
class GOInfo:
    """`BoxInfo`, and how the point was chosen."""

    observed: Array  # [] int32
    failed: Array  # [] int32
    best: Array  # []
    proposal: Proposal
    diverged: Array  # [] bool: the new parameters were not finite, so the ones before stayed
    # [] int32, evaluations that eqs. 3 and 5 leave out, because the model's value or gradient there
    # is not finite: of those whose rows this round computed, with `refit` all so far
    nonfinite_rows: Array

    @property
    def nonfinite(self) -> Array:
        """[] bool: the round left out parameters, rows or starts that are not finite."""
        return self.diverged | (self.nonfinite_rows > 0) | self.proposal.fallback


@struct.dataclass
@one_dtype
class GOUCB:
    """One evaluation at a time, after `initial` uniform ones. Inputs are scaled to [-1,1], values
    by mean and deviation of phase I (`scaling`), so that one set of numbers serves all problems;
    `printed` has the paper's own.

    acquisition: "ball", the joint maximum over x and w by ascent in whitened coordinates;
    "first_order", the maximum of the linearization in w; "plain", plain gradient steps over x and
    w, as printed.

    Three fields go beyond the paper, and its theorem does not cover them. `refit` moves w_t to a
    least-squares fit of all observations after each of them, with gradients and scaling taken anew;
    without it w_t is eq. 5's, where a row keeps the linearization of its own time for good: on a
    function that the network cannot fit, w_t then stops moving and the same point is asked for
    again. `reach` < 1 maximises over points whose inputs differ from the best observed point's by
    at most that share of a side: the maximum of a network over a whole box lies in a corner of it,
    far from all that it was fitted to. `exploration_rows` counts phase I's points in eqs. 3 and 5,
    which otherwise forget them (a refit has all anyway). Numbers were chosen on functions that are
    not the paper's (experiments/go_ucb_2023/choose.py).
    """

    schedule: Any = OFUL()
    oracle: Any = LevenbergMarquardt()
    regularization: ArrayLike | None = 0.01  # lam; None is the printed sqrt(T) log^2 T
    reach: ArrayLike = 0.02
    rate: ArrayLike = 0.05  # of the ascent over x; Adam's falls to zero along a cosine
    model: Any = struct.field(pytree_node=False, default=Network())
    acquisition: str = struct.field(pytree_node=False, default="ball")
    refit: bool = struct.field(pytree_node=False, default=True)
    exploration_rows: bool = struct.field(pytree_node=False, default=True)
    standardize: bool = struct.field(pytree_node=False, default=True)
    initial: int = struct.field(pytree_node=False, default=8)  # n
    candidates: int = struct.field(pytree_node=False, default=256)
    starts: int = struct.field(pytree_node=False, default=16)
    steps: int = struct.field(pytree_node=False, default=60)
    # the best observed point starts too
    from_best: bool = struct.field(pytree_node=False, default=True)

    def init(self, box: Box, key: PRNGKey, horizon: int) -> GOState:
        """Nothing evaluated yet; horizon counts both phases. Raises ValueError on static mistakes,
        and for more candidates or starts than memory allows."""
        box = history.checked_box(box)
        model = flatten(self.model, box.lower)
        self._check(model, horizon, box.lower.dtype.itemsize)
        past = history.empty(box, horizon)
        w = jnp.zeros(model.size, box.lower.dtype)
        return GOState(
            box=box,
            initial=history.initial_points(box, key, self.initial),
            history=past,
            scaling=scaling.identity(box),
            w0=w,
            centre=w,
            gradients=jnp.zeros((horizon, model.size), w.dtype),
            targets=jnp.zeros(horizon, w.dtype),
        )

    def ask(self, state: GOState, key: PRNGKey) -> GOQuery:
        """The initial points, then the optimistic one."""
        nan = jnp.full((), jnp.nan, state.w0.dtype)
        x, proposal = lax.cond(
            state.history.count == 0,
            lambda: (state.initial[0], Proposal(nan, nan, nan, nan, jnp.zeros((), bool))),
            lambda: optimism.propose(self, state, self.ball(state), key),
        )
        query = history.query(state.history, state.initial, lambda: x[None])
        return GOQuery(query.x, query.mask, proposal)

    def tell(
        self, state: GOState, query: GOQuery, y: Array, key: PRNGKey
    ) -> tuple[GOState, GOInfo]:
        """Learns y [B]: the oracle's fit after phase I, then one row of eqs. 3 and 5 an
        evaluation."""
        after = history.add(state.history, BoxQuery(query.x, query.mask), y)
        nothing = NotFinite(jnp.zeros((), bool), jnp.zeros((), jnp.int32))
        first, start = state.history.count == 0, (state, nothing)
        explored = lazy_cond(
            first, lambda _: parametric.explored(self, replace(state, history=after), key), start
        )
        new, not_finite = lazy_cond(
            ~first,
            lambda _: parametric.learned(self, state, after, self._regularization(state)),
            explored,
        )
        # a query beyond the horizon is empty and teaches nothing
        new = jax.tree.map(lambda old, new: jnp.where(query.size > 0, new, old), state, new)
        news = history.info(state.history, after)
        return new, GOInfo(news.observed, news.failed, news.best, query.proposal, *not_finite)

    def ball(self, state: GOState) -> Ball:
        """Ball_t around the state's w_t (eqs. 3 and 6)."""
        sigma = ellipsoid(state.gradients, self._regularization(state))
        step = radius.Step(
            t=state.history.count - self.initial + 1,
            horizon=max(state.history.capacity - self.initial, 1),
            parameters=state.w0.shape[0],
            regularization=sigma.regularization,
            logdet=sigma.logdet,
            scale=state.scaling.deviation,
        )
        return Ball(sigma, state.centre, self.schedule(step))

    def _regularization(self, state: GOState) -> ArrayLike:
        if self.regularization is not None:
            return self.regularization
        return radius.printed_regularization(max(state.history.capacity - self.initial, 1))

    def _check(self, model: Flat, horizon: int, itemsize: int) -> None:
        checks.capacity(
            initial=self.initial, candidates=self.candidates, starts=self.starts, steps=self.steps
        )
        checks.capacity(horizon=horizon)
        checks.choice(("ball", "plain", "first_order"), acquisition=self.acquisition)
        checks.positive(rate=self.rate, reach=self.reach)
        if self.regularization is not None:
            checks.positive(regularization=self.regularization)
        if self.starts > self.candidates + 1:
            raise ValueError(
                f"starts are chosen from {self.candidates} candidates and the best observed point;"
                f" {self.starts} were given."
            )
        self.schedule.check()
        self.oracle.check()
        # a candidate holds its gradient and its move with the image, a start the position, the
        # best, the gradient, the way uphill and their updates
        floats = self.candidates * (2 * model.size + horizon) + self.starts * (
            10 * model.size + 5 * horizon
        )
        # a row for each evaluation
        floats += horizon * model.size
        memory.check(
            floats * itemsize,
            f"{horizon} evaluations, {self.candidates} candidates and {self.starts} starts of"
            f" {model.size} parameters",
            "take fewer",
        )


def printed(initial: int, **changes: Any) -> GOUCB:
    """The settings of Appendix D.1: eq. 5, no scaling, SGD at rate 1e-11, lam = sqrt(T) log^2 T,
    beta_t = d_w^3 t / T (F = 1), 2000 plain gradient steps of 1e-4. Where the ascent starts is not
    printed: here, at the best observed point, or, with from_best=False, at a uniform one."""
    settings = GOUCB(
        schedule=radius.Printed(),
        oracle=oracle.printed(),
        regularization=None,
        reach=1.0,
        rate=1e-4,
        acquisition="plain",
        refit=False,
        exploration_rows=False,
        standardize=False,
        initial=initial,
        candidates=1,
        starts=1,
        steps=2000,
    )
    return replace(settings, **changes)

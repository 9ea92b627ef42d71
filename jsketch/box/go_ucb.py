"""GO-UCB: optimistic maximisation of a parametric function over a box.

Liu, Wang. Global optimization with parametric function approximation. ICML 2023, Algorithm 1 (theory.md A7, C-G). Phase I
evaluates n uniform points and fits w0 to them (`oracle`). Phase II keeps a ball of parameters around w_t (`ellipsoid`, with
squared radius beta_t of `radius`) and evaluates x_t = argmax_x max_{w in Ball_t} f_w(x), found by projected gradient ascent
over x and u, |u| <= 1, in w = w_t + sqrt(beta_t) Sigma_t^-1/2 u (`ascent`): w never leaves the ball.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.box import ascent, history, memory, oracle, radius, scaling, search
from jsketch.box.ellipsoid import ellipsoid, estimate
from jsketch.box.history import History
from jsketch.box.network import Network
from jsketch.box.oracle import LevenbergMarquardt
from jsketch.box.radius import OFUL
from jsketch.box.scaling import Scaling
from jsketch.box.search import Ball
from jsketch.linalg import matmul, put
from jsketch.sketch.tangent import Flat, flatten
from jsketch.types import Box, BoxQuery, PRNGKey

BALL_RATE = 0.5  # first step of the ascent over u, |u| <= 1; it falls as that over x does


@struct.dataclass
class Proposal:
    """How a point was chosen; values in units of y, NaN in phase I."""

    beta: Array  # [], beta_t
    distance: Array  # [], |w - w_t|_Sigma^2 of the optimistic w, <= beta_t
    acquisition: Array  # [], f_w(x_t)
    at_starts: (
        Array  # [], the largest acquisition where the ascent started: the best of the random candidates
    )


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
class GOState:
    box: Box
    initial: Array  # [n, d]
    history: History
    scaling: Scaling  # fixed at the end of phase I, unless refitted
    w0: Array  # [d_w]
    centre: Array  # [d_w], w_t
    gradients: Array  # [N, d_w], g_i at w_i; zero where nothing was learned
    targets: Array  # [N], g_i^T w_i + y_i - f_{x_i}(w_i); zero where nothing was learned


@struct.dataclass
class GOInfo:
    """`BoxInfo`, and how the point was chosen."""

    observed: Array  # [] int32
    failed: Array  # [] int32
    best: Array  # []
    proposal: Proposal


@struct.dataclass
class GOUCB:
    """One evaluation at a time, after `initial` uniform ones. Inputs are scaled to [-1,1], values by mean and deviation of
    phase I (`scaling`), so that one set of numbers serves all problems; `printed` has the paper's own.

    acquisition: "ball", the joint maximum over x and w by ascent in whitened coordinates; "first_order", the maximum of the
    linearization in w; "plain", plain gradient steps over x and w, as printed.

    Three fields go beyond the paper, and its theorem does not cover them. `reach` < 1 maximises over points whose inputs
    differ from the best observed point's by at most that share of a side: the maximum of a network over a whole box lies in
    a corner of it, far from all that it was fitted to. `exploration_rows` counts phase I's points, at w0, in eqs. 3 and 5,
    which otherwise forget them. `refit` moves w_t to a least-squares fit of all observations after each of them, with
    gradients and scaling taken anew, instead of eq. 5.
    """

    schedule: Any = OFUL()
    oracle: Any = LevenbergMarquardt()
    regularization: ArrayLike | None = 0.01  # lam; None is the printed sqrt(T) log^2 T
    reach: ArrayLike = 0.05
    rate: ArrayLike = 0.05  # of the ascent over x; Adam's falls to zero along a cosine
    model: Any = struct.field(pytree_node=False, default=Network())
    acquisition: str = struct.field(pytree_node=False, default="ball")
    refit: bool = struct.field(pytree_node=False, default=False)
    exploration_rows: bool = struct.field(pytree_node=False, default=True)
    standardize: bool = struct.field(pytree_node=False, default=True)
    initial: int = struct.field(pytree_node=False, default=8)  # n
    candidates: int = struct.field(pytree_node=False, default=256)
    starts: int = struct.field(pytree_node=False, default=16)
    steps: int = struct.field(pytree_node=False, default=60)
    from_best: bool = struct.field(pytree_node=False, default=True)  # the best observed point starts too

    def init(self, box: Box, key: PRNGKey, horizon: int) -> GOState:
        """Nothing evaluated yet; horizon counts both phases. Raises ValueError on static mistakes, and for more candidates
        or starts than memory allows."""
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
            lambda: (state.initial[0], Proposal(nan, nan, nan, nan)),
            lambda: self.propose(state, key),
        )
        query = history.query(state.history, state.initial, lambda: x[None])
        return GOQuery(query.x, query.mask, proposal)

    def tell(self, state: GOState, query: GOQuery, y: Array, key: PRNGKey) -> tuple[GOState, GOInfo]:
        """Learns y [B]: the oracle's fit after phase I, then one row of eqs. 3 and 5 an evaluation."""
        after = history.add(state.history, BoxQuery(query.x, query.mask), y)
        new = lax.cond(
            state.history.count == 0,
            lambda: self._explored(state.replace(history=after), key),
            lambda: self._learned(state, after),
        )
        news = history.info(state.history, after)
        return new, GOInfo(news.observed, news.failed, news.best, query.proposal)

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
        return Ball(sigma, state.centre, self.schedule.squared_radius(step))

    def propose(self, state: GOState, key: PRNGKey) -> tuple[Array, Proposal]:
        """x_t [d] and how it was chosen."""
        model, ball = flatten(self.model, state.box.lower), self.ball(state)
        lower, upper = self._region(state)
        form = {"ball": search.whitened, "plain": search.plain, "first_order": search.linearized}
        chosen = form[self.acquisition](model, ball)
        z = self._candidates(state, key, lower, upper)
        _, u = jax.vmap(lambda z: search.first_order(model, ball, z))(z)
        p = jax.vmap(chosen.start)(u)
        top = self._starts(jax.vmap(chosen.value)(z, p))

        def project(z: Array, p: Array) -> tuple[Array, Array]:
            return jnp.clip(z, lower, upper), chosen.project(p)

        found = ascent.maximise(chosen.value, project, z[top], p[top], self._rule(z.dtype), self.steps)
        distance = ball.sigma.squared_norm(chosen.move(found.x, found.u))
        values = state.scaling.rewards(jnp.stack([found.value, found.starts.max()]))
        x = jnp.clip(state.scaling.points(found.x), state.box.lower, state.box.upper)
        return x, Proposal(ball.beta, distance, values[0], values[1])

    def _rule(self, dtype: Any) -> optax.GradientTransformation:
        rate = jnp.asarray(self.rate, dtype)
        if self.acquisition == "plain":
            return optax.sgd(rate)

        def falling(first: ArrayLike) -> optax.Schedule:
            return lambda count: first * (1 + jnp.cos(jnp.pi * count.astype(dtype) / self.steps)) / 2

        # Adam scales every coordinate by itself, which suits a box; on the surface of a ball that would not end where
        # the gradient points along u, so u moves by its normalized gradient
        along = optax.chain(
            optax.normalize_by_update_norm(), optax.sgd(falling(jnp.asarray(BALL_RATE, dtype)))
        )
        return optax.partition({"x": optax.adam(falling(rate)), "u": along}, ("x", "u"))

    def _region(self, state: GOState) -> tuple[Array, Array]:
        """(lower [d], upper [d]) of the points within reach, in the model's units."""
        around = state.scaling.inputs(history.best(state.history)[0])
        reach = self.reach * (state.box.upper - state.box.lower) / state.scaling.half
        lower, upper = state.scaling.inputs(state.box.lower), state.scaling.inputs(state.box.upper)
        return jnp.maximum(lower, around - reach), jnp.minimum(upper, around + reach)

    def _candidates(self, state: GOState, key: PRNGKey, lower: Array, upper: Array) -> Array:
        """The best observed point, then uniform points of the region and small moves of the best, half each, [1 + C, d]."""
        best = state.scaling.inputs(history.best(state.history)[0])
        uniform_key, move_key = jax.random.split(key)
        half = self.candidates // 2
        uniform = jax.random.uniform(uniform_key, (self.candidates - half, *best.shape), best.dtype)
        moves = 0.1 * (upper - lower) * jax.random.normal(move_key, (half, *best.shape), best.dtype)
        around = jnp.clip(best + moves, lower, upper)
        return jnp.concatenate([best[None], lower + uniform * (upper - lower), around])

    def _starts(self, scores: Array) -> Array:
        """Which candidates with these scores [1 + C] start, [K]: the best observed point, the best of all, and, as those may
        lie on one hill, as many uniform ones."""
        uniform = (self.starts - 1) // 2
        others = jnp.arange(1, 1 + uniform, dtype=jnp.int32)
        scores = scores.at[others].set(-jnp.inf).at[0].set(jnp.inf if self.from_best else -jnp.inf)
        return jnp.concatenate([others, lax.top_k(scores, self.starts - uniform)[1].astype(jnp.int32)])

    def _explored(self, state: GOState, key: PRNGKey) -> GOState:
        """The state after phase I: scaling and w0."""
        model, past = flatten(self.model, state.box.lower), state.history
        units = scaling.standard(state.box, past) if self.standardize else scaling.identity(state.box)
        x, y = units.inputs(past.x), units.values(past.y)
        # of the horizon's slots only the first are in use
        n = min(self.initial, past.capacity)
        w0 = oracle.fit(self.oracle, model, x[:n], y[:n], past.ok[:n], key).w
        state = state.replace(scaling=units, w0=w0, centre=w0)
        return self._with_rows(state, past.ok) if self.exploration_rows else state

    def _with_rows(self, state: GOState, ok: Array) -> GOState:
        """Rows of the evaluations with ok [N], all taken at the centre."""
        model, past = flatten(self.model, state.box.lower), state.history
        values, gradients = model.features(state.centre, state.scaling.inputs(past.x))
        gradients = jnp.where(ok[:, None], gradients, 0)
        residual = state.scaling.values(past.y) - values
        targets = jnp.where(ok, matmul(gradients, state.centre) + residual, 0)
        return state.replace(gradients=gradients, targets=targets)

    def _learned(self, state: GOState, after: History) -> GOState:
        """The state after an evaluation of phase II, the last of `after`."""
        new = state.replace(history=after)
        return self._refitted(new) if self.refit else self._with_one_row(new)

    def _with_one_row(self, state: GOState) -> GOState:
        """The last evaluation's row, at the w_t with which it was chosen, and w_{t+1} (eqs. 3 and 5)."""
        model, past = flatten(self.model, state.box.lower), state.history
        slot = past.count - 1
        z = state.scaling.inputs(past.x[slot])
        value, gradient = jax.value_and_grad(model.value)(state.centre, z)
        gradient = jnp.where(past.ok[slot], gradient, 0)
        residual = jnp.where(past.ok[slot], state.scaling.values(past.y[slot]) - value, 0)
        gradients = put(state.gradients, slot, gradient)
        targets = put(state.targets, slot, matmul(gradient, state.centre) + residual)
        sigma = ellipsoid(gradients, self._regularization(state))
        return state.replace(
            gradients=gradients, targets=targets, centre=estimate(sigma, gradients, targets, state.w0)
        )

    def _refitted(self, state: GOState) -> GOState:
        """Scaling, centre and all rows anew."""
        model, past = flatten(self.model, state.box.lower), state.history
        units = scaling.standard(state.box, past) if self.standardize else state.scaling
        x, y = units.inputs(past.x), units.values(past.y)
        w = self.oracle.refine(model, state.centre, x, y, past.ok).w
        return self._with_rows(state.replace(scaling=units, centre=w), past.ok)

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
                f"starts are chosen from {self.candidates} candidates and the best observed point; {self.starts} were given."
            )
        self.schedule.check()
        self.oracle.check()
        # a candidate holds its gradient and its u, a start the position, Adam's two moments, the best and their updates
        floats = self.candidates * (2 * model.size + horizon) + self.starts * (10 * model.size + 2 * horizon)
        memory.check(
            floats * itemsize,
            f"{self.candidates} candidates and {self.starts} starts of {model.size} parameters",
            "take fewer",
        )


def printed(initial: int, **changes: Any) -> GOUCB:
    """The settings of Appendix D.1: no scaling, SGD at rate 1e-11, lam = sqrt(T) log^2 T, beta_t = d_w^3 t / T (F = 1), 2000
    plain gradient steps of 1e-4. Where the ascent starts is not printed: here, at the best observed point, or, with
    from_best=False, at a uniform one."""
    settings = GOUCB(
        schedule=radius.Printed(),
        oracle=oracle.printed(),
        regularization=None,
        reach=1.0,
        rate=1e-4,
        acquisition="plain",
        exploration_rows=False,
        standardize=False,
        initial=initial,
        candidates=1,
        starts=1,
        steps=2000,
    )
    return settings.replace(**changes)

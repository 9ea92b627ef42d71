"""GO-UCB: optimistic maximisation of a parametric function over a box.

Liu, Wang. Global optimization with parametric function approximation. ICML 2023, Algorithm 1
(THEORY 8.1 to 8.3). Phase I evaluates n uniform points and fits w0 to the values. Phase II keeps a
ball of parameters around w_t and evaluates x_t = argmax_x max_{w in Ball_t} f_w(x). Projected
gradient ascent over x and over u with |u| <= 1, where w = w_t + sqrt(beta_t) Sigma_t^-1/2 u, finds
this maximum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks, struct
from jsketch.box import history
from jsketch.box.go_ucb import ball as balls
from jsketch.box.go_ucb import model as models
from jsketch.box.go_ucb.ball import OFUL, Ball, ellipsoid, estimate
from jsketch.box.go_ucb.model import Gradient, LevenbergMarquardt, Network, finite_rows, flatten
from jsketch.box.history import History, Scaling, identity_scaling, standard_scaling
from jsketch.linalg import lazy_cond, matmul, put
from jsketch.precision import one_dtype
from jsketch.search import ascend
from jsketch.types import Box, BoxInfo, BoxQuery, PRNGKey

FORMS = {
    "ball": balls.whitened_form,
    "plain": balls.plain_form,
    "first_order": balls.linearized_form,
}
# The length of a step of the ascent over w, in radii of the ball. A long step that is projected
# back follows the gradient along the surface.
BALL_RATE = 2.0
# Over this last share of the steps the length falls to zero, to reach maxima inside the ball.
BALL_DECAY = 0.1
GRADIENT_EVERY = 4  # every fourth start moves w along the gradient, the others at random


@struct.dataclass
class GOState:
    box: Box
    initial: Array  # [n, d], points of the first round
    history: History
    scaling: Scaling  # from the values of phase I; with `refit`, from all observations
    w0: Array  # [d_w], the fit to phase I
    centre: Array  # [d_w], w_t
    gradients: Array  # [N, d_w], g_i at w_i; unused rows are zero
    targets: Array  # [N], g_i^T w_i + y_i - f_{x_i}(w_i); unused rows are zero


@struct.dataclass
class Proposal:
    """Diagnostics of a proposed point. The numbers are NaN in phase I and, except for beta, if
    `fallback` is true."""

    beta: Array  # [], beta_t
    distance: Array  # [], |w - w_t|_Sigma^2 of the optimistic w, <= beta_t
    acquisition: Array  # [], f_w(x_t), in units of y
    at_starts: Array  # [], the largest acquisition at the starts of the ascent, in units of y
    # [] bool: the ascent found no finite acquisition, so the point is a uniform one
    fallback: Array


@struct.dataclass
class GOQuery(BoxQuery):
    proposal: Proposal


class Exclusions(NamedTuple):
    """The parameters and rows that a round excluded because they are not finite."""

    diverged: Array  # [] bool, whether the new parameters or their loss are not finite
    rows: Array  # [] int32, number of rows that the round computed and excluded from eqs. 3 and 5


@struct.dataclass
class GOInfo(BoxInfo):
    proposal: Proposal
    # [] bool: the new parameters or their loss are not finite; new parameters that are not finite
    # are replaced by the previous ones
    diverged: Array
    # [] int32, number of rows that this round computed (all rows with `refit`) and excluded from
    # eqs. 3 and 5, because the model's value or gradient is not finite
    nonfinite_rows: Array

    @property
    def nonfinite(self) -> Array:
        """[] bool: the round excluded parameters, rows or starts that are not finite."""
        return self.diverged | (self.nonfinite_rows > 0) | self.proposal.fallback


@struct.dataclass
@one_dtype
class GOUCB(struct.Settings):
    """GO-UCB: `initial` uniform points in the first round, then one point a round.

    schedule        beta_t, a schedule of `ball` such as `OFUL`
    oracle          the method of least-squares fits, `LevenbergMarquardt` or `Gradient`
    regularization  lam; None is the paper's sqrt(T) log^2 T
    reach           the largest distance of a point from the best observed one in each input, as a
                    share of the box's side. Over a whole box the maximum of a network lies in a
                    corner, far from all observations
    rate            the first step size of Adam in the ascent over x, which falls to zero as a
                    cosine; for "plain", the constant step size of gradient ascent over x and w
    model           the parametric function (`box.go_ucb.model`)
    acquisition     "ball", the joint maximum over x and w by ascent in whitened coordinates;
                    "first_order", the maximum of the linearization in w; "plain", the paper's
                    gradient steps over x and w
    refit           after each evaluation w_t is a least-squares fit of all observations. False:
                    w_t is the estimate of eq. 5, which may stop moving; the same point is then
                    chosen again
    exploration_rows  eqs. 3 and 5 include the points of phase I; a refit always includes them
    standardize     inputs are scaled to [-1,1], and values to mean 0 and deviation 1: the mean and
                    the deviation of phase I or, with `refit`, of all observations
    initial         int, uniform points of phase I
    candidates      int, number of random points that are scored before the ascent
    starts          int, number of candidates from which the ascent starts
    steps           int, number of steps of the ascent
    from_best       the best observed point is one of the starts

    A `reach` below 1, `refit` and `exploration_rows` go beyond the paper, and its theorem does not
    cover them. `printed` returns the optimiser with the settings of the paper's Appendix D.1. The
    defaults were chosen on other functions than the paper's (experiments/go_ucb_2023/choose.py).

    Example:

        run(GOUCB(initial=4, steps=20), problems.on_box(f, box), jax.random.key(0), 8).best  # [8]
    """

    schedule: Any = OFUL()
    oracle: Any = LevenbergMarquardt()
    regularization: ArrayLike | None = 0.01
    reach: ArrayLike = 0.02
    rate: ArrayLike = 0.05
    model: Any = struct.field(pytree_node=False, default=Network())
    acquisition: str = struct.field(pytree_node=False, default="ball")
    refit: bool = struct.field(pytree_node=False, default=True)
    exploration_rows: bool = struct.field(pytree_node=False, default=True)
    standardize: bool = struct.field(pytree_node=False, default=True)
    initial: int = struct.field(pytree_node=False, default=8)
    candidates: int = struct.field(pytree_node=False, default=256)
    starts: int = struct.field(pytree_node=False, default=16)
    steps: int = struct.field(pytree_node=False, default=60)
    from_best: bool = struct.field(pytree_node=False, default=True)
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"acquisition": tuple(FORMS)}

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> GOState:
        """The state before any evaluation; `horizon` counts both phases. Raises ValueError for
        invalid settings, and for a horizon whose state is larger than memory."""
        checks.no_evaluations(self, data)
        box, horizon = history.checked_box(domain), checks.horizon(horizon)
        model = flatten(self.model, box.lower)
        for part in (self, self.schedule, self.oracle):
            checks.settings(part)
        checks.positive_integer(restarts=self.oracle.restarts)
        if self.starts > self.candidates + 1:
            raise ValueError(
                f"starts are chosen from {self.candidates} candidates and the best observed point;"
                f" {self.starts} were given."
            )
        empty_history = history.empty(box, horizon, other_floats=horizon * model.size)
        w = jnp.zeros(model.size, box.lower.dtype)
        return GOState(
            box=box,
            initial=history.initial_points(box, key, self.initial, horizon),
            history=empty_history,
            scaling=identity_scaling(box),
            w0=w,
            centre=w,
            gradients=jnp.zeros((horizon, model.size), w.dtype),
            targets=jnp.zeros(horizon, w.dtype),
        )

    def ask(self, state: GOState, key: PRNGKey, limit: ArrayLike | None = None) -> GOQuery:
        nan = jnp.full((), jnp.nan, state.w0.dtype)
        x, proposal = lax.cond(
            state.history.count == 0,
            lambda: (state.initial[0], Proposal(nan, nan, nan, nan, jnp.zeros((), bool))),
            lambda: self.propose(state, key),
        )
        query = history.query(state.history, state.initial, lambda: x[None], limit)
        return GOQuery(query.x, query.mask, proposal)

    def tell(
        self, state: GOState, query: GOQuery, y: Array, key: PRNGKey
    ) -> tuple[GOState, GOInfo]:
        """(state, info) after the values y [B]. After phase I the oracle fits w0; after each later
        evaluation it refits w_t or, without `refit`, eqs. 3 and 5 get one more row."""
        observed = history.add(state.history, query, y)
        none_excluded = Exclusions(jnp.zeros((), bool), jnp.zeros((), jnp.int32))
        is_first_round, no_change = state.history.count == 0, (state, none_excluded)
        after_phase_one = lazy_cond(
            is_first_round,
            lambda _: self._fit_phase_one(replace(state, history=observed), key),
            no_change,
        )
        new, exclusions = lazy_cond(
            ~is_first_round, lambda _: self._add_evaluation(state, observed), after_phase_one
        )
        # a query beyond the horizon is empty and changes nothing
        new = jax.tree.map(lambda old, new: jnp.where(query.size > 0, new, old), state, new)
        info = history.info(state.history, observed)
        return new, GOInfo(info.observed, info.failed, info.best, query.proposal, *exclusions)

    def ball(self, state: GOState) -> Ball:
        """Ball_t around w_t (eqs. 3 and 6)."""
        sigma = ellipsoid(state.gradients, self._regularization(state))
        step = balls.Step(
            t=state.history.count - self.initial + 1,
            horizon=max(state.history.capacity - self.initial, 1),
            parameters=state.w0.shape[0],
            regularization=sigma.regularization,
            logdet=sigma.logdet,
            scale=state.scaling.deviation,
        )
        return Ball(sigma, state.centre, self.schedule(step))

    def propose(self, state: GOState, key: PRNGKey) -> tuple[Array, Proposal]:
        """(the next point x_t [d] of phase II, its diagnostics)."""
        ball = self.ball(state)
        model = flatten(self.model, state.box.lower)
        best, lower, upper = self._region(state)
        form = FORMS[self.acquisition](model, ball)
        candidate_key, direction_key = jax.random.split(key)
        candidates = self._candidates(best, lower, upper, candidate_key)
        values, gradients = model.features(ball.centre, candidates)
        # an evaluation at a point without a finite gradient would add no row
        usable = finite_rows(values, gradients)
        gradients = jnp.where(usable[:, None], gradients, 0)

        def score(pairs: tuple[Array, Any]) -> Array:
            values = jax.vmap(form.value)(*pairs)
            return jnp.where(jnp.isfinite(values), values, -jnp.inf)

        def score_and_gradients(
            _: Any, pairs: tuple[Array, Any]
        ) -> tuple[Array, tuple[Array, Any]]:
            differentiate = jax.vmap(jax.value_and_grad(form.value, (0, 1)))
            values, (x_gradients, p_gradients) = differentiate(*pairs)
            values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
            return values, (x_gradients, jax.vmap(form.direction)(p_gradients))

        def project(pairs: tuple[Array, Any]) -> tuple[Array, Any]:
            z, p = pairs  # z is x in the model's units
            return jnp.clip(z, lower[None, :], upper[None, :]), jax.vmap(form.project)(p)

        scores = score((candidates, jax.vmap(form.start)(gradients)))
        positions = self._start_positions(scores, usable)
        directions = self._directions(gradients[positions], direction_key)
        starts = candidates[positions], jax.vmap(form.start)(directions)
        rule = self._rule(candidates.dtype)
        ascent = ascend(score, starts, rule, project, self.steps, score_and_gradients)
        winner = jnp.argmax(ascent.values)
        z, p = jax.tree.map(lambda leaf: leaf[winner], ascent.best)
        distance = ball.sigma.squared_norm(form.displacement(z, p))
        fallback = ~jnp.isfinite(ascent.values[winner])
        acquisition = jnp.stack([ascent.values[winner], score(starts).max()])
        diagnostics = jnp.append(distance, state.scaling.rewards(acquisition))
        # candidate 0 is the best observed point, candidate 1 a uniform one
        x = state.scaling.points(jnp.where(fallback, candidates[1], z))
        distance, value, at_starts = jnp.where(fallback, jnp.nan, diagnostics)
        proposal = Proposal(ball.beta, distance, value, at_starts, fallback)
        return jnp.clip(x, state.box.lower, state.box.upper), proposal

    def _region(self, state: GOState) -> tuple[Array, Array, Array]:
        """(the best observed point [d], lower [d] and upper [d] of the points within `reach` of it)
        in the model's units."""
        best = state.scaling.inputs(history.best(state.history)[0])
        reach = self.reach * (state.box.upper - state.box.lower) / state.scaling.half
        lower, upper = state.scaling.inputs(state.box.lower), state.scaling.inputs(state.box.upper)
        return best, jnp.maximum(lower, best - reach), jnp.minimum(upper, best + reach)

    def _candidates(self, best: Array, lower: Array, upper: Array, key: PRNGKey) -> Array:
        """The candidates [1 + C, d] in the model's units: the best observed point, C/2 uniform
        points of the region, and C/2 points that are the best point plus normal noise, whose
        deviation is a tenth of the region's side in each input."""
        uniform_key, move_key = jax.random.split(key)
        n_normal = self.candidates // 2
        lower, upper = lower[None, :], upper[None, :]
        n_uniform = self.candidates - n_normal
        uniform = jax.random.uniform(uniform_key, (n_uniform, *best.shape), best.dtype)
        normal = jax.random.normal(move_key, (n_normal, *best.shape), best.dtype)
        normal_points = jnp.clip(best[None, :] + 0.1 * (upper - lower) * normal, lower, upper)
        return jnp.concatenate([best[None], lower + uniform * (upper - lower), normal_points])

    def _start_positions(self, scores: Array, usable: Array) -> Array:
        """The positions [K] of the candidates from which the ascent starts, given their scores
        [1 + C]. Half of them are uniform candidates, because the others (the best observed point
        and those with the largest scores) may lie near one local maximum. Candidates that are not
        `usable` [1 + C] come last."""
        n_uniform = (self.starts - 1) // 2
        uniform_positions = jnp.arange(1, 1 + n_uniform, dtype=jnp.int32)
        score_of_best = jnp.inf if self.from_best else -jnp.inf
        scores = scores.at[uniform_positions].set(-jnp.inf).at[0].set(score_of_best)
        scores = jnp.where(usable, scores, -jnp.inf)
        best_positions = lax.top_k(scores, self.starts - n_uniform)[1].astype(jnp.int32)
        return jnp.concatenate([uniform_positions, best_positions])

    def _directions(self, gradients: Array, key: PRNGKey) -> Array:
        """The directions [K, d_w] in which w leaves the centre at each start: the gradients
        [K, d_w] at every fourth start, and random directions at the others, because a network has
        many local maxima in w and the gradient leads to only one of them. At the candidate with the
        largest score the direction is always the gradient."""
        # the slot after the uniform candidates and, with `from_best`, the best observed point
        best_slot = (self.starts - 1) // 2 + (self.from_best and self.starts > 1)
        slots = jnp.arange(self.starts, dtype=jnp.int32)[:, None]
        random_directions = jax.random.normal(key, gradients.shape, gradients.dtype)
        return jnp.where((slots - best_slot) % GRADIENT_EVERY == 0, gradients, random_directions)

    def _rule(self, dtype: DTypeLike) -> optax.GradientTransformation:
        """The optax rule of the ascent over (x, p)."""
        rate = jnp.asarray(self.rate, dtype)
        if self.acquisition == "plain":
            return optax.sgd(rate)

        def cosine(count: Array) -> Array:
            return rate * (1 + jnp.cos(jnp.pi * count.astype(dtype) / self.steps)) / 2

        def constant_then_decay(count: Array) -> Array:
            remaining = (self.steps - count.astype(dtype)) / (self.steps * BALL_DECAY)
            return BALL_RATE * jnp.minimum(remaining, 1)

        # Adam scales every coordinate separately, which suits a box. On the surface of a ball Adam
        # would not converge to the point where the gradient is normal to the surface.
        ball_rule = optax.sgd(constant_then_decay)
        return optax.partition({"x": optax.adam(cosine), "p": ball_rule}, ("x", "p"))

    def _fit_phase_one(self, state: GOState, key: PRNGKey) -> tuple[GOState, Exclusions]:
        """(the state after phase I, with its scaling and w0; exclusions). If the oracle diverges,
        w0 is one of its random starts."""
        model, observed = flatten(self.model, state.box.lower), state.history
        scaling = self._scaling(state)
        x, y = scaling.inputs(observed.x), scaling.values(observed.y)
        n = min(self.initial, observed.capacity)
        fit = models.fit(self.oracle, model, x[:n], y[:n], observed.ok[:n], key)
        state = replace(state, scaling=scaling, w0=fit.w, centre=fit.w)
        n_excluded = jnp.zeros((), jnp.int32)
        if self.exploration_rows:
            state, n_excluded = self._recompute_rows(state)
        return state, Exclusions(~jnp.isfinite(fit.loss), n_excluded)

    def _add_evaluation(self, state: GOState, observed: History) -> tuple[GOState, Exclusions]:
        """(state, exclusions) after the last evaluation of `observed`, which is in phase II."""
        new = replace(state, history=observed)
        if self.refit:
            return self._refit(new)
        if not self.standardize:
            return self._append_row(new)
        return lax.cond(
            # values were not scaled before, because fewer than two values have no deviation
            state.history.ok.sum() < 2,
            lambda: self._rescale(new),
            lambda: self._append_row(new),
        )

    def _scaling(self, state: GOState) -> Scaling:
        if not self.standardize:
            return identity_scaling(state.box)
        return standard_scaling(state.box, state.history)

    def _rescale(self, state: GOState) -> tuple[GOState, Exclusions]:
        """(the state with all rows in the scaling of the first two values; exclusions)."""
        state = replace(state, scaling=self._scaling(state), centre=state.w0)
        state, n_excluded = self._recompute_rows(state)
        return state, Exclusions(diverged=jnp.zeros((), bool), rows=n_excluded)

    def _append_row(self, state: GOState) -> tuple[GOState, Exclusions]:
        """(the state with w_{t+1} and the row of the last evaluation at w_t; exclusions)."""
        model, observed = flatten(self.model, state.box.lower), state.history
        slot = observed.count - 1
        z = state.scaling.inputs(observed.x[slot])
        value, gradient = jax.value_and_grad(model.value)(state.centre, z)
        y = state.scaling.values(observed.y[slot])
        row, target, excluded = compute_rows(state.centre, value, gradient, y, observed.ok[slot])
        gradients = put(state.gradients, slot, row)
        targets = put(state.targets, slot, target)
        sigma = ellipsoid(gradients, self._regularization(state))
        w = estimate(sigma, gradients, targets, state.w0)
        centre, diverged = finite_or_previous(w, state.centre)
        state = replace(state, gradients=gradients, targets=targets, centre=centre)
        return state, Exclusions(diverged, excluded.astype(jnp.int32))

    def _refit(self, state: GOState) -> tuple[GOState, Exclusions]:
        """(the state with its scaling, centre and rows from all observations; exclusions)."""
        model, observed = flatten(self.model, state.box.lower), state.history
        scaling = self._scaling(state)
        x, y = scaling.inputs(observed.x), scaling.values(observed.y)
        fit = self.oracle.refine(model, state.centre, x, y, observed.ok)
        w, diverged = finite_or_previous(fit.w, state.centre)
        state, n_excluded = self._recompute_rows(replace(state, scaling=scaling, centre=w))
        # the loss of values that are not standardized may overflow, and then no step reduces it
        return state, Exclusions(diverged | ~jnp.isfinite(fit.loss), n_excluded)

    def _recompute_rows(self, state: GOState) -> tuple[GOState, Array]:
        """(the state with the rows of all evaluations at the centre, how many are excluded)."""
        model, observed = flatten(self.model, state.box.lower), state.history
        values, gradients = model.features(state.centre, state.scaling.inputs(observed.x))
        y = state.scaling.values(observed.y)
        gradients, targets, excluded = compute_rows(state.centre, values, gradients, y, observed.ok)
        return replace(state, gradients=gradients, targets=targets), excluded.sum(dtype=jnp.int32)

    def _regularization(self, state: GOState) -> ArrayLike:
        if self.regularization is not None:
            return self.regularization
        return balls.printed_regularization(max(state.history.capacity - self.initial, 1))


def finite_or_previous(new: Array, previous: Array) -> tuple[Array, Array]:
    """(`new` if all its entries are finite, otherwise `previous`; whether `new` is not finite)."""
    diverged = ~jnp.isfinite(new).all()
    return jnp.where(diverged, previous, new), diverged


def compute_rows(
    w: Array, values: Array, gradients: Array, y: Array, ok: Array
) -> tuple[Array, Array, Array]:
    """(rows [..., d_w], targets [...], whether each row is excluded [...]) of observations y [...],
    given the model's values f_{x_i}(w) [...] and gradients g_i [..., d_w]. Row i is g_i, and its
    target is g_i^T w + y_i - f_{x_i}(w). A row that is not finite is excluded. Excluded rows, and
    those of failed evaluations (ok [...] is false), are zero."""
    targets = matmul(gradients, w) + (y - values)
    usable = ok & finite_rows(values, gradients) & jnp.isfinite(targets)
    rows = jnp.where(usable[..., None], gradients, 0)
    return rows, jnp.where(usable, targets, 0), ok & ~usable


def printed(initial: int, **changes: Any) -> GOUCB:
    """`GOUCB` with the settings of Appendix D.1, except for the fields in `changes`.

    SGD at rate 1e-11 hardly moves the random initial parameters (THEORY 8.3). The paper does not
    specify where the ascent starts: here it starts at the best observed point or, with
    from_best=False, at a uniform one."""
    optimizer = GOUCB(
        schedule=balls.Printed(),
        oracle=Gradient(rate=1e-11, rule="sgd", steps=2000, restarts=1),
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
    return replace(optimizer, **changes)

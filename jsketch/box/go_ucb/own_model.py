"""GO-UCB for a law that the user knows: `ModelGOUCB`.

The ball of GO-UCB (eqs. 3, 5 and 6) is the confidence ellipsoid of the law's parameters, in the
coordinates of `Parametric`, and the next point maximises the law optimistically over it. In place
of uniform points, phase I has the starting guesses and their prior: w_0 = 0, lam = sigma^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.box import history
from jsketch.box.go_ucb import law_fit
from jsketch.box.go_ucb.law_fit import LawFit, Posterior, Values
from jsketch.box.go_ucb.parametric import Parametric
from jsketch.box.history import History, from_unit, to_unit
from jsketch.devices import RUN_ONCE, one_program
from jsketch.kernels import Matern
from jsketch.numerics import matmul
from jsketch.precision import one_dtype
from jsketch.search import maximise_over_cube
from jsketch.types import Box, BoxInfo, BoxQuery, PRNGKey, is_traced
from jsketch.warn import warn

# The score of a check adds CHECK standard deviations of a Gaussian process, which is far from all
# evaluations as uncertain as the law varies over the box; its lengthscale is in diagonals
CHECK, CHECK_LENGTHSCALE, CHECK_NUGGET, CHECK_POINTS = 1.0, 0.3, 1e-2, 128
DRAWS = 128  # of the posterior, for the standard deviations of parameters
# random starts of the fits that intervals of parameters reach around, and their steps in those of
# other fits: a fit that has not converged, in the interval already, would widen it
FITS, FIT_LENGTH = 16, 4
SCORE_STEPS = 15  # Gauss-Newton steps of a draw for the scores of points
IDENTIFIED = 0.5  # posterior over prior standard deviation, below which a parameter is identified


@struct.dataclass
class ModelState:
    """What a run of `ModelGOUCB` has learned."""

    box: Box
    initial: Array  # [n, d], uniform points of the first round
    history: History  # the earlier evaluations, and those of the run
    pending: Array  # [P, d], points whose values are not observed yet
    is_pending: Array  # [P] bool, whether the slot is in use
    fit: LawFit

    @property
    def misfit(self) -> Array:
        """[] bool, whether the law does not describe the values (`law_fit.misfit`)."""
        return self.fit.discrepancy.is_needed


@struct.dataclass
class ModelInfo(BoxInfo):
    """A record of a round of `ModelGOUCB`."""

    noise_std: Array  # [], the estimate of the noise's standard deviation
    left_out: Array  # [] int32, evaluations left out, because the law is not finite there
    misfit: Array  # [] bool, whether the law does not describe the values

    @property
    def nonfinite(self) -> Array:
        """[] bool, whether evaluations were left out."""
        return self.left_out > 0


class Estimate(NamedTuple):
    """A fitted parameter, of the shape of the parameter."""

    value: Any
    lower: Any  # of the interval
    upper: Any
    # bool, whether the evaluations determine the parameter: if not, the interval is mostly that of
    # the prior, which the guess and the bounds determine, or it includes other fits that describe
    # the values as well
    identified: Any
    # int, which bound holds the parameter: -1 the lower one, 1 the upper one, 0 none. The
    # evaluations speak for a value beyond this bound. The parameter is not identified then, and its
    # interval is one-sided: it begins or ends at the bound
    at_bound: Any


@struct.dataclass
@one_dtype
class ModelGOUCB(struct.Settings):
    """GO-UCB for a law of one's own: the parameters of `model` are fitted to all evaluations, and
    the next point is the maximum of the law over all points and all parameters that the evaluations
    allow.

    The score of a point is the mean of the law plus `width` standard deviations, of the law that is
    linearised at the fit. With `draws`, they are those over so many parameters that the evaluations
    allow (`law_fit.draws`), unless the law is nearly linear in them, or half of them fail at the
    point. This suits a law of many parameters that can be exchanged, such as a small network, whose
    fits are far from one another, and costs regret where one fit is enough.

    The parameters have a normal prior around the starting guesses, a quarter of their range wide,
    so that no parameter has to be identified before the first choice. The paper's own algorithm
    with this model is `GOUCB(model=model)`.

    A failed evaluation says nothing of the law. No point is chosen whose nearest evaluation failed,
    and before the first success, points after a failure are random.

    model           a `Parametric`, a function of named inputs and parameters
    width           radius of the ball, in posterior standard deviations of the law
    draws           int, of the parameters, for the scores of a law that is not nearly linear and
                    has no Gaussian process of its residuals, such as 16. 0: there are no draws
    noise_std       the standard deviation of the noise, in units of y; None: it is estimated
    discrepancy     what happens if the law may not describe the values: "gp" adds a Gaussian
                    process of the residuals to the law as soon as it increases the log evidence by
                    law_fit.EVIDENCE_ADDED, earlier than a warning (`describes`); "ignore" adds
                    nothing
    check_every     int, every so many evaluations one is a check: it goes where the law has large
                    values far from all evaluations, because a wrong law may otherwise choose one
                    point forever, where nothing contradicts it. 0: there are no checks
    batch           int, points of a round; each of them expects the others to have the mean value
    max_pending     int, the largest number of points that may be pending (`pend`)
    initial         int, uniform points of the first round; 0: the guesses choose the first point
    restarts        int, random starts of a fit, besides the guesses and the last fit
    fit_steps       int, Gauss-Newton steps from each start
    candidates      int, random points among which the starts of the ascent are chosen
    starts          int, ascents from the best candidates of each half
    steps           int, steps of each ascent

    Example:

        def law(a, b, height, middle):
            return height * jnp.exp(-((a - middle) ** 2)) - b

        model = Parametric(law, dict(height=(0.1, 10, 1), middle=(0, 1, 0.5)))
        run(ModelGOUCB(model), problems.on_box(f, box), jax.random.key(0), 8).trace.best  # [8]
    """

    model: Any = struct.component(components.MODEL, pytree_node=False)
    width: ArrayLike = struct.number(0.7, at_least=0)
    draws: int = struct.size(0, at_least=0)
    noise_std: ArrayLike | None = struct.number(None, above=0)
    discrepancy: str = struct.choice("gp", of=("gp", "ignore"))
    check_every: int = struct.size(5, at_least=0)
    batch: int = struct.size(1)
    max_pending: int = struct.size(0, at_least=0)
    initial: int = struct.size(0, at_least=0)
    restarts: int = struct.size(3)
    fit_steps: int = struct.size(30)
    candidates: int = struct.size(512)
    starts: int = struct.size(4)
    steps: int = struct.size(50)

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: Any = None
    ) -> ModelState:
        """The state before the first round.

        horizon  int, evaluations of the run, besides those of `data`
        data     earlier evaluations (x [n, d], y [n]), NaN where one failed; with data there are no
                 uniform points

        Raises ValueError for invalid settings, for `initial` beyond the horizon, for data of other
        shapes or outside the box, and for a model that is not a function of the box's inputs, has a
        Python branch on its arguments, does not return one number, is not finite for the guesses,
        or does not depend on one of its parameters.
        """
        box, horizon = history.checked_box(domain), checks.horizon(horizon)
        if not isinstance(self.model, Parametric):
            raise ValueError(
                "ModelGOUCB needs a law, Parametric(function, parameters); for another model, such"
                f" as a network, use LocalGOUCB(model=...). {self.model!r} was given."
            )
        checks.settings(self)
        if self.noise_std is not None:
            checks.positive(noise_std=self.noise_std)
        self.model.check(box)
        x, y = _checked_data(box, data)
        past = history.empty(box, horizon + len(y), other_floats=3 * (horizon + len(y)) ** 2)
        initial = jnp.zeros((0, box.lower.size), box.lower.dtype)
        if self.initial and not len(y):
            initial = history.initial_points(box, key, self.initial, horizon)
        pending = jnp.zeros((self.max_pending, box.lower.size), box.lower.dtype)
        no_slot = jnp.zeros(self.max_pending, bool)
        fit = law_fit.empty_fit(self.model, box.lower)
        state = ModelState(box, initial, past, pending, no_slot, fit)
        return _observed(self, state, x, y, key) if len(y) else state

    def ask(self, state: ModelState, key: PRNGKey, limit: ArrayLike | None = None) -> BoxQuery:
        """The uniform points of the first round, and later `batch` points."""
        slots = max(len(state.initial), self.batch)

        def padded(x: Array) -> Array:
            return jnp.pad(x, ((0, slots - len(x)), (0, 0)), mode="edge")

        is_first = (state.history.count == 0) & ~state.is_pending.any() & (len(state.initial) > 0)
        if len(state.initial):
            x = lax.cond(
                is_first,
                lambda: padded(state.initial),
                lambda: padded(self._propose(state, key)),
            )
        else:
            x = padded(self._propose(state, key))
        n_points = jnp.where(is_first, len(state.initial), self.batch)
        n_pending = state.is_pending.sum(dtype=jnp.int32)
        free = history.n_remaining(state.history, limit) - n_pending
        size = jnp.minimum(n_points, free)
        return BoxQuery(x, jnp.arange(slots, dtype=jnp.int32) < size)

    def pend(self, state: ModelState, query: BoxQuery) -> ModelState:
        """The state in which the points of the query are pending: `ask` expects that they have the
        mean value, until `tell` observes them. Raises ValueError for more than `max_pending`
        points."""
        total = state.is_pending.sum(dtype=jnp.int32) + query.size
        if not is_traced(total) and int(total) > self.max_pending:
            raise ValueError(
                f"{int(total)} points would be pending, max_pending is {self.max_pending}: raise"
                " it."
            )
        # the number of each free slot
        free = jnp.cumsum(~state.is_pending, dtype=jnp.int32) - 1
        takes = ~state.is_pending & (free < query.size)
        index = jnp.clip(free, 0, query.x.shape[0] - 1)
        pending = jnp.where(takes[:, None], query.x[index], state.pending)
        return replace(state, pending=pending, is_pending=state.is_pending | takes)

    def tell(
        self, state: ModelState, query: BoxQuery, y: Array, key: PRNGKey
    ) -> tuple[ModelState, ModelInfo]:
        """(state, info) after the values y [B] and a fit of the law. Points of the query that were
        pending are no longer so."""
        new = replace(
            state,
            history=history.add(state.history, query, y),
            is_pending=_still_pending(state, query),
        )
        new = replace(new, fit=self._fit(new, key))
        fit = new.fit
        info = vars(history.info(state.history, new.history))
        noise_std, misfit = jnp.sqrt(fit.discrepancy.noise), new.misfit
        return new, ModelInfo(**info, noise_std=noise_std, left_out=fit.left_out, misfit=misfit)

    def parameters(self, state: ModelState, level: float = 0.95) -> dict[str, Estimate]:
        """{name: Estimate} of the parameters, with intervals that hold the true parameter with
        probability `level` if the law is right: quantiles of Student's t times the posterior
        standard deviations of the coordinates of `Parametric`, within the bounds. They reach around
        all fits of similar evidence that are found (`law_fit.similar_fits`). Warns if the law does
        not describe the values, and of parameters that a bound holds (`Estimate.at_bound`)."""
        checks.probability(level=level)
        law, estimates = self.model, _estimates(self, state, level)
        at_bound = estimates[-1]
        parts = [law.named(values) for values in estimates]
        warn_of_misfit(state)
        if not is_traced(at_bound):
            _warn_of_bounds(law, np.asarray(at_bound), np.asarray(estimates[0]))
        return {name: Estimate(*(part[name] for part in parts)) for name in law.ranges}

    def posterior(self, state: ModelState, x: ArrayLike) -> tuple[Array, Array]:
        """(mean [q], standard deviation [q]) of the function without noise at points x [q, d], from
        the law that is linearised at the fitted parameters. Raises ValueError for another shape."""
        points = jnp.asarray(checks.real("x", x)).astype(state.box.lower.dtype)
        if points.ndim != 2 or points.shape[1] != state.box.lower.size:
            raise ValueError(
                f"x must be points [q, {state.box.lower.size}]; its shape is {points.shape}."
            )
        return _predicted(self, state, points)

    def describes(self, state: ModelState) -> bool:
        """Whether the law describes the values so far, as far as they show it: False, with a
        warning, if a Gaussian process of the residuals increases the log evidence by more than
        law_fit.EVIDENCE."""
        warn_of_misfit(state)
        return not bool(state.misfit)

    def _fit(self, state: ModelState, key: PRNGKey) -> LawFit:
        values, noise_std = _values(state), self.noise_std
        if noise_std is not None:
            noise_std = jnp.asarray(noise_std, values.y.dtype)
        fit = law_fit.fit(
            self.model, values, state.fit.z, key, self.restarts, self.fit_steps, noise_std
        )
        found = law_fit.misfit(fit, self.model, values)
        if self.discrepancy == "ignore":
            found = replace(found, variance=jnp.zeros_like(found.variance), noise=fit.variance)
        return replace(fit, discrepancy=found)

    def _propose(self, state: ModelState, key: PRNGKey) -> Array:
        """The points [batch, d] of a round."""
        box, values = state.box, _values(state)
        best = to_unit(box, history.best(state.history)[0])
        slots = self.max_pending + self.batch
        empty = jnp.zeros((self.batch, box.lower.size), box.lower.dtype)
        x = jnp.concatenate([state.pending, empty])
        is_used = jnp.concatenate([state.is_pending, jnp.zeros(self.batch, bool)])
        extra = Values(x, to_unit(box, x), jnp.zeros(slots, x.dtype), is_used)

        n_before = state.history.count + state.is_pending.sum(dtype=jnp.int32)
        is_made = jnp.arange(state.history.capacity, dtype=jnp.int32) < state.history.count

        def pick(extra: Values, i: Array) -> tuple[Values, Array]:
            law, fit = self.model, state.fit
            given = law_fit.expected(law, fit, values, extra) if slots > 1 else values
            known = law_fit.posterior(law, fit, given)
            point_key = jax.random.fold_in(key, i)
            draw_key = jax.random.fold_in(jax.random.fold_in(key, slots), i)
            scored = self._score(known, box, given, draw_key)
            number = n_before + i + 1  # of this evaluation, from 1
            is_check = number % self.check_every == 0 if self.check_every else False
            unit_points = jnp.concatenate([values.unit, extra.unit])
            # a check goes far from failed evaluations too
            is_evaluated = jnp.concatenate([is_made, extra.ok])
            bonus = self._novelty(known, box, unit_points, is_evaluated, point_key)

            def score(unit: Array) -> Array:
                return scored(unit) + jnp.where(is_check, bonus(unit), 0)

            unit, _ = maximise_over_cube(
                history.away_from_failures(jax.vmap(score), box, state.history),
                best,
                point_key,
                self.candidates,
                self.starts,
                self.steps,
            )
            point = from_unit(box, unit)
            here = jnp.arange(slots, dtype=jnp.int32) == self.max_pending + i
            return Values(
                jnp.where(here[:, None], point[None], extra.x),
                jnp.where(here[:, None], unit[None], extra.unit),
                extra.y,
                extra.ok | here,
            ), point

        return lax.scan(pick, extra, jnp.arange(self.batch, dtype=jnp.int32))[1]

    def _novelty(
        self, posterior: Posterior, box: Box, unit: Array, used: Array, key: PRNGKey
    ) -> Callable[[Array], Array]:
        """The function unit [d] -> [] that a check adds to the score, in units of the noise: it is
        large far from the points `unit` [n, d] where `used` [n] is true."""
        kernel = Matern(CHECK_LENGTHSCALE * math.sqrt(unit.shape[1]))
        pairs = used[:, None] & used[None, :]
        nugget = jnp.diag(jnp.where(used, jnp.asarray(CHECK_NUGGET, unit.dtype), 1))
        covariance = jnp.where(pairs, kernel.gram(unit, unit), 0) + nugget
        inverse = law_fit.inverse_factor(covariance)
        random = jax.random.uniform(key, (CHECK_POINTS, unit.shape[1]), unit.dtype)
        means = jax.vmap(posterior.predict)(from_unit(box, random), random)[0]
        scale = CHECK * jnp.nan_to_num(means).std() / jnp.sqrt(posterior.fit.variance)

        def bonus(point: Array) -> Array:
            cross = jnp.where(used, kernel.gram(point[None], unit)[0], 0)
            explained = jnp.square(matmul(inverse, cross)).sum()
            return scale * jnp.sqrt(jnp.maximum(1 - explained, CHECK_NUGGET**2))

        return bonus

    def _score(
        self,
        posterior: Posterior,
        box: Box,
        values: Values,
        key: PRNGKey,
    ) -> Callable[[Array], Array]:
        """The function unit [d] -> [], the score of a point: mean + width * standard deviation, in
        units of the noise. `values` are those of the posterior."""
        law, fit = self.model, posterior.fit
        noise_std = jnp.sqrt(fit.variance)

        def linearised(unit: Array) -> Array:
            mean, variance = posterior.predict(from_unit(box, unit), unit)
            return (mean + self.width * jnp.sqrt(variance)) / noise_std

        if not self.draws:
            return linearised
        draw_key, point_key = jax.random.split(key)
        drawn = law_fit.draws(law, fit, values, draw_key, self.draws, SCORE_STEPS)
        random = jax.random.uniform(point_key, (CHECK_POINTS, values.unit.shape[1]), values.x.dtype)
        points = from_unit(box, random)
        is_linear = law_fit.is_nearly_linear(law, fit, drawn, points)
        is_linear |= fit.discrepancy.variance > 0
        tiny = jnp.finfo(fit.variance.dtype).eps * fit.variance  # a root of 0 has no derivative

        def score(unit: Array) -> Array:
            x = from_unit(box, unit)
            is_finite = jnp.isfinite(jax.vmap(law.apply, (0, None))(drawn, x))
            # the derivative of a law that fails would be NaN, and its value counts nothing
            f = jax.vmap(law.apply, (0, None))(jnp.where(is_finite[:, None], drawn, fit.z[None]), x)
            n_finite = is_finite.sum()
            count = jnp.maximum(n_finite, 1).astype(f.dtype)
            mean = jnp.where(is_finite, f, 0).sum() / count
            variance = jnp.where(is_finite, jnp.square(f - mean), 0).sum() / count
            of_draws = (mean + self.width * jnp.sqrt(variance + tiny)) / noise_std
            return jnp.where(is_linear | (2 * n_finite < self.draws), linearised(unit), of_draws)

        return score


@one_program(options=RUN_ONCE)
def _observed(
    optimizer: ModelGOUCB, state: ModelState, x: Array, y: Array, key: PRNGKey
) -> ModelState:
    """The state with the first evaluations (x [n, d], y [n])."""
    query = BoxQuery(x, jnp.ones(len(y), bool))
    state = replace(state, history=history.add(state.history, query, y))
    return replace(state, fit=optimizer._fit(state, key))


@one_program(options=RUN_ONCE)
def _predicted(optimizer: ModelGOUCB, state: ModelState, points: Array) -> tuple[Array, Array]:
    """(mean [q], standard deviation [q]) at points [q, d]."""
    posterior = law_fit.posterior(optimizer.model, state.fit, _values(state))
    mean, variance = jax.vmap(posterior.predict)(points, to_unit(state.box, points))
    return mean, jnp.sqrt(variance)


@one_program()
def _estimates(optimizer: ModelGOUCB, state: ModelState, level: ArrayLike) -> tuple[Array, ...]:
    """The fields of `Estimate`, each for all parameters: [p]."""
    law, fit = optimizer.model, state.fit
    draw_key, fit_key = jax.random.split(jax.random.key(0))
    values, steps = _values(state), optimizer.fit_steps
    drawn = law_fit.draws(law, fit, values, draw_key, DRAWS, steps)
    below, above = law_fit.deviations(fit, drawn)
    fits = law_fit.similar_fits(law, fit, values, fit_key, FITS, FIT_LENGTH * steps)
    least, largest = fits.min(0), fits.max(0)
    factor = law_fit.student_quantile(fit.dof, level)
    ends = law.vector(least - factor * below), law.vector(largest + factor * above)
    at_bound = law_fit.held(law, fit, values)
    deviation = jnp.maximum(jnp.maximum(below, above), (largest - least + below + above) / 2)
    is_identified = (deviation < IDENTIFIED) & (at_bound == 0)
    return law.vector(fit.z), *ends, is_identified, at_bound


def warn_of_misfit(state: Any) -> None:
    """Warns if the flag `misfit` of a state over a box, or of one of several states, is set. States
    of other optimisers have no such flag."""
    misfit = getattr(state, "misfit", False)
    if not is_traced(misfit) and np.any(misfit):
        warn(MISFIT)


def _warn_of_bounds(law: Parametric, at_bound: np.ndarray, values: np.ndarray) -> None:
    """Warns of parameters that a bound holds ([p], as `Estimate.at_bound`)."""
    names = {-1: "lower", 1: "upper"}
    shown = [
        f"{label} ({names[int(side)]} bound, {value:.4g})"
        for label, side, value in zip(law.labels, at_bound, values, strict=True)
        if side
    ]
    if shown:
        warn(
            f"a bound holds {', '.join(shown)}: the evaluations speak for a value beyond it. Choose"
            " a wider range, or read the interval as one-sided."
        )


MISFIT = (
    "the model does not describe the values: its residuals are not noise, so a term is missing or a"
    " bound is wrong, and the intervals of its parameters do not hold."
)


def _values(state: ModelState) -> Values:
    past = state.history
    return Values(past.x, to_unit(state.box, past.x), past.y, past.ok)


def _still_pending(state: ModelState, query: BoxQuery) -> Array:
    """[P] bool, the pending slots without those of the query: one slot for each of its points."""

    def observe(is_pending: Array, point: tuple[Array, Array]) -> tuple[Array, None]:
        x, is_used = point
        same = is_pending & (state.pending == x[None]).all(1) & is_used
        first = same & (jnp.cumsum(same) == 1)
        return is_pending & ~first, None

    return lax.scan(observe, state.is_pending, (query.x, query.mask))[0]


def _checked_data(box: Box, data: Any) -> tuple[Array, Array]:
    """(x [n, d], y [n]) of the argument `data`."""
    d, dtype = box.lower.size, box.lower.dtype
    if data is None:
        return jnp.zeros((0, d), dtype), jnp.zeros(0, dtype)
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ValueError(f"data are earlier evaluations (x [n, {d}], y [n]); {data!r} was given.")
    x, y = (jnp.asarray(checks.real("data", part)).astype(dtype) for part in data)
    if x.ndim != 2 or x.shape[1] != d or y.shape != x.shape[:1]:
        raise ValueError(
            f"data are earlier evaluations (x [n, {d}], y [n]); their shapes are {x.shape} and"
            f" {y.shape}."
        )
    inside = ((x >= box.lower[None]) & (x <= box.upper[None])).all(1)
    if not is_traced(inside) and not bool(inside.all()):
        row = int(np.argmin(np.asarray(inside)))
        raise ValueError(f"data must lie in the box; row {row} is {np.asarray(x)[row]}.")
    return x, y

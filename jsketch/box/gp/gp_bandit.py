"""GP-EI, GP-PI and GP-UCB on a box: an exact GP, refitted after each evaluation, and the maximum of
an acquisition function.

Jones, Schonlau, Welch. Efficient global optimization of expensive black-box functions. 1998 (EI).
Kushner. 1964 (PI). Srinivas, Krause, Kakade, Seeger. Gaussian process optimization in the bandit
setting. ICML 2010 (UCB).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, memory, struct
from jsketch.box import acquisition as acquisitions
from jsketch.box import history
from jsketch.box.gp import regression
from jsketch.box.gp.fit import Bounds, default, fit
from jsketch.box.gp.prior import Prior
from jsketch.box.gp.regression import Data, Hyperparameters, Posterior
from jsketch.box.history import History
from jsketch.kernels import Matern
from jsketch.precision import one_dtype
from jsketch.search.over_cube import Score, maximise_over_cube
from jsketch.types import Box, BoxQuery, PRNGKey

ACQUISITIONS = ("log_ei", "ei", "pi", "ucb")


@struct.dataclass
class GPState:
    box: Box
    initial: Array  # [n, d]
    history: History
    numbers: Hyperparameters  # the last fit, where the next one starts


@struct.dataclass
class GPInfo:
    """`BoxInfo`, and how well the GP fits."""

    observed: Array  # [] int32
    failed: Array  # [] int32
    best: Array  # []
    log_marginal_likelihood: Array  # [], of the standardized values


def unit_data(box: Box, past: History) -> Data:
    """The observations in the unit cube, standardized."""
    return regression.standardized(history.to_unit(box, past.x), past.y, past.ok)


@struct.dataclass
@one_dtype
class GPBandit:
    """One evaluation at a time, after `initial` uniform ones. The fit is made in `tell`, the
    acquisition maximised in `ask`.

    `kernel` is a kernel of inputs divided by their fitted lengthscales (Matern 5/2 or Gaussian). EI
    and PI want the best observed value exceeded by `margin` standard deviations of y: with none, PI
    is greedy; with 0.01, the default of scikit-optimize, EI ends 100 times as far below the maximum
    of Branin's function. UCB's `width` is scikit-optimize's.

    `prior` keeps lengthscales from what a few points cannot tell (`prior.Prior`); None is maximum
    likelihood: with it 5 of 40 runs of EI on Hartmann's function of six inputs end on a lower hill
    after 60 evaluations, instead of 1.

    `sample_around_best`: half of the candidates lie near the best observed point, where the
    acquisition's maximum is often so narrow that uniform points miss it. With False all are uniform
    in the box: a step of PI on Rastrigin's function of 20 inputs then costs 0.91 of a uniform
    point's regret, and not 0.77.
    """

    kernel: Any = Matern()
    bounds: Bounds = Bounds()
    prior: Any = Prior()
    margin: ArrayLike = 0.001
    width: ArrayLike = 1.96
    acquisition: str = struct.field(pytree_node=False, default="log_ei")
    initial: int = struct.field(pytree_node=False, default=8)
    # fits from other points than the last fit
    restarts: int = struct.field(pytree_node=False, default=1)
    fit_steps: int = struct.field(pytree_node=False, default=25)  # L-BFGS steps of each
    # scored to find where ascent starts
    candidates: int = struct.field(pytree_node=False, default=1000)
    sample_around_best: bool = struct.field(pytree_node=False, default=True)
    # of each half of the candidates
    starts: int = struct.field(pytree_node=False, default=8)
    steps: int = struct.field(pytree_node=False, default=60)  # of ascent

    def init(self, box: Box, key: PRNGKey, horizon: int) -> GPState:
        """Nothing evaluated yet. Raises ValueError on static mistakes, and for more evaluations,
        candidates or starts than memory allows."""
        checks.choice(ACQUISITIONS, acquisition=self.acquisition)
        checks.truth(sample_around_best=self.sample_around_best)
        checks.a_kernel(self.kernel)
        checks.nonnegative(margin=self.margin, width=self.width)
        checks.capacity(fit_steps=self.fit_steps, starts=self.starts, steps=self.steps)
        checks.capacity(candidates=self.candidates, initial=self.initial, horizon=horizon)
        checks.count(restarts=self.restarts)
        if self.candidates < 2 * self.starts:
            raise ValueError(
                f"candidates must be at least twice the {self.starts} starts; {self.candidates} was"
                " given."
            )
        self.bounds.check()
        if isinstance(self.prior, type) or not (
            self.prior is None or hasattr(self.prior, "log_density")
        ):
            raise ValueError(
                f"prior must be a Prior, or None for maximum likelihood; {self.prior!r} was given."
            )
        if isinstance(self.prior, Prior):
            self.prior.check()
        box = history.checked_box(box)
        self._check_memory(box, horizon)
        past = history.empty(box, horizon)
        first = default(self.bounds, box.lower.size, box.lower.dtype)
        return GPState(box, history.initial_points(box, key, self.initial), past, first)

    def _check_memory(self, box: Box, horizon: int) -> None:
        d = box.lower.size
        # at the least: the covariance, its factor and one product; half the candidates at a time,
        # or all starts with their slopes, each with two rows of the capacity; the points
        floats = 3 * int(horizon) ** 2 + int(horizon) * max(
            int(self.candidates), 8 * int(self.starts)
        )
        floats += d * (int(self.candidates) + int(self.initial) + int(horizon))
        memory.check(
            floats * box.lower.dtype.itemsize,
            f"{horizon} evaluations with {self.candidates} candidates and {self.starts} starts of"
            f" {d} inputs, after {self.initial} initial points,",
            "take fewer",
        )

    def ask(self, state: GPState, key: PRNGKey) -> BoxQuery:
        """The initial points, then the maximum of the acquisition function."""

        def propose() -> Array:
            best = history.to_unit(state.box, history.best(state.history)[0])

            def point(data: Data) -> Array:
                score = self.score(regression.condition(self.kernel, state.numbers, data))
                return maximise_over_cube(
                    score,
                    best,
                    key,
                    self.candidates,
                    self.starts,
                    self.steps,
                    self.sample_around_best,
                )[0]

            u = regression.in_few_slots(unit_data(state.box, state.history), point)
            return history.from_unit(state.box, u)[None]

        return history.query(state.history, state.initial, propose)

    def tell(
        self, state: GPState, query: BoxQuery, y: Array, key: PRNGKey
    ) -> tuple[GPState, GPInfo]:
        """Learns y [B] and refits the hyperparameters, from where the last fit ended."""
        after = history.add(state.history, query, y)

        def fitted(data: Data) -> tuple[Hyperparameters, Array]:
            return fit(
                self.kernel,
                data,
                self.bounds,
                state.numbers,
                key,
                self.restarts,
                self.fit_steps,
                self.prior,
            )

        numbers, likelihood = regression.in_few_slots(unit_data(state.box, after), fitted)
        news = history.info(state.history, after)
        info = GPInfo(news.observed, news.failed, news.best, likelihood)
        return replace(state, history=after, numbers=numbers), info

    def posterior(self, state: GPState) -> Posterior:
        """Of the standardized values on the unit cube."""
        return regression.condition(self.kernel, state.numbers, unit_data(state.box, state.history))

    def score(self, posterior: Posterior) -> Score:
        """The acquisition function u [q,d] -> [q] on the unit cube."""
        data = posterior.data
        best = jnp.max(jnp.where(data.mask, data.y, -jnp.inf))
        threshold = jnp.where(jnp.isfinite(best), best, 0) + self.margin

        def score(u: Array) -> Array:
            mean, variance = regression.predict(posterior, u)
            if self.acquisition == "ucb":
                return acquisitions.upper_confidence_bound(mean, variance, self.width)
            improvement = {
                "log_ei": acquisitions.log_expected_improvement,
                "ei": acquisitions.expected_improvement,
                "pi": acquisitions.log_probability_of_improvement,
            }
            return improvement[self.acquisition](mean, variance, threshold)

        return score

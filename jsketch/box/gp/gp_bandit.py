"""GP-EI, GP-PI and GP-UCB on a box: an exact GP, refitted after each evaluation, and the maximum of
an acquisition function.

Jones, Schonlau, Welch. Efficient global optimization of expensive black-box functions. 1998 (EI).
Kushner. 1964 (PI). Srinivas, Krause, Kakade, Seeger. Gaussian process optimization in the bandit
setting. ICML 2010 (UCB).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.box import acquisition as acquisitions
from jsketch.box import history
from jsketch.box.gp import regression
from jsketch.box.gp.fit import Bounds, Prior, default, fit
from jsketch.box.gp.regression import Data, Hyperparameters, Posterior
from jsketch.box.history import History
from jsketch.kernels import Matern
from jsketch.precision import one_dtype
from jsketch.search import Score, maximise_over_cube
from jsketch.types import Box, BoxInfo, BoxQuery, PRNGKey


@struct.dataclass
class GPState:
    box: Box
    initial: Array  # [n, d]
    history: History
    numbers: Hyperparameters  # the last fit, the start of the next one


@struct.dataclass
class GPInfo(BoxInfo):
    log_marginal_likelihood: Array  # [], of the standardized values


def unit_data(box: Box, past: History) -> Data:
    """The observations in the unit cube, standardized."""
    return regression.standardized(history.to_unit(box, past.x), past.y, past.ok)


@struct.dataclass
@one_dtype
class GPBandit:
    """One evaluation per round, after `initial` uniform ones. `tell` refits the hyperparameters,
    `ask` maximises the acquisition function.

    kernel       a kernel of inputs divided by their fitted lengthscales (Matern 5/2 or Gaussian)
    bounds       the intervals of the hyperparameters
    prior        their prior densities; None is maximum likelihood, with which 5 of 40 runs of EI on
                 Hartmann's function of six inputs end on a lower hill after 60 evaluations, and 1
                 with the default
    margin       EI and PI measure the improvement over the best observed value plus `margin`
                 standard deviations of y. With 0, PI is greedy; with 0.01, the default of
                 scikit-optimize, EI ends 100 times as far below the maximum of Branin's function
    width        UCB is mean + width * standard deviation (the default is scikit-optimize's)
    acquisition  "log_ei" (the logarithm of EI), "pi" or "ucb"
    restarts     fits from other starts than the last fit
    fit_steps    L-BFGS steps from each start
    candidates   random points from which the ascent starts are chosen
    sample_around_best  half of the candidates lie near the best observed point, where the
                 acquisition's maximum is often so narrow that uniform points miss it. With False
                 all are uniform: PI on Rastrigin's function of 20 inputs then has 0.91 of the
                 regret of uniform points, and 0.77 with True
    starts       ascents from each half of the candidates
    steps        steps of each ascent
    """

    kernel: Any = Matern()
    bounds: Bounds = Bounds()
    prior: Any = Prior()
    margin: ArrayLike = 0.001
    width: ArrayLike = 1.96
    acquisition: str = struct.field(pytree_node=False, default="log_ei")
    # uniform random points of the first round
    initial: int = struct.field(pytree_node=False, default=8)
    restarts: int = struct.field(pytree_node=False, default=1)
    fit_steps: int = struct.field(pytree_node=False, default=25)
    candidates: int = struct.field(pytree_node=False, default=1000)
    sample_around_best: bool = struct.field(pytree_node=False, default=True)
    starts: int = struct.field(pytree_node=False, default=8)
    steps: int = struct.field(pytree_node=False, default=60)
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"acquisition": ("log_ei", "pi", "ucb")}

    def __post_init__(self) -> None:
        checks.constructor_arguments(self)

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> GPState:
        checks.no_evaluations(self, data)
        checks.settings(self)
        checks.nonnegative(width=self.width)
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
        box, horizon = history.checked_box(domain), checks.horizon(horizon)
        # the covariance, its factor and one product
        past = history.empty(box, horizon, 3 * horizon**2)
        first = default(self.bounds, box.lower.size, box.lower.dtype)
        return GPState(box, history.initial_points(box, key, self.initial), past, first)

    def ask(self, state: GPState, key: PRNGKey, limit: ArrayLike | None = None) -> BoxQuery:

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

            u = regression.at_smallest_capacity(unit_data(state.box, state.history), point)
            return history.from_unit(state.box, u)[None]

        return history.query(state.history, state.initial, propose, limit)

    def tell(
        self, state: GPState, query: BoxQuery, y: Array, key: PRNGKey
    ) -> tuple[GPState, GPInfo]:
        """The state with the values y [B], and the hyperparameters refitted from the last fit."""
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

        numbers, likelihood = regression.at_smallest_capacity(unit_data(state.box, after), fitted)
        round_ = history.info(state.history, after)
        info = GPInfo(round_.observed, round_.failed, round_.best, likelihood)
        return replace(state, history=after, numbers=numbers), info

    def posterior(self, state: GPState) -> Posterior:
        """The posterior of the standardized values on the unit cube."""
        return regression.condition(self.kernel, state.numbers, unit_data(state.box, state.history))

    def score(self, posterior: Posterior) -> Score:
        """The acquisition function u [q,d] -> [q] on the unit cube."""
        data = posterior.data
        best = jnp.max(jnp.where(data.mask, data.y, -jnp.inf))
        threshold = jnp.where(jnp.isfinite(best), best, 0) + self.margin

        def score(u: Array) -> Array:
            mean, variance = regression.predict(posterior, u)
            if self.acquisition == "ucb":
                return mean + self.width * jnp.sqrt(variance)
            if self.acquisition == "pi":
                return acquisitions.log_probability_of_improvement(mean, variance, threshold)
            return acquisitions.log_expected_improvement(mean, variance, threshold)

        return score

"""GP-EI, GP-PI and GP-UCB on a box: an exact GP is refitted after each evaluation, and the next
point maximises an acquisition function.

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

from jsketch import checks, components, struct
from jsketch.box import acquisition as acquisitions
from jsketch.box import history
from jsketch.box.gp import regression
from jsketch.box.gp.fit import Bounds, Prior, default_start, fit
from jsketch.box.gp.regression import Data, Hyperparameters, Posterior
from jsketch.box.history import History
from jsketch.devices import one_program
from jsketch.kernels import Matern
from jsketch.posterior import GaussianProcess
from jsketch.search import Score, maximise_over_cube
from jsketch.types import Box, BoxInfo, BoxQuery, PRNGKey


@struct.dataclass
class GPState:
    box: Box
    initial: Array  # [n, d], points of the first round
    history: History
    numbers: Hyperparameters  # result of the last fit, from which the next fit starts


@struct.dataclass
class GPInfo(BoxInfo):
    log_marginal_likelihood: Array  # [], of the standardized values


def unit_data(box: Box, observed: History) -> Data:
    """The standardized observations in the unit cube."""
    return regression.standardized(history.to_unit(box, observed.x), observed.y, observed.ok)


@struct.dataclass
class GPBandit(struct.Settings):
    """A GP optimiser: `initial` uniform points in the first round, then one point a round. `tell`
    refits the hyperparameters, and `ask` maximises the acquisition function over the points whose
    nearest evaluation did not fail.

    kernel       a kernel of the inputs divided by the fitted lengthscales (Matern 5/2 or Gaussian)
    bounds       `Bounds`, the intervals of the hyperparameters
    prior        `Prior`, the prior densities of the hyperparameters; None: maximum likelihood
    margin       EI and PI count improvements over the best observed value plus `margin` standard
                 deviations of y. With 0, PI is greedy; with large margins EI converges slowly
    width        UCB is mean + width * standard deviation (the default is scikit-optimize's)
    acquisition  "log_ei" (the logarithm of EI), "pi" or "ucb"
    initial      int, uniform points of the first round
    restarts     int, number of starts of a fit besides the result of the last fit
    fit_steps    int, L-BFGS steps from each start
    candidates   int, random points among which the starts of the ascent are chosen
    sample_around_best  half of the candidates lie near the best observed point, where the maximum
                 of the acquisition function is often narrow. False: all candidates are uniform
    starts       int, number of ascents from the best candidates of each half
    steps        int, steps of each ascent

    Example:

        run(GPBandit(margin=0.1), problems.on_box(f, box), jax.random.key(0), 12).trace.best  # [12]
    """

    kernel: Any = struct.component(components.KERNEL, default=Matern())
    bounds: Bounds = struct.component(components.BOUNDS, default=Bounds())
    prior: Any = Prior()
    margin: ArrayLike = struct.number(0.001, at_least=0)
    width: ArrayLike = struct.number(1.96, at_least=0)
    acquisition: str = struct.choice("log_ei", of=("log_ei", "pi", "ucb"))
    initial: int = struct.size(8, at_least=0)
    restarts: int = struct.size(1, at_least=0)
    fit_steps: int = struct.size(25)
    candidates: int = struct.size(1000)
    sample_around_best: bool = struct.choice(True)
    starts: int = struct.size(8)
    steps: int = struct.size(60)

    def init(
        self, domain: Box, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> GPState:
        checks.no_evaluations(self, data)
        checks.settings(self)
        checks.nonnegative_integer(restarts=self.restarts)
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
        # the largest arrays are the covariance, its factor and one product
        empty_history = history.empty(box, horizon, other_floats=3 * horizon**2)
        numbers = default_start(self.bounds, box.lower.size, box.lower.dtype)
        return GPState(
            box, history.initial_points(box, key, self.initial, horizon), empty_history, numbers
        )

    def ask(self, state: GPState, key: PRNGKey, limit: ArrayLike | None = None) -> BoxQuery:

        def propose() -> Array:
            best = history.to_unit(state.box, history.best(state.history)[0])

            def point(data: Data) -> Array:
                score = self.score(regression.condition(self.kernel, state.numbers, data))
                score = history.away_from_failures(score, state.box, state.history)
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
        """(state, info) after the values y [B] and a refit of the hyperparameters."""
        observed = history.add(state.history, query, y)

        def refit(data: Data) -> tuple[Hyperparameters, Array]:
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

        numbers, likelihood = regression.at_smallest_capacity(unit_data(state.box, observed), refit)
        info = vars(history.info(state.history, observed))
        new = replace(state, history=observed, numbers=numbers)
        return new, GPInfo(**info, log_marginal_likelihood=likelihood)

    def posterior(self, state: GPState) -> Posterior:
        """The posterior of the standardized values on the unit cube."""
        return regression.condition(self.kernel, state.numbers, unit_data(state.box, state.history))

    def gaussian_process(self, state: GPState) -> GaussianProcess:
        """The posterior of the objective in units of the box and of its values
        (`jsketch.posterior.of`)."""
        return _process(self, state)

    def score(self, posterior: Posterior) -> Score:
        """The acquisition function, from points u [q,d] of the unit cube to [q]."""
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


@one_program()
def _process(bandit: GPBandit, state: GPState) -> GaussianProcess:
    return regression.on_box(bandit.posterior(state), state.box, state.history.x)

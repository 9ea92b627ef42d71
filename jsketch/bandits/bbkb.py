"""BBKB: BKB in adaptive batches, within which the dictionary and the feedback are frozen.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Near-linear time Gaussian process optimization
with adaptive batching and resparsification. ICML 2020.

The lines of Algorithm 1 of the paper:

    1      BBKB.ask        the first arm, uniformly at random
    3, 20  loops.rollouts  the loop over rounds
    4      scores          the upper confidence bounds; their width depends on SketchedEvidence
    4-8    BBKB.ask        the picks of a batch, until the rule of Lemma 1 or Lemma 3 ends it
    11-16  resparsify      the dictionary
    17     observe         the feedback of the batch, and the posterior where it is cheap
    18     refresh         the posterior on the new dictionary (core.posterior.update)

The feedback comes before the draw here, which does not depend on the rewards. `SketchedBandit` has
the lines after a batch; BKB, FixedBKB and SketchedTS share them and choose their evaluations in
other ways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.bandits import imprecision, starts
from jsketch.core import (
    diagnosis,
    dictionary,
    history,
    local_rule,
    low_rank,
    posterior,
    widths,
    working_set,
)
from jsketch.core.dictionary import Extend, Rule
from jsketch.core.posterior import Posterior
from jsketch.core.widths import ucb as score
from jsketch.devices import one_program
from jsketch.numerics import all_true, count, matmul
from jsketch.posterior import GaussianProcess, process
from jsketch.results import Result, result
from jsketch.types import Algorithm, Arms, Data, Info, PRNGKey, Query

# What is due before the next batch. DESIGN: the next batch is the `initial` design of BBKB
NOTHING, REBUILD, DRAW, DESIGN = 0, 1, 2, 3


@struct.dataclass
class State:
    """A run over A arms at the start of a batch. The history and the dictionary determine the
    posterior; the information depends on the order of the history.

    counts       [A], pulls of each arm
    sums         [A], sum of the rewards of each arm
    inducing     [A] bool, the arms of the dictionary
    information  [2], the sums of log(1 + sigma^2) and of log(1 + 3 sigma^2) over the pulls, with
                 the variance at the start of the batch of each pull
    posterior    of the history and the dictionary (`core.posterior.update`), with capacity M
    due          [] int32: NOTHING or DESIGN, or what `refresh` has to do because the posterior is
                 stale: REBUILD it, or DRAW a dictionary first
    """

    counts: Array
    sums: Array
    inducing: Array
    information: Array
    posterior: Posterior
    due: Array

    @property
    def capacity(self) -> int:
        """The number M of slots of the dictionary."""
        return self.posterior.capacity

    @property
    def dictionary_size(self) -> Array:
        """The number m of inducing points, []."""
        return count(self.inducing)

    @property
    def stale(self) -> Array:
        """Whether `refresh` is due before the next batch, [] bool."""
        return (self.due == REBUILD) | (self.due == DRAW)


SomeState = TypeVar("SomeState", bound=State)


@dataclass(frozen=True)
class SketchedEvidence:
    """What confidence widths read: scalars [] of a state, computed when they are read. Variances
    are divided by the regularization."""

    bandit: Any
    state: State
    arms: Arms

    @property
    def count(self) -> Array:
        """t, the number of observations."""
        return self.state.counts.sum()

    @property
    def information(self) -> Array:
        """sum_s log(1 + sigma^2(x_s)), with the variance at the start of the batch of x_s."""
        return self.state.information[0]

    @property
    def information_sketched(self) -> Array:
        """sum_s log(1 + 3 sigma^2(x_s)), likewise."""
        return self.state.information[1]

    @property
    def variance_sum(self) -> Array:
        """sum_i n_i sigma^2(x_i), with n_i pulls of arm x_i."""
        return matmul(self.state.counts, self.state.posterior.variance)

    @property
    def logdet(self) -> Array:
        """logdet(V / lam)."""
        return self.state.posterior.logdet

    @property
    def residual_sum(self) -> Array:
        """rho = sum_i n_i r(x_i) >= lambda_max(K - Z Z^T)."""
        state, x = self.state, self.arms.features
        arguments = x, state.counts, state.inducing
        return posterior.residual_sum(state.posterior, self.bandit.kernel, *arguments)

    @property
    def prior_variance(self) -> Array:
        """kappa^2 = max_x k(x,x)."""
        return jnp.max(self.bandit.kernel.diag(self.arms.features))


def _information(variance: Array, pulls: Array) -> Array:
    """[2], the sums of log(1 + variance) and log(1 + 3 variance) over pulls [A] of arms with these
    variances [A]."""
    factors = jnp.array([1, widths.ALPHA], variance.dtype)[:, None]
    return matmul(jnp.log1p(factors * variance[None, :]), pulls)


@struct.dataclass
class SketchedBandit(widths.KernelBandit, Algorithm):
    """The fields of all algorithms on a sketched posterior, and what follows their batches.
    Subclasses add `ask`.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    qbar            oversampling; `dictionary.qbar_theory` has the theorems' value
    dictionary      how the dictionary changes after a batch: `Extend(slack)`, or `Draw()` as in the
                    papers
    width           the confidence width, one of `bandits.widths`
    capacity        M, the largest number of inducing points. None: `init` makes 64 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given
    """

    qbar: ArrayLike = struct.number(2.0, above=0)
    dictionary: Rule = Extend()
    width: widths.Width = widths.bkb_code
    capacity: int | None = struct.size(None)
    # whether the counts of earlier evaluations must be integers
    whole_counts: ClassVar[bool] = True

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> State:
        """The state before the first round, or after the evaluations in `data`. Raises ValueError
        for invalid arguments.

        data  earlier evaluations, not traced if their dictionary is "bless" or "leverage"
        """
        arms = starts.checked(self, arms, key, self.initial_slots)
        if data is None or starts.has_no_evaluations(data):
            return self._prior(arms)
        counts, sums, inducing, is_chosen = starts.from_evaluations(
            self, arms, key, data, self.whole_counts
        )
        state = replace(self._prior(arms), counts=counts, sums=sums, inducing=inducing)
        return _after_evaluations(self, state, arms, key, is_chosen)

    def _prior(self, arms: Arms) -> State:
        x = arms.features
        zeros = arms.on_devices(jnp.zeros(len(x), x.dtype))
        return State(
            counts=zeros,
            sums=zeros,
            inducing=arms.on_devices(jnp.zeros(len(x), bool)),
            information=jnp.zeros(2, x.dtype),
            posterior=posterior.prior(self.kernel, self.regularization, x, self.initial_slots),
            due=jnp.asarray(NOTHING, jnp.int32),
        )

    # Line 4: the scores

    def confidence_width(self, state: Any, arms: Arms) -> Array:
        """The number [] of posterior standard deviations in a confidence bound."""
        return widths.confidence_width(self, SketchedEvidence(self, state, arms))

    def confidence_bounds(self, state: Any, arms: Arms) -> tuple[Array, Array, Array]:
        """(mean [A], variance [A], width []) of the upper confidence bounds of all arms. The means
        are NaN if the state is stale, because its posterior is not that of its history: where a
        capacity is exceeded, until `grow`."""
        p = state.posterior
        mean = jnp.where(state.stale, jnp.nan, p.mean)
        return mean, p.variance, self.confidence_width(state, arms)

    def scores(self, state: Any, arms: Arms) -> Array:
        """Upper confidence bounds of all arms at the start of a batch, [A]."""
        return arms.of_candidates(score(*self.confidence_bounds(state, arms)))

    def gaussian_process(self, state: Any, arms: Arms) -> GaussianProcess:
        """The posterior at any points (`jsketch.posterior.of`)."""
        return process.of_sketched(self.kernel, self.regularization, state.posterior)

    # Lines 11 to 18: after the batch

    def tell(
        self, state: SomeState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SomeState, Info]:
        """(state, info) after the rewards y [B] of a query: `observe`, then `refresh` if it is due.
        If the dictionary exceeds the capacity, the state has the rewards and a stale posterior, and
        `grow` completes it."""
        state, info = self.observe(state, arms, query, y, key)
        unchanged = state, result()
        state, after = lax.cond(
            state.stale, lambda: self.refresh(state, arms, key), lambda: unchanged
        )
        worst = jnp.maximum(info.result, after)
        return state, replace(info, dictionary_size=state.dictionary_size, result=worst)

    def observe(
        self, state: SomeState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SomeState, Info]:
        """(state, info) after the rewards of a query. The posterior of the state is stale, unless
        the dictionary only gains pulled arms and a low-rank update is accurate."""
        width, p = self.confidence_width(state, arms), state.posterior
        counts, sums = history.add(state.counts, state.sums, query, y)  # line 17
        pulls = counts - state.counts
        information = state.information + _information(p.variance, pulls)
        inducing, due = state.inducing, jnp.asarray(DRAW, jnp.int32)
        if isinstance(self.dictionary, Extend):
            probability = dictionary.probability(counts, p.variance, self.qbar)
            extended = inducing | (pulls > 0)
            extends = dictionary.may_extend(extended, probability, self.dictionary.slack)
            is_low_rank = (
                extends
                & all_true(state.inducing | (state.counts == 0))
                & (count(pulls > 0) <= low_rank.MOST)
                & ~low_rank.needs_rebuild(state.counts, counts)
                & ~state.stale
            )
            p, accurate = low_rank.update_low_rank(
                self.kernel,
                self.regularization,
                p,
                arms.features,
                jnp.where(is_low_rank, pulls, 0),
                sums - state.sums,
                extended & ~inducing,
                min(len(query.index), low_rank.MOST),
            )
            up_to_date = jnp.where(is_low_rank & accurate, NOTHING, REBUILD)
            due = jnp.where(extends, up_to_date, DRAW).astype(jnp.int32)
            inducing = jnp.where(extends, extended, inducing)
        new = replace(
            state,
            counts=counts,
            sums=sums,
            inducing=inducing,
            information=information,
            posterior=p,
            due=due,
        )
        finite, size = p.is_finite | new.stale, new.dictionary_size
        info = history.round_info(query, y, size=size, width=width, finite=finite)
        return new, info

    def resparsify(self, state: State, key: PRNGKey) -> Array:
        """A fresh dictionary, [A] bool, drawn with the variances at the start of the batch (lines
        11 to 16)."""
        variance = state.posterior.variance
        return dictionary.draw(key, dictionary.probability(state.counts, variance, self.qbar))

    def refresh(self, state: SomeState, arms: Arms, key: PRNGKey) -> tuple[SomeState, Array]:
        """(state, result []) with the posterior from scratch, and with a fresh dictionary first if
        it is due. If the dictionary exceeds the capacity, the posterior stays stale, and `grow`
        completes the state with the same dictionary."""
        drawn = self.resparsify(state, key)
        inducing = jnp.where(state.due == DRAW, drawn, state.inducing)
        return self._with_posterior(replace(state, inducing=inducing), arms, state.capacity)

    def resize(self, state: SomeState, arms: Arms, capacity: int) -> SomeState:
        """The same state with another capacity and a stale posterior, which `refresh` computes."""
        empty = posterior.prior(self.kernel, self.regularization, arms.features, capacity)
        due = jnp.where(state.due == DESIGN, DESIGN, REBUILD).astype(jnp.int32)
        return replace(state, posterior=empty, due=due)

    def with_gram(self, state: SomeState, arms: Arms) -> SomeState:
        """The same state with the kernel values of all arms in memory, with which `observe` is
        faster, if the dictionary is extended."""
        if not isinstance(self.dictionary, Extend):
            return state
        p = posterior.with_gram(state.posterior, self.kernel, arms.features)
        return replace(state, posterior=p)

    def without_gram(self, state: SomeState) -> SomeState:
        """The same state without kernel values in memory, as a run returns it."""
        return replace(state, posterior=posterior.without_gram(state.posterior))

    def grow(self, state: SomeState, arms: Arms, capacity: int) -> SomeState:
        """The same state with another capacity; its posterior is computed from its history."""
        return _rebuilt(self, state, arms, capacity)

    def _with_posterior(
        self, state: SomeState, arms: Arms, capacity: int
    ) -> tuple[SomeState, Array]:
        """(state, result []) with the posterior of its history and dictionary (line 18)."""
        p = posterior.update(
            self.kernel,
            self.regularization,
            arms.features,
            state.counts,
            state.sums,
            state.inducing,
            capacity,
            keep_gram=state.posterior.gram is not None,
        )
        exceeds = state.dictionary_size > capacity
        done = jnp.where(state.due == DESIGN, DESIGN, NOTHING)
        due = jnp.where(exceeds, REBUILD, done).astype(jnp.int32)
        # a posterior whose dictionary does not fit has no meaning
        outcome = result(
            (Result.CAPACITY_EXCEEDED, exceeds), (Result.NOT_FINITE, ~p.is_finite & ~exceeds)
        )
        return replace(state, posterior=p, due=due), outcome

    def may_be_imprecise(self, state: State, error: float) -> bool:
        """Whether `imprecision` may exceed `error`, by a bound for concrete states."""
        size = imprecision.on_host(state.inducing, lambda inducing: inducing.sum(-1))
        return imprecision.may_be_imprecise(state.posterior, size, self.regularization, error)

    def imprecision(self, state: State, arms: Arms) -> Array:
        """An estimate [] of the largest error of a variance by rounding, relative to the largest
        variance (`core.diagnosis`). `run` and `drive` warn if it exceeds 0.1%."""
        p, model = state.posterior, (self.kernel, self.regularization)
        return diagnosis.imprecision(*model, arms.features, state.counts, state.inducing, p)

    def _with_upper_information(self, state: SomeState, arms: Arms) -> SomeState:
        """The state with its information set to the upper bound of THEORY 2.4, which does not
        depend on the order of the evaluations."""
        evidence = SketchedEvidence(self, state, arms)
        upper = evidence.logdet + evidence.residual_sum / self.regularization
        return replace(state, information=jnp.stack([upper, upper]))


@one_program("capacity")
def _rebuilt(bandit: SketchedBandit, state: SomeState, arms: Arms, capacity: int) -> SomeState:
    """The state with another capacity."""
    return bandit._with_posterior(state, arms, capacity)[0]


@one_program("is_chosen")
def _after_evaluations(
    bandit: SketchedBandit, state: State, arms: Arms, key: PRNGKey, is_chosen: bool
) -> State:
    """The state of a history, and of a dictionary that the user has chosen or not."""
    state = replace(state, due=jnp.where(state.counts.sum() > 0, REBUILD, state.due))
    state = bandit._with_posterior(state, arms, bandit.initial_slots)[0]
    if is_chosen:  # the given arms may represent the pulled ones badly: their draw does not
        due = jnp.where(state.stale, state.due, DRAW).astype(jnp.int32)
        chosen = replace(state, due=due)
        state = bandit.refresh(chosen, arms, key)[0]
    known = bandit._with_upper_information(state, arms)
    # If traced evaluations exceed the capacity, the posterior is not known before `grow`, and the
    # prior variances bound the information
    prior = bandit.kernel.diag(arms.features) / bandit.regularization
    bound = _information(prior, state.counts)
    return replace(known, information=jnp.where(state.stale, bound, known.information))


@struct.dataclass
class BBKB(SketchedBandit):
    """BBKB over finite arms. A round is a batch, its feedback and the new posterior.

    kernel           a kernel of `jsketch.kernels`
    regularization   lam, usually noise_std^2
    noise_std        xi, standard deviation of the noise of a reward
    norm_bound       F >= |f| in the RKHS
    delta            failure probability; the papers use 1/T
    qbar             oversampling; `dictionary.qbar_theory` has the theorems' value
    dictionary       how the dictionary changes after a batch: `Extend(slack)`, or `Draw()` as in
                     the papers
    width            the confidence width, one of `bandits.widths`
    capacity         M, the largest number of inducing points. None: `init` makes 64 slots, and
                     `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                     also enlarge a capacity that is given
    ratio            C >= 1, the factor by which a variance may shrink within a batch; with 1 a
                     batch is one pull
    initial          arms [n] of the first batch, chosen before any observation (see
                     `bandits.initial`); with None the first batch is one random arm. If no
                     evaluation succeeds, the next batch is a random arm
    rule             the rule that ends a batch: "global" is Lemma 1; with "global_local" a batch
                     that Lemma 1 would end continues until Lemma 3 ends it
    local_statistic  the covariance in the sum of Lemma 3: "full" is k~, as in the paper and the
                     authors' code; "guaranteed" takes the larger of the sums for k~ and for its
                     embedded part. A theorem covers the local rule only with "guaranteed"
                     (THEORY 5.4)
    strict           False: the local bound is first checked one pick after the global bound exceeds
                     C, as in the authors' code (THEORY 5.5)
    max_batch        B, the largest number of picks of a batch

    Example:

        bandit = BBKB(kernels.Gaussian(1.0), noise_std=0.1, ratio=2.0)
        run(bandit, problem, jax.random.key(0), 100).trace.batch_size  # [100]
    """

    width: widths.Width = widths.bbkb_code
    ratio: ArrayLike = struct.number(2.0, at_least=1)
    initial: Any = None
    rule: str = struct.choice("global", of=("global", "global_local"))
    local_statistic: str = struct.choice("full", of=("full", "guaranteed"))
    strict: bool = struct.choice(True)
    max_batch: int = struct.size(10_000)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> State:
        """The state of `SketchedBandit.init`. Warns if the width has no guarantee with the rule."""
        state = super().init(arms, key, data=data)
        starts.check_batches(self, arms, horizon if data is None else None)
        return state

    def _prior(self, arms: Arms) -> State:
        prior = super()._prior(arms)
        due = NOTHING if self.initial is None else DESIGN
        return replace(prior, due=jnp.full_like(prior.due, due))

    def confidence_width(self, state: Any, arms: Arms) -> Array:
        """The confidence width [] (alpha~_fb of the paper), constant within a batch."""
        return widths.confidence_width(self, SketchedEvidence(self, state, arms), self.ratio)

    def ask(self, state: State, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        """The next batch, of at most `limit` picks (lines 4 to 8). A smaller limit than the length
        of the initial design cuts the design short."""
        slots, p = self.max_batch, state.posterior
        # a pick without variance would leave the bound of Lemma 1 at 1
        n_picks = jnp.where(jnp.asarray(self.ratio) > 1, history.limit_of(limit, slots), 1)
        width = self.confidence_width(state, arms)
        batch = working_set.empty(p, self.scores(state, arms), slots)
        arguments, x = (p, self.kernel), arms.features
        if self.rule == "global":
            batch = working_set.add_picks(*arguments, x, width, batch, self.ratio, n_picks)
        else:
            batch = local_rule.add_picks_local(
                *arguments,
                self.regularization,
                x,
                width,
                batch,
                self.ratio,
                n_picks,
                guaranteed=self.local_statistic == "guaranteed",
                strict=self.strict,
            )
        # before the first observation all scores tie, and the batch is chosen without them
        is_first = state.counts.sum() == 0
        first = history.first_or(is_first, batch.arms[0], arms, key)
        index = batch.arms[:slots].at[0].set(first)
        size = jnp.where(is_first, 1, batch.size)
        if self.initial is not None:
            design, is_due = jnp.asarray(self.initial, jnp.int32), state.due == DESIGN
            index = jnp.where(is_due, jnp.pad(design, (0, slots - len(design))), index)
            n_design = jnp.minimum(history.limit_of(limit, slots), len(design))
            size = jnp.where(is_due, n_design, size)
        return Query(index=index, mask=jnp.arange(slots, dtype=jnp.int32) < size)

    def observe(
        self, state: SomeState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SomeState, Info]:
        """`SketchedBandit.observe`. After a first batch of several arms the information is an upper
        bound: all their variances are those of the prior, and the sum of log(1 + variance) may
        exceed the information by far."""
        new, info = super().observe(state, arms, query, y, key)
        if self.initial is None:
            return new, info
        is_first = (state.counts.sum() == 0) & (new.counts.sum() > 0)
        due = jnp.where(is_first & (new.due == NOTHING), REBUILD, new.due)
        due = jnp.where((state.due == DESIGN) & (query.size == 0), DESIGN, due)
        information = jnp.where(is_first, 0, new.information)
        return replace(new, due=due, information=information), info

    def _with_posterior(
        self, state: SomeState, arms: Arms, capacity: int
    ) -> tuple[SomeState, Array]:
        state, outcome = super()._with_posterior(state, arms, capacity)
        if self.initial is None:
            return state, outcome
        upper = self._with_upper_information(state, arms).information
        is_first = (state.information == 0).all() & (state.counts.sum() > 0) & ~state.stale
        return replace(state, information=jnp.where(is_first, upper, state.information)), outcome

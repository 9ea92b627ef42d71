"""The sketched posterior of BKB, BBKB and the algorithms built on them: its state, the refresh
after every batch, the start from earlier evaluations, and the growth of the capacity.

No array of size A x M is stored: a refresh sweeps the arms in chunks, and a batch computes the
features of the few arms that it compares. The memory is O(A d + M^2). A refresh recomputes the
posterior from the history, so that rounding errors do not accumulate; it costs O((A + n) m^2 + m^3)
for n distinct pulled arms.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, devices, struct
from jsketch.bandits.core import counts, incremental, widths
from jsketch.bandits.core.counts import Feedback
from jsketch.bandits.core.widths import Evidence, ucb
from jsketch.linalg import (
    cond_per_run,
    map_rows,
    matmul,
    matmul_upper,
    sequential_vmap,
    squares_upper,
)
from jsketch.posterior import ridge
from jsketch.posterior.ridge import Ridge
from jsketch.sketch import bless, nystrom
from jsketch.sketch import dictionary as dictionaries
from jsketch.sketch.dictionary import Dictionary
from jsketch.sketch.nystrom import Nystrom
from jsketch.struct import in_dtype
from jsketch.types import (
    Algorithm,
    Arms,
    Data,
    Evaluations,
    Info,
    Kernel,
    PRNGKey,
    Query,
    SomeState,
    is_traced,
)
from jsketch.warn import warn

EVERY_BATCH = None  # this value of `resparsify` draws a dictionary after every batch
MAX_UPDATES = 50  # largest number of low-rank updates between two refreshes from scratch
MAX_UPDATED_ARMS = 64  # low-rank updates are used if a batch pulls at most this many arms
# the largest rounding error, relative to the prior variance, with which low-rank updates are used
MAX_UPDATE_ROUNDING = 1e-11
# The estimate of the relative change of variances by dropped inducing points, in units of the s of
# THEORY 9.2. The change was at most 7 s on 800 random problems, and 1.2 s where s exceeded 0.01.
DROPPING_RATIO = 4.0
ESTIMATE_ARMS = 768  # largest number of arms whose leverage scores `expected_size` computes
# The initial capacity as a multiple of `expected_size`. The final size of the dictionary is 0.3 to
# 0.6 times the expected size on the problems of `experiments.bbkb_2020.resparsification`, and 1.1
# to 1.4 times on the hard problem there, for which the capacity grows once.
INITIAL_SIZE_RATIO = 0.65
CAPACITY_MULTIPLE = 16  # initial capacities are rounded up to a multiple of this
# `init` folds this number into its key to sample a dictionary. The number is large because the
# first arm is drawn with the key itself, and for that draw JAX folds small numbers into the key.
DICTIONARY_FOLD = 0xD1C7


@struct.dataclass
class SketchState:
    """The history, the dictionary and the posterior at the start of a batch. The history and the
    dictionary determine the posterior."""

    domain: Arms  # A arms; constant
    # [] int32, a random arm for the first pull, when all scores tie (BKB Fig. 1); redrawn if its
    # evaluation fails
    first_arm: Array
    pull_counts: Array  # [A]
    reward_sums: Array  # [A]
    dictionary: Dictionary  # M slots
    nystrom: Nystrom  # the feature map z of the dictionary
    # [M, M]; u(x) = z(x) @ whiten, e(x,x') = u(x).u(x'). It is upper triangular after a refresh
    # from scratch, but not after low-rank updates
    whiten: Array
    weights: Array  # [M]; mean(x) = u(x) . weights
    mean: Array  # [A]
    variance: Array  # [A], in leverage units (divided by the regularization)
    evidence: Evidence
    # [] int32, how many inducing points of earlier evaluations exceed the capacity. If some do,
    # every `tell` overflows; `init` raises an error instead, unless it is traced
    n_excess_points: Array
    rounding: Array  # [], an upper estimate of the rounding errors of `variance` (`nystrom.probes`)
    # [], an estimate of the changes of `variance` by the inducing points that the rank cut drops
    # (THEORY 9.2), as of the last refresh from scratch
    dropping: Array
    updates: Array  # [] int32, low-rank updates since the last refresh from scratch
    # [] bool, whether the user chose the inducing arms. The next dictionary is then a fresh draw,
    # because the chosen arms may represent the pulled arms badly
    chosen_by_user: Array

    @property
    def capacity(self) -> int:
        """The number M of slots of the dictionary."""
        return self.dictionary.index.shape[0]

    @property
    def imprecise(self) -> Array:
        """Whether rounding, or the inducing points that the rank cut drops, may change variances by
        more than checks.LARGEST_ROUNDING times the largest variance, [] bool."""
        return _is_imprecise(self, jnp.max(self.variance))


State = TypeVar("State", bound=SketchState)


def _is_imprecise(state: SketchState, largest_variance: Array) -> Array:
    limit = checks.LARGEST_ROUNDING * largest_variance
    return (state.rounding > limit) | (state.dropping > limit)


@struct.dataclass
class SketchedBandit(widths.KernelBandit, Algorithm):
    """The fields and methods of all algorithms on a sketched posterior. Subclasses add `ask`."""

    qbar: ArrayLike = 2.0  # oversampling; `dictionary.qbar_theory` has the theorems' value
    # The pulled arms of a batch join the dictionary if it then has at most (1 + resparsify) times
    # the expected size of a fresh draw; otherwise a fresh draw replaces it (THEORY 3.6). With
    # `bandits.EVERY_BATCH` a dictionary is drawn after every batch, as in the papers.
    resparsify: ArrayLike | None = 0.25
    width: widths.Width = widths.bkb_code  # the confidence width, one of `bandits.widths`
    # M, the largest number of inducing points. None: `init` makes 64 slots, and `run`, `drive` and
    # `rollout` more where a run needs them. `run` and `drive` also enlarge a capacity that is given
    capacity: int | None = struct.field(pytree_node=False, default=None)
    # whether the pull counts of earlier evaluations must be integers
    whole_counts: ClassVar[bool] = True
    # whether low-rank updates may replace refreshes from scratch when a dictionary is extended
    incremental: ClassVar[bool] = True

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> SketchState:
        """The state before the first round. Raises ValueError for invalid arguments.

        data  earlier evaluations, not traced if their dictionary is "bless" or "leverage"
        """
        check_bandit(self)
        domain = checks.arms(domain)
        slots = self.initial_slots
        checks.model(domain, self.kernel, self.regularization, slots)
        count, dimension = domain.features.shape
        # the sizes of arrays [M,M], [M,d], [A,d] and [A]
        floats = 3 * slots**2 + slots * dimension + count * (dimension + 8)
        checks.memory(floats, domain.features.dtype, capacity=slots, arms=count)
        history = None if data is None else checked_history(self, domain, key, data)
        state = start(domain, self.kernel, self.regularization, slots, key, history)
        return state if data is None else replace(state, chosen_by_user=lists_inducing_arms(data))

    def confidence_width(self, state: SketchState) -> Array:
        """The number [] of posterior standard deviations in a confidence bound."""
        return widths.confidence_width(self, state.evidence)

    def confidence_bounds(self, state: SketchState) -> tuple[Array, Array, Array]:
        """(mean [A], variance [A], width []) of the upper confidence bounds of all arms."""
        return state.mean, state.variance, self.confidence_width(state)

    def scores(self, state: SketchState) -> Array:
        """Upper confidence bounds of all arms at the start of a batch, [A]."""
        return ucb(*self.confidence_bounds(state))

    def tell(self, state: State, query: Query, y: Array, key: PRNGKey) -> tuple[State, Info]:
        query, y = checks.feedback(state.domain, query, y)
        feedback = counts.add_rewards(
            state.pull_counts, state.reward_sums, state.variance, query, y, state.domain.rows
        )
        return apply_feedback(state, feedback, query, self.confidence_width(state), key, self)

    def with_initial_capacity(self, arms: Arms, horizon: int) -> Self:
        """The algorithm with a capacity of at least INITIAL_SIZE_RATIO times `expected_size`, or A.
        Free slots hardly slow down low-rank updates, and growing the capacity later compiles
        another program. The capacity stays with EVERY_BATCH, or for sharded or traced arms."""
        settings = self.kernel, self.regularization, self.qbar
        if self.resparsify is None or arms.shard is not None or is_traced((arms, settings)):
            return self
        size = expected_size(arms, *settings, horizon)
        estimate = -(-int(INITIAL_SIZE_RATIO * size) // CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE
        return replace(self, capacity=max(self.initial_slots, min(estimate, arms.count)))

    def grow(self, state: State, capacity: int) -> State:
        """The same state with `capacity` >= M slots. Raises ValueError for a smaller capacity, and
        for a state that `check_inducing_points_fit` refuses."""
        check_inducing_points_fit(state)
        checks.not_smaller(state.capacity, capacity=capacity)
        n_new = capacity - state.capacity
        square = ((0, n_new), (0, n_new))
        return replace(
            state,
            dictionary=Dictionary(
                index=jnp.pad(state.dictionary.index, (0, n_new)),
                mask=jnp.pad(state.dictionary.mask, (0, n_new)),
            ),
            nystrom=Nystrom(
                points=jnp.pad(state.nystrom.points, ((0, n_new), (0, 0)), mode="edge"),
                root=jnp.pad(state.nystrom.root, square),
            ),
            whiten=jnp.pad(state.whiten, square),
            weights=jnp.pad(state.weights, (0, n_new)),
        )


def embed(state: SketchState, kernel: Kernel, x: Array) -> tuple[Array, Array]:
    """(z(x), u(x)) of points x [n,d], [n,M] each: the Nystrom features, and the whitened features,
    whose inner products are embedded covariances e."""
    z = nystrom.features(state.nystrom, kernel, x)
    return z, matmul(z, state.whiten)


def predict_arms(
    kernel: Kernel, feature_map: Nystrom, posterior: Ridge, arms: Array, regularization: ArrayLike
) -> tuple[Array, Array, Array]:
    """(mean [A], variance [A], the amplification [] of rounding errors that `nystrom.probes`
    estimates) of all arms, computed in chunks of arms.

    The mean is u(x) . weights, and the variance r/lam + e(x,x) (BBKB eqs. 1 and 2). With z = k_S R
    and lam sigma^2 = k(x,x) - |z F|^2 (`ridge.explained_root`) the variance takes one product of
    k_S(x) with R F; computing r and e separately would take two.
    """
    factor = matmul_upper(feature_map.root, ridge.explained_root(posterior, regularization))
    dual = matmul(feature_map.root, matmul(posterior.whiten, posterior.weights))
    columns = jnp.concatenate([dual[:, None], nystrom.probes(feature_map)], axis=1)

    def predict_chunk(x: Array) -> tuple[Array, Array, Array]:
        k = kernel.gram(x, feature_map.points)
        products = matmul(k, columns)
        variance = jnp.maximum(kernel.diag(x) - squares_upper(k, factor), 0) / regularization
        return products[:, 0], variance, 1 + jnp.square(products[:, 1:]).mean(1).max()

    mean, variance, amplification = map_rows(predict_chunk, arms, len(feature_map.root))
    return mean, variance, amplification.max()


class Moments(NamedTuple):
    """Sums over the distinct pulled arms i, with features z_i, n_i pulls and reward sums s_i."""

    gram: Array  # [M, M], sum_i n_i z_i z_i^T
    moment: Array  # [M], sum_i s_i z_i
    residual_sum: Array  # [], sum_i n_i (k(x_i,x_i) - |z_i|^2)


def moments(
    state: SketchState, kernel: Kernel, feature_map: Nystrom, z: Array, inducing_pulls: Array
) -> Moments:
    """The moments of the history. The arms of the dictionary have the features z [M,M], the pulls
    `inducing_pulls` [M], and no residual; the other pulled arms are added in chunks."""
    domain, rows = state.domain, state.domain.rows

    def add(sums: Moments, index: Array, pulls: Array, rewards: Array) -> Moments:
        arms = rows.take(domain.features, index)
        z = nystrom.features(feature_map, kernel, arms)
        residual = nystrom.residual(kernel.diag(arms), z)
        return Moments(
            gram=sums.gram + matmul(z.T, z * pulls[:, None]),
            moment=sums.moment + matmul(rewards, z),
            residual_sum=sums.residual_sum + matmul(pulls, residual),
        )

    index, mask = state.dictionary.index, state.dictionary.mask
    rewards = jnp.where(mask, rows.take(state.reward_sums, index), 0)
    zero = jnp.zeros((), domain.features.dtype)
    inducing_sums = Moments(matmul(z.T, z * inducing_pulls[:, None]), matmul(rewards, z), zero)
    return dictionaries.sum_outside(state, add, inducing_sums)


def refresh(state: State, kernel: Kernel, regularization: ArrayLike) -> State:
    """The state with the feature map and the posterior recomputed from the history and the
    dictionary (BBKB Alg. 1, L17-18)."""
    arms, rows = state.domain.features, state.domain.rows
    kernel, regularization = in_dtype((kernel, regularization), arms.dtype)
    index, mask = state.dictionary.index, state.dictionary.mask
    points = rows.take(arms, index)
    feature_map, z, is_dropped = nystrom.build(kernel, points, mask)
    pulls = jnp.where(mask, rows.take(state.pull_counts, index), 0)
    sums = moments(state, kernel, feature_map, z, pulls)
    posterior = ridge.fit(sums.gram, sums.moment, regularization)
    mean, variance, amplification = sequential_vmap(
        predict_arms, kernel, feature_map, posterior, arms, regularization
    )
    # The residual of an inducing arm is zero, whereas k(x,x) - |z|^2 has a rounding error, which
    # would be divided by lam (THEORY 9.1).
    exact_variance = squares_upper(z, posterior.whiten)
    variance = dictionaries.put(state.dictionary, variance, exact_variance, rows)
    evidence = replace(
        state.evidence,
        count=rows.sum(state.pull_counts.sum()),
        variance_sum=rows.sum(matmul(state.pull_counts, variance)),
        logdet=posterior.logdet,
        residual_sum=sums.residual_sum,
    )
    lost = jnp.where(is_dropped, nystrom.residual(kernel.diag(points), z), 0)
    missing = (sums.residual_sum + matmul(pulls, lost)) / regularization
    amplification, largest = rows.max(jnp.stack([amplification, jnp.max(variance)]))
    change = jnp.minimum(DROPPING_RATIO * missing, 1) * largest
    # kernel values have a relative error of about eps, except in large tables with distant points
    kernel_error = jnp.finfo(arms.dtype).eps * checks.kernel_rounding(
        kernel, feature_map.points, state.domain.count
    )
    return replace(
        state,
        nystrom=feature_map,
        whiten=posterior.whiten,
        weights=posterior.weights,
        mean=mean,
        variance=variance,
        evidence=evidence,
        rounding=kernel_error * evidence.prior_variance * amplification / regularization,
        dropping=jnp.where(is_dropped.any(), change, 0),
        updates=jnp.zeros((), jnp.int32),
    )


def apply_feedback(
    state: State,
    feedback: Feedback,
    query: Query,
    width: Array,
    key: PRNGKey,
    bandit: Any,
    uniform: Array | None = None,
    added: Array | None = None,
    from_scratch: bool = False,
) -> tuple[State, Info]:
    """(state, info) after a batch. The dictionary is extended or resampled with the variances at
    the start of the batch, and then the posterior is refreshed. If the new dictionary, or the
    dictionary of earlier evaluations, exceeds the capacity, the state is unchanged and
    info.overflow is true.

    bandit          an algorithm with the fields of `SketchedBandit`
    uniform         [A], the random numbers of the draw; by default drawn with the key
    added           [A] bool, the arms that may extend the dictionary; by default those pulled in
                    the batch
    from_scratch    whether no low-rank update is used, so that `whiten` stays upper triangular
    """
    rows = state.domain.rows
    qbar, growth = in_dtype((bandit.qbar, bandit.resparsify), state.variance.dtype)
    if uniform is None:
        uniform = rows.uniform(key, state.variance.shape, state.variance.dtype)
    probability = dictionaries.inclusion_probability(feedback.pull_counts, state.variance, qbar)
    inducing, extends = uniform < probability, jnp.zeros((), bool)
    if growth is not None:
        if added is None:
            added = feedback.pull_counts > state.pull_counts
        # a growth below 0 makes the next dictionary a fresh draw
        growth = jnp.where(state.chosen_by_user, -1, growth)
        extended, extends = dictionaries.extend(state.dictionary, added, probability, growth, rows)
        inducing = jnp.where(extends, extended, inducing)
    dictionary, overflow = dictionaries.of_arms(inducing, state.capacity, rows)
    overflow = overflow | (state.n_excess_points > 0)
    evidence = replace(
        state.evidence,
        information=state.evidence.information + feedback.information,
        information_sketched=state.evidence.information_sketched + feedback.information_sketched,
    )
    failed = query.mask.any() & (rows.sum(feedback.pull_counts.sum()) == 0)
    before_refresh = replace(
        state,
        first_arm=counts.resample_first_arm(state.first_arm, failed, state.domain.count, key),
        evidence=evidence,
        chosen_by_user=jnp.zeros((), bool),
    )
    model = bandit.kernel, bandit.regularization
    # on an accelerator all runs of a vmap would compute both refreshes
    if growth is None or from_scratch or not bandit.incremental or devices.on_accelerator():
        observed = replace(
            before_refresh,
            pull_counts=feedback.pull_counts,
            reward_sums=feedback.reward_sums,
            dictionary=dictionary,
        )
        new = refresh(observed, *model)
    else:
        extends, max_arms = extends & ~overflow, query.index.shape[0]
        new = refresh_by_updates_if_accurate(
            before_refresh, feedback, dictionary, extends, model, max_arms
        )
    finite = jnp.isfinite(new.mean).all() & jnp.isfinite(new.variance).all() & jnp.isfinite(width)
    finite = rows.all(finite)
    new = select_state(overflow, state, new)
    imprecise = _is_imprecise(new, rows.max(jnp.max(new.variance)))
    info = Info(
        batch_size=query.size,
        observed=feedback.observed,
        dictionary_size=new.dictionary.size,
        width=width,
        overflow=overflow,
        truncated=jnp.asarray(query.truncated is not None and query.truncated),
        nonfinite=feedback.infinite | ~finite,
        imprecise=imprecise,
    )
    return new, info


def refresh_by_updates_if_accurate(
    state: Any,
    feedback: Feedback,
    dictionary: Dictionary,
    extends: Array,
    model: Any,
    max_arms: int,
) -> Any:
    """The state refreshed with the history of the feedback and the dictionary, by low-rank updates
    if these are accurate and the dictionary is an extension (`extends` []), else from scratch.
    `model` is (kernel, regularization); a batch has at most `max_arms` arms."""
    domain, (kernel, lam) = state.domain, in_dtype(model, state.mean.dtype)
    accurate = state.rounding <= MAX_UPDATE_ROUNDING * state.evidence.prior_variance / lam
    pulled = feedback.pull_counts > state.pull_counts
    few_arms = domain.rows.sum(pulled.sum(dtype=jnp.int32)) <= MAX_UPDATED_ARMS
    use_updates = extends & accurate & few_arms & (state.updates < MAX_UPDATES)
    use_updates = use_updates & (state.evidence.count > 0)

    def by_updates(carry: tuple[Any, Array], arguments: Any) -> tuple[Any, Array]:
        domain, feedback, _, (kernel, regularization) = arguments
        history = feedback.pull_counts, feedback.reward_sums
        old = replace(carry[0], domain=domain)
        new, accurate, fits = incremental.refresh(old, *history, kernel, regularization, max_arms)
        new = replace(new, updates=new.updates + 1)
        done = accurate & fits
        return replace(select_state(~done, old, new), domain=None), done

    def from_scratch(state: Any, arguments: Any) -> Any:
        domain, feedback, dictionary, model = arguments
        state = replace(
            state,
            domain=domain,
            pull_counts=feedback.pull_counts,
            reward_sums=feedback.reward_sums,
            dictionary=dictionary,
        )
        return replace(refresh(state, *model), domain=None)

    arguments = domain, feedback, dictionary, (kernel, lam)
    # the domain is an argument and not carried, because vmap copies a carried array for every run
    carry = replace(state, domain=None), jnp.zeros((), bool)
    state, done = cond_per_run(use_updates, by_updates, carry, arguments)
    return replace(cond_per_run(~done, from_scratch, state, arguments), domain=domain)


def select_state(flag: Array, before: SomeState, after: SomeState) -> SomeState:
    """The state `before` where the flag [] is true, else `after`; both have the same arms."""
    # under vmap a selection between the domains would copy the arms for every run
    before, domain = replace(before, domain=None), after.domain
    chosen = jax.tree.map(partial(jnp.where, flag), before, replace(after, domain=None))
    return replace(chosen, domain=domain)


@partial(jax.jit, static_argnums=4)
def _prior(
    domain: Arms, first_arm: Array, diag: Array, regularization: ArrayLike, capacity: int
) -> dict[str, Any]:
    """The fields of the state before any observation, except the domain. The function is jitted,
    because compiling its operations one by one would take half a second."""
    arms, rows = domain.features, domain.rows
    zeros, zero = jnp.zeros_like(diag), jnp.zeros((), arms.dtype)
    zero_matrix = jnp.zeros((capacity, capacity), arms.dtype)
    prior_variance = rows.max(jnp.max(diag))
    first_row = rows.take(arms, jnp.zeros((), jnp.int32))
    points = jnp.broadcast_to(first_row, (capacity, arms.shape[1]))
    return dict(
        first_arm=first_arm,
        pull_counts=zeros,
        reward_sums=zeros,
        dictionary=Dictionary(jnp.zeros(capacity, jnp.int32), jnp.zeros(capacity, bool)),
        nystrom=Nystrom(points, root=zero_matrix),
        whiten=zero_matrix,
        weights=zero_matrix[0],
        mean=zeros,
        variance=diag / regularization,
        evidence=widths.exact_evidence(count=zero, logdet=zero, prior_variance=prior_variance),
        n_excess_points=jnp.zeros((), jnp.int32),
        rounding=zero,
        dropping=zero,
        updates=jnp.zeros((), jnp.int32),
        chosen_by_user=jnp.zeros((), bool),
    )


class History(NamedTuple):
    """Earlier evaluations that `checked_history` has checked."""

    pull_counts: Array  # [A]
    reward_sums: Array  # [A]
    inducing: Array  # [A] bool, whether an arm is in the dictionary
    failed: Any = None  # arms [n] whose evaluations failed


def start(
    domain: Arms,
    kernel: Kernel,
    regularization: ArrayLike,
    capacity: int,
    key: PRNGKey,
    history: History | tuple[Array, Array, Array] | None = None,
) -> SketchState:
    """The state before the first round, given the evaluations of a history, if there is one. The
    information is then the upper bound of THEORY 2.4."""
    kernel, regularization = in_dtype((kernel, regularization), domain.features.dtype)
    checks.one_key(key=key)
    first_arm = jax.random.randint(key, (), 0, domain.count, jnp.int32)
    diag = kernel.diag(domain.features)
    state = SketchState(domain=domain, **_prior(domain, first_arm, diag, regularization, capacity))
    if history is None:
        return state
    (pull_counts, reward_sums, inducing), rows = history[:3], domain.rows
    dictionary, _ = dictionaries.of_arms(inducing, capacity, rows)
    observed = replace(
        state,
        pull_counts=pull_counts,
        reward_sums=reward_sums,
        dictionary=dictionary,
        n_excess_points=rows.sum(inducing.sum(dtype=jnp.int32)) - dictionary.size,
    )
    return with_upper_information(refresh(observed, kernel, regularization), regularization)


def lists_inducing_arms(data: Any) -> Array:
    """Whether the argument `data` of `init` lists the inducing arms, [] bool."""
    dictionary = getattr(data, "dictionary", None)
    return jnp.asarray(not (dictionary is None or isinstance(dictionary, str)))


def with_upper_information(state: State, regularization: ArrayLike) -> State:
    """The state with its information set to the upper bound of THEORY 2.4, as in a warm start."""
    regularization = in_dtype(regularization, state.mean.dtype)
    upper = state.evidence.logdet + state.evidence.residual_sum / regularization
    evidence = replace(state.evidence, information=upper, information_sketched=upper)
    return replace(state, evidence=evidence)


def checked_history(
    bandit: SketchedBandit, domain: Arms, key: PRNGKey, data: Evaluations | History
) -> History | None:
    """The evaluations as a `History`, or None if there are none; `key` is the key of `init`. A
    `History` is returned unchanged, because `Sharded` checks the evaluations of all arms and passes
    a part of them to each device. Raises ValueError for invalid evaluations."""
    if isinstance(data, History):
        return data
    if not isinstance(data, Evaluations):
        raise ValueError(
            "data are Evaluations, such as history.of_evaluations(arms, numbers, rewards); a"
            f" {type(data).__name__} was given."
        )
    dictionary = data.dictionary
    if data.pull_counts is None:
        if data.reward_sums is not None or dictionary is not None:
            raise ValueError(
                "reward_sums and dictionary describe observed evaluations: give pull_counts with"
                " them."
            )
        return None
    checks.evaluations(domain, data.pull_counts, data.reward_sums, bandit.whole_counts)
    dtype = domain.features.dtype
    pulls, sums = jnp.asarray(data.pull_counts, dtype), jnp.asarray(data.reward_sums, dtype)
    if isinstance(dictionary, str):
        dictionary = _sampled_dictionary(
            bandit, domain, jax.random.fold_in(key, DICTIONARY_FOLD), pulls, dictionary
        )
    if dictionary is None:
        inducing = pulls > 0
    else:
        checks.arm_numbers(domain, dictionary=dictionary)
        index = checks.mark_invalid_arms(domain, dictionary)
        inducing = jnp.zeros(domain.count, bool).at[index].set(True, mode="drop")
        # if a traced arm number does not exist, the state becomes NaN
        sums = jnp.where((index == domain.count).any(), jnp.nan, sums)
    if not is_traced(inducing) and int(inducing.sum()) > bandit.initial_slots:
        raise ValueError(
            f"a dictionary of {int(inducing.sum())} arms does not fit a capacity of"
            f" {bandit.initial_slots}: raise `capacity`."
        )
    return History(pulls, sums, inducing, data.failed)


def _sampled_dictionary(
    bandit: Any, domain: Arms, key: PRNGKey, pulls: Array, method: str
) -> np.ndarray:
    """The numbers of inducing arms, sampled from the arms with pulls on the host, by BLESS or by
    exact leverage scores."""
    checks.choice(("bless", "leverage"), dictionary=method)
    if is_traced(domain, pulls, bandit, key):
        raise ValueError(
            f'dictionary="{method}" is sampled on the host: call init outside jit and vmap, or give'
            " arm numbers."
        )
    kernel, lam, qbar = in_dtype(
        (bandit.kernel, bandit.regularization, bandit.qbar), domain.features.dtype
    )
    pulled = np.flatnonzero(np.asarray(pulls) > 0)
    if len(pulled) == 0:
        return pulled
    points = np.asarray(domain.rows.on_host(domain.features, pulled))
    n_pulls = np.asarray(pulls)[pulled]
    lam = float(np.asarray(lam))
    if method == "bless":
        return pulled[bless.bless(kernel, points, n_pulls, lam, key).rows]
    scores = bless.exact_leverage_scores(kernel, points, n_pulls, lam)
    uniform = np.asarray(jax.random.uniform(key, scores.shape, scores.dtype))
    probability = float(np.asarray(qbar)) * scores
    return pulled[uniform < np.minimum(1, probability)]


def residuals(kernel: Kernel, state: SketchState) -> Array:
    """The residuals k(x,x) - |z(x)|^2 of all arms, [A], exactly 0 for arms of the dictionary. A
    call costs as much as the refresh of a bandit, which also sweeps over all arms."""
    dictionary, domain = state.dictionary, state.domain

    def chunk_residuals(x: Array) -> Array:
        return nystrom.residual(kernel.diag(x), nystrom.features(state.nystrom, kernel, x))

    residual = map_rows(chunk_residuals, domain.features, len(dictionary.index))
    return dictionaries.put(dictionary, residual, jnp.zeros((), residual.dtype), domain.rows)


def expected_size(
    arms: Arms, kernel: Kernel, regularization: ArrayLike, qbar: ArrayLike, horizon: int
) -> float:
    """The expected size of a dictionary after `horizon` uniform pulls of up to ESTIMATE_ARMS random
    arms: sum_i min(1, qbar l_i), where l_i is the exact leverage score of arm i.

    The function runs on the host, in O(ESTIMATE_ARMS^3). The pulls of a bandit concentrate on good
    arms, for which the result is too large. With more than ESTIMATE_ARMS arms it can be too small.
    """
    count = min(arms.count, ESTIMATE_ARMS)
    chosen = np.random.default_rng(0).choice(arms.count, count, replace=False)
    x = arms.features[chosen]
    gram = np.asarray(_gram(kernel, x), np.float64)
    # a Gram matrix of repeated arms is singular up to its rounding errors
    least_noise = 10 * count * jnp.finfo(arms.features.dtype).eps * np.diagonal(gram).max()
    noise = max(float(np.asarray(regularization)) * count / horizon, least_noise)
    leverage = 1 - noise * np.diagonal(np.linalg.inv(gram + noise * np.eye(count)))
    return float(np.clip(np.asarray(qbar) * leverage, 0, 1).sum())


@jax.jit
def _gram(kernel: Kernel, x: Array) -> Array:
    return kernel.gram(x, x)


def check_bandit(bandit: Any) -> None:
    """Raises ValueError for settings out of their ranges. Warns of a width that is proved for an
    exact posterior only (THEORY 4.1, 4.7). On a sketch such a width holds as long as the dictionary
    contains all pulled arms and the ratio C is 1."""
    checks.settings(bandit)
    for width, name, alternative in (
        (widths.mixture, "mixture", "certified_mixture"),
        (widths.gp_ucb_tight, "gp_ucb_tight", "certified"),
    ):
        if bandit.width == width:
            warn(
                f"the width `{name}` is proved for an exact posterior only, and ignores what a"
                f" dictionary does not represent: `widths.{alternative}` holds for any dictionary."
            )


def check_inducing_points_fit(state: Any) -> None:
    """Raises ValueError for a state, or stacked states, whose earlier evaluations have more
    inducing points than the capacity."""
    sketch = getattr(state, "sketch", state)
    if (
        not isinstance(sketch, SketchState)
        or is_traced(sketch.n_excess_points)
        or not bool((sketch.n_excess_points > 0).any())
    ):
        return
    capacity = sketch.dictionary.mask.shape[-1]
    needed = capacity + int(sketch.n_excess_points.max())
    raise ValueError(
        f"the observations have {needed} inducing points, and the capacity is {capacity}: call"
        f" `init` again with a capacity of at least {needed}. Growing the state does not restore"
        " them."
    )

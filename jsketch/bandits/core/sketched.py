"""The sketched posterior of BKB, BBKB and the algorithms built on them: its state, the refresh
after every batch, the start from earlier evaluations, and growth.

Nothing of size A x M is stored: a refresh sweeps the arms in chunks, and a batch computes the
features of the few arms that it compares. Memory O(A d + M^2). A refresh recomputes everything from
the history, so that rounding errors do not accumulate. It costs O((A + n) m^2 + m^3) for n distinct
pulled arms.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

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
    WHOLE,
    Rows,
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
    attach,
    detach,
    is_traced,
)
from jsketch.warn import warn

EVERY_BATCH = None  # the value of `resparsify` in the papers
# A posterior is updated, and not computed from scratch, at most MOST_UPDATES times, for at most
# MOST_UPDATED arms a batch, and while rounding changes variances by less than STEADY of the prior.
MOST_UPDATES, MOST_UPDATED, STEADY = 50, 64, 1e-11
ESTIMATE_ARMS = 768  # arms of `expected_size`
# The final size of a dictionary over the expected size after uniform pulls: on the problems of
# `experiments.bbkb_2020.resparsification` 0.3 to 0.6, on its hard problem 1.1 to 1.4, where the
# capacity grows once.
FIRST_SHARE = 0.65
CAPACITY_MULTIPLE = 16
# Folded into the key of `init` to sample a dictionary. The first arm is drawn with the key itself,
# and no draw of JAX folds in such a number (it uses 0, 1, ...).
DICTIONARY_FOLD = 0xD1C7


@struct.dataclass
class SketchState:
    """History, dictionary and posterior at the start of a batch. Everything except the history
    follows from these."""

    domain: Arms  # A arms; constant
    # [] int32, uniform: the first pull (BKB Fig. 1: all scores tie), redrawn when it fails
    first_arm: Array
    pull_counts: Array  # [A]
    reward_sums: Array  # [A]
    dictionary: Dictionary  # M slots
    nystrom: Nystrom  # of the dictionary
    whiten: Array  # [M, M], upper triangular; u(x) = z(x) @ whiten, e(x,x') = u(x).u(x')
    weights: Array  # [M]; mean(x) = u(x) . weights
    mean: Array  # [A]
    variance: Array  # [A], leverage units
    evidence: Evidence
    # [] int32, warm-start points beyond the capacity; where there are any, `tell` overflows. Above
    # 0 only under jit and vmap: elsewhere `init` raises
    n_truncated: Array
    rounding: Array  # [], an upper estimate of the errors of `variance`, see `nystrom.sensitivity`
    updates: Array  # [] int32, updates of low rank since the last refresh from scratch
    # [] bool, the inducing arms are of the user's choice, and perhaps not accurate: the next
    # dictionary is a fresh draw
    chosen_by_user: Array

    @property
    def capacity(self) -> int:
        """M."""
        return self.dictionary.index.shape[0]

    @property
    def imprecise(self) -> Array:
        """Whether rounding may change variances by more than checks.LARGEST_ROUNDING, [] bool."""
        return self.rounding > checks.LARGEST_ROUNDING * jnp.max(self.variance)


State = TypeVar("State", bound=SketchState)


class Sketching(Protocol):
    """An algorithm with the fields of `SketchedBandit` that these functions read."""

    kernel: Kernel
    regularization: ArrayLike
    qbar: ArrayLike
    width: widths.Width
    capacity: int

    @property
    def resparsify(self) -> ArrayLike | None: ...

    incremental: ClassVar[bool]


@struct.dataclass
class SketchedBandit(widths.Optimistic, Algorithm):
    """The fields and methods of all algorithms on a sketched posterior. Subclasses add `ask`."""

    qbar: ArrayLike = 2.0  # oversampling; `dictionary.qbar_theory` for the guarantee
    # The pulled arms join the dictionary while it has at most (1 + resparsify) times the expected
    # size of a fresh draw, and a fresh draw replaces it beyond (THEORY 3.6). EVERY_BATCH draws
    # afresh after every batch, as the papers do.
    resparsify: ArrayLike | None = 0.25
    # the confidence width, one of `bandits.widths`
    width: widths.Width = widths.bkb_code
    # M, most inducing points; `run` grows it
    capacity: int = struct.field(pytree_node=False, default=64)
    # whether the pull counts of earlier evaluations must be integers, and not weights
    whole_counts: ClassVar[bool] = True
    # whether updates of low rank may replace refreshes from scratch where a dictionary is extended
    incremental: ClassVar[bool] = True

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> SketchState:
        """The state before the first round. Raises ValueError on static mistakes.

        data  earlier evaluations; sampling their dictionary ("bless" or "leverage") needs concrete
              arrays
        """
        check_bandit(self)
        domain = checks.arms(domain)
        checks.model(domain, self.kernel, self.regularization, self.capacity)
        count, inputs = domain.features.shape
        floats = 3 * self.capacity**2 + self.capacity * inputs + count * (inputs + 8)
        checks.memory(floats, domain.features.dtype, capacity=self.capacity, arms=count)
        history = None if data is None else checked_history(self, domain, key, data)
        state = start(domain, self.kernel, self.regularization, self.capacity, key, history)
        return replace(state, chosen_by_user=has_chosen_dictionary(data))

    def confidence_width(self, state: SketchState) -> Array:
        """Number of posterior standard deviations in a confidence bound, []."""
        return widths.confidence_width(self, state.evidence)

    def confidence_bounds(self, state: SketchState) -> tuple[Array, Array, Array]:
        return state.mean, state.variance, self.confidence_width(state)

    def scores(self, state: SketchState) -> Array:
        """Upper confidence bounds of all arms at the start of a batch, [A]."""
        return ucb(state.mean, state.variance, self.confidence_width(state))

    def tell(self, state: State, query: Query, y: Array, key: PRNGKey) -> tuple[State, Info]:
        query, y = checks.feedback(state.domain, query, y)
        feedback = counts.absorb(
            state.pull_counts, state.reward_sums, state.variance, query, y, state.domain.rows
        )
        return apply_feedback(state, feedback, query, self.confidence_width(state), key, self)

    def sized(self, arms: Arms, horizon: int) -> Self:
        """With `resparsify`, a capacity for FIRST_SHARE of the points that `expected_size`
        estimates: growth compiles another program, and free slots slow updates of low rank little.
        """
        numbers = self.kernel, self.regularization, self.qbar
        if self.resparsify is None or arms.shard is not None or is_traced((arms, numbers)):
            return self
        size = expected_size(arms, self.kernel, self.regularization, self.qbar, horizon)
        estimate = -(-int(FIRST_SHARE * size) // CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE
        return replace(self, capacity=max(self.capacity, min(estimate, arms.count)))

    def grow(self, state: State, capacity: int) -> State:
        return grow(state, capacity)


def embed(state: SketchState, kernel: Kernel, x: Array) -> tuple[Array, Array]:
    """(z(x), u(x)) of points x [n,d], [n,M] each: Nystrom features, and features in which the
    posterior covariance is an inner product."""
    z = nystrom.features(state.nystrom, kernel, x)
    return z, matmul(z, state.whiten)


def predict_arms(
    kernel: Kernel, features: Nystrom, posterior: Ridge, arms: Array, regularization: ArrayLike
) -> tuple[Array, Array, Array]:
    """(mean [A], variance [A]) of all arms, in chunks; and `nystrom.sensitivity` over them, [].

    The mean is u(x) . weights and the variance r/lam + e(x,x) (BBKB eqs. 1 and 2), by one product
    for each chunk: lam sigma^2 = k(x,x) - |k_S(x) G|^2 with G = R F, where z = k_S R and lam
    sigma^2 = k(x,x) - |z F|^2 (`ridge.explained_root`). Residual and e would be two products.
    """
    explained = matmul_upper(features.root, ridge.explained_root(posterior, regularization))
    dual = matmul(features.root, matmul(posterior.whiten, posterior.weights))
    reads = jnp.concatenate([dual[:, None], nystrom.probes(features)], axis=1)

    def chunk(x: Array) -> tuple[Array, Array, Array]:
        k = kernel.gram(x, features.points)
        read = matmul(k, reads)
        variance = jnp.maximum(kernel.diag(x) - squares_upper(k, explained), 0) / regularization
        return read[:, 0], variance, nystrom.sensitivity(read[:, 1:])

    mean, variance, sensitivity = map_rows(chunk, arms, len(features.root))
    return mean, variance, sensitivity.max()


class Moments(NamedTuple):
    """Sums over the distinct pulled arms of their features z, pull counts n and reward sums s."""

    gram: Array  # [M, M], sum_i n_i z_i z_i^T
    moment: Array  # [M], sum_i s_i z_i
    residual_sum: Array  # [], sum_i n_i (k(x_i,x_i) - |z_i|^2)


def moments(state: SketchState, kernel: Kernel, features: Nystrom, z: Array) -> Moments:
    """The moments of the history: of the arms of the dictionary, whose features are z [M,M] and
    whose residuals are zero, and of the other pulled arms, in chunks."""
    domain, rows, dictionary = state.domain, state.domain.rows, state.dictionary
    history = state.pull_counts, state.reward_sums

    def add(before: Moments, index: Array, pulls: Array, rewards: Array) -> Moments:
        arms = rows.take(domain.features, index)
        z = nystrom.features(features, kernel, arms)
        residual = nystrom.residual(kernel.diag(arms), z)
        return Moments(
            gram=before.gram + matmul(z.T, z * pulls[:, None]),
            moment=before.moment + matmul(rewards, z),
            residual_sum=before.residual_sum + matmul(pulls, residual),
        )

    pulls, rewards = dictionaries.history_of(dictionary.index, dictionary.mask, *history, rows)
    zero = jnp.zeros((), domain.features.dtype)
    start = Moments(matmul(z.T, z * pulls[:, None]), matmul(rewards, z), zero)
    return dictionaries.sum_outside(dictionary, *history, add, start, domain.count, rows)


def refresh(state: State, kernel: Kernel, regularization: ArrayLike) -> State:
    """Recomputes embedding and posterior from the history and the dictionary of `state` (BBKB Alg.
    1, L17-18)."""
    arms, rows = state.domain.features, state.domain.rows
    kernel, regularization = in_dtype((kernel, regularization), arms.dtype)
    index, mask = state.dictionary.index, state.dictionary.mask
    features, z = nystrom.build_with_features(kernel, rows.take(arms, index), mask)
    sums = moments(state, kernel, features, z)
    posterior = ridge.fit(sums.gram, sums.moment, regularization)
    mean, variance, sensitivity = sequential_vmap(
        predict_arms, kernel, features, posterior, arms, regularization
    )
    # the dictionary represents its arms exactly: the rounding error of k(x,x) - |z|^2 would be
    # divided by lam (THEORY 9.1)
    exact = squares_upper(z, posterior.whiten)
    variance = dictionaries.put(state.dictionary, variance, exact, rows)
    evidence = replace(
        state.evidence,
        count=rows.sum(state.pull_counts.sum()),
        variance_sum=rows.sum(matmul(state.pull_counts, variance)),
        logdet=posterior.logdet,
        residual_sum=sums.residual_sum,
    )
    # of about 1 unless the table of the sweep is large and the points are far apart
    eps = jnp.finfo(arms.dtype).eps * checks.roundings(kernel, features.points, state.domain.count)
    return replace(
        state,
        nystrom=features,
        whiten=posterior.whiten,
        weights=posterior.weights,
        mean=mean,
        variance=variance,
        evidence=evidence,
        rounding=eps * evidence.prior_variance * rows.max(sensitivity) / regularization,
    )


def apply_feedback(
    state: State,
    feedback: Feedback,
    query: Query,
    width: Array,
    key: PRNGKey,
    bandit: Sketching,
    uniform: Array | None = None,
    added: Array | None = None,
    from_scratch: bool = False,
) -> tuple[State, Info]:
    """Extends or resparsifies the dictionary with the variances at the start of the batch, then
    refreshes: (state, info). `uniform` and `added`, by default the arms pulled in the batch, are
    those of `dictionary.extend_or_resample`. from_scratch: whether the posterior is never updated,
    so that `whiten` stays upper triangular.

    Where the new dictionary exceeds the capacity, or that of the warm start did, the round is not
    applied: the state is returned unchanged, and info.overflow is true.
    """
    rows = state.domain.rows
    qbar, growth = in_dtype((bandit.qbar, bandit.resparsify), state.variance.dtype)
    extends = jnp.zeros((), bool)
    if growth is None:
        dictionary, overflow = dictionaries.resample(
            key, feedback.pull_counts, state.variance, qbar, state.capacity, rows, uniform
        )
    else:
        if added is None:
            added = feedback.pull_counts > state.pull_counts
        dictionary, overflow, extends = dictionaries.extend_or_resample(
            key,
            state.dictionary,
            added,
            feedback.pull_counts,
            state.variance,
            qbar,
            jnp.where(state.chosen_by_user, -1, growth),
            rows,
            uniform,
        )
    overflow = overflow | (state.n_truncated > 0)
    evidence = replace(
        state.evidence,
        information=state.evidence.information + feedback.information,
        information_sketched=state.evidence.information_sketched + feedback.information_sketched,
    )
    failed = query.mask.any() & (rows.sum(feedback.pull_counts.sum()) == 0)
    before_refresh = replace(
        state,
        first_arm=counts.resample_initial_arm(state.first_arm, failed, state.domain.count, key),
        evidence=evidence,
        chosen_by_user=jnp.zeros((), bool),
    )
    model = bandit.kernel, bandit.regularization
    # on an accelerator all runs of a vmap would compute both
    if growth is None or from_scratch or not bandit.incremental or devices.on_accelerator():
        new = refresh_with(before_refresh, feedback, dictionary, *model)
    else:
        extends, most = extends & ~overflow, query.index.shape[0]
        new = refresh_where_needed(before_refresh, feedback, dictionary, extends, model, most)
    finite = jnp.isfinite(new.mean).all() & jnp.isfinite(new.variance).all() & jnp.isfinite(width)
    finite = rows.all(finite)
    new = unless(overflow, state, new)
    imprecise = new.rounding > checks.LARGEST_ROUNDING * rows.max(jnp.max(new.variance))
    info = Info(
        batch_size=query.size.astype(jnp.int32),
        observed=feedback.observed,
        dictionary_size=dictionary.size,
        width=width,
        overflow=overflow,
        truncated=query.was_truncated,
        nonfinite=feedback.infinite | ~finite,
        imprecise=imprecise,
    )
    return new, info


def refresh_with(
    state: State,
    feedback: Feedback,
    dictionary: Dictionary,
    kernel: Kernel,
    regularization: ArrayLike,
) -> State:
    """The state refreshed from scratch with the history of a feedback and a dictionary."""
    state = replace(
        state,
        pull_counts=feedback.pull_counts,
        reward_sums=feedback.reward_sums,
        dictionary=dictionary,
        updates=jnp.zeros((), jnp.int32),
    )
    return refresh(state, kernel, regularization)


def refresh_where_needed(
    state: State,
    feedback: Feedback,
    dictionary: Dictionary,
    extends: Array,
    model: Any,
    most: int,
) -> State:
    """`refresh_with`, by updates of low rank where extends [] is true and they are accurate; the
    batch has at most `most` picks."""
    domain, model = state.domain, in_dtype(model, state.mean.dtype)
    accurate = state.rounding <= STEADY * state.evidence.prior_variance / model[1]
    pulled = feedback.pull_counts > state.pull_counts
    few = domain.rows.sum(pulled.sum(dtype=jnp.int32)) <= MOST_UPDATED
    updates = extends & accurate & few & (state.updates < MOST_UPDATES)
    updates = updates & (state.evidence.count > 0)

    def by_updates(carry: tuple[State, Array], given: Any) -> tuple[State, Array]:
        domain, feedback, _, (kernel, regularization) = given
        history = feedback.pull_counts, feedback.reward_sums
        before = attach(carry[0], domain)
        new, accurate, fits = incremental.refresh(before, *history, kernel, regularization, most)
        new = replace(new, updates=new.updates + 1)
        done = accurate & fits
        return detach(unless(~done, before, new)), done

    def from_scratch(state: State, given: Any) -> State:
        domain, feedback, dictionary, (kernel, regularization) = given
        state = attach(state, domain)
        return detach(refresh_with(state, feedback, dictionary, kernel, regularization))

    given = domain, feedback, dictionary, model
    # under vmap a carried array is copied for every run
    start = detach(state), jnp.zeros((), bool)
    state, done = cond_per_run(updates, by_updates, start, given)
    return attach(cond_per_run(~done, from_scratch, state, given), domain)


def unless(flag: Array, before: SomeState, after: SomeState) -> SomeState:
    """The state `after`, or the one before where the flag [] is true; both have the same arms."""
    chosen = jax.tree.map(partial(jnp.where, flag), detach(before), detach(after))
    return attach(chosen, after.domain)


@partial(jax.jit, static_argnums=4)
def _prior(
    domain: Arms, first_arm: Array, diag: Array, regularization: ArrayLike, capacity: int
) -> dict[str, Any]:
    """The fields of the state without data, except the domain. One program: operation by operation
    it would compile for half a second."""
    arms, rows = domain.features, domain.rows
    zeros, zero = jnp.zeros_like(diag), jnp.zeros((), arms.dtype)
    square = jnp.zeros((capacity, capacity), arms.dtype)
    first = rows.take(arms, jnp.zeros((), jnp.int32))
    return dict(
        first_arm=first_arm,
        pull_counts=zeros,
        reward_sums=zeros,
        dictionary=Dictionary(jnp.zeros(capacity, jnp.int32), jnp.zeros(capacity, bool)),
        nystrom=Nystrom(points=jnp.broadcast_to(first, (capacity, arms.shape[1])), root=square),
        whiten=square,
        weights=square[0],
        mean=zeros,
        variance=diag / regularization,
        evidence=widths.of_exact(zero, zero, rows.max(jnp.max(diag))),
        n_truncated=jnp.zeros((), jnp.int32),
        rounding=zero,
        updates=jnp.zeros((), jnp.int32),
        chosen_by_user=jnp.zeros((), bool),
    )


class History(NamedTuple):
    """Earlier evaluations, checked."""

    pull_counts: Array  # [A]
    reward_sums: Array  # [A]
    keep: Array  # [A] bool, the arms of the dictionary
    failed: Any = None  # arms [n] whose evaluations failed


def start(
    domain: Arms,
    kernel: Kernel,
    regularization: ArrayLike,
    capacity: int,
    key: PRNGKey,
    history: History | tuple[Array, Array, Array] | None,
) -> SketchState:
    """The state before the first round, after the evaluations of a history. The information that
    widths read then starts from the upper bound of THEORY 2.4."""
    kernel, regularization = in_dtype((kernel, regularization), domain.features.dtype)
    checks.one_key(key=key)
    first_arm = jax.random.randint(key, (), 0, domain.count, jnp.int32)
    diag = kernel.diag(domain.features)
    state = SketchState(domain=domain, **_prior(domain, first_arm, diag, regularization, capacity))
    if history is None:
        return state
    (pull_counts, reward_sums, keep), rows = history[:3], domain.rows
    dictionary, _ = dictionaries.of_arms(keep, capacity, rows)
    warm = replace(
        state,
        pull_counts=pull_counts,
        reward_sums=reward_sums,
        dictionary=dictionary,
        n_truncated=rows.sum(keep.sum(dtype=jnp.int32)) - dictionary.size,
    )
    return with_upper_information(refresh(warm, kernel, regularization), regularization)


def has_chosen_dictionary(data: Any) -> Array:
    """Whether the evaluations `data` of `init` name inducing arms of the user's choice, [] bool."""
    dictionary = getattr(data, "dictionary", None)
    return jnp.asarray(not (dictionary is None or isinstance(dictionary, str)))


def with_upper_information(state: State, regularization: ArrayLike) -> State:
    """The state with the information of its data set to the upper bound of THEORY 2.4, as after a
    warm start."""
    regularization = in_dtype(regularization, state.mean.dtype)
    upper = state.evidence.logdet + state.evidence.residual_sum / regularization
    evidence = replace(state.evidence, information=upper, information_sketched=upper)
    return replace(state, evidence=evidence)


def checked_history(
    bandit: SketchedBandit,
    domain: Arms,
    key: PRNGKey,
    data: Evaluations | History,
) -> History | None:
    """The evaluations as a history; None without any. `key` is that of `init`.

    A `History` is returned as it is: `Sharded` checks the evaluations of all arms and passes each
    device its part.
    """
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
    checks.past(domain, data.pull_counts, data.reward_sums, bandit.whole_counts)
    dtype = domain.features.dtype
    pulls, sums = jnp.asarray(data.pull_counts, dtype), jnp.asarray(data.reward_sums, dtype)
    if isinstance(dictionary, str):
        dictionary = _sampled_dictionary(
            bandit, domain, jax.random.fold_in(key, DICTIONARY_FOLD), pulls, dictionary
        )
    if dictionary is None:
        keep = pulls > 0
    else:
        checks.arm_numbers(domain, dictionary=dictionary)
        index = checks.or_none(domain, dictionary)
        keep = jnp.zeros(domain.count, bool).at[index].set(True, mode="drop")
        # an arm that does not exist, which only a traced number may be, makes the state NaN
        sums = jnp.where((index == domain.count).any(), jnp.nan, sums)
    if not is_traced(keep) and int(keep.sum()) > bandit.capacity:
        raise ValueError(
            f"a dictionary of {int(keep.sum())} arms does not fit a capacity of {bandit.capacity}:"
            " raise `capacity`."
        )
    return History(pulls, sums, keep, data.failed)


def _sampled_dictionary(
    bandit: Sketching, domain: Arms, key: PRNGKey, pulls: Array, method: str
) -> np.ndarray:
    """Arms of a dictionary of the observed evaluations, by BLESS or by exact leverage scores,
    computed on the host."""
    checks.choice(("bless", "leverage"), dictionary=method)
    if is_traced(domain, pulls, bandit, key):
        raise ValueError(
            f'dictionary="{method}" is sampled on the host: call init outside jit and vmap, or give'
            " the arms themselves."
        )
    kernel, lam, qbar = in_dtype(
        (bandit.kernel, bandit.regularization, bandit.qbar), domain.features.dtype
    )
    pulled = np.flatnonzero(np.asarray(pulls) > 0)
    if len(pulled) == 0:
        return pulled
    points = np.asarray(domain.rows.on_host(domain.features, pulled))
    n = np.asarray(pulls)[pulled]
    lam = float(np.asarray(lam))
    if method == "bless":
        return pulled[bless.bless(kernel, points, n, lam, key).rows]
    scores = bless.exact_leverage_scores(kernel, points, n, lam)
    uniform = np.asarray(jax.random.uniform(key, scores.shape, scores.dtype))
    expected = float(np.asarray(qbar)) * scores
    return pulled[uniform < np.minimum(1, expected)]


def residuals(
    kernel: Kernel,
    features: Nystrom,
    dictionary: Dictionary,
    arms: Array,
    rows: Rows = WHOLE,
) -> Array:
    """k(x,x) - |z(x)|^2 of all arms, [A], exactly 0 for the dictionary's. It costs as much as the
    sweep of a refresh; a batch computes the residuals that it needs from the variances."""

    def chunk(x: Array) -> Array:
        return nystrom.residual(kernel.diag(x), nystrom.features(features, kernel, x))

    residual = map_rows(chunk, arms, len(dictionary.index))
    return dictionaries.put(dictionary, residual, jnp.zeros((), residual.dtype), rows)


def expected_size(
    arms: Arms, kernel: Kernel, regularization: ArrayLike, qbar: ArrayLike, horizon: int
) -> float:
    """The expected size of a dictionary of the arms after `horizon` uniform pulls, sum_i min(1,
    qbar l_i) with the exact leverage scores l, for up to ESTIMATE_ARMS random arms.

    A host function, O(ESTIMATE_ARMS^3). A bandit pulls good arms more often, which need fewer
    points; and more arms than these need more.
    """
    count = min(arms.count, ESTIMATE_ARMS)
    chosen = np.random.default_rng(0).choice(arms.count, count, replace=False)
    x = arms.features[chosen]
    gram = np.asarray(_gram(kernel, x), np.float64)
    # below its rounding errors the Gram matrix of repeated arms has no inverse
    least = 10 * count * jnp.finfo(arms.features.dtype).eps * np.diagonal(gram).max()
    noise = max(float(np.asarray(regularization)) * count / horizon, least)
    leverage = 1 - noise * np.diagonal(np.linalg.inv(gram + noise * np.eye(count)))
    return float(np.clip(np.asarray(qbar) * leverage, 0, 1).sum())


@jax.jit
def _gram(kernel: Kernel, x: Array) -> Array:
    return kernel.gram(x, x)


def check_bandit(bandit: Sketching) -> None:
    """Raises ValueError for settings out of their ranges. Warns of a width that is proved for an
    exact posterior alone (THEORY 4.1, 4.7): on a sketched posterior it holds while all pulled arms
    are in the dictionary and C is 1."""
    checks.settings(bandit)
    for exact, name, instead in (
        (widths.mixture, "mixture", "certified_mixture"),
        (widths.gp_ucb_tight, "gp_ucb_tight", "certified"),
    ):
        if bandit.width == exact:
            warn(
                f"the width `{name}` is proved for an exact posterior only, and ignores what a"
                f" dictionary does not represent: `widths.{instead}` holds for any dictionary."
            )


def check_whole(state: Any) -> None:
    """Raises ValueError for the state, or the states, of a sketched algorithm whose warm start has
    more inducing points than the capacity."""
    sketch = getattr(state, "sketch", state)
    if (
        not isinstance(sketch, SketchState)
        or is_traced(sketch.n_truncated)
        or not bool((sketch.n_truncated > 0).any())
    ):
        return
    capacity = sketch.dictionary.mask.shape[-1]
    needed = capacity + int(sketch.n_truncated.max())
    raise ValueError(
        f"the observations have {needed} inducing points, and the capacity is {capacity}: call"
        f" `init` again with a capacity of at least {needed}. Growing the state does not restore"
        " them."
    )


def grow(state: State, capacity: int) -> State:
    """The same state with `capacity` >= M slots; the added slots change no number. Raises
    ValueError for fewer, and for a state whose warm start exceeded the capacity."""
    check_whole(state)
    checks.larger(state.capacity, capacity=capacity)
    extra = capacity - state.capacity
    square = ((0, extra), (0, extra))
    return replace(
        state,
        dictionary=Dictionary(
            index=jnp.pad(state.dictionary.index, (0, extra)),
            mask=jnp.pad(state.dictionary.mask, (0, extra)),
        ),
        nystrom=Nystrom(
            points=jnp.pad(state.nystrom.points, ((0, extra), (0, 0)), mode="edge"),
            root=jnp.pad(state.nystrom.root, square),
        ),
        whiten=jnp.pad(state.whiten, square),
        weights=jnp.pad(state.weights, (0, extra)),
    )

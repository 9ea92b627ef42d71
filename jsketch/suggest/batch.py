"""The batch: BKB's posterior of the evaluations, and a fixed-size batch by optimism
(`bandits.FixedBKB`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks, kernels
from jsketch.bandits import FixedBKB, history, widths
from jsketch.sketch import bless
from jsketch.suggest.data import LARGEST, Data, checked, lengthened, padded
from jsketch.suggest.model import Model, check_lengthscale, of_data
from jsketch.types import Arms, PRNGKey, Query

BATCH = 1  # folded into the key of a suggestion, as `model.FIT` is
# inducing points; more of them cost more than they tell when values are noisy
LARGEST_DICTIONARY = 768


class Suggestion(NamedTuple):
    """A batch of B candidates in the order of their choice, best first; in units of the values."""

    rows: np.ndarray  # [B] int, of the candidates
    score: np.ndarray  # [B], the optimistic bound mean + width * std
    mean: np.ndarray  # [B], of the posterior
    std: np.ndarray  # [B], standard deviation of the posterior, without the noise of a value
    width: float  # in posterior standard deviations
    model: Model
    dictionary_size: int  # inducing points of the sketch
    # inducing points that its accuracy asks for: more than there are where they were thinned
    dictionary_wanted: int


def suggest(
    candidates: Any,
    arms: Any = (),
    values: Any = (),
    *,
    pending: Any = (),
    batch: int = 96,
    width: float = 2.0,
    lengthscale: float | None = None,
    scaling: bool = True,
    model: Model | None = None,
    key: PRNGKey | None = None,
) -> Suggestion:
    """The candidates to evaluate next: those that may be best and say most of one another.

    The values are modelled by a Gaussian process, sketched on some of the evaluated candidates. A
    candidate's score is its mean plus `width` standard deviations; every pick, and every pending
    evaluation, lowers the standard deviations of the candidates like it before the next pick
    (hallucination; THEORY 5.8). No candidate comes twice.

    candidates   [A, d] numbers, the library: one candidate a row, one feature a column, all finite
    arms         [n] int, the row of each evaluation made so far; a row may be repeated. None yet:
                 leave out
    values       [n] numbers, larger is better (negate what is to be minimised), any unit; NaN: the
                 evaluation failed, it teaches nothing and is not suggested again
    pending      [p] int, rows whose evaluation is pending: they are not suggested
    batch        B, how many to suggest
    width        optimism in posterior standard deviations: more explore more, 0 takes the largest
                 means
    lengthscale  of the Gaussian kernel in units of the scaled features; None: fitted
    scaling      True: every feature is brought to mean 0 and standard deviation 1 first. False:
                 features are as they are
    model        what `fit` found, where it is at hand; None: fitted here
    key          of the random choices (inducing points, the very first pick); None:
                 jax.random.key(0). The same arrays and key give the same batch

    Computes in JAX's floating dtype: with jax_enable_x64 in float64, which small noise needs. Cost
    O(A m^2) for m inducing points and O(A d) memory; sizes are padded, so that most rounds of a
    loop compile nothing.

    Raises ValueError, in words, for candidates that are no finite matrix, a constant column (with
    scaling), arms or pending rows that are not there, values of another length, infinite or too
    large, a batch larger than what is left, and options outside their range.
    """
    key = checks.one_key(key=jax.random.key(0) if key is None else key)
    data = checked(candidates, arms, values, pending, scaling)
    _check_options(data, batch, width, lengthscale, model)
    model = of_data(data, lengthscale, key) if model is None else model
    return _chosen(data, model, batch, width, key)


def _check_options(
    data: Data, batch: int, width: float, lengthscale: float | None, model: Any
) -> None:
    checks.capacity(batch=batch)
    checks.nonnegative(width=width)
    if model is not None and lengthscale is not None:
        raise ValueError("give a lengthscale or a model, which has one, and not both.")
    if model is not None and not isinstance(model, Model):
        raise ValueError(f"model must be a Model, such as `fit` gives; {model!r} was given.")
    if model is not None:
        check_lengthscale(data, model.lengthscale)
        checks.positive(ratio=model.ratio, scale=model.scale)
        checks.finite(centre=model.centre)
        if max(abs(model.centre), model.scale) > LARGEST:
            raise ValueError(f"a model's centre and scale are at most {LARGEST:g}: {model}.")
    count, evaluated = len(data.features), len(np.unique(data.arms))
    left = count - len(np.union1d(data.arms, data.pending))
    if batch > left:
        raise ValueError(
            f"batch = {batch} is more than what is left: of {count} candidates {evaluated} were"
            f" evaluated and {len(data.pending)} are pending, {left} are left."
        )


def _chosen(data: Data, model: Model, batch: int, width: float, key: PRNGKey) -> Suggestion:
    domain, kernel = Arms(jnp.asarray(data.features)), kernels.Gaussian(model.lengthscale)
    # here, because a compiled program can neither warn nor refuse
    domain = checks.arms(domain)
    checks.model(domain, kernel, model.ratio)
    counts, sums = history.of_evaluations(
        domain, data.arms, (data.values - model.centre) / model.scale
    )
    first_key, dictionary_key, ask_key = jax.random.split(jax.random.fold_in(key, BATCH), 3)
    wanted, dictionary = _inducing_candidates(
        kernel, data.features, counts, model.ratio, dictionary_key
    )
    bandit = FixedBKB(
        kernel,
        regularization=model.ratio,
        noise_std=model.ratio**0.5,
        width=widths.Bayesian(width),
        batch=batch,
        max_pending=padded(len(data.pending)) if len(data.pending) else 0,
        capacity=padded(len(dictionary)),
        repeat=False,
    )
    slots = lengthened(dictionary, bandit.capacity) if len(dictionary) else dictionary
    failed, pending = _failed(data), _pending(data, bandit.max_pending)
    query, mean, variance = _picked(
        bandit, domain, counts, sums, slots, failed, pending, first_key, ask_key
    )
    kept = np.asarray(query.mask)
    # in units of the values; variances come divided by the regularization
    mean = model.centre + model.scale * np.asarray(mean, float)[kept]
    std = model.scale * np.sqrt(np.asarray(variance, float)[kept] * model.ratio)
    rows = np.asarray(query.index)[kept]
    return Suggestion(rows, mean + width * std, mean, std, width, model, len(dictionary), wanted)


def _failed(data: Data) -> np.ndarray:
    """Rows of failed evaluations, padded with the number A, which is no candidate."""
    failed = data.arms[~data.observed]
    return np.append(failed, np.full(padded(len(failed)) - len(failed), len(data.features)))


def _pending(data: Data, slots: int) -> Query:
    """The pending evaluations in so many slots; the others are masked."""
    free = np.zeros(slots - len(data.pending), int)
    index = jnp.asarray(np.append(data.pending, free), jnp.int32)
    return Query(index, jnp.asarray(np.arange(slots) < len(data.pending)))


@jax.jit
def _picked(
    bandit: FixedBKB,
    domain: Arms,
    counts: Array,
    sums: Array,
    dictionary: Array,
    failed: Array,
    pending: Query,
    first_key: PRNGKey,
    ask_key: PRNGKey,
) -> tuple[Query, Array, Array]:
    """(batch, posterior mean [B], variance [B]): one program for all rounds of equal padded
    sizes."""
    state = bandit.init(
        domain,
        first_key,
        pull_counts=counts,
        reward_sums=sums,
        dictionary=dictionary,
        failed=failed,
    )
    state = bandit.pend(state, pending)
    query = bandit.ask(state, ask_key)
    return query, state.sketch.mean[query.index], state.sketch.variance[query.index]


def _inducing_candidates(
    kernel: kernels.Gaussian, features: np.ndarray, counts: np.ndarray, ratio: float, key: PRNGKey
) -> tuple[int, np.ndarray]:
    """(how many BLESS asks for, evaluated candidates [m]): by approximate leverage scores, thinned
    to at most LARGEST_DICTIONARY."""
    observed = np.flatnonzero(counts > 0)
    if len(observed) == 0:
        return 0, observed
    sample_key, thin_key = jax.random.split(key)
    sampled = observed[
        bless.bless(kernel, features[observed], counts[observed], ratio, sample_key).rows
    ]
    if len(sampled) <= LARGEST_DICTIONARY:
        return len(sampled), sampled
    thinned = np.asarray(jax.random.permutation(thin_key, sampled))[:LARGEST_DICTIONARY]
    return len(sampled), np.sort(thinned)

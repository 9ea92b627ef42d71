"""The batch: the posterior of all candidates, a shortlist, and an acquisition's choice from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import checks
from jsketch.kernels.mixed import Columns, Mixed
from jsketch.sketch import bless
from jsketch.suggest import posterior
from jsketch.suggest.acquisitions import UCB, Outlook, Spread
from jsketch.suggest.data import LARGEST, Data, checked, filled, slots
from jsketch.suggest.model import EXACT, Model, of_data
from jsketch.suggest.posterior import Observed
from jsketch.types import PRNGKey

# folded into the key of a suggestion, as `model.FIT` is
BATCH, INDUCING = 1, 2
# inducing points beyond EXACT evaluations; more of them cost more than they tell when values are
# noisy
LARGEST_DICTIONARY = 768
# candidates that a batch is chosen from, or four times the batch
SHORTLIST = 1024


class Suggestion(NamedTuple):
    """A batch of B candidates in the order of their choice, best first; in units of the values."""

    rows: np.ndarray  # [B] int, of the candidates
    mean: np.ndarray  # [B], of the posterior
    std: np.ndarray  # [B], standard deviation of the posterior, without the noise of a value
    model: Model
    dictionary_size: int  # evaluations that the posterior is built on: all, or inducing points


def suggest(
    candidates: Any,
    arms: Any = (),
    values: Any = (),
    *,
    columns: Sequence[Columns] | None = None,
    pending: Any = (),
    batch: int = 96,
    acquisition: Any = None,
    lengthscale: Any = None,
    scaling: bool = True,
    model: Model | None = None,
    key: PRNGKey | None = None,
) -> Suggestion:
    """The candidates to evaluate next: those that may be best and say most of one another.

    The values are modelled by a Gaussian process with a `kernels.Mixed`, exact for up to EXACT
    evaluations and sketched beyond. An acquisition picks the batch; every pick, and every pending
    evaluation, lowers the standard deviations of the candidates like it before the next pick
    (hallucination; THEORY 5.8). No candidate comes twice. Before the first evaluation the batch is
    spread over the library, each pick where the model knows least.

    candidates   [A, d] numbers, the library: one candidate a row, one feature a column, all finite;
                 or a `Library`, checked before
    arms         [n] int, the row of each evaluation made so far; a row may be repeated. None yet:
                 leave out
    values       [n] numbers, larger is better (negate what is to be minimised), any unit; NaN: the
                 evaluation failed, it teaches nothing and is not suggested again
    columns      what the features are, `kernels.Columns` from left to right; None: numbers
    pending      [p] int, rows whose evaluation is pending: they are not suggested
    batch        B, how many to suggest
    acquisition  of `suggest.acquisitions`; None: UCB(2.0)
    lengthscale  of the kernel in units of the scaled features, a number or [L]; None: fitted
    scaling      True: every number is brought to [0, 1] first. False: they are as they are
    model        what `fit` found, where it is at hand; None: fitted here
    key          of the random choices; None: jax.random.key(0). The same arrays and key give the
                 same batch

    Computes in JAX's floating dtype: with jax_enable_x64 in float64, which small noise needs. Cost
    O(A n^2) for n evaluations up to EXACT, and O(A d) memory; sizes are padded, so that most rounds
    of a loop compile nothing.

    Raises ValueError, in words, for candidates that are no finite matrix, a constant column (with
    scaling), columns that do not fit them, arms or pending rows that are not there, values of
    another length, infinite or too large, a batch larger than what is left, and options outside
    their range.
    """
    key = checks.one_key(key=jax.random.key(0) if key is None else key)
    data = checked(candidates, columns, arms, values, pending, scaling)
    acquisition = UCB() if acquisition is None else acquisition
    _check_options(data, batch, acquisition, lengthscale, model)
    model = of_data(data, lengthscale, key) if model is None else model
    return _chosen(data, model, batch, acquisition, key)


def _check_options(data: Data, batch: int, acquisition: Any, lengthscale: Any, model: Any) -> None:
    checks.capacity(batch=batch)
    if isinstance(acquisition, type) or not hasattr(acquisition, "choose"):
        raise ValueError(
            "acquisition must be one of suggest.acquisitions, such as UCB(2.0);"
            f" {acquisition!r} was given."
        )
    if isinstance(acquisition, UCB):
        checks.nonnegative(width=acquisition.width)
    if model is not None and lengthscale is not None:
        raise ValueError("give a lengthscale or a model, which has one, and not both.")
    if model is not None and not isinstance(model, Model):
        raise ValueError(f"model must be a Model, such as `fit` gives; {model!r} was given.")
    if model is not None:
        Mixed(model.lengthscale, data.library.columns).check(data.library.features)
        checks.positive(ratio=model.ratio, scale=model.scale)
        checks.finite(centre=model.centre)
        if max(abs(model.centre), model.scale) > LARGEST:
            raise ValueError(f"a model's centre and scale are at most {LARGEST:g}: {model}.")
    count, evaluated = len(data.library.features), len(np.unique(data.arms))
    left = count - len(np.union1d(data.arms, data.pending))
    if batch > left:
        raise ValueError(
            f"batch = {batch} is more than what is left: of {count} candidates {evaluated} were"
            f" evaluated and {len(data.pending)} are pending, {left} are left."
        )


def _chosen(data: Data, model: Model, batch: int, acquisition: Any, key: PRNGKey) -> Suggestion:
    features = data.library.features
    kernel = Mixed(jnp.asarray(model.lengthscale, features.dtype), data.library.columns)
    values = (data.values[data.observed] - model.centre) / model.scale
    taken = np.zeros(len(features), bool)
    taken[data.arms], taken[data.pending] = True, True
    known, pending = slots(data.arms[data.observed], 1), slots(data.pending)
    batch_key = jax.random.fold_in(key, BATCH)
    inducing = slots(_inducing(kernel, data, model.ratio, key))
    arrays = (features, *known, filled(values, len(known[0])), *pending, *inducing, taken)
    if len(values) == 0 and len(data.pending) == 0:
        acquisition = Spread()
    rows, mean, variance = _picked(
        kernel, *map(jnp.asarray, arrays), model.ratio, acquisition, batch_key, batch
    )
    # in units of the values
    mean = model.centre + model.scale * np.asarray(mean, float)
    std = model.scale * np.sqrt(np.asarray(variance, float))
    return Suggestion(np.asarray(rows), mean, std, model, int(inducing[1].sum()) or len(values))


def _inducing(kernel: Mixed, data: Data, ratio: float, key: PRNGKey) -> np.ndarray:
    """Evaluated candidates [m] by approximate leverage scores, thinned to at most
    LARGEST_DICTIONARY, and those pending; none where the posterior is exact."""
    arms = data.arms[data.observed]
    if len(arms) <= EXACT:
        return arms[:0]
    sample_key, thin_key = jax.random.split(jax.random.fold_in(key, INDUCING))
    rows, counts = np.unique(arms, return_counts=True)
    points = np.asarray(data.library.features[jnp.asarray(rows)])
    rows = rows[bless.bless(kernel, points, counts, ratio, sample_key).rows]
    if len(rows) > LARGEST_DICTIONARY:
        rows = np.asarray(jax.random.permutation(thin_key, rows))[:LARGEST_DICTIONARY]
    return np.union1d(rows, data.pending)


@partial(jax.jit, static_argnames="batch")
def _picked(
    kernel: Mixed,
    features: Array,
    arms: Array,
    known: Array,
    values: Array,
    pending: Array,
    waiting: Array,
    inducing: Array,
    included: Array,
    taken: Array,
    ratio: Array,
    acquisition: Any,
    key: PRNGKey,
    batch: int,
) -> tuple[Array, Array, Array]:
    """(rows [batch], posterior mean [batch], variance [batch]): one program for all rounds of
    equal padded sizes."""
    index = jnp.concatenate([arms, pending])
    no, yes = jnp.zeros_like(waiting), jnp.zeros_like(known)
    observed = Observed(
        features[index],
        jnp.concatenate([values, jnp.zeros(len(pending), values.dtype)]),
        jnp.concatenate([known, no]),
        jnp.concatenate([yes, waiting]),
    )
    ratio = jnp.asarray(ratio, features.dtype)
    if inducing.size:
        belief = posterior.condition_sketched(kernel, observed, features[inducing], included, ratio)
    else:
        belief = posterior.condition(kernel, observed, ratio)
    mean, variance = posterior.predict(belief, features)
    there = observed.known | observed.pending
    threshold = jnp.max(jnp.where(there, mean[index], -jnp.inf))
    threshold = jnp.where(there.any(), threshold, 0)
    shuffle_key, key = jax.random.split(key)
    # ties in any order: tables are often sorted
    shuffled = jax.random.permutation(shuffle_key, features.shape[0])
    score = jnp.where(taken, -jnp.inf, acquisition.score(mean, variance, threshold))[shuffled]
    size = min(max(SHORTLIST, 4 * batch), features.shape[0])
    short = shuffled[lax.top_k(score, size)[1]]
    some, covariance = posterior.joint(belief, features[short])
    outlook = Outlook(some, covariance, ~taken[short], belief.ratio, threshold)
    rows = short[acquisition.choose(outlook, batch, key)]
    return rows, mean[rows], variance[rows]

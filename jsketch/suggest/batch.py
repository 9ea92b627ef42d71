"""The batch: the posterior of all candidates, a shortlist, and an acquisition's choice from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks
from jsketch.kernels.mixed import Columns, Mixed
from jsketch.sketch import bless
from jsketch.suggest import choice, constraints, feasibility
from jsketch.suggest.acquisitions import UCB, ExpectedImprovement, Price, Spread
from jsketch.suggest.constraints import Constraints, Limits
from jsketch.suggest.data import LARGEST, Data, checked, filled, kernel_of, slots
from jsketch.suggest.model import EXACT, Model, check_finite, of_data
from jsketch.types import PRNGKey

# folded into the key of a suggestion, as `model.FIT` is
BATCH, INDUCING, FAILED = 1, 2, 3
# inducing points beyond EXACT evaluations; more of them cost more than they tell when values are
# noisy
LARGEST_DICTIONARY = 768
WIDTH = 2.0  # of the certificate, where the acquisition has none


class Certificate(NamedTuple):
    """How much better than the best candidate another one may be, in units of the values: the
    largest upper confidence bound less the largest lower one, of all candidates but those excluded
    or failed. Where the bounds hold, the simple regret of `best` is at most `gap`.

    That is a theorem with a width that bounds f (`widths.certified`, and a kernel whose norm of f
    is known: `loops.drive(stop=...)`); with the fitted kernel and a fixed width it is a heuristic.
    Pending evaluations count for nothing.
    """

    gap: float  # compare it with the noise, `Model.noise_std`
    best: int  # row of the largest lower bound
    rival: int  # row of the largest upper bound
    width: float  # standard deviations


class Suggestion(NamedTuple):
    """A batch of B candidates in the order of their choice, best first; in units of the values."""

    rows: np.ndarray  # [B] int, of the candidates
    mean: np.ndarray  # [B], of the posterior
    std: np.ndarray  # [B], standard deviation of the posterior, without the noise of a value
    model: Model
    dictionary_size: int  # evaluations that the posterior is built on: all, or inducing points
    certificate: Certificate | None = None  # None: the values were too few to fit a model
    chance: np.ndarray | None = None  # [B], that an evaluation succeeds, where `failures` counts


def suggest(
    candidates: Any,
    arms: Any = (),
    values: Any = (),
    *,
    columns: Sequence[Columns] | None = None,
    pending: Any = (),
    exclude: Any = (),
    same: Any = None,
    costs: Any = None,
    budget: float | None = None,
    cost_exponent: float | None = None,
    failures: bool = False,
    batch: int = 96,
    acquisition: Any = None,
    lengthscale: Any = None,
    errors: Any = None,
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
    errors       [n] numbers of at least 0, standard errors of the values where they are known, such
                 as those of repeats' means: beside the fitted noise, which all have. They do not
                 count where the values are too few, or too alike, to fit a model
    pending      [p] int, rows whose evaluation is pending: they are not suggested. A row that is
                 also among the arms counts as evaluated, and its mark is ignored
    exclude      [e] int, rows that are never suggested
    same         [A] labels, such as temperatures: the batch has one of them. The batches of the
                 GROUPS labels of largest scores are compared by their joint expected improvement
    costs        [A] numbers above 0, of an evaluation: expected improvement is divided by
                 cost^exponent
    budget       what all evaluations may cost, those made and pending included. The batch ends
                 early where it is spent
    cost_exponent  None: 1, or with a budget the share of it that is left (Lee et al., 2020: cheap
                 candidates first, good ones at the end)
    failures     True: failed evaluations lower the chance of candidates like them (`feasibility`),
                 and a failure is worth the worst value so far
    batch        B, how many to suggest, at most 8,192. Beyond some hundred the picks take the time,
                 which grows with the cube of B: 2,048 are a minute on two cores
    acquisition  of `suggest.acquisitions`; None: UCB(2.0), with costs ExpectedImprovement()
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
    another length, infinite or too large, errors below 0, labels or costs that are not one for each
    candidate, a batch larger than what is left, a budget that is spent, options outside their
    range, and distances or predictions that are not finite.
    """
    key = checks.one_key(key=jax.random.key(0) if key is None else key)
    data = checked(candidates, columns, arms, values, pending, scaling, errors)
    known = constraints.checked(data, exclude, same, costs, budget, cost_exponent, failures)
    if acquisition is None:
        acquisition = UCB() if known.costs is None else ExpectedImprovement()
    _check_options(data, acquisition, lengthscale, model)
    constraints.check_acquisition(known, acquisition)
    _check_batch(data, known, batch)
    model = of_data(data, lengthscale, key) if model is None else model
    return _chosen(data, known, model, batch, acquisition, key)


def _check_options(data: Data, acquisition: Any, lengthscale: Any, model: Any) -> None:
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
        kernel_of(data.library, model.lengthscale)
        checks.positive(ratio=model.ratio, scale=model.scale)
        checks.finite(centre=model.centre)
        if max(abs(model.centre), model.scale) > LARGEST:
            raise ValueError(f"a model's centre and scale are at most {LARGEST:g}: {model}.")


def _check_batch(data: Data, known: Constraints, batch: int) -> None:
    checks.capacity(batch=batch)
    if batch > choice.LARGEST_BATCH:
        raise ValueError(
            f"batch = {batch} is more than {choice.LARGEST_BATCH}, the most that is chosen at once:"
            " evaluate some of it, and ask again with what they say."
        )
    count, evaluated = len(data.library.features), len(np.unique(data.arms))
    left = int((~_taken(data, known)).sum())
    if batch > left:
        out = f", {len(known.excluded)} are excluded" if len(known.excluded) else ""
        raise ValueError(
            f"batch = {batch} is more than what is left: of {count} candidates {evaluated} were"
            f" evaluated and {len(data.pending)} are pending{out}, {left} are left."
        )


def _taken(data: Data, known: Constraints) -> np.ndarray:
    """[A] bool, candidates that may not be picked."""
    taken = np.zeros(len(data.library.features), bool)
    for rows in (data.arms, data.pending, known.excluded):
        taken[rows] = True
    return taken


def _chosen(
    data: Data,
    known: Constraints,
    model: Model,
    batch: int,
    acquisition: Any,
    key: PRNGKey,
) -> Suggestion:
    features = data.library.features
    kernel = kernel_of(data.library, model.lengthscale)
    taken = _taken(data, known)
    limits, members = _limits(kernel, data, known, ~taken, batch, key)
    # what was excluded or failed is no rival, what has a value is
    open = np.ones(len(features), bool)
    open[known.excluded], open[data.arms[~data.observed]] = False, False
    open[data.arms[data.observed]] = True
    arrays, size = evaluated(kernel, data, model, key)
    acquisition, width = asked(data, acquisition)
    found = choice.picked(
        kernel,
        choice.Arrays(features, *arrays, *map(jnp.asarray, (taken, open))),
        limits,
        model.ratio,
        width,
        acquisition,
        jax.random.fold_in(key, BATCH),
        batch,
        members,
    )
    chance = None if limits.success is None else limits.success[found.rows]
    return in_units(found, chance, model, width, size)


def evaluated(
    kernel: Mixed, data: Data, model: Model, key: PRNGKey
) -> tuple[tuple[Array, ...], int]:
    """(`choice.Arrays` from `arms` to `included`, the evaluations that the posterior is built
    on)."""
    known_values = data.standardized(model.centre, model.scale, model.fitted)
    observed, pending = slots(data.arms[data.observed], 1), slots(data.pending)
    inducing = slots(_inducing(kernel, data, model.ratio, key), most=LARGEST_DICTIONARY)
    numbers = (filled(array, len(observed[0])) for array in known_values)
    arrays = map(jnp.asarray, (*observed, *numbers, *pending, *inducing))
    return tuple(arrays), int(inducing[1].sum()) or int(data.observed.sum())


def asked(data: Data, acquisition: Any) -> tuple[Any, float]:
    """(the acquisition that chooses, the width of the certificate)."""
    if not data.observed.any() and len(data.pending) == 0:
        acquisition = Spread()
    width: Any = acquisition.width if isinstance(acquisition, UCB) else WIDTH
    return acquisition, float(width) or WIDTH


def in_units(found: choice.Found, chance: Any, model: Model, width: float, size: int) -> Suggestion:
    """What was found, in units of the values; `chance` [B] of success, or None. Raises ValueError
    where it is not finite."""
    rows = np.asarray(found.rows)
    there = rows >= 0
    with np.errstate(over="ignore", invalid="ignore"):
        mean = model.centre + model.scale * np.asarray(found.mean, float)[there]
        std = model.scale * np.sqrt(np.asarray(found.variance, float)[there])
        gap = model.scale * np.asarray(found.gap, float)
    check_finite(model, means=mean, standard_deviations=std, bounds=gap)
    certificate = Certificate(float(gap), int(found.best), int(found.rival), width)
    return Suggestion(
        rows[there],
        mean,
        std,
        model,
        size,
        certificate if model.fitted else None,
        None if chance is None else np.asarray(chance, float)[there],
    )


def _limits(
    kernel: Mixed, data: Data, known: Constraints, free: np.ndarray, batch: int, key: PRNGKey
) -> tuple[Limits, int]:
    """(the constraints of a compiled choice, the size of the largest group)."""
    limits, members, dtype = Limits(), 0, data.library.features.dtype
    if known.failures:
        failed_key = jax.random.fold_in(key, FAILED)
        limits = limits._replace(success=feasibility.chances(kernel, data, failed_key))
    if known.costs is not None:
        numbers = (known.costs, known.exponent, known.left)
        limits = limits._replace(price=Price(*(jnp.asarray(number, dtype) for number in numbers)))
    large = constraints.large(known, free, batch)
    if known.label is not None and large is not None:
        groups = constraints.Groups(jnp.asarray(known.label), jnp.asarray(large))
        limits = limits._replace(groups=groups)
        members = int(np.bincount(known.label).max())
    return limits, members


def _inducing(kernel: Mixed, data: Data, ratio: float, key: PRNGKey) -> np.ndarray:
    """Evaluated candidates [m] by approximate leverage scores, thinned to at most
    LARGEST_DICTIONARY, and those pending; none where the posterior is exact. The scores are those
    without errors of values: no candidate's is lower."""
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

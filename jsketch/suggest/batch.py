"""`suggest` checks its arguments, fits a model, and chooses a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import checks, struct
from jsketch.show import html_table, short_repr
from jsketch.sketch import bless
from jsketch.suggest import choice, feasibility
from jsketch.suggest.acquisitions import (
    UCB,
    ExpectedImprovement,
    Price,
    ProbabilityOfBest,
    TopTwo,
    VarianceReduction,
)
from jsketch.suggest.data import (
    LARGEST_VALUE,
    MIN_VALUES,
    Data,
    check_data,
    check_vector,
    kernel_of,
    library,
    padded_rows,
    unavailable_candidates,
    zero_padded,
)
from jsketch.suggest.mixed import Columns, is_graded
from jsketch.suggest.model import LARGEST_EXACT, Model, fit_data, in_value_units
from jsketch.types import Arms, PRNGKey

# numbers folded into the key of `suggest`, one for each use; `model.SUBSAMPLE_KEY` is another
BATCH_KEY, INDUCING_KEY, FAILURE_KEY = 1, 2, 3
LARGEST_DICTIONARY = 768  # inducing points; with noisy values, more inducing points help little
# the default width of UCB for numbers is the number of values divided by VALUES_PER_WIDTH, but at
# least MIN_WIDTH and at most MAX_WIDTH
VALUES_PER_WIDTH, MIN_WIDTH, MAX_WIDTH = 10, 0.5, 2.0
BUDGET_TOLERANCE = 1e-6  # the total cost may exceed the budget by this share of the budget


class Scores(NamedTuple):
    """Predictions and scores of all A candidates, evaluated ones included."""

    mean: np.ndarray  # [A], posterior mean, in units of the values
    std: np.ndarray  # [A], posterior standard deviation of the function, given pending evaluations
    # [A], scores of the acquisition for (values - Model.centre) / Model.scale. Unless the
    # acquisition uses draws, the first pick is the available candidate with the largest score.
    # Until two values differ, the scores are variances.
    score: np.ndarray


class Suggestion(NamedTuple):
    """A batch of B candidates in the order of their picks, the best one first."""

    rows: np.ndarray  # [B] int, the rows of the candidates
    mean: np.ndarray  # [B], posterior mean, in units of the values
    std: np.ndarray  # [B], posterior standard deviation of the function, in units of the values
    model: Model
    dictionary_size: int  # number of inducing points, or of values if the posterior is exact
    # [B], probability of success; None unless `failures` is True and an evaluation failed
    chance: np.ndarray | None = None
    scores: Scores | None = None  # of all candidates; None unless `scores` is True

    def to_frame(self, ids: Any = None) -> Any:
        """A pandas DataFrame with one row for each candidate of the batch. Its columns are row, id
        (from `ids` [A], if given), mean, std, and, if they were computed, chance and score."""
        import pandas as pd

        columns = dict(
            row=self.rows,
            id=None if ids is None else np.asarray(ids)[self.rows],
            mean=self.mean,
            std=self.std,
            chance=self.chance,
            score=None if self.scores is None else self.scores.score[self.rows],
        )
        return pd.DataFrame({name: x for name, x in columns.items() if x is not None})

    def summary(self) -> dict[str, Any]:
        """The entries {name: value} that the repr shows."""
        values: dict[str, Any] = dict(batch=len(self.rows))
        values |= dict(rows=self.rows, mean=self.mean, std=self.std, chance=self.chance)
        values |= dict(noise_std=self.model.noise_std, dictionary_size=self.dictionary_size)
        return {name: value for name, value in values.items() if value is not None}

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        return html_table(self)


@struct.checked_names
def suggest(
    candidates: Any = None,
    arms: Any = (),
    values: Any = (),
    *,
    columns: Sequence[Columns] | None = None,
    gram: Any = None,
    pending: Any = (),
    exclude: Any = (),
    same: Any = None,
    costs: Any = None,
    budget: float | None = None,
    cost_exponent: float | None = None,
    failures: bool = False,
    replicates: bool = False,
    batch: int = 96,
    acquisition: Any = None,
    lengthscale: Any = None,
    errors: Any = None,
    scaling: bool = True,
    model: Model | None = None,
    scores: bool = False,
    key: PRNGKey | None = None,
) -> Suggestion:
    """The candidates to evaluate next.

    A Gaussian process with the kernel `suggest.Mixed` models the values, exactly for up to 1,024
    evaluations and with a sketch for more. An acquisition picks the batch. Every pick, and every
    pending evaluation, lowers the standard deviations of similar candidates before the next pick
    (hallucination; THEORY 5.8). No candidate is picked twice. Until two values differ, whatever the
    acquisition, each pick is the candidate whose evaluation lowers the mean variance of the library
    most (`acquisitions.VarianceReduction`): the batch represents the library.

    candidates   [A, d] finite numbers, the library: one candidate a row, one feature a column; or a
                 `Library`
    arms         [n] int, the row of each evaluation made so far; a row may be repeated
    values       [n] numbers in any unit; larger ones are better. NaN marks a failed evaluation: it
                 is ignored, and its candidate is not suggested again. Values below the limit
                 median - 2 (best - median) are raised to it
    columns      the `suggest.Columns` of the features, from left to right; None: all are numbers
    gram         [A, A], a positive semi-definite kernel matrix of candidates that have no features,
                 such as graphs. It replaces the arguments candidates and columns, and is divided by
                 the mean of its diagonal
    errors       [n] standard errors of the values, at least 0, for example if values are means of
                 repeats. Squared errors are added to the fitted noise variance. Errors are ignored
                 if there are fewer than 2 values, or if all values are equal
    pending      [p] int, rows whose evaluation is pending: they are not suggested. A row that is
                 also among the arms counts as evaluated
    exclude      [e] int, rows that are never suggested
    same         [A] labels, such as temperatures: all candidates of the batch have the same label.
                 The batches of the 8 labels with the largest scores are compared by their joint
                 expected improvement
    costs        [A] numbers above 0, the cost of evaluating each candidate; expected improvement is
                 divided by cost^cost_exponent
    budget       largest total cost of all evaluations, finished and pending ones included. The
                 batch ends early if the budget is used up
    cost_exponent  None: 1, or with a budget the share of the budget that is left (Lee et al., 2020:
                 cheap candidates first, good ones at the end)
    failures     True: failed evaluations lower the probability of success of similar candidates
                 (`feasibility`), and a failure counts like the worst evaluated candidate
    replicates   True: evaluated candidates may be picked again, except failed and pending ones
    batch        B, the number of candidates to suggest, at most 8,192. The time of the picks grows
                 with the cube of B: 2,048 take a minute on two cores
    acquisition  one of `suggest.acquisitions`; None: UCB(2.0), or with costs ExpectedImprovement().
                 If all columns are numbers and there are n < 20 values, the width is n / 10, but at
                 least 0.5; with categories, columns of two numbers or fingerprints it is
                 larger (`default_width`)
    lengthscale  of the kernel in units of the scaled features: one number, or [L], one for each
                 numeric column, category and fingerprint; None: fitted
    scaling      True: every numeric column is scaled to [0, 1], and the prior of its lengthscale is
                 adapted to its standard deviation. The parts of a mixture, which are at least three
                 adjacent columns of one sum, are first replaced by their square roots
                 (`data.mixtures`). False: columns stay as they are, and the unit of their
                 lengthscales is 1
    model        a result of `fit`; None: the model is fitted to the values
    scores       True: `Suggestion.scores` holds means, standard deviations and scores of all
                 candidates
    key          of the random choices; None: jax.random.key(0). The same arrays and key give the
                 same batch

    The computation is in JAX's floating dtype; small noise needs float64 (jax_enable_x64). It takes
    O(A n^2) operations for n evaluations up to 1,024, and O(A d) memory. Array sizes are padded, so
    that most calls in a loop reuse a compiled program.

    Raises ValueError for arguments of a wrong shape or type, candidates that are not finite, a
    constant column (with scaling), rows outside the library, values or standard errors that are
    infinite or too large, a batch larger than the number of candidates left, a budget that is used
    up, and distances or predictions that are not finite.

    Example:

        batch = suggest(features, arms=[3, 14, 15], values=[0.2, 0.7, 0.1], batch=8)
        batch.rows  # [8]
    """
    key = checks.one_key(key=jax.random.key(0) if key is None else key)
    if gram is not None:
        candidates, columns = library(candidates, columns, gram=gram), None
    data = check_data(candidates, columns, arms, values, pending, scaling, errors)
    checks.boolean(replicates=replicates, scores=scores, failures=failures)
    checks.arm_numbers(Arms(data.library.features), exclude=exclude)
    price = _check_price(data, exclude, costs, budget, cost_exponent)
    excluded, label = np.unique(np.asarray(exclude)).astype(int), _check_labels(data, same)
    if acquisition is None:
        acquisition = UCB(default_width(data)) if price is None else ExpectedImprovement()
    _check_acquisition(price, failures, acquisition)
    if model is not None:
        _check_model(data, lengthscale, model)
    count = len(data.library.features)
    unavailable = unavailable_candidates(
        count, data.arms, data.values, data.pending, excluded, replicates
    )
    _check_batch(data, len(excluded), unavailable, batch)
    model = fit_data(data, lengthscale, key) if model is None else model
    kernel = kernel_of(data.library, model.lengthscale)
    success, groups, largest_group = None, None, 0
    if failures:
        failure_key = jax.random.fold_in(key, FAILURE_KEY)
        success = feasibility.success_probability(kernel, data, failure_key)
    if label is not None:
        eligible = _eligible_groups(price, label, ~unavailable, batch)
        groups = choice.Groups(jnp.asarray(label), jnp.asarray(eligible))
        largest_group = int(np.bincount(label).max())
    if price is not None:
        dtype = data.library.features.dtype
        price = Price(*(jnp.asarray(number, dtype) for number in price))
    constraints = choice.ConstraintArrays(success, price, groups)
    arrays = padded_data(kernel, data, model, unavailable, key)
    batch_key = jax.random.fold_in(key, BATCH_KEY)
    if len(np.unique(data.values[data.observed])) < MIN_VALUES:  # nothing tells good from poor
        acquisition = VarianceReduction()
    chosen = choice.choose_batch(
        kernel, arrays, constraints, model.ratio, acquisition, batch_key, batch, largest_group
    )
    rows = np.asarray(chosen.rows)
    rows = rows[rows >= 0]
    mean, std = in_value_units(model, chosen.mean, chosen.variance, rows)
    dictionary_size = int(arrays.included.sum()) or int(data.observed.sum())
    chance = None if success is None else np.asarray(success, float)[rows]
    all_scores = Scores(mean, std, np.asarray(chosen.score, float)) if scores else None
    return Suggestion(rows, mean[rows], std[rows], model, dictionary_size, chance, all_scores)


def padded_data(
    kernel: Any, data: Data, model: Model, unavailable: np.ndarray, key: PRNGKey
) -> choice.PaddedData:
    """The library, its evaluations and the inducing points as padded arrays. `unavailable` [A]
    marks the candidates that may not be picked."""
    observed = padded_rows(data.arms[data.observed], never_empty=True)
    inducing = padded_rows(
        inducing_points(kernel, data, model.ratio, key), at_most=LARGEST_DICTIONARY
    )
    data = data.clipped(model.limits)
    standardized = data.standardized_values(model.centre, model.scale, model.fitted)
    numbers = (zero_padded(array, len(observed[0])) for array in standardized)
    arrays = (*observed, *numbers, *padded_rows(data.pending), *inducing, unavailable)
    return choice.PaddedData(data.library.features, *map(jnp.asarray, arrays))


def inducing_points(kernel: Any, data: Data, ratio: float, key: PRNGKey) -> np.ndarray:
    """The rows [m] of the inducing points: at most LARGEST_DICTIONARY evaluated candidates, sampled
    by approximate leverage scores, and all pending ones. [m] is empty if the posterior is exact.
    Leverage scores are computed without standard errors, which could only reduce the scores."""
    arms = data.arms[data.observed]
    if len(arms) <= LARGEST_EXACT:
        return arms[:0]
    sample_key, thin_key = jax.random.split(jax.random.fold_in(key, INDUCING_KEY))
    rows, counts = np.unique(arms, return_counts=True)
    points = np.asarray(data.library.features[jnp.asarray(rows)])
    rows = rows[bless.bless(kernel, points, counts, ratio, sample_key).rows]
    if len(rows) > LARGEST_DICTIONARY:
        rows = np.asarray(jax.random.permutation(thin_key, rows))[:LARGEST_DICTIONARY]
    return np.union1d(rows, data.pending)


def default_width(data: Data) -> float:
    """The width of UCB without an acquisition. With few values, the scale and the lengthscales are
    uncertain, and a large width would spend whole batches on the ends of numeric columns. As
    categories, columns of two numbers and fingerprints have no ends, the width is reduced in
    proportion to the share of lengthscales that are those of other numbers (`is_graded`)."""
    features, columns, *_ = data.library
    graded = is_graded(features, columns)
    share = graded.mean() if len(graded) else 0.0
    narrow = np.clip(data.observed.sum() / VALUES_PER_WIDTH, MIN_WIDTH, MAX_WIDTH)
    return float(MAX_WIDTH - share * (MAX_WIDTH - narrow))


def _check_acquisition(price: Price | None, failures: bool, acquisition: Any) -> None:
    if isinstance(acquisition, type) or not hasattr(acquisition, "choose"):
        raise ValueError(
            "acquisition must be one of suggest.acquisitions, such as UCB(2.0);"
            f" {acquisition!r} was given."
        )
    if isinstance(acquisition, UCB):
        checks.nonnegative(width=acquisition.width)
    if isinstance(acquisition, TopTwo):
        checks.fraction(leader=acquisition.leader)
    if isinstance(acquisition, ProbabilityOfBest):
        checks.positive_integer(draws=acquisition.draws, top=acquisition.top)
    if price is not None and not hasattr(acquisition, "per_cost"):
        raise ValueError(
            "costs divide an expected improvement: leave the acquisition out, or use"
            f" ExpectedImprovement(); {acquisition!r} was given."
        )
    if failures and not hasattr(acquisition, "with_failures"):
        raise ValueError(
            f"failures need an acquisition with a method with_failures; {acquisition!r} was given."
        )


def _check_model(data: Data, lengthscale: Any, model: Any) -> None:
    if lengthscale is not None:
        raise ValueError("give either a lengthscale or a model, which contains lengthscales.")
    if not isinstance(model, Model):
        raise ValueError(f"model must be a Model, such as `fit` returns; {model!r} was given.")
    kernel_of(data.library, model.lengthscale)
    checks.positive(ratio=model.ratio, scale=model.scale)
    checks.finite(centre=model.centre)
    if max(abs(model.centre), model.scale) > LARGEST_VALUE:
        raise ValueError(f"centre and scale of a model must be at most {LARGEST_VALUE:g}: {model}.")


def _check_batch(data: Data, n_excluded: int, unavailable: np.ndarray, batch: int) -> None:
    checks.positive_integer(batch=batch)
    if batch > choice.LARGEST_BATCH:
        raise ValueError(
            f"batch = {batch} is more than {choice.LARGEST_BATCH}, the largest batch: evaluate a"
            " smaller batch first, and choose the rest with its values."
        )
    available = int((~unavailable).sum())
    if batch > available:
        raise ValueError(
            f"batch = {batch} is more than the {available} candidates that are left: of"
            f" {len(unavailable)} candidates {len(np.unique(data.arms))} were evaluated,"
            f" {len(data.pending)} are pending and {n_excluded} are excluded."
        )


def _check_price(
    data: Data, exclude: Any, costs: Any, budget: float | None, cost_exponent: float | None
) -> Price | None:
    """The `Price` of all candidates, in NumPy arrays; its `budget` is the remaining budget, or inf
    without a budget. None if there are no costs."""
    if costs is None:
        if budget is not None or cost_exponent is not None:
            raise ValueError("a budget and a cost_exponent need costs, and none were given.")
        return None
    cost = check_vector(
        *("costs", costs, len(data.library.features), "candidates"),
        lambda numbers: (numbers > 0) & np.isfinite(numbers),
        "finite and above 0",
    )
    exponent, remaining = 1.0, np.inf
    if budget is not None:
        checks.positive(budget=budget)
        spent = float(cost[data.arms].sum() + cost[data.pending].sum())
        remaining = float(budget) - spent
        costs_left = np.delete(cost, np.r_[data.arms, data.pending, np.asarray(exclude, int)])
        if costs_left.size and costs_left.min() > remaining + BUDGET_TOLERANCE * float(budget):
            raise ValueError(
                f"the finished and pending evaluations cost {spent:g} of the budget of"
                f" {budget:g}: {max(remaining, 0):g} is left, and the cheapest candidate costs"
                f" {costs_left.min():g}."
            )
        exponent = max(remaining, 0.0) / float(budget)
        # sums of costs are rounded: ten times 0.1 is not exactly 1
        remaining += BUDGET_TOLERANCE * float(budget)
    if cost_exponent is not None:
        checks.nonnegative(cost_exponent=cost_exponent)
        exponent = float(cost_exponent)
    return Price(cost, exponent, remaining)


def _eligible_groups(
    price: Price | None, label: np.ndarray, available: np.ndarray, batch: int
) -> np.ndarray:
    """[G] bool, whether a group has `batch` available candidates, of which the budget pays for at
    least one. Raises ValueError if there is no such group."""
    n_groups = int(label.max()) + 1
    sizes = np.bincount(label[available], minlength=n_groups)
    if sizes.max() < batch:
        raise ValueError(
            f"batch = {batch} is too large: of the candidates that are left, at most"
            f" {sizes.max()} have the same value of `same`."
        )
    eligible = sizes >= batch
    if price is not None:
        affordable = available & (price.cost <= price.budget)
        eligible &= np.bincount(label[affordable], minlength=n_groups) > 0
        if not eligible.any():
            raise ValueError(
                "the rest of the budget pays for no candidate whose value of `same` has"
                f" batch = {batch} candidates left: use a smaller batch."
            )
    return eligible


def _check_labels(data: Data, same: Any) -> np.ndarray | None:
    """[A] int32, the index of each label among the distinct sorted labels; None without labels."""
    if same is None:
        return None
    array, count = np.asarray(same), len(data.library.features)
    if array.shape != (count,):
        raise ValueError(
            f"same must hold one value for each of the {count} candidates; its shape is"
            f" {array.shape}."
        )
    labels = array.tolist()
    for row, label in enumerate(labels):
        if label is None or label != label:  # NaN, or NaT, is not equal to itself
            raise ValueError(f"same has no value for candidate {row}: it is {label}.")
    try:
        return np.unique(array, return_inverse=True)[1].astype(np.int32)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(
            f"the values of same cannot be sorted, because they have the types {kinds}: use only"
            " numbers, or only text."
        ) from error

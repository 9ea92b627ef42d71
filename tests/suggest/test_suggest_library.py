"""`jsketch.suggest`: a batch from arrays, what is wrong with arrays, and programs that are compiled
once."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch.box.gp import regression
from jsketch.kernels import Columns, Mixed
from jsketch.suggest import (
    Model,
    acquisitions,
    batch,
    choice,
    data,
    fit,
    hyperparameters,
    leave_one_out,
    library,
    suggest,
)

A, B = 60, 8
RANDOM = np.random.default_rng(0)
LIBRARY = RANDOM.uniform(-1, 1, (A, 3))
TRUTH = np.cos(2 * LIBRARY[:, 0]) + LIBRARY[:, 1]
ARMS = np.array([3, 5, 3, 17, 29, 31, 44, 58])
FIRST = LIBRARY, np.arange(40), TRUTH[:40]
LENGTHS = np.array([0.7, 0.4, 2.0])
ERRORS = np.array([0, 0.5, 0, 2, 0.1, 0, 1e300, 0])
MODEL = Model(lengthscale=LENGTHS, ratio=0.01, scale=1.5, centre=0.3, fitted=True)


def matern(x, y, lengths):
    r = np.sqrt(5 * np.square((x[:, None] - y[None]) / lengths).sum(2))
    return (1 + r + r * r / 3) * np.exp(-r)


def unit(x):
    return (x - x.min(0)) / np.ptp(x, axis=0)


def dense_batch(arms, values, pending, width):
    """(rows, mean, std) of `MODEL`, values with ERRORS: one pick after the other, each with the
    variances that all before it leave."""
    gram = matern(unit(LIBRARY), unit(LIBRARY), LENGTHS)
    # an infinite error teaches nothing
    own = np.square(np.minimum(ERRORS / MODEL.scale, 1e6))

    def explained(by):
        noise = MODEL.ratio + np.append(own, np.zeros(len(by) - len(arms)))
        return np.linalg.solve(gram[np.ix_(by, by)] + np.diag(noise), gram[by])

    mean = MODEL.centre + (values - MODEL.centre) @ explained(arms)
    rows = []
    for _ in range(B):
        by = np.concatenate([arms, pending, rows]).astype(int)
        variance = np.maximum(1 - (gram[by] * explained(by)).sum(0), 0)
        score = mean + width * MODEL.scale * np.sqrt(variance)
        score[by] = -np.inf
        rows.append(int(score.argmax()))
    before = np.concatenate([arms, pending]).astype(int)
    variance = 1 - (gram[before] * explained(before)).sum(0)
    return np.array(rows), mean[rows], MODEL.scale * np.sqrt(variance[rows])


@pytest.mark.parametrize("pending", [[], [40, 7, 12, 40]])
@pytest.mark.parametrize("sketched", [False, True])
def test_the_batch_is_that_of_the_dense_posterior(pending, sketched, monkeypatch):
    """Of the sketch too, where every evaluated candidate is an inducing point."""
    if sketched:
        monkeypatch.setattr(batch, "EXACT", 0)
        monkeypatch.setattr(batch.bless, "bless", lambda _, x, *others: Drawn(np.arange(len(x))))
    found = suggest(
        LIBRARY,
        ARMS,
        TRUTH[ARMS],
        errors=ERRORS,
        pending=pending,
        batch=B,
        acquisition=acquisitions.UCB(1.5),
        model=MODEL,
    )
    points = len({*ARMS.tolist(), *pending})
    assert found.dictionary_size == (points if sketched else len(ARMS))
    rows, mean, std = dense_batch(ARMS, TRUTH[ARMS], sorted(set(pending)), 1.5)
    assert found.rows.tolist() == rows.tolist() and found.model is MODEL
    np.testing.assert_allclose(found.mean, mean, atol=1e-8)
    np.testing.assert_allclose(found.std, std, atol=1e-8)


@pytest.mark.parametrize("sketched", [False, True])
def test_a_pending_row_that_was_evaluated_counts_once(sketched, monkeypatch):
    """Also one whose evaluation failed: the same batch as without the mark, and the same budget."""
    if sketched:
        monkeypatch.setattr(batch, "EXACT", 0)
        monkeypatch.setattr(batch.bless, "bless", lambda _, x, *others: Drawn(np.arange(len(x))))
    values = np.where(ARMS == 29, np.nan, TRUTH[ARMS])
    cost = 1.0 + np.arange(A) % 7
    budget = cost[ARMS].sum() + cost[40] + 9
    for more in (dict(acquisition=acquisitions.UCB(1.5)), dict(costs=cost, budget=budget)):
        once, twice = (
            suggest(LIBRARY, ARMS, values, pending=pending, batch=B, model=MODEL, **more)
            for pending in ([40], [3, 40, 29, 58, 3])
        )
        for field in ("rows", "mean", "std", "dictionary_size", "certificate"):
            np.testing.assert_array_equal(getattr(twice, field), getattr(once, field))
    with pytest.raises(ValueError, match="7 were evaluated and 1 are pending, 52 are left"):
        suggest(LIBRARY, ARMS, values, pending=[3, 40, 29], batch=53, model=MODEL)


class Drawn:
    def __init__(self, rows):
        self.rows = rows


@pytest.mark.float32
def test_rounds_find_the_best_and_a_failure_is_not_repeated():
    """From nothing, in lists; the first evaluation always fails."""
    arms, values = [], []
    for _ in range(3):
        found = suggest(LIBRARY.tolist(), arms, values, batch=B, key=jax.random.key(1))
        arms += found.rows.tolist()
        values = [float("nan"), *TRUTH[arms[1:]].tolist()]
        assert len(set(arms)) == len(arms)
    assert max(values[1:]) >= np.sort(TRUTH)[-2]
    # a failure teaches nothing
    whole = fit(LIBRARY, arms[:-B], values[:-B])
    some = fit(LIBRARY, arms[1:-B], values[1:-B])
    for before, after in zip(some, whole, strict=True):
        np.testing.assert_array_equal(before, after)
    assert whole.fitted and not fit(LIBRARY, arms[:2], values[:2]).fitted


def test_fewer_shapes_than_rounds():
    """Evaluations and pending rows are padded: another round of as many compiles nothing."""
    sizes = (0, 64, 65, 128, 129, 384, 513, 5000)
    assert [data.padded(size) for size in sizes] == [64, 64, 256, 256, 256, 512, 1024, 8192]
    programs = []
    for size, pending in ((6, [1]), (9, [0, 1, 2]), (11, [1, 2])):
        arms = np.arange(10, 10 + size)
        suggest(LIBRARY, arms, TRUTH[arms], pending=pending, batch=B)
        programs.append((choice.picked._cache_size(), hyperparameters._loss._cache_size()))
    assert programs[0] == programs[1] == programs[2] and min(programs[0]) > 0


def test_the_gradient_of_the_posterior_density():
    """Of the log of likelihood times prior, against finite differences and a dense likelihood, with
    errors beside the noise; padding changes neither."""
    known = 0.1 * np.arange(32)
    kernel = Mixed(jnp.ones(3), (Columns("numbers", 3),))
    padded = LIBRARY[:32], np.where(np.arange(32) < 20, TRUTH[:32], 9)
    values = regression.standardized(*map(jnp.asarray, padded), jnp.arange(32) < 20)

    def density(free):
        numbers = hyperparameters.Found(jnp.exp(free[2:]), jnp.exp(free[0]), jnp.exp(free[1]))
        return hyperparameters.log_posterior(kernel, [], values, numbers, known)

    at = np.log([2.0, 0.05, *LENGTHS])
    value, slope = jax.jit(jax.value_and_grad(density))(at)
    gram = 2.0 * matern(LIBRARY[:20], LIBRARY[:20], LENGTHS) + np.diag(0.05 + known[:20])
    y = (TRUTH[:20] - TRUTH[:20].mean()) / TRUTH[:20].std()
    dense = -0.5 * (y @ np.linalg.solve(gram, y) + np.linalg.slogdet(2 * np.pi * gram)[1])
    prior = hyperparameters.log_prior(
        hyperparameters.Found(LENGTHS, *map(jnp.asarray, (2.0, 0.05)))
    )
    assert float(value - prior) == pytest.approx(dense, rel=1e-9)
    fast, step = jax.jit(density), 1e-5
    for i in range(5):
        change = step * np.eye(5)[i]
        assert float(slope[i]) == pytest.approx(
            float(fast(at + change) - fast(at - change)) / (2 * step), rel=1e-4, abs=1e-6
        )


def test_a_fit_finds_the_columns_that_matter():
    """The third one does not; a lengthscale that is given stays."""
    model = fit(LIBRARY, np.arange(40), TRUTH[:40])
    assert model.lengthscale[2] > 2 * model.lengthscale[:2].max()
    assert model.noise_std < 0.2 * TRUTH.std()
    # what is known to be wrong does not count
    wrong, errors = TRUTH[:40].copy(), np.zeros(40)
    wrong[[3, 20]], errors[[3, 20]] = 9.0, 50.0
    with_errors = fit(LIBRARY, np.arange(40), wrong, errors=errors)
    assert with_errors.noise_std < 0.2 * TRUTH.std() < fit(LIBRARY, np.arange(40), wrong).noise_std
    given = fit(LIBRARY, np.arange(40), TRUTH[:40], lengthscale=0.7)
    assert given.lengthscale.tolist() == [0.7] * 3


@pytest.mark.parametrize("far", [1e4, 1e12, 3e299])
def test_a_value_with_a_large_error_changes_nothing(far):
    """As far off as it may be by its error: the model is that of the other values."""
    values, errors = np.append(TRUTH[:40], far), np.append(np.zeros(40), 3 * far)
    found, without = fit(LIBRARY, np.arange(41), values, errors=errors), fit(*FIRST)
    np.testing.assert_allclose(found.lengthscale, without.lengthscale, rtol=1e-2)
    assert found.noise_std == pytest.approx(without.noise_std, rel=1e-2)
    assert found.scale == pytest.approx(without.scale, rel=1e-2)
    given = dict(model=found, batch=B)
    rows = suggest(LIBRARY, np.arange(41), values, errors=errors, **given).rows
    failed = np.append(TRUTH[:40], np.nan)
    np.testing.assert_array_equal(rows, suggest(LIBRARY, np.arange(41), failed, **given).rows)
    left_out = leave_one_out(LIBRARY, np.arange(41), values, found, errors=errors)
    # it is off by a third of its error, and weighs accordingly
    explained = leave_one_out(*FIRST, found).explained
    assert explained - 1.01 / 9 / 40 < left_out.explained < explained + 1e-6


def test_weighted_moments():
    """Weights and spread agree; equal errors are none, and a few exact values are no spread."""
    values, errors = TRUTH[:40], 0.2 * np.arange(40)
    centre, spread, weight = data.moments(values, errors, np.arange(40))
    expected = 1 / (spread**2 + errors**2)
    np.testing.assert_allclose(weight / weight.sum(), expected / expected.sum(), rtol=1e-6)
    assert centre == pytest.approx(np.average(values, weights=expected))
    variance = np.average(np.square(values - centre), weights=expected)
    assert spread == pytest.approx(variance**0.5)
    for unit in (1e-290, 1e290):
        scaled = data.moments(unit * values, unit * errors, np.arange(40))
        assert scaled[:2] == pytest.approx((unit * centre, unit * spread), rel=1e-9)
    for same in (np.zeros(40), np.full(40, 3.0)):
        assert data.moments(values, same, np.arange(40))[:2] == pytest.approx(
            (values.mean(), values.std())
        )
    few = data.moments(np.array([0.0, 1.0, 2.0]), np.array([0.0, 10.0, 10.0]), np.arange(3))
    assert few[:2] == pytest.approx((1.0, (2 / 3) ** 0.5))
    # errors that are much too large, and three values without
    few = data.moments(values, np.where(np.arange(40) < 3, 0, 20), np.arange(40))
    assert few[:2] == pytest.approx((values.mean(), values.std()))
    # repeats of a control, and screening with errors as large as the values are apart
    arms = np.maximum(np.arange(40) - 29, 0)
    control = np.where(arms > 0, values, values[0] + 1e-3 * np.arange(40))
    apart = np.where(arms > 0, values[30:].std(), 0)
    assert data.moments(control, apart, arms).spread > 0.2 * values[30:].std()
    # of one candidate alone a value far off counts for nothing
    repeats = data.moments(np.append(values, 1e9), np.append(np.zeros(40), 1e9), np.zeros(41))
    assert repeats[:2] == pytest.approx((values.mean(), values.std()), rel=2e-2)


def test_errors_of_too_few_values_do_not_count():
    """There is no unit to measure them in yet."""
    batches = [
        suggest(LIBRARY, [3], [5.0], errors=errors, batch=B).rows for errors in (None, [0.0], [9.0])
    ]
    np.testing.assert_array_equal(batches[0], batches[1])
    np.testing.assert_array_equal(batches[0], batches[2])


NAN_CELL = np.where(np.arange(A)[:, None] == 4, [[0, np.nan, 0]], LIBRARY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(candidates=LIBRARY[:, 0]), r"candidates must be a matrix \[A, d\].*x\[:, None\]"),
        (dict(candidates=LIBRARY[:0]), r"candidates have shape \(0, 3\)"),
        (dict(candidates=NAN_CELL), "row 4, column 1 is nan"),
        (dict(candidates=[["a", "b"]] * 9), "candidates must be real numbers"),
        (
            dict(candidates=LIBRARY * [1, 1, 0] + [0, 0, 2]),
            "column 2 of the candidates has the same value in every row",
        ),
        (dict(columns=[Columns("numbers", 2)]), "columns name 2 columns in all"),
        (dict(columns=[Columns("category", 3)]), "columns 0 to 2 are a category"),
        (dict(arms=[0, A], values=[1.0, 2.0]), "arms names arm 60; the arms are 0 to 59"),
        (dict(pending=[-1]), "pending names arm -1"),
        (dict(pending=np.zeros(A, bool)), "pending must be a vector of arm numbers"),
        (dict(values=[1.0]), "values must hold one number for each of the 2 arms"),
        (dict(values=[1.0, np.inf]), r"values must be at most 1e\+300 in size.*value 1 is inf"),
        (dict(values=[1.0, "x"]), "values must be real numbers"),
        (dict(batch=8193), "batch = 8193 is more than 8192, the most that is chosen at once"),
        (dict(errors=[1.0]), "errors must hold one standard error for each of the 2 values"),
        (dict(errors=[0.0, -1.0]), r"standard errors from 0 to 1e\+300; error 1 is -1.0"),
        (dict(batch=58), "of 60 candidates 2 were evaluated and 1 are pending, 57 are left"),
        (dict(pending=range(A), batch=1), "2 were evaluated and 58 are pending, 0 are left"),
        (dict(batch=0), "batch must be an integer of at least 1"),
        (dict(batch=2.0), "batch must be an integer"),
        (dict(acquisition="ei"), "acquisition must be one of suggest.acquisitions"),
        (dict(acquisition=acquisitions.UCB), "acquisition must be one of"),
        (dict(acquisition=acquisitions.UCB(-1.0)), "width must be a finite number, at least 0"),
        (dict(lengthscale=0.0), "lengthscale must be a finite number above 0"),
        (dict(lengthscale=[1.0, 2.0]), "lengthscale must be one number, or one for each of the 3"),
        (dict(lengthscale=1.0, model=MODEL), "a lengthscale or a model"),
        (dict(model="fitted"), "model must be a Model"),
        (dict(model=MODEL._replace(ratio=0.0)), "ratio must be a finite number above 0"),
        (dict(model=MODEL._replace(lengthscale=LENGTHS[:2])), "has 3 lengthscales"),
        (dict(model=MODEL._replace(centre=np.nan)), "centre must be a finite number; nan"),
        (dict(model=MODEL._replace(scale=1e301)), "centre and scale are at most"),
        (dict(key=0), "key must be one key"),
        (dict(scaling="no"), "scaling must be True or False"),
        (dict(candidates=library(LIBRARY), scaling=False), "has its columns and its scaling alr"),
        (dict(candidates=library(LIBRARY), columns=[Columns("numbers", 3)]), "has its columns"),
    ],
)
def test_what_is_wrong_with_arrays(change, words):
    right = dict(candidates=LIBRARY, arms=[4, 5], values=[1.0, 2.0], pending=[6], batch=3)
    with pytest.raises(ValueError, match=words):
        suggest(**{**right, **change})


FAR = LIBRARY * [1, 1e200, 1]
TINY = np.array([0.7, 1e-300, 2.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            dict(lengthscale=1e-300),
            r"distances.*not finite.*column 0, from 0 to 1.*lengthscale is 1e-300",
        ),
        (dict(lengthscale=TINY), r"column 1, from 0 to 1, whose lengthscale is 1e-300"),
        (dict(model=MODEL._replace(lengthscale=TINY)), r"column 1, from 0 to 1, whose lengthscale"),
        (dict(candidates=FAR, scaling=False), r"column 1, from -9\..*e\+199 to 9\..*e\+199, whose"),
        (dict(candidates=FAR, scaling=False, arms=[], values=[]), "column 1, from -9"),
        (
            dict(model=MODEL._replace(scale=5e-324)),
            r"not finite: means, bounds are NaN.*scale of 4.94066e-324",
        ),
        (
            dict(arms=[4] * 6, values=range(6), model=MODEL._replace(ratio=1e-17)),
            "not finite: means, standard deviations, bounds are",
        ),
    ],
)
def test_what_is_not_finite_is_named(change, words):
    """In place of a suggestion whose means and deviations are NaN."""
    right = dict(candidates=LIBRARY, arms=[4, 5], values=[1.0, 2.0], batch=3)
    with pytest.raises(ValueError, match=words):
        suggest(**{**right, **change})


def test_fits_and_predictions_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="column 2, from 0 to 1, whose lengthscale is 1e-200"):
        fit(*FIRST, lengthscale=[1.0, 1.0, 1e-200])
    with pytest.raises(ValueError, match="column 1, from 0 to 1, whose lengthscale is 1e-300"):
        leave_one_out(*FIRST, MODEL._replace(lengthscale=TINY))
    with pytest.raises(ValueError, match="the posterior is not finite.*ratio of 1e-17"):
        leave_one_out(LIBRARY, [4] * 6, range(6), MODEL._replace(ratio=1e-17))


@pytest.mark.parametrize("count", [A, 700])
def test_the_largest_distances_are_numbers_or_named(count):
    """Around the square root of the largest float, summed directly and expanded."""
    x = np.random.default_rng(0).uniform(-1, 1, (count, 3))
    arms, refused = np.arange(count // 2), []
    for unit in (1e150, 1e152, 3e152, 1e153, 3e153, 1e154, 1e156):
        try:
            found = suggest(x * unit, arms, np.sin(arms), scaling=False, batch=3, model=MODEL)
        except ValueError as error:
            assert "distances of the candidates are not finite" in str(error)
            refused.append(unit)
        else:
            assert np.isfinite(found.mean).all()
    assert 1e152 not in refused and 1e154 in refused


@pytest.mark.float32
def test_candidates_that_are_too_large_for_the_dtype_are_named():
    huge = np.where(np.arange(A)[:, None] == 7, [[0, 1e300, 0]], LIBRARY)
    assert np.isfinite(np.asarray(library(huge).features)).all()
    if jnp.zeros(()).dtype == jnp.float32:
        with pytest.raises(
            ValueError, match=r"in float32; row 7, column 1 is 1e\+300.*jax_enable_x64"
        ):
            library(huge, scaling=False)
    else:
        assert float(library(huge, scaling=False).features[7, 1]) == 1e300


def test_repeated_candidates_are_no_mistake():
    twice = LIBRARY[[0, 0, *range(2, A)]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = suggest(library(twice), ARMS, TRUTH[ARMS], batch=B, model=MODEL)
    assert len(set(found.rows.tolist())) == B

"""`jsketch.suggest`, compared with a dense posterior."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import matern_52
from rows import check_refusals
from scipy import optimize, stats

from jsketch import struct
from jsketch.box.gp import regression
from jsketch.suggest import (
    Columns,
    Mixed,
    Model,
    acquisitions,
    batch,
    choice,
    data,
    feasibility,
    fit,
    leave_one_out,
    library,
    model,
    suggest,
)

A, B = 60, 8
RANDOM = np.random.default_rng(0)
LIBRARY = RANDOM.uniform(-1, 1, (A, 3))
TRUTH = np.cos(2 * LIBRARY[:, 0]) + LIBRARY[:, 1]
ARMS = np.array([3, 5, 3, 17, 29, 31, 44, 58])
FORTY = LIBRARY, np.arange(40), TRUTH[:40]  # evaluations of the first 40 candidates
LENGTHS = np.array([0.7, 0.4, 2.0])
ERRORS = np.array([0, 0.5, 0, 2, 0.1, 0, 1e300, 0])
MODEL = Model(lengthscale=LENGTHS, ratio=0.01, scale=1.5, centre=0.3, fitted=True)
LABEL = np.array(["cold", "warm", "hot"])[np.digitize(LIBRARY[:, 0], [-0.3, 0.3])]
COST = 1.0 + np.arange(A) % 7
UCB = acquisitions.UCB(1.5)


def suggest_batch(**changes):
    arguments = dict(candidates=LIBRARY, arms=ARMS, values=TRUTH[ARMS], batch=B, model=MODEL)
    return suggest(**{**arguments, **changes})


UNIT = (LIBRARY - LIBRARY.min(0)) / np.ptp(LIBRARY, axis=0)
GRAM = matern_52(UNIT, LENGTHS)


def dense(rows, arms=ARMS, errors=0.0):
    """(mean, covariance) of `MODEL` at some rows after evaluations of `arms`."""
    # errors of 1e300 are limited, because their squares overflow
    noise = np.broadcast_to(MODEL.ratio + np.minimum(errors / MODEL.scale, 1e6) ** 2, len(arms))
    explained = np.linalg.solve(GRAM[np.ix_(arms, arms)] + np.diag(noise), GRAM[arms][:, rows])
    mean = MODEL.centre + (TRUTH[arms] - MODEL.centre) @ explained
    covariance = GRAM[np.ix_(rows, rows)] - GRAM[arms][:, rows].T @ explained
    return mean, MODEL.scale**2 * covariance


def dense_batch(pending, arms=ARMS, errors=ERRORS, excluded=ARMS):
    """(rows, mean, std) of UCB after values of `arms`; picks reduce the variances of later picks.
    Candidates that are excluded or pending are not picked."""
    rows, all_rows, stds = [], np.arange(A), []
    mean = dense(all_rows, arms, errors)[0]
    for _ in range(B):
        evaluated = np.concatenate([arms, pending, rows]).astype(int)
        padded = np.append(errors, np.zeros(len(evaluated) - len(arms)))
        stds.append(np.sqrt(np.maximum(np.diagonal(dense(all_rows, evaluated, padded)[1]), 0)))
        score = mean + UCB.width * stds[-1]
        score[[*excluded, *pending, *rows]] = -np.inf
        rows.append(int(score.argmax()))
    return np.array(rows), mean[rows], stds[0][rows]


@pytest.fixture(params=[False, True], ids=["exact", "sketched"])
def sketched(request, monkeypatch):
    """Whether the posterior is a sketch with every evaluated candidate as an inducing point."""
    if request.param:
        monkeypatch.setattr(batch, "LARGEST_EXACT", 0)
        all_rows = lambda _, x, *others: SimpleNamespace(rows=np.arange(len(x)))  # noqa: E731
        monkeypatch.setattr(batch.bless, "bless", all_rows)
    return request.param


@pytest.mark.parametrize("pending", [[], [40, 7, 12, 40]])
def test_the_batch_is_that_of_the_dense_posterior(pending, sketched):
    suggestion = suggest_batch(errors=ERRORS, pending=pending, acquisition=UCB)
    n_points = len({*ARMS.tolist(), *pending})
    assert suggestion.dictionary_size == (n_points if sketched else len(ARMS))
    rows, mean, std = dense_batch(sorted(set(pending)))
    assert suggestion.rows.tolist() == rows.tolist() and suggestion.model is MODEL
    np.testing.assert_allclose(suggestion.mean, mean, atol=1e-8)
    np.testing.assert_allclose(suggestion.std, std, atol=1e-8)


def test_evaluated_candidates_are_picked_again_with_replicates():
    """Failed and pending candidates are not picked, and no candidate is picked twice in a batch."""
    failed, pending, *arms = np.argsort(-TRUTH)[:10].tolist()
    errors = np.full(8, 0.4)
    rows = dense_batch([pending], np.array(arms), errors, excluded=[failed])[0].tolist()
    assert np.isin(rows, arms).any() and not np.isin(rows, arms).all()
    evaluations = dict(arms=[*arms, failed], values=[*TRUTH[arms], np.nan], errors=[*errors, 0])
    options = dict(pending=[pending], acquisition=UCB, replicates=True)
    assert suggest_batch(**evaluations, **options).rows.tolist() == rows


def test_scores_of_all_candidates_are_those_of_the_dense_posterior(sketched):
    """Means and deviations are those of `dense`, and the first pick has the largest score."""
    suggestion = suggest_batch(errors=ERRORS, acquisition=UCB, scores=True)
    mean, covariance = dense(np.arange(A), ARMS, ERRORS)
    std = np.sqrt(np.diagonal(covariance))
    rows, scores = suggestion.rows, suggestion.scores
    np.testing.assert_allclose(scores.mean, mean, atol=1e-8)
    np.testing.assert_allclose(scores.std, std, atol=1e-7)
    score = (mean + 1.5 * std - MODEL.centre) / MODEL.scale
    np.testing.assert_allclose(scores.score, score, atol=1e-7)
    free = np.setdiff1d(np.arange(A), ARMS)
    assert rows[0] == free[score[free].argmax()] and suggest_batch().scores is None
    frame = suggestion.to_frame(ids=[f"c{i}" for i in range(A)])
    assert frame.columns.tolist() == ["row", "id", "mean", "std", "score"]
    assert frame["id"].tolist() == [f"c{row}" for row in rows]
    np.testing.assert_allclose(frame["score"], score[rows], atol=1e-7)
    assert suggest_batch().to_frame().columns.tolist() == ["row", "mean", "std"]


def test_a_kernel_matrix_replaces_features():
    """Batch, fit and predictions are the same, in any unit of the matrix."""
    gram_model = MODEL._replace(lengthscale=np.zeros(0))
    from_features = suggest_batch(acquisition=UCB, pending=[7])
    for gram in (GRAM, 3.0 * GRAM):
        changes = dict(candidates=None, gram=gram, acquisition=UCB, pending=[7])
        from_gram = suggest_batch(**changes, model=gram_model)
        assert from_gram.rows.tolist() == from_features.rows.tolist()
        np.testing.assert_allclose(from_gram.mean, from_features.mean, atol=1e-8)
        np.testing.assert_allclose(from_gram.std, from_features.std, atol=1e-8)
    candidates = library(gram=GRAM)
    fitted = fit(candidates, *FORTY[1:])
    expected = fit(*FORTY, lengthscale=LENGTHS)
    for field in ("ratio", "scale", "centre"):
        assert getattr(fitted, field) == pytest.approx(getattr(expected, field), rel=1e-5)
    pairs = (candidates, fitted), (LIBRARY, expected)
    means = [leave_one_out(x, *FORTY[1:], each).mean for x, each in pairs]
    np.testing.assert_allclose(*means, atol=1e-5)
    assert len(suggest(gram=GRAM, batch=3).rows) == 3


def test_a_pending_row_that_was_evaluated_counts_once(sketched):
    """Evaluated rows, also failed ones, may be marked as pending without any effect."""
    values = np.where(ARMS == 29, np.nan, TRUTH[ARMS])
    budget = COST[ARMS].sum() + COST[40] + 9
    for options in (dict(acquisition=UCB), dict(costs=COST, budget=budget)):
        unmarked, marked = (
            suggest_batch(values=values, pending=pending, **options)
            for pending in ([40], [3, 40, 29, 58, 3])
        )
        for field in ("rows", "mean", "std", "dictionary_size"):
            np.testing.assert_array_equal(getattr(marked, field), getattr(unmarked, field))
    with pytest.raises(ValueError, match="the 52 candidates .*: of 60 .* 7 were evaluated, 1 are"):
        suggest_batch(values=values, pending=[3, 40, 29], batch=53)


def test_candidates_of_a_batch_have_the_same_label():
    """The group with the largest expected improvement is chosen, if it has enough candidates."""
    rows_of_group, gain, threshold = {}, {}, dense(ARMS)[0].max()
    for label in set(LABEL):
        excluded = np.flatnonzero(label != LABEL)
        rows = suggest_batch(exclude=excluded, acquisition=UCB, batch=4).rows
        values = np.random.default_rng(0).multivariate_normal(*dense(rows), 20_000)
        rows_of_group[label] = rows.tolist()
        gain[label] = np.maximum(values.max(1) - threshold, 0).mean()
    best_label = max(gain, key=gain.get)
    assert gain[best_label] > 1.1 * np.median(list(gain.values()))
    rows = suggest_batch(same=LABEL, acquisition=UCB, batch=4).rows
    assert rows.tolist() == rows_of_group[best_label]
    # three candidates of the best group are left, too few for a batch of four
    all_but_three = np.flatnonzero(best_label == LABEL)[3:]
    rows = suggest_batch(same=LABEL, exclude=all_but_three, acquisition=UCB, batch=4).rows
    assert LABEL[rows[0]] != best_label and len(set(LABEL[rows])) == 1


def test_groups_are_rated_with_other_draws_than_those_that_choose_batches(monkeypatch):
    """The draws that choose a batch would overrate it. All groups are rated with the same draws."""
    choosing_keys, rating_keys = [], []

    def record(keys, key):
        jax.debug.callback(lambda data: keys.append(data.tolist()), jax.random.key_data(key))

    @struct.dataclass
    class Recorded(acquisitions.UCB):
        def choose(self, posterior, size, key):
            record(choosing_keys, key)
            return super().choose(posterior, size, key)

    def expected_best(posterior, picks, key):
        record(rating_keys, key)
        return acquisitions.expected_best(posterior, picks, key)

    monkeypatch.setattr(choice, "expected_best", expected_best)
    suggest_batch(same=LABEL, acquisition=Recorded())
    jax.effects_barrier()
    assert len(choosing_keys) == len(rating_keys) == 3
    assert len({*map(tuple, choosing_keys)}) == len({*map(tuple, rating_keys)}) == 1
    assert choosing_keys[0] != rating_keys[0]


def test_a_batch_stays_within_the_budget(monkeypatch):
    """The cost of every evaluation counts. The cost exponent falls with the remaining budget."""
    cost_so_far = COST[ARMS].sum()
    unweighted = suggest_batch(costs=COST, cost_exponent=0)
    improvement = acquisitions.ExpectedImprovement()
    assert unweighted.rows.tolist() == suggest_batch(acquisition=improvement).rows.tolist()
    half_exponent = suggest_batch(costs=COST, cost_exponent=0.5)
    half_spent = suggest_batch(costs=COST * 3.0, budget=6.0 * cost_so_far)
    assert half_exponent.rows.tolist() == half_spent.rows.tolist()
    short_batch = suggest_batch(costs=COST, budget=cost_so_far + 2.5, cost_exponent=1)
    assert 0 < len(short_batch.rows) < 4 and COST[short_batch.rows].sum() <= 2.5
    assert len(short_batch.mean) == len(short_batch.std) == len(short_batch.rows)
    # a shortlist of expensive candidates does not end a batch that cheap ones would fill
    monkeypatch.setattr(choice, "SHORTLIST", 1)
    prices = np.where(np.sort(TRUTH)[5] > TRUTH, 0.5, 6.0)
    options = dict(costs=prices, budget=prices[ARMS].sum() + 8, cost_exponent=0, batch=3)
    rows = suggest_batch(**options).rows
    assert len(set(rows)) == 3 and sorted(prices[rows]) == [0.5, 0.5, 6]
    # in tenths, where sums are rounded, the batch pays exactly the rest of the budget
    rows = suggest_batch(costs=0.1 * COST, budget=0.1 * (cost_so_far + 3), cost_exponent=0).rows
    assert COST[rows].sum() == 3
    assert COST[suggest_batch(costs=COST).rows].mean() < COST[unweighted.rows].mean()


def test_the_probability_of_success_is_that_of_the_laplace_approximation():
    """The oracle finds the mode by a general optimiser, with dense matrices."""
    values = np.where(np.arange(len(ARMS)) % 3 == 0, np.nan, TRUTH[ARMS])
    checked = data.check_data(LIBRARY, None, ARMS, values, (), True)
    kernel = Mixed(jnp.asarray(LENGTHS), (Columns("numbers", 3),))
    probability = feasibility.success_probability(kernel, checked, jax.random.key(0))
    cross = GRAM[ARMS]
    label = np.where(np.isnan(values), -1, 1)
    centre = 2**0.5 * stats.norm.ppf((5 + 1) / (8 + 2))

    def loss(weights):
        g = cross[:, ARMS] @ weights
        return g @ weights / 2 - stats.norm.logcdf(label * (g + centre)).sum()

    g = cross[:, ARMS] @ optimize.minimize(loss, np.zeros(len(ARMS)), tol=1e-9).x
    hazard = label * np.exp(stats.norm.logpdf(g + centre) - stats.norm.logcdf(label * (g + centre)))
    curvature = hazard**2 + (g + centre) * hazard
    inner = np.linalg.inv(cross[:, ARMS] + np.diag(1 / curvature))
    variance = 1 - (cross * (inner @ cross)).sum(0)
    expected = stats.norm.cdf((centre + cross.T @ hazard) / np.sqrt(1 + variance))
    np.testing.assert_allclose(probability, expected, atol=2e-5)
    succeeded = checked._replace(values=TRUTH[ARMS])
    assert feasibility.success_probability(kernel, succeeded, None) is None


@pytest.mark.float32
def test_failures_are_avoided_where_the_option_is_set():
    """Failed candidates are never suggested again, with the option or without."""
    best = np.argsort(-TRUTH)[:3]
    failed = dict(arms=np.append(ARMS, best), values=np.append(TRUTH[ARMS], [np.nan] * 3))
    without, with_option = suggest_batch(**failed), suggest_batch(**failed, failures=True)
    assert without.chance is None and with_option.chance.shape == (B,)
    assert not np.isin([*without.rows, *with_option.rows], best).any()
    nearest = np.linalg.norm(LIBRARY[:, None] - LIBRARY[best], axis=2).min(1)
    assert nearest[with_option.rows].mean() > nearest[without.rows].mean()
    none_failed = suggest_batch(failures=True)
    assert none_failed.rows.tolist() == suggest_batch().rows.tolist() and none_failed.chance is None


def test_every_value_is_predicted_from_the_others():
    """The oracle uses dense matrices and the errors. Failed evaluations are left out."""
    values = np.where(np.arange(len(ARMS)) == 3, np.nan, TRUTH[ARMS])
    errors = 0.3 * np.arange(len(ARMS))
    left_out = leave_one_out(LIBRARY, ARMS, values, MODEL, errors=errors)
    assert left_out.at.tolist() == [0, 1, 2, 4, 5, 6, 7]
    for k, i in enumerate(left_out.at):
        others = [j for j in left_out.at if j != i]
        mean, variance = dense(ARMS[[i]], ARMS[others], errors[others])
        assert left_out.mean[k] == pytest.approx(mean[0], abs=1e-9)
        variance = variance[0, 0] + MODEL.ratio * MODEL.scale**2 + errors[i] ** 2
        assert left_out.std[k] == pytest.approx(variance**0.5, rel=1e-7)
    truth, weights = TRUTH[ARMS[left_out.at]], left_out.weight
    assert 0 < weights[-1] < 0.6 * weights[0]
    error = np.average(np.square(truth - left_out.mean), weights=weights)
    total = np.average(np.square(truth - np.average(truth, weights=weights)), weights=weights)
    assert left_out.explained == pytest.approx(1 - error / total)
    # equal values have no variance to explain
    assert np.isnan(left_out._replace(observed=np.ones(7), mean=np.ones(7)).explained)


@pytest.mark.float32
def test_rounds_find_the_best_and_a_failure_is_not_repeated():
    """The first round has no evaluations, and the first evaluation fails."""
    arms, values = [], []
    for _ in range(3):
        suggestion = suggest(LIBRARY.tolist(), arms, values, batch=B, key=jax.random.key(1))
        arms += suggestion.rows.tolist()
        values = [float("nan"), *TRUTH[arms[1:]].tolist()]
        assert len(set(arms)) == len(arms)
    assert max(values[1:]) >= np.sort(TRUTH)[-2]
    # the fit ignores a failure
    fitted, expected = (fit(LIBRARY, arms[start:-B], values[start:-B]) for start in (0, 1))
    for actual_field, expected_field in zip(fitted, expected, strict=True):
        np.testing.assert_array_equal(actual_field, expected_field)
    assert fitted.fitted and not fit(LIBRARY, arms[:2], values[:2]).fitted


def test_another_round_compiles_nothing():
    """Evaluations and pending rows are padded to few sizes."""
    sizes = (0, 64, 65, 128, 129, 384, 513, 5000)
    assert [data.padded_size(n) for n in sizes] == [64, 64, 256, 256, 256, 512, 1024, 8192]
    programs = []
    for size, pending in ((6, [1]), (9, [0, 1, 2]), (11, [1, 2])):
        arms = np.arange(10, 10 + size)
        suggest(LIBRARY, arms, TRUTH[arms], pending=pending, batch=B)
        programs.append((choice.choose_batch._cache_size(), model._loss._cache_size()))
    assert programs[0] == programs[1] == programs[2] and min(programs[0]) > 0


def test_the_posterior_density_is_that_of_dense_matrices():
    """The density is a dense likelihood times the prior, with padding and with errors."""
    errors, unit = 0.1 * np.arange(32), np.array([0.5, 1.0, 2.0])
    kernel = Mixed(jnp.ones(3), (Columns("numbers", 3),))
    padded = LIBRARY[:32], np.where(np.arange(32) < 20, TRUTH[:32], 9)
    observed_data = regression.standardized(*map(jnp.asarray, padded), jnp.arange(32) < 20)

    def density(logs):
        theta = model.Hyperparameters(jnp.exp(logs[2:]), jnp.exp(logs[0]), jnp.exp(logs[1]))
        return model.log_posterior(kernel, [], observed_data, theta, unit, errors)

    value = jax.jit(density)(np.log([2.0, 0.05, *LENGTHS]))
    gram = 2.0 * matern_52(LIBRARY[:20], LENGTHS) + np.diag(0.05 + errors[:20])
    y = (TRUTH[:20] - TRUTH[:20].mean()) / TRUTH[:20].std()
    expected = -0.5 * (y @ np.linalg.solve(gram, y) + np.linalg.slogdet(2 * np.pi * gram)[1])
    theta = model.Hyperparameters(LENGTHS, *map(jnp.asarray, (2.0, 0.05)))
    prior = model.log_prior(theta, unit)
    assert float(value - prior) == pytest.approx(expected, rel=1e-9)


def test_the_prior_of_a_lengthscale_has_the_spread_of_its_column_as_its_unit():
    """A few far candidates change the range of a number, and hardly its lengthscale. Categories,
    columns of two numbers and columns that were not scaled have the spread 1."""
    solvent, columns = np.eye(3)[np.arange(A) % 3], [Columns("numbers", 3), Columns("category", 3)]
    table = np.hstack([LIBRARY, solvent])
    scaled = library(table, columns)
    np.testing.assert_allclose(scaled.spread, [*UNIT.std(0), 1.0])
    lengths = fit(scaled, [], []).lengthscale
    median = np.exp(model.LENGTHSCALE.location)
    np.testing.assert_allclose(lengths, median * 2 * scaled.spread)  # L = 4
    far = np.vstack([table, table[0] + np.array([0, 0, 40, 0, 0, 0])])
    before = lengths * [*np.ptp(LIBRARY, axis=0), 1]  # in units of the candidates
    after = fit(library(far, columns), [], []).lengthscale * [*np.ptp(far[:, :3], axis=0), 1]
    np.testing.assert_allclose(after[[0, 1, 3]], before[[0, 1, 3]], rtol=0.05)
    assert after[2] / before[2] < 0.5 * np.ptp(far[:, 2]) / np.ptp(LIBRARY[:, 2])
    unscaled = library(table, columns, scaling=False)
    assert unscaled.spread is None
    switch = np.where(np.arange(A) % 10 == 0, 7.0, 3.0)[:, None]
    with_switch = library(np.hstack([switch, LIBRARY]))
    np.testing.assert_allclose(with_switch.spread, [1.0, *UNIT.std(0)])
    np.testing.assert_allclose(fit(unscaled, [], []).lengthscale, 2 * median)


def test_the_parts_of_a_mixture_are_replaced_by_their_square_roots():
    """They are adjacent columns with a constant sum, up to rounding; other columns stay linear."""
    random = np.random.default_rng(1)
    parts, heat = random.dirichlet(np.ones(4), 200), random.uniform(20, 90, (200, 2))

    def unit(x):
        return (x - x.min(0)) / np.ptp(x, axis=0)

    for mixture in (parts, np.round(100 * parts), 1e-200 * parts):
        table = np.hstack([heat, mixture, heat[:, ::-1] ** 2])
        expected = np.hstack([unit(heat), unit(np.sqrt(mixture)), unit(heat[:, ::-1] ** 2)])
        np.testing.assert_allclose(library(table).features, expected, atol=1e-12)
        np.testing.assert_array_equal(library(table, scaling=False).features, table)
    wide = np.hstack([1e12 * heat[:, :1], parts, random.dirichlet(np.ones(3), 200)])
    assert data.mixtures(wide, np.ones(8, bool)) == [slice(1, 8)]
    assert data.mixtures(wide, np.arange(8) != 4) == [slice(5, 8)]
    others = [
        random.random((200, 6)),
        np.hstack([1e3 + heat, parts[:, :2]]),  # small parts of a large sum
        np.hstack([parts[:, :1], 1 - parts[:, :1]]),
        -parts,
    ]
    for table in others:
        assert data.mixtures(table, np.ones(table.shape[1], bool)) == []


def test_the_default_width_grows_with_the_number_of_values_for_numbers_only():
    solvent, columns = np.eye(3)[np.arange(A) % 3], [Columns("numbers", 3), Columns("category", 3)]
    libraries = (LIBRARY, None), (np.hstack([LIBRARY, solvent]), columns), (solvent, columns[1:])
    libraries += ((np.hstack([LIBRARY, solvent[:, :1]]), None),)  # the last column has two numbers
    widths_of = {2: (0.5, 0.875, 2, 0.875), 12: (1.2, 1.4, 2, 1.4), 20: (2, 2, 2, 2)}
    for count, widths in widths_of.items():
        for (table, groups), width in zip(libraries, widths, strict=True):
            arms = np.arange(count)
            evaluations = data.check_data(table, groups, arms, TRUTH[arms], (), scaling=True)
            assert batch.default_width(evaluations) == pytest.approx(width)
    few = dict(arms=[0, 1, 2, 3], values=TRUTH[:4])
    narrow = suggest_batch(**few, acquisition=acquisitions.UCB(0.5)).rows
    assert suggest_batch(**few).rows.tolist() == narrow.tolist()


def test_the_first_batch_represents_a_library_of_mixtures():
    """The mean distance of the library to the first batch is smaller than to random batches, and
    than to the pure components, which are farthest from each other. Equal values tell nothing."""
    parts = np.indices((6,) * 4).reshape(4, -1).T
    mixtures = parts[parts.sum(1) == 5] / 5
    distances = np.linalg.norm(mixtures[:, None] - mixtures[None], axis=2)

    pure = np.flatnonzero(mixtures.max(1) == 1)
    for arms, values in (([], []), ([0, 9], [1.0, 1.0])):

        def distance(rows, arms=arms):
            return distances[[*arms, *rows]].min(0).mean()

        random_rows = [np.random.default_rng(i).permutation(len(mixtures))[:5] for i in range(200)]
        keys = map(jax.random.key, range(8))
        designs = [suggest(mixtures, arms, values, batch=5, key=key).rows for key in keys]
        assert len({tuple(rows) for rows in designs}) > 1
        mean = np.mean([distance(rows) for rows in designs])
        assert mean < np.mean([distance(rows) for rows in random_rows]) - 0.02
        assert mean < distance(pure) - 0.05


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
def test_values_that_are_equal_up_to_rounding_fit_no_model(unit):
    values = unit * np.array([0.3, 0.1 + 0.2, 0.3, 0.1 + 0.2])
    assert np.ptp(values) > 0 and not fit(LIBRARY, range(4), values).fitted
    assert fit(LIBRARY, range(4), values + unit * np.array([0, 1e-9, 0, 0])).fitted


def test_a_fit_finds_the_columns_that_matter():
    """The third column does not matter. Wrong values with large errors are ignored."""
    fitted = fit(*FORTY)
    assert fitted.lengthscale[2] > 2 * fitted.lengthscale[:2].max()
    assert fitted.noise_std < 0.2 * TRUTH.std()
    wrong, errors = TRUTH[:40].copy(), np.zeros(40)
    wrong[[3, 20]], errors[[3, 20]] = 9.0, 50.0
    with_errors = fit(LIBRARY, np.arange(40), wrong, errors=errors)
    assert with_errors.noise_std < 0.2 * TRUTH.std() < fit(LIBRARY, np.arange(40), wrong).noise_std
    assert fit(*FORTY, lengthscale=0.7).lengthscale.tolist() == [0.7] * 3


@pytest.mark.parametrize("far", [1e4, 1e12, 3e299])
def test_a_value_with_a_large_error_changes_nothing(far):
    """The model is that of the other values, however large the value is."""
    arms = np.arange(41)
    values, errors = np.append(TRUTH[:40], far), np.append(np.zeros(40), 3 * far)
    fitted, expected = fit(LIBRARY, arms, values, errors=errors), fit(*FORTY)
    np.testing.assert_allclose(fitted.lengthscale, expected.lengthscale, rtol=1e-2)
    assert fitted.noise_std == pytest.approx(expected.noise_std, rel=1e-2)
    assert fitted.scale == pytest.approx(expected.scale, rel=1e-2)
    options = dict(arms=arms, model=fitted)
    rows = suggest_batch(values=values, errors=errors, **options).rows
    failed = np.append(TRUTH[:40], np.nan)
    np.testing.assert_array_equal(rows, suggest_batch(values=failed, **options).rows)
    left_out = leave_one_out(LIBRARY, arms, values, fitted, errors=errors)
    # the residual of the far value is a third of its error, and its weight corresponds to the error
    explained = leave_one_out(*FORTY, fitted).explained
    assert explained - 1.01 / 9 / 40 < left_out.explained < explained + 1e-6


def test_weighted_moments_agree_with_their_weights():
    """Equal errors change nothing; a few exact values do not determine the deviation."""
    values, errors, rows = TRUTH[:40], 0.2 * np.arange(40), np.arange(40)
    centre, deviation, weight = data.weighted_moments(values, errors, rows)
    expected = 1 / (deviation**2 + errors**2)
    np.testing.assert_allclose(weight / weight.sum(), expected / expected.sum(), rtol=1e-6)
    assert centre == pytest.approx(np.average(values, weights=expected))
    variance = np.average(np.square(values - centre), weights=expected)
    assert deviation == pytest.approx(variance**0.5)
    for unit in (1e-290, 1e290):
        scaled = data.weighted_moments(unit * values, unit * errors, rows)
        assert scaled[:2] == pytest.approx((unit * centre, unit * deviation), rel=1e-9)
    unweighted = pytest.approx((values.mean(), values.std()))
    # no errors; equal errors; errors much too large, with three exact values
    for ignored_errors in (np.zeros(40), np.full(40, 3.0), np.where(rows < 3, 0, 20)):
        assert data.weighted_moments(values, ignored_errors, rows)[:2] == unweighted
    three = data.weighted_moments(np.array([0.0, 1.0, 2.0]), np.array([0.0, 10.0, 10.0]), rows[:3])
    assert three[:2] == pytest.approx((1.0, (2 / 3) ** 0.5))
    # a control has exact repeats; the errors of other values are as large as their deviation
    arms = np.maximum(rows - 29, 0)
    control = np.where(arms > 0, values, values[0] + 1e-3 * rows)
    control_errors = np.where(arms > 0, values[30:].std(), 0)
    assert data.weighted_moments(control, control_errors, arms).deviation > 0.2 * values[30:].std()
    # an outlier with a large error is ignored also where all values are of one candidate
    outlier, error = np.append(values, 1e9), np.append(np.zeros(40), 1e9)
    repeats = data.weighted_moments(outlier, error, np.zeros(41))
    assert repeats[:2] == pytest.approx((values.mean(), values.std()), rel=2e-2)


def test_errors_of_too_few_values_are_ignored():
    """Few values do not determine the unit of the errors."""
    batches = [
        suggest(LIBRARY, [3], [5.0], errors=errors, batch=B).rows for errors in (None, [0.0], [9.0])
    ]
    np.testing.assert_array_equal(batches[0], batches[1])
    np.testing.assert_array_equal(batches[0], batches[2])


@pytest.mark.float32
def test_candidates_that_are_too_large_for_the_dtype_are_named():
    huge = np.where(np.arange(A)[:, None] == 7, [[0, 1e300, 0]], LIBRARY)
    assert np.isfinite(np.asarray(library(huge).features)).all()
    if jnp.zeros(()).dtype == jnp.float32:
        words = r"in float32; row 7, column 1 is 1e\+300.*jax_enable_x64"
        with pytest.raises(ValueError, match=words):
            library(huge, scaling=False)
    else:
        assert float(library(huge, scaling=False).features[7, 1]) == 1e300


NAN_CELL = np.where(np.arange(A)[:, None] == 4, [[0, np.nan, 0]], LIBRARY)
FAR, WORDS = LIBRARY * [1, 1e200, 1], [["a", "b"]] * 9
TINY, NO_NOISE = np.array([0.7, 1e-300, 2.0]), MODEL._replace(ratio=1e-17)
REPEATS = dict(arms=[4] * 6, values=range(6))
# the budget pays only for candidates 0 and 1, which form one group
PRICES = np.where(np.isin(np.arange(A), [0, 1, *ARMS]), 1, 1000)
TWO_CHEAP = dict(same=np.arange(A) < 2, costs=PRICES, budget=20, pending=[])
TWO_CHEAP |= dict(arms=ARMS, values=TRUTH[ARMS])


def test_mistakes_are_refused():
    given = dict(candidates=LIBRARY, arms=[4, 5], values=[1.0, 2.0], pending=[6], batch=3)
    rows = [
        (dict(candidates=LIBRARY[:, 0]), r"candidates must be a matrix \[A, d\].*x\[:, None\]"),
        (dict(candidates=LIBRARY[:0]), r"candidates have shape \(0, 3\)"),
        (dict(candidates=NAN_CELL), "row 4, column 1 is nan"),
        (dict(candidates=WORDS), "candidates must be real numbers.*category as one column"),
        (dict(candidates=LIBRARY * [1, 1, 0] + [0, 0, 2]), "column 2 .* the same value in every"),
        (dict(columns=[Columns("numbers", 2)]), "widths of columns add up to 2"),
        (dict(columns=[Columns("category", 3)]), "columns 0 to 2 are a category"),
        (dict(arms=[0, A], values=[1.0, 2.0]), "arms contains arm 60; the arms are 0 to 59"),
        (dict(pending=[-1]), "pending contains arm -1"),
        (dict(pending=np.zeros(A, bool)), r"pending .* arm numbers \(integers, such as np.flatn"),
        (dict(exclude=[A]), "exclude contains arm 60"),
        (dict(values=[1.0]), "values must hold one number for each of the 2 arms"),
        (dict(values=[1.0, np.inf]), r"values must be at most 1e\+300 in size.*number 1 is inf"),
        (dict(values=[1.0, "x"]), "values must be real numbers"),
        (dict(errors=[1.0]), "errors must hold one number for each of the 2 values"),
        (dict(errors=[0.0, -1.0]), r"standard errors from 0 to 1e\+300; number 1 is -1.0"),
        (dict(batch=8193), "batch = 8193 is more than 8192, the largest batch"),
        (dict(batch=58), "the 57 candidates that are left: of 60 .* 2 were evaluated, 1 are"),
        (dict(pending=range(A), batch=1), "the 0 candidates .* 2 were evaluated, 58 are pending"),
        (dict(exclude=np.arange(A)), "1 are pending and 60 are excluded"),
        (dict(batch=0), "batch must be an integer of at least 1"),
        (dict(batch=2.0), "batch must be an integer"),
        (dict(acquisition="ei"), "acquisition must be one of suggest.acquisitions"),
        (dict(acquisition=acquisitions.UCB), "acquisition must be one of"),
        (dict(acquisition=acquisitions.UCB(-1.0)), "width must be a finite number, at least 0"),
        (dict(costs=COST, acquisition=UCB), "costs divide an expected improvement"),
        (dict(failures=True, acquisition=SimpleNamespace(choose=None)), "a method with_failures"),
        (dict(failures=1), "failures must be True or False"),
        (dict(lengthscale=0.0), "lengthscale must be a finite number above 0"),
        (dict(lengthscale=[1.0, 2.0]), "lengthscale must be one number, or one for each of the 3"),
        (dict(lengthscale=1.0, model=MODEL), "a lengthscale or a model"),
        (dict(model="fitted"), "model must be a Model"),
        (dict(model=MODEL._replace(ratio=0.0)), "ratio must be a finite number above 0"),
        (dict(model=MODEL._replace(lengthscale=LENGTHS[:2])), "has 3 lengthscales"),
        (dict(model=MODEL._replace(centre=np.nan)), "centre must be a finite number; nan"),
        (dict(model=MODEL._replace(scale=1e301)), "centre and scale of a model must be at most"),
        (dict(key=0), "key must be one key"),
        (dict(scaling="no"), "scaling must be True or False"),
        (dict(candidates=library(LIBRARY), scaling=False), "already has columns and scaling"),
        (dict(candidates=library(LIBRARY), columns=[Columns("numbers", 3)]), "already has columns"),
        (dict(gram=GRAM), "candidates with their columns, or their gram matrix, not both"),
        (dict(candidates=None), "candidates .*, or their gram matrix .*, are needed"),
        (dict(candidates=None, gram=GRAM[:5]), "square matrix .* its shape is .5, 60."),
        (dict(candidates=None, gram=GRAM, lengthscale=1.0), "a kernel matrix has no lengthscale"),
        (dict(candidates=None, gram=0 * GRAM), "diagonal of gram must be above 0; entry 0 is 0"),
        (dict(acquisition=acquisitions.TopTwo(5.0)), "leader must lie between 0 and 1; 5.0"),
        (dict(acquisition=acquisitions.ProbabilityOfBest(top=0)), "top must be an integer of at"),
        (dict(replicates="no"), "replicates must be True or False"),
        (dict(same=LABEL[:9]), "same must hold one value for each of the 60 candidates"),
        (dict(same=np.full(A, np.nan)), "same has no value for candidate 0"),
        (dict(same=np.array(["a", None] * 30)), "same has no value for candidate 1: it is None"),
        (dict(same=np.array(["a", 1] * 30, object)), "have the types int, str: use only numbers"),
        (dict(same=np.arange(A)), "too large: .* at most 1 have the same value of `same`"),
        (TWO_CHEAP, "the rest of the budget pays for no candidate whose value of `same`"),
        (dict(costs=COST[1:]), "costs must hold one number for each of the 60"),
        (dict(costs=COST - 1), "costs must be finite and above 0; number 0 is 0"),
        (dict(budget=3.0), "a budget and a cost_exponent need costs"),
        (dict(costs=COST, budget=0.0), "budget must be a finite number above 0"),
        (dict(costs=COST, budget=1.0), "evaluations cost 1. of the budget of 1: 0 is left"),
        (dict(costs=COST, cost_exponent=-1.0), "cost_exponent must be a finite number, at least 0"),
        # The message names the part that is not finite.
        (dict(lengthscale=1e-300), r"distances.*not finite.*column 0, from 0 to 1.* is 1e-300"),
        (dict(lengthscale=TINY), "column 1, from 0 to 1, whose lengthscale is 1e-300"),
        (dict(model=MODEL._replace(lengthscale=TINY)), "column 1, from 0 to 1, whose lengthscale"),
        (dict(candidates=FAR, scaling=False), r"column 1, from -9\..*e\+199 to 9\..*e\+199, whose"),
        (dict(candidates=FAR, scaling=False, arms=[], values=[]), "column 1, from -9"),
        (dict(model=MODEL._replace(scale=5e-324)), "means are NaN.*scale of 4.94066e-324"),
        (dict(**REPEATS, pending=[], model=NO_NOISE), "not finite: means, stan"),
    ]
    check_refusals((partial(suggest, **(given | change)), words) for change, words in rows)


def test_refusals_of_fits_and_predictions():
    with pytest.raises(ValueError, match="column 2, from 0 to 1, whose lengthscale is 1e-200"):
        fit(*FORTY, lengthscale=[1.0, 1.0, 1e-200])
    with pytest.raises(ValueError, match="column 1, from 0 to 1, whose lengthscale is 1e-300"):
        leave_one_out(*FORTY, MODEL._replace(lengthscale=TINY))
    with pytest.raises(ValueError, match="the posterior is not finite.*ratio of 1e-17"):
        leave_one_out(LIBRARY, **REPEATS, model=NO_NOISE)

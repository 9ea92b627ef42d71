"""What a laboratory asks of a batch: one value of a column, costs and a budget, rows that are out,
distance from failures; and the certificate. Against brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from jsketch import struct
from jsketch.kernels import Columns, Mixed
from jsketch.suggest import Model, acquisitions, choice, data, feasibility, leave_one_out, suggest
from jsketch.suggest.acquisitions import Chance, JointPosterior, Price, Terms, expected_best

A, B = 60, 4
RANDOM = np.random.default_rng(0)
LIBRARY = RANDOM.uniform(-1, 1, (A, 2))
TRUTH = np.cos(2 * LIBRARY[:, 0]) + LIBRARY[:, 1]
ARMS = np.array([3, 5, 3, 17, 29, 31, 44, 58])
MODEL = Model(lengthscale=np.array([0.7, 0.4]), ratio=0.01, scale=1.5, centre=0.3, fitted=True)
LABEL = np.array(["cold", "warm", "hot"])[np.digitize(LIBRARY[:, 0], [-0.3, 0.3])]
COST = 1 + np.arange(A) % 7
UCB = acquisitions.UCB(1.5)


def asked(**more):
    right = dict(candidates=LIBRARY, arms=ARMS, values=TRUTH[ARMS], batch=B, model=MODEL)
    return suggest(**{**right, **more})


K, RATIO = 6, 0.1
ROOT = RANDOM.standard_normal((K, K)) / 2
COVARIANCE, MEAN, FREE = ROOT @ ROOT.T, RANDOM.standard_normal(K), np.arange(K) != 2
CHANCE, PRICE = np.array([0.9, 0.2, 1.0, 0.6, 0.8, 0.7]), np.array([2.0, 1, 1, 4, 0.5, 3])
WORST, EXPONENT = -1.5, 0.6
choose = jax.jit(lambda which, outlook, key: which.choose(outlook, K - 1, key))


def outlook(**terms):
    arrays = map(jnp.array, (MEAN, COVARIANCE, FREE, RATIO, 0.2))
    return JointPosterior(*arrays, Terms(**terms))


@pytest.mark.parametrize("name", ["ucb", "ei", "spread"])
def test_scores_on_terms(name):
    """Failures are worth the worst value, costs divide, and nothing is picked beyond the budget."""
    which = dict(ucb=UCB, ei=acquisitions.ExpectedImprovement(), spread=acquisitions.Spread())[name]
    left = np.inf if name == "ucb" else 6.6
    picks, covariance, best, spent = [], COVARIANCE.copy(), 0.2, 0.0
    for _ in range(K - 1):
        std = np.sqrt(np.diagonal(covariance))
        z = (MEAN - best) / std
        gain = (MEAN - best) * stats.norm.cdf(z) + std * stats.norm.pdf(z)
        score = dict(
            ucb=CHANCE * (MEAN + 1.5 * std) + (1 - CHANCE) * WORST,
            ei=CHANCE * gain / PRICE**EXPONENT,
            spread=CHANCE * std**2 / PRICE**EXPONENT,
        )[name]
        may = FREE & ~np.isin(np.arange(K), picks) & (spent + PRICE <= left)
        if not may.any():
            picks.append(-1)
            continue
        arm = int(np.where(may, score, -np.inf).argmax())
        column = covariance[:, arm]
        covariance = covariance - np.outer(column, column) / (covariance[arm, arm] + RATIO)
        picks.append(arm)
        best, spent = max(best, MEAN[arm]), spent + PRICE[arm]
    terms = dict(chance=Chance(jnp.array(CHANCE), jnp.array(WORST)))
    if name != "ucb":
        terms["price"] = Price(*map(jnp.array, (PRICE, EXPONENT, left)))
        assert -1 in picks
    assert choose(which, outlook(**terms), jax.random.key(0)).tolist() == picks


def test_draws_fail_as_often_as_evaluations():
    """Of `ProbabilityOfBest`, and of what the batch of a group is worth."""
    random, count = np.random.default_rng(0), 40_000
    values = random.multivariate_normal(MEAN, COVARIANCE, count)
    values = np.where(random.random((count, K)) < CHANCE, values, WORST)
    rate = np.bincount(np.where(FREE, values, -np.inf).argmax(1), minlength=K)
    terms = dict(chance=Chance(jnp.array(CHANCE), jnp.array(WORST)))
    found = choose(acquisitions.ProbabilityOfBest(), outlook(**terms), jax.random.key(0))
    assert found.tolist()[:2] == np.argsort(-rate)[:2].tolist()
    terms["price"] = Price(*map(jnp.array, (PRICE, EXPONENT, np.inf)))
    picks = jnp.array([0, 3, -1])
    worth = jax.jit(expected_best, static_argnums=3)(
        outlook(**terms), picks, jax.random.key(1), 20_000
    )
    gain = np.maximum(values[:, [0, 3]].max(1) - 0.2, 0).mean()
    assert float(worth) == pytest.approx(gain / PRICE[[0, 3]].sum() ** EXPONENT, rel=0.03)


def dense(rows):
    """(mean, covariance) of `MODEL` after `ARMS`."""
    x = data.in_units(LIBRARY)
    gram = np.asarray(Mixed(MODEL.lengthscale, (Columns("numbers", 2),)).gram(x, x))
    inverse = np.linalg.inv(gram[np.ix_(ARMS, ARMS)] + MODEL.ratio * np.eye(len(ARMS)))
    cross, centred = gram[np.ix_(ARMS, rows)], TRUTH[ARMS] - MODEL.centre
    covariance = gram[np.ix_(rows, rows)] - cross.T @ inverse @ cross
    return MODEL.centre + centred @ inverse @ cross, MODEL.scale**2 * covariance


def test_a_batch_has_one_value_of_a_column():
    """The batch of a group is what it is without the other candidates, and the group of the largest
    expected improvement is taken."""
    alone, worth, threshold = {}, {}, dense(ARMS)[0].max()
    for label in set(LABEL):
        found = asked(exclude=np.flatnonzero(label != LABEL), acquisition=UCB)
        values = np.random.default_rng(0).multivariate_normal(*dense(found.rows), 20_000)
        alone[label] = found.rows.tolist()
        worth[label] = np.maximum(values.max(1) - threshold, 0).mean()
    best = max(worth, key=worth.get)
    assert worth[best] > 1.1 * np.median(list(worth.values()))
    assert asked(same=LABEL, acquisition=UCB).rows.tolist() == alone[best]
    label = best
    taken = np.flatnonzero(label == LABEL)[3:]  # too few are left of it
    other = asked(same=LABEL, exclude=taken, acquisition=UCB)
    assert LABEL[other.rows[0]] != label and len(set(LABEL[other.rows])) == 1


def test_batches_of_groups_are_rated_by_draws_of_their_own(monkeypatch):
    """The draws that choose a batch would overrate it; groups are compared with the same draws."""
    chosen, rated = [], []

    def note(keys, key):
        jax.debug.callback(lambda data: keys.append(data.tolist()), jax.random.key_data(key))

    @struct.dataclass
    class Noted(acquisitions.UCB):
        def choose(self, outlook, size, key):
            note(chosen, key)
            return super().choose(outlook, size, key)

    def worth(outlook, picks, key):
        note(rated, key)
        return expected_best(outlook, picks, key)

    monkeypatch.setattr(choice, "expected_best", worth)
    asked(same=LABEL, acquisition=Noted())
    jax.effects_barrier()
    assert len(chosen) == len(rated) == 3
    assert chosen == chosen[:1] * 3 and rated == rated[:1] * 3 and chosen[0] != rated[0]


def test_a_budget_is_kept(monkeypatch):
    """What was evaluated counts, each time; the exponent falls with what is left."""
    spent = COST[ARMS].sum()
    every = asked(costs=COST, cost_exponent=0)
    assert (
        every.rows.tolist() == asked(acquisition=acquisitions.ExpectedImprovement()).rows.tolist()
    )
    half = asked(costs=COST, cost_exponent=0.5)
    assert half.rows.tolist() == asked(costs=COST * 3.0, budget=6.0 * spent).rows.tolist()
    few = asked(costs=COST, budget=spent + 2.5, cost_exponent=1)
    assert 0 < len(few.rows) < B and COST[few.rows].sum() <= 2.5
    # a shortlist of dear candidates ends no batch that cheap ones would fill
    monkeypatch.setattr(choice, "SHORTLIST", 1)
    dear = np.where(np.sort(TRUTH)[5] > TRUTH, 0.5, 6.0)
    options = dict(costs=dear, budget=dear[ARMS].sum() + 8, cost_exponent=0, batch=3)
    many = asked(**options).rows
    assert len(set(many)) == 3 and sorted(dear[many]) == [0.5, 0.5, 6]
    tenths = asked(costs=0.1 * COST, budget=0.1 * (spent + 3), cost_exponent=0)
    assert COST[tenths.rows].sum() == 3
    assert len(few.mean) == len(few.std) == len(few.rows)
    assert COST[asked(costs=COST).rows].mean() < COST[every.rows].mean()


def test_the_chance_of_success_is_laplaces():
    """A mode by a general optimiser, curvature by its formula, at dense matrices."""
    values = np.where(np.arange(len(ARMS)) % 3 == 0, np.nan, TRUTH[ARMS])
    arrays = data.checked(LIBRARY, None, ARMS, values, (), True)
    kernel = Mixed(jnp.asarray(MODEL.lengthscale), (Columns("numbers", 2),))
    found = feasibility.chances(kernel, arrays, jax.random.key(0))
    x = np.asarray(arrays.library.features)
    gram = np.asarray(kernel.gram(x, x))
    cross = gram[ARMS]
    label = np.where(np.isnan(values), -1, 1)
    centre = 2**0.5 * stats.norm.ppf((5 + 1) / (8 + 2))

    def loss(weights):
        g = cross[:, ARMS] @ weights
        return g @ weights / 2 - stats.norm.logcdf(label * (g + centre)).sum()

    g = cross[:, ARMS] @ optimize.minimize(loss, np.zeros(len(ARMS)), tol=1e-9).x
    hazard = label * np.exp(stats.norm.logpdf(g + centre) - stats.norm.logcdf(label * (g + centre)))
    curvature = hazard**2 + (g + centre) * hazard
    mean = centre + cross.T @ hazard
    inner = np.linalg.inv(cross[:, ARMS] + np.diag(1 / curvature))
    variance = 1 - (cross * (inner @ cross)).sum(0)
    expected = stats.norm.cdf(mean / np.sqrt(1 + variance))
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert feasibility.chances(kernel, arrays._replace(values=TRUTH[ARMS]), None) is None


@pytest.mark.float32
def test_failures_are_kept_away_from():
    """If asked: without, they teach nothing. Their own candidates are not suggested either way."""
    best = np.argsort(-TRUTH)[:3]
    arms = np.append(ARMS, best)
    values = np.append(TRUTH[ARMS], [np.nan] * 3)
    without = asked(arms=arms, values=values)
    known = asked(arms=arms, values=values, failures=True)
    assert without.chance is None and known.chance.shape == (B,)
    assert not np.isin([*without.rows, *known.rows], best).any()
    away = [
        np.linalg.norm(LIBRARY[f.rows][:, None] - LIBRARY[best], axis=2).min(1).mean()
        for f in (without, known)
    ]
    assert away[1] > away[0]
    again = asked(failures=True)
    assert again.rows.tolist() == asked().rows.tolist() and again.chance is None


@pytest.mark.parametrize("pending", [[], [40, 7]])
def test_the_certificate_is_of_the_dense_posterior(pending):
    """Of all candidates but those excluded or failed; pending ones bring nothing."""
    failed, excluded = 12, [20, 21]
    found = asked(
        arms=[*ARMS, failed],
        values=[*TRUTH[ARMS], np.nan],
        pending=pending,
        exclude=[*excluded, 5],
        acquisition=UCB,
    )
    mean, covariance = dense(np.arange(A))
    std = np.sqrt(np.diagonal(covariance))
    out = [failed, *excluded]
    upper, lower = np.delete(mean + 1.5 * std, out), np.delete(mean - 1.5 * std, out)
    rows = np.delete(np.arange(A), out)
    gap, best, rival, width = found.certificate
    assert gap == pytest.approx(upper.max() - lower.max(), rel=1e-8) and width == 1.5
    assert (best, rival) == (rows[lower.argmax()], rows[upper.argmax()])
    assert suggest(LIBRARY, batch=2).certificate is None


def test_every_value_is_predicted_from_the_others():
    """By a posterior without it, densely, values with errors; a failed evaluation is none."""
    values = np.where(np.arange(len(ARMS)) == 3, np.nan, TRUTH[ARMS])
    errors = 0.3 * np.arange(len(ARMS))
    own = np.square(errors / MODEL.scale)
    found = leave_one_out(LIBRARY, ARMS, values, MODEL, errors=errors)
    assert found.at.tolist() == [0, 1, 2, 4, 5, 6, 7]
    x = data.in_units(LIBRARY)
    gram = np.asarray(Mixed(MODEL.lengthscale, (Columns("numbers", 2),)).gram(x, x))
    for k, i in enumerate(found.at):
        left = [j for j in found.at if j != i]
        others = ARMS[left]
        known = gram[np.ix_(others, others)] + np.diag(MODEL.ratio + own[left])
        weights = np.linalg.solve(known, gram[others, ARMS[i]])
        mean = MODEL.centre + weights @ (TRUTH[others] - MODEL.centre)
        variance = 1 + MODEL.ratio + own[i] - weights @ gram[others, ARMS[i]]
        assert found.mean[k] == pytest.approx(mean, abs=1e-9)
        assert found.std[k] == pytest.approx(MODEL.scale * variance**0.5, rel=1e-7)
    truth, weights = TRUTH[ARMS[found.at]], found.weight
    assert 0 < weights[-1] < 0.6 * weights[0]
    wrong = np.average(np.square(truth - found.mean), weights=weights)
    spread = np.average(np.square(truth - np.average(truth, weights=weights)), weights=weights)
    assert found.explained == pytest.approx(1 - wrong / spread)
    assert np.isnan(found._replace(observed=np.ones(7), mean=np.ones(7)).explained)


class Own:
    choose = score = None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(same=LABEL[:9]), r"same must hold one value for each of the 60 candidates"),
        (dict(same=np.full(A, np.nan)), "same has no value for candidate 0"),
        (dict(same=np.array(["a", None] * 30)), "same has no value for candidate 1: it is None"),
        (dict(same=np.array(["a", 1] * 30, object)), "no order, int, str: give numbers, or text"),
        (dict(same=np.arange(A)), "batch = 4 is more than any value of `same` has left: 1"),
        (
            dict(
                same=np.arange(A) < 2,
                costs=np.where(np.isin(np.arange(A), [0, 1, *ARMS]), 1, 1000),
                budget=20,
            ),
            "what is left of the budget pays for no candidate of a value of `same`",
        ),
        (dict(exclude=[A]), "exclude names arm 60"),
        (dict(exclude=np.arange(A)), "0 are pending, 60 are excluded, 0 are left"),
        (dict(costs=COST[1:]), "costs must hold one number for each of the 60"),
        (dict(costs=COST - 1), "costs must be finite numbers above 0; that of candidate 0 is 0"),
        (dict(budget=3.0), "a budget and a cost_exponent are of costs"),
        (dict(costs=COST, budget=0.0), "budget must be a finite number above 0"),
        (dict(costs=COST, budget=1.0), "the evaluations made and pending cost 3.: 0 is left"),
        (dict(costs=COST, cost_exponent=-1.0), "cost_exponent must be a finite number, at least 0"),
        (dict(costs=COST, acquisition=UCB), "costs divide an expected improvement"),
        (dict(failures=True, acquisition=Own()), "has no with_failures"),
        (dict(failures=1), "failures must be True or False"),
    ],
)
def test_what_is_wrong_with_constraints(change, words):
    with pytest.raises(ValueError, match=words):
        asked(**change)

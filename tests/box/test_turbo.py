"""TuRBO: candidates; trust regions and GPs compared with computations in Python and NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import check_law
from scipy.stats import qmc

from jsketch import loops
from jsketch.box import Turbo, history, regression
from jsketch.box.gp.fit import Bounds
from jsketch.box.turbo import local_gp, trust_regions
from jsketch.box.turbo.trust_regions import sobol
from jsketch.problems import boxes

KEY = jax.random.key(0)
SMALL = Turbo(batch=3, initial=5, candidates=50, frequencies=16, fit_steps=5)
SOBOL = jax.jit(sobol, static_argnames=("count", "d", "dtype"))
STANDARDIZED = jax.jit(regression.standardized)
CANDIDATES = jax.jit(trust_regions.candidates, static_argnames="count")
VALUES = jax.jit(jax.vmap(boxes.branin().value))


def test_sobol_points_are_evenly_spread_and_random():
    points, other_points = (
        np.asarray(SOBOL(jax.random.key(seed), 64, 5, jnp.float64)) for seed in (0, 1)
    )
    assert points.min() >= 0 and points.max() < 1 and (points != other_points).any()
    # each of the 64 intervals of every input has one point
    for column in [*points.T, *other_points.T]:
        assert sorted(np.floor(column * 64)) == list(range(64))
    sobol_discrepancy = qmc.discrepancy(qmc.Sobol(5, scramble=False).random_base2(6))
    uniform_discrepancy = qmc.discrepancy(np.random.default_rng(0).uniform(size=(64, 5)))
    assert qmc.discrepancy(points) < 2 * sobol_discrepancy < 0.5 * uniform_discrepancy
    # Each point is uniform: the mean of one coordinate of the third, over 4,000 keys, is within 5
    # standard errors of 1/2.
    draw = jax.jit(jax.vmap(lambda key: sobol(key, 3, 2, jnp.float64)[2, 1]))
    coordinates = np.asarray(draw(jax.random.split(KEY, 4000)))
    assert coordinates.mean() == pytest.approx(0.5, abs=5 / (12 * 4000) ** 0.5)


def data_with_centre(d):
    """Data of 9 of 12 slots. The best observation is at 0.6 in every input; slot 11 is not used."""
    u, y = np.random.default_rng(0).uniform(size=(12, d)), np.zeros(12)
    u[4], y[4], y[11] = 0.6, 1.0, 5.0
    return STANDARDIZED(u, y, np.arange(12) < 9)


def test_candidates_fill_the_box_around_the_best_observation():
    data, lengthscale = data_with_centre(3), np.array([0.2, 0.4, 0.8])
    u = np.asarray(CANDIDATES(data, data.mask, lengthscale, np.array(0.3), KEY, 512))
    sides = 0.3 * lengthscale / np.exp(np.log(lengthscale).mean())
    assert np.prod(sides) == pytest.approx(0.3**3)
    assert (np.abs(u - 0.6) <= sides / 2 + 1e-12).all()
    np.testing.assert_allclose(np.abs(u - 0.6).max(0), sides / 2, rtol=0.02)
    assert (u != 0.6).all()  # candidates change all of so few inputs
    # a region that is larger than the cube
    u = np.asarray(CANDIDATES(data, data.mask, lengthscale, np.array(1.6), KEY, 512))
    assert u.min() >= 0 and u.max() <= 1


def test_candidates_change_about_twenty_inputs_and_at_least_one():
    """Of 100 inputs, each is changed by a fraction of 2,000 candidates that is within 5 standard
    errors of 0.2. A correct implementation fails with probability 6e-5."""
    data, scales, length = data_with_centre(100), np.full(100, 0.5), np.array(0.4)
    u = CANDIDATES(data, data.mask, scales, length, KEY, 2000)
    differs = np.asarray(u) != 0.6
    error = (0.2 * 0.8 / 2000) ** 0.5
    np.testing.assert_allclose(differs.mean(0), 0.2, atol=5 * error)
    assert differs.any(1).all()


def test_a_region_whose_evaluations_all_failed_has_its_first_point_as_centre():
    """The region has slots 5 to 7. A slot that succeeds is the centre, whatever its value is."""
    data, scales, length = data_with_centre(2), np.array([0.5, 0.5]), np.array(0.1)
    members = (np.arange(12) >= 5) & (np.arange(12) < 8)
    for succeeded, centre in ((None, 5), (6, 6)):
        ok = np.zeros(12, bool) if succeeded is None else np.arange(12) == succeeded
        region_data = STANDARDIZED(data.u, -np.ones(12), ok)
        u = np.asarray(CANDIDATES(region_data, members, scales, length, KEY, 64))
        assert (np.abs(u - np.asarray(data.u)[centre]) <= 0.05 + 1e-12).all()


def matern(x, y, scales, outputscale):
    """The Matern 5/2 kernel, and the factor exp(-s) (1 + s) of its derivatives; s = sqrt(5) r."""
    r = np.sqrt((((x[:, None] - y) / scales) ** 2).sum(2))
    s = np.sqrt(5) * r
    return outputscale * (1 + s + s**2 / 3) * np.exp(-s), outputscale * (1 + s) * np.exp(-s)


def numpy_fit(x, y):
    """50 steps of Adam at rate 0.1 in NumPy: (mean, lengthscales, outputscale, noise)."""
    low = np.array([0.005] * x.shape[1] + [0.05, 5e-4])
    high = np.array([2.0] * x.shape[1] + [20.0, 0.2])
    fraction = (np.array([0.5] * x.shape[1] + [1.0, 0.005]) - low) / (high - low)
    theta = np.concatenate([[0.0], np.log(fraction / (1 - fraction))])
    m, v = np.zeros_like(theta), np.zeros_like(theta)  # Adam's moments
    for step in range(1, 51):
        squashed = 1 / (1 + np.exp(-theta[1:]))
        values = low + (high - low) * squashed
        scales, outputscale, noise = values[:-2], values[-2], values[-1]
        k, slope = matern(x, x, scales, outputscale)
        inverse = np.linalg.inv(k + noise * np.eye(len(x)))
        w = inverse @ (y - theta[0])
        by_k = (np.outer(w, w) - inverse) / 2
        squares = (x[:, None] - x) ** 2 / scales**3
        partials = [*(by_k[:, :, None] * 5 / 3 * slope[:, :, None] * squares).sum((0, 1))]
        partials += [(by_k * k).sum() / outputscale, np.trace(by_k)]
        gradient = np.concatenate([[w.sum()], partials * (high - low) * squashed * (1 - squashed)])
        gradient = -gradient / len(x)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        rate = 0.1 / (1 - 0.9**step)
        theta = theta - rate * m / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    values = low + (high - low) / (1 + np.exp(-theta[1:]))
    return theta[0], values[:-2], values[-2], values[-1]


def outlier_data(n, capacity):
    """(data of n points in `capacity` slots, u [n,3], y [n]). Point 1 is an outlier."""
    random = np.random.default_rng(n)
    u = random.uniform(size=(capacity, 3))
    y = np.sin(6 * u[:, 0]) + u[:, 1] ** 2
    y[1] = -30.0
    # the used slots are spread over all slots
    mask = np.arange(capacity) < 2
    mask[random.choice(np.arange(2, capacity), n - 2, replace=False)] = True
    data = jax.jit(local_gp.standardized)(u, y, mask)
    return data, u[mask], y[mask]


BOUNDS = trust_regions.BOUNDS
FIT = jax.jit(lambda data: local_gp.fit(Turbo().kernel, data, BOUNDS, steps=50, max_points=1000))


@pytest.mark.parametrize("n", [40, 41])
def test_the_fit_is_that_of_the_paper(n):
    """The centre is the median, the mean is fitted, and the start and the steps are fixed."""
    data, u, y = outlier_data(n, 50)
    assert float(data.centre) == pytest.approx(np.median(y), rel=1e-14)
    assert float(data.spread) == pytest.approx(y.std(), rel=1e-14)
    model = FIT(data)
    mean, scales, outputscale, noise = numpy_fit(u, (y - np.median(y)) / y.std())
    assert float(model.mean) == pytest.approx(mean, rel=1e-7) and abs(mean) > 0.1
    np.testing.assert_allclose(model.numbers.lengthscale, scales, rtol=1e-7)
    np.testing.assert_allclose(model.numbers.outputscale, outputscale, rtol=1e-7)
    np.testing.assert_allclose(model.numbers.noise, noise, rtol=1e-7)


def test_draws_have_the_joint_posterior_of_noisy_values():
    """6 means and 21 covariances of 20,000 draws at 6 points are within 5 standard errors of the
    posterior of noisy values. A correct implementation fails with probability 2e-5."""
    data, u, y = outlier_data(40, 50)
    numbers = regression.Hyperparameters(
        jnp.array([0.4, 0.6, 0.9]), jnp.array(1.3), jnp.array(0.05)
    )
    model = local_gp.Model(jnp.array(0.7), numbers)
    points = np.random.default_rng(0).uniform(size=(6, 3))
    options = dict(n_draws=20_000, frequencies=16)
    sample = jax.jit(lambda u: local_gp.draw(Turbo().kernel, model, data, u, KEY, **options))(
        points
    )

    def k(a, b):
        return matern(a, b, np.asarray(numbers.lengthscale), 1.3)[0]

    gain = k(points, u) @ np.linalg.inv(k(u, u) + 0.05 * np.eye(40))
    mean = 0.7 + gain @ ((y - np.median(y)) / y.std() - 0.7)
    covariance = k(points, points) - gain @ k(u, points) + 0.05 * np.eye(6)
    draws = (np.asarray(sample) - np.median(y)) / y.std()
    check_law(draws, mean, covariance, mean_errors=5, covariance_errors=5)


class Counters:
    """The counters of the paper (Section 2, numbers of THEORY 8.5) in Python, for batches of B."""

    def __init__(self, d, batch):
        self.tolerance = int(np.ceil(max(4 / batch, d / batch)))
        self.length, self.successes, self.failures, self.best = 0.8, 0, 0, None

    def tell(self, values, least_length=2**-7):
        """Returns True when the region restarts."""
        top = max(values)
        if self.best is None or top > self.best + 1e-3 * abs(self.best):
            self.successes, self.failures = self.successes + 1, 0
        else:
            self.successes, self.failures = 0, self.failures + 1
        self.best = top if self.best is None else max(top, self.best)
        if self.successes == 3:
            self.length, self.successes = min(2 * self.length, 1.6), 0
        if self.failures == self.tolerance:
            self.length, self.failures = self.length / 2, 0
        return self.length < least_length


@pytest.mark.parametrize(("d", "batch"), [(2, 1), (7, 3), (10, 5), (10, 4), (3, 8)])
def test_regions_have_the_lengths_of_the_papers_counters(d, batch):
    random = np.random.default_rng(d)
    counters = Counters(d, batch)
    zero, points = np.zeros((), np.int32), np.zeros((1, 5, d))
    regions = jax.jit(trust_regions.new_regions)(zero[None], zero, points, BOUNDS)
    best, lengths = -np.inf, []
    after_round = jax.jit(trust_regions.after_round)
    for step in range(150):
        success = random.uniform() < (0.8 if step < 40 else 0.1)
        reference = 0.0 if np.isinf(best) else best
        # no improvements, and improvements that are too small for a success
        values = reference + random.choice([-1.0, 5e-4 * abs(reference)], size=batch)
        values[0] = reference + 1.0 if success else values[0]
        regions = after_round(
            regions, np.array([best]), np.array([values.max()]), np.array([batch], np.int32)
        )
        restarts_now = counters.tell(list(values))
        best = max(best, values.max())
        assert float(regions.length[0]) == counters.length
        assert int(regions.successes[0]) == counters.successes
        lengths.append(counters.length)
        if restarts_now:
            break
    assert max(lengths) == 1.6 and min(lengths) < 0.1  # the side grew and shrank


def test_runs_have_the_regions_of_the_papers_counters():
    """In every round the side, the restarts and the number of initial points left are those of the
    paper's counters. Proposals lie in the box around the best point since the restart. The sides of
    the box are proportional to the lengthscales."""
    problem = boxes.branin()
    turbo = SMALL.replace(initial=6, least_length=0.3)
    state = turbo.init(problem.domain, KEY, horizon=60)
    ask, tell, to_unit = jax.jit(turbo.ask), jax.jit(turbo.tell), jax.jit(history.to_unit)
    counters, x, y, n_initial_left, restarts = Counters(2, 3), [], [], 6, 0
    while int(state.history.count) < 60:
        query = ask(state, jax.random.fold_in(KEY, len(x)))
        count = int(query.size)
        points = np.asarray(to_unit(state.box, query.x))[:count]
        values = np.asarray(VALUES(query.x))
        if n_initial_left:
            # the first design is one query, and later designs are batches of 3
            assert count == min(n_initial_left, 6 if restarts == 0 else 3)
        else:
            scales = np.asarray(state.regions.model.numbers.lengthscale[0])
            half_sides = counters.length / 2 * scales / np.sqrt(scales.prod())
            assert (np.abs(points - x[np.argmax(y)]) <= half_sides + 1e-12).all()
        state, info = tell(state, query, values, KEY)
        x, y = [*x, *points], [*y, *values[:count]]
        if n_initial_left:
            n_initial_left -= count
            counters.best = max(y)
        elif counters.tell(y[-count:], least_length=0.3):
            counters, x, y, n_initial_left, restarts = Counters(2, 3), [], [], 6, restarts + 1
        assert float(info.length[0]) == counters.length
        assert int(state.regions.design[0]) == n_initial_left
    assert restarts > 1


def test_several_regions_share_the_initial_points_and_the_evaluations():
    problem = boxes.branin()
    turbo = SMALL.replace(regions=2, initial=6)
    state = turbo.init(problem.domain, KEY, horizon=30)
    ask, tell = jax.jit(turbo.ask), jax.jit(turbo.tell)
    query = ask(state, KEY)
    np.testing.assert_array_equal(query.region, [0, 1, 0, 1, 0, 1])
    for t in range(6):
        query = ask(state, jax.random.fold_in(KEY, t))
        regions, points = (np.asarray(a)[np.asarray(query.mask)] for a in (query.region, query.x))
        assert len(np.unique(points, axis=0)) == len(points)
        state, _ = tell(state, query, VALUES(query.x), KEY)
        owners = np.asarray(state.owner)[: int(state.history.count)]
        np.testing.assert_array_equal(owners[-len(regions) :], regions)


@pytest.mark.slow
def test_ackley_in_ten_dimensions_is_maximised():
    """At least 18 of 20 seeds come within 0.1 of the maximum after 400 single evaluations on
    [-5,10]^10. The function and the GP have no noise: with TuRBO's bounds (5e-4 to 0.2 of the
    variance) the likeliest GP explains the ripples as noise. Regions may shrink to 2^-9 of the box;
    at 2^-7, the limit of the paper, the best point is 0.1 below the maximum."""
    problem = boxes.ackley(10)
    noiseless = Turbo(initial=20, least_length=2.0**-9, bounds=Bounds(noise=(1e-6, 1e-5)))
    run = loops.run(noiseless, problem, jax.random.split(KEY, 20), 400)
    assert int((problem.maximum - run.trace.best[:, -1] < 0.1).sum()) >= 18

"""Fuzzes boxes: Gaussian processes, acquisitions, GO-UCB's ball, histories and spaces."""

import jax
import jax.numpy as jnp
import numpy as np
from compiled import default_flags_jit
from oracles import log_excess
from scipy.special import log_ndtr
from truth import EPS, LD, cholesky, gram, perturbed, solve

from jsketch import Box, kernels
from jsketch.box import Category, Integer, Real, Space, acquisition, history, regression
from jsketch.box.go_ucb.ball import ellipsoid, estimate
from jsketch.types import BoxQuery

N_SLOTS, N_POINTS, DIMENSION = 24, 10, 3
KERNELS = {
    "matern 5/2": (kernels.Matern(nu=2.5), ("matern", 2.5)),
    "gaussian": (kernels.Gaussian(), ("gaussian", 0.0)),
}
ADD = default_flags_jit(lambda past, x, mask, y: history.add(past, BoxQuery(x, mask), y))


@default_flags_jit
def POSTERIOR(kernel, numbers, u, y, mask, new_u):
    """(mean, variance) and covariance at `new_u`, and (marginal likelihood, its gradient)."""
    data = regression.standardized(u, y, mask)
    posterior = regression.condition(kernel, numbers, data)
    covariance = regression.joint_posterior(posterior, new_u)[1]
    likelihood = jax.value_and_grad(regression.log_marginal_likelihood, argnums=1)
    return regression.predict(posterior, new_u), covariance, likelihood(kernel, numbers, data)


@default_flags_jit
def IMPROVEMENT(*arguments):
    expected = acquisition.log_expected_improvement(*arguments)
    return expected, acquisition.log_probability_of_improvement(*arguments)


@default_flags_jit
def BALL(rows, lam, targets, w0, v):
    s = ellipsoid(rows, lam)
    solution, image = s.solve(v)
    norms = s.squared_norm(v), s.squared_norm(solution), s.squared_norm(solution, image)
    return solution, *norms, s.logdet, estimate(s, rows, targets, w0)


def check(seed, report, long=False):
    """Runs all checks with the random numbers of one seed."""
    random = np.random.default_rng([seed, 4])
    report.problem = f"boxes, seed {seed}"
    gaussian_process(random, report, "gaussian" if long and seed % 2 else "matern 5/2", long)
    improvement(random, report)
    ball(random, report)
    histories(random, report)
    spaces(random, report)


def gaussian_process(random, report, name, hard):
    """Checks a posterior, the likelihood and its gradient. The scaled values have variance 1, and
    the noise variance is at least 1e-3, or at least 1e-6 if `hard`."""
    kernel, (family, parameter) = KERNELS[name]
    n_used = int(random.integers(1, N_SLOTS + 1))
    mask = np.arange(N_SLOTS) < n_used
    if random.uniform() < 0.3:
        mask = random.permutation(mask)
    u = random.uniform(size=(N_SLOTS, DIMENSION))
    new_u = random.uniform(size=(N_POINTS, DIMENSION))
    if random.uniform() < 0.3:
        u = u[random.integers(0, 8, N_SLOTS)]
    y = 10 ** random.uniform(-3, 3) * (
        np.sin(5 * u.sum(1)) + 0.1 * random.standard_normal(N_SLOTS)
    ) + random.choice([0.0, 7.0])
    numbers = regression.Hyperparameters(
        10 ** random.uniform(-1.5, 0.3, DIMENSION),
        10 ** random.uniform(-1.3, 1.3),
        10 ** random.uniform(-6 if hard else -3, -0.7),
    )
    data = u, np.where(mask, y, 9e9), mask
    arrays = jax.tree.map(jnp.asarray, numbers)
    (mean, variance), covariance, (value, slope) = POSTERIOR(kernel, arrays, *data, new_u)
    report.problem += f", {name}, {n_used} points, {numbers}"
    observed = np.asarray(y, LD)[mask]
    spread = np.sqrt(np.mean((observed - observed.mean()) ** 2))
    # nothing is compared if values differ only by rounding: the library does not scale these
    if n_used > 1 and spread < 1e-9 * np.abs(observed).max():
        return
    centred = (observed - observed.mean()) / (spread if spread > 0 else 1)

    def parts(log_numbers):
        return [(family, np.exp(log_numbers[-2]), np.exp(log_numbers[:-2]), parameter)]

    def factor(log_numbers, errors=None):
        covariance = gram(parts(log_numbers), u[mask], u[mask])
        if errors is not None:
            covariance = perturbed(covariance, errors)
        return cholesky(covariance + np.exp(log_numbers[-1]) * np.eye(n_used, dtype=LD))

    def likelihood(log_numbers, errors=None):
        lower = factor(log_numbers, errors)
        quadratic = (solve(lower, centred) ** 2).sum() / 2
        return -quadratic - np.log(np.diag(lower)).sum() - n_used * np.log(2 * LD(np.pi)) / 2

    logs = np.log(np.append(numbers.lengthscale, [numbers.outputscale, numbers.noise]).astype(LD))
    cross, prior = gram(parts(logs), u[mask], new_u), gram(parts(logs), new_u, new_u)
    truths = []
    for errors in (None, np.random.default_rng(0), np.random.default_rng(1)):
        half = solve(factor(logs, errors), cross)
        weights = solve(factor(logs, errors), centred)
        truths.append((half.T @ weights, prior - half.T @ half))
    floor = 1e-14 * float(numbers.outputscale)
    report.near("mean of a box", mean, [t[0] for t in truths])
    variances = [np.maximum(np.diag(t[1]), 0) for t in truths]
    report.near("variance of a box", variance, variances, floor)
    report.near("joint covariance", covariance, [t[1] for t in truths], floor)
    values = [likelihood(logs), *(likelihood(logs, np.random.default_rng(seed)) for seed in (1, 2))]
    report.near("marginal likelihood", value, values, 1e-9)

    steps = LD(1e-5) * np.eye(len(logs), dtype=LD)

    def slopes(seed):
        """Central differences, which have the same perturbations on both sides."""

        def value_at(point):
            return likelihood(point, None if seed is None else np.random.default_rng(seed))

        return np.array([value_at(logs + s) - value_at(logs - s) for s in steps]) / 2e-5

    gradient = np.append(np.asarray(slope.lengthscale), [slope.outputscale, slope.noise])
    truths = [slopes(seed) for seed in (None, 1, 2)]
    # A derivative of |x_i - x_j|^2 is twice a sum of four rounded products (`kernels.stationary`).
    # For each coordinate its error is at most 4 eps (x_i^2 + x_j^2), even if the two points are
    # equal. It is multiplied by |w w^T - C^-1| / 2, with the covariance C and the weights w =
    # C^-1 y, and by the slope of the kernel, at most 5/6 (Matern) or 1/2 (Gaussian). The errors of
    # pairs are independent.
    inverse = solve(factor(logs), np.eye(n_used, dtype=LD))
    weights = inverse.T @ (inverse @ centred)
    entries = np.abs(np.outer(weights, weights) - inverse.T @ inverse) / 2
    squares = np.square(u[mask] / numbers.lengthscale)
    entries = entries * (numbers.outputscale * (5 / 6 if family == "matern" else 1 / 2))
    products = entries[:, :, None] * (squares[:, None] + squares)
    rounding = 4 * EPS * np.sqrt(np.square(products).sum((0, 1)))
    floor = 1e-6 * n_used + np.append(rounding, np.zeros(2)).astype(float)
    report.near("gradient over logarithms", gradient * np.exp(logs), truths, floor)


def improvement(random, report):
    """Checks log E (f - threshold)_+ against quadrature and log P(f > threshold) against SciPy, in
    both tails."""
    mean, threshold = random.uniform(-30, 10, N_POINTS), 0.0
    variance = 10 ** random.uniform(-3, 1, N_POINTS)
    results = IMPROVEMENT(mean, variance, threshold)
    deviation = np.sqrt(variance)
    z = (mean - threshold) / deviation
    expected = np.array([log_excess(value) for value in z]) + np.log(deviation)
    truths = dict(expected=expected, probable=log_ndtr(z))
    for (name, truth), actual in zip(truths.items(), map(np.asarray, results), strict=True):
        wrong = np.abs(actual - truth) > 1e-9 * (1 + np.abs(truth))
        detail = f"at z = {z[wrong]}: {actual[wrong]}, {truth[wrong]}"
        report.true(f"{name} improvement", not wrong.any(), detail)


def ball(random, report):
    """Checks solutions, norms and the log-determinant of Sigma = lam I + G^T G, and the estimate of
    the parameters, against dense linear algebra."""
    dimension, n_rows, n_used = 12, 8, int(random.integers(0, 9))
    g = 10 ** random.uniform(-1, 1) * random.standard_normal((n_rows, dimension))
    if random.uniform() < 0.3:
        g[1] = g[0]
    g[n_used:] = 0
    lam, targets = float(10 ** random.uniform(-3, 1)), random.standard_normal(n_rows)
    targets[n_used:] = 0
    w0, v = random.standard_normal((2, dimension))
    ball = map(np.asarray, BALL(g, lam, targets, w0, v))
    solution, norm, norm_of_solution, norm_with_image, logdet, w = ball

    def dense(g):
        g = np.asarray(g, LD)
        lower = cholesky(lam * np.eye(dimension, dtype=LD) + g.T @ g)

        def inverse(b):
            return solve(lower.T[::-1, ::-1], solve(lower, b)[::-1])[::-1]

        logdet = 2 * np.log(np.diag(lower)).sum() - dimension * np.log(LD(lam))
        return logdet, w0 + inverse(g.T @ (targets - g @ w0)), lower, inverse(np.asarray(v, LD))

    errors = [0, *(1e-15 * random.uniform(-1, 1, g.shape) for _ in range(2))]
    truths = [dense(g * (1 + error)) for error in errors]
    report.near("logdet of Sigma", logdet, [t[0] for t in truths], 1e-12)
    report.near("estimate", w, [t[1] for t in truths])
    report.near("solution", solution, [t[3] for t in truths])
    inverse_squares = [np.sum(solve(t[2], v) ** 2) for t in truths]
    report.near("squared norm of the solution", norm_of_solution, inverse_squares)
    report.near("squared norm of the solution and its image", norm_with_image, inverse_squares)
    report.near("squared norm", norm, [np.sum((t[2].T @ v) ** 2) for t in truths])


def histories(random, report):
    """Checks that a history and a list have the same evaluations after queries with masks and
    failures."""
    past = history.History(np.zeros((6, 2)), np.zeros(6), np.zeros(6, bool), np.zeros((), np.int32))
    evaluations = []
    for _ in range(4):
        x, mask = random.uniform(size=(3, 2)), np.arange(3) < random.integers(1, 4)
        y = random.choice([1.0, -2.0, np.nan, np.inf, -np.inf], 3)
        mask = mask & (np.arange(3) < 6 - len(evaluations))
        past = ADD(past, x, mask, y)
        evaluations += [(a, b) for a, b, m in zip(x, y, mask, strict=True) if m]
    count, values = len(evaluations), np.array([b for _, b in evaluations])
    report.same("evaluations", past.count, count)
    report.same("points", np.asarray(past.x)[:count], np.array([a for a, _ in evaluations]))
    report.same("which succeeded", np.asarray(past.ok)[:count], np.isfinite(values))
    report.same("values", np.asarray(past.y)[:count], np.where(np.isfinite(values), values, 0))


def spaces(random, report):
    """Checks that points decode to values in their ranges, and encode to a point close to the
    original one; and that integers and categories survive encoding and decoding."""
    low = float(random.uniform(-10, 10))
    high = low + float(10 ** random.uniform(-6, 6))
    smallest, count = int(random.integers(-1000, 1000)), int(random.integers(2, 40))
    space = Space(
        Real("real", low, high, open=bool(random.integers(2))),
        Real("log", 10 ** -float(random.uniform(0, 8)), float(random.uniform(2, 1e6)), log=True),
        Integer("integer", smallest, smallest + count - 1),
        Category("category", ("a", None, True, 2.5)[: random.integers(1, 5)]),
    )
    box = space.box
    report.true("the box", isinstance(box, Box) and np.asarray(box.upper).tolist() == [10.0] * 4)
    for x in (random.uniform(0, 10, 4), np.zeros(4), np.full(4, 10.0)):
        decoded = space.decode(x)
        encoded = space.encode(decoded)
        real, integer = decoded["real"], decoded["integer"]
        is_inside = low <= real <= high and smallest <= integer < smallest + count
        report.true("inside", is_inside, str(decoded))
        is_near = np.abs(encoded[:2] - x[:2]).max() < 1e-4 + 1e-8 / (high - low)
        report.true("encoding inverts decoding", is_near, f"{x} {encoded}")
        expected = smallest + min(int(x[2] / 10 * count), count - 1)
        report.same("integers have intervals of equal length", integer, expected)
        # the last two values, an integer and a category
        again, values = (list(d.values())[2:] for d in (space.decode(encoded), decoded))
        report.same("integers and categories survive encoding and decoding", again, values)

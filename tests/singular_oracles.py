"""Forecasters on a given dictionary in long double, features by diagonal pivoting."""

import numpy as np

LONG = np.longdouble


def walk(seed, n=120):
    """A random walk [n,1] and labels [n]."""
    random = np.random.default_rng(seed)
    x = np.cumsum(0.1 * random.standard_normal((n, 1)), 0)
    return x, np.sin(2 * x[:, 0])


def gaussian(x, y):
    return np.exp(-np.square(x.astype(LONG)[:, None] - y.astype(LONG)).sum(-1) / 2)


def coordinates(x, points):
    """z(x) [n,r] of a Gaussian kernel on the span of `points`, in long double."""
    residual = gaussian(points, points)
    rows = gaussian(x, points)
    z = np.zeros((len(x), 0), LONG)
    cut = 8 * len(points) * np.finfo(LONG).eps
    while (best := int(np.argmax(np.diag(residual)))) >= 0 and residual[best, best] > cut:
        root = np.sqrt(residual[best, best])
        z = np.column_stack([z, rows[:, best] / root])
        column = residual[:, best] / root
        rows = rows - z[:, -1:] * column
        residual = residual - np.outer(column, column)
    return z


def solve(matrix, vector):
    """matrix^-1 vector for a positive definite matrix, in long double (NumPy has no solver for
    it)."""
    lower = matrix.copy()
    for j in range(len(matrix)):
        lower[j:, j] = lower[j:, j] - lower[j:, :j] @ lower[j, :j]
        lower[j:, j] /= np.sqrt(lower[j, j])
    solution = vector.copy()
    for i in range(len(matrix)):
        solution[i] = (solution[i] - lower[i, :i] @ solution[:i]) / lower[i, i]
    for i in range(len(matrix))[::-1]:
        solution[i] = (solution[i] - lower[i + 1 :, i] @ solution[i + 1 :]) / lower[i, i]
    return solution


def forecasts(name, x, y, joined, lam):
    """Predictions [n] of "awv" (PKAWV Alg. 2) or "pros" (Pros-N-KONS with C = 1), the points in
    `joined` arriving there."""
    predictions = np.zeros(len(x), LONG)
    for t in range(len(x)):
        if t in joined:
            z = coordinates(x, x[[i for i in joined if i <= t]])
            weights, inverse = (
                np.zeros(z.shape[1], LONG),
                np.eye(z.shape[1], dtype=LONG) / LONG(lam),
            )
        if not joined or t < joined[0]:
            continue
        current = z[t]
        if name == "awv":
            gram = LONG(lam) * np.eye(len(current), dtype=LONG) + z[: t + 1].T @ z[: t + 1]
            predictions[t] = current @ solve(gram, z[:t].T @ y[:t].astype(LONG))
            continue
        output, direction = current @ weights, inverse @ current
        predictions[t] = min(max(output, -1), 1)
        closest = weights - (output - predictions[t]) * direction / (current @ direction)
        slope = 2 * (predictions[t] - LONG(y[t]))
        weight = slope**2 / 16
        inverse = inverse - np.outer(direction, direction) * weight / (
            1 + weight * (current @ direction)
        )
        weights = closest - inverse @ (slope * current)
    return predictions

"""Kernels and linear algebra in long double (19 digits where the hardware has them), independent of
the library. Factorizations are plain loops over columns, for problems with tens of points."""

import numpy as np

LD = np.longdouble
EPS = float(np.finfo(float).eps)


def squares(x, y, scale):
    """|x_i - y_j|^2 of points divided by their lengthscales, [n,m]."""
    x, y = np.asarray(x, LD) / np.asarray(scale, LD), np.asarray(y, LD) / np.asarray(scale, LD)
    total = np.zeros((len(x), len(y)), LD)
    for column in range(x.shape[1]):
        total += np.subtract.outer(x[:, column], y[:, column]) ** 2
    return total


def matern(r, nu):
    """The Matern kernel of smoothness nu at r = sqrt(2 nu) times the distance."""
    polynomial = {0.5: 1, 1.5: 1 + r, 2.5: 1 + r + r**2 / 3}[nu]
    return polynomial * np.exp(-r)


def gram(parts, x, y):
    """The kernel's values [n,m]. `parts` lists (name, weight, lengthscale, parameter) of the
    kernel's summands; the parameter is nu, alpha or the constant of the polynomial."""
    total = np.zeros((len(x), len(y)), LD)
    for name, weight, scale, parameter in parts:
        if name == "gaussian":
            values = np.exp(squares(x, y, scale) / -2)
        elif name == "matern":
            values = matern(np.sqrt(2 * LD(parameter) * squares(x, y, scale)), parameter)
        elif name == "rational":
            values = (1 + squares(x, y, scale) / (2 * LD(parameter))) ** -LD(parameter)
        else:  # a polynomial of degree 2
            x, y = np.asarray(x, LD), np.asarray(y, LD)
            values = (x / LD(scale) @ (y / LD(scale)).T + LD(parameter)) ** 2
        total += LD(weight) * values
    return total


def cholesky(matrix):
    """L with L L^T = the positive definite matrix."""
    size, lower = len(matrix), np.zeros(matrix.shape, LD)
    for j in range(size):
        column = matrix[j:, j] - lower[j:, :j] @ lower[j, :j]
        lower[j:, j] = column / np.sqrt(column[0])
    return lower


def solve(lower, right):
    """L^-1 right."""
    solution = np.array(right, LD)
    for i in range(len(lower)):
        solution[i] = (solution[i] - lower[i, :i] @ solution[:i]) / lower[i, i]
    return solution


def pivoted(matrix, chosen, cut):
    """(features Z [n,r], where Z Z^T is the Nystrom approximation of the matrix from the chosen
    rows; the pivots [r]). Pivots are taken in decreasing order until none exceeds the cut."""
    remaining, coordinates, pivots = set(map(int, chosen)), [], []
    diagonal = np.array(np.diag(matrix), LD)
    while remaining:
        best = max(sorted(remaining), key=lambda i: diagonal[i])
        if diagonal[best] <= cut:
            break
        previous = np.array(coordinates, LD).reshape(-1, len(matrix))
        column = (matrix[:, best] - previous[:, best] @ previous) / np.sqrt(diagonal[best])
        pivots.append(diagonal[best])
        coordinates.append(column)
        diagonal = diagonal - column**2
        remaining.remove(best)
    return np.array(coordinates, LD).reshape(-1, len(matrix)).T, np.array(pivots, float)


def perturbed(matrix, random, ulps=16.0):
    """The matrix m plus random symmetric errors of at most `ulps` EPS sqrt(m_ii m_jj)."""
    noise = random.uniform(-1, 1, matrix.shape)
    scale = np.sqrt(np.abs(np.diag(matrix)))
    return matrix + ulps * EPS * np.outer(scale, scale) * ((noise + noise.T) / 2)

"""Predictions of forecasters computed from their definitions in long double, without recursive
updates. `joined` lists, in order, the examples that join the dictionary."""

import numpy as np
from truth import LD, cholesky, pivoted, solve


def labelled_before(ys, t):
    """Indices of the examples before t that have a label."""
    return np.flatnonzero(np.isfinite(ys[:t]))


def regression(gram, ys, t, lam, awv):
    """The prediction for example t from the labelled examples before it (closed form (9) of
    PKAWV). For AWV, example t is in the Gram matrix too, with label zero."""
    past = labelled_before(ys, t)
    rows = np.append(past, t) if awv else past
    if not len(rows):
        return LD(0)
    lower = cholesky(gram[np.ix_(rows, rows)] + LD(lam) * np.eye(len(rows), dtype=LD))
    labels = np.append(ys[past], 0) if awv else ys[past]
    return solve(lower, gram[rows, t]) @ solve(lower, labels)


def ridge(gram, ys, lam, awv):
    """Predictions for a stream by Kernel-AWV if `awv`, and else by kernel ridge regression."""
    return np.array([regression(gram, ys, t, lam, awv) for t in range(len(ys))])


def spans(gram, joined, min_residual=0.0, cut=1e-18):
    """Returns (features, residuals). features[m] [n,r] are the coordinates of all examples in an
    orthonormal basis of the span of the first m points of `joined`. The residual of a point, when
    it joins, is divided by k(x,x). A point whose residual is at most `min_residual` is left out, as
    is a pivot of at most `cut` times the largest k(x,x)."""
    features, dictionary, residuals = [np.zeros((len(gram), 0), LD)], [], []
    for j in joined:
        residuals.append(float((gram[j, j] - features[-1][j] @ features[-1][j]) / gram[j, j]))
        dictionary += [j] * (residuals[-1] > min_residual)
        features.append(pivoted(gram, dictionary, cut * np.max(np.diag(gram)))[0])
    return features, np.array(residuals)


def n_joined(joined, count):
    """For each example t < `count`, the number of points of `joined` up to and including t."""
    return np.searchsorted(joined, np.arange(count), side="right")


def ridge_on_dictionary(ys, joined, features, lam, awv):
    """`ridge` with each example projected on the span of the points that have joined when it is
    predicted; `features` are from `spans`."""
    projected = [z @ z.T for z in features]
    joins = n_joined(joined, len(ys))
    return np.array([regression(projected[m], ys, t, lam, awv) for t, m in enumerate(joins)])


def leverages(ys, joined, features, lam):
    """z^T A^-1 z of each example, [n], with its features z in the span of the points that have
    joined, and A = lam I + the sum of z z^T over the labelled examples before it."""
    values = []
    for t, m in enumerate(n_joined(joined, len(ys))):
        z, past = features[m], labelled_before(ys, t)
        lower = cholesky(z[past] @ z[past].T + LD(lam) * np.eye(len(past), dtype=LD))
        half = solve(lower, z[past] @ z[t])
        values.append(float((z[t] @ z[t] - half @ half) / LD(lam)))
    return np.array(values)


def forgetting_ridge(ys, joined, features, lam, awv):
    """Ridge regression with each example projected on the span of the points that have joined when
    it arrives. Two examples have the inner product of their projections on the smaller span."""
    projected = np.zeros((len(ys), len(ys)), LD)
    for t, m in enumerate(n_joined(joined, len(ys))):
        projected[t, t:] = projected[t:, t] = features[m][t:] @ features[m][t]
    return ridge(projected, ys, lam, awv)


def kors_probabilities(gram, joined, mu, beta, eps, authors_code):
    """min(1, beta tau) of every example, where tau = (1 + eps) r / (mu + r), and r is the residual
    of a regression on the points that joined before it. A point that joined with probability p has
    noise mu p, or with `authors_code` mu p^2."""
    probabilities, joined_probabilities = [], []
    for t in range(len(gram)):
        dictionary = [j for j in joined if j < t]
        noise = np.array(joined_probabilities, LD) ** (2 if authors_code else 1) * LD(mu)
        lower = cholesky(gram[np.ix_(dictionary, dictionary)] + np.diag(noise))
        half = solve(lower, gram[dictionary, t])
        residual = max(gram[t, t] - half @ half, LD(0))
        probabilities.append(min(LD(1), LD(beta) * (1 + LD(eps)) * residual / (LD(mu) + residual)))
        if t in joined:
            joined_probabilities.append(probabilities[-1])
    return np.array(probabilities)


def pros_n_kons(ys, joined, features, alpha, bound):
    """Newton steps in the span of the points that have joined, restarted whenever a point joins."""
    predictions, curvature = np.zeros(len(ys), LD), 1 / (8 * LD(bound) ** 2)
    for t, m in enumerate(n_joined(joined, len(ys))):
        z = features[m]
        if t == 0 or t in joined:
            inverse, u = np.eye(z.shape[1], dtype=LD) / LD(alpha), np.zeros(z.shape[1], LD)
        predictions[t], u, inverse = _newton_step(z[t], ys[t], u, inverse, bound, curvature)
    return predictions


def sketched_kons(gram, ys, enters, alpha, bound):
    """Newton steps in explicit features. Example t changes the matrix only if enters[t]."""
    z = pivoted(gram, np.arange(len(gram)), 1e-18 * np.max(np.diag(gram)))[0]
    predictions, u = np.zeros(len(ys), LD), np.zeros(z.shape[1], LD)
    inverse = np.eye(z.shape[1], dtype=LD) / LD(alpha)
    for t in range(len(ys)):
        curvature = (1 / (8 * LD(bound) ** 2)) * bool(enters[t])
        predictions[t], u, inverse = _newton_step(z[t], ys[t], u, inverse, bound, curvature)
    return predictions


def _newton_step(z, y, u, inverse, bound, curvature):
    """(prediction, new u, new A^-1) for one example: u is first projected, in the norm of A, on the
    functions within the bound at z."""
    output = z @ u
    prediction = min(max(output, -LD(bound)), LD(bound))
    if not np.isfinite(y):
        return prediction, u, inverse
    direction = inverse @ z
    leverage = z @ direction
    w = u - (output - prediction) / leverage * direction if output != prediction else u
    slope = 2 * (prediction - LD(y))
    weight = LD(curvature) / 2 * slope**2
    inverse = inverse - np.outer(direction, direction) * (weight / (1 + weight * leverage))
    return prediction, w - slope * (inverse @ z), inverse


def gradient(features, ys, step):
    """Gradient steps of the squared loss in the RKHS. The step for example t is along the
    projection of k(x_t, .) on a span, in which all examples have coordinates features[t] [n,r]."""
    # `function` has the values of the current function at all examples
    predictions, function = np.zeros(len(ys), LD), np.zeros(len(ys), LD)
    for t, z in enumerate(features):
        predictions[t] = function[t]
        if np.isfinite(ys[t]):
            function = function - 2 * LD(step) * (function[t] - ys[t]) * (z @ z[t])
    return predictions


def mixture(predictions, ys, bound, rule):
    """Predictions [n] of a mixture of G experts, whose predictions are [G,n], by the average with
    weights exp(-eta losses) or by Vovk's rule."""
    rate = LD({"average": 1 / 8, "vovk": 1 / 2}[rule]) / LD(bound) ** 2
    losses, predictions_of_mixture = np.zeros(len(predictions), LD), np.zeros(len(ys), LD)
    clipped = np.clip(predictions, -bound, bound)
    for t in range(len(ys)):
        weights = np.exp(-rate * (losses - losses.min()))
        weights /= weights.sum()
        if rule == "average":
            predictions_of_mixture[t] = weights @ clipped[:, t]
        else:
            likelihoods = np.exp(-rate * np.subtract.outer((-bound, bound), clipped[:, t]) ** 2)
            # the generalized losses of the labels -bound and bound
            loss_if_lowest, loss_if_highest = -np.log(likelihoods @ weights) / rate
            predictions_of_mixture[t] = (loss_if_lowest - loss_if_highest) / (4 * bound)
        if np.isfinite(ys[t]):
            losses += (clipped[:, t] - np.clip(ys[t], -bound, bound)) ** 2
    return predictions_of_mixture

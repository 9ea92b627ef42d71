"""Blocks have the accuracy of single steps when the regularization is tiny (THEORY 9.5)."""

import jax
import numpy as np

from jsketch.online import ridge

BLOCK, LAM = 16, 1e-7
EPS = np.finfo(float).eps


def streams_of_cosines():
    """Twelve nearly dependent cosines of two inputs, z [48,12], and labels of size 1."""
    for seed in range(8):
        random = np.random.default_rng(seed)
        z = np.cos(random.standard_normal((48, 2)) @ random.standard_normal((2, 12)))
        yield z, np.sign(random.standard_normal(48))


def single_steps(z, ys):
    """The predictions of AWV in long double."""
    z, ys = z.astype(np.longdouble), ys.astype(np.longdouble)
    inverse, weights, predictions = np.eye(z.shape[1], dtype=z.dtype) / LAM, np.zeros_like(z[0]), []
    for x, y in zip(z, ys, strict=True):
        direction, g = inverse @ x, x @ weights
        pivot = 1 + x @ direction
        predictions.append(g / pivot)
        inverse = inverse - np.outer(direction, direction) / pivot
        weights = weights + direction * (y - g) / pivot
    return np.array(predictions)


def test_the_rounding_error_of_blocks_is_bounded(accelerator):
    """Predictions for labels of size 1 have errors of at most B^1.5 eps |z|^2 / (2 lam). The errors
    would be 900 times as large if rounding separated the two triangles of S, or if the directions
    of the steps were products with L^-1 alone."""
    # a new function for each machine, because JAX caches programs by function
    learn = jax.jit(lambda *block: ridge.learn_block(*block))
    all_labelled = np.ones(BLOCK, bool)
    for z, ys in streams_of_cosines():
        inverse, weights, predictions = np.eye(12) / LAM, np.zeros(12), []
        for start in range(0, len(ys), BLOCK):
            block = z[start : start + BLOCK], ys[start : start + BLOCK], all_labelled
            inverse, weights, g, h = learn(inverse, weights, *block)
            predictions.append(ridge.awv_prediction(g, h, True))
        error = np.abs(np.concatenate(predictions) - single_steps(z, ys)).max()
        assert error < BLOCK**1.5 / 2 * EPS * np.square(z).sum(1).max() / LAM

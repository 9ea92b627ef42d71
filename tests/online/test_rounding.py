"""The rounding error of AWV in blocks when the regularization is tiny (THEORY 9.5)."""

import jax
import numpy as np

from jsketch.online import ridge

BLOCK, LAM = 16, 1e-7
EPS = np.finfo(float).eps


def streams_of_cosines():
    """Eight streams: nearly dependent cosines z [48,12] of two inputs, and labels -1 or 1 [48]."""
    for seed in range(8):
        random = np.random.default_rng(seed)
        z = np.cos(random.standard_normal((48, 2)) @ random.standard_normal((2, 12)))
        yield z, np.sign(random.standard_normal(48))


def single_steps(z, ys):
    """The predictions of AWV, which learns one example at a time, in long double."""
    z, ys = z.astype(np.longdouble), ys.astype(np.longdouble)
    inverse, weights, predictions = np.eye(z.shape[1], dtype=z.dtype) / LAM, np.zeros_like(z[0]), []
    for x, y in zip(z, ys, strict=True):
        direction, output = inverse @ x, x @ weights
        pivot = 1 + x @ direction
        predictions.append(output / pivot)
        inverse = inverse - np.outer(direction, direction) / pivot
        weights = weights + direction * (y - output) / pivot
    return np.array(predictions)


def test_the_rounding_error_of_blocks_is_bounded(accelerator):
    """For labels -1 and 1 and blocks of B examples, predictions have errors of at most B^1.5 eps
    |z|^2 / (2 lam). `learn_block` factorizes S = I + Z A^-1 Z^T as L L^T. The errors would be 900
    times as large if rounding made S asymmetric, or if the directions of the steps were products
    with L^-1 alone."""
    # a new function for each parameter, because JAX would reuse the program of the CPU
    learn = jax.jit(lambda *arguments: ridge.learn_block(*arguments))
    has_label = np.ones(BLOCK, bool)
    for z, ys in streams_of_cosines():
        inverse, weights, predictions = np.eye(12) / LAM, np.zeros(12), []
        for start in range(0, len(ys), BLOCK):
            block = z[start : start + BLOCK], ys[start : start + BLOCK]
            inverse, weights, outputs, leverages = learn(inverse, weights, *block, has_label)
            predictions.append(ridge.awv_prediction(outputs, leverages, penalize_current=True))
        error = np.abs(np.concatenate(predictions) - single_steps(z, ys)).max()
        assert error < BLOCK**1.5 / 2 * EPS * np.square(z).sum(1).max() / LAM

"""A lower bound on the log marginal likelihood of a kernel, from a sketch, in O(n m^2 + m^3).

Titsias. Variational learning of inducing variables in sparse Gaussian processes. AISTATS 2009. The
bound holds for any inducing points, and with equality if all points are inducing points. Its trace
term lowers the bound of a sketch that represents little of the kernel. The scale that maximises the
bound has a closed form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jsketch.linalg import matmul
from jsketch.sketch import nystrom


class EvidenceBound(NamedTuple):
    """The bound for R noise-to-signal ratios."""

    log_likelihood: Array  # [R], at most max over s of log N(y; 0, s^2 (K + ratio I))
    scale: Array  # [R], the maximising s, in units of y


def evidence_bound(
    kernel: Any,
    x: Array,
    y: Array,
    points: Array,
    ratios: Array,
    *,
    observed: Array | None = None,
    included: Array | None = None,
) -> EvidenceBound:
    """The bound for labels y [n] at x [n,d], inducing points [m,d], and noise variances of ratios
    [R] times s^2.

    Labels whose `observed` [n] bool is false, and points whose `included` [m] bool is false, are
    padding, which changes at most the last bits of sums.
    """
    observed = jnp.ones(len(y), bool) if observed is None else observed
    included = jnp.ones(len(points), bool) if included is None else included
    y = jnp.where(observed, y, 0)
    z = nystrom.features(nystrom.build(kernel, points, included), kernel, x)
    z = jnp.where(observed[:, None], z, 0)
    count = observed.sum().astype(y.dtype)
    spectrum, vectors = jnp.linalg.eigh(matmul(z.T, z))
    spectrum = jnp.maximum(spectrum, 0)
    # squared coordinates of y in the basis of the sketch, times the spectrum
    squares = jnp.square(matmul(matmul(y, z), vectors))
    # trace of K - Q
    residual = jnp.maximum(jnp.where(observed, kernel.diag(x), 0).sum() - jnp.square(z).sum(), 0)
    shifted = spectrum[None, :] + ratios[:, None]
    # y^T (Q + ratio I)^-1 y
    quadratic = (jnp.square(y).sum() - (squares[None, :] / shifted).sum(1)) / ratios
    variance = jnp.maximum(quadratic, 0) / count
    logdet = count * jnp.log(ratios) + jnp.log(shifted / ratios[:, None]).sum(1)
    fit = count * (jnp.log(2 * jnp.pi * variance) + 1)
    return EvidenceBound(-0.5 * (fit + logdet + residual / ratios), jnp.sqrt(variance))

"""Confidence widths: how many posterior standard deviations an upper confidence bound adds to the mean.

A width is a function of the `Evidence` (what the data so far say) and of the `Confidence` (what the user assumed), and an
algorithm is given one. The `*_code` widths are those of the BBKB authors' experiments, the only ones with which the
papers' figures can be reproduced; they are NOT covered by the theorems (THEORY 4.6). `certified` holds
for any dictionary on the noise event alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import struct
from jax import Array

ALPHA = 3.0  # (1 + eps)/(1 - eps) at the accuracy eps = 1/2 of the papers
BIAS = 1 + 2**0.5  # 1 + 1/sqrt(1 - eps)


@struct.dataclass
class Evidence:
    """Scalars that widths read, in leverage units; all [], kept up to date by the algorithms."""

    count: Array  # t, observations so far
    information: Array  # sum_s log(1 + sigma~^2_fb(x_s)), each with the variance at the start of its batch
    information_sketched: Array  # sum_s log(1 + 3 sigma~^2_fb(x_s))
    variance_sum: Array  # sum_i n_i sigma~^2(x_i), the sketched effective dimension
    logdet: Array  # logdet(V/lam), and logdet(K/lam + I) for the exact posterior
    residual_sum: Array  # rho = sum_i n_i r(x_i) >= lambda_max(K - Z Z^T); 0 for the exact posterior
    prior_variance: Array  # kappa^2 = max_x k(x,x)


def nothing_observed(prior_variance: Array, dtype: Any) -> Evidence:
    """Before the first observation, in the dtype of the arms, for kappa^2 = `prior_variance` []."""
    zero = jnp.zeros((), dtype)
    return Evidence(
        count=zero,
        information=zero,
        information_sketched=zero,
        variance_sum=zero,
        logdet=zero,
        residual_sum=zero,
        prior_variance=prior_variance,
    )


def of_exact(count: Array, logdet: Array, prior_variance: Array) -> Evidence:
    """From an exact posterior after `count` observations: the information is the logdet, and nothing is left out."""
    zero = jnp.zeros_like(count)
    return Evidence(
        count=count,
        information=logdet,
        information_sketched=logdet,
        variance_sum=zero,
        logdet=logdet,
        residual_sum=zero,
        prior_variance=prior_variance,
    )


@struct.dataclass
class Confidence:
    """What the user assumes: |f| <= norm_bound in the RKHS, noise_std-subgaussian noise, failure probability delta."""

    regularization: Any  # a number or Array [], like the others
    noise_std: Any
    norm_bound: Any
    delta: Any
    ratio: Any = 1.0  # C, by which a variance may shrink within a batch; 1 for sequential algorithms


def assumptions(bandit: Any, ratio: Any = 1.0) -> Confidence:
    """What the user of a bandit assumed; `ratio` is the C of an algorithm whose variances shrink within a batch."""
    return Confidence(
        regularization=bandit.regularization,
        noise_std=bandit.noise_std,
        norm_bound=bandit.norm_bound,
        delta=bandit.delta,
        ratio=ratio,
    )


Width = Callable[[Evidence, Confidence], Array]


def _bias(c: Confidence) -> Array:
    return jnp.sqrt(c.regularization) * c.norm_bound


def _log_inverse_delta(c: Confidence) -> Array:
    return -jnp.log(c.delta)


def _root(x: Array) -> Array:
    return jnp.sqrt(jnp.maximum(x, 0))


def gp_ucb_code(e: Evidence, c: Confidence) -> Array:
    """sqrt(lam) F + xi sqrt(L + log 1/delta), L = logdet(K/lam + I): the style of the experiments."""
    return _bias(c) + c.noise_std * _root(e.logdet + _log_inverse_delta(c))


def gp_ucb_tight(e: Evidence, c: Confidence) -> Array:
    """sqrt(lam) F + xi sqrt(L + 2 log 1/delta): the self-normalized bound with its square root kept."""
    return _bias(c) + c.noise_std * _root(e.logdet + 2 * _log_inverse_delta(c))


def gp_ucb_paper(e: Evidence, c: Confidence) -> Array:
    """sqrt(lam) F + xi sqrt(2 (L + log 1/delta)) (BKB eq. 7)."""
    return _bias(c) + c.noise_std * _root(2 * (e.logdet + _log_inverse_delta(c)))


def bkb_code(e: Evidence, c: Confidence) -> Array:
    """sqrt(lam) F + xi sqrt(log(t) sum_i n_i sigma~^2(x_i) + log 1/delta): the authors' code."""
    return _bias(c) + c.noise_std * _root(
        jnp.log(jnp.maximum(e.count, 1)) * e.variance_sum + _log_inverse_delta(c)
    )


def bkb_paper(e: Evidence, c: Confidence) -> Array:
    """BKB Thm 4.1, with log(kappa^2 t) clamped at 0 where the printed formula turns negative (THEORY 4.2)."""
    log_t = jnp.maximum(jnp.log(jnp.maximum(e.prior_variance * e.count, 1)), 0)
    return 2 * c.noise_std * _root(ALPHA * log_t * e.variance_sum + _log_inverse_delta(c)) + BIAS * _bias(c)


def bkb_corrected(e: Evidence, c: Confidence) -> Array:
    """BKB Thm 4.1 with the factor its proof needs, 1 + log(1 + kappa^2 t/lam), for log(kappa^2 t) (THEORY 4.2)."""
    log_t = 1 + jnp.log1p(e.prior_variance * e.count / c.regularization)
    return 2 * c.noise_std * _root(ALPHA * log_t * e.variance_sum + _log_inverse_delta(c)) + BIAS * _bias(c)


def bbkb_code(e: Evidence, c: Confidence) -> Array:
    """sqrt(lam) F + xi sqrt(C L + log 1/delta), L = sum log(1 + sigma~^2_fb): the authors' code."""
    return _bias(c) + c.noise_std * _root(c.ratio * e.information + _log_inverse_delta(c))


def _bbkb_beta(e: Evidence, c: Confidence) -> Array:
    return 2 * c.noise_std * _root(e.information_sketched + _log_inverse_delta(c)) + BIAS * _bias(c)


def bbkb_paper(e: Evidence, c: Confidence) -> Array:
    """alpha~ = C beta~ of BBKB Thm 2."""
    return c.ratio * _bbkb_beta(e, c)


def bbkb_sqrt(e: Evidence, c: Confidence) -> Array:
    """sqrt(C) beta~: as valid as BBKB Thm 2, because the ratio bounded by C is one of variances (THEORY 4.3)."""
    return jnp.sqrt(c.ratio) * _bbkb_beta(e, c)


def certified(e: Evidence, c: Confidence) -> Array:
    """sqrt(C) [F (sqrt(lam) + sqrt(rho)) + xi sqrt(Lhat + 2 log 1/delta)], Lhat = logdet(V/lam) + rho/lam.

    Needs no accuracy of the dictionary, only the noise event (THEORY 2.4, 4.4). sqrt(C) pays for the variances
    that shrink within a batch.
    """
    upper_logdet = e.logdet + e.residual_sum / c.regularization
    bias = c.norm_bound * (jnp.sqrt(c.regularization) + _root(e.residual_sum))
    return jnp.sqrt(c.ratio) * (bias + c.noise_std * _root(upper_logdet + 2 * _log_inverse_delta(c)))


def bayesian(evidence: Evidence, c: Confidence) -> Array:
    """`norm_bound` standard deviations of the Bayesian posterior, as practitioners choose (2 is common); in no theorem."""
    return _bias(c)

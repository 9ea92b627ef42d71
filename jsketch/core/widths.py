"""Confidence widths: the number of posterior standard deviations that an upper confidence bound
adds to the mean.

A width is a callable pytree, width(evidence, confidence) -> []. It reads the `Evidence`, scalars of
the posterior with variances in leverage units (divided by the regularization lam), and the
`Confidence`, the assumptions of the user. Algorithms take a width as an argument:

    BBKB(kernel, width=widths.bbkb_paper)                   a formula of this file
    BBKB(kernel, width=widths.Bayesian(deviations=2.0))     a width whose numbers vmap can map
    BBKB(kernel, width=widths.Formula(function))            your function(evidence, confidence)

The `*_code` widths are those of the BBKB authors' experiments, and only they reproduce the figures
of the papers. No theorem covers them (THEORY 4.6). The theorems of the `*_paper` widths have
conditions that the defaults do not satisfy: `qbar` >= 72 log(4T/delta) for BKB with horizon T, and
lam >= 1 and `qbar` >= 72 C log(4t/delta) for BBKB with C = `ratio` (THEORY 3.2, 4.3). `mixture` is
the narrowest width with a proof for an exact posterior. `certified` and `certified_mixture` hold
for any dictionary: only their bound on the noise can fail, with probability at most delta. With
BBKB's rule="global_local" they need local_statistic="guaranteed" (THEORY 5.4).
All widths assume that kernel and lam are fixed before the data are observed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import components, struct
from jsketch.types import Arms, Kernel

ALPHA = 3.0  # (1 + eps)/(1 - eps) at the accuracy eps = 1/2 of the papers
BIAS = 1 + 2**0.5  # 1 + 1/sqrt(1 - eps)


def ucb(mean: Array, variance: Array, width: ArrayLike) -> Array:
    """Upper confidence bounds mean + width sigma, of any shape, with variances sigma^2."""
    return mean + width * jnp.sqrt(variance)


@struct.dataclass
class Evidence:
    """The summary of the data on which widths depend: scalars [] of a posterior.

    count                 t, the number of observations
    information           sum_s log(1 + sigma~^2_fb(x_s)); sigma~^2_fb is the variance at the start
                          of the batch of x_s
    information_sketched  sum_s log(1 + 3 sigma~^2_fb(x_s))
    variance_sum          sum_i n_i sigma~^2(x_i), with n_i pulls of arm x_i
    logdet                logdet(V/lam) of `core.posterior`, or logdet(K/lam + I) if exact
    residual_sum          rho = sum_i n_i r(x_i) >= lambda_max(K - Z Z^T), with residuals r = k -
                          |z|^2; 0 if exact
    prior_variance        kappa^2 = max_x k(x,x)
    """

    count: Array
    information: Array
    information_sketched: Array
    variance_sum: Array
    logdet: Array
    residual_sum: Array
    prior_variance: Array


def exact_evidence(count: Array, logdet: Array, prior_variance: Array) -> Evidence:
    """The evidence of an exact posterior after `count` observations: its information is the logdet
    and its residuals are zero. With count and logdet 0 it is the evidence of any posterior before
    the first observation."""
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
class DirectionsEvidence:
    """The summary of SOFUL's data on which the widths `soful_paper` and `gp_ucb_code` depend.

    count           [] t, the number of observations
    logdet          [] logdet(V/lam), V = lam I + S^T S with the sketch S
    prior_variance  [] max_x |x|^2
    shrunk          [] >= lambda_max(A^T A - S^T S); the rows of A are the pulled arms
    size            m, the number of directions of S
    inputs          d, the number of inputs
    """

    count: Array
    logdet: Array
    prior_variance: Array
    shrunk: Array
    size: int = struct.field(pytree_node=False)
    inputs: int = struct.field(pytree_node=False)


@struct.dataclass
class Confidence:
    """The user's assumptions, |f| <= norm_bound in the RKHS and noise_std-subgaussian noise, and
    the failure probability delta. Every field is an array [] or a Python number.

    regularization  lam
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability
    ratio           C, the factor by which a variance may shrink within a batch; 1 for sequential
                    algorithms
    """

    regularization: Any
    noise_std: Any
    norm_bound: Any
    delta: Any
    ratio: Any = 1.0


class Width(Protocol):
    """A pytree, whose numbers are its leaves, that computes a width [] from the evidence of an
    algorithm and the assumptions of its user."""

    def __call__(self, evidence: Any, confidence: Confidence) -> Array: ...


@struct.dataclass
class Formula(struct.Settings):
    """The width function(evidence, confidence), a scalar [], without leaves. Raises ValueError
    unless the function takes two arguments.

    function  of (evidence, confidence), static
    """

    function: Callable[[Any, Confidence], Array] = struct.field(
        pytree_node=False, metadata={"function": ("width", "evidence, confidence")}
    )

    def __call__(self, evidence: Any, confidence: Confidence) -> Array:
        """Raises ValueError if the function reads a field that neither argument has, or does not
        return one number."""
        try:
            width = self.function(evidence, confidence)
        except AttributeError as error:
            if error.obj is not evidence and error.obj is not confidence:
                raise
            kind = type(error.obj)
            properties = [name for name, value in vars(kind).items() if isinstance(value, property)]
            fields = ", ".join(getattr(kind, "__dataclass_fields__", properties))
            name = getattr(self.function, "__name__", self.function)
            raise ValueError(
                f"the width {name} reads {error.name!r}, but the {type(error.obj).__name__} of this"
                f" algorithm has the fields {fields}. Choose another width."
            ) from error
        dtype = (width if hasattr(width, "dtype") else np.asarray(width)).dtype
        if jnp.shape(width) != () or not jnp.issubdtype(dtype, jnp.number):
            raise ValueError(f"width must be one real number, shape (); it is {width!r}.")
        return width


@struct.dataclass
class Bayesian:
    """The width sqrt(lam) * deviations. The distance of the confidence bounds from the mean is then
    `deviations` standard deviations of the Bayesian posterior. No theorem covers this width. With
    deviations=1 a Thompson sample is a draw from the Bayesian posterior. Traced deviations below 0
    make the width NaN, and the result `NOT_FINITE`.

    deviations  a number >= 0
    """

    deviations: ArrayLike = struct.number(2.0, at_least=0)

    def __call__(self, evidence: Any, confidence: Confidence) -> Array:
        lam = jnp.asarray(confidence.regularization, evidence.count.dtype)
        width = jnp.sqrt(lam) * self.deviations
        return jnp.where(jnp.asarray(self.deviations) >= 0, width, jnp.nan)


@struct.dataclass
class KernelBandit(struct.Settings):
    """The fields of all algorithms with a kernel and a confidence width. Subclasses add the field
    `width`.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    """

    kernel: Kernel = struct.component(components.KERNEL)
    regularization: ArrayLike = struct.number(1e-2, above=0)
    noise_std: ArrayLike = struct.number(0.1, at_least=0)
    norm_bound: ArrayLike = struct.number(1.0, at_least=0)
    delta: ArrayLike = struct.number(0.1, above=0, below=1)


class ScaledWidth:
    """A base of algorithms whose field `scale` multiplies the confidence width."""

    def confidence_width(self: Any, state: Any, arms: Arms) -> Array:
        """The width [] of the next base class, times `scale`."""
        width = super().confidence_width(state, arms)  # type: ignore[misc]
        return jnp.asarray(self.scale * width)


def confidence_width(bandit: Any, evidence: Any, ratio: ArrayLike = 1.0) -> Array:
    """The width [] of an algorithm; `ratio` is C of `Confidence`."""
    assumptions = bandit.regularization, bandit.noise_std, bandit.norm_bound, bandit.delta
    width: Array = bandit.width(evidence, Confidence(*assumptions, ratio))
    return width


def _bias(c: Confidence) -> Array:
    """sqrt(lam) F."""
    return jnp.sqrt(c.regularization) * c.norm_bound


def _root(x: Array) -> Array:
    """The square root of x, which rounding may have made negative."""
    return jnp.sqrt(jnp.maximum(x, 0))


def _width(squared: Array, c: Confidence) -> Array:
    """sqrt(lam) F + xi sqrt(squared)."""
    return _bias(c) + c.noise_std * _root(squared)


def _gp_ucb_code(e: Evidence, c: Confidence) -> Array:
    """The authors' sqrt(lam) F + xi sqrt(L + log 1/delta), L = logdet(K/lam + I)."""
    return _width(e.logdet - jnp.log(c.delta), c)


def _gp_ucb_tight(e: Evidence, c: Confidence) -> Array:
    """sqrt(lam) F + xi sqrt(L + 2 log 1/delta), the self-normalized bound of Whitehouse, Ramdas,
    Wu (NeurIPS 2023) with their rho = lam (THEORY 4.1)."""
    return _width(e.logdet - 2 * jnp.log(c.delta), c)


def _gp_ucb_paper(e: Evidence, c: Confidence) -> Array:
    """sqrt(lam) F + xi sqrt(2 (L + log 1/delta)) (BKB eq. 7)."""
    return _width(2 * (e.logdet - jnp.log(c.delta)), c)


def _mixture_radius(logdet: Array, c: Confidence) -> Array:
    """sqrt(lam F^2 + xi^2 (logdet + 2 log 1/delta))."""
    squared = logdet - 2 * jnp.log(c.delta)
    return jnp.hypot(_bias(c), c.noise_std * _root(squared))


def _mixture(e: Evidence, c: Confidence) -> Array:
    """sqrt(lam F^2 + xi^2 (L + 2 log 1/delta)) for an exact posterior, from a Gaussian mixture of
    likelihood ratios (Flynn, Reeb, AISTATS 2025). It never exceeds `gp_ucb_tight` (THEORY 4.7)."""
    return _mixture_radius(e.logdet, c)


def _bkb_code(e: Evidence, c: Confidence) -> Array:
    """The authors' sqrt(lam) F + xi sqrt(log(t) sum_i n_i sigma~^2(x_i) + log 1/delta)."""
    return _width(jnp.log(jnp.maximum(e.count, 1)) * e.variance_sum - jnp.log(c.delta), c)


def _beta(information: Array, c: Confidence) -> Array:
    """2 xi sqrt(information + log 1/delta) + (1 + 1/sqrt(1 - eps)) sqrt(lam) F of the papers."""
    return 2 * c.noise_std * _root(information - jnp.log(c.delta)) + BIAS * _bias(c)


def _bkb_paper(e: Evidence, c: Confidence) -> Array:
    """BKB Thm 4.1, which assumes q_bar >= 72 log(4T/delta), with log(kappa^2 t) replaced by 0 where
    it is negative (THEORY 4.2)."""
    log_t = jnp.maximum(jnp.log(jnp.maximum(e.prior_variance * e.count, 1)), 0)
    return _beta(ALPHA * log_t * e.variance_sum, c)


def _bkb_corrected(e: Evidence, c: Confidence) -> Array:
    """BKB Thm 4.1 with 1 + log(1 + kappa^2 t/lam), the factor of its proof, in place of
    log(kappa^2 t) (THEORY 4.2)."""
    log_t = 1 + jnp.log1p(e.prior_variance * e.count / c.regularization)
    return _beta(ALPHA * log_t * e.variance_sum, c)


def _bbkb_code(e: Evidence, c: Confidence) -> Array:
    """The authors' sqrt(lam) F + xi sqrt(C I + log 1/delta), I = sum log(1 + sigma~^2_fb)."""
    return _width(c.ratio * e.information - jnp.log(c.delta), c)


def _bbkb_paper(e: Evidence, c: Confidence) -> Array:
    """alpha~ = C beta~ of BBKB Thm 2, which assumes lam >= 1 and q_bar >= 72 C log(4t/delta)."""
    return c.ratio * _beta(e.information_sketched, c)


def _bbkb_sqrt(e: Evidence, c: Confidence) -> Array:
    """sqrt(C) beta~, which is valid under the conditions of BBKB Thm 2, because C bounds a ratio of
    variances (THEORY 4.3)."""
    return jnp.sqrt(c.ratio) * _beta(e.information_sketched, c)


def _certified(e: Evidence, c: Confidence) -> Array:
    """sqrt(C) [F (sqrt(lam) + sqrt(rho)) + xi sqrt(Lhat + 2 log 1/delta)], with
    Lhat = logdet(V/lam) + rho/lam. It holds for any dictionary if the noise is within its bound
    (THEORY 2.4, 4.4). sqrt(C) accounts for the variances that shrink within a batch; under BBKB's
    local rule this factor suffices only with local_statistic="guaranteed"."""
    upper_logdet = e.logdet + e.residual_sum / c.regularization
    bias = c.norm_bound * (jnp.sqrt(c.regularization) + _root(e.residual_sum))
    return jnp.sqrt(c.ratio) * (bias + c.noise_std * _root(upper_logdet - 2 * jnp.log(c.delta)))


def _certified_mixture(e: Evidence, c: Confidence) -> Array:
    """sqrt(C) sqrt((b + F sqrt(rho))^2 + lam F^2), where b is the width `mixture` with Lhat in
    place of L (THEORY 4.8). It is below `certified` if xi sqrt(Lhat + 2 log 1/delta) exceeds
    sqrt(lam) F / 2. Like `certified` it needs local_statistic="guaranteed"."""
    radius = _mixture_radius(e.logdet + e.residual_sum / c.regularization, c)
    radius = radius + c.norm_bound * _root(e.residual_sum)
    return jnp.sqrt(c.ratio) * jnp.hypot(radius, _bias(c))


def _soful_paper(e: DirectionsEvidence, c: Confidence) -> Array:
    """beta~_t of Theorem 1 of Kuzborskij et al. (AISTATS 2019), which accounts for the discarded
    directions of the sketch."""
    ratio = 1 + e.shrunk / c.regularization
    squared = (
        e.size * jnp.log1p(e.count * e.prior_variance / (e.size * c.regularization))
        - 2 * jnp.log(c.delta)
        + e.inputs * jnp.log(ratio)
    )
    return c.noise_std * jnp.sqrt(squared * ratio) + _bias(c) * ratio


# pickle and checkpoints find a function by its name, which must differ from that of its `Formula`
gp_ucb_code = Formula(_gp_ucb_code)
gp_ucb_tight = Formula(_gp_ucb_tight)
gp_ucb_paper = Formula(_gp_ucb_paper)
mixture = Formula(_mixture)
bkb_code = Formula(_bkb_code)
bkb_paper = Formula(_bkb_paper)
bkb_corrected = Formula(_bkb_corrected)
bbkb_code = Formula(_bbkb_code)
bbkb_paper = Formula(_bbkb_paper)
bbkb_sqrt = Formula(_bbkb_sqrt)
certified = Formula(_certified)
certified_mixture = Formula(_certified_mixture)
soful_paper = Formula(_soful_paper)
# the widths that hold for any dictionary, with the factor sqrt(C) of a batch
CERTIFIED = (certified, certified_mixture)

"""Widths: formulas, warnings, and functions of the user."""

import pickle
from dataclasses import fields
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import ARMS, KEY, TELL

from jsketch import Arms, Query, kernels
from jsketch.bandits import BBKB, BKB, GPUCB, Draw, Extend, widths
from jsketch.bandits.bbkb import SketchedEvidence
from jsketch.results import Result

DOMAIN = Arms(jnp.asarray(np.random.default_rng(0).uniform(size=(ARMS, 2))))


def test_a_function_becomes_a_width():
    formula = widths.Formula(lambda evidence, assumed: evidence.prior_variance + assumed.delta)
    bandit = BKB(kernels.Gaussian(0.5), delta=0.25, width=formula)
    assert float(bandit.confidence_width(bandit.init(DOMAIN, KEY), DOMAIN)) == 1.25


@pytest.mark.parametrize("name", ["mixture", "gp_ucb_tight"])
def test_a_width_of_exact_posteriors_on_a_sketch_warns(name):
    with pytest.warns(UserWarning, match=f"`{name}` is proved for an exact posterior"):
        BBKB(kernels.Gaussian(0.5), width=getattr(widths, name)).init(DOMAIN, KEY)


@pytest.mark.parametrize("name", ["certified", "certified_mixture"])
def test_a_certified_width_warns_of_a_local_rule_that_voids_it(name, recwarn):
    bandit = BBKB(kernels.Gaussian(0.5), width=getattr(widths, name), rule="global_local")
    with pytest.warns(UserWarning, match='local_statistic="guaranteed" only'):
        bandit.init(DOMAIN, KEY)
    recwarn.clear()
    bandit.replace(local_statistic="guaranteed").init(DOMAIN, KEY)
    bandit.replace(rule="global").init(DOMAIN, KEY)
    bandit.replace(width=widths.bbkb_code).init(DOMAIN, KEY)
    assert not len(recwarn)


def test_a_width_can_be_pickled():
    assert pickle.loads(pickle.dumps(widths.bbkb_paper)) == widths.bbkb_paper


# Three batches over five arms: arm 3 is pulled four times, one evaluation fails and one slot is
# free.
POINTS = np.array([[0.0, 0.1], [0.4, 0.9], [1.3, 0.2], [0.7, 0.6], [1.9, 1.5]])
BATCHES = np.array([[3, 0, 3], [1, 3, 0], [4, 1, 3]])
USED_SLOTS = np.array([[True, True, True], [True, True, False], [True, True, True]])
FAILS = np.zeros((3, 3), bool)
FAILS[0, 1] = True
OBSERVED = USED_SLOTS & ~FAILS
Y = np.where(FAILS, np.nan, np.arange(9.0).reshape(3, 3) / 4 - 1)
RATIO, FORMULAS = 2.5, {n: w for n, w in vars(widths).items() if isinstance(w, widths.Formula)}
NAMES = tuple(name for name in FORMULAS if name != "soful_paper")
EVALUATE = jax.jit(
    jax.vmap(lambda evidence, assumed: [FORMULAS[n](evidence, assumed) for n in NAMES], (0, None))
)


def formulas(e, lam, xi, norm, delta, ratio):
    """{name: width} by the formulas of the papers and of THEORY 4, from the evidence `e`."""
    bias, log_inv_delta = np.sqrt(lam) * norm, np.log(1 / delta)
    table = {}
    # BKB eq. 7; the other widths of an exact posterior are in THEORY 4.1 and 4.7
    table["gp_ucb_paper"] = bias + xi * np.sqrt(2 * (e.logdet + log_inv_delta))
    table["gp_ucb_tight"] = bias + xi * np.sqrt(e.logdet + 2 * log_inv_delta)
    table["gp_ucb_code"] = bias + xi * np.sqrt(e.logdet + log_inv_delta)
    table["mixture"] = np.sqrt(bias**2 + xi**2 * (e.logdet + 2 * log_inv_delta))
    # BKB Theorem 4.1 at eps = 1/2
    alpha, factor = (1 + 1 / 2) / (1 - 1 / 2), 1 + 1 / np.sqrt(1 - 1 / 2)
    log_paper = np.log(e.kappa2 * e.t) if e.kappa2 * e.t > 1 else 0.0
    log_corrected = 1 + np.log(1 + e.kappa2 * e.t / lam)
    for name, log in (("bkb_paper", log_paper), ("bkb_corrected", log_corrected)):
        radicand = alpha * log * e.effective + log_inv_delta
        table[name] = 2 * xi * np.sqrt(radicand) + factor * bias
    log_t = np.log(e.t) if e.t > 1 else 0.0
    table["bkb_code"] = bias + xi * np.sqrt(log_t * e.effective + log_inv_delta)
    # BBKB Theorem 2
    beta = 2 * xi * np.sqrt(e.tripled + log_inv_delta) + (1 + np.sqrt(2)) * bias
    table["bbkb_paper"] = ratio * beta
    table["bbkb_sqrt"] = np.sqrt(ratio) * beta
    table["bbkb_code"] = bias + xi * np.sqrt(ratio * e.information + log_inv_delta)
    # THEORY 4.4 and 4.8
    spread = np.sqrt(e.logdet + e.rho / lam + 2 * log_inv_delta)
    certified = norm * (np.sqrt(lam) + np.sqrt(e.rho)) + xi * spread
    table["certified"] = np.sqrt(ratio) * certified
    b = np.sqrt(lam * norm**2 + xi**2 * spread**2)
    unscaled = np.sqrt((b + norm * np.sqrt(e.rho)) ** 2 + lam * norm**2)
    table["certified_mixture"] = np.sqrt(ratio) * unscaled
    return table


def evidence_after_batches(gram, lam, dictionaries):
    """Yields the evidence, from which widths are computed, before and after each of the BATCHES, by
    dense matrices. `dictionaries` has the arms of the dictionary at each of these times."""
    counts = np.zeros(len(gram))
    information = tripled = 0.0
    variance = np.diag(gram) / lam
    for batch, observed, arms in zip(
        [None, *BATCHES], [None, *OBSERVED], dictionaries, strict=True
    ):
        for arm in [] if batch is None else batch[observed]:
            information += np.log(1 + variance[arm])
            tripled += np.log(1 + 3 * variance[arm])
            counts[arm] += 1
        residual, logdet = np.diag(gram), 0.0
        if len(arms):
            _, _, embedded, residual, logdet = oracles.sketched(gram, arms, counts, counts, lam)
            residual[arms] = 0
            variance = residual / lam + np.diag(embedded)
        else:
            variance = np.diag(gram) / lam
        yield SimpleNamespace(
            t=counts.sum(),
            kappa2=np.diag(gram).max(),
            information=information,
            tripled=tripled,
            effective=counts @ variance,
            logdet=logdet,
            rho=counts @ residual,
        )


@jax.jit
def after_each_batch(bandit):
    """(states [4], evidence [4] before and after the BATCHES, the results of the rounds)."""
    arms = Arms(jnp.asarray(POINTS))

    def evidence_of(state):
        evidence = SketchedEvidence(bandit, state, arms)
        names = [f.name for f in fields(widths.Evidence)]
        return widths.Evidence(**{name: getattr(evidence, name) for name in names})

    def tell_batch(state, evaluations):
        index, mask, y, key = evaluations
        new, info = bandit.tell(state, arms, Query(index, mask), y, key)
        return new, (new, evidence_of(new), info.result)

    first_state = bandit.init(arms, KEY)
    evaluations = (jnp.asarray(BATCHES, jnp.int32), jnp.asarray(USED_SLOTS), jnp.asarray(Y))
    _, (*later, results) = jax.lax.scan(
        tell_batch, first_state, (*evaluations, jax.random.split(KEY, 3))
    )
    first = [first_state, evidence_of(first_state)]
    states, evidence = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later)
    return states, evidence, results


ASSUMED = dict(noise_std=0.3, norm_bound=1.7, delta=0.05)
SCALED = kernels.Scaled(kernels.Gaussian(0.8), 0.4)
GRAM = 0.4 * oracles.gaussian(POINTS, POINTS, 0.8)


@pytest.mark.parametrize("rule", [Draw(), Extend()], ids=["draw", "extend"])
@pytest.mark.parametrize(("lam", "qbar"), [(0.02, 0.02), (0.3, 0.8), (2.0, 1e12)])
def test_widths_and_their_evidence_match_dense_formulas(lam, qbar, rule):
    """They match before and after each batch, for dictionaries of some or of all arms."""
    options = ASSUMED | dict(qbar=qbar, ratio=RATIO, max_batch=3, capacity=5, dictionary=rule)
    states, stacked, results = after_each_batch(BBKB(SCALED, lam, **options))
    assert (np.asarray(results) == Result.RUNNING).all()
    dictionaries = [np.flatnonzero(inducing) for inducing in np.asarray(states.inducing)]
    expected = list(evidence_after_batches(GRAM, lam, dictionaries))
    confidence = widths.Confidence(lam, *ASSUMED.values(), RATIO)
    values = np.stack(EVALUATE(stacked, confidence), 1)
    close = dict(rtol=1e-10, atol=1e-10)
    for step, e in enumerate(expected):
        evidence = jax.tree.map(lambda leaf, at=step: float(leaf[at]), stacked)
        sums = evidence.count, evidence.information, evidence.information_sketched
        np.testing.assert_allclose(sums, (e.t, e.information, e.tripled), **close)
        names = ("logdet", "residual_sum", "prior_variance", "variance_sum")
        actual = [getattr(evidence, name) for name in names]
        np.testing.assert_allclose(actual, (e.logdet, e.rho, e.kappa2, e.effective), **close)
        table = formulas(e, lam, *ASSUMED.values(), RATIO)
        assert set(table) == set(NAMES)
        np.testing.assert_allclose(values[step], [table[n] for n in NAMES], err_msg=NAMES, **close)
    has_residuals = [e.rho > 1e-3 for e in expected[1:]]
    assert not any(has_residuals) if qbar > 1 else any(has_residuals)


@pytest.mark.parametrize("lam", [0.02, 0.3, 2.0])
def test_widths_of_an_exact_posterior_match_dense_formulas(lam):
    """The arms are those of the BATCHES. The information is logdet(K/lam + I)."""
    bandit = GPUCB(SCALED, lam, capacity=5)
    query = Query(jnp.asarray(BATCHES[USED_SLOTS], jnp.int32), jnp.ones(8, bool))
    arms = Arms(jnp.asarray(POINTS))
    state = bandit.init(arms, KEY)
    state, _ = TELL(bandit, state, arms, query, jnp.asarray(Y[USED_SLOTS]), KEY)
    counts = np.bincount(BATCHES[OBSERVED], minlength=5)
    logdet = oracles.exact(GRAM, counts, counts, lam)[2]
    e = SimpleNamespace(t=counts.sum(), kappa2=0.4, effective=0.0, rho=0.0, logdet=logdet)
    e.information = e.tripled = logdet
    table = formulas(e, lam, *ASSUMED.values(), RATIO)
    prior_variance = bandit.prior_variance(state, arms)
    evidence = widths.exact_evidence(state.count, state.posterior.logdet, prior_variance)
    # the shape for which EVALUATE is compiled already
    evidence = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (4,)), evidence)
    values = EVALUATE(evidence, widths.Confidence(lam, *ASSUMED.values(), RATIO))
    for name, value in zip(NAMES, values, strict=True):
        np.testing.assert_allclose(value, table[name], rtol=1e-10, err_msg=name)

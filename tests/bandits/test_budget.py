"""A budget for the dictionary (THEORY 3.6): `max_dictionary` of the algorithms that resample by
posterior variance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, problem
from small_problems import KEY

from jsketch import kernels, loops
from jsketch.bandits import BBKB, BKB, FixedBKB, PointBBKB, SketchedTS
from jsketch.bandits.core import warm_start
from jsketch.planning import timing
from jsketch.sketch import dictionary as dictionaries

DRAWS, ARMS, MOST, QBAR, HORIZON = 2_000, 30, 10, 0.2, 24
RANDOM = np.random.default_rng(0)
COUNTS = RANDOM.poisson(2.0, ARMS).astype(float)
VARIANCE = RANDOM.uniform(0.01, 1.5, ARMS)
KERNEL = kernels.Gaussian(0.5)
SKETCHED = {
    "bkb": BKB(KERNEL),
    "bbkb": BBKB(KERNEL),
    "fixed_bkb": FixedBKB(KERNEL, batch=2),
    "sketched_ts": SketchedTS(KERNEL),
    "point_bbkb": PointBBKB(KERNEL),
}
ROLLOUT = jax.jit(loops.rollout, static_argnames="horizon")


def draws():
    """(keep [D,A], budgeted [D], the draws' uniform numbers [D,A]) of 2,000 keys."""

    def draw(key):
        found, overflow, budgeted = dictionaries.resample(
            key, jnp.asarray(COUNTS), jnp.asarray(VARIANCE), QBAR, MOST, MOST
        )
        arms = jnp.where(found.mask, found.index, ARMS)
        keep = jnp.zeros(ARMS, bool).at[arms].set(True, mode="drop")
        return keep, overflow, budgeted, jax.random.uniform(key, (ARMS,), jnp.float_)

    keep, overflow, budgeted, uniform = jax.jit(jax.vmap(draw))(jax.random.split(KEY, DRAWS))
    assert not np.asarray(overflow).any()
    return np.asarray(keep), np.asarray(budgeted), np.asarray(uniform)


@pytest.fixture(scope="module")
def drawn():
    return draws()


def of_qbar(uniform, qbar):
    """The papers' draw [A] of given uniform numbers."""
    return uniform < np.minimum(1, qbar * COUNTS * VARIANCE)


def test_the_draw_is_that_of_the_largest_qbar_that_fits(drawn):
    """Found by bisection; where the draw fits as it is, it is left alone."""
    keep, budgeted, uniform = drawn
    assert 0.2 < budgeted.mean() < 0.8  # both happen
    assert (keep.sum(1) <= MOST).all() and (keep.sum(1)[budgeted] == MOST).all()
    for row, scaled, numbers in zip(keep, budgeted, uniform, strict=True):
        whole = of_qbar(numbers, QBAR)
        assert scaled == (whole.sum() > MOST)
        low, high = 0.0, QBAR
        for _ in range(40 * scaled):
            middle = (low + high) / 2
            fits = of_qbar(numbers, middle).sum() <= MOST
            low, high = (middle, high) if fits else (low, middle)
        np.testing.assert_array_equal(row, of_qbar(numbers, low) if scaled else whole)


def test_arms_are_in_as_often_as_in_numpy(drawn):
    """Inclusion probabilities of the rule with NumPy's random numbers, within 5 standard errors."""
    keep, _, _ = drawn
    expected = QBAR * COUNTS * VARIANCE
    uniform = np.random.default_rng(1).uniform(size=(20_000, ARMS))
    ratio = np.where(uniform < expected, uniform / np.where(expected > 0, expected, np.inf), np.inf)
    last = np.sort(ratio, axis=1)[:, MOST - 1 : MOST]
    share = ((ratio <= last) & np.isfinite(ratio)).mean(0)
    error = np.sqrt(share * (1 - share) * (1 / DRAWS + 1 / 20_000))
    assert (np.abs(keep.mean(0) - share) <= 5 * error).all()
    assert share.min() == 0 and share.max() > 0.95  # arms of every kind


def test_ties_for_the_last_place_stay_out():
    """Five arms alike and a budget of three: no more than three, and the better one is in."""
    expected, uniform = jnp.array([0.9, *[0.5] * 5]), jnp.full(6, 0.25)
    keep, budgeted = dictionaries.within_budget(jnp.ones(6, bool), uniform, expected, 3)
    assert bool(budgeted) and np.flatnonzero(np.asarray(keep)).tolist() == [0]


def test_a_budget_that_never_binds_changes_nothing():
    """Bit for bit: every pick and every number of the state."""
    free = ROLLOUT(CASES["bkb"], problem(), KEY, HORIZON)
    held = ROLLOUT(CASES["bkb"].replace(max_dictionary=59), problem(), KEY, HORIZON)
    assert not bool(held.budgeted) and int(free.trace.dictionary_size.max()) > 10
    for a, b in zip(jax.tree.leaves(free), jax.tree.leaves(held), strict=True):
        np.testing.assert_array_equal(a, b)


def test_runs_keep_to_the_budget():
    """On threads from a capacity below it, which grows to it and no further, and in one program at
    the budget: the same picks, the flag, one warning a call."""
    keys, most = jax.random.split(KEY, 2), 6
    runs = []
    for strategy, capacity in (("threads", 3), ("vmap", 64)):
        bandit = CASES["bkb"].replace(capacity=capacity, max_dictionary=most)
        with pytest.warns(UserWarning, match=r"held to `max_dictionary`") as warned:
            runs.append(loops.run_seeds(bandit, problem(), keys, HORIZON, strategy=strategy))
        assert [warning.filename for warning in warned] == [__file__]
    for run in runs:
        assert run.budgeted.all() and run.capacity == most == int(run.trace.dictionary_size.max())
    np.testing.assert_array_equal(runs[0].trace.arm, runs[1].trace.arm)


@pytest.mark.parametrize("name", SKETCHED)
def test_no_state_has_room_beyond_the_budget(name):
    """Neither at the start nor after growing; without a budget as much as is asked for."""

    def capacities(bandit):
        start = bandit.init(2, KEY) if name == "point_bbkb" else bandit.init(problem().arms, KEY)
        middle = bandit.grow(start, 70)
        return start, middle, bandit.grow(middle, 90)

    def room(bandit):
        return [state.capacity for state in jax.eval_shape(lambda: capacities(bandit))]

    assert room(SKETCHED[name]) == [64, 70, 90]
    assert room(SKETCHED[name].replace(max_dictionary=80)) == [64, 70, 80]
    assert room(SKETCHED[name].replace(max_dictionary=20)) == [20, 20, 20]


@pytest.mark.parametrize("most", [0, -3, 2.5, True, "3", np.nan])
def test_what_is_no_budget_is_refused(most):
    for name, bandit in SKETCHED.items():
        with pytest.raises(ValueError, match="max_dictionary must be None or an integer of at"):
            bandit.replace(max_dictionary=most).init(
                2 if name == "point_bbkb" else problem().arms, KEY
            )


def test_a_traced_budget_is_refused():
    def start(most):
        return BKB(KERNEL, max_dictionary=most).init(problem().arms, KEY).capacity

    with pytest.raises(ValueError, match="max_dictionary must be None or an integer of at"):
        jax.vmap(start)(jnp.array([3, 4]))


def test_a_warm_start_keeps_to_the_budget():
    """A sampled dictionary is scaled to it, by the rule of the draws; one of given arms, or of all
    arms pulled, is refused."""
    free = BKB(kernels.Gaussian(0.1), 0.01, capacity=64, qbar=1.0)

    def drawn(bandit, dictionary):
        ones = np.ones(60)
        return warm_start.checked(bandit, problem().arms, KEY, ones, ones, dictionary)[2]

    held = free.replace(max_dictionary=12)
    for method in ("leverage", "bless"):
        with pytest.warns(UserWarning, match="held to max_dictionary = 12: .. arms were drawn"):
            keep = drawn(held, method)
        assert int(keep.sum()) == 12 and bool((drawn(free, method) >= keep).all())
    for dictionary in (None, np.arange(13)):
        with pytest.raises(ValueError, match="arms is more than max_dictionary = 12: raise it, or"):
            drawn(held, dictionary)


def test_a_plan_compiles_no_capacity_beyond_the_budget():
    bandit = BKB(KERNEL, capacity=64)
    assert timing.capacities(bandit, 130, 20_000) == (64, 144)
    assert timing.capacities(bandit.replace(max_dictionary=100), 130, 20_000) == (64, 100)
    assert timing.capacities(bandit.replace(max_dictionary=20), 130, 20_000) == (20,)

"""GO-UCB where things go wrong: points that repeat, oracles that diverge, too few values for a
scale, nothing to tell."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import loops
from jsketch.box import GOUCB, history, oracle, scaling
from jsketch.box.go_ucb import parametric
from jsketch.box.go_ucb.network import Network
from jsketch.problems import boxes

KEY = jax.random.key(0)
SMALL = GOUCB(
    model=Network(hidden=4),
    initial=3,
    candidates=16,
    starts=4,
    steps=10,
    oracle=oracle.LevenbergMarquardt(steps=5, restarts=2),
)
PROBLEM = boxes.styblinski_tang(3)
HORIZON = 12


ask = jax.jit(lambda optimizer, state, key: optimizer.ask(state, key))
tell = jax.jit(lambda optimizer, state, query, y, key: optimizer.tell(state, query, y, key))


def test_a_refitted_run_asks_for_new_points_and_ends():
    """A query beyond the horizon is empty and teaches nothing."""
    run = loops.run_box(SMALL, PROBLEM, PROBLEM.box, KEY, HORIZON)
    assert (
        len(np.unique(np.asarray(run.x), axis=0)) == HORIZON
        and not np.asarray(run.info.diverged).any()
    )
    query = ask(SMALL, run.state, KEY)
    assert int(query.size) == 0
    after, info = tell(SMALL, run.state, query, jnp.zeros(3), KEY)
    jax.tree.map(np.testing.assert_array_equal, after, run.state)
    assert int(info.observed) == 0


def test_an_oracle_that_diverges_is_reported_and_changes_nothing():
    wild = oracle.Gradient(rate=1e200, rule="sgd", steps=3, restarts=1)
    run = loops.run_box(SMALL.replace(oracle=wild), PROBLEM, PROBLEM.box, KEY, 5)
    assert np.asarray(run.info.diverged).all()
    assert np.isfinite(np.asarray(run.x)).all() and np.isfinite(np.asarray(run.state.centre)).all()


def test_a_scale_is_found_as_soon_as_there_are_two_values():
    """Two of three initial evaluations fail; the values are near 1000."""
    optimizer = SMALL.replace(refit=False)
    state = optimizer.init(PROBLEM.box, KEY, HORIZON)
    for t, y in enumerate(([1000.0, jnp.nan, jnp.nan], [jnp.nan] * 3, [1004.0] * 3, [1008.0] * 3)):
        query = ask(optimizer, state, jax.random.fold_in(KEY, t))
        state, _ = tell(optimizer, state, query, jnp.asarray(y), KEY)
        expected = [(1000, 1), (1000, 1), (1002, 2), (1002, 2)][t]
        np.testing.assert_allclose([state.scaling.mean, state.scaling.deviation], expected)
    used = np.asarray(state.history.ok)
    assert (
        np.asarray(state.gradients)[used].any(1).all()
        and not np.asarray(state.gradients)[~used].any()
    )


def test_single_precision_sees_small_deviations():
    """Values of 1000 that differ by 0.5, a two-thousandth; equal ones are only centred."""
    state = SMALL.init(jax.tree.map(lambda x: x.astype(jnp.float32), PROBLEM.box), KEY, 4)
    past = state.history.replace(
        y=jnp.asarray([1000.5, 999.5, 1000.5, 999.5], jnp.float32), ok=jnp.ones(4, bool)
    )
    assert float(scaling.standard(state.box, past).deviation) == 0.5
    equal = past.replace(y=jnp.full(4, 0.1, jnp.float32))
    assert float(scaling.standard(state.box, equal).deviation) == 1


def test_values_whose_squares_are_no_floats():
    """Near 1e200: the same points as near 1, bit for bit, as a power of two changes no digit."""
    picks = []
    for unit in (1.0, 2.0**664):
        optimizer, rows = SMALL.replace(refit=False), []
        state = optimizer.init(PROBLEM.box, KEY, HORIZON)
        for t in range(5):
            query = ask(optimizer, state, jax.random.fold_in(KEY, t))
            y = unit * jax.vmap(PROBLEM.value)(query.x)
            state, info = tell(optimizer, state, query, y, KEY)
            assert not info.diverged
            rows.append(query.x)
        picks.append(np.asarray(rows))
    np.testing.assert_array_equal(*picks)


def test_the_largest_floats_have_a_scale():
    largest = float(np.finfo(float).max)
    past = history.empty(PROBLEM.box, 4)
    past = past.replace(y=jnp.array([largest, -largest, largest, -largest]), ok=jnp.ones(4, bool))
    np.testing.assert_allclose(scaling.standard(PROBLEM.box, past).values(past.y), [1, -1, 1, -1])


def test_a_loss_that_no_float_holds_is_reported():
    """Values near 1e200 that are not standardized: the parameters stay as they were drawn, and say
    so."""
    drawn = jnp.ones(3)
    w, diverged = parametric._fitted(oracle.Fit(drawn, jnp.asarray(jnp.inf)), jnp.zeros(3))
    np.testing.assert_array_equal(w, drawn)
    assert diverged


@pytest.mark.slow
def test_the_plateau_of_f1_is_found():
    """Issue and Figure 2a: regret after the second optimistic step below 1% of uniform points'
    (11.75) in 45 of 50 seeds."""
    problem = boxes.all_ones_network(20, 0.01)
    keys = jax.vmap(lambda seed: jax.random.fold_in(KEY, seed))(jnp.arange(50))
    run = loops.run_box(GOUCB(initial=5), problem, problem.box, keys, 30)
    regret = np.asarray(problem.maximum - run.value)[:, 7:].mean(1)
    assert (regret < 0.01 * 11.75).sum() >= 45

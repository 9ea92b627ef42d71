"""Streams and boxes compiled with the default flags of XLA."""

import jax
import numpy as np
import pytest
from cases import OPTIMISERS
from compiled import compiled_as_by_users
from test_online import CASES as FORECASTERS
from test_online import VARIANTS, examples, one_by_one

from jsketch import loops
from jsketch.loops.streams import stream
from jsketch.problems import boxes

KEY = jax.random.key(3)
# tests/fuzz compiles these with the default flags
IN_FUZZ = {"kors_awv", "mixture_taylor", "pros_n_kons", "sketched_kons"}
STREAM = compiled_as_by_users(stream, static_argnames="block")


@pytest.mark.parametrize("name", [name for name in FORECASTERS if name not in VARIANTS | IN_FUZZ])
def test_a_stream_has_the_predictions_of_single_steps(name):
    xs, ys = examples()
    # the key that `one_by_one` passes to `init`
    state = FORECASTERS[name].init(xs[0], jax.random.split(jax.random.key(0))[0])
    run = STREAM(FORECASTERS[name], state, xs, ys, KEY, block=16)
    np.testing.assert_allclose(
        run.forecasts.prediction, one_by_one(FORECASTERS[name], xs, ys)[0], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "name", ["uniform", "gp_log_ei", "go_ucb", pytest.param("turbo_1", marks=pytest.mark.slow)]
)
def test_a_box_is_searched(name):
    """Points are in the box and differ. The values and the best values are those of the points."""
    problem = boxes.branin()
    run = compiled_as_by_users(lambda key: loops.rollout(OPTIMISERS[name], problem, key, 7))(KEY)
    points, box = np.asarray(run.x), problem.domain
    assert (points >= np.asarray(box.lower)).all() and (points <= np.asarray(box.upper)).all()
    assert len(np.unique(points, axis=0)) == 7
    np.testing.assert_allclose(run.y, [problem.value(x) for x in run.x], rtol=1e-9)
    np.testing.assert_array_equal(run.best, np.maximum.accumulate(np.asarray(run.y)))

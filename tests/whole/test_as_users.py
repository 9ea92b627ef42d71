"""A conformance vector, streams and boxes, compiled with XLA's default flags; other tests compile
with less optimization. `test_properties.test_users_compile_the_same_run` and tests/fuzz do so
too."""

import jax
import numpy as np
import pytest
from compiled import as_users
from test_golden import HERE, Vector, close
from test_online import CASES as FORECASTERS
from test_online import VARIANTS, examples, one_by_one

from jsketch import Box, loops, problems
from jsketch.bandits import BKB
from jsketch.box import GOUCB, GPBandit, Turbo, UniformBox, ball
from jsketch.loops.streams import stream
from jsketch.problems import boxes

KEY = jax.random.key(3)
# tests/fuzz compiles these with the default flags
FUZZED = {"kors_awv", "mixture_taylor", "pros_n_kons", "sketched_kons"}
# the dictionary of this vector repeats points, where rounding matters most; test_golden.py tests
# the other vector
VECTORS = [HERE / "golden" / "rbf_repeats.npz"]
STREAM = as_users(stream, static_argnames="block")
BOXES = {
    "uniform": UniformBox(initial=4),
    "gp_log_ei": GPBandit(initial=4, candidates=20, starts=2, steps=10, fit_steps=5),
    "turbo": Turbo(initial=4, candidates=20, frequencies=16, fit_steps=5),
    "go_ucb": GOUCB(ball.OFUL(), initial=4, candidates=16, starts=4, steps=10),
}


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_conformance(path):
    """Posterior, width and batches of both rules."""
    v = Vector(path)
    d = v.data

    state = as_users(v.start)(d["arms"], v.history)
    close(state.mean, d["posterior_mean"], 1e-6)
    close(state.variance, d["posterior_variance"], 1e-5)
    close(BKB(**v.common).confidence_width(state), d["beta_bkb"], 1e-6)
    for rule, batch in (("global", "global_batch"), ("global_local", "global_local_batch_strict")):
        query = as_users(v.bbkb(rule, d[f"{rule}_beta_before"], max_batch=400).ask)(state, KEY)
        np.testing.assert_array_equal(np.asarray(query.index)[np.asarray(query.mask)], d[batch])


@pytest.mark.parametrize("name", [name for name in FORECASTERS if name not in VARIANTS | FUZZED])
def test_a_stream_has_the_predictions_of_single_steps(name):
    xs, ys = examples()
    state = FORECASTERS[name].init(xs[0], jax.random.split(jax.random.key(0))[0])
    run = STREAM(FORECASTERS[name], state, xs, ys, KEY, block=16)
    np.testing.assert_allclose(
        run.forecasts.prediction, one_by_one(FORECASTERS[name], xs, ys)[0], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "turbo")) for n in BOXES]
)
def test_a_box_is_searched(name):
    """Points inside and all different, their values, and the best of them."""
    box, objective = Box(np.array([-5.0, 0.0]), np.array([10.0, 15.0])), boxes.branin()
    run = as_users(
        lambda key: loops.rollout(
            BOXES[name], problems.on_box(lambda x, _: objective.value(x), box), key, 7
        )
    )(KEY)
    points = np.asarray(run.x)
    assert (
        (points >= np.asarray(box.lower)).all()
        and (points <= np.asarray(box.upper)).all()
        and len(np.unique(run.x, axis=0)) == 7
    )
    np.testing.assert_allclose(run.y, [objective.value(x) for x in run.x], rtol=1e-9)
    np.testing.assert_array_equal(run.best, np.maximum.accumulate(np.asarray(run.y)))

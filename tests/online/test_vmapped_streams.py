"""Streams of growing dictionaries under vmap equal separate runs and copy no states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core
from small_problems import walk
from test_online import CASES, VARIANTS, examples

from jsketch import kernels, loops, numerics, online
from jsketch.results import Result
from jsketch.sketch.kors import Sampling

# two of the streams exceed the capacity and end early
SEEDS = [3, 5, 0]
FORECASTER = online.NystromAWV(kernels.Gaussian(1.0), 1e-3, Sampling(1e-2), capacity=23, memory=192)


def run_stream(xs, ys, key):
    init_key, stream_key = jax.random.split(key)
    state = FORECASTER.init(xs[0], init_key)
    run = loops.streams.stream(FORECASTER, state, xs, ys, stream_key, block=16)
    processed = jnp.arange(len(ys), dtype=jnp.int32) < run.t
    return run.t, run.result, jnp.where(processed, run.forecasts.prediction, 0), run.state


def streams():
    xs, ys = (np.stack(values) for values in zip(*map(walk, SEEDS), strict=True))
    return jnp.asarray(xs), jnp.asarray(ys), jax.vmap(jax.random.key)(jnp.asarray(SEEDS))


def test_vmapped_streams_equal_separate_ones():
    """Predictions and states agree, including those of runs that end long before the last one."""
    inputs = streams()
    ends, results, predictions, states = jax.jit(jax.vmap(run_stream))(*inputs)
    run_single = jax.jit(run_stream)
    for i in range(len(SEEDS)):
        t, result, prediction, state = run_single(*(values[i] for values in inputs))
        assert (int(ends[i]), int(results[i])) == (int(t), int(result))
        np.testing.assert_allclose(predictions[i], prediction, atol=2e-5)
        np.testing.assert_array_equal(states.dictionary.points[i], state.dictionary.points)
        assert int(states.received[i]) == int(state.received)
    assert min(ends) < max(ends) == 120


LIMITED = [name for name in CASES if name not in VARIANTS - {"taylor_renewed", "mixture_kernels"}]


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_of_zero_changes_nothing(name):
    """`advance` learns at most `limit` examples. With a limit of 0, the vmapped step of a run that
    has ended, no bit of the state changes."""
    xs, ys = (jnp.asarray(values) for values in examples(n=48))
    advance = jax.jit(CASES[name].advance)
    state, t = CASES[name].init(xs[0], jax.random.key(1)), 0
    while t < 32:
        for labels in (ys[t : t + 8], jnp.full(8, jnp.nan), jnp.full(8, jnp.inf)):
            unchanged, _, done, info = advance(state, xs[t : t + 8], labels, 0)
            assert (int(done), int(info.result)) == (0, Result.RUNNING)
            jax.tree.map(np.testing.assert_array_equal, unchanged, state)
        state, _, done, _ = advance(state, xs[t : t + 8], ys[t : t + 8], 8)
        t += int(done)


def test_no_step_of_vmapped_streams_chooses_between_whole_states(monkeypatch):
    """On an accelerator, where all streams are computed together."""
    monkeypatch.setattr(numerics, "on_accelerator", lambda: True)
    inputs = streams()
    program = jax.make_jaxpr(jax.vmap(run_stream))(*inputs)
    shape = (len(SEEDS), FORECASTER.capacity, FORECASTER.capacity)
    (loop,) = [e for e in program.eqns if e.primitive.name == "while" and carries(e, shape)]
    assert not loop.params["cond_jaxpr"].out_avals[0].shape
    steps = list(equations(loop.params["body_jaxpr"].jaxpr))
    assert any(e.primitive.name == "while" and carries(e, shape) for e in steps)
    selections = [e for e in steps if e.primitive.name == "select_n" and carries(e, shape)]
    assert not selections


def carries(equation, shape):
    return any(variable.aval.shape == shape for variable in equation.outvars)


def equations(program):
    """The equations that every step of a program executes, without those of inner loops."""
    for equation in program.eqns:
        yield equation
        if equation.primitive.name != "while":
            for inner in jax.tree.leaves(
                equation.params, is_leaf=lambda value: isinstance(value, core.ClosedJaxpr)
            ):
                if isinstance(inner, core.ClosedJaxpr):
                    yield from equations(inner.jaxpr)

"""A stream in segments has the predictions of one pass."""

import jax
import numpy as np
import pytest
from test_online import examples, with_value

from jsketch import loops, online
from jsketch.scale import prequential_in_segments
from jsketch.sketch.taylor import Taylor

KEY = jax.random.key(0)


@pytest.mark.parametrize(("lam", "cut"), [(1e-4, None), (0.5, 1500)])
def test_the_predictions_are_those_of_one_pass(lam, cut):
    """Labels are missing, the last segment is shorter, and the stream may resume."""
    xs, ys = examples(13, 5000)
    ys = with_value(ys, slice(None, None, 7), np.nan)
    forecaster = online.PKAWV(Taylor(2, 4, 0.8), lam)
    one_pass, last_state = loops.prequential(forecaster, (xs, ys), KEY)
    state = None
    if cut:
        _, state = loops.prequential(forecaster, (xs[:cut], ys[:cut]), KEY)
    forecasts, end_state = prequential_in_segments(
        forecaster, (xs[cut:], ys[cut:]), KEY, state=state, first=cut or 0, segments=3
    )
    expected = one_pass.prediction[cut:]
    np.testing.assert_allclose(forecasts.prediction, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(end_state.weights, last_state.weights, rtol=1e-7, atol=1e-8)
    assert forecasts.loss.shape == (5000 - (cut or 0),)
    with pytest.raises(FloatingPointError, match="infinite"):
        prequential_in_segments(forecaster, (xs, with_value(ys, 4, np.inf)), KEY, segments=2)

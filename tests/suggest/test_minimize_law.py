"""`minimize` and `maximize` with a law that the user knows."""

import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Space, minimize
from jsketch.box import Parametric
from jsketch.suggest.own_model import SpaceLaw

SPACE = Space(rate=(0.01, 1.0, "log"), depth=(1, 8, int))


def loss(rate, depth, best, slope, level):
    return level + (jnp.log(rate) - jnp.log(best)) ** 2 + slope * depth


LOSS = Parametric(loss, dict(best=(0.01, 1, 0.1), slope=(0, 1, 0.5), level=(-5, 5, 0)))


def truth(rate, depth):
    return float(np.log(rate / 0.3) ** 2 + 0.2 * depth - 1)


def test_a_law_finds_the_minimum_and_its_parameters():
    result = minimize(truth, SPACE, 9, model=LOSS, progress=False)
    assert result.best["depth"] == 1
    assert result.best["rate"] == pytest.approx(0.3, rel=0.05)
    estimates = result.law.parameters()
    assert estimates["best"].lower < 0.3 < estimates["best"].upper
    assert estimates["slope"].lower < 0.2 < estimates["slope"].upper
    mean, deviation = result.law.predict([dict(rate=0.3, depth=2), dict(rate=0.1, depth=5)])
    expected = [truth(0.3, 2), truth(0.1, 5)]
    np.testing.assert_allclose(mean, expected, atol=0.1)
    assert (deviation > 0).all() and result.law.describes()


def test_a_run_with_a_law_in_batches_resumes(tmp_path):
    settings = dict(model=LOSS, batch=2, progress=False)
    whole = minimize(truth, SPACE, 6, **settings)
    file = tmp_path / "a.run"
    with_file = dict(settings, checkpoint=file)
    minimize(truth, SPACE, 4, **with_file)
    resumed = minimize(truth, SPACE, 6, **with_file)
    assert len(resumed.evaluations) == 6
    np.testing.assert_allclose(resumed.values, whole.values, atol=0.2)


def test_a_law_that_does_not_describe_the_values_warns():
    """As `run` does. The law has no maximum in between."""
    space = Space(rate=(0.01, 1.0, "log"))
    bent = Parametric(lambda rate, slope: slope * jnp.log(rate), dict(slope=(0.0, 9.0, 1.0)))
    data = [(dict(rate=float(r)), float(np.sin(3 * np.log(r)))) for r in np.geomspace(0.01, 1, 20)]
    with pytest.warns(UserWarning, match="the model does not describe the values"):
        minimize(
            lambda rate: np.sin(3 * np.log(rate)), space, 1, model=bent, data=data, progress=False
        )


def test_evaluations_at_which_a_law_is_not_finite_are_reported():
    def law(rate, slope):
        return jnp.where(rate < 0.012, jnp.nan, slope * rate)

    model = Parametric(law, dict(slope=(0.0, 9.0, 2.0)))
    space = Space(rate=(0.01, 1.0))
    data = [(dict(rate=r), float(r)) for r in np.linspace(0.01, 1, 6)]
    with pytest.warns(UserWarning, match="is not finite at some evaluations, which were left out"):
        minimize(lambda rate: rate, space, 1, model=model, data=data, progress=False)


def test_earlier_evaluations_begin_a_run_with_a_law():
    random = np.random.default_rng(0)
    settings = [dict(rate=float(10 ** random.uniform(-2, 0)), depth=d) for d in (1, 3, 5, 7, 8, 2)]
    data = [(s, truth(**s)) for s in settings] + [(dict(rate=0.5, depth=4), None)]
    result = minimize(truth, SPACE, 2, model=LOSS, data=data, progress=False)
    assert len(result.evaluations) == 2 and int(result.law.state.history.ok.sum()) == 8
    assert result.best["rate"] == pytest.approx(0.3, rel=0.05) and result.best["depth"] == 1


def test_a_law_has_the_units_of_its_space():
    law = SpaceLaw(LOSS, SPACE, sign=-1)
    unit = jnp.asarray(SPACE.encode(dict(rate=0.2, depth=3))) / 10
    inputs = law.arguments(unit)
    assert float(inputs["rate"]) == pytest.approx(0.2, rel=1e-5)
    assert float(inputs["depth"]) == pytest.approx(3)
    expected = loss(0.2, 3, *(jnp.asarray(v) for v in LOSS.guess.values()))
    assert float(law(law.guess, unit)) == pytest.approx(-float(expected), rel=1e-5)


@pytest.mark.parametrize(
    ("space", "model", "message"),
    [
        (SPACE, 3, "model must be a law"),
        ([1, 2, 3], LOSS, "a model needs a Space"),
        (Space(rate=(0.1, 1)), LOSS, "inputs are rate, depth, and the space has rate: use the"),
        (Space(rate=(0.1, 1), depth=["a", "b"]), LOSS, "depth is a list of choices"),
    ],
)
def test_errors_name_the_cause(space, model, message):
    with pytest.raises(ValueError, match=message):
        minimize(lambda *a, **k: 1.0, space, 4, model=model, progress=False)


def test_a_resumed_run_that_asks_for_fewer_evaluations_fits_all_of_them(tmp_path):
    arguments = dict(model=LOSS, progress=False, checkpoint=tmp_path / "law.run")
    whole, again = (minimize(truth, SPACE, n, **arguments) for n in (5, 3))
    assert len(again.evaluations) == int(again.law.state.history.ok.sum()) == 5
    for name, parameter in again.law.parameters().items():
        expected = whole.law.parameters()[name].value
        np.testing.assert_allclose(parameter.value, expected, rtol=1e-3)

"""Pictures of posteriors over one and two inputs."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from jsketch import Arms, Box, kernels, posterior

X = np.linspace(-1, 1, 6)[:, None]
Y = np.sin(2 * X[:, 0])


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_one_input_has_mean_band_and_evaluations():
    gp = posterior.condition(kernels.Gaussian(0.5), X, Y, 0.01)
    axes = posterior.plot(gp, Box(np.array([-2.0]), np.array([3.0])), X, Y)
    mean, dots = axes.lines
    grid = mean.get_xdata()
    assert grid.min() == -2 and grid.max() == 3
    np.testing.assert_allclose(mean.get_ydata(), gp.mean(grid[:, None]), atol=1e-12)
    np.testing.assert_array_equal(dots.get_xydata(), np.column_stack([X, Y]))
    band = axes.collections[0].get_datalim(axes.transData)
    upper = gp.mean(grid[:, None]) + 1.96 * np.sqrt(gp.variance(grid[:, None]))
    assert band.y1 == pytest.approx(float(upper.max()), rel=1e-9)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["95%", "mean", "evaluations"]
    # given axes are used, and no evaluations are needed
    given = plt.subplots()[1]
    assert posterior.plot(gp, Arms(X), axes=given) is given and len(given.lines) == 1


def test_two_inputs_have_mean_and_deviation():
    x = np.random.default_rng(0).uniform(0, 1, (8, 2))
    gp = posterior.condition(kernels.Gaussian(0.5), x, x[:, 0], 0.01)
    axes = posterior.plot(gp, x, x)
    assert [one.get_title() for one in axes] == ["mean", "standard deviation"]
    for one in axes:
        np.testing.assert_array_equal(one.lines[0].get_xydata(), x)
        assert one.collections[0].get_array().size > 5
    largest = float(np.sqrt(gp.variance(np.array([x.max(0), x.min(0)]))).max())
    assert axes[1].collections[0].norm.vmax >= largest - 0.02


def test_what_cannot_be_drawn_is_refused():
    gp = posterior.condition(kernels.Gaussian(0.5), X, Y, 0.01)
    three = posterior.condition(kernels.Gaussian(0.5), np.eye(3), np.ones(3), 0.01)
    two = posterior.condition(kernels.Gaussian(0.5), np.eye(2), np.ones(2), 0.01)
    rows = (
        (lambda: posterior.plot(three, np.eye(3)), "this one has 3"),
        (lambda: posterior.plot(gp, X, X), "need their rewards"),
        (lambda: posterior.plot(gp, X, np.eye(2), Y), "evaluations \\[n, 1\\]"),
        (lambda: posterior.plot(gp, X[:, 0]), "domain must be"),
        (lambda: posterior.plot(gp, X, y=Y), "at their points x, which were not given"),
        (lambda: posterior.plot(two, np.eye(2), np.eye(2), Y), "rewards \\[n\\] at the 2 points x"),
        (lambda: posterior.plot(gp, np.full((2, 1), np.nan)), "ends of the domain must be finite"),
        (lambda: posterior.plot(two, np.eye(2), axes=plt.subplots()[1]), "on two axes"),
    )
    for call, message in rows:
        with pytest.raises(ValueError, match=message):
            call()

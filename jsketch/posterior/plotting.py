"""Pictures of posteriors over one or two inputs. Needs matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

from jsketch import checks, struct
from jsketch.posterior.process import GaussianProcess
from jsketch.types import Arms, Box

LINE, GRID = 200, 60  # points of a line, and of each side of a grid
DEVIATIONS = 1.96  # half the width of a band of 95%


@struct.checked_names
def plot(
    gp: GaussianProcess, domain: Any, x: Any = None, y: Any = None, *, axes: Any = None
) -> Any:
    """Draws a posterior, and returns the axes. With one input it draws the mean and a band in which
    the function lies with probability 95%; with two inputs, filled contours of the mean and of the
    standard deviation.

    gp      a `GaussianProcess`
    domain  what is drawn: a `Box`, `Arms`, or points [n, d], whose smallest and largest inputs are
            the ends
    x       evaluations [n, d], drawn as points; None: there are none
    y       [n], their rewards, which the picture of one input needs
    axes    one matplotlib axes for one input, and two for two inputs; None: new ones

    Raises ValueError for more than two inputs, and for other shapes.

    Example:

        gp = posterior.condition(kernels.Gaussian(0.5), features, mean_reward, 0.01)
        mean_axes, deviation_axes = posterior.plot(gp, features, features)
    """
    import matplotlib.pyplot as plt

    lower, upper = _ends(domain)
    d = len(lower)
    if d not in (1, 2):
        raise ValueError(f"a posterior over one or two inputs can be drawn; this one has {d}.")
    points = None if x is None else np.asarray(checks.real("x", x), float)
    if points is not None and (points.ndim != 2 or points.shape[1] != d):
        raise ValueError(f"x must be evaluations [n, {d}]; its shape is {points.shape}.")
    rewards = None if y is None else np.asarray(checks.real("y", y), float)
    if points is None:
        if rewards is not None:
            raise ValueError("rewards y are drawn at their points x, which were not given.")
    elif rewards is not None and rewards.shape != points.shape[:1]:
        raise ValueError(
            f"y must be the rewards [n] at the {len(points)} points x; its shape is"
            f" {rewards.shape}."
        )
    elif d == 1 and rewards is None:
        raise ValueError("evaluations of one input need their rewards y [n].")
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise ValueError("the ends of the domain must be finite.")
    if axes is None:
        _, axes = plt.subplots(1, d, figsize=(6.4 if d == 1 else 9.6, 4), layout="constrained")
    if d == 1:
        grid = np.linspace(lower[0], upper[0], LINE)
        mean, deviation = _moments(gp, grid[:, None])
        low, high = mean - DEVIATIONS * deviation, mean + DEVIATIONS * deviation
        axes.fill_between(grid, low, high, alpha=0.25, linewidth=0, label="95%")
        axes.plot(grid, mean, label="mean")
        if points is not None:
            axes.plot(points[:, 0], rewards, "k.", markersize=4, alpha=0.6, label="evaluations")
        axes.set_xlabel("x")
        axes.set_ylabel("reward")
        axes.legend()
        return axes
    if np.size(axes) != 2:
        raise ValueError(
            "a posterior over two inputs is drawn on two axes, for mean and deviation."
        )
    sides = [np.linspace(low, high, GRID) for low, high in zip(lower, upper, strict=True)]
    grid = np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)
    titles = ("mean", "standard deviation")
    for one, values, title in zip(axes, _moments(gp, grid), titles, strict=True):
        contours = one.contourf(*sides, values.reshape(GRID, GRID), levels=20)
        one.figure.colorbar(contours, ax=one)
        if points is not None:
            one.plot(*points.T, "w.", markersize=5, markeredgecolor="k", markeredgewidth=0.4)
        one.set(title=title, xlabel="x[0]", ylabel="x[1]")
    return axes


def _ends(domain: Any) -> tuple[np.ndarray, np.ndarray]:
    """(the smallest [d], the largest [d]) inputs of a domain."""
    if isinstance(domain, Box):
        return np.asarray(domain.lower, float), np.asarray(domain.upper, float)
    points = domain.features if isinstance(domain, Arms) else domain
    points = np.asarray(checks.real("domain", points), float)
    if points.ndim != 2 or not points.size:
        raise ValueError(
            f"domain must be a Box, Arms, or points [n, d]; its shape is {points.shape}."
        )
    return points.min(0), points.max(0)


def _moments(gp: GaussianProcess, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(means [n], standard deviations [n]) at points x [n,d]."""
    return np.asarray(gp.mean(x)), np.sqrt(np.asarray(gp.variance(x)))

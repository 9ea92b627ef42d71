"""The pictures of the page of a suggestion, each as the bytes of a PNG."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from experiments.figures.drawing import STYLE

BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "0.75", "#009E73"
MOST_COLUMNS = 12  # whose importance is shown
SIZE = {"figure.figsize": (4.6, 3.4), "savefig.dpi": 150}


def _png(figure: plt.Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    plt.close(figure)
    return buffer.getvalue()


def _axes(x: str, y: str) -> tuple[plt.Figure, Axes]:
    figure, axes = plt.subplots()
    axes.set_axisbelow(True)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def fit(observed: np.ndarray, mean: np.ndarray, std: np.ndarray) -> bytes:
    """Each value [k] against its prediction from the others, +- a standard deviation."""
    with plt.rc_context(STYLE | SIZE):
        figure, axes = _axes("predicted from the others", "observed")
        ends = min(observed.min(), mean.min()), max(observed.max(), mean.max())
        axes.plot(ends, ends, color="0.4", linewidth=0.8)
        axes.errorbar(
            mean, observed, xerr=std, fmt="o", color=BLUE, markersize=3, elinewidth=0.6, alpha=0.8
        )
        return _png(figure)


def best_so_far(values: np.ndarray, best: np.ndarray) -> bytes:
    """Values [n] in the order of their table, NaN for a failed one, and the best until then."""
    with plt.rc_context(STYLE | SIZE):
        figure, axes = _axes("evaluation, in the order of the table", "value")
        t = np.arange(1, len(values) + 1)
        axes.plot(t, values, "o", color=GREY, markersize=3, label="each")
        axes.step(t, best, where="post", color=BLUE, label="best so far")
        failed = np.flatnonzero(np.isnan(values))
        if failed.size:
            # where the worst values are
            worst = np.nanmin if best[-1] == np.nanmax(values) else np.nanmax
            at = np.full(failed.size, worst(values))
            axes.plot(t[failed], at, "x", color=ORANGE, markersize=4, label="failed")
        figure.legend(loc="outside lower center", ncols=3)
        return _png(figure)


def map_of(
    points: np.ndarray, library: np.ndarray, seen: np.ndarray, values: np.ndarray, batch: np.ndarray
) -> bytes:
    """Points [A,2]: rows of the library that are shown, those evaluated with their values, and the
    batch."""
    with plt.rc_context(STYLE | SIZE):
        figure, axes = _axes("first principal component", "second")
        axes.plot(*points[library].T, ".", color=GREY, markersize=2, zorder=1, label="library")
        if len(seen):
            x, y = points[seen].T
            drawn = axes.scatter(x, y, c=values, cmap="viridis", s=18, zorder=2, label="evaluated")
            figure.colorbar(drawn, label="value")
        axes.plot(
            *points[batch].T,
            "o",
            color=ORANGE,
            markersize=7,
            fillstyle="none",
            zorder=3,
            label="next batch",
        )
        axes.grid(False)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        figure.legend(loc="outside lower center", ncols=3)
        return _png(figure)


def importance(names: list[str], lengthscale: np.ndarray) -> bytes:
    """Bars of 1 / lengthscale of the columns that matter most."""
    order = np.argsort(lengthscale, kind="stable")[:MOST_COLUMNS][::-1]
    with plt.rc_context(STYLE | SIZE):
        figure, axes = _axes("1 / lengthscale", "")
        shown = [name if len(name) < 24 else name[:22] + "..." for name in names]
        axes.barh(range(len(order)), 1 / lengthscale[order], color=BLUE)
        axes.set_yticks(range(len(order)), [shown[i] for i in order])
        axes.grid(False, axis="y")
        return _png(figure)


def certificate(count: np.ndarray, gap: np.ndarray, noise: float) -> bytes:
    """What may still be gained [k] after so many evaluations [k], beside the noise of a value."""
    with plt.rc_context(STYLE | SIZE):
        figure, axes = _axes("evaluations", "what may still be gained")
        axes.plot(count, gap, "o-", color=BLUE, markersize=3, label="certificate")
        axes.axhline(noise, color=ORANGE, linestyle="--", label="noise of one value")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2)
        return _png(figure)

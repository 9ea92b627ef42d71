"""The pictures of the page of a suggestion. Each function returns the bytes of a PNG file."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from experiments.figures.drawing import STYLE

BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "0.75", "#009E73"
MOST_COLUMNS = 12  # in the picture of importance
# the name of a column may contain "$", which starts a formula in matplotlib
PAGE_STYLE = STYLE | {"figure.figsize": (5.6, 4.0), "text.parse_math": False}


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
    """Each value [k] against its prediction from the others, with a bar of one standard
    deviation."""
    with plt.rc_context(PAGE_STYLE):
        figure, axes = _axes("predicted from the others", "observed")
        ends = min(observed.min(), mean.min()), max(observed.max(), mean.max())
        axes.plot(ends, ends, color="0.4", linewidth=0.8)
        axes.errorbar(
            mean, observed, xerr=std, fmt="o", color=BLUE, markersize=3, elinewidth=0.6, alpha=0.8
        )
        return _png(figure)


def best_so_far(values: np.ndarray, best: np.ndarray) -> bytes:
    """Values [n] in the order of their table, NaN for failed evaluations, and the best value up to
    each."""
    with plt.rc_context(PAGE_STYLE):
        figure, axes = _axes("evaluation, in the order of the table", "value")
        t = np.arange(1, len(values) + 1)
        axes.plot(t, values, "o", color=GREY, markersize=3, label="each")
        axes.step(t, best, where="post", color=BLUE, label="best so far")
        failed = np.flatnonzero(np.isnan(values))
        if failed.size:
            # at the height of the worst value
            worst = np.nanmin if best[-1] == np.nanmax(values) else np.nanmax
            at = np.full(failed.size, worst(values))
            axes.plot(t[failed], at, "x", color=ORANGE, markersize=4, label="failed")
        figure.legend(loc="outside lower center", ncols=3)
        return _png(figure)


def map_of(
    points: np.ndarray, library: np.ndarray, seen: np.ndarray, values: np.ndarray, batch: np.ndarray
) -> bytes:
    """A map of points [A,2]: the rows `library`, the evaluated rows `seen` in the colours of their
    values, and the rows of the batch."""
    with plt.rc_context(PAGE_STYLE):
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
    """Bars of the inverse lengthscales, for the columns with the shortest lengthscales."""
    order = np.argsort(lengthscale, kind="stable")[:MOST_COLUMNS][::-1]
    with plt.rc_context(PAGE_STYLE):
        figure, axes = _axes("1 / lengthscale", "")
        shown = [name if len(name) < 24 else name[:22] + "..." for name in names]
        axes.barh(range(len(order)), 1 / lengthscale[order], color=BLUE)
        axes.set_yticks(range(len(order)), [shown[i] for i in order])
        axes.grid(False, axis="y")
        return _png(figure)


def certificate(count: np.ndarray, gap: np.ndarray, noise: float) -> bytes:
    """The certificate's gap [k] against the number of evaluations [k], and the noise of a value."""
    with plt.rc_context(PAGE_STYLE):
        figure, axes = _axes("evaluations", "largest possible gain")
        axes.plot(count, gap, "o-", color=BLUE, markersize=3, label="certificate")
        axes.axhline(noise, color=ORANGE, linestyle="--", label="noise of one value")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2)
        return _png(figure)

"""Statistics over runs: means with 95% intervals, fitted powers, and printed tables."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.figures.styles import label


def ci95(values: Sequence[float] | np.ndarray) -> float:
    """Half width of the 95% interval of the mean over runs: 1.96 sd / sqrt(n) with the sample
    standard deviation (n - 1); NaN for a single run. The normal quantile is the papers' convention;
    for 10 runs Student's would be 2.26."""
    values = np.asarray(values, dtype=float)
    if values.size < 2:
        return float("nan")
    return float(1.96 * values.std(ddof=1) / np.sqrt(values.size))


def with_error(number: float, half_width: float, latex: bool = False) -> str:
    r"""0.0894 ± 0.0012, with two digits of the half width; $0.0894 \pm 0.0012$ for LaTeX. Without a
    half width, which one seed does not have, the number has three digits; -- if it is not
    finite."""
    if not math.isfinite(number):
        return "--"
    if not half_width > 0 or not math.isfinite(half_width):
        return f"{number:.3g}"
    digits = max(0, 1 - math.floor(math.log10(half_width)))
    texts = f"{number:.{digits}f}", f"{half_width:.{digits}f}"
    return rf"${texts[0]} \pm {texts[1]}$" if latex else f"{texts[0]} ± {texts[1]}"


def statistics(
    numbers: Sequence[float] | np.ndarray, ci: bool = False, values: bool = True
) -> dict[str, Any]:
    """{"mean": the mean of `numbers`, one for each seed}. `ci` adds "ci95", the half width of its
    95% interval, None for a single seed; `values` adds the numbers themselves as "values"."""
    numbers = np.asarray(numbers, dtype=float)
    interval = {"ci95": ci95(numbers) if numbers.size > 1 else None} if ci else {}
    all_values = {"values": numbers.tolist()} if values else {}
    return {"mean": float(numbers.mean()), **interval, **all_values}


def log_slope(x: np.ndarray, y: np.ndarray) -> float:
    """Least-squares slope of log y on log x over the last decade of x: y grows as this power of x.
    Points with x <= 0 or y <= 0 are ignored; NaN if y has a NaN, and for fewer than two values of
    x."""
    if np.isnan(y).any():
        return float("nan")
    used = (x >= x.max() / 10) & (x > 0) & (y > 0)
    if len(np.unique(x[used])) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x[used]), np.log(y[used]), 1)[0])


def growth(x: np.ndarray, y: np.ndarray) -> float:
    """The power p in [0.05, 4] of the least-squares fit a + c x^p. It is 1 for every straight line;
    the slope on log axes is 1 only for lines through 0. NaN if y has a NaN, and for fewer than
    three values of x."""
    if np.isnan(y).any() or len(np.unique(x)) < 3:
        return float("nan")
    powers = np.arange(0.05, 4.005, 0.01)
    curves = (x / x.max()) ** powers[:, None]  # [P,N]: x^p for P powers
    curves = curves - curves.mean(1, keepdims=True)
    # the sum of squares of y that each fit explains
    explained = (curves @ (y - y.mean())) ** 2 / np.square(curves).sum(1)
    return float(powers[np.argmax(explained)])


def print_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Prints a row of numbers for each method; a number may be a dict of `statistics`."""

    def cell(value: Any) -> str:
        if not isinstance(value, dict):
            return "-" if value is None else f"{value:.4g}"
        half_width = value.get("ci95")
        return with_error(value["mean"], math.nan if half_width is None else half_width)

    cells = {
        label(name): {field.replace("_", " "): cell(value) for field, value in row.items()}
        for name, row in rows.items()
    }
    table = pd.DataFrame.from_dict(cells, orient="index").fillna("-")
    print(f"\n{title}\n{table.to_string()}", flush=True)

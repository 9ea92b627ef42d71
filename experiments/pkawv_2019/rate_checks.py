"""Checks of PKAWV's claims on rates: Figure 1, Table 1 and the corollaries."""

import numpy as np

from experiments.claims import (
    Finding,
    Missing,
    Source,
    entry,
    list_numbers,
    number,
    read_sibling,
)

ABOVE = 0.1  # the largest excess of a measured exponent
LOGARITHM = 0.14  # the contribution of a factor log n to an exponent at n = 1,024
CLOSE = 1.05  # the largest ratio to the exact forecaster's regret


def reaches_optimum(source: Source) -> Finding:
    holds, text = True, []
    for key, rows in entry(source, "measured").items():
        gamma = float(key)
        optimal, size = gamma / (1 + gamma), 2 * gamma / (1 + gamma)
        large = [a for a in rows if float(a) >= size]
        if not large:
            continue
        row = ("measured", key, large[0])
        found, error = number(source, *row, "exponent"), number(source, *row, "standard_error")
        holds &= abs(found - optimal) <= 1.96 * error
        text.append(
            f"gamma {key}: {found:.3f} ± {1.96 * error:.3f} at a = {large[0]}, optimal"
            f" {optimal:.3f}"
        )
    if not text:
        raise Missing("no measured size is as large as 2 gamma / (1 + gamma)")
    return Finding(f"{'; '.join(text)}.", bool(holds))


def on_the_line(source: Source) -> Finding:
    gaps = {}
    for gamma, rows in entry(source, "measured").items():
        pairs = [
            [number(source, "measured", gamma, a, of) for of in ("exponent", "bound")] for a in rows
        ]
        gaps[f"gamma {gamma}"] = max(abs(found - bound) for found, bound in pairs)
    text = list_numbers(list(gaps), list(gaps.values()))
    return Finding(
        f"Largest distance of a measured exponent from the bound: {text}.",
        max(gaps.values()) <= 0.1,
    )


def levels_off(source: Source) -> Finding:
    holds, text = True, []
    for key, curves in entry(source, "theory", "exponents").items():
        gamma, least = float(key), min(curves["pros_n_kons"])
        printed = 4 * gamma / (1 + gamma) ** 2
        holds &= abs(min(printed, 1) - least) <= 0.01
        text.append(f"gamma {key}: {least:.3f}, printed {printed:.3f}")
    return Finding(f"By the bounds (8): {'; '.join(text)}.", holds, _measured_pros_n_kons(source))


def _measured_pros_n_kons(source: Source) -> str:
    """Measured exponents where the bounds (8) are least; empty without them."""
    try:
        rows = entry(read_sibling(source, "pros_n_kons_rates"), "measured")
    except Missing:
        return ""
    least = {gamma: min(found, key=lambda row: row["bound"]) for gamma, found in rows.items()}
    text = "; ".join(
        f"gamma {gamma}: {row['exponent']:.3f} ± {1.96 * row['standard_error']:.3f} at a ="
        f" {row['a']:.2f}"
        for gamma, row in least.items()
    )
    return f"Measured where (8) is least: {text}."


def corollary_7(source: Source) -> Finding:
    """Exponents of PKAWV with KORS against the bounds (8), and of its points against a."""
    rows = entry(read_sibling(source, "nystrom_rates"), "measured")
    above, larger, text = -np.inf, -np.inf, []
    for gamma, found in rows.items():
        above = max(above, *(row["exponent"] - row["bound"] for row in found))
        larger = max(larger, *(row["size_exponent"] - row["a"] for row in found))
        pairs = ", ".join(
            f"{row['exponent']:.2f} ({row['bound']:.2f}) with n^{row['size_exponent']:.2f} points"
            f" ({row['a']:.2f})"
            for row in found
        )
        text.append(f"gamma {gamma}: {pairs}")
    return Finding(
        f"Measured exponents (by (8), a): {'; '.join(text)}.",
        bool(above <= ABOVE and larger <= LOGARITHM),
    )


def degree_grows(source: Source) -> Finding:
    """The growing degrees of Theorem 4 against exact Kernel-AWV and the theorem's bound."""
    holds, text = True, []
    for name, row in entry(source, "measured").items():
        regret = {of: [at["mean"] for at in found] for of, found in row["regret"].items()}
        pairs = zip(regret["growing"], regret["kernel_awv"], row["bound"], strict=True)
        holds &= all(ours <= CLOSE * exact and ours <= most for ours, exact, most in pairs)
        last = {of: values[-1] for of, values in regret.items()}
        text.append(
            f"{name}: degrees {row['degrees'][0]} to {row['degrees'][-1]}"
            f" {last.pop('growing'):.1f}, {list_numbers(list(last), list(last.values()), 1)}, bound"
            f" {row['bound'][-1]:.0f}"
        )
    n = entry(source, "config", "counts")[-1]
    return Finding(f"Regret after n = {n:,}: {'. '.join(text)}.", bool(holds))


def beats_sketched_kons(source: Source) -> Finding:
    # imports JAX and matplotlib, which the other checks do not need
    from experiments.pkawv_2019 import rates

    # the bounds need no run
    del source
    above = rates.curve("pkawv", 0.5) - rates.curve("sketched_kons", 0.5)
    at = int(np.argmax(above))
    return Finding(
        f"By the bounds (8) at gamma = 1/2: up to {above[at]:+.3f} above Sketched-KONS's, at a ="
        f" {rates.SIZES[at]:.2f}.",
        bool(above[at] <= 1e-9),
    )

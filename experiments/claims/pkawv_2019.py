"""Claims of PKAWV (Jézéquel, Gaillard, Rudi, NeurIPS 2019)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.claims.base import (
    Claim,
    Experiment,
    Figure,
    Found,
    Missing,
    Paper,
    Source,
    entry,
    line,
    listed,
    mean,
    number,
    shown,
    written,
)

SKETCHES = ("taylor_2", "taylor_3", "nystrom")
# average losses on casp printed by the notebook of the first author (labels scaled as there)
NOTEBOOK = dict(taylor_2=0.061, taylor_3=0.0605, nystrom=0.0605, fogd=0.0705, pros_n_kons=0.081)


def _of(source: Source, names: tuple[str, ...], field: str) -> list[float]:
    return [number(source, "methods", name, field) for name in names]


def as_notebook(*names: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        ours = _of(source, names, "average_loss")
        published = [NOTEBOOK[name] for name in names]
        holds = all(abs(a / b - 1) <= 0.02 for a, b in zip(ours, published, strict=True))
        return Found(f"Ours: {listed(names, ours, 4)}; published: {listed(names, published, 4)}.", holds)

    return check


def near_exact(source: Source) -> Found:
    n, exact = line(source, "average_loss", "kernel_ridge")
    at, sketched = line(source, "average_loss", "taylor_2")
    there = float(np.interp(n[-1], at, sketched))
    return Found(
        f"Average loss at n = {n[-1]:,}, where the exact one stopped: {exact[-1]:.4f} exact, {there:.4f} with M = 2.",
        there <= 1.05 * exact[-1],
    )


def degree_two_is_fastest(source: Source) -> Found:
    names = ("taylor_2", "taylor_3", "nystrom", "fogd", "pros_n_kons", "kernel_ridge")
    seconds = _of(source, names, "seconds")
    return Found(f"Seconds: {listed(names, seconds, 2)}.", seconds[0] == min(seconds))


def nystrom_as_taylor(source: Source) -> Found:
    names = ("taylor_3", "nystrom")
    losses = _of(source, names, "average_loss")
    return Found(f"Average loss: {listed(names, losses, 4)}.", abs(losses[1] / losses[0] - 1) <= 0.02)


def others_are_worse(source: Source) -> Found:
    names = (*SKETCHES, "fogd", "pros_n_kons")
    losses = _of(source, names, "average_loss")
    return Found(f"Average loss: {listed(names, losses, 4)}.", max(losses[:3]) < min(losses[3:]))


def nystrom_is_slowest(source: Source) -> Found:
    names = ("nystrom", "taylor_2", "taylor_3", "fogd", "pros_n_kons")
    seconds = _of(source, names, "seconds")
    return Found(f"Seconds: {listed(names, seconds, 2)}.", seconds[0] == max(seconds))


def close_and_fast(source: Source) -> Found:
    """Signs: the error of M = 2 against the best of all methods, and its time."""
    names = tuple(entry(source, "methods"))
    errors, seconds = _of(source, names, "error_rate"), _of(source, names, "seconds")
    ours = names.index("taylor_2") if "taylor_2" in names else -1
    if ours < 0:
        raise Missing("this run has no taylor_2")
    return Found(
        f"0/1 error: {listed(names, errors, 4)}; seconds: {listed(names, seconds, 1)}.",
        errors[ours] <= 1.05 * min(errors) and seconds[ours] <= 2 * min(seconds),
    )


def _regrets(source: Source, names: tuple[str, ...]) -> str:
    return written({name: shown(source, "methods", name, "regret", digits=1) for name in names})


def ordered(*names: str) -> Callable[[Source], Found]:
    """The regrets grow in the order of the names."""

    def check(source: Source) -> Found:
        regrets = [mean(source, "methods", name, "regret") for name in names]
        return Found(f"Regret after all rounds: {_regrets(source, names)}.", regrets == sorted(regrets))

    return check


def extreme(name: str, pick: Callable[[list[float]], float]) -> Callable[[Source], Found]:
    """The method has the least (or largest) regret of all."""

    def check(source: Source) -> Found:
        names = tuple(entry(source, "methods"))
        regrets = {other: mean(source, "methods", other, "regret") for other in names}
        if name not in regrets:
            raise Missing(f"this run has no {name}")
        return Found(
            f"Regret after all rounds: {_regrets(source, names)}.",
            regrets[name] == pick(list(regrets.values())),
        )

    return check


def reaches_optimum(source: Source) -> Found:
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
        text.append(f"gamma {key}: {found:.3f} ± {1.96 * error:.3f} at a = {large[0]}, optimal {optimal:.3f}")
    if not text:
        raise Missing("no measured size is as large as 2 gamma / (1 + gamma)")
    return Found(f"{'; '.join(text)}.", bool(holds))


def on_the_line(source: Source) -> Found:
    gaps = {}
    for gamma, rows in entry(source, "measured").items():
        pairs = [[number(source, "measured", gamma, a, of) for of in ("exponent", "bound")] for a in rows]
        gaps[f"gamma {gamma}"] = max(abs(found - bound) for found, bound in pairs)
    text = listed(list(gaps), list(gaps.values()))
    return Found(
        f"Largest distance of a measured exponent from the bound: {text}.", max(gaps.values()) <= 0.1
    )


def levels_off(source: Source) -> Found:
    holds, text = True, []
    for key, curves in entry(source, "theory", "exponents").items():
        gamma, least = float(key), min(curves["pros_n_kons"])
        printed = 4 * gamma / (1 + gamma) ** 2
        holds &= abs(min(printed, 1) - least) <= 0.01
        text.append(f"gamma {key}: {least:.3f}, printed {printed:.3f}")
    return Found(f"By the bounds (8): {'; '.join(text)}.", holds)


def beats_sketched_kons(source: Source) -> Found:
    from experiments.pkawv_2019 import rates  # imports JAX and matplotlib, which nothing else here needs

    del source  # the bounds need no run
    above = rates.curve("pkawv", 0.5) - rates.curve("sketched_kons", 0.5)
    at = int(np.argmax(above))
    return Found(
        f"By the bounds (8) at gamma = 1/2: up to {above[at]:+.3f} above Sketched-KONS's, at a = {rates.SIZES[at]:.2f}.",
        bool(above[at] <= 1e-9),
    )


_RUN = "python -m experiments.pkawv_2019"


def _stream(name: str, title: str, item: str, note: str, *claims: Claim, classes: bool = True) -> Experiment:
    first = ("error", "0/1 error") if classes else ("loss", "Average squared loss")
    return Experiment(
        f"pkawv_2019/{name}",
        f"{item}: {title}",
        f"{_RUN}.large_scale --data {name} --out results/pkawv_2019/{name}",
        note,
        (
            Figure(
                f"{first[0]}.png", f"{first[1]} on {title} against examples, one line for each forecaster"
            ),
            Figure(
                "time.png", f"Seconds on {title} against examples on log axes, one line for each forecaster"
            ),
            Figure(
                "loss_at_time.png",
                f"Average squared loss on {title} against seconds, one line for each forecaster",
            ),
        ),
        claims,
    )


def _signs(item: str) -> Claim:
    return Claim(
        item,
        "Taylor features of degree 2 are close to the best forecaster, and fast.",
        "0/1 error within 5% of the least of all methods, in at most twice the least time.",
        close_and_fast,
    )


_NOT_AT_HAND = "The data are not at hand: put the file into the data folder first (the command says which)."
CASP = _stream(
    "casp",
    "casp",
    "Figure 4",
    "The first author's settings, scaling and prediction (projected kernel ridge regression).",
    Claim("Figure 4", "PKAWV's average losses.", "Within 2% of the published ones.", as_notebook(*SKETCHES)),
    Claim("Figure 4", "FOGD's average loss.", "Within 2% of the published one.", as_notebook("fogd")),
    Claim(
        "Figure 4",
        "Pros-N-KONS's average loss.",
        "Within 2% of the published one.",
        as_notebook("pros_n_kons"),
    ),
    Claim(
        "Figure 4",
        "Taylor features of degree 2 are close to the kernel forecaster.",
        "Average loss at most 5% above the exact one's where that stopped.",
        near_exact,
    ),
    Claim("Figure 4", "They are fast.", "Least time of the paper's methods.", degree_two_is_fastest),
    Claim(
        "Figure 4",
        "Nyström is as good as Taylor features of degree 3.",
        "Losses within 2%.",
        nystrom_as_taylor,
    ),
    Claim(
        "Figure 4",
        "FOGD and Pros-N-KONS are worse than PKAWV.",
        "Both losses above all of PKAWV's.",
        others_are_worse,
    ),
    Claim("Figure 4", "Nyström is the slowest of the sketches.", "Most seconds.", nystrom_is_slowest),
    classes=False,
)
ADVERSARY = Experiment(
    "pkawv_2019/adversarial",
    "Figure 3: the greedy adversary",
    f"{_RUN}.adversarial --out results/pkawv_2019/adversarial",
    "Our adversary climbs by gradients from many starts and is stronger than the notebook's single start.",
    (
        Figure(
            "regret.png",
            "Regret against examples in games with the adversary, one line for each forecaster, 95% bands",
        ),
    ),
    (
        Claim(
            "Figure 3",
            "Kernel-AWV has the lowest regret.",
            "Least mean of all methods.",
            extreme("kernel_awv", min),
        ),
        Claim(
            "Figure 3",
            "Taylor features approach Kernel-AWV as M grows.",
            "Means in the order Kernel-AWV, M = 4, 3, 2.",
            ordered("kernel_awv", "taylor_4", "taylor_3", "taylor_2"),
        ),
        Claim(
            "Figure 3", "Pros-N-KONS is worst.", "Largest mean of all methods.", extreme("pros_n_kons", max)
        ),
        Claim(
            "Figure 3",
            "FOGD is surprisingly good.",
            "Mean below Taylor M = 2's.",
            ordered("fogd", "taylor_2"),
        ),
        Claim(
            "Figure 3",
            "Nyström follows Kernel-AWV.",
            "Mean below Taylor M = 4's.",
            ordered("kernel_awv", "nystrom", "taylor_4"),
        ),
    ),
)
RATES = Experiment(
    "pkawv_2019/rates",
    "Figure 1 and Table 1: rates",
    f"{_RUN}.rates --out results/pkawv_2019/rates",
    "Curves of the bounds (8); exponents measured with features chosen beforehand, under the capacity condition.",
    (
        Figure(
            "rates.png",
            "Exponent of the regret against exponent of the dictionary size for three values of gamma: bounds of four"
            " methods, and measured exponents with intervals along the bound for features chosen beforehand",
        ),
    ),
    (
        Claim(
            "Figure 1",
            "Features chosen beforehand reach the optimal exponent gamma / (1 + gamma) at a = 2 gamma / (1 + gamma).",
            "The optimum is in the 95% interval at the first measured size not below that, for each gamma that has one.",
            reaches_optimum,
        ),
        Claim(
            "Figure 1",
            "With fewer features the exponent grows along a line.",
            "All measured exponents within 0.1 of the bound.",
            on_the_line,
        ),
        Claim(
            "Table 1",
            "Pros-N-KONS levels off at the exponent 4 gamma / (1 + gamma)^2.",
            "The printed exponent is the least one that the paper's own bounds (8) give, within 0.01.",
            levels_off,
        ),
        Claim(
            "Section 3",
            "PKAWV's rate beats that of Sketched-KONS for gamma up to 1/2.",
            "By the bounds (8), its exponent is nowhere above at gamma = 1/2.",
            beats_sketched_kons,
        ),
    ),
)

PAPER = Paper(
    "PKAWV",
    "Efficient online learning with kernels for adversarial large scale problems (NeurIPS 2019)",
    (
        RATES,
        _stream("cod_rna", "cod-rna", "Figure 2", _NOT_AT_HAND, _signs("Figure 2")),
        _stream("susy", "SUSY", "Figure 2", _NOT_AT_HAND, _signs("Figure 2")),
        ADVERSARY,
        CASP,
        _stream("ijcnn1", "ijcnn1", "Figure 4", _NOT_AT_HAND, _signs("Figure 4")),
    ),
)

"""Claims of BKB (Calandriello, Carratino, Lazaric, Valko, Rosasco, COLT 2019)."""

from __future__ import annotations

from experiments.bkb_2019 import checks
from experiments.claims import Claim, Experiment, Figure, Paper

_LINEAR_NOTE = (
    "The paper argues this and runs nothing. Here: 500 generated arms in 40 dimensions, sketch size"
    " 10."
)
_LINEAR_RULE = (
    f"Exponent of the regret between T/2 and T at least {checks.LINEAR_EXPONENT} (1 is linear), and"
    " BKB's below. One that is smaller but still rises, beyond the 95% interval, decides nothing."
)
_BOUNDS = (
    "a measurable statement: the paper compares bounds on the regret and runs nothing, and which of"
    " the two is ahead in a run depends on arms, sketch and widths, all chosen here"
)
_BELOW = Claim(
    "Section 5",
    "BKB has less regret than SOFUL.",
    "Its mean is below SOFUL's.",
    checks.below_soful,
    _BOUNDS,
)
_SOFUL_LINEAR = Claim(
    "Section 1",
    "A sketch of fixed size (SOFUL) suffers linear regret where the spectrum is too long for it;"
    " BKB does not.",
    _LINEAR_RULE,
    checks.linear_regret("soful"),
)


def _linear(name: str, title: str, *claims: Claim) -> Experiment:
    alt = (
        f"Curves of the regret ratio against evaluations for linear bandits, {title}, one line for"
        " each algorithm"
    )
    return Experiment(
        f"bkb_2019/{name}",
        f"Linear bandits, {title}",
        _LINEAR_NOTE,
        (Figure("regret_ratio.png", alt),),
        claims,
    )


_STARVED_FIGURE = (
    Figure(
        "variance_starvation.png",
        "Posteriors of four methods after 6, 63 and 215 evaluations: the bars of the exact GP"
        " and of BKB open where nothing was seen, those of the subset of regressors close,"
        " those of random Fourier features are too narrow",
    ),
)
_STARVATION = (
    Claim(
        "Figure 2",
        "Where nothing was observed, BKB's error bars stay at the prior.",
        "Smallest sd over the exact GP's at least 0.95, mean of the draws, at every t.",
        checks.keeps_prior("bkb"),
    ),
    Claim(
        "Figure 2",
        "Where f was observed, BKB's error bars follow the exact GP's.",
        "Within 10% at every point, mean of the draws, at every t.",
        checks.follows_exact,
        cause="Theorem 1 promises nothing for the q_bar = 2 of the code: a dictionary may leave out"
        " a region that was observed.",
    ),
    Claim(
        "Figure 2",
        "The subset of regressors starves: its error bars miss f where nothing was observed.",
        f"f lies outside mean ± 3 sd at least {checks.STARVED} times as often as with the exact"
        " GP, at every t.",
        checks.starves("sor"),
    ),
    Claim(
        "Figure 2",
        "Random Fourier features starve as well.",
        f"f lies outside mean ± 3 sd at least {checks.STARVED} times as often as with the exact"
        " GP, at every t.",
        checks.starves("rff"),
    ),
    Claim(
        "Section 5",
        "Quadrature Fourier features do not starve when there are enough nodes (one dimension).",
        "Smallest sd over the exact GP's at least 0.95, mean of the draws, at every t.",
        checks.keeps_prior("qff"),
    ),
)


def _starvation(name: str, kernel: str) -> Experiment:
    return Experiment(
        f"bkb_2019/{name}",
        f"Figure 2: variance starvation, {kernel}",
        "Generated GP draws on [0, 1], evaluated on [0, 0.5] only. The bandwidth of the paper, 100,"
        " is read as an inverse width: as the poster's curves have it, and as 1 / lengthscale"
        " squared beside it.",
        _STARVED_FIGURE,
        _STARVATION,
    )


PAPER = Paper(
    "BKB",
    "Gaussian process optimization with adaptive sketching (COLT 2019)",
    (
        _starvation("variance_starvation", "k = exp(-50 d^2)"),
        _starvation("variance_starvation_poster", "k = exp(-100 d^2)"),
        _linear(
            "linear_slow",
            "slowly decaying spectrum",
            _SOFUL_LINEAR,
            Claim(
                "Section 1",
                "So does a random projection of fixed size (CBRAP).",
                _LINEAR_RULE,
                checks.linear_regret("cbrap"),
            ),
            _BELOW,
            Claim(
                "Section 1",
                "BKB finds the size of its dictionary by itself.",
                "At least twice as many inducing points with the slow spectrum as with either short"
                " one.",
                checks.finds_size,
            ),
        ),
        _linear("linear_fast", "fast decaying spectrum", _BELOW),
        _linear(
            "linear_low_rank",
            "low rank",
            Claim(
                "Section 5",
                "SOFUL is as good as its unsketched form when the arms span no more dimensions than"
                " its sketch.",
                "Regret within 1% of GP-UCB's.",
                checks.as_unsketched,
            ),
            _BELOW,
        ),
        _linear(
            "linear_fast_small_regularization",
            "fast spectrum, lambda = noise squared",
            _SOFUL_LINEAR,
            _BELOW,
        ),
    ),
)

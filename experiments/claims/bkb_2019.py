"""Claims of BKB (Calandriello, Carratino, Lazaric, Valko, Rosasco, COLT 2019)."""

from __future__ import annotations

from collections.abc import Callable

from experiments.claims.base import (
    Claim,
    Experiment,
    Figure,
    Found,
    Paper,
    Source,
    beside,
    entry,
    listed,
    mean,
    number,
    shown,
)

LINEAR_EXPONENT = 0.9  # of the regret between T/2 and T: 1 is linear
STARVED = 5  # times the exact GP's share of f outside its bars


def _over_t(source: Source, method: str, field: str, of: str = "mean") -> dict[str, float]:
    """A number of a method for each t."""
    return {
        t: number(source, "evaluations", t, "methods", method, field, of)
        for t in entry(source, "evaluations")
    }


def _at(values: dict[str, float], digits: int = 3) -> str:
    return ", ".join(f"{value:.{digits}f} (t = {t})" for t, value in values.items())


def keeps_prior(method: str) -> Callable[[Source], Found]:
    """Error bars of the unseen half against the exact ones."""

    def check(source: Source) -> Found:
        ratio = _over_t(source, method, "smallest_ratio_to_exact_unseen")
        return Found(
            f"Smallest sd over the exact GP's, mean of the draws: {_at(ratio)}.", min(ratio.values()) >= 0.95
        )

    return check


def follows_exact(source: Source) -> Found:
    low = _over_t(source, "bkb", "smallest_ratio_to_exact_seen")
    high = _over_t(source, "bkb", "largest_ratio_to_exact_seen")
    holds = min(low.values()) >= 0.9 and max(high.values()) <= 1.1
    return Found(f"sd over the exact GP's: at least {_at(low)}; at most {_at(high)}.", holds)


def starves(method: str) -> Callable[[Source], Found]:
    """The share of the unseen half on which f leaves the error bars."""

    def check(source: Source) -> Found:
        share = _over_t(source, method, "share_of_f_outside_3_std_unseen")
        exact = _over_t(source, "exact", "share_of_f_outside_3_std_unseen")
        return Found(
            f"Share of the unseen half where f is outside: {_at(share)}; with the exact GP {_at(exact)}.",
            all(share[t] >= STARVED * exact[t] for t in share),
        )

    return check


def linear_regret(method: str) -> Callable[[Source], Found]:
    def check(source: Source) -> Found:
        exponents = {name: mean(source, "algorithms", name, "regret_exponent") for name in (method, "bkb")}
        return Found(
            f"Exponents: {listed(list(exponents), list(exponents.values()), 2)}.",
            exponents[method] >= LINEAR_EXPONENT and exponents["bkb"] < LINEAR_EXPONENT,
        )

    return check


def below_soful(source: Source) -> Found:
    keys = [("algorithms", name, "regret_ratio") for name in ("bkb", "soful")]
    return Found(
        f"R_T / R_T^unif: BKB: {shown(source, *keys[0])}; SOFUL: {shown(source, *keys[1])}.",
        mean(source, *keys[0]) < mean(source, *keys[1]),
    )


def finds_size(source: Source) -> Found:
    sizes = {
        name: mean(beside(source, f"linear_{name}"), "algorithms", "bkb", "dictionary_size")
        for name in ("slow", "fast", "low_rank")
    }
    holds = sizes["slow"] >= 2 * max(sizes["fast"], sizes["low_rank"])
    return Found(f"Inducing points at T: {listed(list(sizes), list(sizes.values()), 1)}.", holds)


def as_unsketched(source: Source) -> Found:
    ratios = [mean(source, "algorithms", name, "regret_ratio") for name in ("soful", "gp_ucb")]
    return Found(
        f"R_T / R_T^unif: {listed(['SOFUL', 'GP-UCB'], ratios, 4)}.", abs(ratios[0] / ratios[1] - 1) <= 0.01
    )


_RUN = "python -m experiments.bkb_2019"
_LINEAR_NOTE = (
    "The paper argues this and runs nothing. Here: 500 generated arms in 40 dimensions, sketch size 10."
)
_LINEAR_RULE = (
    f"Exponent of the regret between T/2 and T at least {LINEAR_EXPONENT} (1 is linear), and BKB's below."
)
_BELOW = Claim("Section 5", "BKB has less regret than SOFUL.", "Its mean is below SOFUL's.", below_soful)
_SOFUL_LINEAR = Claim(
    "Section 1",
    "A sketch of fixed size (SOFUL) suffers linear regret where the spectrum is too long for it; BKB does not.",
    _LINEAR_RULE,
    linear_regret("soful"),
)


def _linear(name: str, title: str, arguments: str, *claims: Claim) -> Experiment:
    alt = f"Curves of the regret ratio against evaluations for linear bandits, {title}, one line for each algorithm"
    return Experiment(
        f"bkb_2019/{name}",
        f"Linear bandits, {title}",
        f"{_RUN}.linear {arguments} --out results/bkb_2019/{name}",
        _LINEAR_NOTE,
        (Figure("regret_ratio.png", alt),),
        claims,
    )


STARVATION = Experiment(
    "bkb_2019/variance_starvation",
    "Figure 2: variance starvation",
    f"{_RUN}.variance_starvation --out results/bkb_2019/variance_starvation",
    "Generated GP draws on [0, 1], evaluated on [0, 0.5] only. The bandwidth is read as 1 / lengthscale squared.",
    (
        Figure(
            "variance_starvation.png",
            "Posteriors of four methods after 6, 63 and 215 evaluations: the bars of the exact GP and of BKB open where"
            " nothing was seen, those of the subset of regressors close, those of random Fourier features are too narrow",
        ),
    ),
    (
        Claim(
            "Figure 2",
            "Where nothing was observed, BKB's error bars stay at the prior.",
            "Smallest sd over the exact GP's at least 0.95, mean of the draws, at every t.",
            keeps_prior("bkb"),
        ),
        Claim(
            "Figure 2",
            "Where f was observed, BKB's error bars follow the exact GP's.",
            "Within 10% at every point, mean of the draws, at every t.",
            follows_exact,
        ),
        Claim(
            "Figure 2",
            "The subset of regressors starves: its error bars miss f where nothing was observed.",
            f"f lies outside mean ± 3 sd at least {STARVED} times as often as with the exact GP, at every t.",
            starves("sor"),
        ),
        Claim(
            "Figure 2",
            "Random Fourier features starve as well.",
            f"f lies outside mean ± 3 sd at least {STARVED} times as often as with the exact GP, at every t.",
            starves("rff"),
        ),
        Claim(
            "Section 5",
            "Quadrature Fourier features do not starve when there are enough nodes (one dimension).",
            "Smallest sd over the exact GP's at least 0.95, mean of the draws, at every t.",
            keeps_prior("qff"),
        ),
    ),
)

PAPER = Paper(
    "BKB",
    "Gaussian process optimization with adaptive sketching (COLT 2019)",
    (
        STARVATION,
        _linear(
            "linear_slow",
            "slowly decaying spectrum",
            "--spectrum slow",
            _SOFUL_LINEAR,
            Claim(
                "Section 1",
                "So does a random projection of fixed size (CBRAP).",
                _LINEAR_RULE,
                linear_regret("cbrap"),
            ),
            _BELOW,
            Claim(
                "Section 1",
                "BKB finds the size of its dictionary by itself.",
                "At least twice as many inducing points with the slow spectrum as with either short one.",
                finds_size,
            ),
        ),
        _linear("linear_fast", "fast decaying spectrum", "--spectrum fast", _BELOW),
        _linear(
            "linear_low_rank",
            "low rank",
            "--spectrum low_rank",
            Claim(
                "Section 5",
                "SOFUL is as good as its unsketched form when the arms span no more dimensions than its sketch.",
                "Regret within 1% of GP-UCB's.",
                as_unsketched,
            ),
            _BELOW,
        ),
        _linear(
            "linear_fast_small_regularization",
            "fast spectrum, lambda = noise squared",
            "--spectrum fast --regularization 9e-4",
            _SOFUL_LINEAR,
            _BELOW,
        ),
    ),
)

"""Claims of BKB (Calandriello, Carratino, Lazaric, Valko, Rosasco, COLT 2019), and the rules that
decide them."""

from functools import partial

import numpy as np

from experiments.claims import (
    Claim,
    Experiment,
    Figure,
    Finding,
    Paper,
    Source,
    curve,
    entry,
    list_numbers,
    list_texts,
    mean,
    mean_text,
    number,
    read_sibling,
)
from experiments.results.summaries import ci95

LINEAR_EXPONENT = 0.9  # of the regret between T/2 and T, from which on it counts as linear
STARVED = 5  # times the exact GP's share of f outside its error bars


def _by_t(source: Source, method: str, field: str) -> dict[str, float]:
    """The mean over draws of a field of a method, by t."""
    return {
        t: number(source, "evaluations", t, "methods", method, field, "mean")
        for t in entry(source, "evaluations")
    }


def _text(values: dict[str, float]) -> str:
    return ", ".join(f"{value:.3f} (t = {t})" for t, value in values.items())


def keeps_prior(source: Source, method: str) -> Finding:
    """The error bars on the unobserved half against the exact ones."""
    ratio = _by_t(source, method, "smallest_ratio_to_exact_unseen")
    return Finding(
        f"Smallest ratio to the exact GP's sd, mean over draws: {_text(ratio)}.",
        min(ratio.values()) >= 0.95,
    )


def follows_exact(source: Source) -> Finding:
    """BKB's error bars on the observed half against the exact ones."""
    low = _by_t(source, "bkb", "smallest_ratio_to_exact_seen")
    high = _by_t(source, "bkb", "largest_ratio_to_exact_seen")
    holds = min(low.values()) >= 0.9 and max(high.values()) <= 1.1
    note = "" if holds else _draws_above(source, max(high, key=high.__getitem__))
    return Finding(
        f"Ratio to the exact GP's sd: at least {_text(low)}; at most {_text(high)}.", holds, note
    )


def _draws_above(source: Source, t: str) -> str:
    """The number of draws with error bars of BKB that are too wide on the observed half."""
    key = ("evaluations", t, "methods", "bkb", "largest_ratio_to_exact_seen", "values")
    ratios = np.asarray(entry(source, *key))
    return (
        f"At t = {t} the largest ratio is above 1.1 in {(ratios > 1.1).sum()} of {len(ratios)}"
        f" draws; its maximum is {ratios.max():.2f}, its median {np.median(ratios):.4f}."
    )


def starves(source: Source, method: str) -> Finding:
    """The share of the unobserved half on which f leaves the error bars."""
    share, exact = (
        _by_t(source, name, "share_of_f_outside_3_std_unseen") for name in (method, "exact")
    )
    return Finding(
        f"Share of the unobserved half where f is outside: {_text(share)}; with the exact GP"
        f" {_text(exact)}.",
        all(share[t] >= STARVED * exact[t] for t in share),
    )


def linear_regret(source: Source, method: str) -> Finding:
    """The exponent of the regret of a method at the end of its runs, and BKB's."""
    exponents = {
        name: mean(source, "algorithms", name, "regret_exponent") for name in (method, "bkb")
    }
    text = f"Exponents: {list_numbers(exponents, exponents.values(), 2)}."
    if exponents["bkb"] >= LINEAR_EXPONENT or exponents[method] >= LINEAR_EXPONENT:
        return Finding(text, exponents["bkb"] < LINEAR_EXPONENT)
    rise, wide = _rise(source, method)
    note = (
        f"Between T/4 and T/2 the exponent was {exponents[method] - rise:.2f}; the 95% interval"
        f" of the change is ± {wide:.2f}."
    )
    if rise > wide:
        return Finding(text, None, f"{note} Only longer runs would show its limit.")
    return Finding(text, False, note)


def _rise(source: Source, method: str) -> tuple[float, float]:
    """The exponent of the regret between T/2 and T less that between T/4 and T/2: mean, and half
    width of its 95% interval."""
    t, ratio = curve(source, "regret_ratio", method)
    places = t[-1] / np.array([4, 2, 1])
    logs = np.log2([np.interp(places, t, t * row) for row in ratio])
    change = logs[:, 2] - 2 * logs[:, 1] + logs[:, 0]
    return float(change.mean()), ci95(change)


def below_soful(source: Source) -> Finding:
    """The regret of BKB against SOFUL's."""
    keys = [("algorithms", name, "regret_ratio") for name in ("bkb", "soful")]
    note = ""
    if "bkb_logdet" in entry(source, "algorithms"):
        ratio = mean_text(source, "algorithms", "bkb_logdet", "regret_ratio")
        note = f"With SOFUL's width, which is that of the log-determinant, BKB has {ratio}."
    return Finding(
        f"R_T / R_T^unif: {list_texts({key[1]: mean_text(source, *key) for key in keys})}.",
        mean(source, *keys[0]) < mean(source, *keys[1]),
        note,
    )


def finds_size(source: Source) -> Finding:
    """The dictionary sizes of BKB on three spectra."""
    sizes = {
        name: mean(read_sibling(source, f"linear_{name}"), "algorithms", "bkb", "dictionary_size")
        for name in ("slow", "fast", "low_rank")
    }
    holds = sizes["slow"] >= 2 * max(sizes["fast"], sizes["low_rank"])
    return Finding(f"Inducing points at T: {list_numbers(sizes, sizes.values(), 1)}.", holds)


def as_unsketched(source: Source) -> Finding:
    """The regret of SOFUL against that of GP-UCB with a linear kernel."""
    ratios = [mean(source, "algorithms", name, "regret_ratio") for name in ("soful", "gp_ucb")]
    return Finding(
        f"R_T / R_T^unif: {list_numbers(['SOFUL', 'GP-UCB'], ratios, 4)}.",
        abs(ratios[0] / ratios[1] - 1) <= 0.01,
    )


_LINEAR_RULE = (
    f"The exponent of the regret between T/2 and T is at least {LINEAR_EXPONENT} (1 is linear), and"
    " BKB's is below. A smaller exponent that still rises by more than its 95% interval decides"
    " nothing."
)
_BELOW = Claim(
    "Section 5",
    "BKB has less regret than SOFUL.",
    "Its mean is below SOFUL's.",
    below_soful,
    "a measurable statement. The paper compares bounds on the regret and runs nothing, and which"
    " regret is smaller depends on arms, sketch and widths, which are all chosen here",
)
_SOFUL_LINEAR = Claim(
    "Section 1",
    "A sketch of fixed size (SOFUL) suffers linear regret if the spectrum is too long for it; BKB"
    " does not.",
    _LINEAR_RULE,
    partial(linear_regret, method="soful"),
)
_PRIOR_RULE = (
    "The smallest ratio to the exact GP's sd, mean over draws, is at least 0.95 at every t."
)
_STARVED_RULE = (
    f"f lies outside mean ± 3 sd at least {STARVED} times as often as with the exact GP, at every"
    " t."
)
_STARVATION = (
    Claim(
        "Figure 2",
        "Where nothing was observed, BKB's error bars stay at the prior.",
        _PRIOR_RULE,
        partial(keeps_prior, method="bkb"),
    ),
    Claim(
        "Figure 2",
        "Where f was observed, BKB's error bars follow the exact GP's.",
        "They are within 10% at every point, mean over draws, at every t.",
        follows_exact,
        reason="Theorem 1 gives no guarantee for the q_bar = 2 of the code: a dictionary may lack"
        " points of a region that was observed.",
    ),
    Claim(
        "Figure 2",
        "The subset of regressors starves: its error bars miss f where nothing was observed.",
        _STARVED_RULE,
        partial(starves, method="sor"),
    ),
    Claim(
        "Figure 2",
        "Random Fourier features starve as well.",
        _STARVED_RULE,
        partial(starves, method="rff"),
    ),
    Claim(
        "Section 5",
        "Quadrature Fourier features do not starve if there are enough nodes (one dimension).",
        _PRIOR_RULE,
        partial(keeps_prior, method="qff"),
    ),
)


def _starvation(name: str, kernel: str) -> Experiment:
    return Experiment(
        f"bkb_2019/{name}",
        f"Figure 2: variance starvation, {kernel}",
        "Generated GP draws on [0, 1], evaluated on [0, 0.5] only. The bandwidth of the paper, 100,"
        " is taken as an inverse squared lengthscale, and as that of the poster's curves.",
        (
            Figure(
                "variance_starvation.png",
                "Posteriors of four methods after 6, 63 and 215 evaluations: where nothing was"
                " observed, the error bars of the exact GP and of BKB are wide, those of the subset"
                " of regressors shrink to zero, those of random Fourier features are too narrow",
            ),
        ),
        _STARVATION,
    )


def _linear(name: str, title: str, *claims: Claim) -> Experiment:
    return Experiment(
        f"bkb_2019/{name}",
        f"Linear bandits, {title}",
        "The paper states this and has no experiment. Here: 500 generated arms in 40 dimensions,"
        " sketch size 10.",
        (
            Figure(
                "regret_ratio.png",
                f"Curves of the regret ratio against evaluations for linear bandits, {title}, one"
                " line for each algorithm",
            ),
        ),
        claims,
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
                "A random projection of fixed size (CBRAP) does, too.",
                _LINEAR_RULE,
                partial(linear_regret, method="cbrap"),
            ),
            _BELOW,
            Claim(
                "Section 1",
                "BKB finds the size of its dictionary by itself.",
                "It has at least twice as many inducing points with the slow spectrum as with"
                " either short one.",
                finds_size,
            ),
        ),
        _linear("linear_fast", "fast decaying spectrum", _BELOW),
        _linear(
            "linear_low_rank",
            "low rank",
            Claim(
                "Section 5",
                "SOFUL is as good as its unsketched form if the arms span no more dimensions than"
                " its sketch.",
                "Its regret is within 1% of GP-UCB's.",
                as_unsketched,
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

"""Claims of GO-UCB (Liu, Wang, ICML 2023)."""

from experiments.claims import Claim, Experiment, Figure, Paper
from experiments.go_ucb_2023 import checks

_LEAST = (
    "GO-UCB has less mean cumulative regret than GP-EI, GP-PI, GP-UCB and TuRBO. Where the 95%"
    " interval of the paired difference to the next best contains 0, nothing is decided."
)
_LINEAR = (
    f"The regret per step of the last ten evaluations is at least {checks.STEADY} of that of the"
    " whole run, for each of them."
)
_LEVEL = (
    "A fault of our TuRBO is an unlikely cause: it is level with its authors' code on three other"
    " functions (go_ucb_2023/turbo)."
)
_FLAT = f"The regret per step is at most {checks.FLAT:.0%} of the uniform policy's"

SYNTHETIC = Experiment(
    "go_ucb_2023/synthetic",
    "Figure 2: functions of 20 inputs",
    "f1: an all-ones network; f2: Styblinski-Tang; f3: Rastrigin. The same settings for all, chosen"
    " elsewhere.",
    (
        Figure(
            "figure2.png",
            "Cumulative regret on f1, f2 and f3 against evaluations, one line for each method",
        ),
        Figure("figure2_5.png", "The same of the first five repetitions, the paper's number"),
    ),
    (
        *(
            Claim("Figure 2", f"GO-UCB has the least regret on {f}.", _LEAST, checks.best_on(f))
            for f in ("f1", "f2", "f3")
        ),
        Claim(
            "Figure 2a",
            "GO-UCB finds the optimum of f1 shortly after phase I.",
            f"{_FLAT}, after its second step.",
            checks.small_share("f1", "go_ucb", "ratio_after_second_step", "after the second"),
        ),
        *(
            Claim(
                "Figure 2a",
                f"{label}'s regret on f1 stays the same from t = 22 on.",
                f"{_FLAT}, in the last ten evaluations.",
                checks.small_share("f1", name, "ratio_last_10", "of the last ten"),
                reason=cause,
            )
            for name, label, cause in (("go_ucb", "GO-UCB", ""), ("turbo", "TuRBO", _LEVEL))
        ),
        Claim(
            "Figure 2a",
            "GO-UCB has the smallest error bars on f1.",
            "GO-UCB has the least half width of the 95% interval.",
            checks.least_bars,
            reason="A large part of the interval is due to phase I, whose points all methods"
            " share.",
        ),
        Claim(
            "Figure 2a",
            "GP-EI, GP-PI and GP-UCB have almost linear regret on f1.",
            _LINEAR,
            checks.steady("f1", checks.CLASSICAL),
            reason="They reach the plateau within the run as well.",
        ),
        *(
            Claim(
                f"Figure {label}",
                f"All methods have linear regret on {f}.",
                _LINEAR,
                checks.steady(f, ("go_ucb", *checks.OTHERS)),
                reason="Methods that stay near the best observed point keep improving.",
            )
            for f, label in (("f2", "2b"), ("f3", "2c"))
        ),
        Claim(
            "Figure 2b, 2c",
            "GO-UCB's lead is smaller on f3 than on f2.",
            "The next best method's regret ratio minus GO-UCB's is positive on f3, and larger on"
            " f2.",
            checks.smaller_gap,
        ),
    ),
)
_SETS = {3: "breast_cancer", 4: "australian", 5: "diabetes"}
_CLEAR = (
    "The 95% interval of the paired difference to GO-UCB lies above 0 for each of the four{}. The"
    " claim fails where one lies below 0; else nothing is decided."
)

TUNING = Experiment(
    "go_ucb_2023/tuning",
    "Figures 3 to 5: tuning three classifiers on three data sets",
    "The best accuracy of all methods replaces the unknown maximum. Differences are paired.",
    tuple(
        Figure(
            f"figure{n}.png",
            "Cumulative regret in tuning a random forest, a network and gradient boosting on"
            f" {name.replace('_', ' ')}, one line for each method",
        )
        for n, name in _SETS.items()
    ),
    (
        Claim(
            "Figure 3a",
            "All methods are similar for the random forest on breast cancer.",
            "For each of the four, the 95% interval of the paired difference to GO-UCB contains"
            " only differences with which the error bars of the two overlap. The claim fails where"
            " one contains no such difference; else nothing is decided.",
            checks.similar("random_forest-breast_cancer"),
        ),
        Claim(
            "Figure 3b",
            "GO-UCB is much better for the network.",
            _CLEAR.format(""),
            checks.much_better("mlp-breast_cancer"),
        ),
        Claim(
            "Figure 3c",
            "GO-UCB is much better for gradient boosting.",
            _CLEAR.format(""),
            checks.much_better("gradient_boosting-breast_cancer"),
        ),
        Claim(
            "Figure 3b",
            "TuRBO's regret bends after t = 23, those of the GP methods do not.",
            f"The regret per step after t = 23 is at most {checks.BENT} of that until then for"
            " TuRBO, and more for the GP methods.",
            checks.bends,
            reason="TuRBO slows down here, but not by half.",
        ),
        *(
            Claim(
                f"Figure {n}",
                f"GO-UCB is better than all others on {name}, with every classifier.",
                _CLEAR.format(" and each classifier"),
                checks.better_throughout(name),
            )
            for n, name in list(_SETS.items())[1:]
        ),
    ),
)

PAPER = Paper(
    "GO-UCB",
    "Global optimization with parametric function approximation (ICML 2023)",
    (SYNTHETIC, TUNING),
)

"""Claims of methods beyond the four papers: statements of jsketch's docstrings and of
jsketch/THEORY.md, with the rules that decide them."""

from experiments.claims import Claim, Experiment, Figure, Paper
from experiments.contrib import checks

FORGETTING = ("gamma_0.9", "gamma_0.97", "gamma_0.99", "gamma_0.997", "gamma_0.999")
_MUCH = f"At most {checks.HALF:g} times"
_SHRUNK = (
    "The penalty of the current example shrinks a prediction by 1 + h, and h is large where few of"
    " the last 1 / (1 - gamma) inputs were, in a rich space nearly everywhere (THEORY 7.12)."
)

CONTEXTS = Experiment(
    "beyond/contextual",
    "Contexts: EK-UCB (Zenati et al., AISTATS 2022)",
    "Two of the problems of its authors' scripts, with their lengthscale, regularization and width."
    " CBKB and CBBKB stop at t = 300. CPU seconds are those of all seeds in one program, compiled"
    " before, with other work beside.",
    (
        Figure(
            "regret.png",
            "Cumulative regret, CPU seconds and inducing points against rounds for kernel UCB"
            " with contexts, exact, with incremental projections and with resampled dictionaries",
        ),
    ),
    (
        Claim(
            "THEORY 6.6, EK-UCB",
            "Incremental projections on a KORS dictionary keep the regret of the exact kernel UCB"
            " with far fewer points (beta = 2).",
            f"Mean regret at T at most {checks.NEAR:g} times K-UCB's, with at most"
            f" {checks.SHORT:.0%} of its points, on every problem.",
            checks.same_regret("ek_ucb_2", "k_ucb"),
        ),
        Claim(
            "THEORY 6.6, EK-UCB",
            "It does so with the shorter dictionary of beta = 0.5 as well.",
            "The same.",
            checks.same_regret("ek_ucb_0.5", "k_ucb"),
            reason="A point joins with probability beta tau at most: a new region waits for its"
            " first points, which costs regret early.",
        ),
        Claim(
            "EK-UCB's docstring",
            "A round costs less than that of the exact kernel UCB (O(C M^2) for O(C t^2)).",
            "Fewer CPU seconds at T than K-UCB, on every problem.",
            checks.faster("ek_ucb_2", ["k_ucb"]),
        ),
        Claim(
            "EK-UCB's docstring",
            "A dictionary that only grows is cheaper than one that is resampled from all points"
            " (CBKB, CBBKB).",
            "Fewer CPU seconds than both at t = 300, on every problem.",
            checks.faster("ek_ucb_2", ["cbkb", "cbbkb_3"]),
        ),
        Claim(
            "EK-UCB's docstring",
            "It has no more regret than they have.",
            f"At most {checks.NEAR:g} times the regret of either at t = 300, on every problem.",
            checks.no_more_regret("ek_ucb_2", ["cbkb", "cbbkb_3"]),
        ),
        Claim(
            "CBBKB's docstring",
            "Drawing the dictionary when the variances exceed C = 3 costs a fraction of drawing it"
            " in every round, as CBKB does.",
            "At most half of its CPU seconds, on every problem.",
            checks.faster("cbbkb_3", ["cbkb"], factor=2),
        ),
        Claim(
            "CBBKB's docstring",
            "CBBKB has CBKB's regret.",
            f"At most {checks.NEAR:g} times CBKB's regret at t = 300, on every problem.",
            checks.no_more_regret("cbbkb_3", ["cbkb"]),
            reason="Until the next draw no reward changes the posterior in a region that the"
            " dictionary lacks.",
        ),
    ),
)

DRIFT = Experiment(
    "beyond/drift",
    "Streams whose target changes: discounted Kernel-AWV and PKAWV (Jacobsen, Cutkosky, ICML 2024)",
    "Generated streams: `jumps` has another function every 500 examples, `turning` another phase in"
    " each, `still` the same. Forecasters on the kernel itself run on the first stream of"
    " `jumps` alone, river's on the first stream of each, where river is installed.",
    (
        Figure(
            "average_loss.png",
            "Average squared loss against examples on three streams, for forecasters that forget"
            " nothing, at five rates, for their mixture, and for river's models",
        ),
    ),
    (
        Claim(
            "THEORY 7.12, PKAWV with a discount",
            "Where the target changes, an example that counts less the older it is helps.",
            f"{_MUCH} the average loss without a discount, for the best of the discounts, on"
            " `jumps` and `turning`.",
            checks.at_most(
                checks.HALF,
                FORGETTING,
                "static",
                field="loss",
                name="Average loss",
                problems=["jumps", "turning"],
                best=True,
            ),
        ),
        Claim(
            "THEORY 7.9, over_discounts",
            "The mixture over discounts loses at most log(G) / eta = 2 B^2 log G more than its best"
            " one, on every stream.",
            "So it is on every stream (B = 1, total losses).",
            checks.mixture_bound,
        ),
        Claim(
            "THEORY 7.12, Kernel-AWV with a discount",
            "On the kernel itself a discount helps as well.",
            f"{_MUCH} the average loss without a discount, at a discount of 0.99, on `jumps`.",
            checks.at_most(
                checks.HALF,
                ["kernel_0.99"],
                "kernel_static",
                field="loss",
                name="Average loss",
                problems=["jumps"],
            ),
            reason=_SHRUNK,
        ),
    ),
)

FEW = Experiment(
    "beyond/few_batches",
    "Few batches: batched pure exploration (Li, Scarlett, AISTATS 2022)",
    "Functions on 500 points (lengthscale 0.2, noise 0.1): a draw of a Gaussian process, with the"
    " assumption F = 1, and one of known norm 2. FixedBKB has batches of 96, and as many as the"
    " exploration has.",
    (
        Figure(
            "regret_ratio.png",
            "Regret over that of uniform arms, and batches, against evaluations for batched"
            " exploration, BBKB with both rules and FixedBKB",
        ),
    ),
    (
        Claim(
            "THEORY 6.7",
            "T evaluations take at most ceil(log2 log2 T) + 1 batches.",
            "No run has more.",
            checks.few_batches,
        ),
        Claim(
            "THEORY 6.7",
            "With probability 1 - delta the best arm is never ruled out.",
            f"It is left in at least {1 - checks.DELTA:.0%} of the runs where F is known.",
            checks.best_is_left,
        ),
        Claim(
            "Li, Scarlett: regret of order sqrt(T gamma_T), up to logarithms",
            "Regret grows slower than T.",
            f"Its exponent between runs of T / 4 and of T is below {checks.SUBLINEAR:g}, on every"
            " problem.",
            checks.sublinear_exploration,
        ),
        Claim(
            "Salgia, Vakili, Zhao, ICML 2024: regret of the same order with random arms",
            "Within a batch, uniform arms do as well as those of the largest variance.",
            f"At most {checks.NEAR:g} times the regret on every problem, in as many batches.",
            checks.random_is_enough,
        ),
    ),
)


def _covers(name: str, item: str) -> Claim:
    return Claim(
        item,
        f"`{name}` covers f at all arms during a whole run with probability 1 - delta.",
        f"In at least {1 - checks.DELTA:.0%} of the runs, checked every 10 evaluations.",
        checks.covers(name),
    )


WIDTHS = Experiment(
    "beyond/width_coverage",
    "Tighter confidence widths (Whitehouse et al., NeurIPS 2023; Flynn, Reeb, AISTATS 2025)",
    "One function of known norm 2 on 100 arms, delta = 0.1, seeds of noise.",
    (
        Figure(
            "coverage.png",
            "For each confidence width the share of it that each run needed to cover the"
            " function, all below one, and beside it the regret",
        ),
    ),
    (
        _covers("gp_ucb_tight", "THEORY 4.1, Whitehouse et al."),
        _covers("smooth_tight", "THEORY 4.1, Whitehouse et al."),
        _covers("mixture", "THEORY 4.7, Flynn and Reeb"),
        _covers("certified", "THEORY 4.4"),
        _covers("certified_mixture", "THEORY 4.8"),
        Claim(
            "THEORY 4.7, Flynn and Reeb",
            "The mixture's width is never above the self-normalized one, and has less regret.",
            "Smaller at T, and less mean regret.",
            checks.tighter("mixture", "gp_ucb_tight"),
        ),
        Claim(
            "THEORY 4.1, Whitehouse et al.",
            "A regularization that grows with T, by the decay of the eigenvalues, has less regret"
            " than that of the noise.",
            "Less mean regret with the same formula.",
            checks.tighter("smooth_tight", "gp_ucb_tight", width=False),
        ),
        Claim(
            "THEORY 4.8",
            "On a sketch, too, the mixture's width is the smaller one, and has less regret.",
            "Smaller at T than `certified`, and less mean regret.",
            checks.tighter("certified_mixture", "certified"),
        ),
    ),
)

_DISCOUNTS, _WINDOWS = ("discount_0.998", "discount_0.995"), ("window_500",)
_RESTARTS = f"At most {checks.NEAR:g} times the regret of restarts every 350 rounds."
_CAUSE = (
    "No width covers a mean that moves (THEORY 6.5): weights keep old rewards for some"
    " 1 / (1 - gamma) or W rounds, where a restart drops all of them at once."
)


def _forgets(methods: tuple[str, ...], item: str, problem: str) -> tuple[Claim, Claim]:
    name = methods[0].split("_")[0].capitalize() + "s"
    where = "drift" if problem == "drift" else "jump"
    return (
        Claim(
            item,
            f"{name} have less dynamic regret than BKB where means {where}.",
            f"{_MUCH} BKB's mean regret, each.",
            checks.at_most(checks.HALF, methods, "bkb", problems=[problem]),
            reason="What is forgotten has to be explored again.",
        ),
        Claim(
            f"{item}, against restarts",
            f"{name} do as well as restarts where means {where}.",
            _RESTARTS,
            checks.at_most(checks.NEAR, methods, "restart_350", problems=[problem], best=True),
            reason=_CAUSE,
        ),
    )


CHANGING = Experiment(
    "beyond/drifting_arms",
    "Means that change: discounted and windowed BKB (Deng et al., 2022; Zhou, Shroff, 2021)",
    "100 arms; four functions of norm 2 one after the other, with straight lines between them"
    " (`drift`) or all at once (`jump`); the same width for all. Regret is dynamic, against the"
    " best arm of each round.",
    (
        Figure(
            "regret_ratio.png",
            "Dynamic regret over that of uniform arms against rounds, for BKB, restarts,"
            " discounts and a window, where means drift and where they jump",
        ),
    ),
    (
        *_forgets(_DISCOUNTS, "THEORY 6.5, DiscountedBKB", "drift"),
        *_forgets(_WINDOWS, "THEORY 6.5, WindowBKB", "drift"),
        *_forgets(_DISCOUNTS, "THEORY 6.5, DiscountedBKB", "jump"),
        *_forgets(_WINDOWS, "THEORY 6.5, WindowBKB", "jump"),
    ),
)

TWICE = 2.0  # factor beside the regret at the right lengthscale
_WHERE = " On Abalone longer candidates are ruled out late, or never."
UNKNOWN = Experiment(
    "beyond/unknown",
    "Unknown lengthscale and norm (LB-GP-UCB, Ziomek, Adachi, Osborne, NeurIPS 2024)",
    "Five candidates, from four times the right lengthscale to a quarter of it, over BBKB's sketch,"
    " with a width of two posterior standard deviations: on a GP draw of known norm (T = 500), and"
    " on Abalone (T = 300, BBKB's lengthscale taken as the right one). `balancing, certified` has"
    " the width that the guarantee asks for. The norm is doubled in BBKB at the right lengthscale"
    " and with the width of the code.",
    (
        Figure(
            "regret_ratio.png",
            "Regret over that of uniform arms, and rounds, against evaluations for BBKB at three"
            " lengthscales, for balancing by four rules, and for a norm bound that is doubled",
        ),
    ),
    (
        Claim(
            "THEORY 6.8, LB-GP-UCB",
            "With a width that covers, the right candidate is not ruled out.",
            f"In at least {checks.LEFT:.0%} of the runs on the draw, whose norm is known.",
            checks.right_is_left("lb_certified"),
        ),
        Claim(
            "THEORY 6.9, norm test",
            "The lower bound on the norm does not rule it out either.",
            "The same.",
            checks.right_is_left("lb_norm_test"),
        ),
        Claim(
            "LB-GP-UCB: Theorem 4.1",
            "Balancing by the paper's order of regret pays a factor beside the right lengthscale.",
            f"At most {TWICE:g} times BBKB's mean regret there, on every problem.",
            checks.at_most(TWICE, ["lb_order"], "bbkb_right"),
            reason="The order theta^-d log(n)^(d+1) leaves most rounds to the longest candidate"
            " until rewards contradict it." + _WHERE,
        ),
        Claim(
            "THEORY 6.8, realised regret",
            "Balancing by realised widths pays a smaller factor.",
            f"At most {TWICE:g} times, with the norm test and without, on every problem.",
            checks.at_most(TWICE, ["lb_realised", "lb_norm_test"], "bbkb_right"),
        ),
        Claim(
            "THEORY 6.8, marginal likelihood",
            "The candidate of largest evidence does as well, without a guarantee.",
            f"At most {TWICE:g} times BBKB's mean regret at the right lengthscale, on every"
            " problem.",
            checks.at_most(TWICE, ["lb_evidence"], "bbkb_right"),
            reason="On Abalone the evidence, with lambda for the noise and 1 for the prior"
            " variance, prefers a candidate twice too long.",
        ),
        Claim(
            "LB-GP-UCB's docstring",
            "A lengthscale four times too long costs more than balancing.",
            "Each rule has less mean regret than BBKB there, on every problem.",
            checks.at_most(
                1.0, ["lb_order", "lb_realised", "lb_norm_test", "lb_evidence"], "bbkb_long"
            ),
        ),
        Claim(
            "THEORY 6.9, NormDoubling",
            "A bound that starts below |f| / 2 is never doubled beyond 2 |f|.",
            f"In at least {checks.LEFT:.0%} of the runs.",
            checks.bound_is_not_doubled_too_often,
        ),
        Claim(
            "BKB, Section 4, guess-and-double",
            "Doubling costs no regret beside the norm itself.",
            f"At most {checks.NEAR:g} times the mean regret of F = |f|.",
            checks.at_most(checks.NEAR, ["norm_doubling"], "norm_known"),
        ),
    ),
)

CLIENTS = Experiment(
    "beyond/clients",
    "Clients on a common Nystrom embedding (after Li et al., NeurIPS 2022)",
    "32 clients, each in contexts of its own: a smooth function (`waves`, T = 600), and one with"
    " steps (`squares`, T = 200). Clients exchange when one of them has gathered a variance of D;"
    " the claims are of D = 0.1. Numbers sent are counted in both directions. Clients alone are"
    " EK-UCB.",
    (
        Figure(
            "regret_sent.png",
            "Above, regret over that of uniform actions against the numbers that clients send, for"
            " five thresholds and two forms of messages; below, numbers sent so far against rounds",
        ),
    ),
    (
        Claim(
            "Li et al.: clients learn from each other",
            "Clients that exchange have less regret than each alone.",
            f"At most {checks.HALF:g} times, on every problem.",
            checks.at_most(checks.HALF, [checks.CHOSEN], checks.ALONE, digits=4),
        ),
        Claim(
            "THEORY 6.10",
            "Exchanging at a threshold D costs no regret beside exchanging every round.",
            f"At most {checks.NEAR:g} times the regret of exchanging in every round, with at most"
            f" {checks.SHORT:.0%} of the exchanges, on every problem.",
            checks.few_exchanges,
        ),
        Claim(
            "Li et al.: both regret and communication are sublinear in T",
            "Neither regret nor the numbers sent grow as fast as T.",
            f"Exponents between T / 4 and T below {checks.SUBLINEAR:g}, on every problem.",
            checks.sublinear_clients,
        ),
        Claim(
            "Li et al.: less communication than transferring the data",
            "Sums over the embedding send less than every point at once.",
            "Fewer numbers at T, on every problem.",
            checks.fewer_numbers,
            reason="An exchange sends 2 m (m + 1) numbers a client, and the points of a round"
            " N (d + 1): with many inducing points T is too short.",
        ),
    ),
)

PAPER = Paper(
    "Beyond the four papers",
    "what the field proved since, on the same parts",
    (CONTEXTS, DRIFT, FEW, WIDTHS, CHANGING, UNKNOWN, CLIENTS),
)

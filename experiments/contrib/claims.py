"""Measurements of methods beyond the four papers: tables without verdicts.

The papers behind these methods are not reproduced here. `tests/contrib` tests this library's own
statements about the methods.
"""

from experiments.claims import Experiment, Measurements, Paper

REGRET = ("R_T / R_T^unif", 4)
POINTS = ("inducing points at T", 0)  # (head of a column, digits), like REGRET


def _experiment(
    name: str, title: str, note: str, file: str, alt: str, **fields: tuple[str, int]
) -> Experiment:
    """An experiment with one figure, described by `alt`, and a table of fields of its summary."""
    table = Measurements("Means over seeds and their 95% intervals", fields)
    return Experiment(f"beyond/{name}", title, note, {file: alt}, measurements=(table,))


CONTEXTS = _experiment(
    "contextual",
    "Contexts: EK-UCB (Zenati et al., AISTATS 2022)",
    "Two problems of the authors' scripts, with the lengthscale, regularization and width of these"
    " scripts. CBKB and CBBKB stop at t = 300. CPU seconds are those of all seeds in one program,"
    " without compilation; other processes were running.",
    "regret.png",
    "Cumulative regret, CPU seconds and inducing points against rounds for kernel UCB"
    " with contexts, exact, with incremental projections and with resampled dictionaries",
    horizon=("T", 0),
    final_regret=("regret at T", 1),
    final_regret_ratio=REGRET,
    points=POINTS,
    run_seconds=("CPU seconds", 2),
)
DRIFT = _experiment(
    "drift",
    "Streams whose target changes: discounted Kernel-AWV and PKAWV (Jacobsen, Cutkosky, ICML 2024)",
    "Generated streams: the function of `jumps` changes every 500 examples, the phase of `turning`"
    " changes with each example, and `still` does not change. Forecasters that use the exact kernel"
    " run only on the first stream of `jumps`, and river's models only on the first stream of each"
    " name.",
    "average_loss.png",
    "Average squared loss against examples on three streams, for forecasters that forget nothing,"
    " for forecasters that forget at five rates, for their mixture, and for river's models",
    loss=("average loss", 4),
    total_loss=("total loss", 1),
)
FEW = _experiment(
    "few_batches",
    "Few batches: batched pure exploration (Li, Scarlett, AISTATS 2022)",
    "Functions on 500 points (lengthscale 0.2, noise 0.1): a draw of a Gaussian process, with the"
    " assumption F = 1, and a function of known norm 2. FixedBKB runs with batches of 96, and with"
    " as many batches as the exploration has.",
    "regret_ratio.png",
    "Regret ratio and number of batches against evaluations, for batched"
    " exploration, BBKB with both rules, and FixedBKB",
    horizon=("T", 0),
    final_regret_ratio=REGRET,
    final_regret=("regret at T", 1),
    batches=("batches", 1),
    best_is_left=("share with the best arm active", 2),
)
WIDTHS = _experiment(
    "width_coverage",
    "Tighter confidence widths (Whitehouse et al., NeurIPS 2023; Flynn, Reeb, AISTATS 2025)",
    "One function of known norm 2 on 100 arms, delta = 0.1. The seeds differ in the noise.",
    "coverage.png",
    "For each confidence width, its smallest multiple that covers the function in each run, always"
    " below one, and the regret",
    covered=("share of runs covered", 2),
    most_needed=("largest share of the width needed", 2),
    last_width=("width at T", 2),
    final_regret_ratio=REGRET,
)
CHANGING = _experiment(
    "drifting_arms",
    "Means that change: discounted and windowed BKB (Deng et al., 2022; Zhou, Shroff, 2021)",
    "100 arms. The mean rewards pass through four functions of norm 2, linearly (`drift`) or in"
    " jumps (`jump`). All methods have the same width. Dynamic regret is relative to the best arm"
    " of each round.",
    "regret_ratio.png",
    "Dynamic regret ratio against rounds, for BKB, and for BKB with restarts,"
    " discounts or a window, where means drift and where they jump",
    final_regret_ratio=REGRET,
    points=POINTS,
)
UNKNOWN = _experiment(
    "unknown",
    "Unknown lengthscale and norm (LB-GP-UCB, Ziomek, Adachi, Osborne, NeurIPS 2024)",
    "Five candidates, from four times the right lengthscale to a quarter of it, over BBKB's sketch,"
    " with a width of two posterior standard deviations: on a GP draw of known norm (T = 500), and"
    " on Abalone (T = 300, BBKB's lengthscale taken as the right one). `balancing, certified` has"
    " the width that the guarantee needs, and rules out no candidate within T. The bound on the"
    " norm is doubled in BBKB with the right lengthscale and the width of the code.",
    "regret_ratio.png",
    "Regret ratio and number of rounds against evaluations, for BBKB with"
    " three lengthscales, for balancing by four rules, and for a norm bound that is doubled",
    final_regret_ratio=REGRET,
    final_rounds=("rounds", 1),
    out_4=("4 l ruled out", 2),
    out_2=("2 l ruled out", 2),
    out_1=("l ruled out", 2),
    last_bound=("F at T", 1),
    norm=("|f|", 1),
)
CLIENTS = _experiment(
    "clients",
    "Clients on a common Nystrom embedding (after Li et al., NeurIPS 2022)",
    "32 clients, each in different contexts: a smooth function (`waves`, T = 600), and one with"
    " steps (`squares`, T = 200). The clients exchange data when the variances of one client add up"
    " to more than D. Numbers sent are counted in both directions. `alone` is EK-UCB for each"
    " client.",
    "regret_sent.png",
    "Above, regret ratio against the count of numbers sent, for five"
    " thresholds and two forms of messages; below, numbers sent so far against rounds",
    final_regret_ratio=REGRET,
    exchanges=("exchanges", 1),
    final_sent=("numbers sent", 0),
    final_sent_as_data=("numbers sent as data", 0),
    points=POINTS,
)

PAPER = Paper(
    "Beyond the four papers",
    "later methods, built from the library's components",
    (CONTEXTS, DRIFT, FEW, WIDTHS, CHANGING, UNKNOWN, CLIENTS),
)

"""Claims of BBKB (Calandriello, Carratino, Lazaric, Valko, Rosasco, ICML 2020)."""

from __future__ import annotations

from experiments.bbkb_2020 import checks
from experiments.claims import Claim, Experiment, Figure, Paper, Table, listed

_BATCHES = Claim(
    "Figure 3",
    "Batch sizes grow linearly with t under both rules.",
    "The power p of the best a + c t^p through the sizes, t where batches start, is between"
    f" {checks.LINEAR[0]} and {checks.LINEAR[1]} for both.",
    checks.batches_grow,
)
_LARGER = Claim(
    "Figure 3",
    "The local rule makes larger batches.",
    f"It needs at most {checks.FEWER:g} times the batches of the global rule.",
    checks.fewer_batches,
)
_PUBLISHED = Table(
    "against_published.csv",
    "Ours over published (the poster's curves; dashed in the figures)",
)
_SLOWER = Claim(
    "Figure 3",
    "Without experimental costs, the local rule is slower than the global one.",
    "Its mean run time is above the global rule's.",
    checks.local_is_slower,
)


def _curve(file: str, what: str, on: str) -> Figure:
    return Figure(f"{file}.png", f"{what} on {on}, one line for each algorithm, mean and 95% band")


def _regression(name: str, title: str, note: str) -> Experiment:
    times = [
        Claim(
            "Figure 2",
            f"BBKB takes a fraction of {label}'s time.",
            f"The faster rule takes at most {checks.FRACTION} of the run time.",
            checks.fraction_of_time(baseline),
        )
        for baseline, label in (("bkb", "BKB"), ("gp_ucb", "GP-UCB"), ("gp_bucb", "GP-BUCB"))
    ]
    return Experiment(
        f"bbkb_2020/{name}",
        f"Figures 1 and 2: {title}",
        note,
        (
            _curve("regret_ratio", "Regret ratio against evaluations", title),
            _curve("time", "Run time against evaluations on log axes", title),
            _curve("batch_size", "Batch size against evaluations on log axes", title),
            _curve("dictionary", "Dictionary size against evaluations", title),
        ),
        (
            Claim(
                "Figure 1",
                "BBKB has the smallest regret.",
                "One of its rules has the smallest mean.",
                checks.least_regret,
            ),
            Claim(
                "Figure 1",
                "Batched Thompson sampling hardly converges.",
                "Its regret ratio falls by less than a tenth over the second half of its run, and"
                f" ends above {checks.ABOVE} times BBKB's.",
                checks.hardly_converges,
                cause="Its width is divided by 10, as the paper says of its figures: exploring so"
                " little, it settles on good arms.",
            ),
            *times,
            # the paper's figure of batch sizes is that of the architecture search
            _BATCHES._replace(item="Section 5"),
            _LARGER._replace(item="Section 5"),
        ),
        (_PUBLISHED,) if name == "cadata" else (),
    )


def _bandwidths(
    folder: str, title: str, item: str, table: dict[str, float], note: str
) -> Experiment:
    return Experiment(
        f"bbkb_2020/{folder}",
        f"{item} and Table 1: one lengthscale for all, {title}",
        f"{note} Thompson sampling on the sketch in place of the exact one.",
        (_curve("regret_ratio", "Regret ratio at six lengthscales, a panel each,", title),),
        (
            Claim(
                item,
                "BBKB is robust over a wider range of bandwidths than the others.",
                f"Its regret ratio is within {checks.WITHIN} times the least of all at more"
                " lengthscales than any other's.",
                checks.widest_range,
                cause="With a short lengthscale BBKB's width, that of Theorem 2, is the widest, and"
                " it explores the longest.",
            ),
            Claim(
                "Table 1",
                f"Best lengthscales: {listed(list(table), list(table.values()), 1)}.",
                "Every one of these algorithms has its least regret there.",
                checks.best_lengthscales(table),
                cause="Several lengthscales are nearly as good as the best.",
            ),
        )
        if table
        else (),
    )


def _widths(folder: str, problems: str) -> Experiment:
    return Experiment(
        f"bbkb_2020/{folder}",
        f"Which width a user should have: {problems}",
        "An experiment of ours: BBKB with the global rule and the widths of the authors' code, of"
        " Theorem 2 (C beta and sqrt(C) beta), and the certified one.",
        (
            Figure(
                "regret_ratio.png",
                "Regret ratio against evaluations with four widths, a panel for each problem",
            ),
        ),
        (),
        (Table("widths.csv", "R_T / R_T^unif by width: mean and worst seed"),),
    )


def _settings(folder: str, methods: str) -> Experiment:
    return Experiment(
        f"bbkb_2020/{folder}",
        f"What could explain {methods} on Cadata: settings that the paper leaves open, one at a"
        " time",
        "Cadata as in Figure 1, but for one setting each.",
        (),
        (),
        (Table("settings.csv", "R_t / R_t^unif with one setting changed, over published"),),
    )


_CELLS = (
    "NAS-Bench-101's 12,416 cells with their recorded mean accuracies and Gaussian noise around"
    " them; NAS-Bench-Macro's 6,561 architectures (nas_macro, nas_macro_warm) stand in where no"
    " table is at hand; see data below."
)


def _whole(name: str, width: str) -> Experiment:
    on = "the 423,624 cells of NAS-Bench-101"
    return Experiment(
        f"bbkb_2020/{name}",
        f"Architecture search in the whole space, {width}",
        "An experiment of ours: all 423,624 cells of NAS-Bench-101, from nothing. The local rule,"
        " 1.4 s an evaluation at that size, was given up.",
        (
            _curve("regret_ratio", "Regret ratio against evaluations", on),
            _curve("simple_regret", "Simple regret against evaluations", on),
            _curve("batch_size", "Batch size against evaluations on log axes", on),
            _curve("time", "Run time without evaluations against evaluations on log axes", on),
        ),
        (),
    )


def _search(name: str, title: str, initial: int, *claims: Claim) -> Experiment:
    on = f"the architectures after {initial:,} random evaluations"
    return Experiment(
        f"bbkb_2020/{name}",
        title,
        _CELLS,
        (
            _curve("regret_ratio", "Regret ratio against evaluations", on),
            _curve("simple_regret", "Simple regret against evaluations", on),
            _curve("batch_size", "Batch size against evaluations on log axes", on),
            _curve("time", "Run time without evaluations against evaluations on log axes", on),
            _curve(
                "time_with_training", "Run time with training against evaluations on log axes", on
            ),
        ),
        claims,
        (_PUBLISHED,),
    )


_LESS = Claim(
    "Figure 4",
    "BBKB has significantly less cumulative regret than regularized evolution.",
    "The 95% interval of its better rule lies below evolution's.",
    checks.less_regret_than_evolution,
)
_TRAINING = Claim(
    "Figure 3",
    "With training time the local rule is fastest, and both rules beat sequential evolution.",
    "Total seconds in that order.",
    checks.with_training,
)
_FASTER = Claim(
    "Figure 3",
    "Without experimental costs both rules are faster than the baselines.",
    "The slower rule takes less time than evolution. (Epsilon-greedy is faster than BBKB on the"
    " poster, too.)",
    checks.faster_than_evolution,
)

PAPER = Paper(
    "BBKB",
    "Near-linear time Gaussian process optimization with adaptive batching and resparsification"
    " (ICML 2020)",
    (
        _regression(
            "abalone",
            "Abalone",
            "Table 1's lengthscales and the theorems' widths; lambda, C and scaling are chosen."
            " Runs with the widths of the authors' code are in abalone_code.",
        ),
        _regression(
            "cadata",
            "Cadata",
            "Table 1's lengthscales and the theorems' widths; lambda, C and scaling are chosen."
            " Slow methods stop where the poster's curves do. Runs with the widths of the authors'"
            " code are in cadata_code.",
        ),
        _bandwidths(
            "bandwidths_abalone",
            "Abalone",
            "Figure 5",
            dict(bbkb_global=17.5, bbkb_global_local=17.5, bkb=17.5, gp_ucb=5.0, gp_bucb=12.5),
            "The theorems' widths, T = 10,000; BKB, TS, GP-BUCB and the local rule have 1 or 2"
            " seeds. bandwidths_abalone_code has the widths of the authors' code.",
        ),
        _bandwidths(
            "bandwidths_cadata",
            "Cadata",
            "Figure 6",
            dict(bbkb_global=12.5, bbkb_global_local=12.5, bkb=12.5, gp_ucb=12.5, gp_bucb=12.5),
            "The theorems' widths, T = 10,000.",
        ),
        _bandwidths(
            "bandwidths_cadata_code",
            "Cadata until t = 1,000, the widths of the authors' code",
            "Figure 6",
            {},
            "Other widths and a shorter horizon than the paper's, 4 seeds, no BKB: it decides no"
            " claim.",
        ),
        _search(
            "nas_warm",
            "Figures 3 and 4: architecture search after 2,000 random evaluations",
            2000,
            _LESS,
            Claim(
                "Figure 4",
                "BBKB matches the simple regret of regularized evolution.",
                "The 95% interval of one of its rules reaches down to evolution's.",
                checks.matches_evolution,
            ),
            _FASTER,
            _SLOWER,
            _BATCHES,
            _LARGER,
            _TRAINING,
        ),
        _search(
            "nas",
            "Figures 4 and 7: architecture search from nothing",
            0,
            Claim(
                "Figure 4",
                "Without initial evaluations BBKB has less simple regret than regularized"
                " evolution.",
                "The mean of one of its rules is below evolution's.",
                checks.beats_evolution,
                cause="Rewards of three fixed values a cell, as the paper's, do not explain it"
                " (tried until t = 2,000: README).",
            ),
            *(
                claim._replace(item="Figure 7")
                for claim in (_LESS, _FASTER, _SLOWER, _BATCHES, _LARGER, _TRAINING)
            ),
        ),
        _whole("nas_whole", "the theorems' widths"),
        _whole("nas_whole_code", "the width of the authors' code"),
        _settings("cadata_settings", "GP-UCB"),
        _settings("cadata_settings_bbkb", "BBKB"),
        _settings("cadata_settings_noise", "GP-UCB and BKB, with more noise,"),
        _settings("cadata_settings_batches", "GP-BUCB and Thompson sampling"),
        _widths("widths", "Abalone, and five draws from a Gaussian process"),
        _widths("widths_large", "Cadata until t = 500, NAS-Bench-101 until t = 2,000"),
    ),
)

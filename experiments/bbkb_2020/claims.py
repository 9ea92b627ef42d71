"""Claims of BBKB (Calandriello, Carratino, Lazaric, Valko, Rosasco, ICML 2020)."""

from __future__ import annotations

from experiments.bbkb_2020 import checks
from experiments.claims import Claim, Experiment, Figure, Paper, listed

_RUN = "python -m experiments.bbkb_2020"
_BATCHES = Claim(
    "Figure 3",
    "Batch sizes grow linearly with t under both rules.",
    "The slope of log batch size on log t, where batches start, over the last two decades of t, is"
    f" between {checks.LINEAR[0]} and {checks.LINEAR[1]} for both.",
    checks.batches_grow,
)
_LARGER = Claim(
    "Figure 3",
    "The local rule makes larger batches.",
    f"It needs at most {checks.FEWER:g} times the batches of the global rule.",
    checks.fewer_batches,
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
        f"{_RUN}.regret --dataset {name} --out results/bbkb_2020/{name}",
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
                "Its regret ratio falls by less than a tenth between T/2 and T.",
                checks.hardly_converges,
            ),
            *times,
            _BATCHES,
            _LARGER,
        ),
    )


def _bandwidths(
    name: str, title: str, item: str, options: str, table: dict[str, float]
) -> Experiment:
    return Experiment(
        f"bbkb_2020/bandwidths_{name}",
        f"{item} and Table 1: one lengthscale for all, {title}",
        f"{_RUN}.bandwidths --dataset {name} {options}--out results/bbkb_2020/bandwidths_{name}",
        "A shorter horizon than the paper's 10,000 evaluations; Thompson sampling on the sketch in"
        " place of the exact one.",
        (_curve("regret_ratio", "Regret ratio at six lengthscales, a panel each,", title),),
        (
            Claim(
                item,
                "BBKB is robust over a wider range of bandwidths than the others.",
                f"Its regret ratio is within {checks.WITHIN} times the least of all at more"
                " lengthscales than any other's.",
                checks.widest_range,
            ),
            Claim(
                "Table 1",
                f"Best lengthscales: {listed(list(table), list(table.values()), 1)}.",
                "Every one of these algorithms has its least regret there.",
                checks.best_lengthscales(table),
            ),
        ),
    )


_CELLS = (
    "NAS-Bench-Macro's 6,561 architectures stand in for NAS-Bench-101 unless its table is at hand;"
    " see data below."
)


def _search(name: str, title: str, initial: int, *claims: Claim) -> Experiment:
    on = f"the architectures after {initial:,} random evaluations"
    return Experiment(
        f"bbkb_2020/{name}",
        title,
        f"{_RUN}.nas_bench_101 --initial {initial} --out results/bbkb_2020/{name}",
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
    "The slower rule takes less time than the fastest baseline (uniform left out).",
    checks.faster_than_all,
)

PAPER = Paper(
    "BBKB",
    "Near-linear time Gaussian process optimization with adaptive batching and resparsification"
    " (ICML 2020)",
    (
        _regression(
            "abalone",
            "Abalone",
            "The lengthscales of the paper's Table 1; lambda, C and scaling are chosen.",
        ),
        _regression(
            "cadata",
            "Cadata",
            "The lengthscales of the paper's Table 1; lambda, C and scaling are chosen.",
        ),
        _bandwidths(
            "abalone",
            "Abalone",
            "Figure 5",
            "--horizon 2000 ",
            dict(bbkb_global=17.5, bbkb_global_local=17.5, bkb=17.5, gp_ucb=5.0, gp_bucb=12.5),
        ),
        _bandwidths(
            "cadata",
            "Cadata",
            "Figure 6",
            "--horizon 1000 --seeds 4 --algorithms uniform eps_greedy gp_ucb gp_bucb sketched_ts"
            " bbkb_global bbkb_global_local ",
            dict(bbkb_global=12.5, bbkb_global_local=12.5, bkb=12.5, gp_ucb=12.5, gp_bucb=12.5),
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
            ),
            _LESS,
            _FASTER,
            _SLOWER,
            _BATCHES,
            _LARGER,
            _TRAINING,
        ),
    ),
)

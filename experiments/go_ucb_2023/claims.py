"""Claims of GO-UCB (Liu, Wang, ICML 2023), and the rules that decide them.

The judged GO-UCB is that of the paper's Appendix D.1 (`go_ucb_printed`: eq. 5 and the printed
rates); notes also have eq. 5 with our scaling (`go_ucb_eq5`) and our default (`go_ucb`). The judged
GP methods have uniform candidates, except in `tuning`, where half of them are near the best point.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import combinations

import numpy as np

from experiments.claims import (
    TIE,
    Case,
    Claim,
    Experiment,
    Finding,
    Interval,
    Measurements,
    Missing,
    Paper,
    Source,
    above,
    difference,
    entry,
    interval,
    interval_text,
    interval_texts,
    leads,
    level,
    lines,
    list_numbers,
    list_texts,
    number,
    read_sibling,
    values,
)
from experiments.figures.styles import label

CLASSICAL = ("gp_ei", "gp_pi", "gp_ucb")
GO_UCB, OTHER_FORMS = "go_ucb_printed", ("go_ucb_eq5", "go_ucb")
INITIAL = 5  # evaluations of phase I in tuning
PLATEAU_REGRET = 0.01  # regret per step over the uniform policy's
LINEAR_SHARE = 0.75  # regret per step at the end over that of the whole run
BEND_RATIO = 0.5  # regret per step after the bend over that before it
AFTER_SECOND_STEP = 7  # evaluations on f1 after which phase I and two optimistic steps are over

Regrets = dict[str, np.ndarray]  # {method: regrets [S, n + T]}


def _regrets(source: Source, function: str) -> Regrets:
    """The regrets on a function, by method; the seeds of all methods are the same. GP methods with
    uniform candidates have the names of the paper's methods, the others the suffix "_near"."""
    curves = {name: of for name, (_, of) in lines(source, "regret", function).items()}
    regrets = {f"{name}_near" if name in CLASSICAL else name: of for name, of in curves.items()}
    for folder in ("synthetic_uniform", *(("synthetic_f1",) if function == "f1" else ())):
        more = lines(read_sibling(source, folder), "regret", function)
        regrets |= {name.removesuffix("_uniform"): of for name, (_, of) in more.items()}
    return regrets


def _others(regrets: Mapping[str, np.ndarray]) -> list[str]:
    names = [name for name in (*CLASSICAL, "turbo") if name in regrets]
    if len(names) < 4:
        raise Missing("a method of the comparison was not run")
    return names


def _gaps(regrets: Regrets, ours: str) -> dict[str, Interval]:
    """The intervals of the cumulative regret of the other methods minus that of GO-UCB."""
    total = {name: of.sum(1) for name, of in regrets.items()}
    return {name: difference(total[ours], total[name]) for name in _others(regrets)}


def _shown(name: str) -> str:
    """The name of a method in texts."""
    near = ", candidates near the best point" if name.endswith("_near") else ""
    return f"{label(name.removesuffix('_near'))}{near}"


def _per_step(source: Source, function: str, regrets: Regrets, names: list[str]) -> str:
    """The regrets per step over the uniform policy's."""
    uniform = number(source, "functions", function, "uniform_regret")
    ratios = {_shown(name): regrets[name].mean(1) / uniform for name in names}
    return list_texts({n: interval_text(interval(r), 3) for n, r in ratios.items()})


def best_on(source: Source, function: str) -> Finding:
    """GO-UCB has less cumulative regret than each other method on the same seeds."""
    regrets = _regrets(source, function)
    tie = TIE * regrets[GO_UCB].sum(1).mean()
    gaps = _gaps(regrets, GO_UCB)
    notes = []
    for name in OTHER_FORMS:
        holds = leads(_gaps(regrets, name).values(), TIE * regrets[name].sum(1).mean())
        words = {True: "leads", False: "does not lead", None: "is undecided"}[holds]
        notes.append(f"{label(name)} {words}")
    near = _per_step(source, function, regrets, [f"{name}_near" for name in CLASSICAL])
    forms = _per_step(source, function, regrets, list(OTHER_FORMS))
    return Finding(
        "Regret per step over uniform's:"
        f" {_per_step(source, function, regrets, [GO_UCB, *_others(regrets)])}."
        f" Cumulative regret more than GO-UCB's: {interval_texts(gaps, 1)}.",
        leads(gaps.values(), tie),
        f"{'; '.join(notes)} ({forms}). {near}.",
    )


def best_beside_botorch(source: Source, function: str) -> Finding:
    """GO-UCB has less cumulative regret than each method of BoTorch itself with the priors of the
    paper's time, on the same seeds."""
    theirs = _of_botorch(source, function)
    regrets = _regrets(read_sibling(source, "synthetic"), function)
    total = {name: of.sum(1) for name, of in (regrets | theirs).items()}
    gaps = {name: difference(total[GO_UCB], total[name]) for name in theirs}
    ours = {
        name: regrets[name][: len(next(iter(theirs.values())))] for name in (GO_UCB, *OTHER_FORMS)
    }
    shown = _per_step(source, function, ours | theirs, [GO_UCB, *theirs])
    return Finding(
        f"Regret per step over uniform's: {shown}. Cumulative regret more than GO-UCB's:"
        f" {interval_texts(gaps, 1)}.",
        leads(gaps.values(), TIE * total[GO_UCB].mean()),
        f"{_per_step(source, function, ours, list(OTHER_FORMS))}.",
    )


def _of_botorch(source: Source, function: str) -> Regrets:
    """The regrets of the methods of BoTorch itself with the priors of the paper's time."""
    curves = {name: of for name, (_, of) in lines(source, "regret", function).items()}
    return {name: of for name, of in curves.items() if name.endswith("_gamma")}


def best_of_the_baselines(source: Source, function: str) -> Finding:
    """TuRBO has less cumulative regret than each of the GP methods on the same seeds."""
    regrets = _regrets(source, function)
    total = {name: of.sum(1) for name, of in regrets.items()}
    gaps = {n: difference(total["turbo"], total[n]) for n in CLASSICAL}
    tie = TIE * total["turbo"].mean()
    return Finding(
        f"Cumulative regret more than TuRBO's: {interval_texts(gaps, 1)}.",
        leads(gaps.values(), tie),
    )


def flat(source: Source, name: str, first: int, words: str) -> Finding:
    """The 95% interval of the regret per step on f1 after `first` evaluations lies below
    PLATEAU_REGRET times that of the uniform policy. It fails where the interval lies above."""
    regrets = _regrets(source, "f1")
    uniform = number(source, "functions", "f1", "uniform_regret")
    late = {n: regrets[n][:, first:].mean(1) / uniform for n in (name, *OTHER_FORMS)}
    intervals = {n: interval(ratios) for n, ratios in late.items()}
    centre, half = intervals.pop(name)
    below = int((late[name] <= PLATEAU_REGRET).sum())
    five = (below / len(late[name])) ** 5
    note = (
        f"{interval_texts(intervals, 4)}. Five repetitions, the paper's number, are all at most"
        f" {PLATEAU_REGRET:.0%} with probability {five:.2f}."
    )
    note = note if name == GO_UCB else ""
    return Finding(
        f"Regret per step {words} over uniform's: {interval_text((centre, half), 4)}, at most"
        f" {PLATEAU_REGRET:.0%} in {below} of {len(late[name])} repetitions.",
        None if abs(centre - PLATEAU_REGRET) <= half else centre < PLATEAU_REGRET,
        note,
    )


def least_bars(source: Source) -> Finding:
    """The standard deviations of the cumulative regret on f1 over that of GO-UCB, with bootstrap
    intervals."""
    regrets = _regrets(source, "f1")
    others = _others(regrets)
    deviations = {n: regrets[n].sum(1).std(ddof=1) for n in (GO_UCB, *others, *OTHER_FORMS)}
    ours = _resampled_deviations(regrets[GO_UCB].sum(1))
    ends = {
        n: np.quantile(_resampled_deviations(regrets[n].sum(1)) / ours, (0.025, 0.975))
        for n in others
    }
    intervals = {n: (float(pair.mean()), float(np.ptp(pair) / 2)) for n, pair in ends.items()}
    texts = {n: f"{low:.2f} to {high:.2f}" for n, (low, high) in ends.items()}
    return Finding(
        f"Standard deviations: {list_numbers(deviations, deviations.values(), 1)}; over GO-UCB's:"
        f" {list_texts(texts)}.",
        above(intervals.values(), 1.0),
    )


def _resampled_deviations(values: np.ndarray) -> np.ndarray:
    """Standard deviations of 2,000 bootstrap samples."""
    draws = np.random.default_rng(0).choice(values, (2_000, len(values)))
    return draws.std(1, ddof=1)


def steady(source: Source, function: str, go_ucb: bool) -> Finding:
    """The regret grows linearly: the last ten steps have LINEAR_SHARE of the average regret."""
    regrets = _regrets(source, function)
    names = [GO_UCB, *_others(regrets)] if go_ucb else list(CLASSICAL)
    other = [n for n in (*OTHER_FORMS, *(f"{name}_near" for name in CLASSICAL)) if n in regrets]
    shares = [_share_of_last(regrets[n]) for n in other]
    return _steadiness(
        {n: regrets[n] for n in names},
        f"Beside them: {list_numbers(map(_shown, other), shares, 2)}.",
    )


def steady_in_botorch(source: Source, function: str) -> Finding:
    """The same of the methods of BoTorch itself."""
    return _steadiness(_of_botorch(source, function), "")


def _share_of_last(regret: np.ndarray) -> float:
    """The regret per step of the last ten over that of the whole run."""
    return float(regret[:, -10:].mean() / regret.mean())


def _steadiness(regrets: Regrets, note: str) -> Finding:
    """Whether the regret per step of the last ten exceeds LINEAR_SHARE of that of the whole run for
    all methods, by the intervals over seeds of the difference."""
    margins = {n: of[:, -10:].mean(1) - LINEAR_SHARE * of.mean(1) for n, of in regrets.items()}
    relative = {n: interval(margin / regrets[n].mean()) for n, margin in margins.items()}
    shares = {n: f"{_share_of_last(of):.2f} ± {relative[n][1]:.2f}" for n, of in regrets.items()}
    return Finding(
        f"Regret per step of the last ten over that of the whole run: {list_texts(shares)}.",
        above(relative.values()),
        note,
    )


def _gap_to_next(source: Source, function: str, ours: str) -> Interval:
    """The interval of the next best method's regret per step over the uniform policy's, minus
    GO-UCB's, on the same seeds."""
    gaps = _gaps(_regrets(source, function), ours)
    centre, half = min(gaps.values())
    steps = sum(number(source, "functions", function, name) for name in ("n", "T"))
    whole = steps * number(source, "functions", function, "uniform_regret")
    return centre / whole, half / whole


def smaller_gap(source: Source) -> Finding:
    """The lead of GO-UCB over the next best method is positive on f3, and larger on f2."""
    forms = (GO_UCB, *OTHER_FORMS)
    leads_on = {f: {n: _gap_to_next(source, f, n) for n in forms} for f in ("f2", "f3")}
    (on_f2, wide_f2), (on_f3, wide_f3) = (leads_on[f][GO_UCB] for f in ("f2", "f3"))
    centre, half = on_f2 - on_f3, float(np.hypot(wide_f2, wide_f3))
    holds = None if abs(centre) <= half or abs(on_f3) <= wide_f3 else centre > 0 and on_f3 > 0
    texts = {
        n: f"f2 {interval_text(leads_on['f2'][n], 3)}, f3 {interval_text(leads_on['f3'][n], 3)}"
        for n in forms
    }
    return Finding(
        f"Next best regret per step minus GO-UCB's: {texts.pop(GO_UCB)}; difference of the two"
        f" {interval_text((centre, half), 3)}.",
        holds,
        f"{list_texts(texts)}.",
    )


def _tuning(source: Source, problem: str) -> tuple[dict[str, Interval], str]:
    """The intervals of the other methods' cumulative regret minus that of GO-UCB; and, as text,
    those of the other forms of GO-UCB, and the repetitions in which phase II improves on phase
    I."""
    curves = lines(source, "regret", problem)
    regrets = {name.removesuffix("_uniform"): of for name, (_, of) in curves.items()}
    shown = [
        f"{label(name)}: {interval_texts(_gaps(regrets, name), 2)}"
        for name in OTHER_FORMS
        if name in regrets
    ]
    ours = regrets[GO_UCB]
    better = int((ours[:, INITIAL:].min(1) < ours[:, :INITIAL].min(1)).sum())
    shown.append(
        f"GO-UCB finds a better point than its {INITIAL} initial ones in {better} of {len(ours)}"
        " repetitions."
    )
    return _gaps(regrets, GO_UCB), "; ".join(shown)


def _start_folder(problem: str) -> str:
    """The folder of the runs of a tuning problem with ascents from a uniform point."""
    return f"tuning_start{'' if problem.endswith('breast_cancer') else '_more'}"


def _gaps_from_uniform(source: Source, problem: str) -> dict[str, Interval]:
    """The same intervals if the ascent starts at a uniform point; none without these runs."""
    try:
        start = read_sibling(source, _start_folder(problem))
        [(_, theirs)] = lines(start, "regret", problem).values()
    except Missing:
        return {}
    curves = lines(source, "regret", problem)
    regrets = {name.removesuffix("_uniform"): of for name, (_, of) in curves.items()}
    # f* is the best accuracy of the methods in a folder
    best, other_best = (entry(one, "problems", problem, "f_star") for one in (source, start))
    count = min(len(best), len(other_best))
    shift = np.subtract(best[:count], other_best[:count])[:, None]
    return _gaps(regrets | {GO_UCB: theirs[:count] + shift}, GO_UCB)


def _for_both_starts(
    source: Source, problem: str, finding: Finding, rule: Callable[..., bool | None]
) -> Finding:
    """The finding, which is undecided if the rule gives another answer from a uniform start.
    Without these runs it fails if the rule fails without GO-UCB, and is otherwise undecided."""
    gaps = _gaps_from_uniform(source, problem)
    if not gaps:
        holds = False if rule([]) is False else None
        return finding._replace(holds=holds, note=f"{finding.note} The uniform start was not run.")
    words = {True: "holds", False: "fails", None: "is undecided"}
    other = rule(gaps.values())
    return Finding(
        finding.numbers,
        other if other == finding.holds else None,
        f"From the best point it {words[finding.holds]}, from a uniform one it {words[other]}:"
        f" {interval_texts(gaps, 3)}. {finding.note}",
    )


def much_better(source: Source, problem: str) -> Finding:
    """GO-UCB has less cumulative regret than each other method on the same folds."""
    gaps, other = _tuning(source, problem)
    above = sum(centre > half for centre, half in gaps.values())
    finding = Finding(
        f"Cumulative regret more than GO-UCB's: {interval_texts(gaps, 2)}; above 0 beyond the"
        f" interval: {above} of {len(gaps)}, from {entry(source, 'repetitions')} repetitions.",
        leads(gaps.values(), 0.0),
        other,
    )
    return _for_both_starts(source, problem, finding, partial(leads, tie=0.0))


def similar(source: Source, problem: str) -> Finding:
    """No difference in cumulative regret between two methods is beyond its interval."""
    gaps, other = _tuning(source, problem)
    total = {name: of.sum(1) for name, (_, of) in lines(source, "regret", problem).items()}
    margin = interval(total[GO_UCB])[1]
    pairs = {
        f"{label(b)} minus {label(a)}": difference(total[a], total[b])
        for a, b in combinations((*CLASSICAL, "turbo"), 2)
    }

    def rule(gaps: Iterable[Interval]) -> bool | None:
        return level([*gaps, *pairs.values()], margin)

    finding = Finding(
        f"Cumulative regret more than GO-UCB's: {interval_texts(gaps, 3)}; GO-UCB has"
        f" {interval_text(interval(total[GO_UCB]), 3)}. {interval_texts(pairs, 3)}.",
        rule(gaps.values()),
        other,
    )
    return _for_both_starts(source, problem, finding, rule)


def _bend(source: Source, problem: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Regrets per step [folds] until t = 23 and after."""
    key = ("problems", problem, "algorithms", name)
    before, after = (
        np.asarray(values(source, *key, f"regret_per_step_{when}_23"))
        for when in ("until", "after")
    )
    return before, after


def bends(source: Source) -> Finding:
    """The regret per step of TuRBO falls by half after t = 23, that of the GP methods does not, by
    the 95% intervals over folds of the later one minus BEND_RATIO times the earlier one."""
    names = ("turbo", *CLASSICAL)
    slopes = {
        name: _bend(source, "mlp-breast_cancer", name if name == "turbo" else f"{name}_uniform")
        for name in names
    }
    excess = {
        name: difference(BEND_RATIO * before, after) for name, (before, after) in slopes.items()
    }
    centre, half = excess["turbo"]
    holds = above([(-centre, half), *(excess[name] for name in CLASSICAL)])
    before, after = ([pair[i].mean() for pair in slopes.values()] for i in (0, 1))
    return Finding(
        f"Regret per step until t = 23: {list_numbers(names, before)}; after:"
        f" {list_numbers(names, after)}. Later one minus {BEND_RATIO} times the earlier one:"
        f" {interval_texts(excess, 4)}, {len(slopes['turbo'][0])} folds.",
        holds,
    )


TURBO = Experiment(
    "go_ucb_2023/turbo",
    "TuRBO beside its authors' code",
    "Functions of 10 inputs; 20 initial evaluations, 300 in all.",
    measurements=(
        Measurements(
            "Simple regret after some numbers of evaluations, ten seeds",
            dict(median=("median", 3), mean=("mean", 3)),
            ("functions", "algorithms", "simple_regret"),
        ),
    ),
)
_UNIFORM = ("go_ucb_2023/synthetic_uniform",)
_F1 = ("go_ucb_2023/synthetic_f1",)


def _on_functions(check: Callable[..., Finding], *names: str) -> tuple[Case, ...]:
    return tuple(
        Case(
            "go_ucb_2023/synthetic",
            partial(check, function=name),
            name,
            _UNIFORM + (_F1 if name == "f1" else ()),
        )
        for name in names
    )


def _on_f1(
    check: Callable[[Source], Finding], name: str = "", sources: tuple[str, ...] = ()
) -> tuple[Case, ...]:
    return (Case("go_ucb_2023/synthetic", check, name, _UNIFORM + _F1 + sources),)


def _in_botorch(check: Callable[..., Finding], *names: str) -> tuple[Case, ...]:
    sources = ("go_ucb_2023/synthetic", *_UNIFORM, *_F1)
    return tuple(
        Case(
            "go_ucb_2023/botorch",
            partial(check, function=name),
            f"{name}, BoTorch itself",
            sources,
        )
        for name in names
    )


def _on_tuning(
    check: Callable[..., Finding], problem: str, name: str = "", folder: str = "tuning"
) -> Case:
    sources = (f"go_ucb_2023/{_start_folder(problem)}",)
    return Case(f"go_ucb_2023/{folder}", partial(check, problem=problem), name, sources)


_SETTINGS = (
    "The judged settings are those of Appendix D.1 with uniform candidates for the GP methods; the"
    " earlier ones were our default and candidates near the best point. The ascent starts at the"
    " best observed point, which the paper does not state. With the printed step sizes it stays"
    " there, so that the judged GO-UCB repeats the best point of phase I."
)
_FLAT = (
    "The 95% interval of the regret per step lies below"
    f" {PLATEAU_REGRET:.0%} of the uniform policy's"
)
_FLAT_FAILS = (
    f"It fails where one lies above, and is undecided where one contains {PLATEAU_REGRET:.0%}."
)
_FLAT_CHANGE = " The interval decides in place of the mean."
_FLAT_WHY = "The maximum of f1 is a plateau, so that a method that has found it has no regret."
_LINEAR = (
    f"The regret per step of the last ten evaluations exceeds {LINEAR_SHARE} of that of the whole"
    " run, beyond the 95% interval of the difference over seeds, for each of them. It fails where"
    " one interval lies below."
)
_LINEAR_WHY = (
    "Linear regret has 1; a quarter allows for the better points that are found by chance."
)
_PAIRED = (
    "The 95% interval of each other method's cumulative regret minus GO-UCB's, on the same seeds,"
    " lies above 0. "
)
_BOTH_STARTS = (
    "The ascent starts at the best observed point and, for comparison, at a uniform one; it is"
    " undecided where the two disagree."
)
_MODELS = ("random_forest", "mlp", "gradient_boosting")
CLAIMS = (
    Claim(
        "Section 6.1, Figure 2",
        "GO-UCB has less cumulative regret than GP-EI, GP-PI, GP-UCB and TuRBO on f1, f2 and f3.",
        f"{_PAIRED}It fails where one lies below {TIE:.0%} of GO-UCB's regret. The same holds for"
        " the methods of BoTorch itself.",
        "The paper's curves are apart by far more than 5%, so that a tie contradicts it. The paper"
        " ran BoTorch, whose acquisition functions are maximised by gradients; its priors are those"
        " of the paper's time, which changed in 2024.",
        (
            *_on_functions(best_on, "f1", "f2", "f3"),
            *_in_botorch(best_beside_botorch, "f1", "f2", "f3"),
        ),
        ("not decidable here", "confirmed", "differs"),
        f"{_SETTINGS} BoTorch had two seeds and the present priors.",
        "On f2 the candidates of the GP methods: with half of them near the best point, and all"
        " else equal, GP-PI's regret falls from 0.79 to 0.54 of the uniform policy's, below"
        " GO-UCB's; BoTorch refines its candidates by gradients. On f1, and with BoTorch on f3,"
        " cause unknown.",
    ),
    Claim(
        "Section 6.1, Figure 2",
        "TuRBO is the best of the Bayesian optimization methods.",
        "The 95% interval of each GP method's cumulative regret minus TuRBO's, on the same seeds,"
        f" lies above 0. It fails where one lies below {TIE:.0%} of TuRBO's regret.",
        "As above.",
        _on_functions(best_of_the_baselines, "f1", "f2", "f3"),
        (),
        "A new claim.",
    ),
    Claim(
        "Section 6.1, Figure 2a",
        "GO-UCB finds the optimum of f1 shortly after phase I.",
        f"{_FLAT} after the second step of phase II. {_FLAT_FAILS}",
        _FLAT_WHY,
        _on_f1(partial(flat, name=GO_UCB, first=AFTER_SECOND_STEP, words="after the second step")),
        ("confirmed",),
        f"{_SETTINGS}{_FLAT_CHANGE} With 50 repetitions it decided nothing.",
        "The printed step sizes, with which neither fit nor ascent leaves its start (THEORY 8.3):"
        " phase II is on the plateau in exactly the repetitions in which a point of phase I is.",
    ),
    Claim(
        "Section 6.1, Figure 2a",
        "The regrets of GO-UCB and TuRBO on f1 stay the same from t = 22 on.",
        f"{_FLAT} from the 22nd evaluation on, for both. {_FLAT_FAILS}",
        _FLAT_WHY,
        (
            *_on_f1(partial(flat, name=GO_UCB, first=21, words="from the 22nd on"), "GO-UCB"),
            *_on_f1(
                partial(flat, name="turbo", first=21, words="from the 22nd on"),
                "TuRBO",
                (TURBO.folder,),
            ),
        ),
        ("confirmed", "differs"),
        f"{_SETTINGS}{_FLAT_CHANGE}",
        "GO-UCB: as above. With eq. 5, our scaling, ball, rates and starts, all changed together,"
        " the regret is 0. TuRBO: cause unknown; ours is level with its authors' code on three"
        " other functions (turbo). If t counts from phase II on, TuRBO is undecided (0.019"
        " ± 0.023).",
    ),
    Claim(
        "Section 6.1, Figure 2a",
        "GO-UCB has the smallest error bars on f1.",
        "The 95% bootstrap intervals of the other methods' standard deviation of the cumulative"
        " regret over GO-UCB's lie above 1. It fails where one lies below.",
        "The paper's error bars are 1.96 sd / sqrt(5).",
        _on_f1(least_bars),
        ("differs",),
        f"{_SETTINGS} Intervals decide in place of estimates.",
    ),
    Claim(
        "Section 6.1, Figure 2a",
        "GP-EI, GP-PI and GP-UCB have almost linear regret on f1.",
        _LINEAR,
        _LINEAR_WHY,
        (
            *_on_f1(partial(steady, function="f1", go_ucb=False), "f1"),
            *_in_botorch(steady_in_botorch, "f1"),
        ),
        ("differs",),
        f"{_SETTINGS} Intervals decide in place of means, and BoTorch has the priors of the paper's"
        " time.",
        "Cause unknown. The best of as many uniform points has no regret on f1: the optimum is a"
        " plateau.",
    ),
    Claim(
        "Section 6.1, Figures 2b and 2c",
        "All methods have linear regret on f2 and f3.",
        _LINEAR,
        _LINEAR_WHY,
        (
            *_on_functions(partial(steady, go_ucb=True), "f2", "f3"),
            *_in_botorch(steady_in_botorch, "f2", "f3"),
        ),
        ("differs", "confirmed"),
        f"{_SETTINGS} Intervals decide in place of means, and BoTorch has the priors of the paper's"
        " time.",
        "Cause unknown. Only BoTorch's UCB on f2 differs, with 0.53; ours has 1.19 with uniform"
        " candidates and 0.93 with half of them near the best point, and BoTorch without gradient"
        " steps was not run.",
    ),
    Claim(
        "Section 6.1, Figures 2b and 2c",
        "The gap between GO-UCB and the next best method is smaller on f3 than on f2.",
        "The regret per step of the next best method over the uniform policy's, minus GO-UCB's, is"
        " positive on f3, and larger on f2, both beyond the 95% interval. It fails as well where"
        f" that of a method of BoTorch itself on f2 lies below {TIE:.0%} of GO-UCB's regret.",
        "The ratio to the uniform policy makes the two functions comparable. If GO-UCB does not"
        " lead on f2, its lead on f3 is not smaller.",
        (
            Case("go_ucb_2023/synthetic", smaller_gap, "f2", _UNIFORM),
            *_in_botorch(best_beside_botorch, "f2"),
        ),
        ("differs",),
        f"{_SETTINGS} Intervals decide in place of means, and BoTorch itself is beside them.",
        "The verdict rests on BoTorch, beside which GO-UCB does not lead on f2. With uniform"
        " candidates the gaps to GP-EI, GP-UCB and TuRBO are smaller on f3, and that to GP-PI is"
        " level.",
    ),
    Claim(
        "Section 6.2, Figure 3a",
        "All methods are similar for the random forest on breast cancer.",
        "The 95% intervals of the differences in cumulative regret between each two methods, on the"
        " same folds, lie within GO-UCB's own interval around 0. It fails where one does not"
        " contain 0."
        f" {_BOTH_STARTS}",
        "The same paired intervals decide that methods are similar and that one is better.",
        (_on_tuning(similar, "random_forest-breast_cancer"),),
        ("confirmed",),
        "The earlier rule compared the error bars of the two methods, which overlap. The next"
        " one took the differences from GO-UCB only, with the start at the best point, which differ"
        " as well.",
        "Cause unknown; there are five repetitions.",
    ),
    Claim(
        "Section 6.2, Figures 3b and 3c",
        "GO-UCB is statistically much better than all others for the perceptron and for gradient"
        " boosting on breast cancer.",
        f"{_PAIRED}It fails where one lies below 0. {_BOTH_STARTS}",
        "The paper calls it statistically better. The start of the ascent is not stated. The 20"
        " repetitions are the folds of four partitions, which the interval takes as independent.",
        (
            _on_tuning(much_better, "mlp-breast_cancer", "perceptron", "tuning_perceptron"),
            _on_tuning(
                much_better, "gradient_boosting-breast_cancer", "boosting", "tuning_boosting"
            ),
        ),
        ("not decidable here", "not decidable here"),
        "The settings of Appendix D.1, uniform candidates, and 20 repetitions in place of five. The"
        " start at the best point alone confirms it.",
    ),
    Claim(
        "Section 6.2, Figure 3b",
        "TuRBO's regret bends after t = 23, those of the GP methods do not.",
        f"The 95% interval over folds of the regret per step after t = 23, minus {BEND_RATIO} of"
        " that from the end of phase I until then, lies at or below 0 for TuRBO, and above 0 for"
        " each GP method. It fails where one lies on the other side.",
        "A bend that is visible in a figure is a change of slope by about half.",
        (Case("go_ucb_2023/tuning_perceptron", bends),),
        ("differs",),
        "Intervals decide in place of means, by which it would differ, and there are 20 repetitions"
        " in place of five.",
    ),
    Claim(
        "Appendix D.2, Figures 4 and 5",
        "The same is seen on Australian and diabetes: GO-UCB is better than all others with every"
        " classifier.",
        f"{_PAIRED}It fails where one lies below 0. {_BOTH_STARTS}",
        "As in Figure 3.",
        tuple(
            _on_tuning(much_better, f"{model}-{data}", f"{data}, {model.replace('_', ' ')}")
            for data in ("australian", "diabetes")
            for model in _MODELS
        ),
        ("not decidable here", "not decidable here"),
        "The settings of Appendix D.1.",
    ),
)

SYNTHETIC = Experiment(
    "go_ucb_2023/synthetic",
    "Figure 2: functions of 20 inputs",
    "f1: an all-ones network; f2: Styblinski-Tang; f3: Rastrigin. The same settings for all. The GP"
    " methods have half of their candidates near the best point; synthetic_uniform has those with"
    " uniform candidates.",
    {
        "figure2.png": "Cumulative regret on f1, f2 and f3 against evaluations, one line for each"
        " method",
        "figure2_5.png": "The same of the first five repetitions, the paper's number",
    },
)
UNIFORM = Experiment(
    "go_ucb_2023/synthetic_uniform",
    "Figure 2: GP methods with uniform candidates",
    "All candidates of the acquisition functions are uniform in the box, BoTorch's default.",
    {
        "figure2.png": "Cumulative regret of the GP methods with uniform candidates on f1, f2 and"
        " f3 against evaluations"
    },
)
_RATIOS = Measurements(
    "Regret per step over the uniform policy's, and of the last ten steps",
    dict(regret_ratio=("R_T / R_T^unif", 3), ratio_last_10=("of the last ten", 3)),
    ("functions", "algorithms"),
)
F1 = Experiment(
    "go_ucb_2023/synthetic_f1",
    "Figure 2a: more repetitions of two methods on f1",
    "GO-UCB with the printed settings, and GP-PI with uniform candidates: one repetition in ten of"
    " the first does not find the plateau, so that 50 do not decide.",
    measurements=(_RATIOS,),
)
BOTORCH = Experiment(
    "go_ucb_2023/botorch",
    "Figure 2: BoTorch's methods with the priors of the paper's time",
    "Gamma priors, which were BoTorch's defaults before 2024, in place of the present ones.",
    measurements=(_RATIOS,),
)
PACKAGES = Experiment(
    "go_ucb_2023/packages",
    "Figure 2: the methods of BoTorch and scikit-optimize",
    "The packages' defaults, with the first points of the other methods under the same seeds.",
    measurements=(_RATIOS,),
)
BOOSTING = Experiment(
    "go_ucb_2023/tuning_boosting",
    "Figure 3c: 20 repetitions of gradient boosting on breast cancer",
    "The GP methods have uniform candidates.",
    {
        "figure3.png": "Cumulative regret in tuning gradient boosting on breast cancer, one line"
        " for each method"
    },
)
PERCEPTRON = Experiment(
    "go_ucb_2023/tuning_perceptron",
    "Figure 3b: 20 repetitions of the perceptron on breast cancer",
    "The GP methods have uniform candidates.",
    {
        "figure3.png": "Cumulative regret in tuning a network on breast cancer, one line for each"
        " method"
    },
)
START = Experiment(
    "go_ucb_2023/tuning_start",
    "Figure 3: GO-UCB with ascents from a uniform point",
    "The printed settings with another start, on breast cancer. Regret is relative to the best"
    " accuracy of this method alone.",
    {
        "figure3.png": "Cumulative regret in tuning all classifiers on breast cancer, ascents from"
        " a uniform point"
    },
)
_SETS = {3: "breast_cancer", 4: "australian", 5: "diabetes"}
TUNING = Experiment(
    "go_ucb_2023/tuning",
    "Figures 3 to 5: tuning three classifiers on three data sets",
    "The best accuracy of all methods replaces the unknown maximum. The GP methods have half of"
    " their candidates near the best point.",
    {
        f"figure{n}.png": "Cumulative regret in tuning a random forest, a network and gradient"
        f" boosting on {name.replace('_', ' ')}, one line for each method"
        for n, name in _SETS.items()
    },
)

PAPER = Paper(
    "GO-UCB",
    "Global optimization with parametric function approximation (ICML 2023)",
    (SYNTHETIC, UNIFORM, F1, BOTORCH, PACKAGES, TURBO, TUNING, PERCEPTRON, BOOSTING, START),
    CLAIMS,
)

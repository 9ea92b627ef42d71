"""Claims of GO-UCB (Liu, Wang, ICML 2023), and the rules that decide them.

The judged configuration of GO-UCB is that of the paper's Appendix D.1 (`go_ucb_printed`: eq. 5 and
the printed rates). The ascent starts at the best observed point. The GP baselines of Figure 2 have
several implementations: ours with uniform candidates, BoTorch's and scikit-optimize's. A claim on
the baselines holds if it holds with each implementation that was run, fails if it fails with each,
and is undecided if they disagree. In Figures 3 to 5 the GP methods are ours, with uniform
candidates where the folder has them. The notes also have the numbers of GO-UCB with eq. 5 and our
scaling (`go_ucb_eq5`), and of `LocalGOUCB` (`go_ucb`), which refits the network to all
observations.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

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
    all_above,
    all_near_zero,
    curves_by_algorithm,
    decision,
    difference_interval,
    entry,
    interval_text,
    labelled_intervals,
    labelled_numbers,
    labelled_texts,
    leads,
    mean_interval,
    number,
    read_sibling,
)
from experiments.figures.styles import label

GP_METHODS = ("gp_ei", "gp_pi", "gp_ucb")
BASELINES = (*GP_METHODS, "turbo")
JUDGED_FORM, OTHER_FORMS = "go_ucb_printed", ("go_ucb_eq5", "go_ucb")  # forms of GO-UCB
PHASE_1 = 5  # evaluations of phase I, in tuning and on f1
FIRST_STEPS = 7  # evaluations of phase I and of the first two steps of phase II on f1
MAX_FLAT_RATIO = 0.01  # of a flat curve's regret per step to the uniform policy's
END = slice(-10, None)  # the last ten evaluations
MIN_END_RATIO = 0.75  # of a linear curve's regret per step at its END to the whole run's
BEND = 23  # t at which TuRBO's curve bends in the paper
MAX_BEND_RATIO = 0.5  # of a bent curve's regret per step after t = BEND to that of phase II before
DECISION_WORDS = {True: "holds", False: "fails", None: "is undecided"}
LEAD_WORDS = {True: "leads", False: "does not lead", None: "is undecided"}

# {package: folder of the runs of its GP methods}
PACKAGES = {"BoTorch": "botorch", "scikit-optimize": "scikit_optimize"}
WITHOUT_DEFAULT = "botorch_ucb_gamma"  # the method whose width has no default
OUR_GP_METHODS = "our GP methods"

Regrets = dict[str, np.ndarray]  # {method: regrets of single evaluations [S, n + T]}
Decision = tuple[bool | None, str]  # (whether a rule holds, the numbers that decide it)


def _our_regrets(source: Source, function: str) -> Regrets:
    """The regrets of our methods on a function, with the same seeds. The GP methods have half of
    their candidates near the best point, or, with the suffix "_uniform", only uniform ones."""
    more = ("synthetic_uniform", *(("synthetic_f1",) if function == "f1" else ()))
    folders = (source, *(read_sibling(source, name) for name in more))
    # the runs of synthetic_f1 replace those of the other folders, which have fewer seeds
    curves = [curves_by_algorithm(folder, "regret", function) for folder in folders]
    return {name: regret for part in curves for name, (_, regret) in part.items()}


def _gp_regrets(source: Source, function: str) -> dict[str, Regrets]:
    """{implementation: regrets of its judged GP methods} on a function."""
    regrets = _our_regrets(source, function)
    by_implementation = {OUR_GP_METHODS: {name: regrets[f"{name}_uniform"] for name in GP_METHODS}}
    for package, folder in PACKAGES.items():
        try:
            curves = curves_by_algorithm(read_sibling(source, folder), "regret", function)
        except Missing:
            continue
        judged = {n: regret for n, (_, regret) in curves.items() if n != WITHOUT_DEFAULT}
        by_implementation[package] = judged
    return by_implementation


def _regret_differences(baselines: Regrets, regret: np.ndarray) -> dict[str, Interval]:
    """{baseline: interval of its cumulative regret minus a method's on the same seeds}. regret: the
    regrets [S, n + T] of the method."""
    cumulative = {name: baseline.sum(1) for name, baseline in baselines.items()}
    return {name: difference_interval(c, regret.sum(1)) for name, c in cumulative.items()}


def _decide_lead(baselines: Regrets, regret: np.ndarray) -> Decision:
    """Whether a method with the regrets [S, n + T] has less cumulative regret than the baselines,
    and the differences as text."""
    differences = _regret_differences(baselines, regret)
    holds = leads(differences.values(), TIE * regret.sum(1).mean())
    tie = holds is False and all_above(differences.values(), 0) is not False
    tie_text = f"a tie within {TIE:.0%}; " if tie else ""
    return holds, tie_text + labelled_intervals(differences, 1)


def _decide_for_each(rule: Callable[[Any], Decision], arguments: dict[str, Any]) -> Decision:
    """Applies a rule to each value of {implementation of the GP methods: argument of the rule}.
    Returns the common decision, or None if they disagree, and all decisions as text."""
    decisions = {name: rule(argument) for name, argument in arguments.items()}
    texts = (
        f"With {name} the claim {DECISION_WORDS[holds]}: {numbers}."
        for name, (holds, numbers) in decisions.items()
    )
    distinct = {holds for holds, _ in decisions.values()}
    return decision(distinct == {False}, distinct == {True}), " ".join(texts)


def _ratio_texts(source: Source, function: str, regrets: Regrets) -> str:
    """The regrets per step divided by the uniform policy's, as text."""
    uniform = number(source, "functions", function, "uniform_regret")
    ratios = {name: mean_interval(regret.mean(1) / uniform) for name, regret in regrets.items()}
    return labelled_intervals(ratios, 3)


def go_ucb_leads(source: Source, function: str) -> Finding:
    """Whether GO-UCB has less cumulative regret than each baseline on the same seeds."""
    regrets, gp_regrets = _our_regrets(source, function), _gp_regrets(source, function)
    baselines = {name: part | {"turbo": regrets["turbo"]} for name, part in gp_regrets.items()}
    decisions = {
        form: _decide_for_each(partial(_decide_lead, regret=regrets[form]), baselines)
        for form in (JUDGED_FORM, *OTHER_FORMS)
    }
    holds, differences = decisions.pop(JUDGED_FORM)
    other_forms = "; ".join(f"{label(n)} {LEAD_WORDS[lead]}" for n, (lead, _) in decisions.items())
    near_best = {name: regrets[name] for name in GP_METHODS}
    shown = {name: regrets[name] for name in (JUDGED_FORM, *OTHER_FORMS, "turbo")}
    for part in gp_regrets.values():
        shown |= part
    return Finding(
        f"Regret per step divided by the uniform policy's: {_ratio_texts(source, function, shown)}."
        f" Cumulative regret minus GO-UCB's. {differences}",
        holds,
        f"{other_forms}. With candidates near the best point:"
        f" {_ratio_texts(source, function, near_best)}.",
    )


def turbo_leads(source: Source, function: str) -> Finding:
    """Whether TuRBO has less cumulative regret than each of the GP methods on the same seeds."""
    rule = partial(_decide_lead, regret=_our_regrets(source, function)["turbo"])
    holds, differences = _decide_for_each(rule, _gp_regrets(source, function))
    return Finding(f"Cumulative regret minus TuRBO's. {differences}", holds)


def flat_regret(source: Source, name: str, start: int, words: str) -> Finding:
    """Whether the regret of a method on f1 is flat from evaluation t = start + 1 on. words: the
    text for "from t = start + 1 on"."""
    regrets = _our_regrets(source, "f1")
    uniform = number(source, "functions", "f1", "uniform_regret")
    ratios = {n: regrets[n][:, start:].mean(1) / uniform for n in (name, *OTHER_FORMS)}
    intervals = {n: mean_interval(runs) for n, runs in ratios.items()}
    centre, half = intervals.pop(name)
    repetitions = len(ratios[name])
    flat_count = int((ratios[name] <= MAX_FLAT_RATIO).sum())
    probability_of_five = (flat_count / repetitions) ** 5
    text = note = ""
    if name == JUDGED_FORM:
        phases = np.split(regrets[name], [PHASE_1], axis=1)
        # for each repetition, whether a point of the phase is on the plateau
        in_phase_1, in_phase_2 = (part.min(1) <= MAX_FLAT_RATIO * uniform for part in phases)
        text = (
            f" In {(~in_phase_1).sum()} repetitions phase I has no point on the plateau; phase II"
            f" finds one in {(in_phase_2 & ~in_phase_1).sum()} of them."
        )
        note = (
            f"{labelled_intervals(intervals, 4)}. Five repetitions, the paper's number, all have at"
            f" most {MAX_FLAT_RATIO:.0%} with probability {probability_of_five:.2f}."
        )
    return Finding(
        f"Regret per step {words} divided by the uniform policy's:"
        f" {interval_text((centre, half), 4)}; at most {MAX_FLAT_RATIO:.0%} in {flat_count} of"
        f" {repetitions} repetitions.{text}",
        None if abs(centre - MAX_FLAT_RATIO) <= half else centre < MAX_FLAT_RATIO,
        note,
    )


def smallest_error_bars(source: Source) -> Finding:
    """Whether the cumulative regret on f1 has a larger standard deviation for each baseline than
    for GO-UCB, by bootstrap intervals of the ratio."""
    regrets = _our_regrets(source, "f1")
    go_ucb = regrets[JUDGED_FORM].sum(1)
    go_ucb_deviations = _resampled_deviations(go_ucb)

    def rule(gp_regrets: Regrets) -> Decision:
        intervals, texts = [], {}
        for name, regret in (gp_regrets | {"turbo": regrets["turbo"]}).items():
            ratios = _resampled_deviations(regret.sum(1)) / go_ucb_deviations
            low, high = np.quantile(ratios, (0.025, 0.975))
            intervals.append((float(low + high) / 2, float(high - low) / 2))
            texts[name] = f"{regret.sum(1).std(ddof=1):.1f} ({low:.2f} to {high:.2f})"
        return all_above(intervals, 1), labelled_texts(texts)

    holds, text = _decide_for_each(rule, _gp_regrets(source, "f1"))
    uniform = number(source, "functions", "f1", "uniform_regret")
    on_plateau = regrets[JUDGED_FORM][:, :PHASE_1].min(1) <= MAX_FLAT_RATIO * uniform
    other_forms = {name: regrets[name].sum(1).std(ddof=1) for name in OTHER_FORMS}
    return Finding(
        f"Standard deviations: GO-UCB {go_ucb.std(ddof=1):.1f}; others (with the interval of the"
        f" ratio to GO-UCB's): {text}",
        holds,
        f"In the {on_plateau.sum()} repetitions in which phase I has a point on the plateau,"
        f" GO-UCB's deviation is {go_ucb[on_plateau].std(ddof=1):.1f}. Other forms of GO-UCB, in"
        f" all repetitions: {labelled_numbers(other_forms, other_forms.values(), 1)}.",
    )


def _resampled_deviations(runs: np.ndarray) -> np.ndarray:
    """The standard deviations [2000] of bootstrap samples of the runs [S]."""
    samples = np.random.default_rng(0).choice(runs, (2_000, len(runs)))
    return samples.std(1, ddof=1)


def linear_regret(source: Source, function: str, all_methods: bool) -> Finding:
    """Whether the regrets of the GP methods grow linearly and, if `all_methods`, those of GO-UCB
    and TuRBO."""
    regrets = _our_regrets(source, function)
    not_gp = {name: regrets[name] for name in (JUDGED_FORM, "turbo")} if all_methods else {}
    judged = {name: not_gp | part for name, part in _gp_regrets(source, function).items()}
    holds, ratios = _decide_for_each(_decide_linear, judged)
    unjudged = (*OTHER_FORMS, *GP_METHODS)
    unjudged_ratios = [regrets[name][:, END].mean() / regrets[name].mean() for name in unjudged]
    return Finding(
        f"Regret per step of the last ten evaluations divided by that of the whole run. {ratios}",
        holds,
        "Other forms of GO-UCB, and GP methods with candidates near the best point:"
        f" {labelled_numbers(unjudged, unjudged_ratios, 2)}.",
    )


def _decide_linear(regrets: Regrets) -> Decision:
    """Whether all regrets grow linearly, and the regrets per step of the last ten evaluations
    divided by those of the whole run, as text."""
    margins = {n: r[:, END].mean(1) - MIN_END_RATIO * r.mean(1) for n, r in regrets.items()}
    # intervals of the ratio minus MIN_END_RATIO
    intervals = {n: mean_interval(margin / regrets[n].mean()) for n, margin in margins.items()}
    ratios = {n: (centre + MIN_END_RATIO, half) for n, (centre, half) in intervals.items()}
    return all_above(intervals.values(), 0), labelled_intervals(ratios, 2)


def smaller_gap(source: Source) -> Finding:
    """Whether the gap is smaller on f3 than on f2. The gap is the mean regret per step of the four
    baselines minus GO-UCB's on the same seeds, divided by the uniform policy's."""
    functions = ("f2", "f3")
    uniform = {f: number(source, "functions", f, "uniform_regret") for f in functions}
    our_regrets = {f: _our_regrets(source, f) for f in functions}
    gp_on_f2, gp_on_f3 = (_gp_regrets(source, f) for f in functions)

    def rule(gp_regrets: Sequence[Regrets], go_ucb_form: str = JUDGED_FORM) -> Decision:
        gaps = {}
        for function, gp_regrets_on_function in zip(functions, gp_regrets, strict=True):
            turbo, go_ucb = (our_regrets[function][name] for name in ("turbo", go_ucb_form))
            compared = (go_ucb, turbo, *gp_regrets_on_function.values())
            common_seeds = min(map(len, compared))
            go_ucb_ratio, *baseline_ratios = (
                regret[:common_seeds].mean(1) / uniform[function] for regret in compared
            )
            gaps[function] = mean_interval(np.mean(baseline_ratios, 0) - go_ucb_ratio)
        (gap_f2, half_f2), (gap_f3, half_f3) = gaps.values()
        decrease = gap_f2 - gap_f3, float(np.hypot(half_f2, half_f3))
        text = f"{labelled_intervals(gaps, 3)}; decrease {interval_text(decrease, 3)}"
        return all_above([decrease], 0), text

    both = {name: (gp_on_f2[name], gp_on_f3[name]) for name in gp_on_f2 if name in gp_on_f3}
    holds, text = _decide_for_each(rule, both)
    ours = both[OUR_GP_METHODS]
    other_forms = "; ".join(f"{label(form)}: {rule(ours, form)[1]}" for form in OTHER_FORMS)
    return Finding(
        f"Regret per step of the others minus GO-UCB's, divided by the uniform policy's. {text}",
        holds,
        f"{other_forms}.",
    )


def _tuning_regrets(source: Source, problem: str) -> Regrets:
    """The regrets in a folder of tuning."""
    # the suffix "_uniform" marks uniform candidates or, of GO-UCB, a uniform start; no folder has
    # the same method without the suffix
    curves = curves_by_algorithm(source, "regret", problem)
    return {name.removesuffix("_uniform"): regret for name, (_, regret) in curves.items()}


def _gaps(regrets: Regrets, go_ucb_form: str) -> dict[str, Interval]:
    """{baseline: interval of its cumulative regret minus that of a form of GO-UCB}. Raises Missing
    if a baseline was not run."""
    if not set(BASELINES) <= set(regrets):
        raise Missing("a method of the comparison was not run")
    return _regret_differences({name: regrets[name] for name in BASELINES}, regrets[go_ucb_form])


def _tuning_note(regrets: Regrets) -> str:
    """The gaps of the other forms of GO-UCB, and the number of repetitions in which phase II of the
    judged form finds a better point than phase I, as text."""
    forms = [form for form in OTHER_FORMS if form in regrets]
    texts = [f"{label(form)}: {labelled_intervals(_gaps(regrets, form), 2)}" for form in forms]
    phases = np.split(regrets[JUDGED_FORM], [PHASE_1], axis=1)
    least_in_phase_1, least_in_phase_2 = (part.min(1) for part in phases)
    texts.append(
        f"GO-UCB finds a better point than its {PHASE_1} initial ones in"
        f" {(least_in_phase_2 < least_in_phase_1).sum()} of {len(least_in_phase_1)} repetitions."
    )
    return "; ".join(texts)


def _gaps_from_uniform(source: Source, problem: str, regrets: Regrets) -> dict[str, Interval]:
    """`_gaps` of the judged form with ascents from uniform points; empty without such runs.
    `regrets` are those of `source`."""
    try:
        uniform_start = read_sibling(source, "tuning_start")
        [regret] = _tuning_regrets(uniform_start, problem).values()
    except Missing:
        return {}
    # regret is relative to f*, the best accuracy of the methods in a folder
    f_star, f_star_of_start = (
        entry(folder, "problems", problem, "f_star") for folder in (source, uniform_start)
    )
    common_seeds = min(len(f_star), len(f_star_of_start))
    shift = np.subtract(f_star[:common_seeds], f_star_of_start[:common_seeds])[:, None]
    return _gaps(regrets | {JUDGED_FORM: regret[:common_seeds] + shift}, JUDGED_FORM)


def _for_both_starts(
    source: Source,
    problem: str,
    regrets: Regrets,
    finding: Finding,
    rule: Callable[..., bool | None],
) -> Finding:
    """The finding, with holds=None if the rule decides otherwise for ascents from uniform points.
    Without such runs, the claim fails if the rule fails without gaps, and else is undecided."""
    gaps = _gaps_from_uniform(source, problem, regrets)
    if not gaps:
        holds = False if rule([]) is False else None
        return finding._replace(holds=holds, note=f"{finding.note} The uniform start was not run.")
    holds_from_uniform = rule(gaps.values())
    return Finding(
        finding.numbers,
        finding.holds if finding.holds == holds_from_uniform else None,
        f"With ascents from the best point the claim {DECISION_WORDS[finding.holds]}, with ascents"
        f" from a uniform point it {DECISION_WORDS[holds_from_uniform]}:"
        f" {labelled_intervals(gaps, 3)}. {finding.note}",
    )


def much_better(source: Source, problem: str) -> Finding:
    """Whether GO-UCB has less cumulative regret than each baseline on the same folds."""
    regrets = _tuning_regrets(source, problem)
    gaps = _gaps(regrets, JUDGED_FORM)
    above_zero = sum(centre > half for centre, half in gaps.values())
    finding = Finding(
        f"Cumulative regret minus GO-UCB's: {labelled_intervals(gaps, 2)}; {above_zero} of"
        f" {len(gaps)} intervals lie above 0 ({entry(source, 'repetitions')} repetitions).",
        leads(gaps.values(), 0.0),
        _tuning_note(regrets),
    )
    return _for_both_starts(source, problem, regrets, finding, partial(leads, tie=0.0))


def similar(source: Source, problem: str) -> Finding:
    """Whether the intervals of the differences in cumulative regret between every two methods lie
    within the paper's error bar of GO-UCB around 0."""
    regrets = _tuning_regrets(source, problem)
    gaps = _gaps(regrets, JUDGED_FORM)
    cumulative = {name: regret.sum(1) for name, regret in regrets.items()}
    error_bar = _error_bar(cumulative[JUDGED_FORM])
    without_go_ucb = {
        f"{label(b)} minus {label(a)}": difference_interval(cumulative[b], cumulative[a])
        for a, b in combinations(BASELINES, 2)
    }

    def rule(gaps: Iterable[Interval]) -> bool | None:
        return all_near_zero([*gaps, *without_go_ucb.values()], error_bar)

    finding = Finding(
        f"Cumulative regret minus GO-UCB's: {labelled_intervals(gaps, 3)}; the error bar of GO-UCB"
        f" is {error_bar:.3f}. Differences between the others:"
        f" {labelled_intervals(without_go_ucb, 3)}.",
        rule(gaps.values()),
        _tuning_note(regrets),
    )
    return _for_both_starts(source, problem, regrets, finding, rule)


def _error_bar(cumulative: np.ndarray) -> float:
    """The half width of the paper's error bars, of five repetitions, for cumulative regrets [S]."""
    return 1.96 * float(cumulative.std(ddof=1)) / np.sqrt(5)


def similar_then_better(source: Source, problem: str) -> Finding:
    """Whether TuRBO and the GP methods have similar cumulative regrets at t = BEND, and afterwards
    TuRBO has less regret than each of them, and its regret bends."""
    regrets = _tuning_regrets(source, problem)
    before = {name: regrets[name][:, :BEND].sum(1) for name in BASELINES}
    after = {name: regrets[name][:, BEND:].mean(1) for name in BASELINES}
    gaps_before, gaps_after = (
        {name: difference_interval(part[name], part["turbo"]) for name in GP_METHODS}
        for part in (before, after)
    )
    error_bar = _error_bar(before["turbo"])
    phase_2_before = regrets["turbo"][:, PHASE_1:BEND].mean(1)
    bend = mean_interval(MAX_BEND_RATIO * phase_2_before - after["turbo"])
    similar_before = all_near_zero(gaps_before.values(), error_bar)
    better_after = all_above([*gaps_after.values(), bend], 0)
    return Finding(
        f"Cumulative regret until t = {BEND} minus TuRBO's: {labelled_intervals(gaps_before, 2)};"
        f" the error bar of TuRBO is {error_bar:.2f}. Regret per step afterwards minus TuRBO's:"
        f" {labelled_intervals(gaps_after, 4)}. {MAX_BEND_RATIO} times TuRBO's regret per step from"
        f" the end of phase I until t = {BEND}, minus its regret per step afterwards:"
        f" {interval_text(bend, 4)}. There are {len(phase_2_before)} folds.",
        decision(False in (similar_before, better_after), bool(similar_before and better_after)),
    )


# other folders whose runs `_our_regrets` and `_gp_regrets` read
_OUR_RUNS = ("go_ucb_2023/synthetic_uniform",)
_OUR_RUNS_F1 = (*_OUR_RUNS, "go_ucb_2023/synthetic_f1")
_PACKAGE_RUNS = tuple(f"go_ucb_2023/{folder}" for folder in PACKAGES.values())


def _on_functions(check: Callable[..., Finding], *functions: str) -> tuple[Case, ...]:
    """A case for each function."""
    runs = {f: (_OUR_RUNS_F1 if f == "f1" else _OUR_RUNS) + _PACKAGE_RUNS for f in functions}
    folder = "go_ucb_2023/synthetic"
    return tuple(Case(folder, partial(check, function=f), f, runs[f]) for f in functions)


def _on_f1(
    check: Callable[[Source], Finding], name: str = "", packages: tuple[str, ...] = ()
) -> Case:
    return Case("go_ucb_2023/synthetic", check, name, _OUR_RUNS_F1 + packages)


def _on_tuning(
    check: Callable[..., Finding], problem: str, name: str = "", folder: str = "tuning"
) -> Case:
    start_runs = ("go_ucb_2023/tuning_start",)
    return Case(f"go_ucb_2023/{folder}", partial(check, problem=problem), name, start_runs)


_SETTINGS = (
    "The judged settings are those of Appendix D.1, with uniform candidates for our GP methods; the"
    " earlier rule judged our default, with candidates near the best point. The ascent starts at"
    " the best observed point; the paper does not state a start. With the printed step sizes the"
    " ascent stays at its start, so that the judged GO-UCB repeats the best point of phase I."
)
_IMPLEMENTATIONS = (
    "The GP methods have three implementations: ours with uniform candidates, BoTorch's EI and PI,"
    " and scikit-optimize's EI, PI and LCB (not run on f2 and f3). The claim is undecided where the"
    " implementations disagree."
)
_GP_WHY = (
    "Section 6 names BoTorch and scikit-optimize with default parameter settings, but not which of"
    " them ran which method. BoTorch's UCB decides nothing, because its width has no default and"
    " the paper states none."
)
_AGREEMENT = (
    "The earlier rule took our GP methods and BoTorch's three together, and failed where one of"
    " these six contradicts the claim; by that rule the claim differs."
)
_SLOPE = f"{MAX_FLAT_RATIO:.0%}"
_FLAT = f"the 95% interval of the regret per step lies below {_SLOPE} of the uniform policy's."
_FLAT_FAILS = (
    f"The claim fails where the interval lies above, and is undecided where it contains {_SLOPE}."
)
_FLAT_CHANGE = " The earlier rule compared the mean; this one compares its interval."
_FLAT_WHY = "The maximum of f1 is a plateau, so that a method that has found it has no regret."
_LINEAR = (
    "For each of the methods, the regret per step of the last ten evaluations exceeds"
    f" {MIN_END_RATIO} times that of the whole run, beyond the 95% interval of the difference over"
    " seeds. The claim fails where the difference of one method is negative, beyond its interval."
)
_LINEAR_WHY = (
    "For linear regret the ratio of the two is 1; a quarter less allows for better points that are"
    " found by chance."
)
_PAIRED = (
    "The 95% interval of each other method's cumulative regret minus GO-UCB's, on the same seeds,"
    " lies above 0. "
)
_BOTH_STARTS = (
    "The ascent starts at the best observed point and, for comparison, at a uniform point; the"
    " claim is undecided where the verdicts with the two starts disagree."
)
_FLAT_AFTER_TWO_STEPS = partial(flat_regret, start=FIRST_STEPS, words="after the second step")
_FLAT_FROM_22 = partial(flat_regret, start=21, words="from t = 22 on")
_MODELS = ("random_forest", "mlp", "gradient_boosting")
CLAIMS = (
    Claim(
        "Section 6.1, Figure 2",
        "GO-UCB has less cumulative regret than GP-EI, GP-PI, GP-UCB and TuRBO on f1, f2 and f3.",
        f"{_PAIRED}The claim fails where one interval lies below {TIE:.0%} of GO-UCB's regret."
        f" {_IMPLEMENTATIONS}",
        "The paper's curves are apart by far more than 5%, so that a tie contradicts the claim."
        f" {_GP_WHY}",
        _on_functions(go_ucb_leads, "f1", "f2", "f3"),
        ("not decidable here", "confirmed", "differs"),
        f"{_SETTINGS} {_AGREEMENT}",
    ),
    Claim(
        "Section 6.1, Figure 2",
        "TuRBO is the best of the Bayesian optimization methods.",
        "The 95% interval of each GP method's cumulative regret minus TuRBO's, on the same seeds,"
        f" lies above 0. The claim fails where one interval lies below {TIE:.0%} of TuRBO's regret."
        f" {_IMPLEMENTATIONS}",
        "The paper's curves are apart by far more than 5%, so that a tie contradicts the claim."
        f" {_GP_WHY}",
        _on_functions(turbo_leads, "f1", "f2", "f3"),
        (),
        "This claim is new. With our GP methods alone it differs as well.",
    ),
    Claim(
        "Section 6.1, Figure 2a",
        "GO-UCB finds the optimum of f1 shortly after phase I.",
        f"After the second step of phase II {_FLAT} {_FLAT_FAILS}",
        f"{_FLAT_WHY} The bound of {_SLOPE} is our choice; with 10% the claim would be confirmed.",
        (_on_f1(partial(_FLAT_AFTER_TWO_STEPS, name=JUDGED_FORM)),),
        ("confirmed",),
        f"{_SETTINGS}{_FLAT_CHANGE} With 50 repetitions the claim was undecided.",
        "The cause is the printed step sizes, with which neither the fit nor the ascent leaves its"
        " start (THEORY 8.3): phase II is on the plateau in exactly the repetitions in which"
        " phase I has found it.",
    ),
    Claim(
        "Section 6.1, Figure 2a",
        "The regrets of GO-UCB and TuRBO on f1 stay the same from t = 22 on.",
        f"For both methods, from the 22nd evaluation on, {_FLAT} {_FLAT_FAILS}",
        _FLAT_WHY,
        (
            _on_f1(partial(_FLAT_FROM_22, name=JUDGED_FORM), "GO-UCB"),
            _on_f1(partial(_FLAT_FROM_22, name="turbo"), "TuRBO"),
        ),
        ("confirmed", "differs"),
        f"{_SETTINGS}{_FLAT_CHANGE}",
        "For GO-UCB the cause is the printed step sizes: with eq. 5, our scaling, ball, rates and"
        " starts, all changed together, the regret is 0. For TuRBO the cause is unknown; our TuRBO"
        " is level with the authors' on three other functions (turbo). If t counts from phase II"
        " on, TuRBO is undecided (0.019 ± 0.023).",
    ),
    Claim(
        "Section 6.1, Figure 2a",
        "GO-UCB has the smallest error bars on f1.",
        "For each other method, the 95% bootstrap interval of the standard deviation of its"
        " cumulative regret, divided by GO-UCB's, lies above 1. The claim fails where one interval"
        f" lies below 1. {_IMPLEMENTATIONS}",
        f"The paper's error bars are 1.96 sd / sqrt(5). {_GP_WHY}",
        (_on_f1(smallest_error_bars, packages=_PACKAGE_RUNS),),
        ("differs",),
        f"{_SETTINGS} The earlier rule compared estimates; this one compares intervals.",
        "The cause is the repetitions in which phase I has no point on the plateau: with the"
        " printed step sizes phase II does not find the plateau either.",
    ),
    Claim(
        "Section 6.1, Figure 2a",
        "GP-EI, GP-PI and GP-UCB have almost linear regret on f1.",
        f"{_LINEAR} {_IMPLEMENTATIONS}",
        f"{_LINEAR_WHY} {_GP_WHY}",
        _on_functions(partial(linear_regret, all_methods=False), "f1"),
        ("differs",),
        f"{_SETTINGS} {_AGREEMENT} The earlier rule compared means; this one compares intervals."
        " scikit-optimize has 20 seeds, because ten were undecided.",
        "The cause is unknown. The best of as many uniform points as evaluations has no regret on"
        " f1, because the optimum is a plateau.",
    ),
    Claim(
        "Section 6.1, Figures 2b and 2c",
        "All methods have linear regret on f2 and f3.",
        f"{_LINEAR} {_IMPLEMENTATIONS}",
        f"{_LINEAR_WHY} {_GP_WHY}",
        _on_functions(partial(linear_regret, all_methods=True), "f2", "f3"),
        ("differs", "confirmed"),
        f"{_SETTINGS} {_AGREEMENT} Only BoTorch's UCB contradicted the claim, on f2 (0.53 ± 0.04)."
        " The earlier rule compared means; this one compares intervals.",
    ),
    Claim(
        "Section 6.1, Figures 2b and 2c",
        "The gap between GO-UCB and the other methods is smaller on f3 than on f2.",
        "The gap is the mean regret per step of the four other methods minus GO-UCB's on the same"
        " seeds, divided by the uniform policy's. It is larger on f2 than on f3, beyond"
        " the 95% interval of the difference. The claim fails where this interval lies below 0."
        f" {_IMPLEMENTATIONS}",
        f"The ratio to the uniform policy makes the two functions comparable. {_GP_WHY}",
        (Case("go_ucb_2023/synthetic", smaller_gap, other_folders=_OUR_RUNS + _PACKAGE_RUNS),),
        ("differs",),
        f"{_SETTINGS} The earlier rule took the gap to the next best method, to which the paper"
        " does not refer. By that rule the claim differs with BoTorch's methods, over which"
        " GO-UCB does not lead on f2, and is undecided with our GP methods.",
    ),
    Claim(
        "Section 6.2, Figure 3a",
        "All methods are similar for the random forest on breast cancer.",
        "The 95% intervals of the differences in cumulative regret between each two methods, on the"
        " same folds, lie within the paper's error bar of GO-UCB, 1.96 sd / sqrt(5), around 0. The"
        f" claim fails where one interval lies entirely outside. {_BOTH_STARTS}",
        "Curves are similar in the figure if they are closer than its error bars. The GP methods"
        " are ours with uniform candidates; those of the packages were not run on tuning.",
        (_on_tuning(similar, "random_forest-breast_cancer", folder="tuning_forest"),),
        ("confirmed",),
        "The first rule compared the error bars of the methods, which overlap. Later rules failed"
        " where an interval did not contain 0, even for differences within the error bar; by these"
        " rules the claim differs, with five repetitions. Twenty repetitions replace five.",
    ),
    Claim(
        "Section 6.2, Figures 3b and 3c",
        "GO-UCB is statistically much better than all others for the perceptron and for gradient"
        " boosting on breast cancer.",
        f"{_PAIRED}The claim fails where one interval lies below 0. {_BOTH_STARTS}",
        "The paper calls GO-UCB statistically better, and does not state where the ascent starts."
        " The 20 repetitions are the folds of four partitions; the interval treats them as"
        " independent.",
        (
            _on_tuning(much_better, "mlp-breast_cancer", "perceptron", "tuning_perceptron"),
            _on_tuning(
                much_better, "gradient_boosting-breast_cancer", "boosting", "tuning_boosting"
            ),
        ),
        ("not decidable here", "not decidable here"),
        "The judged settings are those of Appendix D.1, with uniform candidates, and 20 repetitions"
        " replace five. With the start at the best point alone the claim is confirmed.",
    ),
    Claim(
        "Section 6.2, Figure 3b",
        "Until t = 23 TuRBO is similar to the GP methods; afterwards TuRBO is better, and its"
        " regret bends.",
        "The rule has three parts, with 95% intervals over folds. The GP methods' cumulative regret"
        " until t = 23 minus TuRBO's lies within the paper's error bar of TuRBO, 1.96 sd / sqrt(5),"
        " around 0. Their regret per step afterwards minus TuRBO's lies above 0. TuRBO's regret per"
        f" step afterwards is less than {MAX_BEND_RATIO} times its regret per step from the end of"
        " phase I until t = 23. The claim fails where one interval contradicts its part.",
        "Curves are similar in the figure if they are closer than its error bars, and a bend that"
        " is visible is a change of slope by about half. The GP methods are ours with uniform"
        " candidates; those of the packages were not run on tuning.",
        (
            Case(
                "go_ucb_2023/tuning_perceptron",
                partial(similar_then_better, problem="mlp-breast_cancer"),
            ),
        ),
        ("differs",),
        "The earlier rule required that TuRBO's regret bends and, which the paper does not state,"
        " that the GP methods' regrets do not; by that rule the claim was undecided. Twenty"
        " repetitions replace five.",
        "The cause is unknown. With half of the candidates near the best point (five folds),"
        " GP-UCB's regret until t = 23 exceeds TuRBO's by 1.45 ± 1.13.",
    ),
    Claim(
        "Appendix D.2, Figures 4 and 5",
        "On Australian and diabetes, too, GO-UCB is better than all others with every classifier.",
        f"{_PAIRED}The claim fails where one interval lies below 0. {_BOTH_STARTS}",
        "The rule is that of the claim on Figures 3b and 3c.",
        tuple(
            _on_tuning(much_better, f"{model}-{data}", f"{data}, {model.replace('_', ' ')}")
            for data in ("australian", "diabetes")
            for model in _MODELS
        ),
        ("not decidable here", "not decidable here"),
        "The judged settings are those of Appendix D.1.",
    ),
)

_RATIOS = Measurements(
    "Regret per step divided by the uniform policy's, in the whole run and in the last ten steps",
    dict(regret_ratio=("R_T / R_T^unif", 3), ratio_last_10=("in the last ten steps", 3)),
    ("functions", "algorithms"),
)
_UNIFORM = "The GP methods have uniform candidates."
EXPERIMENTS = (
    Experiment(
        "go_ucb_2023/synthetic",
        "Figure 2: functions of 20 inputs",
        "f1 is an all-ones network, f2 Styblinski-Tang and f3 Rastrigin, with the same settings."
        " The GP methods have half of their candidates near the best point; the GP methods of"
        " synthetic_uniform have uniform candidates.",
        {
            "figure2.png": "Cumulative regret on f1, f2 and f3 against evaluations, one line for"
            " each method",
            "figure2_5.png": "Cumulative regret on f1, f2 and f3 in the first five repetitions, the"
            " paper's number",
        },
    ),
    Experiment(
        "go_ucb_2023/synthetic_uniform",
        "Figure 2: GP methods with uniform candidates",
        "All candidates of the acquisition functions are uniform in the box, BoTorch's default.",
        {
            "figure2.png": "Cumulative regret of the GP methods with uniform candidates on f1, f2"
            " and f3 against evaluations"
        },
    ),
    Experiment(
        "go_ucb_2023/synthetic_f1",
        "Figure 2a: more repetitions of two methods on f1",
        "GO-UCB with the printed settings, and GP-PI with uniform candidates. GO-UCB misses the"
        " plateau in one of ten repetitions, so that 50 repetitions do not decide.",
        measurements=(_RATIOS,),
    ),
    Experiment(
        "go_ucb_2023/scikit_optimize",
        "Figure 2a: the GP methods of scikit-optimize on f1",
        "The package's defaults. For one seed, all methods have the same first points.",
        measurements=(_RATIOS,),
    ),
    Experiment(
        "go_ucb_2023/botorch",
        "Figure 2: BoTorch's methods with the default priors before 2024",
        "Gamma priors were BoTorch's defaults when the paper appeared.",
        measurements=(_RATIOS,),
    ),
    Experiment(
        "go_ucb_2023/turbo",
        "Our TuRBO compared with its authors' code",
        "Functions of 10 inputs, with 20 initial evaluations and 300 in all.",
        measurements=(
            Measurements(
                "Simple regret after some numbers of evaluations, ten seeds",
                dict(median=("median", 3), mean=("mean", 3)),
                ("functions", "algorithms", "simple_regret"),
            ),
        ),
    ),
    Experiment(
        "go_ucb_2023/tuning",
        "Figures 3 to 5: tuning three classifiers on three data sets",
        "The best accuracy of all methods replaces the unknown maximum. The GP methods have half of"
        " their candidates near the best point.",
        {
            f"figure{n}.png": "Cumulative regret in tuning a random forest, a network and gradient"
            f" boosting on {name.replace('_', ' ')}, one line for each method"
            for n, name in ((3, "breast_cancer"), (4, "australian"), (5, "diabetes"))
        },
    ),
    Experiment(
        "go_ucb_2023/tuning_forest",
        "Figure 3a: 20 repetitions of the random forest on breast cancer",
        _UNIFORM,
        measurements=(
            Measurements(
                "Cumulative regret and best accuracy",
                dict(
                    cumulative_regret=("cumulative regret", 3), best_accuracy=("best accuracy", 4)
                ),
                ("problems", "algorithms"),
            ),
        ),
    ),
    *(
        Experiment(
            f"go_ucb_2023/tuning_{name}",
            f"Figure {figure}: 20 repetitions of {model} on breast cancer",
            _UNIFORM,
            {
                "figure3.png": f"Cumulative regret in tuning {shown} on breast cancer, one line for"
                " each method"
            },
        )
        for name, figure, model, shown in (
            ("perceptron", "3b", "the perceptron", "a network"),
            ("boosting", "3c", "gradient boosting", "gradient boosting"),
        )
    ),
    Experiment(
        "go_ucb_2023/tuning_start",
        "Figure 3: GO-UCB with ascents from a uniform point",
        "The printed settings with another start, on breast cancer. Regret is relative to the best"
        " accuracy of this method alone.",
        {
            "figure3.png": "Cumulative regret in tuning all classifiers on breast cancer, ascents"
            " from a uniform point"
        },
    ),
)
PAPER = Paper(
    "GO-UCB",
    "Global optimization with parametric function approximation (ICML 2023)",
    EXPERIMENTS,
    CLAIMS,
)

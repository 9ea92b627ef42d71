"""GO-UCB, Figure 2: cumulative regret on three functions of 20 inputs.

f1 is the all-ones network (n = 5 uniform points in phase I, then T = 25), f2 Styblinski-Tang's
function and f3 Rastrigin's (n = 8, T = 64), with noise 0.01; the regret includes phase I. The paper
shows five repetitions. For one seed all methods have the same n points.

Appendix D.1 states the learning rates of the fit (1e-11) and of the ascent (1e-4), beta_t and
lambda; open are F (here 1) and the start of the ascent. It starts at the best observed point: from
a uniform point the rates leave it there, and the regret on f1 is that of uniform points, which
Figure 2a excludes. `go_ucb_rates` changes both rates, and nothing else, to 1e-2, at which the fit
converges and 2,000 steps can cross the box (tried on a quadratic of `choose`, before all runs).

The paper names BoTorch and scikit-optimize "with default parameter settings", and not which of
them ran which method. The GP methods have four implementations: ours with uniform candidates,
scikit-optimize's, BoTorch's with its defaults of 2023 (`_raw`), and BoTorch's with normalised
inputs and standardised values (`_gamma`). BoTorch's UCB has no default width; with that of an
example in its documentation it was run with scaled inputs only. A claim is undecided where the
implementations disagree, or where one was not run. `repeat` is a null baseline, which repeats the
best point of phase I.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import common
from experiments.common import Options, Settings, Verdict
from experiments.figures import plots
from experiments.go_ucb_2023 import loop, packages
from experiments.go_ucb_2023.loop import Config
from experiments.results import environment, tidy
from experiments.runs.bandit_runs import keys_of
from jsketch import loops
from jsketch.box import GOUCB, GPBandit, GradientAscent, LocalGOUCB, Turbo, UniformBox
from jsketch.box.go_ucb.model import Gradient
from jsketch.problems import boxes
from jsketch.show import full_repr

NOISE_STD = 0.01
# {name: (function, n, T)}
FUNCTIONS: dict[str, tuple[Callable[..., boxes.BoxProblem], int, int]] = {
    "f1": (boxes.all_ones_network, 5, 25),
    "f2": (boxes.styblinski_tang, 8, 64),
    "f3": (boxes.rastrigin, 8, 64),
}
METHODS: dict[str, Callable[[int], Any]] = {
    "uniform": lambda n: UniformBox(initial=n),
    "go_ucb": lambda n: LocalGOUCB(initial=n),
    "go_ucb_eq5": lambda n: LocalGOUCB(initial=n, refit=False, reach=0.05),
    "go_ucb_printed": lambda n: GOUCB(initial=n),
    "go_ucb_rates": lambda n: GOUCB(
        initial=n,
        oracle=Gradient(rate=1e-2, rule="sgd", steps=2000, restarts=1),
        ascent=GradientAscent(rate=1e-2),
    ),
    "gp_ei": lambda n: GPBandit(initial=n, acquisition="log_ei"),
    "gp_pi": lambda n: GPBandit(initial=n, acquisition="pi"),
    "gp_ucb": lambda n: GPBandit(initial=n, acquisition="ucb"),
    "gp_ei_uniform": lambda n: GPBandit(initial=n, acquisition="log_ei", sample_around_best=False),
    "gp_pi_uniform": lambda n: GPBandit(initial=n, acquisition="pi", sample_around_best=False),
    "gp_ucb_uniform": lambda n: GPBandit(initial=n, acquisition="ucb", sample_around_best=False),
    "turbo": lambda n: Turbo(initial=n),
}
OURS = tuple(name for name in METHODS if name != "go_ucb_rates" and not name.endswith("_uniform"))
FOLDER = "go_ucb_2023"
ALL: Settings = dict(functions=tuple(FUNCTIONS), root_seed=0)
RUNS: dict[str, Settings] = {
    f"{FOLDER}/synthetic": ALL | dict(methods=OURS, seeds=50),
    f"{FOLDER}/synthetic_uniform": ALL
    | dict(methods=("gp_ei_uniform", "gp_pi_uniform", "gp_ucb_uniform"), seeds=20),
    f"{FOLDER}/synthetic_f1": ALL
    | dict(functions=("f1",), methods=("go_ucb_printed", "gp_pi_uniform"), seeds=300),
    f"{FOLDER}/scikit_optimize": ALL
    | dict(functions=("f1",), methods=tuple(packages.SKOPT), seeds=20),
    f"{FOLDER}/botorch": ALL
    | dict(methods=("botorch_pi_gamma", "botorch_ucb_gamma", "botorch_ei_gamma"), seeds=5),
    f"{FOLDER}/botorch_raw_f1": ALL
    | dict(functions=("f1",), methods=("botorch_ei_raw", "botorch_pi_raw"), seeds=20),
    f"{FOLDER}/botorch_raw": ALL
    | dict(functions=("f2", "f3"), methods=("botorch_ei_raw", "botorch_pi_raw"), seeds=20),
    # fresh seeds
    f"{FOLDER}/rates_f1": ALL
    | dict(functions=("f1",), methods=("go_ucb_printed", "go_ucb_rates"), root_seed=1, seeds=300),
    f"{FOLDER}/rates": ALL
    | dict(functions=("f2", "f3"), methods=("go_ucb_rates",), root_seed=1, seeds=30),
}
QUICK: Settings = dict(functions=("f1",), methods=("uniform", "go_ucb_printed"), seeds=2)

GROUP = 5  # repetitions in the paper's figure
TIE = 0.05  # of the regret: the paper's curves are apart by more
FLAT = 0.01  # of a flat curve's regret per step to that of uniform points
LINEAR = 0.75  # of a linear curve's regret per step in its last ten evaluations to the whole run's
END = slice(-10, None)


def configure(function: str, name: str, root_seed: int) -> Config:
    """What the results of a method on a function depend on."""
    _, n, steps = FUNCTIONS[function]
    config = dict(function=function, algorithm=name, inputs=20, n=n, T=steps)
    config |= dict(noise_std=NOISE_STD, root_seed=root_seed)
    if name in METHODS:
        return config | dict(optimizer=full_repr(METHODS[name](n)))
    settings = packages.settings(name)
    return config | settings | dict(packages=environment.package_versions(*settings["packages"]))


def play(config: Config, seeds: list[int]) -> list[dict[str, np.ndarray]]:
    """The runs of some seeds; those of our methods in one call."""
    make_problem, n, steps = FUNCTIONS[config["function"]]
    problem = make_problem(20, NOISE_STD)
    keys, start = keys_of(config["root_seed"], seeds), time.perf_counter()
    if config["algorithm"] in METHODS:
        optimizer = METHODS[config["algorithm"]](n)
        trace = loops.run(optimizer, problem, keys, n + steps).trace
        regrets, values = np.asarray(trace.regret), np.asarray(trace.y)
    else:
        pairs = zip(keys, seeds, strict=True)
        runs = [_play_package(config["algorithm"], problem, n, steps, *pair) for pair in pairs]
        regrets, values = (np.stack(part) for part in zip(*runs, strict=True))
    seconds = np.asarray((time.perf_counter() - start) / len(seeds))
    return [
        dict(regret=regret, y=y, seconds=seconds) for regret, y in zip(regrets, values, strict=True)
    ]


def _play_package(
    name: str, problem: boxes.BoxProblem, n: int, steps: int, key: Any, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(regrets, values) [n + steps] of a run of a package, from the phase I of our methods."""
    initial = loops.run(UniformBox(initial=n), problem, key, n).trace
    exact_value, rng = jax.jit(problem.value), np.random.default_rng(seed)
    values = list(np.asarray(initial.y))

    def value(x: np.ndarray) -> float:
        values.append(float(exact_value(jnp.asarray(x))) + NOISE_STD * float(rng.normal()))
        return float(values[-1])

    box = np.stack([np.asarray(problem.domain.lower), np.asarray(problem.domain.upper)], axis=1)
    start = np.asarray(initial.x), np.asarray(initial.y)
    x = packages.points(name, value, box, *start, steps, seed)
    regrets = problem.maximum - jax.vmap(problem.value)(jnp.asarray(x))
    return np.asarray(regrets), np.asarray(values)


def uniform_regret(function: str) -> float:
    """The expected regret of a uniform point, estimated by the mean over 200,000 points."""
    problem = FUNCTIONS[function][0](20)
    lower, upper = problem.domain.lower, problem.domain.upper
    x = jax.random.uniform(jax.random.key(0), (200_000, 20), lower.dtype, lower, upper)
    return float(problem.maximum - jax.jit(jax.vmap(problem.value))(x).mean())


def run(folder: Path, settings: Settings, options: Options) -> None:
    configs = {
        f: {name: configure(f, name, settings["root_seed"]) for name in settings["methods"]}
        for f in settings["functions"]
    }
    seeds = settings["seeds"]
    at_once = 1 if set(settings["methods"]) <= set(packages.NAMES) else 10
    with options.results(folder, "go_ucb_2023.fig2_functions", configs, seeds) as results:
        runs = loop.load_or_run(folder, configs, seeds, play, options.workers, at_once)
        table: list[tidy.Run] = []
        for f, methods in runs.items():
            t = np.arange(1, sum(FUNCTIONS[f][1:]) + 1)
            for name, rows in methods.items():
                arrays = [dict(row, t=t, cumulative_regret=row["regret"].sum()) for row in rows]
                table += tidy.runs_of(dict(problem=f, **configs[f][name]), arrays)
        functions = {f: dict(uniform_regret=uniform_regret(f)) for f in runs}
        results.write(dict(config=configs, seeds=seeds, functions=functions), table, "20 inputs")


# --- regrets of single evaluations, {method: [S, n + T]}

Regrets = Mapping[str, np.ndarray]


def regrets_in(folder: Path, function: str) -> dict[str, np.ndarray]:
    found = common.curves(folder, "regret", problem=function)
    if not found:
        raise common.Missing(f"{function} in {folder.parent.name}/{folder.name}")
    return common.Methods({name: regret for name, (_, regret) in found.items()})


def repeated(folder: Path, function: str, method: str) -> np.ndarray:
    """The regrets of the null baseline on the seeds of a method in a folder: phase I, and then
    again and again its point with the largest observed value."""
    n = FUNCTIONS[function][1]
    _, regret = common.curve(folder, "regret", method, problem=function)
    _, values = common.curve(folder, "y", method, problem=function)
    best = np.take_along_axis(regret, values[:, :n].argmax(1)[:, None], axis=1)
    return np.concatenate([regret[:, :n], np.tile(best, regret.shape[1] - n)], axis=1)


def our_regrets(root: Path, function: str) -> dict[str, np.ndarray]:
    """Ours, with the null baseline. The runs of synthetic_f1, which has more seeds, replace those
    of the other folders."""
    names = ["synthetic", "synthetic_uniform", *(["synthetic_f1"] if function == "f1" else [])]
    found: dict[str, np.ndarray] = {}
    for name in names:
        found |= regrets_in(root / FOLDER / name, function)
    folder = root / FOLDER / ("synthetic_f1" if function == "f1" else "synthetic")
    null = repeated(folder, function, "go_ucb_printed")
    return common.Methods(found | dict(repeat=null))


def implementations(function: str) -> dict[str, str]:
    """{implementation of the GP methods: its folder, "" for ours}, as verdicts.toml names them."""
    return {
        "ours": "",
        "BoTorch, raw": "botorch_raw_f1" if function == "f1" else "botorch_raw",
        "BoTorch, scaled": "botorch",
        "scikit-optimize": "scikit_optimize",  # which was run on f1 only
    }


def gp_regrets(root: Path, function: str, implementation: str) -> Regrets:
    """The regrets of the GP methods of an implementation. Raises Missing if they were not run."""
    if implementation == "ours":
        ours = our_regrets(root, function)
        return {name: ours[f"{name}_uniform"] for name in ("gp_ei", "gp_pi", "gp_ucb")}
    return regrets_in(root / FOLDER / implementations(function)[implementation], function)


def with_each(root: Path, function: str, case: Callable[[Regrets], Verdict]) -> Verdict:
    """The verdict of a claim about the GP methods on a function, with each implementation."""

    def judged(implementation: str) -> Verdict:
        return case(gp_regrets(root, function, implementation))

    return common.agreed({name: partial(judged, name) for name in implementations(function)})


def uniform_of(root: Path, function: str) -> float:
    """The expected regret of a uniform point."""
    provenance = common.tables(root / FOLDER / "synthetic").provenance
    return float(provenance["functions"][function]["uniform_regret"])


def lead_of(regret: np.ndarray, others: Regrets) -> Verdict:
    """The cumulative regret of each other method minus this one's, on the same seeds, lies above 0;
    the claim fails where one lies below TIE of it."""
    gaps = {n: common.difference_interval(o.sum(1), regret.sum(1)) for n, o in others.items()}
    holds = common.all_above(gaps.values(), 0, TIE * regret.sum(1).mean())
    return common.verdict(holds, common.listed(gaps, 1))


def share_of_groups(shown: Iterable[bool]) -> Verdict:
    """Whether more than half of the groups of five repetitions show a statement of the figure,
    beyond Wilson's interval."""
    groups = list(shown)
    if not groups:
        raise common.Missing("five seeds")
    share, half = common.probability_interval(sum(groups), len(groups))
    return common.verdict(
        common.all_above([(share, half)], 0.5), f"in {sum(groups)} of {len(groups)} groups of five"
    )


def groups_of(*regrets: np.ndarray) -> list[list[np.ndarray]]:
    """The common seeds of some methods in groups of five, [[regrets [5, n + T] of each method]]."""
    count = min(map(len, regrets)) // GROUP
    return [[r[GROUP * g : GROUP * (g + 1)] for r in regrets] for g in range(count)]


# --- the claims


def go_ucb_leads(root: Path) -> Verdict:
    """`lead_of` GO-UCB over the GP methods and TuRBO, with each implementation, on f1, f2, f3."""

    def case(function: str) -> Verdict:
        regrets = our_regrets(root, function)
        go_ucb, turbo = regrets["go_ucb_printed"], dict(turbo=regrets["turbo"])
        return with_each(root, function, lambda part: lead_of(go_ucb, {**part, **turbo}))

    return common.all_of({f: partial(case, f) for f in FUNCTIONS})


def turbo_is_second(root: Path) -> Verdict:
    """`lead_of` TuRBO over the GP methods, with each implementation, on f1, f2 and f3."""

    def case(function: str) -> Verdict:
        return with_each(root, function, partial(lead_of, our_regrets(root, function)["turbo"]))

    return common.all_of({f: partial(case, f) for f in FUNCTIONS})


def flat_in_groups(regret: np.ndarray, start: int, uniform: float) -> Verdict:
    """`share_of_groups` whose mean regret per step from evaluation `start` on is at most FLAT of
    that of uniform points."""
    late = regret[:, start:].mean(1) / uniform
    word, text = share_of_groups(bool(group.mean() <= FLAT) for [group] in groups_of(late))
    runs = f"{(late <= FLAT).sum()} of {len(late)} runs; mean"
    return Verdict(
        word, f"flat {text}, {runs} {common.interval_text(common.mean_interval(late), 4)}"
    )


def finds_optimum(root: Path, method: str) -> Verdict:
    """Confirmed if a method is `flat_in_groups` on f1 after the second step of phase II and, in
    more than half of the runs without an optimal point in phase I (beyond Wilson's interval), phase
    II has one in its first two steps. It differs if the first part fails, and is undecided if only
    the second part does, because the null baseline is then as flat."""
    regret, uniform = regrets_in(root / FOLDER / "rates_f1", "f1")[method], uniform_of(root, "f1")
    n = FUNCTIONS["f1"][1]
    flat, text = flat_in_groups(regret, n + 2, uniform)
    best = [part.min(1) <= FLAT * uniform for part in (regret[:, :n], regret[:, n : n + 2])]
    found, cases = int((best[1] & ~best[0]).sum()), int((~best[0]).sum())
    text += f"; phase II finds the optimum in {found} of {cases} runs in which phase I did not"
    share = common.probability_interval(found, cases)
    by_phase_two = common.all_above([share], 0.5)
    return common.verdict(
        common.decision(flat == common.DIFFERS, flat == common.CONFIRMED and by_phase_two is True),
        text,
    )


def optimum_after_phase_one(root: Path) -> Verdict:
    """`finds_optimum` of GO-UCB with the printed settings."""
    return finds_optimum(root, "go_ucb_printed")


def with_other_rates(root: Path) -> Verdict:
    """`finds_optimum` with rates of 1e-2."""
    return finds_optimum(root, "go_ucb_rates")


def flat_from_22(root: Path) -> Verdict:
    """`flat_in_groups` of GO-UCB and of TuRBO on f1 from t = 22 on; of TuRBO with our
    implementation and with its authors' code. Undecided where they disagree, and where the two
    readings of t do: the figure may count from phase I on, and Algorithm 1 counts in phase II."""

    def go_ucb() -> np.ndarray:
        return regrets_in(root / FOLDER / "rates_f1", "f1")["go_ucb_printed"]

    def ours() -> np.ndarray:
        return our_regrets(root, "f1")["turbo"]

    def authors() -> np.ndarray:
        return common.curve(root / FOLDER / "turbo_f1", "regret", "original")[1]

    def reading(start: int) -> Verdict:
        def flat(regrets: Callable[[], np.ndarray]) -> Verdict:
            return flat_in_groups(regrets(), start, uniform_of(root, "f1"))

        turbo = {"ours": partial(flat, ours), "its authors'": partial(flat, authors)}
        return common.all_of(
            {"GO-UCB": partial(flat, go_ucb), "TuRBO": partial(common.agreed, turbo)}
        )

    starts = {"t from phase I on": 21, "t from phase II on": FUNCTIONS["f1"][1] + 21}
    return common.agreed({words: partial(reading, start) for words, start in starts.items()})


def smallest_error_bars(root: Path) -> Verdict:
    """`share_of_groups` in which GO-UCB has the least standard deviation of the cumulative regret
    on f1, with each implementation."""
    regrets = our_regrets(root, "f1")

    def case(part: Regrets) -> Verdict:
        methods = (regrets["go_ucb_printed"], regrets["turbo"], *part.values())
        deviations = [[r.sum(1).std() for r in group] for group in groups_of(*methods)]
        return share_of_groups(bool(first < min(others)) for first, *others in deviations)

    return with_each(root, "f1", case)


def linear(regrets: Regrets) -> Verdict:
    """Every regret per step of the last ten evaluations minus LINEAR times that of the whole run
    lies above 0."""
    ratios = {}
    for name, regret in regrets.items():
        margin = regret[:, END].mean(1) - LINEAR * regret.mean(1)
        centre, half = common.mean_interval(margin / regret.mean())
        ratios[name] = (centre + LINEAR, half)
    return common.verdict(common.all_above(ratios.values(), LINEAR), common.listed(ratios, 2))


def gp_linear_on_f1(root: Path) -> Verdict:
    """`linear` of the GP methods on f1, with each implementation."""
    return with_each(root, "f1", linear)


def all_linear(root: Path) -> Verdict:
    """`linear` of all methods on f2 and f3, with each implementation."""

    def case(function: str) -> Verdict:
        ours = our_regrets(root, function)
        not_gp = {name: ours[name] for name in ("go_ucb_printed", "turbo")}
        return with_each(root, function, lambda part: linear({**not_gp, **part}))

    return common.all_of({f: partial(case, f) for f in ("f2", "f3")})


def smaller_gap(root: Path) -> Verdict:
    """The gap is the mean regret per step of the others minus GO-UCB's, on the same seeds,
    over that of uniform points. On f2 minus on f3 it lies above 0, with each implementation."""

    def gap(function: str, implementation: str) -> common.Interval:
        ours, part = our_regrets(root, function), gp_regrets(root, function, implementation)
        compared = (ours["go_ucb_printed"], ours["turbo"], *part.values())
        seeds = min(map(len, compared))
        ratios = [r[:seeds].mean(1) / uniform_of(root, function) for r in compared]
        return common.mean_interval(np.mean(ratios[1:], 0) - ratios[0])

    def case(implementation: str) -> Verdict:
        gaps = {f: gap(f, implementation) for f in ("f2", "f3")}
        (on_f2, half_f2), (on_f3, half_f3) = gaps.values()
        decrease = on_f2 - on_f3, float(np.hypot(half_f2, half_f3))
        text = common.listed(gaps | dict(decrease=decrease))
        return common.verdict(common.all_above([decrease], 0), text)

    return common.agreed({name: partial(case, name) for name in implementations("f2")})


def draw(folder: Path) -> None:
    """figure2.png: all repetitions, with the null baseline where the folder has the values y. The
    picture of `synthetic` also has BoTorch's raw methods, which are in folders beside it."""
    provenance = common.tables(folder).provenance
    panels: dict[str, plots.Curves] = {}
    raw_seeds: set[int] = set()
    for f in provenance["functions"]:
        regrets = regrets_in(folder, f)
        with_values = [*common.curves(folder, "y", problem=f)]
        if with_values:
            regrets["repeat"] = repeated(folder, f, with_values[0])
        raw = folder.with_name(implementations(f)["BoTorch, raw"])
        if folder.name == "synthetic" and tidy.is_complete(raw):
            more = regrets_in(raw, f)
            regrets |= more
            raw_seeds |= set(map(len, more.values()))
        panels[f] = {
            name: (np.arange(1, regret.shape[1] + 1), np.cumsum(regret, 1))
            for name, regret in regrets.items()
            if name != "uniform"
        }
    seeds = common.tables(folder).curves["seed"].nunique()
    uniform = {f: provenance["functions"][f]["uniform_regret"] for f in panels}
    phase_one = {f: FUNCTIONS[f][1] for f in panels}
    title = f"20 inputs, noise 0.01, mean and 1.96 sd / sqrt(S) of S = {seeds} repetitions"
    if raw_seeds:
        title += f" (BoTorch: {', '.join(map(str, sorted(raw_seeds)))})"
    plots.cumulative_regret_panels(folder / "figure2.png", panels, uniform, phase_one, title)


CHECKS = (
    *(go_ucb_leads, turbo_is_second, optimum_after_phase_one, flat_from_22, smallest_error_bars),
    *(gp_linear_on_f1, all_linear, smaller_gap),
)
CAUSES = {"optimum_after_phase_one": with_other_rates}

if __name__ == "__main__":
    common.main(__file__)

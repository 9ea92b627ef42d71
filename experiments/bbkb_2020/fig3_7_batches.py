"""BBKB, Figures 3 and 7: batch sizes and run time of the architecture search.

The paper says that the batches of both rules grow linearly, that the local rule makes larger ones
and is slower without experimental costs, and that both are faster than the baselines. The runs and
settings are those of Figure 4, after 2,000 initial evaluations (Figure 3) and without (Figure 7).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from experiments import common
from experiments.bbkb_2020 import fig4_search
from experiments.bbkb_2020.fig4_search import QUICK, RULES, WARM, draw, run
from experiments.common import Verdict
from experiments.results import store, summaries

__all__ = ["CHECKS", "QUICK", "RUNS", "draw", "run"]

# {reading of xi and lambda, which the paper leaves open, with its width and the code's: {folder:
# rules}}
READINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "theorems' width": dict(nas_warm=RULES[:1], nas_warm_local=RULES[1:], nas=RULES),
    "theorems' width, less noise": dict(
        nas_warm_theory_less_noise=RULES, nas_theory_less_noise=RULES
    ),
    "code's width": dict(nas_warm_code=RULES[:1], nas_code=RULES),
    "code's width, less noise": dict(
        nas_warm_less_noise=RULES[:1], nas_less_noise=RULES, nas_less_noise_two_arms=RULES
    ),
}
NAMES = [name for folders in READINGS.values() for name in folders]
RUNS = {f"bbkb_2020/{name}": fig4_search.RUNS[f"bbkb_2020/{name}"] for name in NAMES}
LINEAR = (0.75, 1.25)  # growth with a power of t in this interval is linear
FEWER = 0.9  # larger batches: at most this share of the other rule's number of batches


def growth_power(t: np.ndarray, sizes: np.ndarray) -> float:
    """The power p of the best fit a + c t^p to the sizes of the batches that start at t, without
    the last one, which the horizon cuts."""
    starts = np.flatnonzero(np.diff(sizes, prepend=0))[:-1]
    return summaries.growth(t[starts], sizes[starts])


def batches_grow_linearly(root: Path) -> Verdict:
    """The power of every rule lies in LINEAR beyond its interval, with each of the READINGS; all
    runs that exist count. The claim is undecided where the readings disagree, or where one was not
    run."""

    def case(folder: Path, rule: str) -> Verdict:
        t, sizes = common.curve(folder, "batch_size", rule)
        powers = np.array([growth_power(t, row) for row in sizes])
        gaps = [common.mean_interval(powers - LINEAR[0]), common.mean_interval(LINEAR[1] - powers)]
        text = f"t^p with p = {common.interval_text(common.mean_interval(powers), 2)}"
        return common.verdict(common.all_above(gaps, 0), text)

    def reading(folders: Mapping[str, Sequence[str]]) -> Verdict:
        return common.all_of(
            {
                f"{name}, {rule}": partial(case, root / "bbkb_2020" / name, rule)
                for name, rules in folders.items()
                for rule in rules
            }
        )

    return common.agreed({name: partial(reading, folders) for name, folders in READINGS.items()})


def of_searches(check: Callable[[Path], Verdict], root: Path) -> Verdict:
    """The verdict of a claim on both rules, with the searches and widths that both were run with
    until T."""
    names = ("nas_warm", "nas", "nas_code")
    return common.all_of({name: partial(check, root / "bbkb_2020" / name) for name in names})


def local_batches_are_larger(root: Path) -> Verdict:
    """FEWER times the batches of the global rule, minus those of the local rule, lies above 0."""

    def case(folder: Path) -> Verdict:
        of_global, of_local = (common.finals(folder, "batches", rule) for rule in RULES)
        gap = common.difference_interval(FEWER * of_global, of_local)
        text = f"{of_global.mean():.1f} and {of_local.mean():.1f} batches"
        return common.verdict(common.all_above([gap], 0), text)

    return of_searches(case, root)


def local_rule_is_slower(root: Path) -> Verdict:
    """Each run of the local rule takes more than twice as long as each run of the global rule."""

    def case(folder: Path) -> Verdict:
        fast, slow = (common.curve(folder, "seconds", rule)[1][:, -1] for rule in RULES)
        holds = common.decision(slow.max() <= 2 * fast.min(), slow.min() > 2 * fast.max())
        text = f"{fast.min():.1f} to {fast.max():.1f} s and {slow.min():.1f} to {slow.max():.1f} s"
        return common.verdict(holds, text)

    return of_searches(case, root)


def faster_than_evolution(root: Path) -> Verdict:
    """Each run of both rules takes less time than each run of the baselines: of epsilon-greedy, in
    wall seconds of the same folder, and of the authors' program of evolution, in CPU seconds. The
    claim differs if each run of a rule takes longer than each run of epsilon-greedy. Wall seconds
    of up to two threads refute nothing against CPU seconds of one."""
    folder = root / "bbkb_2020"
    path = folder / "authors_evolution.json"
    if not path.exists():
        raise common.Missing(path.name)
    program = store.read_json(path)
    scale = WARM["new"] / program["evaluations"]
    evolution = scale * np.array([run["cpu_seconds"] for run in program["seeds"]])
    sources = dict(nas_warm=RULES, nas_warm_local=RULES[1:])

    def seconds(name: str, algorithm: str) -> np.ndarray:
        return common.curve(folder / name, "seconds", algorithm)[1][:, -1]

    ours = {
        rule: np.concatenate([seconds(n, rule) for n, rules in sources.items() if rule in rules])
        for rule in RULES
    }
    greedy = seconds("nas_warm", "eps_greedy_free")
    slowest = max(runs.max() for runs in ours.values())
    fails = any(runs.min() > greedy.max() for runs in ours.values())
    holds = slowest < min(greedy.min(), evolution.min())
    measured = ours | dict(eps_greedy_free=greedy)
    spans = {name: f"{s.min():.1f} to {s.max():.1f}" for name, s in measured.items()}
    text = f"wall seconds: {common.listed(spans)}; CPU seconds of the authors' evolution"
    text += f" {evolution.min():.1f} to {evolution.max():.1f}"
    return common.verdict(common.decision(fails, holds), text)


CHECKS = (
    *(batches_grow_linearly, local_batches_are_larger),
    *(local_rule_is_slower, faster_than_evolution),
)

if __name__ == "__main__":
    common.main(__file__)

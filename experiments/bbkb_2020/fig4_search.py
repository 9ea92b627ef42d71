"""BBKB, Figure 4: the regret of architecture search, with and without 2,000 initial evaluations.

The paper searches the 12,416 cells of NAS-Bench-101 with 3x3 convolutions and pooling, T = 12,000
with the initial evaluations. It says that BBKB has less cumulative regret than regularized
evolution, less simple regret without initial evaluations, and the same after them. Appendix D.2
states: lengthscale 100, or 125 after initial evaluations, F = 1, delta = 1/T, q_bar = 2; the poster
C = 2. Open are xi and lambda, which are assumed, epsilon, and the first arms. Section 5 draws one
of the three trainings of a cell; our data have their means, and the noise is Gaussian. The curves
of the poster start from two random arms; ours from one, unless `initial` is 2.

Initial evaluations count in the simple regret, and not in the regret ratio.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import common
from experiments.bbkb_2020.methods import ALGORITHMS
from experiments.common import Options, Settings, Verdict
from experiments.data import architectures
from experiments.figures import plots
from experiments.runs import against_published, bandit_runs
from experiments.runs.bandit_runs import Config
from experiments.runs.model_free import ModelFreeEpsGreedy
from jsketch.bandits import RegularizedEvolution, history

RULES = ("bbkb_global", "bbkb_global_local")
ALL = ("uniform", "evolution", "eps_greedy_free", *RULES)
# `new` evaluations follow the initial ones; delta = 1 / total
COLD: Settings = dict(data="auto", initial=0, new=12_000, total=12_000, lengthscale=100.0)
COLD |= dict(width="theory", noise_std=0.01, regularization=1e-4, root_seed=0)
COLD |= dict(seeds=10, algorithms=ALL)
WARM = COLD | dict(initial=2_000, new=10_000, lengthscale=125.0)
# another assumed noise; LESS_NOISE on seeds that chose no setting
SMALL_NOISE: Settings = dict(noise_std=0.0032, regularization=1e-5)
LESS_NOISE = COLD | SMALL_NOISE | dict(new=1_000, width="code")
LESS_NOISE |= dict(seeds=40, root_seed=1, algorithms=("evolution", *RULES))
RUNS: dict[str, Settings] = {
    "bbkb_2020/nas_warm": WARM,
    "bbkb_2020/nas": COLD,
    "bbkb_2020/nas_warm_local": WARM | dict(seeds=40, algorithms=("bbkb_global_local",)),
    "bbkb_2020/nas_warm_code": WARM
    | dict(seeds=50, width="code", algorithms=("evolution", "bbkb_global")),
    "bbkb_2020/nas_code": COLD | dict(seeds=5, width="code"),
    "bbkb_2020/nas_less_noise": LESS_NOISE,
    "bbkb_2020/nas_warm_less_noise": WARM
    | SMALL_NOISE
    | dict(width="code", algorithms=("bbkb_global",)),
    "bbkb_2020/nas_less_noise_two_arms": LESS_NOISE | dict(initial=2, new=998, algorithms=RULES),
    # the paper's width with less assumed noise
    "bbkb_2020/nas_theory_less_noise": COLD | SMALL_NOISE | dict(algorithms=RULES),
    "bbkb_2020/nas_warm_theory_less_noise": WARM | SMALL_NOISE | dict(algorithms=RULES),
}
QUICK: Settings = dict(new=60, seeds=2)

MATCH = 5e-4  # a quarter of the difference of the two best cells
# evaluations until which both searches still improve; later both find the best cell
JUDGED_T = (136, 300, 1_000)


def make(space: architectures.Space, name: str, c: Config) -> Any:
    if name == "evolution":
        return RegularizedEvolution(jnp.asarray(space.neighbours))
    if name == "eps_greedy_free":
        return ModelFreeEpsGreedy(factor=c["factor"])
    bandit = ALGORITHMS[name](c | dict(norm_bound=1.0, qbar=2.0))
    if not name.startswith("bbkb"):
        return bandit
    return bandit.replace(max_batch=10_000, capacity=256 if c["initial"] else 64)


def initial_evaluations(problem: Any, config: Config, seed: int) -> tuple[Any, Any, Any]:
    """(arms [n], rewards [n], key for `init`) of the initial evaluations, the same for all
    methods."""
    # the offset keeps these keys apart from those of the runs
    key = jax.random.fold_in(jax.random.key(config["root_seed"]), 1_000_000 + seed)
    arm_key, reward_key, init_key = jax.random.split(key, 3)
    arms = jax.random.randint(arm_key, (config["initial"],), 0, problem.arms.count)
    rewards = jax.vmap(problem.sample)(jax.random.split(reward_key, len(arms)), arms)
    return arms, rewards, init_key


def first_state(name: str, bandit: Any, problem: Any, config: Config, seed: int) -> Any:
    """The state after the initial evaluations of a seed. BLESS draws the first dictionary of BBKB,
    and the last initial evaluations are the population of evolution."""
    arms, rewards, init_key = initial_evaluations(problem, config, seed)
    if name.startswith("bbkb") or name == "eps_greedy_free":
        rule = "bless" if name.startswith("bbkb") else None
        data = history.of_evaluations(problem.arms, np.asarray(arms), np.asarray(rewards), rule)
        return bandit.init(problem.arms, init_key, data=data)
    state = bandit.init(problem.arms, init_key)
    if name == "evolution":
        last = slice(-bandit.population, None)
        count = jnp.asarray(bandit.population, jnp.int32)
        members = arms[last].astype(jnp.int32)
        state = state.replace(members=members, rewards=rewards[last], count=count)
    return state


def with_initial(problem: Any, config: Config, seed: int, arrays: dict[str, np.ndarray]) -> None:
    """Lets the initial evaluations count in the simple regret."""
    if config["initial"]:
        regrets = np.asarray(problem.mean_reward.max() - problem.mean_reward)
        best = regrets[np.asarray(initial_evaluations(problem, config, seed)[0])].min()
        arrays["simple_regret"] = np.minimum(arrays["simple_regret"], best)


def run(folder: Path, settings: Settings, options: Options) -> None:
    space = architectures.load(settings["data"], options.data_dir)
    fixed = ("initial", "width", "lengthscale", "noise_std", "regularization", "root_seed")
    shared = {field: settings[field] for field in fixed}
    shared |= dict(dataset=space.source, horizon=settings["new"], delta=1 / settings["total"])
    shared |= dict(ratio=2.0, epsilon=0.05, factor=2.0)
    known = [n for n in settings["algorithms"] if n != "evolution" or space.neighbours is not None]
    configs = {name: dict(algorithm=name) | shared for name in known}
    group = bandit_runs.Group(
        architectures.problem(space),
        configs,
        partial(make, space),
        bandit_runs.seeds_by_algorithm(settings | dict(algorithms=known)),
        first_state if settings["initial"] else None,
        with_initial,
    )
    title = f"{space.name}, {settings['initial']} initial evaluations, {settings['seeds']} seeds"
    bandit_runs.save_groups(
        folder, "bbkb_2020.search", {space.name: group}, space.source, title, options
    )
    if space.name == "NAS-Bench-101":
        write_published(folder, settings["initial"], space.span, options)


def write_published(folder: Path, initial: int, span: float, options: Options) -> None:
    """The poster's curves, whose simple regrets are in units of accuracy."""
    names = ("regret_ratio", "batch_size", "seconds") if initial >= 2_000 else ("simple_regret",)
    prefix = "nas_init2000_" if initial >= 2_000 else "nas_init0_"
    panels, scales = {name: prefix + name for name in names}, dict(simple_regret=1 / span)
    against_published.write_curves(folder, panels, initial, options.data_dir, scales)


def draw(folder: Path) -> None:
    against_published.compare(folder, 2_000 if "warm" in folder.name else 0)
    bandit_runs.draw(folder)
    published = against_published.read_curves(folder).get("simple_regret")
    title = common.tables(folder).curves.attrs["title"]
    regrets = common.curves(folder, "simple_regret")
    plots.simple_regret(folder / "simple_regret.png", regrets, title, published)


# --- the rules


def less_regret_than_evolution(root: Path) -> Verdict:
    """Evolution's R_T / R_T^unif minus each rule's, on the same seeds, lies above 0, with the
    widths of the theorems and of the code; all runs until T count."""

    def case(name: str, rules: tuple[str, ...] = RULES) -> Verdict:
        folder, metric = root / "bbkb_2020" / name, "final_regret_ratio"
        evolution = common.finals(folder, metric, "evolution")
        ours = {rule: common.finals(folder, metric, rule) for rule in rules}
        gaps = {rule: common.difference_interval(evolution, runs) for rule, runs in ours.items()}
        return common.verdict(common.all_above(gaps.values(), 0), common.listed(gaps))

    cases = {name: partial(case, name) for name in ("nas_warm", "nas", "nas_code")}
    return common.all_of(cases | dict(nas_warm_code=partial(case, "nas_warm_code", RULES[:1])))


def matches_evolution(root: Path) -> Verdict:
    """The global rule's simple regret at T minus evolution's lies within MATCH of 0, with the
    widths of the theorems and of the code."""

    def case(folder: Path) -> Verdict:
        names = ("bbkb_global", "evolution")
        ours, evolution = (common.curve(folder, "simple_regret", n)[1][:, -1] for n in names)
        gap, best = common.difference_interval(ours, evolution), int((ours <= 1e-9).sum())
        text = f"{common.interval_text(gap, 5)}, the best cell in {best} of {len(ours)} seeds"
        return common.verdict(common.all_near_zero([gap], MATCH), text)

    cases = {"theorem's width": "nas_warm", "code's width": "nas_warm_code"}
    return common.all_of({n: partial(case, root / "bbkb_2020" / f) for n, f in cases.items()})


def lead_over_evolution(folder: Path, of_evolution: Path, initial: int = 0) -> Verdict:
    """Evolution's simple regret minus each rule's lies above 0 at each t of JUDGED_T, on the same
    seeds. t counts initial evaluations, too."""
    gaps = {}
    for rule in RULES:
        for t in JUDGED_T:
            ours = common.values_at(folder, "simple_regret", rule, t - initial)
            evolution = common.values_at(of_evolution, "simple_regret", "evolution", t)
            gaps[f"{rule} at {t:,}"] = common.difference_interval(evolution, ours)
    return common.verdict(common.all_above(gaps.values(), 0), common.listed(gaps, 4))


def beats_evolution(root: Path) -> Verdict:
    """`lead_over_evolution` with each reading of the settings that was run. The paper leaves xi and
    lambda open here, and starts from two arms; the code's width counts because those runs exist.
    The claim is undecided where the readings disagree."""
    cold, code, one, two = (
        root / "bbkb_2020" / name
        for name in ("nas", "nas_code", "nas_less_noise", "nas_less_noise_two_arms")
    )
    return common.agreed(
        {
            "theorem's width": partial(lead_over_evolution, cold, cold),
            "code's width": partial(lead_over_evolution, code, code),
            "less noise": partial(lead_over_evolution, one, one),
            "less noise, two arms": partial(lead_over_evolution, two, one, initial=2),
        }
    )


CHECKS = (less_regret_than_evolution, matches_evolution, beats_evolution)

if __name__ == "__main__":
    common.main(__file__)

"""The problems and algorithms that can be swept: those of the experiments, set up as they are
there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from experiments import demo
from experiments.bbkb_2020 import methods
from experiments.bkb_2019 import linear
from experiments.data import architectures, datasets
from experiments.sweep.configurations import closest, numbers, swept, with_numbers
from experiments.sweep.options import Sweep
from jsketch import problems

ALIASES = {"bbkb": "bbkb_global"}


class Setting(NamedTuple):
    """A problem as its experiment sets it up."""

    problem: Any
    source: str
    algorithms: Mapping[str, Callable[[dict[str, Any]], Any]]
    defaults: dict[str, Any]  # of the algorithms


def load(sweep: Sweep) -> Setting:
    """The problem of a sweep. Raises ValueError or OSError when its data cannot be had."""
    name, horizon = sweep.problem, sweep.horizon
    common = dict(horizon=horizon, norm_bound=1.0, delta=min(1 / horizon, 0.5), qbar=2.0)
    if name.startswith("linear"):
        spectrum = name.removeprefix("linear_")
        own = dict(noise_std=linear.NOISE_STD, regularization=0.1, size=10, ts_scale=0.1)
        return Setting(linear.generate(spectrum), "generated", linear.ALGORITHMS, common | own)
    noise_std, lengthscale = (
        0.01,
        methods.LENGTHSCALES.get(name, {}).get(full_name(sweep.algorithm), 1.0),
    )
    problem: Any
    if name == "generated":
        noise_std, lengthscale = demo.NOISE_STD, 3.0
        problem, source = problems.finite_arms(*demo.generate(sweep.arms), noise_std), "generated"
    elif name == "nas":
        space, lengthscale = architectures.load("auto", sweep.data_dir), 100.0
        problem, source = architectures.problem(space), space.source
    else:
        dataset = datasets.load(name, sweep.data_dir)
        problem, source = (
            problems.finite_arms(*datasets.preprocess(dataset), noise_std),
            dataset.source,
        )
    own = dict(
        noise_std=noise_std,
        regularization=noise_std**2,
        lengthscale=lengthscale,
        ratio=2.0,
        epsilon=0.05,
    )
    return Setting(problem, source, methods.ALGORITHMS, {"width": "code"} | common | own)


def full_name(algorithm: str) -> str:
    """The name in the experiments' tables."""
    return ALIASES.get(algorithm, algorithm)


def make(sweep: Sweep, setting: Setting) -> Any:
    """The algorithm with its default numbers. Raises ValueError for one that is not run on this
    problem."""
    name = full_name(sweep.algorithm)
    if name not in setting.algorithms:
        raise ValueError(
            f"no algorithm called '{sweep.algorithm}' is run on {sweep.problem}"
            f"{closest(name, setting.algorithms)}: choose one of {', '.join(setting.algorithms)}."
        )
    return with_numbers(setting.algorithms[name](setting.defaults), {})


def describe(sweep: Sweep, setting: Setting, bandit: Any) -> dict[str, Any]:
    """Everything that the runs of a sweep depend on; another number of seeds adds runs and changes
    none."""
    return dict(
        problem=sweep.problem,
        data=setting.source,
        arms=setting.problem.arms.count,
        algorithm=full_name(sweep.algorithm),
        horizon=sweep.horizon,
        root_seed=0,
        **{f"default.{name}": value for name, value in numbers(bandit).items()},
        **swept(sweep),
    )

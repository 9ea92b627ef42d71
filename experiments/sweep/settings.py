"""The options of a sweep, the problems and algorithms that can be swept, and the configurations of
a sweep: the values that the numbers of its algorithm take."""

import dataclasses
import importlib
import inspect
import itertools
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import demo
from experiments.bbkb_2020 import methods
from experiments.bkb_2019 import linear
from experiments.data import architectures, datasets
from jsketch import Arms, kernels, problems
from jsketch.box import GPBandit, LocalGOUCB, Turbo
from jsketch.loops import describe
from jsketch.problems import boxes

# functions on a box, scaled to [0, 1]
BOXES: dict[str, Callable[[], boxes.BoxProblem]] = {
    "branin": boxes.branin,
    "ackley": boxes.ackley,
    "levy": boxes.levy,
    "rastrigin": boxes.rastrigin,
    "styblinski_tang": boxes.styblinski_tang,
}
# optimisers over a box; all other algorithms are over arms
OPTIMISERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "gp_ei": lambda c: GPBandit(acquisition="log_ei"),
    "gp_pi": lambda c: GPBandit(acquisition="pi"),
    "turbo": lambda c: Turbo(),
    "go_ucb": lambda c: LocalGOUCB(),
}
PROBLEMS = (
    *("abalone", "cadata", "nas", "generated", *BOXES),
    *(f"linear_{spectrum}" for spectrum in linear.SPECTRA),
)
KERNELS: dict[str, Callable[[float], Any]] = {
    "gaussian": kernels.Gaussian,
    "matern12": lambda lengthscale: kernels.Matern(lengthscale, nu=0.5),
    "matern32": lambda lengthscale: kernels.Matern(lengthscale, nu=1.5),
    "matern52": lambda lengthscale: kernels.Matern(lengthscale, nu=2.5),
    "rational_quadratic": kernels.RationalQuadratic,
}
Row = dict[str, float]  # a configuration: the swept numbers


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Algorithms on a problem, with every combination of values of their numbers and every seed."""

    out: Path
    problem: str = "abalone"
    algorithm: str = "bbkb_global"  # or several, separated by commas
    # one of KERNELS, or module:Name for an own kernel; None: that of the experiment
    kernel: str | None = None
    horizon: int = 1_000
    seeds: int = 10
    grid: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    random: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)  # (low, high)
    samples: int = 10  # random draws; each is combined with the whole grid
    arms: int = 2_000  # of the problem "generated", and of those over a box
    strategy: str = "auto"
    workers: int | str = 1  # number of processes, or "auto": `execution.processes` chooses
    cluster: str = ""  # address of a scheduler of Dask
    chunk: int = 64  # runs in one program of strategy "vmap"
    data_dir: Path | None = None

    def each(self) -> list["Sweep"]:
        """A sweep for each of the algorithms."""
        names = self.algorithm.split(",")
        return [dataclasses.replace(self, algorithm=name) for name in names]


class Setting(NamedTuple):
    """A problem as its experiment sets it up."""

    problem: Any  # over arms
    source: str  # of the data
    algorithms: Mapping[str, Callable[[dict[str, Any]], Any]]  # {name: make(numbers)}
    defaults: dict[str, Any]  # numbers of the algorithms
    box: Any = None  # the same function over a box; None: there is none

    def problem_of(self, algorithm: Any) -> Any:
        """The problem that the algorithm takes: that over the box for an optimiser over a box,
        whose `init` has an argument `domain`, and that over arms for another one."""
        takes_box = "domain" in inspect.signature(algorithm.init).parameters
        return self.box if takes_box and self.box is not None else self.problem


def load(sweep: Sweep) -> Setting:
    """The problem of a sweep. Raises ValueError or OSError when its data are not available."""
    name, horizon = sweep.problem, sweep.horizon
    common = dict(horizon=horizon, norm_bound=1.0, delta=min(1 / horizon, 0.5), qbar=2.0)
    if name.startswith("linear"):
        spectrum = name.removeprefix("linear_")
        common |= dict(noise_std=linear.NOISE_STD, regularization=0.1, size=10, ts_scale=0.1)
        return Setting(linear.generate(spectrum), "generated", linear.ALGORITHMS, common)
    noise_std = 0.01
    lengthscale = methods.LENGTHSCALES.get(name, {}).get(sweep.algorithm, 1.0)
    problem: Any
    algorithms, box = methods.ALGORITHMS, None
    if name in BOXES:
        problem, box = over_arms_and_box(BOXES[name](), sweep.arms, noise_std)
        source, algorithms = "generated", methods.ALGORITHMS | OPTIMISERS
    elif name == "generated":
        noise_std, lengthscale = demo.NOISE_STD, 3.0
        problem, source = problems.finite_arms(*demo.generate(sweep.arms), noise_std), "generated"
    elif name == "nas":
        space, lengthscale = architectures.load("auto", sweep.data_dir), 100.0
        problem, source = architectures.problem(space), space.source
    else:
        is_table = name.endswith(".csv")
        dataset = table(Path(name)) if is_table else datasets.load(name, sweep.data_dir)
        problem = problems.finite_arms(*datasets.preprocess(dataset), noise_std)
        source = dataset.source
    common |= dict(noise_std=noise_std, regularization=noise_std**2, lengthscale=lengthscale)
    defaults = dict(width="code", ratio=2.0, epsilon=0.05) | common
    return Setting(problem, source, algorithms, defaults, box)


def over_arms_and_box(
    problem: boxes.BoxProblem, arms: int, noise_std: float
) -> tuple[Any, boxes.BoxProblem]:
    """The problem scaled to [0, 1], over uniform points of its box as arms, of which the last one
    is the maximiser, and over the box. Both have the same optimum, so that their regrets can be
    compared. The features of the arms have a standard deviation of about 1."""
    lower, upper = np.asarray(problem.domain.lower), np.asarray(problem.domain.upper)
    unit = np.random.default_rng(0).uniform(size=(arms - 1, lower.size))
    points = np.vstack([lower + unit * (upper - lower), problem.maximiser])
    low = float(jax.vmap(problem.value)(jnp.asarray(points)).min())
    function, scale = problem.function, float(problem.maximum) - low

    def scaled(x: jax.Array) -> jax.Array:
        return (function(x) - low) / scale

    over_box = problem.replace(  # type: ignore[attr-defined]
        maximum=jnp.ones(()), noise_std=noise_std, function=scaled
    )
    features = math.sqrt(12) * ((points - lower) / (upper - lower) - 0.5)
    mean_reward = np.append(jax.vmap(scaled)(jnp.asarray(points[:-1])), 1.0)
    return problems.finite_arms(features, mean_reward, noise_std), over_box


def table(path: Path) -> datasets.Dataset:
    """The numbers of a CSV file with a header; its last column is the reward. Raises ValueError if
    a value is not a finite number."""
    frame = pd.read_csv(path)
    for name in frame:
        if frame[name].dtype.kind not in "biuf" or not np.isfinite(frame[name]).all():
            raise ValueError(f"{path}: column {name!r} must be numbers; commas separate columns.")
    if frame.shape[1] < 2:
        raise ValueError(f"{path} needs columns of features, and the reward as its last one.")
    numbers = frame.to_numpy(float)
    return datasets.Dataset(path.stem, numbers[:, :-1], numbers[:, -1], str(path))


def import_attribute(what: str, name: str) -> Any:
    """The attribute "module:Name", which is "algorithm" or "kernel" in the ValueError if there is
    none."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, "")  # modules of the working directory
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"there is no {what} {name}: {error}.") from error
    finally:
        sys.path.remove("")


def import_algorithm(name: str, defaults: dict[str, Any]) -> Any:
    """The algorithm "module:Name". Name is an algorithm over arms, or a class of algorithms, which
    is called with those defaults that are among its fields. Raises ValueError if this fails."""
    algorithm = import_attribute("algorithm", name)
    if not isinstance(algorithm, type):
        return algorithm
    if not dataclasses.is_dataclass(algorithm):
        raise ValueError(f"{name} must be a class decorated with jsketch.struct.dataclass.")
    # the width of the defaults is the name of a rule, not a function
    available = defaults | dict(kernel=kernels.Gaussian(defaults.get("lengthscale", 1.0)))
    names = {field.name for field in dataclasses.fields(algorithm)} - {"width"}
    return algorithm(**{name: value for name, value in available.items() if name in names})


def make_kernel(name: str, lengthscale: float) -> Any:
    """A kernel of KERNELS, or "module:Name". Name is a kernel, or makes one: from the lengthscale
    if it takes an argument of this name. Raises ValueError for a name of neither."""
    if ":" not in name:
        return KERNELS[name](lengthscale)
    kernel = import_attribute("kernel", name)
    try:
        if isinstance(kernel, type) or not hasattr(kernel, "gram"):
            takes_lengthscale = "lengthscale" in inspect.signature(kernel).parameters
            kernel = kernel(lengthscale=lengthscale) if takes_lengthscale else kernel()
    except TypeError as error:
        raise ValueError(
            f"{name} makes no kernel: {error}. It is called with lengthscale={lengthscale:g} if it"
            " takes that, and with no other arguments."
        ) from error
    if not (hasattr(kernel, "gram") and hasattr(kernel, "diag")):
        raise ValueError(
            f"{name} is not a kernel: it needs the methods gram(x, y) and diag(x); it is a"
            f" {type(kernel).__name__}."
        )
    return kernel


def make(sweep: Sweep, setting: Setting) -> Any:
    """The algorithm with its default numbers. Raises ValueError if the experiment does not run it
    on this problem, and if --kernel is given for an algorithm without a kernel."""
    if ":" in sweep.algorithm:
        bandit = import_algorithm(sweep.algorithm, setting.defaults)
    elif sweep.algorithm in setting.algorithms:
        bandit = setting.algorithms[sweep.algorithm](setting.defaults)
    else:
        raise ValueError(
            f"there is no algorithm '{sweep.algorithm}' for {sweep.problem}: choose one of"
            f" {', '.join(setting.algorithms)}, or yours as module:Name."
        )
    if sweep.kernel is not None:
        if not hasattr(bandit, "kernel"):
            raise ValueError(f"{sweep.algorithm} has no kernel: leave --kernel out.")
        lengthscale = getattr(bandit.kernel, "lengthscale", 1.0)
        bandit = dataclasses.replace(bandit, kernel=make_kernel(sweep.kernel, lengthscale))
    return with_numbers(bandit, {})


def configuration(sweep: Sweep, setting: Setting, algorithms: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the runs of a sweep of these {name: algorithm} depend on, without the number
    of seeds, because more seeds only add runs."""
    config: dict[str, Any] = dict(
        problem=sweep.problem,
        data=setting.source,
        arms=setting.problem.arms.count,
        algorithm=sweep.algorithm,
        horizon=sweep.horizon,
        root_seed=0,
    )
    if sweep.kernel is not None:
        config |= dict(kernel=sweep.kernel)
    if ":" in (sweep.kernel or ""):
        # the user may change arrays and static fields, which are not among the numbers
        kernel = next(a.kernel for a in algorithms.values() if hasattr(a, "kernel"))
        config |= {f"kernel_fields.{name}": v for name, v in describe.describe(kernel).items()}
    for algorithm, bandit in algorithms.items():
        prefix = f"default.{algorithm}." if len(algorithms) > 1 else "default."
        config |= {prefix + name: value for name, value in numbers(bandit).items()}
    config |= {f"grid.{name}": list(values) for name, values in sweep.grid.items()}
    config |= {f"random.{name}": list(ends) for name, ends in sweep.random.items()}
    return config | (dict(samples=sweep.samples) if sweep.random else {})


def _named_leaves(bandit: Any) -> list[tuple[str, Any]]:
    """Pairs (name, leaf) of the leaves of an algorithm. A name that several fields have, as in a
    sum of kernels, is preceded by its path: kernel.left.lengthscale."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(bandit)
    paths = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    names = [path.rpartition(".")[2] for path in paths]
    # the name of an element of a tuple is its number
    is_unique = [names.count(name) == 1 and not name.isdigit() for name in names]
    named = np.where(is_unique, names, paths).tolist()
    return [(name, leaf) for name, (_, leaf) in zip(named, leaves, strict=True)]


def numbers(bandit: Any) -> Row:
    """The scalar parameters of an algorithm and its kernel, by name. A sweep can vary them."""
    return {name: float(leaf) for name, leaf in _named_leaves(bandit) if np.ndim(leaf) == 0}


def with_numbers(bandit: Any, values: Mapping[str, float]) -> Any:
    """The algorithm with other numbers, all as floats, so that all values share one compiled
    program. Raises ValueError for a number that the algorithm does not have."""
    for name in values:
        if name not in numbers(bandit):
            raise ValueError(
                f"{type(bandit).__name__} has no number called '{name}'; its numbers are:"
                f" {', '.join(numbers(bandit))}."
            )
    new_leaves = [
        float(values.get(name, leaf)) if np.ndim(leaf) == 0 else leaf
        for name, leaf in _named_leaves(bandit)
    ]
    return jax.tree.unflatten(jax.tree.structure(bandit), new_leaves)


def parts(sweep: Sweep, algorithms: Sequence[Any]) -> list[Sweep]:
    """The sweep of each of several algorithms, over those of the numbers that it has. Raises
    ValueError for a number that none of them has."""
    if len(algorithms) == 1:
        return [sweep]
    known = [numbers(algorithm).keys() for algorithm in algorithms]
    for name in (*sweep.grid, *sweep.random):
        if not any(name in names for names in known):
            raise ValueError(
                f"none of {sweep.algorithm} has a number called '{name}'; their numbers are:"
                f" {', '.join(dict.fromkeys(itertools.chain(*known)))}."
            )
    return [
        dataclasses.replace(
            one,
            grid={name: values for name, values in sweep.grid.items() if name in names},
            random={name: ends for name, ends in sweep.random.items() if name in names},
        )
        for one, names in zip(sweep.each(), known, strict=True)
    ]


def rows(sweep: Sweep, bandit: Any, domain: Any, is_alone: bool = True) -> list[Row]:
    """All configurations of an algorithm: each random draw combined with the whole grid. Raises
    ValueError for numbers that `check` refuses, and for an empty sweep of an algorithm that is
    alone."""
    if is_alone and not sweep.grid and not sweep.random:
        raise ValueError(
            f"the sweep is empty: give values, such as --grid {next(iter(numbers(bandit)))} 1 2 3."
            f" The numbers of {sweep.algorithm} are: {', '.join(numbers(bandit))}."
        )
    for name, values in sweep.grid.items():
        if not values or len(set(values)) < len(values):
            raise ValueError(f"--grid {name} needs distinct values; {list(values)} was given.")
        if name in sweep.random:
            raise ValueError(f"{name} has both a grid and a range; choose one.")
    products = itertools.product(*sweep.grid.values())
    points = [dict(zip(sweep.grid, values, strict=True)) for values in products]
    combinations = [draw | point for draw in draws(sweep.random, sweep.samples) for point in points]
    for row in combinations:
        check(bandit, row, domain, sweep.horizon)
    return combinations


def draws(ranges: Mapping[str, Sequence[float]], samples: int) -> list[Row]:
    """`samples` random configurations, uniform in the logarithm of each number. More samples do not
    change the first ones."""
    if not ranges:
        return [{}]
    for name, ends in ranges.items():
        if len(ends) != 2 or not 0 < ends[0] < ends[1] < math.inf:
            raise ValueError(f"--random {name} needs 0 < LOW < HIGH; {list(ends)} was given.")
    low, high = np.log(np.array(list(ranges.values()))).T
    uniform = np.random.default_rng(0).uniform(size=(samples, len(ranges)))
    return [
        dict(zip(ranges, map(float, np.exp(low + u * (high - low))), strict=True)) for u in uniform
    ]


def check(bandit: Any, row: Row, domain: Any, horizon: int) -> None:
    """If the algorithm refuses the numbers of `row` on the domain, raises a ValueError that names
    them. Of many arms two are enough."""
    if row.get("lengthscale", 1.0) <= 0 or not all(map(math.isfinite, row.values())):
        raise ValueError(f"{row}: a lengthscale must be above 0, and every number finite.")
    if isinstance(domain, Arms):
        dimension = domain.features.shape[1]
        domain = Arms(jnp.stack([jnp.zeros(dimension), jnp.ones(dimension)]))
    try:
        with warnings.catch_warnings():  # the warnings concern these two arms only
            warnings.simplefilter("ignore")
            with_numbers(bandit, row).init(domain, jax.random.key(0), horizon=horizon)
    except ValueError as error:
        raise ValueError(f"the configuration {row} cannot be run: {error}") from error

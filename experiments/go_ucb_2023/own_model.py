"""GO-UCB for a law of one's own, beside optimisers that do not know the law.

    python -m experiments.go_ucb_2023.own_model --out results/go_ucb_2023/own_model

The laws are those of `jsketch.problems.laws` that did not choose the defaults of `ModelGOUCB`
(JUDGING), and those with a term that the model lacks (MISSING). Every seed has its own true
parameters. Regrets are divided by that of uniform points: 1 is the regret of a random point.
Finished runs are kept in the folder, and the same command makes the others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import common
from experiments.results import environment, store, tidy
from jsketch import loops
from jsketch.box import GOUCB, GPBandit, LocalGOUCB, ModelGOUCB, Turbo, UniformBox
from jsketch.problems import laws
from jsketch.problems.laws import JUDGING, MISSING, Law
from jsketch.suggest.tables.command_line import set_up_jax

# the others have 4 uniform points, because with their defaults of 8 they lose more of the first 10
SETTINGS: dict[str, Any] = dict(seeds=20, horizon=40, initial=4, root_seed=7, at=(10, 20, 40))
METHODS: dict[str, Callable[[Law], Any]] = {
    "model": lambda law: ModelGOUCB(law.model),
    "model_without_gp": lambda law: ModelGOUCB(law.model, discrepancy="ignore"),
    "local": lambda law: LocalGOUCB(model=law.model, initial=SETTINGS["initial"]),
    "printed": lambda law: GOUCB(model=law.model, initial=SETTINGS["initial"]),
    "gp_ei": lambda law: GPBandit(initial=SETTINGS["initial"]),
    "turbo": lambda law: Turbo(initial=SETTINGS["initial"]),
    "uniform": lambda law: UniformBox(initial=1),
}
MAIN = ("model", "model_without_gp", "gp_ei", "turbo", "uniform")
BASELINES = ("gp_ei", "turbo", "uniform", "botorch")
NAMES = {
    "model": "GO-UCB with the law",
    "model_without_gp": "the same, residuals ignored",
    "local": "LocalGOUCB with the law",
    "printed": "GOUCB (paper) with the law",
    "gp_ei": "GP, expected improvement",
    "turbo": "TuRBO",
    "uniform": "uniform points",
    "botorch": "BoTorch, log EI",
}
Arrays = dict[str, np.ndarray]


def keys(seeds: int) -> jax.Array:
    """The keys [S, 2] of the problems and of the runs."""
    root = jax.random.key(SETTINGS["root_seed"])
    return jax.vmap(lambda i: jax.random.split(jax.random.fold_in(root, i)))(jnp.arange(seeds))


def arrays(problem: Any, value: Any) -> dict[str, Any]:
    """The curves of a run with values [T] without noise."""
    regret = (problem.maximum - value) / (problem.maximum - problem.mean)
    horizon = regret.shape[0]
    return dict(
        t=jnp.arange(1, horizon + 1),
        regret=regret,
        regret_ratio=jnp.cumsum(regret) / jnp.arange(1, horizon + 1),
        simple_regret=jax.lax.cummin(regret),
    )


@partial(jax.jit, static_argnames="law")
def runs(optimizer: Any, law: Law, run_keys: jax.Array) -> dict[str, jax.Array]:
    """The runs of all seeds, in one program."""

    def one(pair: jax.Array) -> dict[str, jax.Array]:
        problem = law.problem(pair[0])
        run = loops.rollout(optimizer, problem, pair[1], SETTINGS["horizon"])
        result = arrays(problem, run.value)
        if isinstance(optimizer, ModelGOUCB):
            result |= held(optimizer, law, problem, run)
            result |= dict(x=run.x, y=run.y)
        return result

    return jax.lax.map(one, run_keys)


def held(optimizer: ModelGOUCB, law: Law, problem: Any, run: Any) -> dict[str, jax.Array]:
    """Final numbers: how many intervals of identified parameters hold the truth; the misfit."""
    estimates = optimizer.parameters(run.state)
    holds, identified = [], []
    for name, estimate in estimates.items():
        truth = problem.truth[name]
        holds.append(jnp.ravel((estimate.lower <= truth) & (truth <= estimate.upper)))
        identified.append(jnp.ravel(estimate.identified))
    hold, known = jnp.concatenate(holds), jnp.concatenate(identified)
    misfit = run.info.misfit
    return dict(
        held=(hold & known).sum(),
        identified=known.sum(),
        held_any=hold.sum(),
        parameters=jnp.asarray(known.size),
        misfit_20=misfit[19],
        misfit_40=misfit[-1],
        noise_ratio=run.info.noise_std[-1] / problem.noise_std,
    )


def botorch_runs(law: Law, run_keys: jax.Array) -> list[Arrays]:
    """The runs of BoTorch, which is no dependency of this project."""
    import torch
    from botorch.acquisition import qLogNoisyExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    results = []
    for seed, pair in enumerate(run_keys):
        problem = jax.jit(law.problem)(pair[0])
        lower, sides = (
            np.asarray(problem.domain.lower),
            np.asarray(problem.domain.upper - problem.domain.lower),
        )
        evaluate = jax.jit(lambda x, key, problem=problem: problem(x, key))
        value = jax.jit(lambda x, problem=problem: problem.value(x))
        generator = np.random.default_rng(seed)
        torch.manual_seed(seed)
        unit = generator.uniform(size=(SETTINGS["initial"], lower.size))
        values: list[float] = []
        bounds = torch.stack([torch.zeros(lower.size), torch.ones(lower.size)])
        for t in range(SETTINGS["horizon"]):
            if t >= SETTINGS["initial"]:
                x = torch.tensor(unit)
                y = torch.tensor(values)[:, None]
                y = (y - y.mean()) / y.std()
                model = SingleTaskGP(x, y)
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
                acquisition = qLogNoisyExpectedImprovement(model, x)
                point, _ = optimize_acqf(acquisition, bounds, 1, num_restarts=4, raw_samples=128)
                unit = np.concatenate([unit, point.detach().numpy()])
            point_key = jax.random.fold_in(pair[1], t)
            values.append(float(evaluate(jnp.asarray(lower + sides * unit[t]), point_key)))
        true_values = jnp.asarray([float(value(jnp.asarray(lower + sides * u))) for u in unit])
        results.append({k: np.asarray(v) for k, v in arrays(problem, true_values).items()})
    return results


def finished(folder: Path, names: list[str], methods: list[str]) -> list[tidy.Run]:
    """The runs that are in the folder, with any number of seeds."""
    results = []
    for path in sorted((folder / "runs").glob("*.npz")):
        name, method, seeds = path.stem.split("-")
        if name in names and method in methods:
            results += run(folder, [name], [method], int(seeds))
    return results


def run(folder: Path, names: list[str], methods: list[str], seeds: int) -> list[tidy.Run]:
    """The runs of the methods on the laws; those in the folder are read."""
    results = []
    for name in names:
        for method in methods:
            path = folder / "runs" / f"{name}-{method}-{seeds}.npz"
            if not path.exists():
                start = time.process_time()
                law, run_keys = laws.LAWS[name], keys(seeds)
                if method == "botorch":
                    rows = botorch_runs(law, run_keys)
                    found = {k: np.stack([row[k] for row in rows]) for k in rows[0]}
                    compiling = 0.0
                else:
                    program = runs.lower(METHODS[method](law), law, run_keys).compile()
                    compiling = time.process_time() - start
                    found = jax.tree.map(np.asarray, program(METHODS[method](law), run_keys))
                found["cpu_seconds"] = np.full(
                    seeds, (time.process_time() - start - compiling) / seeds
                )
                found["compile_seconds"] = np.full(seeds, compiling)
                store.write_npz(path, found)
                print(f"{name} {method} {time.process_time() - start:.0f} s", flush=True)
            found = store.read_npz(path)
            config = dict(problem=name, algorithm=method)
            for seed in range(seeds):
                own = {k: v[seed] for k, v in found.items() if k not in ("x", "y")}
                results.append(tidy.Run(config, seed, own))
    return results


def check(results: list[tidy.Run]) -> dict[str, Any]:
    """The comparisons: paired differences with 95% intervals (Student's t over the seeds)."""
    table: dict[str, dict[str, list[tidy.Run]]] = {}
    for r in results:
        table.setdefault(r.config["problem"], {}).setdefault(r.config["algorithm"], []).append(r)
    rows = []
    for problem, by_method in table.items():
        for t in SETTINGS["at"]:
            for metric in ("regret_ratio", "simple_regret"):
                of = {
                    m: np.array([r.arrays[metric][t - 1] for r in rs])
                    for m, rs in by_method.items()
                }
                for method, values in of.items():
                    row = dict(problem=problem, t=t, metric=metric, method=method)
                    row["mean"] = float(values.mean())
                    if method != "model" and "model" in of:
                        row["difference"], row["half"] = common.difference_interval(
                            of["model"], values
                        )
                    rows.append(row)
    numbers: dict[str, Any] = dict(rows=rows)
    final = [
        dict(
            problem=r.config["problem"], **{k: v.item() for k, v in r.arrays.items() if v.ndim == 0}
        )
        for r in results
        if r.config["algorithm"] == "model"
    ]
    coverage = {}
    for problem in table:
        own = [f for f in final if f["problem"] == problem]
        if own:
            held_count, known = (sum(f[k] for f in own) for k in ("held", "identified"))
            coverage[problem] = dict(
                held=held_count / max(known, 1),
                identified=known / sum(f["parameters"] for f in own),
                held_any=sum(f["held_any"] for f in own) / sum(f["parameters"] for f in own),
                misfit_20=float(np.mean([f["misfit_20"] for f in own])),
                misfit_40=float(np.mean([f["misfit_40"] for f in own])),
                noise_ratio=float(np.mean([f["noise_ratio"] for f in own])),
            )
    numbers["coverage"] = coverage
    numbers["cpu_seconds"] = {
        f"{problem}-{method}": float(np.mean([r.arrays["cpu_seconds"] for r in rs]))
        for problem, by_method in table.items()
        for method, rs in by_method.items()
    }
    return numbers


def show(numbers: dict[str, Any]) -> None:
    """Prints the numbers of `check`."""
    for row in numbers["rows"]:
        versus = ""
        if "difference" in row:
            sign = row["difference"] + row["half"] < 0, row["difference"] - row["half"] > 0
            verdict = "ahead" if sign[0] else "behind" if sign[1] else "level"
            versus = f"  model - it: {row['difference']:+.3f} +- {row['half']:.3f} {verdict}"
        print(
            f"{row['problem']:18s} t={row['t']:2d} {row['metric']:13s} {row['method']:17s}"
            f" {row['mean']:.3f}{versus}"
        )
    for problem, values in numbers["coverage"].items():
        print(problem, {k: round(v, 3) for k, v in values.items()})
    print({k: round(v, 2) for k, v in numbers["cpu_seconds"].items()})


def draw(folder: Path) -> None:
    """The regret against evaluations from the tables in the folder, a panel for each law."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    curves = tidy.load(folder).curves
    curves = curves[curves["metric"] == "regret_ratio"]
    of_problem = dict(list(curves.groupby("problem", observed=True)))
    problems = [name for name in laws.LAWS if name in of_problem]
    figure, axes = plt.subplots(2, -(-len(problems) // 2), figsize=(11, 5), sharex=True)
    for ax, problem in zip(axes.flat, problems, strict=False):
        for i, (method, label) in enumerate(NAMES.items()):
            rows = of_problem[problem]
            values = rows[rows["algorithm"] == method].groupby("t")["value"]
            if len(values):
                mean, half = values.mean(), 1.96 * values.sem()
                ax.plot(mean.index, mean, color=f"C{i}", label=label)
                ax.fill_between(mean.index, mean - half, mean + half, color=f"C{i}", alpha=0.15)
        ax.set_title(problem, fontsize=9)
        ax.set_ylim(0, 1.2)
    for ax in axes[-1]:
        ax.set_xlabel("evaluations")
    for ax in axes[:, 0]:
        ax.set_ylabel("regret / that of uniform")
    lines = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
    figure.legend(lines.values(), lines.keys(), ncols=len(lines), loc="lower center", fontsize=8)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(folder / "regret.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [law.name for law in (*JUDGING, *MISSING)]
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--laws", nargs="+", choices=list(laws.LAWS), default=names)
    parser.add_argument("--methods", nargs="+", choices=list(NAMES), default=list(MAIN))
    parser.add_argument("--seeds", type=int, default=SETTINGS["seeds"])
    parser.add_argument("--finished", action="store_true", help="only read finished runs")
    options = parser.parse_args()
    set_up_jax()
    if options.finished:
        results = finished(options.out, options.laws, options.methods)
    else:
        results = run(options.out, options.laws, options.methods, options.seeds)
    numbers = check(results)
    show(numbers)
    config = SETTINGS | dict(seeds=options.seeds, laws=options.laws, methods=options.methods)
    summary = environment.provenance() | dict(config=config, **numbers)
    store.write_json(options.out / tidy.PROVENANCE, summary)
    tidy.write(options.out, results, "go_ucb_2023.own_model", "Laws of one's own")
    draw(options.out)


if __name__ == "__main__":
    main()

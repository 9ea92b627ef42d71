"""Figure 2 with the baselines of the packages that the paper names: EI, PI and UCB of
scikit-optimize and of BoTorch, all their defaults.

    python -m experiments.go_ucb_2023.packages.compare --out results/go_ucb_2023/packages

The packages are no dependency: pip install scikit-optimize botorch. The first n points are those of
`synthetic` under the same seed, and so is the noise on them; the methods of Figure 2 stand beside
them, the same seeds, out of its tables. BoTorch has no default for the restarts of its ascent and
the width of its UCB, and has those of its documentation's example here. An interrupted comparison
resumes with the missing runs.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.go_ucb_2023 import synthetic, variants
from experiments.go_ucb_2023.packages import loops
from experiments.results import environment, outputs, store
from experiments.runs.bandit_runs import keys_of
from jsketch.box import UniformBox
from jsketch.loops import run_box

Task = tuple[Path, str, str, int]  # folder, function, method, seed


def configure(function: str, name: str) -> dict[str, Any]:
    """Everything that the runs of one method on one function depend on."""
    _, n, t = synthetic.FUNCTIONS[function]
    config = dict(function=function, algorithm=name, inputs=20, n=n, T=t, root_seed=0)
    config |= dict(noise_std=synthetic.NOISE_STD, packages=loops.versions())
    if name in loops.BOTORCH:
        config |= dict(restarts=loops.RESTARTS, raw_samples=loops.RAW_SAMPLES)
    return config | (dict(beta=loops.BETA) if name == "botorch_ucb" else {})


def run_one(task: Task) -> None:
    """One run, saved in the folder; the unit of work of a process."""
    folder, function, name, seed = task
    cli.set_up_jax()
    make, n, steps = synthetic.FUNCTIONS[function]
    problem = make(20, synthetic.NOISE_STD)
    first = run_box(UniformBox(initial=n), problem, problem.box, keys_of(0, [seed])[0], n)
    exact = jax.jit(problem.value)
    noise = np.random.default_rng(seed)

    def value(x: np.ndarray) -> float:
        return float(exact(jnp.asarray(x))) + synthetic.NOISE_STD * float(noise.normal())

    box = np.stack([np.asarray(problem.box.lower), np.asarray(problem.box.upper)], axis=1)
    began = time.perf_counter()
    x = loops.run(name, value, box, np.asarray(first.x), np.asarray(first.y), steps, seed)
    regret = np.asarray(problem.maximum - jax.vmap(problem.value)(jnp.asarray(x)))
    arrays = dict(regret=regret, seconds=np.asarray(time.perf_counter() - began))
    store.write_npz(store.run_path(folder, f"{function}-{name}", seed), arrays)


def run_all(folder: Path, names: list[str], functions: list[str], seeds: int, workers: int) -> None:
    """The runs that the folder lacks, `workers` at a time."""
    tasks: list[Task] = []
    for function in functions:
        for name in names:
            label = f"{function}-{name}"
            store.claim(folder, label, configure(function, name))
            missing = store.missing(folder, label, seeds)
            tasks += [(folder, function, name, seed) for seed in missing]
    # jax does not survive a fork
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as pool:
        done = as_completed([pool.submit(run_one, task) for task in tasks])
        with cli.progress(len(tasks)) as bar:
            for finished in done:
                finished.result()
                bar.update()


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    choices = list(synthetic.FUNCTIONS)
    parser.add_argument("--functions", nargs="+", choices=choices, default=choices)
    parser.add_argument("--algorithms", nargs="+", choices=loops.NAMES, default=loops.NAMES)
    parser.add_argument("--seeds", type=cli.count, default=synthetic.PAPER_SEEDS)
    parser.add_argument(
        "--workers", type=cli.count, default=environment.usable_cores(), help="runs side by side"
    )
    parser.add_argument(
        "--figure2", type=Path, default=Path("results/go_ucb_2023/synthetic"), help="its tables"
    )
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    config = {
        f: {name: configure(f, name) for name in options.algorithms} for f in options.functions
    }
    ours = {f: variants.figure2(options.figure2, f, options.seeds) for f in options.functions}
    with outputs.opened(options, "go_ucb_2023.packages", config, options.seeds) as opened:
        run_all(options.out, options.algorithms, options.functions, options.seeds, options.workers)
        functions: dict[str, Any] = {}
        for function in options.functions:
            uniform = synthetic.uniform_regret(function)
            rows = {
                n: variants.row(regret, function, uniform) for n, regret in ours[function].items()
            }
            for name in options.algorithms:
                label = f"{function}-{name}"
                runs = [store.read_run(options.out, label, s) for s in range(options.seeds)]
                regret = np.stack([run["regret"] for run in runs])
                rows[name] = variants.row(regret, function, uniform)
                rows[name]["seconds"] = dict(mean=float(np.mean([run["seconds"] for run in runs])))
            functions[function] = dict(uniform_regret=uniform, algorithms=rows)
        summary = dict(config=config, seeds=options.seeds, **environment.describe())
        opened.finish(dict(summary, functions=functions), [], "")
    print_table(functions)


def print_table(functions: dict[str, Any]) -> None:
    """The regret ratio and simple regret of all, and the seconds of the packages' runs."""
    shown = {
        f: dict(
            algorithms={
                name: {key: of for key, of in row.items() if key != "seconds"}
                for name, row in part["algorithms"].items()
            }
        )
        for f, part in functions.items()
    }
    variants.print_table(shown)
    for function, part in functions.items():
        seconds = {
            n: row["seconds"]["mean"] for n, row in part["algorithms"].items() if "seconds" in row
        }
        print(f"{function}: seconds a run", *(f"{n} {s:.0f}" for n, s in seconds.items()))


if __name__ == "__main__":
    main()

"""Figure 3 of PKAWV: regret against a greedy adversary, in [-1, 1]^5 x [-1, 1].

python -m experiments.pkawv_2019.adversarial --out results/pkawv_2019/adversarial

In every step the adversary plays the example that maximises the regret of the forecaster relative
to kernel ridge regression on all examples so far (lam = 1). It finds this example by gradient
ascent through the forecaster from many starts. "fogd" has the 100 frequencies and the step
1/sqrt(1000) of the authors' notebook (THEORY 7.10). A seed determines the starts and the random
numbers of the forecaster.
"""

import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.contrib import saving
from experiments.figures import plots
from experiments.results import outputs, summaries, tidy
from jsketch import kernels, online
from jsketch.problems import adversary as adversaries
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import Taylor
from jsketch.types import Box

DIMENSION, LENGTHSCALE, REGULARIZATION = 5, 1.0, 1.0
NOTEBOOK_ROUNDS = 1000  # n of the authors' notebook, which determines the step of FOGD


def make_forecasters(rounds: int) -> dict[str, Any]:
    """The forecasters of a game, by name: those of the figure and four others."""
    kernel, sampling = kernels.Gaussian(LENGTHSCALE), Sampling(weights="code")
    taylor = {
        f"taylor_{degree}": online.PKAWV(Taylor(DIMENSION, degree, LENGTHSCALE), REGULARIZATION)
        for degree in (2, 3, 4)
    }
    return taylor | {
        "kernel_awv": online.KernelAWV(kernel, REGULARIZATION, capacity=rounds),
        "kernel_ridge": online.KernelAWV(
            kernel, REGULARIZATION, penalize_current=False, capacity=rounds
        ),
        "nystrom": online.NystromAWV(
            kernel, REGULARIZATION, sampling, capacity=rounds, memory=rounds
        ),
        "pros_n_kons": online.ProsNKONS(
            kernel, REGULARIZATION, bound=1.0, sampling=sampling, capacity=rounds
        ),
        "fogd": online.FOGD(kernel, step_size=NOTEBOOK_ROUNDS**-0.5, count=100),
        "fogd_1000": online.FOGD(kernel, step_size=rounds**-0.5, count=1000),
    }


def draw(folder: Path) -> None:
    curves = tidy.load(folder).curves
    regrets, title = tidy.lines(curves, "regret"), curves.attrs["title"]
    plots.streams(folder / "regret.png", regrets, title, "regret $R_t$", "examples $t$")


@cli.command
def main() -> None:
    names = list(make_forecasters(1))
    parser = cli.parser(__doc__, seeds=8)
    parser.add_argument("--rounds", type=cli.count, default=80, help="steps of a game (default 80)")
    help_text = "random inputs of a step, the best of which start ascents (default 256)"
    parser.add_argument("--tried", type=cli.count, default=256, help=help_text)
    cli.add_choices(parser, "--methods", names)
    options = cli.parse(parser)
    keys = jax.random.split(jax.random.key(0), options.seeds)
    # the adversary of Appendix G, here with gradients
    kernel, box = kernels.Gaussian(LENGTHSCALE), Box(-jnp.ones(DIMENSION), jnp.ones(DIMENSION))
    adversary = adversaries.Adversary(
        kernel, box, regularization=REGULARIZATION, candidates=options.tried
    )
    forecasters = make_forecasters(options.rounds)
    config = dict(
        inputs=DIMENSION,
        rounds=options.rounds,
        lengthscale=LENGTHSCALE,
        regularization=REGULARIZATION,
        comparator="ridge",
        tried=options.tried,
    )
    rows: dict[str, Any] = {}
    table: list[tidy.Run] = []
    methods: dict[str, dict] = {name: {} for name in options.methods}
    folder_config = config | dict(seeds_at_once=options.seeds, methods=methods)
    with outputs.results_folder(options, "pkawv_2019.adversarial", folder_config) as results:
        for name in options.methods:
            start = time.perf_counter()
            game = adversaries.play(adversary, forecasters[name], options.rounds, keys)
            regret = np.asarray(game.regret)
            seconds = time.perf_counter() - start
            sizes = np.asarray(game.dictionary_size)[:, -1]
            shared = dict(t=np.arange(1, options.rounds + 1))
            games = saving.by_seed(
                shared, regret=regret, final_regret=regret[:, -1], dictionary_size=sizes
            )
            table += tidy.runs_of(dict(problem="adversary", algorithm=name, **config), games)
            half = options.rounds // 2  # 0 for a game of one step
            half_way = summaries.statistics(regret[:, half - 1], ci=True) if half else None
            rows[name] = dict(
                regret=summaries.statistics(regret[:, -1], ci=True),
                regret_half_way=half_way,
                dictionary_size=summaries.statistics(sizes),
                seconds=seconds,
            )
            print(f"{name}: {seconds:.1f} s with compilation", flush=True)
        chosen = "starts and gradient steps of the adversary, lengthscale"
        summary = dict(
            config=dict(**config, seeds=options.seeds, chosen=chosen),
            data="generated by the adversary",
            methods=rows,
        )
        results.write(summary, table, f"greedy adversary, d = {DIMENSION}, {options.seeds} games")
        draw(options.out)
    summaries.print_table("regret", rows)

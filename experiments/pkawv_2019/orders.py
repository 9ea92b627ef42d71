"""Average losses on casp for random orders of the stream and random draws of the methods.

    python -m experiments.pkawv_2019.orders --out results/pkawv_2019/casp_orders

All other settings are those of `large_scale`, which runs one order with one draw.
"""

import argparse
from typing import Any

import numpy as np

from experiments import cli
from experiments.data import streams
from experiments.pkawv_2019 import large_scale
from experiments.results import outputs, summaries, tidy

METHODS = ("taylor_2", "taylor_3", "nystrom", "fogd", "pros_n_kons")


def run(name: str, options: argparse.Namespace, seed: int) -> dict[str, np.ndarray]:
    """The curve of a method. The seed determines the order of the stream and the method's draws."""
    order: dict[str, Any] = dict(seed=seed, limit=options.limit)
    stream = streams.load_stream("casp", "authors", options.data_dir, **order)
    config = large_scale.configure(name, "casp", **order)
    return large_scale.run_once(config, stream.xs, stream.ys)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=20, data_dir=None, limit=None)
    cli.add_choices(parser, "--methods", METHODS, METHODS)
    options = cli.parse(parser)
    config = dict(methods=options.methods, limit=options.limit)
    with outputs.results_folder(options, "pkawv_2019.orders", config, options.seeds) as results:
        table: list[tidy.Run] = []
        methods: dict[str, Any] = {}
        for name in options.methods:
            curves = [run(name, options, seed) for seed in range(options.seeds)]
            losses = [float(curve["average_loss"][-1]) for curve in curves]
            methods[name] = dict(average_loss=summaries.statistics(losses, ci=True))
            print(f"{name:12s} {np.mean(losses):.4f}, {min(losses):.4f} to {max(losses):.4f}")
            arrays = [dict(t=curve["n"], average_loss=curve["average_loss"]) for curve in curves]
            table += tidy.runs_of(dict(problem="casp", algorithm=name), arrays)
        summary = dict(config=config, seeds=options.seeds, data="casp", methods=methods)
        results.write(summary, table, "casp, random orders and draws")

"""Runs `jsketch.suggest` and other packages on tables of hyperparameters, and aggregates their
regrets.

    python -m experiments.tables.main --out results/tables/hyperparameters

A table holds several recorded trainings of each setting; the seed of a run determines which of them
an evaluation returns. For a given seed, all methods start with the same ten random settings.
`aggregate` makes the CSV tables and the picture.
"""

from functools import partial

import numpy as np

from experiments import cli
from experiments.pools import campaigns
from experiments.pools.campaigns import Campaign
from experiments.results import environment, outputs, store, tidy
from experiments.tables import aggregate, recorded
from experiments.tables.methods import FIRST, METHODS


def run_of(table: recorded.Table, method: str, campaign: Campaign) -> tidy.Run:
    """The run of a campaign: its settings, regrets and CPU seconds. `mean_regret` is the regret of
    the mean of all readings of the setting with the best reading so far, relative to the largest
    mean of the table."""
    regret = table.regret(table.pool.readings(campaign.seed)[campaign.arms])
    lowest, index = np.minimum.accumulate(regret), np.arange(len(regret))
    improved = np.diff(lowest, prepend=np.inf) < 0
    best_arms = campaign.arms[np.maximum.accumulate(np.where(improved, index, 0))]
    means = table.pool.values
    arrays = dict(
        t=index + 1,
        arm=campaign.arms,
        simple_regret=lowest,
        mean_regret=table.regret(means[best_arms]) - table.regret(means.max()),
        cpu_seconds=np.asarray(campaign.seconds),
    )
    return tidy.Run(dict(problem=table.pool.name, algorithm=method), campaign.seed, arrays)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, horizon=200)
    cli.add_choices(parser, "--tables", list(recorded.TABLES))
    methods_help = f"methods; {aggregate.OURS} and {aggregate.RANDOM} are always run"
    cli.add_choices(parser, "--methods", list(METHODS), help=methods_help)
    seeds_help = "number of seeds of each method; some methods have fewer (default %(default)s)"
    parser.add_argument("--seeds", type=cli.count, default=15, help=seeds_help)
    options = cli.parse(parser)
    names = {*options.methods, aggregate.OURS, aggregate.RANDOM}
    methods = {name: method for name, method in METHODS.items() if name in names}
    needed = sorted({package for method in methods.values() for package in method.packages})
    packages = environment.package_versions(recorded.PACKAGE, *needed)
    sizes = {name: method.sizes(options.horizon) for name, method in methods.items()}
    config = {
        table: {
            name: dict(evaluations=sum(sizes[name]), first=FIRST, batch=method.batch)
            for name, method in methods.items()
            if table in method.tables
        }
        for table in options.tables
    }
    with outputs.results_folder(options, "tables", config, options.seeds) as results:
        runs = []
        for table_name, method_configs in config.items():
            table = recorded.load(table_name)
            for name, method_config in method_configs.items():
                label = f"{table_name}-{name}"
                store.record_configuration(options.out, label, method_config)
                print(label, flush=True)
                campaign_list = campaigns.play_all(
                    partial(methods[name].play, table, sizes[name]),
                    range(min(options.seeds, methods[name].seeds)),
                    partial(store.run_path, options.out, label),
                )
                runs += [run_of(table, name, campaign) for campaign in campaign_list]
        summary = dict(config=config, packages=packages, seconds="CPU time with compilation")
        results.write(summary, runs, "tables of hyperparameters")
        aggregate.draw(options.out)

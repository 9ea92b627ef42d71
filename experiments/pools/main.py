"""Campaigns over a recorded library, and published results for comparison.

    python -m experiments.pools.main --pool arylation_one_hot --out results/pools/arylation_one_hot
    python -m experiments.pools.main --pool nanoparticles --method random_forest --out FOLDER

A campaign starts with a random batch, or with --design with the first batch of `jsketch.suggest`,
which with its defaults chooses the other batches. The defaults were chosen on seeds from 1,000 on
(README.md); seeds from 0 on are reported.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from experiments import cli
from experiments.pools import baselines, campaigns, published
from experiments.pools.campaigns import Campaign
from experiments.results import outputs, store, summaries, tidy
from jsketch.suggest.tables.results import ACQUISITIONS


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=50, first_seed=0, data_dir=None, workers=1)
    parser.add_argument("--pool", choices=published.SETTINGS, required=True)
    parser.add_argument("--method", choices=["suggest", *baselines.CHOOSERS], default="suggest")
    parser.add_argument("--acquisition", choices=ACQUISITIONS, help="for --method suggest")
    parser.add_argument("--design", action="store_true", help="suggest chooses the first batch too")
    options = cli.parse(parser)
    if options.acquisition is not None and options.method != "suggest":
        parser.error("--acquisition is for --method suggest only")
    if options.design and options.method != "suggest":
        parser.error("--design is for --method suggest only")
    name, setting, runs = options.pool, published.SETTINGS[options.pool], []
    pool = setting.load(options.data_dir)
    config = dict(
        pool=name,
        method=options.method,
        sizes=list(setting.sizes),
        first_seed=options.first_seed,
        acquisition=options.acquisition or "default",
        first_batch="design" if options.design else "random",
    )
    make: Callable[[int], Campaign]
    if options.method != "suggest":
        chooser = baselines.CHOOSERS[options.method]
        make = partial(baselines.play, pool, setting.sizes, choose=chooser)
    else:
        acquisition = None if options.acquisition is None else ACQUISITIONS[options.acquisition]
        choices = dict(acquisition=acquisition, design=options.design)
        make = partial(campaigns.play, pool, setting.sizes, **choices)

    seeds = range(options.first_seed, options.first_seed + options.seeds)
    path_of = partial(store.run_path, options.out, options.method)
    with outputs.results_folder(options, "pools", config, options.seeds) as results:
        campaign_list = campaigns.play_all(make, seeds, path_of, options.workers)
        seconds = float(np.mean([campaign.seconds for campaign in campaign_list]))
        our_statistics = published.statistics(name, pool, campaign_list)
        for seed, _, values, _ in campaign_list:
            regret = np.nanmax(pool.values) - np.fmax.accumulate(values)
            arrays = dict(t=np.arange(1, len(values) + 1), y=values, simple_regret=regret)
            runs.append(tidy.Run(dict(problem=name, algorithm=options.method), seed, arrays))
        columns = zip(setting.at, our_statistics.T, strict=True)
        summary = dict(
            config=config,
            cpu_seconds_a_campaign=seconds,
            counted=setting.statistic,
            ours={str(n): summaries.statistics(column, ci=True) for n, column in columns},
            published={method: list(numbers) for method, numbers in setting.published.items()},
        )
        results.write(summary, runs, f"{name}, batches of {setting.sizes[0]}")
    print("\n".join(published.lines(name, our_statistics, options.method)))
    print(f"{seconds:.1f} CPU seconds a campaign, with compilation")

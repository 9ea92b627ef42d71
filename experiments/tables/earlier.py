"""Measures by how much earlier campaigns lower the regret of `suggest` on a table of HPOLib. They
are 60 random settings of each of the three other tables, which have the same grid.

    python -m experiments.tables.earlier --seeds 10 --out results/tables/earlier.json

Runs of a seed start with the same ten random settings and go on in batches of ten. `suggest`
maximizes -log(error). The regret is relative to the smallest mean error of the table.
"""

import jax
import numpy as np

from experiments import cli
from experiments.results import store
from experiments.tables import recorded
from jsketch.suggest import join_campaigns, suggest

N_FIRST, BATCH, N_EARLIER = 10, 10, 60  # settings: of the first batch, of others, of a campaign


def regrets(target: str, earlier_tables: list[str], seed: int, horizon: int) -> np.ndarray:
    """The regret after each evaluation, [horizon], of a run on `target` after campaigns on the
    earlier tables."""
    table = recorded.load(target)
    features, columns = recorded.features(table.space)
    # the values of a pool are negated errors
    negated_errors, readings = table.pool.values, -np.log(-table.pool.readings(seed))
    campaigns = []
    for index, name in enumerate(earlier_tables):
        pool = recorded.load(name).pool
        rows = np.random.default_rng([seed, index]).permutation(len(negated_errors))[:N_EARLIER]
        campaigns.append((features[rows], -np.log(-pool.readings(seed)[rows])))
    arms = np.random.default_rng(seed).permutation(len(negated_errors))[:N_FIRST]
    for index in range((horizon - N_FIRST) // BATCH):
        key = jax.random.fold_in(jax.random.key(seed), index)
        observed = features, arms, readings[arms]
        if campaigns:
            joined = join_campaigns(*observed, campaigns, columns=columns)
            suggestion = suggest(*joined[:3], errors=joined.errors, batch=BATCH, key=key)
        else:
            suggestion = suggest(*observed, columns=columns, batch=BATCH, key=key)
        arms = np.append(arms, suggestion.rows)
    best = negated_errors.max()
    return np.minimum.accumulate((best - negated_errors[arms]) / -best)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=10, horizon=60)
    cli.add_choices(parser, "--tables", recorded.ERROR_TABLES)
    options = cli.parse_benchmark(parser, cached=True)
    at = range(2 * BATCH, options.horizon + 1, BATCH)
    print(f"| table | earlier campaigns | {' | '.join(map(str, at))} |\n|{'---|' * (2 + len(at))}")
    saved: dict[str, dict[str, list[list[float]]]] = {}
    for name in options.tables:
        saved[name] = {}
        for label, earlier_tables in (
            ("none", []),
            ("three", [n for n in recorded.ERROR_TABLES if n != name]),
        ):
            seeds = range(options.seeds)
            runs = [regrets(name, earlier_tables, seed, options.horizon) for seed in seeds]
            curves = np.array(runs)[:, np.array(at) - 1]
            error = curves.std(0, ddof=1) / len(curves) ** 0.5
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(curves.mean(0), error, strict=True)]
            print(f"| {name} | {label} | {' | '.join(cells)} |", flush=True)
            saved[name][label] = curves.round(6).tolist()
    store.write_numbers(options.out, dict(at=list(at), regrets=saved))

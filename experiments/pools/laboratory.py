"""Campaigns with and without the constraints of a laboratory: direct arylation (one-hot), batches
of 5, of which the first is random.

    python -m experiments.pools.laboratory --seeds 10

same      all reactions of a batch at one of three temperatures: that of `suggest`, or a random one
costs     made up: ligands cost 1 to 10, in another order for each seed, and a budget pays for some
          20 reactions
failures  made up: 4 of the 16 pairs of a base and a solvent, drawn for each seed, give no value
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.pools import libraries
from experiments.pools.libraries import Pool
from jsketch.suggest import suggest

BATCH = 5
AT = (15, 25, 50)  # evaluations
BUDGET = 80.0


def compare(seeds: int, folder: Path | None) -> None:
    """Plays all campaigns and prints their results."""
    pool = libraries.arylation_one_hot(folder)
    x = np.asarray(pool.library.features)
    ends = np.cumsum([group.width for group in pool.library.columns])
    base, ligand, solvent, _, heat = (part.argmax(1) for part in np.split(x, ends[:-1], axis=1))
    every = range(seeds)

    def random_temperature(seed: int, count: int) -> dict[str, Any]:
        chosen = np.random.default_rng([seed, count]).integers(heat.max() + 1)
        return dict(exclude=np.flatnonzero(heat != chosen))

    print_curves("no constraint", [best(play(pool, seed), pool) for seed in every])
    print_curves("same", [best(play(pool, seed, same=heat), pool) for seed in every])
    curves = [best(play(pool, seed, each=random_temperature), pool) for seed in every]
    print_curves("random", curves)
    for name, exponent in (("ignored", 0.0), ("divide", 1.0), ("cooled", None)):
        played = [
            play(pool, seed, budget=BUDGET, costs=prices(ligand, seed), cost_exponent=exponent)
            for seed in every
        ]
        ends_at = np.array([[pool.values[arms].max(), len(arms)] for arms in played])
        print(
            f"costs {name:8s} best yield {ends_at[:, 0].mean():.1f} +-"
            f" {ends_at[:, 0].std(ddof=1) / seeds**0.5:.1f}, {ends_at[:, 1].mean():.1f} reactions",
            flush=True,
        )
    for failures in (False, True):
        curves, failed = [], []
        for seed in every:
            pairs = np.random.default_rng(seed).permutation(16)[:4]
            values = np.where(np.isin(4 * base + solvent, pairs), np.nan, pool.values)
            other = pool._replace(values=values)
            arms = play(other, seed, failures=failures)
            curves.append(best(arms, other))
            failed.append(np.isnan(values[arms]).mean())
        print_curves(f"failures={failures}", curves)
        print(f"    {100 * np.mean(failed):.0f}% failed")


def prices(ligand: np.ndarray, seed: int) -> np.ndarray:
    """[A], the price of every reaction, that of its ligand."""
    return np.random.default_rng(seed).permutation(np.geomspace(1, 10, ligand.max() + 1))[ligand]


def play(
    pool: Pool, seed: int, each: Any = None, budget: float | None = None, **options: Any
) -> np.ndarray:
    """The reactions [n] of a campaign; `each(seed, round)` returns further options of a round."""
    key = jax.random.key(seed)
    arms = np.random.default_rng(seed).permutation(len(pool.values))[:BATCH]
    for count in range(1, AT[-1] // BATCH):
        more = dict(options) if each is None else {**options, **each(seed, count)}
        if budget is not None:
            remaining = budget - options["costs"][arms].sum()
            if np.delete(options["costs"], arms).min() > remaining:
                break
            more["budget"] = budget
        suggestion = suggest(
            pool.library,
            arms,
            pool.values[arms],
            batch=BATCH,
            key=jax.random.fold_in(key, count),
            **more,
        )
        arms = np.append(arms, suggestion.rows)
    return arms


def best(arms: np.ndarray, pool: Pool) -> np.ndarray:
    """[len(AT)], the best yield so far."""
    best_yield = np.fmax.accumulate(np.nan_to_num(pool.values[arms], nan=0.0))
    return best_yield[np.array(AT) - 1]


def print_curves(name: str, curves: list[np.ndarray]) -> None:
    """Prints means and standard errors at AT."""
    table = np.stack(curves)
    errors = table.std(0, ddof=1) / len(table) ** 0.5
    numbers = ", ".join(f"{m:.1f} +- {e:.1f}" for m, e in zip(table.mean(0), errors, strict=True))
    print(f"{name:16s} best yield after {AT}: {numbers}", flush=True)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--seeds", type=cli.count, default=10)
    parser.add_argument("--data-dir", type=Path, help="folder of the data files")
    options = parser.parse_args()
    cli.set_up_jax()
    compare(options.seeds, options.data_dir)


if __name__ == "__main__":
    main()

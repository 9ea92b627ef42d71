"""The next batch of experiments for a library of candidates, from the evaluations made so far.

scripts/suggest --candidates library.csv --observations done.csv --batch 96 --out next.csv

library.csv: a column `id`, and one numeric column a feature. done.csv: columns `id` and `value` (larger is better; an id may
be repeated). Candidates that were evaluated, or are named by --pending, are not suggested again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import command, files
from experiments.arguments import count
from experiments.compile_cache import use_compile_cache
from experiments.suggest import plan_line, tables
from jsketch import Arms, Query, kernels
from jsketch.bandits import FixedBKB, history, widths
from jsketch.posterior import evidence
from jsketch.sketch import bless

INDUCING = 384  # points of the sketch on which a lengthscale is chosen
LENGTHSCALES = np.geomspace(0.1, 10, 17)  # times sqrt(d)
RATIOS = np.geomspace(1e-4, 10, 21)  # noise variance over signal variance
LARGEST_DICTIONARY = 768  # inducing points; more of them cost more than they tell when values are noisy
FEW = 5


class Model(NamedTuple):
    """What was learned from the values before any sketch of the candidates."""

    lengthscale: float  # in units of the scaled features
    ratio: float  # noise variance over signal variance, the regularization
    scale: float  # standard deviation of the signal, in units of the values
    centre: float  # mean of the values


class Suggestion(NamedTuple):
    """A batch, best first: rows of the candidates, and what the posterior says of them in units of the values."""

    rows: np.ndarray
    score: np.ndarray  # the optimistic bound mean + width * standard deviation
    mean: np.ndarray
    std: np.ndarray
    dictionary_size: int
    width: float  # in posterior standard deviations


def learnable(values: np.ndarray) -> bool:
    """Whether values [n] can say anything of a lengthscale."""
    return len(values) >= FEW and np.ptp(values) > 0


def power_of_two(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The power of two at the largest of the values (1 for zeros and for none): divided by it, which rounds nothing, they
    can be squared."""
    largest = np.abs(values).max(axis, initial=0.0)
    return np.where(largest > 0, np.exp2(np.frexp(largest)[1] - 1.0), 1.0)


def fit(features: np.ndarray, values: np.ndarray, lengthscale: float | None, seed: int) -> Model:
    """The lengthscale (unless given) and noise that explain values [n] at scaled features [n,d] best, on a sketch.

    Of fewer than FEW values, or values that are all the same, nothing can be learned: the defaults are taken.
    """
    unit = float(power_of_two(values))
    values = values / unit
    centre = float(values.mean()) if len(values) else 0.0
    if not learnable(values):
        spread = float(np.std(values)) if len(values) else 0.0
        length = lengthscale or float(np.sqrt(features.shape[1]))
        print(
            f"{len(values)} values are too few, or too alike, to fit: lengthscale {length:.3g}, noise ratio 0.01"
        )
        return Model(length, 0.01, unit * spread or 1.0, unit * centre)
    y = jnp.asarray(values - centre)
    chosen = np.random.default_rng(seed).permutation(len(np.unique(features, axis=0)))[:INDUCING]
    points = jnp.asarray(np.unique(features, axis=0)[chosen])
    grid = [lengthscale] if lengthscale else (LENGTHSCALES * np.sqrt(features.shape[1])).tolist()
    one = jax.jit(
        lambda length: evidence.log_evidence(
            kernels.Gaussian(length), jnp.asarray(features), y, points, jnp.asarray(RATIOS)
        )
    )
    found = [one(length) for length in grid]
    table = np.array([e.log_likelihood for e in found])
    best, at = np.unravel_index(np.nanargmax(table), table.shape)
    return Model(float(grid[best]), float(RATIOS[at]), unit * float(found[best].scale[at]), unit * centre)


def suggest(
    features: np.ndarray,
    done: tables.Evaluations,
    pending: np.ndarray,
    batch: int,
    model: Model,
    deviations: float,
    seed: int,
) -> Suggestion:
    """The next batch for scaled features [A,d]: the optimism is `deviations` posterior standard deviations, and every pick
    lowers those of the next ones (BKB's posterior, in plates)."""
    domain = Arms(jnp.asarray(features))
    counts, sums = history.of_evaluations(domain, done.arms, (done.values - model.centre) / model.scale)
    kernel, key = kernels.Gaussian(model.lengthscale), jax.random.key(seed)
    dictionary = inducing_candidates(kernel, features, counts, model.ratio, key)
    capacity = max(32, -(-len(dictionary) // 32) * 32)  # few sizes to compile
    bandit = FixedBKB(
        kernel,
        regularization=model.ratio,
        noise_std=model.ratio**0.5,
        norm_bound=deviations,
        width=widths.bayesian,
        batch=batch,
        max_pending=len(pending),
        capacity=capacity,
        repeat=False,
    )
    state = bandit.init(domain, key, pull_counts=counts, reward_sums=sums, dictionary=dictionary)
    if len(pending):
        state = bandit.pend(state, Query(jnp.asarray(pending, jnp.int32), jnp.ones(len(pending), bool)))
    query = jax.jit(bandit.ask)(state, key)
    rows = np.asarray(query.index)[np.asarray(query.mask)]
    mean = np.asarray(state.sketch.mean)[rows]
    std = np.sqrt(np.asarray(state.sketch.variance)[rows] * model.ratio)  # leverage units to prior units
    return Suggestion(
        rows,
        model.centre + model.scale * (mean + deviations * std),
        model.centre + model.scale * mean,
        model.scale * std,
        len(dictionary),
        deviations,
    )


def inducing_candidates(
    kernel: kernels.Gaussian, features: np.ndarray, counts: np.ndarray, ratio: float, key: jax.Array
) -> np.ndarray:
    """Evaluated candidates [m] by approximate leverage scores (BLESS), thinned to at most LARGEST_DICTIONARY."""
    known = np.flatnonzero(counts > 0)
    if len(known) == 0:
        return known
    sampled = known[bless.bless(kernel, features[known], counts[known], ratio, key).rows]
    if len(sampled) <= LARGEST_DICTIONARY:
        return sampled
    print(f"the sketch asks for {len(sampled)} inducing points; {LARGEST_DICTIONARY} of them are kept")
    return np.sort(np.asarray(jax.random.permutation(key, sampled))[:LARGEST_DICTIONARY])


def scaled(features: np.ndarray) -> np.ndarray:
    """Every column with mean 0 and standard deviation 1."""
    features = features / power_of_two(features, axis=0)
    return (features - features.mean(0)) / features.std(0)


def run(options: argparse.Namespace) -> Suggestion:
    """Reads, fits, asks and writes. Raises ValueError for what the tables have wrong."""
    began = time.perf_counter()
    check_out(options)
    candidates = tables.read_candidates(options.candidates, options.id_column)
    nothing = tables.Evaluations(np.zeros(0, int), np.zeros(0))
    done, pending = nothing, np.zeros(0, int)
    if options.observations is not None:
        done = tables.read_evaluations(
            options.observations, candidates, options.id_column, options.value_column
        )
    if options.pending is not None:
        pending = np.unique(tables.read_ids(options.pending, candidates, options.id_column))
    values = -done.values if options.minimize else done.values
    left = len(candidates.ids) - len(np.union1d(done.arms, pending))
    if options.batch > left:
        raise ValueError(
            f"--batch {options.batch} is more than what is left: of {len(candidates.ids)} candidates"
            f" {len(np.unique(done.arms))} were evaluated and {len(pending)} are under way, {left} are left."
        )
    features = candidates.features if options.no_scaling else scaled(candidates.features)
    said = (
        "as they are"
        if options.no_scaling
        else "scaled to mean 0 and standard deviation 1 (--no-scaling: as they are)"
    )
    print(
        f"{len(candidates.ids)} candidates, {features.shape[1]} features, {said}; {len(values)} evaluations"
    )
    # before the fit, so with a kernel of its shape and not of its lengthscale, and the most inducing points there can be
    most = min(len(np.unique(done.arms)), LARGEST_DICTIONARY)
    likely = FixedBKB(
        kernels.Gaussian(1.0), batch=options.batch, max_pending=len(pending), capacity=max(32, most)
    )
    plan_line.announce(
        [likely],
        Arms(jnp.asarray(features)),
        options.batch,
        1,
        1,
        what="plan of the batch, after the fit",
        dictionary_size=max(most, 1),
    )
    model = fit(features[done.arms], values, options.lengthscale, options.seed)
    how = "given" if options.lengthscale else "by marginal likelihood" if learnable(values) else "the default"
    print(
        f"lengthscale {model.lengthscale:.3g} ({how}), noise {model.scale * model.ratio**0.5:.3g} and signal"
        f" {model.scale:.3g} in units of the values"
    )
    batch = suggest(
        features,
        tables.Evaluations(done.arms, values),
        pending,
        options.batch,
        model,
        options.width,
        options.seed,
    )
    write(options, candidates, batch)
    print(
        f"{len(batch.rows)} candidates in {options.out}, dictionary of {batch.dictionary_size} points, width"
        f" {batch.width:.2f}, {time.perf_counter() - began:.1f} s"
    )
    return batch


def check_out(options: argparse.Namespace) -> None:
    """Raises ValueError or OSError, before anything is computed, for a file that cannot be written or is a table to read."""
    out = options.out
    files.check(out)
    for name in ("candidates", "observations", "pending"):
        table = getattr(options, name)
        if table is not None and table.resolve() == out.resolve():
            raise ValueError(
                f"--out {out} is the table of --{name}, which it would replace: name another file."
            )


def write(options: argparse.Namespace, candidates: tables.Candidates, batch: Suggestion) -> None:
    """The batch in the order in which it was chosen; scores and means have the sign of the values."""
    sign = -1 if options.minimize else 1
    table = pd.DataFrame(
        {
            options.id_column: candidates.ids[batch.rows],
            "score": sign * batch.score,
            "mean": sign * batch.mean,
            "standard_deviation": batch.std,
            "dictionary_size": batch.dictionary_size,
            "width": batch.width,
        }
    )
    files.write(options.out, table.to_csv(index=False).encode())


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/suggest", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidates", type=Path, required=True, help="table of the library")
    parser.add_argument("--observations", type=Path, help="table of the evaluations; none yet without it")
    parser.add_argument("--pending", type=Path, help="table whose ids are under way")
    parser.add_argument("--batch", type=count, default=96, help="evaluations to suggest (default 96)")
    parser.add_argument("--out", type=Path, default=Path("next.csv"))
    parser.add_argument(
        "--lengthscale", type=float, help="in units of the scaled features; fitted without it"
    )
    parser.add_argument(
        "--width",
        type=float,
        default=2.0,
        help="standard deviations of optimism: more explore more (default 2)",
    )
    parser.add_argument("--minimize", action="store_true", help="smaller values are better")
    parser.add_argument("--no-scaling", action="store_true", help="take the features as they are")
    parser.add_argument("--id-column", default="id")
    parser.add_argument("--value-column", default="value")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if not 0 <= options.width < np.inf:
        parser.error(f"--width must be a finite number of at least 0; {options.width} was given")
    if options.lengthscale is not None and not (0 < options.lengthscale < np.inf):
        parser.error(f"--lengthscale must be a finite number above 0; {options.lengthscale} was given")
    return options


@command.line
def main() -> None:
    options = parse()
    jax.config.update("jax_enable_x64", True)
    use_compile_cache()
    run(options)


if __name__ == "__main__":
    main()

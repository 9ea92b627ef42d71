"""Measured exponents of PKAWV with KORS (Corollary 7) and of Pros-N-KONS, for Figure 1.

python -m experiments.pkawv_2019.kors_rates --out results/pkawv_2019/nystrom_rates
python -m experiments.pkawv_2019.kors_rates --method pros_n_kons \
    --out results/pkawv_2019/pros_n_kons_rates

The streams are those of `rates`, and the kernel has all features of `rates`. KORS has about n^a
points at mu = n^(1 - a/gamma). The regularization is n^l with the l that minimises the bound (8).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments import cli
from experiments.pkawv_2019 import rates
from experiments.results import outputs, tidy
from jsketch import loops, online, struct
from jsketch.sketch.kors import Sampling

BOUND = 2.0  # of the labels, which are clipped, and of the predictions of Pros-N-KONS
# exponents a of the dictionary size n^a; for Pros-N-KONS, divided by the a that minimises (8)
SIZE_EXPONENTS = dict(pkawv=(0.2, 0.35, 0.5), pros_n_kons=(0.5, 1.0))


@struct.dataclass
class CosineKernel:
    """The kernel of the features of `rates.Cosines`: sum_i 2 scale_i^2 cos(pi i x) cos(pi i x')."""

    scale: Array  # [R]

    def gram(self, x: Array, y: Array) -> Array:
        """The Gram matrix [n, m]."""
        cosines = rates.Cosines(self.scale)
        return cosines.features(x) @ cosines.features(y).T

    def diag(self, x: Array) -> Array:
        """k(x_i, x_i), [n]."""
        return jnp.square(rates.Cosines(self.scale).features(x)).sum(1)


def make(method: str, gamma: float, a: float, n: int) -> online.NystromAWV | online.ProsNKONS:
    """The forecaster of n examples, with about n^a points and the regularization of (8)."""
    kernel = CosineKernel(rates.scales(gamma))
    regularization = float(n ** rates.exponent(method, gamma, a)[0])
    sampling = Sampling(mu=float(n ** (1 - a / gamma)))
    if method == "pkawv":
        return online.NystromAWV(kernel, regularization, sampling)
    return online.ProsNKONS(kernel, regularization, BOUND, sampling)


def run(method: str, gamma: float, a: float, n: int, seed: int) -> tuple[float, int]:
    """(regret, number of points) at the end of one stream of n examples."""
    xs, mean, ys = rates.stream(jax.random.fold_in(jax.random.key(1), seed), gamma, n)
    ys = jnp.clip(ys, -BOUND, BOUND)
    forecaster = make(method, gamma, a, n)
    forecasts, _ = loops.prequential(forecaster, (xs, ys), jax.random.key(seed))
    regret = float(forecasts.loss.sum() - jnp.square(ys - mean).sum())
    return regret, int(forecasts.dictionary_size[-1])


def measure(
    method: str, gamma: float, a: float, counts: list[int], seeds: int
) -> tuple[dict[str, Any], list[tidy.Run]]:
    """(a row, the runs) of a method with about n^a points. The row has the exponents of the regret,
    as measured and by (8), and of the number of points."""
    table = np.array([[run(method, gamma, a, n, seed) for seed in range(seeds)] for n in counts])
    regret, points = table[..., 0], table[..., 1]
    config = dict(problem="capacity_condition", algorithm=method, gamma=gamma, a=a)
    pairs = zip(regret.T, points.T, strict=True)
    runs = tidy.runs_of(config, [dict(t=np.array(counts), regret=r, size=p) for r, p in pairs])
    exponent, error = rates.slope(counts, regret)
    size_exponent = float(np.polyfit(np.log(counts), np.log(points.mean(1)), 1)[0])
    row = dict(
        a=a,
        exponent=exponent,
        standard_error=error,
        bound=min(1.0, rates.exponent(method, gamma, a)[1]),
        size_exponent=size_exponent,
        regret=[round(float(v), 3) for v in regret.mean(1)],
        points=[round(float(v), 1) for v in points.mean(1)],
    )
    return row, runs


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=8)
    parser.add_argument("--method", choices=list(SIZE_EXPONENTS), default="pkawv")
    options = rates.parse(parser, rates.COUNTS)
    config = dict(
        method=options.method,
        counts=options.counts,
        seeds=options.seeds,
        gammas=rates.GAMMAS,
        sizes=SIZE_EXPONENTS[options.method],
        bound=BOUND,
        features=rates.N_FEATURES,
        noise_std=rates.NOISE_STD,
    )
    with outputs.results_folder(options, "pkawv_2019.kors_rates", config) as results:
        measured: dict[str, list[dict[str, Any]]] = {}
        runs: list[tidy.Run] = []
        for gamma in rates.GAMMAS:
            rows = measured[f"{gamma:.3f}"] = []
            # for Pros-N-KONS the factor is the a that minimises (8)
            factor = 2 * gamma / (1 + gamma) ** 2 if options.method == "pros_n_kons" else 1.0
            for a in (multiple * factor for multiple in SIZE_EXPONENTS[options.method]):
                row, new_runs = measure(options.method, gamma, a, options.counts, options.seeds)
                rows.append(row)
                runs += new_runs
                print(f"gamma {gamma:.3f}: {row}", flush=True)
        summary = dict(config=config, data=rates.DATA, measured=measured)
        results.write(summary, runs, f"regret of {options.method} under a capacity condition")

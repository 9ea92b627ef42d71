"""A degree M that grows with the stream (Section 3.1 of PKAWV): comparison with fixed degrees, with
exact Kernel-AWV, and with the bound of Theorem 4.

python -m experiments.pkawv_2019.growing_degree --out results/pkawv_2019/growing_degree

Inputs are uniform in a cube whose corners have norm R lengthscales. Labels are the values of a
function of norm NORM in the Gaussian kernel's RKHS, with noise. The forecaster "growing" works in
blocks that end after each of --counts examples. In each block it has the degree of Theorem 4 for
the end of this block and learns the earlier examples again, so that it needs no horizon. The regret
is relative to the function without noise.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments import cli
from experiments.figures.styles import label
from experiments.pkawv_2019 import rates
from experiments.results import outputs, summaries, tidy
from jsketch import kernels, loops, online
from jsketch.scale import segments
from jsketch.sketch.taylor import Taylor, basis_size, theorem_degree

# (d, R in lengthscales). The degree of Theorem 4 is at least 8 R^2 and 2 log n.
STREAMS = ((1, 1.0), (1, 2.0), (2, 1.0), (2, 2.0))
FIXED_DEGREES = (2, 4)  # two of the degrees of the paper's figures
NORM, N_CENTERS, NOISE_STD, REGULARIZATION = 3.0, 20, 0.1, 1.0
DIGITS = 4  # of the numbers in summary.json
TABLE = "regret.csv"


@partial(jax.jit, static_argnames=("dimension", "n"))
def stream(key: Array, dimension: int, radius: float, n: int) -> tuple[Array, Array, Array]:
    """(examples [n,d], the function's values [n], labels [n]), for lengthscale 1."""
    kernel = kernels.Gaussian(1.0)
    x_key, center_key, weight_key, noise_key = jax.random.split(key, 4)
    end = radius / dimension**0.5  # of the cube in each direction
    xs = jax.random.uniform(x_key, (n, dimension), minval=-end, maxval=end)
    centers = jax.random.uniform(center_key, (N_CENTERS, dimension), minval=-end, maxval=end)
    weights = jax.random.normal(weight_key, (N_CENTERS,))
    norm = jnp.sqrt(weights @ kernel.gram(centers, centers) @ weights)
    mean = kernel.gram(xs, centers) @ weights * (NORM / norm)
    return xs, mean, mean + NOISE_STD * jax.random.normal(noise_key, (n,))


@partial(jax.jit, static_argnames=("degree", "begin"))
def losses_of(xs: Array, ys: Array, degree: int | None, begin: int, key: Array) -> Array:
    """Squared losses [S,n - begin] on the examples xs [S,n,d], ys [S,n] from `begin` on, after
    learning the earlier examples, of PKAWV with this degree, or of Kernel-AWV if it is None."""
    forecaster: Any = online.KernelAWV(kernels.Gaussian(1.0), REGULARIZATION, capacity=ys.shape[1])
    if degree is not None:
        forecaster = online.PKAWV(Taylor(xs.shape[2], degree), REGULARIZATION)

    def losses_of_one(x: Array, y: Array) -> Array:
        state = forecaster.init(x[0], key)
        if begin:
            state = segments.learn(forecaster, state, x[:begin], y[:begin])
        return loops.streams.stream(forecaster, state, x[begin:], y[begin:], key).forecasts.loss

    return jax.vmap(losses_of_one)(xs, ys)


def bound(xs: Array, ys: Array, counts: list[int]) -> np.ndarray:
    """The bound of Theorem 4 on one stream after each of the `counts` of examples, [N]: lam |f|^2 +
    1.5 B^2 logdet(I + K / lam), where B is the largest |label|."""
    gram = np.asarray(kernels.Gaussian(1.0).gram(xs, xs)) / REGULARIZATION
    logdets = [np.linalg.slogdet(np.eye(n) + gram[:n, :n])[1] for n in counts]
    return REGULARIZATION * NORM**2 + 1.5 * float(jnp.abs(ys).max()) ** 2 * np.array(logdets)


def measure(dimension: int, radius: float, counts: list[int], seeds: int) -> dict[str, Any]:
    """The degrees of "growing" and its numbers of features in each block, and the bound and the
    regrets of all methods at the end of each block."""
    setting = dict(radius=radius, lengthscale=1.0, regularization=REGULARIZATION)
    degrees = [theorem_degree(end, **setting) for end in counts]
    key = jax.random.key(0)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(seeds))
    xs, mean, ys = jax.vmap(lambda k: stream(k, dimension, radius, counts[-1]))(keys)
    growing = [
        losses_of(xs[:, :end], ys[:, :end], degree, begin, key)
        for begin, end, degree in zip([0, *counts[:-1]], counts, degrees, strict=True)
    ]
    losses = dict(
        kernel_awv=losses_of(xs, ys, degree=None, begin=0, key=key),
        growing=jnp.concatenate(growing, axis=1),
        **{f"taylor_{m}": losses_of(xs, ys, m, begin=0, key=key) for m in FIXED_DEGREES},
    )
    baseline, ends = jnp.square(ys - mean), np.array(counts) - 1  # losses of the function itself
    regrets = {
        name: np.asarray((loss - baseline).cumsum(1)[:, ends]) for name, loss in losses.items()
    }
    bounds = np.mean([bound(x, y, counts) for x, y in zip(xs, ys, strict=True)], axis=0)
    return dict(
        degrees=degrees,
        features=[basis_size(dimension, degree) for degree in degrees],
        bound=[round(float(value), DIGITS) for value in bounds],
        regret={
            name: [summaries.statistics(np.round(column, DIGITS), ci=True) for column in table.T]
            for name, table in regrets.items()
        },
    )


def tabulate(folder: Path, counts: list[int], measured: dict[str, Any]) -> None:
    """Writes regret.csv: a row for each stream and n."""
    rows, methods = [], []
    for name, entry in measured.items():
        methods = list(entry["regret"])
        for i, n in enumerate(counts):
            regrets = [f"{entry['regret'][method][i]['mean']:.1f}" for method in methods]
            basis = (entry["degrees"][i], entry["features"][i])
            rows.append((name, n, *basis, *regrets, f"{entry['bound'][i]:.0f}"))
    labels = ["M growing" if method == "growing" else label(method) for method in methods]
    head = ("stream", "n", "M growing to", "features", *labels, "bound of Theorem 4")
    tidy.write_csv(folder / TABLE, rows, head)


@cli.command
def main() -> None:
    options = rates.parse(cli.parser(__doc__, seeds=4), [64, 128, 256, 512, 1024])
    options.counts.sort()
    config = dict(
        counts=options.counts,
        seeds=options.seeds,
        streams=STREAMS,
        fixed=FIXED_DEGREES,
        norm=NORM,
        noise_std=NOISE_STD,
        regularization=REGULARIZATION,
    )
    with outputs.results_folder(options, "pkawv_2019.growing_degree", config) as results:
        measured = {}
        for dimension, radius in STREAMS:
            name = f"d = {dimension}, R = {radius:g}"
            entry = measured[name] = measure(dimension, radius, options.counts, options.seeds)
            final = {method: row[-1]["mean"] for method, row in entry["regret"].items()}
            print(
                f"{name}: degrees {entry['degrees']}, regret at n = {options.counts[-1]}: {final}"
            )
        data = "made up: a function of the Gaussian kernel's space with noise"
        results.write(dict(config=config, data=data, measured=measured))
        tabulate(options.out, options.counts, measured)

"""Random problems, many of them degenerate. The seed determines a problem. Shapes come from a short
list, so that all seeds share a few compiled programs."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from truth import gram, perturbed

from jsketch import kernels

# (arms, dimension); without --long only the first size is drawn
SIZES = ((24, 3), (1, 1), (2, 3), (9, 2), (40, 8), (70, 2))
SMOOTHNESS = (1.5, 0.5, 2.5)
STYLES = ("uniform", "normal", "grid", "clusters", "repeated", "constant")
HARD_STYLES = ("near", "offset")


@dataclass
class ArmsProblem:
    """Arms x [A,d], a kernel of the library and of the oracles, and the settings of algorithms."""

    description: str
    x: np.ndarray
    kernel: Any
    grams: list  # the true Gram matrix, and perturbed ones
    lam: float
    noise: float
    norm_bound: float
    delta: float
    qbar: float
    ratio: float
    mean: np.ndarray  # mean rewards [A]


def points(random, count, dimension, styles):
    """(style, x [count,dimension]) of random points in one of the styles."""
    style = str(random.choice(styles))
    x = random.uniform(-1, 1, (count, dimension))
    if style == "normal":
        x = random.standard_normal((count, dimension))
    elif style == "grid":
        x = random.integers(-2, 3, (count, dimension)).astype(float)
    elif style == "clusters":
        x = 3 * random.standard_normal((5, dimension))[random.integers(0, 5, count)] + 0.1 * x
    elif style == "repeated":
        x = x[random.integers(0, max(1, count // 2), count)]
    elif style == "constant":
        x[:, random.integers(dimension)] = random.choice([0.0, 2.5])
    elif style == "near":
        x = x[random.integers(0, max(1, count // 3), count)] + 10.0 ** random.integers(-12, -3) * x
    elif style == "pairs":
        x = x[random.integers(0, min(3, count), count)] + 1e-6 * x
    elif style == "offset":
        x = x + 1000.0
    elif style == "walk":
        x = np.cumsum(0.1 * x, 0)
    return style, x


def kernel_of(random, x, nu):
    """(description, kernel, parts of the oracle) of a sum of four kernels; most weights are 0."""
    dimension = x.shape[1]
    n_scales = dimension if random.uniform() < 0.3 else 1
    scale = np.resize(10 ** random.uniform(-0.7, 0.8, n_scales), dimension) * np.sqrt(dimension)
    weights = np.where(random.uniform(size=4) < 0.2, 10 ** random.uniform(-1, 1, 4), 0.0)
    weights[random.choice(4, p=[0.4, 0.3, 0.2, 0.1])] = 10 ** random.uniform(-0.5, 0.5)
    alpha, offset = float(10 ** random.uniform(-1, 1)), float(random.choice([0.0, 1.0, 0.3]))
    polynomial_scale = float(max(1.0, np.abs(x).max()))
    parts = [
        ("gaussian", weights[0], scale, 0.0),
        ("matern", weights[1], scale, nu),
        ("rational", weights[2], scale, alpha),
        ("polynomial", weights[3], polynomial_scale, offset),
    ]
    length = jnp.asarray(scale)
    members = [
        kernels.Gaussian(length),
        kernels.Matern(length, nu=nu),
        kernels.RationalQuadratic(length, alpha),
        kernels.Polynomial(polynomial_scale, offset, degree=2),
    ]
    kernel = kernels.Scaled(members[0], float(weights[0]))
    for member, weight in zip(members[1:], weights[1:], strict=True):
        kernel = kernels.Sum(kernel, kernels.Scaled(member, float(weight)))
    description = "+".join(f"{w:.2g} {p[0]}" for w, p in zip(weights, parts, strict=True) if w)
    return f"{description} lengthscale {np.round(scale, 3).tolist()}", kernel, parts


def arms_problem(seed, long=False):
    """A random problem. Near-duplicates and regularizations below 1e-4 occur only with `long`."""
    random = np.random.default_rng([seed, 1])
    size_index = seed // 7 % len(SIZES) if long else 0
    count, dimension = SIZES[size_index]
    style, x = points(random, count, dimension, STYLES + HARD_STYLES * long)
    description, kernel, parts = kernel_of(random, x, SMOOTHNESS[size_index % 3])
    true_gram = gram(parts, x, x)
    lam = float(10 ** (random.uniform(-8, 1) if long else random.uniform(-4, 0.5)))
    return ArmsProblem(
        f"seed {seed}, {count} {style} arms of {dimension} inputs, {description}, lam {lam:.2e}",
        x=x,
        kernel=kernel,
        grams=[true_gram] + [perturbed(true_gram, random) for _ in range(4)],
        lam=lam,
        noise=float(10 ** random.uniform(-2, 0)),
        norm_bound=float(10 ** random.uniform(-1, 1)),
        delta=float(random.choice([0.5, 0.1, 1e-3])),
        qbar=float(10 ** random.uniform(-0.5, 1.5)),
        ratio=float(random.choice([1.0, 1.2, 2.0, 5.0, 30.0])),
        mean=10 ** random.uniform(-1, 1) * np.sin(1.7 * np.arange(count) + random.uniform()),
    )

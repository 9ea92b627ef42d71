"""Parametric laws of science and engineering, for optimisers that know the form of a function.

A `Law` has a plain function of named inputs and parameters, the bounds of both, and a starting
guess. Its true parameters are drawn: each differs from the guess by at most a quarter of its range,
on a logarithmic scale where the parameter is positive and its range is large. The bounds of most
positive parameters are a tenth and ten times the guess, so that the guess is wrong by a factor of
up to 3.2. An evaluation has normal noise with a standard deviation of NOISE times the difference
between the maximum of the function and its mean over the box.

The laws were divided before any optimiser had run on them. Those in CHOOSING choose the defaults of
`box.ModelGOUCB`, those in JUDGING compare it with other optimisers, and in those in MISSING the
truth has a term that the model lacks.

| use | law | inputs | parameters |
|---|---|---|---|
| choosing | `haldane`, enzyme kinetics with substrate inhibition | 1 | 3 |
| choosing | `consecutive`, A -> B -> C: a growth and a decay with an offset | 2 | 6 |
| choosing | `sinusoid` | 3 | 6 |
| choosing | `response_surface`, of second order | 4 | 15 |
| choosing | `saturation`, of three substrates, an activator and an inhibitor | 5 | 10 |
| choosing | `logistic` | 20 | 22 |
| judging | `hill`, a dose with an effect and a toxicity | 1 | 7 |
| judging | `arrhenius_bell`, an enzyme in temperature and pH | 2 | 6 |
| judging | `pharmacokinetics`, dose, release and time | 3 | 6 |
| judging | `resonance`, of a driven oscillator | 3 | 6 |
| judging | `network`, of two layers | 6 | 25 |
| judging | `medium`, a bell in 20 concentrations | 20 | 23 |
| missing | `unknown_inhibition`: the substrate inhibits, the model only saturates | 2 | 3 |
| missing | `unknown_wave`: a response surface with a wave | 3 | 10 |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.box.go_ucb.parametric import Parametric
from jsketch.box.history import from_unit
from jsketch.search import maximise_over_box
from jsketch.types import Box, PRNGKey

NOISE = 0.05  # standard deviation of the noise, in units of the maximum minus the mean
OFF = 1.0  # largest distance of a true parameter from its guess, in quarters of its range
SAMPLES = 4096  # random points for the mean and the maximum of a problem


@struct.dataclass
class LawProblem:
    """The problem of maximising a law with true parameters, for `loops.run`: y = value(x) +
    noise_std * standard normal."""

    domain: Box
    truth: dict[str, Array]  # the true parameters by name, also those that the model lacks
    maximum: Array  # [], the largest value that a search with the true parameters finds
    maximiser: Array  # [d]
    mean: Array  # [], of the values over the box
    noise_std: ArrayLike  # standard deviation of the noise of an evaluation
    law: Law = struct.field(pytree_node=False)

    def value(self, x: Array) -> Array:
        """The value [] at x [d], without noise."""
        return self.law.true_model(self.truth, x)

    def __call__(self, x: Array, key: PRNGKey) -> Array:
        return self.value(x) + self.noise_std * jax.random.normal(key, (), x.dtype)


@dataclass(frozen=True, eq=False)
class Law:
    """A law with bounds and guesses.

    function    a function of inputs and parameters by name, which returns one number
    box         {name of an input: (lower, upper)}, or {name: (lower, upper, d)} for a vector
    parameters  {name: (lower, upper, guess)}, as in `box.Parametric`
    missing     a function of the inputs, the parameters and those of `extra`, which is the truth if
                the model lacks a term
    extra       {name: (lower, upper, guess)} of the parameters that the model lacks
    exchanges   a function of parameters by name that returns all those with the same values of the
                law, each [E, ...], if its parts can be exchanged; None: there are no others

    Example:

        problem = laws.haldane.problem(jax.random.key(0))  # a true law, drawn at random
        optimizer = ModelGOUCB(laws.haldane.model)
        run(optimizer, problem, jax.random.key(1), 12).trace.best  # [12]
    """

    function: Callable[..., Any]
    box: Mapping[str, tuple[float, ...]]
    parameters: Mapping[str, Any]
    missing: Callable[..., Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    exchanges: Callable[[Mapping[str, Array]], dict[str, Array]] | None = None

    @property
    def name(self) -> str:
        return self.function.__name__.removeprefix("_")

    @property
    def model(self) -> Parametric:
        """The model that a user of the law gives to an optimiser."""
        return Parametric(self.function, self.parameters)

    @property
    def true_model(self) -> Parametric:
        """The model with the terms that `model` lacks."""
        if self.missing is None:
            return self.model
        return Parametric(self.missing, {**self.parameters, **self.extra})

    @property
    def domain(self) -> Box:
        """The box of the inputs, [d]."""
        ranges = [((low, high), int((*size, 1)[0])) for low, high, *size in self.box.values()]
        lower, upper = np.concatenate([np.tile(ends, (count, 1)) for ends, count in ranges]).T
        return Box(jnp.asarray(lower, float), jnp.asarray(upper, float))

    def draw(self, key: PRNGKey) -> dict[str, Array]:
        """True parameters by name, also those that the model lacks."""
        model, dtype = self.true_model, jnp.result_type(float)
        z = jax.random.uniform(key, (model.size,), dtype, -OFF, OFF)
        return model.named(model.vector(z))

    def nearest(self, truth: dict[str, Array], parameters: Mapping[str, Any]) -> dict[str, Array]:
        """The true parameters or, among their `exchanges`, those that are nearest to
        `parameters` in the coordinates of `model`."""
        if self.exchanges is None:
            return truth
        model, others = self.model, self.exchanges(truth)
        z = model.coordinates(parameters)
        squares = jax.vmap(lambda other: jnp.square(model.coordinates(other) - z).sum())(others)
        return truth | jax.tree.map(lambda leaf: leaf[jnp.argmin(squares)], others)

    def problem(self, key: PRNGKey) -> LawProblem:
        """A problem with drawn parameters. Works under jit and vmap."""
        draw_key, point_key, search_key = jax.random.split(key, 3)
        truth, box, model = self.draw(draw_key), self.domain, self.true_model
        value = jax.vmap(lambda x: model(truth, x))
        unit = jax.random.uniform(point_key, (SAMPLES, box.lower.size), box.lower.dtype)
        mean = value(from_unit(box, unit)).mean()
        x, maximum = maximise_over_box(value, search_key, box, candidates=SAMPLES, steps=200)
        return LawProblem(box, truth, maximum, x, mean, NOISE * (maximum - mean), self)


def _haldane(S: Array, Vmax: Array, Km: Array, Ki: Array) -> Array:
    return Vmax * S / (Km + S + S**2 / Ki)


haldane = Law(
    _haldane,
    box=dict(S=(0.0, 50.0)),
    parameters=dict(Vmax=(1, 100, 10), Km=(0.5, 50, 5), Ki=(1, 100, 10)),
)


def _consecutive(
    t: Array, T: Array, scale: Array, k1: Array, k2: Array, E1: Array, E2: Array, offset: Array
) -> Array:
    """The concentration of B in A -> B -> C at time t, with the rates k exp(E T)."""
    a, b = k1 * jnp.exp(E1 * T) * t, k2 * jnp.exp(E2 * T) * t
    gap = jnp.where(jnp.abs(b - a) < 1e-3, 1e-3, b - a)
    return scale * a * jnp.exp(-a) * -jnp.expm1(-gap) / gap + offset


consecutive = Law(
    _consecutive,
    box=dict(t=(0.05, 10.0), T=(-1.0, 1.0)),
    parameters=dict(
        scale=(1, 100, 10),
        k1=(0.05, 5, 0.5),
        k2=(0.02, 2, 0.2),
        E1=(0.0, 3.0, 1.5),
        E2=(0.0, 4.0, 2.0),
        offset=(-4.0, 4.0, 0.0),
    ),
)


def _sinusoid(x: Array, amplitude: Array, w: Array, phase: Array, offset: Array) -> Array:
    return amplitude * jnp.sin(w @ x + phase) + offset


sinusoid = Law(
    _sinusoid,
    box=dict(x=(0.0, 2.0, 3)),
    parameters=dict(
        amplitude=(0.3, 30, 3),
        w=(np.full(3, 0.3), np.full(3, 4.8), np.full(3, 1.2)),
        phase=(-3.0, 3.0, 0.0),
        offset=(-10.0, 10.0, 0.0),
    ),
)


def _response_surface(x: Array, b0: Array, b: Array, q: Array, c: Array) -> Array:
    """b0 + b x - sum_i q_i x_i^2 + sum_{i<j} c_ij x_i x_j"""
    first, second = np.triu_indices(len(x), 1)
    return b0 + b @ x - q @ x**2 + c @ (x[first] * x[second])


def _surface_parameters(d: int) -> dict[str, Any]:
    return dict(
        b0=(-10.0, 10.0, 0.0),
        b=(np.full(d, -10.0), 10.0, 0.0),
        q=(np.full(d, 0.0), 16.0, 8.0),
        c=(np.full(d * (d - 1) // 2, -8.0), 8.0, 0.0),
    )


response_surface = Law(
    _response_surface, box=dict(x=(-1.0, 1.0, 4)), parameters=_surface_parameters(4)
)


def _saturation(
    A: Array,
    B: Array,
    C: Array,
    E: Array,
    J: Array,
    Vmax: Array,
    Ka: Array,
    Kia: Array,
    Kb: Array,
    Kib: Array,
    Kc: Array,
    n: Array,
    gain: Array,
    Ke: Array,
    Kj: Array,
) -> Array:
    """Two substrates that inhibit in excess, a cooperative one, an activator and an inhibitor."""
    first, second = A / (Ka + A + A**2 / Kia), B / (Kb + B + B**2 / Kib)
    third = C**n / (Kc**n + C**n)
    return Vmax * first * second * third * (1 + gain * E / (Ke + E)) / (1 + J / Kj)


saturation = Law(
    _saturation,
    box=dict(A=(0.0, 20.0), B=(0.0, 20.0), C=(0.01, 10.0), E=(0.0, 5.0), J=(0.0, 5.0)),
    parameters=dict(
        Vmax=(1, 100, 10),
        Ka=(0.2, 20, 2),
        Kia=(1, 100, 10),
        Kb=(0.2, 20, 2),
        Kib=(1, 100, 10),
        Kc=(0.2, 20, 2),
        n=(0.5, 4.5, 1.5),
        gain=(0.2, 20, 2),
        Ke=(0.1, 10, 1),
        Kj=(0.1, 10, 1),
    ),
)


def _logistic(x: Array, top: Array, w: Array, b: Array) -> Array:
    return top * jax.nn.sigmoid(w @ x + b)


logistic = Law(
    _logistic,
    box=dict(x=(-1.0, 1.0, 20)),
    parameters=dict(top=(1, 100, 10), w=(np.full(20, -2.0), 2.0, 0.0), b=(-8.0, 0.0, -4.0)),
)


def _hill(
    dose: Array,
    effect: Array,
    EC50: Array,
    n: Array,
    toxicity: Array,
    TC50: Array,
    m: Array,
    base: Array,
) -> Array:
    benefit = effect * dose**n / (EC50**n + dose**n)
    return base + benefit - toxicity * dose**m / (TC50**m + dose**m)


hill = Law(
    _hill,
    box=dict(dose=(0.01, 10.0)),
    parameters=dict(
        effect=(1, 100, 10),
        EC50=(0.1, 10, 1),
        n=(0.5, 8, 2),
        toxicity=(1, 100, 10),
        TC50=(0.6, 60, 6),
        m=(1, 16, 4),
        base=(-10.0, 10.0, 0.0),
    ),
)


def _arrhenius_bell(
    T: Array, pH: Array, A: Array, E: Array, D: Array, Tm: Array, p0: Array, width: Array
) -> Array:
    """A rate that grows with the temperature [K] by Arrhenius' law (E in units of 310 K) until the
    enzyme melts at Tm, times a bell in the pH."""
    growth = A * jnp.exp(E * (1 - 310 / T)) / (1 + jnp.exp(D * (T - Tm)))
    return growth * jnp.exp(-(((pH - p0) / width) ** 2) / 2)


arrhenius_bell = Law(
    _arrhenius_bell,
    box=dict(T=(280.0, 360.0), pH=(3.0, 10.0)),
    parameters=dict(
        A=(1, 100, 10),
        E=(2, 60, 15),
        D=(0.05, 1.25, 0.25),
        Tm=(300.0, 360.0, 330.0),
        p0=(4.0, 9.0, 6.5),
        width=(0.3, 4.8, 1.2),
    ),
)


def _pharmacokinetics(
    dose: Array,
    release: Array,
    t: Array,
    ka: Array,
    ke: Array,
    V: Array,
    Emax: Array,
    EC50: Array,
    side: Array,
) -> Array:
    """The effect at time t [h] of a dose that is absorbed at the rate ka * release and eliminated
    at the rate ke (Bateman's function), minus a side effect of the dose."""
    a, e = ka * release * t, ke * t
    gap = jnp.where(jnp.abs(e - a) < 1e-3, 1e-3, e - a)
    concentration = dose / V * a * jnp.exp(-a) * -jnp.expm1(-gap) / gap
    return Emax * concentration / (EC50 + concentration) - side * dose


pharmacokinetics = Law(
    _pharmacokinetics,
    box=dict(dose=(0.0, 10.0), release=(0.2, 5.0), t=(0.1, 24.0)),
    parameters=dict(
        ka=(0.03, 3, 0.3),
        ke=(0.02, 2, 0.2),
        V=(0.3, 30, 3),
        Emax=(1, 100, 10),
        EC50=(0.05, 5, 0.5),
        side=(0.05, 5, 0.5),
    ),
)


def _resonance(
    w: Array,
    T: Array,
    drive: Array,
    gain: Array,
    w0: Array,
    a: Array,
    damping: Array,
    b: Array,
    heating: Array,
) -> Array:
    """The amplitude of an oscillator that is driven at the frequency w; its own frequency and its
    damping change with the temperature T, and the drive heats it."""
    own = w0 * (1 + a * T)
    loss = damping * (1 + b * T**2) + heating * drive**2
    return gain * drive / jnp.sqrt((own**2 - w**2) ** 2 + (2 * loss * own * w) ** 2)


resonance = Law(
    _resonance,
    box=dict(w=(0.2, 4.0), T=(-1.0, 1.0), drive=(0.1, 3.0)),
    parameters=dict(
        gain=(0.1, 10, 1),
        w0=(0.6, 5.4, 1.8),
        a=(-0.5, 0.5, 0.0),
        damping=(0.03, 3, 0.3),
        b=(0.1, 10, 1),
        heating=(0.01, 1, 0.1),
    ),
)


def _network(x: Array, inner: Array, bias: Array, outer: Array, level: Array) -> Array:
    return level + outer @ jnp.tanh(inner @ x + bias)


def _same_networks(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """The units in every order and with every sign, which changes no value: tanh is odd."""
    signs, orders = product((1.0, -1.0), repeat=3), permutations(range(3))
    rows = [(np.array(order), np.array(sign)) for order, sign in product(orders, signs)]
    order, sign = (jnp.asarray(np.stack(part)) for part in zip(*rows, strict=True))
    return dict(
        inner=sign[:, :, None] * parameters["inner"][order],
        bias=sign * parameters["bias"][order],
        outer=sign * parameters["outer"][order],
        level=jnp.broadcast_to(parameters["level"], len(rows)),
    )


network = Law(
    _network,
    box=dict(x=(-1.0, 1.0, 6)),
    parameters=dict(
        # units with equal guesses would stay equal
        inner=(-np.full((3, 6), 5.0), 5.0, np.sin(np.arange(18.0)).reshape(3, 6)),
        bias=(-np.full(3, 3.0), 3.0, np.array([-0.5, 0.0, 0.5])),
        outer=(-np.full(3, 6.0), 6.0, np.array([2.0, -2.0, 2.0])),
        level=(-10.0, 10.0, 0.0),
    ),
    exchanges=_same_networks,
)


def _medium(x: Array, base: Array, height: Array, optimum: Array, width: Array) -> Array:
    return base + height * jnp.exp(-jnp.square(x - optimum).sum() / (2 * width**2))


medium = Law(
    _medium,
    box=dict(x=(0.0, 1.0, 20)),
    parameters=dict(
        base=(-10.0, 10.0, 0.0),
        height=(1, 100, 10),
        optimum=(np.zeros(20), 1.0, 0.5),
        width=(0.5, 4.5, 1.5),
    ),
)


def _unknown_inhibition(S: Array, I: Array, Vmax: Array, Km: Array, Kc: Array) -> Array:  # noqa: E741
    return Vmax * S / (Km * (1 + I / Kc) + S)


def _with_inhibition(
    S: Array,
    I: Array,  # noqa: E741
    Vmax: Array,
    Km: Array,
    Kc: Array,
    Ki: Array,
) -> Array:
    return Vmax * S / (Km * (1 + I / Kc) + S + S**2 / Ki)


unknown_inhibition = Law(
    _unknown_inhibition,
    box=dict(S=(0.0, 50.0), I=(0.0, 10.0)),
    parameters=dict(Vmax=(1, 100, 10), Km=(0.5, 50, 5), Kc=(0.2, 20, 2)),
    missing=_with_inhibition,
    extra=dict(Ki=(1, 100, 10)),
)


def _unknown_wave(x: Array, b0: Array, b: Array, q: Array, c: Array) -> Array:
    return _response_surface(x, b0, b, q, c)


def _with_wave(
    x: Array, b0: Array, b: Array, q: Array, c: Array, amplitude: Array, w: Array, phase: Array
) -> Array:
    return _response_surface(x, b0, b, q, c) + amplitude * jnp.sin(w @ x + phase)


unknown_wave = Law(
    _unknown_wave,
    box=dict(x=(-1.0, 1.0, 3)),
    parameters=_surface_parameters(3),
    missing=_with_wave,
    extra=dict(amplitude=(1, 16, 4), w=(np.full(3, -6.0), 6.0, 0.0), phase=(-3.0, 3.0, 0.0)),
)

CHOOSING = (haldane, consecutive, sinusoid, response_surface, saturation, logistic)
JUDGING = (hill, arrhenius_bell, pharmacokinetics, resonance, network, medium)
MISSING = (unknown_inhibition, unknown_wave)
LAWS = {law.name: law for law in (*CHOOSING, *JUDGING, *MISSING)}

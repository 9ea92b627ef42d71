"""`minimize` and `maximize` with a law that the user knows: `box.ModelGOUCB` over a `Space`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch.box import Estimate, ModelGOUCB, Parametric
from jsketch.box.go_ucb.own_model import warn_of_misfit
from jsketch.box.space import SIDE, Integer, Real, Space
from jsketch.suggest.proposals import SpaceDomain
from jsketch.types import Box, BoxQuery
from jsketch.warn import warn

LEFT_OUT = (
    "the model is not finite at some evaluations, which were left out of its fits: choose a space,"
    " bounds and guesses for which it is finite."
)
ASK = jax.jit(lambda optimizer, state, key: optimizer.ask(state, key))
TELL = jax.jit(lambda optimizer, state, query, y, key: optimizer.tell(state, query, y, key))
POSTERIOR = jax.jit(lambda optimizer, state, x: optimizer.posterior(state, x))


class SpaceLaw(Parametric):
    """A law at points of the unit cube, whose inputs are the hyperparameters of a space in their
    own units, times `sign`. An integer is any number of its interval."""

    def __init__(self, model: Parametric, space: Space, sign: int):
        if not isinstance(model, Parametric):
            raise ValueError(f"model must be a law, box.Parametric(...); {model!r} was given.")
        super().__init__(model.function, {name: tuple(r) for name, r in model.ranges.items()})
        if set(self.inputs) != set(space.names):
            raise ValueError(
                f"the model's inputs are {', '.join(self.inputs)}, and the space has"
                f" {', '.join(space.names)}: use the same names."
            )
        for h in space.hyperparameters:
            if not isinstance(h, Real | Integer):
                raise ValueError(f"a model needs numbers; {h.name} is a list of choices.")
        self.space, self.sign = space, sign

    def _key(self) -> Any:
        return super()._key(), self.space, self.sign

    def arguments(self, x: Array) -> dict[str, Array]:
        return {h.name: _value(h, x[i]) for i, h in enumerate(self.space.hyperparameters)}

    def __call__(self, parameters: Mapping[str, Any], x: Array) -> Any:
        return self.sign * super().__call__(parameters, x)


def _value(h: Any, unit: Array) -> Array:
    """The hyperparameter at a coordinate of the unit cube, as `Space.decode` without rounding."""
    if isinstance(h, Real):
        low, high = float(h.low), float(h.high)
    else:
        low, high = int(h.low) - 0.5, int(h.high) + 0.5
    if h.log:
        value = jnp.exp(math.log(low) + unit * (math.log(high) - math.log(low)))
    else:
        value = low + unit * (high - low)
    return jnp.clip(value, float(h.low), float(h.high))


@dataclass(frozen=True)
class FittedLaw:
    """The law that a run of `minimize` has fitted."""

    optimizer: ModelGOUCB
    state: Any

    def parameters(self, level: float = 0.95) -> dict[str, Estimate]:
        """{name: Estimate}, as `ModelGOUCB.parameters`, in numbers of Python or NumPy arrays."""
        estimates = self.optimizer.parameters(self.state, level)
        return {
            name: Estimate(*(np.asarray(part)[()] for part in estimate))
            for name, estimate in estimates.items()
        }

    def predict(self, candidates: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
        """(mean [q], standard deviation [q]) of f without noise, for hyperparameters by name."""
        space, sign = self.optimizer.model.space, self.optimizer.model.sign
        x = np.stack([space.encode(candidate) for candidate in candidates]) / SIDE
        mean, deviation = POSTERIOR(self.optimizer, self.state, jnp.asarray(x))
        return sign * np.asarray(mean), np.asarray(deviation)

    def next(self, seed: int = 0) -> dict[str, Any]:
        """The hyperparameters that the law would choose next."""
        space = self.optimizer.model.space
        x = ASK(self.optimizer, self.state, jax.random.key(seed)).x[0]
        point = SpaceDomain(space).centre(np.asarray(x, float)[None])[0]
        return space.decode(SIDE * np.clip(point, 0, 1))

    def describes(self) -> bool:
        """Whether the law describes the values (`ModelGOUCB.describes`)."""
        return self.optimizer.describes(self.state)


class LawProposer:
    """Proposes the points of `ModelGOUCB`, with the arguments of `proposals.Proposer`. The first
    points are earlier evaluations, with these `values`, to which the law is fitted at once."""

    def __init__(
        self,
        domain: SpaceDomain,
        model: Parametric,
        sign: int,
        seed: int,
        batch: int,
        horizon: int,
        points: Sequence[Any] = (),
        values: Sequence[float] = (),
    ):
        # the last batch may be longer than the run
        capacity = -(-horizon // batch) * batch
        self.domain, self.batch, self.key = domain, batch, jax.random.key(seed)
        law = SpaceLaw(model, domain.space, sign)
        self.optimizer = ModelGOUCB(law, batch=batch)
        d = len(domain.space.names)
        box = Box(jnp.zeros(d), jnp.ones(d))
        data = (np.asarray(points), np.asarray(values)) if len(points) else None
        self.state = self.optimizer.init(box, self.key, horizon=capacity, data=data)
        self.told, self.left_out = len(points), bool(self.state.fit.left_out > 0)

    def propose(
        self, points: Sequence[Any], values: Sequence[float], pending: Any, count: int, index: int
    ) -> list[Any]:
        """`count` new points, given the evaluated points with their values."""
        self.tell(points, values)
        query = ASK(self.optimizer, self.state, jax.random.fold_in(self.key, 2 * index))
        return list(self.domain.centre(np.asarray(query.x, float)))[:count]

    def tell(self, points: Sequence[Any], values: Sequence[float]) -> None:
        """Fits the law to new evaluations, a batch at a time."""
        while self.told < len(points):
            new = slice(self.told, min(self.told + self.batch, len(points)))
            n = new.stop - new.start
            x = np.zeros((self.batch, self.state.initial.shape[1]))
            y = np.full(self.batch, np.nan)
            x[:n], y[:n] = np.asarray(points[new]), values[new]
            query = BoxQuery(jnp.asarray(x), jnp.arange(self.batch) < n)
            key = jax.random.fold_in(self.key, 2 * new.start + 1)
            self.state, info = TELL(self.optimizer, self.state, query, jnp.asarray(y), key)
            self.left_out |= bool(info.nonfinite)
            self.told = new.stop

    def fitted(self, points: Sequence[Any], values: Sequence[float]) -> FittedLaw:
        """The law that is fitted to all evaluations. Warns if it does not describe them, and if
        evaluations were left out."""
        self.tell(points, values)
        warn_of_misfit(self.state)
        if self.left_out:
            warn(LEFT_OUT)
        return FittedLaw(self.optimizer, self.state)

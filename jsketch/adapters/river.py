"""A forecaster as a river regressor (its contract: river.base.Regressor, river.checks)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jax

from jsketch import kernels, online
from jsketch.loops.live import Live

try:
    from river import base
except ImportError as error:
    raise ImportError("RiverRegressor needs the package river (pip install river).") from error


class RiverRegressor(base.Regressor):
    """Examples are dicts of numbers: in a pipeline, `progressive_val_score`, a
    `TargetStandardScaler`.

    forecaster  a forecaster of `jsketch.online`, or an own one
    seed        int, of the key of its random choices

    The first example that is learned names the features; every other must have the same ones, in
    any order. Raises ValueError otherwise, and for what is not a finite number: nothing is learned
    then. A label NaN or None is a missing one. The inputs of the forecaster (the lengthscales of an
    ARD kernel, say) are the features in the order of their names.
    """

    def __init__(self, forecaster: Any, seed: int = 0):
        self.forecaster = forecaster
        self.seed = seed
        # of the features, once an example has been learned
        self.names: list[Any] | None = None
        self.live: Live | None = None

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learns label y at features x."""
        names = self._names(x)
        self._live(names).learn([x[name] for name in names], y)
        self.names = names

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The prediction at features x."""
        names = self._names(x)
        return self._live(names).predict([x[name] for name in names])

    def _names(self, x: dict[Any, Any]) -> list[Any]:
        """The features in the order of the stream. Raises ValueError where x has others."""
        names = _ordered(x) if self.names is None else self.names
        if len(x) != len(names) or not all(name in x for name in names):
            missing, new = [n for n in names if n not in x], [n for n in x if n not in names]
            raise ValueError(
                f"every example must have the features of the first, {names}: missing {missing},"
                f" new {new}."
            )
        return names

    def _live(self, names: list[Any]) -> Live:
        # another number of them: none is learned yet
        if self.live is None or self.live.inputs != len(names):
            self.live = Live(self.forecaster, len(names), jax.random.key(self.seed))
        return self.live

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"forecaster": online.FOGD(kernels.Gaussian(), 0.1, count=20)}

    def _unit_test_skips(self) -> set[str]:
        # A kernel compares points of the same inputs: a feature that comes or goes is an error, not
        # a zero. Fill it in before, as with preprocessing.StatImputer.
        return {
            "check_emerging_features",
            "check_disappearing_features",
            "check_radically_disappearing_features",
        }


def _ordered(names: Iterable[Any]) -> list[Any]:
    """Whatever order the first example has them in: features drawn at random would be others
    otherwise."""
    try:
        return sorted(names)
    except TypeError:
        # names of several types
        return sorted(names, key=str)

"""A forecaster with the interface of a river regressor."""

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
    """A forecaster with dicts as examples, for pipelines, wrappers and `progressive_val_score`.

    forecaster  a forecaster (`jsketch.types.Forecaster`)
    seed        int, the seed of its random numbers

    The first learned example determines the names of the features. All others must have the same
    names, in any order. The inputs of the forecaster are the features sorted by name, which is also
    the order of the lengthscales of an ARD kernel. A label of NaN or None is missing. Methods raise
    ValueError, and learn nothing, for other names, infinite labels and inputs that are not finite.
    """

    def __init__(self, forecaster: Any, seed: int = 0):
        self.forecaster = forecaster
        self.seed = seed
        self.names: list[Any] | None = None  # of the features; None before an example is learned
        self.live: Live | None = None

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learns the label y of features x."""
        names = self._names(x)
        self._stream(names).learn([x[name] for name in names], y)
        self.names = names

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The prediction at features x."""
        names = self._names(x)
        return self._stream(names).predict([x[name] for name in names])

    def _names(self, x: dict[Any, Any]) -> list[Any]:
        """The names of x in the order of the inputs. Raises ValueError if x has other names than
        the first learned example."""
        names = _sorted(x) if self.names is None else self.names
        if len(x) != len(names) or not all(name in x for name in names):
            missing, new = [n for n in names if n not in x], [n for n in x if n not in names]
            raise ValueError(
                f"every example must have the features of the first, {names}: missing {missing},"
                f" new {new}."
            )
        return names

    def _stream(self, names: list[Any]) -> Live:
        # before the first learned example, predictions may have other features
        if self.live is None or self.live.inputs != len(names):
            self.live = Live(self.forecaster, len(names), jax.random.key(self.seed))
        return self.live

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"forecaster": online.FOGD(kernels.Gaussian(), 0.1, count=20)}

    def _unit_test_skips(self) -> set[str]:
        # a missing feature is an error and not a zero, because a kernel compares points with the
        # same inputs; preprocessing.StatImputer fills in missing values
        return {
            "check_emerging_features",
            "check_disappearing_features",
            "check_radically_disappearing_features",
        }


def _sorted(names: Iterable[Any]) -> list[Any]:
    try:
        return sorted(names)
    except TypeError:
        # names of several types
        return sorted(names, key=str)

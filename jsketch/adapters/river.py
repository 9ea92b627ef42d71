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
    """A river regressor around a forecaster, for pipelines, wrappers and `progressive_val_score`.

    forecaster  a forecaster (`jsketch.types.Forecaster`)
    seed        int, the seed of its random numbers

    An example is a dict. The first learned example determines the names of the features. All others
    must have the same names, in any order. The inputs of the forecaster are the features sorted by
    name, which is also the order of the lengthscales of an ARD kernel. A label of NaN or None is
    missing. If the names differ, a label is infinite or an input is not finite, the methods raise
    ValueError and learn nothing.

    Example:

        model = RiverRegressor(online.PKAWV(sketch.Taylor(inputs=2, degree=4)))
        model.learn_one({"a": 0.1, "b": 0.5}, 1.0)
        model.predict_one({"a": 0.2, "b": 0.4})
    """

    def __init__(self, forecaster: Any, seed: int = 0):
        self.forecaster = forecaster
        self.seed = seed
        self.names: list[Any] | None = None  # of the features; None before an example is learned
        self.live: Live | None = None

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learns the label y of features x."""
        names = self._names(x)
        self._live_for(names).learn([x[name] for name in names], y)
        self.names = names

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The prediction at features x."""
        names = self._names(x)
        return self._live_for(names).predict([x[name] for name in names])

    def _names(self, x: dict[Any, Any]) -> list[Any]:
        """The names of x in the order of the inputs. Raises ValueError if x has other names than
        the first learned example."""
        names = _sorted(x) if self.names is None else self.names
        if len(x) != len(names) or not all(name in x for name in names):
            missing = [name for name in names if name not in x]
            new = [name for name in x if name not in names]
            raise ValueError(
                f"every example must have the features of the first, {names}: missing {missing},"
                f" new {new}."
            )
        return names

    def _live_for(self, names: list[Any]) -> Live:
        # the number of features may change until the first example is learned
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

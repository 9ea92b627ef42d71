"""Forecasters in the shapes that people already use: scikit-learn's `partial_fit` and river's `learn_one`.

Neither package is needed or imported; both classes are a `loops.Live` under other names.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jsketch.loops.live import Live
from jsketch.loops.stream import Forecasts


class SklearnRegressor:
    """A forecaster as a scikit-learn regressor: in a `Pipeline`, `cross_val_score`, `GridSearchCV`.

    Its numbers are parameters: `forecaster__regularization`. NaN labels are predicted and not learned. After learning,
    `live_` is the stream, and `forecasts_` holds the predictions that the last `partial_fit` made, each before its label.
    AWV forecasters shrink the prediction at a point they have not learned, which protects them in a stream: to fit once and
    then predict many points, use `penalize_current=False` (ridge regression).
    """

    live_: Live  # not there before learning
    forecasts_: Forecasts

    _estimator_type = "regressor"  # scikit-learn before 1.6

    def __init__(self, forecaster: Any, seed: int = 0):
        self.forecaster = forecaster
        self.seed = seed

    def fit(self, X: Any, y: Any) -> SklearnRegressor:
        """Forgets everything and learns y [n] at X [n,d] in order."""
        self.__dict__.pop("live_", None)
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any) -> SklearnRegressor:
        """Goes on with y [n] at X [n,d]. Raises ValueError for shapes that do not fit and inputs that are not finite, and
        where the parameters were changed since learning began."""
        live = self.live_ if self.__sklearn_is_fitted__() else self._empty(X)
        if live.forecaster is not self.forecaster:
            raise ValueError("the forecaster was changed after learning began: call fit to start over.")
        self.forecasts_ = live.learn_many(X, y)
        self.live_ = live
        return self

    def predict(self, X: Any) -> np.ndarray:
        """[n] at X [n,d], from what was learned so far. Raises ValueError before anything was."""
        if not self.__sklearn_is_fitted__():
            raise ValueError("nothing was learned yet: call fit or partial_fit first.")
        return self.live_.predict_many(X)

    def score(self, X: Any, y: Any) -> float:
        """R^2 of the predictions at X for the labels y that are not NaN."""
        y = np.asarray(y, float)
        known = np.isfinite(y)
        errors = np.square(y - self.predict(X))[known].sum()
        return float(1 - errors / np.square(y[known] - y[known].mean()).sum())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params = {"forecaster": self.forecaster, "seed": self.seed}
        if deep and dataclasses.is_dataclass(self.forecaster):
            for field in dataclasses.fields(self.forecaster):
                params[f"forecaster__{field.name}"] = getattr(self.forecaster, field.name)
        return params

    def set_params(self, **params: Any) -> SklearnRegressor:
        """Raises ValueError for a parameter that is not there."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{name!r} is not a parameter; they are {sorted(known)}.")
            if name.startswith("forecaster__"):
                self.forecaster = self.forecaster.replace(**{name.removeprefix("forecaster__"): value})
            else:
                setattr(self, name, value)
        return self

    def _empty(self, X: Any) -> Live:
        inputs = np.shape(X)[1] if np.ndim(X) == 2 else 1  # another rank is refused with the examples
        return Live(self.forecaster, inputs, jax.random.key(self.seed))

    def __repr__(self) -> str:
        return f"SklearnRegressor({self.forecaster!r}, seed={self.seed})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "live_")

    def __sklearn_tags__(self) -> Any:
        # called by scikit-learn alone, which is there then
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(),
        )


class RiverRegressor:
    """A forecaster as a river regressor: examples are dicts of numbers.

    The first example names the features; every other must have the same ones, in any order. Raises ValueError otherwise.
    """

    def __init__(self, forecaster: Any, seed: int = 0):
        self.forecaster = forecaster
        self.seed = seed
        self.names: list[Any] | None = None
        self.live: Live | None = None

    def predict_one(self, x: dict[Any, float]) -> float:
        """The prediction for features x."""
        live, numbers = self._numbers(x)
        return live.predict(numbers)

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        """Learns label y at features x."""
        live, numbers = self._numbers(x)
        live.learn(numbers, y)

    def _numbers(self, x: dict[Any, float]) -> tuple[Live, list[float]]:
        """The stream, and x in the order of its features."""
        if self.live is None or self.names is None:
            self.live = Live(self.forecaster, len(x), jax.random.key(self.seed))
            self.names = list(x)
        missing = [name for name in self.names if name not in x]
        new = [name for name in x if name not in self.names]
        if missing or new:
            raise ValueError(
                f"every example must have the features of the first, {self.names}: missing {missing}, new {new}."
            )
        return self.live, [x[name] for name in self.names]

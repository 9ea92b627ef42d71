"""A forecaster with the interface of a scikit-learn regressor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jsketch.loops.live import Live
from jsketch.loops.streams import Forecasts

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.metrics import r2_score
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "SklearnRegressor needs scikit-learn, 1.6 or newer (pip install scikit-learn)."
    ) from error


class SklearnRegressor(RegressorMixin, BaseEstimator):
    """A scikit-learn regressor around a forecaster, for `Pipeline`, `cross_val_score` and so on.

    forecaster  a forecaster (`jsketch.types.Forecaster`)
    seed        int, the seed of its random numbers

    The fields of the forecaster and of its parts are parameters, such as
    `forecaster__regularization` and `forecaster__kernel__lengthscale`. NaN labels are not learned
    and do not count in `score`. AWV forecasters shrink predictions at new points; to fit once and
    then predict many points, use `penalize_current=False` (ridge regression).

    Attributes after learning: `live_`, the stream, and `forecasts_`, the predictions of the last
    `fit` or `partial_fit`, each made before its label was learned.

    Example:

        ridge = online.PKAWV(sketch.Taylor(inputs=2, degree=4), penalize_current=False)
        SklearnRegressor(ridge).fit(xs, ys).predict(xs)
    """

    live_: Live
    forecasts_: Forecasts

    def __init__(self, forecaster: Any, seed: int = 0):
        self.forecaster = forecaster
        self.seed = seed

    def fit(self, X: Any, y: Any) -> SklearnRegressor:
        """Starts a new stream and learns y [n] at X [n,d] in order."""
        return self._learn(X, y, reset=True)

    def partial_fit(self, X: Any, y: Any) -> SklearnRegressor:
        """Continues the stream with y [n] at X [n,d].

        Raises ValueError if the columns differ in number or name from those of the stream, if an
        input is not finite, and if parameters have changed since its start.
        """
        fitted = self.__sklearn_is_fitted__()
        if fitted and (self.live_.forecaster is not self.forecaster or self.seed_ != self.seed):
            raise ValueError(
                "the parameters were changed after learning started: call fit to start a new"
                " stream."
            )
        return self._learn(X, y, reset=not fitted)

    def predict(self, X: Any) -> np.ndarray:
        """Predictions [n] at X [n,d]. Raises NotFittedError, a ValueError, before learning."""
        check_is_fitted(self)
        return self.live_.predict_many(validate_data(self, X, reset=False))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions at X for the labels y that are not NaN."""
        y = column_or_1d(y, dtype=float)
        labelled = ~np.isnan(y)
        weights = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(r2_score(y[labelled], self.predict(X)[labelled], sample_weight=weights))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params = {"forecaster": self.forecaster, "seed": self.seed}
        return params | dict(_fields(self.forecaster, "forecaster")) if deep else params

    def set_params(self, **params: Any) -> SklearnRegressor:
        """Sets parameters. Raises ValueError, and sets nothing, for an unknown parameter."""
        new_params: dict[str, Any] = self.get_params(deep=False)
        # an object is set before its fields, because a new object resets its fields
        for name in sorted(params, key=lambda name: name.count("__")):
            names = [*new_params, *dict(_fields(new_params["forecaster"], "forecaster"))]
            if name not in names:
                raise ValueError(f"{name!r} is no parameter; the parameters are {sorted(names)}.")
            head, *path = name.split("__")
            new_params[head] = _replace_field(new_params[head], path, params[name])
        for name, value in new_params.items():
            setattr(self, name, value)
        return self

    def _learn(self, X: Any, y: Any, reset: bool) -> SklearnRegressor:
        check_y = dict(ensure_2d=False, ensure_all_finite="allow-nan", dtype="numeric")
        X, y = validate_data(self, X, y, reset=reset, validate_separately=({}, check_y))
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        live = Live(self.forecaster, X.shape[1], jax.random.key(self.seed)) if reset else self.live_
        self.forecasts_ = live.learn_many(X, y)
        self.live_, self.seed_ = live, self.seed
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "live_")


def _fields(part: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Pairs (path, value) of the fields of a dataclass and, recursively, of their own fields."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            yield f"{prefix}__{field.name}", value
            yield from _fields(value, f"{prefix}__{field.name}")


def _replace_field(part: Any, path: list[str], value: Any) -> Any:
    """`part` with `value` in the field at the path; `value` if the path is empty."""
    if not path:
        return value
    return dataclasses.replace(
        part, **{path[0]: _replace_field(getattr(part, path[0]), path[1:], value)}
    )

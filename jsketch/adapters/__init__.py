"""Forecasters with the interfaces of scikit-learn and river. Each of the two packages is imported
when its class is first used."""

from jsketch import lazy

__all__ = ["RiverRegressor", "SklearnRegressor"]

_MODULES = {"RiverRegressor": "river", "SklearnRegressor": "scikit_learn"}

__getattr__, __dir__ = lazy.attach(__name__, _MODULES)

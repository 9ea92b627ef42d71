"""`suggest` as an Optuna sampler over a list of candidates (`optuna.samplers.BaseSampler`)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jsketch import checks
from jsketch.kernels.mixed import Columns
from jsketch.suggest import library, suggest
from jsketch.suggest.adapters import check_options
from jsketch.suggest.data import LARGEST_VALUE

try:
    from optuna.distributions import BaseDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise ImportError("OptunaSampler needs the package optuna (pip install optuna).") from error


class OptunaSampler(BaseSampler):
    """Every trial chooses a row of `candidates`: in the objective,
    `row = trial.suggest_int("row", 0, len(candidates) - 1)`.

    candidates   [A, d] numbers, or a `suggest.Library`
    columns      kinds of the features, as in `suggest`; None: numbers
    parameter    the name of the parameter that is the row
    seed         int, of the random choices
    options      further arguments of `suggest`: acquisition, exclude, failures, ...

    No row is chosen twice, also with threads (n_jobs); several processes may choose the same row.
    Running trials are pending. Failed and pruned trials, and infinite values, are ignored, unless
    `failures=True`. Other parameters are drawn at random. Raises ValueError for a study with
    several objectives, for a study whose trials lack the parameter or give it another range, and
    where no row is left.
    """

    def __init__(
        self,
        candidates: Any,
        columns: Sequence[Columns] | None = None,
        *,
        parameter: str = "row",
        seed: int = 0,
        **options: Any,
    ):
        check_options(options)
        self.library = library(candidates, columns)
        self.parameter = parameter
        self.key = checks.one_key(key=jax.random.key(seed))
        self.options = options
        self.random_sampler = RandomSampler(seed)
        # rows by study and trial: Optuna stores a parameter only after its sampler has returned
        self.chosen: dict[tuple[str, int], int] = {}
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """The attributes without the lock, which cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved, lock=threading.Lock())

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {self.parameter: IntDistribution(0, len(self.library.features) - 1)}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if len(study.directions) != 1:
            raise ValueError("OptunaSampler is for one objective; the study has several.")
        with self.lock:
            row = self._choose_row(study, trial)
            self.chosen[study.study_name, trial.number] = row
        return {self.parameter: row}

    def _choose_row(self, study: Study, trial: FrozenTrial) -> int:
        sign = 1 if study.direction == StudyDirection.MAXIMIZE else -1
        arms: list[int] = []
        values: list[float] = []
        pending: list[int] = []
        trials = study.get_trials(deepcopy=False)
        rows = IntDistribution(0, len(self.library.features) - 1)
        for each in trials:
            if each.distributions.get(self.parameter, rows) != rows:
                raise ValueError(f"a trial has another range of rows: {self._advice()}")
            row = each.params.get(self.parameter)
            if each.state.is_finished() and row is not None:
                arms.append(row)
                values.append(sign * _value(each))
            elif not each.state.is_finished():
                if row is None:
                    row = self.chosen.get((study.study_name, each.number))
                    # an enqueued trial has a row already
                    fixed = each.system_attrs.get("fixed_params", {})
                    row = fixed.get(self.parameter, row)
                pending += [] if row is None else [row]
        has_row = any(self.parameter in each.params for each in trials)
        if not has_row and any(each.state == TrialState.COMPLETE for each in trials):
            raise ValueError(f"no trial of the study has the parameter: {self._advice()}")
        found = suggest(
            self.library,
            arms,
            values,
            pending=pending,
            batch=1,
            key=jax.random.fold_in(self.key, trial.number),
            **self.options,
        )
        if len(found.rows) == 0:
            raise ValueError("the rest of the budget pays for no row that is left.")
        return int(found.rows[0])

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        if param_name == self.parameter:
            raise ValueError(f"{param_distribution} does not hold every row: {self._advice()}")
        return self.random_sampler.sample_independent(study, trial, param_name, param_distribution)

    def _advice(self) -> str:
        last = len(self.library.features) - 1
        return f'suggest_int("{self.parameter}", 0, {last}) must be called in the objective.'


def _value(trial: FrozenTrial) -> float:
    """The value of a trial; NaN if it failed, was pruned, or has an infinite value."""
    value = trial.value if trial.state == TrialState.COMPLETE else None
    return np.nan if value is None or abs(value) > LARGEST_VALUE else float(value)

"""`jsketch.suggest` as an Optuna sampler over a list of candidates (its contract:
optuna.samplers.BaseSampler)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jsketch import checks
from jsketch.kernels.mixed import Columns
from jsketch.suggest import library, suggest

try:
    from optuna.distributions import BaseDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise ImportError("OptunaSampler needs the package optuna (pip install optuna).") from error


class OptunaSampler(BaseSampler):
    """Every trial takes a row of `candidates`: in the objective,
    `row = trial.suggest_int("row", 0, len(candidates) - 1)`.

    candidates   [A, d] numbers, or a `suggest.Library`
    columns      what they are, as in `suggest`; None: numbers
    parameter    the name of the parameter that is the row
    seed         int, of the random choices
    options      others of `suggest`: acquisition, exclude, failures, ...

    No row comes twice, with threads (n_jobs) either; several processes may get the same row.
    Running trials are pending; failed and pruned ones teach nothing, unless `failures=True`. Other
    parameters are drawn at random. Raises ValueError for a study of several
    objectives, and where no row is left.
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
        self.library = library(candidates, columns)
        self.parameter = parameter
        self.key = checks.one_key(key=jax.random.key(seed))
        self.options = options
        self.others = RandomSampler(seed)
        # a trial says what it runs only when its sampler has returned
        self.given: dict[tuple[str, int], int] = {}
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """What is saved: all but the lock."""
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
            row = self._row(study, trial)
            self.given[study.study_name, trial.number] = row
        return {self.parameter: row}

    def _row(self, study: Study, trial: FrozenTrial) -> int:
        sign = 1 if study.direction == StudyDirection.MAXIMIZE else -1
        trials = study.get_trials(deepcopy=False)
        known = [each for each in trials if self.parameter in each.params]
        done = [each for each in known if each.state.is_finished()]
        running = [each for each in known if not each.state.is_finished()]
        silent = {
            (study.study_name, each.number)
            for each in trials
            if not each.state.is_finished() and self.parameter not in each.params
        }
        others = [row for number, row in self.given.items() if number in silent]
        found = suggest(
            self.library,
            [each.params[self.parameter] for each in done],
            [sign * _value(each) for each in done],
            pending=[*(each.params[self.parameter] for each in running), *others],
            batch=1,
            key=jax.random.fold_in(self.key, trial.number),
            **self.options,
        )
        if len(found.rows) == 0:
            raise ValueError("the budget is spent: no row that is left costs as little as it has.")
        return int(found.rows[0])

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self.others.sample_independent(study, trial, param_name, param_distribution)


def _value(trial: FrozenTrial) -> float:
    """NaN of a trial that failed or was pruned."""
    value = trial.value if trial.state == TrialState.COMPLETE else None
    return np.nan if value is None else float(value)

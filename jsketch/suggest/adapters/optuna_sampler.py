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
from jsketch.suggest.adapters import options as allowed
from jsketch.suggest.data import LARGEST

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
    Running trials are pending; failed and pruned ones, and infinite values, teach nothing, unless
    `failures=True`. Other parameters are drawn at random. Raises ValueError for a study of several
    objectives, for a study whose trials have no such parameter or one of another range, and where
    no row is left.
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
        allowed.check(options)
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
        if not known and any(each.state == TrialState.COMPLETE for each in trials):
            raise ValueError(f"no trial of the study has the parameter: {self._advice()}")
        others = []
        for each in trials:
            if not each.state.is_finished() and self.parameter not in each.params:
                # what was enqueued has its row already
                fixed = each.system_attrs.get("fixed_params", {}).get(self.parameter)
                given = self.given.get((study.study_name, each.number))
                others += [row for row in (given if fixed is None else fixed,) if row is not None]
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
        if param_name == self.parameter:
            raise ValueError(f"{param_distribution} does not hold every row: {self._advice()}")
        return self.others.sample_independent(study, trial, param_name, param_distribution)

    def _advice(self) -> str:
        last = len(self.library.features) - 1
        return f'suggest_int("{self.parameter}", 0, {last}) is what the objective should ask for.'


def _value(trial: FrozenTrial) -> float:
    """NaN of a trial that failed or was pruned, or whose value is infinite."""
    value = trial.value if trial.state == TrialState.COMPLETE else None
    return np.nan if value is None or abs(value) > LARGEST else float(value)

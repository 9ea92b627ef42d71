"""`suggest` as a sampler of Optuna (`optuna.samplers.BaseSampler`), for the parameters of any
objective, or for the rows of a list of candidates."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jsketch import checks
from jsketch.box.space import Category, Integer, Real, Space
from jsketch.suggest import library, suggest
from jsketch.suggest.adapters import check_options
from jsketch.suggest.data import LARGEST_VALUE
from jsketch.suggest.mixed import Columns
from jsketch.suggest.proposals import Proposer, SpaceDomain, n_initial_points

try:
    from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import intersection_search_space
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise ImportError("OptunaSampler needs the package optuna (pip install optuna).") from error


# attribute of a trial with all chosen parameters, also those that the objective has not read yet
CHOSEN = "jsketch:chosen"
ATTEMPTS = 10  # largest number of attempts to make a choice that no other process makes
LOCK = threading.RLock()  # global, because a sampler that holds a lock could not be pickled


class OptunaSampler(BaseSampler):
    """Chooses the parameters of any objective, as `jsketch.minimize` does:

        study = optuna.create_study(sampler=OptunaSampler(seed=0))
        study.optimize(objective, n_trials=50)

    or, if `candidates` are given, chooses one of their rows. The objective then calls
    `row = trial.suggest_int("row", 0, len(candidates) - 1)`.

    candidates   None, or [A, d] numbers, or a `suggest.Library`
    columns      kinds of the features, as in `suggest`; None: numbers
    parameter    the name of the parameter whose value is the row
    seed         int, the seed of the random choices
    options      with candidates, further arguments of `suggest`: acquisition, exclude, ...

    Running trials are pending. Parameters that all completed trials have are chosen together; the
    others, and those of the first trial, are drawn at random. A failed or pruned trial, or an
    infinite value, counts as the worst value so far; with candidates it is ignored, unless
    `failures=True`. No row, and no combination of parameters that are chosen together, is chosen
    twice, even with threads (n_jobs). Processes that share a storage repeat a choice only if ten
    attempts coincide. Raises ValueError for a study with several objectives; with candidates, also
    for a study whose trials lack the parameter or give it another range, and if no row is left.
    """

    def __init__(
        self,
        candidates: Any = None,
        columns: Sequence[Columns] | None = None,
        *,
        parameter: str = "row",
        seed: int = 0,
        **options: Any,
    ):
        check_options(options)
        checks.nonnegative_integer(seed=seed)
        if candidates is None and (columns is not None or options):
            raise ValueError("columns and options of suggest need candidates, and none were given.")
        self.library = None if candidates is None else library(candidates, columns)
        self.parameter, self.seed = parameter, seed
        self.key = jax.random.key(seed)
        self.options = options
        self.proposers: dict[str, tuple[SpaceDomain, Proposer]] = {}  # by search space

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        if self.library is None:
            shared = intersection_search_space(study.get_trials(deepcopy=False))
            return {name: d for name, d in shared.items() if not d.single()}
        return {self.parameter: IntDistribution(0, len(self.library.features) - 1)}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if len(study.directions) != 1:
            raise ValueError("OptunaSampler is for one objective; the study has several.")
        choose = self._choose_parameters if self.library is None else self._choose_row
        with LOCK:
            trials = study.get_trials(deepcopy=False)
            finished_numbers = {t.number for t in trials if t.state.is_finished()}
            for _ in range(ATTEMPTS):
                start = time.monotonic()
                chosen = choose(study, trial, search_space)
                study._storage.set_trial_system_attr(trial._trial_id, CHOSEN, chosen)
                # other processes may have made the same choice meanwhile
                same_choice = [
                    other
                    for other, parameters in _other_trials(study, trial)
                    if other.number not in finished_numbers and chosen.items() <= parameters.items()
                ]
                if not chosen or not same_choice:
                    break
                # the trials with smaller numbers choose again first
                n_before = sum(other.number < trial.number for other in same_choice)
                time.sleep(n_before * (time.monotonic() - start))
        return chosen

    def _choose_parameters(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        key = repr(sorted(search_space.items()))
        if key not in self.proposers:
            ranges = [_hyperparameter(name, d) for name, d in search_space.items()]
            domain = SpaceDomain(Space(*ranges))
            proposer = Proposer(domain, self.seed, n_initial_points(domain))
            self.proposers[key] = domain, proposer
        domain, proposer = self.proposers[key]
        sign = 1 if study.direction == StudyDirection.MAXIMIZE else -1
        points: list[Any] = []
        values: list[float] = []
        pending: list[Any] = []
        distributions = search_space.items()
        for other, parameters in _other_trials(study, trial):
            # an enqueued trial may have values outside the space
            if not all(n in parameters and _contains(d, parameters[n]) for n, d in distributions):
                continue
            point = domain.point(
                {name: _encode(d, parameters[name]) for name, d in search_space.items()}
            )
            if other.state.is_finished():
                points.append(point)
                values.append(sign * _trial_value(other))
            else:
                pending.append(point)
        proposals = proposer.propose(points, values, pending, count=1, index=trial.number)
        if not proposals:  # every combination was evaluated or is pending
            return {}
        candidate = domain.candidate(proposals[0])
        return {name: _decode(d, candidate[name]) for name, d in search_space.items()}

    def _choose_row(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        assert self.library is not None
        sign = 1 if study.direction == StudyDirection.MAXIMIZE else -1
        arms: list[int] = []
        values: list[float] = []
        pending: list[int] = []
        trials = _other_trials(study, trial)
        row_range = search_space[self.parameter]
        for other, parameters in trials:
            if other.distributions.get(self.parameter, row_range) != row_range:
                raise ValueError(f"a trial has another range of rows: {self._advice()}")
            row = parameters.get(self.parameter)
            if other.state.is_finished() and row is not None:
                arms.append(row)
                values.append(sign * _trial_value(other))
            elif row is not None:
                pending.append(row)
        has_parameter = any(self.parameter in other.params for other, _ in trials)
        if not has_parameter and any(other.state == TrialState.COMPLETE for other, _ in trials):
            raise ValueError(f"no trial of the study has the parameter: {self._advice()}")
        suggestion = suggest(
            self.library,
            arms,
            values,
            pending=pending,
            batch=1,
            key=jax.random.fold_in(self.key, trial.number),
            **self.options,
        )
        if len(suggestion.rows) == 0:
            raise ValueError("the rest of the budget pays for no row that is left.")
        return {self.parameter: int(suggestion.rows[0])}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        if self.library is not None and param_name == self.parameter:
            raise ValueError(f"{param_distribution} does not hold every row: {self._advice()}")
        # with one generator for all draws, processes with the same seed would draw the same values
        entropy = [self.seed, trial.number, zlib.crc32(param_name.encode())]
        random = RandomSampler(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
        return random.sample_independent(study, trial, param_name, param_distribution)

    def _advice(self) -> str:
        assert self.library is not None
        last = len(self.library.features) - 1
        return f'suggest_int("{self.parameter}", 0, {last}) must be called in the objective.'


def _other_trials(study: Study, trial: FrozenTrial) -> list[tuple[FrozenTrial, dict[str, Any]]]:
    """The other trials and their parameters. An unfinished trial also has the parameters that its
    objective has not read yet: the `CHOSEN` ones, and the fixed ones of an enqueued trial."""
    pairs = []
    for other in study.get_trials(deepcopy=False):
        attributes = {} if other.state.is_finished() else other.system_attrs
        chosen, fixed = (attributes.get(name, {}) for name in (CHOSEN, "fixed_params"))
        pairs.append((other, {**chosen, **fixed, **other.params}))
    return [pair for pair in pairs if pair[0].number != trial.number]


def _contains(distribution: BaseDistribution, value: Any) -> bool:
    try:
        return distribution._contains(distribution.to_internal_repr(value))
    except (TypeError, ValueError):
        return False


def _trial_value(trial: FrozenTrial) -> float:
    """The value of a trial; NaN if it failed, was pruned, or has an infinite value."""
    value = trial.value if trial.state == TrialState.COMPLETE else None
    return np.nan if value is None or abs(value) > LARGEST_VALUE else float(value)


def _hyperparameter(name: str, distribution: Any) -> Category | Integer | Real:
    """The hyperparameter of a distribution; categories and steps are numbered from 0 on."""
    if isinstance(distribution, CategoricalDistribution):
        return Category(name, tuple(range(len(distribution.choices))))
    low, high, log = distribution.low, distribution.high, distribution.log
    if _is_stepped(distribution):
        return Integer(name, 0, round((high - low) / distribution.step))
    if isinstance(distribution, IntDistribution):
        return Integer(name, low, high, log=log)
    return Real(name, low, high, log=log)


def _is_stepped(distribution: Any) -> bool:
    return distribution.step is not None and not (
        isinstance(distribution, IntDistribution) and distribution.step == 1
    )


def _encode(distribution: Any, value: Any) -> Any:
    """A parameter as the value of its `_hyperparameter`."""
    if isinstance(distribution, CategoricalDistribution):
        return int(distribution.to_internal_repr(value))
    if _is_stepped(distribution):
        return round((value - distribution.low) / distribution.step)
    return value


def _decode(distribution: Any, value: Any) -> Any:
    """The inverse of `_encode`."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[value]
    if _is_stepped(distribution):
        return distribution.low + distribution.step * value
    return value

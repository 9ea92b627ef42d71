"""Runs with an objective on the host, such as a laboratory or the training of a model, over arms or
over a box. A run can be saved and resumed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks, components, struct
from jsketch.box.go_ucb.model import Sample, sample
from jsketch.box.go_ucb.own_model import warn_of_misfit
from jsketch.box.history import checked_box
from jsketch.loops.capacities import larger_capacity
from jsketch.loops.describe import describe, differences
from jsketch.loops.failures import excess_of, warn_of_failures, without_failing
from jsketch.loops.rollouts import Roots
from jsketch.loops.runs import warn_of_imprecision, warn_of_nonfinite
from jsketch.loops.saving import HOST_RUN, RunFile, lock_files, run_file
from jsketch.loops.traces import dataset_of, frame_of
from jsketch.results import must_grow
from jsketch.types import Arms, Bandit, Box, BoxOptimizer, PRNGKey
from jsketch.warn import warn

NOT_FINITE = "the posterior is not finite: try float64, smaller rewards or a larger regularization."


@struct.dataclass
class Driven:
    """The evaluations of `drive` so far; `drive(..., state=...)` resumes the run.

    state         state of the algorithm after all evaluations but the last `n_unobserved`
    x             [t] arm numbers, or [t, d] points of a box
    y             [t], NaN for a failed evaluation
    n_unobserved  how many of the last evaluations the algorithm has not observed, because an error
                  interrupted their round
    exhausted     the algorithm returned an empty query before the horizon
    stopped       the rule `stop` ended the run
    arms_hash     a hash of the features of the arms, by which a resumed run recognizes them; None:
                  not known
    model         over a box, the `describe`d model of the optimiser, such as its law, in whose
                  coordinates the state is; None: the optimiser has no field `model`
    model_values  the values of this model at random points and parameters, by which a resumed run
                  recognizes its function; None: not known
    """

    state: Any
    x: np.ndarray = struct.field(pytree_node=False)
    y: np.ndarray = struct.field(pytree_node=False)
    n_unobserved: int = struct.field(pytree_node=False, default=0)
    exhausted: bool = struct.field(pytree_node=False, default=False)
    stopped: bool = struct.field(pytree_node=False, default=False)
    arms_hash: str | None = struct.field(pytree_node=False, default=None)
    model: dict[str, Any] | None = struct.field(pytree_node=False, default=None)
    model_values: np.ndarray | None = struct.field(pytree_node=False, default=None)

    def summary(self) -> dict[str, Any]:
        """The values that the repr shows."""
        values: dict[str, Any] = dict(evaluations=self.t, failed=int((~np.isfinite(self.y)).sum()))
        if np.isfinite(self.y).any():
            values |= dict(best=self.best[1], best_x=self.best[0])
        flags = ("n_unobserved", "exhausted", "stopped")
        return values | {name: getattr(self, name) for name in flags if getattr(self, name)}

    @property
    def t(self) -> int:
        """Number of evaluations."""
        return len(self.y)

    @property
    def best(self) -> tuple[Any, float]:
        """The (x, y) with the largest finite y. Raises ValueError if there is none."""
        if not np.isfinite(self.y).any():
            raise ValueError("no evaluation has succeeded so far, so there is no best point.")
        index = int(np.argmax(np.where(np.isfinite(self.y), self.y, -np.inf)))
        return self.x[index], float(self.y[index])

    def _columns(self) -> dict[str, np.ndarray]:
        observed = np.where(np.isfinite(self.y), self.y, -np.inf)
        name = "arm" if self.x.ndim == 1 else "x"
        return {name: self.x, "y": self.y, "best": np.maximum.accumulate(observed)}

    def to_frame(self) -> Any:
        """A DataFrame with a row for each evaluation, and columns as in `BaseTrace.to_frame`: seed
        (0), t, arm, or x0, x1, ... over a box, y, and best, the largest finite y so far (-inf
        before the first). Raises ImportError without pandas."""
        return frame_of(self._columns())

    def to_xarray(self) -> Any:
        """An xarray Dataset [t] with the same columns; x has the dimension `input` too. Raises
        ImportError without xarray."""
        return dataset_of(self._columns())


@struct.checked_names
def drive(
    algorithm: Bandit | BoxOptimizer,
    objective: Callable[[np.ndarray], Any],
    domain: Arms | Box,
    key: PRNGKey,
    horizon: int,
    *,
    state: Driven | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    stop: Callable[[Driven], Any] | float | None = None,
) -> Driven:
    """Runs an algorithm with an objective on the host, up to `horizon` evaluations in all.

    algorithm   an algorithm over arms or over a box
    objective   over arms, a function of arm numbers [n] that returns n rewards; over a box, a
                function of a point x [d] that returns one number. Larger is better, and NaN is a
                failed evaluation; over a box an infinite value is a failed evaluation too
    domain      Arms or a Box
    key         one key. With the same key and the same rewards, the picks are those of `run`
    horizon     int, evaluations in all, including those of `state`
    state       an earlier result, or the attribute `driven` of an error, to resume from
    checkpoint  a file to which the run is saved after every call of the objective. If the run is
                killed, the same call of `drive` resumes from the file, with the same picks; over
                arms a larger horizon adds evaluations
    stop        a function of the run so far (a `Driven`), which is called before every round but
                the first: the run ends when the function returns True. Or a number above 0, in
                units of the rewards: the run ends when `gap` is below the number. If the rewards
                are not a function of the kernel's space, such a run may stop far from the best arm:
                8 of 20 runs missed a sharp peak (see `gap`). A run that `stop` ends has the flag
                `stopped`

    Arms that fail more often than they succeed are left out for a while (`loops.failures`).

    Warns if the algorithm returns an empty query before the horizon (this sets `exhausted`), of
    arms that were left out, if rounding may have changed variances, and if a model is not finite or
    does not describe the values.

    Raises ValueError for a wrong number of rewards, for an infinite reward of an arm, for a state
    of another algorithm, model or domain, for a state together with a checkpoint that exists, and
    for a checkpoint that is damaged, belongs to another run or version of jsketch, or is being
    written by another process. Raises FloatingPointError over arms if the posterior is not finite.
    An exception that ends the run, such as one of the objective or KeyboardInterrupt, has the
    finished evaluations in its attribute `driven`.

    Example:

        def measure(arms):
            return -np.abs(features[arms, 0] - 0.3)

        bandit = bandits.BBKB(kernels.Gaussian(1.0), noise_std=0.1)
        result = drive(bandit, measure, Arms(features), jax.random.key(0), 30)
        result.best  # (an arm, its reward)
    """
    checks.horizon(horizon)
    key = checks.one_key(key=key)
    checks.component("the algorithm", components.ALGORITHM, algorithm, pytree=True)
    if not isinstance(domain, Arms | Box):
        raise ValueError(
            "arms are given as Arms(features), features [A, d], and a box as Box(lower, upper); a"
            f" {type(domain).__name__} was given."
        )
    if state is not None and not isinstance(state, Driven):
        raise ValueError(
            "state is what an earlier call of drive returned, or the attribute `driven` of its"
            f" error; a {type(state).__name__} was given."
        )
    checks.function_of("objective", objective, "arms" if isinstance(domain, Arms) else "x")
    roots = Roots(*jax.random.split(key, 4))
    rounds: _ArmRounds | _BoxRounds
    if isinstance(domain, Box):
        domain = checked_box(domain)
        algorithm = struct.numbers_in_dtype(algorithm, domain.lower.dtype)
        rounds = _BoxRounds(algorithm, objective, domain, horizon)
        driven = rounds.start(roots.init, state)
    else:
        algorithm = _converted(algorithm, domain)
        rounds = _ArmRounds(algorithm, objective, domain, horizon)
        driven = rounds.start(roots.init, state)
    should_stop = _stop_rule(algorithm, driven.state, domain, stop)
    file = None if checkpoint is None else _file(checkpoint, rounds, driven, key)
    with lock_files([file]):
        if file is not None:
            driven = _load(file, rounds, driven, state is not None)
        driven = replace(driven, exhausted=False, stopped=False)
        driven = _run_rounds(rounds, roots, horizon, driven, file, should_stop)
    if driven.exhausted:
        warn(
            f"the run ended after {driven.t} of {horizon} evaluations: the algorithm returned an"
            " empty query, because all arms were evaluated, or the state has a smaller horizon."
        )
    if isinstance(rounds, _ArmRounds):
        warn_of_imprecision(rounds.algorithm, driven.state, rounds.domain)
        warn_of_failures(driven.x, driven.y, rounds.domain.count)
    else:
        warn_of_misfit(driven.state)
    return driven


def _converted(algorithm: Any, arms: Arms) -> Any:
    """The algorithm with its numbers in the dtype of the arms. Raises ValueError for features that
    are no matrix of numbers."""
    features: Any = arms.features
    if not isinstance(features, Array):
        features = checks.arm_features(features)
    return struct.numbers_in_dtype(algorithm, features.dtype)


def _hash(arms: Arms) -> str | None:
    """A hash of the features of the arms; None if they are spread over several processes."""
    features: Any = arms.features
    if isinstance(features, Array) and not features.is_fully_addressable:
        return None
    numbers = np.asarray(jnp.asarray(checks.arm_features(features, warns=False)))
    return hashlib.sha256(numbers.tobytes()).hexdigest()


def _run_rounds(
    rounds: _ArmRounds | _BoxRounds,
    roots: Roots,
    horizon: int,
    driven: Driven,
    file: RunFile | None,
    should_stop: Callable[[Driven], bool],
) -> Driven:
    """Continues the run `driven` until the horizon, until the algorithm returns an empty query, or
    until should_stop(driven) is true."""
    n_saved = driven.t if file is not None and file.path.exists() else 0
    over_arms = isinstance(rounds, _ArmRounds)
    warned = False
    try:
        while driven.t < horizon or driven.n_unobserved:
            n_observed = driven.t - driven.n_unobserved
            if n_observed and not driven.n_unobserved and should_stop(driven):
                driven = replace(driven, stopped=True)
                break
            # after an interruption the query is repeated, and begins with unobserved evaluations
            limit = max(horizon - n_observed, driven.n_unobserved)
            query = rounds.ask(driven, jax.random.fold_in(roots.ask, n_observed), limit)
            mask = np.asarray(query.mask)
            points = np.asarray(query.index if over_arms else query.x)[mask]
            if not np.array_equal(points[: driven.n_unobserved], driven.x[n_observed:]):
                raise ValueError(
                    f"state is of another run: its last {driven.n_unobserved} evaluations are not"
                    " those of the algorithm's query."
                )
            if len(points) == 0:
                driven = replace(driven, exhausted=True)
                break
            new_points = points[driven.n_unobserved :]
            # one call of the objective evaluates all arms, or one point of a box
            for x in [new_points] if over_arms and len(new_points) else list(new_points[:, None]):
                driven = replace(
                    driven,
                    x=np.concatenate([driven.x, x]),
                    y=np.append(driven.y, rounds.evaluate(x)),
                    n_unobserved=driven.n_unobserved + len(x),
                )
                if file is not None:
                    _save(file, driven)
                    n_saved = driven.t
            y = np.full(mask.shape, np.nan)
            y[mask] = driven.y[n_observed:]
            tell_key = jax.random.fold_in(roots.tell, n_observed)
            new_state, info = rounds.tell(driven.state, query, y, tell_key)
            driven = replace(driven, state=new_state, n_unobserved=0)
            warned = warned or (not over_arms and warn_of_nonfinite(info))
        if file is not None:
            _save(file, driven)
    except BaseException as error:
        _attach_run(error, driven, file if file is not None and n_saved == driven.t else None)
        raise
    return driven


def _attach_run(error: BaseException, driven: Driven, file: RunFile | None) -> None:
    """Adds the run so far to an error, as its attribute `driven`, and a note on how to resume."""
    error.driven = driven  # type: ignore[attr-defined]
    if driven.t == 0:
        return
    advice = "drive(..., state=error.driven) resumes the run, where error is this exception"
    if file is not None:
        advice = f"they are in {file.path}, and the same call resumes from it"
    error.add_note(f"drive had finished {driven.t} evaluations before this error: {advice}.")


# over arms `domain` is the arms; a state over a box has its box
_ask_arms = jax.jit(
    lambda a, state, arms, excess, t, key, limit: a.ask(
        state, without_failing(arms, excess, t), key, limit=limit
    )
)
_tell_arms = jax.jit(lambda a, state, arms, query, y, key: a.tell(state, arms, query, y, key))
_ask = jax.jit(lambda algorithm, state, key, limit: algorithm.ask(state, key, limit=limit))
_tell = jax.jit(lambda algorithm, state, query, y, key: algorithm.tell(state, query, y, key))


class _ArmRounds(NamedTuple):
    """The steps of a run over arms."""

    algorithm: Any
    objective: Callable[[np.ndarray], Any]
    domain: Arms
    horizon: int

    def start(self, key: PRNGKey, state: Driven | None) -> Driven:
        known = _hash(self.domain)
        if state is None:
            initial = self.algorithm.init(self.domain, key, horizon=self.horizon)
            return Driven(initial, np.zeros(0, np.int32), np.zeros(0), arms_hash=known)
        checks.state(self.algorithm, self.domain, state.state)
        if state.arms_hash is not None and state.arms_hash != known:
            raise ValueError(
                "state is of other arms: there are as many, but their features have changed."
            )
        given = state.state
        # under vmap `init` may have made a state whose dictionary exceeds its capacity
        while bool(getattr(given, "stale", False)):
            capacity = larger_capacity(given.capacity, self.domain.count)
            given = self.algorithm.grow(given, self.domain, capacity)
        return replace(state, state=given, arms_hash=known)

    def ask(self, driven: Driven, key: PRNGKey, limit: int) -> Any:
        """The query after the evaluations that the algorithm has observed. A failed evaluation may
        leave its arm out."""
        t, rows = driven.t - driven.n_unobserved, len(self.domain.features)
        excess = excess_of(driven.x[:t], driven.y[:t], rows)
        query = _ask_arms(self.algorithm, driven.state, self.domain, excess, t, key, limit)
        return checks.arm_query(self.domain, query)

    def evaluate(self, arms: np.ndarray) -> np.ndarray:
        """The rewards [n] of arms [n]. Raises ValueError unless the objective returns n rewards
        that are NaN or finite in the dtype of the arms. The attribute `returned` of this error is
        the result of the objective."""
        returned = self.objective(arms)
        rewards = np.asarray(checks.real("rewards", returned), dtype=float)
        dtype = self.domain.features.dtype
        message = None
        if rewards.shape != arms.shape:
            message = (
                f"the objective must return {arms.size} rewards for {arms.size} arms; it returned"
                f" an array of shape {rewards.shape}."
            )
        elif (infinite := _is_infinite(rewards, dtype)).any():
            suffix = "" if np.isinf(rewards).any() else f" in {np.dtype(dtype).name}"
            message = (
                f"the reward of arm {arms[infinite][0]} is infinite{suffix}; return NaN for a"
                " failed evaluation."
            )
        if message is not None:
            error = ValueError(message)
            error.returned = returned  # type: ignore[attr-defined]
            raise error
        return rewards

    def tell(self, state: Any, query: Any, y: np.ndarray, key: PRNGKey) -> tuple[Any, Any]:
        """(state, info) of `tell`; the capacity grows until the new dictionary fits."""
        arms = self.domain
        rewards = jnp.asarray(y, arms.features.dtype)
        new_state, info = _tell_arms(self.algorithm, state, arms, query, rewards, key)
        while must_grow(info.result, NOT_FINITE, "the query was empty."):
            capacity = larger_capacity(new_state.capacity, arms.count)
            new_state = self.algorithm.grow(new_state, arms, capacity)
            if int(info.batch_size) > 0 and not bool(getattr(new_state, "stale", False)):
                break  # the round was applied, and its dictionary fits now
            if int(info.batch_size) == 0:
                new_state, info = _tell_arms(self.algorithm, new_state, arms, query, rewards, key)
        return new_state, info


class _BoxRounds(NamedTuple):
    """The steps of a run over a box."""

    algorithm: Any
    objective: Callable[[np.ndarray], Any]
    domain: Box
    horizon: int

    def start(self, key: PRNGKey, state: Driven | None) -> Driven:
        initial = self.algorithm.init(self.domain, key, horizon=self.horizon)
        given = getattr(self.algorithm, "model", None)
        model = None if given is None else describe(given)
        if state is None:
            none = np.zeros((0, self.domain.lower.size))
            _, values = self._model_values(initial)
            return Driven(initial, none, np.zeros(0), model=model, model_values=values)
        checks.state_type(self.algorithm, state.state, initial)
        low, high = np.asarray(self.domain.lower), np.asarray(self.domain.upper)
        if state.x.shape[1:] != low.shape or ((state.x < low) | (state.x > high)).any():
            raise ValueError("state is of another box: some of its points lie outside the domain.")
        found, values = self._model_values(state.state)
        changes = [] if state.model is None else differences(state.model, model or {})
        if not changes and found is not None and state.model_values is not None:
            # functions are described by their names only
            changes = found.changes(state.model_values)
        if changes:
            raise ValueError(
                f"state is of another model, in whose coordinates it is: {'; '.join(changes)}. Give"
                " its evaluations to a new run (`data`) instead."
            )
        return replace(state, model=model, model_values=values)

    def _model_values(self, state: Any) -> tuple[Sample | None, np.ndarray | None]:
        """The `Sample` of the optimiser's model over the box of a state, and its values [n]; None
        for an optimiser without a model of GO-UCB."""
        model = getattr(self.algorithm, "model", None)
        if not (hasattr(model, "init") and hasattr(model, "apply")):
            return None, None
        found = sample(model, getattr(state, "box", self.domain))
        return found, np.asarray(found.values)

    def ask(self, driven: Driven, key: PRNGKey, limit: int) -> Any:
        return _ask(self.algorithm, driven.state, key, limit)

    def evaluate(self, points: np.ndarray) -> float:
        """The value of one point [1, d]. Raises ValueError unless it is one number, and if a finite
        value becomes infinite in the dtype of the box."""
        y = np.asarray(self.objective(points[0]))
        if y.shape != () or y.dtype.kind not in "biuf":
            raise ValueError(
                f"the objective must return one number, NaN for a failure; {y!r} was returned."
            )
        dtype = np.dtype(self.domain.lower.dtype)
        if np.isfinite(y) and _is_infinite(y, dtype):
            raise ValueError(
                f"the objective returned {float(y):g}, which is infinite in the box's {dtype.name}."
            )
        return float(y)

    def tell(self, state: Any, query: Any, y: np.ndarray, key: PRNGKey) -> tuple[Any, Any]:
        return _tell(self.algorithm, state, query, jnp.asarray(y, query.x.dtype), key)


def _is_infinite(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Whether each value is infinite in the dtype."""
    with np.errstate(over="ignore"):
        return np.isinf(values.astype(dtype))


def _file(
    path: str | os.PathLike[str], rounds: _ArmRounds | _BoxRounds, initial: Driven, key: PRNGKey
) -> RunFile:
    """The file of a run. Its description does not include the version of JAX: a run in a laboratory
    may take months, and another version changes later picks only by its rounding."""
    if isinstance(rounds, _ArmRounds):
        parts: dict[str, Any] = dict(arms=rounds.domain.features)
    else:
        shapes = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(initial.state)]
        parts = dict(box=rounds.domain, horizon=rounds.horizon, state=shapes)
    parts |= dict(algorithm=rounds.algorithm, version=version("jsketch"))
    return run_file(path, HOST_RUN, key, **parts)


def _file_content(driven: Driven) -> dict[str, Any]:
    """The fields of a run that its file contains."""
    return {name: getattr(driven, name) for name in ("state", "x", "y", "n_unobserved")}


def _save(file: RunFile, driven: Driven) -> None:
    capacity = getattr(driven.state, "capacity", 0)
    file.save(_file_content(driven), capacity=capacity, evaluations=driven.t)


def _load(
    file: RunFile, rounds: _ArmRounds | _BoxRounds, initial: Driven, state_given: bool
) -> Driven:
    """The run in the file, or `initial` if there is no file. Raises ValueError if there is a file
    and the caller has given a state too (`state_given`)."""
    content = file.load()
    if content is None:
        return initial
    if state_given:
        raise ValueError(
            f"{file.path} holds a run already, and a state was given too: leave `state` out to"
            " resume from the file, or name another file."
        )
    header, state_bytes = content
    state, n_arms = initial.state, None
    if isinstance(rounds, _ArmRounds):
        n_arms = rounds.domain.count
    before = getattr(state, "capacity", 0)
    capacity = file.whole_number(header, "capacity", most=max(before, n_arms or 0))
    if capacity > before:
        state = rounds.algorithm.grow(state, rounds.domain, capacity)
    t = file.whole_number(header, "evaluations", most=np.iinfo(np.int32).max)
    # broadcast, because a wrong number in the header must not fill the memory
    x = np.broadcast_to(initial.x.dtype.type(0), (t, *initial.x.shape[1:]))
    initial = replace(initial, state=state, x=x, y=np.broadcast_to(0.0, t))
    fields = file.restore(_file_content(initial), state_bytes, n_arms)
    restored = jax.tree.map(jnp.asarray, fields.pop("state"))
    if isinstance(rounds, _ArmRounds):
        outside = (fields["x"] < 0) | (fields["x"] >= n_arms)
        if np.isinf(fields["y"]).any():
            raise file.invalid("y", "has an infinite value")
    else:
        low, high = np.asarray(rounds.domain.lower), np.asarray(rounds.domain.upper)
        outside = ~((fields["x"] >= low) & (fields["x"] <= high))
    if outside.any():
        raise file.invalid("x", f"has the value {fields['x'][outside][0]}, outside the domain")
    file.whole_number(fields, "n_unobserved", most=t)
    return replace(initial, state=restored, **fields)


def gap(bandit: Any, state: Any, arms: Arms) -> float:
    """An upper bound of the simple regret of the arm with the largest lower confidence bound, in
    units of the rewards: the largest upper bound of all arms minus the largest lower bound.

    With `width=widths.certified` and valid norm_bound and noise_std, the gap bounds the regret at
    all rounds together with probability at least 1 - delta (THEORY 2.4, 4.4). With the widths of
    the authors' code (`*_code`) the gap is a heuristic. The same is true of algorithms that
    discount or drop old rewards: their intervals hold at single rounds only (THEORY 6.5).

    If the rewards are not a function of the kernel's space with this norm, the regret may be much
    larger than the gap. With 60 arms on [0, 1], a Gaussian kernel of lengthscale 0.1, rewards with
    noise 0.1, GP-UCB with norm_bound=3.0, and stop=0.5, none of 20 runs on functions of norm 3
    stopped with a regret above 0.5. Of 20 runs on rougher functions (draws of a Matern 1/2 kernel
    of the same lengthscale and variance 1) 2 did, with a regret of up to 0.6, and of 20 runs on
    functions of norm 3 in which one arm is better by 2, a sharp peak, 8 did, with a regret of up to
    2.0.

    An arm that always fails keeps its bounds, because nothing is known of its reward. Raises
    ValueError for an algorithm without confidence bounds of every arm, and for a state whose
    capacity was exceeded.

    Example:

        bandit = bandits.BKB(kernels.Gaussian(0.2), width=widths.certified)
        run = drive(bandit, measure, arms, key, 200, stop=0.1)
        gap(bandit, run.state, arms)  # below 0.1 if run.stopped
    """
    bounds = _converted(bandit, arms).confidence_bounds(state, arms)
    if bounds is None:
        raise ValueError(
            f"{type(bandit).__name__} has no confidence bounds of all arms: give `stop` a function"
            " of the run instead of a number."
        )
    if bool(getattr(state, "stale", False)):
        raise ValueError(
            "the state has no posterior, because its dictionary exceeds its capacity: use"
            " bandit.grow(state, arms, capacity) with a larger one."
        )
    return float(_gap(*bounds))


@jax.jit
def _gap(mean: Array, variance: Array, width: Array) -> Array:
    half_width = width * jnp.sqrt(variance)
    return jnp.max(mean + half_width) - jnp.max(mean - half_width)


def _stop_rule(algorithm: Any, state: Any, domain: Any, stop: Any) -> Callable[[Driven], bool]:
    """A function of the run so far that returns whether the run ends now. Raises ValueError unless
    `stop` is None, a function, or a number above 0 for an algorithm with confidence bounds."""
    if stop is None:
        return lambda driven: False
    if callable(stop):
        checks.function_of("stop", stop, "driven")
        return lambda driven: bool(stop(driven))
    checks.positive(stop=stop)
    gap(algorithm, state, domain)  # raises ValueError for an algorithm without confidence bounds
    return lambda driven: gap(algorithm, driven.state, domain) < stop

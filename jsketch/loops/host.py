"""Runs with an objective on the host, such as a laboratory or the training of a model, over arms or
over a box; they are saved and resumed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import arguments, checks, struct
from jsketch.bandits.core import sketched
from jsketch.box.history import checked_box
from jsketch.loops.advance import larger_capacity
from jsketch.loops.rollouts import Roots
from jsketch.loops.runs import warn_of_imprecision, warn_of_nonfinite
from jsketch.loops.saving import HOST_RUN, RunFile, locked, run_file
from jsketch.types import Arms, Bandit, Box, BoxOptimizer, PRNGKey, attach, detach
from jsketch.warn import warn


@struct.dataclass
class Driven:
    """A run with a host objective so far; `drive(..., state=...)` resumes it."""

    state: Any  # of the algorithm, after all evaluations but the last `n_unobserved`
    x: np.ndarray = struct.field(pytree_node=False)  # [t] arm numbers, or [t, d] points of a box
    y: np.ndarray = struct.field(pytree_node=False)  # [t], NaN for a failed evaluation
    # evaluations at the end that the algorithm has not observed, because an error came between
    n_unobserved: int = struct.field(pytree_node=False, default=0)
    # the algorithm returned an empty query before the horizon
    exhausted: bool = struct.field(pytree_node=False, default=False)
    stopped: bool = struct.field(pytree_node=False, default=False)  # by the rule `stop`
    imprecise: bool = struct.field(pytree_node=False, default=False)  # `Info.imprecise` of a round

    def summary(self) -> dict[str, Any]:
        """What its repr shows."""
        found: dict[str, Any] = dict(evaluations=self.t, failed=int((~np.isfinite(self.y)).sum()))
        if np.isfinite(self.y).any():
            found |= dict(best=self.best[1], best_x=self.best[0])
        flags = ("n_unobserved", "exhausted", "stopped", "imprecise")
        return found | {name: getattr(self, name) for name in flags if getattr(self, name)}

    @property
    def t(self) -> int:
        return len(self.y)

    @property
    def best(self) -> tuple[Any, float]:
        """(x, y) of the largest finite value. Raises ValueError where there is none."""
        if not np.isfinite(self.y).any():
            raise ValueError("no evaluation has succeeded so far, so there is no best point.")
        first = int(np.argmax(np.where(np.isfinite(self.y), self.y, -np.inf)))
        return self.x[first], float(self.y[first])


@arguments.checked
def drive(
    algorithm: Bandit[Any] | BoxOptimizer,
    objective: Callable[[np.ndarray], Any],
    domain: Arms | Box,
    key: PRNGKey,
    horizon: int,
    *,
    state: Driven | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    stop: Callable[[Driven], Any] | float | None = None,
) -> Driven:
    """The rounds of `run` for a host objective, up to `horizon` evaluations in all.

    algorithm   an algorithm over arms or over a box
    objective   over arms a function of arm numbers [n] that returns n rewards, over a box a
                function of a point x [d] that returns one number; larger is better, NaN for a
                failed evaluation (over a box an infinite value too)
    domain      Arms or a Box
    key         one key. The same key gives the picks of `run`, if the rewards are the same
    horizon     int, evaluations in all, those of `state` included
    state       an earlier result, or the attribute `driven` of an error, to resume from
    checkpoint  a file that the run is saved to after every call of the objective, and resumed from
                when `drive` is called again with the same algorithm, domain and key: a killed run
                makes the same picks. Over arms a larger horizon adds evaluations
    stop        a function of the run so far (a `Driven`), called before every round but the first:
                where it returns True the run ends, with `stopped` set. Or a number above 0, in
                units of the rewards: the run ends once `gap` is below it

    Warns, with `exhausted` set, where the algorithm returns an empty query before the horizon; and
    of variances that rounding decided and models that are not finite.

    Raises ValueError for a wrong number of rewards, for an infinite reward of an arm, for a state
    of another algorithm or domain or one beside a checkpoint that exists, and for a checkpoint that
    is damaged, belongs to another run or version of jsketch, or is being written by another
    process. Raises FloatingPointError over arms where the posterior is not finite. Whatever ends
    the run, an error of the objective or Ctrl-C, has the finished evaluations in its attribute
    `driven`.
    """
    checks.horizon(horizon)
    key = checks.one_key(key=key)
    checks.bandit(algorithm)
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
    over: _OverArms | _OverBox
    if isinstance(domain, Box):
        over = _OverBox(algorithm, objective, checked_box(domain), horizon)
        driven = over.start(roots.init, state)
    else:
        driven = _OverArms(algorithm, objective, domain, horizon).start(roots.init, state)
        over = _OverArms(algorithm, objective, driven.state.domain, horizon)
    ends = _rule(algorithm, driven.state, stop)
    file = None if checkpoint is None else _file(checkpoint, over, driven, key)
    with locked([file]):
        if file is not None:
            driven = _loaded(file, over, driven, state is not None)
        driven = replace(driven, exhausted=False, stopped=False)
        driven = _rounds(over, roots, horizon, driven, file, ends)
    if driven.exhausted:
        warn(
            f"the run ended after {driven.t} of {horizon} evaluations: the algorithm returned an"
            " empty query. No arm is left that it would evaluate, or its horizon is smaller.",
        )
    if driven.imprecise:
        warn_of_imprecision()
    return driven


def _rounds(
    over: _OverArms | _OverBox,
    roots: Roots,
    horizon: int,
    driven: Driven,
    file: RunFile | None,
    ends: Callable[[Driven], bool],
) -> Driven:
    """The rounds from `driven` to the horizon, or until the algorithm returns an empty query, or
    until ends(driven)."""
    saved = driven.t if file is not None and file.path.exists() else 0  # evaluations in the file
    warned = False
    try:
        while driven.t < horizon or driven.n_unobserved:
            observed = driven.t - driven.n_unobserved
            if observed and not driven.n_unobserved and ends(driven):
                driven = replace(driven, stopped=True)
                break
            # the same query as before an interruption: it begins with the unobserved evaluations
            limit = max(horizon - observed, driven.n_unobserved)
            query = over.ask(driven.state, jax.random.fold_in(roots.ask, observed), limit)
            mask = np.asarray(query.mask)
            points = np.asarray(over.points(query))[mask]
            if not np.array_equal(points[: driven.n_unobserved], driven.x[observed:]):
                raise ValueError(
                    f"state is of another run: its last {driven.n_unobserved} evaluations are not"
                    " those of the algorithm's query."
                )
            if len(points) == 0:
                driven = replace(driven, exhausted=True)
                break
            for x in over.calls(points[driven.n_unobserved :]):
                driven = replace(
                    driven,
                    x=np.concatenate([driven.x, x]),
                    y=np.append(driven.y, over.evaluate(x)),
                    n_unobserved=driven.n_unobserved + len(x),
                )
                if file is not None:
                    _save(file, driven)
                    saved = driven.t
            y = np.full(mask.shape, np.nan)
            y[mask] = driven.y[observed:]
            tell_key = jax.random.fold_in(roots.tell, observed)
            after, info = over.tell(driven.state, query, y, tell_key)
            imprecise = driven.imprecise or bool(getattr(info, "imprecise", False))
            driven = replace(driven, state=after, n_unobserved=0, imprecise=imprecise)
            warned = warned or warn_of_nonfinite(info)
        if file is not None:
            _save(file, driven)
    except BaseException as error:
        _attach(error, driven, file if file is not None and saved == driven.t else None)
        raise
    return driven


def _attach(error: BaseException, driven: Driven, file: RunFile | None) -> None:
    """Adds to an error the run so far as its attribute `driven`, and a note on how to resume."""
    error.driven = driven  # type: ignore[attr-defined]
    if driven.t == 0:
        return
    how = "drive(..., state=error.driven) resumes from them, where error is this exception"
    if file is not None:
        how = f"they are in {file.path}, and the same call resumes from it"
    error.add_note(f"drive had finished {driven.t} evaluations before this error: {how}.")


_ask = jax.jit(lambda algorithm, state, key, limit: algorithm.ask(state, key, limit=limit))
_tell = jax.jit(lambda algorithm, state, query, y, key: algorithm.tell(state, query, y, key))


class _OverArms(NamedTuple):
    """An algorithm and an objective over arms."""

    algorithm: Any
    objective: Callable[[np.ndarray], Any]
    domain: Arms
    horizon: int

    def start(self, key: PRNGKey, state: Driven | None) -> Driven:
        if state is None:
            initial = self.algorithm.init(self.domain, key, horizon=self.horizon)
            state = Driven(initial, np.zeros(0, np.int32), np.zeros(0))
        else:
            checks.state(self.algorithm, self.domain, state.state)
        sketched.check_not_truncated(state.state)
        return state

    def ask(self, state: Any, key: PRNGKey, limit: int) -> Any:
        query = _ask(self.algorithm, state, key, limit)
        return checks.on_arms(state.domain, query)

    def points(self, query: Any) -> Array:
        return query.index

    def calls(self, arms: np.ndarray) -> list[np.ndarray]:
        """The arms of each call of the objective."""
        return [arms] if arms.size else []

    def evaluate(self, arms: np.ndarray) -> np.ndarray:
        """The rewards [n] of arms [n]. Raises ValueError, with what the objective returned in its
        attribute `returned`, unless each is NaN or finite in the dtype of the arms."""
        returned, wrong = self.objective(arms), None
        rewards = np.asarray(checks.real("rewards", returned), dtype=float)
        dtype = self.domain.features.dtype
        if rewards.shape != arms.shape:
            wrong = (
                f"the objective must return {arms.size} rewards for {arms.size} arms; its shape is"
                f" {rewards.shape}."
            )
        elif (infinite := _infinite(rewards, dtype)).any():
            beyond = "" if np.isinf(rewards).any() else f" in {np.dtype(dtype).name}"
            wrong = (
                f"the reward of arm {arms[infinite][0]} is infinite{beyond}; return NaN for a"
                " failed evaluation."
            )
        if wrong is not None:
            error = ValueError(wrong)
            error.returned = returned  # type: ignore[attr-defined]
            raise error
        return rewards

    def tell(self, state: Any, query: Any, y: np.ndarray, key: PRNGKey) -> tuple[Any, Any]:
        """(the state after `tell`, at a capacity that holds it; its info)."""
        rewards = jnp.asarray(y, state.domain.features.dtype)
        while True:
            new, info = _tell(self.algorithm, state, query, rewards, key)
            if not bool(info.overflow):
                break
            capacity = larger_capacity(state.capacity, state.domain.count)
            state = self.algorithm.grow(state, capacity)
        if bool(info.nonfinite):
            raise FloatingPointError(
                "the posterior is not finite: try float64, smaller rewards or a larger"
                " regularization."
            )
        return new, info


class _OverBox(NamedTuple):
    """An algorithm and an objective over a box."""

    algorithm: Any
    objective: Callable[[np.ndarray], Any]
    domain: Box
    horizon: int

    def start(self, key: PRNGKey, state: Driven | None) -> Driven:
        initial = self.algorithm.init(self.domain, key, horizon=self.horizon)
        if state is None:
            return Driven(initial, np.zeros((0, self.domain.lower.size)), np.zeros(0))
        if type(state.state) is not type(initial):
            raise ValueError(
                f"state is of another algorithm: it holds a {type(state.state).__name__}, and a"
                f" {type(self.algorithm).__name__} has a {type(initial).__name__}."
            )
        low, high = np.asarray(self.domain.lower), np.asarray(self.domain.upper)
        if state.x.shape[1:] != low.shape or ((state.x < low) | (state.x > high)).any():
            raise ValueError("state is of another box: some of its points are outside this one.")
        return state

    def ask(self, state: Any, key: PRNGKey, limit: int) -> Any:
        return _ask(self.algorithm, state, key, limit)

    def points(self, query: Any) -> Array:
        return query.x

    def calls(self, points: np.ndarray) -> list[np.ndarray]:
        """The points of each call of the objective, which takes one."""
        return [x[None] for x in points]

    def evaluate(self, points: np.ndarray) -> float:
        """The value of one point [1, d]. Raises ValueError unless it is one number that the dtype
        of the box holds."""
        y = np.asarray(self.objective(points[0]))
        if y.shape != () or y.dtype.kind not in "biuf":
            raise ValueError(
                f"the objective must return one number, NaN for a failure; {y!r} was returned."
            )
        dtype = np.dtype(self.domain.lower.dtype)
        if np.isfinite(y) and _infinite(y, dtype):
            raise ValueError(
                f"the objective returned {float(y):g}, which is infinite in the box's {dtype.name}."
            )
        return float(y)

    def tell(self, state: Any, query: Any, y: np.ndarray, key: PRNGKey) -> tuple[Any, Any]:
        return _tell(self.algorithm, state, query, jnp.asarray(y, query.x.dtype), key)


def _infinite(values: np.ndarray, dtype: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.isinf(values.astype(dtype))


SAVED = ("x", "y", "n_unobserved", "imprecise")  # fields of a `Driven`, beside its state


def _file(
    path: str | os.PathLike[str], over: _OverArms | _OverBox, start: Driven, key: PRNGKey
) -> RunFile:
    """The file of a run. Its description leaves out the version of JAX: a run in a laboratory may
    take months, and another version changes the picks after it by rounding only."""
    parts: dict[str, Any] = dict(arms=over.domain.features) if isinstance(over, _OverArms) else {}
    if isinstance(over, _OverBox):
        shapes = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(start.state)]
        parts = dict(box=over.domain, horizon=over.horizon, state=shapes)
    return run_file(
        path,
        HOST_RUN,
        key,
        algorithm=over.algorithm,
        version=version("jsketch"),
        **parts,
    )


def _form(driven: Driven) -> dict[str, Any]:
    """The contents of the file of a run; they do not include the arms."""
    state = driven.state
    return dict(
        state=detach(state) if "domain" in state.__dataclass_fields__ else state,
        **{name: getattr(driven, name) for name in SAVED},
    )


def _save(file: RunFile, driven: Driven) -> None:
    capacity = getattr(driven.state, "capacity", 0)
    file.save(_form(driven), capacity=capacity, evaluations=driven.t)


def _loaded(file: RunFile, over: _OverArms | _OverBox, start: Driven, given: bool) -> Driven:
    """The run in the file, or `start` where there is no file; `given`: the caller gave a state."""
    content = file.load()
    if content is None:
        return start
    if given:
        raise ValueError(
            f"{file.path} holds a run already, and a state was given too: leave `state` out to"
            " resume from the file, or name another file."
        )
    header, saved = content
    state = start.state
    if header["capacity"] > getattr(state, "capacity", 0):
        state = over.algorithm.grow(state, header["capacity"])
    form = _form(replace(start, state=state))
    fields = file.restored(form, saved)
    restored = jax.tree.map(jnp.asarray, fields.pop("state"))
    if isinstance(over, _OverArms):
        restored = attach(restored, state.domain)
    return replace(start, state=restored, **fields)


def gap(bandit: Any, state: Any) -> float:
    """The largest upper confidence bound of all arms less the largest lower one, in units of the
    rewards: where the bounds hold, the simple regret of the arm with the largest lower bound is at
    most this.

    With `width=widths.certified` and a norm_bound, noise_std and delta that hold this is a theorem,
    at all rounds together with probability 1 - delta (THEORY 2.4, 4.4); with the authors' widths
    (`*_code`), and with algorithms that forget (at single rounds only, THEORY 6.5), it is a
    heuristic. Raises ValueError for an algorithm without bounds of every arm.
    """
    bounds = bandit.confidence_bounds(state)
    if bounds is None:
        raise ValueError(
            f"{type(bandit).__name__} has no confidence bounds of all arms: give `stop` a function"
            " of the run instead of a number."
        )
    return float(_gap(*bounds))


@jax.jit
def _gap(mean: Array, variance: Array, width: Array) -> Array:
    reach = width * jnp.sqrt(variance)
    return jnp.max(mean + reach) - jnp.max(mean - reach)


def _rule(algorithm: Any, state: Any, stop: Any) -> Callable[[Driven], bool]:
    """Whether a run ends, as a function of the run so far. Raises ValueError for a `stop` that is
    neither None, nor a number above 0 for an algorithm with a `gap`, nor a function."""
    if stop is None:
        return lambda driven: False
    if callable(stop):
        checks.function_of("stop", stop, "driven")
        return lambda driven: bool(stop(driven))
    checks.positive(stop=stop)
    gap(algorithm, state)
    return lambda driven: gap(algorithm, driven.state) < stop

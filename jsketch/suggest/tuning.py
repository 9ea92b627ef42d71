"""`minimize` and `maximize` search a space of hyperparameters, or a list of candidates."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from textwrap import shorten
from typing import Any

import numpy as np

from jsketch import checks, struct
from jsketch.box import Parametric
from jsketch.box.space import Space
from jsketch.loops.saving import RunFile, lock_files, run_file
from jsketch.loops.traces import optional
from jsketch.show import html_table, short_repr
from jsketch.suggest.data import LARGEST_VALUE
from jsketch.suggest.own_model import FittedLaw, LawProposer
from jsketch.suggest.proposals import (
    Domain,
    Proposer,
    SpaceDomain,
    domain_of,
    n_initial_points,
)
from jsketch.warn import warn

RUN_KIND = "jsketch tuning"  # the kind of run in the first line of its file


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of the objective."""

    point: Any  # in the `proposals.Domain`
    candidate: Any  # {name: value} of a space, or an element of the list
    value: float = np.nan  # NaN where the evaluation failed
    error: str | None = None  # the cause of a failure
    seconds: float | None = None  # None while the evaluation is pending

    @property
    def finished(self) -> bool:
        return self.seconds is not None

    @property
    def failed(self) -> bool:
        return self.error is not None


@dataclass(frozen=True, repr=False)
class Result:
    """The evaluations of a run of `minimize` or `maximize`, in order."""

    evaluations: tuple[Evaluation, ...]
    maximized: bool = False
    law: FittedLaw | None = None  # the fitted law of a run with `model`

    @property
    def values(self) -> np.ndarray:
        """The values [n], NaN for a failed evaluation."""
        return np.array([evaluation.value for evaluation in self.evaluations], float)

    @property
    def best(self) -> Any:
        """The best candidate, {name: value} of a space or an element of the list. Raises ValueError
        if all evaluations have failed."""
        return self._best().candidate

    @property
    def best_value(self) -> float:
        """The value of `best`."""
        return self._best().value

    def _best(self) -> Evaluation:
        index = self._best_index()
        if index is None:
            raise ValueError("no evaluation has succeeded so far, so there is no best one.")
        return self.evaluations[index]

    def _best_index(self) -> int | None:
        values = self.values if self.maximized else -self.values
        return None if np.isnan(values).all() else int(np.nanargmax(values))

    def to_frame(self) -> Any:
        """A DataFrame with a row for each evaluation: the hyperparameters, or the candidate, and
        value, failed, error, seconds. Raises ImportError without pandas."""
        pandas = optional("pandas", "to_frame")
        rows = []
        for e in self.evaluations:
            parts = e.candidate if isinstance(e.candidate, dict) else dict(candidate=e.candidate)
            result = dict(value=e.value, failed=e.failed, error=e.error, seconds=e.seconds)
            rows.append({**parts, **result})
        return pandas.DataFrame(rows)

    def plot(self, axes: Any = None) -> Any:
        """Draws each value, and the best value so far, against the number of evaluations, and
        returns the axes. Needs matplotlib."""
        import matplotlib.pyplot as plt

        axes = plt.subplots()[1] if axes is None else axes
        numbers = np.arange(1, len(self.evaluations) + 1)
        better = np.fmax if self.maximized else np.fmin
        axes.plot(numbers, self.values, "o", markersize=4, alpha=0.5, label="evaluations")
        axes.step(numbers, better.accumulate(self.values), where="post", label="best so far")
        axes.set_xlabel("evaluations")
        axes.set_ylabel("value")
        axes.legend()
        return axes

    def summary(self) -> dict[str, Any]:
        """The entries {name: value} that the repr shows."""
        failed = sum(evaluation.failed for evaluation in self.evaluations)
        counts: dict[str, Any] = dict(evaluations=len(self.evaluations), failed=failed)
        if self._best_index() is None:
            return counts
        best = _Hyperparameters(self.best) if isinstance(self.best, dict) else self.best
        return counts | dict(best=best, best_value=self.best_value)

    __repr__ = short_repr
    _repr_html_ = html_table


@struct.checked_names
def minimize(
    f: Callable[..., Any],
    space: Any,
    evaluations: int = 50,
    *,
    batch: int = 1,
    workers: str = "threads",
    catch: Any = (),
    checkpoint: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: bool = True,
    model: Parametric | None = None,
    data: Any = None,
) -> Result:
    """Minimizes a function over a space of hyperparameters, or over the elements of a list.

    After a few points that fill the space, a Gaussian process chooses the point of the largest
    expected improvement (`proposals`). Values may be noisy. No point is evaluated twice; equal
    elements of a list are different points.

    f            returns one number; called with the hyperparameters by name, f(depth=3, ...), or
                 with one element of the list. NaN or None is a failed evaluation: it is counted,
                 and gets the worst value so far
    space        a `Space`, or a list of candidates: numbers, texts, or dicts or tuples of numbers
                 and texts; or the rows of an array or a DataFrame. f gets the element itself.
                 Numbers and dates of any type are ordered, and so are texts that are all numbers
                 ("0.1", but not "007"); all other values are categories (`proposals.numbers_of`).
                 An ordered categorical of pandas is a category too; its codes are ordered numbers.
                 A DataFrame must have no missing values; None in a list is a category
    evaluations  int, the number of evaluations, including those in the file of `checkpoint`
    batch        int, number of evaluations that are chosen together and run in parallel
    workers      "threads", or "processes" if f spends its time in Python code, or runs programs of
                 JAX, which several threads should not do (troubleshooting): f must then be defined
                 in a file, and the call must stand below `if __name__ == "__main__":`
    catch        exception classes that f raises if an evaluation fails; other errors end the run
    checkpoint   a file to which every evaluation is saved. The same call resumes the run from it,
                 and a larger number of evaluations, even with another batch, extends the run. Use a
                 new file if the values of f change
    seed         int; the same seed and batch give the same run if f returns the same values
    progress     whether a line is printed to stderr for every better value
    model        a `box.Parametric` whose inputs have the names of the space, if the form of f is
                 known: it replaces the Gaussian process (`box.ModelGOUCB`), and `Result.law` has
                 the fitted parameters. A point may then be evaluated again
    data         earlier evaluations, a list of pairs: the hyperparameters {name: value}, or an
                 element of the list of candidates, and its value, NaN or None where it failed. The
                 search learns from them, and begins with as many fewer points that fill the space.
                 They do not count as evaluations and are not in the `Result`

    Returns a `Result` with best, best_value, to_frame() and plot(). Warns and ends early if the
    space has no further point; warns if the model does not describe the values, or is not finite at
    some of them. An exception that ends the run has the finished evaluations in its attribute
    `result`. Raises ValueError for wrong arguments, for a value that is not one number, and for a
    file of another run.

    Example:

        from jsketch import Space, minimize

        loss, space = lambda x, n: (x - 1) ** 2 + abs(n - 3), Space(x=(-2.0, 2.0), n=(1, 5, int))
        minimize(loss, space, evaluations=30).best
        minimize(loss, space, 10, data=[(dict(x=0.5, n=2), 1.25), (dict(x=-1.0, n=5), 6.0)])
    """
    options = batch, workers, catch, checkpoint, seed, progress, model, data
    return _search(f, space, evaluations, *options, maximized=False)


@struct.checked_names
def maximize(
    f: Callable[..., Any],
    space: Any,
    evaluations: int = 50,
    *,
    batch: int = 1,
    workers: str = "threads",
    catch: Any = (),
    checkpoint: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: bool = True,
    model: Parametric | None = None,
    data: Any = None,
) -> Result:
    """Maximizes a function, with the arguments of `minimize`."""
    options = batch, workers, catch, checkpoint, seed, progress, model, data
    return _search(f, space, evaluations, *options, maximized=True)


def _search(
    f: Any,
    space: Any,
    evaluations: int,
    batch: int,
    workers: str,
    catch: Any,
    checkpoint: Any,
    seed: int,
    progress: bool,
    model: Any,
    data: Any,
    maximized: bool,
) -> Result:
    if not callable(f):
        raise ValueError(f"f must be a function; {f!r} was given.")
    checks.positive_integer(evaluations=evaluations, batch=batch)
    checks.nonnegative_integer(seed=seed)
    checks.choice(("threads", "processes"), workers=workers)
    checks.boolean(progress=progress)
    caught = _check_catch(catch)
    domain = domain_of(space)
    _check_arguments(f, space)
    if workers == "processes" and batch > 1 and not _is_importable(f):
        raise ValueError(f'workers="processes": define f by `def` in a file; {f!r} was given.')
    if model is not None and not isinstance(domain, SpaceDomain):
        raise ValueError("a model needs a Space, and a list of candidates was given.")
    sign = 1 if maximized else -1
    known_points, known_values = _checked_data(domain, data, sign)
    n_initial = -(-n_initial_points(domain) // batch) * batch  # a whole number of batches
    file = None
    if checkpoint is not None:
        parts: dict[str, Any] = dict(space=domain.space, seed=seed, maximized=maximized)
        if known_points:
            parts["data"] = [np.asarray(known_points), np.asarray(known_values)]
        file = run_file(checkpoint, RUN_KIND, **parts)
    evaluate = partial(_evaluate, f, isinstance(space, Space), caught)
    run = _Run(evaluate, domain, maximized, evaluations, n_initial, file, progress)
    with lock_files([file]), _executor(workers, batch) as executor:
        run.load()
        proposer: Proposer | LawProposer
        if isinstance(domain, SpaceDomain) and model is not None:
            # a run that is resumed may have more evaluations than it is now asked for
            most = max(evaluations, len(run.evaluations) + batch)
            settings = domain, model, sign, seed, batch, most
            proposer = LawProposer(*settings, known_points, known_values)
        else:
            proposer = Proposer(domain, seed, run.n_initial)
        try:
            run.evaluate_pending(executor)  # the rest of an interrupted batch
            while len(run.evaluations) < evaluations:
                points = known_points + [e.point for e in run.evaluations]
                values = known_values + [sign * e.value for e in run.evaluations]
                new_points = proposer.propose(
                    points, values, pending=(), count=batch, index=len(points)
                )
                if not new_points:
                    n = len(run.evaluations)
                    warn(f"the run ends after evaluation {n}: no other point is left.")
                    break
                run.evaluations += [Evaluation(p, domain.candidate(p)) for p in new_points]
                run.evaluate_pending(executor)
        except BaseException as error:
            error.result = run.result()  # type: ignore[attr-defined]
            error.add_note("The finished evaluations are in the attribute `result` of this error.")
            raise
    result = run.result()
    if isinstance(proposer, LawProposer):
        points = known_points + [e.point for e in result.evaluations]
        law = proposer.fitted(points, known_values + list(sign * result.values))
        result = replace(result, law=law)
    if np.isnan(result.values).all():
        cause = str(result.evaluations[-1].error).removesuffix(".")
        warn(f"all evaluations failed; the cause of the last one: {cause}.")
    return result


@dataclass
class _Run:
    """A run and its evaluations so far, of which the last ones may be pending."""

    evaluate: Callable[[Any], tuple[float, str | None, float]]
    domain: Domain
    maximized: bool
    horizon: int
    n_initial: int  # points of the initial design; of a resumed run, the number in its file
    file: RunFile | None
    progress: bool
    evaluations: list[Evaluation] = field(default_factory=list)

    def result(self) -> Result:
        return Result(tuple(e for e in self.evaluations if e.finished), self.maximized)

    def evaluate_pending(self, executor: Executor | None) -> None:
        """Runs the pending evaluations within the horizon, and saves each result."""
        indices = [i for i, e in enumerate(self.evaluations[: self.horizon]) if not e.finished]
        if executor is None:
            for i in indices:
                self._record(i, *self.evaluate(self.evaluations[i].candidate))
            return
        futures = {
            executor.submit(self.evaluate, self.evaluations[i].candidate): i for i in indices
        }
        try:
            for future in as_completed(futures):
                self._record(futures[future], *future.result())
        except BaseException:
            for future in futures:
                future.cancel()
            # evaluations that were running are awaited and kept
            for future, i in futures.items():
                recorded = self.evaluations[i].finished
                if not recorded and not future.cancelled() and future.exception() is None:
                    self._record(i, *future.result())
            raise

    def _is_evaluation(self, row: Any) -> bool:
        """Whether an entry of a file is [point, value, error, seconds] with a point of the domain,
        a value that `_evaluate` can return, and no error, value or time if it is pending."""
        if not isinstance(row, list) or len(row) != 4:
            return False
        coordinates, value, error, seconds = row
        is_number = type(value) in (int, float) and not abs(value) > LARGEST_VALUE
        is_time = seconds is None or (type(seconds) in (int, float) and 0 <= seconds < np.inf)
        if not is_number or not is_time or not isinstance(error, str | None):
            return False
        return self.domain.has_point(coordinates)

    def _record(self, i: int, value: float, error: str | None, seconds: float) -> None:
        previous_index = self.result()._best_index()
        self.evaluations[i] = replace(
            self.evaluations[i], value=value, error=error, seconds=seconds
        )
        if self.file is not None:
            rows = [
                [np.asarray(e.point).tolist(), e.value, e.error, e.seconds]
                for e in self.evaluations
            ]
            # the header is enough to resume a run, and the state {} is empty
            self.file.save({}, initial=self.n_initial, evaluations=rows)
        result = self.result()
        count, index = len(result.evaluations), result._best_index()
        is_shown = index != previous_index or count == self.horizon
        if self.progress and index is not None and is_shown:
            best = result.evaluations[index]
            line = f"{count} of {self.horizon}: {best.value:.6g} at {_one_line(best.candidate)}"
            print(line, file=sys.stderr, flush=True)

    def load(self) -> None:
        """Restores the evaluations of the file, if there are any."""
        saved = None if self.file is None else self.file.load()
        if saved is not None and self.file is not None:
            header, _ = saved
            self.n_initial = self.file.whole_number(header, "initial")
            rows = self.file.entry(header, "evaluations", lambda r: isinstance(r, list), "a list")
            for i, row in enumerate(rows):
                if not self._is_evaluation(row):
                    raise self.file.invalid(f"evaluations[{i}]", "is no evaluation of this space")
                point = np.asarray(row[0])
                self.evaluations.append(Evaluation(point, self.domain.candidate(point), *row[1:]))
            if self.progress:
                n, name = len(self.result().evaluations), self.file.path.name
                print(f"{n} evaluations were loaded from {name}", file=sys.stderr, flush=True)


def _evaluate(
    f: Callable[..., Any], by_name: bool, caught: tuple[type[BaseException], ...], candidate: Any
) -> tuple[float, str | None, float]:
    """(value, cause of a failure, seconds) of an evaluation. The value of a failure is NaN."""
    start = time.perf_counter()
    value, error = np.nan, None
    try:
        returned = f(**candidate) if by_name else f(candidate)
    except caught as failure:
        error = f"{type(failure).__name__}: {failure}"
    else:
        number = np.asarray(np.nan if returned is None else returned)
        if number.shape != () or number.dtype.kind not in "biuf":
            raise ValueError(
                f"f must return one number, NaN for a failed evaluation; {returned!r} was returned."
            )
        if abs(float(number)) <= LARGEST_VALUE:  # float(), because LARGEST_VALUE overflows float32
            value = float(number)
        else:
            error = f"the value is {returned}"
    return value, error, time.perf_counter() - start


def _checked_data(domain: Domain, data: Any, sign: int) -> tuple[list[Any], list[float]]:
    """(points, values of which larger ones are better) of the argument `data`. Raises ValueError
    unless it is a list of pairs of a candidate of the domain and one number."""
    points: list[Any] = []
    values: list[float] = []
    is_list = isinstance(data, list | tuple)
    if data is not None and not is_list:
        raise ValueError(
            f"data are earlier evaluations, a list of pairs (candidate, value); {data!r} was given."
        )
    for i, pair in enumerate(data or []):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError(f"data[{i}] is a pair (candidate, value); {pair!r} was given.")
        candidate, value = pair
        number = np.asarray(np.nan if value is None else value)
        if number.shape != () or number.dtype.kind not in "iuf" or abs(number) > LARGEST_VALUE:
            raise ValueError(
                f"data[{i}]: the value is a finite number, or NaN for a failed evaluation;"
                f" {value!r} was given."
            )
        try:
            points.append(domain.point(candidate))
        except ValueError as error:
            raise ValueError(f"data[{i}]: {error}") from error
        values.append(sign * float(number))
    return points, values


def _check_arguments(f: Callable[..., Any], space: Any) -> None:
    """Raises ValueError unless f accepts the names of a space as keyword arguments, or one element
    of a list."""
    try:
        signature = inspect.signature(f, follow_wrapped=False)
    except (TypeError, ValueError):  # some builtin functions have no signature
        return
    is_space = isinstance(space, Space)
    try:
        signature.bind(**dict.fromkeys(space.names)) if is_space else signature.bind(None)
    except TypeError:
        words = ", ".join(f"{name}=..." for name in space.names) if is_space else "candidate"
        raise ValueError(f"f is called as f({words}), but is defined as f{signature}.") from None


def _is_importable(f: Any) -> bool:
    """False if f is local, a lambda or typed in an interpreter: no other process can import it."""
    while isinstance(f, partial):
        f = f.func
    named_object = f if hasattr(f, "__qualname__") else type(f)
    is_script = hasattr(sys.modules["__main__"], "__file__")
    return (is_script or getattr(named_object, "__module__", "") != "__main__") and (
        "<" not in named_object.__qualname__
    )


def _check_catch(catch: Any) -> tuple[type[BaseException], ...]:
    caught = catch if isinstance(catch, tuple | list) else (catch,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in caught):
        raise ValueError(
            f"catch is an exception class, or a tuple of several; {catch!r} was given."
        )
    return tuple(caught)


def _executor(workers: str, batch: int) -> AbstractContextManager[Executor | None]:
    """The threads or processes of a batch, or None for a batch of one."""
    if batch == 1:
        return nullcontext()
    if workers == "threads":
        return ThreadPoolExecutor(batch)
    # the threads of JAX do not survive a fork
    return ProcessPoolExecutor(batch, mp_context=multiprocessing.get_context("spawn"))


def _one_line(candidate: Any) -> str:
    """The text of a candidate, shortened to one line."""
    if not isinstance(candidate, dict):
        return shorten(repr(candidate), 80)
    return shorten(repr(_Hyperparameters(candidate))[1:-1], 160)


class _Hyperparameters(dict[str, Any]):
    """Hyperparameters whose repr shows all entries, and floats with four digits."""

    def __repr__(self) -> str:
        words = (
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in self.items()
        )
        return f"({', '.join(words)})"

"""Runs in worker processes, one thread each: several cores are used by processes, because jaxlib
0.10.2 may compute wrong products if two threads of a process run programs.

The worker processes share the folder of compiled programs (`cli.set_up_jax`).
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from experiments import cli

Task = TypeVar("Task")
Result = TypeVar("Result")

# read when a process starts: the sizes of XLA's and of LAPACK's pool of threads
ONE_THREAD = dict(NPROC="1", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")


def each(
    make: Callable[[Task], Result], tasks: Sequence[Task], workers: int = 1
) -> Iterator[tuple[Task, Result]]:
    """Yields (task, make(task)) of all tasks: in their order in this process if `workers` is 1, and
    otherwise from that many processes, in the order in which the tasks end. `make` and the tasks
    must then be picklable.

    Raises ChildProcessError if a worker process is killed. When an error, Ctrl-C or the end of this
    process ends the iteration, the processes end too; results that were yielded are complete.
    """
    if min(workers, len(tasks)) <= 1:
        for task in tasks:
            yield task, make(task)
        return
    before = multiprocessing.active_children()
    pool = ProcessPoolExecutor(
        min(workers, len(tasks)),
        multiprocessing.get_context("spawn"),  # JAX does not work in a forked process
        initializer=_begin,
        initargs=(pickle.dumps(make),),
    )
    try:
        with _settings_of_workers():
            futures = {pool.submit(_call, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException as error:
        for process in multiprocessing.active_children():
            if process not in before:
                process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                "a worker process ended: it was killed, perhaps because the memory was used up, or"
                " it could not start, for the reason that is printed above. The finished runs are"
                " kept, and the same command makes the others; fewer --workers need less memory."
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def run_each(
    run: Callable[..., object], tasks: Sequence[Any], workers: int, horizon: int, bar: Any
) -> None:
    """Calls run(task, on_progress=...), which makes and saves a run of `horizon` evaluations, for
    all tasks as in `each`. The bar counts evaluations. The last one of a run is counted when the
    run is saved, and with several processes so are all others."""
    saved = bar.n

    def report(evaluations: int, _: float) -> None:
        bar.update(max(saved + min(evaluations, horizon - 1) - bar.n, 0))

    alone = min(workers, len(tasks)) <= 1
    for _ in each(partial(run, on_progress=report if alone else None), tasks, workers):
        saved += horizon
        bar.update(saved - bar.n)


@contextmanager
def _settings_of_workers() -> Iterator[None]:
    """The settings that processes inherit which start in this block: one thread, and no Ctrl-C,
    after which the parent ends them."""
    changed = {name: os.environ.get(name) for name in ONE_THREAD}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in changed.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


_make: Callable[[Any], Any]  # of this worker process


def _begin(pickled: bytes) -> None:
    """Prepares a worker process, which ends with its parent."""
    global _make
    cli.set_up_jax()  # before arrays of float64 are unpickled
    _make = pickle.loads(pickled)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call(task: Any) -> Any:
    return _make(task)

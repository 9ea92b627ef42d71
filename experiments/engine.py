"""Runs in worker processes of Dask (`distributed`), on this machine or on a cluster.

    for task, result in engine.each(make, tasks, Workers(2)):  # two processes of this machine
    for task, result in engine.each(make, tasks, Workers(cluster="tcp://host:8786")):

A worker has one process and one thread, because jaxlib 0.10.2 may compute wrong products if two
threads of a process run programs. Dask runs the task of a killed worker again on another one.
Whatever ends a call (Ctrl-C, a lost scheduler, an error), the results that it has yielded are
complete; a caller that saves each run as a file loses at most those in flight.

A cluster needs a folder of results that its workers share, this project installed, and workers of
one thread: `dask scheduler`, then `dask worker tcp://host:8786 --nthreads 1 --nworkers 4`, or one
of Dask's launchers for Slurm or Kubernetes.
"""

import atexit
import dataclasses
import functools
import logging
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from experiments import cli
from experiments.results import environment

Task = TypeVar("Task")
Result = TypeVar("Result")

# read when a process starts: the sizes of XLA's and of LAPACK's pool of threads
ONE_THREAD = dict(NPROC="1", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")


@dataclasses.dataclass(frozen=True)
class Workers:
    """The processes that make runs: one is this process, with all its cores."""

    processes: int = 1
    cluster: str = ""  # address of a scheduler, such as tcp://host:8786

    def are_this_process(self, tasks: int) -> bool:
        """Whether so many tasks run in this process."""
        return not self.cluster and min(self.processes, tasks) <= 1


THIS_PROCESS = Workers()


def each(
    make: Callable[[Task], Result], tasks: Sequence[Task], workers: Workers = THIS_PROCESS
) -> Iterator[tuple[Task, Result]]:
    """Yields (task, make(task)) of all tasks: in their order in this process, or from worker
    processes in the order in which the tasks end. `make`, tasks and results must then be picklable.

    Raises ChildProcessError if a task kills its workers, ConnectionError if the scheduler of a
    cluster cannot be reached or is lost, and ValueError if Dask is not installed.
    """
    if workers.are_this_process(len(tasks)):
        for task in tasks:
            yield task, make(task)
        return
    environment.package_versions("distributed")
    import distributed

    client = _client(workers)
    try:
        # a task itself, which Dask repeats if the worker that holds the bytes is killed
        pickled = client.submit(bytes, pickle.dumps(make), pure=False)
        futures = {client.submit(_call, pickled, task, pure=False): task for task in tasks}
        for future in distributed.as_completed(list(futures)):
            yield futures.pop(future), pickle.loads(future.result())
    except distributed.KilledWorker as error:
        close(workers)
        raise ChildProcessError(
            "a worker process was killed several times, perhaps because the memory was used up. The"
            " finished runs are kept, and the same command makes the others; fewer --workers need"
            " less memory."
        ) from error
    except (distributed.client.FutureCancelledError, distributed.comm.CommClosedError) as error:
        close(workers)
        raise ConnectionError(
            f"the scheduler {workers.cluster} is lost. The finished runs are kept, and the same"
            " command makes the others."
        ) from error
    except BaseException:
        close(workers)  # ends the tasks in flight
        raise


def run_each(
    run: Callable[..., object], tasks: Sequence[Any], workers: Workers, horizon: int, bar: Any
) -> None:
    """Calls run(task, on_progress=...), which makes and saves a run of `horizon` evaluations, for
    all tasks as in `each`. The bar counts evaluations. The last one of a run is counted when the
    run is saved, and in worker processes so are all others."""
    saved = bar.n

    def report(evaluations: int, _: float) -> None:
        bar.update(max(saved + min(evaluations, horizon - 1) - bar.n, 0))

    on_progress = report if workers.are_this_process(len(tasks)) else None
    for _ in each(partial(run, on_progress=on_progress), tasks, workers):
        saved += horizon
        bar.update(saved - bar.n)


_clients: dict[Workers, Any] = {}  # open until `close`, because processes take seconds to start


def _client(workers: Workers) -> Any:
    """The client of Dask whose scheduler has these workers."""
    import dask
    import distributed

    if workers not in _clients:
        atexit.register(close, workers)
        if workers.cluster:
            try:
                client = distributed.Client(workers.cluster, timeout=20)
            except (OSError, ValueError) as error:
                raise ConnectionError(
                    f"there is no scheduler of Dask at {workers.cluster}."
                ) from error
        else:
            settings = {"distributed.nanny.pre-spawn-environ": ONE_THREAD}
            with dask.config.set(settings):
                cluster = distributed.LocalCluster(
                    n_workers=workers.processes,
                    threads_per_worker=1,
                    memory_limit=0,  # Dask would pause and kill workers of much memory
                    dashboard_address="127.0.0.1:0",  # any free port
                    silence_logs=logging.ERROR,
                )
            client = distributed.Client(cluster)
        client.register_plugin(_plugin())
        _clients[workers] = client
    return _clients[workers]


def close(workers: Workers) -> None:
    """Ends the worker processes of this machine, and the tasks in flight of a cluster."""
    client = _clients.pop(workers, None)
    if client is not None:
        client.close(timeout=5)
        if client.cluster is not None:
            client.cluster.close(timeout=5)


@functools.cache
def _plugin() -> Any:
    """The plugin that prepares every worker, also one that joins later."""
    import distributed

    class OneThread(distributed.WorkerPlugin):
        name = "jsketch"

        def setup(self, worker: Any) -> None:
            begin(worker.state.nthreads)

    return OneThread()


def begin(threads: int) -> None:
    """Prepares a worker process: one thread, float64, and no Ctrl-C, after which the parent ends
    it. Raises ValueError for more threads."""
    if threads != 1:
        raise ValueError(f"a worker has {threads} threads: start it with --nthreads 1.")
    os.environ.update(ONE_THREAD)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # the parent reports errors
    cli.set_up_jax()


@functools.lru_cache(maxsize=1)
def _unpickled(pickled: bytes) -> Callable[[Any], Any]:
    return pickle.loads(pickled)


def _call(pickled: bytes, task: Any) -> bytes:
    """A task in a worker. Its function and its result are bytes to Dask, so that only this thread,
    and not the one that receives messages, makes arrays of JAX."""
    return pickle.dumps(_unpickled(pickled)(task))

"""PKAWV, Table 1: time and memory of an example against the number of features or points.

The paper counts O(m^2) operations for PKAWV and Pros-N-KONS with m features or points (with the m
of Theorems 4 and 6 these are the entries of Table 1), and as many numbers for PKAWV, where
Kernel-AWV with n examples has O(n^2). Its Appendix H counts n m + m^2 operations for PKAWV with
KORS. Memory is that of the state. Time is the CPU time of an example, which other programs on the
machine lengthen less than wall time, of a block of 64 examples that the state learns; in the state
of a dictionary, m is the capacity, on which alone the time depends.
"""

import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from experiments import common
from experiments.common import Interval, Options, Settings, Verdict
from experiments.figures import plots
from experiments.results import tidy
from jsketch import kernels, loops, online, struct
from jsketch.sketch import fourier
from jsketch.sketch.kors import Sampling

FOLDER = "pkawv_2019/costs"
METHODS = ("pkawv", "nystrom", "pros_n_kons", "kernel_awv")
RUNS: dict[str, Settings] = {FOLDER: dict(sizes=(256, 512, 1024, 2048), seeds=5)}
QUICK: Settings = dict(sizes=(64, 128), seeds=2)

DIMENSION, EXAMPLES, KERNEL = 5, 64, kernels.Gaussian(1.0)
CASP_INPUTS = 9
TIME, MEMORY = 2.2, (1.9, 2.1)  # exponents that count as at most 2, and as 2


@struct.dataclass
class Waves:
    """Random Fourier features, as any features of m numbers."""

    frequencies: fourier.Fourier

    def features(self, x: Any) -> Any:
        return fourier.features(self.frequencies, x)


def make_forecaster(name: str, m: int) -> Any:
    """A forecaster with m features, or with a capacity of m points or examples."""
    if name == "pkawv":
        rule = fourier.RandomFourier(m // 2)
        return online.PKAWV(Waves(rule.draw(KERNEL, DIMENSION, jax.random.key(0), float)))
    if name == "nystrom":
        return online.NystromAWV(KERNEL, sampling=Sampling(), capacity=m, memory=m)
    if name == "pros_n_kons":
        return online.ProsNKONS(KERNEL, bound=1.0, sampling=Sampling(), capacity=m)
    return online.KernelAWV(KERNEL, capacity=m)


def measure(name: str, m: int, repeats: int) -> tuple[np.ndarray, int]:
    """(CPU seconds of an example [repeats], bytes of the state)."""
    forecaster, key = make_forecaster(name, m), jax.random.key(0)
    rng = np.random.default_rng(0)
    xs = jnp.asarray(rng.uniform(-1, 1, (EXAMPLES, DIMENSION)))
    ys = jnp.asarray(rng.choice([-1.0, 1.0], EXAMPLES))
    state = forecaster.init(xs[0], key)
    learn = jax.jit(lambda state: loops.streams.stream(forecaster, state, xs, ys, key).state)
    jax.block_until_ready(learn(state))  # compiles
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        jax.block_until_ready(learn(state))
        seconds.append((time.process_time() - start) / EXAMPLES)
    return np.array(seconds), sum(leaf.nbytes for leaf in jax.tree.leaves(state))


def run(folder: Path, settings: Settings, options: Options) -> None:
    sizes, repeats = settings["sizes"], settings["seeds"]
    config = settings | dict(inputs=DIMENSION, examples=EXAMPLES)
    with options.results(folder, "pkawv_2019.table1_costs", config, repeats) as results:
        runs: list[tidy.Run] = []
        for name in METHODS:
            rows = [measure(name, m, repeats) for m in sizes]
            memory = np.array([size for _, size in rows], float)
            curves = [
                dict(t=np.array(sizes), cpu_seconds=seconds, bytes=memory)
                for seconds in np.array([seconds for seconds, _ in rows]).T
            ]
            runs += tidy.runs_of(dict(problem="costs", algorithm=name), curves)
            print(f"{name}: {curves[0]}", flush=True)
        results.write(dict(config=config, data="generated"), runs, "cost of an example")


def draw(folder: Path) -> None:
    for metric, words in dict(cpu_seconds="CPU seconds", bytes="bytes of the state").items():
        curves, title = common.curves(folder, metric), f"{words} of an example"
        path, count = folder / f"{metric}.png", "features, points or examples $m$"
        plots.streams(path, curves, title, words, count, log=True)


def powers(root: Path, metric: str) -> dict[str, Interval]:
    """{method: the power of m with which the mean of a metric grows over all sizes}, with the
    interval of the fit: repetitions in one process do not show that there is no such power."""
    found = {}
    for name, (sizes, values) in common.curves(root / FOLDER, metric).items():
        fit = stats.linregress(np.log(sizes), np.log(values.mean(0)))
        half = common.student(len(sizes) - 1) * fit.stderr if len(sizes) > 2 else np.nan
        found[name] = (float(fit.slope), float(half))
    return found


def time_of_an_example(root: Path) -> Verdict:
    """The operations n m + m^2 of an example that Appendix H counts for PKAWV with KORS are at most
    twice m^2 after casp, and the power of m of the CPU time lies below TIME for every method. The
    claim differs if the operations are more; seconds of four sizes refute no count."""
    found = powers(root, "cpu_seconds")
    n, m = size_after_casp(root)
    is_fast = common.all_above([(TIME - power, half) for power, half in found.values()], 0) is True
    text = f"PKAWV with KORS on casp (n = {n:,}, m = {m}): {1 + n / m:,.0f} m^2 operations;"
    text += f" powers of m: {common.listed(found, 2)}"
    return common.verdict(common.decision(n > m, is_fast), text)


def size_after_casp(root: Path) -> tuple[int, int]:
    """(n, m): the examples of casp and the points of PKAWV with KORS after them."""
    t, sizes = common.curve(root / "pkawv_2019/casp", "size", "nystrom")
    return int(t[-1]), int(sizes[:, -1].max())


def memory_of_the_state(root: Path) -> Verdict:
    """The power of m of the bytes lies within MEMORY for PKAWV and Kernel-AWV, and after casp the
    arrays of PKAWV with KORS that hold examples have at most as many bytes as those of its points.
    The power alone cannot fail there, because the runs store as many examples as points. Algorithm
    2 of the paper keeps rows of K_t in their place, whose bytes are in the text."""
    found = {name: power for name, (power, _) in powers(root, "bytes").items()}
    judged = [power for name, power in found.items() if name != "pros_n_kons"]
    powers_hold = all(MEMORY[0] <= power <= MEMORY[1] for power in judged)
    examples, points, text = memory_after_casp(root)
    text = f"powers of m: {common.listed(found, 2)}; {text}"
    return common.verdict(powers_hold and examples <= points, text)


def memory_after_casp(root: Path) -> tuple[int, int, str]:
    """(the bytes of the examples that PKAWV with KORS stores for casp, those of the rest of its
    state with a capacity of the m points of this run, both in words)."""
    n, m = size_after_casp(root)
    forecaster = online.NystromAWV(KERNEL, sampling=Sampling(), capacity=m, memory=n)
    state = forecaster.init(jnp.zeros(CASP_INPUTS), jax.random.key(0))
    examples = state.inputs.nbytes + state.labels.nbytes
    points = sum(leaf.nbytes for leaf in jax.tree.leaves(state)) - examples
    text = f"PKAWV with KORS on casp (n = {n:,}, m = {m}): examples {examples / 1e6:.2f} MB,"
    text += f" the rest of the state {points / 1e6:.2f} MB, K_t {8 * n * m / 1e6:.1f} MB"
    return examples, points, text


CHECKS = (time_of_an_example, memory_of_the_state)

if __name__ == "__main__":
    common.main(__file__)

"""What rounds, picks and evaluations of the algorithms do, counted from their code.

Counts and no seconds: `Machine` knows how long an operation takes. Products, kernel values and reads of matrices are
counted; the numbers of passes over vectors and of loop steps are rough. They matter for small sketches only, and were set
on the benchmarks (results/bench.json).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jsketch.bandits import BBKB, BKB, GPBUCB, GPUCB, EpsGreedy, FixedBKB, Uniform
from jsketch.bandits.core.sketched import PULLED_ROWS
from jsketch.factor import BLOCK
from jsketch.linalg import UPPER_BLOCKS, UPPER_FROM
from jsketch.loops.arms.advance import next_capacity
from jsketch.planning.machine import Machine

LOOKS = 2.0  # arms whose score is refreshed for a pick of a lazy batch, where no pilot says (THEORY 5.7)
PIVOT = 10  # steps that a pivot of a factorization is worth
ROUND = 300  # that a round is, whatever it does
PICK = 60
LOCAL = 3  # looks at the local bounds in a batch
LOOK = 20  # that a refreshed score is; of a pick's, two are counted
EVALUATION = 100
COMPILE = {BBKB: 1.0, BKB: 0.85, FixedBKB: 1.0, GPUCB: 0.5, EpsGreedy: 0.5, GPBUCB: 0.6, Uniform: 0.2}


class Work(NamedTuple):
    """Operations of each kind."""

    products: float = 0.0  # flops of matrix products
    entries: float = 0.0  # kernel values
    reads: float = 0.0  # entries of matrices that meet a vector: products with it, and outer products added
    matrix: float = 1.0  # entries of such a matrix
    scanned: float = 0.0  # entries of vectors that are searched, drawn or summed up
    steps: float = 0.0  # of small loops

    def times(self, count: float) -> Work:
        return Work(*(x * count for x in self))._replace(matrix=self.matrix)

    def seconds(self, machine: Machine, entry: float, itemsize: int) -> float:
        """On a machine where a kernel value takes `entry` seconds."""
        return (
            self.products / machine.products
            + self.entries * entry
            + self.reads * itemsize / machine.bandwidth(self.matrix * itemsize)
            + self.scanned * machine.scan
            + self.steps * machine.step
        )


def refresh(arms: int, capacity: int, dictionary: float, distinct: float) -> Work:
    """Resampling and the posterior of all arms (`bandits.sketched.apply_feedback`)."""
    a, m, pivots = float(arms), float(capacity), min(dictionary, capacity)
    part = (UPPER_BLOCKS + 1) / (2 * UPPER_BLOCKS) if m >= UPPER_FROM else 1.0
    pulled = min(PULLED_ROWS, a) * -(-distinct // PULLED_ROWS)
    return Work(
        # of all arms: features and whitening; of the pulled: features and Gram matrix; two factorizations by halves
        products=4 * part * a * m**2 + 2 * (part + 1) * pulled * m**2 + (4 * m + 2 * pivots) * m**2,
        entries=m**2 + (a + pulled) * m,
        reads=BLOCK * pivots * m,
        matrix=BLOCK * m,
        scanned=8 * a + 0.4 * a * m,
        steps=PIVOT * pivots + m + BLOCK + ROUND,
    )


def lazy_pick(arms: int, capacity: int, looks: float, rows: int = 0) -> Work:
    """A pick by refreshing the top arm until it stays on top, after some looks; `rows` hallucinated pulls are those of
    FixedBKB."""
    a, m = float(arms), float(capacity)
    reads = looks * 2 * m**2 + 2 * m**2  # map and precision; the precision changes
    if rows:
        reads = (looks + 1) * (2 * m**2 + 2 * m * rows + rows**2)
    steps = PICK + LOOK * (looks - LOOKS)
    return Work(entries=looks * (m + rows), reads=reads, matrix=m**2, scanned=0.85 * looks * a, steps=steps)


def swept_pick(arms: int, capacity: int) -> Work:
    """A pick of BBKB with `lazy=False`: a product with the features of all arms."""
    a, m = float(arms), float(capacity)
    return Work(reads=a * m + 3 * m**2, matrix=a * m, scanned=2 * a, steps=PICK)


def local_bounds(arms: int, capacity: int) -> Work:
    """A look at the local bounds of most arms, embedded anew in chunks (`bandits.batches`)."""
    a, m = float(arms), float(capacity)
    return Work(products=4 * a * m**2, entries=a * m, scanned=2 * a, steps=ROUND)


def observation(arms: int, capacity: int) -> Work:
    """An observation of an exact posterior (`posterior.exact.observe`)."""
    a, n = float(arms), float(capacity)
    return Work(entries=a, reads=a * n + 3 * n**2, matrix=a * n, scanned=a, steps=PICK)


def work(
    bandit: Any,
    arms: int,
    evaluations: float,
    rounds: float,
    looks: float,
    distinct: float,
    dictionary: float,
) -> dict[str, Work]:
    """Some evaluations in some rounds with some looks in all, by what they go into, at a number of distinct arms and a
    dictionary size."""
    bookkeeping = {"bookkeeping": Work(steps=EVALUATION).times(evaluations)}
    if isinstance(bandit, Uniform):
        return bookkeeping
    if isinstance(bandit, GPUCB | EpsGreedy | GPBUCB):
        n = fitting(bandit, distinct, arms)
        posterior = observation(arms, n).times(evaluations)
        if not isinstance(bandit, GPBUCB):
            return {"posterior": posterior} | bookkeeping
        room = n + bandit.new_arms
        copies = Work(reads=2.0 * arms * room, matrix=float(arms * room), steps=ROUND)
        return {
            "picks": observation(arms, room).times(evaluations),
            "posterior": posterior,
            "copies": copies.times(rounds),
        } | bookkeeping
    m = fitting(bandit, dictionary, arms)
    parts = {"refreshes": refresh(arms, m, dictionary, distinct).times(rounds)}
    if isinstance(bandit, BBKB):
        pick = lazy_pick(arms, m, looks / evaluations) if bandit.lazy else swept_pick(arms, m)
        parts["picks"] = pick.times(evaluations)
        if bandit.rule == "global_local":
            parts["local bounds"] = local_bounds(arms, m).times(LOCAL * rounds)
    if isinstance(bandit, FixedBKB):
        rows = bandit.batch + bandit.max_pending
        parts["picks"] = lazy_pick(arms, m, looks / evaluations, rows).times(evaluations)
    return parts | bookkeeping


def capacities(bandit: Any, size: float, arms: int) -> tuple[int, ...]:
    """The capacities that a run goes through to hold that many inducing points or distinct arms."""
    if not hasattr(bandit, "capacity"):
        return ()
    found = [int(bandit.capacity)]
    while found[-1] < min(size, arms):
        found.append(next_capacity(found[-1], arms))
    return tuple(found)


def fitting(bandit: Any, size: float, arms: int) -> int:
    return capacities(bandit, size, arms)[-1]


def compile_seconds(bandit: Any, sizes: tuple[int, ...]) -> float:
    """Of a program for each capacity, as measured on 2 cores (results/bench.json); rough."""
    factor = COMPILE[type(bandit)] * (1.3 if getattr(bandit, "rule", "") == "global_local" else 1.0)
    return factor * sum(2.0 + 0.0045 * size for size in sizes or (0,))

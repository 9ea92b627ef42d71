"""A pilot run: upper confidence bounds on the exact posterior, in NumPy and in large strides, to
see how data, sketch and rounds grow.

The time of a run goes with the number of rounds and with the dictionary size, and both depend on
the rewards as much as on the kernel. The pilot reads hyperparameters by their names in the
algorithms of the papers, where a bandit has them (width, ratio, rule, qbar, epsilon, scale), and
takes noisy rewards of the problem. It reads its data again only when there is an eighth more of
them, at a pool of arms that is drawn anew each time, and late in a run one decision stands for
several evaluations. What the algorithm itself makes of such data is measured (`planning.timing`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import blas, solve_triangular

from jsketch.bandits.core.widths import Evidence, assumptions
from jsketch.types import Arms

# arms whose posterior is read: those pulled, the best of the last pool, and random ones
POOL = 1_024
STRETCH = 0.125  # evaluations between two readings, as a part of those made
DECISIONS = 64  # different ones in a stretch
CANDIDATES = 128  # arms of the pool among which they are made: those with the largest scores
COLUMNS = 256  # of a kernel matrix that is computed in one call
WORK = 4e10  # flops after which the pilot stops; the rest of the run is extrapolated in log(t)
BUMPS = 12  # arms whose kernel functions make up the reward, where no problem is given


_gram = jax.jit(lambda kernel, x, y: kernel.gram(x, y))


class Path(NamedTuple):
    """A run as the pilot saw it, [P] each, at growing numbers of evaluations up to the horizon."""

    t: np.ndarray
    rounds: np.ndarray  # of adaptive batches
    distinct: np.ndarray  # arms pulled
    # expected size of a sampled dictionary, sum_i min(1, qbar n_i sigma^2(x_i))
    dictionary: np.ndarray
    simulated: int  # evaluations of the pilot; the points after it are extrapolated
    arms: np.ndarray  # [simulated], pulled one after the other
    rewards: np.ndarray  # [simulated]


class _Pool(NamedTuple):
    """The posterior at the arms of a pool."""

    arms: np.ndarray  # [P], the pulled ones and the best of the last pool first
    half: np.ndarray  # [P, u]; the posterior covariance is K - half half^T, over lam
    mean: np.ndarray  # [P]
    variance: np.ndarray  # [P], leverage units
    logdet: float


class _Pilot:
    """The state of the pilot; A arms."""

    def __init__(
        self, bandit: Any, features: Any, reward: np.ndarray | None, noise_std: float, seed: int
    ):
        self.bandit, self.features, self.noise_std = bandit, np.asarray(features), noise_std
        self.random = np.random.default_rng(seed)
        self.lam, self.ratio = float(bandit.regularization), float(getattr(bandit, "ratio", 1.0))
        self.rule = getattr(bandit, "rule", "")
        self.diagonal = np.asarray(bandit.kernel.diag(jnp.asarray(features)), float)  # [A]
        self.reward = self._imagined() if reward is None else reward  # [A], expected
        self.variance = self.diagonal / self.lam  # [A], as it was read last
        self.frozen = self.variance.copy()  # [A], at the start of the round
        self.local = np.ones_like(self.variance)  # [A], the local bound (BBKB Lemma 3)
        self.counts, self.sums = np.zeros_like(self.variance), np.zeros_like(self.variance)
        # sum of log(1 + variance), and with 3 variances
        self.information = np.zeros(2)
        self.bound, self.rounds = 1.0, 0
        # (arm, evaluations of it, their average)
        self.log: list[tuple[int, int, float]] = []

    def covariances(self, arms: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Kernel values [P, n] of the arms of a pool with n others; a call of one shape for every
        COLUMNS of them."""
        x = self.features[arms]
        blocks = [
            np.resize(others[i : i + COLUMNS], COLUMNS) for i in range(0, len(others), COLUMNS)
        ]
        columns = [
            np.asarray(_gram(self.bandit.kernel, x, self.features[b]), float) for b in blocks
        ]
        return np.concatenate([np.zeros((len(arms), 0)), *columns], axis=1)[:, : len(others)]

    def _imagined(self) -> np.ndarray:
        """A random function with the norm that the bandit assumes."""
        bumps = self.features[self.random.permutation(len(self.features))[:BUMPS]]
        heights = self.random.standard_normal(len(bumps))
        square = heights @ np.asarray(_gram(self.bandit.kernel, bumps, bumps), float) @ heights
        values = np.asarray(_gram(self.bandit.kernel, self.features, bumps), float) @ heights
        return values * float(getattr(self.bandit, "norm_bound", 1.0)) / np.sqrt(square)

    def read(self, best: np.ndarray) -> _Pool:
        """The posterior at the pulled arms, the best of the last pool, and random arms."""
        pulled, size = np.flatnonzero(self.counts), len(self.counts)
        first = np.concatenate([pulled, best[self.counts[best] == 0]])
        # more of them in steps, so that few shapes are compiled
        count = min(size, POOL * (1 + len(first) // POOL))
        rest = (
            self.random.permutation(size)
            if size < 4 * count
            else self.random.integers(size, size=count)
        )
        rest = rest[~np.isin(rest, first)][: count - len(first)]
        arms = np.resize(np.concatenate([first, rest]), count)
        prior, noise = self.covariances(arms, pulled), self.lam / self.counts[pulled]
        root = np.linalg.cholesky(prior[: len(pulled)] + np.diag(noise))
        half = blas.dtrsm(1.0, root, prior, side=1, lower=1, trans_a=1)
        averages = self.sums[pulled] / self.counts[pulled]
        weights = solve_triangular(root, averages, lower=True, check_finite=False)
        variance = np.maximum(self.diagonal[arms] - np.einsum("pu,pu->p", half, half), 0) / self.lam
        logdet = 2 * np.log(root.diagonal()).sum() - np.log(noise).sum()
        return _Pool(arms, half, half @ weights, variance, float(logdet))

    def width(self, pool: _Pool) -> float:
        """The confidence width of the bandit; 0 of one without."""
        names = ("regularization", "noise_std", "norm_bound", "delta")
        if not callable(getattr(self.bandit, "width", None)) or not all(
            hasattr(self.bandit, n) for n in names
        ):
            return 0.0
        # GP-BUCB takes the ratio out of its width
        product = self.rule in ("product", "sum")
        assumed = jax.tree.map(float, assumptions(self.bandit, 1.0 if product else self.ratio))
        variance_sum = self.counts @ self.variance
        information, information_sketched = self.information
        numbers = dict(
            count=self.counts.sum(),
            information=information,
            information_sketched=information_sketched,
            variance_sum=variance_sum,
            logdet=pool.logdet,
            residual_sum=0.0,
            prior_variance=self.diagonal.max(),
        )
        evidence = Evidence(
            **{name: jnp.asarray(float(number)) for name, number in numbers.items()}
        )
        width = float(self.bandit.width(evidence, assumed)) * float(
            getattr(self.bandit, "scale", 1.0)
        )
        return width * (self.ratio**0.5 if product else 1.0)

    def stretch(self, pool: _Pool, scores: np.ndarray, width: float, length: int) -> int:
        """Makes up to `length` evaluations with frozen means, at least one; how many were made."""
        order = (
            np.argsort(-scores)[:CANDIDATES]
            if self.counts.any()
            else self.random.integers(len(scores), size=1)
        )
        arms, mean, half = pool.arms[order], pool.mean[order], pool.half[order]
        floor = scores[order[-1]] if len(order) > 1 and len(order) < len(self.counts) else -np.inf
        now = (self.covariances(pool.arms, arms)[order] - half @ half.T) / self.lam
        start = now.copy()
        times, made = -(-length // DECISIONS), 0
        explore = float(getattr(self.bandit, "epsilon", 0.0))
        while made < length:
            upper = mean + width * np.sqrt(np.maximum(now.diagonal(), 0))
            i, count = int(np.argmax(upper)), min(times, length - made)
            # at first only by rounding, among arms that tie
            if made and upper[i] < floor:
                # an arm that is no candidate is the best now
                break
            made += count
            if self.random.uniform() < explore:
                self.evaluate(int(self.random.integers(len(self.counts))), count)
                continue
            self.evaluate(int(arms[i]), count)
            if self.ends(arms, i, count, now, start):
                self.rounds, self.bound, start = self.rounds + 1, 1.0, now.copy()
                self.frozen[arms] = np.maximum(now.diagonal(), 0)
                self.local[:] = 1
            row = now[i].copy()
            now -= np.outer(row, row * (count / (1 + count * max(row[i], 0))))
        return made

    def ends(
        self, arms: np.ndarray, i: int, count: int, now: np.ndarray, start: np.ndarray
    ) -> bool:
        """Whether `count` pulls of the i-th of some arms end the round; their covariances now and
        at its start, [n, n]."""
        spent = self.frozen[arms[i]]
        self.information += count * np.log1p([spent, 3 * spent])
        if self.rule == "product":
            self.bound *= (1 + max(now[i, i], 0)) ** count
        elif self.rule == "global_local":
            self.local[arms] += count * np.square(start[i]) / np.maximum(self.frozen[arms], 1e-300)
            self.bound = float(self.local[arms].max())
        else:
            self.bound += count * spent
        return self.bound > self.ratio

    def evaluate(self, arm: int, count: int) -> None:
        """`count` noisy rewards of an arm."""
        self.counts[arm] += count
        noise = self.noise_std * count**0.5 * self.random.standard_normal()
        total = count * self.reward[arm] + noise
        self.sums[arm] += total
        self.log.append((arm, count, total / count))


def run(
    bandit: Any, domain: Arms, mean_reward: Any, noise_std: float, horizon: int, seed: int = 0
) -> Path:
    """The pilot of a bandit with a kernel and a regularization, over arms with mean rewards [A];
    for None, of a random function with its assumed norm."""
    reward = None if mean_reward is None else np.asarray(mean_reward, float)
    pilot = _Pilot(bandit, domain.features, reward, noise_std, seed)
    qbar, batch = float(getattr(bandit, "qbar", 1.0)), int(getattr(bandit, "batch", 1))
    points, t, work, length = [], 0, 0.0, 1
    best = np.zeros(0, int)
    while True:
        pool = pilot.read(best)
        pulled = pilot.counts > 0
        before = pilot.variance[pulled]
        pilot.variance[pool.arms] = pool.variance
        if t:
            # a dictionary is drawn with the variances before the pulls of its round
            variance = before if length == 1 else pilot.variance[pulled]
            points.append(
                (
                    t,
                    pilot.rounds,
                    pulled.sum(),
                    np.minimum(1, qbar * pilot.counts[pulled] * variance).sum(),
                )
            )
        work += 2.0 * len(pool.arms) * pulled.sum() ** 2
        if t >= horizon or work > WORK:
            return _extended(np.array(points, float).T, horizon, pilot.log)
        width = pilot.width(pool)
        scores = pool.mean + width * np.sqrt(pool.variance)
        best = pool.arms[np.argsort(-scores)[:CANDIDATES]]
        length = min(max(int(STRETCH * t), batch, 1), horizon - t)
        rounds = pilot.rounds
        t += pilot.stretch(pool, scores, width, length)
        if pilot.rounds > rounds:
            # the current round started in this stretch: its variances are those that are read next,
            # nearly
            pilot.frozen[pool.arms] = np.minimum(pilot.frozen[pool.arms], pool.variance)


def _extended(columns: np.ndarray, horizon: int, log: list[tuple[int, int, float]]) -> Path:
    """The path of the pilot, linear in log(t) as in its last third, up to the horizon."""
    simulated = int(columns[0, -1])
    if simulated < horizon:
        log_t = np.log(columns[0])
        late = np.flatnonzero(columns[0] >= 0.7 * simulated)
        more = np.geomspace(simulated, horizon, 12)[1:]
        slopes = np.diff(columns[1:, late[[0, -1]]], axis=1) / (log_t[-1] - log_t[late[0]])
        rest = columns[1:, -1:] + slopes * np.log(more / simulated)
        columns = np.concatenate([columns, np.vstack([more, rest])], axis=1)
    arms, counts, rewards = (np.array(column) for column in zip(*log, strict=True))
    t, rounds, distinct, dictionary = columns
    pulled, met = np.repeat(arms, counts), np.repeat(rewards, counts)
    return Path(t, rounds, distinct, dictionary, simulated, pulled, met)


def with_batches(path: Path | None, size: float, horizon: int) -> Path:
    """A path with batches of that size; where there was no pilot, those are all there is."""
    if path is None:
        end, nothing = np.array([float(horizon)]), np.zeros(0)
        path = Path(end, end, end, end, 0, nothing, nothing)
    return path._replace(rounds=np.ceil(path.t / size))

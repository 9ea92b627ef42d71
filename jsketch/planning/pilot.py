"""A pilot run: the algorithm on the exact posterior of some of the arms, in NumPy, to see how its sketch and its rounds grow.

What it is for: the time of a run goes with the number of rounds and with the square of the dictionary size, and both depend
on the rewards as much as on the kernel. The pilot chooses as the algorithm does (its width, its rule for the end of a batch,
noisy rewards of the problem) but looks at its data again only after every tenth of the evaluations, and in long stretches
pulls an arm several times at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from jsketch.bandits.widths import Confidence, Evidence
from jsketch.types import Arms

ARMS = 2_048  # arms of the pilot, drawn uniformly
STRETCH = 0.1  # evaluations between two looks at the data, as a part of those made
PICKS = 64  # different decisions in a stretch
CANDIDATES = 128  # arms among which they are made: those with the largest scores
WORK = 4e10  # flops after which the pilot stops; the rest of the run is extrapolated in log(t)
BUMPS = 12  # arms whose kernel functions make up the reward, where no problem is given


class Path(NamedTuple):
    """A run as the pilot saw it, [P] each, at growing numbers of evaluations up to the horizon."""

    t: np.ndarray
    rounds: np.ndarray
    distinct: np.ndarray  # arms pulled
    dictionary: np.ndarray  # expected size of a sampled dictionary, sum_i min(1, qbar n_i sigma^2(x_i))
    simulated: int  # evaluations of the pilot; the points after it are extrapolated


class _Belief(NamedTuple):
    half: np.ndarray  # [u, A]; the posterior covariance is K - half^T half, over lam
    mean: np.ndarray  # [A]
    variance: np.ndarray  # [A], leverage units
    logdet: float


class _Rounds:
    """Counts the rounds of an adaptive batch rule; variances frozen at the start of a round."""

    def __init__(self, bandit: Any, prior: np.ndarray):
        self.limit = float(getattr(bandit, "ratio", 1.0))
        self.rule = getattr(bandit, "rule", "none")
        self.count, self.bound = 0, np.ones_like(prior)
        self.frozen = prior.copy()

    def pull(self, arms: np.ndarray, i: int, times: int, covariance: np.ndarray, start: np.ndarray) -> None:
        """`times` pulls of the i-th of some arms; their covariance now, and at the start of the round."""
        if self.rule == "product":
            self.bound *= (1 + covariance[i, i]) ** times
        elif self.rule == "global_local":
            self.bound[arms] += times * np.square(start[i]) / np.maximum(self.frozen[arms], 1e-300)
        else:
            self.bound += times * self.frozen[arms[i]]

    def ended(self, arms: np.ndarray) -> bool:
        return bool(self.bound[arms].max() > self.limit)

    def begin(self, arms: np.ndarray, variance: np.ndarray) -> None:
        self.count += 1
        self.bound[:] = 1
        self.frozen[arms] = variance


def _believe(gram: np.ndarray, counts: np.ndarray, sums: np.ndarray, lam: float) -> _Belief:
    pulled = np.flatnonzero(counts)
    rows, noise = gram[pulled], lam / counts[pulled]
    root = np.linalg.cholesky(rows[:, pulled] + np.diag(noise))
    half = solve_triangular(root, rows, lower=True, check_finite=False)
    averages = solve_triangular(root, sums[pulled] / counts[pulled], lower=True, check_finite=False)
    variance = np.maximum(gram.diagonal() - np.einsum("ua,ua->a", half, half), 0) / lam
    logdet = 2 * np.log(root.diagonal()).sum() - np.log(noise).sum()
    return _Belief(half, averages @ half, variance, float(logdet))


def _width(bandit: Any, belief: _Belief, counts: np.ndarray, information: np.ndarray, prior: float) -> float:
    if not hasattr(bandit, "width"):
        return 0.0
    product = getattr(bandit, "rule", "") in ("product", "sum")  # GP-BUCB takes the factor out of its width
    ratio = float(getattr(bandit, "ratio", 1.0))
    assumed = Confidence(
        float(bandit.regularization),
        float(bandit.noise_std),
        float(bandit.norm_bound),
        float(bandit.delta),
        1.0 if product else ratio,
    )
    known = (counts.sum(), *information, counts @ belief.variance, belief.logdet, 0.0, prior)
    width = float(bandit.width(Evidence(*(jnp.asarray(float(x)) for x in known)), assumed))
    return width * (ratio**0.5 if product else 1.0)


def run(bandit: Any, domain: Arms, mean_reward: Any, noise_std: float, horizon: int, seed: int = 0) -> Path:
    """The pilot of a bandit over arms with mean rewards [A] (None: a random function with the norm that the bandit
    assumes)."""
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(domain.count)[:ARMS])
    x = jnp.asarray(domain.features)[chosen]
    gram = np.asarray(jax.jit(lambda kernel, x: kernel.gram(x, x))(bandit.kernel, x), float)
    if mean_reward is None:
        bumps = random.permutation(len(gram))[:BUMPS]
        heights = random.standard_normal(len(bumps))
        reward = gram[:, bumps] @ heights / np.sqrt(heights @ gram[np.ix_(bumps, bumps)] @ heights)
        reward = reward * float(getattr(bandit, "norm_bound", 1.0))
    else:
        reward = np.asarray(mean_reward, float)[chosen]
    return _simulate(bandit, gram, reward, noise_std, horizon, random)


def _simulate(
    bandit: Any,
    gram: np.ndarray,
    reward: np.ndarray,
    noise_std: float,
    horizon: int,
    random: np.random.Generator,
) -> Path:
    lam, epsilon = float(bandit.regularization), float(getattr(bandit, "epsilon", 0.0))
    qbar, plate = float(getattr(bandit, "qbar", 1.0)), int(getattr(bandit, "batch", 1))
    size, prior = len(gram), gram.diagonal() / lam
    counts, sums = np.zeros(size), np.zeros(size)
    belief = _Belief(np.zeros((0, size)), np.zeros(size), prior, 0.0)
    rounds, information, points = _Rounds(bandit, prior), np.zeros(2), []
    t, work, new_round = 0, 0.0, True
    while t < horizon and work < WORK:
        width = _width(bandit, belief, counts, information, float(gram.diagonal().max()))
        scores = belief.mean + width * np.sqrt(belief.variance)
        arms = np.argsort(-scores)[:CANDIDATES] if t else random.permutation(size)[:1]
        floor = scores[arms[-1]] if len(arms) < size else -np.inf
        half = belief.half[:, arms]
        covariance = (gram[np.ix_(arms, arms)] - half.T @ half) / lam
        start = covariance.copy()
        if new_round:
            rounds.frozen[:] = belief.variance
        stretch = min(max(int(STRETCH * t), plate, 1), horizon - t)
        times, new_round, made = -(-stretch // PICKS), False, 0
        while made < stretch:
            now = min(times, stretch - made)
            upper = belief.mean[arms] + width * np.sqrt(np.maximum(covariance.diagonal(), 0))
            i = int(np.argmax(upper))
            if random.uniform() < epsilon and t:
                arm = int(random.integers(size))
            elif upper[i] < floor:
                break  # another arm is above all candidates now
            else:
                arm = int(arms[i])
                rounds.pull(arms, i, now, covariance, start)
                variance = rounds.frozen[arm]
                information += now * np.log1p([variance, 3 * variance])
                row = covariance[i].copy()
                covariance -= np.outer(row, row * (now / (1 + now * max(row[i], 0))))
                if rounds.ended(arms):
                    new_round, start = True, covariance.copy()
                    rounds.begin(arms, np.maximum(covariance.diagonal(), 0))
            counts[arm] += now
            sums[arm] += now * reward[arm] + noise_std * now**0.5 * random.standard_normal()
            made += now
        t += made
        before = belief.variance
        belief = _believe(gram, counts, sums, lam)
        distinct = np.count_nonzero(counts)
        work += 2.0 * size * distinct**2
        # the variances with which a dictionary is drawn are those before the pulls of its round
        expected = np.minimum(1, qbar * counts * (before if stretch == 1 else belief.variance)).sum()
        points.append((t, rounds.count, distinct, expected))
    columns = np.array(points, float).T
    return _extended(columns, horizon)


def _extended(columns: np.ndarray, horizon: int) -> Path:
    """The path of the pilot, linear in log(t) from its second half to the horizon."""
    simulated = int(columns[0, -1])
    if simulated < horizon:
        log_t = np.log(columns[0])
        late = columns[0] >= simulated / 2
        more = np.geomspace(simulated, horizon, 12)[1:]
        rest = [more]
        for column in columns[1:]:
            slope = (column[late][-1] - column[late][0]) / (log_t[late][-1] - log_t[late][0])
            rest.append(column[-1] + slope * np.log(more / simulated))
        columns = np.concatenate([columns, rest], axis=1)
    return Path(*columns, simulated=simulated)

"""BKB, Theorems 3.1 and 4.1 and Corollary 4.2, measured: dictionaries, their accuracy, and regret.

With probability 1 - delta the theorems promise variances within a factor alpha = 3 of the exact
ones, |S_t| <= 3 (1 + kappa^2 / lambda) alpha q_bar d_eff, operators within alpha of each other, and
the regret of GP-UCB up to alpha and a logarithm. They assume q_bar >= 72 log(4T / delta), 713 here,
with which dictionaries of this size hold every pulled arm and BKB is GP-UCB. The runs have less,
which is a stronger condition: q_bar = 1, 2 (BBKB's experiments) and 10.

`bkb_kept_2` draws no fresh dictionary: it keeps an inducing point with probability p_{t+1} / p_t.
The paper leaves open whether it is accurate (Section 3.2). One uniform number for each arm, the
same in all steps, decides with these probabilities while p decreases.

Each seed has its own function of norm 2 on 300 random arms of [0, 1]^2, with a Gaussian kernel of
lengthscale 0.3, lambda = 1, noise 0.5, delta = 0.1, T = 500, and the widths of Theorem 4.1 and
equation 7.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments import common
from experiments.common import Options, Settings, Verdict
from experiments.contrib import saving
from experiments.contrib.saving import Row
from jsketch import kernels, loops, problems, struct
from jsketch.bandits import BKB, GPUCB, Draw, Uniform, widths
from jsketch.core import dictionary
from jsketch.loops.rollouts import start
from jsketch.posterior import effective_dimension
from jsketch.types import PRNGKey

ARMS, KERNEL, LAM, NOISE_STD, NORM, DELTA = 300, kernels.Gaussian(0.3), 1.0, 0.5, 2.0, 0.1
STOPS = (10, 30, 100, 500)
ALPHA = 3.0  # (1 + eps) / (1 - eps) for eps = 1/2
QBAR = {"bkb_1": 1.0, "bkb_2": 2.0, "bkb_10": 10.0}
# dictionaries of small q_bar may be large for a step, after one that was too small
CAPACITY = {"gp_ucb": ARMS, "bkb_1": 192, "bkb_2": 192, "bkb_kept_2": 192, "bkb_10": ARMS}
SKETCHED = (*QBAR, "bkb_kept_2")
FOLDER = "bkb_2019/theorems"
THEOREMS: Settings = dict(problems=("functions of norm 2",), seeds=40, stops=STOPS)
THEOREMS |= dict(methods=("uniform", "gp_ucb", *SKETCHED))
RUNS: dict[str, Settings] = {FOLDER: THEOREMS}
QUICK: Settings = dict(seeds=2, stops=STOPS[:2])


@struct.dataclass
class KeptBKB(BKB):
    """BKB whose dictionaries are all drawn with the same uniform numbers, [A]."""

    uniforms: Any = None

    def resparsify(self, state: Any, key: PRNGKey) -> Array:
        variance = state.posterior.variance
        return self.uniforms < dictionary.probability(state.counts, variance, self.qbar)


def make(name: str, key: PRNGKey) -> Any:
    """The bandit of an algorithm."""
    if name == "uniform":
        return Uniform()
    model: dict[str, Any] = dict(kernel=KERNEL, regularization=LAM, noise_std=NOISE_STD)
    model |= dict(norm_bound=NORM, delta=DELTA, capacity=CAPACITY[name])
    if name == "gp_ucb":
        return GPUCB(**model, width=widths.gp_ucb_paper)
    model |= dict(width=widths.bkb_paper, dictionary=Draw())
    if name == "bkb_kept_2":
        return KeptBKB(**model, qbar=2.0, uniforms=jax.random.uniform(key, (ARMS,)))
    return BKB(**model, qbar=QBAR[name])


def play(name: str, stops: tuple[int, ...], seed: Array) -> dict[str, Array]:
    """A run: its problem, and counts, variances and dictionary [stops, A] after each stop."""
    x_key, f_key, run_key, uniform_key = jax.random.split(jax.random.key(seed), 4)
    x = jax.random.uniform(x_key, (ARMS, 2))
    problem = problems.rkhs_draw(f_key, KERNEL, x, NOISE_STD, norm=NORM)
    bandit, horizon = make(name, uniform_key), stops[-1]

    def until(progress: Any, stop: Array) -> Any:
        progress = loops.rollout(bandit, problem, run_key, horizon, progress, stop)
        if name not in SKETCHED:
            return progress, {}
        state = progress.state
        return progress, dict(
            counts=state.counts, variance=state.posterior.variance, inducing=state.inducing
        )

    first = start(bandit, problem, run_key, horizon)
    end, states = jax.lax.scan(until, first, jnp.array(stops, jnp.int32))
    return dict(x=x, regret=end.trace.regret, stopped=end.stopped, **states)


def accuracy(saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The numbers of Theorem 3.1 and Corollary 4.2 after each stop: the largest factor between
    sketched and exact variances, that between the operators A~ and A, sizes, and d_eff."""
    x = jnp.asarray(saved["x"])
    values, vectors = np.linalg.eigh(np.asarray(KERNEL.gram(x, x)))
    kept = values > 1e-12 * values.max()
    features = vectors[:, kept] * np.sqrt(values[kept])  # phi(x) of all arms, in coordinates
    identity, rows = LAM * np.eye(features.shape[1]), []
    for counts, variance, inducing in zip(
        saved["counts"], saved["variance"], saved["inducing"], strict=True
    ):
        data = features.T @ (counts[:, None] * features)
        inverse = np.linalg.inv(data + identity)
        exact = np.einsum("ij,jk,ik->i", features, inverse, features)
        basis = np.linalg.svd(features[inducing].T, full_matrices=False)[0]
        projected = basis @ (basis.T @ data @ basis) @ basis.T + identity
        root = np.linalg.cholesky(inverse)
        rows.append(
            dict(
                variance_factor=larger_factor(variance / exact),
                operator_factor=larger_factor(np.linalg.eigvalsh(root.T @ projected @ root)),
                dictionary=inducing.sum(),
                pulled=(counts > 0).sum(),
                d_eff=effective_dimension(KERNEL, x, LAM, counts),
            )
        )
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def larger_factor(ratios: np.ndarray) -> float:
    """The largest ratio or inverse ratio."""
    return float(np.maximum(ratios, 1 / ratios).max())


def runs(settings: Settings, _: str, name: str) -> list[dict[str, Any]]:
    """The arrays of an algorithm's runs, one dict for each seed. Raises ValueError if a capacity is
    too small."""
    stops, found = tuple(settings["stops"]), []
    program = jax.jit(partial(play, name, stops))
    for seed in range(settings["seeds"]):
        saved = {k: np.asarray(v) for k, v in program(jnp.int32(seed)).items()}
        if saved["stopped"].any():
            raise ValueError(f"a run of {name} ended early.")
        arrays = dict(t=np.array(stops), regret=saved["regret"].cumsum()[np.array(stops) - 1])
        found.append(arrays | (accuracy(saved) if name in SKETCHED else {}))
    return found


def run(folder: Path, settings: Settings, options: Options) -> None:
    title = f"Theorems of BKB, {settings['seeds']} functions"
    saving.run(folder, "bkb_2019.theorems", title, settings, options, runs)


ROWS = (
    Row("variance_factor", "factor of variances", log=True),
    Row("operator_factor", "factor of operators", log=True),
    Row("dictionary", "inducing points"),
    Row("regret", "regret"),
)


def draw(folder: Path) -> None:
    saving.draw_panels(folder, "theorems.png", ROWS, "evaluations $t$", height=1.9)


# --- the rules


def share(hits: Any) -> common.Interval:
    """The interval of the probability of an event, from whether it occurred in each run."""
    return common.probability_interval(int(np.sum(hits)), len(hits))


def largest_factors(root: Path, metric: str) -> Verdict:
    """The share of the runs with q_bar = 10 whose factor is at most ALPHA after all stops lies
    above 1 - DELTA."""
    shares = {}
    for name in SKETCHED:
        factors = common.curve(root / FOLDER, metric, name)[1].max(1)
        shares[name] = share(factors <= ALPHA)
    return common.verdict(common.all_above([shares["bkb_10"]], 1 - DELTA), common.listed(shares))


def accurate_variances(root: Path) -> Verdict:
    """`largest_factors` of variances at all arms."""
    return largest_factors(root, "variance_factor")


def accurate_operators(root: Path) -> Verdict:
    """`largest_factors` of the operators A~_t and A_t."""
    return largest_factors(root, "operator_factor")


def small_dictionary(root: Path) -> Verdict:
    """The share of the runs with |S_t| <= ALPHA q_bar d_eff after all stops, a sixth of the
    theorem's bound, lies above 1 - DELTA for each q_bar; with q_bar = 1 this bound is less than the
    number of pulled arms at T in all runs, so that it can fail. The claim differs if the share with
    the theorem's bound lies below 1 - DELTA."""
    small, allowed, texts = [], [], {}
    for name, qbar in QBAR.items():
        curves = (
            common.curve(root / FOLDER, k, name)[1] for k in ("dictionary", "d_eff", "pulled")
        )
        size, d_eff, pulled = curves
        bound = ALPHA * qbar * d_eff
        small.append(share(np.all(size <= bound, axis=1)))
        allowed.append(share(np.all(size <= 3 * (1 + 1 / LAM) * bound, axis=1)))
        texts[name] = f"|S_T| is {(size / (qbar * d_eff))[:, -1].mean():.2f} q_bar d_eff"
        if name == "bkb_1":
            can_fail = bool((bound[:, -1] < pulled[:, -1]).all())
    differs = common.all_above(allowed, 1 - DELTA) is False
    holds = can_fail and common.all_above(small, 1 - DELTA) is True
    text = f"{common.listed(texts)}; d_eff {d_eff[:, -1].mean():.1f} of {pulled[:, -1].mean():.0f}"
    return common.verdict(common.decision(differs, holds), f"{text} pulled arms")


def regret_at_end(root: Path, name: str) -> np.ndarray:
    return common.curve(root / FOLDER, "regret", name)[1][:, -1]


def regret_of_gp_ucb(root: Path) -> Verdict:
    """ALPHA times GP-UCB's R_T minus that of BKB with q_bar = 2, on the same seeds, lies above 0,
    and the same with uniform arms for BKB lies below 0, so that the rule can fail. The claim
    differs if 3 log(T) times GP-UCB's minus BKB's lies below 0."""
    gp_ucb, bkb, uniform = (regret_at_end(root, n) for n in ("gp_ucb", "bkb_2", "uniform"))
    t = common.curve(root / FOLDER, "regret", "bkb_2")[0][-1]
    gap = common.difference_interval(ALPHA * gp_ucb, bkb)
    widest = common.difference_interval(3 * np.log(t) * gp_ucb, bkb)
    can_fail = common.all_above([common.difference_interval(uniform, ALPHA * gp_ucb)], 0) is True
    holds = can_fail and common.all_above([gap], 0) is True
    differs = common.all_above([widest], 0) is False
    ratios = {name: regret_at_end(root, name) / gp_ucb for name in ("uniform", *SKETCHED)}
    text = common.listed({name: common.mean_interval(r) for name, r in ratios.items()}, 2)
    return common.verdict(common.decision(differs, holds), f"R_T over GP-UCB's: {text}")


CHECKS: tuple[Callable[[Path], Verdict], ...] = (
    *(accurate_variances, accurate_operators, small_dictionary, regret_of_gp_ucb),
)

if __name__ == "__main__":
    common.main(__file__)

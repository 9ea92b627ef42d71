"""The methods of BBKB's Figures 1, 2, 5 and 6: Table 1's lengthscales, the widths of the theorems
and of the authors' code, and how each is made from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jsketch import kernels, struct
from jsketch.bandits import BBKB, BKB, GPBUCB, GPUCB, TS, EpsGreedy, SketchedTS, Uniform
from jsketch.bandits import widths as formulas

Config = dict[str, Any]

WIDTHS = ("theory", "code")  # of the theorems, or of the authors' code
# Table 1 of the paper; eps_greedy and sketched_ts are not in it and take GP-UCB's and async-TS's
# (chosen)
LENGTHSCALES = {
    "abalone": dict(
        eps_greedy=5.0,
        gp_ucb=5.0,
        gp_bucb=12.5,
        gp_bucb_sqrt=12.5,
        ts=10.0,
        sketched_ts=10.0,
        bkb=17.5,
        bbkb_global=17.5,
        bbkb_global_local=17.5,
    ),
    "cadata": dict(
        eps_greedy=12.5,
        gp_ucb=12.5,
        gp_bucb=12.5,
        gp_bucb_sqrt=12.5,
        sketched_ts=10.0,
        bkb=12.5,
        bbkb_global=12.5,
        bbkb_global_local=12.5,
    ),
}
# evaluations after which the paper stops the slow methods: read off its poster for Cadata; exact
# Thompson sampling on Abalone is stopped there too (chosen)
STOPS = {
    "abalone": dict(ts=2_000),
    "cadata": dict(gp_ucb=2_000, gp_bucb=2_000, gp_bucb_sqrt=2_000, sketched_ts=2_000),
}


@struct.dataclass
class Times:
    """A width times a factor."""

    factor: float
    width: formulas.Formula

    def __call__(self, evidence: Any, confidence: formulas.Confidence) -> Any:
        return self.factor * self.width(evidence, confidence)


def width_of(name: str, c: Config) -> Any:
    """The width of an algorithm: of the theorems (BKB eq. 7 for exact posteriors and for batched
    Thompson sampling, BKB Theorem 4.1, BBKB Theorem 2), or of the authors' code.

    `GPBUCB` multiplies its width by sqrt(C); the paper's alpha = C beta is sqrt(C) times that.
    """
    theory = c["width"] == "theory"
    if name == "bkb":
        return formulas.bkb_paper if theory else formulas.bkb_code
    if name.startswith("bbkb"):
        return formulas.bbkb_paper if theory else formulas.bbkb_code
    if name == "sketched_ts" and not theory:
        return formulas.bkb_code
    exact = formulas.gp_ucb_paper if theory else formulas.gp_ucb_code
    return Times(c["ratio"] ** 0.5, exact) if name == "gp_bucb" and theory else exact


def _gp(c: Config) -> dict[str, Any]:
    return dict(kernel=kernels.Gaussian(c["lengthscale"]), regularization=c["regularization"])


def _optimistic(name: str, c: Config) -> dict[str, Any]:
    return dict(
        _gp(c),
        noise_std=c["noise_std"],
        norm_bound=c["norm_bound"],
        delta=c["delta"],
        width=width_of(name, c),
    )


def _gp_bucb(name: str, c: Config) -> GPBUCB:
    return GPBUCB(**_optimistic(name, c), ratio=c["ratio"], max_batch=max(10_000, c["horizon"]))


def _batched(c: Config, rule: str) -> BBKB:
    return BBKB(
        **_optimistic(f"bbkb_{rule}", c),
        qbar=c["qbar"],
        ratio=c["ratio"],
        rule=rule,
        max_batch=max(10_000, c["horizon"]),
    )


ALGORITHMS: dict[str, Callable[[Config], Any]] = {
    "uniform": lambda c: Uniform(),
    "gp_ucb": lambda c: GPUCB(**_optimistic("gp_ucb", c)),
    "gp_bucb": lambda c: _gp_bucb("gp_bucb", c),
    "gp_bucb_sqrt": lambda c: _gp_bucb("gp_bucb_sqrt", c),
    "ts": lambda c: TS(**_optimistic("ts", c)),
    "sketched_ts": lambda c: SketchedTS(**_optimistic("sketched_ts", c), qbar=c["qbar"]),
    "bkb": lambda c: BKB(**_optimistic("bkb", c), qbar=c["qbar"]),
    "bbkb_global": lambda c: _batched(c, "global"),
    "bbkb_global_local": lambda c: _batched(c, "global_local"),
    "eps_greedy": lambda c: EpsGreedy(**_gp(c), epsilon=c["epsilon"]),
}
